//! What the machine did, as work to be timed: filled while the functional run goes on, one node per execution.
//!
//! Nodes are numbered by core, phase and position in the segment, never by the order in which the schedule ran them, so that
//! the record of a race-free program is the same under every schedule. At levels `linked` and `bundles` there are no segments: nodes
//! are numbered by core, engine and place in what the engine executed.

use super::cost::{Cost, Model};
use super::params::{Generation, Params, Span};
use crate::code::{ALL_QUEUES, Action};
use crate::exec::{Arg, Decoded};
use crate::machine::Core;
use crate::memory::{BufId, Memory};
use crate::race::footprint;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use tandem_bir::analysis::footprint::{Footprint, overlaps};
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::{EngineKind, Inst, InstId};

/// Engines of the in-order queues.
pub(crate) const ENGINES: [EngineKind; QUEUES] =
    [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp];

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// First of the marks of phases that are streams: the mark of an engine's stream is this plus its queue.
const STREAM: u32 = NONE - QUEUES as u32;
/// Instructions before one on its engine that may still be under way when it starts, at most (our choice).
pub(crate) const WINDOW: usize = 16;

/// An execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) inst: InstId,
    /// Index into [`Recorder::costs`].
    pub(crate) cost: u32,
    /// Index into [`Recorder::meets`], or [`NONE`].
    pub(crate) meet: u32,
}

/// A stretch of a core's work; begins when the one before is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    /// First node.
    pub(crate) first: u32,
    /// Segment, [`NONE`] for a control step of one node, or the mark of a stream.
    pub(crate) seg: u32,
}

/// What kind of meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetKind {
    Swap,
    Collective,
    Barrier,
    Notify,
    /// The engines of one core.
    Join,
    /// The `n`-th execution of a completion token.
    Token {
        token: u32,
        n: u64,
    },
}

impl MeetKind {
    /// Part of a meeting that waits: a barrier and a token wait all the time, the others until the last partner is there.
    pub(crate) fn waits(self, whole: u64, late: u64) -> u64 {
        match self {
            MeetKind::Barrier | MeetKind::Join | MeetKind::Token { .. } => whole,
            MeetKind::Swap | MeetKind::Collective => late.min(whole),
            MeetKind::Notify => 0,
        }
    }
}

/// A meeting of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meet {
    pub(crate) kind: MeetKind,
    /// Members.
    pub(crate) expect: u32,
}

impl Phase {
    /// The engine whose stream this is.
    pub(crate) fn stream(self) -> Option<u8> {
        (STREAM..NONE).contains(&self.seg).then(|| (self.seg - STREAM) as u8)
    }
    /// Queue of a node of this phase; [`ALL_QUEUES`] for what holds all engines.
    pub(crate) fn queue(self, core: &Core<'_>, n: usize) -> u8 {
        if self.seg == NONE {
            return ALL_QUEUES;
        }
        if let Some(q) = self.stream() {
            return q;
        }
        core.code.segments[self.seg as usize].queue_of[n - self.first as usize]
    }
}

/// Work of a core.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) nodes: Vec<Node>,
    pub(crate) phases: Vec<Phase>,
    /// Cost of an instruction's last execution.
    fixed: Vec<u32>,
    /// At levels `linked` and `bundles`, until the end of the run: what each engine executed.
    streams: [StreamWork; QUEUES],
    /// The engine that executes now.
    now: usize,
    /// Which of the nodes before one on its engine its operands depend on, one bit each; per node, as [`Self::nodes`].
    pub(crate) hazards: Vec<u16>,
}

/// What an engine executed.
#[derive(Debug, Default)]
struct StreamWork {
    nodes: Vec<Node>,
    hazards: Vec<u16>,
    /// Operands of those that may be under way still.
    recent: VecDeque<Recent>,
    joins: u64,
}

/// Bytes that an execution reads and writes.
#[derive(Debug, Default)]
struct Recent {
    reads: Touched,
    writes: Touched,
    cost: u32,
    /// Its node.
    at: usize,
}

/// Footprints by buffer.
type Touched = SmallVec<[(BufId, Footprint); 2]>;

fn touched(args: &[Arg], mem: &Memory) -> Touched {
    let view = |a: &Arg| match a {
        Arg::View(v) => Some((v.buf, footprint(v, mem.info(v.buf).pitch))),
        Arg::Indexed(x) => Some((x.view.buf, footprint(&x.view, mem.info(x.view.buf).pitch))),
        Arg::Imm(_) | Arg::Reg(_) => None,
    };
    args.iter().filter_map(view).collect()
}

fn share(a: &Touched, b: &Touched) -> bool {
    a.iter().any(|(k, f)| b.iter().any(|(l, g)| k == l && overlaps(f, g)))
}

