//! Programs and containers of many records.
#![allow(dead_code, unreachable_pub, reason = "each user takes a part")]

use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{WriteOptions, encode, read_sections};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::*;

/// One core with many additions on the Vector engine.
pub fn lowered(n: usize) -> Program {
    let mut m = Module::new("nc00", Some(CoreId(0)), ArchLevel::Gen3);
    let f = m.add_function("main");
    let b = m.add_block(f, "b0");
    let locs: Vec<MemLocId> = (0..3)
        .map(|k| {
            let set = MemoryLocationSet::new(
                &format!("t{k}"),
                Dtype::Bfloat16,
                TensorKind::Internal,
                AddressSpace::Local,
                &[128, 512],
            );
            let mut l =
                MemoryLocation::new(&format!("t{k}"), SetId::from_u32(0), MemoryType::Sb, &[128, 1024]);
            l.addr = 0x1000 * (k + 1);
            l.allocated = true;
            m.add_location(f, set, l)
        })
        .collect();
    for k in 0..n {
        let mut i = Inst::new(&format!("a{k}"), Opcode::TensorTensor).with(Attr::Op, AluOp::Add);
        i.engine = EngineKind::Dve;
        let ap =
            |l: MemLocId| Operand::Ap(AccessPattern::new(l, Dtype::Bfloat16, 0, &[(512, 128), (1, 512)]));
        i.ins = vec![ap(locs[0]), ap(locs[1])];
        i.outs = vec![ap(locs[2])];
        m.push_inst(b, i);
    }
    Program {
        name: "many".into(),
        lnc_size: 1,
        level: Level::Lowered,
        modules: vec![m],
        locs: Default::default(),
        constants: Default::default(),
        signature: Signature::default(),
    }
}

/// One core with many instructions on four engines, of which no two have the same shape (for up to 100,000): operations,
/// attributes, dtypes, counts, steps and places change from one to the next.
pub fn varied(n: usize) -> Program {
    let mut p = lowered(0);
    let m = &mut p.modules[0];
    let (f, b) = (m.functions[0], m.blocks.keys().next().expect("a block"));
    let tiles: [MemLocId; 5] = std::array::from_fn(|k| {
        let (mem, row) = if k < 4 { (MemoryType::Sb, 24_576) } else { (MemoryType::Psum, 16_384) };
        let name = format!("v{k}");
        let (kind, space) = (TensorKind::Internal, AddressSpace::Local);
        let set = MemoryLocationSet::new(&name, Dtype::Uint8, kind, space, &[128, row]);
        let mut l = MemoryLocation::new(&name, SetId::from_u32(0), mem, &[128, row]);
        l.addr = if k < 4 { 0x8000 + 24_576 * k as u64 } else { 0 };
        l.allocated = true;
        m.add_location(f, set, l)
    });
    for k in 0..n {
        m.push_inst(b, varied_inst(k, &tiles));
    }
    p
}

