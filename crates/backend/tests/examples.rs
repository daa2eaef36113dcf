//! Worked examples of the specification, file 06 §14, as listings of both cores.

mod common;
use common::*;
use tandem_backend::{lower, prepare};
use tandem_bir::*;

/// Lowers without completion tokens: the examples show them apart.
fn lowered(b: &mut Build) -> tandem_backend::PassOutcome {
    let mut o = b.opts();
    o.ptcom = tandem_backend::PtcomMode::Off;
    let out = prepare(&mut b.p, &o);
    assert!(out.ok(), "{:?}", out.diags);
    let out = lower(&mut b.p, &o);
    assert!(out.ok(), "{:?}", out.diags);
    out
}

#[test]
fn a_small_swap_goes_by_gpsimd() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 64]);
    let y = b.sb("y", Dtype::Float32, [128, 64]);
    b.swap("LocalSendRecv-0", x, y);
    let out = lowered(&mut b);
    let want = [
        "LocalSendRecv-0_sr_cb_begin CoreBarrier Pool id=0 cores=[0, 1]",
        "LocalSendRecv-0_sb2sb GPSIMDSB2SB Pool y+0 [64,128][1,64] <- x+0 [64,128][1,64]",
        "LocalSendRecv-0_sr_cb_end CoreBarrier Pool id=1 cores=[0, 1]",
    ];
    assert_eq!(listing(&b, 0), want);
    assert_eq!(listing(&b, 1), want);
    for m in &b.p.modules {
        assert!(m.memlocs.values().all(|l| l.remote_local_target.is_none()), "no alias on the GPSIMD path");
        assert!(m.memlocs[y].written_by_another_core && !m.memlocs[x].written_by_another_core);
    }
    let row = &out.decisions[0];
    assert_eq!(
        (row.transport, row.bytes_per_partition, row.effective_bytes_per_partition),
        ("gpsimd", 256, 256)
    );
    assert_eq!(
        row.predicates.iter().map(|p| p.id).collect::<Vec<_>>(),
        ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "knob"]
    );
    assert!(row.predicates.iter().all(|p| p.holds));
}

#[test]
fn b_large_swap_goes_by_dma_through_an_alias() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Bfloat16, [128, 4096]);
    let y = b.sb("y", Dtype::Bfloat16, [128, 4096]);
    b.swap("LocalSendRecv-0", x, y);
    let out = lowered(&mut b);
    for c in 0..2 {
        let p = 1 - c;
        assert_eq!(
            listing(&b, c),
            [
                "LocalSendRecv-0_sr_cb_begin CoreBarrier Pool id=0 cores=[0, 1]".to_owned(),
                format!(
                    "LocalSendRecv-0_dma DMACopy DMA Copy y+0 [4096,128][1,4096] <- x_remote_{p}+0 [4096,128][1,4096]"
                ),
                "LocalSendRecv-0_sr_cb_end CoreBarrier Pool id=1 cores=[0, 1]".to_owned(),
            ]
        );
        let m = &b.p.modules[c];
        let a = m.find_location(b.f[c], &format!("x_remote_{p}")).unwrap();
        let al = &m.memlocs[a];
        assert_eq!(al.remote_local_target, Some(RemoteTarget { name: "x".into(), core: CoreId(p as u32) }));
        assert!(al.written_by_another_core && !al.allocated && m.memlocs[x].written_by_another_core);
        assert_eq!(
            (al.mem, m.set_of(a).dtype, m.set_of(a).name.as_str()),
            (MemoryType::Sb, Dtype::Bfloat16, format!("x_remote_{p}_set").as_str())
        );
        assert_eq!(al.dims.as_slice(), [128, 8192]);
    }
    assert_eq!((out.decisions[0].transport, out.decisions[0].effective_bytes_per_partition), ("dma", 16384));
    assert!(out.decisions[0].note.contains("C8"), "{}", out.decisions[0].note);
}

