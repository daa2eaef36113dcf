//! Folds by `max`, `min`, `abs_max` and `abs_min` along a row, in lanes, with the bits of the fold from left to right.
//!
//! Why lanes may be used. Let `f(acc, x)` be `acc > x ? acc : x` ([`alu::max`]; `min` is the same on negated values). On values
//! that are no NaN, `f` keeps `acc` only when it is greater, so that the fold over a run is *the last of its greatest
//! elements*: which of them are greatest does not depend on the order, and equal values have equal bits except for the two
//! zeros, whose last one is looked up. The fold over a run `R` without NaN that starts from an accumulator `a` is then
//! `f(a, fold(R))`:
//! - `a` is no NaN: both are the last of the greatest of `a, R`;
//! - `a` is a NaN and the NaN is propagated: both are `a`;
//! - `a` is a NaN and the second operand is taken: the first element of `R` replaces `a`, and `f(a, fold(R))` is `fold(R)`.
//!
//! A run that has a NaN is folded element by element.

use super::stream::{self, Walk};
use crate::num::alu;
use crate::num::round;
use crate::num::simd::{self, Kernel};
use crate::numeric_profile::AluMinMaxNan;
use tandem_bir::{AluOp, Dtype};

/// Values compared side by side.
const LANES: usize = 32;
/// Elements of a run (our choice); few in tests, so that small rows have several.
const RUN: usize = if cfg!(test) { 48 } else { 2048 };

/// A fold by one of the four operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extreme {
    op: AluOp,
    nan: AluMinMaxNan,
    /// Bits of a value that count: all, or all but the sign.
    keep: u32,
    /// Bits that are changed before values are compared by `max`.
    flip: u32,
}

impl Extreme {
    /// `None` for any other operation.
    pub(crate) fn of(op: AluOp, nan: AluMinMaxNan) -> Option<Extreme> {
        const SIGN: u32 = 1 << 31;
        let (keep, flip) = match op {
            AluOp::Max => (u32::MAX, 0),
            AluOp::Min => (u32::MAX, SIGN),
            AluOp::AbsMax => (!SIGN, 0),
            AluOp::AbsMin => (!SIGN, SIGN),
            _ => return None,
        };
        Some(Extreme { op, nan, keep, flip })
    }

    /// The fold of `x` from left to right, beginning with `acc`, else with the first element as it is. `x` is not empty.
    pub(crate) fn fold(self, acc: Option<f32>, x: &[f32]) -> f32 {
        self.fold_by(acc, x, |v| v)
    }

    /// The same of elements that `value` reads.
    fn fold_by<T: Copy>(self, acc: Option<f32>, x: &[T], value: impl Fn(T) -> f32 + Copy) -> f32 {
        x.chunks(RUN).fold(acc, |acc, run| Some(self.run(acc, run, value))).unwrap_or(f32::NAN)
    }

    /// The fold of the next `n` elements of a walk, beginning with the first as it is; the type has one lane, and `n` is not 0.
    pub(crate) fn fold_walk(self, bytes: &[u8], walk: &mut Walk, dtype: Dtype, n: usize) -> f32 {
        let (mut acc, mut left) = (None, n);
        let bf16 = |b| round::bf16_to_f32(u16::from_le_bytes(b));
        let mut block = [0f32; RUN];
        while left > 0 {
            if matches!(dtype, Dtype::Float32 | Dtype::Float32r) && walk.stride() == 4 {
                let (at, k) = walk.span(left);
                acc = Some(self.fold_by(acc, bytes[at..at + 4 * k].as_chunks().0, f32::from_le_bytes));
                left -= k;
            } else if dtype == Dtype::Bfloat16 && walk.stride() == 2 {
                let (at, k) = walk.span(left);
                acc = Some(self.fold_by(acc, bytes[at..at + 2 * k].as_chunks().0, bf16));
                left -= k;
            } else {
                let k = left.min(RUN);
                stream::load(bytes, walk, dtype, &mut block[..k]);
                acc = Some(self.fold(acc, &block[..k]));
                left -= k;
            }
        }
        acc.unwrap_or(f32::NAN)
    }

    /// A run of at least one element.
    fn run<T: Copy>(self, acc: Option<f32>, x: &[T], value: impl Fn(T) -> f32 + Copy) -> f32 {
        let one = |a, b| alu::scalar(self.op, a, b, self.nan).unwrap_or(f32::NAN);
        let in_order = || x.iter().map(|v| value(*v)).fold(acc, |a, v| Some(a.map_or(v, |a| one(a, v))));
        // A single first element is its own fold, whatever its sign.
        if x.len() < 2 {
            return in_order().unwrap_or(f32::NAN);
        }
        let key = move |v: T| f32::from_bits((value(v).to_bits() & self.keep) ^ self.flip);
        let (most, magnitude) = simd::run(Most { x, key });
        if magnitude > f32::INFINITY.to_bits() {
            return in_order().unwrap_or(f32::NAN);
        }
        let most = if most == 0.0 {
            x.iter().rev().map(|v| key(*v)).find(|v| *v == 0.0).unwrap_or(most)
        } else {
            most
        };
        let folded = f32::from_bits(most.to_bits() ^ self.flip);
        acc.map_or(folded, |a| one(a, folded))
    }
}

/// The greatest value, either zero when it is zero, and the greatest bits without the sign, which tell whether there is a NaN.
struct Most<'a, T, F> {
    x: &'a [T],
    key: F,
}

