//! Errors and notes of reading and writing files.
//!
//! A [`ReadError`] names the byte, the path of type and field names down to the value, and what is wrong there. The
//! path is collected while the error unwinds; reading a good file costs nothing for it.

use tandem_bir::diag::{Code, Diagnostic, Site};

/// Codes of KLR files by what they mean (letter `P`, exit 2).
pub mod code {
    use tandem_bir::diag::{Code, codes};

    /// The file cannot be read from disk.
    pub const UNREADABLE: Code = codes::P0001;
    /// The bytes are not a KLR file.
    pub const NOT_KLR: Code = codes::P0002;
    /// The file is a text form of an older KLR (JSON or value syntax).
    pub const TEXT_FORM: Code = codes::P0003;
    /// The header holds another version than 0.0.12.
    pub const WRONG_VERSION: Code = codes::P0004;
    /// The file holds a Python or NKI syntax tree, not a traced kernel.
    pub const NOT_TRACED: Code = codes::P0005;
    /// The file holds a call site (a file name), not a kernel.
    pub const CALL_SITE: Code = codes::P0006;
    /// The layout is that of KLR of September 2025 or before.
    pub const OLDER_LAYOUT: Code = codes::P0007;
    /// The file ends inside a value.
    pub const TRUNCATED: Code = codes::P0008;
    /// A value of another kind than the type demands.
    pub const WRONG_KIND: Code = codes::P0009;
    /// A tagged value of another or an unknown type.
    pub const WRONG_TYPE: Code = codes::P0010;
    /// A constructor number the type does not have.
    pub const UNKNOWN_CONSTRUCTOR: Code = codes::P0011;
    /// Another number of fields than the constructor has.
    pub const FIELD_COUNT: Code = codes::P0012;
    /// A length or count that exceeds the rest of the file.
    pub const LENGTH: Code = codes::P0013;
    /// A string that is not UTF-8.
    pub const UTF8: Code = codes::P0014;
    /// An integer outside the range of its type.
    pub const INT_RANGE: Code = codes::P0015;
    /// Accesses nested deeper than the limit.
    pub const TOO_DEEP: Code = codes::P0016;
    /// A string longer than the limit.
    pub const STRING_LIMIT: Code = codes::P0017;
    /// A tensor that does not fit its address.
    pub const TENSOR_BOUNDS: Code = codes::P0018;
    /// A slice with step 0.
    pub const ZERO_SLICE_STEP: Code = codes::P0019;
    /// A basic access without exactly one index per dimension.
    pub const INDEX_COUNT: Code = codes::P0020;
    /// Proposition fields with and without bytes in one file.
    pub const MIXED_PROPOSITIONS: Code = codes::P0021;
    /// CBOR that KLR never uses (indefinite length, reserved head).
    pub const CBOR_FORM: Code = codes::P0022;
    /// A value the 2.24 layout cannot express (writing).
    pub const NOT_EXPRESSIBLE: Code = codes::P0023;
    /// Warning: bytes after the end of the kernel.
    pub const TRAILING_BYTES: Code = codes::P0050;
    /// Note: proposition fields written as empty lists were accepted.
    pub const PROPOSITION_BYTES: Code = codes::P0051;
    /// Note: a length or integer was written longer than needed.
    pub const LONG_HEAD: Code = codes::P0052;
    /// Note: structures of the 2.24 layout were read.
    pub const LAYOUT_2_24: Code = codes::P0053;
    /// Note: a stored `freeElements` differs from the shape.
    pub const FREE_ELEMENTS: Code = codes::P0054;

