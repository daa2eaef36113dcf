//! `tandem disasm`: every bundle of a container explained.

use crate::cli::DisasmArgs;
use crate::driver;
use crate::load::{Input, load};
use crate::out::{self, Console};
use tandem_backend::container::{self, WriteOptions};
use tandem_backend::decode::disasm;
use tandem_bir::diag::exit_code;

pub(super) fn run(a: &DisasmArgs, console: Console) -> u8 {
    let mut diags = Vec::new();
    let bytes = match load(&a.file) {
        Err(d) => {
            console.diagnostics(&d);
            return exit_code(&d);
        }
        Ok(Input::Container(bytes, _)) => Some(bytes),
        Ok(input) => {
            let mut staged = driver::to_lowered(driver::to_bir(&input, &a.compile), &a.compile);
            let linked = driver::link(&mut staged, &a.compile);
            diags = staged.diags;
            linked.and_then(|l| driver::encode(&l, WriteOptions::default(), &mut diags))
        }
    };
    if let Some(bytes) = bytes {
        match container::read_sections(&bytes) {
            Ok(c) => out::print(&disasm::disasm(&c)),
            Err(d) => diags.push(d),
        }
    }
    console.diagnostics(&diags);
    exit_code(&diags)
}
