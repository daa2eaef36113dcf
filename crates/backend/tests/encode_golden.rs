//! Golden dumps of the specification, files 07 §12 and 08 §12, byte for byte; the refusals of the swap bundle.

mod wire;

use tandem_backend::encode::sb2sb::{Bf21, check_sb2sb, encode_sb2sb};
use tandem_backend::encode::{Bundle, WireError};
use tandem_bir::diag::codes;
use tandem_bir::inst::{SemUpdate, SemWait, SyncInfo};
use tandem_bir::{AluOp, ArchLevel, Attr, Dtype, EngineKind, Inst, Opcode, Operand};
use wire::Bench;

fn golden(name: &str) -> Bundle {
    let path = format!("{}/../../testdata/golden_bundles/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let bytes: Vec<u8> = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .flat_map(|l| l.split(':').nth(1).unwrap().split_whitespace())
        .map(|h| u8::from_str_radix(h, 16).unwrap())
        .collect();
    Bundle(bytes.try_into().unwrap())
}

fn sync(waits: &[(u32, i64)], updates: &[(u32, i64)]) -> SyncInfo {
    SyncInfo {
        on_wait: waits.iter().map(|&(sem, value)| SemWait { sem, value, ..SemWait::default() }).collect(),
        on_update: updates
            .iter()
            .map(|&(sem, value)| SemUpdate { sem, value, ..SemUpdate::default() })
            .collect(),
        extra: None,
    }
}

fn with_sync(mut i: Inst, s: SyncInfo) -> Inst {
    i.more_mut().sync = Some(s);
    i
}

/// The swap of the worked example: 4 x 32 elements of 64 partitions from 32.
fn swap(b: &Bench, dst_byte: u64) -> Inst {
    let mut i = Inst::new("swap", Opcode::GpsimdSb2Sb);
    i.engine = EngineKind::Pool;
    i.ins = vec![b.sb(32, 64, 0x1000, Dtype::Bfloat16, &[(64, 4), (1, 32)])];
    i.outs = vec![b.sb(32, 64, dst_byte, Dtype::Bfloat16, &[(32, 4), (1, 32)])];
    i
}

#[test]
fn swap_bundle_of_the_worked_dump() {
    let b = Bench::new(ArchLevel::Gen3);
    let i = with_sync(swap(&b, 0x8000), sync(&[(5, 1)], &[(9, 1)]));
    assert_eq!(b.encode(&i).unwrap()[0], golden("12_1_sb2sb"));
    let peer = b.with_ctx(|ctx| encode_sb2sb(&i, ctx, 2, Bf21::PeerPartition)).unwrap();
    assert_eq!(peer, golden("12_1_sb2sb_peer_partition"));
}

#[test]
fn swap_bundle_is_equal_on_core_v4() {
    let (b3, b4) = (Bench::new(ArchLevel::Gen3), Bench::new(ArchLevel::CoreV4));
    assert_eq!(b3.encode(&swap(&b3, 0x8000)).unwrap(), b4.encode(&swap(&b4, 0x8000)).unwrap());
}

#[test]
fn two_core_pair_names_the_partner() {
    let b = Bench::new(ArchLevel::Gen3);
    assert_eq!(b.encode(&swap(&b, 0x8000)).unwrap()[0], golden("08_12_core0"));
    assert_eq!(b.encode(&swap(&b, 0x9000)).unwrap()[0], golden("08_12_core1"));
}

#[test]
fn cast_from_psum() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = Inst::new("cast", Opcode::TensorCopy);
    i.engine = EngineKind::Dve;
    i.ins = vec![b.psum(0, 128, 2 * 2048, Dtype::Float32, &[(1, 512)])];
    i.outs = vec![b.sb(0, 128, 0x2000, Dtype::Bfloat16, &[(1, 512)])];
    assert_eq!(b.encode(&i).unwrap()[0], golden("12_2_cast"));
}

#[test]
fn core_barrier() {
    let b = Bench::new(ArchLevel::Gen3);
    let i = Inst::new("cb", Opcode::CoreBarrier).with(Attr::Id, 3).with(Attr::RuntimeSemaphore, 7);
    let i = with_sync(i, sync(&[(7, 2)], &[(8, 1)]));
    assert_eq!(b.encode(&i).unwrap()[0], golden("12_3_core_barrier"));
}

#[test]
fn pull_of_a_remote_tile() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = Inst::new("dma", Opcode::DmaCopy);
    i.engine = EngineKind::Sp;
    i.ins = vec![b.var(6, Dtype::Bfloat16, 0, &[(1024, 128), (1, 1024)])];
    i.outs = vec![b.sb(0, 128, 0x1000, Dtype::Bfloat16, &[(1, 1024)])];
    let i = with_sync(i, sync(&[], &[(11, 1)]));
    let e = b.encode(&i).unwrap();
    assert_eq!(e.len(), 1);
    assert_eq!(e[0], golden("12_4_direct2d"));
}

