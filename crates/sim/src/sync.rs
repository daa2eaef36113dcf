//! Meetings of cores: swaps, collectives, CoreBarriers, completion tokens.
//!
//! A *channel* is a sequence of meetings of the same cores: the swaps of one pipe, the lowered swaps, the collectives of one
//! group, the barriers of one core list. The n-th arrival of each core at a channel belongs to the n-th meeting. Names do not
//! matter for pairing; when all have arrived, what they brought is compared, and a difference is a finding.
//!
//! Swaps and collectives have two phases: each member's inputs are copied when it arrives; when all have arrived each
//! member writes its own result, as a move of its own that the schedule may delay.

use crate::code::Action;
use crate::collective::{Payload, Plan, Shape, plan, result, sb2sb_plan};
use crate::exec::{Arg, Decoded};
use crate::machine::{Machine, Phase, Stop, Wait};
use crate::numeric_profile::Sb2SbInt32;
use crate::options::Ptcom;
use crate::race::{Clock, join};
use crate::state::Fault;
use crate::timing::MeetKind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{Attr, CollectiveKind, Dtype, Inst, InstId, MemLocId};

/// A sequence of meetings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Swaps of one pipe of one LNC.
    Swap { lnc: usize, pipe: i64 },
    /// Lowered swaps of one LNC.
    Sb2Sb { lnc: usize },
    /// Collectives of these cores; local ones apart from kept ones.
    Collective { members: SmallVec<[u32; 4]>, local: bool },
    /// Barriers of these cores.
    Barrier { cores: SmallVec<[u32; 4]> },
    /// The linked barrier of this number of one LNC.
    BarrierId { lnc: usize, id: u32 },
    /// Transfers of one LNC that notify the peer (decision D24).
    Notify { lnc: usize },
}

/// How often a core arrived, per channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Vec<(u32, u64)>);

impl Counters {
    /// Ordinal of this arrival, from 0.
    fn next(&mut self, channel: u32) -> u64 {
        match self.0.iter_mut().find(|(c, _)| *c == channel) {
            Some((_, n)) => {
                *n += 1;
                *n - 1
            }
            None => {
                self.0.push((channel, 1));
                0
            }
        }
    }
}

/// One core at a meeting.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) core: usize,
    pub(crate) inst: InstId,
    /// Queue whose head waits.
    pub(crate) queue: usize,
    /// Position in the segment of a transfer that notifies its peer.
    pub(crate) item: u32,
    /// What it knew on arrival, for the race check.
    pub(crate) clock: Option<Clock>,
    pub(crate) inputs: SmallVec<[Payload; 1]>,
    /// [`crate::undef::Undef::generation`] when the inputs were looked at.
    pub(crate) generation: u32,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It meets nobody: the instruction is complete.
    Complete,
    /// Its queue waits for the others ([`Machine::finish`] once they are there).
    Waits,
}

/// A meeting.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) channel: u32,
    pub(crate) n: u64,
    pub(crate) expect: SmallVec<[u32; 4]>,
    pub(crate) members: Vec<Member>,
    /// Members that have not left yet.
    left: usize,
}

/// A completion token: one location.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) name: String,
    /// Cores that write the location.
    pub(crate) writers: Vec<usize>,
    /// Cores that execute the token.
    pub(crate) users: Vec<usize>,
    /// Arrivals per core.
    pub(crate) arrived: Vec<u64>,
    /// Who waits: `(core, queue)`.
    waiting: Vec<(usize, usize)>,
}

/// All meetings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sync {
    channels: indexmap::IndexSet<Channel, rustc_hash::FxBuildHasher>,
    open: FxHashMap<(u32, u64), u32>,
    pub(crate) groups: Vec<Group>,
    free: Vec<u32>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) token_of: FxHashMap<(usize, InstId), u32>,
    /// Token of a location, per core.
    pub(crate) token_loc: FxHashMap<(usize, MemLocId), u32>,
    buffers: Vec<Vec<u8>>,
}

