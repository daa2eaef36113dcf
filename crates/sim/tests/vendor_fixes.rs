//! Bugs that the vendor's simulator had and fixed (release notes of NKI 0.4 to 0.6), each with the right value.
//! The one about while loops is in `control.rs`.

#[path = "support/golden.rs"]
mod golden;

use golden::{Bench, Place, inst, view};
use tandem_bir::arch::ArchLevel;
use tandem_bir::{
    ActivationFunctionType as Func, AluOp, Attr, CopyMode, Dtype, EngineAccumulationType as Cmd, EngineKind,
    Expr, Immediate, MatmultPerfMode, Opcode, RegId, TransposeOps,
};
use tandem_sim::exec::{Arg, Indexed};
use tandem_sim::memory::View;
use tandem_sim::numeric_profile::NumericProfile;
use tandem_sim::state::RegValue;

#[test]
fn fp32_to_int_rounds_half_to_even_and_saturates() {
    let mut b = Bench::hw();
    let src = b.put_f32(&[1, 6], &[0.5, 1.5, -2.5, 3e9, -3e9, f32::NAN]);
    let dst = b.place(Place::Sbuf, Dtype::Int32, &[1, 6]);
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&src)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_i32(&dst), [0, 2, -2, i32::MAX, i32::MIN, i32::MAX]);
}

#[test]
fn find_index8_gives_successive_duplicates_and_all_ones() {
    let mut b = Bench::hw();
    let src = b.put_f32(&[1, 9], &[1.0, 2.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let vals = b.put_f32(&[1, 8], &[2.0, 2.0, 2.0, 3.0, 9.0, 1.0, 1.0, 0.0]);
    let dst = b.place(Place::Sbuf, Dtype::Uint32, &[1, 8]);
    b.run(&inst(Opcode::MaxIndex, EngineKind::Dve), &[view(&src), view(&vals)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_i32(&dst), [1, 2, -1, 3, -1, 0, -1, 4]);
}

#[test]
fn a_reduce_result_that_aliases_the_destination_is_written_last() {
    let mut b = Bench::hw();
    let src = b.put_f32(&[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 4]);
    let mut res = dst.clone();
    res.dims[1].num = 1;
    let i = inst(Opcode::Activation, EngineKind::Activation)
        .with(Attr::Func, Func::Square)
        .with(Attr::Scale, 1.0f32)
        .with(Attr::Acc, Cmd::ZeroAccumulate)
        .with(Attr::ReduceOp, AluOp::Add);
    b.run(&i, &[view(&src)], &[view(&dst), view(&res)]).unwrap();
    assert_eq!(b.get_f32(&dst), [30.0, 4.0, 9.0, 16.0]);
}

/// A matmul of ones: every element of the destination gets `k`.
fn ones(b: &mut Bench, dst: &View, k: usize) {
    let n = dst.elems_per_partition();
    let m = b.put_f32(&[k, n], &vec![1.0; k * n]);
    let s = b.put_f32(&[k, dst.partitions()], &vec![1.0; k * dst.partitions()]);
    b.run(&inst(Opcode::Matmult, EngineKind::Pe), &[view(&m), view(&s)], &[view(dst)]).unwrap();
}

#[test]
fn accumulation_into_overlapping_psum_regions_is_per_element() {
    let mut b = Bench::hw();
    let all = b.place(Place::Psum, Dtype::Float32, &[2, 6]);
    let part = |from: usize| {
        let mut v = all.clone();
        v.base += 4 * from;
        v.dims[1].num = 4;
        v
    };
    ones(&mut b, &part(0), 3);
    ones(&mut b, &part(2), 5);
    assert_eq!(b.get_f32(&all), [3.0, 3.0, 8.0, 8.0, 5.0, 5.0, 3.0, 3.0, 8.0, 8.0, 5.0, 5.0]);
}

#[test]
fn a_read_ends_an_automatic_group_and_says_so() {
    let mut b = Bench::hw();
    let acc = b.place(Place::Psum, Dtype::Float32, &[2, 4]);
    let out = b.place(Place::Sbuf, Dtype::Float32, &[2, 4]);
    ones(&mut b, &acc, 3);
    ones(&mut b, &acc, 4);
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&acc)], &[view(&out)]).unwrap();
    assert_eq!(b.get_f32(&out), [7.0; 8]);
    assert!(b.notes.is_empty());
    ones(&mut b, &acc, 2);
    assert_eq!(b.get_f32(&acc), [2.0; 8]);
    assert_eq!(b.notes.iter().map(|n| n.code.info().id).collect::<Vec<_>>(), ["S0209"]);
    // A write by another instruction closes the group too, without a remark.
    b.notes.clear();
    let zero = inst(Opcode::Memset, EngineKind::Dve).with(Attr::Constant, 0i64);
    b.run(&zero, &[], &[view(&acc)]).unwrap();
    ones(&mut b, &acc, 6);
    assert_eq!(b.get_f32(&acc), [6.0; 8]);
    assert!(b.notes.is_empty());
}

