//! Structured control flow: DoWhile, DynamicForLoop, Call, Break. Every expected value is worked out by hand.

use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{Opcode, text};
use tandem_sim::{Outcome, RunOptions, Schedule, Simulator, StopReason};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

/// One core with registers `n`, `i`, `t` and an output `y` of eight int32, all zero before `body`.
fn run_with(body: &str, more: &str, opts: RunOptions) -> Outcome {
    let zero: String =
        (0..8).map(|k| format!("z{k} = TensorSave ALL @y[off {k}, [1,1]] int32 <- 0 int32\n")).collect();
    let src = format!(
        "bir 1
program \"t\" lnc 1 level bir
output \"y\" = @y int32 [8]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @y_set = ExternalOutput Tensor Local int32 [8] {{ loc @y = DRAM [32] addr 0 }}
    reg $n = ALL
    reg $i = ALL
    reg $t = ALL
    block b0 {{
      {zero}
      {body}
    }}
  }}
  {more}
}}
"
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    Simulator::new(&p, opts).unwrap_or_else(|e| panic!("{}", show(&e))).run()
}

/// `y` after a run without findings, under every kind of schedule.
fn y(body: &str, more: &str) -> Vec<i32> {
    let mut all: Vec<Vec<i32>> = Vec::new();
    for schedule in [Schedule::Eager, Schedule::Late, Schedule::Seed(1)] {
        let o = run_with(body, more, RunOptions { schedule, ..RunOptions::default() });
        assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
        assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
        all.push(o.outputs[0].bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect());
    }
    all.dedup();
    assert_eq!(all.len(), 1, "schedules differ");
    all.remove(0)
}

/// A body that runs while `n` is not zero and counts it down; `y[0]` counts the turns.
fn do_while(start: i32) -> String {
    format!(
        "m = RegisterMove ALL $n int32 <- {start} int32
      c = RegisterMove ALL $i int32 <- 0 int32
      w = DoWhile Unassigned {{cond = {{\"regref\":\"n\"}}}} regions {{
        block inner {{
          a = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
          d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {{op = subtract}}
        }}
      }}
      s = TensorSave ALL @y[[1,1]] int32 <- $i int32
      e = TensorSave ALL @y[off 1, [1,1]] int32 <- $n int32"
    )
}

#[test]
fn a_while_loop_ends_when_its_register_becomes_zero() {
    for n in [1, 2, 7, 1000] {
        assert_eq!(y(&do_while(n), "")[..2], [n, 0]);
    }
    // The condition is looked at after the body: a body with zero turns to go runs once, and goes on below zero.
    let o = run_with(&do_while(0), "", RunOptions { step_limit: 5_000, ..RunOptions::default() });
    assert_eq!(o.stop, StopReason::StepLimit);
    // The register is read when the body ends, not when the loop starts.
    let once = do_while(5).replace(
        "d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {op = subtract}",
        "d = RegisterMove ALL $n int32 <- 0 int32",
    );
    assert_ne!(once, do_while(5));
    assert_eq!(y(&once, "")[..2], [1, 0]);
}

#[test]
fn a_while_loop_may_be_left_by_break() {
    let body = do_while(9).replace(
        "d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {op = subtract}",
        "d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {op = subtract}
          x = Break ALL",
    );
    assert_eq!(y(&body, "")[..2], [1, 8]);
}

/// `for k in 0..(2·n + 1)`, stored at `y[k]`.
fn dynamic(n: i32, ub: &str) -> String {
    format!(
        "m = RegisterMove ALL $n int32 <- {n} int32
      c = RegisterMove ALL $i int32 <- 10 int32
      f = DynamicForLoop Unassigned {{DynamicForLoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{ub},\"stride\":1}}}} regions {{
        block inner {{
          s = TensorSave ALL @y[[1,1], dyn(1*axis(k)) dim 0] int32 <- $i int32
          a = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
        }}
      }}"
    )
}

#[test]
fn a_dynamic_loop_takes_its_bound_from_a_register() {
    let affine = "{\"terms\":[{\"idx\":\"n\",\"coeff\":2}],\"c\":1}";
    assert_eq!(y(&dynamic(2, affine), ""), [10, 11, 12, 13, 14, 0, 0, 0]);
    assert_eq!(y(&dynamic(0, affine), ""), [10, 0, 0, 0, 0, 0, 0, 0]);
    // No turns, and fewer than none.
    assert_eq!(y(&dynamic(-1, affine), ""), [0; 8]);
    assert_eq!(y(&dynamic(i32::MIN, affine), ""), [0; 8]);
    assert_eq!(y(&dynamic(3, "\"n\""), ""), [10, 11, 12, 0, 0, 0, 0, 0]);
    // The bound is read once, on entry.
    let grows = dynamic(3, "\"n\"")
        .replace("a = RegisterAlu", "g = RegisterMove ALL $n int32 <- 7 int32\n a = RegisterAlu");
    assert_eq!(y(&grows, ""), [10, 11, 12, 0, 0, 0, 0, 0]);
}

#[test]
fn a_call_runs_a_function_and_comes_back() {
    let sub = "func @twice {
    block s0 {
      a = RegisterMove ALL $main/n int32 <- 21 int32
      b = RegisterAlu ALL $main/n int32 <- $main/n int32, 2 int32 {op = mult}
      r = Return ALL
      never = RegisterMove ALL $main/n int32 <- 0 int32
    }
  }";
    let body = "c1 = Call ALL {target = \"twice\"}
      s1 = TensorSave ALL @y[[1,1]] int32 <- $n int32
      c2 = Call ALL {target = \"twice\"}
      s2 = TensorSave ALL @y[off 3, [1,1]] int32 <- $n int32";
    assert_eq!(y(body, sub), [42, 0, 0, 42, 0, 0, 0, 0]);
    let o = run_with(body, sub, RunOptions::default());
    assert_eq!([Opcode::Call, Opcode::Return].map(|op| o.stats.count(0, op)), [2, 2]);
}
