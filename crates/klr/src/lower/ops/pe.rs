//! Tensor engine: `ncMatMul`, `ncMatMulMX`, `quantizeMX`, `transpose` (fan-out F3) and its identity matrix.

use super::inst;
use crate::ast as k;
use crate::lower::fail::Fail;
use crate::lower::{Core, Step, enums, expected};
use tandem_bir::diag::codes;
use tandem_bir::{
    AccessPattern, AluOp, ApPair, Attr, AttrValue, Dtype, EngineKind, Inst, MemLocId, MemoryType, MemsetMode,
    Opcode,
};

/// Rows and columns of the identity matrix.
const IDENTITY: u64 = 128;

fn tile_attr(i: &mut Inst, attr: Attr, list: &[u64], name: &str) -> Step {
    if list.is_empty() {
        return Ok(());
    }
    let ints: Option<Vec<i64>> = list.iter().map(|v| i64::try_from(*v).ok()).collect();
    match ints {
        Some(ints) if ints.len() == 2 => {
            i.set(attr, ints);
            Ok(())
        }
        _ => Err(expected(&format!("{name} of 2 entries, found {}", list.len()))),
    }
}

/// IT 8.
pub(super) fn matmul(c: &mut Core<'_>, o: &k::NcMatMul) -> Step {
    let dst = c.ap(&o.dst)?;
    let stationary = c.ap(&o.stationary)?;
    let moving = c.ap(&o.moving)?;
    let mut i = inst(Opcode::Matmult);
    i.engine = EngineKind::Pe;
    i.set(Attr::IsTranspose, o.is_transpose);
    i.set(Attr::IsFmapOnezero, o.is_moving_zero);
    i.set(Attr::IsWeightOnezero, o.is_stationary_one_zero);
    i.set(Attr::PerfMode, enums::perf_mode(o.perf_mode, c.plan.strict));
    tile_attr(&mut i, Attr::TileSize, &o.tile_size, "tileSize")?;
    tile_attr(&mut i, Attr::TilePosition, &o.tile_position, "tilePosition")?;
    i.ins = vec![moving.into(), stationary.into()];
    i.outs.push(dst.into());
    c.emit("matmult_", i);
    Ok(())
}

/// IT 95.
pub(super) fn matmul_mx(c: &mut Core<'_>, o: &k::MatMulMx) -> Step {
    let dst = c.ap(&o.dst)?;
    let mut i = inst(Opcode::MatmultMx);
    i.engine = EngineKind::Pe;
    for src in [&o.moving, &o.stationary, &o.moving_scale, &o.stationary_scale] {
        i.ins.push(c.ap(src)?.into());
    }
    for (attr, list, name) in
        [(Attr::TileSize, &o.tile_size, "tileSize"), (Attr::TilePosition, &o.tile_position, "tilePosition")]
    {
        match list.as_deref() {
            Some([]) => return Err(expected(&format!("{name} of 2 entries, found 0"))),
            Some(list) => tile_attr(&mut i, attr, list, name)?,
            None => {}
        }
    }
    i.outs.push(dst.into());
    c.emit("MatmulMx-", i);
    Ok(())
}

/// IT 96.
pub(super) fn quantize_mx(c: &mut Core<'_>, o: &k::QuantizeMx) -> Step {
    let dst = c.ap(&o.dst)?;
    let scale = c.ap(&o.dst_scale)?;
    let mut i = inst(Opcode::QuantizeMx);
    i.engine = EngineKind::Dve;
    i.ins.push(c.ap(&o.src)?.into());
    i.outs = vec![dst.into(), scale.into()];
    c.emit("QuantizeMX-", i);
    Ok(())
}

/// IT 40 for float32 destinations, else IT 8 by an identity matrix.
pub(super) fn transpose(c: &mut Core<'_>, o: &k::Transpose) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    c.same_dtype(o.dtype, &dst);
    if o.engine == k::Engine::Pe {
        return Err(Fail::new(
            codes::K0032,
            "TransposeOp should only happen on DVE. The PE variant should have been legalized by the FE!",
        ));
    }
    let into_psum = c.m.memlocs[dst.loc].mem == MemoryType::Psum;
    if dst.dtype == Dtype::Float32 || (!into_psum && !c.plan.strict) {
        if dst.dtype != Dtype::Float32 {
            let text = "transposed by the Vector engine, because a matrix product cannot write SBUF";
            c.report(*Fail::new(codes::K0096, text));
        }
        return stream_transpose(c, dst, src);
    }
    if src.num_partitions() > IDENTITY {
        return Err(Fail::new(codes::K0033, "Operand must be no larger than (128, 128)"));
    }
    let eye = identity(c, dst.dtype);
    let n = src.num_partitions();
    let mut i = inst(Opcode::Matmult);
    i.engine = EngineKind::Pe;
    i.set(Attr::IsTranspose, true);
    let pitch = i64::try_from(IDENTITY).unwrap_or(i64::MAX);
    i.ins = vec![src.into(), AccessPattern::new(eye, dst.dtype, 0, &[(pitch, n), (1, n)]).into()];
    i.outs.push(dst.into());
    c.emit("matmult_TP_", i);
    Ok(())
}

fn stream_transpose(c: &mut Core<'_>, dst: AccessPattern, src: AccessPattern) -> Step {
    for ap in [&src, &dst] {
        let (rows, cols) = (ap.num_partitions(), ap.elems_per_partition());
        if rows > 32 || cols > 32 {
            return Err(Fail::new(
                codes::K0033,
                format!("Operand must be no larger than (32, 32), found ({rows}, {cols})"),
            )
            .help("transpose larger tiles in parts of 32 x 32, or on the Tensor engine with nc_matmul"));
        }
    }
    let mut i = inst(Opcode::StreamTranspose);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    c.emit("StreamTranspose-", i);
    Ok(())
}

/// The identity matrix of a type, made once at the top of the entry block.
fn identity(c: &mut Core<'_>, dtype: Dtype) -> MemLocId {
    if let Some(loc) = c.identities.get(&dtype) {
        return *loc;
    }
    c.report(
        *Fail::new(
            codes::K0034,
            "Emitting dynamic Identity matrix generation code, this might affect performance.",
        )
        .help("You can bypass this by pass in an explicit identity matrix and use nc_matmul for transpose"),
    );
    let name = format!("COMPILER-GENERATED-id.{dtype}");
    let loc = c.mint_helper(&name, dtype, IDENTITY, IDENTITY);
    let step = i64::try_from(IDENTITY).unwrap_or(i64::MAX);
    let whole = AccessPattern::new(loc, dtype, 0, &[(step, IDENTITY), (1, IDENTITY)]);
    let mut zero = inst(Opcode::Memset);
    zero.set(Attr::Mode, MemsetMode::Const);
    zero.set(Attr::Constant, 0i64);
    zero.outs.push(whole.clone().into());
    c.emit_prelude(&format!("{name}_memset"), zero);
    let mut select = inst(Opcode::TensorScalarAffineSelect);
    select.set(Attr::Base, 0i64);
    select.set(Attr::Pattern, AttrValue::Pairs(Box::new([ApPair::new(1, IDENTITY)])));
    select.set(Attr::ChannelMultiplier, -1i64);
    select.set(Attr::CompareOp, AluOp::NotEqual);
    select.set(Attr::FillValue, 1.0f32);
    select.ins.push(whole.clone().into());
    select.outs.push(whole.into());
    c.emit_prelude(&format!("{name}=IDAffineSelect(mask,fill=1)"), select);
    c.identities.insert(dtype, loc);
    loc
}
