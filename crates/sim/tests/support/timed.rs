//! Programs to time, a sink that keeps everything, and the laws that hold of every timed run.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use tandem_bir::{EngineKind, Program, text};
use tandem_sim::timing::trace::{
    Flow, Lifetime, MemoryUse, TraceHead, TraceLane, TraceSlice, TraceTransfer, Track,
};
use tandem_sim::timing::{Params, TimingReport, TraceSink};
use tandem_sim::{RunOptions, Schedule, Simulator, StopReason};

/// Programs of one or two cores with tiles `a`, `b` (SBUF, 128 partitions of 16 KiB), `p` (PSUM) and `d`, `e` (DRAM, 4 MiB).
pub(crate) fn program(arch: &str, bodies: &[&str]) -> Program {
    let mut s = format!("bir 1\nprogram \"t\" lnc {} level lowered\n", bodies.len());
    for (c, body) in bodies.iter().enumerate() {
        s += &format!(
            "module @nc0{c} core {c} arch {arch} {{
  func @main {{
    set @a_set = Internal NeuronSBTensor Local uint8 [128 x 16384] {{ loc @a = SB [128, 16384] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local uint8 [128 x 16384] {{ loc @b = SB [128, 16384] addr 16384 allocated }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [128 x 512] {{ loc @p = PSUM [128, 2048] addr 0 allocated }}
    set @d_set = Internal Tensor Local uint8 [4194304] {{ loc @d = DRAM [4194304] addr 0 }}
    set @e_set = Internal Tensor Local uint8 [4194304] {{ loc @e = DRAM [4194304] addr 4194304 }}
    {body}
  }}
}}
"
        );
    }
    text::parse(&s).unwrap_or_else(|e| panic!("{e:?}\n{s}"))
}

pub(crate) fn block(lines: &str) -> String {
    format!("block b0 {{\n{lines}\n}}")
}

/// A slice, kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) id: u64,
    pub(crate) core: usize,
    pub(crate) module: usize,
    pub(crate) name: String,
    pub(crate) track: Track,
    pub(crate) start_ps: u64,
    pub(crate) free_ps: u64,
    pub(crate) done_ps: u64,
    pub(crate) partner_ps: u64,
    pub(crate) transfer: Option<TraceTransfer>,
    pub(crate) out: Vec<Flow>,
    pub(crate) into: Vec<Flow>,
}

/// Everything a run hands over.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Events {
    names: Vec<Vec<String>>,
    pub(crate) overhead_ps: u64,
    pub(crate) slices: Vec<Kept>,
    pub(crate) lanes: Vec<TraceLane>,
    pub(crate) lives: Vec<Lifetime>,
    pub(crate) memory: Vec<MemoryUse>,
    pub(crate) total_ps: Option<u64>,
}

impl TraceSink for Events {
    fn begin(&mut self, head: &TraceHead<'_>) {
        assert!(self.names.is_empty() && self.slices.is_empty());
        self.overhead_ps = head.overhead_ps;
        let names = |m: &tandem_bir::Module| m.insts.values().map(|i| i.name.to_string()).collect();
        self.names = head.program.modules.iter().map(names).collect();
    }
    fn slice(&mut self, s: &TraceSlice<'_>) {
        use tandem_bir::entity::EntityRef as _;
        assert_eq!(self.total_ps, None);
        self.slices.push(Kept {
            id: s.id,
            core: s.core,
            module: s.module,
            name: self.names[s.module][s.inst.index()].clone(),
            track: s.track,
            start_ps: s.start_ps,
            free_ps: s.free_ps,
            done_ps: s.done_ps,
            partner_ps: s.partner_ps,
            transfer: s.transfer,
            out: s.flows_out.to_vec(),
            into: s.flows_in.to_vec(),
        });
    }
    fn lane(&mut self, l: &TraceLane) {
        self.lanes.push(*l);
    }
    fn lifetime(&mut self, l: &Lifetime) {
        self.lives.push(*l);
    }
    fn memory(&mut self, m: &MemoryUse) {
        self.memory.push(*m);
    }
    fn end(&mut self, total_ps: u64) {
        assert_eq!(self.total_ps.replace(total_ps), None);
    }
}

