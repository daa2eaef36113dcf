//! Rules of the collective lowering: the checklist of the specification, file 06 §16, and what surrounds it.

#![allow(clippy::needless_range_loop, reason = "cores are indexed")]

mod common;
use common::*;
use tandem_backend::passes::lower_local_collectives::{LowerLocalCollectives, run_single};
use tandem_backend::{PassOptions, Transport};
use tandem_bir::diag::{LocEntry, SourcePos};
use tandem_bir::*;

fn pair(d: Dtype, shape: [u64; 2]) -> (Build, MemLocId, MemLocId) {
    let mut b = program(2);
    let x = b.sb("x", d, shape);
    let y = b.sb("y", d, shape);
    (b, x, y)
}

fn transport(b: &mut Build, o: &PassOptions) -> &'static str {
    b.lower(o).decisions[0].transport
}

fn no_tokens(b: &Build) -> PassOptions {
    let mut o = b.opts();
    o.ptcom = tandem_backend::PtcomMode::Off;
    o
}

#[test]
fn one_core_changes_nothing() {
    let mut b = program(1);
    let x = b.sb("x", Dtype::Float32, [128, 512]);
    b.all(|b, c| allreduce("AllReduce-0", AluOp::Add, b.whole(c, x), b.whole(c, x)));
    let o = b.opts();
    let before = b.p.clone();
    b.run(&LowerLocalCollectives, &o);
    assert_eq!(b.p, before);
    assert_eq!(run_single(&mut b.p.modules[0]), 2);
    assert_eq!(b.p, before);
}

#[test]
fn boundary_of_the_byte_ceiling_and_of_the_knob() {
    for (d, n, knob, want) in [
        (Dtype::Float32, 256, 1024, "gpsimd"),
        (Dtype::Float32, 257, 1024, "dma"),
        (Dtype::Float32, 257, 100_000, "dma"),
        (Dtype::Bfloat16, 256, 1024, "gpsimd"),
        (Dtype::Bfloat16, 256, 512, "dma"),
        (Dtype::Bfloat16, 128, 512, "gpsimd"),
        (Dtype::Uint8, 256, 1024, "gpsimd"),
        (Dtype::Uint8, 300, 1024, "dma"),
        (Dtype::Int64, 128, 1024, "gpsimd"),
        (Dtype::Int64, 129, 1024, "dma"),
        (Dtype::Float32, 1, 0, "dma"),
    ] {
        let (mut b, x, y) = pair(d, [128, n]);
        b.swap("s", x, y);
        let mut o = b.opts();
        o.sendrecv_to_gpsimd_max_bpp = knob;
        assert_eq!(transport(&mut b, &o), want, "{d} {n} knob {knob}");
    }
}

#[test]
fn a_source_in_dram_goes_by_dma_and_an_other_dtype_is_an_error() {
    let mut b = program(2);
    let x = b.dram("x", TensorKind::Internal, AddressSpace::Local, Dtype::Float32, [128, 16]);
    let y = b.sb("y", Dtype::Float32, [128, 16]);
    b.swap("s", x, y);
    let o = b.opts();
    let out = b.lower(&o);
    assert_eq!(out.decisions[0].transport, "dma");
    assert!(out.decisions[0].note.starts_with("C6 fails"), "{}", out.decisions[0].note);

    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let y = b.sb("y", Dtype::Bfloat16, [128, 16]);
    b.swap("s", x, y);
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!((codes(&d), d[0].message.as_str()), (vec!["L0016".into()], "SendRecv shape mismatch"));
    assert_eq!(d[0].sites.len(), 2);
}

#[test]
fn arch_without_two_cores_is_an_option_error() {
    for (lnc, arch, text) in [
        (2, ArchLevel::Sunda, "LNC size 2 needs architecture gen3 or later, got sunda"),
        (3, ArchLevel::Gen3, "LNC size must be 1 or 2, got 3"),
    ] {
        let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
        b.swap("s", x, y);
        let out = tandem_backend::prepare(&mut b.p, &PassOptions::new(lnc, arch));
        assert_eq!((out.diags[0].code.to_string().as_str(), out.diags[0].message.as_str()), ("U0005", text));
        assert_eq!(diag::exit_code(&out.diags), 2);
    }
}

