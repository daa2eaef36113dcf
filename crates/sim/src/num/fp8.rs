//! Eight-bit and four-bit float formats: one description, one decoder, one encoder.
//!
//! Source: the specification, file 09 §3.1 and §3.3.

use crate::numeric_profile::Fp8Tiny;
use tandem_bir::Dtype;

/// What a value beyond the largest finite one becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The largest finite value (the default of the conversion configuration word).
    Saturate,
    /// Infinity, or NaN where the format has none.
    Special,
}

/// A format of at most eight bits: sign, exponent, mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFloat {
    /// Width in bits, sign included.
    pub bits: u32,
    /// Explicit mantissa bits.
    pub mant: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Largest finite code without sign.
    pub max_code: u8,
    /// Code an overflow gives when it does not saturate.
    pub overflow: u8,
    /// Code of the canonical NaN (0: the format has none, NaN becomes zero).
    pub nan: u8,
    /// Exponent field of all ones means infinity and NaN.
    pub ieee: bool,
    /// The rule for values below the smallest subnormal is a profile's choice (documented for e4m3fn and e5m2 only).
    pub tiny_is_choice: bool,
}

/// float8e3 (e3m4). Codes of infinity and NaN are inferred (IEEE-like layout).
pub const E3M4: SmallFloat = SmallFloat {
    bits: 8,
    mant: 4,
    bias: 3,
    max_code: 0x6F,
    overflow: 0x70,
    nan: 0x78,
    ieee: true,
    tiny_is_choice: false,
};
/// float8e4 (e4m3, the older one with infinity, largest value 240). Codes of infinity and NaN are inferred.
pub const E4M3: SmallFloat = SmallFloat {
    bits: 8,
    mant: 3,
    bias: 7,
    max_code: 0x77,
    overflow: 0x78,
    nan: 0x7C,
    ieee: true,
    tiny_is_choice: false,
};
/// float8_e4m3fn: no infinity, NaN 0x7F and 0xFF, largest value 448.
pub const E4M3FN: SmallFloat = SmallFloat {
    bits: 8,
    mant: 3,
    bias: 7,
    max_code: 0x7E,
    overflow: 0x7F,
    nan: 0x7F,
    ieee: false,
    tiny_is_choice: true,
};
/// float8e5 (e5m2), largest value 57344.
pub const E5M2: SmallFloat = SmallFloat {
    bits: 8,
    mant: 2,
    bias: 15,
    max_code: 0x7B,
    overflow: 0x7C,
    nan: 0x7E,
    ieee: true,
    tiny_is_choice: true,
};
/// float4_e2m1fn: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6}; no infinity, no NaN.
pub const E2M1: SmallFloat = SmallFloat {
    bits: 4,
    mant: 1,
    bias: 1,
    max_code: 0x7,
    overflow: 0x7,
    nan: 0x0,
    ieee: false,
    tiny_is_choice: false,
};

impl SmallFloat {
    /// The format of one element of a dtype, if it is one of these.
    pub const fn of(dtype: Dtype) -> Option<SmallFloat> {
        Some(match dtype {
            Dtype::Float8E3 => E3M4,
            Dtype::Float8E4 => E4M3,
            Dtype::Float8E4m3Fn | Dtype::Float8E4m3FnX4 => E4M3FN,
            Dtype::Float8E5 | Dtype::Float8E5m2X4 => E5M2,
            Dtype::Float4E2m1FnX4 => E2M1,
            Dtype::Uint8
            | Dtype::Int8
            | Dtype::Float8E8m0Fnu
            | Dtype::Uint16
            | Dtype::Int16
            | Dtype::Bfloat16
            | Dtype::Float16
            | Dtype::Uint32
            | Dtype::Int32
            | Dtype::Float32
            | Dtype::Float32r
            | Dtype::Uint64
            | Dtype::Int64 => return None,
        })
    }