#[test]
fn c_allreduce_splits_along_the_free_dimension() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 512]);
    let y = b.sb("y", Dtype::Float32, [128, 512]);
    b.all(|b, c| allreduce("AllReduce-0", AluOp::Add, b.whole(c, x), b.whole(c, y)));
    lowered(&mut b);
    assert_eq!(
        listing(&b, 0),
        [
            "AllReduce-0_cb_begin CoreBarrier Pool id=0 cores=[0, 1]",
            "AllReduce-0_reduce DMACopy DMA CCE add y+0 [512,128][1,256] <- x+0 [512,128][1,256], x_remote_1+0 [512,128][1,256]",
            "AllReduce-0_cb_mid CoreBarrier Pool id=1 cores=[0, 1]",
            "AllReduce-0_gather_1 DMACopy DMA Copy y+256 [512,128][1,256] <- y_remote_1+256 [512,128][1,256]",
            "AllReduce-0_cb_end CoreBarrier Pool id=2 cores=[0, 1]",
        ]
    );
    assert_eq!(
        listing(&b, 1),
        [
            "AllReduce-0_cb_begin CoreBarrier Pool id=0 cores=[0, 1]",
            "AllReduce-0_reduce DMACopy DMA CCE add y+256 [512,128][1,256] <- x_remote_0+256 [512,128][1,256], x+256 [512,128][1,256]",
            "AllReduce-0_cb_mid CoreBarrier Pool id=1 cores=[0, 1]",
            "AllReduce-0_gather_0 DMACopy DMA Copy y+0 [512,128][1,256] <- y_remote_0+0 [512,128][1,256]",
            "AllReduce-0_cb_end CoreBarrier Pool id=2 cores=[0, 1]",
        ]
    );
    for c in 0..2 {
        let m = &b.p.modules[c];
        assert_eq!(m.memlocs.values().filter(|l| l.is_remote()).count(), 2);
        let key = |n: usize, k: &str| {
            m.insts[m.blocks[b.b[c]].insts[n]].more.as_ref().unwrap().extra.as_ref().unwrap()[k].as_u64()
        };
        assert_eq!((key(1, "scatter_dim"), key(3, "gather_dim")), (Some(1), Some(1)));
    }
}

#[test]
fn c_allreduce_of_three_columns_is_replicated() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 3]);
    let y = b.sb("y", Dtype::Float32, [128, 3]);
    b.all(|b, c| allreduce("AllReduce-0", AluOp::Max, b.whole(c, x), b.whole(c, y)));
    lowered(&mut b);
    assert_eq!(
        listing(&b, 1),
        [
            "AllReduce-0_cb_begin CoreBarrier Pool id=0 cores=[0, 1]",
            "AllReduce-0_reduce DMACopy DMA CCE max y+0 [3,128][1,3] <- x_remote_0+0 [3,128][1,3], x+0 [3,128][1,3]",
            "AllReduce-0_cb_end CoreBarrier Pool id=1 cores=[0, 1]",
        ]
    );
}

#[test]
fn kind_1_folds_what_it_receives() {
    for op in [AluOp::Add, AluOp::Max, AluOp::Min] {
        let mut b = program(2);
        let x = b.sb("x", Dtype::Float32, [128, 16]);
        let y = b.sb("y", Dtype::Float32, [128, 16]);
        b.all(|b, c| {
            let mut i = allreduce("CCE-0", op, b.whole(c, x), b.whole(c, y));
            i.set(Attr::Kind, CollectiveKind::SendRecvCce);
            i.set(Attr::IsLocal, true);
            i.set(Attr::RecvFromRank, vec![Expr::Const(0), Expr::Const(1)]);
            i
        });
        lowered(&mut b);
        assert_eq!(
            listing(&b, 0),
            [
                "CCE-0_sr_cb_begin CoreBarrier Pool id=0 cores=[0, 1]".to_owned(),
                format!(
                    "CCE-0_reduce DMACopy DMA CCE {op} y+0 [16,128][1,16] <- x+0 [16,128][1,16], x_remote_1+0 [16,128][1,16]"
                ),
                "CCE-0_sr_cb_end CoreBarrier Pool id=1 cores=[0, 1]".to_owned(),
            ]
        );
    }
}