#[test]
fn explicit_flags_start_and_accumulate() {
    for (arch, ok) in [(ArchLevel::Gen3, false), (ArchLevel::CoreV4, true)] {
        let mut b = Bench::new(NumericProfile::hw(), arch);
        let dst = b.place(Place::Psum, Dtype::Float32, &[1, 2]);
        let (m, s) = (b.put_f32(&[1, 2], &[2.0, 3.0]), b.put_f32(&[1, 1], &[10.0]));
        let with = |flag: i64| inst(Opcode::Matmult, EngineKind::Pe).with(Attr::AccumulationFlag, flag);
        let out = b.place(Place::Sbuf, Dtype::Float32, &[1, 2]);
        for (flag, want) in [(1, [20.0, 30.0]), (4, [40.0, 60.0]), (6, [60.0, 90.0]), (3, [20.0, 30.0])] {
            b.run(&with(flag), &[view(&m), view(&s)], &[view(&dst)]).unwrap();
            b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&dst)], &[view(&out)]).unwrap();
            assert_eq!(b.get_f32(&out), want);
            // A group is finished when its last matmul carries the stop bit (2).
            assert_eq!(
                b.notes.pop().map(|n| n.code.info().id),
                if flag & 2 == 0 { Some("S0214") } else { None }
            );
        }
        // Onto what a memset wrote: undefined before trn3.
        let one = inst(Opcode::Memset, EngineKind::Dve).with(Attr::Constant, i64::from(1f32.to_bits()));
        b.run(&one, &[], &[view(&dst)]).unwrap();
        let r = b.run(&with(4), &[view(&m), view(&s)], &[view(&dst)]);
        assert_eq!(r.is_ok(), ok);
        match r {
            Ok(()) => assert_eq!(b.get_f32(&dst), [21.0, 31.0]),
            Err(f) => assert_eq!(f.code.info().id, "S0210"),
        }
    }
}

