//! Shared DRAM: localisation, lifetimes, placement, synchronisation, barriers before global collectives, block ends.

#![allow(clippy::needless_range_loop, reason = "cores are indexed")]

mod common;
use common::*;
use tandem_backend::passes::{
    extend_shared_lifetimes::ExtendSharedLifetimes, localize_shared_memory::LocalizeSharedMemory,
    shared_dram_alloc::SharedDramAlloc, sync_before_global_cc::SyncBeforeGlobalCc,
    sync_shared_allocations::SyncSharedAllocations,
};
use tandem_backend::{PassOptions, PtcomMode};
use tandem_bir::*;

const SHARED: AddressSpace = AddressSpace::Shared;

fn scratch(b: &mut Build, name: &str) -> MemLocId {
    b.dram(name, TensorKind::Internal, SHARED, Dtype::Float32, [128, 16])
}

fn off(b: &Build) -> PassOptions {
    let mut o = b.opts();
    o.ptcom = PtcomMode::Off;
    o
}

#[test]
fn scratch_of_one_core_becomes_private_and_disappears_elsewhere() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let (one, two) = (scratch(&mut b, "one"), scratch(&mut b, "two"));
    let none = scratch(&mut b, "none");
    let i = dma("w", b.whole(1, x), b.whole(1, one));
    b.push(1, i);
    b.all(|b, c| dma("v", b.whole(c, x), b.whole(c, two)));
    let o = off(&b);
    b.run(&LocalizeSharedMemory, &o);
    for c in 0..2usize {
        let m = &b.p.modules[c];
        let has = |n: &str| m.find_location(b.f[c], n).is_some();
        assert_eq!((has("one"), has("two"), has("none")), (c == 1, true, false));
        assert_eq!(m.set_of(two).addr_space, SHARED);
    }
    assert_eq!(b.p.modules[1].set_of(one).addr_space, AddressSpace::Local);
    let _ = none;
    // one core: nothing changes
    let mut b = program(1);
    scratch(&mut b, "s");
    let before = b.p.clone();
    let o = off(&b);
    b.run(&LocalizeSharedMemory, &o);
    assert_eq!(b.p, before);
}

/// Core 0 writes `w`, core 1 reads it; with or without a barrier pair around.
fn handed_over(barriers: bool) -> Build {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let w = scratch(&mut b, "w");
    let bar = |b: &mut Build, n: &str| {
        if barriers {
            b.all(|_, _| barrier(n));
        }
    };
    bar(&mut b, "cb0");
    let i = dma("wr", b.whole(0, x), b.whole(0, w));
    b.push(0, i);
    bar(&mut b, "cb1");
    let i = dma("rd", b.whole(1, w), b.whole(1, x));
    b.push(1, i);
    bar(&mut b, "cb2");
    b
}

#[test]
fn lifetimes_get_a_bracket_or_use_the_barriers_there_are() {
    let mut b = handed_over(false);
    let o = off(&b);
    let cx = b.run(&ExtendSharedLifetimes, &o);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["cb_sg0_start", "wr", "cb_sg0_end"]);
    assert_eq!(names(&b.p.modules[1], b.b[1]), ["cb_sg0_start", "rd", "cb_sg0_end"]);
    assert_eq!(
        cx.log,
        ["Inserted new CB cb_sg0_start", "Inserted new CB cb_sg0_end", "Renumbering core barriers."]
    );
    let l = listing(&b, 0);
    assert!(l[0].ends_with("id=0 cores=[0, 1] w+0 [16,128][1,16] <- "), "{l:?}");
    assert!(l[2].ends_with("id=1 cores=[0, 1]  <- w+0 [16,128][1,16]"), "{l:?}");

    for separate in [false, true] {
        let mut b = handed_over(true);
        let mut o = off(&b);
        o.separate_lifetime_corebarriers = separate;
        let cx = b.run(&ExtendSharedLifetimes, &o);
        let n = if separate { 2 } else { 0 };
        assert_eq!(cx.stat("extend-shared-lifetimes", "barriers_added"), n);
        assert_eq!(cx.stat("extend-shared-lifetimes", "reused"), 2 - n);
        assert_eq!(names(&b.p.modules[0], b.b[0]).len(), 4 + n as usize);
    }
}

