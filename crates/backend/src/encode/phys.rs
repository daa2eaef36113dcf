//! Instructions in physical form: operands over the whole SBUF, the whole PSUM or a numbered variable, registers by
//! number, patterns as canonical as the descriptors make them.
//!
//! The physical module of a core has SBUF as location 0, PSUM as location 1 and variable n as location n + 1.

use super::bundle::{WireError, WireResult};
use super::desc::{Geometry, canonical_free, is_canonical_free, to_physical};
use super::forms::{Group, Kind, Slot, Special};
use smallvec::SmallVec;
use tandem_bir::diag::codes;
use tandem_bir::inst::F32;
use tandem_bir::{
    AccessPattern, ApPair, ArchSpec, Attr, AttrValue, CopyMode, EngineKind, Expr, Inst, MemLocId,
    MemoryLocation, Module, Opcode, Operand, RegAccess, RegId,
};

/// Location of a variable in the physical module.
pub fn var_location(var: u32) -> MemLocId {
    MemLocId::from_u32(var.saturating_add(1))
}

/// Variable number of a location of the physical module.
pub fn location_var(loc: MemLocId) -> Option<u32> {
    loc.as_u32().checked_sub(1).filter(|v| *v > 0)
}

/// The memories of the physical module of a generation.
pub fn geometry(spec: &'static ArchSpec) -> Geometry {
    Geometry { arch: spec.level, spec, sbuf: MemLocId::from_u32(0), psum: MemLocId::from_u32(1) }
}

/// What physical form needs to know about a core.
pub struct CoreEnv<'a> {
    /// The linked module.
    pub module: &'a Module,
    /// Memories.
    pub geo: Geometry,
    /// Variable number by location.
    pub vars: &'a dyn Fn(MemLocId) -> Option<u32>,
    /// Register number by register.
    pub regs: &'a dyn Fn(RegId) -> Option<u8>,
    /// Destination of the partner's swap of the same ordinal, in physical form.
    pub peer_dst: Option<AccessPattern>,
}