/// Collects the work.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) params: Params,
    pub(crate) g: Generation,
    pub(crate) costs: Vec<Cost>,
    pub(crate) cores: Vec<Work>,
    pub(crate) meets: Vec<Meet>,
    /// Executions that may still be noted.
    room: u64,
    keys: FxHashMap<(u32, u64), u32>,
    /// Engines run streams.
    pub(crate) streamed: bool,
    /// Costs of a branch on each engine.
    branches: [u32; QUEUES],
}

/// Bytes that an execution takes until the end of a timed run, at most; a meeting comes on top of few.
const NODE_BYTES: u64 = 128;
/// Executions that one cost takes the memory of.
const COST_NODES: u64 = 4;
/// Costs of the first indexes.
const FREE: u32 = 0;
const BRANCH: u32 = 1;
const BARRIER: u32 = 2;

impl Recorder {
    /// For cores with so many instructions, and for so much memory.
    pub(crate) fn new(params: Params, g: Generation, insts: &[usize], memory: u64) -> Recorder {
        let model = Model { params: &params, g };
        let (branch, barrier) = (model.branch(), model.barrier());
        Recorder {
            params,
            g,
            costs: vec![
                Cost::default(),
                Cost { hold: branch, ..Cost::default() },
                Cost { meet: barrier, ..Cost::default() },
            ],
            cores: insts.iter().map(|n| Work { fixed: vec![NONE; *n], ..Work::default() }).collect(),
            meets: Vec::new(),
            room: memory / NODE_BYTES,
            keys: FxHashMap::default(),
            streamed: false,
            branches: [BRANCH; QUEUES],
        }
    }
    /// The same for engines that run streams.
    pub(crate) fn streams(mut self) -> Recorder {
        self.streamed = true;
        for (q, e) in ENGINES.into_iter().enumerate() {
            let hold = self.model().branch_of(e);
            self.branches[q] = self.costs.len() as u32;
            self.costs.push(Cost { hold, ..Cost::default() });
        }
        self
    }
    /// An engine executes the next instruction of its stream.
    pub(crate) fn stream(&mut self, c: usize, engine: EngineKind, inst: InstId) {
        let posts = 2;
        if !self.take(posts) {
            return;
        }
        let w = &mut self.cores[c];
        w.now = ENGINES.iter().position(|e| *e == engine).unwrap_or(QUEUES - 1);
        let s = &mut w.streams[w.now];
        s.nodes.push(Node { inst, cost: FREE, meet: NONE });
        s.hazards.push(0);
    }
    /// The execution is a branch.
    pub(crate) fn stream_branch(&mut self, c: usize) {
        if self.is_full() {
            return;
        }
        let cost = self.branches[self.cores[c].now];
        if let Some(n) = self.at(c, 0) {
            n.cost = cost;
        }
    }
    /// The execution meets the other engines of its core.
    pub(crate) fn stream_join(&mut self, c: usize, engines: usize) {
        if self.is_full() {
            return;
        }
        let w = &mut self.cores[c];
        let s = &mut w.streams[w.now];
        s.joins += 1;
        // No channel has such a number.
        let key = (NONE - c as u32, s.joins);
        self.meet(c, 0, key, MeetKind::Join, engines);
    }
    /// The execution arrives at a CoreBarrier.
    pub(crate) fn stream_barrier(&mut self, c: usize, key: (u32, u64), expect: usize) {
        self.meet(c, 0, key, MeetKind::Barrier, expect);
        if let Some(n) = self.at(c, 0) {
            n.cost = BARRIER;
        }
    }
    /// The execution's operands against those of the executions before it on its engine that may not be complete.
    fn hazards(&mut self, c: usize, cost: u32, d: &Decoded, mem: &Memory) {
        let w = &mut self.cores[c];
        let s = &mut w.streams[w.now];
        let mut reads = touched(&d.ins, mem);
        reads.extend(touched(&d.indirect, mem));
        let writes = touched(&d.outs, mem);
        let at = s.nodes.len();
        let (mut bits, mut since, mut kept) = (0u16, 0u64, 0);
        for (k, r) in s.recent.iter().enumerate() {
            let x = &self.costs[r.cost as usize];
            let back = at - r.at - 1;
            if since < x.pipe.ps() && back < WINDOW {
                kept = k + 1;
                let one = share(&r.writes, &reads) || share(&r.writes, &writes) || share(&r.reads, &writes);
                bits |= u16::from(one) << back;
            }
            since = since.saturating_add(x.hold.ps());
        }
        s.recent.truncate(kept);
        s.recent.push_front(Recent { reads, writes, cost, at });
        if let Some(h) = s.hazards.last_mut() {
            *h = bits;
        }
    }
    /// The run is over: nodes of streams get their numbers, engine by engine.
    pub(crate) fn finish(&mut self) {
        for w in &mut self.cores {
            for (q, s) in std::mem::take(&mut w.streams).into_iter().enumerate() {
                if s.nodes.is_empty() {
                    continue;
                }
                w.phases.push(Phase { first: w.nodes.len() as u32, seg: STREAM + q as u32 });
                w.nodes.extend(s.nodes);
                w.hazards.extend(s.hazards);
            }
        }
    }
    /// Stretches of a core's work, and the nodes of each.
    pub(crate) fn phases(&self, c: usize) -> impl Iterator<Item = (Phase, std::ops::Range<usize>)> + '_ {
        let w = &self.cores[c];
        w.phases.iter().enumerate().map(|(k, p)| {
            let end = w.phases.get(k + 1).map_or(w.nodes.len(), |next| next.first as usize);
            (*p, p.first as usize..end)
        })
    }
    /// More was executed than there is memory to time.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }
    fn take(&mut self, n: usize) -> bool {
        self.room = self.room.saturating_sub(n as u64);
        self.room > 0
    }
    /// A core enters a segment.
    pub(crate) fn segment(&mut self, c: usize, seg: u32, insts: &[InstId]) {
        if !self.take(insts.len().max(1)) {
            return;
        }
        let w = &mut self.cores[c];
        w.phases.push(Phase { first: w.nodes.len() as u32, seg });
        w.nodes.extend(insts.iter().map(|i| Node { inst: *i, cost: FREE, meet: NONE }));
    }
    /// A core takes a branch, a call or a back edge.
    pub(crate) fn control(&mut self, c: usize, inst: InstId) {
        if !self.take(1) {
            return;
        }
        let w = &mut self.cores[c];
        w.phases.push(Phase { first: w.nodes.len() as u32, seg: NONE });
        w.nodes.push(Node { inst, cost: BRANCH, meet: NONE });
    }
    /// A core arrives at a CoreBarrier.
    pub(crate) fn barrier(&mut self, c: usize, inst: InstId, key: (u32, u64), expect: usize) {
        if self.is_full() {
            return;
        }
        self.control(c, inst);
        let meet = self.meet_of(key, MeetKind::Barrier, expect);
        if let Some(n) = self.cores[c].nodes.last_mut() {
            n.cost = BARRIER;
            n.meet = meet;
        }
    }
    fn meet_of(&mut self, key: (u32, u64), kind: MeetKind, expect: usize) -> u32 {
        let next = self.meets.len() as u32;
        let k = *self.keys.entry(key).or_insert(next);
        if k == next {
            self.meets.push(Meet { kind, expect: expect as u32 });
        }
        k
    }
    fn at(&mut self, c: usize, i: u32) -> Option<&mut Node> {
        let w = &mut self.cores[c];
        if self.streamed {
            return w.streams[w.now].nodes.last_mut();
        }
        let first = w.phases.last()?.first;
        w.nodes.get_mut(first.checked_add(i)? as usize)
    }
    /// Position `i` of the segment starts, its operands resolved.
    #[allow(clippy::too_many_arguments, reason = "everything that a cost may depend on")]
    pub(crate) fn issue(
        &mut self,
        c: usize,
        i: u32,
        action: Action,
        inst: &Inst,
        d: &Decoded,
        mem: &Memory,
        dynamic: bool,
    ) {
        use tandem_bir::entity::EntityRef as _;
        if self.is_full() {
            return;
        }
        let known = self.cores[c].fixed[d.inst.index()];
        let k = if known != NONE && !dynamic {
            known
        } else {
            let cost = Model { params: &self.params, g: self.g }.cost(action, inst, d, mem, dynamic);
            // Most run-time addresses change nothing.
            if known != NONE && self.costs[known as usize] == cost {
                known
            } else {
                self.room = self.room.saturating_sub(COST_NODES);
                self.costs.push(cost);
                self.costs.len() as u32 - 1
            }
        };
        self.cores[c].fixed[d.inst.index()] = k;
        if let Some(n) = self.at(c, i) {
            n.cost = k;
        }
        if self.streamed {
            self.hazards(c, k, d, mem);
        }
    }
    /// Position `i` takes part in a meeting.
    pub(crate) fn meet(&mut self, c: usize, i: u32, key: (u32, u64), kind: MeetKind, expect: usize) {
        if self.is_full() {
            return;
        }
        let m = self.meet_of(key, kind, expect);
        if let Some(n) = self.at(c, i) {
            n.meet = m;
        }
    }
    /// Position `i` arrives at a completion token that other cores write, too.
    pub(crate) fn token(&mut self, c: usize, i: u32, token: u32, n: u64) {
        if self.is_full() {
            return;
        }
        self.meets.push(Meet { kind: MeetKind::Token { token, n }, expect: 1 });
        let m = self.meets.len() as u32 - 1;
        if let Some(node) = self.at(c, i) {
            node.meet = m;
        }
    }
    /// Cost model of the run.
    pub(crate) fn model(&self) -> Model<'_> {
        Model { params: &self.params, g: self.g }
    }
    /// Time before the first instruction.
    pub(crate) fn overhead(&self) -> Span {
        match self.params.back_end {
            super::params::BackEnd::Unit => Span::ZERO,
            super::params::BackEnd::Doc | super::params::BackEnd::Hwm => {
                self.model().ns(super::params::P::FixedOverhead)
            }
        }
    }
}
