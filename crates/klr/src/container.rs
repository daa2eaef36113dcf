//! The file around a kernel: header, metadata, contents (the specification, file 02 §1 and §4).
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::ast::{Kernel, LncKernel, Str};
use crate::cbor;
use crate::error::{Fail, ReadError, ReadNote, WriteError, code};
use crate::read::{Limits, Reader};
use crate::wire::Wire;
use crate::write::{Compat, Writer};
use std::borrow::Cow;

/// The first three bytes of every KLR file: the self-described CBOR tag 55799.
pub const MAGIC: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// The only version known; it did not change while the type table did.
pub const VERSION: [u64; 3] = [0, 0, 12];

/// A KLR file that holds a traced kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KlrFile {
    /// Major, minor, patch of the header.
    pub version: [u64; 3],
    /// The metadata text, `NKI` in files of the current tracer; readers ignore it.
    pub format: Str,
    /// The kernel.
    pub contents: Contents,
}

/// What a file holds. The other contents (Python and NKI syntax trees, call sites) are refused when reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A kernel for one core (constructor 2).
    Kernel(Kernel),
    /// A kernel for the cores of an LNC (constructor 3).
    Lnc(LncKernel),
}

impl From<LncKernel> for KlrFile {
    fn from(kernel: LncKernel) -> KlrFile {
        KlrFile { version: VERSION, format: Str::const_new("NKI"), contents: Contents::Lnc(kernel) }
    }
}

impl From<Kernel> for KlrFile {
    fn from(kernel: Kernel) -> KlrFile {
        KlrFile { version: VERSION, format: Str::const_new("NKI"), contents: Contents::Kernel(kernel) }
    }
}

impl Kernel {
    /// The same kernel as an LNC kernel with one body, nothing shared and no edges.
    pub fn into_lnc(self) -> LncKernel {
        let Kernel { name, inputs, outputs, body } = self;
        LncKernel {
            name,
            inputs,
            outputs,
            bodies: vec![body],
            shared_constants: Vec::new(),
            shared_buffers: Vec::new(),
            edges: Vec::new(),
        }
    }
}

impl KlrFile {
    /// The kernel as an LNC kernel; a kernel for one core becomes one body.
    pub fn into_lnc(self) -> LncKernel {
        match self.contents {
            Contents::Kernel(kernel) => kernel.into_lnc(),
            Contents::Lnc(kernel) => kernel,
        }
    }

    /// As [`KlrFile::into_lnc`], without giving up the file.
    pub fn lnc(&self) -> Cow<'_, LncKernel> {
        match &self.contents {
            Contents::Kernel(kernel) => Cow::Owned(kernel.clone().into_lnc()),
            Contents::Lnc(kernel) => Cow::Borrowed(kernel),
        }
    }

    /// Name of the kernel.
    pub fn kernel_name(&self) -> &str {
        match &self.contents {
            Contents::Kernel(kernel) => &kernel.name,
            Contents::Lnc(kernel) => &kernel.name,
        }
    }
}

/// A file that was read, and what was unusual about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// The file.
    pub file: KlrFile,
    /// Notes and warnings, at most one per code.
    pub notes: Vec<ReadNote>,
    /// The layout of the four structures that changed after 2.24.
    pub compat: Compat,
}

/// What a file looks like from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Starts as a KLR file does.
    Klr,
    /// JSON text.
    Json,
    /// The value syntax of an older KLR (`{ name := ...`).
    LeanText,
    /// No bytes at all.
    Empty,
    /// Something else.
    Other,
}

/// Looks at the first bytes of a file; never fails.
pub fn sniff(bytes: &[u8]) -> FileKind {
    if bytes.is_empty() {
        return FileKind::Empty;
    }
    if MAGIC.starts_with(bytes.get(..bytes.len().min(3)).unwrap_or_default()) {
        return FileKind::Klr;
    }
    let start = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    if !matches!(start.first(), Some(b'{' | b'[')) {
        return FileKind::Other;
    }
    let lean = start.windows(2).any(|w| w == b":=");
    if lean { FileKind::LeanText } else { FileKind::Json }
}

/// Reads a KLR file with the default limits.
///
/// # Errors
/// The first thing wrong with the file; see [`code`] for the kinds.
pub fn read(bytes: &[u8]) -> Result<ReadOutcome, ReadError> {
    read_with(bytes, Limits::default())
}

/// Reads a KLR file.
///
/// # Errors
/// The first thing wrong with the file; see [`code`] for the kinds.
pub fn read_with(bytes: &[u8], limits: Limits) -> Result<ReadOutcome, ReadError> {
    let mut r = Reader::new(bytes, limits);
    let file = read_file(&mut r, bytes).map_err(Fail::finish)?;
    let compat = if r.saw_2_24() { Compat::V2_24 } else { Compat::Current };
    Ok(ReadOutcome { file, notes: r.notes(), compat })
}

/// Writes a file in the current layout.
///
/// # Errors
/// None for the current layout.
pub fn write(file: &KlrFile) -> Result<Vec<u8>, WriteError> {
    write_as(file, Compat::Current)
}

