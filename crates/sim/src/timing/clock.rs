//! The clock: gives every recorded execution its times, in the order of time.
//!
//! An instruction starts when its engine is free, its producers are complete (and the semaphore has arrived), its meeting's
//! partners are there and its ports are free. Whoever is ready first gets a shared resource; ties go to the lower core, then
//! to the earlier node, so times do not depend on the functional schedule. Picoseconds, integers.
//!
//! At levels `linked` and `bundles` engines run streams, and semaphores take the place of edges (`streams`).

use super::cost::{Cost, Dge, LANES, Model, PORTS};
use super::params::{BackEnd, P, Span, ps};
use super::record::{ENGINES, MeetKind, NONE, Recorder};
use super::streams::Streams;
use super::trace::{TraceLane, TraceSink};
use crate::code::{ALL_QUEUES, Segment};
use crate::machine::Core;
use crate::sync::Token;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tandem_bir::EngineKind;
use tandem_bir::analysis::queue::QUEUES;

/// Why an execution started when it did, or what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The beginning.
    Start,
    /// The instruction before it on its engine.
    Engine,
    /// A producer on an engine.
    Producer,
    /// A transfer.
    Transfer,
    /// The end of the block or segment before.
    Join,
}

/// Times of an execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// All it waits for has come.
    pub(crate) ready: u64,
    pub(crate) issue: u64,
    /// Its engine is free again.
    pub(crate) free: u64,
    /// Its result is there.
    pub(crate) done: u64,
    /// Whom it waited for last.
    pub(crate) from: (u32, u32),
    pub(crate) edge: Edge,
    /// Last member to arrive at its meeting.
    pub(crate) last: (u32, u32),
    /// Added by the PE's current limit; of a transfer, when its first DMA engine may start.
    pub(crate) extra: u64,
    left: u32,
}

impl Times {
    /// Of an execution that nothing holds from this time on.
    pub(super) fn from(ready: u64, from: (u32, u32), edge: Edge) -> Times {
        Times { ready, issue: 0, free: 0, done: 0, from, edge, last: NOBODY, extra: 0, left: 0 }
    }
    /// It waits for this, too.
    pub(super) fn wait(&mut self, t: u64, from: (u32, u32), edge: Edge) {
        // Equal times: the lower number, so that the path is the same whoever came first.
        if t > self.ready || (t == self.ready && (edge as u8, from) < (self.edge as u8, self.from)) {
            self.ready = t;
            self.from = from;
            self.edge = edge;
        }
    }
}

pub(super) const NOBODY: (u32, u32) = (NONE, NONE);

/// Result of the clock.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Start of the first instruction.
    pub(crate) start: u64,
    /// End of the last.
    pub(crate) total: u64,
    /// Times per core and node.
    pub(crate) times: Vec<Vec<Times>>,
    /// Node that ended last.
    pub(crate) last: Option<(u32, u32)>,
    /// Moving packets, per core and DMA engine.
    pub(crate) dma_busy: Vec<[u64; LANES]>,
    /// At least one DMA engine of the core moves a packet.
    pub(crate) dma_active: Vec<u64>,
    /// Delay of packets by the HBM cap.
    pub(crate) hbm_wait: u64,
    /// Last byte of transfers that then wait for others.
    pub(crate) landed: FxHashMap<(u32, u32), u64>,
    /// Executions that never came to their turn: in the order of time the run does not end.
    pub(crate) stuck: usize,
}

