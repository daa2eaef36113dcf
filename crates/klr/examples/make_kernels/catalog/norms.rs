//! Normalisations: rmsnorm over split columns and over sharded rows, layernorm in a run-time loop, softmax.

use super::body::*;
use super::{Entry, Verdict};
use tandem_klr::ast::{ActivationFunc, AluOp, Dtype, Memory};
use tandem_klr::build;

const RMSNORM: &str = "x / np.sqrt((x.astype(np.float64)**2).mean(1, keepdims=True) + 1e-6) * gamma";

pub(super) fn entries() -> Vec<Entry> {
    vec![rmsnorm_columns(), rmsnorm_rows(), layernorm(), softmax()]
}

fn rmsnorm_columns() -> Entry {
    let (x, gamma, out) = (hbm("x", &[256, 1024]), hbm("gamma", &[1, 1024]), hbm("out", &[256, 1024]));
    let kernel = kernel("rmsnorm_columns", &[&x, &gamma], &[&out], &[], |b| {
        let g = sbuf("g", &[128, 512]);
        let eps = sbuf("eps", &[128, 1]);
        b.copy(all(&g), row_for_all(&gamma, 512 * b.core, 512));
        b.fill(all(&eps), 1e-6);
        for t in 0..2 {
            let tile_of = |what: &str, w| sbuf(&format!("{what}{t}"), &[128, w]);
            let (xt, sq, y) = (tile_of("xt", 512), tile_of("sq", 512), tile_of("y", 512));
            let (sum, recv, total, scale) =
                (tile_of("sum", 1), tile_of("recv", 1), tile_of("total", 1), tile_of("scale", 1));
            let part = (512 * b.core, 512);
            b.copy(all(&xt), rect(&x, (128 * t, 128), part));
            b.activate_sum(all(&sq), all(&sum), ActivationFunc::Square, all(&xt), None);
            b.swap(all(&recv), all(&sum));
            b.both(all(&total), all(&sum), AluOp::Add, all(&recv));
            b.activate(all(&scale), ActivationFunc::Rsqrt, all(&total), 1.0 / 1024.0, Some(all(&eps)));
            b.scalar(all(&y), all(&xt), AluOp::Mult, tile(all(&scale)));
            b.both(all(&y), all(&y), AluOp::Mult, all(&g));
            b.copy(rect(&out, (128 * t, 128), part), all(&y));
        }
    });
    Entry {
        name: "rmsnorm_columns",
        what: "rmsnorm of two row tiles; each core has half of the columns, the sums of squares are exchanged",
        kernel,
        verdict: Verdict::Valid { expr: &[("out", RMSNORM)], tolerance: "rtol 1e-5 atol 1e-6" },
    }
}

fn rmsnorm_rows() -> Entry {
    let bf16 = |name: &str, memory, dims: &[u64]| build::tensor(name, Dtype::Bfloat16, memory, dims);
    let x = bf16("x", Memory::Hbm, &[512, 256]);
    let gamma = hbm("gamma", &[1, 256]);
    let out = bf16("out", Memory::Hbm, &[512, 256]);
    let kernel = kernel("rmsnorm_rows", &[&x, &gamma], &[&out], &[], |b| {
        let g = sbuf("g", &[128, 256]);
        let eps = sbuf("eps", &[128, 1]);
        b.copy(all(&g), row_for_all(&gamma, 0, 256));
        b.fill(all(&eps), 1e-6);
        for t in 0..2 {
            let first = 256 * b.core + 128 * t;
            let xt = bf16(&format!("xt{t}"), Memory::Sbuf, &[128, 256]);
            let y = bf16(&format!("y{t}"), Memory::Sbuf, &[128, 256]);
            let tile_of = |what: &str, w| sbuf(&format!("{what}{t}"), &[128, w]);
            let (sq, xn, sum, scale) =
                (tile_of("sq", 256), tile_of("xn", 256), tile_of("sum", 1), tile_of("scale", 1));
            b.copy(all(&xt), rows(&x, first, 128));
            b.activate_sum(all(&sq), all(&sum), ActivationFunc::Square, all(&xt), None);
            b.activate(all(&scale), ActivationFunc::Rsqrt, all(&sum), 1.0 / 256.0, Some(all(&eps)));
            b.scalar(all(&xn), all(&xt), AluOp::Mult, tile(all(&scale)));
            b.both(all(&y), all(&xn), AluOp::Mult, all(&g));
            b.copy(rows(&out, first, 128), all(&y));
        }
    });
    Entry {
        name: "rmsnorm_rows",
        what: "rmsnorm of bfloat16 rows sharded over the cores: nothing is exchanged",
        kernel,
        verdict: Verdict::Valid {
            expr: &[(
                "out",
                "x.astype(np.float32) / np.sqrt((x.astype(np.float64)**2).mean(1, keepdims=True) + 1e-6) * gamma",
            )],
            tolerance: "rtol 8e-3 atol 1e-6",
        },
    }
}

