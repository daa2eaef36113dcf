//! Containers: truncated and edited files are refused with an offset; bundles mutated under fresh checksums are refused
//! or mean something else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{WriteOptions, check, decode, encode, info, read_sections};
use tandem_backend::decode::disasm::{disasm, own_layouts, to_json, write_json};
use tandem_backend::encode::opcodes;
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::ArchLevel;
use tandem_bir::diag::exit_code;
use tandem_klr::lower::{LowerOptions, lower};

fn container(name: &str, debug: bool) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let file = tandem_klr::read_path(&folder.join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder.join(f));
    let mut p = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program.expect("lowers");
    let opts = tandem_backend::PassOptions::for_program(&p);
    assert!(!tandem_backend::lower(&mut p, &opts).failed);
    let (l, _) = link(&p, LinkOptions::default()).expect("links");
    encode(&l, WriteOptions { debug, ..WriteOptions::default() }).expect("encodes").0
}

const SWAP: &str = "01_sendrecv_swap_f32_128x64.klr";

#[test]
fn every_truncation_is_refused_with_an_offset() {
    let b = container(SWAP, true);
    for n in (0..b.len()).step_by(7).chain([b.len() - 1]) {
        let e = decode(&b[..n]).expect_err("truncated");
        assert!(e.sites.iter().any(|s| s.offset.is_some()), "{n}: {}", e.message);
        assert_eq!(exit_code(&[e]), 2, "{n}");
    }
    let mut longer = b.clone();
    longer.push(0);
    assert!(decode(&longer).is_err());
}

/// Written in pieces or at once, a disassembly is the same.
#[test]
fn a_disassembly_in_pieces_is_the_whole() {
    for name in [SWAP, "18_loop_cmpbranch_f32.klr", "09_all_gather_hbm_dim0_f32.klr"] {
        for debug in [true, false] {
            let c = read_sections(&container(name, debug)).expect("reads");
            let mut v = to_json(&c);
            let more = serde_json::json!([{"code": "X"}]);
            v.as_object_mut().expect("an object").insert("diagnostics".into(), more.clone());
            let mut text = String::new();
            write_json(&c, &[("diagnostics", more)], &mut |piece| text.push_str(piece));
            assert_eq!(text, serde_json::to_string_pretty(&v).expect("text"), "{name}");
            assert_eq!(check(&container(name, debug)).expect("sound"), c.num_bundles());
        }
    }
}

#[test]
fn every_flipped_byte_is_refused() {
    let b = container(SWAP, true);
    for k in 0..b.len() {
        let mut x = b.clone();
        x[k] ^= 0x21;
        let e = decode(&x).expect_err("flipped");
        assert!(e.sites.iter().any(|s| s.offset.is_some()), "byte {k}: {}", e.message);
    }
}

/// Flips each byte of each stream record and recomputes the checksums.
#[test]
fn mutated_bundles_are_refused_or_change_the_program() {
    let mut counts: BTreeMap<u8, [usize; 2]> = BTreeMap::new();
    for name in [
        SWAP,
        "02_sendrecv_swap_bf16_128x4096.klr",
        "18_loop_cmpbranch_f32.klr",
        "04_partial_sumsq_exchange_f32.klr",
    ] {
        let b = container(name, false);
        let original = decode(&b).expect("reads");
        let c = read_sections(&b).expect("sections");
        for (k, s) in c.sections.iter().enumerate().filter(|(_, s)| s.kind == Kind::Stream) {
            for at in 0..s.bytes.len() {
                let mut sections = c.sections.clone();
                sections[k].bytes[at] ^= 0x04;
                let x = assemble(c.arch as u16, c.cores, c.flags, &mut sections);
                let opcode = s.bytes[at / 64 * 64];
                let n = counts.entry(opcode).or_default();
                match decode(&x) {
                    Err(e) => {
                        assert!(e.sites.iter().any(|s| s.offset.is_some()), "{}", e.message);
                        n[0] += 1;
                    }
                    Ok(p) => {
                        assert!(
                            p.program != original.program
                                || p.cores[0].streams != original.cores[0].streams
                                || p.cores.last().map(|c| &c.streams)
                                    != original.cores.last().map(|c| &c.streams),
                            "{name}: byte {at:#x} of {} changes nothing",
                            opcodes::name(opcode)
                        );
                        n[1] += 1;
                    }
                }
            }
        }
    }
    let table: Vec<String> = counts
        .iter()
        .map(|(o, [r, c])| format!("{o:02X} {}: {r} refused, {c} another program", opcodes::name(*o)))
        .collect();
    println!("{}", table.join("\n"));
    assert!(counts.contains_key(&0xBF) && counts.contains_key(&0xD4) && counts.contains_key(&0xA9));
    let (refused, other) = counts.values().fold((0, 0), |(r, c), n| (r + n[0], c + n[1]));
    assert!(refused > other, "{refused} refused, {other} another program");
}

#[test]
fn disassembly_explains_every_byte_of_the_samples() {
    for name in [SWAP, "17_many_ops_single_body.klr", "18_loop_cmpbranch_f32.klr"] {
        let b = container(name, true);
        let c = read_sections(&b).expect("sections");
        let text = disasm(&c);
        assert!(!text.contains("reserved:") && !text.contains("(no instruction)"), "{name}\n{text}");
        assert_eq!(
            text.lines().filter(|l| l.starts_with("core ")).count(),
            c.sections.iter().filter(|s| s.kind == Kind::Stream).count()
        );
        let i = info(&c);
        assert_eq!(i["bundles"].as_u64(), Some(c.num_bundles() as u64));
    }
    let text = disasm(&read_sections(&container(SWAP, true)).expect("sections"));
    assert!(text.contains("BF Sb2sbCollective") && text.contains("num_active_channels"));
}

/// The list of our own layouts is the one the rationale gives.
#[test]
fn own_layouts_are_listed_in_the_rationale() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/rationale/020-record-layouts.md");
    let page = std::fs::read_to_string(page).expect("page");
    for (b, name, _) in own_layouts() {
        assert!(page.contains(&format!("0x{b:02X}")), "{name} ({b:#04x}) is not on the page");
    }
}
