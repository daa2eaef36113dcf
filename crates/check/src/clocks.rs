//! What happens before what, over the queues of two cores: the order that the simulator's race check keeps, worked out
//! without running.
//!
//! A [`Stretch`] is what both cores execute once, in program order, without choices. It is carried through the same queues as in
//! the simulator (one in-order queue per engine, two for the transfers that an engine issues), started by the same edges, and
//! cut by the same meetings: a CoreBarrier is a full fence of both cores (decision D17), a block end joins the queues of its
//! core (D25), swaps, collectives and notifying transfers release each other, a completion token hands on the writes that it
//! stands for. Every access gets a vector clock; [`Order::before`] compares two of them exactly.
//!
//! When the queues come to a stop before the end, there is no order: the checks of meetings and of queues say why.

use crate::meet::{self, Kind};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use tandem_bir::analysis::edges::{ends_segment, never_met};
use tandem_bir::analysis::queue::{QUEUES, queue};
use tandem_bir::entity::SecondaryMap;
use tandem_bir::linked::is_remote_copy;
use tandem_bir::{Attr, CompactString, Inst, InstId, Module, Opcode, Operand};

/// Threads of a core.
const PER_CORE: usize = 3 * QUEUES;

/// Completed steps of every thread of both cores.
type Clock = [u32; 2 * PER_CORE];

fn join(into: &mut Clock, from: &Clock) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// What one core executes, cut at the ends of blocks.
pub(crate) type Stretch = Vec<Vec<InstId>>;

#[derive(Clone, Copy)]
struct Stamp {
    thread: u8,
    tick: u32,
    clock: u32,
}

/// Clocks of the accesses of a stretch.
pub(crate) struct Order {
    /// Per core and instruction: inputs, outputs.
    stamps: [SecondaryMap<InstId, [Option<Stamp>; 2]>; 2],
    clocks: Vec<Clock>,
}

impl Order {
    /// Access `a` happens before access `b`: core, instruction, writes. False when one of them is not in the stretch.
    pub(crate) fn before(&self, a: (usize, InstId, bool), b: (usize, InstId, bool)) -> bool {
        let of = |x: (usize, InstId, bool)| self.stamps[x.0][x.1][usize::from(x.2)];
        match (of(a), of(b)) {
            (Some(x), Some(y)) => self.clocks[y.clock as usize][x.thread as usize] >= x.tick,
            _ => false,
        }
    }
}

/// What all stretches of two cores share.
pub(crate) struct Shared {
    /// Every edge is met.
    met: bool,
    /// Which cores write the location of a token, by the owner's name.
    writers: FxHashMap<CompactString, SmallVec<[usize; 2]>>,
}

impl Shared {
    pub(crate) fn new(modules: [&Module; 2]) -> Shared {
        Shared { met: modules.iter().all(|m| never_met(m).is_empty()), writers: token_writers(modules) }
    }
}

/// Orders a stretch of two cores; `tokens`: completion tokens order (`--ptcom=p2p`), `keep` selects the instructions whose
/// accesses will be asked for.
///
/// # Errors
/// The instructions at which the queues of the cores wait, when they do not come to the end; none of them when an edge is never
/// met.
pub(crate) fn order(
    modules: [&Module; 2],
    shared: &Shared,
    stretches: [&Stretch; 2],
    tokens: bool,
    ranks: bool,
    keep: &dyn Fn(usize, InstId) -> bool,
) -> Result<Order, Vec<(usize, InstId)>> {
    if !shared.met {
        return Err(Vec::new());
    }
    let mut w = Walk {
        modules,
        tokens,
        ranks,
        keep,
        writers: &shared.writers,
        cores: [0, 1].map(|c| Core::new(modules[c], stretches[c])),
        threads: [[0; 2 * PER_CORE]; 2 * PER_CORE],
        meetings: FxHashMap::default(),
        arrived: [FxHashMap::default(), FxHashMap::default()],
        token_state: BTreeMap::new(),
        order: Order {
            stamps: modules.map(|m| SecondaryMap::with_capacity(m.insts.len())),
            clocks: Vec::new(),
        },
    };
    loop {
        let moved = [0, 1].map(|c| w.advance(c));
        if moved == [false, false] {
            break;
        }
    }
    if w.cores.iter().all(|c| c.at >= c.steps.len()) {
        return Ok(w.order);
    }
    let mut waiting = Vec::new();
    for (c, core) in w.cores.iter().enumerate() {
        let heads = core.waits.iter().zip(&core.queues).filter(|(w, _)| w.is_some());
        let mut at: Vec<InstId> = heads.filter_map(|(_, q)| q.front()).map(|k| core.inst(*k)).collect();
        at.extend(core.notices.iter().map(|(k, _)| core.inst(*k)));
        if core.barrier.is_some() {
            at.push(core.inst(0));
        }
        if at.is_empty() && core.left > 0 {
            at.extend(core.queues.iter().filter_map(|q| q.front()).map(|k| core.inst(*k)));
        }
        at.sort_unstable();
        at.dedup();
        waiting.extend(at.into_iter().map(|i| (c, i)));
    }
    Err(waiting)
}