#[test]
fn brackets_stay_out_of_loops_and_arms() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let (a, z) = (scratch(&mut b, "a"), scratch(&mut b, "z"));
    let r = b.reg("k");
    let main = b.b.clone();
    let (lp, mid) = (b.block("loop"), b.block("mid"));
    let (left, right, join) = (b.block("left"), b.block("right"), b.block("join"));
    for c in 0..2usize {
        b.push_in(c, main[c], jump("j0", "loop"));
        let i = dma("w", b.whole(c, x), b.whole(c, a));
        b.push_in(c, lp[c], i);
        b.push_in(c, lp[c], branch("b1", r, "loop", "mid"));
        b.push_in(c, mid[c], branch("b2", r, "left", "right"));
        let i = dma("v", b.whole(c, x), b.whole(c, z));
        b.push_in(c, left[c], i);
        b.push_in(c, left[c], jump("j1", "join"));
        b.push_in(c, right[c], jump("j2", "join"));
        b.push_in(c, join[c], Inst::new("ret", Opcode::Return));
    }
    let o = off(&b);
    b.run(&ExtendSharedLifetimes, &o);
    let m = &b.p.modules[1];
    assert_eq!(names(m, main[1]), ["cb_sg0_start", "j0"]);
    assert_eq!(names(m, lp[1]), ["w", "b1"]);
    // `z` is used in one arm: both brackets still meet on every way
    assert_eq!(names(m, mid[1]), ["cb_sg0_end", "b2"]);
    assert_eq!(names(m, left[1]), ["cb_sg0_start_1", "v", "cb_sg0_end_1", "j1"]);
}

#[test]
fn shared_tensors_are_placed_once_and_seen_by_all() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let w = scratch(&mut b, "w");
    let out = b.dram("out", TensorKind::ExternalOutput, SHARED, Dtype::Float32, [128, 16]);
    b.all(|b, c| dma("a", b.whole(c, x), b.whole(c, w)));
    b.all(|b, c| dma("o", b.whole(c, x), b.whole(c, out)));
    let o = off(&b);
    // the copy before the allocator: the documented assertions
    b.run(&ExtendSharedLifetimes, &o);
    b.run(&SharedDramAlloc, &o);
    let early = b.p.clone();
    b.p.modules[0].memlocs[w].allocated = false;
    let cx = b.run(&SyncSharedAllocations, &o);
    assert!(cx.diags.iter().any(|d| d.message.contains("isAllocated() (sync_shared_allocations.cpp:34)")));
    b.p = early.clone();
    b.p.modules[1].memlocs[w].remote_local_target = None;
    assert!(b.run(&SyncSharedAllocations, &o).diags[0].message.contains(":29)"));
    b.p = early.clone();
    b.p.modules[1].memlocs[w].remote_local_target.as_mut().unwrap().name = "nobody".into();
    assert!(b.run(&SyncSharedAllocations, &o).diags[0].message.contains(":33)"));
    b.p = early;
    let view = &b.p.modules[1].memlocs[w];
    assert!(!view.allocated && view.is_shared_post_dram_alloc);
    assert_eq!(view.remote_local_target, Some(RemoteTarget { name: "w".into(), core: CoreId(0) }));
    let cx = b.run(&SyncSharedAllocations, &o);
    let (a, v) = (&b.p.modules[0].memlocs[w], &b.p.modules[1].memlocs[w]);
    assert!(a.allocated && v.allocated && a.addr == v.addr && a.remote_local_target.is_none());
    assert!(
        cx.log[0].starts_with("Assigned memloc w to address 0x")
            && cx.log[0].ends_with("remote local target w")
    );
    // outputs have one address on all cores and no owner
    let (a, v) = (&b.p.modules[0].memlocs[out], &b.p.modules[1].memlocs[out]);
    assert!(a.allocated && a.addr == v.addr && !v.is_remote() && a.addr != b.p.modules[0].memlocs[w].addr);
}

/// Rounds of write, barrier, read, barrier over fresh scratch tensors.
fn rounds(n: usize, span: impl Fn(usize) -> usize) -> Build {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let t: Vec<MemLocId> = (0..n).map(|k| scratch(&mut b, &format!("s{k}"))).collect();
    let steps = (0..n).map(|k| k + span(k)).max().unwrap_or(0) + 1;
    b.all(|_, _| barrier("first"));
    for step in 0..=steps {
        for k in 0..n {
            if step == k {
                b.all(|b, c| {
                    dma(
                        &format!("w{k}"),
                        tile(&b.p.modules[c], x, 0..64, 0..16),
                        tile(&b.p.modules[c], t[k], c as u64 * 64..c as u64 * 64 + 64, 0..16),
                    )
                });
            } else if step > k && step <= k + span(k) {
                b.all(|b, c| {
                    dma(&format!("r{k}_{step}"), tile(&b.p.modules[c], t[k], 0..128, 0..16), b.whole(c, x))
                });
            }
        }
        b.all(|_, _| barrier(&format!("cb{step}")));
    }
    b
}

