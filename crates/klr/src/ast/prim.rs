//! Scalars of the tree: names, floats by bits, short pair lists.

use super::tensor::ApPair;
use smallvec::SmallVec;

/// A string of a KLR file. Names up to 24 bytes are stored in place.
pub type Str = compact_str::CompactString;

/// The pairs of an access pattern; up to four are stored in place.
pub type ApList = SmallVec<[ApPair; 4]>;

/// A 32-bit float kept as its bits, so that NaN payloads and the sign of zero survive reading and writing.
///
/// Equality and hashing are by bits: two equal values have equal bytes on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct F32(u32);

impl F32 {
    /// The value with these bits.
    pub const fn from_bits(bits: u32) -> F32 {
        F32(bits)
    }

    /// The bits of the value.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The value as a Rust float.
    pub const fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for F32 {
    fn from(value: f32) -> F32 {
        F32(value.to_bits())
    }
}

impl From<F32> for f32 {
    fn from(value: F32) -> f32 {
        value.get()
    }
}

impl std::fmt::Debug for F32 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Shortest decimal text that reads back to the same bits; a NaN other than the usual one shows its bits.
impl std::fmt::Display for F32 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v = self.get();
        if v.is_nan() && self.0 != f32::NAN.to_bits() {
            write!(f, "nan(0x{:08x})", self.0)
        } else if v.is_nan() {
            f.write_str("nan")
        } else {
            write!(f, "{v:?}")
        }
    }
}
