//! Group 3: operand counts and kinds, attributes, element types.
//!
//! Counts, kinds and attributes come from the instruction table. The element-type rules are those that the
//! specification gives with a source (file 03 §9, file 09 §§5–6); where it is silent, nothing is refused.

use super::{At, Cx, List, inst_name, operand_name};
use crate::ap::AccessPattern;
use crate::arch::ArchLevel;
use crate::diag::codes;
use crate::dtype::{Dtype, NumericClass};
use crate::enums::{AluOp, CopyMode, EngineKind};
use crate::inst::{
    Attr, AttrSpec, AttrType, AttrValue, Effects, Family, Inst, OpSpec, Opcode, Operand, OperandKinds,
    OperandSpec, OtherOperand, Presence,
};

pub(super) fn inst<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let spec = at.inst.spec();
    if spec.effects.has(Effects::ABSTRACT) {
        cx.at(
            codes::V0308,
            at,
            format!("{} is an abstract base; no program contains it", inst_name(at.inst)),
        );
        return;
    }
    let before = cx.found.len();
    if !spec.open() {
        list(cx, at, List::In, &at.inst.ins, spec.ins, spec.ins_range());
        list(cx, at, List::Out, &at.inst.outs, spec.outs, spec.outs_range());
    }
    for (l, i, op) in super::operands(at.inst) {
        if let Operand::Imm(imm) = op
            && !immediate_ok(imm.dtype)
        {
            cx.at(
                codes::V0309,
                at,
                format!("{} is an immediate of {}", operand_name(at.inst, l, i), imm.dtype),
            );
        }
    }
    attributes(cx, at, spec);
    if cx.found.len() == before {
        dtypes(cx, at);
        bit_vector(cx, at);
    }
}

/// Immediates: integer types and the plain floats (the specification, file 03 §5).
fn immediate_ok(d: Dtype) -> bool {
    d.is_int() || matches!(d, Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float32)
}

fn kind_of(op: &Operand) -> (OperandKinds, &'static str) {
    match op {
        Operand::Ap(_) => (OperandKinds::AP, "memory"),
        Operand::Imm(_) => (OperandKinds::IMM, "an immediate"),
        Operand::Reg(_) => (OperandKinds::REG, "a register"),
        Operand::Other(o) => match &**o {
            OtherOperand::Symbolic { .. } | OtherOperand::RegisterAp { .. } => (OperandKinds::AP, "memory"),
            OtherOperand::SymbolicImm { .. } | OtherOperand::ImmArray { .. } => {
                (OperandKinds::IMM, "an immediate")
            }
        },
    }
}

fn list<'p>(
    cx: &mut Cx<'p>,
    at: At<'p>,
    which: List,
    have: &[Operand],
    want: &'static [OperandSpec],
    (lo, hi): (usize, Option<usize>),
) {
    if have.len() < lo || hi.is_some_and(|h| have.len() > h) {
        let range = match hi {
            Some(h) if h == lo => format!("{lo}"),
            Some(h) => format!("{lo} to {h}"),
            None => format!("at least {lo}"),
        };
        let message =
            format!("{} has {} {}s, its type takes {range}", inst_name(at.inst), have.len(), which.word());
        cx.at(codes::V0301, at, message);
        return;
    }
    for (i, op) in have.iter().enumerate() {
        let Some(spec) = OpSpec::operand(want, i) else { continue };
        let (kind, word) = kind_of(op);
        if !spec.kinds.contains(kind) {
            let takes = [
                (OperandKinds::AP, "memory"),
                (OperandKinds::IMM, "an immediate"),
                (OperandKinds::REG, "a register"),
            ];
            let takes: Vec<&str> =
                takes.iter().filter(|(k, _)| spec.kinds.contains(*k)).map(|(_, n)| *n).collect();
            let message =
                format!("{} is {word}, it must be {}", operand_name(at.inst, which, i), takes.join(" or "));
            cx.at(codes::V0302, at, message);
        }
    }
}

