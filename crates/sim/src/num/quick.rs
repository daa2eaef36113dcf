//! Quick forms of some functions of [`super::transcendental`]: the same fp32 values, bit for bit, with fewer operations.
//!
//! A quick form computes the function in fp64 with a known relative error, by shorter polynomials, fused operations and
//! reciprocals that start in fp32. When the fp64 value is farther from the middle between two neighbouring fp32 numbers than
//! this error and that of the defining sequence together, then both round to the same fp32 number. Blocks with a value that
//! is too near, or with an argument a quick form does not treat, are computed by the defining sequence. A reciprocal square root
//! needs no such test: its error is so small that no argument is rounded otherwise.
//!
//! Shown by computing all 2^32 arguments both ways (the ignored test `every_argument`, in AVX2 and AVX-512); a part of them in each run of the
//! tests. Coefficients: interpolation at Chebyshev nodes with 60 digits (our own). The baseline has no fused operation on
//! every host and always uses the defining sequence.

use super::simd::{self, Kernel, MapInPlace, Width};
use super::transcendental::{self as tr, LN2, LOG2_E, MAGIC};

/// Bits of fp64 that fp32 does not have.
const DROPPED: u32 = 29;
const INFINITY: u32 = 0x7F80_0000;
const LEAST_NORMAL: u32 = 0x0080_0000;

/// A function in its quick form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// [`tr::exp`].
    Exp,
    /// [`tr::tanh`].
    Tanh,
    /// [`tr::ln`].
    Ln,
    /// [`tr::rsqrt`].
    Rsqrt,
    /// [`tr::rsqrt`] of the magnitude.
    AbsRsqrt,
}

/// Applies a function in place.
pub fn map(f: Function, x: &mut [f32]) {
    match f {
        Function::Exp => either(x, exp, tr::exp),
        Function::Tanh => either(x, tanh, tr::tanh),
        Function::Ln => either(x, ln, tr::ln),
        Function::Rsqrt => either(x, rsqrt, tr::rsqrt),
        Function::AbsRsqrt => either(x, |v| rsqrt(v.abs()), |v| tr::rsqrt(v.abs())),
    }
}

fn either(x: &mut [f32], quick: impl Fn(f32) -> (f32, bool), exact: impl Fn(f32) -> f32) {
    match simd::width() {
        Width::Baseline => simd::run(MapInPlace { x, f: exact }),
        Width::Avx2 | Width::Avx512 => simd::run(Quick { x, quick, exact }),
    }
}

/// `quick` gives a value and whether it is in doubt.
struct Quick<'a, Q, E> {
    x: &'a mut [f32],
    quick: Q,
    exact: E,
}

impl<Q: Fn(f32) -> (f32, bool), E: Fn(f32) -> f32> Kernel for Quick<'_, Q, E> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 32;
        let (blocks, tail) = self.x.as_chunks_mut::<BLOCK>();
        for b in blocks {
            let mut y = [0f32; BLOCK];
            let mut doubt = false;
            for j in 0..BLOCK {
                let (v, d) = (self.quick)(b[j]);
                y[j] = v;
                doubt |= d;
            }
            if doubt {
                for j in 0..BLOCK {
                    y[j] = (self.exact)(b[j]);
                }
            }
            *b = y;
        }
        for v in tail {
            *v = (self.exact)(*v);
        }
    }
}

/// A normal fp32 result is at most `2^-52·margin` of its power of two from the middle between two fp32 numbers.
#[inline(always)]
fn near_tie(y: f64, margin: u64) -> bool {
    let half = 1u64 << (DROPPED - 1);
    (y.to_bits().wrapping_sub(half - margin) & ((1 << DROPPED) - 1)) < 2 * margin
}

/// The polynomial by fused operations.
#[inline(always)]
fn poly<const N: usize>(c: &[f64; N], x: f64) -> f64 {
    let mut s = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        s = s.mul_add(x, c[i]);
    }
    s
}

/// 1/d for a `d` that is normal in fp32: an fp32 quotient and one Newton step; relative error below 2^-45.
#[inline(always)]
fn reciprocal(d: f64, near: f32) -> f64 {
    let q = f64::from(1.0 / near);
    (-d).mul_add(q, 1.0).mul_add(q, q)
}

