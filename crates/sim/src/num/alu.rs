//! The ALU: fp32 table, bit-vector class, integer class.
//!
//! Source: the specification, file 09 §5. Each result is one IEEE operation in fp32 (nothing is fused); comparisons and
//! logical operations give 1.0 or 0.0.

use super::simd::{self, Kernel};
use super::transcendental as tr;
use crate::numeric_profile::AluMinMaxNan;
use tandem_bir::AluOp;

/// Class of an ALU operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AluClass {
    /// Member of the fp32 table.
    Float,
    /// Works on the bits of the element.
    BitVector,
    /// Only inside reductions (`average`).
    ReductionOnly,
    /// In no table of the reference and no instruction of the device: `elemwise_mul`, `mod`, `mod_int`.
    None,
}

/// Class of an operation.
pub const fn class(op: AluOp) -> AluClass {
    match op {
        AluOp::Bypass
        | AluOp::Add
        | AluOp::Subtract
        | AluOp::Mult
        | AluOp::Divide
        | AluOp::Max
        | AluOp::Min
        | AluOp::LogicalAnd
        | AluOp::LogicalOr
        | AluOp::LogicalXor
        | AluOp::IsEqual
        | AluOp::NotEqual
        | AluOp::IsGt
        | AluOp::IsGe
        | AluOp::IsLt
        | AluOp::IsLe
        | AluOp::Pow
        | AluOp::Rsqrt
        | AluOp::Abs
        | AluOp::AbsMax
        | AluOp::AbsMin => AluClass::Float,
        AluOp::BitwiseNot
        | AluOp::ArithShiftLeft
        | AluOp::ArithShiftRight
        | AluOp::BitwiseAnd
        | AluOp::BitwiseOr
        | AluOp::BitwiseXor
        | AluOp::LogicalShiftLeft
        | AluOp::LogicalShiftRight => AluClass::BitVector,
        AluOp::Average => AluClass::ReductionOnly,
        AluOp::ElemwiseMul | AluOp::Mod | AluOp::ModInt => AluClass::None,
    }
}

/// An operand of a row operation.
#[derive(Clone, Copy, Debug)]
pub enum Src<'a> {
    /// One value per element; at least as long as the output.
    Row(&'a [f32]),
    /// The same value for every element.
    Scalar(f32),
}

impl Src<'_> {
    /// Value of element `i`.
    #[inline]
    pub fn at(&self, i: usize) -> f32 {
        match self {
            Src::Row(r) => r[i],
            Src::Scalar(s) => *s,
        }
    }
}

#[inline(always)]
fn flag(b: bool) -> f32 {
    if b { 1.0 } else { 0.0 }
}

/// `a > b ? a : b`; with `propagate`, NaN in gives NaN out.
#[inline(always)]
pub fn max(a: f32, b: f32, nan: AluMinMaxNan) -> f32 {
    let r = if a > b { a } else { b };
    match nan {
        AluMinMaxNan::SecondOperand => r,
        AluMinMaxNan::Propagate => {
            if a.is_nan() {
                a
            } else {
                r
            }
        }
    }
}

/// `a < b ? a : b`; with `propagate`, NaN in gives NaN out.
#[inline(always)]
pub fn min(a: f32, b: f32, nan: AluMinMaxNan) -> f32 {
    let r = if a < b { a } else { b };
    match nan {
        AluMinMaxNan::SecondOperand => r,
        AluMinMaxNan::Propagate => {
            if a.is_nan() {
                a
            } else {
                r
            }
        }
    }
}

