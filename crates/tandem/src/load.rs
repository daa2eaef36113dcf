//! Reading any input: the kind of a file is recognised by its content, never by its name.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use tandem_backend::container;
use tandem_backend::link::LinkedProgram;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Program, fs, json, text};
use tandem_klr::{FileKind, ReadOutcome};

/// What an input turned out to be.
#[derive(Debug)]
pub enum Input {
    /// A traced kernel, and the folder its constants lie in.
    Klr(Box<ReadOutcome>, PathBuf),
    /// A program in BIR.
    Bir(Box<Program>, BirForm),
    /// A container of bundles: its bytes, checked and decoded.
    Container(Vec<u8>, Box<LinkedProgram>),
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
    if path.is_dir() {
        return fs::read_dir(path).map(|p| Input::Bir(Box::new(p), BirForm::Folder));
    }
    parse(bytes(path)?, path)
}

/// An input that is looked at and not run.
#[derive(Debug)]
pub enum ToShow {
    /// A container: its bytes, checked. Its program is not built.
    Container(Vec<u8>),
    /// Anything else.
    Other(Input),
}

/// Reads as [`load`] does, without the program of a container.
///
/// # Errors
/// Those of [`load`].
pub fn load_to_show(path: &Path) -> Result<ToShow, Vec<Diagnostic>> {
    if path.is_dir() {
        return load(path).map(ToShow::Other);
    }
    let bytes = bytes(path)?;
    if container::is_container(&bytes) {
        container::check(&bytes).map_err(|d| vec![d])?;
        return Ok(ToShow::Container(bytes));
    }
    parse(bytes, path).map(ToShow::Other)
}

/// The bytes of a file or of standard input (`-`).
///
/// # Errors
/// One finding for a file that cannot be opened (U0002).
pub fn bytes(path: &Path) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let bytes = if path.as_os_str() == "-" {
        let mut v = Vec::new();
        std::io::stdin().lock().read_to_end(&mut v).map(|_| v)
    } else {
        std::fs::read(path)
    };
    bytes.map_err(|e| {
        vec![
            Diagnostic::new(codes::U0002, format!("cannot read {}: {e}", path.display()))
                .note("the vendor's text for a missing kernel file is `fail to locate KLIR artifact`"),
        ]
    })
}

/// Reads what a file holds; constants lie beside `path`.
///
/// # Errors
/// What the reader of its kind says.
pub fn parse(bytes: Vec<u8>, path: &Path) -> Result<Input, Vec<Diagnostic>> {
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    if container::is_container(&bytes) {
        let p = container::decode(&bytes).map_err(|d| vec![d])?;
        return Ok(Input::Container(bytes, Box::new(p)));
    }
    let Some(form) = bir_form(&bytes) else {
        // The KLR reader names what it found instead of a kernel.
        let outcome = tandem_klr::read(&bytes).map_err(|e| vec![e.into()])?;
        return Ok(Input::Klr(Box::new(outcome), folder));
    };
    let mut p = fs::read_bytes(&bytes, &path.display().to_string())?;
    fs::load_constants(&mut p, &folder);
    Ok(Input::Bir(Box::new(p), form))
}

/// JSON and textual BIR are known by their beginning; everything else is the KLR reader's to judge.
fn bir_form(bytes: &[u8]) -> Option<BirForm> {
    let kind = tandem_klr::sniff(bytes);
    if kind == FileKind::Klr || (kind == FileKind::LeanText && !opens_json(bytes)) {
        None
    } else if json::looks_like_json(bytes) {
        Some(BirForm::Json)
    } else if text::looks_like_text(bytes) {
        Some(BirForm::Text)
    } else {
        None
    }
}

/// The first bracket is followed by what JSON has there; the value syntax of older KLR has a bare name.
fn opens_json(bytes: &[u8]) -> bool {
    let inside = bytes.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
    matches!(inside.first(), Some(b'"' | b'{' | b'}' | b'[' | b']'))
}

/// Reads a file by a name that an input gave: relative, inside the input's folder.
///
/// # Errors
/// Absolute names and names with `..` are refused; otherwise what the file system says.
pub fn read_relative(folder: &Path, name: &str) -> std::io::Result<Vec<u8>> {
    let p = Path::new(name);
    let plain =
        p.components().all(|c| matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if !plain {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "the name leads out of the input's folder",
        ));
    }
    std::fs::read(folder.join(p))
}
