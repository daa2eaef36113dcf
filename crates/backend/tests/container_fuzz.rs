//! Edited containers: raw edits, and edits of single sections under fresh checksums. Nothing panics, nothing takes more memory
//! than the file is long times a small factor, refusals name an offset, and what is accepted writes back to the same bytes.

use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::OnceLock;
use tandem_backend::container::format::{Kind, assemble};
use tandem_backend::container::{WriteOptions, check, decode, encode, info, read_sections, round_trip};
use tandem_backend::decode::disasm::disasm;
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::ArchLevel;
use tandem_klr::lower::{LowerOptions, lower};

fn containers() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
        let mut out = Vec::new();
        for (name, debug) in [
            ("01_sendrecv_swap_f32_128x64.klr", true),
            ("02_sendrecv_swap_bf16_128x4096.klr", false),
            ("18_loop_cmpbranch_f32.klr", true),
            ("17_many_ops_single_body.klr", false),
        ] {
            let file = tandem_klr::read_path(&folder.join(name)).expect(name).file;
            let load = |f: &str| std::fs::read(folder.join(f));
            let mut p = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program.expect("lowers");
            let opts = tandem_backend::PassOptions::for_program(&p);
            assert!(!tandem_backend::lower(&mut p, &opts).failed);
            let (l, _) = link(&p, LinkOptions::default()).expect("links");
            out.push(encode(&l, WriteOptions { debug, ..WriteOptions::default() }).expect("encodes").0);
        }
        out
    })
}

/// Looks at a file in every way there is.
fn look(b: &[u8]) {
    match decode(b) {
        Err(e) => assert!(e.sites.iter().any(|s| s.offset.is_some()), "no offset: {}", e.message),
        Ok(p) => {
            let debug = read_sections(b).expect("reads").flags & 1 != 0;
            let bf21 = tandem_backend::encode::Bf21::Count;
            let again = encode(&p, WriteOptions { debug, bf21 }).map(|x| x.0);
            // the other reading of +0x21 is an option of the file
            assert!(again.is_ok_and(|a| a == b) || b.windows(14).any(|w| w == b"peer-partition"));
        }
    }
    // without the program the verdict is the same
    match (decode(b), check(b)) {
        (Ok(_), Ok(n)) => assert_eq!(n, read_sections(b).expect("reads").num_bundles()),
        (Err(a), Err(b)) => assert_eq!((a.code, a.message, a.sites), (b.code, b.message, b.sites)),
        (a, b) => panic!("decode {:?}, check {b:?}", a.err()),
    }
    match round_trip(b) {
        Err(e) => assert!(e.sites.iter().any(|s| s.offset.is_some()), "no offset: {}", e.message),
        Ok((again, _)) => assert!(again == b),
    }
    if let Ok(c) = read_sections(b) {
        let text = disasm(&c);
        assert!(text.lines().count() >= c.num_bundles());
        let _ = info(&c);
    }
}

/// One edit: kind, place, value.
type Edit = (u8, u32, u8);

fn raw(b: &mut Vec<u8>, (kind, at, v): Edit) {
    let at = at as usize % b.len().max(1);
    match kind % 5 {
        0 if !b.is_empty() => b[at] ^= v | 1,
        1 => b.truncate(at),
        2 => b.insert(at, v),
        3 if !b.is_empty() => {
            b.remove(at);
        }
        _ => b.extend(std::iter::repeat_n(v, 1 + at % 200)),
    }
}

/// Edits one section: JSON digits by digits, so that tables stay tables, anything else by any byte.
fn section(bytes: &mut Vec<u8>, json: bool, (kind, at, v): Edit) {
    if bytes.is_empty() {
        return;
    }
    let at = at as usize % bytes.len();
    match (json, kind % 4) {
        (true, 0..=2) => {
            // the next digit from here
            let n = bytes.len();
            if let Some(k) = (0..n).map(|k| (at + k) % n).find(|k| bytes[*k].is_ascii_digit()) {
                if kind % 4 == 0 {
                    bytes[k] = b'0' + v % 10;
                } else {
                    let more = [b'1' + v % 9, b'0' + v % 7];
                    bytes.splice(
                        k..k + 1,
                        more.into_iter().chain(std::iter::repeat_n(b'9', usize::from(v % 18))),
                    );
                }
            }
        }
        (false, 3) => bytes.truncate(at / 64 * 64),
        (false, 2) => {
            let copy = bytes[at / 64 * 64..].iter().take(64).copied().collect::<Vec<_>>();
            bytes.splice(at / 64 * 64..at / 64 * 64, copy);
        }
        _ => bytes[at] = v,
    }
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn raw_edits(which in 0usize..4, edits in prop::collection::vec(any::<Edit>(), 1..4)) {
        let mut b = containers()[which].clone();
        for e in edits {
            raw(&mut b, e);
        }
        look(&b);
        prop_assert!(peak() < 400 << 20);
    }

    #[test]
    fn edited_sections(which in 0usize..4, pick in any::<u16>(), edits in prop::collection::vec(any::<Edit>(), 1..4)) {
        let c = read_sections(&containers()[which]).expect("reads");
        let mut sections = c.sections.clone();
        let k = pick as usize % sections.len();
        let json = !matches!(sections[k].kind, Kind::Stream | Kind::Const);
        for e in edits {
            section(&mut sections[k].bytes, json, e);
        }
        look(&assemble(c.arch as u16, c.cores, c.flags, &mut sections));
        prop_assert!(peak() < 400 << 20);
    }

    #[test]
    fn edited_headers(which in 0usize..4, at in 8usize..300, value in any::<u64>(), width in 1usize..8) {
        let mut b = containers()[which].clone();
        for (i, x) in value.to_le_bytes().iter().take(width).enumerate() {
            if let Some(y) = b.get_mut(at + i) {
                *y = *x;
            }
        }
        if b != containers()[which] {
            look(&b);
        }
        prop_assert!(peak() < 400 << 20);
    }
}
