//! One body, several compilations: the widest vectors this host has, narrower ones, the baseline.
//!
//! Guarantee: all compilations of a [`Kernel`] give the same bits, because a kernel uses only IEEE operations that are
//! exact by definition (`+ - * / sqrt`, fused multiply-add, comparisons, bit operations) in an order that does not
//! depend on the vector width, and Rust neither contracts nor reorders them.
//!
//! The width is found once per process. [`force`] narrows it, for tests that compare the widths.

#![expect(
    unsafe_code,
    reason = "calling a function compiled for a detected CPU feature needs it, and moving whole vectors to and from arrays; nothing else here does"
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

/// Rows and columns of the blocks of [`transposed`].
pub const SIDE: usize = 8;

/// An element that is plain bytes; no more than 32 bits of it are looked at.
pub trait Element: Copy {
    /// Its bytes as a little-endian number.
    fn word(self) -> u32;
}

impl<const N: usize> Element for [u8; N] {
    #[inline(always)]
    fn word(self) -> u32 {
        let mut word = [0; 4];
        word[..N.min(4)].copy_from_slice(&self[..N.min(4)]);
        u32::from_le_bytes(word)
    }
}

impl Element for u32 {
    #[inline(always)]
    fn word(self) -> u32 {
        self
    }
}

impl Element for f32 {
    #[inline(always)]
    fn word(self) -> u32 {
        self.to_bits()
    }
}

/// The transpose of a block: `out[i][j]` is the word of `rows[j][i]`.
#[inline(always)]
pub fn transposed<E: Element>(rows: [&[E; SIDE]; SIDE]) -> [[u32; SIDE]; SIDE] {
    #[cfg(target_arch = "x86_64")]
    if matches!(size_of::<E>(), 1 | 2 | 4) && width() != Width::Baseline {
        let mut out = [[0u32; SIDE]; SIDE];
        // SAFETY: `width` gives only widths whose features were detected on this CPU; all but the baseline have AVX2.
        unsafe { transposed_avx2(rows, &mut out) };
        return out;
    }
    std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i].word()))
}

/// Moves bits only: half rows are read into the two halves of a vector, which are then transposed at once. Not inlined: the
/// optimiser takes the loads apart where it sees what they are made of.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn transposed_avx2<E: Element>(rows: [&[E; SIDE]; SIDE], out: &mut [[u32; SIDE]; SIDE]) {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_cvtepu8_epi32, _mm_cvtepu16_epi32, _mm_loadl_epi64, _mm_loadu_si32,
        _mm_loadu_si128, _mm256_set_m128i, _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
        _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    };
    // Elements `4h..4h + 4` of a row as words.
    let half = |k: usize, h: usize| -> __m128i {
        let at = rows[k][4 * h..4 * h + 4].as_ptr();
        // SAFETY: four elements are read, of which each has the size asked for; no alignment is asked for.
        unsafe {
            match size_of::<E>() {
                4 => _mm_loadu_si128(at.cast()),
                2 => _mm_cvtepu16_epi32(_mm_loadl_epi64(at.cast())),
                1 => _mm_cvtepu8_epi32(_mm_loadu_si32(at.cast())),
                _ => unreachable!("elements have 1, 2 or 4 bytes"),
            }
        }
    };
    for h in 0..2 {
        let pair = |k: usize| -> __m256i { _mm256_set_m128i(half(k + 4, h), half(k, h)) };
        let r = [pair(0), pair(1), pair(2), pair(3)];
        let (a, b) = (_mm256_unpacklo_epi32(r[0], r[1]), _mm256_unpackhi_epi32(r[0], r[1]));
        let (c, d) = (_mm256_unpacklo_epi32(r[2], r[3]), _mm256_unpackhi_epi32(r[2], r[3]));
        let columns = [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ];
        for (to, v) in out[4 * h..].iter_mut().zip(columns) {
            // SAFETY: a row has the 32 bytes that are written; no alignment is asked for.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast::<__m256i>(), v) };
        }
    }
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
pub(crate) mod tests {
    //! Every kernel of the crate, through the functions that use it, in all compilations this CPU can run.

    use super::{Element, SIDE, Width, transposed};
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

    /// Does the same in every compilation this CPU can run.
    pub(crate) fn in_each_width(mut f: impl FnMut(Width)) {
        for w in Width::ALL.into_iter().filter(|w| w.is_supported()) {
            FORCED.set(Some(w));
            f(w);
        }
        FORCED.set(None);
    }

    fn transposes_of<E: Element>(e: impl Fn(u32) -> E) {
        let m: [[E; SIDE]; SIDE] = std::array::from_fn(|i| {
            std::array::from_fn(|j| e(0xA5A5_A503 + 0x0102_0409 * (8 * i + j) as u32))
        });
        in_each_width(|w| {
            let t = transposed(m.each_ref());
            for i in 0..SIDE {
                for j in 0..SIDE {
                    assert_eq!(t[i][j], m[j][i].word(), "{w:?}, row {i}, column {j}");
                }
            }
        });
    }

    #[test]
    fn transposes() {
        transposes_of(|x| x);
        transposes_of(f32::from_bits);
        transposes_of(u32::to_le_bytes);
        transposes_of(|x| (x as u16).to_le_bytes());
        transposes_of(|x| [x as u8]);
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
