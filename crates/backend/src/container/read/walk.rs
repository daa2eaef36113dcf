//! The way through a stream: each instruction is decoded, encoded again and compared.

use crate::decode::Index;
use crate::decode::draft::{DecodeCtx, Draft};
use crate::decode::patch::Patch;
use crate::decode::program::one;
use crate::encode::bundle::{BUNDLE_BYTES, Bundle, WireError};
use crate::encode::desc::Geometry;
use crate::encode::dma::{DmaCtx, Place};
use crate::encode::memo::{Memo, place_of_physical};
use crate::encode::{Bf21, Scratch, Surroundings, encode_physical, phys};
use crate::link::Var;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{AccessPattern, BirEnum, EngineKind, Inst, MemLocId, Module};

use super::layout::{Part, bad};
use super::tables::Frame;

/// Records that are decoded and encoded at a time.
const CHUNK: usize = 8192;

/// What the variables of a core look like to decoder and encoder.
pub(super) struct Variables {
    geo: Geometry,
    lnc: u32,
    bf21: Bf21,
    /// SBUF, PSUM, then the variables.
    places: Vec<Option<Place>>,
    wholes: Vec<Option<AccessPattern>>,
}

impl Variables {
    pub(super) fn of(f: &Frame, core: u8) -> Variables {
        let k = core as usize;
        let (m, vars) = (&f.program.modules[k], &f.cores[k].vars);
        let n = vars.len() as u32;
        let place = |l: MemLocId| place_of_var(m, vars, &f.geo, l);
        Variables {
            geo: f.geo,
            lnc: f.program.lnc_size,
            bf21: f.bf21,
            places: (0..n + 2).map(|l| place(MemLocId::from_u32(l))).collect(),
            wholes: (1..=n).map(|v| whole_of_var(m, vars, v)).collect(),
        }
    }
}

/// An instruction of a stream that was decoded, encoded again and compared.
pub(super) struct Step<'a> {
    pub(super) inst: Inst,
    /// Its branch displacement.
    pub(super) to: i64,
    pub(super) records: &'a [Bundle],
    /// Every layout is documented.
    pub(super) authentic: bool,
}

/// Decodes a stream, encodes every instruction again and compares, a few thousand records at a time. Gives the number of
/// records.
pub(super) fn walk(
    b: &[u8],
    part: &Part,
    patches: &[(u32, Patch)],
    vars: &Variables,
    sink: &mut dyn FnMut(usize, Step<'_>) -> Result<(), Diagnostic>,
) -> Result<usize, Diagnostic> {
    let engine = EngineKind::from_ordinal(u16::from(part.engine))
        .ok_or_else(|| bad(codes::E0103, part.bytes.start, "no engine has this number"))?;
    let geo = vars.geo;
    let index = Index::default();
    let places = |l: MemLocId| vars.places.get(l.as_u32() as usize).copied().flatten();
    let whole = |v: u32| vars.wholes.get((v as usize).checked_sub(1)?).cloned().flatten();
    let n = vars.wholes.len() as u32;
    let var_loc = |v: u32| (v >= 1 && v <= n).then(|| phys::var_location(v));
    let ctx = DecodeCtx { geo, var_loc: &var_loc, whole_var: &whole };
    let dctx = DmaCtx { geo, places: &places };
    // decoded instructions are in physical form already: locations are those of the physical module
    let around = Surroundings {
        lnc: vars.lnc,
        bf21: vars.bf21,
        places: &places,
        var_loc: &var_loc,
        whole_var: &whole,
    };
    let mut memo = Memo::default();
    let (mut draft, mut scratch) = (Draft::default(), Scratch::default());
    let place = |a: &AccessPattern| place_of_physical(a, &geo);
    let (records, _) = b.get(part.bytes.clone()).unwrap_or(&[]).as_chunks::<BUNDLE_BYTES>();
    let mut window: Vec<Bundle> = Vec::with_capacity(CHUNK.min(records.len()));
    let (mut base, mut at, mut next) = (0usize, 0usize, 0usize);
    let none = Patch::default();
    while base + at < records.len() {
        if window.len() - at < 1024 && base + window.len() < records.len() {
            // a group of records is never longer than what is kept in view
            base += at;
            at = 0;
            window.clear();
            window.extend(records[base..].iter().take(CHUNK).map(|r| Bundle(*r)));
        }
        let start = base + at;
        let offset = part.bytes.start + start * BUNDLE_BYTES;
        let fault = |e: WireError| bad(e.code, offset, e.message);
        let again = |e: WireError| {
            bad(codes::E0105, offset, format!("a record does not encode again: {}", e.message))
        };
        let (len, piece) = index.at(&window[at..]).map_err(fault)?;
        let len = len.clamp(1, window.len() - at);
        let patch = match patches.get(next) {
            Some((r, p)) if *r as usize == start => {
                next += 1;
                p
            }
            _ => &none,
        };
        let own = &window[at..at + len];
        let (mut inst, to) = one(own, piece, patch, &ctx, &dctx, &mut draft).map_err(fault)?;
        inst.engine = engine;
        let found = memo.find(&inst, engine, &place, &geo);
        let found = found.map(|f| (f.records.as_slice() == own && f.patch == patch, f.authentic));
        let (equal, authentic) = match found {
            Some(f) => f,
            None => {
                let mut canonical = inst.clone();
                phys::normalise(&mut canonical, &geo);
                if canonical != inst {
                    let text = "a record table says what no encoder writes";
                    return Err(bad(codes::E0105, offset, text));
                }
                let e = encode_physical(canonical, engine, to, geo, &around, &mut scratch).map_err(again)?;
                memo.keep(&inst, engine, &place, &e);
                (e.records.as_slice() == own && e.patch == *patch, e.authentic)
            }
        };
        if !equal {
            return Err(bad(codes::E0105, offset, "a record is not in its canonical form"));
        }
        sink(start, Step { inst, to, records: own, authentic })?;
        at += len;
    }
    if next != patches.len() {
        let record = patches.get(next).map_or(0, |p| p.0 as usize);
        return Err(bad(
            codes::E0105,
            part.bytes.start.saturating_add(record.saturating_mul(BUNDLE_BYTES)),
            "the record table names a record where no instruction starts",
        ));
    }
    Ok(records.len())
}

fn place_of_var(m: &Module, vars: &[Var], geo: &Geometry, l: MemLocId) -> Option<Place> {
    let loc = if l == geo.sbuf || l == geo.psum {
        l
    } else {
        vars.get((phys::location_var(l)? as usize).checked_sub(1)?)?.loc
    };
    m.memlocs.get(loc).map(|l| Place { mem: l.mem, row_bytes: l.row_bytes() })
}

fn whole_of_var(m: &Module, vars: &[Var], v: u32) -> Option<AccessPattern> {
    let var = vars.get((v as usize).checked_sub(1)?)?;
    let l = m.memlocs.get(var.loc)?;
    Some(AccessPattern::whole(var.loc, l, m.set_of(var.loc).dtype))
}
