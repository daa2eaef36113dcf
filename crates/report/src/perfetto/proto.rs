//! The wire format of protocol buffers, as far as writing needs it.
//!
//! # Source
//! The public encoding of protocol buffers: a field is a varint key `number << 3 | wire type` and its value; wire types 0
//! (varint), 1 (64 bits, little endian) and 2 (length and bytes) are used here. Documented.

/// A message being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

impl Message {
    /// The bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// Nothing written.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Forgets what was written, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
    fn raw(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push((v & 0x7f) as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    /// A `uint64`, `uint32`, `bool`, enum, or non-negative `int64` field.
    pub(crate) fn varint(&mut self, field: u64, v: u64) -> &mut Self {
        self.raw(field << 3 | VARINT);
        self.raw(v);
        self
    }
    /// A `fixed64` field.
    pub(crate) fn fixed64(&mut self, field: u64, v: u64) -> &mut Self {
        self.raw(field << 3 | FIXED64);
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }
    /// A `string` or `bytes` field.
    pub(crate) fn text(&mut self, field: u64, v: &str) -> &mut Self {
        self.blob(field, v.as_bytes())
    }
    /// A field of bytes that are already encoded.
    pub(crate) fn blob(&mut self, field: u64, v: &[u8]) -> &mut Self {
        self.raw(field << 3 | BYTES);
        self.raw(v.len() as u64);
        self.0.extend_from_slice(v);
        self
    }
    /// A field that is a message.
    pub(crate) fn message(&mut self, field: u64, m: &Message) -> &mut Self {
        self.blob(field, &m.0)
    }
    /// Fields that are already encoded.
    pub(crate) fn append(&mut self, m: &Message) -> &mut Self {
        self.0.extend_from_slice(&m.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the format's public description.
    #[test]
    fn encodes_the_documented_examples() {
        let mut m = Message::default();
        m.varint(1, 150);
        assert_eq!(m.bytes(), [0x08, 0x96, 0x01]);
        let mut t = Message::default();
        t.text(2, "testing");
        assert_eq!(t.bytes(), [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let mut n = Message::default();
        n.message(3, &m);
        assert_eq!(n.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn encodes_the_largest_numbers() {
        let mut m = Message::default();
        m.varint(1, u64::MAX).fixed64(2, 1);
        assert_eq!(m.bytes()[1..11], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(m.bytes()[11..], [0x11, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
