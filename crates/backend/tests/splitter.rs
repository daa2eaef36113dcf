//! From one symbolic module to one per core: the checklist of the specification, file 05 §15.

mod common;
use common::*;
use tandem_backend::passes::lnc_splitter::{LncSplitter, run_single};
use tandem_backend::{PassOptions, lower, prepare};
use tandem_bir::inst::OtherOperand;
use tandem_bir::*;

fn shard() -> Expr {
    Expr::ShardId { ub: 2 }
}

/// A symbolic program: core `None`, one module.
fn symbolic() -> (Build, PassOptions) {
    let mut b = program(1);
    b.p.modules[0].core = None;
    b.p.modules[0].name = "nc_symbolic".into();
    (b, PassOptions::new(2, ArchLevel::Gen3))
}

/// Predicate that holds on core `c` alone: c − shard ≥ 0 and shard − c ≥ 0.
fn only(i: &mut Inst, c: i64) {
    i.more_mut().predicates = vec![
        Expr::Affine { terms: vec![(-1, shard())], c },
        Expr::Affine { terms: vec![(1, shard())], c: -c },
    ];
}

#[test]
fn masked_instructions_live_on_their_core_and_the_rest_is_equal() {
    let (mut b, o) = symbolic();
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let y = b.sb("y", Dtype::Float32, [128, 16]);
    b.all(|b, c| copy("a", b.whole(c, x), b.whole(c, y)));
    b.all(|b, c| {
        let mut i = copy("m", b.whole(c, y), b.whole(c, x));
        only(&mut i, 0);
        i
    });
    b.all(|b, c| copy("z", b.whole(c, x), b.whole(c, y)));
    let ids = b.p.modules[0].blocks[b.b[0]].insts.clone();
    let m = &mut b.p.modules[0];
    m.insts[ids[1]].add_dep(ids[1], ids[0], EdgeKind::Flow);
    m.insts[ids[2]].add_dep(ids[2], ids[1], EdgeKind::Flow);
    b.run(&LncSplitter, &o);
    assert_eq!(b.p.lnc_size, 2);
    let n: Vec<_> = b.p.modules.iter().map(|m| (m.name.to_string(), m.core, names(m, b.b[0]))).collect();
    assert_eq!(n[0], ("nc00".into(), Some(CoreId(0)), vec!["a".into(), "m".into(), "z".into()]));
    assert_eq!(n[1], ("nc01".into(), Some(CoreId(1)), vec!["a".into(), "z".into()]));
    // predicates about the shard are gone; the order a -> z survives the removal of m
    let m0 = &b.p.modules[0];
    assert!(m0.insts.values().all(|i| i.more.as_ref().is_none_or(|x| x.predicates.is_empty())));
    let m1 = &b.p.modules[1];
    let z = m1.blocks[b.b[0]].insts[1];
    assert_eq!(m1.insts[z].deps, [inst::Dep { inst: m1.blocks[b.b[0]].insts[0], kind: EdgeKind::Ordered }]);
}