impl<T: Copy, F: Fn(T) -> f32> Kernel for Most<'_, T, F> {
    type Out = (f32, u32);
    #[inline(always)]
    fn run(self) -> (f32, u32) {
        let Most { x, key } = self;
        // No lane is reached by a computed index: the lanes stay in registers.
        let mut most = [f32::NEG_INFINITY; LANES];
        let mut magnitude = [0u32; LANES];
        let mut put = |b: &[T; LANES]| {
            for j in 0..LANES {
                let v = key(b[j]);
                most[j] = greater(most[j], v);
                magnitude[j] = magnitude[j].max(v.to_bits() & 0x7FFF_FFFF);
            }
        };
        let (blocks, tail) = x.as_chunks::<LANES>();
        blocks.iter().for_each(&mut put);
        if let Some(first) = tail.first() {
            put(&std::array::from_fn(|j| *tail.get(j).unwrap_or(first)));
        }
        let mut half = LANES / 2;
        while half > 0 {
            for j in 0..half {
                most[j] = greater(most[j], most[j + half]);
                magnitude[j] = magnitude[j].max(magnitude[j + half]);
            }
            half /= 2;
        }
        (most[0], magnitude[0])
    }
}

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dim;
    use crate::num::rng::Mt19937_64;
    use crate::num::simd::tests::in_each_width;

    const OPS: [AluOp; 4] = [AluOp::Max, AluOp::Min, AluOp::AbsMax, AluOp::AbsMin];

    fn f32s(bits: &[u32]) -> Vec<f32> {
        bits.iter().map(|b| f32::from_bits(*b)).collect()
    }

    /// Lanes against the definition, from no accumulator and from every kind of accumulator, in every width.
    fn check(x: &[f32]) {
        in_each_width(|_| check_width(x));
    }

    fn check_width(x: &[f32]) {
        let accs = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY]
            .into_iter()
            .chain(f32s(&[0x7FC0_0001, 0xFFC1_2345]))
            .map(Some);
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        // The upper halves are bf16 values, NaN payloads cut short among them.
        let half: Vec<u8> = x.iter().flat_map(|v| [v.to_le_bytes()[2], v.to_le_bytes()[3]]).collect();
        let wide: Vec<f32> = half
            .as_chunks::<2>()
            .0
            .iter()
            .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
            .collect();
        for op in OPS {
            for nan in [AluMinMaxNan::SecondOperand, AluMinMaxNan::Propagate] {
                let e = Extreme::of(op, nan).expect("an extreme");
                let mut walk = Walk::of(0, &[Dim { stride: 4, num: x.len() }], 4);
                let walked = e.fold_walk(&bytes, &mut walk, Dtype::Float32, x.len());
                let mut walk = Walk::of(0, &[Dim { stride: 2, num: x.len() }], 2);
                let halved = e.fold_walk(&half, &mut walk, Dtype::Bfloat16, x.len());
                let in_order = |a: f32, v: &f32| alu::scalar(op, a, *v, nan).expect("in the table");
                let want = wide[1..].iter().fold(wide[0], in_order);
                assert_eq!(halved.to_bits(), want.to_bits(), "{op} {nan:?} bf16 {wide:?}");
                for acc in [None].into_iter().chain(accs.clone()) {
                    let (first, rest) = acc.map_or((x[0], &x[1..]), |a| (a, x));
                    let want =
                        rest.iter().fold(first, |a, v| alu::scalar(op, a, *v, nan).expect("in the table"));
                    let got = e.fold(acc, x);
                    assert_eq!(got.to_bits(), want.to_bits(), "{op} {nan:?} from {acc:?} over {x:?}");
                    if acc.is_none() {
                        assert_eq!(walked.to_bits(), want.to_bits(), "{op} {nan:?} packed {x:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn lanes_give_the_bits_of_the_fold_in_order() {
        // Two NaN payloads of both signs, zeros, infinities and equal values, in every position of short rows.
        let special = f32s(&[
            0x7FC0_0001,
            0xFFC0_0002,
            0,
            0x8000_0000,
            0x7F80_0000,
            0xFF80_0000,
            0x3F80_0000,
            0xBF80_0000,
        ]);
        for a in &special {
            check(&[*a]);
            for b in &special {
                check(&[*a, *b]);
                for c in &special {
                    check(&[*a, *b, *c]);
                }
            }
        }
        // One special value, and then a second one, in every position of a row of several runs and of a tail.
        let n = 2 * RUN + 35;
        let rows: [Vec<f32>; 4] = [
            (0..n).map(|i| ((i * 37) % 101) as f32 - 50.0).collect(),
            (0..n).map(|i| -1.0 - (i % 7) as f32).collect(),
            vec![-0.0; n],
            vec![0.0; n],
        ];
        for row in &rows {
            for at in (0..n).step_by(3) {
                for (k, v) in special.iter().enumerate() {
                    let mut x = row.clone();
                    x[at] = *v;
                    check(&x);
                    x[(at * 5 + k) % n] = special[(at + k) % special.len()];
                    check(&x);
                }
            }
        }
        let mut r = Mt19937_64::new(9);
        for n in 1..150 {
            check(&(0..n).map(|_| f32::from_bits(r.next_u32())).collect::<Vec<_>>());
            check(&(0..n).map(|_| special[r.next_u32() as usize % 8]).collect::<Vec<_>>());
            check(&(0..n).map(|_| special[2 + r.next_u32() as usize % 6]).collect::<Vec<_>>());
        }
    }
}
