//! Races: none on clean programs, one finding per order that is taken away.

#[path = "support/samples.rs"]
mod samples;

use samples::{kernel, names, show};
use tandem_bir::diag::Diagnostic;
use tandem_bir::{EdgeKind, InstId, Level, Opcode, Program, text};
use tandem_sim::{
    Outcome, Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor, random::random_tensor,
};

fn run_with(p: &Program, opts: RunOptions) -> Outcome {
    let mut r = Simulator::new(p, opts).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    let inputs: Vec<Tensor> = r
        .wanted()
        .iter()
        .map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect();
    r.set_inputs(&inputs).unwrap_or_else(|e| panic!("{}: {}", p.name, show(&e)));
    r.run()
}

fn races(p: &Program, schedule: Schedule) -> Vec<Diagnostic> {
    let o = run_with(p, RunOptions { schedule, ..RunOptions::default() });
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    o.diagnostics.into_iter().filter(|d| d.code.to_string() == "S0020").collect()
}

const SCHEDULES: [Schedule; 4] = [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2)];

#[test]
fn sample_kernels_are_free_of_races() {
    let names = names();
    for name in &names {
        for level in [Level::Bir, Level::Lowered] {
            let p = kernel(name, level);
            for s in SCHEDULES {
                let r = races(&p, s);
                assert!(r.is_empty(), "{name} {level:?} {s:?}\n{}", show(&r));
            }
        }
    }
}

/// Is there a path of edges and queue order from `a` to `b` without the edge `a -> b`? Plain search over the block.
fn ordered_without(p: &Program, core: usize, block: &[InstId], a: InstId, b: InstId) -> bool {
    let m = &p.modules[core];
    let queue = |i: InstId| {
        let inst = &m.insts[i];
        let e = if inst.engine == tandem_bir::EngineKind::Unassigned {
            inst.opcode.spec().engine
        } else {
            inst.engine
        };
        (if e == tandem_bir::EngineKind::Dma { tandem_bir::EngineKind::Sp } else { e }, inst.opcode.is_dma())
    };
    let mut reached = vec![b];
    let mut k = 0;
    while k < reached.len() {
        let x = reached[k];
        k += 1;
        for d in &m.insts[x].deps {
            if (x, d.inst) != (b, a) && !reached.contains(&d.inst) {
                reached.push(d.inst);
            }
        }
        // Everything before it in its queue started before; compute is also complete.
        let at = block.iter().position(|i| *i == x).unwrap_or(0);
        for &y in &block[..at] {
            let (qx, qy) = (queue(x), queue(y));
            let same =
                qx.0 == qy.0 || qx.0 == tandem_bir::EngineKind::All || qy.0 == tandem_bir::EngineKind::All;
            if same && qx.1 >= qy.1 && !reached.contains(&y) {
                reached.push(y);
            }
            if m.insts[y].opcode == Opcode::CoreBarrier || m.insts[x].opcode == Opcode::CoreBarrier {
                // The fence of the machine.
                if !reached.contains(&y) {
                    reached.push(y);
                }
            }
        }
    }
    reached.contains(&a)
}

#[test]
fn a_flow_edge_taken_away_is_a_race_unless_it_is_implied() {
    let (mut raced, mut implied) = (0, 0);
    for name in ["01_sendrecv_swap_f32_128x64.klr", "05_rmsnorm_2core_f32.klr", "20_access_forms_f32.klr"] {
        let p = kernel(name, Level::Lowered);
        for core in 0..p.lnc_size as usize {
            for (b, block) in p.modules[core].blocks.iter() {
                for &i in &block.insts {
                    // A token touches nothing itself.
                    if p.modules[core].insts[i].opcode == Opcode::TensorCompletion {
                        continue;
                    }
                    for d in p.modules[core].insts[i].deps.clone() {
                        if d.kind != EdgeKind::Flow || !block.insts.contains(&d.inst) {
                            continue;
                        }
                        let mut q = p.clone();
                        q.modules[core].insts[i].deps.retain(|x| x.inst != d.inst);
                        let free = ordered_without(&p, core, &block.insts, d.inst, i);
                        for s in [Schedule::Eager, Schedule::Late] {
                            let r = races(&q, s);
                            assert_eq!(
                                r.is_empty(),
                                free,
                                "{name} core {core} {b:?} {} -> {}\n{}",
                                q.modules[core].insts[d.inst].name,
                                q.modules[core].insts[i].name,
                                show(&r)
                            );
                            assert!(r.len() <= 1, "one missing edge, several findings\n{}", show(&r));
                            if let Some(f) = r.first() {
                                assert_eq!(f.sites.len(), 2);
                            }
                        }
                        if free { implied += 1 } else { raced += 1 }
                    }
                }
            }
        }
    }
    assert!(raced >= 10, "{raced} raced, {implied} implied");
}

