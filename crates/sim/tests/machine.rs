//! The machine: order, meetings, control flow, deadlocks. Programs are written in the textual form; every expected value is
//! worked out by hand.

use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{Dtype, Opcode, Program, text};
use tandem_sim::{Outcome, Ptcom, Ranks, RunOptions, Schedule, Simulator, StopReason, Tensor};

/// A program of two cores. Each has SBUF tiles `a` and `b` of 4 partitions x 4 int32, a register file, one shared output `y` of
/// 16 int32 and one shared input `x` of 4 int32.
fn two(level: &str, core0: &str, core1: &str) -> Program {
    let module = |c: usize, body: &str| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared int32 [4] {{ loc @x = DRAM [16] addr 0 }}
    set @y_set = ExternalOutput Tensor Shared int32 [16] {{ loc @y = DRAM [64] addr 0 }}
    set @s_set = Internal Tensor Shared int32 [4] {{ loc @s = DRAM [16] addr 0 }}
    set @a_set = Internal NeuronSBTensor Local int32 [4 x 4] {{ loc @a = SB [4, 16] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local int32 [4 x 4] {{ loc @b = SB [4, 16] addr 64 allocated }}
    reg $r = ALL
    reg $i = ALL
    {body}
  }}
}}
"
        )
    };
    let src = format!(
        "bir 1
program \"t\" lnc 2 level {level}
input \"x\" = @x int32 [4]
output \"y\" = @y int32 [16]
{}{}",
        module(0, core0),
        module(1, core1)
    );
    match text::parse(&src) {
        Ok(p) => p,
        Err(e) => panic!("{}\n{src}", show(&e)),
    }
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn run_with(p: &Program, opts: RunOptions) -> Outcome {
    let mut r = Simulator::new(p, opts).unwrap_or_else(|e| panic!("{}", show(&e)));
    let x: Vec<u8> = [10i32, 20, 30, 40].iter().flat_map(|v| v.to_le_bytes()).collect();
    r.set_inputs(&[Tensor { name: "x".into(), dtype: Dtype::Int32, shape: vec![4], bytes: x }])
        .unwrap_or_else(|e| panic!("{}", show(&e)));
    r.run()
}

/// Runs under several schedules, which must agree on everything; gives `y`.
fn y(p: &Program) -> Vec<i32> {
    let schedules = [Schedule::Eager, Schedule::Late].into_iter().chain((0..20).map(Schedule::Seed));
    let mut all: Vec<Vec<i32>> = Vec::new();
    for s in schedules {
        let o = run_with(p, RunOptions { schedule: s, ..RunOptions::default() });
        assert_eq!(o.stop, StopReason::Finished, "{s:?}: {}", show(&o.diagnostics));
        assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
        let v = o.outputs[0].bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
        all.push(v);
    }
    all.dedup();
    assert_eq!(all.len(), 1, "schedules differ");
    all.remove(0)
}

/// Runs to a stop that is no end, under several schedules; gives the one finding, which all schedules must agree on.
fn finding(p: &Program, stop: StopReason) -> (String, String) {
    let mut all: Vec<(String, String)> = Vec::new();
    for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2)] {
        let o = run_with(p, RunOptions { schedule: s, step_limit: 10_000, ..RunOptions::default() });
        assert_eq!(o.stop, stop, "{}", show(&o.diagnostics));
        assert_eq!(o.wait_for.is_some(), stop == StopReason::Deadlock);
        assert_eq!(o.diagnostics.len(), 1, "{}", show(&o.diagnostics));
        let d = &o.diagnostics[0];
        all.push((d.code.to_string(), show(&o.diagnostics)));
    }
    assert!(all.iter().all(|(c, _)| *c == all[0].0), "{all:?}");
    all.remove(0)
}

const ALL16: &str = "[[4,4][1,4]] int32";

/// `tile[k] = base + k` for the first element of each partition.
fn put(tile: &str, base: i32) -> String {
    let mut s = String::new();
    for k in 0..4 {
        s += &format!("p{tile}{k} = RegisterMove ALL $r int32 <- {} int32\n", base + k);
        s += &format!("q{tile}{k} = TensorSave ALL @{tile}[off {}, [4,1] [1,1]] int32 <- $r int32\n", 4 * k);
    }
    s
}

