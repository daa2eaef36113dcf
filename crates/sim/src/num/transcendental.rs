//! Transcendental functions: one fixed sequence of operations, the same in scalar and vector code and on every host.
//!
//! Guarantee: every function of an fp32 argument is at most 1 ulp from the correctly rounded fp32 value
//! (`docs/ulp.md` has the measured maxima over all arguments). The inner arithmetic is fp64 `+ - * /` and square root, which
//! IEEE 754 defines exactly; there is no fused operation and no call into the host's mathematics library. The result is
//! rounded once to fp32. NaN results may carry any payload; writers make them canonical.
//!
//! Source: decision D31; closed forms from the specification, file 09 §6.4. Coefficients: Taylor series, and for erfc a
//! Chebyshev expansion of `erfcx(z)·(z+4)/4` in `8/(z+4)` over `0 ≤ z ≤ 10.6` computed with 90 digits (our own).

/// log2(e).
pub(super) const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 without its low 20 bits, and the rest.
const LN2_HI: f64 = 0.6931471804855391;
const LN2_LO: f64 = 7.440617110012397e-11;
pub(super) const LN2: f64 = std::f64::consts::LN_2;
/// 1.5·2^52: adding it rounds a value below 2^51 to an integer, which then sits in the low bits.
pub(super) const MAGIC: f64 = 6_755_399_441_055_744.0;
/// π/2 in three parts, the first two with 31 bits.
const PIO2: [f64; 3] = [1.5707963267341256, 6.07710050359346e-11, 2.912732056093356e-20];
const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;

#[inline(always)]
fn clamp(x: f64, lo: f64, hi: f64) -> f64 {
    let x = if x < lo { lo } else { x };
    if x > hi { hi } else { x }
}

#[inline(always)]
fn poly<const N: usize>(c: &[f64; N], x: f64) -> f64 {
    let mut s = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        s = s * x + c[i];
    }
    s
}

/// e^x in fp64 for |x| up to about 700 (clamped beyond); relative error below 1e-14.
#[inline(always)]
pub(crate) fn exp64(x: f64) -> f64 {
    const C: [f64; 13] = [
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
    ];
    let x = clamp(x, -700.0, 700.0);
    let m = x * LOG2_E + MAGIC;
    let k = m - MAGIC;
    let r = x - k * LN2_HI - k * LN2_LO;
    let scale = f64::from_bits((m.to_bits() << 52).wrapping_add(1023 << 52));
    poly(&C, r) * scale
}

/// ln x in fp64 for positive normal x; relative error below 1e-15 (also near 1).
#[inline(always)]
pub(crate) fn ln64(x: f64) -> f64 {
    const C: [f64; 11] = [
        1.0,
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
    ];
    // Mantissa to [sqrt(1/2), sqrt(2)): subtract the bits of sqrt(1/2) so that the carry lands in the exponent.
    const ROOT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
    let d = x.to_bits().wrapping_sub(ROOT_HALF);
    let mant = f64::from_bits((d & 0x000F_FFFF_FFFF_FFFF).wrapping_add(ROOT_HALF));
    // The exponent as a double without an integer conversion: bias it into the mantissa of 2^52.
    let k = f64::from_bits(((d.wrapping_add(1 << 62)) >> 52) | 0x4330_0000_0000_0000)
        - (4_503_599_627_370_496.0 + 1024.0);
    let s = (mant - 1.0) / (mant + 1.0);
    let s2 = s * s;
    k * LN2 + 2.0 * s * poly(&C, s2)
}

/// log(1 + e) in fp64 for 0 <= e <= 1, relative.
#[inline(always)]
fn log1p_unit(e: f64) -> f64 {
    const C: [f64; 16] = [
        1.0,
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
        1.0 / 23.0,
        1.0 / 25.0,
        1.0 / 27.0,
        1.0 / 29.0,
        1.0 / 31.0,
    ];
    let s = e / (2.0 + e);
    2.0 * s * poly(&C, s * s)
}

