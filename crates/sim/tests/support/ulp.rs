//! Functions under test with fp64 references that are not ours (the `libm` crate), and the distance in ulps.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::approx_constant,
    reason = "shared by a test and an example"
)]

use tandem_sim::num::transcendental as tr;

/// A unary function, ours and the reference.
pub struct Unary {
    /// Name in the table.
    pub name: &'static str,
    /// Ours.
    pub ours: fn(f32) -> f32,
    /// Reference in fp64.
    pub reference: fn(f64) -> f64,
    /// Borders of branches and of the domain.
    pub borders: &'static [f32],
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        let e = libm::exp(x);
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + libm::exp(-x))
    }
}
fn one_minus_sigmoid(x: f64) -> f64 {
    sigmoid(-x)
}
fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
fn softplus(x: f64) -> f64 {
    libm::log1p(libm::exp(-x.abs())) + x.max(0.0)
}
fn swish_dx(u: f64) -> f64 {
    sigmoid(u) * (1.0 + u * one_minus_sigmoid(u))
}
fn nan_at_minus_inf(x: f64, v: f64) -> f64 {
    if x == f64::NEG_INFINITY { f64::NAN } else { v }
}
fn nan_at_inf(x: f64, v: f64) -> f64 {
    if x.is_infinite() { f64::NAN } else { v }
}

/// Every unary function that is not one IEEE operation.
pub const UNARY: &[Unary] = &[
    Unary {
        name: "exp",
        ours: tr::exp,
        reference: libm::exp,
        borders: &[88.72284, -87.33655, -103.97208, 88.72283, -104.0],
    },
    Unary {
        name: "ln",
        ours: tr::ln,
        reference: libm::log,
        borders: &[1.0, 0.70710677, 1.4142135, 0.99999994, 1.0000001],
    },
    Unary {
        name: "tanh",
        ours: tr::tanh,
        reference: libm::tanh,
        borders: &[0.0009765625, 0.00097656244, 9.01, 40.0, -0.0009765625],
    },
    Unary { name: "sigmoid", ours: tr::sigmoid, reference: sigmoid, borders: &[-104.0, -87.0, 17.0] },
    Unary { name: "softplus", ours: tr::softplus, reference: softplus, borders: &[-104.0, 0.0, 17.0, 89.0] },
    Unary {
        name: "erf",
        ours: tr::erf,
        reference: libm::erf,
        borders: &[0.5, 0.49999997, -0.5, 3.9, 4.0, 10.6],
    },
    Unary {
        name: "sin",
        ours: tr::sin,
        reference: libm::sin,
        borders: &[1_048_576.0, 1_048_576.1, 3.1415927, 0.7853982, 6.2831855, 1.0e30],
    },
    Unary {
        name: "arctan",
        ours: tr::atan,
        reference: libm::atan,
        borders: &[2.4142137, 0.41421357, 0.41421354, 2.4142134, 1.0],
    },
    Unary { name: "rsqrt", ours: tr::rsqrt, reference: |x| 1.0 / x.sqrt(), borders: &[1.0, 4.0] },
    Unary {
        name: "gelu",
        ours: tr::gelu,
        reference: |x| nan_at_minus_inf(x, x * phi(x)),
        borders: &[0.0, -13.0, -14.99, 10.0],
    },
    Unary {
        name: "gelu_apprx_tanh",
        ours: tr::gelu_tanh,
        reference: |x| {
            let u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
            nan_at_minus_inf(x, x * sigmoid(2.0 * u))
        },
        borders: &[0.0, -10.0, 10.0],
    },
    Unary {
        name: "gelu_apprx_sigmoid",
        ours: tr::gelu_sigmoid,
        reference: |x| nan_at_minus_inf(x, x * sigmoid(1.702 * x)),
        borders: &[0.0, -60.0],
    },
    Unary {
        name: "derivative_gelu",
        ours: tr::gelu_dx,
        reference: |x| nan_at_inf(x, phi(x) + x * 0.3989422804014327 * libm::exp(-0.5 * x * x)),
        borders: &[-0.7517916, -0.75179154, -0.7517915, 40.0, -40.0],
    },
    Unary {
        name: "derivative_gelu_apprx_sigmoid",
        ours: tr::gelu_sigmoid_dx,
        reference: |x| nan_at_inf(x, swish_dx(1.702 * x)),
        borders: &[-0.7514, -0.75136, 60.0],
    },
    Unary {
        name: "derivative_erf",
        ours: tr::erf_dx,
        reference: |x| std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-x * x),
        borders: &[0.0, 10.2],
    },
    Unary {
        name: "silu",
        ours: tr::silu,
        reference: |x| nan_at_minus_inf(x, x * sigmoid(x)),
        borders: &[0.0, -104.0, -110.0],
    },
    Unary {
        name: "derivative_silu",
        ours: tr::silu_dx,
        reference: |x| nan_at_inf(x, swish_dx(x)),
        borders: &[-1.2784645, -1.2784646, 90.0],
    },
    Unary {
        name: "mish",
        ours: tr::mish,
        reference: |x| {
            let w = libm::exp(x.min(700.0));
            let t = if x > 40.0 { 1.0 } else { w * (w + 2.0) / (w * (w + 2.0) + 2.0) };
            nan_at_minus_inf(x, x * t)
        },
        borders: &[0.0, 40.0, -104.0],
    },
];

/// Position of a float on the number line of floats.
fn ordered(x: f32) -> i64 {
    let b = i64::from(x.to_bits() & 0x7FFF_FFFF);
    if x.is_sign_negative() { -b } else { b }
}

/// Steps between ours and the correctly rounded reference; NaN equals NaN. `i64::MAX` for NaN against a number.
pub fn distance(got: f32, reference: f64) -> i64 {
    let want = reference as f32;
    match (got.is_nan(), want.is_nan()) {
        (true, true) => 0,
        (false, false) => (ordered(got) - ordered(want)).abs(),
        _ => i64::MAX,
    }
}

/// Distance in units of the last place of the rounded reference, as a real number; 0 where either is not finite.
pub fn error_ulp(got: f32, reference: f64) -> f64 {
    let want = reference as f32;
    if !want.is_finite() || !got.is_finite() {
        return 0.0;
    }
    let e = (want.abs().to_bits() >> 23).max(1) as i32;
    (f64::from(got) - reference).abs() / 2f64.powi(e - 127 - 23)
}
