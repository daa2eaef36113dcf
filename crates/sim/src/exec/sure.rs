//! Instructions whose computation can be put off: they cannot fault, whatever memory and engine state hold.
//!
//! The answer is about shapes, types and attributes. It repeats the conditions under which the code of an instruction refuses, and may say
//! no where nothing would be refused; a test runs every instruction of the corpus that it calls sure against this promise. Such
//! an instruction reads its plain operands and the state of its own engine, no registers.

use super::tile::num_lanes;
use super::{Arg, Decoded, touches, view_claims_too_much};
use crate::memory::{Memory, View};
use crate::num::alu::{self, AluClass, Src};
use crate::num::convert::{copies_bits, lanes};
use crate::numeric_profile::{IntReduce, NumericProfile};
use tandem_bir::arch::{ArchLevel, ArchSpec};
use tandem_bir::{
    ActivationFunctionType as Func, AluOp, Attr, AttrValue, AxisListType, CopyMode, Dtype,
    EngineAccumulationType as Cmd, EngineKind, Inst, MatmultPerfMode, MemsetMode, Opcode,
};

/// PSUM views that were last written by products of one core, some of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Vec<View>);

/// Views that are remembered (our choice).
const MOST_OPENED: usize = 32;

impl Opened {
    /// An instruction of the core is computed now or later, in this order.
    pub(crate) fn follow(&mut self, mem: &Memory, d: &Decoded, inst: &Inst) {
        let product = d.opcode == Opcode::Matmult && !inst.get_bool(Attr::IsTranspose);
        for a in &d.outs {
            let v = match a {
                Arg::View(v) => v,
                Arg::Indexed(x) if mem.info(x.view.buf).psum => {
                    self.0.clear();
                    continue;
                }
                Arg::Indexed(_) | Arg::Imm(_) | Arg::Reg(_) => continue,
            };
            if !mem.info(v.buf).psum {
                continue;
            }
            if !product {
                self.0.retain(|o| o.buf != v.buf || !touches(o, v));
            } else if !self.0.contains(v) {
                if self.0.len() >= MOST_OPENED {
                    self.0.remove(0);
                }
                self.0.push(v.clone());
            }
        }
    }
}

/// Work of an instruction in elements of a simple one, roughly.
pub(crate) fn weight(d: &Decoded) -> u64 {
    let of = |a: Option<&Arg>| match a {
        Some(Arg::View(v)) => v.num_elems() as u64,
        Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) | None => 0,
    };
    let most = of(d.outs.first()).max(of(d.ins.first()));
    match d.opcode {
        // Products by row of the operands; eight of them take the time of one element.
        Opcode::Matmult => {
            let k = d.in_view(0).map_or(0, View::partitions) as u64;
            (of(d.outs.first()).saturating_mul(k) / 8).max(most)
        }
        Opcode::Activation | Opcode::Exponential => most.saturating_mul(4),
        _ => most,
    }
}

/// Whether an instruction faults does not depend on values, on engine state or on registers: one with fixed operands that has run
/// once will not fault.
pub(crate) fn settled_by_one_run(d: &Decoded, inst: &Inst) -> bool {
    let listed = matches!(
        d.opcode,
        Opcode::TensorTensor
            | Opcode::TensorScalar
            | Opcode::TensorScalarPtr
            | Opcode::TensorReduce
            | Opcode::Pool
            | Opcode::BnStats
            | Opcode::BnStatsAggregate
            | Opcode::BnGradients
            | Opcode::BnBackprop
            | Opcode::BnBackprop2
            | Opcode::StreamShuffle
            | Opcode::StreamTranspose
            | Opcode::Max
            | Opcode::MaxIndex
            | Opcode::MatchReplace
            | Opcode::MaxIndexAndMatchReplace
            | Opcode::NonzeroWithCount
            | Opcode::QuantizeMx
            | Opcode::Memset
            | Opcode::Iota
            | Opcode::Dropout
            | Opcode::Rng
            | Opcode::Rand
            | Opcode::Rand2
            | Opcode::DmaCopy
            | Opcode::TensorScalarAffineSelect
            | Opcode::RangeSelect
            | Opcode::CopyPredicated
    );
    let plain = d.ins.iter().chain(&d.outs).all(|a| matches!(a, Arg::View(_) | Arg::Imm(_)));
    let commands = [Attr::Acc, Attr::ReduceCmd, Attr::AccumulatorCmd];
    let fresh = |a: &Attr| inst.get_enum::<Cmd>(*a).is_none_or(Cx::fresh);
    listed
        && plain
        && d.indirect.is_empty()
        && commands.iter().all(fresh)
        && ![Attr::Constant, Attr::Base].iter().any(|a| matches!(inst.attrs.get(*a), Some(AttrValue::Expr(_))))
        // Reads accumulators out of lanes that may be others than its own.
        && !(inst.get_bool(Attr::IsScalarTensorTensor) && d.outs.len() > 1)
}