#[test]
fn ranks_and_addresses_become_constants() {
    let (mut b, o) = symbolic();
    let x = b.sb("x", Dtype::Float32, [128, 32]);
    let y = b.sb("y", Dtype::Float32, [128, 32]);
    let peer = || Expr::Affine { terms: vec![(-1, shard())], c: 1 };
    let set = b.p.modules[0].memlocs[y].set;
    b.all(|b, c| {
        let mut i = sendrecv("s", 0, 0, tile(&b.p.modules[c], x, 0..128, 0..16), b.whole(c, y));
        i.set(Attr::SendToRank, peer());
        i.set(Attr::RecvFromRank, vec![peer()]);
        // source at column 16 · shard; destination symbolic at [0, 16 · shard]
        let a = i.ins[0].as_ap_mut().unwrap();
        a.dynamic =
            Some(Box::new(DynamicAp { terms: vec![(16, shard())], indirect_dim: 1, max_index: None }));
        i.outs[0] = Operand::Other(Box::new(OtherOperand::Symbolic {
            pwap: false,
            set,
            dtype: Dtype::Float32,
            pairs: [ApPair::new(32, 128), ApPair::new(1, 16)].into_iter().collect(),
            addrs: vec![Expr::Const(0), Expr::Mult { var: Box::new(shard()), scale: 16 }],
            extra: None,
        }));
        i
    });
    let out = prepare(&mut b.p, &o);
    assert!(out.ok(), "{:?}", out.diags);
    for c in 0..2usize {
        let m = &b.p.modules[c];
        let i = &m.insts[m.blocks[b.b[0]].insts[0]];
        let p = 1 - c as i64;
        assert_eq!(i.get_expr(Attr::SendToRank), Some(Expr::Const(p)));
        assert_eq!(i.get_exprs(Attr::RecvFromRank), [Expr::Const(p)]);
        let (s, d) = (i.ins[0].as_ap().unwrap(), i.outs[0].as_ap().unwrap());
        assert!(s.is_static() && d.is_static());
        assert_eq!((s.offset, d.offset, d.loc), (16 * c as i64, 16 * c as i64, y));
    }
    b.b.push(b.b[0]);
    let out = lower(&mut b.p, &o);
    assert!(out.ok(), "{:?}", out.diags);
    assert_eq!(out.decisions[0].transport, "gpsimd");
    assert_eq!(listing(&b, 1)[1], "s_sb2sb GPSIMDSB2SB Pool y+16 [32,128][1,16] <- x+16 [32,128][1,16]");
}

#[test]
fn regions_go_when_all_their_children_go() {
    let (mut b, o) = symbolic();
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    for (k, both) in [(0, false), (1, true)] {
        let body =
            b.p.modules[0].blocks.push(Block { name: format!("body{k}").into(), insts: vec![], extra: None });
        for (j, masked) in [(0, true), (1, !both)] {
            let mut i = copy(&format!("c{k}{j}"), b.whole(0, x), b.whole(0, x));
            if masked {
                only(&mut i, 0);
            }
            b.p.modules[0].push_inst(body, i);
        }
        let mut l = Inst::new(&format!("loop{k}"), Opcode::Loop);
        l.more_mut().regions = vec![body];
        b.push(0, l);
    }
    b.run(&LncSplitter, &o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["loop0", "loop1"]);
    let m1 = &b.p.modules[1];
    assert_eq!(names(m1, b.b[0]), ["loop1"]);
    let body = m1.insts[m1.blocks[b.b[0]].insts[0]].regions()[0];
    assert_eq!(names(m1, body), ["c11"], "dropped children of a kept region go too");
}

#[test]
fn slots_of_several_subgraphs() {
    let (mut b, o) = symbolic();
    b.p.modules.push(b.p.modules[0].clone());
    b.run(&LncSplitter, &o);
    let at: Vec<_> = b.p.modules.iter().map(|m| (m.core.unwrap().0, m.subgraph)).collect();
    assert_eq!(at, [(0, 0), (1, 0), (0, 1), (1, 1)]);
}

#[test]
fn one_core_concrete_and_mixed_modules() {
    let (mut b, _) = symbolic();
    let before = b.p.clone();
    b.run(&LncSplitter, &PassOptions::new(1, ArchLevel::Gen3));
    assert_eq!(b.p, before, "with one core the module stays symbolic");
    let mut b2 = program(2);
    let o2 = b2.opts();
    let before = b2.p.clone();
    b2.run(&LncSplitter, &o2);
    assert_eq!(b2.p, before, "concrete modules stay");
    b2.p.modules[1].core = None;
    let cx = b2.run(&LncSplitter, &o2);
    assert_eq!(cx.diags[0].message, "lnc_splitter: mixed symbolic and concrete modules");
    let d = run_single(&mut b2.p.modules[0]).unwrap_err();
    assert!(d.notes[0].contains("738"), "{d:?}");
}

#[test]
fn replicated_matmuls_are_refused() {
    let (mut b, o) = symbolic();
    let mut i = Inst::new("mm", Opcode::Matmult);
    i.set(Attr::ReplicationNumRows, 2i64);
    b.push(0, i);
    let out = prepare(&mut b.p, &o);
    assert_eq!(out.diags[0].message, "expand_replication: replicated matmul not supported (mm)");
    assert_eq!(diag::exit_code(&out.diags), 3);
}