fn layernorm() -> Entry {
    let (x, out) = (hbm("x", &[4, 128, 512]), hbm("out", &[4, 128, 512]));
    let kernel = kernel("layernorm_loop", &[&x], &[&out], &[], |b| {
        let eps = sbuf("eps", &[128, 1]);
        b.fill(all(&eps), 1e-5);
        let half = 256 * b.core;
        b.for_loop(4, |b| {
            let (xt, sq, y) = (sbuf("xt", &[128, 256]), sbuf("sq", &[128, 256]), sbuf("y", &[128, 256]));
            let (sums, recv, mean) =
                (sbuf("sums", &[128, 2]), sbuf("recv", &[128, 2]), sbuf("mean", &[128, 2]));
            let (square, var, scale) =
                (sbuf("square", &[128, 1]), sbuf("var", &[128, 1]), sbuf("scale", &[128, 1]));
            b.copy(all(&xt), plane(&x, "i", half, 256));
            b.reduce(cols(&sums, 0, 1), AluOp::Add, all(&xt));
            b.activate_sum(all(&sq), cols(&sums, 1, 1), ActivationFunc::Square, all(&xt), None);
            b.swap(all(&recv), all(&sums));
            b.both(all(&mean), all(&sums), AluOp::Add, all(&recv));
            b.scalar(all(&mean), all(&mean), AluOp::Mult, number(1.0 / 512.0));
            b.both(all(&square), cols(&mean, 0, 1), AluOp::Mult, cols(&mean, 0, 1));
            b.both(all(&var), cols(&mean, 1, 1), AluOp::Subtract, all(&square));
            b.activate(all(&scale), ActivationFunc::Rsqrt, all(&var), 1.0, Some(all(&eps)));
            let shift = (AluOp::Subtract, tile(cols(&mean, 0, 1)));
            b.two_scalars(all(&y), all(&xt), shift, Some((AluOp::Mult, tile(all(&scale)))));
            b.copy(plane(&out, "i", half, 256), all(&y));
        });
    });
    Entry {
        name: "layernorm_loop",
        what: "layernorm in a run-time loop over row tiles; sum and sum of squares are packed into one exchange, \
               whose receive buffer every iteration uses again",
        kernel,
        verdict: Verdict::Valid {
            expr: &[(
                "out",
                "(x - x.astype(np.float64).mean(2, keepdims=True)) / np.sqrt(x.astype(np.float64).var(2, keepdims=True) + 1e-5)",
            )],
            tolerance: "rtol 1e-4 atol 1e-5",
        },
    }
}

fn softmax() -> Entry {
    let (x, out) = (hbm("x", &[128, 512]), hbm("out", &[128, 512]));
    let kernel = kernel("softmax_pair", &[&x], &[&out], &[], |b| {
        let (xt, e, y) = (sbuf("xt", &[128, 256]), sbuf("e", &[128, 256]), sbuf("y", &[128, 256]));
        let one = |name: &str| sbuf(name, &[128, 1]);
        let (max, peer_max, shift) = (one("max"), one("peer_max"), one("shift"));
        let (sum, peer_sum, total, scale) = (one("sum"), one("peer_sum"), one("total"), one("scale"));
        b.copy(all(&xt), cols(&x, 256 * b.core, 256));
        b.reduce(all(&max), AluOp::Max, all(&xt));
        b.swap(all(&peer_max), all(&max));
        b.both(all(&shift), all(&max), AluOp::Max, all(&peer_max));
        b.scalar(all(&shift), all(&shift), AluOp::Mult, number(-1.0));
        b.activate_sum(all(&e), all(&sum), ActivationFunc::Exp, all(&xt), Some(all(&shift)));
        b.swap(all(&peer_sum), all(&sum));
        b.both(all(&total), all(&sum), AluOp::Add, all(&peer_sum));
        b.activate(all(&scale), ActivationFunc::Reciprocal, all(&total), 1.0, None);
        b.scalar(all(&y), all(&e), AluOp::Mult, tile(all(&scale)));
        b.copy(cols(&out, 256 * b.core, 256), all(&y));
    });
    Entry {
        name: "softmax_pair",
        what: "softmax of rows split over the cores: the maxima are exchanged, then the sums",
        kernel,
        verdict: Verdict::Valid {
            expr: &[(
                "out",
                "(lambda e: e / e.sum(1, keepdims=True))(np.exp(x.astype(np.float64) - x.max(1, keepdims=True)))",
            )],
            tolerance: "rtol 1e-5 atol 1e-9",
        },
    }
}
