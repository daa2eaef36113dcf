//! Speed of writing a trace: `cargo bench -p tandem-report --bench trace`.

#![allow(missing_docs, reason = "a benchmark")]

#[path = "../tests/support/events.rs"]
mod events;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use std::io::Write;
use tandem_report::{Limits, PerfettoSink, Picture};

fn main() {
    divan::main();
}

/// Counts what comes.
#[derive(Default)]
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, b: &[u8]) -> std::io::Result<usize> {
        self.0 += b.len() as u64;
        Ok(b.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[divan::bench(args = [100_000, 1_000_000], sample_count = 5)]
fn perfetto(bencher: Bencher, slices: u64) {
    let p = events::program(5_000);
    let mut size = PerfettoSink::new(Counted::default());
    events::feed(&p, slices, &mut size);
    let count = size.events();
    let bytes = size.finish().map_or(0, |c| c.0);
    bencher.counter(ItemsCount::new(count)).counter(BytesCount::new(bytes)).bench_local(|| {
        let mut s = PerfettoSink::new(Counted::default());
        events::feed(&p, slices, &mut s);
        s.finish().map(|c| c.0)
    });
}

#[divan::bench(args = [100_000, 1_000_000], sample_count = 5)]
fn picture(bencher: Bencher, slices: u64) {
    let p = events::program(5_000);
    bencher.counter(ItemsCount::new(slices)).bench_local(|| {
        let mut s = Picture::new(Limits::default());
        events::feed(&p, slices, &mut s);
        s.lanes.len()
    });
}