#[test]
fn a_barrier_taken_away_from_a_shared_exchange_is_one_race() {
    for level in [Level::Bir, Level::Lowered] {
        let p = kernel("08_core_barrier_shared_hbm_f32.klr", level);
        let barriers: Vec<Vec<InstId>> = p
            .modules
            .iter()
            .map(|m| {
                m.walk()
                    .into_iter()
                    .map(|w| w.2)
                    .filter(|i| m.insts[*i].opcode == Opcode::CoreBarrier)
                    .collect()
            })
            .collect();
        assert!(!barriers[0].is_empty());
        let mut q = p.clone();
        for (m, list) in q.modules.iter_mut().zip(&barriers) {
            for b in m.blocks.values_mut() {
                b.insts.retain(|i| !list.contains(i));
            }
        }
        for s in SCHEDULES {
            let r = races(&q, s);
            assert_eq!(r.len(), 1, "{level:?} {s:?}\n{}", show(&r));
            assert!(r[0].message.contains("between core"), "{}", show(&r));
            assert!(r[0].sites.iter().all(|s| s.pos.is_some()), "{}", show(&r));
        }
    }
}

/// Both cores copy one tile of a shared buffer to another by register moves; `step` elements apart, from `first`.
fn interleaved(first: [i64; 2], step: i64, n: u64) -> Program {
    let module = |c: usize| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @s_set = Internal Tensor Shared float32 [1024] {{ loc @s = DRAM [4096] addr 0 }}
    block b0 {{
      w = Memset DVE @s[off {}, [{step},{n}]] float32 {{mode = Const, constant = {c}}} !loc k.py:{}:1
    }}
  }}
}}
",
            first[c],
            c + 1
        )
    };
    let src = format!("bir 1\nprogram \"t\" lnc 2 level bir\n{}{}", module(0), module(1));
    text::parse(&src).unwrap_or_else(|e| panic!("{}", show(&e)))
}

#[test]
fn interleaved_strides_do_not_collide_and_touching_ones_do() {
    for (first, step, n, want) in [
        ([0, 1], 2, 512, 0),
        ([0, 2], 2, 256, 1),
        ([0, 3], 2, 256, 0),
        ([0, 511], 1, 512, 1),
        ([0, 512], 1, 512, 0),
    ] {
        let p = interleaved(first, step, n);
        for s in SCHEDULES {
            let r = races(&p, s);
            assert_eq!(r.len(), want, "{first:?} step {step}\n{}", show(&r));
            if want == 1 {
                let text = show(&r);
                assert!(
                    text.contains("k.py:1:1") && text.contains("k.py:2:1") && text.contains("`s`"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn a_token_orders_the_writes_it_stands_for_and_nothing_else() {
    let module = |c: usize, body: &str| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @s_set = Internal Tensor Shared float32 [4] {{ loc @s = DRAM [16] addr 0 }}
    set @t_set = Internal Tensor Shared float32 [4] {{ loc @t = DRAM [16] addr 16 }}
    set @a_set = Internal NeuronSBTensor Local float32 [1 x 4] {{ loc @a = SB [1, 16] addr 0 allocated }}
    block b0 {{
      {body}
    }}
  }}
}}
"
        )
    };
    let fill = |n: &str, l: &str, deps: &str| {
        format!("{n} = Memset DVE @{l}[[1,4]] float32 {{mode = Const, constant = 1}} {deps}\n")
    };
    let get = |n: &str, l: &str, deps: &str| {
        format!("{n} = DMACopy SP @a[[4,1] [1,4]] float32 <- @{l}[[4,1] [1,4]] float32 {deps}\n")
    };
    let token = |deps: &str| format!("k = TensorCompletion SP <- @s[[1,4]] float32 {deps}\n");
    let make = |c0: &str, c1: &str| {
        let src = format!("bir 1\nprogram \"t\" lnc 2 level lowered\n{}{}", module(0, c0), module(1, c1));
        text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
    };
    let c0 = fill("w", "s", "") + &fill("v", "t", "") + &token("after(w)");
    let clean = make(&c0, &(token("") + &get("r", "s", "after(k)")));
    let other = make(&c0, &(token("") + &get("r", "t", "after(k)")));
    for s in SCHEDULES {
        assert!(races(&clean, s).is_empty());
        assert_eq!(races(&other, s).len(), 1, "the token says nothing about `t`");
        let o = run_with(&clean, RunOptions { schedule: s, ptcom: Ptcom::Notify, ..RunOptions::default() });
        assert_eq!(o.diagnostics.iter().filter(|d| d.code.to_string() == "S0020").count(), 1);
    }
}

