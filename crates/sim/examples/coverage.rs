//! Prints `docs/coverage.md`: every instruction type and what the simulator does with it.
//!
//! `cargo run -p tandem-sim --example coverage > docs/coverage.md`; a test says when the file is stale.

#![allow(clippy::print_stdout, reason = "a command-line tool")]

fn main() {
    print!("{}", tandem_sim::exec::coverage_page());
}