#[test]
fn event_semaphore_with_two_waits() {
    let b = Bench::new(ArchLevel::Gen3);
    let i = with_sync(Inst::new("e", Opcode::EventSemaphore), sync(&[(3, 2), (4, 1)], &[(9, 1)]));
    assert_eq!(b.encode(&i).unwrap()[0], golden("12_5_event_semaphore"));
}

#[test]
fn tensor_tensor_add() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = Inst::new("add", Opcode::TensorTensor).with(Attr::Op, AluOp::Add);
    i.engine = EngineKind::Dve;
    let t = |at| b.sb(0, 128, at, Dtype::Bfloat16, &[(1, 512)]);
    i.ins = vec![t(0x1000), t(0x2000)];
    i.outs = vec![t(0x3000)];
    assert_eq!(b.encode(&i).unwrap()[0], golden("12_6_tensor_tensor"));
}

#[test]
fn every_golden_dump_decodes_and_encodes_to_itself() {
    let b = Bench::new(ArchLevel::Gen3);
    for name in [
        "12_1_sb2sb",
        "12_2_cast",
        "12_3_core_barrier",
        "12_4_direct2d",
        "12_5_event_semaphore",
        "12_6_tensor_tensor",
    ] {
        let want = golden(name);
        let i = b.decode(&[want]).unwrap();
        assert_eq!(b.encode(&i).unwrap().as_slice(), &[want], "{name}");
    }
}

// ---- refusals of the swap ----

fn refusal(b: &Bench, i: &Inst, lnc: u32) -> WireError {
    let generate = b.with_ctx(|ctx| encode_sb2sb(i, ctx, lnc, Bf21::Count)).unwrap_err();
    let check = b.with_ctx(|ctx| check_sb2sb(i, ctx, lnc)).unwrap_err();
    assert_eq!(generate, check, "write and check paths agree");
    generate
}

#[test]
fn refuses_an_lnc_other_than_two_with_assertion_936() {
    let b = Bench::new(ArchLevel::Gen3);
    for lnc in [0, 1, 4, 8] {
        let e = refusal(&b, &swap(&b, 0x8000), lnc);
        assert_eq!(e.code, codes::E0006);
        assert!(e.message.contains("936") && e.message.contains(&format!("is {lnc},")), "{}", e.message);
        assert!(e.message.contains("supported \"2\""));
    }
}

#[test]
fn refuses_generations_before_gen3() {
    let b = Bench::new(ArchLevel::Sunda);
    assert_eq!(refusal(&b, &swap(&b, 0x8000), 2).code, codes::E0002);
}

#[test]
fn refuses_257_elements_and_takes_256() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = swap(&b, 0x8000);
    for (n, ok) in [(256, true), (257, false)] {
        i.ins = vec![b.sb(0, 64, 0x1000, Dtype::Bfloat16, &[(1, n)])];
        i.outs = vec![b.sb(0, 64, 0x8000, Dtype::Bfloat16, &[(1, n)])];
        let r = b.with_ctx(|ctx| encode_sb2sb(&i, ctx, 2, Bf21::Count));
        assert_eq!(r.is_ok(), ok);
        if let Err(e) = r {
            assert!(e.message.contains("size_check_src"), "{}", e.message);
        }
    }
}

#[test]
fn refuses_rank_6_and_merges_rank_5() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = swap(&b, 0x8000);
    let five: &[(i64, u64)] = &[(1000, 2), (300, 2), (90, 2), (25, 2), (1, 2)];
    i.ins = vec![b.sb(0, 64, 0x1000, Dtype::Bfloat16, five)];
    i.outs = vec![b.sb(0, 64, 0x8000, Dtype::Bfloat16, &[(1, 32)])];
    let e = refusal(&b, &i, 2);
    assert_eq!(e.code, codes::E0003);
    assert!(e.message.starts_with("Illegal ISA memory access dimension 5"), "{}", e.message);
    // two pairs are contiguous: three remain
    i.ins = vec![b.sb(0, 64, 0x1000, Dtype::Bfloat16, &[(900, 2), (90, 4), (4, 2), (1, 2)])];
    assert!(b.with_ctx(|ctx| encode_sb2sb(&i, ctx, 2, Bf21::Count)).is_err());
    i.ins = vec![b.sb(0, 64, 0x1000, Dtype::Bfloat16, &[(900, 2), (90, 4), (2, 2), (1, 2)])];
    assert!(b.with_ctx(|ctx| encode_sb2sb(&i, ctx, 2, Bf21::Count)).is_ok());
}

