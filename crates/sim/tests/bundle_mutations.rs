//! Every byte of every record of a few containers, flipped under fresh checksums: refused, or the run stops with a finding, or
//! the outputs differ, or the byte is on the list of those that do not count. Without fresh checksums always refused.

#![allow(clippy::print_stdout, reason = "the counts per opcode are part of the result")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{WriteOptions, decode, encode, read_sections};
use tandem_backend::encode::opcodes;
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::ArchLevel;
use tandem_klr::lower::{LowerOptions, lower};
use tandem_sim::{Outcome, RunOptions, Schedule, StopReason, Tensor, queue_style, random::random_tensor};

fn linked(name: &str) -> LinkedProgram {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let file = tandem_klr::read_path(&folder.join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder.join(f));
    let mut p = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program.expect("lowers");
    let opts = tandem_backend::PassOptions::for_program(&p);
    assert!(!tandem_backend::lower(&mut p, &opts).failed);
    link(&p, LinkOptions::default()).expect("links").0
}

/// Bytes that may change without any effect on the outputs, with the reason.
fn does_not_count(opcode: u8, byte: usize) -> Option<&'static str> {
    match (opcode, byte) {
        // Waits and updates order; a weaker order may give the same bytes, and then it is a race, which the race check reports.
        (_, 0x04..=0x0B) => Some("waits and updates"),
        (0xA0, 0x20..=0x2B) => Some("waits and updates"),
        (0xD4, 0x0D..=0x0E) => Some("waits and updates"),
        (0xB0, 0x20..=0x3F) => Some("semaphores cleared that nobody uses"),
        (0xD4, 0x0C) => Some("priority class"),
        (0xD8, 0x10..=0x13) => Some("semaphore of a barrier that is executed by its id"),
        (0xDE, 0x10) => Some("mode of a completion token"),
        (0xDB | 0xDC, _) => Some("a rank that nothing reads"),
        (0x23, 0x23) => Some("table of activation functions, all are there"),
        // The start and stop flags tell groups apart; the product is the same where the group is whole.
        (0x02 | 0x0A, 0x2B) => Some("marks of an accumulation group"),
        (0x02, 0x2F) => Some("zero region no larger than the write"),
        (0xA0, 0x00) => Some("the wait at the end of a stream became nothing"),
        (0x49, 0x20 | 0x28..=0x2B) => Some("a fill that is written over before it is read"),
        (0xA7 | 0xA9, 0x0D) | (0xA8, 0x0D | 0x0F) | (0xCD, 0x0C) => {
            Some("type of a register with small integers")
        }
        (0xA9, 0x30..=0x37) => Some("target of a guard that is not taken"),
        (0x21, 0x20) | (0x9D | 0xE5, 0x28) => Some("fp32 and fp32r are read alike"),
        (0x21, 0x2C..=0x2F) => Some("parameter of a function that has none"),
        (0xE5, 0x3C..=0x3F) => Some("an initial value too small to count"),
        _ => None,
    }
}

fn run(p: &LinkedProgram, ins: &[Tensor], schedule: Schedule) -> Result<Outcome, ()> {
    let o = RunOptions {
        schedule,
        race_check: false,
        undefined_check: false,
        step_limit: 20_000,
        ..RunOptions::default()
    };
    queue_style::run(p, ins, o).map_err(|_| ())
}

#[derive(Default)]
struct Count {
    refused: usize,
    stopped: usize,
    differs: usize,
    idle: usize,
}

#[test]
fn every_byte_of_a_swap_and_a_loop() {
    flip(
        &[("01_sendrecv_swap_f32_128x64.klr", 0x04, 2), ("18_loop_cmpbranch_f32.klr", 0x02, 2)],
        &[0xBF, 0xD4, 0xA9, 0xD8, 0xDE, 0xA0, 0xDF],
    );
}

#[test]
#[ignore = "minutes in a debug build: cargo test --release -p tandem-sim --test bundle_mutations -- --ignored"]
fn every_byte_of_many_operators() {
    flip(&[("17_many_ops_single_body.klr", 0x11, 1)], &[0x01, 0x02, 0x21, 0x41, 0x43, 0x92, 0x9D, 0xE5]);
}

/// Flips the bytes of the first `most` records of each opcode of some kernels by a mask.
fn flip(kernels: &[(&str, u8, usize)], opcodes_there: &[u8]) {
    let mut counts: BTreeMap<u8, Count> = BTreeMap::new();
    let mut bad: Vec<String> = Vec::new();
    for &(name, mask, most) in kernels {
        let l = linked(name);
        let (bytes, _) =
            encode(&l, WriteOptions { debug: false, ..WriteOptions::default() }).expect("encodes");
        let ins: Vec<Tensor> = l
            .program
            .signature
            .inputs
            .iter()
            .map(|w| random_tensor(5, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
            .collect();
        let want = run(&decode(&bytes).expect("reads"), &ins, Schedule::Eager).expect("runs");
        assert_eq!(want.stop, StopReason::Finished);
        let c = read_sections(&bytes).expect("sections");
        let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
        for (k, s) in c.sections.iter().enumerate().filter(|(_, s)| s.kind == Kind::Stream) {
            for at in 0..s.bytes.len() {
                // the first records of each opcode; the others have the same layout
                let records = seen.entry(s.bytes[at / 64 * 64]).or_default();
                *records += usize::from(at % 64 == 0);
                if *records > most {
                    continue;
                }
                let mut raw = bytes.clone();
                raw[s.offset + at] ^= mask;
                assert!(at % 61 != 0 || decode(&raw).is_err(), "{name}: a checksum is not looked at");
                let mut sections = c.sections.clone();
                sections[k].bytes[at] ^= mask;
                let x = assemble(c.arch as u16, c.cores, c.flags, &mut sections);
                let (opcode, byte) = (s.bytes[at / 64 * 64], at % 64);
                let n = counts.entry(opcode).or_default();
                let Ok(p) = decode(&x) else {
                    n.refused += 1;
                    continue;
                };
                let outcome = [run(&p, &ins, Schedule::Eager)];
                if outcome.iter().any(|o| !matches!(o, Ok(o) if o.stop == StopReason::Finished)) {
                    n.stopped += 1;
                } else if outcome.iter().any(|o| matches!(o, Ok(o) if o.outputs != want.outputs)) {
                    n.differs += 1;
                } else if does_not_count(opcode, byte).is_some() {
                    n.idle += 1;
                } else {
                    bad.push(format!(
                        "{name}: core {} engine {} record {} {} byte {byte:#04x} ^ {mask:#04x}: {:#04x}",
                        s.core,
                        s.engine,
                        at / 64,
                        opcodes::name(opcode),
                        s.bytes[at]
                    ));
                }
            }
        }
    }
    for (op, n) in &counts {
        println!(
            "{op:#04x} {:<24} refused {:5}  stopped {:4}  other outputs {:4}  without effect {:4}",
            opcodes::name(*op),
            n.refused,
            n.stopped,
            n.differs,
            n.idle
        );
    }
    assert!(bad.is_empty(), "{} flips change nothing\n{}", bad.len(), bad.join("\n"));
    for op in opcodes_there {
        assert!(counts.contains_key(op), "{}", opcodes::name(*op));
    }
}
