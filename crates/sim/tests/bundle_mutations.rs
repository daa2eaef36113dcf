//! Every byte of every record of a few containers, flipped under fresh checksums: refused, or the run stops with a finding, or
//! the outputs differ, or the byte is on the list of those that do not count. Without fresh checksums always refused.

#![allow(clippy::print_stdout, reason = "the counts per opcode are part of the result")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{Container, WriteOptions, decode, encode, read_sections};
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
fn does_not_count(record: &[u8], byte: usize) -> Option<&'static str> {
    match (record[0], byte) {
        // an extension that is a run-time term
        (0xDA, 0x0F | 0x18..=0x21) if record[0x0E] == 2 => {
            Some("the bound of an index that stays below it, and the dimension that its finding would name")
        }
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

/// Where a flip belongs.
#[derive(Clone, Copy)]
enum Fate {
    Refused,
    Stopped,
    Differs,
    Idle,
    /// Nothing changes, and the list has no reason.
    Bad,
}

#[derive(Default)]
struct Count {
    refused: usize,
    stopped: usize,
    differs: usize,
    idle: usize,
}

/// `ALL_RECORDS=1` flips the bytes of every record; otherwise those of the first records of each opcode, which cover every byte
/// position of every kind of record.
fn all_records() -> bool {
    std::env::var("ALL_RECORDS").is_ok_and(|v| v == "1")
}

/// A kernel, the bits that are flipped, how many records of each opcode, and which opcodes (none: all).
type Kernel = (&'static str, u8, usize, &'static [u8]);

#[test]
fn every_byte_of_a_swap_and_a_loop() {
    flip(
        &[("01_sendrecv_swap_f32_128x64.klr", 0x04, 2, &[]), ("18_loop_cmpbranch_f32.klr", 0x02, 2, &[])],
        &[0x41, 0x49, 0xA0, 0xA7, 0xA8, 0xA9, 0xB0, 0xBF, 0xCD, 0xD4, 0xD5, 0xD8, 0xDE, 0xDF],
    );
}

#[test]
fn every_byte_of_many_operators() {
    flip(
        &[("17_many_ops_single_body.klr", 0x11, 1, &[])],
        &[
            0x01, 0x02, 0x21, 0x42, 0x43, 0x46, 0x47, 0x48, 0x49, 0x6C, 0x7E, 0x92, 0x9D, 0xA0, 0xD4, 0xDF,
            0xE5,
        ],
    );
}

/// The kinds of records that only other kernels have: accumulators, folds, kept collectives, run-time transfers, ranks.
#[test]
fn every_byte_of_the_other_kinds() {
    flip(
        &[
            ("05_rmsnorm_2core_f32.klr", 0x01, 1, &[0x24]),
            ("06_all_reduce_add_sbuf_f32_128x256.klr", 0x02, 1, &[0xDA]),
            ("09_all_gather_hbm_dim0_f32.klr", 0x04, 1, &[0xD9, 0xDA]),
            ("19_loop_dynamic_scalar_offset_f32.klr", 0x01, 1, &[0xB2, 0xDA]),
            ("22_rank_id_register_store_i32.klr", 0x02, 1, &[0xDC]),
        ],
        &[0x24, 0xB2, 0xD9, 0xDA, 0xDC],
    );
}

/// A kernel to flip bytes of.
struct Case {
    name: &'static str,
    mask: u8,
    ins: Vec<Tensor>,
    want: Outcome,
    bytes: Vec<u8>,
    container: Container,
}

impl Case {
    fn new(name: &'static str, mask: u8) -> Case {
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
        let container = read_sections(&bytes).expect("sections");
        Case { name, mask, ins, want, bytes, container }
    }

    /// `(section, byte)` of every flip: the first `most` records of each opcode, or all.
    fn flips(&self, most: usize, only: &[u8]) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
        for (k, s) in self.container.sections.iter().enumerate().filter(|(_, s)| s.kind == Kind::Stream) {
            for (r, record) in s.bytes.chunks(64).enumerate() {
                let n = seen.entry(record[0]).or_default();
                *n += 1;
                let wanted = only.is_empty() || only.contains(&record[0]);
                if wanted && (*n <= most || all_records()) {
                    out.extend((0..64).map(|b| (k, 64 * r + b)));
                }
            }
        }
        out
    }

    fn fate(&self, (k, at): (usize, usize)) -> Fate {
        let s = &self.container.sections[k];
        let mut raw = self.bytes.clone();
        raw[s.offset + at] ^= self.mask;
        assert!(decode(&raw).is_err(), "{}: a checksum is not looked at", self.name);
        let mut sections = self.container.sections.clone();
        sections[k].bytes[at] ^= self.mask;
        let x =
            assemble(self.container.arch as u16, self.container.cores, self.container.flags, &mut sections);
        let Ok(p) = decode(&x) else { return Fate::Refused };
        match run(&p, &self.ins, Schedule::Eager) {
            Ok(o) if o.stop == StopReason::Finished && o.outputs != self.want.outputs => Fate::Differs,
            Ok(o) if o.stop == StopReason::Finished => {
                let record = &s.bytes[at / 64 * 64..at / 64 * 64 + 64];
                if does_not_count(record, at % 64).is_some() { Fate::Idle } else { Fate::Bad }
            }
            Ok(_) | Err(()) => Fate::Stopped,
        }
    }
}

/// Flips the bytes of the first `most` records of each opcode of some kernels by a mask, on all processors.
fn flip(kernels: &[Kernel], opcodes_there: &[u8]) {
    let mut counts: BTreeMap<u8, Count> = BTreeMap::new();
    let mut bad: Vec<String> = Vec::new();
    for &(name, mask, most, only) in kernels {
        let case = Case::new(name, mask);
        let flips = case.flips(most, only);
        let n = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let mut fates: Vec<(usize, Fate)> = std::thread::scope(|scope| {
            let work = || {
                let mut out = Vec::new();
                while let k = next.fetch_add(1, Ordering::Relaxed)
                    && k < flips.len()
                {
                    out.push((k, case.fate(flips[k])));
                }
                out
            };
            let threads: Vec<_> = (0..n).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|t| t.join().expect("a worker")).collect()
        });
        fates.sort_by_key(|f| f.0);
        assert_eq!(fates.len(), flips.len());
        for (k, fate) in fates {
            let (section, at) = flips[k];
            let s = &case.container.sections[section];
            let opcode = s.bytes[at / 64 * 64];
            let n = counts.entry(opcode).or_default();
            match fate {
                Fate::Refused => n.refused += 1,
                Fate::Stopped => n.stopped += 1,
                Fate::Differs => n.differs += 1,
                Fate::Idle => n.idle += 1,
                Fate::Bad => bad.push(format!(
                    "{name}: core {} engine {} record {} {} byte {:#04x} ^ {mask:#04x}: {:#04x}",
                    s.core,
                    s.engine,
                    at / 64,
                    opcodes::name(opcode),
                    at % 64,
                    s.bytes[at]
                )),
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
