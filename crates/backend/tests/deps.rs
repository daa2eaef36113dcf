//! The dependency builder: the closure of its edges orders every pair that must be ordered, and the work is linear.

mod common;
use common::*;
use tandem_backend::passes::build_deps::build;
use tandem_backend::prepare;
use tandem_bir::*;

/// Bytes of a static SBUF pattern as (partition, byte) pairs, straight from the definition.
fn bytes(m: &Module, a: &AccessPattern) -> std::collections::BTreeSet<(u64, u64)> {
    let l = &m.memlocs[a.loc];
    let size = a.dtype.bytes();
    let pitch = (l.row_bytes() / size) as i64;
    let mut offs = vec![a.offset];
    for p in &a.pairs {
        offs = offs.iter().flat_map(|o| (0..p.num as i64).map(move |i| o + p.step * i)).collect();
    }
    offs.iter()
        .flat_map(|&o| {
            let (p, e) = (u64::from(l.base) + (o / pitch) as u64, l.addr + (o % pitch) as u64 * size);
            (0..size).map(move |k| (p, e + k))
        })
        .collect()
}

#[test]
fn closure_covers_every_conflict_of_overlapping_tensors() {
    let mut seed = 7u64;
    let mut rnd = move |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    for _ in 0..60 {
        let mut b = program(1);
        let locs: Vec<MemLocId> = (0..4).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [16, 32])).collect();
        for &l in &locs {
            let loc = &mut b.p.modules[0].memlocs[l];
            (loc.allocated, loc.addr, loc.base) = (true, rnd(20) * 4, [0u32, 8][rnd(2) as usize]);
        }
        let ap = |rnd: &mut dyn FnMut(u64) -> u64| {
            let l = locs[rnd(4) as usize];
            let rows = 1 + rnd(8);
            let (r0, step) = (rnd(16 - rows + 1), [1u64, 1, 2][rnd(3) as usize]);
            let n = 1 + rnd(6);
            let c0 = rnd(32 - (n - 1) * step);
            AccessPattern::new(l, Dtype::Float32, (r0 * 32 + c0) as i64, &[(32, rows), (step as i64, n)])
        };
        for k in 0..40 {
            match rnd(12) {
                0 => b.all(|_, _| barrier(&format!("cb{k}"))),
                _ => {
                    let (s, d) = (ap(&mut rnd), ap(&mut rnd));
                    b.all(|_, _| copy(&format!("i{k}"), s.clone(), d.clone()));
                }
            }
        }
        b.all(|_, _| Inst::new("ret", Opcode::Return));
        build(&mut b.p);
        let m = &b.p.modules[0];
        let insts = &m.blocks[b.b[0]].insts;
        let reach = reaches(m, b.b[0]);
        let acc: Vec<_> = insts
            .iter()
            .map(|i| {
                let x = &m.insts[*i];
                let set = |v: &[Operand]| {
                    v.iter()
                        .filter_map(|o| o.as_ap())
                        .flat_map(|a| bytes(m, a))
                        .collect::<std::collections::BTreeSet<_>>()
                };
                (set(&x.ins), set(&x.outs), matches!(x.opcode, Opcode::CoreBarrier | Opcode::Return))
            })
            .collect();
        for i in 0..insts.len() {
            for j in i + 1..insts.len() {
                let meet =
                    |a: &std::collections::BTreeSet<_>, b: &std::collections::BTreeSet<_>| !a.is_disjoint(b);
                let conflict = acc[i].2
                    || acc[j].2
                    || meet(&acc[i].0, &acc[j].1)
                    || meet(&acc[i].1, &acc[j].0)
                    || meet(&acc[i].1, &acc[j].1);
                assert!(!conflict || reach[i][j], "{i} {j}: {:?}", listing(&b, 0));
            }
        }
        // building again adds nothing
        let before = b.p.clone();
        assert_eq!(build(&mut b.p).0, 0);
        assert_eq!(b.p, before);
    }
}

#[test]
fn kinds_of_edges_and_registers() {
    let mut b = program(1);
    let x = b.sb("x", Dtype::Float32, [16, 8]);
    let y = b.sb("y", Dtype::Float32, [16, 8]);
    let r = b.reg("k");
    let reg = || RegAccess { reg: r, dtype: Dtype::Int32 };
    b.all(|b, c| copy("w", b.whole(c, y), b.whole(c, x)));
    b.all(|b, c| copy("r", b.whole(c, x), b.whole(c, y)));
    b.all(|b, c| copy("w2", b.whole(c, y), b.whole(c, x)));
    b.all(|_, _| {
        let mut i = Inst::new("mv", Opcode::RegisterMove);
        i.ins.push(Immediate::i32(1).into());
        i.outs.push(reg().into());
        i
    });
    b.all(|b, c| {
        let mut a = tile(&b.p.modules[c], x, 0..16, 0..1);
        a.dynamic =
            Some(Box::new(DynamicAp { terms: vec![(1, Expr::Reg(r))], indirect_dim: 1, max_index: Some(7) }));
        copy("dyn", a, b.whole(c, y))
    });
    let o = b.opts();
    assert!(prepare(&mut b.p, &o).ok());
    build(&mut b.p);
    let m = &b.p.modules[0];
    let i = &m.blocks[b.b[0]].insts;
    let dep = |k: usize| {
        let mut v: Vec<(usize, EdgeKind)> = m.insts[i[k]]
            .deps
            .iter()
            .map(|d| (i.iter().position(|x| *x == d.inst).unwrap(), d.kind))
            .collect();
        v.sort();
        v
    };
    assert_eq!(dep(1), [(0, EdgeKind::Flow)]); // reads x, overwrites y that 0 read: the larger kind
    assert_eq!(dep(2), [(0, EdgeKind::Output), (1, EdgeKind::Flow)]);
    assert_eq!(dep(4), [(1, EdgeKind::Output), (2, EdgeKind::Flow), (3, EdgeKind::Flow)]);
}

#[test]
fn a_million_instructions_have_a_few_edges_each() {
    // counted, not timed
    let n = 1_000_000usize;
    let mut b = program(1);
    let t: Vec<MemLocId> = (0..16).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 64])).collect();
    for k in 0..n {
        let i = if k % 1000 == 999 {
            barrier(&format!("cb{k}"))
        } else {
            // one tensor is read by all and never written
            copy(&format!("i{k}"), b.whole(0, t[0]), b.whole(0, t[1 + k % 15]))
        };
        b.push(0, i);
    }
    let o = b.opts();
    assert!(prepare(&mut b.p, &o).ok());
    let (edges, fences) = build(&mut b.p);
    assert_eq!(fences, 1000);
    assert!(edges < 2 * n as u64, "{edges}");
}

#[test]
fn many_readers_of_one_tensor_stay_bounded() {
    let mut b = program(1);
    let x = b.sb("x", Dtype::Float32, [128, 64]);
    let t: Vec<MemLocId> = (0..64).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 64])).collect();
    for k in 0..20_000usize {
        b.all(|b, c| copy(&format!("i{k}"), b.whole(c, x), b.whole(c, t[k % 64])));
    }
    for k in 0..64u64 {
        b.all(|b, c| {
            copy(&format!("w{k}"), b.whole(c, t[0]), tile(&b.p.modules[c], x, 0..128, k..k + 1)).clone()
        });
    }
    let o = b.opts();
    assert!(prepare(&mut b.p, &o).ok());
    let (edges, _) = build(&mut b.p);
    assert!(edges < 20_000 * 4 + 64 * 200, "{edges}");
}
