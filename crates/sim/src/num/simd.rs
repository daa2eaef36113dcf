//! One body, several compilations: the widest vectors this host has, narrower ones, the baseline.
//!
//! Guarantee: all compilations of a [`Kernel`] give the same bits, because a kernel uses only IEEE operations that are
//! exact by definition (`+ - * / sqrt`, fused multiply-add, comparisons, bit operations) in an order that does not
//! depend on the vector width, and Rust neither contracts nor reorders them.
//!
//! The width is found once per process. [`force`] narrows it, for tests that compare the widths.

#![expect(
    unsafe_code,
    reason = "calling a function compiled for a detected CPU feature needs it; nothing else here does"
)]

use std::sync::atomic::{AtomicU8, Ordering};

/// A loop to be compiled for several vector widths. `run` must be `#[inline(always)]`.
pub trait Kernel {
    /// What the loop gives.
    type Out;
    /// The loop.
    fn run(self) -> Self::Out;
}

/// A compilation of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// What every CPU of the target has (SSE2 on x86-64, NEON on AArch64).
    Baseline,
    /// 256 bits: AVX2 and FMA.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl Width {
    /// All widths, the narrowest first.
    pub const ALL: [Width; 3] = [Width::Baseline, Width::Avx2, Width::Avx512];

    /// This CPU can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Width::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => {
                std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => {
                Width::Avx2.is_supported()
                    && std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Width::Avx2 | Width::Avx512 => false,
        }
    }

    /// The widest that this CPU can run.
    pub fn widest() -> Width {
        Width::ALL.into_iter().rev().find(|w| w.is_supported()).unwrap_or(Width::Baseline)
    }
}

/// The width in use plus one; 0 before it was looked for. Only widths that the CPU supports are ever stored here, which is
/// what the calls in [`run`] rest on.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The width in use.
#[inline]
pub fn width() -> Width {
    #[cfg(test)]
    if let Some(w) = tests::FORCED.get() {
        return w;
    }
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Width::Baseline,
        2 => Width::Avx2,
        3 => Width::Avx512,
        _ => find(),
    }
}

#[cold]
fn find() -> Width {
    let w = Width::widest();
    CHOSEN.store(w as u8 + 1, Ordering::Relaxed);
    w
}

/// Uses a width from here on in the whole process, or the widest again; for tests. False, and nothing changes, when this
/// CPU does not have it.
pub fn force(w: Option<Width>) -> bool {
    let w = w.unwrap_or_else(Width::widest);
    if !w.is_supported() {
        return false;
    }
    CHOSEN.store(w as u8 + 1, Ordering::Relaxed);
    true
}

/// Runs a kernel in the compilation in use.
#[inline]
pub fn run<K: Kernel>(k: K) -> K::Out {
    match width() {
        Width::Baseline => k.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `width` gives only widths whose features were detected on this CPU.
        Width::Avx2 => unsafe { avx2(k) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the same.
        Width::Avx512 => unsafe { avx512(k) },
        #[cfg(not(target_arch = "x86_64"))]
        Width::Avx2 | Width::Avx512 => k.run(),
    }
}

/// Runs a kernel in the baseline compilation, for tests that compare.
pub fn run_baseline<K: Kernel>(k: K) -> K::Out {
    k.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<K: Kernel>(k: K) -> K::Out {
    k.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn avx512<K: Kernel>(k: K) -> K::Out {
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
    //! Every kernel of the crate, through the functions that use it, in all compilations this CPU can run.

    use super::Width;
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
        /// Kernels of this thread run in this compilation.
        pub(super) static FORCED: Cell<Option<Width>> = const { Cell::new(None) };
    }

    /// All compilations of what `f` does; `f` gives bit patterns.
    fn same(what: &str, f: impl Fn() -> Vec<u32>) {
        FORCED.set(Some(Width::Baseline));
        let base = f();
        for w in Width::ALL.into_iter().filter(|w| w.is_supported()) {
            FORCED.set(Some(w));
            let wide = f();
            assert_eq!(wide.len(), base.len());
            if let Some(i) = (0..wide.len()).find(|i| wide[*i] != base[*i]) {
                panic!("{what}, element {i}: {:#010x} with {w:?}, {:#010x} without", wide[i], base[i]);
            }
        }
        FORCED.set(None);
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