fn attributes<'p>(cx: &mut Cx<'p>, at: At<'p>, spec: &'static OpSpec) {
    for a in spec.attrs.iter().filter(|a| a.presence == Presence::Required) {
        if at.inst.attrs.get(a.attr).is_none() {
            cx.at(codes::V0303, at, format!("{} has no attribute {}", inst_name(at.inst), a.attr.key()));
        }
    }
    for (attr, value) in at.inst.attrs.iter() {
        if let Some(s) = spec.attr(attr)
            && !type_ok(s, value)
        {
            let message =
                format!("attribute {} of {} has the wrong type: {value:?}", attr.key(), inst_name(at.inst));
            let d = cx.diag(codes::V0304, at, message).note(match s.ty {
                AttrType::Enum(t) => format!("it is a member of {}", t.name),
                ty => format!("it is of type {ty:?}"),
            });
            cx.push(d);
        }
    }
}

fn type_ok(s: &AttrSpec, v: &AttrValue) -> bool {
    match (s.ty, v) {
        (AttrType::Json, _) => true,
        (_, AttrValue::Expr(_)) => s.affine || s.ty == AttrType::Expr,
        (AttrType::Bool, AttrValue::Bool(_))
        | (AttrType::Int, AttrValue::Int(_))
        | (AttrType::Expr, AttrValue::Int(_))
        | (AttrType::F32, AttrValue::F32(_))
        | (AttrType::Str | AttrType::BlockName, AttrValue::Str(_))
        | (AttrType::Ints, AttrValue::Ints(_))
        | (AttrType::Floats, AttrValue::Floats(_))
        | (AttrType::Strs, AttrValue::Strs(_))
        | (AttrType::Groups, AttrValue::Groups(_))
        | (AttrType::Pairs, AttrValue::Pairs(_))
        | (AttrType::Exprs, AttrValue::Exprs(_)) => true,
        (AttrType::Enum(t), AttrValue::Enum(o)) => t.name_of(*o).is_some(),
        _ => false,
    }
}

fn name(l: List, i: usize) -> String {
    format!("{} {i}", l.word())
}

/// The operands at the two positions must have one element type.
fn same<'p>(cx: &mut Cx<'p>, at: At<'p>, a: (List, usize), b: (List, usize), why: &str) {
    let get = |(l, i): (List, usize)| match l {
        List::In => at.inst.ins.get(i),
        List::Out => at.inst.outs.get(i),
        List::Index => at.inst.indirection_ins().get(i),
    };
    let (Some(Operand::Ap(x)), Some(Operand::Ap(y))) = (get(a), get(b)) else { return };
    if x.dtype != y.dtype {
        let message = format!(
            "{} has {} at {} and {} at {}",
            inst_name(at.inst),
            x.dtype,
            name(a.0, a.1),
            y.dtype,
            name(b.0, b.1)
        );
        let d = cx.diag(codes::V0305, at, message).note(why.to_owned());
        cx.push(d);
    }
}

/// The operand must be of a type for which `ok` holds.
fn only<'p>(cx: &mut Cx<'p>, at: At<'p>, l: List, i: usize, ok: fn(Dtype) -> bool, why: &str) {
    let op = match l {
        List::In => at.inst.ins.get(i),
        List::Out => at.inst.outs.get(i),
        List::Index => at.inst.indirection_ins().get(i),
    };
    if let Some(Operand::Ap(a)) = op
        && !ok(a.dtype)
    {
        let d = cx.diag(codes::V0306, at, format!("{} is {}", operand_name(at.inst, l, i), a.dtype));
        cx.push(d.note(why.to_owned()));
    }
}

const NO_CAST: &str = "this instruction moves bits and does not convert";