impl CoreEnv<'_> {
    /// The location behind a pattern.
    ///
    /// # Errors
    /// E0004 when it does not exist.
    pub fn location(&self, ap: &AccessPattern) -> WireResult<&MemoryLocation> {
        self.module
            .memlocs
            .get(ap.loc)
            .ok_or_else(|| WireError::new(codes::E0004, "the operand names no location"))
    }

    /// Physical form of a pattern: on chip over the memory, else over its variable.
    ///
    /// # Errors
    /// When it has none.
    pub fn pattern(&self, ap: &AccessPattern) -> WireResult<AccessPattern> {
        let l = self.location(ap)?;
        let mut out = if l.is_on_chip() && !l.is_remote() {
            to_physical(ap, l, &self.geo)?
        } else {
            let v = (self.vars)(ap.loc).ok_or_else(|| {
                WireError::new(codes::E0012, format!("location {} has no variable", l.name))
            })?;
            AccessPattern { loc: var_location(v), ..ap.clone() }
        };
        if let Some(d) = out.dynamic.take() {
            let d = self.dynamic(*d, &mut out.offset)?;
            out.dynamic = (!d.terms.is_empty()).then(|| Box::new(d));
        }
        Ok(out)
    }

    /// Place of an operand that is a tile on chip.
    pub(crate) fn place(&self, ap: &AccessPattern) -> Option<super::desc::Start> {
        let l = self.location(ap).ok()?;
        if !l.is_on_chip() || l.is_remote() {
            return None;
        }
        super::desc::start_on_chip(ap, l, &self.geo).ok()
    }

    /// Run-time terms with register numbers; constants move into the offset.
    fn dynamic(&self, d: tandem_bir::DynamicAp, offset: &mut i64) -> WireResult<tandem_bir::DynamicAp> {
        let mut terms = Vec::new();
        let overflow = || WireError::new(codes::E0009, "the run-time address overflows");
        for (k, e) in d.terms {
            let e = self.expr(&e)?;
            match e {
                Expr::Const(c) => {
                    *offset = k.checked_mul(c).and_then(|v| offset.checked_add(v)).ok_or_else(overflow)?;
                }
                Expr::Affine { terms: inner, c } if inner.iter().all(|(_, e)| is_leaf(e)) => {
                    *offset = k.checked_mul(c).and_then(|v| offset.checked_add(v)).ok_or_else(overflow)?;
                    for (j, e) in inner {
                        terms.push((k.checked_mul(j).ok_or_else(overflow)?, e));
                    }
                }
                e => terms.push((k, e)),
            }
        }
        Ok(tandem_bir::DynamicAp { terms, indirect_dim: d.indirect_dim, max_index: d.max_index })
    }

    fn expr(&self, e: &Expr) -> WireResult<Expr> {
        let mut missing = None;
        e.for_each_leaf(&mut |l| {
            if let Expr::Reg(r) = l
                && (self.regs)(*r).is_none()
            {
                missing = Some(*r);
            }
        });
        if let Some(r) = missing {
            return Err(WireError::new(codes::E0009, format!("register {r} has no number")));
        }
        Ok(e.substitute(&|l| match l {
            Expr::Reg(r) => (self.regs)(*r).map(|n| Expr::Reg(RegId::from_u32(u32::from(n)))),
            Expr::Const(_)
            | Expr::Affine { .. }
            | Expr::Sum(_)
            | Expr::Mult { .. }
            | Expr::FloorDiv(..)
            | Expr::Modulo(..)
            | Expr::CcDiv { .. }
            | Expr::LoopAxis(_)
            | Expr::ShardId { .. }
            | Expr::IndirectArg(_)
            | Expr::CcGetRank { .. } => None,
        }))
    }

    fn operand(&self, o: &Operand) -> WireResult<Operand> {
        Ok(match o {
            Operand::Ap(a) => Operand::Ap(self.pattern(a)?),
            Operand::Imm(i) => Operand::Imm(*i),
            Operand::Reg(r) => {
                let n = (self.regs)(r.reg).ok_or_else(|| {
                    WireError::new(codes::E0005, format!("register {} has no number", r.reg))
                })?;
                Operand::Reg(RegAccess { reg: RegId::from_u32(u32::from(n)), dtype: r.dtype })
            }
            Operand::Other(_) => {
                return Err(WireError::new(codes::E0009, "an operand of this form has no encoding"));
            }
        })
    }

    /// Physical form of an instruction, before canonicalisation.
    ///
    /// # Errors
    /// What has no physical form.
    pub fn instruction(&self, inst: &Inst) -> WireResult<Inst> {
        let mut out = Inst::new("", inst.opcode);
        self.instruction_into(inst, &mut out)?;
        Ok(out)
    }

    /// The same into an instruction that is there; nothing but room is left of it.
    ///
    /// # Errors
    /// Those of [`CoreEnv::instruction`].
    pub(crate) fn instruction_into(&self, inst: &Inst, out: &mut Inst) -> WireResult<()> {
        out.opcode = inst.opcode;
        out.engine = inst.engine;
        out.attrs.copy_from(&inst.attrs);
        out.ins.clear();
        out.outs.clear();
        out.more = None;
        let without_operands =
            matches!(inst.opcode, Opcode::CoreBarrier | Opcode::NoOp | Opcode::DevicePrint);
        if !without_operands {
            out.ins.reserve_exact(inst.ins.len());
            out.outs.reserve_exact(inst.outs.len());
            for o in &inst.ins {
                out.ins.push(self.operand(o)?);
            }
            for o in &inst.outs {
                out.outs.push(self.operand(o)?);
            }
            if !inst.indirection_ins().is_empty() {
                let list =
                    inst.indirection_ins().iter().map(|o| self.operand(o)).collect::<WireResult<Vec<_>>>()?;
                out.more_mut().indirection_ins = list;
            }
        }
        if let Some(s) = super::codec::sync_of(inst) {
            let mut s = s.clone();
            s.extra = None;
            for w in &mut s.on_wait {
                w.from = None;
                w.extra = None;
            }
            for u in &mut s.on_update {
                u.extra = None;
            }
            if s != tandem_bir::inst::SyncInfo::default() {
                out.more_mut().sync = Some(s);
            }
        }
        self.special(inst, out)
    }

    fn special(&self, inst: &Inst, out: &mut Inst) -> WireResult<()> {
        match inst.opcode {
            Opcode::GpsimdSb2Sb => {
                if let Some(p) = &self.peer_dst {
                    out.outs = vec![Operand::Ap(p.clone())];
                }
            }
            Opcode::TensorCompletion => {
                if let Some(Operand::Ap(a)) = inst.ins.first() {
                    let l = self.location(a)?;
                    let dtype = self.module.set_of(a.loc).dtype;
                    let v = (self.vars)(a.loc)
                        .ok_or_else(|| WireError::new(codes::E0012, format!("{} has no variable", l.name)))?;
                    out.ins = vec![Operand::Ap(AccessPattern {
                        loc: var_location(v),
                        ..AccessPattern::whole(a.loc, l, dtype)
                    })];
                }
            }
            _ => {}
        }
        normalise(out, &self.geo);
        Ok(())
    }
}