#[test]
fn copy_predicated_pairs_elements_of_different_ranks() {
    let mut b = Bench::hw();
    let src = b.put_f32(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let pred = b.put(Dtype::Uint8, &[1, 6], &[1, 0, 1, 0, 1, 0]);
    let dst = b.put_f32(&[1, 3, 2], &[0.0; 6]);
    b.run(&inst(Opcode::CopyPredicated, EngineKind::Dve), &[view(&src), view(&pred)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&dst), [1.0, 0.0, 3.0, 0.0, 5.0, 0.0]);
}

fn rows_of(b: &mut Bench, dtype: Dtype, rows: usize, bytes: &[u8]) -> View {
    let v = b.place(Place::Dram, dtype, &[rows, bytes.len() / rows / dtype.bytes() as usize]);
    b.mem.scatter(&v, bytes);
    v
}

fn indexed(v: &View, n: usize, max: i64) -> Arg {
    let mut one = v.clone();
    one.dims[0].num = n;
    let end = v.byte_range().unwrap().1 as usize;
    Arg::Indexed(Box::new(Indexed {
        coeff_bytes: v.dims[0].stride,
        view: one,
        index: 0,
        max_index: Some(max),
        dim: 0,
        limits: v.base..end,
    }))
}

#[test]
fn a_skipped_row_of_a_dma_keeps_the_bits_of_the_destination() {
    for dtype in [Dtype::Int32, Dtype::Float8E4m3FnX4] {
        let mut b = Bench::hw();
        let table = rows_of(&mut b, dtype, 3, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let dst = b.put(dtype, &[4, 1], &[0xEE; 16]);
        let idx = b.put_i32(&[4, 1], &[2, 7, -1, 0]);
        let skip = inst(Opcode::DmaCopy, EngineKind::Dma).with(Attr::OobIsErr, false);
        let ins = [indexed(&table, 4, 2)];
        b.run_indirect(&skip, &ins, &[view(&dst)], &[view(&idx)]).unwrap();
        assert_eq!(b.get(&dst), [9, 10, 11, 12, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 1, 2, 3, 4]);
        let strict = inst(Opcode::DmaCopy, EngineKind::Dma);
        let f = b.run_indirect(&strict, &ins, &[view(&dst)], &[view(&idx)]).unwrap_err();
        assert_eq!(f.code.info().id, "S0203");
        assert!(f.message.contains("index 7"), "{}", f.message);
    }
}

#[test]
fn scatter_adds_duplicates_in_order_and_warns() {
    let mut b = Bench::hw();
    let table = rows_of(&mut b, Dtype::Float32, 3, &golden::f32_bytes(&[10.0, 20.0, 30.0]));
    let src = b.put_f32(&[3, 1], &[1.0, 2.0, 4.0]);
    let idx = b.put_i32(&[3, 1], &[2, 0, 2]);
    let i = inst(Opcode::GenericIndirectSave, EngineKind::Dma).with(Attr::Op, AluOp::Add);
    b.run_indirect(&i, &[view(&src)], &[indexed(&table, 3, 2)], &[view(&idx)]).unwrap();
    assert_eq!(b.get_f32(&table), [12.0, 20.0, 35.0]);
    assert_eq!(b.notes.iter().map(|n| n.code.info().id).collect::<Vec<_>>(), ["S0208"]);
    // A copy: the last one wins.
    let copy = inst(Opcode::DmaCopy, EngineKind::Dma);
    b.run_indirect(&copy, &[view(&src)], &[indexed(&table, 3, 2)], &[view(&idx)]).unwrap();
    assert_eq!(b.get_f32(&table), [2.0, 20.0, 4.0]);
}

#[test]
fn a_gathering_transpose_leaves_valid_data_where_an_index_is_skipped() {
    let mut b = Bench::hw();
    let table = rows_of(&mut b, Dtype::Uint16, 2, &[1, 0, 2, 0, 3, 0, 4, 0]);
    let dst = b.put(Dtype::Uint16, &[2, 3], &[9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0]);
    let idx = b.put_i32(&[3, 1], &[1, 5, 0]);
    let i = inst(Opcode::DmaCopy, EngineKind::Dma)
        .with(Attr::Mode, CopyMode::Transpose)
        .with(Attr::TransposeOp, TransposeOps::Xzyw)
        .with(Attr::OobIsErr, false);
    b.run_indirect(&i, &[indexed(&table, 3, 1)], &[view(&dst)], &[view(&idx)]).unwrap();
    assert_eq!(b.get(&dst), [3, 0, 9, 0, 1, 0, 4, 0, 9, 0, 2, 0]);
}

#[test]
fn local_gather_writes_into_a_sub_view_and_takes_offsets_in_elements() {
    let mut b = Bench::hw();
    let data: Vec<f32> = (0..16 * 8).map(|i| i as f32).collect();
    let src = b.put_f32(&[16, 8], &data);
    let idx: Vec<u8> = [3u16, 0, 5].iter().chain(&[0; 13]).flat_map(|v| v.to_le_bytes()).collect();
    let index = b.put(Dtype::Uint16, &[16, 1], &idx);
    let whole = b.put_f32(&[16, 10], &[-1.0; 160]);
    let mut dst = whole.clone();
    dst.base += 8;
    dst.dims[1].num = 6;
    let i = inst(Opcode::IndirectCopy, EngineKind::Pool).with(Attr::NumValidIndices, 3i64);
    let two = Arg::Imm(Immediate::i32(2));
    b.run(&i, &[view(&src), view(&index), two], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&whole)[..10], [-1.0, -1.0, 3.0, 4.0, 0.0, 1.0, 5.0, 6.0, -1.0, -1.0]);
    assert_eq!(b.get_f32(&whole)[10..18], [-1.0, -1.0, 11.0, 12.0, 8.0, 9.0, 13.0, 14.0]);
}

#[test]
fn iota_and_affine_select_take_register_offsets() {
    let mut b = Bench::hw();
    b.core.regs[3] = RegValue { bits: 100, defined: true };
    let base = Expr::Affine { terms: vec![(2, Expr::Reg(RegId::from_u32(3)))], c: 1 };
    let dst = b.place(Place::Sbuf, Dtype::Int32, &[2, 3]);
    let mut i = inst(Opcode::Iota, EngineKind::Pool)
        .with(Attr::ChannelMultiplier, 10i64)
        .with(Attr::Base, base.clone());
    i.set(Attr::Pattern, tandem_bir::AttrValue::Pairs(Box::new([tandem_bir::ApPair::new(1, 3)])));
    b.run(&i, &[], &[view(&dst)]).unwrap();
    assert_eq!(b.get_i32(&dst), [201, 202, 203, 211, 212, 213]);
    let src = b.put_f32(&[2, 3], &[1.0; 6]);
    let out = b.place(Place::Sbuf, Dtype::Float32, &[2, 3]);
    let mut s = inst(Opcode::TensorScalarAffineSelect, EngineKind::Pool)
        .with(Attr::Base, base)
        .with(Attr::ChannelMultiplier, 10i64)
        .with(Attr::CompareOp, AluOp::IsGt)
        .with(Attr::FillValue, 0.5f32);
    s.set(Attr::Pattern, tandem_bir::AttrValue::Pairs(Box::new([tandem_bir::ApPair::new(-150, 3)])));
    b.run(&s, &[view(&src)], &[view(&out)]).unwrap();
    assert_eq!(b.get_f32(&out), [1.0, 1.0, 0.5, 1.0, 1.0, 0.5]);
}

#[test]
fn logical_and_tests_for_nonzero() {
    let mut b = Bench::hw();
    let (a, c) = (b.put_f32(&[1, 4], &[0.5, 2.0, 0.0, -1.0]), b.put_f32(&[1, 4], &[2.0, 0.0, 3.0, -0.25]));
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 4]);
    let i = inst(Opcode::TensorTensor, EngineKind::Dve).with(Attr::Op, AluOp::LogicalAnd);
    b.run(&i, &[view(&a), view(&c)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&dst), [1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn dma_compute_has_only_multiplicative_scales() {
    let mut b = Bench::hw();
    let (a, c) = (b.put_f32(&[1, 2], &[1.0, 2.0]), b.put_f32(&[1, 2], &[10.0, 20.0]));
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 2]);
    let mut i =
        inst(Opcode::DmaCopy, EngineKind::Dma).with(Attr::Mode, CopyMode::Cce).with(Attr::CceOp, AluOp::Add);
    let f = tandem_bir::inst::F32;
    i.set(Attr::Constants, tandem_bir::AttrValue::Floats(Box::new([f(1.0), f(1.0)])));
    b.run(&i, &[view(&a), view(&c)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&dst), [11.0, 22.0]);
}

