//! Records made from those of an earlier instruction of the same shape are the records of the whole way: bytes, patches, layouts
//! and refusals are equal, on the sample kernels and on generated streams of few shapes at many addresses.

mod many;
#[path = "../../sim/tests/support/samples.rs"]
mod samples;

use many::lowered;
use proptest::prelude::*;
use tandem_backend::encode::Bundle;
use tandem_backend::encode::program::{EncodeOptions, StreamImage, encode_streams};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::inst::Dep;
use tandem_bir::*;

const WHOLE: EncodeOptions =
    EncodeOptions { bf21: tandem_backend::encode::Bf21::Count, remember_shapes: false };

/// Both ways agree; how many records there are, and how many instructions were refused.
fn compare(l: &LinkedProgram) -> (usize, usize) {
    match (encode_streams(l, EncodeOptions::default()), encode_streams(l, WHOLE)) {
        (Ok((a, _)), Ok((b, _))) => {
            assert_eq!(a, b);
            (a.iter().flatten().map(|s| s.records.len()).sum(), 0)
        }
        (Err(a), Err(b)) => {
            let text = |d: &[diag::Diagnostic]| -> Vec<String> {
                d.iter().map(|d| format!("{} {} {:?}", d.code, d.message, d.sites)).collect()
            };
            assert_eq!(text(&a), text(&b));
            (0, a.len())
        }
        (a, b) => panic!("one way refuses: {:?} {:?}", a.err(), b.err()),
    }
}

#[test]
fn sample_kernels_encode_alike() {
    let mut records = 0;
    for name in samples::names() {
        let p = samples::kernel(&name, Level::Lowered);
        records += compare(&link(&p, LinkOptions::default()).expect("links").0).0;
    }
    assert!(records > 500, "{records}");
}

/// A stream that never repeats a shape encodes, whatever is remembered, and its container reads back.
#[test]
fn streams_that_never_repeat_encode_alike() {
    use tandem_backend::container::{WriteOptions, decode, encode, round_trip};
    for n in [10, 6_000] {
        let l = link(&many::varied(n), LinkOptions::default()).expect("links").0;
        let (records, refused) = compare(&l);
        // a matmul is two records
        assert!(records > n && refused == 0, "{records} records, {refused} refused");
        let (image, _) = encode_streams(&l, WHOLE).expect("encodes");
        let mut heads: Vec<[u8; 60]> = image
            .iter()
            .flatten()
            .flat_map(|s| &s.records)
            .filter(|b| !matches!(b.opcode(), 0x01 | 0x02 | 0xDF))
            .map(|b| std::array::from_fn(|k| if k == 0 { b.0[0] } else { b.0[k + 3] }))
            .collect();
        let all = heads.len();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), all, "two records are equal");
        let (bytes, _) = encode(&l, WriteOptions::default()).expect("encodes");
        assert!(round_trip(&bytes).expect("round trip").0 == bytes);
        decode(&bytes).expect("reads back");
    }
}

/// One generated instruction: its shape and what may differ between instructions of a shape.
#[derive(Clone, Debug)]
struct Draw {
    shape: usize,
    /// Elements into the rows of three tiles.
    at: [u64; 3],
    /// First partition, in units of 32.
    part: u64,
    value: i32,
    /// Waits for the instruction so many before.
    after: Option<usize>,
}

const SHAPES: usize = 12;

fn draw() -> impl Strategy<Value = Draw> {
    let at = [0u64..700, 0u64..700, 0u64..700];
    (0..SHAPES, at, 0u64..5, -2i32..3, prop::option::of(1usize..6))
        .prop_map(|(shape, at, part, value, after)| Draw { shape, at, part, value, after })
}

