//! Collects the events of a timed run for drawing, in bounded memory.
//!
//! Slices that come after the limit make the picture coarser: the bucket width doubles, and neighbours on a lane that lie in
//! one bucket become one item that knows how many it stands for and how long they worked. Arrows beyond their limit are left
//! out and counted. Both numbers are shown on the page.

use rustc_hash::FxHashMap;
use tandem_bir::{EngineKind, InstId, MemLocId, MemoryType};
use tandem_sim::timing::trace::{
    Flow, FlowKind, Lifetime, MemoryUse, TraceHead, TraceLane, TraceSink, TraceSlice, Track,
};

/// Limits of what is kept. Our choice: what a browser draws without delay and a page of under 2 MB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Items over all lanes.
    pub items: usize,
    /// Arrows of meetings, and as many of other kinds.
    pub arrows: usize,
    /// Points of a curve of memory in use.
    pub points: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { items: 14_000, arrows: 2_000, points: 1_500 }
    }
}

/// Row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// What holds all engines.
    Control,
    /// Engine, in the order of the machine's queues.
    Engine(u8),
    /// DMA engine.
    Dma(u8),
}

/// Order of the engines in pictures.
pub const ENGINES: [EngineKind; 5] =
    [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp];

fn row(t: Track) -> Row {
    match t {
        Track::Control => Row::Control,
        Track::Engine(e) => Row::Engine(ENGINES.iter().position(|x| *x == e).unwrap_or(ENGINES.len()) as u8),
        Track::Dma { engine, .. } => Row::Dma(engine),
    }
}

/// One or several executions that are drawn as one box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Begin.
    pub start_ps: u64,
    /// End.
    pub end_ps: u64,
    /// Part in which something was executed: all of it, unless several were put together.
    pub held_ps: u64,
    /// Part of that spent waiting for partners.
    pub partner_ps: u64,
    /// Executions.
    pub count: u64,
    /// Module of the longest of them.
    pub module: u32,
    /// The longest of them.
    pub inst: InstId,
    /// Its time.
    longest_ps: u64,
}

/// A lane of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Core.
    pub core: usize,
    /// Row.
    pub row: Row,
    /// Items in order of time.
    pub items: Vec<Item>,
}

/// An arrow between two slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Why.
    pub kind: FlowKind,
    /// Core, row and beginning of the slice that was waited for, and where on it the arrow starts.
    pub from: End,
    /// The slice that waited.
    pub to: End,
}

/// An end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Core.
    pub core: usize,
    /// Row.
    pub row: Row,
    /// Beginning of the slice.
    pub start_ps: u64,
    /// Where the arrow touches it.
    pub at_ps: u64,
}

/// A curve of memory in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Core.
    pub core: usize,
    /// SBUF or PSUM.
    pub memory: MemoryType,
    /// Time and bytes over all partitions from then on.
    pub points: Vec<(u64, u64)>,
    /// Highest value, also when points were left out.
    pub peak: u64,
}

/// A location in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Core.
    pub core: usize,
    /// Module.
    pub module: usize,
    /// Location of that module.
    pub loc: MemLocId,
    /// First use.
    pub start_ps: u64,
    /// End of the last use.
    pub end_ps: u64,
}

/// All executions of an instruction together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Executions.
    pub count: u64,
    /// From issue to result.
    pub span_ps: u64,
    /// Waiting for partners.
    pub partner_ps: u64,
}

/// What a timeline and a memory map are drawn from.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    limits: Limits,
    /// Lanes by core and row.
    pub lanes: Vec<Lane>,
    /// Arrows in the order of the run.
    pub arrows: Vec<Arrow>,
    /// Locations in use.
    pub lives: Vec<Life>,
    /// Memory in use.
    pub curves: Vec<Curve>,
    /// Executions by module and instruction.
    pub sums: FxHashMap<(usize, InstId), Sum>,
    /// Predicted time.
    pub total_ps: u64,
    /// Time before the first instruction.
    pub overhead_ps: u64,
    /// Cores of an LNC.
    pub lnc: usize,
    /// Executions and runs of packets that came.
    pub slices: u64,
    /// Width of the buckets in which neighbours were put together; 0 when none were.
    pub bucket_ps: u64,
    /// Arrows left out.
    pub arrows_left_out: u64,
    /// Curves lost points.
    pub thinned: bool,
    at: FxHashMap<(usize, Row), usize>,
    kept: usize,
    half: FxHashMap<u64, (bool, End)>,
    taken: [usize; 2],
}