/// Attributes that change no value and have no field.
fn hints(opcode: Opcode) -> &'static [Attr] {
    match opcode {
        op if op.is_dma() => DMA_HINTS,
        Opcode::Matmult | Opcode::MatmultMx => MATMUL_HINTS,
        Opcode::CollectiveCompute => &[Attr::Queue, Attr::DmaQos],
        _ => &[],
    }
}

/// The one form of an instruction over the physical memories that records stand for: no hints, defaults that the wire has
/// written out, numbers as the wire holds them. What decoding gives has this form already.
pub(crate) fn normalise(out: &mut Inst, geo: &Geometry) {
    for a in hints(out.opcode) {
        out.attrs.remove(*a);
    }
    let default = |out: &mut Inst, a: Attr, v: AttrValue| {
        if out.attr(a).is_none() {
            out.set(a, v);
        }
    };
    match out.opcode {
        Opcode::DevicePrint => {
            out.opcode = Opcode::NoOp;
            out.attrs = Default::default();
        }
        Opcode::Activation => {
            default(out, Attr::Alpha, AttrValue::F32(F32(0.0)));
            default(out, Attr::Scale, AttrValue::F32(F32(1.0)));
        }
        // the members of a barrier are in the container's table
        Opcode::CoreBarrier => {
            out.attrs.remove(Attr::Cores);
        }
        Opcode::Iota | Opcode::TensorScalarAffineSelect => {
            if let Some(AttrValue::Pairs(p)) = out.attr(Attr::Pattern) {
                let mut kept: Vec<ApPair> = p.iter().copied().filter(|p| p.num != 1).collect();
                if kept.is_empty() {
                    kept.push(ApPair::new(1, 1));
                }
                out.set(Attr::Pattern, AttrValue::Pairs(kept.into()));
            }
        }
        Opcode::CompareAndBranch => {
            out.set(Attr::OnTrue, "taken");
            out.set(Attr::OnFalse, "next");
        }
        Opcode::UnconditionalBranch => out.set(Attr::Target, "taken"),
        Opcode::Memset => {
            if let Some(c) = out.get_int(Attr::Constant) {
                out.set(Attr::Constant, i64::from(c as u32 as i32));
            }
        }
        Opcode::DmaCopy | Opcode::GenericIndirectSave
            if out.ins.iter().chain(&out.outs).filter_map(Operand::as_ap).all(AccessPattern::is_static) =>
        {
            out.attrs.remove(Attr::OobIsErr);
        }
        Opcode::TensorLoad | Opcode::TensorSave => {
            let list = if out.opcode == Opcode::TensorLoad { &mut out.ins } else { &mut out.outs };
            if let Some(Operand::Ap(a)) = list.first_mut()
                && geo.mem(a.loc).is_none()
                && a.num_elems() == 1
            {
                a.pairs = SmallVec::from_slice(&[ApPair::new(1, 1)]);
            }
        }
        _ => {}
    }
}

