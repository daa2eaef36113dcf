//! Completion tokens: worked examples (d) and (e) of the specification, file 06 §14, and the rules of §13.

#![allow(clippy::needless_range_loop, reason = "cores are indexed")]

mod common;
use common::*;
use tandem_backend::passes::insert_ptcom::*;
use tandem_backend::{PtcomMode, passes};
use tandem_bir::analysis::cfg::Node;
use tandem_bir::*;

/// Example (d): AllReduce into y, each core stores its half of `out`.
fn example_d() -> Build {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 512]);
    let y = b.sb("y", Dtype::Float32, [128, 512]);
    let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Shared, Dtype::Float32, [256, 512]);
    b.all(|b, c| allreduce("AllReduce-0", AluOp::Add, b.whole(c, x), b.whole(c, y)));
    b.all(|b, c| {
        let r = c as u64 * 128;
        dma("S", b.whole(c, y), tile(&b.p.modules[c], out, r..r + 128, 0..512))
    });
    b
}

#[test]
fn d_both_halves_of_an_output() {
    let mut b = example_d();
    let o = b.opts();
    assert_eq!(o.ptcom, PtcomMode::P2p, "default on two cores");
    let out = b.lower(&o);
    assert_eq!(
        (out.stat("insert-ptcom-flat", "tokens"), out.stat("insert-ptcom-flat", "barriers_added")),
        (2, 0)
    );
    for c in 0..2 {
        let l = listing(&b, c);
        let off = c * 65536;
        assert_eq!(
            &l[4..],
            [
                "AllReduce-0_cb_end CoreBarrier Pool id=2 cores=[0, 1]".to_owned(),
                format!("S DMACopy DMA Copy out+{off} [512,128][1,512] <- y+0 [512,128][1,512]"),
                "out-PTCOM TensorCompletion Pool  <- out+0 [512,256][1,512]".to_owned(),
            ]
        );
        let m = &b.p.modules[c];
        let insts = &m.blocks[b.b[c]].insts;
        let (s, t) = (insts[5], insts[6]);
        assert!(
            m.insts[t].deps.contains(&inst::Dep { inst: s, kind: EdgeKind::Flow }),
            "{:?}",
            m.insts[t].deps
        );
    }
}

#[test]
fn d_notify_adds_a_barrier_and_a_token_on_core_0() {
    let mut b = example_d();
    let mut o = b.opts();
    o.ptcom = PtcomMode::Notify;
    b.lower(&o);
    assert_eq!(
        &listing(&b, 0)[5..],
        [
            "S DMACopy DMA Copy out+0 [512,128][1,512] <- y+0 [512,128][1,512]",
            "out_ptcom_cb CoreBarrier Pool id=3 cores=[0, 1]",
            "out-PTCOM TensorCompletion Pool  <- out+0 [512,256][1,512]",
        ]
    );
    assert_eq!(listing(&b, 1)[6..], ["out_ptcom_cb CoreBarrier Pool id=3 cores=[0, 1]"]);
}

#[test]
fn notify_goes_after_the_third_barrier_after_the_last_write() {
    for (barriers, distance, want) in [(4, 3, "cb3"), (4, 1, "cb1"), (2, 3, "end"), (4, 9, "end")] {
        let mut b = program(2);
        let y = b.sb("y", Dtype::Float32, [128, 512]);
        let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Shared, Dtype::Float32, [256, 512]);
        b.all(|_, _| barrier("cb0"));
        b.all(|b, c| {
            let r = c as u64 * 128;
            dma("S", b.whole(c, y), tile(&b.p.modules[c], out, r..r + 128, 0..512))
        });
        for k in 0..barriers {
            b.all(|_, _| barrier(&format!("cb{}", k + 1)));
        }
        b.all(|b, c| copy("late", b.whole(c, y), b.whole(c, y)));
        let mut o = b.opts();
        (o.ptcom, o.ptcom_barrier_distance) = (PtcomMode::Notify, distance);
        b.lower(&o);
        let n = names(&b.p.modules[0], b.b[0]);
        let at = n.iter().position(|x| x == "out-PTCOM").unwrap();
        if want == "end" {
            assert_eq!(at, n.len() - 1);
        } else {
            assert_eq!(n[at - 1], want);
        }
        assert!(!names(&b.p.modules[1], b.b[1]).contains(&"out-PTCOM".to_owned()));
        assert!(!n.iter().any(|x| x.ends_with("_ptcom_cb")));
    }
}

