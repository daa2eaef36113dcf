//! Visits all 2^32 arguments of every unary function and prints the table kept in `docs/ulp.md`.
//!
//! `cargo run --release -p tandem-sim --example ulp_sweep [every=N] [NAME…]`; with `every=N` only each N-th bit pattern.

#![allow(clippy::print_stdout, missing_docs, reason = "a command-line tool")]

#[path = "../tests/support/ulp.rs"]
mod ulp;

use ulp::{UNARY, Unary, distance, error_ulp};

struct Row {
    steps: i64,
    error: f64,
    at: f32,
    off: u64,
}

fn sweep(f: &Unary, from: u64, to: u64, every: u64) -> Row {
    let mut r = Row { steps: 0, error: 0.0, at: 0.0, off: 0 };
    for b in (from..to).filter(|b| every == 1 || b % every == 0) {
        let x = f32::from_bits(b as u32);
        let (got, want) = ((f.ours)(x), (f.reference)(f64::from(x)));
        let d = distance(got, want);
        r.off += u64::from(d != 0);
        r.steps = r.steps.max(d);
        let e = error_ulp(got, want);
        if e > r.error {
            (r.error, r.at) = (e, x);
        }
    }
    r
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let every = args.iter().find_map(|a| a.strip_prefix("every=")?.parse().ok()).unwrap_or(1u64).max(1);
    let names: Vec<&String> = args.iter().filter(|a| !a.starts_with("every=")).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    println!(
        "| Function | steps from the rounded reference | largest error (ulp) | at | not correctly rounded |"
    );
    println!("|---|---|---|---|---|");
    for f in UNARY.iter().filter(|f| names.is_empty() || names.iter().any(|n| *n == f.name)) {
        let step = (1u64 << 32) / threads;
        let rows: Vec<Row> = std::thread::scope(|s| {
            let jobs: Vec<_> = (0..threads)
                .map(|t| {
                    let to = if t + 1 == threads { 1 << 32 } else { (t + 1) * step };
                    s.spawn(move || sweep(f, t * step, to, every))
                })
                .collect();
            jobs.into_iter().filter_map(|j| j.join().ok()).collect()
        });
        let steps = rows.iter().map(|r| r.steps).max().unwrap_or(0);
        let off: u64 = rows.iter().map(|r| r.off).sum();
        if let Some(w) = rows.iter().max_by(|a, b| a.error.total_cmp(&b.error)) {
            println!("| {} | {steps} | {:.6} | {:e} | {off} |", f.name, w.error, w.at);
        }
    }
}
