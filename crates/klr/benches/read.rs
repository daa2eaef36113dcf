//! Bytes per second of reading and writing a file of 100,000 statements.

mod many;

use divan::{Bencher, counter::BytesCount};
use tandem_klr::{read, write};

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 20)]
fn read_100k_statements(bencher: Bencher<'_, '_>) {
    let bytes = write(&many::file(100_000)).expect("current layout");
    bencher.counter(BytesCount::of_slice(&bytes)).bench(|| read(&bytes).map(|o| o.notes.len()));
}

#[divan::bench(sample_count = 20)]
fn write_100k_statements(bencher: Bencher<'_, '_>) {
    let file = many::file(100_000);
    let len = write(&file).expect("current layout").len();
    bencher.counter(BytesCount::new(len)).bench(|| write(&file));
}
