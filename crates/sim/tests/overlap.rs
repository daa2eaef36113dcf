//! Tensors placed over each other: a finding where both are live, none where one follows the other.

use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, link};
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

/// Core 1 reads core 0's `a` between two barriers; `b` of core 0 lies on the same bytes and is written before them, or behind.
fn read_by_another_core(before: bool, at: &str) -> Vec<Diagnostic> {
    let module = |c: u32, sets: &str, body: &str| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{\nfunc @main {{\n{sets}\nblock b0 {{\n{body}\n}}\n}}\n}}\n"
        )
    };
    let tensor = |name: &str, addr: u32, more: &str| {
        format!(
            "set @{name}_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @{name} = SB [4, 32] addr {addr} allocated {more} }}\n"
        )
    };
    let over = |after: &str| {
        format!(
            "wb = Memset DVE @b[[8,4] [1,8]] float32 {{mode = Const, constant = 2}} after({after}) !loc k.py:2:1\n"
        )
    };
    let mut core0 =
        String::from("wa = Memset DVE @a[[8,4] [1,8]] float32 {mode = Const, constant = 1} !loc k.py:1:1\n");
    if before {
        core0 += &over("wa:Output");
    }
    core0 += &format!(
        "p = CoreBarrier Pool {{id = 0, cores = [0, 1]}} after({})\n",
        if before { "wb" } else { "wa" }
    );
    core0 += "q = CoreBarrier Pool {id = 1, cores = [0, 1]} after(p)\n";
    if !before {
        core0 += &over("q");
    }
    let core1 = "p = CoreBarrier Pool {id = 0, cores = [0, 1]}
        r = DMACopy DMA @c[[8,4] [1,8]] float32 <- @x[[8,4] [1,8]] float32 after(p) !loc k.py:3:1
        q = CoreBarrier Pool {id = 1, cores = [0, 1]} after(r)";
    let src = format!(
        "bir 1\nprogram \"t\" lnc 2 level lowered\n{}{}",
        module(0, &(tensor("a", 0, "written_by_another_core") + &tensor("b", 16, "")), &core0),
        module(
            1,
            &(tensor("c", 64, "")
                + "set @x_set = Internal NeuronSBTensor Local float32 [4 x 8] { loc @x = SB [4, 32] remote @a core 0 }"),
            core1
        )
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let o = match at {
        "lowered" => {
            Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run()
        }
        _ => {
            let (mut linked, _) = link(&p, LinkOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
            if at == "bundles" {
                let (bytes, _) =
                    encode(&linked, WriteOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
                linked = decode(&bytes).unwrap_or_else(|e| panic!("{}", show(&[e])));
            }
            Simulator::linked(&linked, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run()
        }
    };
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    o.diagnostics
}

#[test]
fn what_another_core_reads_is_placed_by_the_barriers() {
    for at in ["lowered", "linked", "bundles"] {
        let d = read_by_another_core(true, at);
        assert_eq!(d.len(), 1, "{at}: {}", show(&d));
        let text = show(&d);
        assert!(
            text.contains("S0023") && text.contains("k.py:3:1") && text.contains("k.py:2:1"),
            "{at}: {text}"
        );
        let d = read_by_another_core(false, at);
        assert!(d.is_empty(), "{at}: {}", show(&d));
    }
}