#[test]
fn mx_scales_are_read_from_sliced_views() {
    // The scales of 64 partitions lie in rows 0..4 and 32..36 of a tile.
    let mut b = Bench::new(NumericProfile::hw(), ArchLevel::CoreV4);
    let one = [0x38u8; 4]; // 1.0 in e4m3fn
    let data: Vec<u8> = one.iter().copied().cycle().take(64 * 4).collect();
    let (m, s) =
        (b.put(Dtype::Float8E4m3FnX4, &[64, 1], &data), b.put(Dtype::Float8E4m3FnX4, &[64, 1], &data));
    let mut scales = vec![0u8; 36];
    for (k, row) in [0usize, 1, 2, 3, 32, 33, 34, 35].into_iter().enumerate() {
        scales[row] = 127 + k as u8 % 2;
    }
    let scale = b.put(Dtype::Uint8, &[36, 1], &scales);
    let unit = b.put(Dtype::Uint8, &[36, 1], &[127; 36]);
    let dst = b.place(Place::Psum, Dtype::Float32, &[1, 1]);
    b.run(
        &inst(Opcode::MatmultMx, EngineKind::Pe),
        &[view(&m), view(&s), view(&scale), view(&unit)],
        &[view(&dst)],
    )
    .unwrap();
    assert_eq!(b.get_f32(&dst), [(4 * 32 + 4 * 32 * 2) as f32]);
}