/// Element-type rules that have a source. Types without an arm have none.
///
/// The specification, file 03 §9.10, wants one element type for both SBUF inputs of a TensorTensor. But its record holds a type for
/// each input (file 07 §7.4), and kernels of the vendor's library add float16 or uint8 to float32 tensors: no rule here.
fn dtypes<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    use List::{In, Out};
    let inst = at.inst;
    match inst.opcode.spec().family {
        Family::Matmul if inst.opcode == Opcode::Matmult => matmul(cx, at),
        Family::DataMove => {
            same(cx, at, (In, 0), (Out, 0), NO_CAST);
            if inst.opcode == Opcode::StreamShuffle {
                shuffle_mask(cx, at);
            }
        }
        Family::Gather => {
            same(cx, at, (In, 0), (Out, 0), NO_CAST);
            if inst.opcode == Opcode::IndirectCopy {
                only(cx, at, In, 1, |d| d == Dtype::Uint16, "indexes are uint16");
            } else {
                only(cx, at, In, 1, |d| d == Dtype::Uint32, "indexes are uint32");
            }
        }
        Family::Select if inst.opcode == Opcode::CopyPredicated => {
            let pred = if inst.ins.len() == 2 { 1 } else { 0 };
            let narrow = |d: Dtype| d.is_int() && d.bytes() <= 4;
            only(cx, at, In, pred, narrow, "a predicate is an integer of at most 32 bits");
            if inst.ins.len() == 2 {
                same(
                    cx,
                    at,
                    (In, 0),
                    (Out, 0),
                    "source and destination of a predicated copy share an element type",
                );
            }
        }
        Family::Activation if inst.opcode == Opcode::Activation => {
            for (i, op) in inst.ins.iter().enumerate() {
                if let Operand::Imm(imm) = op
                    && imm.dtype != Dtype::Float32
                {
                    let message = format!("{} is an immediate of {}", operand_name(inst, In, i), imm.dtype);
                    let d = cx.diag(codes::V0306, at, message);
                    cx.push(d.note("activation function only support float32 bias/scale/alpha"));
                }
            }
        }
        Family::Misc if inst.opcode == Opcode::GetSequenceBounds => {
            let ok = |d| matches!(d, Dtype::Float32 | Dtype::Int32);
            only(cx, at, In, 0, ok, "segment ids are float32 or int32");
        }
        Family::Mx => {
            let ok = |d| matches!(d, Dtype::Float16 | Dtype::Bfloat16);
            only(cx, at, In, 0, ok, "the source of a block-scaled quantisation is float16 or bfloat16");
        }
        Family::Dma if inst.opcode == Opcode::DmaCopy => dma_fold(cx, at),
        Family::Generic
        | Family::Activation
        | Family::Matmul
        | Family::Fill
        | Family::Rank
        | Family::Control
        | Family::Sync
        | Family::Dma
        | Family::Pool
        | Family::Elementwise
        | Family::Copy
        | Family::Reduce
        | Family::TensorScalar
        | Family::OnChipMove
        | Family::BatchNorm
        | Family::Collective
        | Family::Select
        | Family::Kernel
        | Family::Debug
        | Family::Rng
        | Family::Misc
        | Family::DmaDescriptor
        | Family::Register
        | Family::Terminator
        | Family::Queue
        | Family::Search
        | Family::Structured
        | Family::Macro => {}
    }
}

fn matmul<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let float =
        |d: Dtype| matches!(d.class(), NumericClass::Float | NumericClass::PackedFloat) || d == Dtype::Uint8;
    only(
        cx,
        at,
        List::In,
        0,
        float,
        "operands of a matrix product are floating point or uint8 (vendor: Invalid ifmap data type for matmult)",
    );
    only(
        cx,
        at,
        List::In,
        1,
        float,
        "operands of a matrix product are floating point or uint8 (vendor: Invalid weights data type for matmult)",
    );
    let (Some(m), Some(s)) = (ap(inst, 0), ap(inst, 1)) else { return };
    let single = |d| matches!(d, Dtype::Float32 | Dtype::Float32r);
    if (single(m.dtype) || single(s.dtype)) && m.dtype != s.dtype {
        same(cx, at, (List::In, 0), (List::In, 1), "float32 and float32r multiply only with their own kind");
    }
    let Some(d) = inst.outs.first().and_then(Operand::as_ap) else { return };
    if inst.get_bool(Attr::IsTranspose) {
        // On gen2 the transposition is a real product; 8-bit data travel in 16-bit lanes.
        if at.module.arch >= ArchLevel::Gen3 && m.dtype.bytes() > 1 {
            same(cx, at, (List::In, 0), (List::Out, 0), "a PE transposition keeps the element type");
        }
    } else if !(d.dtype == Dtype::Float32
        || (d.dtype == Dtype::Bfloat16 && at.module.arch >= ArchLevel::CoreV4))
    {
        let message = format!("{} is {}", operand_name(inst, List::Out, 0), d.dtype);
        let f = cx.diag(codes::V0306, at, message);
        cx.push(f.note("a matrix product accumulates in float32 (bfloat16 also on trn3)"));
    }
}

