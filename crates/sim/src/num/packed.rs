//! The read-modify-write core: what an accumulating write does to one element.
//!
//! Source: the specification, file 09 §3.6. Used by accumulating DMA and scatter; PSUM accumulation is fp32 addition of the
//! matrix product and lives with it.

use super::convert::{self, Rules};
use super::fp8::Overflow;
use super::round;
use crate::numeric_profile::NumericProfile;
use tandem_bir::Dtype;

/// Operation of an accumulating write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmwOp {
    /// Overwrite.
    Copy,
    /// Add.
    Add,
    /// Smaller; a NaN or tie keeps what is there.
    Min,
    /// Larger; a NaN or tie keeps what is there.
    Max,
}

/// What the destination type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmwClass {
    /// Wrapping integers.
    Integer,
    /// fp32.
    Float,
    /// Through fp32 and back.
    Narrow,
    /// Through fp32 and back; overflow is a profile's choice.
    Fp8,
    /// Only [`RmwOp::Copy`].
    CopyOnly,
}

/// Class of a destination type.
pub const fn class(dtype: Dtype) -> RmwClass {
    match dtype {
        Dtype::Int32 | Dtype::Int64 => RmwClass::Integer,
        Dtype::Float32 => RmwClass::Float,
        Dtype::Bfloat16 | Dtype::Float16 => RmwClass::Narrow,
        Dtype::Float8E3 | Dtype::Float8E4 | Dtype::Float8E5 => RmwClass::Fp8,
        Dtype::Float4E2m1FnX4
        | Dtype::Float8E4m3Fn
        | Dtype::Float8E8m0Fnu
        | Dtype::Float8E4m3FnX4
        | Dtype::Float8E5m2X4
        | Dtype::Uint16
        | Dtype::Int16
        | Dtype::Uint32
        | Dtype::Float32r
        | Dtype::Uint64
        | Dtype::Uint8
        | Dtype::Int8 => RmwClass::CopyOnly,
    }
}

/// `acc[i] = op(acc[i], x[i])` on packed elements of one type. Returns false when the type only copies (the caller's
/// fault: it checks [`class`] first to name the type).
#[must_use]
pub fn accumulate(dtype: Dtype, op: RmwOp, acc: &mut [u8], x: &[u8], profile: &NumericProfile) -> bool {
    if op == RmwOp::Copy {
        let n = acc.len().min(x.len());
        acc[..n].copy_from_slice(&x[..n]);
        return true;
    }
    let float = |a: f32, x: f32| match op {
        RmwOp::Copy => x,
        RmwOp::Add => round::canonical(a + x),
        RmwOp::Max => {
            if x > a {
                x
            } else {
                a
            }
        }
        RmwOp::Min => {
            if x < a {
                x
            } else {
                a
            }
        }
    };
    let int = |a: i64, x: i64| match op {
        RmwOp::Copy => x,
        RmwOp::Add => a.wrapping_add(x),
        RmwOp::Max => a.max(x),
        RmwOp::Min => a.min(x),
    };
    match class(dtype) {
        RmwClass::CopyOnly => false,
        RmwClass::Integer if dtype == Dtype::Int32 => {
            for (a, x) in acc.as_chunks_mut::<4>().0.iter_mut().zip(x.as_chunks::<4>().0) {
                let r = int(i64::from(i32::from_le_bytes(*a)), i64::from(i32::from_le_bytes(*x)));
                *a = (r as i32).to_le_bytes();
            }
            true
        }
        RmwClass::Integer => {
            for (a, x) in acc.as_chunks_mut::<8>().0.iter_mut().zip(x.as_chunks::<8>().0) {
                *a = int(i64::from_le_bytes(*a), i64::from_le_bytes(*x)).to_le_bytes();
            }
            true
        }
        RmwClass::Float | RmwClass::Narrow | RmwClass::Fp8 => {
            let rules = Rules::of(profile);
            let rules = if class(dtype) == RmwClass::Fp8 && !profile.fp8_accum_saturate {
                Rules { overflow: Overflow::Special, ..rules }
            } else {
                rules
            };
            let n = acc.len() / dtype.bytes() as usize;
            let (mut a, mut b) = (vec![0f32; n], vec![0f32; n]);
            convert::to_f32(dtype, acc, &mut a, rules);
            convert::to_f32(dtype, x, &mut b, rules);
            for (a, b) in a.iter_mut().zip(&b) {
                *a = float(*a, *b);
            }
            convert::from_f32(dtype, &a, acc, rules);
            true
        }
    }
}