/// `y[at + k] = tile[k]` for the first element of each partition.
fn take(tile: &str, at: i32) -> String {
    let mut s = String::new();
    for k in 0..4 {
        s += &format!("t{tile}{k} = TensorLoad ALL $r int32 <- @{tile}[off {}, [4,1] [1,1]] int32\n", 4 * k);
        s += &format!("u{tile}{k} = TensorSave ALL @y[off {}, [1,1]] int32 <- $r int32\n", at + k);
    }
    s
}

fn clear(from: i32, to: i32) -> String {
    let mut s = "c = RegisterMove ALL $r int32 <- 0 int32\n".to_owned();
    for k in from..to {
        s += &format!("c{k} = TensorSave ALL @y[off {k}, [1,1]] int32 <- $r int32\n");
    }
    s
}

fn block(body: &str) -> String {
    format!("block b0 {{\n{body}\n}}")
}

fn swap(name: &str, out: &str, src: &str, me: i32, pipe: i32) -> String {
    let (peer, line) = (1 - me, 10 + me);
    format!(
        "{name} = CollectiveCompute Pool @{out}{ALL16} <- @{src}{ALL16} {{kind = SendRecv, is_local = true, \
         pipe_id = {pipe}, recv_from_rank = [{peer}], send_to_rank = {peer}}} !loc k.py:{line}:3\n"
    )
}

fn sb2sb(name: &str, out: &str, src: &str, after: &str) -> String {
    format!("{name} = GPSIMDSB2SB Pool @{out}{ALL16} <- @{src}{ALL16} after({after}) !loc k.py:5:1\n")
}

#[test]
fn a_swap_exchanges_tiles_at_level_bir() {
    let core = |me: i32| {
        let base = 100 * (me + 1);
        block(&(put("a", base) + &swap("s", "b", "a", me, 0) + &take("b", 4 * me) + &take("a", 8 + 4 * me)))
    };
    let p = two("bir", &core(0), &core(1));
    assert_eq!(y(&p), [200, 201, 202, 203, 100, 101, 102, 103, 100, 101, 102, 103, 200, 201, 202, 203]);
}

#[test]
fn a_swap_in_place_sends_what_was_there_on_arrival() {
    let core = |me: i32| {
        block(
            &(put("a", 100 * (me + 1))
                + &swap("s", "a", "a", me, 0)
                + &take("a", 4 * me)
                + &clear(8 + 4 * me, 12 + 4 * me)),
        )
    };
    let p = two("bir", &core(0), &core(1));
    assert_eq!(y(&p)[..8], [200, 201, 202, 203, 100, 101, 102, 103]);
}

#[test]
fn lowered_swaps_pair_by_ordinal_and_pull_from_the_partner() {
    // The two cores use different tiles: core 0 sends a into b, core 1 sends b into a.
    let c0 = put("a", 100) + &sb2sb("s", "b", "a", "qa0, qa1, qa2, qa3") + &take("b", 0);
    let c1 = put("b", 200) + &sb2sb("s", "a", "b", "qb0, qb1, qb2, qb3") + &take("a", 4);
    let p = two("lowered", &block(&(c0 + &clear(8, 16))), &block(&c1));
    // Engine-ALL instructions meet in every queue, so they are in order with Pool without edges.
    assert_eq!(y(&p)[..8], [200, 201, 202, 203, 100, 101, 102, 103]);
    let o = run_with(&p, RunOptions::default());
    assert_eq!(o.stats.count(0, Opcode::GpsimdSb2Sb), 1);
    assert_eq!(o.stats.count(1, Opcode::TensorSave), 8);
    assert_eq!(o.stats.to_json()["cores"][1]["executed"]["GPSIMDSB2SB"], 1);
}

fn barrier(name: &str, id: i32) -> String {
    format!("{name} = CoreBarrier Pool {{id = {id}, cores = [0, 1]}}\n")
}

#[test]
fn a_barrier_orders_shared_dram() {
    for level in ["bir", "lowered"] {
        let c0 = "m = RegisterMove ALL $r int32 <- 7 int32
            w = TensorSave ALL @s[off 2, [1,1]] int32 <- $r int32\n"
            .to_owned()
            + &barrier("cb", 0)
            + &clear(0, 15);
        let c1 = barrier("cb", 0)
            + "l = TensorLoad ALL $r int32 <- @s[off 2, [1,1]] int32
               v = TensorSave ALL @y[off 15, [1,1]] int32 <- $r int32\n";
        let p = two(level, &block(&c0), &block(&c1));
        assert_eq!(y(&p)[15], 7);
    }
}