/// What the answer depends on beside the instruction.
struct Cx<'a> {
    mem: &'a Memory,
    profile: &'a NumericProfile,
    d: &'a Decoded,
    inst: &'a Inst,
}

/// The instruction cannot fault.
pub(crate) fn sure(
    mem: &Memory,
    arch: &ArchSpec,
    profile: &NumericProfile,
    d: &Decoded,
    inst: &Inst,
    opened: &Opened,
) -> bool {
    let cx = Cx { mem, profile, d, inst };
    let small = d.ins.iter().chain(&d.outs).all(|a| match a {
        Arg::View(v) => view_claims_too_much(mem, v).is_none(),
        Arg::Imm(_) | Arg::Reg(_) => true,
        Arg::Indexed(_) => false,
    });
    if !small || !d.indirect.is_empty() {
        return false;
    }
    let answer = match d.opcode {
        Opcode::GenericCopy
        | Opcode::AbstractCopy
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::Load
        | Opcode::Save => cx.copy(),
        Opcode::DmaCopy => cx.dma_copy(),
        Opcode::TensorTensor => cx.tensor_tensor(),
        Opcode::TensorScalar => cx.tensor_scalar(),
        Opcode::TensorScalarPtr => cx.tensor_scalar_ptr(),
        Opcode::Reciprocal => cx.reciprocal(),
        Opcode::Activation => cx.activation(),
        Opcode::Exponential => cx.exponential(),
        Opcode::TensorReduce => cx.tensor_reduce(),
        Opcode::Matmult => cx.matmult(arch, opened),
        Opcode::Memset => cx.memset(),
        Opcode::TensorScalarAffineSelect => cx.affine_select(),
        Opcode::RangeSelect => cx.range_select(),
        Opcode::CopyPredicated => cx.copy_predicated(),
        _ => None,
    };
    answer == Some(true)
}

/// Elements of a type that arithmetic works on.
fn plain(v: &View) -> bool {
    lanes(v.dtype) == 1
}

