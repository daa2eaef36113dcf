//! Level `bundles`: the 64-byte records of the engines' streams.
//!
//! The layer from a linked instruction to bytes, as rows ([`rows`]) that are read side by side with the specification,
//! file 07. Every record is decoded again before it is written and compared with the instruction; what its bytes cannot
//! say (dtypes that share a code, attributes without a field) goes into a [`Patch`]. Layouts that no public source gives are
//! our choice and marked ([`forms::Form::authentic`]).
//!
//! Not modelled: anything that would make the result loadable on hardware.

pub mod addr;
pub mod bundle;
pub mod codec;
pub mod collective;
pub mod desc;
pub mod dma;
pub mod events;
pub mod forms;
pub(crate) mod memo;
pub mod opcodes;
pub mod phys;
pub mod program;
pub mod rows;
pub mod sb2sb;
pub mod select;
pub(crate) mod special;
pub mod tables;
pub mod validate;

pub use bundle::{BUNDLE_BYTES, Bundle, WireError, WireResult};
pub use sb2sb::Bf21;

use crate::decode::draft::{DecodeCtx, Draft, decode_into};
use crate::decode::patch::{Patch, same};
use codec::{EncodeCtx, Records, encode_group};
use dma::DmaCtx;
use phys::CoreEnv;
use select::Plan;
use tandem_bir::diag::codes;
use tandem_bir::{AccessPattern, EngineKind, Inst, MemLocId, Opcode};

/// Records of one instruction.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Records in stream order.
    pub records: Records,
    /// What they cannot say.
    pub patch: Patch,
    /// Every layout is documented.
    pub authentic: bool,
    /// The rows it was written by; `None` for transfers and collectives.
    pub group: Option<&'static forms::Group>,
}

/// What encoding needs to know about a core, beside [`CoreEnv`].
pub struct Surroundings<'a> {
    /// Cores per LNC.
    pub lnc: u32,
    /// Meaning of byte +0x21 of the swap.
    pub bf21: Bf21,
    /// Places of physical locations.
    pub places: dma::Places<'a>,
    /// Physical location of a variable number.
    pub var_loc: &'a dyn Fn(u32) -> Option<MemLocId>,
    /// Whole-location pattern of a variable number.
    pub whole_var: &'a dyn Fn(u32) -> Option<AccessPattern>,
}

/// Encodes one instruction of a stream.
///
/// # Errors
/// What has no encoding, does not fit, breaks a rule of the machine, or would not read back.
pub fn encode_inst(
    inst: &Inst,
    engine: EngineKind,
    displacement: i64,
    env: &CoreEnv<'_>,
    around: &Surroundings<'_>,
) -> WireResult<Encoded> {
    encode_with(inst, engine, displacement, env, around, &mut Scratch::default())
}

/// What encoding an instruction leaves for the next: room, no values.
pub(crate) struct Scratch {
    inst: Inst,
    draft: Draft,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { inst: Inst::new("", Opcode::NoOp), draft: Draft::default() }
    }
}

/// [`encode_inst`] in room that is used again.
pub(crate) fn encode_with(
    inst: &Inst,
    engine: EngineKind,
    displacement: i64,
    env: &CoreEnv<'_>,
    around: &Surroundings<'_>,
    scratch: &mut Scratch,
) -> WireResult<Encoded> {
    let qos = inst.get_enum(tandem_bir::Attr::DmaQos);
    env.instruction_into(inst, &mut scratch.inst)?;
    physical(&mut scratch.inst, qos, engine, displacement, env.geo, around, &mut scratch.draft)
}

/// Encodes an instruction that is in physical form, as decoding gives it.
///
/// # Errors
/// Those of [`encode_inst`].
pub(crate) fn encode_physical(
    mut inst: Inst,
    engine: EngineKind,
    displacement: i64,
    geo: desc::Geometry,
    around: &Surroundings<'_>,
    scratch: &mut Scratch,
) -> WireResult<Encoded> {
    let qos = inst.get_enum(tandem_bir::Attr::DmaQos);
    inst.attrs.remove(tandem_bir::Attr::DmaQos);
    physical(&mut inst, qos, engine, displacement, geo, around, &mut scratch.draft)
}