/// Report and events of a run; the laws are checked.
pub(crate) fn trace_with(p: &Program, params: &Params, schedule: Schedule) -> (TimingReport, Events) {
    let opts = RunOptions { schedule, race_check: false, undefined_check: false, ..RunOptions::default() };
    let r = Simulator::new(p, opts.clone()).unwrap_or_else(|e| panic!("{e:?}"));
    let mut events = Events::default();
    let (o, t) = r.run_traced(params, &mut events).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(o.stop, StopReason::Finished, "{:?}", o.diagnostics);
    let t = t.expect("finished runs have a time");
    laws(&t, &events);
    // Who looks on changes nothing.
    let r = Simulator::new(p, opts).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(r.run_timed(params).unwrap_or_else(|e| panic!("{e:?}")).1.as_ref(), Some(&t));
    (t, events)
}

/// Report of a run; the laws are checked.
pub(crate) fn time_with(p: &Program, params: &Params, schedule: Schedule) -> TimingReport {
    trace_with(p, params, schedule).0
}

/// Picoseconds of a program.
pub(crate) fn time(p: &Program) -> u64 {
    time_with(p, &Params::default(), Schedule::Eager).total_ps
}

pub(crate) fn one(arch: &str, lines: &str) -> u64 {
    time(&program(arch, &[&block(lines)]))
}

