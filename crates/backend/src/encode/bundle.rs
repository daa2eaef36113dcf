//! The 64-byte record and the numbers every record shares: header, little-endian fields.
//!
//! Source: the specification, file 07 §1.1 (documented).

use tandem_bir::diag::Code;

/// Bytes of a record.
pub const BUNDLE_BYTES: usize = 64;
/// Constant of byte 1: the record's length in 32-bit words.
pub const INST_WORD_LEN: u8 = 0x10;

/// One 64-byte record of an engine's stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bundle(pub [u8; BUNDLE_BYTES]);

impl Bundle {
    /// A record of an opcode: header filled, everything else zero.
    pub fn new(opcode: u8) -> Bundle {
        let mut b = [0; BUNDLE_BYTES];
        b[0] = opcode;
        b[1] = INST_WORD_LEN;
        Bundle(b)
    }
    /// Opcode byte.
    #[inline]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }
    /// One byte; 0 beyond the end.
    #[inline]
    pub fn byte(&self, off: u8) -> u8 {
        self.0.get(off as usize).copied().unwrap_or(0)
    }
    /// Little-endian unsigned field of `width` (at most 8) bytes.
    #[inline]
    pub fn get(&self, off: u8, width: u8) -> u64 {
        let at = off as usize;
        match (width, self.0.get(at..)) {
            (1, Some([a, ..])) => u64::from(*a),
            (2, Some([a, b, ..])) => u64::from(u16::from_le_bytes([*a, *b])),
            (4, Some([a, b, c, d, ..])) => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            (8, Some([a, b, c, d, e, f, g, h, ..])) => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
            (_, rest) => {
                let rest = rest.unwrap_or(&[]);
                let list = rest.iter().take(usize::from(width.min(8)));
                list.rev().fold(0u64, |v, b| v << 8 | u64::from(*b))
            }
        }
    }
    /// Little-endian signed field.
    #[inline]
    pub fn get_i(&self, off: u8, width: u8) -> i64 {
        let shift = 64 - 8 * u32::from(width.clamp(1, 8));
        ((self.get(off, width) << shift) as i64) >> shift
    }
    /// Stores the low `width` bytes of `v`. Bytes beyond the record are ignored.
    #[inline]
    pub fn put(&mut self, off: u8, width: u8, v: u64) {
        let at = off as usize;
        let le = v.to_le_bytes();
        match (width, self.0.get_mut(at..)) {
            (1, Some([a, ..])) => *a = le[0],
            (2, Some([a, b, ..])) => (*a, *b) = (le[0], le[1]),
            (4, Some([a, b, c, d, ..])) => (*a, *b, *c, *d) = (le[0], le[1], le[2], le[3]),
            (_, Some(rest)) => {
                rest.iter_mut().zip(le).take(usize::from(width)).for_each(|(b, v)| *b = v);
            }
            (_, None) => {}
        }
    }
    /// Sets bits of a byte.
    #[inline]
    pub fn or(&mut self, off: u8, bits: u8) {
        if let Some(b) = self.0.get_mut(off as usize) {
            *b |= bits;
        }
    }
    /// Sixteen bytes a line, as the specification prints dumps.
    pub fn dump(&self) -> String {
        let mut out = String::with_capacity(64 * 3 + 20);
        for (i, row) in self.0.chunks(16).enumerate() {
            out.push_str(&format!("{:02X}:", i * 16));
            for b in row {
                out.push_str(&format!(" {b:02X}"));
            }
            out.push('\n');
        }
        out
    }
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\n{}", self.dump())
    }
}

/// Why an instruction cannot be encoded or a record not decoded; becomes a diagnostic where the place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Code.
    pub code: Code,
    /// One sentence.
    pub message: String,
}

impl WireError {
    /// An error.
    pub fn new(code: Code, message: impl Into<String>) -> WireError {
        WireError { code, message: message.into() }
    }
}

/// Result of encoding and decoding steps.
pub type WireResult<T> = Result<T, WireError>;
