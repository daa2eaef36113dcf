//! The front of the compiler on kernels of 10^5 and 10^6 statements on two cores: reading, lowering to BIR, verifying,
//! preparing, printing, and reading again what was printed.
//!
//! Items are instructions. Linear cost shows as equal items per second in both rows of a stage; on a busy machine compare
//! the medians. `cargo bench -p tandem --bench front`.

#[path = "../../klr/benches/many/mod.rs"]
mod many;

use divan::{Bencher, counter::ItemsCount};
use many::file;
use tandem_backend::{PassOptions, prepare};
use tandem_bir::{ArchLevel, Program, text, verify};
use tandem_klr::KlrFile;
use tandem_klr::lower::{LowerOptions, lower};

const SIZES: [u64; 2] = [100_000, 1_000_000];

fn main() {
    divan::main();
}

fn lowered(file: &KlrFile) -> Program {
    let load = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    lower(file, &LowerOptions::new(ArchLevel::Gen3, &load)).program.expect("a program")
}

fn prepared(n: u64) -> Program {
    let mut p = lowered(&file(n));
    let opts = PassOptions::for_program(&p);
    assert!(prepare(&mut p, &opts).ok());
    p
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_1_read(bencher: Bencher<'_, '_>, n: u64) {
    let bytes = tandem_klr::write(&file(n)).expect("written");
    bencher.counter(ItemsCount::new(n)).bench(|| tandem_klr::read(&bytes).is_ok());
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_2_lower(bencher: Bencher<'_, '_>, n: u64) {
    let file = file(n);
    bencher.counter(ItemsCount::new(n)).bench(|| lowered(&file));
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_3_prepare(bencher: Bencher<'_, '_>, n: u64) {
    let p = lowered(&file(n));
    let opts = PassOptions::for_program(&p);
    bencher.counter(ItemsCount::new(n)).with_inputs(|| p.clone()).bench_refs(|p| prepare(p, &opts).ok());
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_4_verify(bencher: Bencher<'_, '_>, n: u64) {
    let p = prepared(n);
    bencher.counter(ItemsCount::new(n)).bench(|| verify::verify(&p).is_ok());
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_5_print(bencher: Bencher<'_, '_>, n: u64) {
    let p = prepared(n);
    bencher.counter(ItemsCount::new(n)).bench(|| text::print(&p));
}

#[divan::bench(args = SIZES, sample_count = 3)]
fn stage_6_read_text(bencher: Bencher<'_, '_>, n: u64) {
    let printed = text::print(&prepared(n));
    bencher.counter(ItemsCount::new(n)).bench(|| text::parse(&printed).is_ok());
}