#[test]
fn memory_stays_flat_and_time_linear_over_many_accesses() {
    // 100,000 accesses of both cores to interleaved columns of one shared buffer, in a loop.
    let module = |c: usize| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @s_set = Internal Tensor Shared float32 [4096] {{ loc @s = DRAM [16384] addr 0 }}
    block b0 {{
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":50000,\"stride\":1}}}} regions {{
        block inner {{
          w = Memset DVE @s[off {c}, [64,16], dyn(2*mod(axis(k), 32)) dim 0] float32 {{mode = Const, constant = {c}}}
        }}
      }}
    }}
  }}
}}
"
        )
    };
    let src = format!("bir 1\nprogram \"t\" lnc 2 level bir\n{}{}", module(0), module(1));
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}", show(&e)));
    assert!(races(&p, Schedule::Seed(3)).is_empty());
}

/// Both cores write distinct strided views of one buffer, interleaved: `rounds` times `per` views each, a barrier after each
/// round when asked for.
fn many_views(rounds: u64, per: u64, barrier: bool) -> Program {
    let elems = 2 * rounds * per + 64;
    let bytes = 4 * elems;
    let bar = if barrier { "b = CoreBarrier Pool {cores = [0, 1]}" } else { "" };
    let module = |c: usize| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @s_set = Internal Tensor Shared float32 [{elems}] {{ loc @s = DRAM [{bytes}] addr 0 }}
    block b0 {{
      o = Loop Unassigned {{LoopAxis = {{\"name\":\"j\",\"lb\":0,\"ub\":{rounds},\"stride\":1}}}} regions {{
        block outer {{
          l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{per},\"stride\":1}}}} regions {{
            block inner {{
              w = Memset DVE @s[off {c}, [2,8], dyn(2*axis(k), {}*axis(j)) dim 0] float32 {{mode = Const, constant = {c}}}
            }}
          }}
          {bar}
        }}
      }}
    }}
  }}
}}
",
            2 * per
        )
    };
    let src = format!("bir 1\nprogram \"t\" lnc 2 level bir\n{}{}", module(0), module(1));
    text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
}

#[test]
fn distinct_interleaved_views_cost_near_linear_time_and_memory_is_flat_once_ordered() {
    let time = |p: &Program, want: u64| {
        // Time of this thread, which other work on the machine does not lengthen.
        let start = cpu_time::ThreadTime::now();
        let o = run_with(p, RunOptions { undefined_check: false, ..RunOptions::default() });
        assert_eq!(o.stop, StopReason::Finished);
        assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
        assert_eq!(o.stats.count(0, Opcode::Memset) + o.stats.count(1, Opcode::Memset), want);
        (start.elapsed().as_secs_f64(), o.race_records)
    };
    // 10,000 and 100,000 accesses, none ordered across the cores.
    let least = |p: &Program, want| (0..3).map(|_| time(p, want).0).fold(f64::INFINITY, f64::min);
    let short = least(&many_views(5, 1_000, false), 10_000);
    let long = least(&many_views(50, 1_000, false), 100_000);
    println!("10 times the accesses take {:.1} times as long", long / short);
    assert!(long < 25.0 * short.max(0.005), "10 times the accesses took {} times as long", long / short);
    // Ordered round by round, what is kept does not grow with the length of the run.
    let (_, ten) = time(&many_views(10, 1_000, true), 20_000);
    let (_, fifty) = time(&many_views(50, 1_000, true), 100_000);
    assert!(ten <= 20_000 && fifty <= 20_000, "{ten} and {fifty} records");
}

#[test]
fn what_the_race_check_keeps_does_not_grow_with_the_rounds_of_a_loop() {
    // Every round both cores write their half of a slot and read the other's half of the slot before, a barrier between.
    let program = |rounds: u64| {
        let module = |c: usize| {
            format!(
                "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @s_set = Internal Tensor Shared float32 [64] {{ loc @s = DRAM [256] addr 0 }}
    set @a_set = Internal NeuronSBTensor Local float32 [1 x 8] {{ loc @a = SB [1, 32] addr 0 allocated }}
    block b0 {{
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{rounds},\"stride\":1}}}} regions {{
        block inner {{
          w = Memset DVE @s[off {c}, [2,8], dyn(16*mod(axis(k), 4)) dim 0] float32 {{mode = Const, constant = 0}}
          bar0 = CoreBarrier Pool {{cores = [0, 1]}}
          r = DMACopy SP @a[[8,1] [1,8]] float32 <- @s[off {}, [16,1] [2,8], dyn(16*mod(axis(k), 4)) dim 0] float32
          bar1 = CoreBarrier Pool {{cores = [0, 1]}}
        }}
      }}
    }}
  }}
}}
",
                1 - c
            )
        };
        let src = format!("bir 1\nprogram \"t\" lnc 2 level bir\n{}{}", module(0), module(1));
        text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
    };
    let kept = |rounds: u64| {
        let o = run_with(&program(rounds), RunOptions::default());
        assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
        assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
        assert_eq!(o.stats.count(0, Opcode::Memset), rounds);
        o.race_records
    };
    assert_eq!(kept(1_000), kept(100_000));
}

