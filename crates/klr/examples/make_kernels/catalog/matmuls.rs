//! Matrix products split over the contracted dimension.

use super::body::*;
use super::{Entry, Verdict};
use tandem_klr::ast::{ActivationFunc, AluOp};

pub(super) fn entries() -> Vec<Entry> {
    vec![k_split(), gate_up()]
}

fn k_split() -> Entry {
    let (at, w, out) = (hbm("at", &[512, 128]), hbm("w", &[512, 256]), hbm("out", &[128, 256]));
    let kernel = kernel("matmul_k_split", &[&at, &w], &[&out], &[], |b| {
        let acc = psum("acc", &[128, 256]);
        for chunk in 0..2 {
            let (a, m) = (sbuf(&format!("a{chunk}"), &[128, 128]), sbuf(&format!("w{chunk}"), &[128, 256]));
            let first = 256 * b.core + 128 * chunk;
            b.copy(all(&a), rows(&at, first, 128));
            b.copy(all(&m), rows(&w, first, 128));
            b.matmul(all(&acc), all(&a), all(&m));
        }
        let (part, recv, y) = (sbuf("part", &[128, 256]), sbuf("recv", &[128, 128]), sbuf("y", &[128, 128]));
        b.move_tile(all(&part), all(&acc));
        let (mine, theirs) = (128 * b.core, 128 * b.other());
        b.swap(all(&recv), cols(&part, theirs, 128));
        b.both(all(&y), cols(&part, mine, 128), AluOp::Add, all(&recv));
        b.copy(cols(&out, mine, 128), all(&y));
    });
    Entry {
        name: "matmul_k_split",
        what: "matmul with the contracted dimension split over the cores: two products accumulate in PSUM, then each \
               core sends the half of the partial sums that the other one finishes",
        kernel,
        verdict: Verdict::Valid {
            expr: &[("out", "at.astype(np.float64).T @ w.astype(np.float64)")],
            tolerance: "rtol 1e-4 atol 1e-4",
        },
    }
}

fn gate_up() -> Entry {
    let (xt, wg, wu) = (hbm("xt", &[256, 128]), hbm("wg", &[256, 256]), hbm("wu", &[256, 256]));
    let out = hbm("out", &[128, 256]);
    let kernel = kernel("gate_up", &[&xt, &wg, &wu], &[&out], &[], |b| {
        let x = sbuf("x", &[128, 128]);
        let k = 128 * b.core;
        let (mine, theirs) = (128 * b.core, 128 * b.other());
        b.copy(all(&x), rows(&xt, k, 128));
        let recv = sbuf("recv", &[128, 128]);
        for (name, weight) in [("gate", &wg), ("up", &wu)] {
            let w = sbuf(&format!("{name}_w"), &[128, 256]);
            let acc = psum(&format!("{name}_acc"), &[128, 256]);
            let part = sbuf(&format!("{name}_part"), &[128, 256]);
            b.copy(all(&w), rows(weight, k, 128));
            b.matmul(all(&acc), all(&x), all(&w));
            b.move_tile(all(&part), all(&acc));
            b.swap(all(&recv), cols(&part, theirs, 128));
            let sum = sbuf(name, &[128, 128]);
            b.both(all(&sum), cols(&part, mine, 128), AluOp::Add, all(&recv));
        }
        let (gate, up) = (sbuf("gate", &[128, 128]), sbuf("up", &[128, 128]));
        let (silu, y) = (sbuf("silu", &[128, 128]), sbuf("y", &[128, 128]));
        b.activate(all(&silu), ActivationFunc::Silu, all(&gate), 1.0, None);
        b.both(all(&y), all(&silu), AluOp::Mult, all(&up));
        b.copy(cols(&out, mine, 128), all(&y));
    });
    Entry {
        name: "gate_up",
        what: "fused gate and up projections with split contraction; one receive buffer serves both exchanges",
        kernel,
        verdict: Verdict::Valid {
            expr: &[(
                "out",
                "(lambda g, u: g / (1 + np.exp(-g)) * u)(xt.astype(np.float64).T @ wg, xt.astype(np.float64).T @ wu)",
            )],
            tolerance: "rtol 1e-4 atol 1e-3",
        },
    }
}
