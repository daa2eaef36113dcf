//! From instructions to [`Decoded`]: operands become views once; run-time offsets become recipes.

use crate::exec::{Arg, Decoded, Indexed, claims_too_much};
use crate::memory::{BufId, Memory, View};
use crate::place::{Place, view_of};
use crate::state::{Fault, RegValue};
use smallvec::SmallVec;
use tandem_bir::diag::{Code, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::verify::effective_engine;
use tandem_bir::{
    AccessPattern, Attr, CompactString, DynamicAp, Expr, InstId, Module, Opcode, Operand, RegId,
};

/// Which operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    In(usize),
    Out(usize),
    Index(usize),
}

/// An operand whose address is known only when the instruction starts.
#[derive(Debug)]
pub(crate) struct Recipe<'p> {
    pub(crate) slot: Slot,
    ap: &'p AccessPattern,
    /// `(elements per unit, value)`.
    terms: Vec<(i64, Term<'p>)>,
    /// Bounds of the one index, when there is one.
    max_index: Option<i64>,
    vector: Option<Vector>,
}

impl Recipe<'_> {
    /// The address depends on what memory holds.
    pub(crate) fn looks_at_memory(&self) -> bool {
        let indirect = |e: &Expr| {
            let mut found = false;
            e.for_each_leaf(&mut |l| found |= matches!(l, Expr::IndirectArg(_)));
            found
        };
        self.vector.is_some()
            || self.terms.iter().any(|(_, t)| match t {
                Term::Expr(e) => indirect(e),
                Term::Input(_) => true,
            })
    }
}

/// The part of an address that has one index per row.
#[derive(Debug)]
struct Vector {
    index: usize,
    coeff: i64,
    dim: i64,
}

/// A scalar part of an address.
#[derive(Debug)]
enum Term<'p> {
    Expr(&'p Expr),
    /// The value of an operand of the instruction (dynamic tensor copies).
    Input(usize),
}

/// What an expression may ask for.
pub(crate) struct Env<'a> {
    pub(crate) regs: &'a [RegValue],
    pub(crate) axes: &'a [(CompactString, i64)],
    pub(crate) core: i64,
    pub(crate) mem: &'a Memory,
}

/// What became of resolving the run-time operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// All operands are set.
    Run,
    /// Out of bounds, and the instruction says to skip.
    Skip,
}

/// Decodes one instruction.
///
/// # Errors
/// Code and text of an operand that cannot be.
pub(crate) fn decode<'p>(
    m: &'p Module,
    places: &[Option<Place>],
    id: InstId,
    len: &dyn Fn(BufId) -> usize,
) -> Result<(Decoded, Vec<Recipe<'p>>), (Code, String)> {
    let i = &m.insts[id];
    let mut d = Decoded {
        inst: id,
        opcode: i.opcode,
        engine: effective_engine(i),
        ins: SmallVec::new(),
        outs: SmallVec::new(),
        indirect: Vec::new(),
    };
    let mut recipes = Vec::new();
    for (k, o) in i.indirection_ins().iter().enumerate() {
        d.indirect.push(operand(m, places, o, Slot::Index(k), &[], len, &mut recipes)?);
    }
    let index = d.indirect.clone();
    for (k, o) in i.ins.iter().enumerate() {
        let arg = operand(m, places, o, Slot::In(k), &index, len, &mut recipes)?;
        d.ins.push(arg);
    }
    for (k, o) in i.outs.iter().enumerate() {
        let arg = operand(m, places, o, Slot::Out(k), &index, len, &mut recipes)?;
        d.outs.push(arg);
    }
    // Dynamic tensor copies name their offset as an operand: source or destination moves by scale · offset.
    let moved = match i.opcode {
        Opcode::TensorCopyDynamicSrc => i.ins.first().map(|o| (Slot::In(0), o)),
        Opcode::TensorCopyDynamicDst => i.outs.first().map(|o| (Slot::Out(0), o)),
        _ => None,
    };
    if let Some((slot, Operand::Ap(ap))) = moved
        && ap.is_static()
        && i.ins.len() > 1
    {
        let scale = i.get_int(Attr::Scale).unwrap_or(1);
        recipes.push(Recipe {
            slot,
            ap,
            terms: vec![(scale, Term::Input(1))],
            max_index: None,
            vector: None,
        });
    }
    Ok((d, recipes))
}