/// Two swaps of disjoint tiles; `between` may push instructions.
fn two_swaps(between: impl Fn(&mut Build, MemLocId)) -> Build {
    let mut b = program(2);
    let t: Vec<MemLocId> = (0..4).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 16])).collect();
    b.swap("A", t[0], t[1]);
    between(&mut b, t[2]);
    b.swap("B", t[2], t[3]);
    b
}

#[test]
fn back_to_back_swaps_share_a_barrier() {
    let mut b = two_swaps(|_, _| {});
    let o = no_tokens(&b);
    let out = b.lower(&o);
    let want = ["A_sr_cb_begin", "A_sb2sb", "A_sr_cb_end", "B_sb2sb", "B_sr_cb_end"];
    assert_eq!(names(&b.p.modules[0], b.b[0]), want);
    assert_eq!(names(&b.p.modules[1], b.b[1]), want);
    let row = &out.decisions[1].barriers;
    assert_eq!((row[0].name.as_str(), row[0].inserted), ("B_sr_cb_begin", false));
    assert!(row[0].why.contains("A_sr_cb_end"));
}

#[test]
fn a_rewrite_on_one_core_keeps_the_barrier_on_both() {
    let mut b = two_swaps(|b, x| {
        let ap = b.whole(1, x);
        b.memset(1, "w", ap);
    });
    let o = no_tokens(&b);
    let out = b.lower(&o);
    assert_eq!(
        names(&b.p.modules[0], b.b[0]),
        ["A_sr_cb_begin", "A_sb2sb", "A_sr_cb_end", "B_sr_cb_begin", "B_sb2sb", "B_sr_cb_end"]
    );
    assert_eq!(names(&b.p.modules[1], b.b[1])[3], "w");
    assert!(out.decisions[1].barriers[0].why.contains("core 1 touches a tile of it in w"));
}

#[test]
fn a_read_of_the_destination_matters_to_gpsimd_only() {
    for (t, want) in [(Transport::Gpsimd, 6), (Transport::Dma, 5)] {
        let mut b = program(2);
        let l: Vec<MemLocId> = (0..5).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 16])).collect();
        b.swap("A", l[0], l[1]);
        let i = copy("r", b.whole(0, l[3]), b.whole(0, l[4]));
        b.push(0, i);
        b.swap("B", l[2], l[3]);
        let mut o = no_tokens(&b);
        o.transport = t;
        b.lower(&o);
        assert_eq!(names(&b.p.modules[1], b.b[1]).len(), want, "{t:?}");
    }
}

#[test]
fn self_copies_and_half_pairs() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| sendrecv("s", c as i64, c as i64, b.whole(c, x), b.whole(c, y)));
    let o = no_tokens(&b);
    let out = b.lower(&o);
    assert_eq!(out.decisions[0].transport, "self");
    assert_eq!(listing(&b, 1)[1], "s_self TensorCopy DVE y+0 [16,128][1,16] <- x+0 [16,128][1,16]");

    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| sendrecv("s", 0, 0, b.whole(c, x), b.whole(c, y)));
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!(d[0].message, "SendRecv ranks are not paired: core 1 sends to 0 which receives from 0");

    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| sendrecv("s", 1 - c as i64, 2, b.whole(c, x), b.whole(c, y)));
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!(d[0].message, "SendRecv rank 2 on core 0 is outside the LNC group of 2");
}

fn kept(kind: CollectiveKind, local: Option<bool>) -> (Build, tandem_backend::PassOutcome, PassOptions) {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let mut i = allreduce("CC", AluOp::Add, b.whole(c, x), b.whole(c, y));
        i.set(Attr::Kind, kind);
        if let Some(l) = local {
            i.set(Attr::IsLocal, l);
        }
        i
    });
    let o = no_tokens(&b);
    let out = b.lower(&o);
    (b, out, o)
}

