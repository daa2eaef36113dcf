//! Tensor-scalar instructions in all their forms: plain, scalar-tensor-tensor, scan, reduce, cumulative.
//!
//! Source: the specification, file 09 §6.1, §6.3; file 04 §7.4 (operand orders).

use super::accumulate::{accumulate, first_lane};
use super::stream::{Out, Plan};
use super::tile::{
    self, PerPart, Tile, input, misfit, output, per_part, refuse_packed, same_count, unsupported,
};
use super::{Arg, Decoded, ExecCx};
use crate::memory::View;
use crate::num::alu::{self, AluClass, Src};
use crate::num::convert;
use crate::numeric_profile::AluMinMaxNan;
use crate::state::Fault;
use tandem_bir::{AluOp, Attr, Dtype, EngineAccumulationType, Inst, TscMode};

type Cmd = EngineAccumulationType;

struct Stages {
    op0: AluOp,
    rev0: bool,
    op1: AluOp,
    rev1: bool,
}

fn stages(inst: &Inst) -> Stages {
    Stages {
        op0: inst.get_enum(Attr::Op0).unwrap_or(AluOp::Bypass),
        rev0: inst.get_bool(Attr::Reverse0),
        op1: inst.get_enum(Attr::Op1).unwrap_or(AluOp::Bypass),
        rev1: inst.get_bool(Attr::Reverse1),
    }
}

/// An operand of a stage: one value per partition, or a full tile.
enum Operand<'v> {
    Scalar(PerPart),
    Full(&'v View),
}

fn operand<'v>(
    cx: &ExecCx<'_>,
    d: &'v Decoded,
    i: usize,
    parts: usize,
    cols: usize,
) -> Result<Operand<'v>, Fault> {
    if let Some(Arg::View(v)) = d.ins.get(i)
        && v.num_elems() == parts * cols
        && cols != 1
    {
        return Ok(Operand::Full(v));
    }
    Ok(Operand::Scalar(per_part(cx, d, i, parts)?))
}

/// One operation with its operand; `y` holds the elements of a full tile that belong to `x`, which starts with element `at`.
fn stage(
    (op, rev): (AluOp, bool),
    s: &Operand<'_>,
    x: &mut [f32],
    y: &[f32],
    (at, cols): (usize, usize),
    nan: AluMinMaxNan,
) -> Option<()> {
    if op == AluOp::Bypass && !rev {
        return Some(());
    }
    match s {
        Operand::Full(_) => alu::zip_assign(op, x, Src::Row(y), rev, nan),
        Operand::Scalar(s) => by_part(op, rev, s, x, at, cols, nan),
    }
}

/// `x = op(x, s)` with the scalar of each element's partition; `x` starts with element `at` of rows of `cols`.
pub(crate) fn by_part(
    op: AluOp,
    rev: bool,
    s: &PerPart,
    x: &mut [f32],
    at: usize,
    cols: usize,
    nan: AluMinMaxNan,
) -> Option<()> {
    match s {
        PerPart::All(v) => alu::zip_assign(op, x, Src::Scalar(*v), rev, nan),
        PerPart::Each(v) => {
            let cols = cols.max(1);
            let (mut rest, mut at) = (x, at);
            while !rest.is_empty() {
                let n = (cols - at % cols).min(rest.len());
                let (row, more) = rest.split_at_mut(n);
                alu::zip_assign(op, row, Src::Scalar(v[at / cols]), rev, nan)?;
                (rest, at) = (more, at + n);
            }
            Some(())
        }
    }
}