/// Arrows that connect cores.
fn meeting(k: FlowKind) -> bool {
    match k {
        FlowKind::Swap | FlowKind::Collective | FlowKind::Barrier | FlowKind::Token | FlowKind::Notify => {
            true
        }
        FlowKind::Semaphore | FlowKind::Dma | FlowKind::Join => false,
    }
}

impl Picture {
    /// An empty picture.
    pub fn new(limits: Limits) -> Picture {
        Picture { limits, lnc: 1, ..Picture::default() }
    }

    fn push(&mut self, core: usize, row: Row, item: Item) {
        let lanes = &mut self.lanes;
        let i = *self.at.entry((core, row)).or_insert_with(|| {
            lanes.push(Lane { core, row, items: Vec::new() });
            lanes.len() - 1
        });
        self.slices = self.slices.saturating_add(item.count);
        let lane = &mut self.lanes[i].items;
        if let (Some(last), true) = (lane.last_mut(), self.bucket_ps > 0)
            && same_bucket(last, &item, self.bucket_ps)
        {
            join(last, &item);
            return;
        }
        lane.push(item);
        self.kept += 1;
        while self.kept > self.limits.items.max(1) && self.bucket_ps < u64::MAX / 2 {
            self.bucket_ps = (self.bucket_ps * 2).max(1024);
            self.kept = 0;
            for l in &mut self.lanes {
                coarsen(&mut l.items, self.bucket_ps);
                self.kept += l.items.len();
            }
            // One item per lane is as coarse as it gets.
            if self.kept <= self.lanes.len() {
                break;
            }
        }
    }

    fn flow(&mut self, f: Flow, out: bool, end: End) {
        let class = usize::from(meeting(f.kind));
        match self.half.remove(&f.id) {
            Some((was_out, other)) if was_out != out => {
                let (from, to) = if out { (end, other) } else { (other, end) };
                self.arrows.push(Arrow { kind: f.kind, from, to });
            }
            Some(_) => {}
            None if self.taken[class] < self.limits.arrows => {
                self.taken[class] += 1;
                self.half.insert(f.id, (out, end));
            }
            // Both ends of an arrow that is not kept come here.
            None if out => self.arrows_left_out += 1,
            None => {}
        }
    }
}

fn same_bucket(a: &Item, b: &Item, width: u64) -> bool {
    a.start_ps / width == b.end_ps.saturating_sub(1).max(b.start_ps) / width
}

fn join(a: &mut Item, b: &Item) {
    a.end_ps = a.end_ps.max(b.end_ps);
    a.held_ps = a.held_ps.saturating_add(b.held_ps);
    a.partner_ps = a.partner_ps.saturating_add(b.partner_ps);
    a.count = a.count.saturating_add(b.count);
    if b.longest_ps > a.longest_ps {
        (a.longest_ps, a.module, a.inst) = (b.longest_ps, b.module, b.inst);
    }
}

fn coarsen(items: &mut Vec<Item>, width: u64) {
    let mut out = 0;
    for i in 0..items.len() {
        let item = items[i];
        if out > 0 && same_bucket(&items[out - 1], &item, width) {
            join(&mut items[out - 1], &item);
        } else {
            items[out] = item;
            out += 1;
        }
    }
    items.truncate(out);
}