impl Timeline {
    /// Last byte of a transfer.
    pub(crate) fn landed(&self, c: usize, n: usize) -> u64 {
        let known = self.landed.get(&(c as u32, n as u32)).copied();
        known.unwrap_or_else(|| self.times[c][n].done)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// An instruction sets its semaphores to 0.
    Reset {
        c: u32,
        n: u32,
    },
    /// An update of an instruction arrives.
    Update {
        c: u32,
        n: u32,
        k: u32,
    },
    /// The head of a stream may be able to start.
    Head {
        c: u32,
        q: u32,
    },
    Issue {
        c: u32,
        n: u32,
    },
    Lane {
        c: u32,
        k: u32,
    },
}

/// A transfer's work on one DMA engine.
#[derive(Clone, Copy, Debug)]
struct Job {
    n: u32,
    class: u8,
    from: u64,
    /// Pieces left, and bytes of the piece being moved that are left.
    pieces: u64,
    rest: u64,
}

#[derive(Debug, Default)]
struct Lane {
    jobs: [VecDeque<Job>; QUEUES],
    next: usize,
    busy: u64,
    /// Packets without a gap, not handed to the sink yet.
    run: Option<TraceLane>,
}

/// Union of intervals that come in the order of a lower bound of their starts.
#[derive(Debug, Default)]
struct Union {
    /// Intervals that start later than the bound.
    late: BinaryHeap<Reverse<(u64, u64)>>,
    until: u64,
    sum: u64,
}

impl Union {
    fn merge(&mut self, from: u64, to: u64) {
        self.sum = self.sum.saturating_add(to.saturating_sub(from.max(self.until)));
        self.until = self.until.max(to);
    }
    /// Adds an interval; no later one starts before `bound`.
    fn add(&mut self, bound: u64, from: u64, to: u64) {
        while let Some(Reverse((f, t))) = self.late.peek().copied().filter(|Reverse((f, _))| *f <= bound) {
            self.late.pop();
            self.merge(f, t);
        }
        if from <= bound {
            self.merge(from, to);
        } else {
            self.late.push(Reverse((from, to)));
        }
    }
    fn finish(mut self) -> u64 {
        while let Some(Reverse((f, t))) = self.late.pop() {
            self.merge(f, t);
        }
        self.sum
    }
}

#[derive(Debug)]
struct Dma {
    lanes: Vec<Lane>,
    /// Start of the last transfer of each queue.
    started: [Option<u64>; QUEUES],
    dge: Vec<u64>,
    /// The one timeline of the `hwm` back end.
    single: u64,
}

struct CoreClock {
    phase: usize,
    left: u32,
    /// Latest completion of the phase, and whose.
    gate: u64,
    gate_from: (u32, u32),
    engine: [u64; QUEUES],
    ports: [u64; PORTS],
    pe_active: u64,
    pe_end: u64,
    /// How long the last product took, and its stationary data.
    pe_last: u64,
    weights: u64,
    /// When each cell of the PE array is free.
    cells: [u64; 16],
    dma: Dma,
}

struct Meeting {
    members: Vec<(u32, u32)>,
}

/// Transfer under way: engines still to end, latest end.
#[derive(Clone, Copy, Default)]
struct Flight {
    lanes: u32,
    end: u64,
}

/// Where a stretch of a run stands in the whole run, and who takes its events.
pub(crate) struct Stage<'s> {
    /// When it starts.
    pub(crate) start: u64,
    /// Index of the module of its first core.
    pub(crate) module: usize,
    /// Number of its first execution.
    pub(crate) first: u64,
    pub(crate) sink: Option<&'s mut dyn TraceSink>,
}

impl Stage<'_> {
    /// Numbers of the first execution of each core.
    pub(crate) fn ids(&self, rec: &Recorder) -> Vec<u64> {
        let mut at = self.first;
        rec.cores
            .iter()
            .map(|w| {
                let id = at;
                at += w.nodes.len() as u64;
                id
            })
            .collect()
    }
}

/// What a segment's queues say about its instructions.
struct Order {
    /// The instruction behind each one in its queue; [`NONE`] at the end, and for an instruction that is in all queues.
    next: Vec<u32>,
    /// Producers and instructions before it in its queues that each one waits for.
    left: Vec<u32>,
}

impl Order {
    fn of(seg: &Segment) -> Order {
        let mut o = Order { next: vec![NONE; seg.insts.len()], left: seg.pending.clone() };
        for q in &seg.queues {
            for w in q.windows(2) {
                o.left[w[1] as usize] += 1;
                if seg.queue_of[w[0] as usize] != ALL_QUEUES {
                    o.next[w[0] as usize] = w[1];
                }
            }
        }
        o
    }
}

