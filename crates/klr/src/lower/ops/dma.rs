//! DMA family: `ncDmaCopy` (fan-out F2), `dmaTranspose`, `dmaCompute`.

use super::inst;
use crate::ast as k;
use crate::lower::access::Tile;
use crate::lower::fail::Fail;
use crate::lower::{Core, Res, Step, enums, expected};
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, Attr, AttrValue, CopyMode, DgeType, EngineKind, Inst, Opcode, TransposeOps};

fn dge(mode: u64) -> Res<DgeType> {
    enums::dge(mode).ok_or_else(|| Fail::new(codes::K0092, format!("dgeMode {mode} is not one of 0 to 3")))
}

fn oob_is_err(b: &k::DmaBounds) -> bool {
    !matches!(b, k::DmaBounds::Skip)
}

/// Priority class; 2.24 has none.
pub(super) fn set_qos(c: &Core<'_>, i: &mut Inst, priority: Option<u64>) -> Step {
    let Some(n) = priority else { return Ok(()) };
    let qos = enums::qos(n)
        .ok_or_else(|| Fail::new(codes::K0093, format!("priority {n} is not one of 0 to 14")))?;
    if !c.plan.strict {
        i.set(Attr::DmaQos, qos);
    }
    Ok(())
}

/// IT 32, or IT 44 for a scatter that accumulates.
pub(super) fn copy(c: &mut Core<'_>, o: &k::NcDmaCopy) -> Step {
    let dst = c.tile(&o.dst)?;
    let src = c.tile(&o.src)?;
    let accumulate = match o.compute_op {
        k::DgeComputeOp::None => false,
        k::DgeComputeOp::Add => true,
    };
    let dge = dge(o.dge_mode)?;
    if !dst.is_vector() && !src.is_vector() && dst.ap.num_elems() != src.ap.num_elems() {
        let text = format!(
            "dma_copy source and destination have different sizes: {} and {} elements",
            src.ap.num_elems(),
            dst.ap.num_elems()
        );
        return Err(Fail::new(codes::K0089, text));
    }
    let scatter = accumulate && !o.unique_indices;
    if scatter && src.dynamic.is_some() {
        return Err(Fail::new(
            codes::K0031,
            "When unique_index=False, dynamic access in src is not supported",
        ));
    }
    if scatter && dst.dynamic.is_none() && c.plan.strict {
        return Err(Fail::new(
            codes::K0018,
            "Compiler Logic Fault: cannot extract dynamic ap from a static access!",
        ));
    }
    let generic = scatter && dst.dynamic.is_some();
    if !generic {
        check_dynamic(&src, &dst, dge, accumulate && o.unique_indices)?;
    }
    let is_dynamic = src.dynamic.is_some() || dst.dynamic.is_some();
    let mut i = inst(if generic { Opcode::GenericIndirectSave } else { Opcode::DmaCopy });
    let engine = enums::engine(o.engine);
    if dge == DgeType::HwDge {
        i.engine = engine;
    } else if engine != EngineKind::Unassigned {
        return Err(Fail::new(
            codes::K0030,
            "dma_copy engine can only be specified when HWDGE mode is used.",
        ));
    }
    i.set(Attr::DgeTypeKey, dge);
    i.set(Attr::OobIsErr, oob_is_err(&o.oob_mode));
    set_qos(c, &mut i, o.priority)?;
    if generic {
        i.set(Attr::Op, AluOp::Add);
        let dim = dst.dynamic.as_ref().map_or(0, |d| d.dim);
        i.set(Attr::IndirectDims, vec![dim]);
    } else if accumulate {
        i.set(Attr::CceOp, AluOp::Add);
    }
    let src = src.into_operand(&mut i);
    let dst = dst.into_operand(&mut i);
    i.ins.push(src);
    i.outs.push(dst);
    let prefix = match (generic, is_dynamic) {
        (true, _) => "IndirectSaveAccumulate-",
        (false, true) => "DynamicDMACopy-",
        (false, false) => "dma_copy_",
    };
    c.emit(prefix, i);
    Ok(())
}

fn check_dynamic(src: &Tile, dst: &Tile, dge: DgeType, unique_accumulate: bool) -> Step {
    let side = match (&src.dynamic, &dst.dynamic) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            return Err(Fail::new(codes::K0028, "Only one of the src and dst can contain dynamic access."));
        }
        (Some(_), None) => "src",
        (None, Some(_)) => "dst",
    };
    if dge == DgeType::None {
        let text = format!("DGE must be enabled when dynamic {side} access in DMA is used");
        return Err(Fail::new(codes::K0029, text));
    }
    if unique_accumulate && dst.dynamic.is_some() && !dst.is_vector() {
        return Err(Fail::new(
            codes::K0019,
            "When unique_indices=True, it's expected that the vector_offset is set. Check the nisa.dma_copy call",
        ));
    }
    Ok(())
}