fn varied_inst(k: usize, tiles: &[MemLocId; 5]) -> Inst {
    let types = [Dtype::Bfloat16, Dtype::Float32, Dtype::Float16];
    // rows of `a` elements, `gap` apart
    let (a, rows) = (2 + (k % 31) as u64, 2 + (k / 31 % 15) as u64);
    let gap = a as i64 + (k / 465 % 215) as i64;
    let parts = [128, 64, 32, 17][k / 3 % 4];
    let at = |n: usize, d: Dtype, free: &[(i64, u64)]| {
        let row = if n < 4 { 24_576 } else { 16_384 };
        let pitch = (row / d.bytes()) as i64;
        let pairs: Vec<(i64, u64)> = std::iter::once((pitch, parts)).chain(free.iter().copied()).collect();
        Operand::Ap(AccessPattern::new(tiles[n], d, (k * 4 % 1000) as i64, &pairs))
    };
    let (d, e) = (types[k / 5 % 3], types[k / 7 % 2]);
    let apart = [(gap, rows), (1, a)];
    let dense = [(a as i64, rows), (1, a)];
    let f = |v: usize| Operand::Imm(Immediate::f32(v as f32 * 0.5));
    let op = |n: usize| [AluOp::Add, AluOp::Max, AluOp::Mult, AluOp::Subtract, AluOp::Min][n % 5];
    let make = |opcode, engine, ins, out| {
        let mut i = Inst::new(&format!("v{k}"), opcode);
        i.engine = engine;
        i.ins = ins;
        i.outs = vec![out];
        i
    };
    let (dve, act) = (EngineKind::Dve, EngineKind::Activation);
    match k % 10 {
        0 | 1 => make(Opcode::TensorTensor, dve, vec![at(0, d, &apart), at(1, e, &dense)], at(2, e, &apart))
            .with(Attr::Op, op(k / 2)),
        2 => make(Opcode::TensorCopy, dve, vec![at(k / 10 % 2, d, &apart)], at(2, e, &dense)),
        3 => make(Opcode::TensorScalarPtr, dve, vec![at(0, d, &apart), f(k), f(k / 3)], at(3, e, &dense))
            .with(Attr::Op0, op(k))
            .with(Attr::Op1, op(k / 5))
            .with(Attr::Reverse0, false)
            .with(Attr::Reverse1, k % 4 == 1),
        4 => {
            let scalar = at(1, Dtype::Float32, &[(1, 1)]);
            make(Opcode::TensorScalarPtr, dve, vec![at(0, d, &dense), scalar], at(2, e, &apart))
                .with(Attr::Op0, op(k))
                .with(Attr::Op1, AluOp::Bypass)
                .with(Attr::Reverse0, false)
                .with(Attr::Reverse1, false)
                .with(Attr::IsTensorScalarAddr, true)
        }
        5 => make(Opcode::TensorReduce, dve, vec![at(0, d, &apart)], at(3, e, &[(1, rows)]))
            .with(Attr::Op, op(k / 3))
            .with(Attr::Axis, AxisListType::X),
        6 => make(Opcode::Memset, EngineKind::Pool, vec![], at(2, d, &apart))
            .with(Attr::Mode, MemsetMode::Const)
            .with(Attr::Constant, k as i64),
        7 => make(Opcode::Reciprocal, dve, vec![at(4, Dtype::Float32, &dense)], at(1, e, &apart)),
        8 => {
            let func = [
                ActivationFunctionType::Exp,
                ActivationFunctionType::Copy,
                ActivationFunctionType::Tanh,
                ActivationFunctionType::Square,
            ][k / 10 % 4];
            let bias = at(3, Dtype::Float32, &[(1, 1)]);
            make(Opcode::Activation, act, vec![at(0, d, &apart), bias], at(1, e, &dense))
                .with(Attr::Func, func)
                .with(Attr::Scale, 1.0 + k as f32 / 8.0)
                .with(Attr::Acc, EngineAccumulationType::Idle)
                .with(Attr::ReduceOp, AluOp::Bypass)
                .with(Attr::Op0, AluOp::Bypass)
                .with(Attr::Op1, AluOp::Bypass)
        }
        _ => {
            let b = Dtype::Bfloat16;
            let mut i = make(
                Opcode::Matmult,
                EngineKind::Pe,
                vec![at(0, b, &apart), at(1, b, &[(1, 2 + (k % 127) as u64)])],
                at(4, Dtype::Float32, &dense),
            )
            .with(Attr::AccumulationFlag, 3i64);
            // one column of the stationary tile for every partition of the product
            if let Some(Operand::Ap(o)) = i.outs.first_mut() {
                o.pairs[0].num = 2 + (k % 127) as u64;
            }
            i
        }
    }
}

/// The same, linked.
pub fn linked(n: usize) -> LinkedProgram {
    link(&lowered(n), LinkOptions::default()).expect("links").0
}

/// A container of exactly `n` records: those of a small program, repeated, then Exit.
pub fn container(n: usize) -> Vec<u8> {
    let opts = WriteOptions { debug: false, ..WriteOptions::default() };
    let (bytes, _) = encode(&linked(1_000.min(n.max(2) - 1)), opts).expect("encodes");
    let c = read_sections(&bytes).expect("reads");
    let mut sections = c.sections.clone();
    let s = sections.iter_mut().find(|s| s.kind == Kind::Stream).expect("a stream");
    let exit = s.bytes.split_off(s.bytes.len() - 64);
    let unit = std::mem::take(&mut s.bytes);
    s.bytes = unit.iter().copied().cycle().take(64 * (n - 1)).collect();
    s.bytes.extend(exit);
    assemble(c.arch as u16, c.cores, c.flags, &mut sections)
}
