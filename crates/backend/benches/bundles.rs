//! Encoding and decoding, in bundles per second on one thread, and linking, in instructions and swaps per second; the sizes
//! show that linking is linear.

#[path = "../tests/many/mod.rs"]
mod many;

use divan::{Bencher, counter::ItemsCount};
use many::{container, linked, lowered};
use tandem_backend::container::{WriteOptions, encode, read_sections, round_trip};
use tandem_backend::decode::{Index, draft};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, link};
use tandem_backend::{PassOptions, Transport, lower, prepare};
use tandem_bir::testing::two_core::swaps;
use tandem_bir::{ArchLevel, EngineKind, Program};

fn main() {
    divan::main();
}

const N: usize = 100_000;

#[divan::bench]
fn encode_and_verify(b: Bencher<'_, '_>) {
    let p = linked(N);
    b.counter(ItemsCount::new(N))
        .bench_local(|| encode_streams(&p, EncodeOptions::default()).expect("encodes"));
}

#[divan::bench]
fn decode(b: Bencher<'_, '_>) {
    let (bytes, _) =
        encode(&linked(N), WriteOptions { debug: false, ..WriteOptions::default() }).expect("encodes");
    let c = read_sections(&bytes).expect("reads");
    let s = c.sections.iter().find(|s| s.bytes.len() > 64 * N).expect("stream");
    let records = c.records(s);
    let spec = ArchLevel::Gen3.spec().expect("spec");
    let geo = tandem_backend::encode::phys::geometry(spec);
    let ctx = draft::DecodeCtx { geo, var_loc: &|_| None, whole_var: &|_| None };
    b.counter(ItemsCount::new(records.len())).bench_local(|| {
        tandem_backend::decode::program::decode_stream(
            &records,
            EngineKind::Dve,
            &[],
            &Index::default(),
            &geo,
            &ctx,
            &|_| None,
        )
        .expect("decodes")
        .insts
        .len()
    });
}

/// Every record of a container decoded, encoded again and verified.
#[divan::bench(sample_count = 3)]
fn container_round_trip(b: Bencher<'_, '_>) {
    let bytes = container(10 * N);
    b.counter(ItemsCount::new(10 * N)).bench_local(|| round_trip(&bytes).expect("round trip").1);
}

fn lowered_swaps(n: usize, transport: Transport) -> Program {
    let mut p = swaps(n);
    let mut o = PassOptions::for_program(&p);
    o.transport = transport;
    assert!(prepare(&mut p, &o).ok());
    assert!(lower(&mut p, &o).ok());
    p
}

#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 3)]
fn link_compute(b: Bencher<'_, '_>, n: usize) {
    let p = lowered(n);
    b.counter(ItemsCount::new(n)).bench_local(|| link(&p, LinkOptions::default()).expect("links"));
}

#[divan::bench(args = [1_000, 10_000, 50_000], sample_count = 3)]
fn link_swaps_by_gpsimd(b: Bencher<'_, '_>, n: usize) {
    let p = lowered_swaps(n, Transport::Gpsimd);
    b.counter(ItemsCount::new(n)).bench_local(|| link(&p, LinkOptions::default()).expect("links"));
}

#[divan::bench(args = [1_000, 10_000, 50_000], sample_count = 3)]
fn link_swaps_by_dma(b: Bencher<'_, '_>, n: usize) {
    let p = lowered_swaps(n, Transport::Dma);
    b.counter(ItemsCount::new(n)).bench_local(|| link(&p, LinkOptions::default()).expect("links"));
}