#[test]
fn refuses_psum_unequal_dtypes_and_empty_patterns() {
    let b = Bench::new(ArchLevel::Gen3);
    let mut i = swap(&b, 0x8000);
    i.ins = vec![b.psum(0, 64, 0, Dtype::Bfloat16, &[(1, 128)])];
    assert!(refusal(&b, &i, 2).message.contains("tensor3d_valid(src)"));
    let mut i = swap(&b, 0x8000);
    i.outs = vec![b.sb(32, 64, 0x8000, Dtype::Float16, &[(1, 128)])];
    assert!(refusal(&b, &i, 2).message.contains("dtype_equality_check"));
    let mut i = swap(&b, 0x8000);
    if let Some(Operand::Ap(a)) = i.ins.first_mut() {
        a.pairs.clear();
    }
    assert!(refusal(&b, &i, 2).message.contains("idx < size()"));
}

/// What each of the 64 bytes of the swap depends on: changing that input changes exactly the named bytes.
#[test]
fn every_byte_of_the_swap_has_its_cause() {
    let b = Bench::new(ArchLevel::Gen3);
    let base = with_sync(swap(&b, 0x8000), sync(&[(5, 1)], &[(9, 1)]));
    let bytes = |i: &Inst| b.encode(i).unwrap()[0].0;
    let zero = bytes(&base);
    let mut seen = [false; 64];
    let mut cause = |what: &str, i: Inst, allowed: &[usize], must: &[usize]| {
        let now = bytes(&i);
        for k in 0..64 {
            if now[k] != zero[k] {
                assert!(allowed.contains(&k), "{what} changed byte {k:#04x}");
                seen[k] = true;
            }
        }
        for k in must {
            assert_ne!(now[*k], zero[*k], "{what} did not change byte {k:#04x}");
        }
    };
    cause("no wait", with_sync(base.clone(), sync(&[], &[(9, 1)])), &[4, 5, 8], &[4, 5, 8]);
    cause("no update", with_sync(base.clone(), sync(&[(5, 1)], &[])), &[6, 7], &[6, 7]);
    cause(
        "wait value",
        with_sync(base.clone(), sync(&[(5, 0x01020304)], &[(9, 1)])),
        &[8, 9, 10, 11],
        &[8, 9, 10, 11],
    );
    let with = |src: (u64, u64, u64, &[(i64, u64)]), dst: (u64, u64, u64, &[(i64, u64)]), d: Dtype| {
        let mut i = base.clone();
        i.ins = vec![b.sb(src.0, src.1, src.2, d, src.3)];
        i.outs = vec![b.sb(dst.0, dst.1, dst.2, d, dst.3)];
        i
    };
    let s = [(64, 4), (1, 32)].as_slice();
    let t = [(32, 4), (1, 32)].as_slice();
    let bf = Dtype::Bfloat16;
    cause(
        "dtype",
        with((32, 64, 0x1000, s), (32, 64, 0x8000, t), Dtype::Float16),
        &[0x0C, 0x0D],
        &[0x0C, 0x0D],
    );
    cause(
        "source address",
        with((33, 64, 0x2342, s), (32, 64, 0x8000, t), bf),
        &[0x10, 0x11, 0x12],
        &[0x10, 0x11, 0x12],
    );
    cause(
        "high partition",
        with((96, 32, 0x1000, s), (96, 32, 0x8000, t), bf),
        &[0x12, 0x13, 0x21, 0x32, 0x33],
        &[0x13, 0x21, 0x33],
    );
    cause(
        "destination address",
        with((32, 64, 0x1000, s), (33, 64, 0x8342, t), bf),
        &[0x30, 0x31, 0x32],
        &[0x30, 0x31, 0x32],
    );
    let s3: &[(i64, u64)] = &[(0x1234, 2), (-0x234, 2), (0x303, 2)];
    let t3: &[(i64, u64)] = &[(0x2345, 2), (-0x345, 2), (0x405, 2)];
    let src = &[0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1C, 0x1E];
    let dst = &[0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x3C, 0x3E];
    let allowed: Vec<usize> = src.iter().chain(dst).copied().collect();
    cause("patterns", with((32, 64, 0x1000, s3), (32, 64, 0x8000, t3), bf), &allowed, &allowed);
    // counts of 256 reach the high bytes, one slot at a time
    for (k, pairs) in [(0u64, [(1i64, 256u64)].as_slice()), (1, &[(7, 256)])] {
        let i = with((32, 64, 0x1000, pairs), (32, 64, 0x8000, pairs), bf);
        let _ = k;
        cause("long row", i, &[0x14, 0x16, 0x1A, 0x1B, 0x1C, 0x34, 0x36, 0x3A, 0x3B, 0x3C], &[0x1B, 0x3B]);
    }
    let fixed = [0x00, 0x01, 0x02, 0x03, 0x0E, 0x0F, 0x1D, 0x1F, 0x20, 0x3D, 0x3F];
    for k in 0..64usize {
        let reserved = (0x22..0x30).contains(&k) || fixed.contains(&k);
        assert!(seen[k] || reserved, "byte {k:#04x} has no cause");
        if reserved {
            let want = match k {
                0 => 0xBF,
                1 => 0x10,
                0x20 => 1,
                _ => 0,
            };
            assert_eq!(zero[k], want, "byte {k:#04x}");
        }
    }
}
