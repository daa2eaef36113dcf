//! Every sample kernel, lowered, survives its text and JSON forms.

use std::path::PathBuf;
use tandem_bir::canon::canonical;
use tandem_bir::diag::LocTable;
use tandem_bir::text::{Constants, PrintOptions, parse, print_with};
use tandem_bir::{ArchLevel, json};
use tandem_klr::lower::{LowerOptions, lower};

#[test]
fn lowered_samples_round_trip_in_both_forms() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let load = |f: &str| std::fs::read(folder.join(f));
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("testdata") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|x| x != "klr") {
            continue;
        }
        let file = tandem_klr::read_path(&path).expect("a kernel").file;
        let Some(program) = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program else {
            continue;
        };
        let p = canonical(&program);
        let text = print_with(&program, PrintOptions { constants: Constants::Inline });
        let back = parse(&text).unwrap_or_else(|e| panic!("{}: {e:#?}", path.display()));
        assert!(back == p, "{}: the text form differs\n{text}", path.display());
        let mut bytes = Vec::new();
        json::write_program(&program, Constants::Inline, &mut bytes).expect("written");
        let mut locs = LocTable::default();
        let parts =
            json::read(&bytes, "x.json", &mut locs).unwrap_or_else(|e| panic!("{}: {e:#?}", path.display()));
        let back = json::assemble(parts, locs).unwrap_or_else(|e| panic!("{}: {e:#?}", path.display()));
        assert_eq!(
            print_with(&back, PrintOptions { constants: Constants::Inline }),
            text,
            "{}",
            path.display()
        );
        assert!(back == p, "{}: the JSON form differs", path.display());
        seen += 1;
    }
    assert!(seen >= 25, "{seen}");
}
