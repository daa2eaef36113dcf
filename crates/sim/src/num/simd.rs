//! One body, two compilations: the widest vectors this host has, and the baseline.
//!
//! Guarantee: both compilations of a [`Kernel`] give the same bits, because a kernel uses only IEEE operations that are
//! exact by definition (`+ - * / sqrt`, fused multiply-add, comparisons, bit operations) in an order that does not
//! depend on the vector width, and Rust neither contracts nor reorders them.

#![expect(
    unsafe_code,
    reason = "calling a function compiled for a detected CPU feature needs it; nothing else here does"
)]

/// A loop to be compiled for several vector widths. `run` must be `#[inline(always)]`.
pub trait Kernel {
    /// What the loop gives.
    type Out;
    /// The loop.
    fn run(self) -> Self::Out;
}

/// Runs a kernel in the widest compilation the host supports.
#[inline]
pub fn run<K: Kernel>(k: K) -> K::Out {
    #[cfg(test)]
    if tests::BASELINE.get() {
        return k.run();
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both features were detected on this CPU.
        return unsafe { wide(k) };
    }
    k.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide<K: Kernel>(k: K) -> K::Out {
    k.run()
}

/// Runs a kernel in the baseline compilation, for tests that compare the two.
pub fn run_baseline<K: Kernel>(k: K) -> K::Out {
    k.run()
}

/// Applies `f` to every element: `out[i] = f(a[i])`.
pub struct Map<'a, F> {
    /// Input; its length must be at least that of `out`.
    pub a: &'a [f32],
    /// Output.
    pub out: &'a mut [f32],
    /// The function; inlined into the loop.
    pub f: F,
}

impl<F: Fn(f32) -> f32> Kernel for Map<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (o, &a) in self.out.iter_mut().zip(self.a) {
            *o = (self.f)(a);
        }
    }
}

/// Applies `f` in place: `x[i] = f(x[i])`.
pub struct MapInPlace<'a, F> {
    /// Data.
    pub x: &'a mut [f32],
    /// The function; inlined into the loop.
    pub f: F,
}

impl<F: Fn(f32) -> f32> Kernel for MapInPlace<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for o in self.x.iter_mut() {
            *o = (self.f)(*o);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Every kernel of the crate, through the functions that use it, in both compilations.

    use crate::exec::activation::apply_function;
    use crate::exec::matmul::product;
    use crate::exec::tile::PerPart;
    use crate::num::alu::{self, Src};
    use crate::num::convert::{self, Rules, lanes};
    use crate::num::rng::Mt19937_64;
    use crate::num::round::canonical;
    use crate::numeric_profile::{AluMinMaxNan, MatmulAccum, NumericProfile, SiluDx};
    use std::cell::Cell;
    use tandem_bir::{ActivationFunctionType, AluOp, Dtype};

    thread_local! {
        /// Kernels of this thread run in the baseline compilation.
        pub(super) static BASELINE: Cell<bool> = const { Cell::new(false) };
    }

    /// Both compilations of what `f` does; `f` gives bit patterns.
    fn same(what: &str, f: impl Fn() -> Vec<u32>) {
        let wide = f();
        BASELINE.set(true);
        let base = f();
        BASELINE.set(false);
        assert_eq!(wide.len(), base.len());
        if let Some(i) = (0..wide.len()).find(|i| wide[*i] != base[*i]) {
            panic!("{what}, element {i}: {:#010x} in wide vectors, {:#010x} without", wide[i], base[i]);
        }
    }

    /// Bits of values; which payload a NaN has is decided where results are stored, not in a kernel.
    fn bits(v: &[f32]) -> Vec<u32> {
        v.iter().map(|x| canonical(*x).to_bits()).collect()
    }