/// Attributes of transfers that change no value and have no field.
const DMA_HINTS: &[Attr] = &[
    Attr::Queue,
    Attr::DgeTypeKey,
    Attr::Duplicate,
    Attr::UseGpsimdDma,
    Attr::ReplicaGroups,
    Attr::DmaQos,
    // linking made it an update of a semaphore
    Attr::RemoteNotification,
];
/// Hints of matmuls that must not change values.
const MATMUL_HINTS: &[Attr] = &[Attr::IsFmapOnezero, Attr::IsWeightOnezero];

/// Rewrites the patterns of an instruction as the descriptors of its group store them.
pub fn canonicalise(inst: &mut Inst, group: &Group, geo: &Geometry) {
    for form in group.forms {
        for f in form.fields {
            let (slot, free) = match f.kind {
                Kind::Tensor(s, rank, walk) => (s, Some((rank, walk))),
                Kind::Pointer(s) | Kind::ImmValue(s) => (s, None),
                Kind::Special(Special::IndexAddress) => (Slot::In(1), Some((1, super::desc::Walk::Free))),
                Kind::Special(Special::GatherSource) => (Slot::In(0), Some((1, super::desc::Walk::Free))),
                Kind::Special(Special::ScalarAddress(s) | Special::ScalarRegister(s)) => (s, None),
                Kind::Special(Special::MxPattern(d, s)) => {
                    for slot in [d, s] {
                        canonical_slot(inst, slot, Some((1, super::desc::Walk::Free)), geo);
                    }
                    continue;
                }
                Kind::Special(Special::ActScale) => (Slot::In(2), None),
                _ => continue,
            };
            canonical_slot(inst, slot, free, geo);
        }
    }
}

fn canonical_slot(inst: &mut Inst, slot: Slot, free: Option<(u8, super::desc::Walk)>, geo: &Geometry) {
    let op = match slot {
        Slot::In(i) => inst.ins.get_mut(i as usize),
        Slot::Out(i) => inst.outs.get_mut(i as usize),
    };
    if let Some(Operand::Ap(a)) = op
        && geo.mem(a.loc).is_some()
        && let Some(p0) = a.pairs.first().copied()
    {
        if let Some((rank, walk)) = free
            && a.pairs.len() > 1
            && (is_canonical_free(&a.pairs[1..], rank as usize, walk) || a.pairs[1..] == [ApPair::new(1, 1)])
        {
            return;
        }
        let mut pairs: tandem_bir::ApPairs = SmallVec::new();
        pairs.push(p0);
        if let Some((rank, walk)) = free {
            pairs.extend(canonical_free(&a.pairs, rank as usize, walk));
        } else if a.elems_per_partition() != 1 {
            return;
        }
        if pairs.len() == 1 {
            pairs.push(ApPair::new(1, 1));
        }
        a.pairs = pairs;
    }
}

/// Whether an expression is a register or a gather index.
pub fn is_leaf(e: &Expr) -> bool {
    matches!(e, Expr::Reg(_) | Expr::IndirectArg(_))
}

/// Engines whose streams hold records.
pub const STREAM_ENGINES: [EngineKind; 5] =
    [EngineKind::Pool, EngineKind::Activation, EngineKind::Pe, EngineKind::Dve, EngineKind::Sp];

/// Copy mode of a transfer; Copy for Load and Save.
pub fn copy_mode(inst: &Inst) -> CopyMode {
    if inst.opcode == Opcode::DmaCopy {
        inst.get_enum(Attr::Mode).unwrap_or(CopyMode::Copy)
    } else {
        CopyMode::Copy
    }
}