/// erfc z in fp64 for z >= 0, relative error below 1e-14; zero (for fp32) beyond 10.6.
#[inline(always)]
pub(crate) fn erfc64(z: f64) -> f64 {
    const C: [f64; 20] = [
        0.3587179407349459,
        0.2822294276072887,
        0.18579749617123412,
        0.10248638535628464,
        0.04699989926630944,
        0.017558529263070246,
        0.00511230344827787,
        0.001039002431437234,
        9.070634993382093e-05,
        -2.278011120480214e-05,
        -8.928741804033969e-06,
        -4.359854916600394e-07,
        4.034214727624081e-07,
        7.165124442971278e-08,
        -1.6481445694899338e-08,
        -5.42208910580722e-09,
        7.349324986568186e-10,
        3.554695317797734e-10,
        -3.21710003977741e-11,
        -1.76948675789985e-11,
    ];
    // Beyond 10.6 the polynomial is held; the exponential alone makes the result vanish in fp32.
    let c = if z > 10.6 { 10.6 } else { z };
    let q = 1.0 / (4.0 + c);
    let u = 11.018867924528301 * q - 1.7547169811320755;
    poly(&C, u) * (4.0 * q) * exp64(-(z * z))
}

/// e^x.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    exp64(x as f64) as f32
}

/// Natural logarithm: −Inf at zero, NaN below.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let r = ln64(x as f64) as f32;
    let r = if x == 0.0 { f32::NEG_INFINITY } else { r };
    let r = if x == f32::INFINITY { x } else { r };
    if x >= 0.0 { r } else { f32::NAN }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let d = x as f64;
    let a = clamp(d.abs(), 0.0, 40.0);
    let e = exp64(a + a);
    let big = (e - 1.0) / (e + 1.0);
    let a2 = a * a;
    let small = a - a * a2 * (1.0 / 3.0 - a2 * (2.0 / 15.0));
    let r = if a < 0.0009765625 { small } else { big };
    let r = (r as f32).copysign(x);
    if x.is_nan() { x } else { r }
}

/// Logistic function 1/(1 + e^−x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    (1.0 / (1.0 + exp64(-(x as f64)))) as f32
}

/// log(1 + e^x).
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let d = x as f64;
    let pos = if d > 0.0 { d } else { 0.0 };
    let r = (log1p_unit(exp64(-d.abs())) + pos) as f32;
    if x.is_nan() { x } else { r }
}

/// Error function.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    const C: [f64; 11] = [
        1.0,
        -1.0 / 3.0,
        1.0 / 10.0,
        -1.0 / 42.0,
        1.0 / 216.0,
        -1.0 / 1320.0,
        1.0 / 9360.0,
        -1.0 / 75_600.0,
        1.0 / 685_440.0,
        -1.0 / 6_894_720.0,
        1.0 / 76_204_800.0,
    ];
    let a = (x as f64).abs();
    let a2 = a * a;
    let small = a * std::f64::consts::FRAC_2_SQRT_PI * poly(&C, a2);
    let big = 1.0 - erfc64(a);
    let r = if a < 0.5 { small } else { big };
    let r = (r as f32).copysign(x);
    if x.is_nan() { x } else { r }
}

/// Normal distribution function Φ(x) = (1 + erf(x/√2))/2 in fp64, relative also in the left tail.
#[inline(always)]
fn phi64(d: f64) -> f64 {
    let tail = 0.5 * erfc64(d.abs() * std::f64::consts::FRAC_1_SQRT_2);
    if d > 0.0 { 1.0 - tail } else { tail }
}

/// 0.5·x·(erf(x/√2) + 1).
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let d = x as f64;
    let r = (d * phi64(d)) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { r }
}

/// Derivative of gelu: Φ(x) + x·φ(x).
#[inline(always)]
pub fn gelu_dx(x: f32) -> f32 {
    const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
    let d = x as f64;
    let c = clamp(d, -40.0, 40.0);
    let r = (phi64(c) + c * INV_SQRT_2PI * exp64(-0.5 * c * c)) as f32;
    if x.is_infinite() { f32::NAN } else { r }
}

/// 1.1283792·e^(−x²), the derivative of erf.
#[inline(always)]
pub fn erf_dx(x: f32) -> f32 {
    let d = x as f64;
    (std::f64::consts::FRAC_2_SQRT_PI * exp64(-(d * d))) as f32
}

