//! Conversion of every element type to and from the fp32 hub.
//!
//! Guarantee: widening is exact for every float format; narrowing rounds once, to nearest even. Integers go through fp32
//! (so above 2^24 they lose bits); a copy between equal types never comes here ([`copies_bits`]).
//! Source: the specification, file 09 §3.2–3.5.

use super::fp8::{self, Overflow, SmallFloat};
use super::round;
use super::simd::{self, Kernel};
use crate::numeric_profile::{Fp4LaneOrder, Fp8Tiny, NumericProfile};
use tandem_bir::Dtype;

/// Rules of a conversion that are not in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// fp8 beyond its largest finite value.
    pub overflow: Overflow,
    /// fp8 below its smallest subnormal.
    pub tiny: Fp8Tiny,
    /// Nibbles of fp4 containers.
    pub fp4: Fp4LaneOrder,
}

impl Rules {
    /// The ordinary conversion under a profile: fp8 saturates.
    pub fn of(p: &NumericProfile) -> Rules {
        Rules { overflow: Overflow::Saturate, tiny: p.fp8_tiny, fp4: p.fp4_lane_order }
    }
    /// The same, with overflow going to infinity or NaN.
    pub fn unsaturated(self) -> Rules {
        Rules { overflow: Overflow::Special, ..self }
    }
}

/// A copy from one type to the other moves bits and converts nothing.
pub fn copies_bits(from: Dtype, to: Dtype) -> bool {
    from == to
}

/// fp32 lanes of one container: 4 for the packed types, else 1.
pub const fn lanes(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Float4E2m1FnX4 | Dtype::Float8E4m3FnX4 | Dtype::Float8E5m2X4 => 4,
        Dtype::Uint8
        | Dtype::Int8
        | Dtype::Float8E3
        | Dtype::Float8E4
        | Dtype::Float8E4m3Fn
        | Dtype::Float8E8m0Fnu
        | Dtype::Float8E5
        | Dtype::Uint16
        | Dtype::Int16
        | Dtype::Bfloat16
        | Dtype::Float16
        | Dtype::Uint32
        | Dtype::Int32
        | Dtype::Float32
        | Dtype::Float32r
        | Dtype::Uint64
        | Dtype::Int64 => 1,
    }
}

/// Position in the container of lane `i` of an fp4 type.
#[inline]
fn nibble(i: usize, order: Fp4LaneOrder) -> u32 {
    match order {
        Fp4LaneOrder::Plain => 4 * i as u32,
        Fp4LaneOrder::Permuted => 4 * (i as u32 ^ 1),
    }
}

struct Decode<'a, const N: usize, F> {
    src: &'a [u8],
    out: &'a mut [f32],
    f: F,
}
impl<const N: usize, F: Fn([u8; N]) -> f32> Kernel for Decode<'_, N, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (chunks, _) = self.src.as_chunks::<N>();
        for (o, c) in self.out.iter_mut().zip(chunks) {
            *o = (self.f)(*c);
        }
    }
}

struct Encode<'a, const N: usize, F> {
    src: &'a [f32],
    out: &'a mut [u8],
    f: F,
}
impl<const N: usize, F: Fn(f32) -> [u8; N]> Kernel for Encode<'_, N, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (chunks, _) = self.out.as_chunks_mut::<N>();
        for (o, &x) in chunks.iter_mut().zip(self.src) {
            *o = (self.f)(x);
        }
    }
}

/// What is done with the decoder of an element type.
pub(crate) trait Decoder {
    /// What it gives.
    type Out;
    /// `f` widens one element of `N` bytes.
    fn with<const N: usize>(self, f: impl Fn([u8; N]) -> f32 + Copy) -> Self::Out;
}

/// What is done with the encoder of an element type.
pub(crate) trait Encoder {
    /// What it gives.
    type Out;
    /// `f` narrows one value to `N` bytes.
    fn with<const N: usize>(self, f: impl Fn(f32) -> [u8; N] + Copy) -> Self::Out;
}