#[test]
fn a_completion_token_waits_for_the_writer() {
    let token = "t = TensorCompletion Pool <- @s[[1,4]] int32\n";
    let c0 = "m = RegisterMove ALL $r int32 <- 7 int32
            w = TensorSave ALL @s[off 2, [1,1]] int32 <- $r int32\n"
        .to_owned()
        + token
        + &clear(0, 15);
    let c1 = token.to_owned()
        + "l = TensorLoad ALL $r int32 <- @s[off 2, [1,1]] int32
               v = TensorSave ALL @y[off 15, [1,1]] int32 <- $r int32\n";
    for level in ["bir", "lowered"] {
        let p = two(level, &block(&c0), &block(&c1));
        assert_eq!(y(&p)[15], 7);
        // A token that only notifies orders nothing: the highest core runs first and reads the fill.
        let o = run_with(
            &p,
            RunOptions { ptcom: Ptcom::Notify, schedule: Schedule::Late, ..RunOptions::default() },
        );
        assert_eq!(o.outputs[0].bytes[60..], [0xff; 4]);
    }
    // The writer never arrives.
    let silent = c0.replace(token, "");
    let p = two("bir", &block(&silent), &block(&c1));
    let (code, text) = finding(&p, StopReason::Deadlock);
    assert_eq!(code, "S0011", "{text}");
    assert!(text.contains("completion #0 of `s`"), "{text}");
}