    /// Every code above.
    pub const ALL: &[Code] = &[
        UNREADABLE,
        NOT_KLR,
        TEXT_FORM,
        WRONG_VERSION,
        NOT_TRACED,
        CALL_SITE,
        OLDER_LAYOUT,
        TRUNCATED,
        WRONG_KIND,
        WRONG_TYPE,
        UNKNOWN_CONSTRUCTOR,
        FIELD_COUNT,
        LENGTH,
        UTF8,
        INT_RANGE,
        TOO_DEEP,
        STRING_LIMIT,
        TENSOR_BOUNDS,
        ZERO_SLICE_STEP,
        INDEX_COUNT,
        MIXED_PROPOSITIONS,
        CBOR_FORM,
        NOT_EXPRESSIBLE,
        TRAILING_BYTES,
        PROPOSITION_BYTES,
        LONG_HEAD,
        LAYOUT_2_24,
        FREE_ELEMENTS,
    ];
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Diagnostic code, one of [`code`].
    pub code: Code,
    /// Byte offset of the value at fault.
    pub offset: usize,
    /// Path of the value: the type read, then fields, constructors of operators and list indices, as in
    /// `LncKernel.bodies[1][0].body[17].op.sendRecv.dst`. Empty before the contents begin.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// More for the reader of the message, such as the vendor's own text.
    pub note: Option<String>,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: offset {}: ", self.code, self.offset)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for Diagnostic {
    fn from(error: ReadError) -> Diagnostic {
        let ReadError { code, offset, path, message, note } = error;
        let found = Diagnostic::new(code, message).site(place(offset, path));
        match note {
            Some(note) => found.note(note),
            None => found,
        }
    }
}

fn place(offset: usize, path: String) -> Site {
    Site { offset: Some(offset as u64), path, ..Site::default() }
}

/// Something worth saying about a file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadNote {
    /// Diagnostic code, one of [`code`].
    pub code: Code,
    /// Byte offset of the first occurrence.
    pub offset: usize,
    /// What was seen.
    pub message: String,
}

impl std::fmt::Display for ReadNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: offset {}: {}", self.code, self.offset, self.message)
    }
}

impl From<ReadNote> for Diagnostic {
    fn from(note: ReadNote) -> Diagnostic {
        Diagnostic::new(note.code, note.message).site(place(note.offset, String::new()))
    }
}

/// A value the layout asked for cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Diagnostic code, [`code::NOT_EXPRESSIBLE`].
    pub code: Code,
    /// Type and field, as in `NcDmaCopy.priority`.
    pub field: &'static str,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: the 2.24 layout has no field {} and it is not at its default", self.code, self.field)
    }
}

impl std::error::Error for WriteError {}

impl From<WriteError> for Diagnostic {
    fn from(error: WriteError) -> Diagnostic {
        let message = format!("the 2.24 layout has no field {} and it is not at its default", error.field);
        Diagnostic::new(error.code, message)
    }
}

/// One step of a path.
#[derive(Clone, Copy, Debug)]
enum Step {
    Name(&'static str),
    Index(usize),
}

/// An error on its way up: one pointer, so that results stay small.
#[derive(Debug)]
pub(crate) struct Fail(Box<FailData>);

#[derive(Debug)]
struct FailData {
    code: Code,
    offset: usize,
    message: String,
    note: Option<String>,
    /// Steps from the inside out.
    steps: Vec<Step>,
}

impl Fail {
    #[cold]
    pub(crate) fn new(code: Code, offset: usize, message: String) -> Fail {
        Fail(Box::new(FailData { code, offset, message, note: None, steps: Vec::new() }))
    }

    #[cold]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Fail {
        self.0.note = Some(note.into());
        self
    }

    /// Adds the field (or constructor) the error came through.
    #[cold]
    pub(crate) fn field(mut self, name: &'static str) -> Fail {
        self.0.steps.push(Step::Name(name));
        self
    }

    /// Adds the list index the error came through.
    #[cold]
    pub(crate) fn index(mut self, index: usize) -> Fail {
        self.0.steps.push(Step::Index(index));
        self
    }

    /// The finished error.
    #[cold]
    pub(crate) fn finish(self) -> ReadError {
        use std::fmt::Write as _;
        let data = *self.0;
        let mut path = String::new();
        for step in data.steps.iter().rev() {
            match step {
                Step::Name(name) if path.is_empty() => path.push_str(name),
                Step::Name(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        ReadError { code: data.code, offset: data.offset, path, message: data.message, note: data.note }
    }
}