/// Hands the decoder of a type to `d`: elements of packed types of 8-bit lanes count one by one. `None` for fp4, whose lanes
/// are no bytes.
pub(crate) fn decoder<D: Decoder>(dtype: Dtype, d: D) -> Option<D::Out> {
    Some(match dtype {
        Dtype::Float32 | Dtype::Float32r => d.with::<4>(f32::from_le_bytes),
        Dtype::Bfloat16 => d.with::<2>(|b| round::bf16_to_f32(u16::from_le_bytes(b))),
        Dtype::Float16 => d.with::<2>(|b| round::f16_to_f32(u16::from_le_bytes(b))),
        Dtype::Int32 => d.with::<4>(|b| i32::from_le_bytes(b) as f32),
        Dtype::Uint32 => d.with::<4>(|b| u32::from_le_bytes(b) as f32),
        Dtype::Int16 => d.with::<2>(|b| f32::from(i16::from_le_bytes(b))),
        Dtype::Uint16 => d.with::<2>(|b| f32::from(u16::from_le_bytes(b))),
        Dtype::Int8 => d.with::<1>(|[b]| f32::from(b as i8)),
        Dtype::Uint8 | Dtype::Float8E8m0Fnu => d.with::<1>(|[b]| f32::from(b)),
        Dtype::Int64 => d.with::<8>(|b| i64::from_le_bytes(b) as f32),
        Dtype::Uint64 => d.with::<8>(|b| u64::from_le_bytes(b) as f32),
        Dtype::Float8E3 => d.with::<1>(|[b]| fp8::E3M4_TABLE[b as usize]),
        Dtype::Float8E4 => d.with::<1>(|[b]| fp8::E4M3_TABLE[b as usize]),
        Dtype::Float8E4m3Fn | Dtype::Float8E4m3FnX4 => d.with::<1>(|[b]| fp8::E4M3FN_TABLE[b as usize]),
        Dtype::Float8E5 | Dtype::Float8E5m2X4 => d.with::<1>(|[b]| fp8::E5M2_TABLE[b as usize]),
        Dtype::Float4E2m1FnX4 => return None,
    })
}

/// Hands the encoder of a type to `e`, as [`decoder`] does.
pub(crate) fn encoder<E: Encoder>(dtype: Dtype, e: E, rules: Rules) -> Option<E::Out> {
    let small = |e: E, f: SmallFloat| e.with::<1>(move |x| [f.encode(x, rules.overflow, rules.tiny)]);
    Some(match dtype {
        Dtype::Float32 => e.with::<4>(f32::to_le_bytes),
        Dtype::Float32r => e.with::<4>(|x| round::round_mantissa(x, 11).to_le_bytes()),
        Dtype::Bfloat16 => e.with::<2>(|x| round::f32_to_bf16(x).to_le_bytes()),
        Dtype::Float16 => e.with::<2>(|x| round::f32_to_f16(x).to_le_bytes()),
        Dtype::Int32 => e.with::<4>(|x| {
            (round::f32_to_signed(x, i64::from(i32::MIN), i64::from(i32::MAX)) as i32).to_le_bytes()
        }),
        Dtype::Uint32 => {
            e.with::<4>(|x| (round::f32_to_unsigned(x, u64::from(u32::MAX)) as u32).to_le_bytes())
        }
        Dtype::Int16 => e.with::<2>(|x| (round::f32_to_signed(x, -32768, 32767) as i16).to_le_bytes()),
        Dtype::Uint16 => e.with::<2>(|x| (round::f32_to_unsigned(x, 65535) as u16).to_le_bytes()),
        Dtype::Int8 => e.with::<1>(|x| (round::f32_to_signed(x, -128, 127) as i8).to_le_bytes()),
        Dtype::Uint8 | Dtype::Float8E8m0Fnu => e.with::<1>(|x| [round::f32_to_unsigned(x, 255) as u8]),
        Dtype::Int64 => e.with::<8>(|x| round::f32_to_signed(x, i64::MIN, i64::MAX).to_le_bytes()),
        Dtype::Uint64 => e.with::<8>(|x| round::f32_to_unsigned(x, u64::MAX).to_le_bytes()),
        Dtype::Float8E3 => small(e, fp8::E3M4),
        Dtype::Float8E4 => small(e, fp8::E4M3),
        Dtype::Float8E4m3Fn | Dtype::Float8E4m3FnX4 => small(e, fp8::E4M3FN),
        Dtype::Float8E5 | Dtype::Float8E5m2X4 => small(e, fp8::E5M2),
        Dtype::Float4E2m1FnX4 => return None,
    })
}

struct Widen<'a> {
    src: &'a [u8],
    out: &'a mut [f32],
}
impl Decoder for Widen<'_> {
    type Out = ();
    fn with<const N: usize>(self, f: impl Fn([u8; N]) -> f32 + Copy) {
        simd::run(Decode { src: self.src, out: self.out, f });
    }
}

struct Narrow<'a> {
    src: &'a [f32],
    out: &'a mut [u8],
}
impl Encoder for Narrow<'_> {
    type Out = ();
    fn with<const N: usize>(self, f: impl Fn(f32) -> [u8; N] + Copy) {
        simd::run(Encode { src: self.src, out: self.out, f });
    }
}