fn operand<'p>(
    m: &'p Module,
    places: &[Option<Place>],
    o: &'p Operand,
    slot: Slot,
    index: &[Arg],
    len: &dyn Fn(BufId) -> usize,
    recipes: &mut Vec<Recipe<'p>>,
) -> Result<Arg, (Code, String)> {
    match o {
        Operand::Imm(i) => Ok(Arg::Imm(*i)),
        Operand::Reg(r) => Ok(Arg::Reg(r.reg.as_u32())),
        Operand::Other(_) => Err((codes::S0002, "an operand form of symbolic BIR is not simulated".into())),
        Operand::Ap(ap) => {
            let loc = &m.memlocs[ap.loc];
            let place = places.get(ap.loc.index()).and_then(Option::as_ref);
            let view = view_of(ap, 0, loc, place, len);
            if view.is_ok() || ap.dynamic.is_some() {
                let elems = usize::try_from(ap.num_elems()).unwrap_or(usize::MAX);
                let bytes = place.map_or(0, |p| len(p.buf));
                if let Some(why) = claims_too_much(elems, ap.dtype.bytes() as usize, bytes) {
                    return Err((codes::S0002, why));
                }
            }
            let Some(dy) = &ap.dynamic else {
                return view.map(Arg::View).map_err(|e| (codes::S0001, e));
            };
            let r = recipe(ap, dy, slot, index).map_err(|e| (codes::S0002, e))?;
            recipes.push(r);
            // A placeholder until the instruction starts; index 0 always lies inside a sane tensor, but need not.
            Ok(Arg::View(view.unwrap_or_else(|_| View::linear(BufId(0), ap.dtype, 0, 1))))
        }
    }
}

fn recipe<'p>(
    ap: &'p AccessPattern,
    dy: &'p DynamicAp,
    slot: Slot,
    index: &[Arg],
) -> Result<Recipe<'p>, String> {
    let mut r = Recipe { slot, ap, terms: Vec::new(), max_index: dy.max_index, vector: None };
    for (coeff, e) in &dy.terms {
        let mut which = None;
        e.for_each_leaf(&mut |l| {
            if let Expr::IndirectArg(n) = l {
                which = Some(*n);
            }
        });
        let many = match which {
            None => None,
            Some(n) => {
                let k = n.checked_sub(1).and_then(|k| usize::try_from(k).ok()).filter(|k| *k < index.len());
                let k = k.ok_or_else(|| format!("index operand {n} does not exist"))?;
                match &index[k] {
                    Arg::View(v) if v.num_elems() == 1 => None,
                    Arg::View(_) => Some(k),
                    Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_) => {
                        return Err("an index operand is no memory".into());
                    }
                }
            }
        };
        match many {
            None => r.terms.push((*coeff, Term::Expr(e))),
            Some(k) => {
                // Linear in the index: slope and value at 0.
                let at = |x: i64| e.eval(&mut |l| matches!(l, Expr::IndirectArg(_)).then_some(x));
                let (Some(a), Some(b)) = (at(0), at(1)) else {
                    return Err("an index is mixed with another run-time value".into());
                };
                if a != 0 || r.vector.is_some() || at(2) != b.checked_mul(2) {
                    return Err("an address that is not linear in one index is not simulated".into());
                }
                let coeff = coeff.checked_mul(b).ok_or("a coefficient overflows")?;
                r.vector = Some(Vector { index: k, coeff, dim: dy.indirect_dim });
            }
        }
    }
    Ok(r)
}

/// Reads the integer in the first element of a view.
pub(crate) fn read_index(mem: &Memory, v: &View) -> i64 {
    let n = v.elem_size();
    let b = &mem.bytes(v.buf)[v.base..v.base + n];
    let mut w = [0u8; 8];
    w[..n].copy_from_slice(b);
    let raw = u64::from_le_bytes(w);
    if v.dtype.is_int() && v.dtype.name_is_signed() {
        let shift = 64 - 8 * n as u32;
        ((raw << shift) as i64) >> shift
    } else {
        raw as i64
    }
}

/// Signedness of integer element types.
trait Signed {
    fn name_is_signed(self) -> bool;
}
impl Signed for tandem_bir::Dtype {
    fn name_is_signed(self) -> bool {
        self.class() == tandem_bir::dtype::NumericClass::Signed
    }
}

fn register(env: &Env<'_>, r: RegId, m: &Module) -> Result<i64, Fault> {
    match env.regs.get(r.index()) {
        Some(v) if v.defined => Ok(v.bits),
        _ => Err(poison(m, r)),
    }
}

/// Fault of a register used before it was written.
pub(crate) fn poison(m: &Module, r: RegId) -> Fault {
    let name = m.regs.get(r).map_or("?", |x| x.name.as_str());
    Fault::new(codes::S0004, format!("register `{name}` is used before anything was written to it"))
}