#[test]
fn other_kinds_are_fenced_and_kept() {
    for k in CollectiveKind::ALL.iter().copied().filter(|k| *k as u8 >= 3) {
        for local in [None, Some(true), Some(false)] {
            let (mut b, out, o) = kept(k, local);
            assert_eq!(names(&b.p.modules[0], b.b[0]), ["CC_cb_begin", "CC"], "{k} {local:?}");
            assert_eq!(out.decisions[0].transport, "kept");
            // a second run finds the fence
            let before = b.p.clone();
            let cx = b.run(&LowerLocalCollectives, &o);
            assert_eq!(b.p, before);
            assert_eq!(
                (
                    cx.stat("lower-local-collectives", "groups"),
                    cx.stat("lower-local-collectives", "barriers_added")
                ),
                (0, 0)
            );
        }
    }
    let (b, out, _) = kept(CollectiveKind::AllReduce, Some(false));
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["CC_cb_begin", "CC"], "a global AllReduce stays");
    assert_eq!(out.decisions[0].kind, "AllReduce");
}

#[test]
fn both_slots_of_placement_p_the_second_does_nothing() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let mut i = allreduce("CC", AluOp::Add, b.whole(c, y), b.whole(c, x));
        i.set(Attr::Kind, CollectiveKind::AllGather);
        i
    });
    b.swap("s", x, y);
    let mut o = no_tokens(&b);
    o.run_shared_allocation_before_post_sched = true;
    let out = b.lower(&o);
    assert_eq!(out.stat("lower-local-collectives@80", "groups"), 2);
    assert_eq!(out.stat("lower-local-collectives", "groups"), 0);
    assert_eq!(out.stat("lower-local-collectives", "barriers_added"), 0);
    assert_eq!(out.decisions.len(), 2, "kept collectives are explained once");
}

#[test]
fn non_local_and_unstated_swaps() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let mut i = sendrecv("s", 1 - c as i64, 1 - c as i64, b.whole(c, x), b.whole(c, y));
        i.set(Attr::IsLocal, false);
        i
    });
    let o = b.opts();
    assert_eq!(b.lower_err(&o)[0].message, "non-local SendRecv cannot be encoded (s)");

    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let mut i = sendrecv("s", 1 - c as i64, 1 - c as i64, b.whole(c, x), b.whole(c, y));
        i.attrs.remove(Attr::IsLocal);
        i
    });
    let o = b.opts();
    let out = b.lower(&o);
    assert_eq!((out.decisions[0].transport, codes(&out.diags)), ("gpsimd", vec!["L0013".to_owned()]));
    assert_eq!(diag::exit_code(&out.diags), 0);
}

#[test]
fn unsupported_folds() {
    for op in AluOp::ALL.iter().copied().filter(|o| !matches!(o, AluOp::Add | AluOp::Max | AluOp::Min)) {
        let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
        b.all(|b, c| allreduce("AllReduce-0", op, b.whole(c, x), b.whole(c, y)));
        let o = b.opts();
        let d = b.lower_err(&o);
        assert!(d[0].message.starts_with("Unsupported OP type"), "{}", d[0].message);
        assert_eq!(diag::exit_code(&d), 3);
    }
}

#[test]
fn local_allreduce_option() {
    use tandem_backend::LocalAllReduce::{Always, Auto, Never};
    for (mode, groups, cores, want) in [
        (Auto, vec![vec![0i64, 1]], true, "dma"),
        (Auto, vec![vec![1, 0]], true, "kept"),
        (Auto, vec![vec![0], vec![1]], true, "kept"),
        (Auto, vec![vec![0, 1]], false, "kept"),
        (Never, vec![vec![0, 1]], true, "kept"),
        (Always, vec![vec![0, 1, 2, 3]], true, "dma"),
    ] {
        let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
        b.all(|b, c| {
            let mut i = allreduce("AllReduce-0", AluOp::Add, b.whole(c, x), b.whole(c, y));
            i.set(Attr::ReplicaGroups, groups.clone());
            i
        });
        let mut o = b.opts();
        (o.local_allreduce, o.ranks_are_cores) = (mode, cores);
        assert_eq!(transport(&mut b, &o), want, "{mode:?} {groups:?} {cores}");
    }
}