/// Which cores write the location of a token, by the owner's name.
fn token_writers(modules: [&Module; 2]) -> FxHashMap<CompactString, SmallVec<[usize; 2]>> {
    let mut out: FxHashMap<CompactString, SmallVec<[usize; 2]>> = FxHashMap::default();
    for m in modules {
        for i in m.insts.values().filter(|i| i.opcode == Opcode::TensorCompletion) {
            if let Some(ap) = i.ins.first().and_then(Operand::as_ap) {
                out.entry(m.memlocs[ap.loc].owner_name().clone()).or_default();
            }
        }
    }
    if out.is_empty() {
        return out;
    }
    for (c, m) in modules.iter().enumerate() {
        for (_, b) in meet::blocks(m) {
            for i in m.blocks[b].insts.iter().map(|i| &m.insts[*i]) {
                for ap in i.outs.iter().filter_map(Operand::as_ap) {
                    if let Some(w) = out.get_mut(m.memlocs[ap.loc].owner_name())
                        && !w.contains(&c)
                    {
                        w.push(c);
                    }
                }
            }
        }
    }
    out
}

enum Step {
    Segment(Vec<InstId>),
    /// A CoreBarrier over both cores.
    Barrier(InstId),
    /// The queues of the core meet.
    Join,
}

/// A sequence of meetings.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Channel {
    Barrier,
    Kind(Kind),
    Notice,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Arrived at the n-th meeting of a channel.
    Meeting(u32),
    /// Arrived at the n-th execution of a token.
    Token(u32),
}

/// One core on its way.
struct Core {
    steps: Vec<Step>,
    at: usize,
    entered: bool,
    /// Arrived at the barrier `at`.
    barrier: Option<u32>,
    // the segment being run
    pending: Vec<u32>,
    succ: Vec<Vec<u32>>,
    incoming: Vec<Option<Box<Clock>>>,
    queues: [VecDeque<u32>; QUEUES],
    landing: [VecDeque<u32>; QUEUES],
    waits: [Option<Wait>; QUEUES],
    /// Notifying transfers that have landed: position, meeting.
    notices: Vec<(u32, u32)>,
    left: usize,
}

impl Core {
    fn new(m: &Module, stretch: &Stretch) -> Core {
        let mut steps = Vec::new();
        for block in stretch {
            let mut run = Vec::new();
            for &i in block {
                let inst = &m.insts[i];
                if !ends_segment(inst.opcode) {
                    run.push(i);
                    continue;
                }
                if !run.is_empty() {
                    steps.push(Step::Segment(std::mem::take(&mut run)));
                }
                let both = meet::kind_of(inst) == Some(Kind::Barrier);
                steps.push(if both { Step::Barrier(i) } else { Step::Join });
            }
            if !run.is_empty() {
                steps.push(Step::Segment(run));
            }
            steps.push(Step::Join);
        }
        Core {
            steps,
            at: 0,
            entered: false,
            barrier: None,
            pending: Vec::new(),
            succ: Vec::new(),
            incoming: Vec::new(),
            queues: Default::default(),
            landing: Default::default(),
            waits: [None; QUEUES],
            notices: Vec::new(),
            left: 0,
        }
    }

    fn inst(&self, k: u32) -> InstId {
        match self.steps.get(self.at) {
            Some(Step::Segment(list)) => list[k as usize],
            Some(Step::Barrier(i)) => *i,
            Some(Step::Join) | None => InstId::from_u32(0),
        }
    }
}

