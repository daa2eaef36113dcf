//! Rows of tokens: uneven shards with padded sends, and outputs that both cores store.

use super::body::*;
use super::{Entry, Verdict};
use tandem_klr::ast::AluOp;
use tandem_klr::build;

pub(super) fn entries() -> Vec<Entry> {
    vec![
        uneven("uneven_tokens", false),
        uneven("uneven_tokens_padded_rows_read", true),
        interleaved_rows(),
        overlapping_rows(),
    ]
}

/// Tokens of each core.
const TOKENS: [u64; 2] = [128, 64];

fn uneven(name: &'static str, read_padding: bool) -> Entry {
    let (x, out) = (hbm("x", &[192, 256]), hbm("out", &[192, 256]));
    let kernel = kernel(name, &[&x], &[&out], &[], |b| {
        let (mine, recv, y) = (sbuf("mine", &[128, 256]), sbuf("recv", &[128, 256]), sbuf("y", &[128, 256]));
        let first = [0, TOKENS[0]];
        let (own, theirs) = (b.core as usize, b.other() as usize);
        b.copy(rows(&mine, 0, TOKENS[own]), rows(&x, first[own], TOKENS[own]));
        b.swap(all(&recv), all(&mine));
        let used = if read_padding { 128 } else { TOKENS[theirs] };
        b.scalar(rows(&y, 0, used), rows(&recv, 0, used), AluOp::Mult, number(2.0));
        b.copy(rows(&out, first[theirs], TOKENS[theirs]), rows(&y, 0, TOKENS[theirs]));
    });
    let (what, verdict) = if read_padding {
        (
            "the same, but core 0 also computes with the padded rows that it received",
            Verdict::Fault("undefined bytes of the padded rows reach arithmetic on core 0"),
        )
    } else {
        (
            "128 and 64 tokens: the sends are padded to 128 rows, the receiver uses the valid ones only",
            Verdict::Valid { expr: &[("out", "x * np.float32(2)")], tolerance: "exact" },
        )
    };
    Entry { name, what, kernel, verdict }
}

fn interleaved_rows() -> Entry {
    let (x, out) = (hbm("x", &[256, 64]), hbm("out", &[256, 64]));
    let kernel = kernel("interleaved_rows", &[&x], &[&out], &[], |b| {
        let t = sbuf("t", &[128, 64]);
        let every_other = |t: &Tensor| build::pattern(t, 64 * b.core, &[(128, 128), (1, 64)]);
        let (from, to) = (every_other(&x), every_other(&out));
        b.copy(all(&t), from);
        b.scalar(all(&t), all(&t), AluOp::Mult, number(1.0 + b.core as f32));
        b.copy(to, all(&t));
    });
    Entry {
        name: "interleaved_rows",
        what: "core 0 stores the even rows of the output, core 1 the odd ones: strided views that never touch",
        kernel,
        verdict: Verdict::Valid {
            expr: &[("out", "x * np.tile(np.float32([[1], [2]]), (128, 1))")],
            tolerance: "exact",
        },
    }
}

fn overlapping_rows() -> Entry {
    let (x, out) = (hbm("x", &[240, 64]), hbm("out", &[240, 64]));
    let kernel = kernel("overlapping_rows", &[&x], &[&out], &[], |b| {
        let t = sbuf("t", &[128, 64]);
        let first = 112 * b.core;
        b.copy(all(&t), rows(&x, first, 128));
        b.scalar(all(&t), all(&t), AluOp::Mult, number(1.0 + b.core as f32));
        b.copy(rows(&out, first, 128), all(&t));
    });
    Entry {
        name: "overlapping_rows",
        what: "both cores store rows 112 to 127 of the output",
        kernel,
        verdict: Verdict::Fault("nothing orders the two stores to rows 112 to 127"),
    }
}