/// Value of an expression.
pub(crate) fn eval(e: &Expr, d: Option<&Decoded>, env: &Env<'_>, m: &Module) -> Result<i64, Fault> {
    let mut fault = None;
    let v = e.eval(&mut |l| match l {
        Expr::Reg(r) => match register(env, *r, m) {
            Ok(v) => Some(v),
            Err(f) => {
                fault = Some(f);
                None
            }
        },
        Expr::IndirectArg(n) => {
            let k = usize::try_from(n.checked_sub(1)?).ok()?;
            match d?.indirect.get(k)? {
                Arg::View(v) => Some(read_index(env.mem, v)),
                Arg::Reg(r) => env.regs.get(*r as usize).filter(|v| v.defined).map(|v| v.bits),
                Arg::Imm(i) => i.as_int(),
                Arg::Indexed(_) => None,
            }
        }
        Expr::LoopAxis(name) => env.axes.iter().rev().find(|(n, _)| n == name).map(|(_, v)| *v),
        Expr::ShardId { .. } => Some(env.core),
        Expr::CcGetRank { .. } | Expr::Const(_) | Expr::Affine { .. } | Expr::Sum(_) | Expr::Mult { .. } => {
            None
        }
        Expr::FloorDiv(..) | Expr::Modulo(..) | Expr::CcDiv { .. } => None,
    });
    match (v, fault) {
        (Some(v), _) => Ok(v),
        (None, Some(f)) => Err(f),
        (None, None) => {
            Err(Fault::new(codes::S0002, "a run-time expression has no value here, or overflows"))
        }
    }
}

/// Sets the run-time operands of an instruction that starts now.
pub(crate) fn resolve(
    d: &mut Decoded,
    recipes: &[Recipe<'_>],
    m: &Module,
    places: &[Option<Place>],
    env: &Env<'_>,
) -> Result<Resolved, Fault> {
    let inst = &m.insts[d.inst];
    for r in recipes {
        let mut delta = Some(0i64);
        let mut out_of_range = None;
        for (coeff, t) in &r.terms {
            let v = match t {
                Term::Expr(e) => eval(e, Some(d), env, m)?,
                Term::Input(k) => match d.ins.get(*k) {
                    Some(Arg::Reg(x)) => register(env, RegId::from_u32(*x), m)?,
                    Some(Arg::View(v)) => read_index(env.mem, v),
                    Some(Arg::Imm(i)) => i.as_int().unwrap_or(0),
                    Some(Arg::Indexed(_)) | None => 0,
                },
            };
            if r.terms.len() == 1
                && let Some(max) = r.max_index
                && !(0..=max).contains(&v)
            {
                out_of_range = Some((v, max));
            }
            delta = delta.and_then(|a| a.checked_add(coeff.checked_mul(v)?));
        }
        let loc = &m.memlocs[r.ap.loc];
        let place = places.get(r.ap.loc.index()).and_then(Option::as_ref);
        let view = match (out_of_range, delta) {
            (Some((v, max)), _) => Err(format!("index {v} into `{}` is not in 0 to {max}", loc.name)),
            (None, None) => Err(format!("the offset into `{}` overflows", loc.name)),
            (None, Some(delta)) => match &r.vector {
                None => view_of(r.ap, delta, loc, place, |b| env.mem.bytes(b).len()),
                Some(_) => view_of(&row_zero(r.ap), delta, loc, place, |b| env.mem.bytes(b).len()),
            },
        };
        let arg = match view {
            Ok(view) => match &r.vector {
                None => Arg::View(view),
                Some(vec) => indexed(view, vec, r, loc, place),
            },
            Err(e) => {
                if inst.opcode.is_dma()
                    && !inst.get_bool(Attr::OobIsErr)
                    && inst.opcode.spec().attr(Attr::OobIsErr).is_some()
                {
                    return Ok(Resolved::Skip);
                }
                return Err(Fault::new(codes::S0003, e));
            }
        };
        let list = match r.slot {
            Slot::In(k) => d.ins.get_mut(k),
            Slot::Out(k) => d.outs.get_mut(k),
            Slot::Index(k) => d.indirect.get_mut(k),
        };
        if let Some(a) = list {
            *a = arg;
        }
    }
    Ok(Resolved::Run)
}

/// The pattern with every row at the place of row 0: the index says where a row is.
fn row_zero(ap: &AccessPattern) -> AccessPattern {
    let mut a = ap.clone();
    if let Some(p) = a.pairs.first_mut() {
        p.step = 0;
    }
    a
}

fn indexed(
    view: View,
    vec: &Vector,
    r: &Recipe<'_>,
    loc: &tandem_bir::MemoryLocation,
    place: Option<&Place>,
) -> Arg {
    let base = place.map_or(0, |p| p.base);
    let span = match place.and_then(|p| p.pitch) {
        Some(pitch) => (loc.rows() as usize).saturating_sub(1) * pitch + loc.row_bytes() as usize,
        None => loc.size_bytes() as usize,
    };
    let row = (loc.row_bytes() / r.ap.dtype.bytes()).max(1) as i64;
    let coeff_bytes = match place.and_then(|p| p.pitch) {
        Some(pitch) if vec.coeff % row == 0 => (vec.coeff / row).saturating_mul(pitch as i64),
        _ => vec.coeff.saturating_mul(view.elem_size() as i64),
    };
    Arg::Indexed(Box::new(Indexed {
        coeff_bytes: coeff_bytes as isize,
        view,
        index: vec.index,
        max_index: r.max_index,
        dim: vec.dim,
        limits: base..base.saturating_add(span),
    }))
}