    /// Exact value of a code (the low [`SmallFloat::bits`] count).
    pub const fn decode(&self, code: u8) -> f32 {
        let mag = code & ((1u16 << (self.bits - 1)) - 1) as u8;
        let sign = ((code >> (self.bits - 1)) & 1) as u32;
        let e = (mag >> self.mant) as i32;
        let m = (mag & ((1 << self.mant) - 1)) as u32;
        let ones = (1i32 << (self.bits - 1 - self.mant)) - 1;
        let bits = if self.ieee && e == ones {
            if m == 0 { 0x7F80_0000 } else { 0x7FC0_0000 | m << (23 - self.mant) }
        } else if !self.ieee && self.nan != 0 && mag == self.nan {
            0x7FC0_0000
        } else if e == 0 {
            // m · 2^(1 − bias − mant): small integers and powers of two multiply exactly.
            let scale = f32::from_bits(((128 - self.bias - self.mant as i32) as u32) << 23);
            (m as f32 * scale).to_bits()
        } else {
            ((e + 127 - self.bias) as u32) << 23 | m << (23 - self.mant)
        };
        f32::from_bits(sign << 31 | bits)
    }

    /// Nearest code (ties to even). A rounding that carries past the largest finite value is an overflow.
    #[inline(always)]
    pub const fn encode(&self, x: f32, overflow: Overflow, tiny: Fp8Tiny) -> u8 {
        let bits = x.to_bits();
        let sign = ((bits >> 31) << (self.bits - 1)) as u8;
        let mag = bits & 0x7FFF_FFFF;
        if mag > 0x7F80_0000 {
            return if self.nan == 0 { sign } else { self.nan };
        }
        let e = (mag >> 23) as i32 - 127;
        let emin = 1 - self.bias;
        if e < emin - self.mant as i32 - 1 || mag < 0x0080_0000 {
            return sign;
        }
        if self.tiny_is_choice && matches!(tiny, Fp8Tiny::Flush) && e < emin - self.mant as i32 {
            return sign;
        }
        let sig = (mag & 0x007F_FFFF) | 0x0080_0000;
        let below = if e < emin { (emin - e) as u32 } else { 0 };
        let shift = 23 - self.mant + below;
        let q = (sig >> shift) as i32;
        let rest = sig & ((1u32 << shift) - 1);
        let half = 1u32 << (shift - 1);
        let up = rest > half || (rest == half && q & 1 == 1);
        let base = if e < emin { 0 } else { (e - emin) << self.mant };
        let code = base + q + up as i32;
        if code > self.max_code as i32 {
            return match overflow {
                Overflow::Saturate => sign | self.max_code,
                Overflow::Special if self.overflow == self.nan => self.nan,
                Overflow::Special => sign | self.overflow,
            };
        }
        sign | code as u8
    }

    /// All 256 values, for decoding by look-up.
    pub const fn table(&self) -> [f32; 256] {
        let mut t = [0.0; 256];
        let mut i = 0;
        while i < 256 {
            t[i] = self.decode(i as u8);
            i += 1;
        }
        t
    }
}

/// Values of e3m4 by code.
pub static E3M4_TABLE: [f32; 256] = E3M4.table();
/// Values of e4m3 by code.
pub static E4M3_TABLE: [f32; 256] = E4M3.table();
/// Values of e4m3fn by code.
pub static E4M3FN_TABLE: [f32; 256] = E4M3FN.table();
/// Values of e5m2 by code.
pub static E5M2_TABLE: [f32; 256] = E5M2.table();
/// Values of e2m1 by nibble.
pub static E2M1_TABLE: [f32; 256] = E2M1.table();

/// `2^(s − 127)` of an e8m0 scale; 0xFF is NaN.
pub fn e8m0_to_f32(s: u8) -> f32 {
    match s {
        0xFF => f32::NAN,
        0 => f32::from_bits(1 << 22),
        s => f32::from_bits((s as u32) << 23),
    }
}