/// Writes a file in the layout asked for.
///
/// # Errors
/// [`code::NOT_EXPRESSIBLE`] when a field the 2.24 layout lacks is not at its default.
pub fn write_as(file: &KlrFile, compat: Compat) -> Result<Vec<u8>, WriteError> {
    let mut w = Writer::new(compat);
    w.raw(&MAGIC);
    w.list(3);
    file.version.iter().for_each(|n| w.nat(*n));
    w.tagged(METADATA_TAG, 0, 1);
    w.text(&file.format);
    match &file.contents {
        Contents::Kernel(kernel) => {
            w.tagged(CONTENTS_TAG, 2, 1);
            kernel.write(&mut w);
        }
        Contents::Lnc(kernel) => {
            w.tagged(CONTENTS_TAG, 3, 1);
            kernel.write(&mut w);
        }
    }
    w.finish()
}

const METADATA_TAG: u8 = 235;
const CONTENTS_TAG: u8 = 236;
const CONTENTS_NAMES: [&str; 5] = ["python", "nki", "kernel", "lnc", "hlo"];
/// What the vendor's compiler says to contents that are no LNC kernel.
const VENDOR_CONTENT: &str = "the vendor's compiler says: Wrong KLIR content type";

fn read_file(r: &mut Reader<'_>, bytes: &[u8]) -> Result<KlrFile, Fail> {
    let wrong = |code, text: &str| Err(Fail::new(code, 0, text.to_string()));
    match sniff(bytes) {
        FileKind::Klr => {}
        FileKind::Empty => return wrong(code::TRUNCATED, "the file is empty"),
        FileKind::Json => {
            return wrong(code::TEXT_FORM, "this file is JSON text, not a KLR file (CBOR)").map_err(|e| {
                e.note("older KLR tools printed traced kernels as JSON; it cannot be read back")
            });
        }
        FileKind::LeanText => {
            return wrong(
                code::TEXT_FORM,
                "this file is the text form of an older KLR, not a KLR file (CBOR)",
            );
        }
        FileKind::Other => {
            return wrong(code::NOT_KLR, "not a KLR file: it does not start with the bytes d9 d9 f7");
        }
    }
    let version = read_header(r).map_err(|e| e.field("KLRFile"))?;
    let format = read_metadata(r).map_err(|e| e.field("KLRMetaData"))?;
    let contents = read_contents(r)?;
    Ok(KlrFile { version, format, contents })
}

fn read_header(r: &mut Reader<'_>) -> Result<[u64; 3], Fail> {
    let start = r.offset();
    let head = r.tagged(0xd9, "KLRFile")?;
    if head.constructor != 0xf7 {
        return Err(r.unknown_constructor(&head, "KLRFile", &["KLRFile"]));
    }
    r.fields(&head, "KLRFile", 3)?;
    let mut field = |name| r.nat().map_err(|e| e.field(name));
    let version = [field("major")?, field("minor")?, field("patch")?];
    if version != VERSION {
        let [a, b, c] = version;
        let text = format!("Wrong KLR version {a}.{b}.{c}, expected 0.0.12");
        return Err(Fail::new(code::WRONG_VERSION, start, text));
    }
    Ok(version)
}

fn read_metadata(r: &mut Reader<'_>) -> Result<Str, Fail> {
    r.open_struct(METADATA_TAG, "KLRMetaData", 1, 0)?;
    Str::read(r).map_err(|e| e.field("format"))
}

fn read_contents(r: &mut Reader<'_>) -> Result<Contents, Fail> {
    let head = r.tagged(CONTENTS_TAG, "Contents").map_err(|e| e.field("Contents"))?;
    let at = head.start;
    let refuse = |code, text: String| Err(Fail::new(code, at, text).note(VENDOR_CONTENT).field("Contents"));
    match head.constructor {
        0 => refuse(code::NOT_TRACED, "this file holds a Python AST, not a traced kernel".to_string()),
        1 => refuse(code::NOT_TRACED, "this file holds an NKI AST, not a traced kernel".to_string()),
        2 | 3 => {
            r.fields(&head, if head.constructor == 2 { "kernel" } else { "lnc" }, 1)
                .map_err(|e| e.field("Contents"))?;
            if r.peek().map_err(|e| e.field("Contents"))?.major == cbor::TEXT {
                // July 2025: constructor 2 was the call site
                return refuse(code::CALL_SITE, call_site(r)).map_err(|e| {
                    e.note("written by an older KLR (July 2025), where contents 2 was the call site")
                });
            }
            if head.constructor == 2 {
                Kernel::read(r).map(Contents::Kernel).map_err(|e| e.field("Kernel"))
            } else {
                LncKernel::read(r).map(Contents::Lnc).map_err(|e| e.field("LncKernel"))
            }
        }
        4 => refuse(code::CALL_SITE, call_site(r)),
        _ => Err(r.unknown_constructor(&head, "Contents", &CONTENTS_NAMES).field("Contents")),
    }
}

/// The sentence for a call site, with the file it names when that can be read.
fn call_site(r: &mut Reader<'_>) -> String {
    match r.text() {
        Ok(name) => format!(
            "this file holds a call site (kernel file `{}`), not a traced kernel",
            name.escape_debug()
        ),
        Err(_) => "this file holds a call site, not a traced kernel".to_string(),
    }
}

/// Reads a KLR file from disk with the default limits.
///
/// # Errors
/// [`code::UNREADABLE`] when the file cannot be read, otherwise as [`read`].
pub fn read_path(path: &std::path::Path) -> Result<ReadOutcome, ReadError> {
    let bytes = std::fs::read(path).map_err(|e| ReadError {
        code: code::UNREADABLE,
        offset: 0,
        path: String::new(),
        message: format!("cannot read {}: {e}", path.display()),
        note: Some("the vendor's compiler says: fail to locate KLIR artifact".to_string()),
    })?;
    read(&bytes)
}
