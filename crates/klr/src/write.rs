//! Writes the typed tree as a KLR file.
//!
//! Always the shortest heads, proposition fields without bytes: an unmodified tree gives back the bytes it was read
//! from when those were well formed.

use crate::ast::F32;
use crate::cbor;
use crate::error::{WriteError, code};

/// Which of the two known layouts of four structures a file has (the specification, file 04 §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// `NcDmaCopy` 8, `DmaTranspose` 7, `TensorScalarReduce` 10, `CollectiveOp` 9 fields.
    #[default]
    Current,
    /// `NcDmaCopy` 7, `DmaTranspose` 6, `TensorScalarReduce` 8, `CollectiveOp` 8 fields.
    V2_24,
}

/// Collects the bytes of a file.
#[derive(Debug)]
pub(crate) struct Writer {
    out: Vec<u8>,
    compat: Compat,
    lost: Option<&'static str>,
}

impl Writer {
    pub(crate) fn new(compat: Compat) -> Writer {
        Writer { out: Vec::new(), compat, lost: None }
    }

    /// The bytes, or the first field the layout could not hold.
    pub(crate) fn finish(self) -> Result<Vec<u8>, WriteError> {
        match self.lost {
            None => Ok(self.out),
            Some(field) => Err(WriteError { code: code::NOT_EXPRESSIBLE, field }),
        }
    }

    pub(crate) fn is_2_24(&self) -> bool {
        self.compat == Compat::V2_24
    }

    pub(crate) fn not_expressible(&mut self, field: &'static str) {
        self.lost.get_or_insert(field);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Head of a constructor: type tag, constructor number, field count (at most 23).
    #[inline]
    pub(crate) fn tagged(&mut self, tag: u8, constructor: u8, fields: u8) {
        self.out.extend_from_slice(&[0xd9, tag, constructor, 0x80 | (fields & 0x1f)]);
    }

    /// Head of a structure; `absent` of its fields are not in the 2.24 layout.
    #[inline]
    pub(crate) fn open_struct(&mut self, tag: u8, fields: u8, absent: u8) {
        let fields = if self.is_2_24() { fields.saturating_sub(absent) } else { fields };
        self.tagged(tag, 0, fields);
    }

    #[inline]
    pub(crate) fn nat(&mut self, value: u64) {
        cbor::put_head(&mut self.out, cbor::UNSIGNED, value);
    }

    #[inline]
    pub(crate) fn int(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.nat(value),
            // -1 - value, which is the bitwise complement
            Err(_) => cbor::put_head(&mut self.out, cbor::NEGATIVE, !value as u64),
        }
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.out.push(if value { 0xf5 } else { 0xf4 });
    }

    pub(crate) fn float32(&mut self, value: F32) {
        self.out.push(0xfa);
        self.out.extend_from_slice(&value.to_bits().to_be_bytes());
    }

    #[inline]
    pub(crate) fn text(&mut self, value: &str) {
        cbor::put_head(&mut self.out, cbor::TEXT, value.len() as u64);
        self.out.extend_from_slice(value.as_bytes());
    }

    #[inline]
    pub(crate) fn list(&mut self, count: usize) {
        cbor::put_head(&mut self.out, cbor::LIST, count as u64);
    }
}
