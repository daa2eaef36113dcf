//! What the machine did, as work to be timed: filled while the functional run goes on, one node per execution.
//!
//! Nodes are numbered by core, phase and position in the segment, never by the order in which the schedule ran them, so that
//! the record of a race-free program is the same under every schedule.

use super::cost::{Cost, Model};
use super::params::{Generation, Params, Span};
use crate::code::{ALL_QUEUES, Action};
use crate::exec::Decoded;
use crate::machine::Core;
use crate::memory::Memory;
use rustc_hash::FxHashMap;
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::{EngineKind, Inst, InstId};

/// Engines of the in-order queues.
pub(crate) const ENGINES: [EngineKind; QUEUES] =
    [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp];

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

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
    /// Segment, or [`NONE`] for a control step of one node.
    pub(crate) seg: u32,
}

/// What kind of meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeetKind {
    Swap,
    Collective,
    Barrier,
    Notify,
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
            MeetKind::Barrier | MeetKind::Token { .. } => whole,
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
    /// Queue of a node of this phase; [`ALL_QUEUES`] for what holds all engines.
    pub(crate) fn queue(self, core: &Core<'_>, n: usize) -> u8 {
        if self.seg == NONE {
            return ALL_QUEUES;
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
