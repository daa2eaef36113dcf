//! Programs made to mislead the checks: near misses that must stay silent, and faults behind detours that must be found. Every
//! row says what `check` and `run` (under three schedules) must report.

use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{Program, text};
use tandem_check::{CheckOptions, check};
use tandem_sim::{RunOptions, Schedule, Simulator};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

const ALL: &str = "[[16,4] [1,16]]";
const LEFT: &str = "[[16,4] [1,8]]";
const RIGHT: &str = "[off 8, [16,4] [1,8]]";
const EVEN: &str = "[[16,4] [2,8]]";
const ODD: &str = "[off 1, [16,4] [2,8]]";

/// Two cores at level lowered. In the lines `X~` is the whole of a tensor, `X<` and `X>` its halves, `X%0` and `X%1` its even
/// and odd columns; `BAR` a barrier over both cores. `d` is DRAM of the core's own, `s` and `t` are shared, `ra` is the other core's `a`.
/// Lines of several blocks are divided by `|`.
fn program(bodies: [&str; 2]) -> Program {
    let mut src = "bir 1\nprogram \"t\" lnc 2 level lowered\n".to_owned();
    for (c, body) in bodies.iter().enumerate() {
        src += &format!(
            "module @nc0{c} core {c} arch gen3 {{\n  func @main {{\n    reg $r = ALL\n    reg $k = ALL\n"
        );
        for (n, at) in [("a", 0), ("b", 64), ("c", 128), ("z", 160)] {
            src += &format!(
                "    set @{n}_set = Internal NeuronSBTensor Local float32 [4 x 16] {{ loc @{n} = SB [4, 64] addr {at} allocated }}\n"
            );
        }
        src += &format!(
            "    set @i_set = Internal NeuronSBTensor Local uint32 [4 x 16] {{ loc @i = SB [4, 64] addr 256 allocated }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [4 x 16] {{ loc @p = PSUM [4, 64] bank 0 addr 0 allocated }}
    set @ra_set = Internal Tensor Local float32 [4 x 16] {{ loc @ra = SB [4, 64] addr 0 allocated remote @a core {} }}
    set @d_set = Internal Tensor Local float32 [4 x 16] {{ loc @d = DRAM [4, 64] addr 8192 allocated }}
    set @s_set = Internal Tensor Shared float32 [4 x 16] {{ loc @s = DRAM [4, 64] addr 0 allocated id 0 }}
    set @t_set = Internal Tensor Shared float32 [4 x 16] {{ loc @t = DRAM [4, 64] addr 4096 allocated id 1 }}\n",
            1 - c
        );
        let mut barriers = 0;
        let mut line = 0;
        for (n, block) in body.split('|').enumerate() {
            src += &format!("    block b{n} {{\n");
            for l in block.lines().map(str::trim).filter(|l| !l.is_empty()) {
                line += 1;
                let mut l = l.to_owned();
                if let Some(rest) = l.strip_prefix("BAR") {
                    l = format!("bar{barriers} = CoreBarrier Pool {{cores = [0, 1], id = {barriers}}}{rest}");
                    barriers += 1;
                }
                for (mark, ap) in [("~", ALL), ("<", LEFT), (">", RIGHT), ("%0", EVEN), ("%1", ODD)] {
                    for t in ["a", "b", "c", "z", "p", "ra", "d", "s", "t"] {
                        l = l.replace(&format!("@{t}{mark}"), &format!("@{t}{ap} float32"));
                    }
                    l = l.replace(&format!("@i{mark}"), &format!("@i{ap} uint32"));
                }
                src += &format!("      {l} !loc k.py:{line}:1\n");
            }
            src += "    }\n";
        }
        src += "  }\n}\n";
    }
    text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
}

struct Row {
    name: &'static str,
    bodies: [&'static str; 2],
    check: &'static [&'static str],
    run: &'static [&'static str],
}

fn row(
    name: &'static str,
    bodies: [&'static str; 2],
    check: &'static [&'static str],
    run: &'static [&'static str],
) -> Row {
    Row { name, bodies, check, run }
}

