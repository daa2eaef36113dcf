//! Mutated sample files: no panic, no hang, memory bounded by the file size. The same cases on every run.
//!
//! 100,000 cases in a release test, fewer in a debug one.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::print_stdout, reason = "the test reports its slowest case")]

mod common;

use common::{Gen, Rng, samples};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tandem_klr::{Info, print_file, read, write};

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allowed bytes of memory per byte of file, and on top: what the smallest values of the format need in the tree,
/// and the reader's tables.
const PER_BYTE: usize = 128;
const ON_TOP: usize = 64 << 10;

/// Reads with the peak of memory above what was live before.
fn measured(bytes: &[u8]) -> (Result<tandem_klr::ReadOutcome, tandem_klr::ReadError>, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = read(bytes);
    (result, PEAK.load(Relaxed) - before)
}

/// One mutation: flips, cuts, changed lengths, inserted and removed runs, pieces of other files.
fn mutate(rng: &mut Rng, b: &mut Vec<u8>, other: &[u8]) {
    let at = rng.below(b.len().max(1));
    match rng.below(9) {
        0 if !b.is_empty() => b[at] ^= 1 << rng.below(8),
        1 if !b.is_empty() => b[at] = rng.next() as u8,
        2 => b.truncate(at),
        3 => {
            let end = (at + rng.below(16)).min(b.len());
            b.drain(at.min(end)..end);
        }
        4 => {
            let run: Vec<u8> = (0..rng.below(16)).map(|_| rng.next() as u8).collect();
            b.splice(at.min(b.len())..at.min(b.len()), run);
        }
        5 => {
            // a length or count: some head at or behind the place, longer, shorter or huge
            if let Some(i) = (at..b.len()).find(|i| matches!(b[*i] >> 5, 3 | 4)) {
                let major = b[i] & 0xe0;
                let new: Vec<u8> = match rng.below(4) {
                    0 => vec![major | rng.below(24) as u8],
                    1 => vec![major | 24, rng.next() as u8],
                    2 => [vec![major | 26], (rng.next() as u32).to_be_bytes().to_vec()].concat(),
                    _ => [vec![major | 27], rng.next().to_be_bytes().to_vec()].concat(),
                };
                b.splice(i..=i, new);
            }
        }
        6 => {
            let from = rng.below(other.len());
            let to = (from + rng.below(200)).min(other.len());
            let end = (at + rng.below(200)).min(b.len());
            b.splice(at.min(end)..end, other[from..to].iter().copied());
        }
        7 => {
            // a tag or constructor
            if let Some(i) = (at..b.len().saturating_sub(2)).find(|i| b[*i] == 0xd9) {
                b[i + 1 + rng.below(2)] = rng.next() as u8;
            }
        }
        _ => {
            let end = (at + rng.below(64)).min(b.len());
            let piece = b[at.min(end)..end].to_vec();
            b.splice(end..end, piece.iter().copied().cycle().take(piece.len() * rng.below(4)));
        }
    }
}

#[test]
fn mutated_files_never_panic_hang_or_take_memory_they_only_claim() {
    let cases: u64 = if cfg!(debug_assertions) { 6_000 } else { 100_000 };
    let mut corpus: Vec<Vec<u8>> =
        [samples("klr"), samples("klr-old")].concat().into_iter().map(|f| f.1).collect();
    for seed in 0..10 {
        let mut g = Gen::new(seed);
        g.prop_bytes = seed % 3 == 0;
        g.old = seed % 3 == 1;
        g.file(true);
        corpus.push(g.out);
    }

    // the guard: a case that takes ten seconds ends the test and names itself
    static CASE: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        let mut last = (u64::MAX, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = CASE.load(Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() > Duration::from_secs(10) {
                println!("case {now} takes more than ten seconds");
                std::process::abort();
            }
        }
    });

    let (mut slowest, mut worst, mut good) = ((Duration::ZERO, 0), (0.0f64, 0), 0u64);
    for case in 0..cases {
        CASE.store(case, Relaxed);
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ (case + 1).wrapping_mul(0xd134_2543_de82_ef95));
        let mut bytes = corpus[rng.below(corpus.len())].clone();
        for _ in 0..1 + rng.below(3) {
            let other = rng.below(corpus.len());
            mutate(&mut rng, &mut bytes, &corpus[other]);
        }
        let start = Instant::now();
        let (result, memory) = measured(&bytes);
        if let Ok(outcome) = result {
            good += 1;
            let written = write(&outcome.file).unwrap();
            let again = read(&written).unwrap_or_else(|e| panic!("case {case}: written file: {e}"));
            assert_eq!(again.file, outcome.file, "case {case}");
            print_file(&outcome.file);
            Info::of(&outcome).to_text();
        }
        slowest = slowest.max((start.elapsed(), case));
        assert!(memory <= PER_BYTE * bytes.len() + ON_TOP, "case {case}: {memory} bytes for {}", bytes.len());
        let ratio = memory as f64 / (bytes.len() + 1000) as f64;
        if ratio > worst.0 {
            worst = (ratio, case);
        }
    }
    CASE.store(u64::MAX, Relaxed);
    println!(
        "{cases} cases, {good} readable; slowest {:?} (case {}), most memory {:.1} bytes per byte (case {})",
        slowest.0, slowest.1, worst.0, worst.1
    );
    assert!(slowest.0 < Duration::from_secs(10));
    assert!(
        good > cases / 50 && good < cases - cases / 4,
        "the mutations are too strong or too weak: {good}"
    );

    // the smallest values in the largest numbers
    let mut empty_blocks =
        vec![0xd9, 0xd9, 0xf7, 0x83, 0, 0, 12, 0xd9, 235, 0, 0x81, 0x60, 0xd9, 236, 3, 0x81];
    empty_blocks.extend([0xd9, 108, 0, 0x87, 0x60, 0x80, 0x80, 0x9a]);
    let n = 300_000u32;
    empty_blocks.extend(n.to_be_bytes());
    empty_blocks.extend(std::iter::repeat_n(0x80, n as usize));
    empty_blocks.extend([0x80, 0x80, 0x80]);
    let (result, memory) = measured(&empty_blocks);
    result.unwrap();
    assert!(memory <= PER_BYTE * empty_blocks.len(), "{memory}");
}