/// e^x: relative error below 2^-39 before rounding.
#[inline(always)]
fn exp(x: f32) -> (f32, bool) {
    /// e^r for |r| <= ln(2)/2, relative error 2^-39.7.
    const C: [f64; 9] = [
        1.0,
        0.9999999999797835,
        0.49999999999797917,
        0.1666666689105925,
        0.04166666689097047,
        0.008333266095257263,
        0.001388882167493946,
        0.0001991586842117633,
        2.4876165516204346e-05,
    ];
    // Beyond these, results are zero and infinity; between the first and -87.3 they may be subnormal.
    const LOW: f32 = -104.0;
    const HIGH: f32 = 89.0;
    let c = if x < LOW { LOW } else { x };
    let d = f64::from(if c > HIGH { HIGH } else { c });
    let m = d.mul_add(LOG2_E, MAGIC);
    let k = m - MAGIC;
    let r = k.mul_add(-LN2, d);
    let y = f64::from_bits(poly(&C, r).to_bits().wrapping_add(m.to_bits() << 52));
    let subnormal = (x < -87.3) & (x > LOW);
    (if x.is_nan() { x } else { y as f32 }, near_tie(y, 1 << 15) | subnormal)
}

/// Hyperbolic tangent as (e^2a − 1)/(e^2a − 1 + 2): relative error below 2^-42 before rounding.
#[inline(always)]
fn tanh(x: f32) -> (f32, bool) {
    /// (e^r − 1)/r for |r| <= ln(2)/2, relative error 2^-43.3.
    const C: [f64; 9] = [
        1.0,
        0.49999999999797917,
        0.16666666666648303,
        0.04166666689097047,
        0.008333333353718381,
        0.001388882167493946,
        0.00019841208754547057,
        2.4876165516204346e-05,
        2.76251033626167e-06,
    ];
    // Beyond this the result is 1.
    const HIGH: f32 = 9.5;
    let a = x.abs();
    let a = if a > HIGH { HIGH } else { a };
    let d = f64::from(a + a);
    let m = d.mul_add(LOG2_E, MAGIC);
    let k = m - MAGIC;
    let r = k.mul_add(-LN2, d);
    let p = poly(&C, r) * r;
    let scale = f64::from_bits((m.to_bits() << 52).wrapping_add(1023 << 52));
    let e = scale.mul_add(p, scale - 1.0);
    let den = e + 2.0;
    let y = e * reciprocal(den, den as f32);
    let r = (y as f32).copysign(x);
    (if x.is_nan() { x } else { r }, near_tie(y, 1 << 12))
}

/// Natural logarithm: relative error below 2^-43 before rounding.
#[inline(always)]
fn ln(x: f32) -> (f32, bool) {
    /// 2·artanh(s)/s as a polynomial in s² <= ((√2 − 1)/(√2 + 1))², relative error 2^-45.
    const C: [f64; 6] = [
        1.9999999999999472,
        0.6666666667957991,
        0.39999994891624174,
        0.2857216616853548,
        0.22174248919495237,
        0.1960811060628226,
    ];
    // Mantissa to [sqrt(1/2), sqrt(2)), as in the defining sequence.
    const ROOT_HALF: u32 = 0x3F35_04F3;
    let bits = x.to_bits();
    let i = bits.wrapping_sub(ROOT_HALF);
    let k = f64::from(i as i32 >> 23);
    let m = f32::from_bits((i & 0x007F_FFFF).wrapping_add(ROOT_HALF));
    // The difference is exact, the sum is not.
    let f = f64::from(m - 1.0);
    let s = f * reciprocal(f + 2.0, m + 1.0);
    let y = k.mul_add(LN2, s * poly(&C, s * s));
    let normal = bits.wrapping_sub(LEAST_NORMAL) < INFINITY - LEAST_NORMAL;
    let subnormal = bits.wrapping_sub(1) < LEAST_NORMAL - 1;
    let edge = if bits == INFINITY { x } else { f32::NAN };
    let edge = if x == 0.0 { f32::NEG_INFINITY } else { edge };
    (if normal { y as f32 } else { edge }, near_tie(y, 1 << 12) | subnormal)
}