/// The state of a token.
#[derive(Default)]
struct TokenState {
    /// Per core: executions so far, with what each handed on.
    arrived: [Vec<Clock>; 2],
    /// Writes that no arrival has taken yet: thread, tick, clock.
    open: [Vec<(usize, u32, Box<Clock>)>; 2],
    /// What the core has handed on.
    done: [Box<Clock>; 2],
}

/// One meeting: the clocks of the cores that arrived, and where a notifying transfer waits.
#[derive(Default)]
struct Meeting {
    clock: [Option<Box<Clock>>; 2],
}

struct Walk<'p> {
    modules: [&'p Module; 2],
    tokens: bool,
    /// Replica ids are ranks of whole LNCs.
    ranks: bool,
    keep: &'p dyn Fn(usize, InstId) -> bool,
    writers: &'p FxHashMap<CompactString, SmallVec<[usize; 2]>>,
    cores: [Core; 2],
    threads: [Clock; 2 * PER_CORE],
    meetings: FxHashMap<(Channel, u32), Meeting>,
    /// Arrivals per channel.
    arrived: [FxHashMap<Channel, u32>; 2],
    token_state: BTreeMap<CompactString, TokenState>,
    order: Order,
}

impl Walk<'_> {
    fn thread(c: usize, q: usize) -> usize {
        c * PER_CORE + q
    }
    /// Thread of a transfer.
    fn landing(c: usize, q: usize, remote: bool) -> usize {
        c * PER_CORE + QUEUES + 2 * q + usize::from(remote)
    }

    /// Moves a core as far as it goes; whether it moved at all.
    fn advance(&mut self, c: usize) -> bool {
        let mut moved = false;
        loop {
            let core = &mut self.cores[c];
            let Some(step) = core.steps.get(core.at) else { return moved };
            match step {
                Step::Join => {
                    self.meet_core(c);
                    self.cores[c].at += 1;
                }
                Step::Barrier(_) => {
                    let n = match core.barrier {
                        Some(n) => n,
                        None => {
                            let clock = Box::new(self.threads[Self::thread(c, 0)]);
                            let n = self.arrive(c, &Channel::Barrier, clock);
                            self.cores[c].barrier = Some(n);
                            moved = true;
                            n
                        }
                    };
                    let Some(other) = self.other(c, &Channel::Barrier, n) else { return moved };
                    for t in c * PER_CORE..(c + 1) * PER_CORE {
                        join(&mut self.threads[t], &other);
                    }
                    self.cores[c].barrier = None;
                    self.cores[c].at += 1;
                }
                Step::Segment(_) => {
                    if !core.entered {
                        self.enter(c);
                    }
                    while self.turn(c) {
                        moved = true;
                    }
                    if self.cores[c].left > 0 {
                        return moved;
                    }
                    self.meet_core(c);
                    let core = &mut self.cores[c];
                    core.entered = false;
                    core.at += 1;
                }
            }
            moved = true;
        }
    }

    fn enter(&mut self, c: usize) {
        let m = self.modules[c];
        let core = &mut self.cores[c];
        let Some(Step::Segment(list)) = core.steps.get(core.at) else { return };
        let n = list.len();
        let at: FxHashMap<InstId, u32> = list.iter().enumerate().map(|(k, i)| (*i, k as u32)).collect();
        core.pending = vec![0; n];
        core.succ = vec![Vec::new(); n];
        core.incoming = vec![None; n];
        for (k, &i) in list.iter().enumerate() {
            let mut from: SmallVec<[u32; 8]> =
                m.insts[i].deps.iter().filter_map(|d| at.get(&d.inst).copied()).collect();
            from.sort_unstable();
            from.dedup();
            for p in from {
                core.succ[p as usize].push(k as u32);
                core.pending[k] += 1;
            }
            match queue(&m.insts[i]) {
                Some(q) => core.queues[q].push_back(k as u32),
                None => core.queues.iter_mut().for_each(|q| q.push_back(k as u32)),
            }
        }
        core.left = n;
        core.entered = true;
    }

    /// One move of a core inside its segment; false when there is none.
    fn turn(&mut self, c: usize) -> bool {
        for q in 0..QUEUES {
            if let Some(k) = self.cores[c].landing[q].pop_front() {
                self.land(c, q, k);
                return true;
            }
        }
        for at in 0..self.cores[c].notices.len() {
            let (k, n) = self.cores[c].notices[at];
            if let Some(other) = self.other(c, &Channel::Notice, n) {
                self.cores[c].notices.swap_remove(at);
                self.complete_with(c, k, &other);
                return true;
            }
        }
        for q in 0..QUEUES {
            let Some(&k) = self.cores[c].queues[q].front() else { continue };
            if let Some(w) = self.cores[c].waits[q] {
                if self.leave(c, q, k, w) {
                    return true;
                }
                continue;
            }
            if self.cores[c].pending[k as usize] == 0 && self.issue(c, q, k) {
                return true;
            }
        }
        false
    }

    /// Starts the head of a queue.
    fn issue(&mut self, c: usize, q: usize, k: u32) -> bool {
        let m = self.modules[c];
        let id = self.cores[c].inst(k);
        let inst = &m.insts[id];
        let all = queue(inst).is_none();
        if all {
            let core = &self.cores[c];
            let at_all = (0..QUEUES).all(|f| core.waits[f].is_none() && core.queues[f].front() == Some(&k));
            if !at_all {
                return false;
            }
            self.meet_queues(c);
        }
        let t = Self::thread(c, q);
        if let Some(i) = self.cores[c].incoming[k as usize].take() {
            join(&mut self.threads[t], &i);
        }
        if inst.opcode.is_dma() && inst.opcode != Opcode::TensorCompletion {
            let core = &mut self.cores[c];
            core.queues[q].pop_front();
            core.landing[q].push_back(k);
            core.incoming[k as usize] = Some(Box::new(self.threads[t]));
            return true;
        }
        if let Some(channel) = self.channel(inst) {
            self.touch(c, id, t, false);
            let clock = Box::new(self.threads[t]);
            let n = self.arrive(c, &channel, clock);
            self.cores[c].waits[q] = Some(Wait::Meeting(n));
            return true;
        }
        if inst.opcode == Opcode::TensorCompletion
            && self.tokens
            && let Some(ap) = inst.ins.first().and_then(Operand::as_ap)
        {
            let name = m.memlocs[ap.loc].owner_name().clone();
            let s = self.token_state.entry(name).or_default();
            let mine = self.threads[t];
            for (wt, tick, clock) in std::mem::take(&mut s.open[c]) {
                if mine[wt] >= tick {
                    join(&mut s.done[c], &clock);
                } else {
                    s.open[c].push((wt, tick, clock));
                }
            }
            let now = *s.done[c];
            s.arrived[c].push(now);
            let n = s.arrived[c].len() as u32;
            self.cores[c].waits[q] = Some(Wait::Token(n));
            return true;
        }
        self.touch(c, id, t, false);
        self.touch(c, id, t, true);
        self.complete(c, q, k);
        true
    }

    /// The head of a queue goes on behind its meeting.
    fn leave(&mut self, c: usize, q: usize, k: u32, w: Wait) -> bool {
        let m = self.modules[c];
        let id = self.cores[c].inst(k);
        let t = Self::thread(c, q);
        match w {
            Wait::Meeting(n) => {
                let Some(channel) = self.channel(&m.insts[id]) else { return false };
                let Some(other) = self.other(c, &channel, n) else { return false };
                join(&mut self.threads[t], &other);
                self.touch(c, id, t, true);
            }
            Wait::Token(n) => {
                let Some(ap) = m.insts[id].ins.first().and_then(Operand::as_ap) else { return false };
                let name = m.memlocs[ap.loc].owner_name();
                let (Some(s), Some(writers)) = (self.token_state.get(name), self.writers.get(name)) else {
                    return false;
                };
                let mut learned: Clock = [0; 2 * PER_CORE];
                for &x in writers {
                    let Some(clock) = s.arrived[x].get(n as usize - 1) else { return false };
                    join(&mut learned, clock);
                }
                join(&mut self.threads[t], &learned);
            }
        }
        self.cores[c].waits[q] = None;
        self.complete(c, q, k);
        true
    }

    fn land(&mut self, c: usize, q: usize, k: u32) {
        let id = self.cores[c].inst(k);
        let m = self.modules[c];
        let t = Self::landing(c, q, is_remote_copy(m, &m.insts[id]));
        if let Some(i) = self.cores[c].incoming[k as usize].take() {
            join(&mut self.threads[t], &i);
        }
        self.touch(c, id, t, false);
        self.touch(c, id, t, true);
        let clock = self.threads[t];
        if self.modules[c].insts[id].get_ints(Attr::RemoteNotification).is_empty() {
            self.complete_with(c, k, &clock);
        } else {
            let n = self.arrive(c, &Channel::Notice, Box::new(clock));
            self.cores[c].notices.push((k, n));
        }
    }

    /// The head of its queue is complete.
    fn complete(&mut self, c: usize, q: usize, k: u32) {
        let all = queue(&self.modules[c].insts[self.cores[c].inst(k)]).is_none();
        let core = &mut self.cores[c];
        if all {
            for q in &mut core.queues {
                q.pop_front();
            }
        } else {
            core.queues[q].pop_front();
        }
        let clock = self.threads[Self::thread(c, q)];
        if all {
            self.meet_queues(c);
        }
        self.complete_with(c, k, &clock);
    }

    fn complete_with(&mut self, c: usize, k: u32, clock: &Clock) {
        let core = &mut self.cores[c];
        for s in std::mem::take(&mut core.succ[k as usize]) {
            core.pending[s as usize] -= 1;
            match &mut core.incoming[s as usize] {
                Some(x) => join(x, clock),
                slot @ None => *slot = Some(Box::new(*clock)),
            }
        }
        core.left -= 1;
    }

    /// An access: a step of the thread, and its clock when it will be asked for.
    fn touch(&mut self, c: usize, id: InstId, t: usize, outs: bool) {
        let m = self.modules[c];
        let inst = &m.insts[id];
        if outs && inst.outs.is_empty() {
            return;
        }
        self.threads[t][t] += 1;
        let clock = self.threads[t];
        if (self.keep)(c, id) {
            let at = self.order.clocks.len() as u32;
            self.order.clocks.push(clock);
            let stamp = Stamp { thread: t as u8, tick: clock[t], clock: at };
            self.order.stamps[c][id][usize::from(outs)] = Some(stamp);
        }
        if outs && self.tokens && !self.writers.is_empty() {
            for ap in inst.outs.iter().filter_map(Operand::as_ap) {
                let name = m.memlocs[ap.loc].owner_name();
                if self.writers.contains_key(name) {
                    let s = self.token_state.entry(name.clone()).or_default();
                    s.open[c].push((t, clock[t], Box::new(clock)));
                }
            }
        }
    }

    fn meet_queues(&mut self, c: usize) {
        self.join_threads(c * PER_CORE..c * PER_CORE + QUEUES);
    }
    fn meet_core(&mut self, c: usize) {
        self.join_threads(c * PER_CORE..(c + 1) * PER_CORE);
        for s in self.token_state.values_mut() {
            for (_, _, clock) in std::mem::take(&mut s.open[c]) {
                join(&mut s.done[c], &clock);
            }
        }
    }
    fn join_threads(&mut self, r: std::ops::Range<usize>) {
        let mut all: Clock = [0; 2 * PER_CORE];
        self.threads[r.clone()].iter().for_each(|c| join(&mut all, c));
        self.threads[r].fill(all);
    }

    /// The channel at which an instruction meets the other core; `None` when it meets nobody.
    fn channel(&self, inst: &Inst) -> Option<Channel> {
        match meet::kind_of(inst)? {
            Kind::Barrier | Kind::Lone | Kind::Token(_) => None,
            k @ (Kind::Swap(_) | Kind::Sb2Sb) => Some(Channel::Kind(k)),
            Kind::Collective => {
                let groups = inst.get_groups(Attr::ReplicaGroups);
                let both = self.ranks
                    || inst.get_bool(Attr::IsLocal)
                    || groups.is_empty()
                    || groups.iter().any(|g| g.contains(&0) && g.contains(&1));
                both.then_some(Channel::Kind(Kind::Collective))
            }
        }
    }

    fn arrive(&mut self, c: usize, channel: &Channel, clock: Box<Clock>) -> u32 {
        let n = self.arrived[c].entry(channel.clone()).or_insert(0);
        let at = *n;
        *n += 1;
        self.meetings.entry((channel.clone(), at)).or_default().clock[c] = Some(clock);
        at
    }

    /// What both cores knew at the n-th meeting, when the other one has arrived.
    fn other(&mut self, c: usize, channel: &Channel, n: u32) -> Option<Clock> {
        let m = self.meetings.get(&(channel.clone(), n))?;
        let mut all = **m.clock[1 - c].as_ref()?;
        if let Some(mine) = &m.clock[c] {
            join(&mut all, mine);
        }
        Some(all)
    }
}