/// Tiles of bf16 in SBUF (0 to 2) and fp32 in PSUM (3).
fn inst(k: usize, d: &Draw, tiles: &[MemLocId; 4]) -> Inst {
    let bf = |n: usize, free: &[(i64, u64)]| tile(tiles[n], Dtype::Bfloat16, 2048, d.part, d.at[n], free);
    let fp = |n: usize, free: &[(i64, u64)]| tile(tiles[n], Dtype::Float32, 1024, d.part, d.at[n] / 2, free);
    let ps = |free: &[(i64, u64)]| tile(tiles[3], Dtype::Float32, 4096, d.part, d.at[0], free);
    let f = |v: i32| Operand::Imm(Immediate::f32(v as f32));
    let (run, two, three): (&[_], &[_], &[_]) = (&[(1, 64)], &[(16, 8), (1, 8)], &[(32, 4), (8, 4), (2, 4)]);
    let (opcode, engine, ins, outs): (_, _, Vec<Operand>, Vec<Operand>) = match d.shape {
        0 => (Opcode::TensorTensor, EngineKind::Dve, vec![bf(0, run), bf(1, run)], vec![bf(2, run)]),
        1 => (Opcode::TensorTensor, EngineKind::Dve, vec![bf(0, two), bf(1, three)], vec![fp(2, run)]),
        2 => (Opcode::TensorCopy, EngineKind::Dve, vec![bf(0, two)], vec![bf(1, run)]),
        3 => (Opcode::TensorCopy, EngineKind::Pool, vec![fp(0, run)], vec![bf(1, run)]),
        4 => (Opcode::TensorScalarPtr, EngineKind::Dve, vec![bf(0, run), f(d.value)], vec![bf(1, run)]),
        5 => {
            let scalar = tile(tiles[2], Dtype::Float32, 1024, d.part, d.at[2] / 2, &[(1, 1)]);
            (Opcode::TensorScalarPtr, EngineKind::Dve, vec![fp(0, two), scalar, f(d.value)], vec![fp(1, two)])
        }
        6 => (Opcode::Memset, EngineKind::Pool, vec![], vec![bf(0, two)]),
        7 => (Opcode::Reciprocal, EngineKind::Dve, vec![ps(run)], vec![fp(1, run)]),
        8 => {
            let bias = tile(tiles[2], Dtype::Float32, 1024, d.part, d.at[2] / 2, &[(1, 1)]);
            (Opcode::Activation, EngineKind::Activation, vec![bf(0, run), bias], vec![bf(1, run)])
        }
        9 => (Opcode::Activation, EngineKind::Activation, vec![fp(0, two), f(0)], vec![ps(two)]),
        10 => (Opcode::TensorReduce, EngineKind::Dve, vec![bf(0, two)], vec![fp(1, &[(1, 8)])]),
        _ => (Opcode::Matmult, EngineKind::Pe, vec![bf(0, run), bf(1, &[(1, 32)])], vec![ps(run)]),
    };
    let mut i = Inst::new(&format!("i{k}"), opcode);
    i.engine = engine;
    (i.ins, i.outs) = (ins, outs);
    match d.shape {
        0 | 1 => i.set(Attr::Op, if d.value == 0 { AluOp::Max } else { AluOp::Add }),
        4 | 5 => {
            i.set(Attr::Op0, AluOp::Mult);
            i.set(Attr::Op1, if d.shape == 4 { AluOp::Bypass } else { AluOp::Add });
        }
        6 => i.set(Attr::Constant, i64::from(d.value)),
        8 | 9 => {
            i.set(
                Attr::Func,
                if d.value > 0 { ActivationFunctionType::Exp } else { ActivationFunctionType::Copy },
            );
            i.set(Attr::Scale, d.value as f32);
        }
        10 => {
            i.set(Attr::Op, AluOp::Add);
            i.set(Attr::Axis, AxisListType::X);
        }
        11 => i.set(Attr::AccumulationFlag, 3i64),
        _ => {}
    }
    i
}

fn tile(l: MemLocId, d: Dtype, pitch: i64, part: u64, at: u64, free: &[(i64, u64)]) -> Operand {
    // 32 partitions may start at every multiple of 32; the fifth start leaves the memory
    let pairs: Vec<(i64, u64)> = std::iter::once((pitch, 32)).chain(free.iter().copied()).collect();
    Operand::Ap(AccessPattern::new(l, d, 32 * part as i64 * pitch + at as i64, &pairs))
}

fn program(draws: &[Draw]) -> Program {
    let mut p = lowered(0);
    let m = &mut p.modules[0];
    let (f, b) = (m.functions[0], m.blocks.keys().next().expect("a block"));
    let tiles: [MemLocId; 4] = std::array::from_fn(|k| {
        let (mem, row) = if k < 3 { (MemoryType::Sb, 4096) } else { (MemoryType::Psum, 16384) };
        let name = format!("x{k}");
        let set = MemoryLocationSet::new(
            &name,
            Dtype::Uint8,
            TensorKind::Internal,
            AddressSpace::Local,
            &[128, row],
        );
        let mut l = MemoryLocation::new(&name, SetId::from_u32(0), mem, &[128, row]);
        l.addr = if k < 3 { 0x8000 + 4096 * k as u64 } else { 0 };
        l.allocated = true;
        m.add_location(f, set, l)
    });
    let mut made: Vec<InstId> = Vec::new();
    for (k, d) in draws.iter().enumerate() {
        let mut i = inst(k, d, &tiles);
        if let Some(&to) = d.after.and_then(|n| made.len().checked_sub(n)).and_then(|n| made.get(n)) {
            i.deps.push(Dep { inst: to, kind: EdgeKind::Flow });
        }
        made.push(m.push_inst(b, i));
    }
    p
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn generated_streams_encode_alike(draws in prop::collection::vec(draw(), 1..60)) {
        if let Ok((l, _)) = link(&program(&draws), LinkOptions::default()) {
            compare(&l);
        }
    }
}

/// The generator reaches what it is for: streams that encode, streams that are refused, shapes that come again.
#[test]
fn the_generator_reaches_both() {
    let (mut encoded, mut refused, mut again) = (0, 0, 0);
    let mut x = 1u64;
    let mut below = |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    for _ in 0..40 {
        let draws: Vec<Draw> = (0..40)
            .map(|_| Draw {
                shape: below(SHAPES as u64) as usize,
                at: std::array::from_fn(|_| 2 * below(300)),
                part: below(4),
                value: below(3) as i32,
                after: (below(2) == 0).then(|| below(5) as usize + 1),
            })
            .collect();
        let Ok((l, _)) = link(&program(&draws), LinkOptions::default()) else { continue };
        let (n, bad) = compare(&l);
        encoded += n;
        refused += bad;
        if let Ok((image, _)) = encode_streams(&l, WHOLE) {
            let head = |b: &Bundle| b.0[0x20..0x30].to_vec();
            let all = |s: &StreamImage| s.records.iter().map(head).collect::<Vec<_>>();
            for s in &image[0] {
                let mut seen = all(s);
                let n = seen.len();
                seen.sort();
                seen.dedup();
                again += n - seen.len();
            }
        }
    }
    assert!(encoded > 300 && again > 100, "{encoded} records, {refused} refused, {again} again");
}
