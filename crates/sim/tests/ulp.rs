//! Transcendental functions: at most 1 ulp from the correctly rounded value, for every 1,021st bit pattern, all special
//! values and the borders of branches. `examples/ulp_sweep.rs` visits all 2^32 arguments.

#[path = "support/ulp.rs"]
mod ulp;

use tandem_sim::num::simd::{self, MapInPlace};
use ulp::{UNARY, distance};

fn arguments(borders: &[f32]) -> Vec<f32> {
    let mut v: Vec<f32> = (0..=u32::MAX / 1021).map(|i| f32::from_bits(i * 1021)).collect();
    let special = [
        0u32,
        1,
        2,
        0x007F_FFFF,
        0x0080_0000,
        0x3F80_0000,
        0x7F7F_FFFF,
        0x7F80_0000,
        0x7F80_0001,
        0x7FC0_0000,
        0x4049_0FDB,
    ];
    for s in special {
        v.push(f32::from_bits(s));
        v.push(f32::from_bits(s | 0x8000_0000));
    }
    for b in borders {
        for d in -3i32..=3 {
            v.push(f32::from_bits(b.to_bits().wrapping_add_signed(d)));
            v.push(-f32::from_bits(b.to_bits().wrapping_add_signed(d)));
        }
    }
    v
}

#[test]
fn unary_functions_stay_within_one_ulp() {
    for f in UNARY {
        let mut worst = (0, 0f32);
        for x in arguments(f.borders) {
            let d = distance((f.ours)(x), (f.reference)(f64::from(x)));
            if d > worst.0 {
                worst = (d, x);
            }
        }
        assert!(
            worst.0 <= 1,
            "{} is {} ulp off at {:e} ({:#x})",
            f.name,
            worst.0,
            worst.1,
            worst.1.to_bits()
        );
    }
}

#[test]
fn the_wide_and_the_baseline_compilation_agree_bit_for_bit() {
    for f in UNARY {
        let mut wide = arguments(f.borders);
        let mut base = wide.clone();
        simd::run(MapInPlace { x: &mut wide, f: f.ours });
        simd::run_baseline(MapInPlace { x: &mut base, f: f.ours });
        for (a, b) in wide.iter().zip(&base) {
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{}: {a} and {b}", f.name);
        }
    }
}

#[test]
fn pow_follows_c_in_special_cases_and_is_within_one_ulp() {
    use tandem_sim::num::transcendental::pow;
    let specials = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        0.3333,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        16_777_217.0,
        8_388_609.0,
        -8_388_609.0,
        0.99999994,
        1.0000001,
        127.5,
        -126.0,
    ];
    let mut all: Vec<f32> = specials.to_vec();
    all.extend((0..400u32).map(|i| f32::from_bits(i.wrapping_mul(0x0101_9345))));
    for &a in &all {
        for &b in &all {
            let want = libm::pow(f64::from(a), f64::from(b));
            let d = distance(pow(a, b), want);
            assert!(d <= 1, "pow({a:e}, {b:e}) = {:e}, want {want:e}", pow(a, b));
            if want == 0.0 {
                assert_eq!(
                    pow(a, b).is_sign_negative(),
                    want.is_sign_negative(),
                    "sign of pow({a:e}, {b:e})"
                );
            }
        }
    }
}