/// A counted loop: `body` runs `n` times, `$i` is the counter.
fn looped(n: i32, body: &str, after: &str) -> String {
    format!(
        "block init {{
  z = RegisterMove ALL $i int32 <- 0 int32
  j = UnconditionalBranch ALL {{target = \"test\"}}
}}
block test {{
  c = CompareAndBranch ALL <- $i int32, {n} int32 {{comp_op = IS_LTIMM, on_true = \"body\", on_false = \"done\"}} !loc k.py:20:1
}}
block body {{
  {body}
  n = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
  k = UnconditionalBranch ALL {{target = \"test\"}}
}}
block done {{
{after}
}}"
    )
}

#[test]
fn loops_swap_again_and_again() {
    // Each turn swaps a in place; after an odd number of turns the tiles have changed sides.
    let core = |me: i32, level: &str| {
        let s = if level == "bir" {
            swap("s", "a", "a", me, 0)
        } else {
            sb2sb("s", "a", "a", "").replace(" after()", "")
        };
        let body = looped(3, &s, &(take("a", 4 * me) + &clear(8 + 4 * me, 12 + 4 * me)));
        format!("block first {{\n{}\n}}\n{body}", put("a", 100 * (me + 1)))
    };
    for level in ["bir", "lowered"] {
        let p = two(level, &core(0, level), &core(1, level));
        assert_eq!(y(&p)[..8], [200, 201, 202, 203, 100, 101, 102, 103], "{level}");
        let o = run_with(&p, RunOptions::default());
        let op = if level == "bir" { Opcode::CollectiveCompute } else { Opcode::GpsimdSb2Sb };
        assert_eq!([o.stats.count(0, op), o.stats.count(1, op)], [3, 3]);
        assert_eq!(o.stats.count(0, Opcode::CompareAndBranch), 4);
    }
}

#[test]
fn structured_loops_run_their_regions() {
    let body = "z = RegisterMove ALL $i int32 <- 0 int32
      l = Loop Unassigned {LoopAxis = {\"name\":\"k\",\"lb\":2,\"ub\":9,\"stride\":3}} regions {
        block inner {
          w = TensorSave ALL @y[[1,1], dyn(1*axis(k)) dim 0] int32 <- $i int32
          n = RegisterAlu ALL $i int32 <- $i int32, 5 int32 {op = add}
        }
      }";
    let p = two("bir", &block(&(clear(0, 16) + body)), "block b0 {\n}");
    let mut want = vec![0; 16];
    (want[2], want[5], want[8]) = (0, 5, 10);
    assert_eq!(y(&p), want);
}

#[test]
fn dynamic_offsets_are_checked() {
    let at = |v: i32| {
        let s = format!(
            "m = RegisterMove ALL $i int32 <- {v} int32
             w = TensorSave ALL @y[off 1, [1,1], dyn(2*$i) dim 0 max 7] int32 <- $i int32 !loc k.py:9:9\n"
        );
        two("bir", &block(&(clear(0, 16) + &s)), "block b0 {\n}")
    };
    assert_eq!(y(&at(3))[7], 3);
    for v in [8, -1, 1 << 30] {
        let (code, text) = finding(&at(v), StopReason::Fault);
        assert_eq!(code, "S0003");
        assert!(text.contains("k.py:9:9") && text.contains("0 to 7"), "{text}");
    }
}

#[test]
fn reading_a_register_never_written_is_a_finding() {
    let p =
        two("bir", &block("w = TensorSave ALL @y[[1,1]] int32 <- $r int32 !loc k.py:3:1"), "block b0 {\n}");
    let (code, text) = finding(&p, StopReason::Fault);
    assert_eq!(code, "S0004");
    assert!(text.contains("k.py:3:1") && text.contains("`r`"), "{text}");
}

#[test]
fn a_swap_without_a_partner_names_the_core_that_ended() {
    let p = two("bir", &block(&(put("a", 1) + &swap("s", "b", "a", 0, 0))), &block("n = NoOp SP"));
    let (code, text) = finding(&p, StopReason::Deadlock);
    assert_eq!(code, "S0011");
    assert!(text.contains("k.py:10:3") && text.contains("core 1 has ended"), "{text}");
}

#[test]
fn crossed_pipes_are_a_deadlock_with_the_vendors_reading() {
    let c0 = put("a", 1) + &swap("s", "b", "a", 0, 0) + &swap("u", "b", "a", 0, 1);
    let c1 = put("a", 1) + &swap("u", "b", "a", 1, 1) + &swap("s", "b", "a", 1, 0);
    let (code, text) = finding(&two("bir", &block(&c0), &block(&c1)), StopReason::Deadlock);
    assert_eq!(code, "S0010");
    assert!(
        text.contains("core 0 and core 1 wait for each other") && text.contains("pipes progress"),
        "{text}"
    );
}

#[test]
fn swap_against_barrier_is_a_deadlock() {
    let c0 = put("a", 1) + &swap("s", "b", "a", 0, 0) + &barrier("cb", 0);
    let c1 = barrier("cb", 0) + &put("a", 1) + &swap("s", "b", "a", 1, 0);
    let (code, text) = finding(&two("bir", &block(&c0), &block(&c1)), StopReason::Deadlock);
    assert_eq!(code, "S0010");
    assert!(text.contains("barrier #0") && text.contains("swap #0 of pipe 0"), "{text}");
}

#[test]
fn unequal_trip_counts_around_a_barrier_are_found() {
    let p = two("bir", &looped(3, &barrier("cb", 0), ""), &looped(2, &barrier("cb", 0), ""));
    let (code, text) = finding(&p, StopReason::Deadlock);
    assert_eq!(code, "S0011");
    assert!(text.contains("core 0 waits for the other cores at barrier #2"), "{text}");
}

#[test]
fn swaps_that_do_not_fit_are_findings() {
    let good = |me| put("a", 1) + &swap("s", "b", "a", me, 0);
    let cases = [
        (good(1).replace("@b[[4,4][1,4]]", "@b[[4,4][1,2]]"), "into [4 x 2] int32"),
        (good(1).replace("@b[[4,4][1,4]] int32", "@b[[4,4][1,4]] float32"), "float32"),
        (good(1).replace("send_to_rank = 0", "send_to_rank = 1"), "sends to core 1"),
    ];
    for (bad, word) in cases {
        assert_ne!(bad, good(1));
        let p = two("bir", &block(&good(0)), &block(&bad));
        let (code, text) = finding(&p, StopReason::Fault);
        assert_eq!(code, "S0012", "{text}");
        assert!(text.contains(word) && text.contains("k.py:10:3") && text.contains("k.py:11:3"), "{text}");
    }
    let p = two("bir", &block(&good(0)), &block(&good(1).replace("send_to_rank = 0", "send_to_rank = 5")));
    assert_eq!(finding(&p, StopReason::Fault).0, "S0017");
}

#[test]
fn different_barriers_do_not_meet() {
    let p = two("bir", &block(&barrier("one", 0)), &block(&barrier("two", 1)));
    assert_eq!(finding(&p, StopReason::Fault).0, "S0013");
    // A difference of name alone is a drift that compilers produce.
    let p = two("bir", &block(&(barrier("one", 0) + &clear(0, 16))), &block(&barrier("two", 0)));
    y(&p);
}

#[test]
fn a_cycle_of_edges_and_queue_order_is_a_deadlock_of_one_core() {
    let c0 = "n1 = NoOp SP after(n3)
        n2 = NoOp Pool after(n1)
        n3 = NoOp Pool\n";
    let (code, text) = finding(&two("lowered", &block(c0), "block b0 {\n}"), StopReason::Deadlock);
    assert_eq!(code, "S0010");
    assert!(text.contains("queues of core 0") && text.contains("`n3`") && text.contains("`n1`"), "{text}");
}

#[test]
fn endless_loops_and_endless_recursion_end() {
    let p = two("bir", "block b0 {\n j = UnconditionalBranch ALL {target = \"b0\"}\n}", "block b0 {\n}");
    assert_eq!(finding(&p, StopReason::StepLimit).0, "S0015");
    let p = two("bir", "block b0 {\n c = Call ALL {target = \"main\"}\n}", "block b0 {\n}");
    assert_eq!(finding(&p, StopReason::Fault).0, "S0016");
}

fn collective(kind: &str, more: &str, out: &str, src: &str) -> String {
    format!("cc = CollectiveCompute Pool {out} <- {src} {{kind = {kind}, {more}}} !loc k.py:7:7\n")
}

#[test]
fn kept_collectives_run_by_the_model() {
    let at = |b: i32| format!("@{}{ALL16}", if b == 0 { "a" } else { "b" });
    let core = |me: i32, cc: &str, tile: &str, off: i32| {
        let fill = put("a", 100 * (me + 1)) + &put("b", 0);
        block(&(fill + cc + &take(tile, off) + &clear(8 + off, 12 + off)))
    };
    // Only the first column has been written, and may be computed with.
    let column = |b| at(b).replace("[1,4]", "[1,1]");
    let groups = "replica_groups = [[0, 1]]";
    for level in ["bir", "lowered"] {
        // Permute 0 -> 1: core 0 keeps its b, core 1 gets core 0's a.
        let cc = collective("Permute", "src_target_pairs = [[0, 1]]", &at(1), &at(0));
        let edges = |c: String| c.replace("!loc", "after(qa3, qb3) !loc");
        let p = two(level, &core(0, &edges(cc.clone()), "b", 0), &core(1, &edges(cc), "b", 4));
        assert_eq!(y(&p)[..8], [0, 1, 2, 3, 100, 101, 102, 103]);
        let cc = edges(collective("PermuteImplicit", groups, &at(1), &at(0)));
        let p = two(level, &core(0, &cc, "b", 0), &core(1, &cc, "b", 4));
        assert_eq!(y(&p)[..8], [200, 201, 202, 203, 100, 101, 102, 103]);
        let cc = edges(collective("AllReduce", &format!("{groups}, op = max"), &column(1), &column(0)));
        let p = two(level, &core(0, &cc, "b", 0), &core(1, &cc, "b", 4));
        assert_eq!(y(&p)[..8], [200, 201, 202, 203, 200, 201, 202, 203]);
    }
    let a = collective("AllReduce", &format!("{groups}, op = max"), &column(1), &column(0));
    let b = collective("AllReduce", &format!("{groups}, op = add"), &column(1), &column(0));
    let p = two("bir", &core(0, &a, "b", 0), &core(1, &b, "b", 4));
    let (code, text) = finding(&p, StopReason::Fault);
    assert_eq!(code, "S0014");
    assert!(text.contains("operators max and add"), "{text}");
    let a = collective("AllReduce", "replica_groups = [[0, 7]], op = max", &column(1), &column(0));
    assert_eq!(
        finding(&two("bir", &core(0, &a, "b", 0), &core(1, &a, "b", 4)), StopReason::Fault).0,
        "S0017"
    );
}

#[test]
fn several_lncs_make_replica_ids_ranks() {
    let src = "bir 1
program \"t\" lnc 1 level bir
output \"y\" = @y int32 [1]
module @nc00 core 0 arch gen3 {
  func @main {
    set @y_set = ExternalOutput Tensor Local int32 [1] { loc @y = DRAM [4] addr 0 }
    set @a_set = Internal Tensor Local int32 [1] { loc @a = DRAM [4] addr 0 }
    reg $r = ALL
    block b0 {
      g = GetGlobalRankId ALL $r uint32 {world_size = 0}
      m = RegisterAlu ALL $r int32 <- $r int32, 10 int32 {op = add}
      s = TensorSave ALL @a[[1,1]] int32 <- $r int32
      cc = CollectiveCompute Pool @y[[1,1]] int32 <- @a[[1,1]] int32 {kind = AllReduce, replica_groups = [[0, 1, 2]], op = add}
    }
  }
}
";
    let p = text::parse(src).unwrap_or_else(|e| panic!("{}", show(&e)));
    let o = Simulator::new(&p, RunOptions { ranks: Ranks::Lncs(3), ..RunOptions::default() }).unwrap().run();
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    let got: Vec<_> = o.outputs.iter().map(|t| (t.name.as_str(), t.bytes[0])).collect();
    assert_eq!(got, [("rank0:y", 33), ("rank1:y", 33), ("rank2:y", 33)]);
}

#[test]
fn wrong_inputs_list_what_the_kernel_wants() {
    let p = two("bir", "block b0 {\n}", "block b0 {\n}");
    let t = |name: &str, dtype, shape: &[u64]| Tensor {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        bytes: vec![0; tandem_sim::tensor::byte_len(dtype, shape).unwrap() as usize],
    };
    let bad: [&[Tensor]; 5] = [
        &[],
        &[t("z", Dtype::Int32, &[4])],
        &[t("x", Dtype::Int32, &[5])],
        &[t("x", Dtype::Float32, &[4])],
        &[t("x", Dtype::Int32, &[4]), t("x", Dtype::Int32, &[4])],
    ];
    for inputs in bad {
        let mut r = Simulator::new(&p, RunOptions::default()).unwrap();
        let e = r.set_inputs(inputs).unwrap_err();
        assert_eq!(e.len(), 1);
        assert_eq!(e[0].code.to_string(), "U0003");
        assert!(show(&e).contains("x: int32 [4]"), "{}", show(&e));
    }
}

#[test]
fn memory_is_bounded_by_use_and_by_the_limit() {
    let huge = two("bir", "block b0 {\n}", "block b0 {\n}");
    let opts = RunOptions { memory_limit: 10, ..RunOptions::default() };
    let e = Simulator::new(&huge, opts).unwrap_err();
    assert_eq!(e[0].code.to_string(), "S0005");
    assert_eq!(tandem_bir::diag::exit_code(&e), 3);
    // A location that claims a terabyte and is touched in its first bytes costs those.
    let mut p = two(
        "bir",
        &block(&(clear(0, 16) + "w = TensorSave ALL @s[[1,1]] int32 <- $r int32")),
        "block b0 {\n}",
    );
    for m in &mut p.modules {
        let (l, _) = m.memlocs.iter().find(|(_, l)| l.name == "s").unwrap();
        m.memlocs[l].dims[0] = 1 << 40;
    }
    y(&p);
}

#[test]
fn operands_outside_their_location_are_refused_at_load() {
    let p = two(
        "bir",
        &block("w = TensorSave ALL @y[off 16, [1,1]] int32 <- 1 int32 !loc k.py:2:2"),
        "block b0 {\n}",
    );
    let e = Simulator::new(&p, RunOptions::default()).unwrap_err();
    assert_eq!(e[0].code.to_string(), "S0001");
    assert!(show(&e).contains("k.py:2:2"), "{}", show(&e));
}

#[test]
fn cancelling_stops_a_run() {
    let p = two("bir", "block b0 {\n j = UnconditionalBranch ALL {target = \"b0\"}\n}", "block b0 {\n}");
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let o = run_with(&p, RunOptions { cancel: Some(flag), ..RunOptions::default() });
    assert_eq!(o.stop, StopReason::Cancelled);
}