/// What holds of every timed run.
pub(crate) fn laws(t: &TimingReport, ev: &Events) {
    assert_eq!(ev.total_ps, Some(t.total_ps));
    assert_eq!(ev.overhead_ps, t.overhead_ps);
    assert_eq!(t.critical_ps, t.total_ps, "the critical path is a gapless chain");
    assert_eq!(t.by_certainty_ps.iter().sum::<u64>(), t.critical_ps);
    assert_eq!(t.overhead_ps + t.subgraphs_ps.iter().sum::<u64>(), t.total_ps);
    for c in &t.cores {
        for e in &c.engines {
            assert!(e.busy_ps <= t.critical_ps, "no engine is busy longer than the critical path");
            let waits: u64 = e.waits_ps.iter().map(|w| w.1).sum();
            assert_eq!(
                e.busy_ps + waits + t.overhead_ps,
                t.total_ps,
                "core {} {:?}: {e:?}",
                c.core,
                e.engine
            );
        }
        // Nothing overlaps on an in-order engine, and what is on the tracks is what the report counts.
        let mine = || ev.slices.iter().filter(|s| s.core == c.core);
        for engine in
            [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp]
        {
            let (mut end, mut held) = (0, 0);
            for s in mine().filter(|s| s.track == Track::Engine(engine) || s.track == Track::Control) {
                assert!(s.start_ps >= end, "two instructions overlap on {engine}");
                assert!(s.free_ps >= s.start_ps && s.done_ps >= s.start_ps && s.done_ps <= t.total_ps);
                end = s.free_ps;
                held += s.free_ps - s.start_ps;
            }
            if let Some(e) = c.engines.iter().find(|e| e.engine == engine) {
                assert_eq!(e.held_ps, held, "{engine}");
            }
        }
        let control: u64 = mine().filter(|s| s.track == Track::Control).map(|s| s.free_ps - s.start_ps).sum();
        assert_eq!(control, c.control_ps);
        let mut all = Vec::new();
        for k in 0..16u8 {
            let (mut end, mut busy) = (0, 0);
            for l in ev.lanes.iter().filter(|l| l.core == c.core && l.engine == k) {
                assert!(l.start_ps >= end && l.end_ps >= l.start_ps, "two packets at once on a DMA engine");
                end = l.end_ps;
                busy += l.end_ps - l.start_ps;
                all.push((l.start_ps, l.end_ps));
                let s = ev.slices.iter().find(|s| s.id == l.slice).expect("a lane names its slice");
                let tr = s.transfer.expect("which is a transfer");
                assert_eq!((s.core, s.module, tr.queue), (l.core, l.module, l.queue));
                assert!(l.start_ps >= tr.start_ps && l.end_ps <= tr.end_ps);
            }
            assert_eq!(busy, c.dma_busy_ps[usize::from(k)], "DMA engine {k}");
        }
        // Union of the lanes.
        all.sort_unstable();
        let (mut until, mut active) = (0, 0);
        for (from, to) in all {
            active += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        assert_eq!(active, c.dma_active_ps);
        let transfers = mine().filter_map(|s| s.transfer);
        assert_eq!(transfers.clone().map(|x| x.bytes).sum::<u64>(), c.dma_bytes);
        assert_eq!(transfers.count() as u64, c.transfers);
    }
    // Arrows have two ends each, and time does not run backwards along them.
    let ids: BTreeSet<u64> = ev.slices.iter().map(|s| s.id).collect();
    assert_eq!(ids.len(), ev.slices.len());
    let mut from: BTreeMap<u64, (&Kept, Flow)> = BTreeMap::new();
    for s in &ev.slices {
        for f in &s.out {
            assert!(from.insert(f.id, (s, *f)).is_none(), "an arrow starts once");
        }
    }
    for s in &ev.slices {
        assert!(s.into.len() <= 2);
        for f in &s.into {
            let (start, other) = from.remove(&f.id).expect("an arrow starts somewhere");
            assert_eq!(other, *f);
            assert!(start.start_ps <= s.free_ps.max(s.done_ps), "{start:?} -> {s:?}");
        }
    }
    assert!(from.is_empty(), "every arrow ends");
    // Memory in use is what the lifetimes add up to.
    for l in &ev.lives {
        assert!(l.start_ps <= l.end_ps && l.end_ps <= t.total_ps);
    }
    for m in &ev.memory {
        assert!(ev.lives.iter().any(|l| l.core == m.core && (l.start_ps == m.at_ps || l.end_ps == m.at_ps)));
    }
}

/// A `[partitions, elements]` pattern of a 16 KiB-pitch tile.
pub(crate) fn tile(loc: &str, dtype: &str, size: u64, parts: u64, n: u64) -> String {
    format!("@{loc}[[{},{parts}] [1,{n}]] {dtype}", 16384 / size)
}

pub(crate) fn f32s(loc: &str, n: u64) -> String {
    tile(loc, "float32", 4, 128, n)
}

pub(crate) fn bf16(loc: &str, n: u64) -> String {
    tile(loc, "bfloat16", 2, 128, n)
}

pub(crate) fn memset(name: &str, n: u64) -> String {
    format!("{name} = Memset DVE {} {{mode = Const, constant = 1}}\n", f32s("a", n))
}

/// Random lines of both cores in step, and which of them are barriers (lines of both); `kinds` of instructions: 3, or 4 with
/// transfers.
pub(crate) fn in_step(seed: u64, kinds: u64) -> (Vec<[String; 2]>, Vec<usize>) {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut rnd = |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    let mut lines: Vec<[String; 2]> = Vec::new();
    let mut bars = Vec::new();
    let mut named: [Vec<usize>; 2] = Default::default();
    for k in 0..30 {
        if rnd(6) == 0 {
            bars.push(k);
            let bar = format!("i{k} = CoreBarrier Pool {{id = {k}, cores = [0, 1]}}\n");
            lines.push([bar.clone(), bar]);
            continue;
        }
        let swap = rnd(8) == 0;
        let mut pair: [String; 2] = Default::default();
        for (c, line) in pair.iter_mut().enumerate() {
            let from = named[c].get(rnd(1 + named[c].len() as u64) as usize);
            let after = from.map_or(String::new(), |f| format!(" after(i{f})"));
            *line = match (swap, rnd(kinds)) {
                (true, _) => {
                    format!("i{k} = GPSIMDSB2SB Pool {} <- {}{after}\n", f32s("b", 16), f32s("a", 16))
                }
                (_, 0) => {
                    format!("i{k} = Memset Pool {} {{mode = Const, constant = 1}}{after}\n", f32s("b", 8))
                }
                (_, 1) => {
                    format!("i{k} = TensorCopy Activation {} <- {}{after}\n", f32s("b", 8), f32s("a", 8))
                }
                (_, 2) => format!("i{k} = TensorCopy DVE {} <- {}{after}\n", f32s("a", 8), f32s("b", 8)),
                (_, _) => format!(
                    "i{k} = DMACopy SP {} <- @d[[8,128] [1,8]] uint8{after}\n",
                    tile("a", "uint8", 1, 128, 8)
                ),
            };
            named[c].push(k);
        }
        lines.push(pair);
    }
    (lines, bars)
}
