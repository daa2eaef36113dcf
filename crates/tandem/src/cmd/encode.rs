//! `tandem encode`: to a container of bundles.

use crate::cli::{Bf21, EncodeArgs, Format};
use crate::driver;
use crate::load::load;
use crate::out::{self, Console};
use crate::progress::Passes;
use serde_json::json;
use std::fmt::Write as _;
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::decode::disasm::own_layouts;
use tandem_backend::encode;
use tandem_backend::pass::NoHooks;
use tandem_bir::diag::{exit_code, render};

pub(super) fn run(a: &EncodeArgs, console: &Console) -> u8 {
    if a.explain && a.format == Format::Text {
        console.print(&own_layouts_text());
    }
    console.stage("reading");
    let input = match load(&a.file) {
        Ok(i) => i,
        Err(d) => {
            console.findings(&d, a.format);
            return exit_code(&d);
        }
    };
    let mut none = NoHooks;
    let mut hooks = Passes::new(&console.progress, &mut none);
    let staged = driver::to_bir_from(input, &a.compile, &mut hooks);
    let mut staged = driver::to_lowered_with(staged, &a.compile, &mut hooks);
    console.stage("linking and encoding");
    let linked = driver::link(&mut staged, &a.compile);
    let opts = WriteOptions { bf21: bf21(a.bf21), debug: !a.no_debug };
    let bytes = linked.and_then(|l| driver::encode(&l, opts, &mut staged.diags));
    let (mut bundles, mut written) = (None, None);
    let size = bytes.as_ref().map(Vec::len);
    let say = |text: &str| {
        if a.format == Format::Text {
            console.line(text);
        }
    };
    if let Some(bytes) = bytes {
        match container::read_sections(&bytes) {
            Ok(c) => {
                bundles = Some(c.num_bundles());
                say(&format!("{} bundles, {} bytes", c.num_bundles(), bytes.len()));
            }
            Err(d) => staged.diags.push(d),
        }
        if let Some(path) = &a.output {
            match out::write_file(path, &bytes) {
                Ok(()) => {
                    written = Some(path.display().to_string());
                    say(&format!("wrote {}", path.display()));
                }
                Err(e) => {
                    staged.diags.push(out::cannot_write(path, &e));
                }
            }
        }
    }
    match a.format {
        Format::Text => console.diagnostics(&staged.diags),
        Format::Json => {
            let own = own_layouts()
                .into_iter()
                .map(|(byte, name, why)| json!({"opcode": byte, "name": name, "why": why}));
            let mut v = json!({
                "bundles": bundles, "bytes": size, "written": written,
                "diagnostics": render::list_to_json(&staged.diags),
            });
            if let (true, Some(m)) = (a.explain, v.as_object_mut()) {
                m.insert("own_layouts".into(), own.collect());
            }
            console.json(&v);
        }
    }
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
