//! The static barrier check, the race check of a run, and a judge that shares nothing with either agree on random lowered
//! programs: which of them deadlock, and which accesses of the two cores nothing orders.
//!
//! The programs are made of transfers and copies on random engines, swaps, barriers, completion tokens, and edges between random
//! instructions, now and then one that points forward. `PROGRAMS` sets their number.

mod judge;
#[path = "../../sim/tests/support/rng.rs"]
mod rng;

use judge::Judge;
use rng::Rng;
use std::fmt::Write as _;
use tandem_bir::diag::{Diagnostic, codes, render};
use tandem_bir::{Program, text};
use tandem_sim::random::SplitMix64;
use tandem_sim::{RunOptions, Schedule, Simulator, StopReason};

/// A strided view of a tensor of 4 rows of 16 floats: offset, step and count as text; pairs of views overlap, touch, interleave.
fn view(r: &mut Rng) -> String {
    let (off, step, n) =
        [(0, 1, 16), (0, 1, 8), (8, 1, 8), (0, 2, 8), (1, 2, 8), (4, 1, 8)][r.below(6) as usize];
    format!("[off {off}, [16,4] [{step},{n}]] float32|{n}")
}

/// Two operands of one size over the given tensors.
fn operands(r: &mut Rng, out: &str, from: &str) -> String {
    loop {
        let (a, b) = (view(r), view(r));
        let ((a, n), (b, m)) = (a.split_once('|').expect("view"), b.split_once('|').expect("view"));
        if n == m {
            return format!("@{out}{a} <- @{from}{b}");
        }
    }
}

fn body(r: &mut Rng, meetings: &[&str], density: u64, forward: bool) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for meeting in meetings.iter().chain(&["end"]) {
        for _ in 0..r.below(5) {
            let name = format!("i{}", lines.len());
            let dma = ["SP", "Pool", "Activation", "DMA"];
            let text = match r.below(6) {
                0 => format!("DMACopy {} {}", r.pick(&dma), operands(r, "s", "a")),
                1 => format!("DMACopy {} {}", r.pick(&dma), operands(r, "b", "s")),
                2 => format!("DMACopy {} {}", r.pick(&dma), operands(r, "c", "a_remote")),
                3 => format!("DMACopy {} {}", r.pick(&dma), operands(r, "t", "c")),
                4 => {
                    format!("TensorCopy {} {}", r.pick(&["DVE", "Pool", "Activation"]), operands(r, "a", "b"))
                }
                _ => {
                    format!("TensorCopy {} {}", r.pick(&["DVE", "Pool", "Activation"]), operands(r, "c", "b"))
                }
            };
            lines.push((name, text));
        }
        let n = lines.len();
        let all = "[[16,4] [1,16]] float32";
        match *meeting {
            "barrier" => {
                lines.push((format!("bar{n}"), "CoreBarrier Pool|{cores = [0, 1], id = ID}".to_owned()))
            }
            "swap" => lines.push((format!("sw{n}"), format!("GPSIMDSB2SB Pool @b{all} <- @a{all}"))),
            "token" => lines.push(("s-PTCOM".to_owned(), format!("TensorCompletion SP <- @s{all}"))),
            _ => {}
        }
    }
    let mut out = String::new();
    let mut barriers = 0;
    for (k, (name, text)) in lines.iter().enumerate() {
        let mut deps: Vec<String> = Vec::new();
        for (j, (other, _)) in lines.iter().enumerate() {
            let near = j < k && k - j < 12 && r.below(100) < density;
            if near || (forward && j > k && r.one_in(40)) {
                deps.push(if other.contains('-') { format!("\"{other}\"") } else { other.clone() });
            }
        }
        let after = if deps.is_empty() { String::new() } else { format!(" after({})", deps.join(", ")) };
        let name = if name.contains('-') {
            format!("\"{name}\"")
        } else if name.starts_with("bar") {
            barriers += 1;
            format!("bar{}", barriers - 1)
        } else {
            name.clone()
        };
        let text = text.replace('|', " ").replace("ID", &(barriers.max(1) - 1).to_string());
        let _ = writeln!(out, "      {name} = {text}{after} !loc k.py:{}:1", k + 1);
    }
    // Barriers are renamed so that both cores use one name; edges to them follow.
    for (seen, (name, _)) in lines.iter().filter(|l| l.0.starts_with("bar")).enumerate() {
        out = out
            .replace(&format!("({name},"), &format!("(bar{seen},"))
            .replace(&format!("({name})"), &format!("(bar{seen})"))
            .replace(&format!(" {name},"), &format!(" bar{seen},"))
            .replace(&format!(" {name})"), &format!(" bar{seen})"));
    }
    out
}

