//! Rounding of fp32 to narrower formats: round to nearest even, the one mode there is.
//!
//! Source: the specification, file 09 §3.3–3.4 (documented; the tags of single rows are there).

/// Bits of the NaN that arithmetic gives (the hosts differ in sign and payload, results may not).
pub const CANONICAL_NAN: u32 = 0x7FC0_0000;

/// Replaces any NaN by the canonical one, so that the bytes of a result do not depend on the host.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(CANONICAL_NAN) } else { x }
}

/// fp32 bits with the low `drop` bits rounded away (ties to even); the carry may reach the exponent. NaN is not treated.
#[inline(always)]
pub const fn rne_drop(bits: u32, drop: u32) -> u32 {
    let lsb = (bits >> drop) & 1;
    let half = (1u32 << (drop - 1)) - 1;
    bits.wrapping_add(half + lsb) & !((1u32 << drop) - 1)
}

/// fp32 to bf16. Overflow carries into infinity; NaN is 0x7FC0, its sign lost.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let b = (rne_drop(x.to_bits(), 16) >> 16) as u16;
    if x.is_nan() { 0x7FC0 } else { b }
}

/// bf16 to fp32, exact.
#[inline(always)]
pub fn bf16_to_f32(b: u16) -> f32 {
    f32::from_bits((b as u32) << 16)
}

/// fp32 to fp16 with subnormals; overflow gives infinity; NaN is 0x7E00 with the sign kept.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let mag = bits & 0x7FFF_FFFF;
    // Normal range: round 13 bits away and move the bias from 127 to 15.
    let normal = (rne_drop(mag, 13) >> 13).wrapping_sub(112 << 10);
    // Subnormal range: adding 0.5 leaves the value rounded to a multiple of 2^-24 in the low bits of the sum.
    let sub = (f32::from_bits(mag) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
    let m = if mag < 0x3880_0000 { sub } else { normal };
    let m = if m > 0x7C00 || mag >= 0x4780_0000 { 0x7C00 } else { m };
    let m = if mag > 0x7F80_0000 { 0x7E00 } else { m };
    sign | m as u16
}

/// fp16 to fp32, exact.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let sign = ((h & 0x8000) as u32) << 16;
    let mag = (h & 0x7FFF) as u32;
    // Scaling by 2^112 moves the bias and makes subnormals normal, exactly.
    let finite = f32::from_bits(mag << 13) * f32::from_bits((112 + 127) << 23);
    let m = if mag >= 0x7C00 { 0x7F80_0000 | (mag & 0x3FF) << 13 } else { finite.to_bits() };
    f32::from_bits(sign | m)
}

/// Rounds to `keep` explicit mantissa bits (f32r storage keeps 11, a tf32 read 10). NaN and infinity pass.
#[inline(always)]
pub fn round_mantissa(x: f32, keep: u32) -> f32 {
    let r = f32::from_bits(rne_drop(x.to_bits(), 23 - keep));
    if x.is_finite() { r } else { x }
}

/// Rounds to the nearest integer, ties to even, for any magnitude.
#[inline(always)]
pub fn round_half_even(x: f32) -> f32 {
    const BIG: f32 = 8_388_608.0; // 2^23: above it every fp32 is an integer
    let s = BIG.copysign(x);
    let r = (x + s) - s;
    if x.abs() < BIG { r.copysign(x) } else { x }
}

/// fp32 to a signed integer of the range `[min, max]`: half to even, clamped; NaN goes by its sign.
#[inline(always)]
pub fn f32_to_signed(x: f32, min: i64, max: i64) -> i64 {
    if x.is_nan() {
        return if x.is_sign_negative() { min } else { max };
    }
    (round_half_even(x) as i64).clamp(min, max)
}

/// fp32 to an unsigned integer of the range `[0, max]`: half to even, clamped; NaN goes by its sign.
#[inline(always)]
pub fn f32_to_unsigned(x: f32, max: u64) -> u64 {
    if x.is_nan() {
        return if x.is_sign_negative() { 0 } else { max };
    }
    (round_half_even(x) as u64).min(max)
}