pub(crate) struct Clock<'a, 's, 'p> {
    pub(super) rec: &'a Recorder,
    stage: &'a mut Stage<'s>,
    ids: Vec<u64>,
    /// Per core and segment, once it was run.
    orders: Vec<Vec<Option<Order>>>,
    /// DMA engines serve urgent queues first.
    classes: bool,
    active: Vec<Union>,
    pub(super) cores: &'a [Core<'p>],
    tokens: &'a [Token],
    pub(super) lnc: usize,
    pub(super) model: Model<'a>,
    pub(super) heap: BinaryHeap<Reverse<(u64, Event)>>,
    at: Vec<CoreClock>,
    flights: Vec<FxHashMap<u32, Flight>>,
    meetings: Vec<Meeting>,
    /// Arrivals per token and core, and who waits.
    arrived: Vec<Vec<Vec<(u64, u32)>>>,
    waiting: Vec<Vec<(u32, u32, u64)>>,
    /// Theoretical arrival time of the next HBM byte, per LNC.
    hbm: Vec<u64>,
    pub(super) streams: Streams,
    pub(super) out: Timeline,
}

impl<'a, 's, 'p> Clock<'a, 's, 'p> {
    pub(crate) fn new(
        rec: &'a Recorder,
        cores: &'a [Core<'p>],
        tokens: &'a [Token],
        lnc: usize,
        stage: &'a mut Stage<'s>,
    ) -> Self {
        let model = rec.model();
        let units = rec.params.get(P::DgeUnits, rec.g).round().clamp(1.0, 64.0) as usize;
        let at = cores
            .iter()
            .map(|_| CoreClock {
                phase: 0,
                left: 0,
                gate: 0,
                gate_from: NOBODY,
                engine: [0; QUEUES],
                ports: [0; PORTS],
                pe_active: 0,
                pe_end: 0,
                pe_last: 0,
                weights: 0,
                cells: [0; 16],
                dma: Dma {
                    lanes: (0..LANES).map(|_| Lane::default()).collect(),
                    started: [None; QUEUES],
                    dge: vec![0; units],
                    single: 0,
                },
            })
            .collect();
        Clock {
            rec,
            ids: stage.ids(rec),
            orders: cores.iter().map(|c| c.code.segments.iter().map(|_| None).collect()).collect(),
            classes: rec.params.get(P::DmaClasses, rec.g) > 0.0,
            stage,
            active: cores.iter().map(|_| Union::default()).collect(),
            cores,
            tokens,
            lnc: lnc.max(1),
            model,
            heap: BinaryHeap::new(),
            at,
            flights: cores.iter().map(|_| Default::default()).collect(),
            meetings: rec.meets.iter().map(|_| Meeting { members: Vec::new() }).collect(),
            arrived: tokens.iter().map(|_| vec![Vec::new(); cores.len()]).collect(),
            waiting: tokens.iter().map(|_| Vec::new()).collect(),
            hbm: vec![0; cores.len().div_ceil(lnc.max(1))],
            streams: Streams::new(if rec.streamed { cores.len() } else { 0 }),
            out: Timeline { dma_busy: vec![[0; LANES]; cores.len()], ..Timeline::default() },
        }
    }

    /// Runs the clock over a record that is complete.
    pub(crate) fn run(mut self) -> Timeline {
        let t0 = self.stage.start;
        self.out.start = t0;
        self.out.total = t0;
        self.out.times = self.rec.cores.iter().map(|w| Vec::with_capacity(w.nodes.len())).collect();
        for c in 0..self.cores.len() {
            self.at[c].engine = [t0; QUEUES];
            self.at[c].gate = t0;
            if self.rec.streamed {
                self.open_streams(c, t0);
            } else {
                self.open(c);
            }
        }
        while let Some(Reverse((t, e))) = self.heap.pop() {
            match e {
                Event::Issue { c, n } => self.issue(c as usize, n, t),
                Event::Lane { c, k } => self.lane(c as usize, k as usize, t),
                Event::Head { c, q } => self.head(c as usize, q as usize, t),
                Event::Update { c, n, k } => self.update(c as usize, n, k as usize, t),
                Event::Reset { c, n } => self.reset(c as usize, n),
            }
        }
        self.out.stuck = self.streams_left();
        for c in 0..self.at.len() {
            for k in 0..LANES {
                let run = self.at[c].dma.lanes[k].run.take();
                self.emit(run);
            }
        }
        self.out.dma_active = std::mem::take(&mut self.active).into_iter().map(Union::finish).collect();
        self.out
    }

    /// Opens the next phase of a core at its gate.
    fn open(&mut self, c: usize) {
        let w = &self.rec.cores[c];
        let k = &mut self.at[c];
        let Some(p) = w.phases.get(k.phase) else { return };
        let end = w.phases.get(k.phase + 1).map_or(w.nodes.len() as u32, |p| p.first);
        let edge = if k.gate_from == NOBODY { Edge::Start } else { Edge::Join };
        let t = Times::from(k.gate, k.gate_from, edge);
        k.left = end - p.first;
        let gate = k.gate;
        if p.seg == NONE {
            self.out.times[c].push(t);
        } else {
            let seg = &self.cores[c].code.segments[p.seg as usize];
            let order = self.orders[c][p.seg as usize].get_or_insert_with(|| Order::of(seg));
            self.out.times[c].extend(order.left.iter().map(|n| Times { left: *n, ..t }));
        }
        for n in p.first..end {
            if self.out.times[c][n as usize].left == 0 {
                self.heap.push(Reverse((gate, Event::Issue { c: c as u32, n })));
            }
        }
    }

    pub(super) fn cost(&self, c: usize, n: u32) -> &'a Cost {
        &self.rec.costs[self.rec.cores[c].nodes[n as usize].cost as usize]
    }

    /// Queue of a node; `None` for a control step, which holds all.
    fn queue(&self, c: usize, n: u32) -> Option<u8> {
        if self.rec.streamed {
            return Some(self.stream_of(c, n));
        }
        let p = self.rec.cores[c].phases[self.at[c].phase];
        (p.seg != NONE)
            .then(|| self.cores[c].code.segments[p.seg as usize].queue_of[(n - p.first) as usize])
            .filter(|q| *q != ALL_QUEUES)
    }

    fn issue(&mut self, c: usize, n: u32, t: u64) {
        let cost = self.cost(c, n);
        let q = self.queue(c, n);
        let k = &mut self.at[c];
        let mut at = t;
        for (b, free) in k.ports.iter().enumerate() {
            if cost.ports & (1 << b) != 0 {
                at = at.max(*free);
            }
        }
        // A product on the whole array takes all its cells.
        let cells = if cost.matmul && cost.cells == 0 { u16::MAX } else { cost.cells };
        if cells != 0 {
            let taken = k.cells.iter().enumerate().filter(|(b, _)| cells & (1 << b) != 0);
            at = taken.fold(at, |at, (_, free)| at.max(*free));
        }
        let mut hold = cost.hold.ps();
        let mut ramp = 0;
        if q == Some(0) && self.rec.params.back_end == BackEnd::Doc {
            let limit = ps(self.rec.params.get(P::PeRamp, self.rec.g));
            let idle = ps(self.rec.params.get(P::PeRampIdle, self.rec.g));
            if at.saturating_sub(k.pe_end) >= idle && idle > 0 {
                k.pe_active = 0;
            }
            if k.pe_active < limit {
                ramp = hold;
                hold = hold.saturating_mul(2);
            }
            // The background buffer takes the next stationary data while the product before is under way.
            if cost.weights != 0 && cost.weights != k.weights {
                let hidden = if at == k.pe_end { k.pe_last } else { 0 };
                hold = hold.saturating_add(cost.load.ps().saturating_sub(hidden));
            }
            if cost.weights != 0 {
                k.weights = cost.weights;
            }
            k.pe_last = hold;
            k.pe_active = k.pe_active.saturating_add(hold);
            k.pe_end = at.saturating_add(hold);
        }
        let free = at.saturating_add(hold);
        if cells != 0 {
            let taken = k.cells.iter_mut().enumerate().filter(|(b, _)| cells & (1 << b) != 0);
            taken.for_each(|(_, p)| *p = free);
        }
        for (b, p) in k.ports.iter_mut().enumerate() {
            if cost.ports & (1 << b) != 0 {
                *p = free;
            }
        }
        let x = &mut self.out.times[c][n as usize];
        x.issue = at;
        x.extra = ramp;
        if cost.cells != 0 {
            // The queue goes on to what works on other tiles of the array.
            let next =
                at.saturating_add(self.model.table_cycles(EngineKind::Pe, P::MinInterval).ps()).min(free);
            x.free = next;
            x.extra = ramp.min(next - at);
            self.freed(c, n, next);
            return self.done(c, n, free.saturating_add(cost.pipe.ps()));
        }
        let meet = self.rec.cores[c].nodes[n as usize].meet;
        if cost.transfer.is_some() {
            x.free = free;
            self.freed(c, n, free);
            self.trigger(c, n, q.unwrap_or(4) as usize, free - hold);
            return;
        }
        if meet != NONE {
            self.arrive(c, n, meet, at);
            return;
        }
        let done = free.saturating_add(cost.pipe.ps()).saturating_add(cost.meet.ps());
        let free = if cost.meet == Span::ZERO { free } else { done };
        self.out.times[c][n as usize].free = free;
        self.freed(c, n, free);
        self.done(c, n, done);
    }

    /// The engine of a node is free.
    fn freed(&mut self, c: usize, n: u32, t: u64) {
        if self.rec.streamed {
            let q = usize::from(self.stream_of(c, n));
            self.at[c].engine[q] = t;
            return self.next_of_stream(c, q, n, t);
        }
        let p = self.rec.cores[c].phases[self.at[c].phase];
        match self.queue(c, n) {
            Some(q) => self.at[c].engine[q as usize] = t,
            None => self.at[c].engine = [t; QUEUES],
        }
        if p.seg == NONE {
            return;
        }
        let cores = self.cores;
        let seg = &cores[c].code.segments[p.seg as usize];
        if let Some(o) = &self.orders[c][p.seg as usize]
            && seg.queue_of[(n - p.first) as usize] != ALL_QUEUES
        {
            let next = o.next[(n - p.first) as usize];
            if next != NONE {
                self.release(c, p.first + next, t, (c as u32, n), Edge::Engine);
            }
            return;
        }
        for q in &seg.queues {
            // Positions of a queue are in ascending order.
            if let Ok(at) = q.binary_search(&(n - p.first))
                && let Some(next) = q.get(at + 1)
            {
                self.release(c, p.first + *next, t, (c as u32, n), Edge::Engine);
            }
        }
    }

    fn release(&mut self, c: usize, n: u32, t: u64, from: (u32, u32), edge: Edge) {
        let x = &mut self.out.times[c][n as usize];
        x.wait(t, from, edge);
        x.left = x.left.saturating_sub(1);
        if x.left == 0 {
            let at = x.ready;
            self.heap.push(Reverse((at, Event::Issue { c: c as u32, n })));
        }
    }

    /// A node's result is there.
    fn done(&mut self, c: usize, n: u32, t: u64) {
        self.out.times[c][n as usize].done = t;
        if t > self.out.total || self.out.last.is_none() {
            self.out.total = self.out.total.max(t);
            self.out.last = Some((c as u32, n));
        } else if t == self.out.total && Some((c as u32, n)) < self.out.last {
            self.out.last = Some((c as u32, n));
        }
        if self.rec.streamed {
            return self.post(c, n, t);
        }
        let p = self.rec.cores[c].phases[self.at[c].phase];
        if p.seg != NONE {
            let cores = self.cores;
            let seg = &cores[c].code.segments[p.seg as usize];
            let i = n - p.first;
            let transfer = self.cost(c, n).transfer.is_some();
            let unit = self.rec.params.back_end != BackEnd::Doc;
            for &s in seg.consumers(i) {
                let same = seg.queue_of[s as usize] == seg.queue_of[i as usize];
                let (late, edge) = match (transfer, unit) {
                    (true, true) => (0, Edge::Transfer),
                    (false, true) => (0, Edge::Producer),
                    (true, false) => (self.model.ns(P::SemDma).ps(), Edge::Transfer),
                    (false, false) if same => (0, Edge::Producer),
                    (false, false) => (self.model.ns(P::SemLocal).ps(), Edge::Producer),
                };
                self.release(c, p.first + s, t.saturating_add(late), (c as u32, n), edge);
            }
        }
        // The join of the engines goes through semaphores, too.
        let wire = match (self.rec.params.back_end, p.seg != NONE, self.cost(c, n).transfer.is_some()) {
            (BackEnd::Doc, true, true) => self.model.ns(P::SemDma).ps(),
            (BackEnd::Doc, true, false) => self.model.ns(P::SemLocal).ps(),
            (BackEnd::Doc, false, _) | (BackEnd::Hwm | BackEnd::Unit, _, _) => 0,
        };
        let t = t.saturating_add(wire);
        let k = &mut self.at[c];
        if t > k.gate || k.gate_from == NOBODY || (t == k.gate && (c as u32, n) < k.gate_from) {
            k.gate = k.gate.max(t);
            k.gate_from = (c as u32, n);
        }
        k.left -= 1;
        if k.left == 0 {
            k.phase += 1;
            self.open(c);
        }
    }

    /// A node is at its meeting.
    fn arrive(&mut self, c: usize, n: u32, meet: u32, t: u64) {
        let m = self.rec.meets[meet as usize];
        if let MeetKind::Token { token, n: nth } = m.kind {
            self.arrive_token(c, n, token as usize, nth, t);
            return;
        }
        let g = &mut self.meetings[meet as usize];
        g.members.push((c as u32, n));
        if g.members.len() < m.expect as usize {
            return;
        }
        let mut members = std::mem::take(&mut g.members);
        members.sort_unstable();
        let when = |s: &Self, (c, n): (u32, u32)| {
            let x = &s.out.times[c as usize][n as usize];
            if m.kind == MeetKind::Notify { x.done } else { x.issue }
        };
        let mut last = members[0];
        for x in &members {
            if when(self, *x) > when(self, last) {
                last = *x;
            }
        }
        let latest = when(self, last);
        let extra = match m.kind {
            MeetKind::Swap | MeetKind::Token { .. } => Span::ZERO,
            MeetKind::Collective => self.model.hops(members.len()),
            MeetKind::Barrier | MeetKind::Notify => self.model.remote(),
            MeetKind::Join => self.model.join(),
        };
        for (c, n) in members {
            let t = latest.saturating_add(self.cost(c as usize, n).meet.ps()).saturating_add(extra.ps());
            self.out.times[c as usize][n as usize].last = last;
            if m.kind != MeetKind::Notify {
                self.out.times[c as usize][n as usize].free = t;
                self.freed(c as usize, n, t);
            }
            self.done(c as usize, n, t);
        }
    }

    fn arrive_token(&mut self, c: usize, n: u32, token: usize, nth: u64, t: u64) {
        self.arrived[token][c].push((t, n));
        self.waiting[token].push((c as u32, n, nth));
        let remote = self.model.remote().ps();
        let mut waiting = std::mem::take(&mut self.waiting[token]);
        waiting.sort_unstable();
        let mut still = Vec::new();
        for (wc, wn, nth) in waiting {
            let own = self.out.times[wc as usize][wn as usize].issue;
            let mut end = Some((own, (wc, wn)));
            for w in &self.tokens[token].writers {
                let there = self.arrived[token][*w].get((nth.max(1) - 1) as usize);
                end = match (end, there) {
                    (Some((e, from)), Some((a, an))) if *w != wc as usize => {
                        let a = a.saturating_add(remote);
                        Some(if a > e { (a, (*w as u32, *an)) } else { (e, from) })
                    }
                    (e, Some(_)) => e,
                    (_, None) => None,
                };
            }
            match end {
                Some((t, last)) => {
                    let t = t.saturating_add(self.cost(wc as usize, wn).hold.ps());
                    let x = &mut self.out.times[wc as usize][wn as usize];
                    x.free = t;
                    x.last = last;
                    self.freed(wc as usize, wn, t);
                    self.done(wc as usize, wn, t);
                }
                None => still.push((wc, wn, nth)),
            }
        }
        self.waiting[token].extend(still);
    }

    /// Members of meetings that wait for others.
    pub(super) fn open_meetings(&self) -> usize {
        self.meetings.iter().map(|m| m.members.len()).sum::<usize>()
            + self.waiting.iter().map(Vec::len).sum::<usize>()
    }

    /// An engine hands a transfer to its queue.
    fn trigger(&mut self, c: usize, n: u32, q: usize, t: u64) {
        let cost = self.cost(c, n);
        let Some(tr) = cost.transfer.as_deref() else { return };
        let (p, g) = (&self.rec.params, self.rec.g);
        let dma = &mut self.at[c].dma;
        match p.back_end {
            BackEnd::Unit => {
                self.out.times[c][n as usize].extra = t;
                return self.landed(c, n, t.saturating_add(cost.hold.ps()));
            }
            BackEnd::Hwm => {
                let init = ps(p.get(P::HwmDmaInit, g));
                let exec = ps(tr.bytes as f64 / (LANES as f64 * p.get(P::HwmDmaDiv, g)));
                let start = t.max(dma.single);
                dma.single = start.saturating_add(exec);
                self.out.times[c][n as usize].extra = start.saturating_add(init);
                return self.landed(c, n, start.saturating_add(init).saturating_add(exec));
            }
            BackEnd::Doc => {}
        }
        let mut from = t;
        match tr.dge {
            Dge::Static => {}
            Dge::Software => from = from.saturating_add(ps(p.get(P::DgeSoft, g))),
            Dge::Hardware => {
                if let Some(unit) = dma.dge.iter_mut().min() {
                    from = from.max(*unit);
                    *unit = from.saturating_add(ps(p.get(P::DgeHard, g)));
                }
            }
        }
        let mut start = from.saturating_add(ps(p.get(P::DmaStart, g)));
        // The interval is that of queues whose descriptors are made at run time.
        if let (Dge::Software | Dge::Hardware, Some(s)) = (tr.dge, dma.started[q]) {
            start = start.max(s.saturating_add(ps(p.get(P::DmaInterval, g))));
        }
        dma.started[q] = Some(start);
        self.out.times[c][n as usize].extra = start;
        let stagger = ps(p.get(P::DmaStagger, g));
        let mut lanes = 0;
        for (k, pieces) in tr.pieces.iter().enumerate().filter(|(_, n)| **n > 0) {
            let from = start.saturating_add(stagger.saturating_mul(k as u64));
            dma.lanes[k].jobs[q].push_back(Job { n, class: tr.class, from, pieces: *pieces, rest: tr.piece });
            lanes += 1;
            self.heap.push(Reverse((from, Event::Lane { c: c as u32, k: k as u32 })));
        }
        if lanes == 0 {
            return self.landed(c, n, start);
        }
        self.flights[c].insert(n, Flight { lanes, end: 0 });
    }

    /// A DMA engine may be free.
    fn lane(&mut self, c: usize, k: usize, t: u64) {
        let (p, g) = (&self.rec.params, self.rec.g);
        let lane = &mut self.at[c].dma.lanes[k];
        if lane.busy > t {
            return;
        }
        let ready = |lane: &Lane, q: usize| lane.jobs[q].front().is_some_and(|j| j.from <= t);
        let order = (0..QUEUES).map(|d| (lane.next + d) % QUEUES).filter(|q| ready(lane, *q));
        let first = if self.classes {
            // The first of the most urgent ones.
            order.min_by_key(|q| lane.jobs[*q].front().map_or(u8::MAX, |j| j.class))
        } else {
            { order }.next()
        };
        let Some(q) = first else { return };
        lane.next = (q + 1) % QUEUES;
        let Some(job) = lane.jobs[q].front_mut() else { return };
        let n = job.n;
        let cost = &self.rec.costs[self.rec.cores[c].nodes[n as usize].cost as usize];
        let Some(tr) = cost.transfer.as_deref() else { return };
        let packet = (p.get(P::DmaPacket, g) as u64).max(1);
        // One packet: a part of a long piece, or several short pieces.
        let (count, bytes) = if tr.piece > packet {
            (1, job.rest.min(packet))
        } else {
            (job.pieces.min((packet / tr.piece.max(1)).max(1)), tr.piece)
        };
        if tr.piece > packet && job.rest > packet {
            job.rest -= packet;
        } else {
            job.pieces -= count;
            job.rest = tr.piece;
        }
        let last = job.pieces == 0;
        let one = (bytes as f64 / p.get(P::DmaBw, g) / tr.share).max(p.get(P::DmaDesc, g));
        let mut start = t;
        if tr.hbm_sides > 0 {
            let cap = p.get(if self.lnc > 1 { P::HbmPair } else { P::HbmLone }, g);
            let tat = &mut self.hbm[c / self.lnc];
            start = t.max(tat.saturating_sub(ps(p.get(P::HbmWindow, g))));
            let moved = bytes.saturating_mul(count).saturating_mul(tr.hbm_sides);
            *tat = (*tat).max(start).saturating_add(ps(moved as f64 / cap));
            self.out.hbm_wait = self.out.hbm_wait.saturating_add(start - t);
        }
        let mut end = start.saturating_add(ps(one).saturating_mul(count));
        self.out.dma_busy[c][k] = self.out.dma_busy[c][k].saturating_add(end - start);
        self.active[c].add(t, start, end);
        if self.stage.sink.is_some() {
            let moved = bytes.saturating_mul(count);
            let slice = self.ids[c] + u64::from(n);
            match &mut lane.run {
                Some(r) if r.slice == slice && r.end_ps == start => {
                    r.end_ps = end;
                    r.bytes = r.bytes.saturating_add(moved);
                }
                run => {
                    let done = run.replace(TraceLane {
                        core: c,
                        slice,
                        module: self.stage.module + c % self.lnc,
                        inst: self.rec.cores[c].nodes[n as usize].inst,
                        engine: k as u8,
                        queue: ENGINES[q],
                        start_ps: start,
                        end_ps: end,
                        bytes: moved,
                    });
                    if let (Some(s), Some(r)) = (&mut self.stage.sink, done) {
                        s.lane(&r);
                    }
                }
            }
        }
        if last {
            lane.jobs[q].pop_front();
            end = end.saturating_add(ps(p.get(P::DmaTail, g)));
        }
        lane.busy = end;
        self.heap.push(Reverse((end, Event::Lane { c: c as u32, k: k as u32 })));
        if last && let Some(f) = self.flights[c].get_mut(&n) {
            f.lanes -= 1;
            f.end = f.end.max(end);
            if f.lanes == 0 {
                let end = f.end;
                self.flights[c].remove(&n);
                self.landed(c, n, end);
            }
        }
    }

    fn emit(&mut self, run: Option<TraceLane>) {
        if let (Some(s), Some(r)) = (&mut self.stage.sink, run) {
            s.lane(&r);
        }
    }

    /// The last byte of a transfer is there.
    fn landed(&mut self, c: usize, n: u32, t: u64) {
        let meet = self.rec.cores[c].nodes[n as usize].meet;
        if meet == NONE {
            self.done(c, n, t);
        } else {
            self.out.times[c][n as usize].done = t;
            self.out.landed.insert((c as u32, n), t);
            self.arrive(c, n, meet, t);
        }
    }
}
