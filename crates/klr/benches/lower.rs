//! Statements per second of lowering; the two sizes show that it is linear.

mod many;

use divan::{Bencher, counter::ItemsCount};
use tandem_bir::ArchLevel;
use tandem_klr::lower::{LowerOptions, lower};

fn main() {
    divan::main();
}

#[divan::bench(args = [100_000, 1_000_000], sample_count = 5)]
fn statements(bencher: Bencher<'_, '_>, n: u64) {
    let file = many::file(n);
    let load = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    bencher.counter(ItemsCount::new(n)).bench(|| {
        let l = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load));
        assert!(l.program.is_some());
        l
    });
}
