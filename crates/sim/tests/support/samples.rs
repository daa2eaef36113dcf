//! The sample kernels of `testdata/klr`, lowered.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::path::PathBuf;
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{ArchLevel, Level, Program};
use tandem_klr::lower::{LowerOptions, lower};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

/// Findings as text.
pub(crate) fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

/// File names of all sample kernels.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("testdata")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .filter(|n| n.ends_with(".klr"))
        .collect();
    names.sort();
    assert!(names.len() >= 26);
    names
}

/// A sample kernel at a level.
pub(crate) fn kernel(name: &str, level: Level) -> Program {
    let file = tandem_klr::read_path(&folder().join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder().join(f));
    let l = lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load));
    let mut p = l.program.unwrap_or_else(|| panic!("{name}: {}", show(&l.diags)));
    let opts = tandem_backend::PassOptions::for_program(&p);
    let out = match level {
        Level::Bir => tandem_backend::prepare(&mut p, &opts),
        Level::Lowered | Level::Linked => tandem_backend::lower(&mut p, &opts),
    };
    assert!(!out.failed, "{name}: {}", show(&out.diags));
    p
}
