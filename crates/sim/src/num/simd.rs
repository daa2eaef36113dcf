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