#[test]
fn names_come_from_core_0_when_they_drift() {
    for copies in [1usize, 2, 3, 8, 64] {
        let mut b = program(2);
        let x = b.sb("x", Dtype::Float32, [128, 16]);
        let y = b.sb("y", Dtype::Float32, [128, 16]);
        let z = b.sb("z", Dtype::Float32, [128, 16]);
        let mut n = [0usize; 2];
        for k in 0..copies {
            for c in 0..2usize {
                // core 1 has more instructions, so its counter runs ahead
                for _ in 0..=c * (k % 3 + 1) {
                    let i = copy(&format!("TensorCopy-{}", n[c]), b.whole(c, y), b.whole(c, z));
                    b.push(c, i);
                    n[c] += 1;
                }
                let i = sendrecv(
                    &format!("LocalSendRecv-0_{}", n[c]),
                    1 - c as i64,
                    1 - c as i64,
                    b.whole(c, x),
                    b.whole(c, y),
                );
                b.push(c, i);
                n[c] += 1;
            }
        }
        let o = no_tokens(&b);
        b.lower(&o);
        let meet = |c: usize| -> Vec<(String, Option<i64>)> {
            let m = &b.p.modules[c];
            m.blocks[b.b[c]]
                .insts
                .iter()
                .map(|i| &m.insts[*i])
                .filter(|i| matches!(i.opcode, Opcode::CoreBarrier | Opcode::GpsimdSb2Sb))
                .map(|i| {
                    (
                        i.name.to_string(),
                        if i.opcode == Opcode::CoreBarrier { i.get_int(Attr::Id) } else { None },
                    )
                })
                .collect()
        };
        assert_eq!(meet(0), meet(1));
        let ids: Vec<i64> = meet(0).iter().filter_map(|x| x.1).collect();
        assert_eq!(ids, (0..ids.len() as i64).collect::<Vec<_>>());
        let mut all = names(&b.p.modules[0], b.b[0]);
        all.sort();
        let len = all.len();
        all.dedup();
        assert_eq!(all.len(), len, "names are unique");
    }
}

#[test]
fn a_taken_name_gets_a_suffix_on_all_cores() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    let i = copy("s_sb2sb", b.whole(1, x), b.whole(1, x));
    b.push(1, i);
    b.swap("s", x, y);
    let o = no_tokens(&b);
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0])[1], "s_sb2sb.1");
    assert_eq!(names(&b.p.modules[1], b.b[1])[2], "s_sb2sb.1");
}

#[test]
fn running_twice_changes_nothing_the_second_time() {
    let (mut b, x, y) = pair(Dtype::Bfloat16, [128, 4096]);
    b.swap("A", x, y);
    b.all(|b, c| allreduce("R", AluOp::Add, b.whole(c, y), b.whole(c, x)));
    let o = no_tokens(&b);
    b.lower(&o);
    let before = b.p.clone();
    let cx = b.run(&LowerLocalCollectives, &o);
    assert_eq!(b.p, before);
    assert_eq!(cx.stat("lower-local-collectives", "groups"), 0);
}

#[test]
fn one_alias_per_target_is_reused_by_later_groups() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Bfloat16, [128, 4096]);
    let y = b.sb("y", Dtype::Bfloat16, [128, 4096]);
    let z = b.sb("z", Dtype::Bfloat16, [128, 4096]);
    b.swap("A", x, y);
    b.swap("B", x, z);
    b.swap("C", y, z);
    let o = no_tokens(&b);
    let out = b.lower(&o);
    for m in &b.p.modules {
        assert_eq!(m.memlocs.values().filter(|l| l.is_remote()).count(), 2);
    }
    assert_eq!(out.stat("lower-local-collectives", "aliases"), 4);
}