/// Picks the function of an operation once and hands it to a generic caller, so that loops are specialised.
macro_rules! with_op {
    ($op:expr, $nan:expr, |$f:ident| $body:expr) => {{
        macro_rules! go {
            ($e:expr) => {{
                let $f = $e;
                Some($body)
            }};
        }
        match $op {
            AluOp::Bypass => go!(|a: f32, _: f32| a),
            AluOp::Add => go!(|a: f32, b: f32| a + b),
            AluOp::Subtract => go!(|a: f32, b: f32| a - b),
            AluOp::Mult => go!(|a: f32, b: f32| a * b),
            AluOp::Divide => go!(|a: f32, b: f32| a / b),
            AluOp::Max => match $nan {
                AluMinMaxNan::SecondOperand => go!(|a: f32, b: f32| max(a, b, AluMinMaxNan::SecondOperand)),
                AluMinMaxNan::Propagate => go!(|a: f32, b: f32| max(a, b, AluMinMaxNan::Propagate)),
            },
            AluOp::Min => match $nan {
                AluMinMaxNan::SecondOperand => go!(|a: f32, b: f32| min(a, b, AluMinMaxNan::SecondOperand)),
                AluMinMaxNan::Propagate => go!(|a: f32, b: f32| min(a, b, AluMinMaxNan::Propagate)),
            },
            AluOp::LogicalAnd => go!(|a: f32, b: f32| flag((a != 0.0) & (b != 0.0))),
            AluOp::LogicalOr => go!(|a: f32, b: f32| flag((a != 0.0) | (b != 0.0))),
            AluOp::LogicalXor => go!(|a: f32, b: f32| flag((a != 0.0) ^ (b != 0.0))),
            AluOp::IsEqual => go!(|a: f32, b: f32| flag(a == b)),
            AluOp::NotEqual => go!(|a: f32, b: f32| flag(a != b)),
            AluOp::IsGt => go!(|a: f32, b: f32| flag(a > b)),
            AluOp::IsGe => go!(|a: f32, b: f32| flag(a >= b)),
            AluOp::IsLt => go!(|a: f32, b: f32| flag(a < b)),
            AluOp::IsLe => go!(|a: f32, b: f32| flag(a <= b)),
            AluOp::Pow => go!(|a: f32, b: f32| tr::pow(a, b)),
            AluOp::Rsqrt => go!(|a: f32, _: f32| tr::rsqrt(a)),
            AluOp::Abs => go!(|a: f32, _: f32| a.abs()),
            AluOp::AbsMax => go!(|a: f32, b: f32| max(a.abs(), b.abs(), $nan)),
            AluOp::AbsMin => go!(|a: f32, b: f32| min(a.abs(), b.abs(), $nan)),
            AluOp::BitwiseNot
            | AluOp::ArithShiftLeft
            | AluOp::ArithShiftRight
            | AluOp::BitwiseAnd
            | AluOp::BitwiseOr
            | AluOp::BitwiseXor
            | AluOp::LogicalShiftLeft
            | AluOp::LogicalShiftRight
            | AluOp::Average
            | AluOp::ElemwiseMul
            | AluOp::Mod
            | AluOp::ModInt => None,
        }
    }};
}

struct Zip<'a, F> {
    a: Src<'a>,
    b: Src<'a>,
    out: &'a mut [f32],
    f: F,
}
impl<F: Fn(f32, f32) -> f32> Kernel for Zip<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        match (self.a, self.b) {
            (Src::Row(a), Src::Row(b)) => {
                for ((o, &a), &b) in self.out.iter_mut().zip(a).zip(b) {
                    *o = (self.f)(a, b);
                }
            }
            (Src::Row(a), Src::Scalar(b)) => {
                for (o, &a) in self.out.iter_mut().zip(a) {
                    *o = (self.f)(a, b);
                }
            }
            (Src::Scalar(a), Src::Row(b)) => {
                for (o, &b) in self.out.iter_mut().zip(b) {
                    *o = (self.f)(a, b);
                }
            }
            (Src::Scalar(a), Src::Scalar(b)) => self.out.fill((self.f)(a, b)),
        }
    }
}

/// `out[i] = op(a[i], b[i])`. `None` when the operation is not in the fp32 table.
#[must_use]
pub fn zip(op: AluOp, a: Src<'_>, b: Src<'_>, out: &mut [f32], nan: AluMinMaxNan) -> Option<()> {
    with_op!(op, nan, |f| simd::run(Zip { a, b, out, f }))
}

struct ZipAssign<'a, F> {
    x: &'a mut [f32],
    b: Src<'a>,
    swap: bool,
    f: F,
}
impl<F: Fn(f32, f32) -> f32> Kernel for ZipAssign<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        match (self.b, self.swap) {
            (Src::Row(b), false) => self.x.iter_mut().zip(b).for_each(|(x, &b)| *x = (self.f)(*x, b)),
            (Src::Row(b), true) => self.x.iter_mut().zip(b).for_each(|(x, &b)| *x = (self.f)(b, *x)),
            (Src::Scalar(b), false) => self.x.iter_mut().for_each(|x| *x = (self.f)(*x, b)),
            (Src::Scalar(b), true) => self.x.iter_mut().for_each(|x| *x = (self.f)(b, *x)),
        }
    }
}

/// `x[i] = op(x[i], b[i])`, operands exchanged with `swap`. `None` when the operation is not in the fp32 table.
#[must_use]
pub fn zip_assign(op: AluOp, x: &mut [f32], b: Src<'_>, swap: bool, nan: AluMinMaxNan) -> Option<()> {
    with_op!(op, nan, |f| simd::run(ZipAssign { x, b, swap, f }))
}

