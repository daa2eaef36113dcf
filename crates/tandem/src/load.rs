//! Reading any input: the kind of a file is recognised by its content, never by its name.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Program, json, text};
use tandem_klr::{FileKind, ReadOutcome};

/// What an input turned out to be.
#[derive(Debug)]
pub enum Input {
    /// A traced kernel, and the folder its constants lie in.
    Klr(Box<ReadOutcome>, PathBuf),
    /// A program in BIR.
    Bir(Box<Program>, BirForm),
}

/// Form a BIR program came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BirForm {
    /// Textual BIR.
    Text,
    /// One JSON document.
    Json,
    /// A folder of per-core JSON modules.
    Folder,
}

impl BirForm {
    /// Words for people.
    pub fn describe(self) -> &'static str {
        match self {
            BirForm::Text => "textual BIR",
            BirForm::Json => "BIR JSON",
            BirForm::Folder => "folder of per-core BIR JSON",
        }
    }
}

/// Reads a file, a folder, or standard input (`-`).
///
/// # Errors
/// One finding for a file that cannot be opened (U0002), or what the reader of its kind says.
pub fn load(path: &Path) -> Result<Input, Vec<Diagnostic>> {
    let cannot = |e: std::io::Error| {
        vec![
            Diagnostic::new(codes::U0002, format!("cannot read {}: {e}", path.display()))
                .note("the vendor's text for a missing kernel file is `fail to locate KLIR artifact`"),
        ]
    };
    if path.is_dir() {
        return json::read_dir(path).map(|p| Input::Bir(Box::new(p), BirForm::Folder));
    }
    let bytes = if path.as_os_str() == "-" {
        let mut v = Vec::new();
        std::io::stdin().lock().read_to_end(&mut v).map_err(cannot)?;
        v
    } else {
        std::fs::read(path).map_err(cannot)?
    };
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    match classify(&bytes) {
        Kind::Klr => tandem_klr::read(&bytes)
            .map(|o| Input::Klr(Box::new(o), folder))
            .map_err(|e| vec![e.into()]),
        Kind::Json => {
            let mut p = json::read_document(&bytes, &name)?;
            load_constants(&mut p, &folder)?;
            Ok(Input::Bir(Box::new(p), BirForm::Json))
        }
        Kind::Text => {
            let source = std::str::from_utf8(&bytes)
                .map_err(|e| vec![not_utf8(&name, e.valid_up_to())])?;
            let mut p = text::parse_with(source, &text::ParseOptions { file: &name, own_positions: true })?;
            load_constants(&mut p, &folder)?;
            Ok(Input::Bir(Box::new(p), BirForm::Text))
        }
    }
}

fn not_utf8(name: &str, at: usize) -> Diagnostic {
    Diagnostic::new(codes::P0101, format!("{name} is not UTF-8 at byte {at}"))
}

enum Kind {
    Klr,
    Json,
    Text,
}

/// CBOR magic or any other binary goes to the KLR reader (it names what it found); `{` or `[` first is JSON; the rest
/// that begins with printable text is textual BIR.
fn classify(bytes: &[u8]) -> Kind {
    if tandem_klr::sniff(bytes) == FileKind::Klr {
        return Kind::Klr;
    }
    match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{' | b'[') => Kind::Json,
        Some(b) if b.is_ascii_graphic() => Kind::Text,
        _ => Kind::Klr,
    }
}

/// Loads the payload of every constant the program names but does not carry.
fn load_constants(p: &mut Program, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    let mut wanted = Vec::new();
    for m in &p.modules {
        for set in m.sets.values() {
            if let Some(f) = &set.file
                && !f.is_empty()
                && !p.constants.contains_key(f.as_str())
                && !wanted.contains(f)
            {
                wanted.push(f.clone());
            }
        }
    }
    let mut diags = Vec::new();
    for f in wanted {
        match read_relative(folder, &f) {
            Ok(bytes) => {
                p.constants.insert(f.to_string(), bytes.into());
            }
            Err(e) => diags.push(Diagnostic::new(codes::U0002, format!("cannot read constant {f}: {e}"))),
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// Reads a file by a name that an input gave: relative, inside the input's folder.
///
/// # Errors
/// Absolute names and names with `..` are refused; otherwise what the file system says.
pub fn read_relative(folder: &Path, name: &str) -> std::io::Result<Vec<u8>> {
    let p = Path::new(name);
    let plain = p.components().all(|c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if !plain {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the name leads out of the input's folder"));
    }
    std::fs::read(folder.join(p))
}