#[test]
fn shared_dram_needs_no_alias_and_psum_is_staged() {
    let mut b = program(2);
    let x = b.dram("x", TensorKind::Internal, AddressSpace::Shared, Dtype::Float32, [256, 16]);
    let y = b.sb("y", Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let p = 1 - c as i64;
        let r = c as u64 * 128;
        sendrecv("s", p, p, tile(&b.p.modules[c], x, r..r + 128, 0..16), b.whole(c, y))
    });
    let o = no_tokens(&b);
    b.lower(&o);
    assert!(b.p.modules.iter().all(|m| !m.memlocs.values().any(|l| l.name.contains("_remote_"))));
    // core 0 reads the half that core 1 named
    assert!(
        listing(&b, 0)
            .contains(&"s_dma DMACopy DMA Copy y+0 [16,128][1,16] <- x+2048 [16,128][1,16]".to_owned()),
        "{:?}",
        listing(&b, 0)
    );

    let mut b = program(2);
    for c in 0..2 {
        b.loc_on(
            c,
            "ps",
            (MemoryType::Psum, TensorKind::Internal, AddressSpace::Local),
            Dtype::Float32,
            [128, 16],
        );
    }
    let ps = b.p.modules[0].find_location(b.f[0], "ps").unwrap();
    let y = b.sb("y", Dtype::Float32, [128, 16]);
    b.swap("s", ps, y);
    let o = no_tokens(&b);
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["s_pack", "s_sr_cb_begin", "s_dma", "s_sr_cb_end"]);
    assert!(listing(&b, 0)[2].contains("s_pack_src_remote_1"));
}

#[test]
fn in_place_pull_is_staged() {
    let (mut b, x, _) = pair(Dtype::Bfloat16, [128, 4096]);
    b.swap("s", x, x);
    let o = no_tokens(&b);
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["s_pack", "s_sr_cb_begin", "s_dma", "s_sr_cb_end"]);
}

#[test]
fn repack_option() {
    let wide = |l: MemLocId| {
        AccessPattern::new(l, Dtype::Float32, 0, &[(512, 128), (200, 2), (60, 2), (20, 2), (3, 2)])
    };
    for repack in [false, true] {
        let (mut b, x, y) = pair(Dtype::Float32, [128, 512]);
        b.all(|_, c| sendrecv("s", 1 - c as i64, 1 - c as i64, wide(x), wide(y)));
        let mut o = no_tokens(&b);
        o.sb2sb_repack = repack;
        let out = b.lower(&o);
        let n = names(&b.p.modules[0], b.b[0]);
        if repack {
            assert_eq!(n, ["s_pack", "s_sr_cb_begin", "s_sb2sb", "s_sr_cb_end", "s_unpack"]);
            assert!(listing(&b, 0)[2].contains("s_pack_dst+0 [16,128][1,16] <- s_pack_src+0 [16,128][1,16]"));
            let m = &b.p.modules[0];
            assert!(m.memlocs.values().all(|l| l.allocated));
            assert_eq!(out.decisions[0].transport, "gpsimd");
        } else {
            // four free pairs: the pull is split along the outermost
            assert_eq!(n, ["s_sr_cb_begin", "s_dma", "s_dma_s1", "s_sr_cb_end"]);
            assert!(
                out.decisions[0]
                    .note
                    .starts_with("C5 fails: by DMA; any of these alone moves it to GPSIMD: --sb2sb-repack"),
                "{}",
                out.decisions[0].note
            );
        }
    }
}

