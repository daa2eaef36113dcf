//! Exchanges through shared DRAM, ordered by core barriers.

use super::body::*;
use super::{Entry, Verdict};
use tandem_klr::ast::AluOp;

pub(super) fn entries() -> Vec<Entry> {
    vec![
        exchange(
            "shared_exchange",
            "an exchange through shared DRAM in two rounds with three core barriers",
            0,
        ),
        exchange(
            "shared_exchange_no_barrier_1",
            "the same without the barrier between write and read of round 1",
            1,
        ),
        exchange("shared_exchange_no_barrier_2", "the same without the barrier between the rounds", 2),
        exchange(
            "shared_exchange_no_barrier_3",
            "the same without the barrier between write and read of round 2",
            3,
        ),
        ping_pong("ping_pong", false),
        ping_pong("ping_pong_parity", true),
        ping_pong_unrolled("ping_pong_unrolled", false),
        ping_pong_unrolled("ping_pong_unrolled_parity", true),
        barrier_loop("barrier_loop_equal", [3, 3]),
        barrier_loop("barrier_loop_unequal", [3, 2]),
    ]
}

fn exchange(name: &'static str, what: &'static str, without: u64) -> Entry {
    let (x, out, buf) = (hbm("x", &[256, 128]), hbm("out", &[256, 128]), hbm("buf", &[256, 128]));
    let kernel = kernel(name, &[&x], &[&out], &[&buf], |b| {
        let tile = |name: &str| sbuf(name, &[128, 128]);
        let (t, r, s, last) = (tile("t"), tile("r"), tile("s"), tile("last"));
        let (own, peer) = (128 * b.core, 128 * b.other());
        let barrier = |b: &mut Body, n| if n == without { b.skip() } else { b.barrier(&buf) };
        b.copy(all(&t), rows(&x, own, 128));
        b.copy(rows(&buf, own, 128), all(&t));
        barrier(b, 1);
        b.copy(all(&r), rows(&buf, peer, 128));
        b.both(all(&s), all(&t), AluOp::Add, all(&r));
        b.both(all(&s), all(&s), AluOp::Add, all(&r));
        barrier(b, 2);
        b.copy(rows(&buf, own, 128), all(&s));
        barrier(b, 3);
        b.copy(all(&last), rows(&buf, peer, 128));
        b.copy(rows(&out, own, 128), all(&last));
    });
    let verdict = match without {
        0 => Verdict::Valid {
            expr: &[("out", "(lambda a, b: np.concatenate([(b + a) + a, (a + b) + b]))(x[:128], x[128:])")],
            tolerance: "exact",
        },
        1 => Verdict::Fault("core 1 writes its half while core 0 reads it, and the other way round"),
        2 => Verdict::Fault("round 2 overwrites a half that the other core still reads in round 1"),
        _ => Verdict::Fault("the halves of round 2 are read while they are written"),
    };
    Entry { name, what, kernel, verdict }
}

fn ping_pong(name: &'static str, bug: bool) -> Entry {
    let (x, out, buf) = (hbm("x", &[4, 128, 64]), hbm("out", &[4, 128, 64]), hbm("buf", &[2, 128, 64]));
    let kernel = kernel(name, &[&x], &[&out], &[&buf], |b| {
        b.for_loop(4, |b| {
            let (op, imm) = if bug { (AluOp::ArithShiftRight, 1) } else { (AluOp::BitwiseAnd, 1) };
            b.op(register("slot", "i", op, imm));
            let t = sbuf("t", &[128, 64]);
            if b.core == 0 {
                b.copy(all(&t), plane(&x, "i", 0, 64));
                b.scalar(all(&t), all(&t), AluOp::Mult, number(3.0));
                b.copy(plane(&buf, "slot", 0, 64), all(&t));
                b.barrier(&buf);
            } else {
                b.barrier(&buf);
                b.copy(all(&t), plane(&buf, "slot", 0, 64));
                b.scalar(all(&t), all(&t), AluOp::Add, number(1.0));
                b.copy(plane(&out, "i", 0, 64), all(&t));
            }
        });
    });
    ping_pong_entry(name, bug, kernel)
}

fn ping_pong_unrolled(name: &'static str, bug: bool) -> Entry {
    let (x, out, buf) = (hbm("x", &[4, 128, 64]), hbm("out", &[4, 128, 64]), hbm("buf", &[2, 128, 64]));
    let kernel = kernel(name, &[&x], &[&out], &[&buf], |b| {
        for i in 0..4 {
            let slot = if bug { i >> 1 } else { i & 1 };
            let t = sbuf("t", &[128, 64]);
            if b.core == 0 {
                b.copy(all(&t), fixed_plane(&x, i));
                b.scalar(all(&t), all(&t), AluOp::Mult, number(3.0));
                b.copy(fixed_plane(&buf, slot), all(&t));
                b.barrier(&buf);
            } else {
                b.barrier(&buf);
                b.copy(all(&t), fixed_plane(&buf, slot));
                b.scalar(all(&t), all(&t), AluOp::Add, number(1.0));
                b.copy(fixed_plane(&out, i), all(&t));
            }
        }
    });
    ping_pong_entry(name, bug, kernel)
}

fn ping_pong_entry(name: &'static str, bug: bool, kernel: tandem_klr::ast::LncKernel) -> Entry {
    let verdict = if bug {
        Verdict::Fault("the producer overwrites the slot that the consumer reads")
    } else {
        Verdict::Valid { expr: &[("out", "x * np.float32(3) + np.float32(1)")], tolerance: "exact" }
    };
    let what = if bug {
        "double buffering through shared DRAM with the slot taken from the wrong bit of the counter"
    } else {
        "double buffering through shared DRAM: core 0 produces into one slot while core 1 consumes the other"
    };
    Entry { name, what, kernel, verdict }
}

fn barrier_loop(name: &'static str, trips: [i32; 2]) -> Entry {
    let (x, out, buf) = (hbm("x", &[256, 64]), hbm("out", &[256, 64]), hbm("buf", &[256, 64]));
    let kernel = kernel(name, &[&x], &[&out], &[&buf], |b| {
        let (acc, r) = (sbuf("acc", &[128, 64]), sbuf("r", &[128, 64]));
        let (own, peer) = (128 * b.core, 128 * b.other());
        b.copy(all(&acc), rows(&x, own, 128));
        b.for_loop(trips[b.core as usize], |b| {
            b.copy(rows(&buf, own, 128), all(&acc));
            b.barrier(&buf);
            b.copy(all(&r), rows(&buf, peer, 128));
            b.both(all(&acc), all(&acc), AluOp::Add, all(&r));
            b.barrier(&buf);
        });
        b.copy(rows(&out, own, 128), all(&acc));
    });
    let (what, verdict) = if trips[0] == trips[1] {
        (
            "core barriers in a run-time loop of three iterations on both cores",
            Verdict::Valid {
                expr: &[("out", "np.concatenate([(x[:128] + x[128:]) * np.float32(4)] * 2)")],
                tolerance: "exact",
            },
        )
    } else {
        (
            "core barriers in a run-time loop of three iterations on core 0 and two on core 1",
            Verdict::Fault("core 0 waits at a barrier that core 1 never reaches"),
        )
    };
    Entry { name, what, kernel, verdict }
}