/// Both stages of an instruction over its first operand, written to its first output. The results in fp32 when `keep`.
fn two_stages(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    stages: [((AluOp, bool), Operand<'_>); 2],
    keep: bool,
) -> Result<Option<Tile>, Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    let (rules, nan) = (cx.rules(), cx.profile.alu_minmax_nan);
    let refused = || {
        let missing = |((op, rev), _): &&((AluOp, bool), Operand<'_>)| {
            (*op != AluOp::Bypass || *rev) && alu::scalar(*op, 1.0, 1.0, nan).is_none()
        };
        let op = stages.iter().find(missing).map_or(AluOp::Bypass, |((op, _), _)| *op);
        unsupported(d, format!("`{op}`"))
    };
    let cols = src.elems_per_partition();
    let full = |k: usize| match stages[k].1 {
        Operand::Full(v) => Some(v),
        Operand::Scalar(_) => None,
    };
    let second = full(0).or(full(1));
    let both = full(0).is_some() && full(1).is_some();
    if !keep
        && !both
        && let Some(plan) = Plan::new(src, second, dst, Out { rules, arith: true })
    {
        let work = |_: &mut (), at: usize, x: &mut [f32], y: &[f32]| {
            stages.iter().try_for_each(|(op, s)| stage(*op, s, x, y, (at, cols), nan))
        };
        return plan.run(cx.mem, work).map(|_| None).ok_or_else(refused);
    }
    let mut x = tile::load(cx.mem, src, rules);
    let tiles = [0, 1].map(|k| full(k).map(|v| tile::load(cx.mem, v, rules).data).unwrap_or_default());
    for ((op, s), y) in stages.iter().zip(&tiles) {
        stage(*op, s, &mut x.data, y, (0, cols), nan).ok_or_else(refused)?;
    }
    tile::store_arith(cx.mem, dst, &mut x.data, rules);
    Ok(Some(x))
}

/// TensorScalar (IT 28): both operands are constants of the instruction.
pub(crate) fn tensor_scalar(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    same_count(d, src.num_elems(), dst.num_elems())?;
    let s = stages(inst);
    let c0 = inst.get_f32(Attr::Const0).unwrap_or(0.0);
    let c1 = inst.get_f32(Attr::Const1).unwrap_or(0.0);
    if is_bitwise(&s) {
        let parts = src.partitions();
        return bitwise(cx, d, &s, &[vec![c0 as i64; parts], vec![c1 as i64; parts]]);
    }
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let scalar = |c| Operand::Scalar(PerPart::All(c));
    two_stages(cx, d, [((s.op0, s.rev0), scalar(c0)), ((s.op1, s.rev1), scalar(c1))], false)?;
    Ok(())
}

fn is_bitwise(s: &Stages) -> bool {
    alu::class(s.op0) == AluClass::BitVector || alu::class(s.op1) == AluClass::BitVector
}

/// TensorScalarPtr (IT 29): the flags choose the form.
pub(crate) fn tensor_scalar_ptr(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    if inst.get_bool(Attr::ApplyTranspose) {
        return Err(unsupported(d, "`apply_transpose`"));
    }
    same_count(d, src.num_elems(), dst.num_elems())?;
    let s = stages(inst);
    let cmd = inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
    if inst.get_bool(Attr::IsTensorTensorScan) {
        return scan(cx, d, &s);
    }
    let reduces = d.outs.len() > 1 && !inst.get_bool(Attr::IsScalarTensorTensor);
    let parts = src.partitions();
    if !reduces && is_bitwise(&s) {
        let mut scalars = Vec::new();
        for i in 1..d.ins.len() {
            scalars.push(tile::per_part_int(cx, d, i, parts)?);
        }
        return bitwise(cx, d, &s, &scalars);
    }
    if inst.get_bool(Attr::IsTensorScalarAddr) && is_address_form(d, &s) {
        let mut scalars = Vec::new();
        for i in 1..d.ins.len() {
            scalars.push(tile::per_part_int(cx, d, i, parts)?);
        }
        return address(cx, d, &s, &scalars);
    }
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let (parts, cols) = (src.partitions(), src.elems_per_partition());
    let a = operand(cx, d, 1, parts, cols)?;
    let b = match d.ins.get(2) {
        Some(_) if !reduces && (s.op1 != AluOp::Bypass || s.rev1) => operand(cx, d, 2, parts, cols)?,
        _ if !reduces && !matches!(s.op1, AluOp::Bypass | AluOp::Abs | AluOp::Rsqrt) => {
            return Err(misfit(format!("{}: `{}` has no second operand", d.opcode, s.op1)));
        }
        _ => Operand::Scalar(PerPart::All(0.0)),
    };
    let init = if reduces && d.ins.len() > 2 { Some(per_part(cx, d, d.ins.len() - 1, parts)?) } else { None };
    // A reduction folds with op1.
    let second = if reduces { (AluOp::Bypass, false) } else { (s.op1, s.rev1) };
    let keep = reduces || cmd != Cmd::Idle;
    let Some(x) = two_stages(cx, d, [((s.op0, s.rev0), a), (second, b)], keep)? else { return Ok(()) };
    if reduces {
        // The reduction folds what op0 gave, in fp32, before any conversion.
        let cmd = if cmd == Cmd::Idle { Cmd::ZeroAccumulate } else { cmd };
        reduce_result(cx, d, s.op1, cmd, &x, init.as_ref(), inst.get_bool(Attr::NegateSecondOutput))?;
    } else if cmd != Cmd::Idle {
        let lane = first_lane(cx, dst);
        accumulate(cx, d, cmd, AluOp::Add, &x, lane, init.as_ref())?;
        if d.outs.len() > 1 {
            super::accumulate::read_out(cx, d, d.engine, output(d, 1)?, false)?;
        }
    }
    Ok(())
}

/// The second output of a tensor-scalar-reduce. The accumulators hold the same value afterwards.
fn reduce_result(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    op: AluOp,
    cmd: Cmd,
    x: &Tile,
    init: Option<&PerPart>,
    negate: bool,
) -> Result<(), Fault> {
    let out = output(d, 1)?;
    same_count(d, out.num_elems(), x.parts)?;
    let lane = first_lane(cx, output(d, 0)?);
    accumulate(cx, d, cmd, op, x, lane, init)?;
    let mut acc: Vec<f32> = Vec::with_capacity(x.parts);
    for v in &cx.core.engines.acc_mut(d.engine).0[lane..lane + x.parts] {
        acc.push(match v {
            super::state::AccValue::Value(v) if negate => -v,
            super::state::AccValue::Value(v) => *v,
            super::state::AccValue::Poison => f32::NAN,
        });
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, out, &mut acc, rules);
    Ok(())
}

/// tensor_tensor_scan: `r = op1(op0(x[i], r), t[i])`, all r are written; inputs are data, initial value, second data.
fn scan(cx: &mut ExecCx<'_>, d: &Decoded, s: &Stages) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let x = tile::load(cx.mem, src, cx.rules());
    let init = per_part(cx, d, 1, x.parts)?;
    let second = operand(cx, d, 2, x.parts, x.cols)?;
    let full = match second {
        Operand::Full(v) => tile::load(cx.mem, v, cx.rules()),
        Operand::Scalar(_) => Tile::default(),
    };
    let mut out = Tile::new(x.parts, x.cols);
    for p in 0..x.parts {
        let b = match &second {
            Operand::Scalar(v) => Src::Scalar(v.at(p)),
            Operand::Full(_) => Src::Row(full.row(p)),
        };
        let nan = cx.profile.alu_minmax_nan;
        alu::scan((s.op0, s.rev0), (s.op1, s.rev1), x.row(p), b, init.at(p), out.row_mut(p), nan)
            .ok_or_else(|| unsupported(d, format!("`{}`/`{}`", s.op0, s.op1)))?;
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out.data, rules);
    Ok(())
}

/// Both stages on the bits of the elements, at element width.
fn bitwise(cx: &mut ExecCx<'_>, d: &Decoded, s: &Stages, scalars: &[Vec<i64>]) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    for op in [s.op0, s.op1] {
        if !matches!(alu::class(op), AluClass::BitVector) && op != AluOp::Bypass {
            return Err(misfit(format!("bitvec op is not valid: `{}` with `{}`", s.op0, s.op1))
                .note("both operations of a two-operation instruction must be of the bit-vector class"));
        }
    }
    if !src.dtype.is_int() || !dst.dtype.is_int() {
        return Err(misfit(format!("bitvec op is not valid: `{}` needs integer operands", s.op0)));
    }
    let bits = 8 * dst.elem_size() as u32;
    integers(cx, d, s, scalars, |op, a, b| alu::bit_vector(op, a, b, bits))
}