#[test]
fn sample_kernels_compute_the_same_bytes_under_every_schedule() {
    let seeds: u64 = if cfg!(debug_assertions) { 2 } else { 100 };
    let names = names();
    for name in &names {
        let p = kernel(name, Level::Lowered);
        let bytes = |schedule| -> Vec<Vec<u8>> {
            let o = run_with(&p, RunOptions { schedule, ..RunOptions::default() });
            assert_eq!(o.stop, StopReason::Finished, "{name}\n{}", show(&o.diagnostics));
            o.outputs.into_iter().map(|t| t.bytes).collect()
        };
        let want = bytes(Schedule::Eager);
        assert!(bytes(Schedule::Late) == want, "{name}: late differs");
        for s in 0..seeds {
            assert!(bytes(Schedule::Seed(s)) == want, "{name}: seed {s} differs");
        }
    }
}

/// One core, tiles `a` to `d`; lines are instructions of level lowered.
fn engines(lines: &str) -> Program {
    let sets: String = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(k, t)| {
            let addr = 256 * k;
            format!("    set @{t}_set = Internal NeuronSBTensor Local float32 [32 x 64] {{ loc @{t} = SB [32, 256] addr {addr} allocated }}\n")
        })
        .collect();
    let src = format!(
        "bir 1\nprogram \"t\" lnc 1 level lowered\nmodule @nc00 core 0 arch gen3 {{\n  func @main {{\n{sets}    block b0 {{\n{lines}\n    }}\n  }}\n}}\n"
    );
    text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
}

const T: &str = "[[64,32] [1,64]] float32";

fn write(name: &str, engine: &str, tile: &str, after: &str) -> String {
    format!("{name} = Memset {engine} @{tile}{T} {{mode = Const, constant = 1}}{after} !loc k.py:1:1\n")
}

fn read(name: &str, tile: &str, to: &str, after: &str) -> String {
    format!("{name} = TensorCopy Activation @{to}{T} <- @{tile}{T}{after} !loc k.py:2:1\n")
}

/// Races of one core under many schedules, which must agree about how many there are.
fn count(lines: &str) -> usize {
    let p = engines(lines);
    let mut all = SCHEDULES.to_vec();
    all.extend((3..20).map(Schedule::Seed));
    let n: Vec<usize> = all.iter().map(|s| races(&p, *s).len()).collect();
    assert!(n.iter().all(|k| *k == n[0]), "{n:?} under {all:?}\n{lines}");
    n[0]
}

#[test]
fn two_races_that_need_two_edges_are_two_findings() {
    // The second write comes behind the first read in the text: no edge that leads forward orders both.
    let program = |first: &str, second: &str| {
        write("w1", "DVE", "a", "")
            + &read("r1", "a", "c", first)
            + &write("w2", "DVE", "b", "")
            + &read("r2", "b", "d", second)
    };
    assert_eq!(count(&program("", "")), 2);
    assert_eq!(count(&program(" after(w1)", "")), 1);
    assert_eq!(count(&program("", " after(w2)")), 1);
    assert_eq!(count(&program(" after(w1)", " after(w2)")), 0);
}

#[test]
fn two_races_that_one_edge_orders_are_one_finding() {
    let program = |edge: &str| {
        write("w1", "DVE", "a", "")
            + &write("w2", "DVE", "b", "")
            + &read("r1", "a", "c", edge)
            + &read("r2", "b", "d", "")
    };
    assert_eq!(count(&program("")), 1);
    assert_eq!(count(&program(" after(w2)")), 0);
    // The edge of one pair alone leaves the other.
    assert_eq!(count(&program(" after(w1)")), 1);
}

#[test]
fn races_of_different_engines_are_different_findings() {
    let program = |first: &str, second: &str| {
        write("w1", "DVE", "a", "")
            + &write("w2", "Pool", "b", "")
            + &read("r1", "a", "c", first)
            + &read("r2", "b", "d", second)
    };
    assert_eq!(count(&program("", "")), 2);
    assert_eq!(count(&program(" after(w1)", "")), 1);
    assert_eq!(count(&program("", " after(w2)")), 1);
    assert_eq!(count(&program(" after(w1)", " after(w2)")), 0);
}
