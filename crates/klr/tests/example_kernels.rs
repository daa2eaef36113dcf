//! The committed example kernels are what their generator writes, and the reader accepts them.

#[path = "../examples/make_kernels/catalog/mod.rs"]
mod catalog;

use std::path::PathBuf;

#[test]
fn committed_files_are_fresh() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/kernels");
    let files = catalog::files();
    for (name, bytes) in &files {
        let committed = std::fs::read(folder.join(name)).unwrap_or_default();
        assert!(
            committed == *bytes,
            "examples/kernels/{name} is stale: run `cargo run -p tandem-klr --example make_kernels`"
        );
    }
    let mut there: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .collect();
    there.sort();
    let mut made: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
    made.sort();
    assert_eq!(there, made);
}

#[test]
fn kernels_survive_a_round_trip() {
    for entry in catalog::entries() {
        let file = tandem_klr::KlrFile::from(entry.kernel);
        let bytes = tandem_klr::write(&file).expect("written");
        let back = tandem_klr::read(&bytes).unwrap_or_else(|e| panic!("{}: {e:?}", entry.name));
        assert!(back.file == file, "{}", entry.name);
    }
}