fn integers(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    s: &Stages,
    scalars: &[Vec<i64>],
    f: impl Fn(AluOp, i64, i64) -> Option<i64>,
) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    let mut x = Vec::new();
    convert::to_int(src.dtype, &tile::bytes_of(cx.mem, src), &mut x);
    let cols = src.elems_per_partition().max(1);
    let zero = vec![0; src.partitions()];
    for (k, (op, rev)) in [(s.op0, s.rev0), (s.op1, s.rev1)].into_iter().enumerate() {
        if op == AluOp::Bypass && !rev {
            continue;
        }
        let b = scalars.get(k).unwrap_or(&zero);
        for (row, &b) in x.chunks_mut(cols).zip(b) {
            for v in row {
                let (l, r) = if rev { (b, *v) } else { (*v, b) };
                *v = f(op, l, r).ok_or_else(|| unsupported(d, format!("`{op}` on integers")))?;
            }
        }
    }
    let mut bytes = Vec::new();
    convert::from_int_bits(dst.dtype, &x, &mut bytes);
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// The address form does 64-bit integer arithmetic; it needs integers everywhere (the flag alone is set for any tile operand).
fn is_address_form(d: &Decoded, s: &Stages) -> bool {
    let wide = |t: Dtype| matches!(t, Dtype::Int32 | Dtype::Uint32 | Dtype::Int64 | Dtype::Uint64);
    d.ins.iter().chain(&d.outs).all(|a| match a {
        Arg::View(v) => wide(v.dtype),
        Arg::Imm(i) => i.as_int().is_some(),
        Arg::Reg(_) => true,
        Arg::Indexed(_) => false,
    }) && [s.op0, s.op1].iter().all(|op| alu::integer(*op, 1, 1, 64).is_some())
}

