//! `tandem disasm`: every bundle of a container explained.

use crate::cli::{DisasmArgs, Format};
use crate::driver;
use crate::load::{ToShow, load_to_show};
use crate::out::Console;
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::decode::disasm;
use tandem_bir::diag::{exit_code, render};

pub(super) fn run(a: &DisasmArgs, console: &Console) -> u8 {
    let mut diags = Vec::new();
    console.stage("encoding");
    let bytes = match load_to_show(&a.file) {
        Err(d) => {
            console.findings(&d, a.format);
            return exit_code(&d);
        }
        Ok(ToShow::Container(bytes)) => Some(bytes),
        Ok(ToShow::Other(input)) => {
            let mut staged = driver::to_lowered(driver::to_bir(input, &a.compile), &a.compile);
            let linked = driver::link(&mut staged, &a.compile);
            diags = staged.diags;
            linked.and_then(|l| driver::encode(&l, WriteOptions::default(), &mut diags))
        }
    };
    if let Some(bytes) = bytes {
        match container::read_sections(&bytes) {
            Ok(c) if a.format == Format::Json => {
                drop(bytes);
                let findings = render::list_to_json(&diags);
                disasm::write_json(&c, &[("diagnostics", findings)], &mut |text| console.print(text));
                console.print(
                    "
",
                );
                return exit_code(&diags);
            }
            Ok(c) => {
                drop(bytes);
                disasm::write_text(&c, &mut |text| console.print(text));
            }
            Err(d) => diags.push(d),
        }
    }
    console.findings(&diags, a.format);
    exit_code(&diags)
}
