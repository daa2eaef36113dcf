//! The front of the compiler on kernels of 10^5 and 10^6 statements on two cores: reading, lowering to BIR, verifying,
//! preparing, printing, and reading again what was printed.
//!
//! Items are instructions. Linear cost shows as equal items per second in both rows of a stage; on a busy machine compare
//! the medians. `cargo bench -p tandem --bench front`.

use divan::{Bencher, counter::ItemsCount};
use tandem_backend::{PassOptions, prepare};
use tandem_bir::{ArchLevel, Program, text, verify};
use tandem_klr::ast::{AluOp, Dtype, Engine, Memory};
use tandem_klr::lower::{LowerOptions, lower};
use tandem_klr::{KlrFile, build};

const SIZES: [u64; 2] = [100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Two cores: load, swap, add, store over 64 tiles.
fn file(statements: u64) -> KlrFile {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[8192, 512]);
    let out = build::tensor("out", Dtype::Float32, Memory::Hbm, &[8192, 512]);
    let tiles: Vec<_> = (0..64)
        .map(|i| build::tensor(&format!("tensor{i}"), Dtype::Float32, Memory::Sbuf, &[128, 512]))
        .collect();
    let body = |core: u64| {
        let stmts = (0..statements / 2).map(|i| {
            let tile = &tiles[i as usize / 4 % 32];
            let other = &tiles[i as usize / 4 % 32 + 32];
            let rows = |t| build::pattern(t, (i / 4 % 64) * 65536, &[(512, 128), (1, 512)]);
            let op = match i % 4 {
                0 => build::dma_copy(build::whole(tile), rows(&x)),
                1 => build::send_recv(build::whole(other), build::whole(tile), 1 - core as i32, 0),
                2 => build::tensor_tensor(
                    build::whole(tile),
                    build::whole(tile),
                    build::whole(other),
                    AluOp::Add,
                    Engine::Dve,
                ),
                _ => build::dma_copy(rows(&out), build::whole(tile)),
            };
            build::stmt(&format!("inst.{i}"), 1 + i % 300, op)
        });
        vec![build::block("main.1", stmts.collect())]
    };
    build::lnc("bench.many", &[&x], &[&out], vec![body(0), body(1)]).into()
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
