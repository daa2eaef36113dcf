//! The scheduler: cores, their queues, and who acts next.
//!
//! Each core is in one of four phases: about to take a control step, inside a segment, waiting at a CoreBarrier, done. Inside
//! a segment up to five in-order queues issue instructions (one, in program-order style) and up to five transfer queues land
//! what was issued. [`Core::ready`] holds one bit per possible move; the schedule picks among the bits of all cores.

use crate::code::{ALL_QUEUES, Action, Code, Segment, Style};
use crate::collective::{Plan, Topology};
use crate::decode::{Env, Recipe, Resolved, eval, resolve};
use crate::deferred::Deferred;
use crate::exec::Arg;
use crate::memory::Memory;
use crate::options::{RunOptions, Schedule};
use crate::outcome::StopReason;
use crate::overlap::Overlap;
use crate::place::Place;
use crate::race::{Race, Role};
use crate::random::SplitMix64;
use crate::state::{CoreState, Fault, Note};
use crate::sync::{Arrival, Counters, Sync};
use crate::timing::Recorder;
use crate::undef::Undef;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::{Code as DiagCode, Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::linked::{DebugTable, Stream, is_remote_copy};
use tandem_bir::{Attr, BlockId, CompactString, CoreId, FuncId, InstId, Module, Program};

/// Bit of `ISSUE + q`: the head of queue `q` may start.
pub(crate) const ISSUE: u32 = 0;
/// Bit of `FINISH + q`: the head of queue `q` has met its partners and may end.
pub(crate) const FINISH: u32 = QUEUES as u32;
/// Bit of `LAND + q`: the oldest transfer of queue `q` may land.
pub(crate) const LAND: u32 = 2 * QUEUES as u32;
/// Bit of a control step.
pub(crate) const CONTROL: u32 = 3 * QUEUES as u32;
/// All lists of operands, for [`Machine::touch`].
pub(crate) const ALL_LISTS: u8 = 0b111;
/// Moves that land transfers.
const LANDS: u16 = 0b11111 << LAND;

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Control,
    Segment,
    Barrier {
        group: u32,
        inst: InstId,
        released: bool,
    },
    /// Its engines run streams (levels `linked` and `bundles`).
    Streams,
    Done,
}

/// Why the head of a queue does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A swap or collective.
    Group { group: u32, released: bool },
    /// A completion token, its `n`-th execution.
    Token { token: u32, n: u64, released: bool },
}

/// The segment being run.
#[derive(Debug, Default)]
pub(crate) struct SegRun {
    pub(crate) seg: u32,
    /// Producers still to complete.
    pub(crate) pending: Vec<u32>,
    pub(crate) done: Vec<bool>,
    /// Transfer that an out-of-bounds offset turned into nothing.
    pub(crate) skip: Vec<bool>,
    pub(crate) heads: [u32; QUEUES],
    pub(crate) waits: [Option<Wait>; QUEUES],
    pub(crate) landing: [VecDeque<u32>; QUEUES],
    pub(crate) left: u32,
}

/// Where a list of blocks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Func(FuncId),
    Region(InstId),
}

/// A list of blocks being run.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) list: List,
    /// Position of `block` in the list.
    pub(crate) pos: usize,
    pub(crate) block: BlockId,
    pub(crate) step: usize,
    pub(crate) looped: Option<LoopRun>,
}

/// A counted loop being run.
#[derive(Clone, Debug)]
pub(crate) struct LoopRun {
    pub(crate) axis: Option<CompactString>,
    pub(crate) i: i64,
    pub(crate) ub: i64,
    pub(crate) stride: i64,
}

/// One simulated core.
pub(crate) struct Core<'p> {
    pub(crate) id: CoreId,
    pub(crate) module: &'p Module,
    /// Streams of its engines, at levels `linked` and `bundles`; `run.heads` are their positions.
    pub(crate) streams: &'p [Stream],
    /// What a container says about them for people.
    pub(crate) debug: Option<&'p DebugTable>,
    /// Place of an instruction in that table.
    pub(crate) debug_of: FxHashMap<InstId, u32>,
    pub(crate) code: Code<'p>,
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) topo: Topology,
    pub(crate) st: CoreState,
    pub(crate) frames: Vec<Frame>,
    pub(crate) axes: Vec<(CompactString, i64)>,
    pub(crate) phase: Phase,
    pub(crate) run: SegRun,
    pub(crate) ready: u16,
    pub(crate) counters: Counters,
    pub(crate) plans: FxHashMap<InstId, Option<Plan>>,
    pub(crate) executed: Vec<u64>,
    /// Last swap, barrier, collective or token that completed.
    pub(crate) last_sync: Option<InstId>,
}

