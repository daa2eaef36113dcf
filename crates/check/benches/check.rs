//! Instructions per second of verifying and checking a two-core lowered program; the two sizes show that it is linear.

use divan::{Bencher, counter::ItemsCount};
use tandem_bir::verify::verify;
use tandem_bir::*;
use tandem_check::{CheckOptions, check_verified};

fn main() {
    divan::main();
}

fn location(m: &mut Module, name: &str, mem: MemoryType, addr: u64, space: AddressSpace) -> MemLocId {
    let f = m.functions[0];
    let set = MemoryLocationSet::new(name, Dtype::Float32, TensorKind::Internal, space, &[128, 64]);
    let set_id = SetId::from_u32(0);
    let l = MemoryLocation { addr, allocated: true, ..MemoryLocation::new(name, set_id, mem, &[128, 256]) };
    m.add_location(f, set, l)
}

/// Load a shared tile, pull the peer's tile between two barriers, add, store to the own half of a shared tensor.
fn program(size: usize) -> Program {
    let module = |core: u32| {
        let mut m = Module::new(&format!("nc0{core}"), Some(CoreId(core)), ArchLevel::Gen3);
        let f = m.add_function("main");
        let shared = AddressSpace::Shared;
        let x = location(&mut m, "x", MemoryType::Dram, 0, shared);
        let y = location(&mut m, "y", MemoryType::Dram, 1 << 20, shared);
        let a = location(&mut m, "a", MemoryType::Sb, 0, AddressSpace::Local);
        let b = location(&mut m, "b", MemoryType::Sb, 256, AddressSpace::Local);
        let r = location(&mut m, "a_remote", MemoryType::Sb, 0, AddressSpace::Local);
        m.memlocs[r].remote_local_target = Some(RemoteTarget { name: "a".into(), core: CoreId(1 - core) });
        let block = m.add_block(f, "b0");
        let tile = |l| Operand::from(AccessPattern::new(l, Dtype::Float32, 0, &[(64, 128), (1, 64)]));
        let half = |l, o| Operand::from(AccessPattern::new(l, Dtype::Float32, o, &[(64, 64), (1, 64)]));
        let mut last = None;
        for i in 0..size / 12 {
            type Step = (&'static str, Opcode, EngineKind, Vec<Operand>, Vec<Operand>);
            let steps: [Step; 6] = [
                ("ld", Opcode::DmaCopy, EngineKind::Dma, vec![tile(x)], vec![tile(a)]),
                ("begin", Opcode::CoreBarrier, EngineKind::Pool, vec![], vec![]),
                ("pull", Opcode::DmaCopy, EngineKind::Dma, vec![tile(r)], vec![tile(b)]),
                ("end", Opcode::CoreBarrier, EngineKind::Pool, vec![], vec![]),
                ("add", Opcode::TensorTensor, EngineKind::Dve, vec![tile(a), tile(b)], vec![tile(a)]),
                (
                    "st",
                    Opcode::DmaCopy,
                    EngineKind::Dma,
                    vec![half(a, 0)],
                    vec![half(y, 4096 * i64::from(core))],
                ),
            ];
            for (k, (name, op, engine, ins, outs)) in steps.into_iter().enumerate() {
                let mut inst = Inst::new(&format!("{name}{i}"), op);
                inst.engine = engine;
                (inst.ins, inst.outs) = (ins, outs);
                if op == Opcode::CoreBarrier {
                    inst.set(Attr::Id, (2 * i + k / 2) as i64);
                }
                if op == Opcode::TensorTensor {
                    inst.set(Attr::Op, AluOp::Add);
                }
                inst.deps.extend(last.map(|inst| Dep { inst, kind: EdgeKind::Ordered }));
                last = Some(m.push_inst(block, inst));
            }
        }
        m
    };
    Program {
        name: "bench".into(),
        lnc_size: 2,
        level: Level::Lowered,
        modules: vec![module(0), module(1)],
        locs: Default::default(),
        constants: Default::default(),
        signature: Signature::default(),
    }
}

const SIZES: [usize; 2] = [100_000, 1_000_000];

#[divan::bench(args = SIZES, sample_count = 5)]
fn verifying(bench: Bencher<'_, '_>, size: usize) {
    let p = program(size);
    bench.counter(ItemsCount::new(size)).bench_local(|| assert!(verify(&p).is_ok()));
}

#[divan::bench(args = SIZES, sample_count = 5)]
fn checking(bench: Bencher<'_, '_>, size: usize) {
    let p = program(size);
    let v = verify(&p).expect("the program is clean");
    bench.counter(ItemsCount::new(size)).bench_local(|| {
        let d = check_verified(&v, &CheckOptions::default());
        assert!(d.is_empty(), "{d:?}");
    });
}