/// The tanh form of gelu, evaluated as x·sigmoid(2u), which is the same function.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let d = x as f64;
    let u = 0.797_884_560_802_865_4 * (d + 0.044715 * d * d * d);
    let r = (d / (1.0 + exp64(-2.0 * u))) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { r }
}

/// x·sigmoid(1.702·x).
#[inline(always)]
pub fn gelu_sigmoid(x: f32) -> f32 {
    let d = x as f64;
    let r = (d / (1.0 + exp64(-1.702 * d))) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { r }
}

/// s·(1 + u·(1 − s)) for s = sigmoid u, in fp64 without cancellation in 1 − s.
#[inline(always)]
fn swish_dx64(u: f64) -> f64 {
    let c = clamp(u, -700.0, 700.0);
    let e = exp64(-c.abs());
    let (small, large) = (e / (1.0 + e), 1.0 / (1.0 + e));
    let (s, t) = if c > 0.0 { (large, small) } else { (small, large) };
    s * (1.0 + c * t)
}

/// Derivative of x·sigmoid(1.702·x).
#[inline(always)]
pub fn gelu_sigmoid_dx(x: f32) -> f32 {
    let r = swish_dx64(1.702 * x as f64) as f32;
    if x.is_infinite() { f32::NAN } else { r }
}

/// x/(1 + e^−x).
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    let d = x as f64;
    let r = (d / (1.0 + exp64(-d))) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { r }
}

/// Derivative of silu.
#[inline(always)]
pub fn silu_dx(x: f32) -> f32 {
    let r = swish_dx64(x as f64) as f32;
    if x.is_infinite() { f32::NAN } else { r }
}

/// The formula the sources print for the derivative of silu, which is not the derivative.
#[inline(always)]
pub fn silu_dx_printed(x: f32) -> f32 {
    let d = clamp(x as f64, -340.0, 340.0);
    let e = exp64(d);
    let r = ((d * e + 1.0) * e / ((e + 1.0) * (e + 1.0))) as f32;
    if x.is_infinite() { f32::NAN } else { r }
}

/// x·tanh(softplus x).
#[inline(always)]
pub fn mish(x: f32) -> f32 {
    let d = x as f64;
    let w = exp64(clamp(d, -700.0, 40.0));
    let n = w * (w + 2.0);
    let r = (d * (n / (n + 2.0))) as f32;
    if x == f32::NEG_INFINITY { f32::NAN } else { r }
}

/// 1/√x.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    (1.0 / (x as f64).sqrt()) as f32
}

/// Arc tangent.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    const C: [f64; 20] = [
        1.0,
        -1.0 / 3.0,
        1.0 / 5.0,
        -1.0 / 7.0,
        1.0 / 9.0,
        -1.0 / 11.0,
        1.0 / 13.0,
        -1.0 / 15.0,
        1.0 / 17.0,
        -1.0 / 19.0,
        1.0 / 21.0,
        -1.0 / 23.0,
        1.0 / 25.0,
        -1.0 / 27.0,
        1.0 / 29.0,
        -1.0 / 31.0,
        1.0 / 33.0,
        -1.0 / 35.0,
        1.0 / 37.0,
        -1.0 / 39.0,
    ];
    let y = (x as f64).abs();
    let far = y > 2.414213562373095;
    let mid = y > 0.41421356237309503;
    let num = if far {
        -1.0
    } else if mid {
        y - 1.0
    } else {
        y
    };
    let den = if far {
        y
    } else if mid {
        y + 1.0
    } else {
        1.0
    };
    let off = if far {
        std::f64::consts::FRAC_PI_2
    } else if mid {
        std::f64::consts::FRAC_PI_4
    } else {
        0.0
    };
    let u = num / den;
    let r = ((off + u * poly(&C, u * u)) as f32).copysign(x);
    if x.is_nan() { x } else { r }
}

/// sin(r + q·π/2) for |r| <= π/4 and q modulo 4.
#[inline(always)]
fn sin_quadrant(r: f64, q: u64) -> f64 {
    const S: [f64; 8] = [
        1.0,
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
    ];
    const C: [f64; 9] = [
        1.0,
        -1.0 / 2.0,
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 20_922_789_888_000.0,
    ];
    let r2 = r * r;
    let s = r * poly(&S, r2);
    let c = poly(&C, r2);
    let v = if q & 1 == 0 { s } else { c };
    if q & 2 == 0 { v } else { -v }
}