#[test]
fn disjoint_lifetimes_share_bytes_and_overlapping_ones_never_do() {
    for spread in [1usize, 2, 3] {
        let n = 9;
        let mut b = rounds(n, |k| 1 + (k * 7) % spread);
        let o = off(&b);
        let out = b.lower(&o);
        clean(&b.p, false, "rounds");
        let m = &b.p.modules[0];
        let addr: Vec<u64> =
            (0..n).map(|k| m.memlocs[m.find_location(b.f[0], &format!("s{k}")).unwrap()].addr).collect();
        let size = 128 * 16 * 4u64;
        for i in 0..n {
            for j in i + 1..n {
                // alive from step k to step k + span, borders are barriers between steps
                let (end_i, start_j) = (i + 1 + (i * 7) % spread, j);
                let alive_together = end_i >= start_j;
                let overlap = addr[i] < addr[j] + size && addr[j] < addr[i] + size;
                assert!(!(alive_together && overlap), "s{i} s{j} {addr:?}");
            }
        }
        let (used, wanted) =
            (out.stat("shared-dram-alloc", "bytes_used"), out.stat("shared-dram-alloc", "bytes_wanted"));
        assert!(used < wanted, "{used} of {wanted}");
    }
}

#[test]
fn without_barriers_nothing_is_shared() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    for k in 0..4 {
        let s = scratch(&mut b, &format!("s{k}"));
        b.all(|b, c| dma(&format!("w{k}"), b.whole(c, x), b.whole(c, s)));
    }
    let o = off(&b);
    let out = b.lower(&o);
    assert_eq!(out.stat("shared-dram-alloc", "bytes_used"), out.stat("shared-dram-alloc", "bytes_wanted"));
}

#[test]
fn global_collectives_have_a_barrier_right_before_them() {
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let y = b.sb("y", Dtype::Float32, [128, 16]);
    let z = b.sb("z", Dtype::Float32, [128, 16]);
    b.all(|_, _| barrier("cb"));
    b.all(|b, c| copy("unrelated", b.whole(c, z), b.whole(c, z)));
    b.all(|b, c| {
        let mut i = allreduce("CC", AluOp::Add, b.whole(c, x), b.whole(c, y));
        i.set(Attr::Kind, CollectiveKind::AllGather);
        i
    });
    let o = off(&b);
    // the fence of the lowering is elided (nothing between touches the tensors); this pass wants it adjacent
    let out = b.lower(&o);
    assert_eq!(out.stat("lower-local-collectives", "barriers_elided"), 1);
    assert_eq!(names(&b.p.modules[0], b.b[0]), ["cb", "unrelated", "CC_gcc_cb", "CC"]);
    let before = b.p.clone();
    let cx = b.run(&SyncBeforeGlobalCc, &o);
    assert_eq!(cx.stat("sync-before-global-cc", "barriers_added"), 0);
    assert_eq!(b.p, before);
}

#[test]
fn block_ends_join_the_engines() {
    for strict in [false, true] {
        let mut b = program(2);
        let x = b.sb("x", Dtype::Float32, [128, 16]);
        let next = b.block("next");
        for c in 0..2usize {
            let main = b.b[c];
            let i = copy("a", b.whole(c, x), b.whole(c, x));
            let a = b.push_in(c, main, i);
            b.push_in(c, main, jump("j", "next"));
            let i = copy("b", b.whole(c, x), b.whole(c, x));
            let k = b.push_in(c, next[c], i);
            b.p.modules[c].insts[k].add_dep(k, a, EdgeKind::Ordered);
            b.push_in(c, next[c], Inst::new("ret", Opcode::Return));
        }
        let mut o = off(&b);
        o.strict_2_24 = strict;
        let out = b.lower(&o);
        assert_eq!(out.stat("lower-control", "edges_dropped"), 2);
        for c in 0..2usize {
            let m = &b.p.modules[c];
            assert_eq!(names(m, b.b[c]), ["a", "main-end-cb", "j"]);
            let j = &m.insts[m.blocks[b.b[c]].insts[1]];
            let want = if strict { Opcode::CoreBarrier } else { Opcode::AllEngineBarrier };
            assert_eq!((j.opcode, j.deps.len()), (want, 1));
            let ret = &m.insts[m.blocks[next[c]].insts[2]];
            assert_eq!(ret.name, "ret");
        }
    }
}

