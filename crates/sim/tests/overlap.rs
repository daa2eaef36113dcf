//! Tensors placed over each other: a finding where both are live, none where one follows the other.

use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::text;
use tandem_sim::{RunOptions, Simulator, StopReason};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

/// `a` and `b` share bytes 16 to 31 of every partition; `c` lies apart.
fn run(body: &str) -> Vec<Diagnostic> {
    let src = format!(
        "bir 1
program \"t\" lnc 1 level bir
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @a_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @a = SB [4, 32] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @b = SB [4, 32] addr 16 allocated }}
    set @c_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @c = SB [4, 32] addr 64 allocated }}
    block b0 {{
      {body}
    }}
  }}
}}
"
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let o = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run();
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    o.diagnostics
}

fn fill(name: &str, tile: &str, line: u32) -> String {
    format!(
        "{name} = Memset DVE @{tile}[[8,4] [1,8]] float32 {{mode = Const, constant = 1}} !loc k.py:{line}:1\n"
    )
}

fn copy(name: &str, from: &str, off: u32, n: u32, line: u32) -> String {
    format!(
        "{name} = TensorCopy DVE @c[[8,4] [1,{n}]] float32 <- @{from}[off {off}, [8,4] [1,{n}]] float32 !loc k.py:{line}:1\n"
    )
}

#[test]
fn a_tensor_read_after_another_was_written_over_it_is_one_finding_with_both_places() {
    let d = run(&(fill("wa", "a", 1)
        + &fill("wb", "b", 2)
        + &copy("ra", "a", 0, 8, 3)
        + &copy("rb", "b", 0, 8, 4)));
    assert_eq!(d.len(), 1, "{}", show(&d));
    let text = show(&d);
    assert!(text.contains("S0023") && text.contains("k.py:3:1") && text.contains("k.py:2:1"), "{text}");
    assert!(d[0].message.contains("`a` is read, but `b`"), "{text}");
}

#[test]
fn bytes_that_are_not_shared_or_were_written_again_are_no_finding() {
    // Only the half of `a` that `b` does not cover.
    assert!(run(&(fill("wa", "a", 1) + &fill("wb", "b", 2) + &copy("ra", "a", 0, 4, 3))).is_empty());
    // One byte further it is.
    assert_eq!(run(&(fill("wa", "a", 1) + &fill("wb", "b", 2) + &copy("ra", "a", 1, 4, 3))).len(), 1);
    // `a` is written again before it is read.
    let again = fill("wa", "a", 1) + &fill("wb", "b", 2) + &fill("va", "a", 3) + &copy("ra", "a", 0, 8, 4);
    assert!(run(&again).is_empty());
    // The second begins after the last read of the first.
    let after =
        fill("wa", "a", 1) + &copy("ra", "a", 0, 8, 2) + &fill("wb", "b", 3) + &copy("rb", "b", 0, 8, 4);
    assert!(run(&after).is_empty());
    // Bytes written under one name only, read under the other: a view.
    assert!(run(&(fill("wb", "b", 1) + &copy("ra", "a", 4, 4, 2) + &copy("rb", "b", 0, 8, 3))).is_empty());
}

#[test]
fn two_names_that_a_run_uses_as_one_tensor_are_no_finding() {
    // `b` is read where only `a` has written, and then changed in place: a view of `a`, although no alias says so.
    let inplace = "u = TensorScalarPtr DVE @b[[8,4] [1,4]] float32 <- @b[[8,4] [1,4]] float32, 2.0 float32 \
                   {op0 = mult, reverse0 = false, op1 = bypass, reverse1 = false} !loc k.py:2:1\n";
    assert!(run(&(fill("wa", "a", 1) + inplace + &copy("ra", "a", 0, 8, 3))).is_empty());
    // The use as a view may come after the read.
    let late = fill("wa", "a", 1)
        + "w = Memset DVE @b[[8,4] [1,2]] float32 {mode = Const, constant = 1} !loc k.py:2:1\n"
        + &copy("ra", "a", 0, 8, 3)
        + &copy("rb", "b", 0, 4, 4);
    assert!(run(&late).is_empty());
    // Reading what it wrote itself shows nothing: the finding stays.
    let own =
        fill("wa", "a", 1) + &fill("wb", "b", 2) + &copy("rb", "b", 0, 8, 3) + &copy("ra", "a", 0, 8, 4);
    assert_eq!(run(&own).len(), 1);
}

#[test]
fn a_loop_is_followed_in_time_not_in_text() {
    // In the text every use of `a` comes before the first of `b`; in the second round it does not.
    let body = |read_first: &str| {
        format!(
            "z = Memset DVE @a[[8,4] [1,8]] float32 {{mode = Const, constant = 1}}
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":2,\"stride\":1}}}} regions {{
        block inner {{
          {read_first}{}
        }}
      }}",
            fill("wb", "b", 2)
        )
    };
    assert_eq!(run(&body(&copy("ra", "a", 0, 8, 1))).len(), 1);
    assert!(run(&body(&(fill("wa", "a", 3) + &copy("ra", "a", 0, 8, 1)))).is_empty());
}
