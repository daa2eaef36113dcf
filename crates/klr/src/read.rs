//! The cursor the types of the tree read themselves from.
//!
//! Guarantees: never reads past the input, never allocates from an announced count, bounds recursion by the nesting
//! limit, and checks every head, tag, constructor and count. Each failure names its byte offset.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::ast::{Broken, F32, TensorName};
use crate::cbor::{self, Head, HeadError};
use crate::error::{Fail, ReadNote, code};
use crate::wire::Wire as _;
use std::sync::Arc;

/// Bounds on what is read. The numbers are our choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Levels of accesses inside accesses (scalar and vector offsets).
    pub access_depth: u32,
    /// Bytes of one string; the C readers upstream refuse more than 65536.
    pub string_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { access_depth: 8, string_bytes: 65536 }
    }
}

/// How proposition fields stand in the file at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propositions {
    /// No tensor read yet.
    Unknown,
    /// Zero bytes, as the upstream definitions say.
    Absent,
    /// An empty list each, as the C++ serializer upstream writes them.
    EmptyList,
}

/// Type tag, constructor and field count of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tagged {
    pub(crate) constructor: u8,
    pub(crate) count: u64,
    pub(crate) start: usize,
}

/// Slots of the tensor cache, a power of two.
const TENSOR_SLOTS: usize = 1024;

/// A tensor already read and its bytes.
type Seen<'a> = Option<(&'a [u8], Arc<TensorName>)>;