impl TraceSink for Picture {
    fn begin(&mut self, head: &TraceHead<'_>) {
        self.overhead_ps = head.overhead_ps;
        self.lnc = head.lnc.max(1);
    }
    fn slice(&mut self, s: &TraceSlice<'_>) {
        let r = row(s.track);
        let held = s.free_ps.saturating_sub(s.start_ps);
        let partner = s.partner_ps.min(held);
        let sum = self.sums.entry((s.module, s.inst)).or_default();
        sum.count += 1;
        sum.span_ps = sum.span_ps.saturating_add(s.done_ps.saturating_sub(s.start_ps));
        sum.partner_ps = sum.partner_ps.saturating_add(partner);
        for (flows, out) in [(s.flows_out, true), (s.flows_in, false)] {
            for f in flows {
                let at_ps = match (meeting(f.kind), out) {
                    (true, true) | (false, false) => s.start_ps,
                    (true, false) => s.start_ps.saturating_add(partner),
                    (false, true) => s.done_ps,
                };
                self.flow(*f, out, End { core: s.core, row: r, start_ps: s.start_ps, at_ps });
            }
        }
        let item = Item {
            start_ps: s.start_ps,
            end_ps: s.free_ps,
            held_ps: held,
            partner_ps: partner,
            count: 1,
            module: s.module as u32,
            inst: s.inst,
            longest_ps: held,
        };
        self.push(s.core, r, item);
    }
    fn lane(&mut self, l: &TraceLane) {
        let held = l.end_ps.saturating_sub(l.start_ps);
        let item = Item {
            start_ps: l.start_ps,
            end_ps: l.end_ps,
            held_ps: held,
            partner_ps: 0,
            count: 1,
            module: l.module as u32,
            inst: l.inst,
            longest_ps: held,
        };
        self.push(l.core, Row::Dma(l.engine), item);
    }
    fn lifetime(&mut self, l: &Lifetime) {
        let Lifetime { core, module, loc, start_ps, end_ps } = *l;
        self.lives.push(Life { core, module, loc, start_ps, end_ps });
    }
    fn memory(&mut self, m: &MemoryUse) {
        let limit = self.limits.points.max(4);
        let i = self.curves.iter().position(|c| c.core == m.core && c.memory == m.memory);
        let i = i.unwrap_or_else(|| {
            self.curves.push(Curve { core: m.core, memory: m.memory, points: Vec::new(), peak: 0 });
            self.curves.len() - 1
        });
        let c = &mut self.curves[i];
        c.peak = c.peak.max(m.bytes);
        c.points.push((m.at_ps, m.bytes));
        if c.points.len() > limit {
            // Of two neighbours the higher value stays, from the time of the first.
            let halved = c.points.chunks(2).map(|p| {
                let top = p.iter().map(|x| x.1).max().unwrap_or(0);
                (p.first().map_or(0, |x| x.0), top)
            });
            c.points = halved.collect();
            self.thinned = true;
        }
    }
    fn end(&mut self, total_ps: u64) {
        self.total_ps = total_ps;
        self.lanes.sort_by_key(|l| (l.core, l.row));
        self.at = self.lanes.iter().enumerate().map(|(i, l)| ((l.core, l.row), i)).collect();
        self.half.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(start: u64, end: u64) -> Item {
        Item {
            start_ps: start,
            end_ps: end,
            held_ps: end - start,
            partner_ps: 0,
            count: 1,
            module: 0,
            inst: InstId::from_u32(0),
            longest_ps: end - start,
        }
    }

    /// However coarse it gets: nothing is lost from the sums, items stay ordered and do not overlap, the limit holds.
    #[test]
    fn coarsening_keeps_counts_sums_and_order() {
        let mut p = Picture::new(Limits { items: 100, arrows: 10, points: 10 });
        let (mut t, mut held, mut n) = (0u64, 0u64, 0u64);
        let mut x = 12345u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (gap, len) = (x >> 60, (x >> 40) % 5000);
            p.push(0, Row::Engine(((x >> 33) % 3) as u8), item(t + gap, t + gap + len));
            (t, held, n) = (t + gap + len, held + len, n + 1);
        }
        assert!(p.bucket_ps > 0);
        let items: Vec<&Item> = p.lanes.iter().flat_map(|l| &l.items).collect();
        assert!(items.len() <= 100, "{}", items.len());
        assert!(items.len() > 25, "not coarser than needed: {}", items.len());
        assert_eq!(items.iter().map(|i| i.held_ps).sum::<u64>(), held);
        assert_eq!(items.iter().map(|i| i.count).sum::<u64>(), n);
        for l in &p.lanes {
            for w in l.items.windows(2) {
                assert!(w[0].end_ps <= w[1].start_ps);
            }
        }
    }

    #[test]
    fn arrows_pair_whichever_end_comes_first_and_the_rest_is_counted() {
        let mut p = Picture::new(Limits { items: 100, arrows: 2, points: 10 });
        let end = |core| End { core, row: Row::Control, start_ps: 0, at_ps: 0 };
        for id in 0..5 {
            p.flow(Flow { id, kind: FlowKind::Swap }, id.is_multiple_of(2), end(0));
            p.flow(Flow { id, kind: FlowKind::Swap }, !id.is_multiple_of(2), end(1));
        }
        assert_eq!(p.arrows.len(), 2);
        assert_eq!((p.arrows[0].from.core, p.arrows[1].from.core), (0, 1));
        assert_eq!(p.arrows_left_out, 3);
    }

    #[test]
    fn a_thinned_curve_keeps_its_peak() {
        let mut p = Picture::new(Limits { items: 10, arrows: 10, points: 8 });
        for t in 0..1000u64 {
            let bytes = if t == 501 { 9_999 } else { t };
            p.memory(&MemoryUse { core: 1, memory: MemoryType::Sb, at_ps: t, bytes });
        }
        assert!(p.thinned && p.curves[0].points.len() <= 8);
        assert_eq!(p.curves[0].peak, 9_999);
        assert_eq!(p.curves[0].points.iter().map(|x| x.1).max(), Some(9_999));
    }
}
