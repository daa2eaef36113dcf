//! Swaps per second of taking a program to level lowered, by GPSIMD and by DMA, and the memory that takes; the sizes show
//! that both are linear.

use divan::{Bencher, counter::ItemsCount};
use tandem_backend::{PassOptions, Transport, lower, prepare};
use tandem_bir::Program;
use tandem_bir::testing::two_core::{swaps, swaps_over};

#[global_allocator]
static ALLOC: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

fn prepared(n: usize, transport: Transport) -> (Program, PassOptions) {
    let mut p = swaps(n);
    let mut o = PassOptions::for_program(&p);
    o.transport = transport;
    assert!(prepare(&mut p, &o).ok());
    (p, o)
}

fn measure(bencher: Bencher<'_, '_>, n: usize, transport: Transport) {
    let (p, o) = prepared(n, transport);
    bencher.counter(ItemsCount::new(n)).with_inputs(|| p.clone()).bench_local_values(|mut p| {
        assert!(lower(&mut p, &o).ok());
        p
    });
}

#[divan::bench(args = [10_000, 30_000, 100_000, 300_000], sample_count = 3)]
fn by_gpsimd(bencher: Bencher<'_, '_>, n: usize) {
    measure(bencher, n, Transport::Gpsimd);
}

/// Without closing barriers, over so many tiles that opening ones are left out too: each swap looks back for a fence.
#[divan::bench(args = [10_000, 30_000, 100_000, 300_000], sample_count = 3)]
fn by_dma_unfenced(bencher: Bencher<'_, '_>, n: usize) {
    let mut p = swaps_over(n, 1_500);
    let mut o = PassOptions::for_program(&p);
    o.transport = Transport::Dma;
    o.enable_remote_semaphore_dma = true;
    assert!(prepare(&mut p, &o).ok());
    bencher.counter(ItemsCount::new(n)).with_inputs(|| p.clone()).bench_local_values(|mut p| {
        assert!(lower(&mut p, &o).ok());
        p
    });
}

#[divan::bench(args = [10_000, 30_000, 100_000, 300_000], sample_count = 3)]
fn by_dma(bencher: Bencher<'_, '_>, n: usize) {
    measure(bencher, n, Transport::Dma);
}
