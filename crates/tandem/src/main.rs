//! `tandem`: parses the command line, runs a verb, turns findings into an exit code.

use clap::Parser as _;
use std::process::ExitCode;
use tandem::cli::Cli;
use tandem::{cmd, out};

/// Large programs are hundreds of megabytes in small pieces: this allocator asks for large pages, so that they cost few
/// faults (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A fault of ours must not look like a finding about the kernel: it has its own exit code and text.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cmd::dispatch(&cli)));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(_) => {
            out::eprint(
                "error[I0001]: internal error; please report it together with the input that shows it\n",
            );
            ExitCode::from(70)
        }
    }
}