impl Sync {
    pub(crate) fn add_token(
        &mut self,
        name: String,
        writers: Vec<usize>,
        users: Vec<usize>,
        cores: usize,
    ) -> u32 {
        self.tokens.push(Token { name, writers, users, arrived: vec![0; cores], waiting: Vec::new() });
        self.tokens.len() as u32 - 1
    }
    pub(crate) fn channel(&self, id: u32) -> &Channel {
        &self.channels[id as usize]
    }
    fn arrive(
        &mut self,
        channel: Channel,
        counters: &mut Counters,
        expect: &[u32],
        m: Member,
    ) -> (u32, bool) {
        let (ch, _) = self.channels.insert_full(channel);
        let ch = ch as u32;
        let n = counters.next(ch);
        let g = match self.open.get(&(ch, n)) {
            Some(g) => *g,
            None => {
                let g = match self.free.pop() {
                    Some(g) => {
                        let x = &mut self.groups[g as usize];
                        x.channel = ch;
                        x.n = n;
                        x.expect = SmallVec::from_slice(expect);
                        x.members.clear();
                        g
                    }
                    None => {
                        self.groups.push(Group {
                            channel: ch,
                            n,
                            expect: SmallVec::from_slice(expect),
                            members: Vec::new(),
                            left: 0,
                        });
                        self.groups.len() as u32 - 1
                    }
                };
                self.open.insert((ch, n), g);
                g
            }
        };
        let group = &mut self.groups[g as usize];
        group.members.push(m);
        let full = group.members.len() >= group.expect.len();
        if full {
            group.left = group.members.len();
            self.open.remove(&(ch, n));
        }
        (g, full)
    }
    /// A member leaves; the last one frees the meeting.
    fn leave(&mut self, g: u32) {
        let group = &mut self.groups[g as usize];
        group.left = group.left.saturating_sub(1);
        if group.left == 0 {
            for m in &mut group.members {
                for p in m.inputs.drain(..) {
                    if self.buffers.len() < 64 {
                        self.buffers.push(p.bytes);
                    }
                }
            }
            self.free.push(g);
        }
    }
}

/// Transfers that are complete: core and position in its segment.
type Done = SmallVec<[(usize, u32); 4]>;

/// The marks of an input as a tensor of bytes.
fn shadow(p: &Payload) -> Payload {
    let size = p.dtype.bytes() as usize;
    let bytes = p.marks.clone().unwrap_or_else(|| vec![0; p.bytes.len()]);
    Payload { dtype: Dtype::Uint8, rows: p.rows, row_elems: p.row_elems * size, bytes, marks: None }
}

fn shape_of(d: &Decoded, k: usize) -> Option<Shape> {
    d.out_view(k).map(Shape::of)
}