struct E {
    b: Build,
    after: Vec<BlockId>,
    join: Vec<BlockId>,
}

/// Example (e): `buf` filled in a loop by core 0, read by core 1 in both arms; `out` written in both arms.
fn example_e() -> E {
    let mut b = program(2);
    let t = b.sb("t", Dtype::Float32, [128, 64]);
    let buf = b.dram("buf", TensorKind::Internal, AddressSpace::Shared, Dtype::Float32, [128, 64]);
    let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Shared, Dtype::Float32, [256, 64]);
    let r = b.reg("k");
    let entry = b.b.clone();
    let (lp, after) = (b.block("loop"), b.block("after"));
    let (left, right, join) = (b.block("left"), b.block("right"), b.block("join"));
    for c in 0..2 {
        b.push_in(c, entry[c], jump("j0", "loop"));
        if c == 0 {
            let i =
                dma("w", tile(&b.p.modules[c], t, 0..16, 0..64), tile(&b.p.modules[c], buf, 0..16, 0..64));
            b.push_in(c, lp[c], i);
        }
        b.push_in(c, lp[c], branch("b1", r, "loop", "after"));
        b.push_in(c, after[c], branch("b2", r, "left", "right"));
        for (blk, s, j) in [(left[c], "s1", "j3"), (right[c], "s2", "j4")] {
            if c == 1 {
                let i = dma(if s == "s1" { "r" } else { "r2" }, b.whole(c, buf), b.whole(c, t));
                b.push_in(c, blk, i);
            }
            let row = c as u64 * 128;
            let i = dma(s, b.whole(c, t), tile(&b.p.modules[c], out, row..row + 128, 0..64));
            b.push_in(c, blk, i);
            b.push_in(c, blk, jump(j, "join"));
        }
    }
    E { b, after, join }
}

#[test]
fn e_tokens_across_blocks() {
    let mut e = example_e();
    let o = e.b.opts();
    assert!(tandem_backend::prepare(&mut e.b.p, &o).ok());
    let cores: Vec<CoreFunc> = (0..2).map(|c| CoreFunc { module: c, func: e.b.f[c] }).collect();
    let c = candidates(&e.b.p, &cores, PtcomMode::P2p);
    let flow = Flow::new(&e.b.p, &cores);
    let order: Vec<Key> = c.loc2index.keys().cloned().collect();
    assert_eq!(order, ["buf", "out"]);
    let pairs = identify_blocks(&flow, &c, &order, &mut vec![]).unwrap();
    assert_eq!(pairs, [(0, 2), (1, 5)]);
    let name = |c: usize, v: Vec<InstId>| -> Vec<String> {
        v.iter().map(|i| e.b.p.modules[c].insts[*i].name.to_string()).collect()
    };
    let last =
        |k: usize, core: usize, b: Node| name(core, last_writes(&e.b.p, cores[core], &c.writes[k][core], b));
    assert_eq!(last(0, 0, 2), ["w"]);
    assert!(last(0, 1, 2).is_empty());
    assert_eq!(
        (last(1, 0, 5), last(1, 1, 5)),
        (vec!["s1".into(), "s2".into()], vec!["s1".into(), "s2".into()])
    );
    let own: Vec<Vec<InstId>> = (0..2).map(|a| last_writes(&e.b.p, cores[a], &c.writes[0][a], 2)).collect();
    let x = extend_last_writes(&e.b.p, &cores, "buf", &own, &[true, true], &live(&e.b.p, &cores)).unwrap();
    assert!(x[0].is_empty());
    assert_eq!(x[1], [RemoteWrite { core: 0, inst: own[0][0] }]);

    let out = e.b.run(&passes::lower_local_collectives::LowerLocalCollectives, &o);
    assert_eq!(out.stat("lower-local-collectives", "groups"), 0);
    let cx = e.b.run(&passes::insert_ptcom::InsertPtcom, &o);
    assert_eq!(cx.stat("insert-ptcom-flat", "tokens"), 4);
    for c in 0..2 {
        let m = &e.b.p.modules[c];
        assert_eq!(names(m, e.after[c]), ["buf-PTCOM", "b2"]);
        assert_eq!(names(m, e.join[c]), ["out-PTCOM"]);
    }
    // a second run finds its tokens
    let before = e.b.p.clone();
    let cx = e.b.run(&passes::insert_ptcom::InsertPtcom, &o);
    assert_eq!(cx.stat("insert-ptcom-flat", "tokens"), 0);
    assert_eq!(e.b.p, before);
}