#[test]
fn accumulators_remember_their_partitions_and_poison() {
    let mut b = Bench::hw();
    let x = b.put_f32(&[4, 3], &[1.0, 2.0, 3.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 0.0, 0.0, 7.0]);
    let y = b.place(Place::Sbuf, Dtype::Float32, &[4, 3]);
    let r = b.place(Place::Sbuf, Dtype::Float32, &[4, 1]);
    let half = |v: &View, p: usize| {
        let mut h = v.clone();
        h.base += p * h.dims[0].stride as usize;
        h.dims[0].num = 2;
        h
    };
    let act = |cmd| {
        inst(Opcode::Activation, EngineKind::Activation)
            .with(Attr::Func, Func::Copy)
            .with(Attr::Scale, 1.0f32)
            .with(Attr::Acc, cmd)
            .with(Attr::ReduceOp, AluOp::Add)
    };
    for p in [0, 2] {
        b.run(&act(Cmd::ZeroAccumulate), &[view(&half(&x, p))], &[view(&half(&y, p))]).unwrap();
    }
    b.run(&act(Cmd::AddAccumulate), &[view(&half(&x, 0))], &[view(&half(&y, 0))]).unwrap();
    let read = inst(Opcode::ActivationReadAccumulator, EngineKind::Activation);
    b.run(&read, &[], &[view(&r)]).unwrap();
    assert_eq!(b.get_f32(&r), [12.0, 6.0, 15.0, 7.0]);
    b.run(&act(Cmd::Idle), &[view(&half(&x, 2))], &[view(&half(&y, 2))]).unwrap();
    assert_eq!(b.run(&read, &[], &[view(&r)]).unwrap_err().code.info().id, "S0205");
}

#[test]
fn overlapping_operands_are_read_first_and_reported() {
    let mut b = Bench::hw();
    let all = b.put_f32(&[1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let (mut src, mut dst) = (all.clone(), all.clone());
    src.dims[1].num = 4;
    dst.dims[1].num = 4;
    dst.base += 4;
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&src)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&all), [1.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(b.notes.iter().map(|n| n.code.info().id).collect::<Vec<_>>(), ["S0213"]);
    b.notes.clear();
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&src)], &[view(&src)]).unwrap();
    assert!(b.notes.is_empty());
}