/// Left fold of a row: `acc = op(acc, x)`. `None` when the operation is not in the fp32 table.
#[must_use]
pub fn fold(op: AluOp, init: f32, row: &[f32], nan: AluMinMaxNan) -> Option<f32> {
    with_op!(op, nan, |f| row.iter().fold(init, |acc, &x| f(acc, x)))
}

/// A loop over an operation of the fp32 table. `run` must be `#[inline(always)]`.
pub(crate) trait OpKernel {
    /// What the loop gives.
    type Out;
    /// The loop, with the function of the operation.
    fn run(self, f: impl Fn(f32, f32) -> f32) -> Self::Out;
}

struct WithOp<K, F> {
    kernel: K,
    f: F,
}
impl<K: OpKernel, F: Fn(f32, f32) -> f32> Kernel for WithOp<K, F> {
    type Out = K::Out;
    #[inline(always)]
    fn run(self) -> K::Out {
        self.kernel.run(self.f)
    }
}

/// Runs a loop with the function of an operation. `None` when the operation is not in the fp32 table.
pub(crate) fn with<K: OpKernel>(op: AluOp, nan: AluMinMaxNan, kernel: K) -> Option<K::Out> {
    with_op!(op, nan, |f| simd::run(WithOp { kernel, f }))
}

struct FoldRows<'a, F> {
    acc: &'a mut [f32],
    x: &'a [f32],
    f: F,
}
impl<F: Fn(f32, f32) -> f32> Kernel for FoldRows<'_, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (a, &x) in self.acc.iter_mut().zip(self.x) {
            *a = (self.f)(*a, x);
        }
    }
}

/// `acc[i] = op(acc[i], x[i])`: many independent folds advance by one element.
#[must_use]
pub fn fold_rows(op: AluOp, acc: &mut [f32], x: &[f32], nan: AluMinMaxNan) -> Option<()> {
    with_op!(op, nan, |f| simd::run(FoldRows { acc, x, f }))
}

/// One value.
#[must_use]
pub fn scalar(op: AluOp, a: f32, b: f32, nan: AluMinMaxNan) -> Option<f32> {
    with_op!(op, nan, |f| f(a, b))
}

/// Left fold of each of `n` columns: rows of `x` are `n` long, `acc` has `n` values. Folds in row order.
#[must_use]
pub fn fold_columns(op: AluOp, acc: &mut [f32], x: &[f32], nan: AluMinMaxNan) -> Option<()> {
    let n = acc.len();
    if n == 0 {
        return Some(());
    }
    for row in x.chunks_exact(n) {
        fold_rows(op, acc, row, nan)?;
    }
    Some(())
}

/// Running fold `c = outer(inner(x[i], s[i]), c)` style scans: `c = op1(op0(a[i], c), b[i])` with optional exchanges.
#[must_use]
pub fn scan(
    (op0, swap0): (AluOp, bool),
    (op1, swap1): (AluOp, bool),
    a: &[f32],
    b: Src<'_>,
    init: f32,
    out: &mut [f32],
    nan: AluMinMaxNan,
) -> Option<f32> {
    let mut c = init;
    for (i, (o, &x)) in out.iter_mut().zip(a).enumerate() {
        let t = if swap0 { scalar(op0, c, x, nan)? } else { scalar(op0, x, c, nan)? };
        let y = b.at(i);
        c = if swap1 { scalar(op1, y, t, nan)? } else { scalar(op1, t, y, nan)? };
        *o = c;
    }
    Some(c)
}

/// The identity of a fold; zero for operations that have none.
pub const fn identity(op: AluOp) -> f32 {
    match op {
        AluOp::Mult => 1.0,
        AluOp::Max => f32::NEG_INFINITY,
        AluOp::Min | AluOp::AbsMin => f32::INFINITY,
        AluOp::LogicalAnd => 1.0,
        AluOp::Bypass
        | AluOp::BitwiseNot
        | AluOp::ArithShiftLeft
        | AluOp::ArithShiftRight
        | AluOp::Add
        | AluOp::Subtract
        | AluOp::Divide
        | AluOp::BitwiseAnd
        | AluOp::BitwiseOr
        | AluOp::BitwiseXor
        | AluOp::LogicalOr
        | AluOp::LogicalXor
        | AluOp::LogicalShiftLeft
        | AluOp::LogicalShiftRight
        | AluOp::IsEqual
        | AluOp::NotEqual
        | AluOp::IsGt
        | AluOp::IsGe
        | AluOp::IsLt
        | AluOp::IsLe
        | AluOp::Average
        | AluOp::ElemwiseMul
        | AluOp::Pow
        | AluOp::Mod
        | AluOp::Rsqrt
        | AluOp::Abs
        | AluOp::AbsMax
        | AluOp::ModInt => 0.0,
    }
}

