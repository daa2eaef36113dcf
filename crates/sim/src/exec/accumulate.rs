//! Accumulator registers: commands, identities, folding rows into them, reading them out.
//!
//! Source: the specification, file 09 §6.2.

use super::state::{AccValue, LANES};
use super::tile::{self, PerPart, Tile, misfit};
use super::{Decoded, ExecCx};
use crate::memory::View;
use crate::num::{alu, round};
use crate::numeric_profile::AccIdentity;
use crate::state::Fault;
use tandem_bir::diag::codes;
use tandem_bir::{AluOp, Dtype, EngineAccumulationType, EngineKind};

/// First lane of an operand: the partition it starts at when it lies on chip, else 0.
pub(crate) fn first_lane(cx: &ExecCx<'_>, v: &View) -> usize {
    match cx.mem.info(v.buf).pitch {
        Some(pitch) if pitch > 0 => v.base / pitch,
        Some(_) | None => 0,
    }
}

/// Value of an accumulator before the first fold of a command; `None` when the content is unspecified.
fn start(
    cx: &mut ExecCx<'_>,
    engine: EngineKind,
    lane: usize,
    cmd: EngineAccumulationType,
    op: AluOp,
    load: Option<f32>,
) -> Result<f32, Fault> {
    match cmd {
        EngineAccumulationType::Idle | EngineAccumulationType::Zero => Ok(0.0),
        EngineAccumulationType::ZeroAccumulate => Ok(match cx.profile.acc_identity {
            AccIdentity::OpIdentity => alu::identity(op),
            AccIdentity::Zero => 0.0,
        }),
        EngineAccumulationType::LoadAccumulate => {
            load.ok_or_else(|| misfit("LoadAccumulate needs the value to load as an operand"))
        }
        EngineAccumulationType::Accumulate | EngineAccumulationType::AddAccumulate => {
            match cx.core.engines.acc_mut(engine).0[lane] {
                AccValue::Value(v) => Ok(v),
                AccValue::Poison => Err(poisoned(engine, lane)),
            }
        }
    }
}

fn poisoned(engine: EngineKind, lane: usize) -> Fault {
    Fault::new(
        codes::S0205,
        format!(
            "the accumulator of the {} engine at partition {lane} is used without a reset",
            engine.external_name()
        ),
    )
    .note("an instruction with command Idle leaves the accumulators unspecified")
}

/// Carries out an accumulator command over the rows of `y`, whose first row belongs to `lane0`.
pub(crate) fn accumulate(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    cmd: EngineAccumulationType,
    op: AluOp,
    y: &Tile,
    lane0: usize,
    load: Option<&PerPart>,
) -> Result<(), Fault> {
    let op =
        if cmd == EngineAccumulationType::AddAccumulate && op == AluOp::Bypass { AluOp::Add } else { op };
    if cmd == EngineAccumulationType::Idle {
        return idle(cx, d, lane0, y.parts);
    }
    have_lanes(d, lane0, y.parts)?;
    match cmd {
        EngineAccumulationType::Idle => {}
        EngineAccumulationType::Zero => {
            let acc = cx.core.engines.acc_mut(d.engine);
            acc.0[lane0..lane0 + y.parts].fill(AccValue::Value(0.0));
        }
        EngineAccumulationType::Accumulate
        | EngineAccumulationType::ZeroAccumulate
        | EngineAccumulationType::AddAccumulate
        | EngineAccumulationType::LoadAccumulate => {
            let mut acc = Vec::with_capacity(y.parts);
            for p in 0..y.parts {
                acc.push(start(cx, d.engine, lane0 + p, cmd, op, load.map(|l| l.at(p)))?);
            }
            fold_each(cx, d, op, &mut acc, y)?;
            let regs = cx.core.engines.acc_mut(d.engine);
            for (r, a) in regs.0[lane0..].iter_mut().zip(&acc) {
                *r = AccValue::Value(round::canonical(*a));
            }
        }
    }
    Ok(())
}

/// Command Idle on `parts` partitions: their accumulators become unspecified.
pub(crate) fn idle(cx: &mut ExecCx<'_>, d: &Decoded, lane0: usize, parts: usize) -> Result<(), Fault> {
    have_lanes(d, lane0, parts)?;
    cx.core.engines.acc_mut(d.engine).0[lane0..lane0 + parts].fill(AccValue::Poison);
    Ok(())
}

fn have_lanes(d: &Decoded, lane0: usize, parts: usize) -> Result<(), Fault> {
    if lane0 + parts > LANES {
        return Err(misfit(format!("{}: {parts} partitions have no accumulators", d.opcode)));
    }
    Ok(())
}

/// `acc[p] = fold of row p, left to right, starting from acc[p]`.
pub(crate) fn fold_each(
    cx: &ExecCx<'_>,
    d: &Decoded,
    op: AluOp,
    acc: &mut [f32],
    y: &Tile,
) -> Result<(), Fault> {
    super::fold::fold_rows_into(op, acc, &y.data, y.cols, cx.profile.alu_minmax_nan)
        .ok_or_else(|| tile::unsupported(d, format!("accumulating with `{op}`")))
}

/// Writes the accumulators of `engine` to a `[P, 1]` fp32 view; with `negate`, their negatives.
pub(crate) fn read_out(
    cx: &mut ExecCx<'_>,
    d: &Decoded,
    engine: EngineKind,
    v: &View,
    negate: bool,
) -> Result<(), Fault> {
    if v.dtype != Dtype::Float32 {
        return Err(misfit(format!("{}: the accumulator result must be float32, not {}", d.opcode, v.dtype))
            .note("OutRes.getType() == Dtype::float32"));
    }
    let lane0 = first_lane(cx, v);
    let n = v.num_elems();
    if lane0 + n > LANES {
        return Err(misfit(format!("{}: {n} results from partition {lane0} on", d.opcode)));
    }
    let mut out = Vec::with_capacity(n);
    for lane in lane0..lane0 + n {
        match cx.core.engines.acc_mut(engine).0[lane] {
            AccValue::Value(x) => out.push(if negate { -x } else { x }),
            AccValue::Poison => return Err(poisoned(engine, lane)),
        }
    }
    let rules = cx.rules();
    tile::store(cx.mem, v, &out, rules);
    Ok(())
}