impl Core<'_> {
    /// The tensor that the debug table names for an operand: its place in the table.
    pub(crate) fn debug_tensor(&self, id: InstId, role: Role) -> Option<u32> {
        let t = self.debug?;
        let i = &self.module.insts[id];
        let k = role.index as usize
            + match role.list {
                0 => 0,
                1 => i.ins.len(),
                _ => i.ins.len() + i.outs.len(),
            };
        let at = *self.debug_of.get(&id)?;
        t.insts.get(at as usize)?.operands.get(k).copied().flatten()
    }
    pub(crate) fn segment(&self) -> &Segment {
        &self.code.segments[self.run.seg as usize]
    }
}

/// A fault at an instruction of a core.
pub(crate) struct Stop {
    pub(crate) inst: Option<InstId>,
    pub(crate) fault: Fault,
}

/// Everything that runs.
pub(crate) struct Machine<'p> {
    pub(crate) program: &'p Program,
    pub(crate) opts: RunOptions,
    pub(crate) arch: &'static ArchSpec,
    pub(crate) style: Style,
    pub(crate) mem: Memory,
    pub(crate) cores: Vec<Core<'p>>,
    pub(crate) sync: Sync,
    pub(crate) steps: u64,
    /// Control steps since the last instruction, to notice loops that execute nothing.
    pub(crate) idle_steps: u64,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) race: Option<Race>,
    pub(crate) undef: Option<Undef>,
    pub(crate) overlap: Option<Overlap>,
    /// Undefined bytes were carried to a place that other values chose.
    pub(crate) carried_by_value: bool,
    /// Notes what is to be timed.
    pub(crate) timing: Option<Recorder>,
    /// Waits that prove nothing about one of their producers: its thread, the core that waits, in words.
    pub(crate) ambiguous: Vec<(u32, usize, String)>,
    /// Cores whose streams have something new to look at.
    pub(crate) woken: Vec<usize>,
    pub(crate) notes: Vec<Note>,
    pub(crate) noted: FxHashSet<(usize, InstId, &'static str)>,
    pub(crate) rng: SplitMix64,
    /// Computations that are to come.
    pub(crate) deferred: Deferred,
    /// Computations that came late.
    pub(crate) put_off: u64,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(
        program: &'p Program,
        opts: RunOptions,
        arch: &'static ArchSpec,
        style: Style,
        mem: Memory,
        cores: Vec<Core<'p>>,
        sync: Sync,
    ) -> Machine<'p> {
        let seed = match opts.schedule {
            Schedule::Seed(s) => s,
            Schedule::Eager | Schedule::Late => 0,
        };
        Machine {
            program,
            opts,
            arch,
            style,
            mem,
            cores,
            sync,
            steps: 0,
            idle_steps: 0,
            diagnostics: Vec::new(),
            race: None,
            undef: None,
            overlap: None,
            carried_by_value: false,
            timing: None,
            ambiguous: Vec::new(),
            woken: Vec::new(),
            notes: Vec::new(),
            noted: FxHashSet::default(),
            rng: SplitMix64(seed),
            deferred: Deferred::off(),
            put_off: 0,
        }
    }

    /// Runs to the end, to quiescence, or to a fault; everything is computed then.
    pub(crate) fn run(&mut self) -> StopReason {
        let stop = self.go_on();
        if self.catch_up().is_err() { self.stopped() } else { stop }
    }

    fn go_on(&mut self) -> StopReason {
        for c in 0..self.cores.len() {
            self.refresh(c);
        }
        let mut ticks = 0u64;
        loop {
            if let Some(reason) = self.tick(&mut ticks) {
                return reason;
            }
            let Some((c, mv)) = self.pick() else { break };
            if let Err(stop) = self.act(c, mv) {
                self.fault(c, stop);
                return self.stopped();
            }
            if let Some(r) = &mut self.race {
                r.collect();
            }
            self.refresh(c);
        }
        if self.cores.iter().all(|c| c.phase == Phase::Done) {
            StopReason::Finished
        } else {
            StopReason::Deadlock
        }
    }

    /// Counts a step of the scheduler; gives a reason to stop before it.
    pub(crate) fn tick(&mut self, ticks: &mut u64) -> Option<StopReason> {
        *ticks += 1;
        if *ticks & 0xfff == 0 {
            if self.opts.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Some(StopReason::Cancelled);
            }
            if *ticks & 0xffff == 0
                && let Some(p) = &self.opts.progress
            {
                p(self.steps);
            }
        }
        if self.steps.saturating_add(self.idle_steps) > self.opts.step_limit {
            self.step_limit();
            return Some(StopReason::StepLimit);
        }
        None
    }

    /// The next move.
    fn pick(&mut self) -> Option<(usize, u32)> {
        match self.opts.schedule {
            Schedule::Eager => {
                let (c, core) = self.cores.iter().enumerate().find(|(_, c)| c.ready != 0)?;
                let lands = core.ready & LANDS;
                let bits = if lands != 0 { lands } else { core.ready };
                Some((c, bits.trailing_zeros()))
            }
            Schedule::Late => {
                let find = |mask: u16| self.cores.iter().enumerate().rev().find(|(_, c)| c.ready & mask != 0);
                let (c, bits) = match find(!LANDS) {
                    Some((c, core)) => (c, core.ready & !LANDS),
                    None => find(LANDS).map(|(c, core)| (c, core.ready))?,
                };
                Some((c, 15 - bits.leading_zeros()))
            }
            Schedule::Seed(_) => {
                let total: u32 = self.cores.iter().map(|c| c.ready.count_ones()).sum();
                if total == 0 {
                    return None;
                }
                let mut k = self.rng.below(u64::from(total)) as u32;
                for (c, core) in self.cores.iter().enumerate() {
                    let n = core.ready.count_ones();
                    if k < n {
                        let mut bits = core.ready;
                        for _ in 0..k {
                            bits &= bits - 1;
                        }
                        return Some((c, bits.trailing_zeros()));
                    }
                    k -= n;
                }
                None
            }
        }
    }

    /// Recomputes the possible moves of a core.
    pub(crate) fn refresh(&mut self, c: usize) {
        let core = &mut self.cores[c];
        core.ready = match core.phase {
            Phase::Streams => {
                self.woken.push(c);
                return;
            }
            Phase::Done | Phase::Barrier { released: false, .. } => 0,
            Phase::Control | Phase::Barrier { released: true, .. } => 1 << CONTROL,
            Phase::Segment => {
                let seg = &core.code.segments[core.run.seg as usize];
                let run = &core.run;
                let mut bits = 0u16;
                for q in 0..QUEUES {
                    if !run.landing[q].is_empty() {
                        bits |= 1 << (LAND + q as u32);
                    }
                    match run.waits[q] {
                        Some(Wait::Group { released, .. } | Wait::Token { released, .. }) => {
                            if released {
                                bits |= 1 << (FINISH + q as u32);
                            }
                            continue;
                        }
                        None => {}
                    }
                    let Some(&i) = seg.queues[q].get(run.heads[q] as usize) else { continue };
                    if run.pending[i as usize] != 0 {
                        continue;
                    }
                    if seg.queue_of[i as usize] == ALL_QUEUES {
                        let at_all = (0..QUEUES).all(|f| {
                            run.waits[f].is_none() && seg.queues[f].get(run.heads[f] as usize) == Some(&i)
                        });
                        if q != 0 || !at_all {
                            continue;
                        }
                    }
                    bits |= 1 << (ISSUE + q as u32);
                }
                bits
            }
        };
    }

    fn act(&mut self, c: usize, mv: u32) -> Result<(), Stop> {
        if mv == CONTROL {
            return self.control(c);
        }
        if mv >= LAND {
            return self.land(c, (mv - LAND) as usize);
        }
        if mv >= FINISH {
            return self.finish(c, (mv - FINISH) as usize);
        }
        self.issue(c, (mv - ISSUE) as usize)
    }

    /// Starts the head of a queue.
    fn issue(&mut self, c: usize, q: usize) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let seg = &core.code.segments[core.run.seg as usize];
        let i = seg.queues[q][core.run.heads[q] as usize];
        let id = seg.insts[i as usize];
        let inst = &core.module.insts[id];
        let action = core.code.action[id.index()];
        let stop = |fault| Stop { inst: Some(id), fault };
        let all = seg.queue_of[i as usize] == ALL_QUEUES;
        let mut thread = 0;
        if let Some(race) = &mut self.race {
            if all {
                race.meet_queues(c);
            }
            thread = race.thread(c, q);
            race.start(c, i, thread);
        }

        match self.operands(c, id)? {
            None => {
                self.complete(c, i, false);
                return Ok(());
            }
            Some(r) => self.cores[c].run.skip[i as usize] = r == Resolved::Skip,
        }
        let core = &mut self.cores[c];

        if let Some(t) = &mut self.timing {
            let dynamic = !core.code.recipes[id.index()].is_empty();
            t.issue(c, i, action, inst, &core.code.decoded[id.index()], &self.mem, dynamic);
        }
        match action {
            Action::Nothing => self.complete(c, i, true),
            Action::Compute => {
                self.compute_checked(c, id, thread)?;
                self.complete(c, i, true);
            }
            Action::Scalar => {
                self.touch(c, id, thread, ALL_LISTS);
                self.scalar(c, id)?;
                self.complete(c, i, true);
            }
            Action::Transfer => match self.style {
                Style::Program => {
                    if !core.run.skip[i as usize] {
                        self.compute_checked(c, id, thread)?;
                    }
                    self.complete(c, i, true);
                }
                Style::Dependency | Style::Queue => {
                    core.run.heads[q] += 1;
                    core.run.landing[q].push_back(i);
                    if let Some(race) = &mut self.race {
                        race.issue(c, i, thread);
                    }
                }
            },
            Action::Swap | Action::Sb2Sb | Action::Collective => {
                if self.arrive_collective(c, q, i, id, action)? == Arrival::Complete {
                    self.complete(c, i, true);
                }
            }
            Action::Token => {
                if self.arrive_token(c, q, i, id) == Arrival::Complete {
                    self.complete(c, i, true);
                }
            }
            Action::Control => {
                return Err(stop(Fault::new(codes::I0001, "a control instruction inside a segment")));
            }
        }
        Ok(())
    }

    /// Sets an instruction's run-time operands; `None` when a predicate turns it off.
    pub(crate) fn operands(&mut self, c: usize, id: InstId) -> Result<Option<Resolved>, Stop> {
        let core = &mut self.cores[c];
        let inst = &core.module.insts[id];
        let predicated = inst.more.as_ref().filter(|m| !m.predicates.is_empty());
        let recipes = &core.code.recipes[id.index()];
        if predicated.is_none() && recipes.is_empty() {
            return Ok(Some(Resolved::Run));
        }
        if recipes.iter().any(Recipe::looks_at_memory) {
            self.catch_up()?;
        }
        let core = &mut self.cores[c];
        let recipes = &core.code.recipes[id.index()];
        let stop = |fault| Stop { inst: Some(id), fault };
        let env = Env { regs: &core.st.regs, axes: &core.axes, core: i64::from(core.id.0), mem: &self.mem };
        for p in predicated.iter().flat_map(|m| &m.predicates) {
            if eval(p, None, &env, core.module).map_err(stop)? < 0 {
                return Ok(None);
            }
        }
        if recipes.is_empty() {
            return Ok(Some(Resolved::Run));
        }
        let d = &mut core.code.decoded[id.index()];
        resolve(d, recipes, core.module, &core.places, &env).map(Some).map_err(stop)
    }

    /// Runs a register or rank instruction.
    pub(crate) fn scalar(&mut self, c: usize, id: InstId) -> Result<(), Stop> {
        let d = &self.cores[c].code.decoded[id.index()];
        if d.ins.iter().chain(&d.outs).any(|a| matches!(a, Arg::View(_) | Arg::Indexed(_))) {
            self.catch_up()?;
        }
        let d = &self.cores[c].code.decoded[id.index()];
        let used = self.undef.as_ref().and_then(|u| u.first_of(&self.mem, d, &d.ins));
        if let Some(at) = used {
            self.undefined_use(c, id, at);
        }
        let core = &mut self.cores[c];
        let d = &core.code.decoded[id.index()];
        if let Some(u) = &mut self.undef {
            d.outs.iter().for_each(|a| {
                if let Arg::View(v) = a {
                    u.define(v);
                }
            });
        }
        crate::scalar::run(&mut self.mem, &mut core.st, core.module, d, &core.module.insts[id])
            .map_err(|fault| Stop { inst: Some(id), fault })
    }

    /// The transfer touches another core's memory.
    pub(crate) fn is_remote(&self, c: usize, id: InstId) -> bool {
        let m = self.cores[c].module;
        is_remote_copy(m, &m.insts[id])
    }

    /// Lands the oldest transfer of a queue.
    fn land(&mut self, c: usize, q: usize) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let Some(i) = core.run.landing[q].pop_front() else { return Ok(()) };
        let id = core.code.segments[core.run.seg as usize].insts[i as usize];
        let notifies = !core.module.insts[id].get_ints(Attr::RemoteNotification).is_empty();
        let skip = core.run.skip[i as usize];
        let mut thread = 0;
        let remote = self.race.is_some() && self.is_remote(c, id);
        if let Some(race) = &mut self.race {
            thread = race.transfers(c, q, remote);
            race.start(c, i, thread);
        }
        if !skip {
            self.compute_checked(c, id, thread)?;
        }
        if notifies {
            let (done, clock) = self.arrive_notify(c, q, i, id);
            for (c, i) in done {
                if let (Some(race), Some(clock)) = (&mut self.race, &clock) {
                    let seg = self.cores[c].segment();
                    race.complete_with(c, clock, seg.consumers(i));
                }
                self.completed(c, i, true);
                self.refresh(c);
            }
        } else {
            if let Some(race) = &mut self.race {
                race.complete(c, thread, self.cores[c].segment().consumers(i));
            }
            self.completed(c, i, true);
        }
        Ok(())
    }

    /// The instruction at the head of its queue is complete.
    pub(crate) fn complete(&mut self, c: usize, i: u32, executed: bool) {
        let core = &mut self.cores[c];
        let seg = &core.code.segments[core.run.seg as usize];
        let q = seg.queue_of[i as usize];
        match q {
            ALL_QUEUES => core.run.heads.iter_mut().for_each(|h| *h += 1),
            q => core.run.heads[q as usize] += 1,
        }
        if let Some(race) = &mut self.race {
            let first = if q == ALL_QUEUES { 0 } else { q as usize };
            let thread = race.thread(c, first);
            race.complete(c, thread, seg.consumers(i));
            if q == ALL_QUEUES {
                race.meet_queues(c);
            }
        }
        self.completed(c, i, executed);
    }

    /// An instruction is complete: count it, wake what depends on it.
    fn completed(&mut self, c: usize, i: u32, executed: bool) {
        let core = &mut self.cores[c];
        let seg = &core.code.segments[core.run.seg as usize];
        let id = seg.insts[i as usize];
        self.steps += 1;
        if executed {
            core.executed[core.code.decoded[id.index()].opcode as usize] += 1;
        }
        core.run.done[i as usize] = true;
        for &s in seg.consumers(i) {
            core.run.pending[s as usize] -= 1;
        }
        core.run.left -= 1;
        if core.run.left == 0 {
            core.phase = Phase::Control;
            if let Some(race) = &mut self.race {
                race.meet_core(c);
            }
        }
    }

    /// Enters a segment.
    pub(crate) fn start_segment(&mut self, c: usize, seg: u32) {
        let core = &mut self.cores[c];
        let s = &core.code.segments[seg as usize];
        let run = &mut core.run;
        run.seg = seg;
        run.pending.clear();
        run.pending.extend_from_slice(&s.pending);
        run.done.clear();
        run.done.resize(s.insts.len(), false);
        run.skip.clear();
        run.skip.resize(s.insts.len(), false);
        run.heads = [0; QUEUES];
        run.waits = [None; QUEUES];
        run.left = s.insts.len() as u32;
        core.phase = Phase::Segment;
        if let Some(t) = &mut self.timing {
            t.segment(c, seg, &s.insts);
        }
        if let Some(race) = &mut self.race {
            race.start_segment(c, s.insts.len());
        }
    }

    pub(crate) fn take_notes(&mut self, c: usize, id: InstId) {
        let core = &self.cores[c];
        for n in self.notes.drain(..) {
            if self.noted.insert((c, id, n.code.info().id)) {
                let d = Diagnostic::new(n.code, n.message).inst(self.program, core.module, id);
                self.diagnostics.push(d);
            }
        }
    }

    pub(crate) fn fault(&mut self, c: usize, stop: Stop) {
        if stop.inst.is_none() && stop.fault.message.is_empty() {
            // Reported where it was found.
            return;
        }
        let core = &self.cores[c];
        let mut d = Diagnostic::new(stop.fault.code, stop.fault.message);
        d.notes = stop.fault.notes;
        if let Some(id) = stop.inst {
            let mut site = tandem_bir::diag::Site::of_inst(&self.program.locs, core.module, id);
            site.core = Some(core.id);
            d = d.site(site);
        }
        self.diagnostics.push(d);
    }

    fn step_limit(&mut self) {
        let text = format!("stopped after {} instructions: the step limit", self.steps);
        let mut d = Diagnostic::new(codes::S0015, text);
        for c in 0..self.cores.len() {
            if let Some(site) = self.here(c) {
                d = d.site(site.label("here when the limit was reached"));
            }
        }
        self.diagnostics.push(d);
    }

    /// A fault of a code and a text.
    pub(crate) fn stop_at(id: InstId, code: DiagCode, text: impl Into<String>) -> Stop {
        Stop { inst: Some(id), fault: Fault::new(code, text) }
    }
}
