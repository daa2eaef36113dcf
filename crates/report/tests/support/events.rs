//! A made-up stream of events of any length, as a timed run would hand it over.

use tandem_bir::diag::{LocEntry, SourcePos};
use tandem_bir::{ArchLevel, CoreId, EngineKind, Inst, InstId, Level, MemoryType, Module, Opcode, Program};
use tandem_sim::timing::trace::{
    Flow, FlowKind, MemoryUse, TraceHead, TraceLane, TraceSink, TraceSlice, TraceTransfer, Track,
};
use tandem_sim::timing::{BackEnd, Generation};

const ENGINES: [EngineKind; 5] =
    [EngineKind::Pe, EngineKind::Activation, EngineKind::Dve, EngineKind::Pool, EngineKind::Sp];

/// Two cores with `n` instructions each.
pub(crate) fn program(n: u32) -> Program {
    let mut p = Program {
        name: "made up".into(),
        lnc_size: 2,
        level: Level::Lowered,
        modules: Vec::new(),
        locs: Default::default(),
        constants: Default::default(),
        signature: Default::default(),
    };
    for c in 0..2 {
        let mut m = Module::new(&format!("nc0{c}"), Some(CoreId(c)), ArchLevel::Gen3);
        let f = m.add_function("f");
        let b = m.add_block(f, "main");
        for i in 0..n {
            let mut inst = Inst::new(&format!("inst.{i}"), Opcode::TensorTensor);
            inst.loc = p.locs.intern(LocEntry::Pos(SourcePos {
                file: "kernel.py".into(),
                line: i % 97 + 1,
                column: 4,
                end_line: None,
                end_column: None,
            }));
            m.push_inst(b, inst);
        }
        p.modules.push(m);
    }
    p
}

/// Hands over `slices` executions on the engines of two cores, one run of packets for each fourth of them, and an arrow from each
/// to the next of the core.
pub(crate) fn feed(p: &Program, slices: u64, sink: &mut dyn TraceSink) {
    let insts = p.modules[0].insts.len() as u64;
    sink.begin(&TraceHead {
        program: p,
        generation: Generation::Trn2,
        back_end: BackEnd::Doc,
        cores: 2,
        lnc: 2,
        overhead_ps: 500_000,
    });
    let half = slices / 2;
    for core in 0..2usize {
        let time = |i: u64| 500_000 + i / 5 * 260_003 + i % 5 * 1_001;
        for i in (0..half).step_by(4) {
            sink.lane(&TraceLane {
                core,
                slice: core as u64 * half + i,
                module: core,
                inst: InstId::from_u32((i % insts) as u32),
                engine: (i / 4 % 16) as u8,
                queue: EngineKind::Sp,
                start_ps: time(i) + 100,
                end_ps: time(i) + 90_000,
                bytes: 2048,
            });
        }
        for i in 0..half {
            let id = core as u64 * half + i;
            let (out, into) = ([flow(id)], [flow(id.wrapping_sub(1))]);
            sink.slice(&TraceSlice {
                id,
                core,
                module: core,
                inst: InstId::from_u32((i % insts) as u32),
                track: Track::Engine(ENGINES[(i % 5) as usize]),
                start_ps: time(i),
                free_ps: time(i) + 200_000,
                done_ps: time(i) + 250_000,
                partner_ps: if i.is_multiple_of(16) { 70_000 } else { 0 },
                transfer: i.is_multiple_of(4).then(|| TraceTransfer {
                    queue: EngineKind::Sp,
                    start_ps: time(i) + 100,
                    end_ps: time(i) + 90_000,
                    bytes: 2048,
                }),
                flows_out: if i + 1 < half { &out } else { &[] },
                flows_in: if i > 0 { &into } else { &[] },
            });
        }
        for i in 0..half.min(1000) {
            let memory = if i.is_multiple_of(2) { MemoryType::Sb } else { MemoryType::Psum };
            sink.memory(&MemoryUse { core, memory, at_ps: time(i), bytes: i * 4096 % (24 << 20) });
        }
    }
    sink.end(500_000 + half / 5 * 260_003 + 260_000);
}

fn flow(id: u64) -> Flow {
    Flow { id, kind: FlowKind::Semaphore }
}