#[test]
fn inputs_outside_the_hardware_range_are_reported_with_the_worst() {
    let mut b = Bench::hw();
    let src = b.put_f32(&[1, 4], &[0.5, 9.0, -4.0, 3.0]);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 4]);
    let i = inst(Opcode::Activation, EngineKind::Activation)
        .with(Attr::Func, Func::Sin)
        .with(Attr::Scale, 1.0f32);
    b.run(&i, &[view(&src)], &[view(&dst)]).unwrap();
    assert_eq!(b.notes[0].code.info().id, "S0206");
    assert!(
        b.notes[0].message.contains("2 of 4") && b.notes[0].message.contains("9e0"),
        "{}",
        b.notes[0].message
    );
}

#[test]
fn a_signalling_nan_survives_copies_and_is_canonical_after_arithmetic() {
    let mut b = Bench::hw();
    let bits = [0xFF81_2345u32];
    let src = b.put(Dtype::Float32, &[1, 1], &bits[0].to_le_bytes());
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 1]);
    b.run(&inst(Opcode::TensorCopy, EngineKind::Dve), &[view(&src)], &[view(&dst)]).unwrap();
    assert_eq!(b.get(&dst), bits[0].to_le_bytes());
    let i = inst(Opcode::TensorTensor, EngineKind::Dve).with(Attr::Op, AluOp::Add);
    b.run(&i, &[view(&src), view(&src)], &[view(&dst)]).unwrap();
    assert_eq!(b.get(&dst), 0x7FC0_0000u32.to_le_bytes());
}