    /// Special values, ordinary ones, and random bit patterns; an odd number of them, so that loops have a tail.
    fn values(seed: u64) -> Vec<f32> {
        let mut r = Mt19937_64::new(seed);
        let mut v =
            vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
        v.extend([f32::MIN_POSITIVE, 1e-45, -1e-45, 0.5, 3.5, 88.0, -104.0, 1e-20, 448.0, 57344.0]);
        v.extend((0..1000).map(|_| f32::from_bits(r.next_u32())));
        v.extend((0..1000).map(|_| (r.next_u32() as i32 >> 8) as f32 * 2f32.powi(-18)));
        v
    }

    const NANS: [AluMinMaxNan; 2] = [AluMinMaxNan::SecondOperand, AluMinMaxNan::Propagate];

    #[test]
    fn element_wise_operations() {
        let (a, b) = (values(1), values(2));
        let n = a.len();
        for op in AluOp::ALL {
            for nan in NANS {
                for (k, (x, y)) in [
                    (Src::Row(&a), Src::Row(&b)),
                    (Src::Row(&a), Src::Scalar(1.75)),
                    (Src::Scalar(-0.3), Src::Row(&b)),
                    (Src::Scalar(2.0), Src::Scalar(3.0)),
                ]
                .into_iter()
                .enumerate()
                {
                    same(&format!("zip {op} form {k}"), || {
                        let mut out = vec![0.0; n];
                        let _ = alu::zip(*op, x, y, &mut out, nan);
                        bits(&out)
                    });
                }
                for (swap, y) in [(false, Src::Row(&b)), (true, Src::Row(&b)), (true, Src::Scalar(0.7))] {
                    same(&format!("zip_assign {op}"), || {
                        let mut out = a.clone();
                        let _ = alu::zip_assign(*op, &mut out, y, swap, nan);
                        bits(&out)
                    });
                }
                same(&format!("fold_rows {op}"), || {
                    let mut acc = a.clone();
                    let _ = alu::fold_rows(*op, &mut acc, &b, nan);
                    bits(&acc)
                });
            }
        }
    }

    #[test]
    fn activation_functions() {
        let x = values(3);
        for f in ActivationFunctionType::ALL {
            for silu in [SiluDx::True, SiluDx::Printed] {
                same(&format!("{f}"), || {
                    let mut y = x.clone();
                    let _ = apply_function(*f, &mut y, &PerPart::All(0.25), x.len(), silu);
                    bits(&y)
                });
            }
        }
    }

    #[test]
    fn conversions() {
        let x = values(4);
        let x = &x[..x.len() / 4 * 4];
        let mut r = Mt19937_64::new(5);
        let raw: Vec<u8> = (0..8 * 1031).map(|_| r.next_u32() as u8).collect();
        for profile in [NumericProfile::hw(), NumericProfile::birsim()] {
            for rules in [Rules::of(&profile), Rules::of(&profile).unsaturated()] {
                for t in Dtype::ALL {
                    let size = t.bytes() as usize;
                    same(&format!("to {t}"), || {
                        let mut out = vec![0u8; x.len() / lanes(*t) * size];
                        convert::from_f32(*t, x, &mut out, rules);
                        out.into_iter().map(u32::from).collect()
                    });
                    same(&format!("from {t}"), || {
                        let mut out = vec![0f32; raw.len() / size * lanes(*t)];
                        convert::to_f32(*t, &raw, &mut out, rules);
                        out.iter().map(|x| x.to_bits()).collect()
                    });
                }
            }
        }
    }

    #[test]
    fn products() {
        for (k, m, n) in [(1, 1, 1), (7, 4, 16), (128, 5, 33), (33, 9, 47)] {
            let (a, b) = (values(6), values(7));
            let finite = |v: &[f32], len: usize| -> Vec<f32> {
                v.iter().copied().filter(|x| x.abs() < 1e18).cycle().take(len).collect()
            };
            let (fa, fb) = (finite(&a, k * m), finite(&b, k * n));
            same("product", || bits(&product(&fa, &fb, k, m, n, MatmulAccum::F32)));
        }
    }
}