fn generate(seed: u64) -> (String, Program) {
    let mut r = Rng(SplitMix64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut meetings: Vec<&str> = Vec::new();
    for _ in 0..r.below(4) {
        meetings.push(r.pick(&["barrier", "barrier", "swap"]));
    }
    if r.one_in(3) {
        meetings.insert(r.below(meetings.len() as u64 + 1) as usize, "token");
    }
    let density = [10, 30, 60, 95][r.below(4) as usize];
    let forward = r.one_in(10);
    let mut src = "bir 1\nprogram \"t\" lnc 2 level lowered\n".to_owned();
    for c in 0..2u64 {
        let mut mine = meetings.clone();
        if r.one_in(6) && mine.len() > 1 {
            // Another order of the meetings on one core: tokens may come early or late.
            let k = r.below(mine.len() as u64 - 1) as usize;
            mine.swap(k, k + 1);
        }
        let body = body(&mut r, &mine, density, forward);
        let sb = |n: &str, at: u32| {
            format!(
                "    set @{n}_set = Internal NeuronSBTensor Local float32 [4 x 16] {{ loc @{n} = SB [4, 64] addr {at} allocated }}\n"
            )
        };
        let _ = write!(
            src,
            "module @nc0{c} core {c} arch gen3 {{\n  func @main {{\n{}{}{}\
             \x20   set @a_remote_set = Internal Tensor Local float32 [4 x 16] {{ loc @a_remote = SB [4, 64] addr 0 allocated remote @a core {} }}\n\
             \x20   set @s_set = Internal Tensor Shared float32 [4 x 16] {{ loc @s = DRAM [4, 64] addr 0 allocated id 0 }}\n\
             \x20   set @t_set = Internal Tensor Shared float32 [4 x 16] {{ loc @t = DRAM [4, 64] addr 4096 allocated id 1 }}\n\
             \x20   block b0 {{\n{body}    }}\n  }}\n}}\n",
            sb("a", 0),
            sb("b", 64),
            sb("c", 128),
            1 - c
        );
    }
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    (src, p)
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn errors(found: &[Diagnostic]) -> Vec<&Diagnostic> {
    found.iter().filter(|d| d.is_error()).collect()
}

#[test]
fn check_run_and_judge_agree_on_random_programs() {
    let set = std::env::var("PROGRAMS").ok().and_then(|s| s.parse().ok());
    let programs: u64 = set.unwrap_or(if cfg!(debug_assertions) { 300 } else { 3000 });
    let mut counts = [0u64; 4];
    for seed in 0..programs {
        let (src, p) = generate(seed);
        let judge = Judge::new(&p);
        let dead = judge.deadlock();
        let (cross, inner) = if dead { (false, false) } else { judge.races() };
        counts[if dead {
            0
        } else if cross {
            1
        } else if inner {
            2
        } else {
            3
        }] += 1;

        let found = tandem_check::check(&p, &tandem_check::CheckOptions::default());
        let is = |d: &&Diagnostic, p: &str| d.code.info().id.starts_with(p);
        let e = errors(&found);
        let what =
            || format!("seed {seed}: dead {dead}, cross {cross}, inner {inner}\n{src}\n{}", show(&found));
        assert_eq!(e.iter().any(|d| is(d, "C04")), dead, "deadlock by check\n{}", what());
        if !dead {
            assert_eq!(e.iter().any(|d| is(d, "C06")), cross, "races by check\n{}", what());
            assert!(e.iter().all(|d| is(d, "C06")), "{}", what());
        }
        for schedule in [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)] {
            let o = RunOptions { schedule, undefined_check: false, ..RunOptions::default() };
            let out = Simulator::new(&p, o).unwrap_or_else(|e| panic!("{}", show(&e))).run();
            let e: Vec<&Diagnostic> = errors(&out.diagnostics);
            let what = || format!("{schedule:?} {}\nrun:\n{}", what(), show(&out.diagnostics));
            assert_eq!(out.stop == StopReason::Deadlock, dead, "{}", what());
            if dead {
                continue;
            }
            assert_eq!(out.stop, StopReason::Finished, "{}", what());
            assert!(e.iter().all(|d| d.code == codes::S0020 && d.sites.len() == 2), "{}", what());
            let between = |d: &&&Diagnostic| d.sites[0].core != d.sites[1].core;
            match (cross, inner) {
                (false, false) => assert!(e.is_empty(), "{}", what()),
                (false, true) => assert!(!e.is_empty() && !e.iter().any(|d| between(&d)), "{}", what()),
                (true, _) => assert!(e.iter().any(|d| between(&d)) || inner && !e.is_empty(), "{}", what()),
            }
        }
    }
    assert!(counts.iter().all(|n| *n >= programs / 60), "every sort occurs: {counts:?}");
}
