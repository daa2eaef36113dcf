//! The clock of levels `linked` and `bundles`: engines run their streams in order, semaphores count in the order of time.
//!
//! An execution starts when its engine is free, what it depends on in its own engine's pipeline is complete, and its waits hold.
//! An update arrives a semaphore's way after the execution is complete: `SEM_LOCAL` from an engine, `SEM_DMA` from a
//! transfer, and one way between the cores on top when the semaphore is another core's. A reset takes effect when it is complete.
//!
//! Inside an engine no semaphore holds the order, so the pipeline does (our choice): an execution whose operands overlap those
//! of an execution before it that is not complete waits for it, unless both only read. That is what the edges of level `lowered`
//! say, and it can be told from bundles alone.

use super::clock::{Clock, Edge, Event, NOBODY, Times};
use super::params::BackEnd;
use super::record::{NONE, WINDOW};
use crate::queue_style::SEMAPHORES;
use std::cmp::Reverse;
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::inst::SyncInfo;
use tandem_bir::{Attr, Opcode};

/// A value that a counter came to, when, and who brought it there.
#[derive(Clone, Copy)]
struct Step {
    t: u64,
    value: i32,
    from: (u32, u32),
    edge: Edge,
}

/// A counter of a core.
#[derive(Default)]
struct Counter {
    value: i32,
    /// What happened since the last reset.
    steps: Vec<Step>,
    /// Somebody lowered it.
    lowered: bool,
}

impl Counter {
    /// The step after which the value is this much for good; `None` when it was from the beginning.
    fn reached(&self, value: i64) -> Option<Step> {
        if self.lowered {
            return self.steps.last().copied();
        }
        let k = self.steps.partition_point(|s| i64::from(s.value) < value);
        self.steps.get(k).filter(|_| value > 0).copied()
    }
}

/// One core.
struct CoreStreams {
    /// Next execution of each engine, and one past its last.
    next: [(u32, u32); QUEUES],
    /// The head waits for a semaphore.
    blocked: [bool; QUEUES],
    /// An execution has started and its engine is not free.
    busy: [bool; QUEUES],
    /// The execution before the head on its engine.
    before: [u32; QUEUES],
    counters: Vec<Counter>,
}

/// Streams and counters of all cores.
pub(super) struct Streams(Vec<CoreStreams>);

impl Streams {
    pub(super) fn new(cores: usize) -> Streams {
        let core = || CoreStreams {
            next: [(0, 0); QUEUES],
            blocked: [false; QUEUES],
            busy: [false; QUEUES],
            before: [NONE; QUEUES],
            counters: (0..SEMAPHORES).map(|_| Counter::default()).collect(),
        };
        Streams((0..cores).map(|_| core()).collect())
    }
}