fn physical(
    p: &mut Inst,
    qos: Option<tandem_bir::DmaQosClass>,
    engine: EngineKind,
    displacement: i64,
    geo: desc::Geometry,
    around: &Surroundings<'_>,
    draft: &mut Draft,
) -> WireResult<Encoded> {
    let ctx = EncodeCtx { geo, displacement, var_of: &phys::location_var };
    let dctx = DecodeCtx { geo, var_loc: around.var_loc, whole_var: around.whole_var };
    match select::plan(p, geo.arch)? {
        Plan::Rows(g) => {
            phys::canonicalise(p, g, &geo);
            let mut records = encode_group(p, g, &ctx)?;
            for (f, b) in g.forms.iter().zip(&records) {
                validate::validate_form(b, f, engine, geo.spec)?;
            }
            decode_into(&records, g, &dctx, draft)?;
            let (patch, to) = if draft.is(p, &dctx) {
                (Patch::default(), draft.displacement)
            } else {
                let patch = Patch::between(p, draft, geo.psum);
                let to = patch.verify(draft, p, &dctx)?;
                (patch, to)
            };
            if to != displacement {
                return Err(WireError::new(codes::E0011, "the branch displacement changed"));
            }
            let authentic = g.forms.iter().all(|f| f.authentic);
            if p.opcode == Opcode::GpsimdSb2Sb
                && let Some(b) = records.first_mut()
            {
                *b = sb2sb::encode_sb2sb(p, &ctx, around.lnc, around.bf21)?;
            }
            Ok(Encoded { records, patch: checked(patch)?, authentic, group: Some(g) })
        }
        Plan::Dma => {
            let dma = DmaCtx { geo, places: around.places };
            let records = dma::encode(p, qos, &dma)?;
            for b in &records {
                validate::validate_common(b, geo.spec)?;
            }
            let target = dma::notified(p);
            let first = dma::decode(&records, &dma, &Patch { target, ..Patch::default() })?;
            let patch = Patch { target, ..dma_patch(p, &first) };
            let mut back = dma::decode(&records, &dma, &patch)?;
            crate::decode::patch::apply_attrs(&mut back, &patch);
            back.attrs.remove(tandem_bir::Attr::DmaQos);
            if p.opcode != back.opcode || p.attrs != back.attrs {
                return Err(WireError::new(codes::E0011, format!("{:?} became {:?}", p.attrs, back.attrs)));
            }
            dma::same_walk(p, &back, &dma)?;
            same_sync(p, &back)?;
            let authentic = dma::is_plain(p) && target.is_none();
            Ok(Encoded { records, patch: checked(patch)?, authentic, group: None })
        }
        Plan::Collective => {
            let dma = DmaCtx { geo, places: around.places };
            for o in p.ins.iter_mut().chain(&mut p.outs) {
                if let tandem_bir::Operand::Ap(a) = o {
                    *a = collective::canonical(a)?;
                }
            }
            let records = collective::encode(p, &dma)?;
            for b in &records {
                validate::validate_common(b, geo.spec)?;
            }
            let patch = dma_patch(p, &collective::decode(&records, &dma, &Patch::default())?);
            let mut back = collective::decode(&records, &dma, &patch)?;
            crate::decode::patch::apply_attrs(&mut back, &patch);
            same(p, &back)?;
            same_sync(p, &back)?;
            Ok(Encoded { records, patch: checked(patch)?, authentic: false, group: None })
        }
    }
}

/// The waits and updates read back.
fn same_sync(expected: &Inst, got: &Inst) -> WireResult<()> {
    let (e, g) = (codec::sync_of(expected), codec::sync_of(got));
    if e == g {
        Ok(())
    } else {
        Err(WireError::new(codes::E0011, format!("waits and updates {e:?} became {g:?}")))
    }
}

/// A patch whose values the container can hold.
fn checked(p: Patch) -> WireResult<Patch> {
    for (a, v) in &p.attrs {
        if v.as_ref().is_some_and(|v| crate::decode::patch::attr_json(v).is_null()) {
            return Err(WireError::new(codes::E0005, format!("{} is known only at run time", a.key())));
        }
    }
    Ok(p)
}

/// What a transfer's records cannot say.
fn dma_patch(expected: &Inst, got: &Inst) -> Patch {
    use forms::Slot;
    let mut p = Patch::default();
    if expected.opcode != got.opcode {
        p.opcode = Some(expected.opcode);
    }
    let ops = |i: &Inst| -> Vec<(Slot, tandem_bir::Dtype)> {
        let ins = i.ins.iter().enumerate().map(|(k, o)| (Slot::In(k as u8), o));
        let outs = i.outs.iter().enumerate().map(|(k, o)| (Slot::Out(k as u8), o));
        ins.chain(outs).filter_map(|(s, o)| o.as_ap().map(|a| (s, a.dtype))).collect()
    };
    for ((s, e), (_, g)) in ops(expected).into_iter().zip(ops(got)) {
        if e != g {
            p.dtypes.push((s, e));
        }
    }
    for (a, v) in expected.attrs.iter() {
        if got.attrs.get(a) != Some(v) {
            p.attrs.push((a, Some(v.clone())));
        }
    }
    for (a, _) in got.attrs.iter() {
        if expected.attrs.get(a).is_none() && a != tandem_bir::Attr::DmaQos {
            p.attrs.push((a, None));
        }
    }
    p
}