#[test]
fn match_replace8_claims_duplicates_from_the_highest_slot() {
    // The example of the documents: 1 2 3 4 and seven times 8 against 3 and seven times 8.
    let mut b = Bench::hw();
    let mut data = vec![1.0, 2.0, 3.0, 4.0];
    data.extend([8.0; 7]);
    let src = b.put_f32(&[1, 11], &data);
    let vals = b.put_f32(&[1, 8], &[3.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 11]);
    let idx = b.place(Place::Sbuf, Dtype::Int32, &[1, 8]);
    let both = inst(Opcode::MaxIndexAndMatchReplace, EngineKind::Dve).with(Attr::ImmValue, -1.0f32);
    b.run(&both, &[view(&src), view(&vals)], &[view(&dst), view(&idx)]).unwrap();
    assert_eq!(b.get_i32(&idx), [2, 10, 9, 8, 7, 6, 5, 4]);
    let want = [1.0, 2.0, -1.0, 4.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
    assert_eq!(b.get_f32(&dst), want);
    let only = inst(Opcode::MatchReplace, EngineKind::Dve).with(Attr::ImmValue, -1.0f32);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 11]);
    b.run(&only, &[view(&src), view(&vals)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&dst), want);
    // Fewer values than duplicates: the first columns are replaced, once each.
    let vals = b.put_f32(&[1, 8], &[8.0, 8.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
    b.run(&only, &[view(&src), view(&vals)], &[view(&dst)]).unwrap();
    assert_eq!(b.get_f32(&dst), [1.0, 2.0, 3.0, 4.0, -1.0, -1.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
}

#[test]
fn double_row_is_a_mode_of_the_instruction_not_a_guess_from_the_shape() {
    // Codes of 2, 3, 5 and 7 in e4m3.
    let run = |mode: MatmultPerfMode, m: usize| {
        let mut b = Bench::hw();
        let s = b.put(Dtype::Float8E4, &[1, 2, 1], &[0x40, 0x44]);
        let x = b.put(Dtype::Float8E4, &[1, 2, 1], &[0x4A, 0x4E]);
        let dst = b.place(Place::Psum, Dtype::Float32, &[m, m]);
        let i = inst(Opcode::Matmult, EngineKind::Pe).with(Attr::PerfMode, mode);
        b.run(&i, &[view(&x), view(&s)], &[view(&dst)]).unwrap();
        b.get_f32(&dst)
    };
    assert_eq!(run(MatmultPerfMode::DoubleRow, 1), [31.0]);
    assert_eq!(run(MatmultPerfMode::None, 2), [10.0, 14.0, 15.0, 21.0]);
}

#[test]
fn select_reduce_pairs_elements_of_different_ranks() {
    let mut b = Bench::hw();
    let pred = b.put(Dtype::Uint8, &[1, 6], &[1, 0, 1, 0, 0, 1]);
    let yes = b.put_f32(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let no = b.put_f32(&[1, 3, 2], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    let dst = b.place(Place::Sbuf, Dtype::Float32, &[1, 6]);
    let top = b.place(Place::Sbuf, Dtype::Float32, &[1, 1]);
    let i = inst(Opcode::CopyPredicated, EngineKind::Dve).with(Attr::ReduceOp, AluOp::Max);
    b.run(&i, &[view(&pred), view(&yes), view(&no)], &[view(&dst), view(&top)]).unwrap();
    assert_eq!(b.get_f32(&dst), [1.0, -2.0, 3.0, -4.0, -5.0, 6.0]);
    assert_eq!(b.get_f32(&top), [6.0]);
}

#[test]
fn a_shuffle_mask_of_255_keeps_the_row_of_the_destination() {
    let mut b = Bench::hw();
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let src = b.put_f32(&[32, 2], &x);
    let dst = b.put_f32(&[32, 2], &[-1.0; 64]);
    let mut mask = vec![255i64; 32];
    (mask[0], mask[3]) = (31, 0);
    let mut i = inst(Opcode::StreamShuffle, EngineKind::Dve);
    i.set(Attr::Mask, tandem_bir::AttrValue::Ints(mask.into()));
    b.run(&i, &[view(&src)], &[view(&dst)]).unwrap();
    let got = b.get_f32(&dst);
    assert_eq!(got[..8], [62.0, 63.0, -1.0, -1.0, -1.0, -1.0, 0.0, 1.0]);
    assert!(got[8..].iter().all(|v| *v == -1.0));
}

/// A strided operand: the innermost extent is cut, so that the dimensions do not merge.
fn cut(mut v: View, inner: usize) -> View {
    v.dims.last_mut().unwrap().num = inner;
    v
}

#[test]
fn matmul_takes_operands_of_three_and_four_dimensions() {
    // out[m][n] = sum over k of s[k][m]·x[k][n], with n over (2, 2, 3) and m over (2, 2), all with gaps.
    let mut b = Bench::hw();
    let x = cut(b.place(Place::Sbuf, Dtype::Float32, &[3, 2, 2, 5]), 3);
    let s = cut(b.place(Place::Sbuf, Dtype::Float32, &[3, 2, 4]), 2);
    let dst = cut(b.place(Place::Psum, Dtype::Float32, &[4, 2, 2, 7]), 3);
    let xs: Vec<f32> = (0..36).map(|i| (i % 11) as f32 - 4.0).collect();
    let ss: Vec<f32> = (0..12).map(|i| (i % 5) as f32 - 2.0).collect();
    b.mem.scatter(&x, &golden::f32_bytes(&xs));
    b.mem.scatter(&s, &golden::f32_bytes(&ss));
    b.run(&inst(Opcode::Matmult, EngineKind::Pe), &[view(&x), view(&s)], &[view(&dst)]).unwrap();
    let mut want = Vec::new();
    for m in 0..4 {
        for n in 0..12 {
            want.push((0..3).map(|k| ss[4 * k + m] * xs[12 * k + n]).sum::<f32>());
        }
    }
    assert_eq!(b.get_f32(&dst), want);
    // Bytes between the runs are untouched.
    let mut gap = dst.clone();
    gap.base += 4 * 3;
    gap.dims.last_mut().unwrap().num = 4;
    assert!(b.get(&gap).iter().all(|v| *v == 0));
}