impl Machine<'_> {
    /// The head of queue `q` arrives at a swap or collective; `i` is its place in the running segment.
    pub(crate) fn arrive_collective(
        &mut self,
        c: usize,
        q: usize,
        i: u32,
        id: InstId,
        action: Action,
    ) -> Result<Arrival, Stop> {
        let core = &mut self.cores[c];
        let inst = &core.module.insts[id];
        if !core.plans.contains_key(&id) {
            let p = match action {
                Action::Sb2Sb => sb2sb_plan(&core.topo).map(Some),
                _ => plan(inst, &core.topo, &self.opts.profile),
            };
            let p = p.map_err(|(code, text)| Machine::stop_at(id, code, text))?;
            core.plans.insert(id, p);
        }
        let Some(Some(plan)) = core.plans.get(&id) else {
            // In no group: takes no part.
            return Ok(Arrival::Complete);
        };
        let plan = plan.clone();
        self.catch_up()?;
        let clock = self.arrival_clock(c, q, id);
        let core = &mut self.cores[c];
        let d = &core.code.decoded[id.index()];
        let mut inputs: SmallVec<[Payload; 1]> = SmallVec::new();
        for a in &d.ins {
            let Arg::View(v) = a else {
                return Err(Machine::stop_at(id, codes::S0002, "a collective takes plain memory operands"));
            };
            let mut bytes = self.sync.buffers.pop().unwrap_or_default();
            self.mem.gather(v, &mut bytes);
            let s = Shape::of(v);
            let marks = self.undef.as_mut().filter(|u| !u.known_clean(c, id.index())).and_then(|u| {
                let from = (v.buf, u.first(v)?);
                let mark = u.carrier(c, id, from);
                let mut marks = u.gather(v)?;
                marks.iter_mut().filter(|m| **m != 0).for_each(|m| *m = mark);
                Some(marks)
            });
            inputs.push(Payload { dtype: s.dtype, rows: s.rows, row_elems: s.row_elems, bytes, marks });
        }
        if plan.folds() && inputs.iter().any(|p| p.marks.is_some()) {
            let at = self.undef.as_ref().and_then(|u| u.first_of(&self.mem, d, &d.ins));
            if let Some(at) = at {
                self.undefined_use(c, id, at);
            }
        }
        let generation = self.generation();
        let core = &mut self.cores[c];
        let swap = matches!(action, Action::Swap | Action::Sb2Sb);
        let alone = swap && plan.recv.iter().all(|r| *r == plan.me) && plan.send == Some(plan.me);
        let lnc = core.topo.my_lnc;
        let channel = match action {
            Action::Sb2Sb => Channel::Sb2Sb { lnc },
            Action::Swap => Channel::Swap { lnc, pipe: plan.pipe },
            _ => Channel::Collective { members: plan.members.clone(), local: plan.local },
        };
        let member = Member { core: c, inst: id, queue: q, item: i, clock, inputs, generation };
        if alone {
            // A core that sends to itself meets nobody.
            let g = Group { channel: 0, n: 0, expect: SmallVec::new(), members: vec![member], left: 1 };
            if let Some(thread) = self.race.as_ref().map(|r| r.thread(c, q)) {
                self.touch(c, id, thread, 0b010);
            }
            self.write_results(c, id, &g)?;
            return Ok(Arrival::Complete);
        }
        let expect = plan.members.clone();
        let (g, full) = self.sync.arrive(channel, &mut core.counters, &expect, member);
        if let Some(t) = &mut self.timing {
            let group = &self.sync.groups[g as usize];
            let kind = if action == Action::Sb2Sb { MeetKind::Swap } else { MeetKind::Collective };
            t.meet(c, i, (group.channel, group.n), kind, expect.len());
        }
        core.run.waits[q] = Some(Wait::Group { group: g, released: false });
        if full {
            self.compare(g)?;
            self.release(g);
        }
        Ok(Arrival::Waits)
    }

    /// The head of queue `q` arrives at the linked barrier of a number; it holds this queue and nothing else.
    pub(crate) fn arrive_linked_barrier(
        &mut self,
        c: usize,
        q: usize,
        id: InstId,
        barrier: u32,
        cores: &[u32],
    ) {
        let clock = self.race.as_mut().map(|r| r.clock(r.thread(c, q)));
        let core = &mut self.cores[c];
        let lnc = core.topo.my_lnc;
        let member =
            Member { core: c, inst: id, queue: q, item: 0, clock, inputs: SmallVec::new(), generation: 0 };
        let channel = Channel::BarrierId { lnc, id: barrier };
        let (g, full) = self.sync.arrive(channel, &mut core.counters, cores, member);
        if let Some(t) = &mut self.timing {
            let group = &self.sync.groups[g as usize];
            t.stream_barrier(c, (group.channel, group.n), cores.len());
        }
        core.run.waits[q] = Some(Wait::Group { group: g, released: false });
        if full {
            self.release(g);
        }
    }

    /// A member has read its inputs; what its thread knows now.
    fn arrival_clock(&mut self, c: usize, q: usize, id: InstId) -> Option<Clock> {
        let thread = self.race.as_ref()?.thread(c, q);
        self.touch(c, id, thread, 0b101);
        self.race.as_mut().map(|r| r.clock(thread))
    }

    /// All members may leave.
    fn release(&mut self, g: u32) {
        let members: SmallVec<[(usize, usize); 4]> =
            self.sync.groups[g as usize].members.iter().map(|m| (m.core, m.queue)).collect();
        for (c, q) in members {
            match (&mut self.cores[c].phase, q) {
                (Phase::Barrier { group, released, .. }, _) if *group == g => *released = true,
                _ => {
                    if let Some(Wait::Group { released, .. }) = &mut self.cores[c].run.waits[q] {
                        *released = true;
                    }
                }
            }
            self.refresh(c);
        }
    }

    /// A released head of a segment's queue writes its results and is complete.
    pub(crate) fn finish(&mut self, c: usize, q: usize) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let seg = core.segment();
        let i = seg.queues[q][core.run.heads[q] as usize];
        let id = seg.insts[i as usize];
        self.leave_meeting(c, q, id)?;
        self.complete(c, i, true);
        Ok(())
    }

    /// A released head writes its results.
    pub(crate) fn leave_meeting(&mut self, c: usize, q: usize, id: InstId) -> Result<(), Stop> {
        let wait = self.cores[c].run.waits[q].take();
        if let Some(Wait::Group { group, .. }) = wait {
            let g = std::mem::replace(
                &mut self.sync.groups[group as usize],
                Group { channel: 0, n: 0, expect: SmallVec::new(), members: Vec::new(), left: 0 },
            );
            if let Some(thread) = self.race.as_ref().map(|r| r.thread(c, q)) {
                for m in &g.members {
                    if let (Some(race), Some(clock)) = (&mut self.race, &m.clock) {
                        race.learn(thread, clock);
                    }
                }
                let plan = self.cores[c].plans.get(&id).and_then(Option::as_ref);
                if plan.is_none_or(Plan::writes) {
                    self.touch(c, id, thread, 0b010);
                }
            }
            let r = self.write_results(c, id, &g);
            self.sync.groups[group as usize] = g;
            r?;
            self.nan_guard(c, id);
            self.sync.leave(group);
        } else if let (Some(Wait::Token { token, n, .. }), Some(race)) = (wait, &mut self.race) {
            let thread = race.thread(c, q);
            race.token_leave(token as usize, n, &self.sync.tokens[token as usize].writers, c, thread);
        }
        self.cores[c].last_sync = Some(id);
        Ok(())
    }

    /// A transfer that notifies its peer has landed: it is complete when the peer's has, too (decision D24; the k-th
    /// notifying transfer of one core belongs to the k-th of the other). Gives what is complete now.
    pub(crate) fn arrive_notify(&mut self, c: usize, q: usize, i: u32, id: InstId) -> (Done, Option<Clock>) {
        let remote = self.is_remote(c, id);
        let clock = self.race.as_mut().map(|r| r.clock(r.transfers(c, q, remote)));
        let core = &mut self.cores[c];
        let t = core.topo;
        let mut expect: SmallVec<[u32; 4]> = SmallVec::new();
        expect.push(c as u32);
        for x in core.module.insts[id].get_ints(Attr::RemoteNotification) {
            let who = usize::try_from(*x).ok().filter(|x| *x < t.lnc).map(|x| (t.my_lnc * t.lnc + x) as u32);
            if let Some(who) = who
                && !expect.contains(&who)
            {
                expect.push(who);
            }
        }
        expect.sort_unstable();
        let member =
            Member { core: c, inst: id, queue: q, item: i, clock, inputs: SmallVec::new(), generation: 0 };
        let (g, full) =
            self.sync.arrive(Channel::Notify { lnc: t.my_lnc }, &mut core.counters, &expect, member);
        if let Some(t) = &mut self.timing {
            let group = &self.sync.groups[g as usize];
            t.meet(c, i, (group.channel, group.n), MeetKind::Notify, expect.len());
        }
        if !full {
            return (Done::new(), None);
        }
        let mut all: Option<Clock> = None;
        for m in &self.sync.groups[g as usize].members {
            match (&mut all, &m.clock) {
                (Some(a), Some(c)) => join(a, c),
                (None, Some(c)) => all = Some(c.clone()),
                (_, None) => {}
            }
        }
        let done = self.sync.groups[g as usize].members.iter().map(|m| (m.core, m.item)).collect();
        let n = self.sync.groups[g as usize].members.len();
        (0..n).for_each(|_| self.sync.leave(g));
        (done, all)
    }

    fn generation(&self) -> u32 {
        self.undef.as_ref().map_or(0, |u| u.generation)
    }

    fn write_results(&mut self, c: usize, id: InstId, g: &Group) -> Result<(), Stop> {
        if !matches!(self.cores[c].plans.get(&id), Some(Some(_))) {
            return Ok(());
        }
        self.catch_up()?;
        let core = &self.cores[c];
        let Some(Some(plan)) = core.plans.get(&id) else { return Ok(()) };
        let alone = g.members.len() == 1;
        let input = |m: usize, k: usize| -> Option<&Payload> {
            let who = plan.members.get(m)?;
            let member = g.members.iter().find(|x| x.core == *who as usize || alone)?;
            member.inputs.get(k)
        };
        let d = &core.code.decoded[id.index()];
        let any_marks = g.members.iter().any(|m| m.inputs.iter().any(|p| p.marks.is_some()));
        // Outputs that were defined by an earlier turn, and nothing has become undefined since.
        let defined = !any_marks && self.undef.as_ref().is_some_and(|u| u.known_clean(c, id.index()));
        for k in 0..d.outs.len() {
            let Some(Arg::View(out)) = d.outs.get(k) else {
                return Err(Machine::stop_at(id, codes::S0002, "a collective takes plain memory operands"));
            };
            let shape = Shape::of(out);
            if let Some(u) = &mut self.undef
                && plan.writes()
                && !defined
            {
                let marked = !plan.folds() && any_marks;
                // The marks go the way of the bytes.
                let mut moved = None;
                if marked {
                    let shadows: Vec<SmallVec<[Payload; 1]>> =
                        g.members.iter().map(|m| m.inputs.iter().map(shadow).collect()).collect();
                    let of = |m: usize, k: usize| -> Option<&Payload> {
                        let who = plan.members.get(m)?;
                        let at = g.members.iter().position(|x| x.core == *who as usize || alone)?;
                        shadows[at].get(k)
                    };
                    let bytewise =
                        Shape { dtype: Dtype::Uint8, row_elems: shape.row_elems * out.elem_size(), ..shape };
                    moved = result(plan, k, bytewise, &of, &self.opts.profile).ok().flatten();
                }
                match moved {
                    Some(marks) if marks.len() == out.num_bytes() => u.scatter(out, &marks),
                    _ => u.define(out),
                }
            }
            // The plain swap moves bytes without a copy in between.
            if plan.kind == CollectiveKind::SendRecv
                && let Some(p) = plan.recv.first().and_then(|r| input(*r, k))
                && p.dtype == out.dtype
                && p.bytes.len() == out.num_bytes()
            {
                if self.opts.profile.sb2sb_int32 != Sb2SbInt32::BitCopy
                    && core.module.insts[id].opcode == tandem_bir::Opcode::GpsimdSb2Sb
                    && p.dtype.is_int()
                {
                    let rules = crate::num::convert::Rules::of(&self.opts.profile);
                    let mut v = vec![0f32; out.num_elems()];
                    crate::num::convert::to_f32(p.dtype, &p.bytes, &mut v, rules);
                    let mut b = vec![0u8; p.bytes.len()];
                    crate::num::convert::from_f32(p.dtype, &v, &mut b, rules);
                    self.mem.scatter(out, &b);
                } else {
                    self.mem.scatter(out, &p.bytes);
                }
                continue;
            }
            let bytes = result(plan, k, shape, &input, &self.opts.profile)
                .map_err(|(code, text)| Machine::stop_at(id, code, text))?;
            if let Some(b) = bytes {
                self.mem.scatter(out, &b);
            }
        }
        if !any_marks
            && plan.writes()
            && core.code.recipes[id.index()].is_empty()
            && let Some(u) = &mut self.undef
            && g.members.iter().all(|m| m.generation == u.generation)
        {
            u.set_clean(c, id.index());
        }
        Ok(())
    }

    /// What the members brought must fit.
    fn compare(&mut self, g: u32) -> Result<(), Stop> {
        let group = &self.sync.groups[g as usize];
        let swap = match self.sync.channel(group.channel) {
            Channel::Swap { .. } | Channel::Sb2Sb { .. } => true,
            Channel::Collective { .. } => false,
            Channel::Barrier { .. } | Channel::BarrierId { .. } | Channel::Notify { .. } => return Ok(()),
        };
        let n = group.n;
        let first = &group.members[0];
        let mut why: Option<(usize, String)> = None;
        for m in &group.members {
            let plan_of = |x: &Member| self.cores[x.core].plans.get(&x.inst).and_then(Option::as_ref);
            let (Some(a), Some(p)) = (plan_of(first), plan_of(m)) else { continue };
            let text = if swap { self.compare_swap(p, m, &group.members, g) } else { compare_plans(a, p) };
            if let Some(t) = text {
                why = Some((m.core, t));
                break;
            }
        }
        let Some((bad, text)) = why else { return Ok(()) };
        let (code, head) = if swap {
            (codes::S0012, format!("swap #{n} does not fit: {text}"))
        } else {
            let (a, b) = (self.cores[first.core].id, self.cores[bad].id);
            (codes::S0014, format!("collective #{n} disagrees between core {a} and core {b}: {text}"))
        };
        let sites = group.members.iter().map(|m| self.site(m.core, m.inst)).collect();
        let mut d = tandem_bir::diag::Diagnostic::new(code, head);
        d.sites = sites;
        self.diagnostics.push(d);
        Err(Stop { inst: None, fault: Fault::new(code, "") })
    }

    fn compare_swap(&self, p: &Plan, m: &Member, members: &[Member], g: u32) -> Option<String> {
        let _ = g;
        let from = p.recv.first().copied()?;
        let who = *p.members.get(from)?;
        let partner = members.iter().find(|x| x.core == who as usize)?;
        let theirs = self.cores[partner.core].plans.get(&partner.inst).and_then(Option::as_ref)?;
        let me = self.cores[m.core].id;
        if theirs.send != Some(p.me) {
            let to = theirs.send.map_or_else(|| "nobody".to_owned(), |s| format!("core {s}"));
            return Some(format!("core {me} receives from core {from}, which sends to {to}"));
        }
        let out = shape_of(&self.cores[m.core].code.decoded[m.inst.index()], 0)?;
        let sent = partner.inputs.first()?;
        let sent = Shape { dtype: sent.dtype, rows: sent.rows, row_elems: sent.row_elems };
        (out != sent).then(|| format!("core {me} receives {sent} into {out}"))
    }

    /// A core arrives at a CoreBarrier; its segment is complete.
    pub(crate) fn arrive_barrier(&mut self, c: usize, id: InstId, inst: &Inst) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let t = core.topo;
        let mut cores: SmallVec<[u32; 4]> = SmallVec::new();
        for x in inst.get_ints(Attr::Cores) {
            let ok = usize::try_from(*x).ok().filter(|x| *x < t.lnc);
            let Some(x) = ok else {
                let text = format!("core {x} of the barrier is not one of the {} of the LNC", t.lnc);
                return Err(Machine::stop_at(id, codes::S0017, text));
            };
            cores.push((t.my_lnc * t.lnc + x) as u32);
        }
        if cores.is_empty() {
            cores.extend((0..t.lnc).map(|x| (t.my_lnc * t.lnc + x) as u32));
        }
        cores.sort_unstable();
        cores.dedup();
        if !cores.contains(&(c as u32)) {
            core.executed[inst.opcode as usize] += 1;
            return Ok(());
        }
        let clock = self.race.as_mut().map(|r| r.clock(r.thread(c, 0)));
        let core = &mut self.cores[c];
        let member =
            Member { core: c, inst: id, queue: 0, item: 0, clock, inputs: SmallVec::new(), generation: 0 };
        let channel = Channel::Barrier { cores: cores.clone() };
        let (g, full) = self.sync.arrive(channel, &mut core.counters, &cores, member);
        if let Some(t) = &mut self.timing {
            let group = &self.sync.groups[g as usize];
            t.barrier(c, id, (group.channel, group.n), cores.len());
        }
        core.phase = Phase::Barrier { group: g, inst: id, released: false };
        if full {
            self.compare_barriers(g)?;
            self.release(g);
        }
        Ok(())
    }

    fn compare_barriers(&mut self, g: u32) -> Result<(), Stop> {
        let group = &self.sync.groups[g as usize];
        let inst = |m: &Member| &self.cores[m.core].module.insts[m.inst];
        let first = inst(&group.members[0]);
        let id = |i: &Inst| i.get_int(Attr::Id);
        let Some(other) = group.members.iter().find(|m| {
            let i = inst(m);
            i.name != first.name && id(i) != id(first)
        }) else {
            return Ok(());
        };
        let text = format!(
            "the cores meet at different barriers: `{}` (id {}) and `{}` (id {})",
            first.name,
            id(first).unwrap_or(0),
            inst(other).name,
            id(inst(other)).unwrap_or(0)
        );
        let mut d = tandem_bir::diag::Diagnostic::new(codes::S0013, text);
        let n = group.n;
        d.sites = group
            .members
            .iter()
            .map(|m| self.site(m.core, m.inst).label(format!("barrier #{n} of its core: first unmatched")))
            .collect();
        for m in &group.members {
            let core = &self.cores[m.core];
            d = d.note(match core.last_sync {
                Some(id) => format!(
                    "core {}: last synchronisation that matched: {}",
                    core.id,
                    tandem_bir::diag::render::site_text(&self.site(m.core, id))
                ),
                None => format!("core {}: no synchronisation has matched yet", core.id),
            });
        }
        d = d.help(
            "make both cores come to the same barriers in the same order: compare trip counts and branches",
        );
        self.diagnostics.push(d);
        Err(Stop { inst: None, fault: Fault::new(codes::S0013, "") })
    }

    /// A core goes on behind a barrier.
    pub(crate) fn leave_barrier(&mut self, c: usize, id: InstId, g: u32) {
        if let Some(race) = &mut self.race {
            for m in &self.sync.groups[g as usize].members {
                if let Some(clock) = &m.clock {
                    race.core_learns(c, clock);
                }
            }
        }
        self.sync.leave(g);
        let core = &mut self.cores[c];
        core.executed[core.module.insts[id].opcode as usize] += 1;
        core.last_sync = Some(id);
        core.phase = Phase::Control;
    }

    /// The head of queue `q` arrives at a completion token; all its own producers are complete.
    pub(crate) fn arrive_token(&mut self, c: usize, q: usize, i: u32, id: InstId) -> Arrival {
        let token = self.sync.token_of.get(&(c, id)).copied();
        let (Some(t), Ptcom::P2p) = (token, self.opts.ptcom) else {
            return Arrival::Complete;
        };
        if let Some(race) = &mut self.race {
            let thread = race.thread(c, q);
            race.token_arrive(t as usize, c, thread);
        }
        let tok = &mut self.sync.tokens[t as usize];
        tok.arrived[c] += 1;
        let n = tok.arrived[c];
        tok.waiting.push((c, q));
        if let Some(r) = &mut self.timing {
            r.token(c, i, t, n);
        }
        self.cores[c].run.waits[q] = Some(Wait::Token { token: t, n, released: false });
        let waiting = std::mem::take(&mut self.sync.tokens[t as usize].waiting);
        let mut still = Vec::new();
        for (wc, wq) in waiting {
            let tok = &self.sync.tokens[t as usize];
            let mut go = false;
            if let Some(Wait::Token { n, released, .. }) = &mut self.cores[wc].run.waits[wq] {
                go = tok.writers.iter().all(|w| tok.arrived[*w] >= *n);
                *released = go;
            }
            if go {
                self.refresh(wc);
            } else {
                still.push((wc, wq));
            }
        }
        self.sync.tokens[t as usize].waiting = still;
        Arrival::Waits
    }
}

fn compare_plans(a: &Plan, b: &Plan) -> Option<String> {
    if a.kind != b.kind {
        return Some(format!("kinds {} and {}", a.kind, b.kind));
    }
    if a.op != b.op {
        return Some(format!("operators {} and {}", a.op, b.op));
    }
    if a.pairs != b.pairs {
        return Some("source-target pairs differ".into());
    }
    if a.members != b.members {
        return Some("replica groups differ".into());
    }
    if a.along_rows != b.along_rows {
        return Some("dimensions differ".into());
    }
    if a.pipe != b.pipe {
        return Some(format!("pipes {} and {}", a.pipe, b.pipe));
    }
    None
}
