//! Why a statement could not be lowered, before it gets its place.

use tandem_bir::diag::Code;

/// A finding without its place; the walk over the statements adds that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub code: Code,
    pub message: String,
    pub notes: Vec<String>,
    pub help: Option<String>,
}

/// Result of a step of code generation.
pub(crate) type Res<T> = Result<T, Box<Fail>>;

impl Fail {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Box<Fail> {
        Box::new(Fail { code, message: message.into(), notes: Vec::new(), help: None })
    }
    pub(crate) fn note(mut self: Box<Self>, note: impl Into<String>) -> Box<Fail> {
        self.notes.push(note.into());
        self
    }
    pub(crate) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Fail> {
        self.help = Some(help.into());
        self
    }
}