/// Widens packed elements. `out` has `lanes(dtype)` values per container of `src`.
pub fn to_f32(dtype: Dtype, src: &[u8], out: &mut [f32], rules: Rules) {
    if decoder(dtype, Widen { src, out: &mut *out }).is_some() {
        return;
    }
    let (words, _) = src.as_chunks::<2>();
    for (w, o) in words.iter().zip(out.chunks_mut(4)) {
        let w = u16::from_le_bytes(*w);
        for (i, o) in o.iter_mut().enumerate() {
            *o = fp8::E2M1_TABLE[usize::from(w >> nibble(i, rules.fp4) & 15)];
        }
    }
}

/// Narrows to packed elements. `src` has `lanes(dtype)` values per container of `out`.
pub fn from_f32(dtype: Dtype, src: &[f32], out: &mut [u8], rules: Rules) {
    if encoder(dtype, Narrow { src, out: &mut *out }, rules).is_some() {
        return;
    }
    let (words, _) = out.as_chunks_mut::<2>();
    for (o, x) in words.iter_mut().zip(src.chunks(4)) {
        let mut w = 0u16;
        for (i, &x) in x.iter().enumerate() {
            let code = fp8::E2M1.encode(x, rules.overflow, rules.tiny);
            w |= u16::from(code) << nibble(i, rules.fp4);
        }
        *o = w.to_le_bytes();
    }
}

/// One value to packed bytes of a type (4 equal lanes for packed types).
pub fn value_bytes(dtype: Dtype, x: f32, rules: Rules) -> ([u8; 8], usize) {
    let mut out = [0u8; 8];
    let n = dtype.bytes() as usize;
    from_f32(dtype, &[x; 4][..lanes(dtype)], &mut out[..n], rules);
    (out, n)
}

/// Packed integer elements as 64-bit integers, extended by the type; floats give their bits.
pub fn to_int(dtype: Dtype, src: &[u8], out: &mut Vec<i64>) {
    out.clear();
    let n = dtype.bytes() as usize;
    let signed = matches!(dtype, Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64);
    out.extend(src.chunks_exact(n).map(|c| {
        let mut w = [0u8; 8];
        w[..n].copy_from_slice(c);
        let v = i64::from_le_bytes(w);
        let s = 64 - 8 * n as u32;
        if signed { v << s >> s } else { v }
    }));
}

/// The low bits of integers as packed elements of a type.
pub fn from_int_bits(dtype: Dtype, src: &[i64], out: &mut Vec<u8>) {
    out.clear();
    let n = dtype.bytes() as usize;
    for v in src {
        out.extend_from_slice(&v.to_le_bytes()[..n]);
    }
}

/// Integers converted to a type: integer types keep the low bits when the value fits and saturate otherwise, float
/// types round once from the integer.
pub fn from_int(dtype: Dtype, src: &[i64], out: &mut Vec<u8>, rules: Rules) {
    let clamp = |lo: i64, hi: i64| src.iter().map(|v| (*v).clamp(lo, hi)).collect::<Vec<_>>();
    match dtype {
        Dtype::Int8 => from_int_bits(dtype, &clamp(-128, 127), out),
        Dtype::Uint8 | Dtype::Float8E8m0Fnu => from_int_bits(dtype, &clamp(0, 255), out),
        Dtype::Int16 => from_int_bits(dtype, &clamp(-32768, 32767), out),
        Dtype::Uint16 => from_int_bits(dtype, &clamp(0, 65535), out),
        Dtype::Int32 => from_int_bits(dtype, &clamp(i64::from(i32::MIN), i64::from(i32::MAX)), out),
        Dtype::Uint32 => from_int_bits(dtype, &clamp(0, i64::from(u32::MAX)), out),
        Dtype::Int64 => from_int_bits(dtype, src, out),
        Dtype::Uint64 => from_int_bits(dtype, &clamp(0, i64::MAX), out),
        Dtype::Float4E2m1FnX4
        | Dtype::Float8E3
        | Dtype::Float8E4
        | Dtype::Float8E4m3Fn
        | Dtype::Float8E5
        | Dtype::Float8E4m3FnX4
        | Dtype::Float8E5m2X4
        | Dtype::Bfloat16
        | Dtype::Float16
        | Dtype::Float32
        | Dtype::Float32r => {
            let f: Vec<f32> = src.iter().map(|v| *v as f32).collect();
            out.clear();
            out.resize(f.len() / lanes(dtype) * dtype.bytes() as usize, 0);
            from_f32(dtype, &f, out, rules);
        }
    }
}
