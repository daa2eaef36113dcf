//! A trace of a million events: speed, memory, and the same bytes twice.

#[path = "support/events.rs"]
mod events;

use std::io::Write;
use std::time::Instant;
use tandem_report::{Limits, PerfettoSink, Picture};

/// Keeps a digest of what comes, not the bytes.
#[derive(Default)]
struct Digest {
    len: u64,
    hash: u64,
}

impl Write for Digest {
    fn write(&mut self, b: &[u8]) -> std::io::Result<usize> {
        for x in b {
            self.hash = (self.hash ^ u64::from(*x)).wrapping_mul(0x0100_0000_01b3);
        }
        self.len += b.len() as u64;
        Ok(b.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Most memory that the process ever had, in bytes (Linux).
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|k| k * 1024)
}

#[test]
fn a_million_events_are_written_in_little_memory_and_always_alike() {
    let p = events::program(5_000);
    let run = |slices: u64| {
        let mut s = PerfettoSink::new(Digest::default());
        let start = Instant::now();
        events::feed(&p, slices, &mut s);
        let (events, time) = (s.events(), start.elapsed());
        let d = s.finish().expect("a digest takes everything");
        (events, time, d.len, d.hash)
    };
    let small = run(10_000);
    let before = peak();
    let (events, time, len, hash) = run(440_000);
    let after = peak();
    assert!(events >= 1_000_000, "{events} events");
    assert!(len > small.2);
    if let (Some(b), Some(a)) = (before, after) {
        assert!(a < 256 << 20, "{a} bytes in use");
        assert!(a.saturating_sub(b) < 8 << 20, "memory grows with the events: {b} to {a} bytes");
    }
    let rate = events as f64 / time.as_secs_f64();
    // For people; the digest is part of the time.
    println!("{events} events, {len} bytes, {rate:.0} events per second");
    let again = run(440_000);
    assert_eq!((len, hash), (again.2, again.3));
}

#[test]
fn a_picture_of_many_slices_stays_small_and_says_how_coarse_it_is() {
    let p = events::program(500);
    let mut s = Picture::new(Limits::default());
    events::feed(&p, 300_000, &mut s);
    let items: usize = s.lanes.iter().map(|l| l.items.len()).sum();
    assert!(items <= Limits::default().items && items > 2_000, "{items} items");
    assert!(s.bucket_ps > 0 && s.arrows_left_out > 0);
    let count: u64 = s.lanes.iter().flat_map(|l| &l.items).map(|i| i.count).sum();
    assert_eq!(count, s.slices);
}

#[test]
fn an_error_of_the_output_is_reported_at_the_end() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let p = events::program(10);
    let mut s = PerfettoSink::new(Full);
    events::feed(&p, 5_000, &mut s);
    assert_eq!(s.finish().err().map(|e| e.to_string()).as_deref(), Some("full"));
}