fn ap(inst: &Inst, i: usize) -> Option<&AccessPattern> {
    inst.ins.get(i)?.as_ap()
}

fn shuffle_mask<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let mask = at.inst.get_ints(Attr::Mask);
    if mask.len() != 32 {
        let message = format!("{} has a mask of {} entries", inst_name(at.inst), mask.len());
        let d = cx.diag(codes::V0310, at, message);
        cx.push(d.note("StreamShuffle Mask must have 32 elements"));
    } else if let Some(bad) = mask.iter().find(|m| !((0..32).contains(*m) || **m == 255)) {
        let d = cx.diag(codes::V0310, at, format!("{} has the mask entry {bad}", inst_name(at.inst)));
        cx.push(d.note("StreamShuffle Mask entry must be <32 (or 255, which leaves the row as it is)"));
    }
}

/// Operations a DMA copy can fold with (the specification, file 03 §8.2, decision D22).
fn dma_fold<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let Some(op) = at.inst.get_enum::<AluOp>(Attr::CceOp) else { return };
    let mode = at.inst.get_enum::<CopyMode>(Attr::Mode);
    let fold = matches!(op, AluOp::Add | AluOp::Max | AluOp::Min);
    let ok = match mode {
        Some(CopyMode::Cce) => fold,
        Some(CopyMode::Copy) => fold || op == AluOp::Bypass,
        Some(CopyMode::Transpose | CopyMode::Replicate | CopyMode::Dynamic) | None => true,
    };
    if !ok {
        let d = cx.diag(codes::V0310, at, format!("{} folds with {op}", inst_name(at.inst)));
        cx.push(d.note("Unsupported OP type: a DMA copy folds with add, max or min"));
    }
}

fn is_bit_vector(op: AluOp) -> bool {
    matches!(
        op,
        AluOp::BitwiseNot
            | AluOp::ArithShiftLeft
            | AluOp::ArithShiftRight
            | AluOp::BitwiseAnd
            | AluOp::BitwiseOr
            | AluOp::BitwiseXor
            | AluOp::LogicalShiftLeft
            | AluOp::LogicalShiftRight
    )
}

/// Bit-vector operations of the two-input and tensor-scalar families (the specification, file 09 §5.3).
fn bit_vector<'p>(cx: &mut Cx<'p>, at: At<'p>) {
    let inst = at.inst;
    let two =
        matches!(inst.opcode, Opcode::TensorScalar | Opcode::TensorScalarPtr | Opcode::TensorScalarCache);
    if !two && inst.opcode != Opcode::TensorTensor && inst.opcode != Opcode::TensorReduce {
        return;
    }
    let get = |a| inst.get_enum::<AluOp>(a).unwrap_or(AluOp::Bypass);
    let (a, b) = if two { (get(Attr::Op0), get(Attr::Op1)) } else { (get(Attr::Op), AluOp::Bypass) };
    if !is_bit_vector(a) && !is_bit_vector(b) {
        return;
    }
    if two && a != AluOp::Bypass && b != AluOp::Bypass && is_bit_vector(a) != is_bit_vector(b) {
        let d = cx.diag(codes::V0307, at, format!("{} combines {a} with {b}", inst_name(inst)));
        cx.push(d.note(
            "both operations of a two-operation instruction must be bit-vector operations, or neither",
        ));
    }
    let op = if is_bit_vector(a) { a } else { b };
    if !matches!(inst.engine, EngineKind::Unassigned | EngineKind::Dve) {
        let message = format!("{} runs {op} on {}", inst_name(inst), inst.engine);
        let d = cx.diag(codes::V0307, at, message);
        cx.push(d.note("bit-vector operations run on the Vector engine (DVE) only"));
    }
    for (l, i, o) in super::operands(inst) {
        if let Some(p) = o.as_ap()
            && !p.dtype.is_int()
        {
            let message = format!("{} is {}, {op} works on integers", operand_name(inst, l, i), p.dtype);
            cx.at(codes::V0307, at, message);
        }
    }
}