/// Undefined bytes are asked for in rows whose name begins with "undefined".
fn rows() -> Vec<Row> {
    vec![
        row("halves of one tensor", ["w = DMACopy SP @s< <- @a<", "w = DMACopy SP @s> <- @a>"], &[], &[]),
        row("even and odd columns", ["w = DMACopy SP @s%0 <- @a%0", "w = DMACopy SP @s%1 <- @a%1"], &[], &[]),
        row(
            "even columns and the left half",
            ["w = DMACopy SP @s%0 <- @a%0", "r = DMACopy SP @b< <- @s<"],
            &["C0601"],
            &["S0020"],
        ),
        row("two reads", ["r = DMACopy SP @b~ <- @s~", "r = DMACopy SP @b~ <- @s~"], &[], &[]),
        row(
            "private DRAM of each core at one address",
            ["w = DMACopy SP @d~ <- @a~", "w = DMACopy SP @d~ <- @a~"],
            &[],
            &[],
        ),
        row(
            "SBUF of each core at one address",
            ["w = TensorCopy DVE @b~ <- @a~", "w = TensorCopy DVE @b~ <- @a~"],
            &[],
            &[],
        ),
        row(
            "write and pull without a barrier",
            ["w = TensorCopy DVE @a~ <- @b~", "r = DMACopy SP @c~ <- @ra~"],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "write, barrier, pull",
            ["w = TensorCopy DVE @a~ <- @b~\nBAR", "BAR\nr = DMACopy SP @c~ <- @ra~"],
            &[],
            &[],
        ),
        row(
            "pull, barrier, write",
            ["BAR\nw = TensorCopy DVE @a~ <- @b~", "r = DMACopy SP @c~ <- @ra~\nBAR"],
            &[],
            &[],
        ),
        row(
            "the barrier on the wrong side of the write",
            ["BAR\nw = TensorCopy DVE @a~ <- @b~", "BAR\nr = DMACopy SP @c~ <- @ra~"],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a transfer before the fence without an edge",
            ["w = DMACopy Activation @s~ <- @a~\nBAR", "BAR\nr = DMACopy SP @b~ <- @s~"],
            &[],
            &[],
        ),
        row(
            "a transfer behind an edge to an instruction before the fence",
            [
                "w = DMACopy Activation @s~ <- @a~\nBAR",
                "x = NoOp SP\nBAR\nr = DMACopy SP @b~ <- @s~ after(x)",
            ],
            &[],
            &[],
        ),
        row(
            "order by a swap with edges on both sides",
            [
                "w = DMACopy SP @s~ <- @c~\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nr = DMACopy SP @c~ <- @s~ after(x)",
            ],
            &[],
            &[],
        ),
        row(
            "a swap without the edge behind it",
            [
                "w = DMACopy SP @s~ <- @c~\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nr = DMACopy SP @c~ <- @s~",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a swap without the edge before it",
            [
                "w = DMACopy SP @s~ <- @c~\nx = GPSIMDSB2SB Pool @b~ <- @a~",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nr = DMACopy SP @c~ <- @s~ after(x)",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "order by the second of two swaps",
            [
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nw = DMACopy SP @s~ <- @c~\nv = GPSIMDSB2SB Pool @z~ <- @a~ after(w)",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nv = GPSIMDSB2SB Pool @z~ <- @a~\nr = DMACopy SP @b~ <- @s~ after(v)",
            ],
            &[],
            &[],
        ),
        row(
            "order by the first of two swaps only",
            [
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nw = DMACopy SP @s~ <- @c~\nv = GPSIMDSB2SB Pool @b~ <- @a~ after(w)",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nr = DMACopy SP @c~ <- @s~ after(x)\nv = GPSIMDSB2SB Pool @b~ <- @a~",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a token hands on the write of its location",
            [
                "w = DMACopy SP @s~ <- @a~\nk = TensorCompletion SP <- @s~ after(w)",
                "k = TensorCompletion SP <- @s~\nr = DMACopy SP @b~ <- @s~ after(k)",
            ],
            &[],
            &[],
        ),
        row(
            "a token without the edge from the write",
            [
                "w = DMACopy Activation @s~ <- @a~\nk = TensorCompletion SP <- @s~",
                "k = TensorCompletion SP <- @s~\nr = DMACopy SP @b~ <- @s~ after(k)",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a token of another tensor",
            [
                "w = DMACopy SP @s~ <- @a~\nv = DMACopy Activation @t~ <- @a~\nk = TensorCompletion SP <- @t~ after(w, v)",
                "k = TensorCompletion SP <- @t~\nr = DMACopy SP @b~ <- @s~ after(k)",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a write behind the token",
            [
                "w = DMACopy SP @s~ <- @a~\nk = TensorCompletion SP <- @s~ after(w)\nv = DMACopy SP @s~ <- @a~ after(k)",
                "k = TensorCompletion SP <- @s~\nr = DMACopy SP @b~ <- @s~ after(k)",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "the second of two tokens is not the first",
            [
                "w = DMACopy SP @s~ <- @a~\nk = TensorCompletion SP <- @s~ after(w)\nv = DMACopy SP @s~ <- @a~ after(k)\nl = TensorCompletion SP <- @s~ after(v)",
                "k = TensorCompletion SP <- @s~\nr = DMACopy SP @b~ <- @s~ after(k)\nl = TensorCompletion SP <- @s~",
            ],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "tokens and swaps in another order on each core, without edges",
            [
                "w = DMACopy SP @s~ <- @c~\nk = TensorCompletion SP <- @s~ after(w)\nx = GPSIMDSB2SB Pool @b~ <- @a~",
                "x = GPSIMDSB2SB Pool @b~ <- @a~\nk = TensorCompletion SP <- @s~",
            ],
            &[],
            &[],
        ),
        row(
            "tokens and swaps in another order, held by edges",
            [
                "w = DMACopy SP @s~ <- @c~\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)\nk = TensorCompletion SP <- @s~ after(w, x)",
                "k = TensorCompletion SP <- @s~\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(k)",
            ],
            &["C0401"],
            &["S0010"],
        ),
        row(
            "an edge forward to another engine",
            ["u = TensorCopy DVE @b~ <- @a~ after(w)\nw = TensorCopy Pool @a~ <- @c~", "n = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "an edge forward inside one queue",
            ["u = TensorCopy DVE @b~ <- @a~ after(w)\nw = TensorCopy DVE @a~ <- @c~", "n = NoOp SP"],
            &["C0405"],
            &["S0010"],
        ),
        row(
            "an edge forward over a barrier",
            ["u = TensorCopy DVE @b~ <- @a~ after(w)\nBAR\nw = TensorCopy Pool @a~ <- @c~", "BAR"],
            &["C0405"],
            &["S0010"],
        ),
        row(
            "an edge from a barrier to what stands behind it",
            ["u = TensorCopy DVE @b~ <- @a~\nBAR after(w)\nw = TensorCopy Pool @a~ <- @c~", "BAR"],
            &["C0405"],
            &["S0010"],
        ),
        row(
            "an edge into a later block",
            [
                "u = TensorCopy DVE @b~ <- @a~ after(w)|w = TensorCopy Pool @a~ <- @c~",
                "n = NoOp SP|n2 = NoOp SP",
            ],
            &["C0405"],
            &["S0010"],
        ),
        row(
            "an edge into an earlier block",
            [
                "w = TensorCopy Pool @a~ <- @c~|u = TensorCopy DVE @b~ <- @a~ after(w)",
                "n = NoOp SP|n2 = NoOp SP",
            ],
            &[],
            &[],
        ),
        row(
            "a block end joins",
            ["w = TensorCopy Pool @a~ <- @c~|u = TensorCopy DVE @b~ <- @a~", "n = NoOp SP|n2 = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "a block end does not join the other core",
            ["w = DMACopy SP @s~ <- @a~|n = NoOp SP", "n = NoOp SP|r = DMACopy SP @b~ <- @s~"],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "two engines of one core without an edge",
            ["w = TensorCopy Pool @a~ <- @c~\nu = TensorCopy DVE @b~ <- @a~", "n = NoOp SP"],
            &[],
            &["S0020"],
        ),
        row(
            "one engine is in order",
            ["w = TensorCopy DVE @a~ <- @c~\nu = TensorCopy DVE @b~ <- @a~", "n = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "transfers of one engine land in order",
            ["w = DMACopy SP @s~ <- @a~\nu = DMACopy SP @b~ <- @s~", "n = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "a transfer is not in order with its engine's compute",
            ["w = DMACopy Activation @b~ <- @s~\nu = TensorCopy Activation @c~ <- @b~", "n = NoOp SP"],
            &[],
            &["S0020"],
        ),
        row(
            "compute is in order with the transfers that its engine issues later",
            ["u = TensorCopy Activation @c~ <- @b~\nw = DMACopy Activation @s~ <- @c~", "n = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "an instruction of all engines meets the queues, not the transfers",
            ["w = TensorCopy Pool @a~ <- @c~\nn = NoOp ALL\nu = TensorCopy DVE @b~ <- @a~", "n = NoOp SP"],
            &[],
            &[],
        ),
        row(
            "both cores fold into the same bytes",
            ["w = DMACopy SP @s~ <- @a~ {cce_op = add}", "w = DMACopy SP @s~ <- @a~ {cce_op = add}"],
            &["C0601"],
            &["S0020"],
        ),
        row(
            "a barrier of core 0 alone is no meeting",
            [
                "w = DMACopy SP @s~ <- @a~\nn = CoreBarrier Pool {cores = [0]}\nm = NoOp SP",
                "r = DMACopy SP @b~ <- @s~",
            ],
            &["C1187", "C0601"],
            &["S0020"],
        ),
        row("one more barrier on one core", ["BAR\nBAR", "BAR"], &["C0301"], &["S0011"]),
        row(
            "a swap only one core has",
            ["x = GPSIMDSB2SB Pool @b~ <- @a~", "n = NoOp SP"],
            &["C1198"],
            &["S0011"],
        ),
        row(
            "swap against barrier",
            ["x = GPSIMDSB2SB Pool @b~ <- @a~\nBAR", "BAR\nx = GPSIMDSB2SB Pool @b~ <- @a~"],
            &["C0401"],
            &["S0010"],
        ),
        row(
            "undefined bytes go round a swap and come back unused",
            [
                "w = Memset DVE @a< {mode = Const, constant = 0}\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)\nu = TensorTensor DVE @c< <- @b<, @b< {op = add} after(x)",
                "w = Memset DVE @a< {mode = Const, constant = 0}\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)",
            ],
            &[],
            &[],
        ),
        row(
            "undefined bytes of the other core used behind a swap",
            [
                "w = Memset DVE @a~ {mode = Const, constant = 0}\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)\nu = TensorTensor DVE @c~ <- @b~, @b~ {op = add} after(x)",
                "w = Memset DVE @a< {mode = Const, constant = 0}\nx = GPSIMDSB2SB Pool @b~ <- @a~ after(w)",
            ],
            &[],
            &["S0021"],
        ),
        row(
            "undefined bytes through shared DRAM, used by the other core",
            [
                "w = Memset DVE @a< {mode = Const, constant = 0}\nv = DMACopy SP @s~ <- @a~ after(w)\nBAR",
                "BAR\nr = DMACopy SP @b~ <- @s~\nu = TensorTensor DVE @c~ <- @b~, @b~ {op = add} after(r)",
            ],
            &[],
            &["S0021"],
        ),
        row(
            "undefined bytes overwritten before use",
            [
                "c = TensorCopy DVE @b~ <- @a~\nw = Memset DVE @b~ {mode = Const, constant = 0}\nu = TensorTensor DVE @c~ <- @b~, @b~ {op = add}",
                "n = NoOp SP",
            ],
            &[],
            &[],
        ),
        row(
            "undefined bytes swapped into a defined tensor",
            [
                "w = Memset DVE @b~ {mode = Const, constant = 0}\nc = TensorCopy DVE @b> <- @a<\nu = TensorTensor DVE @c< <- @b>, @b< {op = add}",
                "n = NoOp SP",
            ],
            &[],
            &["S0021"],
        ),
        row(
            "overlapping tensors, one after the other",
            [
                "w = TensorCopy DVE @c~ <- @a~\nu = TensorCopy DVE @b~ <- @c~\nv = TensorCopy DVE @z~ <- @a~\nx = TensorCopy DVE @b~ <- @z~",
                "n = NoOp SP",
            ],
            &[],
            &[],
        ),
        row(
            "overlapping tensors, both alive",
            [
                "w = TensorCopy DVE @c~ <- @a~\nv = TensorCopy DVE @z~ <- @a~\nu = TensorCopy DVE @b~ <- @c~\nx = TensorCopy DVE @b~ <- @z~",
                "n = NoOp SP",
            ],
            &[],
            &["S0023"],
        ),
        row(
            "overlapping tensors, only apart bytes read",
            [
                "w = TensorCopy DVE @c~ <- @a~\nv = TensorCopy DVE @z~ <- @a~\nu = TensorCopy DVE @b< <- @c<\nx = TensorCopy DVE @b~ <- @z~",
                "n = NoOp SP",
            ],
            &[],
            &[],
        ),
        row(
            "an overlap that is a race is one finding",
            [
                "w = TensorCopy DVE @c~ <- @a~\nv = TensorCopy Pool @z~ <- @a~\nu = TensorCopy DVE @b~ <- @c~\nx = NoOp SP",
                "n = NoOp SP",
            ],
            &[],
            &["S0020"],
        ),
    ]
}

fn codes(d: &[Diagnostic]) -> Vec<String> {
    let mut out: Vec<String> = d.iter().filter(|d| d.is_error()).map(|d| d.code.to_string()).collect();
    out.dedup();
    out
}

#[test]
fn nothing_is_missed_and_nothing_reported_falsely() {
    let mut wrong = String::new();
    let rows = rows();
    assert!(rows.len() >= 45);
    for r in &rows {
        let p = program(r.bodies);
        let found = check(&p, &CheckOptions::default());
        if codes(&found) != r.check {
            wrong += &format!(
                "== {}: check {:?}, wanted {:?}\n{}\n",
                r.name,
                codes(&found),
                r.check,
                show(&found)
            );
        }
        for schedule in [Schedule::Eager, Schedule::Late, Schedule::Seed(3)] {
            let undefined_check = r.name.starts_with("undefined");
            let o = RunOptions { schedule, undefined_check, ..RunOptions::default() };
            let out = Simulator::new(&p, o).unwrap_or_else(|e| panic!("{}: {}", r.name, show(&e))).run();
            if codes(&out.diagnostics) != r.run {
                wrong += &format!(
                    "== {} {schedule:?}: run {:?}, wanted {:?}\n{}\n",
                    r.name,
                    codes(&out.diagnostics),
                    r.run,
                    show(&out.diagnostics)
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