#[test]
fn remote_semaphores_replace_the_closing_barrier_of_dma_swaps_only() {
    for (n, want) in
        [(64u64, vec!["s_sr_cb_begin", "s_sb2sb", "s_sr_cb_end"]), (4096, vec!["s_sr_cb_begin", "s_dma"])]
    {
        let (mut b, x, y) = pair(Dtype::Float32, [128, n]);
        b.swap("s", x, y);
        b.all(|b, c| copy("after", b.whole(c, y), b.whole(c, y)));
        let mut o = no_tokens(&b);
        o.enable_remote_semaphore_dma = true;
        b.lower(&o);
        for c in 0..2usize {
            let m = &b.p.modules[c];
            let all = names(m, b.b[c]);
            assert_eq!(all[..all.len() - 1], want.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]);
            if n == 4096 {
                let insts = &m.blocks[b.b[c]].insts;
                assert_eq!(m.insts[insts[1]].get_ints(Attr::RemoteNotification), [1 - c as i64]);
                assert!(
                    m.insts[insts[2]].deps.iter().any(|d| d.inst == insts[1]),
                    "followers wait for the pull"
                );
            }
        }
    }
}

#[test]
fn elided_end_barrier_of_gpsimd_swaps() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.swap("s", x, y);
    let mut o = no_tokens(&b);
    o.sb2sb_elide_end_barrier = true;
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["s_sr_cb_begin", "s_sb2sb"]);
}

#[test]
fn initial_corebarrier_false_has_no_opening_barrier() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| {
        let mut i = sendrecv("s", 1 - c as i64, 1 - c as i64, b.whole(c, x), b.whole(c, y));
        i.set(Attr::InitialCorebarrier, false);
        i
    });
    let o = no_tokens(&b);
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["s_sb2sb", "s_sr_cb_end"]);
}

#[test]
fn transports() {
    let asks = |b: &mut Build, cores: &[usize]| {
        for &c in cores {
            for i in b.p.modules[c].insts.values_mut() {
                i.more_mut().extra.get_or_insert_default().insert("requested_gpsimd".into(), true.into());
            }
        }
    };
    for (t, n, asked, want) in [
        (Transport::Dma, 16u64, &[][..], "dma"),
        (Transport::Gpsimd, 16, &[], "gpsimd"),
        (Transport::Request, 16, &[0, 1], "gpsimd"),
        (Transport::Request, 16, &[], "dma"),
        (Transport::Request, 16, &[1], "dma"),
        (Transport::Request, 4096, &[0, 1], "dma"),
        (Transport::Auto, 4096, &[0, 1], "dma"),
    ] {
        let (mut b, x, y) = pair(Dtype::Float32, [128, n]);
        b.swap("s", x, y);
        asks(&mut b, asked);
        let mut o = b.opts();
        o.transport = t;
        let out = b.lower(&o);
        let row = &out.decisions[0];
        assert_eq!(
            (row.transport, row.requested),
            (want, (!asked.is_empty()).then_some("gpsimd")),
            "{t:?} {n} {asked:?}"
        );
        let noted = t == Transport::Request && !asked.is_empty() && want == "dma";
        assert_eq!(out.diags.iter().any(|d| d.code.to_string() == "L0022"), noted);
    }
    // the knob does not bind under `gpsimd`, the predicate does
    let (mut b, x, y) = pair(Dtype::Float32, [128, 256]);
    b.swap("s", x, y);
    let mut o = b.opts();
    (o.transport, o.sendrecv_to_gpsimd_max_bpp) = (Transport::Gpsimd, 0);
    assert_eq!(transport(&mut b, &o), "gpsimd");
    let (mut b, x, y) = pair(Dtype::Float32, [128, 257]);
    b.swap("s", x, y);
    let d = b.lower_err(&o);
    assert_eq!(codes(&d), ["L0023"]);
    assert!(d[0].message.contains("C8"), "{}", d[0].message);
}

