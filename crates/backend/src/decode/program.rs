//! Streams of records to a linked program over the physical memories.

use super::draft::{DecodeCtx, Draft, decode_into};
use super::patch::{Patch, apply_attrs};
use super::pieces::{Index, Piece};
use crate::encode::bundle::{Bundle, WireError, WireResult};
use crate::encode::collective;
use crate::encode::desc::Geometry;
use crate::encode::dma::{self, DmaCtx};
use tandem_bir::diag::codes;
use tandem_bir::{EngineKind, Inst, Opcode};

/// A decoded stream: instructions with their first record.
#[derive(Clone, Debug, Default)]
pub struct DecodedStream {
    /// Instructions.
    pub insts: Vec<Inst>,
    /// First record of each.
    pub starts: Vec<u32>,
    /// `(position of a branch, position it jumps to)`.
    pub branches: Vec<(u32, u32)>,
}

/// An error at a record.
#[derive(Clone, Debug)]
pub struct RecordError {
    /// Record of the stream.
    pub record: u32,
    /// What.
    pub error: WireError,
}

/// Decodes a stream. `patches` are sorted by first record.
///
/// # Errors
/// E0104 at the record that is no instruction.
pub fn decode_stream(
    records: &[Bundle],
    engine: EngineKind,
    patches: &[(u32, Patch)],
    index: &Index,
    geo: &Geometry,
    ctx: &DecodeCtx<'_>,
    places: dma::Places<'_>,
) -> Result<DecodedStream, RecordError> {
    let mut out = DecodedStream::default();
    let mut targets: Vec<(u32, i64)> = Vec::new();
    let none = Patch::default();
    let dctx = DmaCtx { geo: *geo, places };
    let mut draft = Draft::default();
    let mut next_patch = 0usize;
    let mut at = 0usize;
    while at < records.len() {
        let err = |error: WireError| RecordError { record: at as u32, error };
        let (n, piece) = index.at(&records[at..]).map_err(err)?;
        let n = n.clamp(1, records.len() - at);
        let patch = match patches.get(next_patch) {
            Some((r, p)) if *r as usize == at => {
                next_patch += 1;
                p
            }
            _ => &none,
        };
        let (mut inst, displacement) =
            one(&records[at..at + n], piece, patch, ctx, &dctx, &mut draft).map_err(err)?;
        inst.engine = engine;
        if matches!(inst.opcode, Opcode::CompareAndBranch | Opcode::UnconditionalBranch) {
            targets.push((out.insts.len() as u32, displacement + at as i64));
        }
        out.starts.push(at as u32);
        out.insts.push(inst);
        at += n;
    }
    if next_patch != patches.len() {
        let record = patches.get(next_patch).map_or(0, |p| p.0);
        return Err(RecordError {
            record,
            error: WireError::new(
                codes::E0105,
                "the record table names a record where no instruction starts",
            ),
        });
    }
    for (k, to) in targets {
        let t = u32::try_from(to).ok().and_then(|t| out.starts.binary_search(&t).ok());
        let Some(t) = t else {
            return Err(RecordError {
                record: out.starts.get(k as usize).copied().unwrap_or(0),
                error: WireError::new(
                    codes::E0104,
                    format!("the branch jumps to record {to}, where no instruction starts"),
                ),
            });
        };
        out.branches.push((k, t as u32));
    }
    Ok(out)
}

/// Decodes the records of one instruction; gives its branch displacement too.
///
/// # Errors
/// E0104 for what is no instruction.
pub(crate) fn one(
    records: &[Bundle],
    piece: Piece,
    patch: &Patch,
    ctx: &DecodeCtx<'_>,
    dctx: &DmaCtx<'_>,
    draft: &mut Draft,
) -> WireResult<(Inst, i64)> {
    match piece {
        Piece::Rows(g) => {
            decode_into(records, g, ctx, draft)?;
            patch.finish_in(draft, ctx)
        }
        Piece::Dma => {
            let mut i = dma::decode(records, dctx, patch)?;
            apply_attrs(&mut i, patch);
            Ok((i, 0))
        }
        Piece::Collective => {
            let mut i = collective::decode(records, dctx, patch)?;
            apply_attrs(&mut i, patch);
            Ok((i, 0))
        }
    }
}
