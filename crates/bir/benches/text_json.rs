//! Printing, parsing, writing and reading of programs of 10^5 and 10^6 instructions on two cores.
//!
//! Items are instructions; bytes are those of the document. Linear cost shows as equal items per second in both columns.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use tandem_bir::diag::{LocEntry, LocTable, SourcePos};
use tandem_bir::text::{Constants, parse, print};
use tandem_bir::{
    AccessPattern, AluOp, ArchLevel, Attr, CoreId, Dtype, EdgeKind, EngineKind, Inst, Level, MemoryLocation,
    MemoryLocationSet, MemoryType, Module, Opcode, Program, json,
};

const SIZES: [usize; 2] = [100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Two cores, `n` instructions together: element-wise sums over a ring of tiles, each after the one before.
fn program(n: usize) -> Program {
    let mut locs = LocTable::default();
    let modules = (0..2).map(|c| module(CoreId(c), n / 2, &mut locs)).collect();
    Program {
        name: "bench".into(),
        lnc_size: 2,
        level: Level::Bir,
        modules,
        locs,
        constants: Default::default(),
        signature: Default::default(),
    }
}

fn module(core: CoreId, n: usize, locs: &mut LocTable) -> Module {
    let mut m = Module::new(&format!("nc{:02}", core.0), Some(core), ArchLevel::Gen3);
    let f = m.add_function("main");
    let tiles: Vec<_> = (0..64u64)
        .map(|i| {
            let set = MemoryLocationSet {
                class: tandem_bir::TensorClass::NeuronSbTensor,
                ..MemoryLocationSet::new(
                    &format!("t{i}"),
                    Dtype::Float32,
                    tandem_bir::TensorKind::Internal,
                    tandem_bir::AddressSpace::Local,
                    &[128, 64],
                )
            };
            let mut l = MemoryLocation::new(&format!("t{i}"), m.sets.next_key(), MemoryType::Sb, &[128, 256]);
            l.addr = i * 256;
            l.allocated = true;
            m.add_location(f, set, l)
        })
        .collect();
    let b = m.add_block(f, "main.0");
    for i in 0..n {
        let tile = |k: usize| {
            AccessPattern::new(tiles[(i + k) % tiles.len()], Dtype::Float32, 0, &[(64, 128), (1, 64)])
        };
        let mut inst = Inst::new(&format!("inst.{i}"), Opcode::TensorTensor).with(Attr::Op, AluOp::Add);
        inst.engine = EngineKind::Dve;
        inst.ins = vec![tile(0).into(), tile(1).into()];
        inst.outs = vec![tile(2).into()];
        inst.loc = locs.intern(LocEntry::Pos(SourcePos {
            file: "kernel.py".into(),
            line: (i % 500) as u32,
            column: 2,
            end_line: None,
            end_column: None,
        }));
        let id = m.push_inst(b, inst);
        if let Some(before) = id.as_u32().checked_sub(1).map(tandem_bir::InstId::from_u32) {
            m.insts[id].add_dep(id, before, EdgeKind::Ordered);
        }
    }
    m
}

fn written(p: &Program) -> Vec<u8> {
    let mut out = Vec::new();
    let _ = json::write_program(p, Constants::Reference, &mut out);
    out
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn print_text(bencher: Bencher<'_, '_>, n: usize) {
    let p = program(n);
    bencher.counter(ItemsCount::new(n)).counter(BytesCount::new(print(&p).len())).bench(|| print(&p));
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn parse_text(bencher: Bencher<'_, '_>, n: usize) {
    let text = print(&program(n));
    bencher.counter(ItemsCount::new(n)).counter(BytesCount::new(text.len())).bench(|| parse(&text).is_ok());
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn write_json(bencher: Bencher<'_, '_>, n: usize) {
    let p = program(n);
    bencher.counter(ItemsCount::new(n)).counter(BytesCount::new(written(&p).len())).bench(|| written(&p));
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn read_json(bencher: Bencher<'_, '_>, n: usize) {
    let bytes = written(&program(n));
    bencher.counter(ItemsCount::new(n)).counter(BytesCount::new(bytes.len())).bench(|| {
        let mut locs = LocTable::default();
        json::read(&bytes, "bench.json", &mut locs).is_ok_and(|p| json::assemble(p, locs).is_ok())
    });
}