#[test]
fn group_mismatches_name_the_field_and_both_sites() {
    type Edit = fn(&mut Inst);
    let cases: [(&str, Edit); 4] = [
        ("kind", |i| i.set(Attr::Kind, CollectiveKind::SendRecvCce)),
        ("is_local", |i| i.set(Attr::IsLocal, false)),
        ("dtype of an input", |i| i.ins[0].as_ap_mut().unwrap().dtype = Dtype::Int32),
        ("shape of an output", |i| i.outs[0].as_ap_mut().unwrap().pairs[1].num = 8),
    ];
    for (field, edit) in cases {
        let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
        b.swap("s", x, y);
        b.p.modules[1].insts.values_mut().for_each(edit);
        let o = b.opts();
        let d = b.lower_err(&o);
        assert_eq!(d[0].message, format!("collective group mismatch in f/main #0: {field}"));
        assert_eq!(d[0].sites.iter().map(|s| s.core.unwrap().0).collect::<Vec<_>>(), [0, 1]);
    }
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    let i = sendrecv("s", 1, 1, b.whole(0, x), b.whole(0, y));
    b.push(0, i);
    let o = b.opts();
    assert_eq!(b.lower_err(&o)[0].message, "collective group mismatch in f/main #0: number of members");
}

#[test]
fn crossed_pipes_are_a_deadlock_with_both_places() {
    let mut b = program(2);
    let t: Vec<MemLocId> = (0..4).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 16])).collect();
    for c in 0..2usize {
        for k in 0..2usize {
            let pipe = (k + c) % 2;
            let mut i = sendrecv(
                &format!("s{k}"),
                1 - c as i64,
                1 - c as i64,
                b.whole(c, t[2 * pipe]),
                b.whole(c, t[2 * pipe + 1]),
            );
            i.set(Attr::PipeId, pipe as i64);
            let line = (10 * c + k) as u32;
            i.loc = b.p.locs.intern(LocEntry::Pos(SourcePos {
                file: "k.py".into(),
                line,
                column: 1,
                end_line: None,
                end_column: None,
            }));
            b.push(c, i);
        }
    }
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!(codes(&d), ["L0011"]);
    assert!(d[0].message.contains("deadlock") && d[0].notes.iter().any(|n| n.contains("vendor's text")));
    assert_eq!(d[0].sites.iter().map(|s| s.pos.as_ref().unwrap().line).collect::<Vec<_>>(), [0, 10]);
}

#[test]
fn dependencies_pass_through_the_new_instructions() {
    let (mut b, x, y) = pair(Dtype::Float32, [128, 16]);
    b.all(|b, c| copy("P", b.whole(c, y), b.whole(c, x)));
    b.swap("s", x, y);
    b.all(|b, c| copy("C", b.whole(c, y), b.whole(c, x)));
    let pos = LocEntry::Pos(SourcePos {
        file: "k.py".into(),
        line: 7,
        column: 3,
        end_line: None,
        end_column: None,
    });
    let loc = b.p.locs.intern(pos);
    for m in &mut b.p.modules {
        let insts = m.blocks.values().next().unwrap().insts.clone();
        m.insts[insts[1]].add_dep(insts[1], insts[0], EdgeKind::Flow);
        m.insts[insts[2]].add_dep(insts[2], insts[1], EdgeKind::Flow);
        m.insts[insts[1]].loc = loc;
    }
    let o = b.opts();
    b.run(&LowerLocalCollectives, &o);
    let m = &b.p.modules[0];
    let i = &m.blocks[b.b[0]].insts;
    let dep = |k: usize| {
        m.insts[i[k]]
            .deps
            .iter()
            .map(|d| (i.iter().position(|x| *x == d.inst).unwrap(), d.kind))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(m, b.b[0]), ["P", "s_sr_cb_begin", "s_sb2sb", "s_sr_cb_end", "C"]);
    assert_eq!(dep(1), [(0, EdgeKind::Flow)]);
    assert_eq!(dep(2), [(1, EdgeKind::Ordered)]);
    assert_eq!(dep(3), [(2, EdgeKind::Ordered)]);
    assert_eq!(dep(4), [(3, EdgeKind::Flow)]);
    for k in 1..4 {
        assert_eq!(b.p.locs.source(m.insts[i[k]].loc).map(|s| s.line), Some(7));
    }
}

