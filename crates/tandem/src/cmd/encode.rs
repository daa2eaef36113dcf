//! `tandem encode`: to a container of bundles.

use crate::cli::{Bf21, EncodeArgs};
use crate::driver;
use crate::load::load;
use crate::out::{self, Console};
use std::fmt::Write as _;
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::decode::disasm::own_layouts;
use tandem_backend::encode;
use tandem_bir::diag::{Diagnostic, codes, exit_code};

pub(super) fn run(a: &EncodeArgs, console: Console) -> u8 {
    if a.explain {
        out::print(&own_layouts_text());
    }
    let input = match load(&a.file) {
        Ok(i) => i,
        Err(d) => {
            console.diagnostics(&d);
            return exit_code(&d);
        }
    };
    let mut staged = driver::to_lowered(driver::to_bir(&input, &a.compile), &a.compile);
    let linked = driver::link(&mut staged, &a.compile);
    let opts = WriteOptions { bf21: bf21(a.bf21), debug: !a.no_debug };
    let bytes = linked.and_then(|l| driver::encode(&l, opts, &mut staged.diags));
    if let Some(bytes) = bytes {
        match container::read_sections(&bytes) {
            Ok(c) => console.line(&format!("{} bundles, {} bytes", c.num_bundles(), bytes.len())),
            Err(d) => staged.diags.push(d),
        }
        if let Some(path) = &a.output {
            match out::write_file(path, &bytes) {
                Ok(()) => console.line(&format!("wrote {}", path.display())),
                Err(e) => {
                    let text = format!("cannot write {}: {e}", path.display());
                    staged.diags.push(Diagnostic::new(codes::U0004, text));
                }
            }
        }
    }
    console.diagnostics(&staged.diags);
    exit_code(&staged.diags)
}

/// The encoder's reading of byte +0x21.
pub(super) fn bf21(b: Bf21) -> encode::Bf21 {
    match b {
        Bf21::Count => encode::Bf21::Count,
        Bf21::PeerPartition => encode::Bf21::PeerPartition,
    }
}

fn own_layouts_text() -> String {
    let mut s = String::from("record layouts that are our own (no public field map):\n");
    for (byte, name, why) in own_layouts() {
        let _ = writeln!(s, "  0x{byte:02X} {name}: {why}");
    }
    s
}
