//! The sample kernels link and encode; every stream reads back and encodes to itself.

use std::path::PathBuf;
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{ArchLevel, Program};
use tandem_klr::lower::{LowerOptions, lower};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn lowered(name: &str) -> Program {
    let file = tandem_klr::read_path(&folder().join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder().join(f));
    let l = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load));
    let mut p = l.program.unwrap_or_else(|| panic!("{name}: {}", show(&l.diags)));
    let opts = tandem_backend::PassOptions::for_program(&p);
    let out = tandem_backend::lower(&mut p, &opts);
    assert!(!out.failed, "{name}: {}", show(&out.diags));
    p
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("testdata")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .filter(|n| n.ends_with(".klr"))
        .collect();
    names.sort();
    assert!(names.len() >= 26);
    names
}

#[test]
fn sample_kernels_link_and_encode() {
    let mut bad = Vec::new();
    for name in names() {
        let l = match link(&lowered(&name), LinkOptions::default()) {
            Ok((l, _)) => l,
            Err(e) => {
                bad.push(format!("{name}: {}", show(&e)));
                continue;
            }
        };
        if let Err(e) = encode_streams(&l, EncodeOptions::default()) {
            bad.push(format!("{name}: {}", show(&e)));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn containers_of_the_sample_kernels_read_back() {
    use tandem_backend::container::{WriteOptions, decode, encode};
    let mut bad = Vec::new();
    for name in names() {
        let (l, _) =
            link(&lowered(&name), LinkOptions::default()).unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
        for debug in [true, false] {
            let (bytes, _) = encode(&l, WriteOptions { debug, ..WriteOptions::default() })
                .unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
            let (again, _) = encode(&l, WriteOptions { debug, ..WriteOptions::default() }).unwrap();
            assert!(bytes == again, "{name} is not deterministic");
            if let Err(e) = decode(&bytes) {
                bad.push(format!("{name}, debug {debug}: {}", show(&[e])));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