impl Clock<'_, '_, '_> {
    /// All engines of a core stand at their beginning.
    pub(super) fn open_streams(&mut self, c: usize, t0: u64) {
        let w = &self.rec.cores[c];
        self.out.times[c] = vec![Times::from(t0, NOBODY, Edge::Start); w.nodes.len()];
        for (k, p) in w.phases.iter().enumerate() {
            let Some(q) = p.stream() else { continue };
            let end = w.phases.get(k + 1).map_or(w.nodes.len() as u32, |next| next.first);
            self.streams.0[c].next[usize::from(q)] = (p.first, end);
            self.heap.push(Reverse((t0, Event::Head { c: c as u32, q: u32::from(q) })));
        }
    }

    /// The engine of an execution.
    pub(super) fn stream_of(&self, c: usize, n: u32) -> u8 {
        let phases = &self.rec.cores[c].phases;
        let p = phases.iter().rev().find(|p| p.first <= n);
        p.and_then(|p| p.stream()).unwrap_or(0)
    }

    fn sync(&self, c: usize, n: u32) -> Option<&SyncInfo> {
        let inst = self.rec.cores[c].nodes[n as usize].inst;
        self.cores[c].module.insts[inst].more.as_ref()?.sync.as_ref()
    }

    /// An engine is free for its next execution.
    pub(super) fn next_of_stream(&mut self, c: usize, q: usize, n: u32, t: u64) {
        let s = &mut self.streams.0[c];
        s.before[q] = n;
        s.busy[q] = false;
        if s.next[q].0 < s.next[q].1 {
            self.heap.push(Reverse((t, Event::Head { c: c as u32, q: q as u32 })));
        }
    }

    /// Starts the head of an engine that is free, when its turn has come.
    pub(super) fn head(&mut self, c: usize, q: usize, now: u64) {
        let s = &mut self.streams.0[c];
        let (n, end) = s.next[q];
        if n >= end || s.busy[q] {
            return;
        }
        s.blocked[q] = false;
        let mut x = self.out.times[c][n as usize];
        if s.before[q] != NONE {
            let free = self.out.times[c][s.before[q] as usize].free;
            x.wait(free, (c as u32, s.before[q]), Edge::Engine);
        }
        let hazards = self.rec.cores[c].hazards[n as usize];
        for back in (0..WINDOW as u32).filter(|b| hazards & (1 << b) != 0) {
            let p = n - 1 - back;
            x.wait(self.out.times[c][p as usize].done, (c as u32, p), Edge::Producer);
        }
        let mut holds = true;
        for w in self.sync(c, n).iter().flat_map(|s| &s.on_wait) {
            let Some(k) = self.streams.0[c].counters.get(w.sem as usize) else { continue };
            if i64::from(k.value) < w.value {
                holds = false;
            } else if let Some(s) = k.reached(w.value) {
                x.wait(s.t, s.from, s.edge);
            }
        }
        if !holds {
            self.streams.0[c].blocked[q] = true;
            return;
        }
        if x.ready > now {
            self.heap.push(Reverse((x.ready, Event::Head { c: c as u32, q: q as u32 })));
            return;
        }
        self.out.times[c][n as usize] = x;
        let s = &mut self.streams.0[c];
        s.next[q].0 = n + 1;
        s.busy[q] = true;
        self.heap.push(Reverse((now, Event::Issue { c: c as u32, n })));
    }

    /// An execution is complete: its updates are on their way.
    pub(super) fn post(&mut self, c: usize, n: u32, t: u64) {
        let inst = self.rec.cores[c].nodes[n as usize].inst;
        if self.cores[c].module.insts[inst].opcode == Opcode::GroupResetSemaphores {
            self.heap.push(Reverse((t, Event::Reset { c: c as u32, n })));
        }
        let doc = self.rec.params.back_end == BackEnd::Doc;
        let wire = match self.cost(c, n).transfer {
            _ if !doc => 0,
            Some(_) => self.model.landing().ps(),
            None => self.model.join().ps(),
        };
        let own = c % self.lnc;
        let far = |to: Option<u32>| to.is_some_and(|to| to as usize != own);
        let remote = self.model.remote().ps();
        let ways: smallvec::SmallVec<[u64; 4]> = self
            .sync(c, n)
            .iter()
            .flat_map(|s| &s.on_update)
            .map(|u| wire.saturating_add(if far(u.target_core) { remote } else { 0 }))
            .collect();
        for (k, way) in ways.into_iter().enumerate() {
            let e = Event::Update { c: c as u32, n, k: k as u32 };
            self.heap.push(Reverse((t.saturating_add(way), e)));
        }
    }

    /// An update arrives.
    pub(super) fn update(&mut self, c: usize, n: u32, k: usize, t: u64) {
        let Some(u) = self.sync(c, n).and_then(|s| s.on_update.get(k)).cloned() else { return };
        let to = u.target_core.map_or(c, |to| c / self.lnc * self.lnc + to as usize);
        let edge = if self.cost(c, n).transfer.is_some() { Edge::Transfer } else { Edge::Producer };
        let Some(core) = self.streams.0.get_mut(to) else { return };
        let Some(x) = core.counters.get_mut(u.sem as usize) else { return };
        x.value = x.value.wrapping_add(u.value as i32);
        x.lowered |= u.value < 0;
        x.steps.push(Step { t, value: x.value, from: (c as u32, n), edge });
        for (q, _) in core.blocked.iter().enumerate().filter(|b| *b.1) {
            self.heap.push(Reverse((t, Event::Head { c: to as u32, q: q as u32 })));
        }
    }

    /// Semaphores of a core start again.
    pub(super) fn reset(&mut self, c: usize, n: u32) {
        let inst = self.rec.cores[c].nodes[n as usize].inst;
        for s in self.cores[c].module.insts[inst].get_ints(Attr::SemaGroup).iter() {
            let at = usize::try_from(*s).unwrap_or(usize::MAX);
            if let Some(k) = self.streams.0[c].counters.get_mut(at) {
                *k = Counter::default();
            }
        }
    }

    /// Executions whose turn never came.
    pub(super) fn streams_left(&self) -> usize {
        let left =
            |s: &CoreStreams| s.next.iter().map(|(n, end)| end.saturating_sub(*n) as usize).sum::<usize>();
        let open: usize = self.open_meetings();
        self.streams.0.iter().map(left).sum::<usize>() + if self.rec.streamed { open } else { 0 }
    }
}