/// The cursor.
pub(crate) struct Reader<'a> {
    buf: &'a [u8],
    pos: usize,
    depth: u32,
    limits: Limits,
    propositions: Propositions,
    /// Direct-mapped: one comparison per tensor, however the names collide.
    tensors: Vec<Seen<'a>>,
    last_text: Option<Arc<str>>,
    long_head: Option<usize>,
    old_layout: Option<usize>,
    free_elements: Option<(usize, String)>,
    prop_bytes: Option<usize>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(buf: &'a [u8], limits: Limits) -> Reader<'a> {
        Reader {
            buf,
            pos: 0,
            depth: 0,
            limits,
            propositions: Propositions::Unknown,
            tensors: Vec::new(),
            last_text: None,
            long_head: None,
            old_layout: None,
            free_elements: None,
            prop_bytes: None,
        }
    }

    pub(crate) fn offset(&self) -> usize {
        self.pos
    }

    fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.buf.len().saturating_sub(self.pos)
    }

    #[inline]
    fn advance(&mut self, bytes: usize) {
        self.pos = self.pos.saturating_add(bytes).min(self.buf.len());
    }

    /// The head at the cursor, which stays where it is.
    #[inline]
    pub(crate) fn peek(&self) -> Result<Head, Fail> {
        cbor::head(self.buf, self.pos).map_err(|e| self.bad_head(e))
    }

    #[cold]
    fn bad_head(&self, error: HeadError) -> Fail {
        match error {
            HeadError::Truncated => {
                Fail::new(code::TRUNCATED, self.pos, "the file ends inside a value".to_string())
            }
            HeadError::Indefinite => Fail::new(
                code::CBOR_FORM,
                self.pos,
                "indefinite lengths do not occur in KLR files".to_string(),
            ),
            HeadError::Reserved => {
                Fail::new(code::CBOR_FORM, self.pos, "a CBOR head that is reserved".to_string())
            }
        }
    }

    /// Moves behind a head.
    #[inline]
    pub(crate) fn accept(&mut self, head: Head) {
        if head.len > 1 && !head.shortest() {
            self.long_head.get_or_insert(self.pos);
        }
        self.advance(head.len);
    }

    /// "expected X, found Y" at the cursor.
    #[cold]
    pub(crate) fn expected(&self, what: &str) -> Fail {
        if self.remaining() == 0 {
            return Fail::new(
                code::TRUNCATED,
                self.pos,
                format!("expected {what}, found the end of the file"),
            );
        }
        let (error, older) = match cbor::head(self.buf, self.pos) {
            Err(e @ (HeadError::Indefinite | HeadError::Reserved)) => return self.bad_head(e),
            Err(e @ HeadError::Truncated) => return self.bad_head(e),
            Ok(h) if h.major == cbor::TAG => {
                let tag = h.arg >> 8;
                // operators had tag 189, then 202, in September 2025
                let older = matches!(what, "Operator" | "String") && matches!(tag, 189 | 202 | 203);
                (code::WRONG_TYPE, older)
            }
            Ok(_) => (code::WRONG_KIND, false),
        };
        let message = format!("expected {what}, found {}", cbor::describe(self.buf, self.pos));
        if older { older_layout(self.pos, message) } else { Fail::new(error, self.pos, message) }
    }

    #[inline]
    pub(crate) fn nat(&mut self) -> Result<u64, Fail> {
        let head = self.peek()?;
        if head.major != cbor::UNSIGNED {
            return Err(self.expected("Nat"));
        }
        self.accept(head);
        Ok(head.arg)
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Result<i64, Fail> {
        self.signed("Int")
    }

    pub(crate) fn int32(&mut self) -> Result<i32, Fail> {
        let start = self.pos;
        let value = self.signed("Int32")?;
        i32::try_from(value)
            .map_err(|_| Fail::new(code::INT_RANGE, start, format!("{value} is outside the range of Int32")))
    }

    #[inline]
    fn signed(&mut self, what: &'static str) -> Result<i64, Fail> {
        let head = self.peek()?;
        let Ok(magnitude) = i64::try_from(head.arg) else {
            if head.major > cbor::NEGATIVE {
                return Err(self.expected(what));
            }
            let found = cbor::describe(self.buf, self.pos);
            return Err(Fail::new(
                code::INT_RANGE,
                self.pos,
                format!("{found} is outside the range of {what}"),
            ));
        };
        let value = match head.major {
            cbor::UNSIGNED => magnitude,
            cbor::NEGATIVE => !magnitude,
            _ => return Err(self.expected(what)),
        };
        self.accept(head);
        Ok(value)
    }

    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool, Fail> {
        let value = match self.rest().first() {
            Some(0xf4) => false,
            Some(0xf5) => true,
            _ => return Err(self.expected("Bool")),
        };
        self.advance(1);
        Ok(value)
    }

    pub(crate) fn float32(&mut self) -> Result<F32, Fail> {
        let head = self.peek()?;
        match (head.major, head.info, u32::try_from(head.arg)) {
            (cbor::SIMPLE, 26, Ok(bits)) => {
                self.advance(head.len);
                Ok(F32::from_bits(bits))
            }
            _ => Err(self.expected("Float32")),
        }
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, Fail> {
        let start = self.pos;
        let head = self.peek()?;
        if head.major != cbor::TEXT {
            return Err(self.expected("String"));
        }
        let left = self.remaining().saturating_sub(head.len) as u64;
        if head.arg > left {
            return Err(Fail::new(
                code::LENGTH,
                start,
                format!("a string announces {} bytes but only {left} follow", head.arg),
            ));
        }
        if head.arg > self.limits.string_bytes {
            return Err(Fail::new(
                code::STRING_LIMIT,
                start,
                format!("a string of {} bytes exceeds the limit of {}", head.arg, self.limits.string_bytes),
            ));
        }
        self.accept(head);
        let len = usize::try_from(head.arg).unwrap_or(usize::MAX);
        let bytes = self.rest().get(..len).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let at = start.saturating_add(head.len).saturating_add(e.valid_up_to());
            Fail::new(code::UTF8, at, "the string is not UTF-8".to_string())
        })?;
        self.advance(len);
        Ok(text)
    }

    /// A string that is often the same as the last one (file names).
    pub(crate) fn shared_text(&mut self) -> Result<Arc<str>, Fail> {
        let text = self.text()?;
        match &self.last_text {
            Some(last) if **last == *text => Ok(last.clone()),
            _ => {
                let fresh: Arc<str> = text.into();
                self.last_text = Some(fresh.clone());
                Ok(fresh)
            }
        }
    }

    /// A tensor; equal bytes give the same value.
    pub(crate) fn shared_tensor(&mut self) -> Result<Arc<TensorName>, Fail> {
        let start = self.pos;
        let slot = self.tensor_slot();
        if let Some(Some((bytes, tensor))) = self.tensors.get(slot)
            && self.rest().starts_with(bytes)
        {
            let (len, tensor) = (bytes.len(), tensor.clone());
            self.advance(len);
            return Ok(tensor);
        }
        let tensor = TensorName::read(self)?;
        if tensor.shape.free_elements() != Some(tensor.free_elements) && self.free_elements.is_none() {
            self.free_elements = Some((
                start,
                format!(
                    "tensor `{}` stores freeElements {}, its shape says otherwise",
                    tensor.name, tensor.free_elements
                ),
            ));
        }
        let tensor = Arc::new(tensor);
        if self.tensors.is_empty() {
            self.tensors.resize(TENSOR_SLOTS, None);
        }
        if let (Some(place), Some(bytes)) = (self.tensors.get_mut(slot), self.buf.get(start..self.pos)) {
            *place = Some((bytes, tensor.clone()));
        }
        Ok(tensor)
    }

    /// Cache slot of the tensor at the cursor, from its name (the string right behind the four bytes of its head).
    fn tensor_slot(&self) -> usize {
        let rest = self.rest().get(4..).unwrap_or_default();
        let len = match rest.first() {
            Some(b @ 0x60..=0x77) => usize::from(b & 0x1f),
            _ => 40,
        };
        let name = rest.get(..len.saturating_add(1)).unwrap_or(rest);
        let mut hash = 0u64;
        for chunk in name.chunks(8) {
            let mut word = [0u8; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (hash >> 40) as usize & (TENSOR_SLOTS.saturating_sub(1))
    }

    /// Head of a list; the elements follow. Each needs at least a byte, so no count exceeds the rest of the file.
    #[inline]
    pub(crate) fn list(&mut self) -> Result<usize, Fail> {
        let head = self.peek()?;
        if head.major != cbor::LIST {
            return Err(self.expected("List"));
        }
        let left = self.remaining().saturating_sub(head.len);
        match usize::try_from(head.arg) {
            Ok(count) if count <= left => {
                self.accept(head);
                Ok(count)
            }
            _ => Err(Fail::new(
                code::LENGTH,
                self.pos,
                format!("a list announces {} elements but only {left} bytes follow", head.arg),
            )),
        }
    }

    /// Head of an option: whether a value follows.
    #[inline]
    pub(crate) fn option(&mut self) -> Result<bool, Fail> {
        match self.rest() {
            [0xd9, 0xff, 0x00, 0x80, ..] => {
                self.advance(4);
                return Ok(false);
            }
            [0xd9, 0xff, 0x01, 0x81, ..] => {
                self.advance(4);
                return Ok(true);
            }
            _ => {}
        }
        let head = self.tagged(255, "Option")?;
        match head.constructor {
            0 => self.fields(&head, "none", 0).map(|()| false),
            1 => self.fields(&head, "some", 1).map(|()| true),
            _ => Err(self.unknown_constructor(&head, "Option", &["none", "some"])),
        }
    }

    /// Head of a value of type `tag`.
    #[inline]
    pub(crate) fn tagged(&mut self, tag: u8, name: &'static str) -> Result<Tagged, Fail> {
        let start = self.pos;
        if let [0xd9, t, constructor, count @ 0x80..=0x97, ..] = *self.rest()
            && t == tag
        {
            self.advance(4);
            return Ok(Tagged { constructor, count: u64::from(count & 0x1f), start });
        }
        self.tagged_slowly(tag, name)
    }

    #[cold]
    fn tagged_slowly(&mut self, tag: u8, name: &'static str) -> Result<Tagged, Fail> {
        let start = self.pos;
        let head = match cbor::head(self.buf, self.pos) {
            Ok(head) if head.major == cbor::TAG && head.arg >> 8 == u64::from(tag) => head,
            _ => return Err(self.expected(name)),
        };
        self.accept(head);
        let fields = self.peek()?;
        if fields.major != cbor::LIST {
            return Err(self.expected("the field count"));
        }
        self.accept(fields);
        Ok(Tagged { constructor: (head.arg & 0xff) as u8, count: fields.arg, start })
    }

    /// Head of a structure with `count` fields, of which the 2.24 layout lacks `absent`: whether it is of that
    /// layout.
    #[inline]
    pub(crate) fn open_struct(
        &mut self,
        tag: u8,
        name: &'static str,
        count: u8,
        absent: u8,
    ) -> Result<bool, Fail> {
        let head = self.tagged(tag, name)?;
        if head.constructor == 0 && head.count == u64::from(count) {
            return Ok(false);
        }
        self.open_struct_slowly(&head, name, count, absent)
    }

    #[cold]
    fn open_struct_slowly(
        &mut self,
        head: &Tagged,
        name: &'static str,
        count: u8,
        absent: u8,
    ) -> Result<bool, Fail> {
        if head.constructor != 0 {
            return Err(self.unknown_constructor(head, name, &[name]));
        }
        let old = count.saturating_sub(absent);
        if absent > 0 && head.count == u64::from(old) {
            self.old_layout.get_or_insert(head.start);
            return Ok(true);
        }
        let known =
            if absent > 0 { format!("{count} (or {old} in the 2.24 layout)") } else { count.to_string() };
        let message = format!("{name} has {known} fields, the file announces {}", head.count);
        // counts of September 2025: no sharedBuffers, noReorder, dtypeOverride, addressRotation, isShared, offset
        Err(match (name, head.count) {
            ("LncKernel", 6)
            | ("Block", 2)
            | ("BirAccessPattern", 6)
            | ("TensorName", 7)
            | ("Address", 6)
            | ("APPair", 2) => older_layout(head.start, message),
            _ => Fail::new(code::FIELD_COUNT, head.start, message),
        })
    }

    /// Checks the field count of a constructor of a sum.
    #[inline]
    pub(crate) fn fields(&self, head: &Tagged, name: &'static str, count: u8) -> Result<(), Fail> {
        if head.count == u64::from(count) { Ok(()) } else { Err(self.wrong_fields(head, name, count)) }
    }

    #[cold]
    fn wrong_fields(&self, head: &Tagged, name: &'static str, count: u8) -> Fail {
        let message = format!("constructor {name} has {count} fields, the file announces {}", head.count);
        Fail::new(code::FIELD_COUNT, head.start, message)
    }

    #[cold]
    pub(crate) fn unknown_constructor(&self, head: &Tagged, name: &'static str, known: &[&str]) -> Fail {
        let message = format!("{name} has no constructor {} (it has {})", head.constructor, known.len());
        Fail::new(code::UNKNOWN_CONSTRUCTOR, head.start, message)
    }

    /// A proposition field: no bytes, or an empty list in files of the C++ serializer. Which of the two is seen at
    /// the first proposition of the file, where a Bool must follow, and holds for the whole file.
    #[inline]
    pub(crate) fn prop(&mut self, name: &'static str) -> Result<(), Fail> {
        let list = self.rest().first() == Some(&0x80);
        match self.propositions {
            // only in front of a Bool (TensorName) is the byte telling
            Propositions::Absent if !(list && name == "parWF") => Ok(()),
            Propositions::EmptyList if list => {
                self.advance(1);
                Ok(())
            }
            Propositions::Unknown if list => {
                self.propositions = Propositions::EmptyList;
                self.prop_bytes = Some(self.pos);
                self.advance(1);
                Ok(())
            }
            Propositions::Unknown => {
                self.propositions = Propositions::Absent;
                Ok(())
            }
            Propositions::Absent | Propositions::EmptyList => Err(Fail::new(
                code::MIXED_PROPOSITIONS,
                self.pos,
                format!("proposition {name} is written in another way than those before it"),
            )),
        }
    }

    /// A proposition re-checked after reading does not hold.
    #[cold]
    pub(crate) fn violation(&self, start: usize, broken: Broken) -> Fail {
        Fail::new(broken.code, start, broken.message)
    }

    /// Goes one access deeper.
    #[inline]
    pub(crate) fn enter(&mut self) -> Result<(), Fail> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > self.limits.access_depth {
            let message = format!("accesses are nested more than {} deep", self.limits.access_depth);
            return Err(Fail::new(code::TOO_DEEP, self.pos, message));
        }
        Ok(())
    }

    /// Comes back from [`Reader::enter`].
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Whether a structure of the 2.24 layout was seen.
    pub(crate) fn saw_2_24(&self) -> bool {
        self.old_layout.is_some()
    }

    /// What is worth saying about the file, after reading it all.
    pub(crate) fn notes(&self) -> Vec<ReadNote> {
        let mut notes = Vec::new();
        let mut add = |code, offset, message: String| {
            notes.push(ReadNote { code, offset, message });
        };
        if let Some(at) = self.prop_bytes {
            let text =
                "proposition fields are written as empty lists, a known defect of one serializer; accepted";
            add(code::PROPOSITION_BYTES, at, text.to_string());
        }
        if let Some(at) = self.long_head {
            let text = "an integer or length is written longer than needed; writing will shorten it";
            add(code::LONG_HEAD, at, text.to_string());
        }
        if let Some(at) = self.old_layout {
            let text =
                format!("structures of the 2.24 layout (fewer fields, such as {} of 2.24)", "CollectiveOp");
            add(code::LAYOUT_2_24, at, text);
        }
        if let Some((at, text)) = &self.free_elements {
            add(code::FREE_ELEMENTS, *at, text.clone());
        }
        if self.remaining() > 0 {
            add(
                code::TRAILING_BYTES,
                self.pos,
                format!("{} bytes follow the kernel; ignored", self.remaining()),
            );
        }
        notes
    }
}

#[cold]
fn older_layout(offset: usize, message: String) -> Fail {
    let text = "file written by an older KLR (September 2025 or before)".to_string();
    Fail::new(code::OLDER_LAYOUT, offset, text).note(message)
}