/// 1/√x: a guess from the bits, one step of fourth order in fp32 and one of third order in fp64.
#[inline(always)]
fn rsqrt(x: f32) -> (f32, bool) {
    let a = x.abs();
    let y = f32::from_bits(0x5F37_5A86u32.wrapping_sub(a.to_bits() >> 1));
    let h = (-(a * y)).mul_add(y, 1.0);
    let p = 0.3125f32.mul_add(h, 0.375).mul_add(h, 0.5);
    let y = f64::from((h * p).mul_add(y, y));
    let h = (-(f64::from(a) * y)).mul_add(y, 1.0);
    let y = (h * h.mul_add(0.375, 0.5)).mul_add(y, y);
    let bits = x.to_bits();
    let normal = bits.wrapping_sub(LEAST_NORMAL) < INFINITY - LEAST_NORMAL;
    let subnormal = bits.wrapping_sub(1) < LEAST_NORMAL - 1;
    let edge = if bits == INFINITY { 0.0 } else { f32::NAN };
    let edge = if x == 0.0 { f32::INFINITY.copysign(x) } else { edge };
    (if normal { y as f32 } else { edge }, subnormal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::round::canonical;
    use crate::num::simd::tests::in_each_width;

    type Scalar = fn(f32) -> f32;
    const ALL: [(Function, Scalar); 5] = [
        (Function::Exp, tr::exp),
        (Function::Tanh, tr::tanh),
        (Function::Ln, tr::ln),
        (Function::Rsqrt, tr::rsqrt),
        (Function::AbsRsqrt, |v| tr::rsqrt(v.abs())),
    ];

    /// The defining sequence over a slice, in vectors.
    fn defined(f: Function, x: &mut [f32]) {
        match f {
            Function::Exp => simd::run(MapInPlace { x, f: tr::exp }),
            Function::Tanh => simd::run(MapInPlace { x, f: tr::tanh }),
            Function::Ln => simd::run(MapInPlace { x, f: tr::ln }),
            Function::Rsqrt => simd::run(MapInPlace { x, f: tr::rsqrt }),
            Function::AbsRsqrt => simd::run(MapInPlace { x, f: |v: f32| tr::rsqrt(v.abs()) }),
        }
    }

    fn check(f: Function, exact: impl Fn(&mut [f32]), x: &[f32]) {
        let mut want = x.to_vec();
        exact(&mut want);
        let mut got = x.to_vec();
        map(f, &mut got);
        let differ = |k: &usize| canonical(want[*k]).to_bits() != canonical(got[*k]).to_bits();
        if let Some(k) = (0..x.len()).find(differ) {
            panic!("{f:?} of {:e} ({:#010x}): {:e}, not {:e}", x[k], x[k].to_bits(), got[k], want[k]);
        }
    }

    fn sweep(step: usize) {
        for (f, _) in ALL {
            in_each_width(|w| {
                if w == Width::Baseline {
                    return;
                }
                let mut x = Vec::with_capacity(1 << 14);
                let mut bits = (0..=u32::MAX).step_by(step);
                loop {
                    x.clear();
                    x.extend(bits.by_ref().take(1 << 14).map(f32::from_bits));
                    if x.is_empty() {
                        break;
                    }
                    check(f, |v| defined(f, v), &x);
                }
            });
        }
    }

    #[test]
    fn every_few_hundredth_argument_has_the_defined_value() {
        sweep(997);
    }

    #[test]
    #[ignore = "takes minutes"]
    fn every_argument() {
        sweep(1);
    }

    /// Arguments near every border of a branch, each in a block of ordinary ones, against the scalar function.
    #[test]
    fn borders_have_the_defined_value() {
        let borders = [
            0.0,
            f32::MIN_POSITIVE,
            1.0,
            2.0,
            std::f32::consts::FRAC_1_SQRT_2,
            9.5,
            9.01,
            0.0009765625,
            87.3,
            87.33654,
            88.72284,
            89.0,
            103.97208,
            104.0,
            f32::MAX,
            f32::INFINITY,
        ];
        let mut x = vec![0.75f32; 5];
        for b in borders {
            for near in -40i64..40 {
                let v = f32::from_bits((i64::from(b.to_bits()) + near).max(0) as u32);
                x.extend([v, -v]);
                x.extend((0..near.unsigned_abs() % 7).map(|k| 0.3 + k as f32));
            }
        }
        x.extend([f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001)]);
        for (f, exact) in ALL {
            in_each_width(|_| check(f, |v| v.iter_mut().for_each(|v| *v = exact(*v)), &x));
        }
    }
}