/// Arguments up to this magnitude use [`sin_near`].
pub const SIN_NEAR: f32 = 1_048_576.0;

/// Sine for |x| <= [`SIN_NEAR`]; anything else gives an unspecified value.
#[inline(always)]
pub fn sin_near(x: f32) -> f32 {
    let d = x as f64;
    let m = d * TWO_OVER_PI + MAGIC;
    let k = m - MAGIC;
    let r = d - k * PIO2[0] - k * PIO2[1] - k * PIO2[2];
    let v = sin_quadrant(r, m.to_bits()) as f32;
    if x == 0.0 { x } else { v }
}

/// Sine for any argument: beyond [`SIN_NEAR`] the multiple of π/2 is found with 192 bits of 2/π.
pub fn sin(x: f32) -> f32 {
    if x.abs() <= SIN_NEAR {
        return sin_near(x);
    }
    if !x.is_finite() {
        return f32::NAN;
    }
    const BITS: [u32; 10] = [
        0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
        0xb7246e3a, 0x424dd2e0,
    ];
    let bits = x.to_bits();
    let e = ((bits >> 23) & 0xFF) as i32 - 150; // x = m · 2^e, e >= -3
    let m = u128::from((bits & 0x007F_FFFF) | 0x0080_0000);
    // Bits of 2/π from weight 2^(2-e-...) on: skip those whose product with m·2^e is a multiple of 4.
    let skip = (e - 2).max(0) as usize; // first bit kept has weight 2^-(skip+1)
    let word = |bit: usize| -> u32 {
        let (w, s) = (bit / 32, bit % 32);
        let hi = u64::from(BITS[w]) << 32 | u64::from(BITS[w + 1]);
        (hi << s >> 32) as u32
    };
    let frac = u128::from(word(skip)) << 64 | u128::from(word(skip + 32)) << 32 | u128::from(word(skip + 64));
    // m · frac · 2^(e - skip - 96): the product has its binary point at bit 96 - (e - skip).
    let p = m.wrapping_mul(frac);
    let point = (96 - (e - skip as i32)) as u32;
    let up = p << (126 - point); // two integer bits on top
    let mut q = (up >> 126) as u64;
    let f = up << 2; // fraction, 128 bits
    let negative = f >> 127 == 1;
    let mag = if negative { f.wrapping_neg() } else { f };
    if negative {
        q = q.wrapping_add(1);
    }
    let r = mag as f64
        * (1.0 / 340_282_366_920_938_463_463_374_607_431_768_211_456.0)
        * std::f64::consts::FRAC_PI_2;
    let r = if negative { -r } else { r };
    let v = sin_quadrant(r, q) as f32;
    if x < 0.0 { -v } else { v }
}

/// a^b with the special cases of C's `pow`.
#[inline(always)]
pub fn pow(a: f32, b: f32) -> f32 {
    let (x, y) = (a as f64, b as f64);
    let ax = x.abs();
    let is_int = b.abs() >= 16_777_216.0 || super::round::round_half_even(b) == b;
    let odd = is_int && b.abs() < 16_777_216.0 && (b as i32) & 1 != 0;
    let body = exp64(clamp(y * ln64(ax), -700.0, 700.0));
    let grows = (ax > 1.0) == (b > 0.0);
    let edge = if grows { f64::INFINITY } else { 0.0 };
    let mut r = body;
    if ax == 0.0 || ax == f64::INFINITY || b.is_infinite() {
        r = edge;
    }
    if b.is_infinite() && ax == 1.0 {
        r = 1.0;
    }
    let mut r = r as f32;
    if a.is_sign_negative() && odd {
        r = -r;
    }
    if a < 0.0 && !is_int && a != f32::NEG_INFINITY && !b.is_nan() {
        r = f32::NAN;
    }
    if a.is_nan() || b.is_nan() {
        r = f32::NAN;
    }
    if b == 0.0 || a == 1.0 { 1.0 } else { r }
}