impl Cx<'_> {
    fn both(&self) -> Option<(&View, &View)> {
        Some((self.d.in_view(0)?, self.d.out_view(0)?))
    }
    /// Both plain, of the same number of elements.
    fn like(&self) -> Option<(&View, &View)> {
        let (src, dst) = self.both()?;
        (plain(src) && plain(dst) && src.num_elems() == dst.num_elems()).then_some((src, dst))
    }
    /// In the table of fp32 operations.
    fn known(&self, op: AluOp) -> bool {
        alu::zip_assign(op, &mut [], Src::Row(&[]), false, self.profile.alu_minmax_nan).is_some()
    }
    /// Input `i` gives one value, or one per partition.
    fn per_part(&self, i: usize, parts: usize) -> bool {
        match self.d.ins.get(i) {
            Some(Arg::Imm(_)) => true,
            Some(Arg::View(v)) => plain(v) && (v.num_elems() == 1 || v.num_elems() == parts),
            Some(Arg::Reg(_) | Arg::Indexed(_)) | None => false,
        }
    }
    /// The same, or one per element.
    fn scalar_or_full(&self, i: usize, src: &View) -> bool {
        let full = |v: &View| plain(v) && v.num_elems() == src.num_elems();
        self.d.in_view(i).is_some_and(full) || self.per_part(i, src.partitions())
    }
    /// The partitions have accumulators.
    fn lanes(&self, dst: &View, parts: usize) -> bool {
        let first = match self.mem.info(dst.buf).pitch {
            Some(pitch) if pitch > 0 => dst.base / pitch,
            Some(_) | None => 0,
        };
        first + parts <= super::state::LANES
    }
    /// A command that does not look at what the accumulators hold.
    fn fresh(cmd: Cmd) -> bool {
        matches!(cmd, Cmd::Idle | Cmd::Zero | Cmd::ZeroAccumulate)
    }
    fn whole(&self, attr: Attr) -> bool {
        self.inst.attrs.get(attr).is_none() || self.inst.get_int(attr).is_some()
    }
    fn op(&self, attr: Attr) -> AluOp {
        self.inst.get_enum(attr).unwrap_or(AluOp::Bypass)
    }
    fn bitwise(&self) -> bool {
        [Attr::Op0, Attr::Op1].into_iter().any(|a| alu::class(self.op(a)) == AluClass::BitVector)
    }
    fn stage(&self, op: Attr, reverse: Attr) -> bool {
        let op = self.op(op);
        (op == AluOp::Bypass && !self.inst.get_bool(reverse)) || self.known(op)
    }

    fn copy(&self) -> Option<bool> {
        let (src, dst) = self.both()?;
        Some(if copies_bits(src.dtype, dst.dtype) {
            src.num_elems() == dst.num_elems()
        } else {
            num_lanes(src) == num_lanes(dst)
        })
    }

    fn dma_copy(&self) -> Option<bool> {
        let mode = self.inst.get_enum::<CopyMode>(Attr::Mode).unwrap_or(CopyMode::Copy);
        let copies = matches!(mode, CopyMode::Copy | CopyMode::Dynamic);
        if !copies || self.op(Attr::CceOp) != AluOp::Bypass {
            return Some(false);
        }
        self.copy()
    }

    fn tensor_tensor(&self) -> Option<bool> {
        let (a, dst) = self.like()?;
        let b = self.d.in_view(1)?;
        let op = self.op(Attr::Op);
        let cmd = self.inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
        let native = self.d.engine == EngineKind::Pool;
        Some(
            plain(b)
                && b.num_elems() == dst.num_elems()
                && !(native && [a, b, dst].iter().all(|v| super::tile::is_int32(v.dtype)))
                && alu::class(op) != AluClass::BitVector
                && self.known(op)
                && Self::fresh(cmd)
                && (cmd == Cmd::Idle || self.lanes(dst, dst.partitions())),
        )
    }

    fn tensor_scalar(&self) -> Option<bool> {
        self.like()?;
        let known = self.stage(Attr::Op0, Attr::Reverse0) && self.stage(Attr::Op1, Attr::Reverse1);
        Some(!self.bitwise() && known)
    }

    fn tensor_scalar_ptr(&self) -> Option<bool> {
        let (src, _) = self.like()?;
        let cmd = self.inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
        let other = [Attr::ApplyTranspose, Attr::IsTensorTensorScan, Attr::IsTensorScalarAddr]
            .map(|a| self.inst.get_bool(a));
        if cmd != Cmd::Idle || self.d.outs.len() != 1 || other.contains(&true) || self.bitwise() {
            return Some(false);
        }
        let op1 = self.op(Attr::Op1);
        let second = if op1 == AluOp::Bypass && !self.inst.get_bool(Attr::Reverse1) {
            true
        } else if self.d.ins.len() > 2 {
            self.scalar_or_full(2, src)
        } else {
            matches!(op1, AluOp::Bypass | AluOp::Abs | AluOp::Rsqrt)
        };
        let known = self.stage(Attr::Op0, Attr::Reverse0) && self.stage(Attr::Op1, Attr::Reverse1);
        Some(self.scalar_or_full(1, src) && second && known)
    }

    fn reciprocal(&self) -> Option<bool> {
        self.like().map(|_| true)
    }

    fn activation(&self) -> Option<bool> {
        let (src, dst) = self.like()?;
        let parts = src.partitions();
        let func = self.inst.get_enum::<Func>(Attr::Func).unwrap_or(Func::Unknown);
        let cmd = self.inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
        let fold = self.inst.get_enum::<AluOp>(Attr::ReduceOp).unwrap_or(AluOp::Add);
        let two = self.inst.get_bool(Attr::IsActivate2);
        let ins = self.d.ins.len();
        let operands = if two {
            let stage = |k: usize, op: Attr| match self.op(op) {
                AluOp::Bypass => true,
                AluOp::Mult | AluOp::Add | AluOp::Subtract => self.per_part(1 + k, parts),
                _ => false,
            };
            stage(0, Attr::Op0) && stage(1, Attr::Op1) && (ins <= 3 || self.per_part(3, parts))
        } else {
            (ins <= 1 || self.per_part(1, parts)) && (ins <= 2 || self.per_part(2, parts))
        };
        let folds = match fold {
            AluOp::Add | AluOp::Bypass => true,
            AluOp::Max | AluOp::Min | AluOp::AbsMax | AluOp::AbsMin => two && self.known(fold),
            _ => false,
        };
        let second = match self.d.outs.get(1) {
            None => cmd == Cmd::Idle || folds,
            Some(Arg::View(v)) => folds && plain(v) && v.num_elems() == parts,
            Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) => false,
        };
        Some(func != Func::Unknown && operands && second && Self::fresh(cmd) && self.lanes(dst, parts))
    }

    fn exponential(&self) -> Option<bool> {
        let (src, dst) = self.like()?;
        let parts = src.partitions();
        let cmd = self.inst.get_enum::<Cmd>(Attr::ReduceCmd).unwrap_or(Cmd::Idle);
        let init = self.d.ins.len() <= 2 || self.per_part(2, parts);
        Some(self.per_part(1, parts) && init && Self::fresh(cmd) && self.lanes(dst, parts))
    }

    fn tensor_reduce(&self) -> Option<bool> {
        let (src, dst) = self.both()?;
        let op = self.inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Add);
        let count = match self.inst.get_enum::<AxisListType>(Attr::Axis).unwrap_or(AxisListType::X) {
            AxisListType::X => 1,
            AxisListType::Xy => 2,
            AxisListType::Xyz => 3,
            AxisListType::Xyzw => 4,
            AxisListType::C | AxisListType::Xyzwc => return Some(false),
        };
        let as_int =
            self.profile.int_reduce == IntReduce::Int32 && dst.dtype == Dtype::Int32 && src.dtype.is_int();
        let free = src.free_dims();
        let reduced: usize = if free.len() >= count {
            free[free.len() - count..].iter().map(|x| x.num).product()
        } else if dst.num_elems() == src.partitions() {
            src.elems_per_partition()
        } else {
            return Some(false);
        };
        Some(
            plain(src)
                && plain(dst)
                && !self.inst.get_bool(Attr::ApplyTranspose)
                && alu::class(op) != AluClass::BitVector
                && !as_int
                && (op == AluOp::Average || self.known(op))
                && src.num_elems() / reduced.max(1) == dst.num_elems(),
        )
    }

    fn matmult(&self, arch: &ArchSpec, opened: &Opened) -> Option<bool> {
        let (moving, dst) = self.both()?;
        let stationary = self.d.in_view(1)?;
        let mode = self.inst.get_enum::<MatmultPerfMode>(Attr::PerfMode).unwrap_or(MatmultPerfMode::None);
        let result = matches!(dst.dtype, Dtype::Float32 | Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float32r);
        let (k, m, n) = (moving.partitions(), stationary.elems_per_partition(), moving.elems_per_partition());
        let fits = stationary.partitions() == k && dst.partitions() == m && dst.elems_per_partition() == n;
        let foreign = super::matmul::accumulates_explicitly(self.inst)
            && arch.level != ArchLevel::CoreV4
            && !opened.0.contains(dst);
        let both = [moving, stationary];
        let types = if self.inst.get_bool(Attr::IsTranspose) {
            // Which operand carries the data is found in the values: all readings fit.
            k == m && k == n && both.iter().all(|v| plain(v))
        } else {
            let float = |v: &View| !v.dtype.is_int() && plain(v) && v.dtype != Dtype::Float8E8m0Fnu;
            let only = |t: Dtype| (moving.dtype == t) == (stationary.dtype == t);
            let e4m3 = both.iter().any(|v| v.dtype == Dtype::Float8E4)
                && both.iter().any(|v| v.dtype == Dtype::Float8E4m3Fn);
            both.iter().all(|v| float(v) || v.dtype == Dtype::Uint8)
                && only(Dtype::Float32)
                && only(Dtype::Float32r)
                && !e4m3
        };
        Some(mode == MatmultPerfMode::None && result && fits && !foreign && types)
    }

    fn memset(&self) -> Option<bool> {
        let mode = self.inst.get_enum::<MemsetMode>(Attr::Mode).unwrap_or(MemsetMode::Const);
        Some(plain(self.d.out_view(0)?) && mode == MemsetMode::Const && self.whole(Attr::Constant))
    }

    fn affine_select(&self) -> Option<bool> {
        let (_, dst) = self.like()?;
        let op = self.inst.get_enum::<AluOp>(Attr::CompareOp).unwrap_or(AluOp::IsEqual);
        let compares = matches!(
            op,
            AluOp::IsEqual | AluOp::NotEqual | AluOp::IsGt | AluOp::IsGe | AluOp::IsLt | AluOp::IsLe
        );
        let Some(AttrValue::Pairs(pairs)) = self.inst.attrs.get(Attr::Pattern) else { return Some(false) };
        let all = pairs.iter().fold(1u64, |a, q| a.saturating_mul(q.num));
        Some(compares && self.whole(Attr::Base) && all == dst.elems_per_partition() as u64)
    }

    fn range_select(&self) -> Option<bool> {
        let (src, dst) = self.like()?;
        let parts = src.partitions();
        let cmd = self.inst.get_enum::<Cmd>(Attr::ReduceCmd).unwrap_or(Cmd::Idle);
        let known = |a: Attr, default: AluOp| {
            let op = self.inst.get_enum::<AluOp>(a).unwrap_or(default);
            matches!(op, AluOp::IsEqual | AluOp::IsLt | AluOp::IsLe | AluOp::IsGt | AluOp::IsGe)
        };
        Some(
            self.per_part(1, parts)
                && self.per_part(2, parts)
                && known(Attr::CompareOp0, AluOp::IsGe)
                && known(Attr::CompareOp1, AluOp::IsLt)
                && cmd == Cmd::Idle
                && self.d.outs.len() == 1
                && self.lanes(dst, parts),
        )
    }

    fn copy_predicated(&self) -> Option<bool> {
        let dst = self.d.out_view(0)?;
        let cmd = self.inst.get_enum::<Cmd>(Attr::AccumulatorCmd).unwrap_or(Cmd::Idle);
        let like = |i: usize| self.d.in_view(i).is_some_and(|v| plain(v) && v.num_elems() == dst.num_elems());
        let operands = match self.d.ins.len() {
            2 => like(1) && self.scalar_or_full(0, dst),
            3 => like(0) && like(1) && self.scalar_or_full(2, dst),
            _ => false,
        };
        Some(
            plain(dst)
                && operands
                && cmd == Cmd::Idle
                && self.d.outs.len() == 1
                && self.lanes(dst, dst.partitions()),
        )
    }
}