/// IT 32 in transpose mode.
pub(super) fn transpose(c: &mut Core<'_>, o: &k::DmaTranspose) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.tile(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    if dst.pairs.len() != 4 || src.ap.pairs.len() != 4 {
        let text = "DMA Tranpose must have 4-D access pattern. Explicitly writing AP is required if slicing is not \
                    generating correct pattern";
        return Err(Fail::new(codes::K0036, text).note(format!(
            "the source has {} pairs, the destination {}",
            src.ap.pairs.len(),
            dst.pairs.len()
        )));
    }
    let mut i = inst(Opcode::DmaCopy);
    i.engine = EngineKind::Pool;
    i.set(Attr::Mode, CopyMode::Transpose);
    let axes = enums::transpose(o.axes);
    let order = match axes {
        TransposeOps::None => TransposeOps::Xzyw,
        _ if c.plan.strict => TransposeOps::Xzyw,
        axes => axes,
    };
    if order != TransposeOps::Xzyw {
        let text =
            format!("axes {order} are honoured; the vendor's compiler of 2.24 always transposes by XZYW");
        c.report(*Fail::new(codes::K0095, text));
    }
    i.set(Attr::TransposeOp, order);
    i.set(Attr::DgeTypeKey, dge(o.dge_mode)?);
    i.set(Attr::OobIsErr, oob_is_err(&o.oob_mode));
    set_qos(c, &mut i, o.priority)?;
    let src = src.into_operand(&mut i);
    i.ins.push(src);
    i.outs.push(dst.into());
    c.emit("DMATranspose-", i);
    Ok(())
}

/// IT 32 in CCE mode: a scaled sum of several sources. Beyond 2.24, which allows no run-time access here, `[x, dst] -> dst` with
/// a run-time access is the accumulating copy that `ncDmaCopy` gives (file 11 §2.2 of the specification: one source equals
/// the destination).
pub(super) fn compute(c: &mut Core<'_>, o: &k::DmaCompute) -> Step {
    if o.reduce_op != k::AluOp::Add {
        return Err(Fail::new(codes::K0037, "dma_compute currently only supports nl.add as its reduce op!"));
    }
    let mut scales = Vec::with_capacity(o.scales.len());
    for s in &o.scales {
        match s {
            k::Immediate::Float(f) => scales.push(tandem_bir::inst::F32(f.get())),
            k::Immediate::Int(_) | k::Immediate::Register(_) | k::Immediate::Pointer => {
                return Err(Fail::new(codes::K0037, "scale values for dma_compute must be floats"));
            }
        }
    }
    if scales.len() != o.srcs.len() || scales.is_empty() {
        let what =
            format!("one scale per source, at least one ({} scales, {} sources)", scales.len(), o.srcs.len());
        return Err(expected(&what));
    }
    if !c.plan.strict
        && let [x, y] = &o.srcs[..]
        && scales.iter().all(|s| s.0 == 1.0)
    {
        let (x, y) = (c.tile(x)?, c.tile(y)?);
        if x.dynamic.is_some() || y.dynamic.is_some() {
            let dst = c.tile(&o.dst)?;
            if y == dst {
                return accumulate(c, x, dst);
            }
            if x == dst {
                return accumulate(c, y, dst);
            }
        }
    }
    let dst = c.ap(&o.dst)?;
    let mut i = inst(Opcode::DmaCopy);
    for src in &o.srcs {
        i.ins.push(c.ap(src)?.into());
    }
    i.set(Attr::Mode, CopyMode::Cce);
    i.set(Attr::CceOp, AluOp::Add);
    i.set(Attr::Constants, AttrValue::Floats(scales.into()));
    i.outs.push(dst.into());
    c.emit("DMACompute", i);
    Ok(())
}

/// `dst += src` with one run-time access. Software generates its descriptors: `dmaCompute` has no field for it.
fn accumulate(c: &mut Core<'_>, src: Tile, dst: Tile) -> Step {
    check_dynamic(&src, &dst, DgeType::SwDge, true)?;
    let mut i = inst(Opcode::DmaCopy);
    i.set(Attr::DgeTypeKey, DgeType::SwDge);
    i.set(Attr::CceOp, AluOp::Add);
    let src = src.into_operand(&mut i);
    let dst = dst.into_operand(&mut i);
    i.ins.push(src);
    i.outs.push(dst);
    c.emit("DMACompute", i);
    Ok(())
}