fn address(cx: &mut ExecCx<'_>, d: &Decoded, s: &Stages, scalars: &[Vec<i64>]) -> Result<(), Fault> {
    integers(cx, d, s, scalars, |op, a, b| alu::integer(op, a, b, 64))
}

/// TensorScalarCache (IT 30), cumulative: `c = op1(op0(x[i], s0), c)`, c written at each step.
pub(crate) fn cumulative(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let (src, dst) = (input(d, 0)?, output(d, 0)?);
    match inst.get_enum::<TscMode>(Attr::Mode).unwrap_or(TscMode::Reduce) {
        TscMode::Cumulative => {}
        m @ (TscMode::Reduce | TscMode::TensorScan) => return Err(unsupported(d, format!("mode {m}"))),
    }
    same_count(d, src.num_elems(), dst.num_elems())?;
    refuse_packed(d, src)?;
    refuse_packed(d, dst)?;
    let s = stages(inst);
    if !matches!(s.op1, AluOp::Add | AluOp::Subtract | AluOp::Mult | AluOp::Max | AluOp::Min) {
        return Err(misfit(format!(
            "{}: the running operation must be add, subtract, mult, max or min",
            d.opcode
        )));
    }
    let cmd = inst.get_enum::<Cmd>(Attr::Acc).unwrap_or(Cmd::Idle);
    let mut x = tile::load(cx.mem, src, cx.rules());
    let a = operand(cx, d, 1, x.parts, x.cols)?;
    let load = if d.ins.len() > 2 { Some(per_part(cx, d, 2, x.parts)?) } else { None };
    let full = match a {
        Operand::Full(v) => tile::load(cx.mem, v, cx.rules()).data,
        Operand::Scalar(_) => Vec::new(),
    };
    let cols = x.cols;
    stage((s.op0, s.rev0), &a, &mut x.data, &full, (0, cols), cx.profile.alu_minmax_nan)
        .ok_or_else(|| unsupported(d, format!("`{}`", s.op0)))?;
    let lane = first_lane(cx, dst);
    // The value each row starts from is what an accumulator holds after the command over no elements.
    let empty = Tile { parts: x.parts, cols: 0, data: Vec::new() };
    let begin = match cmd {
        Cmd::Idle | Cmd::Zero | Cmd::ZeroAccumulate => Cmd::ZeroAccumulate,
        Cmd::Accumulate | Cmd::AddAccumulate | Cmd::LoadAccumulate => cmd,
    };
    accumulate(cx, d, begin, s.op1, &empty, lane, load.as_ref())?;
    let nan = cx.profile.alu_minmax_nan;
    for p in 0..x.parts {
        let mut c = match cx.core.engines.acc_mut(d.engine).0[lane + p] {
            super::state::AccValue::Value(v) => v,
            super::state::AccValue::Poison => f32::NAN,
        };
        for v in x.row_mut(p) {
            let r = if s.rev1 { alu::scalar(s.op1, c, *v, nan) } else { alu::scalar(s.op1, *v, c, nan) };
            c = r.ok_or_else(|| unsupported(d, format!("`{}`", s.op1)))?;
            *v = c;
        }
        cx.core.engines.acc_mut(d.engine).0[lane + p] =
            super::state::AccValue::Value(crate::num::round::canonical(c));
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut x.data, rules);
    Ok(())
}