#[test]
fn placement_p_off_its_chip_warns_and_does_nothing() {
    let mut b = handed_over(true);
    for m in &mut b.p.modules {
        m.arch = ArchLevel::CoreV4;
    }
    let mut o = off(&b);
    o.run_shared_allocation_before_post_sched = true;
    let out = b.lower(&o);
    assert_eq!(codes(&out.diags), ["L0001"]);
    assert!(!out.ran.contains(&"lower-local-collectives@80"));
}

#[test]
fn a_pipeline_refuses_a_wrong_order() {
    use tandem_backend::pipeline::{Slot, When, check_order};
    let a = Slot { label: "sync", pass: &SyncSharedAllocations, when: When::Always };
    let d = check_order("test", &[a], &[]).unwrap_err();
    assert!(d.message.contains("sync requires SharedPlaced"), "{}", d.message);
}

#[test]
fn capacity_errors_name_the_tensors_alive() {
    let mut b = program(1);
    b.sb("big", Dtype::Float32, [128, 40_000]);
    b.sb("bigger", Dtype::Float32, [128, 20_000]);
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!(codes(&d), ["L0003"]);
    assert!(
        d[0].message.contains("SBUF is full: bigger needs 80000 bytes per partition"),
        "{}",
        d[0].message
    );
    assert!(d[0].notes[0].contains("big (160000 bytes per partition), bigger (80000 bytes per partition)"));
}

fn memset(name: &str, dst: AccessPattern) -> Inst {
    let mut b = program(1);
    let i = b.memset(0, name, dst);
    b.p.modules[0].insts[i].clone()
}

/// Tiles of 80,000 bytes per partition, of which two fit, filled and copied on one after the other; `back` is a branch from the
/// end of the steps to their beginning, `carried` fills the first from the last.
fn steps_of_large_tiles(back: bool, carried: bool) -> Build {
    let mut b = program(1);
    let tiles: Vec<MemLocId> =
        (0..5).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 20_000])).collect();
    let r = b.reg("r");
    let body = b.block("body")[0];
    let i = jump("go", "body");
    b.push(0, i);
    let first = b.whole(0, tiles[0]);
    let i = if carried { copy("fill", b.whole(0, tiles[4]), first) } else { memset("fill", first) };
    b.push_in(0, body, i);
    for k in 1..tiles.len() {
        let i = copy(&format!("c{k}"), b.whole(0, tiles[k - 1]), b.whole(0, tiles[k]));
        b.push_in(0, body, i);
    }
    if back {
        let i = branch("again", r, "body", "out");
        b.push_in(0, body, i);
    }
    b.block("out");
    b
}

#[test]
fn tensors_that_are_never_alive_together_share_bytes_when_they_do_not_fit_otherwise() {
    use tandem_backend::passes::allocate::Allocate;
    // In a loop that hands nothing from one round to the next as well.
    for back in [false, true] {
        let mut b = steps_of_large_tiles(back, false);
        let o = b.opts();
        b.run(&Allocate, &o);
        let at: Vec<u64> =
            b.p.modules[0].memlocs.values().filter(|l| l.name.starts_with('t')).map(|l| l.addr).collect();
        assert_eq!(at.len(), 5);
        for k in 1..at.len() {
            assert!(at[k].abs_diff(at[k - 1]) >= 80_000, "neighbours are alive together: {at:?}");
            assert!(at[k] + 80_000 <= 212_984, "{at:?}");
        }
    }
    // What the next round reads is alive throughout.
    let mut b = steps_of_large_tiles(true, true);
    let o = b.opts();
    let d = b.lower_err(&o);
    assert_eq!(codes(&d), ["L0003"]);
    assert!(d[0].message.contains("the tensors alive with it need 320000 of 212984"), "{}", d[0].message);
}

