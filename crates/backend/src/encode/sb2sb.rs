//! The swap bundle `0xBF`: gates, emit and check paths.
//!
//! One body serves CoreV3 and CoreV4; CoreV2 has none. Order of the gates as the specification gives it (file 07
//! §7.1.4): the instruction's own rule, then header, events, dtypes and source, then the LNC gate (assertion 936), then
//! the rest. The two codegen modes of the vendor — write, and check without writing — are [`encode_sb2sb`] and
//! [`check_sb2sb`]; both build the same record and validate it before anything leaves.

use super::bundle::{Bundle, WireError, WireResult};
use super::codec::{EncodeCtx, ap, encode_group};
use super::desc::start_of;
use super::forms::Slot;
use super::rows::G_SB2SB;
use super::validate::validate_sb2sb;
use tandem_bir::diag::codes;
use tandem_bir::{ArchLevel, EngineKind, Inst};

/// What byte +0x21 holds (`--bf21`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bf21 {
    /// Number of active partitions: second word of the first pair of the source's pattern (decision D5).
    #[default]
    Count,
    /// Base partition of the destination on the partner, the seed page's words taken literally.
    PeerPartition,
}

/// Encodes a swap whose destination is already the partner's.
///
/// # Errors
/// E0001 for an empty pattern (the vendor asserts `idx < size()`), E0002 before gen3, E0006 (assertion 936) when the LNC
/// has not two cores, E0010 for every rule of the machine.
pub fn encode_sb2sb(inst: &Inst, ctx: &EncodeCtx<'_>, lnc: u32, bf21: Bf21) -> WireResult<Bundle> {
    if ctx.geo.arch < ArchLevel::Gen3 {
        return Err(WireError::new(codes::E0002, "the swap record exists from gen3 on"));
    }
    for s in [Slot::In(0), Slot::Out(0)] {
        let a = ap(inst, s)?;
        if a.pairs.is_empty() {
            return Err(WireError::new(codes::E0001, "idx < size(): the pattern of the swap has no pairs"));
        }
        if !a.is_static() {
            return Err(WireError::new(codes::E0009, "a swap has static patterns only"));
        }
    }
    let mut b = *encode_group(inst, &G_SB2SB, ctx)?
        .first()
        .ok_or_else(|| WireError::new(codes::E0011, "no record"))?;
    if lnc != 2 {
        return Err(WireError::new(
            codes::E0006,
            format!("assertion 936: cores per LNC is {lnc}, supported \"2\" (GPSIMDSB2SB.cpp:745)"),
        ));
    }
    validate_sb2sb(&b, EngineKind::Pool, ctx.geo.spec)?;
    if bf21 == Bf21::PeerPartition {
        let d = ap(inst, Slot::Out(0))?;
        let mem =
            ctx.geo.mem(d.loc).ok_or_else(|| WireError::new(codes::E0012, "the tile is not on chip"))?;
        b.put(0x21, 1, u64::from(start_of(d.offset, d.dtype, mem, &ctx.geo)?.partition));
    }
    Ok(b)
}

/// The check path: the same record built and validated, nothing returned.
///
/// # Errors
/// Those of [`encode_sb2sb`].
pub fn check_sb2sb(inst: &Inst, ctx: &EncodeCtx<'_>, lnc: u32) -> WireResult<()> {
    encode_sb2sb(inst, ctx, lnc, Bf21::Count).map(|_| ())
}