/// A bit-vector operation on elements of `bits` width (values sign- or zero-extended as their type says). Shift counts
/// are taken modulo 2^32; counts of the width or more give 0, or the sign for an arithmetic right shift (our choice; the
/// hardware's behaviour is not documented). `None` when the operation is not in the class.
pub fn bit_vector(op: AluOp, a: i64, b: i64, bits: u32) -> Option<i64> {
    let mask = if bits >= 64 { u64::MAX } else { (1u64 << bits) - 1 };
    let (ua, ub) = (a as u64 & mask, b as u64 & mask);
    let count = (b as u64 & 0xFFFF_FFFF) as u32;
    let sign_extend = |v: u64| (v << (64 - bits)) as i64 >> (64 - bits);
    let r = match op {
        AluOp::BitwiseNot => !ua,
        AluOp::BitwiseAnd => ua & ub,
        AluOp::BitwiseOr => ua | ub,
        AluOp::BitwiseXor => ua ^ ub,
        AluOp::ArithShiftLeft | AluOp::LogicalShiftLeft => {
            if count >= bits {
                0
            } else {
                ua << count
            }
        }
        AluOp::LogicalShiftRight => {
            if count >= bits {
                0
            } else {
                ua >> count
            }
        }
        AluOp::ArithShiftRight => (sign_extend(ua) >> count.min(bits - 1)) as u64,
        AluOp::Bypass => ua,
        AluOp::Add
        | AluOp::Subtract
        | AluOp::Mult
        | AluOp::Divide
        | AluOp::Max
        | AluOp::Min
        | AluOp::LogicalAnd
        | AluOp::LogicalOr
        | AluOp::LogicalXor
        | AluOp::IsEqual
        | AluOp::NotEqual
        | AluOp::IsGt
        | AluOp::IsGe
        | AluOp::IsLt
        | AluOp::IsLe
        | AluOp::Average
        | AluOp::ElemwiseMul
        | AluOp::Pow
        | AluOp::Mod
        | AluOp::Rsqrt
        | AluOp::Abs
        | AluOp::AbsMax
        | AluOp::AbsMin
        | AluOp::ModInt => return None,
    };
    Some((r & mask) as i64)
}

/// An operation of the native integer class (Pool, registers, address form): wraps at 64 bits, the caller truncates.
/// Comparisons give 1 or 0. `None` when the class has no such operation.
pub fn integer(op: AluOp, a: i64, b: i64, bits: u32) -> Option<i64> {
    Some(match op {
        AluOp::Bypass => a,
        AluOp::Add => a.wrapping_add(b),
        AluOp::Subtract => a.wrapping_sub(b),
        AluOp::Mult => a.wrapping_mul(b),
        AluOp::Max => a.max(b),
        AluOp::Min => a.min(b),
        AluOp::LogicalAnd => i64::from(a != 0 && b != 0),
        AluOp::LogicalOr => i64::from(a != 0 || b != 0),
        AluOp::LogicalXor => i64::from((a != 0) ^ (b != 0)),
        AluOp::IsEqual => i64::from(a == b),
        AluOp::NotEqual => i64::from(a != b),
        AluOp::IsGt => i64::from(a > b),
        AluOp::IsGe => i64::from(a >= b),
        AluOp::IsLt => i64::from(a < b),
        AluOp::IsLe => i64::from(a <= b),
        AluOp::Abs => a.wrapping_abs(),
        AluOp::AbsMax => a.wrapping_abs().max(b.wrapping_abs()),
        AluOp::AbsMin => a.wrapping_abs().min(b.wrapping_abs()),
        AluOp::BitwiseNot
        | AluOp::ArithShiftLeft
        | AluOp::ArithShiftRight
        | AluOp::BitwiseAnd
        | AluOp::BitwiseOr
        | AluOp::BitwiseXor
        | AluOp::LogicalShiftLeft
        | AluOp::LogicalShiftRight => bit_vector(op, a, b, bits)?,
        AluOp::Divide
        | AluOp::Average
        | AluOp::ElemwiseMul
        | AluOp::Pow
        | AluOp::Mod
        | AluOp::Rsqrt
        | AluOp::ModInt => return None,
    })
}