/// Steps of random accesses to scratch tensors of random sizes, barriers thrown in, a loop now and then.
fn random_scratch(seed: u64) -> (Build, Vec<MemLocId>) {
    let mut r = generate::Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut b = program(2);
    let x = b.sb("x", Dtype::Float32, [128, 16]);
    let n = 3 + r.below(6) as usize;
    let rows: Vec<u64> = (0..n).map(|_| 8 << r.below(5)).collect();
    let t: Vec<MemLocId> = (0..n)
        .map(|k| {
            b.dram(
                &format!("s{k}"),
                TensorKind::Internal,
                AddressSpace::Shared,
                Dtype::Float32,
                [rows[k], 16],
            )
        })
        .collect();
    let reg = b.reg("k");
    let mut at = b.b.clone();
    let mut count = 0;
    // a window of tensors in use moves on, so that early ones die
    let steps = 6 + r.below(20) as usize;
    for step in 0..steps {
        let looped = r.chance(6);
        let name = format!("l{step}");
        if looped {
            for c in 0..2 {
                b.push_in(c, at[c], jump(&format!("j{step}"), &name));
            }
            at = b.block(&name);
        }
        for _ in 0..1 + r.below(3) {
            count += 1;
            let k = (step * n / steps + r.below(2) as usize).min(n - 1);
            let writes = r.chance(2);
            let cores = r.pick(&[&[0usize][..], &[1], &[0, 1]]);
            for &c in cores {
                let (far, near) = (b.whole(c, t[k]), tile(&b.p.modules[c], x, 0..rows[k], 0..16));
                let i = if writes {
                    dma(&format!("w{count}"), near, far)
                } else {
                    dma(&format!("r{count}"), far, near)
                };
                b.push_in(c, at[c], i);
            }
        }
        if r.chance(2) {
            for c in 0..2 {
                b.push_in(c, at[c], barrier(&format!("cb{step}")));
            }
        }
        if looped {
            let next = format!("a{step}");
            for c in 0..2 {
                b.push_in(c, at[c], branch(&format!("b{step}"), reg, &name, &next));
            }
            at = b.block(&next);
        }
    }
    (b, t)
}

/// By the statement of the issue alone: a tensor is alive from the last barrier before its first access on any core to the
/// first barrier after its last; an access in a loop counts for the whole loop.
fn alive(b: &Build, name: &str) -> Option<(usize, usize)> {
    let mut span: Option<(usize, usize)> = None;
    for (c, m) in b.p.modules.iter().enumerate() {
        let mut barriers = 0;
        for &blk in &m.funcs[b.f[c]].blocks {
            let insts = &m.blocks[blk].insts;
            let is_barrier = |i: &InstId| m.insts[*i].opcode == Opcode::CoreBarrier;
            let own = m.blocks[blk].name.as_str();
            let looped = insts.iter().any(|i| {
                m.insts[*i].opcode == Opcode::CompareAndBranch
                    && m.insts[*i].get_str(Attr::OnTrue) == Some(own)
            });
            let end = barriers + insts.iter().filter(|i| is_barrier(i)).count();
            let start = barriers;
            for i in insts {
                barriers += usize::from(is_barrier(i));
                let inst = &m.insts[*i];
                let touches = inst.opcode != Opcode::CoreBarrier
                    && inst.opcode != Opcode::TensorCompletion
                    && inst
                        .ins
                        .iter()
                        .chain(&inst.outs)
                        .filter_map(|o| o.as_ap())
                        .any(|a| m.memlocs[a.loc].name == name);
                if touches {
                    let (lo, hi) = if looped { (start, end) } else { (barriers, barriers) };
                    span = Some(span.map_or((lo, hi), |(a, z)| (a.min(lo), z.max(hi))));
                }
            }
        }
    }
    span
}

#[test]
fn placement_of_generated_programs_never_overlaps_live_tensors() {
    let mut reused = 0;
    for seed in 1..=400 {
        let (mut b, t) = random_scratch(seed);
        let mut o = off(&b);
        o.run_shared_allocation_before_post_sched = seed % 2 == 0;
        o.separate_lifetime_corebarriers = seed % 3 == 0;
        b.lower(&o);
        let m = &b.p.modules[0];
        let placed: Vec<(u64, u64, String)> = t
            .iter()
            .filter_map(|l| m.memlocs.get(*l))
            .filter(|l| l.is_shared_post_dram_alloc)
            .map(|l| (l.addr, l.addr + l.dims.iter().product::<u64>(), l.name.to_string()))
            .collect();
        for (i, x) in placed.iter().enumerate() {
            for y in &placed[i + 1..] {
                if x.0 >= y.1 || y.0 >= x.1 {
                    continue;
                }
                reused += 1;
                let (Some(p), Some(q)) = (alive(&b, &x.2), alive(&b, &y.2)) else { continue };
                assert!(p.1 < q.0 || q.1 < p.0, "seed {seed}: {} {p:?} and {} {q:?} share bytes", x.2, y.2);
            }
        }
    }
    assert!(reused > 50, "{reused} pairs share bytes");
}