#[test]
fn e_whole_pipeline_keeps_tokens_before_the_join_of_the_engines() {
    for early in [false, true] {
        let mut e = example_e();
        let mut o = e.b.opts();
        o.run_shared_allocation_before_post_sched = early;
        e.b.lower(&o);
        for c in 0..2 {
            let m = &e.b.p.modules[c];
            let n = names(m, e.after[c]);
            let at = |x: &str| n.iter().position(|y| y == x).unwrap();
            assert!(at("buf-PTCOM") < at("after-end-cb") && at("after-end-cb") < at("b2"), "{n:?}");
        }
    }
}

#[test]
fn off_one_core_and_unwritten_locations_have_no_token() {
    let mut b = example_d();
    let mut o = b.opts();
    o.ptcom = PtcomMode::Off;
    assert_eq!(b.lower(&o).stat("insert-ptcom-flat", "tokens"), 0);

    let mut b = program(1);
    let y = b.sb("y", Dtype::Float32, [128, 8]);
    let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Local, Dtype::Float32, [128, 8]);
    b.all(|b, c| dma("S", b.whole(c, y), b.whole(c, out)));
    b.all(|b, c| copy("late", b.whole(c, y), b.whole(c, y)));
    let mut o = b.opts();
    assert_eq!(o.ptcom, PtcomMode::Off);
    o.ptcom = PtcomMode::Notify;
    b.lower(&o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["S", "out-PTCOM", "late"]);
}

#[test]
fn several_last_writes_all_count() {
    let mut b = program(2);
    let y = b.sb("y", Dtype::Float32, [128, 8]);
    let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Shared, Dtype::Float32, [256, 8]);
    for k in 0..4u64 {
        b.all(|b, c| {
            let r = c as u64 * 128 + k * 32;
            let m = &b.p.modules[c];
            dma(&format!("S{k}"), tile(m, y, k * 32..k * 32 + 32, 0..8), tile(m, out, r..r + 32, 0..8))
        });
    }
    let o = b.opts();
    b.lower(&o);
    let m = &b.p.modules[1];
    let insts = &m.blocks[b.b[1]].insts;
    let t = &m.insts[insts[4]];
    assert_eq!(t.name, "out-PTCOM");
    for k in 0..4 {
        assert!(t.deps.iter().any(|d| d.inst == insts[k] && d.kind == EdgeKind::Flow), "S{k}");
    }
}

#[test]
fn an_output_of_core_1_alone_gets_its_token() {
    let mut b = program(2);
    let y = b.sb("y", Dtype::Float32, [128, 8]);
    let out = b.loc_on(
        1,
        "out",
        (MemoryType::Dram, TensorKind::ExternalOutput, AddressSpace::Local),
        Dtype::Float32,
        [128, 8],
    );
    let i = dma("S", b.whole(1, y), b.whole(1, out));
    b.push(1, i);
    let o = b.opts();
    b.lower(&o);
    assert!(names(&b.p.modules[0], b.b[0]).is_empty(), "a core without the location gets no token");
    assert_eq!(names(&b.p.modules[1], b.b[1]), ["S", "out-PTCOM"]);

    let mut b2 = program(2);
    let y = b2.sb("y", Dtype::Float32, [128, 8]);
    let out = b2.loc_on(
        1,
        "out",
        (MemoryType::Dram, TensorKind::ExternalOutput, AddressSpace::Shared),
        Dtype::Float32,
        [128, 8],
    );
    let i = dma("S", b2.whole(1, y), b2.whole(1, out));
    b2.push(1, i);
    let mut o = b2.opts();
    o.ptcom = PtcomMode::Notify;
    b2.lower(&o);
    assert_eq!(names(&b2.p.modules[0], b2.b[0]), ["out_ptcom_cb", "out-PTCOM"]);
    assert_eq!(names(&b2.p.modules[1], b2.b[1]), ["S", "out_ptcom_cb"]);
}