#[test]
fn alias_diagnostic_for_a_tensor_of_another_function() {
    let (mut b, _, y) = pair(Dtype::Bfloat16, [128, 4096]);
    let mut foreign = MemLocId::from_u32(0);
    for c in 0..2usize {
        let g = b.p.modules[c].add_function("g");
        let s = MemoryLocationSet::new(
            "q",
            Dtype::Bfloat16,
            TensorKind::Internal,
            AddressSpace::Local,
            &[128, 4096],
        );
        let mut l = MemoryLocation::new("q", SetId::from_u32(0), MemoryType::Sb, &[128, 8192]);
        l.tensor_id = 5;
        foreign = b.p.modules[c].add_location(g, s, l);
    }
    b.swap("s", foreign, y);
    let o = b.opts();
    let out = tandem_backend::prepare(&mut b.p, &o);
    assert!(out.ok());
    let out = tandem_backend::lower(&mut b.p, &o);
    assert_eq!(
        out.diags[0].message,
        "q has a tensor id of 5 and isAllocated is true; no matching location on core 1"
    );
}

#[test]
fn explain_row_as_json() {
    let (mut b, x, y) = pair(Dtype::Bfloat16, [128, 512]);
    b.swap("s", x, y);
    let pos = LocEntry::Pos(SourcePos {
        file: "k.py".into(),
        line: 7,
        column: 3,
        end_line: None,
        end_column: None,
    });
    let loc = b.p.locs.intern(pos);
    b.p.modules[0].insts.values_mut().for_each(|i| i.loc = loc);
    let o = b.opts();
    let out = b.lower(&o);
    let j = out.decisions[0].to_json();
    assert_eq!(j["name"], "s");
    assert_eq!(j["source"], serde_json::json!({"file": "k.py", "line": 7}));
    assert_eq!(j["core_group"], serde_json::json!([0, 1]));
    assert_eq!((j["kind"].as_str(), j["transport"].as_str()), (Some("SendRecv"), Some("dma")));
    assert!(j["requested"].is_null());
    assert_eq!(
        (j["bytes_per_partition"].as_u64(), j["effective_bytes_per_partition"].as_u64()),
        (Some(1024), Some(2048))
    );
    let failing: Vec<&str> = j["predicates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["holds"] == false)
        .map(|p| p["id"].as_str().unwrap())
        .collect();
    assert_eq!(failing, ["C8", "knob"]);
    assert_eq!(j["barriers"][0]["name"], "s_sr_cb_begin");
    assert!(out.decisions[0].to_text().contains("FAIL C8"));
}

#[test]
fn a_hundred_thousand_swaps_are_linear() {
    // counted, not timed: instructions and edges per swap do not grow
    let per_swap = |n: usize| {
        let mut b = program(2);
        let x = b.sb("x", Dtype::Float32, [128, 16]);
        let y = b.sb("y", Dtype::Float32, [128, 16]);
        for k in 0..n {
            b.swap(&format!("s{k}"), if k % 2 == 0 { x } else { y }, if k % 2 == 0 { y } else { x });
        }
        let o = no_tokens(&b);
        let out = tandem_backend::prepare(&mut b.p, &o);
        assert!(out.ok());
        let out = tandem_backend::lower(&mut b.p, &o);
        assert!(out.ok(), "{:?}", out.diags);
        let m = &b.p.modules[0];
        let insts = m.blocks[b.b[0]].insts.len();
        let edges: usize = m.blocks[b.b[0]].insts.iter().map(|i| m.insts[*i].deps.len()).sum();
        (insts, edges, m.memlocs.len())
    };
    let (small, large) = (per_swap(1_000), per_swap(100_000));
    assert_eq!(small.0, 2_001, "closing barriers are shared");
    assert_eq!(large.0, 200_001);
    assert!(large.1 <= small.1 * 101, "{small:?} {large:?}");
    assert_eq!(large.2, small.2);
}
