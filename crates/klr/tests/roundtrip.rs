//! `write(read(f)) == f` byte for byte for every well-formed sample file.

use std::path::{Path, PathBuf};
use tandem_klr::{Contents, error::code, read, write};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

fn samples() -> Vec<(String, Vec<u8>)> {
    let mut list: Vec<_> = std::fs::read_dir(data())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "klr"))
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap()))
        .collect();
    list.sort();
    list
}

#[test]
fn every_well_formed_sample_comes_back_byte_for_byte() {
    let mut compared = 0;
    for (name, bytes) in samples() {
        let outcome = read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let quirk = name.starts_with("q01");
        let codes: Vec<_> = outcome.notes.iter().map(|n| n.code).collect();
        assert_eq!(codes, if quirk { vec![code::PROPOSITION_BYTES] } else { vec![] }, "{name}");
        if !quirk {
            assert_eq!(write(&outcome.file).unwrap(), bytes, "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 25);
}

/// The quirk file is the kernel of file 01 with an empty list per proposition, so it writes as file 01.
#[test]
fn the_quirk_file_is_file_01() {
    let quirk = read(&std::fs::read(data().join("q01_prop_bytes_f32_128x64.klr")).unwrap()).unwrap();
    let plain = std::fs::read(data().join("01_sendrecv_swap_f32_128x64.klr")).unwrap();
    assert_eq!(write(&quirk.file).unwrap(), plain);
    assert!(matches!(quirk.file.contents, Contents::Lnc(_)));
}