#[test]
fn documented_assertions() {
    let mut e = example_e();
    let o = e.b.opts();
    assert!(tandem_backend::prepare(&mut e.b.p, &o).ok());
    let cores: Vec<CoreFunc> = (0..2).map(|c| CoreFunc { module: c, func: e.b.f[c] }).collect();
    let c = candidates(&e.b.p, &cores, PtcomMode::P2p);
    let flow = Flow::new(&e.b.p, &cores);
    let err = identify_blocks(&flow, &c, &["nobody".into()], &mut vec![]).unwrap_err();
    assert!(err.message.contains("loc2index.count(loc) > 0"));
    let err = one_block_per_location(&[(0, 1), (0, 2)]).unwrap_err();
    assert!(err.message.contains("blocks.size() == 1"));
    // the write is gone from its block
    let w = c.writes[0][0][0].2;
    for b in e.b.p.modules[0].blocks.keys().collect::<Vec<_>>() {
        e.b.p.modules[0].blocks[b].insts.retain(|i| *i != w);
    }
    let err =
        extend_last_writes(&e.b.p, &cores, "buf", &[vec![w], vec![]], &[true, true], &live(&e.b.p, &cores))
            .unwrap_err();
    assert!(err.message.contains("extendedWrite != nullptr"));
}

#[test]
fn a_program_without_exit_gets_a_warning_instead_of_a_token() {
    let mut b = program(2);
    let y = b.sb("y", Dtype::Float32, [128, 8]);
    let out = b.dram("out", TensorKind::ExternalOutput, AddressSpace::Shared, Dtype::Float32, [128, 8]);
    let lp = b.block("loop");
    for c in 0..2 {
        let main = b.b[c];
        b.push_in(c, main, jump("j", "loop"));
        let i = dma("S", b.whole(c, y), b.whole(c, out));
        b.push_in(c, lp[c], i);
        b.push_in(c, lp[c], jump("again", "loop"));
    }
    let o = b.opts();
    let outcome = b.lower(&o);
    assert!(outcome.diags.iter().any(|d| d.message == "no PTCOM block for out"));
}

#[test]
fn e_is_ordered_by_its_token_alone() {
    for mode in [PtcomMode::P2p, PtcomMode::Off, PtcomMode::Notify] {
        for early in [false, true] {
            let mut e = example_e();
            let mut o = e.b.opts();
            (o.ptcom, o.run_shared_allocation_before_post_sched) = (mode, early);
            e.b.lower(&o);
            let p2p = mode == PtcomMode::P2p;
            let co =
                tandem_check::CheckOptions { tokens_order: p2p, ..tandem_check::CheckOptions::default() };
            let found = tandem_check::check(&e.b.p, &co);
            if p2p {
                clean(&e.b.p, true, "p2p");
            } else {
                assert!(!found.is_empty(), "{mode:?}");
                for d in &found {
                    assert!(
                        d.message.starts_with("missing core barrier between w@nc0 and r"),
                        "{}",
                        d.message
                    );
                }
            }
        }
    }
}

#[test]
fn e_with_the_reader_before_the_token_is_a_finding() {
    let mut e = example_e();
    let o = e.b.opts();
    // core 1 reads in `after`, where the token comes at the end
    let m = &mut e.b.p.modules[1];
    let r = m.blocks.values_mut().find(|b| b.name == "left").map(|b| b.insts.remove(0)).unwrap();
    m.blocks[e.after[1]].insts.insert(0, r);
    e.b.lower(&o);
    let found = tandem_check::check(&e.b.p, &tandem_check::CheckOptions::default());
    assert!(
        found.iter().any(|d| d.message.starts_with("missing core barrier between w@nc0 and r@nc1")),
        "{found:?}"
    );
}
