//! A long container goes through the decoder and the encoder in memory of a small multiple of its size: a round trip, a check
//! without a program, and decoding to a program that can run.
//!
//! The measured work runs in a child process, so that nothing else counts; `BUNDLES=1000000 cargo test --release -p
//! tandem-backend --test container_memory -- --nocapture` prints the numbers for a million.

#![allow(clippy::print_stdout, reason = "the numbers are the result")]

mod many;

use std::process::Command;
use std::time::Instant;
use tandem_backend::container::{check, decode, read_sections, round_trip};

/// Bytes of memory that a byte of the container may cost, beside 24 MiB. A million bundles stay under 512 MiB in all.
const PER_BYTE: &[(&str, u64)] = &[("round-trip", 4), ("check", 5), ("decode", 8)];

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn bundles() -> usize {
    std::env::var("BUNDLES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

#[test]
fn a_long_container_takes_little_memory() {
    let path = std::env::temp_dir().join(format!("tandem-memory-{}.tnb", std::process::id()));
    std::fs::write(&path, many::container(bundles())).expect("written");
    for (what, per_byte) in PER_BYTE {
        let out = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "child", "--nocapture", "--include-ignored"])
            .env("TANDEM_CONTAINER", &path)
            .env("TANDEM_WORK", what)
            .output()
            .expect("runs");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
        let line = text.lines().find(|l| l.contains("bundles")).expect("a line of numbers");
        println!("{what}: {line}");
        let number =
            |k: usize| line.split_whitespace().nth(k).and_then(|w| w.parse::<u64>().ok()).expect(line);
        let (n, bytes, hwm) = (number(0), number(2), number(4));
        assert_eq!(n as usize, bundles());
        if cfg!(target_os = "linux") {
            assert!(hwm > bytes, "{what}: {line}");
            assert!(hwm < per_byte * bytes + (24 << 20), "{what}: {line}");
            assert!(n > 1_000_000 || hwm < 512 << 20, "{what}: {line}");
        }
    }
    std::fs::remove_file(&path).expect("removed");
}

#[test]
#[ignore = "run by a_long_container_takes_little_memory"]
fn child() {
    let Ok(path) = std::env::var("TANDEM_CONTAINER") else { return };
    let bytes = std::fs::read(path).expect("read");
    let start = Instant::now();
    let n = match std::env::var("TANDEM_WORK").as_deref() {
        Ok("round-trip") => {
            let (again, n) = round_trip(&bytes).expect("round trip");
            assert!(again == bytes);
            n
        }
        Ok("check") => check(&bytes).expect("sound"),
        _ => decode(&bytes)
            .expect("decodes")
            .cores
            .iter()
            .flat_map(|c| &c.streams)
            .map(|s| s.insts.len())
            .sum(),
    };
    let time = start.elapsed().as_secs_f64();
    println!("{n} bundles {} bytes {} peak {:.0} per second", bytes.len(), peak(), n as f64 / time);
}

#[test]
fn an_edited_record_does_not_round_trip() {
    let b = many::container(5_000);
    let c = read_sections(&b).expect("reads");
    let s = c.sections.iter().find(|s| s.bytes.len() > 64 * 1000).expect("stream");
    for at in [0usize, 64 * 777 + 0x0E, 64 * 4_000 + 0x23] {
        let mut sections = c.sections.clone();
        let k = sections.iter().position(|x| x.offset == s.offset).unwrap();
        sections[k].bytes[at] ^= 0x81;
        let x = tandem_backend::container::format::assemble(c.arch as u16, c.cores, c.flags, &mut sections);
        match round_trip(&x) {
            Err(e) => assert!(e.sites.iter().any(|s| s.offset.is_some()), "{}", e.message),
            Ok((again, _)) => assert!(again == x),
        }
    }
    assert!(round_trip(&b[..b.len() - 1]).is_err());
}
