//! Encoding and decoding, in bundles per second on one thread, and linking, in instructions and swaps per second; the sizes
//! show that linking is linear.

#[path = "../tests/many/mod.rs"]
mod many;

use divan::{Bencher, counter::ItemsCount};
use many::{container, linked, lowered, varied};
use tandem_backend::container::format::Kind;
use tandem_backend::container::{WriteOptions, encode, read_sections, round_trip};
use tandem_backend::decode::program::decode_stream;
use tandem_backend::decode::{Index, draft};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, LinkedProgram, link, link_owned};
use tandem_backend::{PassOptions, Transport, lower, prepare};
use tandem_bir::testing::two_core::swaps;
use tandem_bir::{ArchLevel, BirEnum as _, EngineKind, Program};

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

/// A stream in which no shape comes again: every instruction goes the whole way.
#[divan::bench]
fn encode_and_verify_varied(b: Bencher<'_, '_>) {
    let p = link(&varied(N), LinkOptions::default()).expect("links").0;
    let (image, _) = encode_streams(&p, EncodeOptions::default()).expect("encodes");
    let records: usize = image.iter().flatten().map(|s| s.records.len()).sum();
    b.counter(ItemsCount::new(records))
        .bench_local(|| encode_streams(&p, EncodeOptions::default()).expect("encodes"));
}

fn decode_all(b: Bencher<'_, '_>, p: &LinkedProgram) {
    let (bytes, _) = encode(p, WriteOptions { debug: false, ..WriteOptions::default() }).expect("encodes");
    let c = read_sections(&bytes).expect("reads");
    let streams: Vec<_> = c
        .sections
        .iter()
        .filter(|s| s.kind == Kind::Stream)
        .map(|s| {
            let e = EngineKind::from_ordinal(u16::from(s.engine)).expect("an engine");
            (e, c.records(s), c.patches(s.core, s.engine).expect("patches"))
        })
        .collect();
    let spec = ArchLevel::Gen3.spec().expect("spec");
    let geo = tandem_backend::encode::phys::geometry(spec);
    let ctx = draft::DecodeCtx { geo, var_loc: &|_| None, whole_var: &|_| None };
    let index = Index::default();
    b.counter(ItemsCount::new(streams.iter().map(|(_, r, _)| r.len()).sum::<usize>())).bench_local(|| {
        let one = |(engine, records, patches): &(EngineKind, Vec<_>, Vec<_>)| {
            decode_stream(records, *engine, patches, &index, &geo, &ctx, &|_| None)
                .expect("decodes")
                .insts
                .len()
        };
        streams.iter().map(one).sum::<usize>()
    });
}

#[divan::bench]
fn decode(b: Bencher<'_, '_>) {
    decode_all(b, &linked(N));
}

#[divan::bench]
fn decode_varied(b: Bencher<'_, '_>) {
    decode_all(b, &link(&varied(N), LinkOptions::default()).expect("links").0);
}

/// Every record of a container in which no shape comes again decoded, encoded again and verified.
#[divan::bench(sample_count = 3)]
fn container_round_trip_varied(b: Bencher<'_, '_>) {
    let p = link(&varied(N), LinkOptions::default()).expect("links").0;
    let (bytes, _) = encode(&p, WriteOptions { debug: false, ..WriteOptions::default() }).expect("encodes");
    let n = round_trip(&bytes).expect("round trip").1;
    b.counter(ItemsCount::new(n)).bench_local(|| round_trip(&bytes).expect("round trip").1);
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

fn link_all(b: Bencher<'_, '_>, n: usize, p: &Program) {
    b.counter(ItemsCount::new(n))
        .with_inputs(|| p.clone())
        .bench_local_values(|p| link_owned(p, LinkOptions::default()).expect("links"));
}

#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 3)]
fn link_compute(b: Bencher<'_, '_>, n: usize) {
    let p = lowered(n);
    link_all(b, n, &p);
}

#[divan::bench(args = [1_000, 10_000, 50_000], sample_count = 3)]
fn link_swaps_by_gpsimd(b: Bencher<'_, '_>, n: usize) {
    let p = lowered_swaps(n, Transport::Gpsimd);
    link_all(b, n, &p);
}

#[divan::bench(args = [1_000, 10_000, 50_000], sample_count = 3)]
fn link_swaps_by_dma(b: Bencher<'_, '_>, n: usize) {
    let p = lowered_swaps(n, Transport::Dma);
    link_all(b, n, &p);
}
