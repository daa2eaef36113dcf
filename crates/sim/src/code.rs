//! The program of one core, prepared: instructions decoded, blocks cut into segments, branches resolved.
//!
//! A block is a list of steps. A *segment* is a longest run of ordinary instructions; a *control* step is an instruction
//! that every engine of the core meets: a branch, a loop, a call, a CoreBarrier. Control steps run when the segment before
//! them is complete, which is what makes a CoreBarrier a full fence of its core (decision D17) and a block end a join of
//! the engines (decision D25). So an edge to a producer in an earlier segment is met when the segment starts; one to a producer in a
//! later segment never is, and its consumer waits for ever ([`tandem_bir::analysis::edges`]).

use crate::decode::{Recipe, decode};
use crate::exec::Decoded;
use crate::memory::BufId;
use crate::numeric_profile::{NumericProfile, SilentSkip};
use crate::place::Place;
use rustc_hash::FxHashMap;
use tandem_bir::analysis::queue::{QUEUES, queue};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::linked::Stream;
use tandem_bir::verify::effective_engine;
use tandem_bir::{
    Attr, BlockId, BranchCompareOp, CollectiveKind, CompactString, Expr, FuncId, Inst, InstId, Module,
    Opcode, Operand, Program, RegId,
};

/// Short names of the queues, for reports.
pub(crate) const QUEUE_NAMES: [&str; QUEUES] = ["PE", "Activation", "DVE", "Pool", "SP"];

/// What the machine does with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Computes ([`crate::exec::exec`]).
    Compute,
    /// A transfer: issued by its engine, completed by its queue.
    Transfer,
    /// Nothing.
    Nothing,
    /// Register or rank instruction.
    Scalar,
    /// On-chip swap of a collective that is still abstract (kind 0).
    Swap,
    /// Lowered swap.
    Sb2Sb,
    /// Any other collective.
    Collective,
    /// Completion token.
    Token,
    /// Handled as a control step.
    Control,
}

/// A control step's meaning.
#[derive(Clone, Debug)]
pub(crate) enum Control<'p> {
    Jump(BlockId),
    Branch { op: BranchCompareOp, left: RegId, right: Value, unsigned: bool, yes: BlockId, no: BlockId },
    Return,
    Exit,
    Break,
    Call(FuncId),
    Loop { axis: Option<CompactString>, lb: Expr, ub: Expr, stride: i64 },
    DoWhile(RegId),
    Barrier(&'p Inst),
}

/// A register or a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Reg(RegId),
    Int(i64),
}

/// A step of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Index into [`Code::segments`].
    Segment(u32),
    Control(InstId),
}

/// A run of ordinary instructions.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// Instructions in program order.
    pub(crate) insts: Vec<InstId>,
    /// Number of producers of each inside the segment.
    pub(crate) pending: Vec<u32>,
    /// Consumers of instruction `i`: `succ[succ_at[i]..succ_at[i + 1]]`.
    pub(crate) succ: Vec<u32>,
    pub(crate) succ_at: Vec<u32>,
    /// Positions of the instructions of each in-order queue.
    pub(crate) queues: [Vec<u32>; QUEUES],
    /// Queue of each instruction; [`ALL_QUEUES`] when it sits in all of them.
    pub(crate) queue_of: Vec<u8>,
}

impl Segment {
    /// Positions of the instructions that wait for instruction `i`.
    pub(crate) fn consumers(&self, i: u32) -> &[u32] {
        &self.succ[self.succ_at[i as usize] as usize..self.succ_at[i as usize + 1] as usize]
    }
}

/// Marks an instruction of engine ALL.
pub(crate) const ALL_QUEUES: u8 = u8::MAX;

/// Prepared program of one core.
#[derive(Debug)]
pub(crate) struct Code<'p> {
    pub(crate) decoded: Vec<Decoded>,
    pub(crate) action: Vec<Action>,
    /// Run-time operands of an instruction.
    pub(crate) recipes: Vec<Vec<Recipe<'p>>>,
    pub(crate) control: FxHashMap<InstId, Control<'p>>,
    pub(crate) blocks: Vec<Vec<Step>>,
    /// Position of a block in its function or region.
    pub(crate) block_at: Vec<u32>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) entry: Option<FuncId>,
    /// Edges that are never met, because the producer comes only behind the segment of the consumer.
    pub(crate) never: FxHashMap<InstId, Vec<InstId>>,
}

/// How instructions inside a segment are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Program order, one at a time.
    Program,
    /// Engines and transfer queues, started by dependency edges.
    Dependency,
    /// Streams, queues and semaphores: no segments (`queue_style`).
    Queue,
}

/// Prepares a module for a core.
pub(crate) fn prepare<'p>(
    program: &Program,
    m: &'p Module,
    places: &[Option<Place>],
    style: Style,
    profile: &NumericProfile,
    len: &dyn Fn(BufId) -> usize,
) -> Result<Code<'p>, Vec<Diagnostic>> {
    let mut errs = Vec::new();
    let mut code = Code::empty(m);
    code.entry = entry(m);
    if style == Style::Dependency {
        for (consumer, producer) in tandem_bir::analysis::edges::never_met(m) {
            code.never.entry(consumer).or_default().push(producer);
        }
    }
    let mut labels: FxHashMap<(FuncId, &str), BlockId> = FxHashMap::default();
    let mut func_of: Vec<Option<FuncId>> = vec![None; m.blocks.len()];
    for f in m.all_functions() {
        for (k, &b) in m.funcs[f].blocks.iter().enumerate() {
            code.block_at[b.index()] = k as u32;
            labels.entry((f, m.blocks[b].name.as_str())).or_insert(b);
            func_of[b.index()] = Some(f);
        }
    }
    for (f, b, i) in m.walk() {
        let _ = (b, i);
        for (k, &r) in m.insts[i].regions().iter().enumerate() {
            code.block_at[r.index()] = k as u32;
            if func_of[r.index()].is_none() {
                labels.entry((f, m.blocks[r].name.as_str())).or_insert(r);
                func_of[r.index()] = Some(f);
            }
        }
    }
    for (b, block) in m.blocks.iter() {
        let Some(f) = func_of[b.index()] else { continue };
        let mut steps = Vec::new();
        let mut run = Vec::new();
        for &id in &block.insts {
            let inst = &m.insts[id];
            let action = match action_of(inst.opcode, profile) {
                Ok(a) => a,
                Err(why) => {
                    errs.push(Diagnostic::new(codes::S0002, why).inst(program, m, id));
                    continue;
                }
            };
            let action = refine(action, inst);
            code.action[id.index()] = action;
            if action == Action::Control {
                match control(m, f, inst, &labels) {
                    Ok(c) => {
                        code.control.insert(id, c);
                    }
                    Err(why) => errs.push(Diagnostic::new(codes::S0002, why).inst(program, m, id)),
                }
                if !run.is_empty() {
                    steps.push(Step::Segment(code.segments.len() as u32));
                    code.segments.push(segment(m, std::mem::take(&mut run), style, &code.never));
                }
                if code.never.contains_key(&id) {
                    // Nothing goes past it.
                    steps.push(Step::Segment(code.segments.len() as u32));
                    code.segments.push(segment(m, vec![id], style, &code.never));
                }
                steps.push(Step::Control(id));
                continue;
            }
            if action != Action::Nothing {
                match decode(m, places, id, len) {
                    Ok((d, r)) => {
                        code.decoded[id.index()] = d;
                        code.recipes[id.index()] = r;
                    }
                    Err((c, why)) => errs.push(Diagnostic::new(c, why).inst(program, m, id)),
                }
            }
            run.push(id);
        }
        if !run.is_empty() {
            steps.push(Step::Segment(code.segments.len() as u32));
            code.segments.push(segment(m, run, style, &code.never));
        }
        code.blocks[b.index()] = steps;
    }
    if errs.is_empty() { Ok(code) } else { Err(errs) }
}

impl Code<'_> {
    fn empty(m: &Module) -> Code<'_> {
        Code {
            decoded: m
                .insts
                .iter()
                .map(|(id, i)| Decoded {
                    inst: id,
                    opcode: i.opcode,
                    engine: effective_engine(i),
                    ins: Default::default(),
                    outs: Default::default(),
                    indirect: Default::default(),
                })
                .collect(),
            action: vec![Action::Nothing; m.insts.len()],
            recipes: m.insts.iter().map(|_| Vec::new()).collect(),
            control: FxHashMap::default(),
            blocks: vec![Vec::new(); m.blocks.len()],
            block_at: vec![0; m.blocks.len()],
            segments: Vec::new(),
            entry: None,
            never: FxHashMap::default(),
        }
    }
}

/// Prepares the streams of a core: instructions only, their order is the streams'.
pub(crate) fn prepare_streams<'p>(
    program: &Program,
    m: &'p Module,
    streams: &[Stream],
    places: &[Option<Place>],
    profile: &NumericProfile,
    len: &dyn Fn(BufId) -> usize,
) -> Result<Code<'p>, Vec<Diagnostic>> {
    let mut errs = Vec::new();
    let mut code = Code::empty(m);
    for &id in streams.iter().flat_map(|s| &s.insts) {
        let Some(inst) = m.insts.get(id) else {
            errs.push(Diagnostic::new(codes::I0001, "a stream names an instruction that does not exist"));
            continue;
        };
        let action = match action_of(inst.opcode, profile) {
            Ok(a) => refine(a, inst),
            Err(why) => {
                errs.push(Diagnostic::new(codes::S0002, why).inst(program, m, id));
                continue;
            }
        };
        let structured = action == Action::Control
            && !matches!(
                inst.opcode,
                Opcode::CompareAndBranch
                    | Opcode::UnconditionalBranch
                    | Opcode::Return
                    | Opcode::Exit
                    | Opcode::CoreBarrier
            );
        if structured {
            let why = format!("{} does not run from a stream", inst.opcode);
            errs.push(Diagnostic::new(codes::S0002, why).inst(program, m, id));
        }
        code.action[id.index()] = action;
        if matches!(action, Action::Nothing | Action::Control | Action::Token) {
            continue;
        }
        match decode(m, places, id, len) {
            Ok((d, r)) => {
                code.decoded[id.index()] = d;
                code.recipes[id.index()] = r;
            }
            Err((c, why)) => errs.push(Diagnostic::new(c, why).inst(program, m, id)),
        }
    }
    if errs.is_empty() { Ok(code) } else { Err(errs) }
}

/// Where a module starts: its first ordinary function that has blocks, else its first kernel function that has.
fn entry(m: &Module) -> Option<FuncId> {
    m.all_functions().find(|f| !m.funcs[*f].blocks.is_empty())
}

fn segment(m: &Module, insts: Vec<InstId>, style: Style, never: &FxHashMap<InstId, Vec<InstId>>) -> Segment {
    let n = insts.len();
    let mut s = Segment { pending: vec![0; n], queue_of: vec![0; n], ..Segment::default() };
    match style {
        Style::Program => {
            s.queues[0] = (0..n as u32).collect();
            s.succ_at = vec![0; n + 1];
        }
        Style::Dependency | Style::Queue => {
            let at: FxHashMap<InstId, u32> = insts.iter().enumerate().map(|(k, i)| (*i, k as u32)).collect();
            let mut edges: Vec<(u32, u32)> = Vec::new();
            for (k, id) in insts.iter().enumerate() {
                for d in &m.insts[*id].deps {
                    if let Some(&p) = at.get(&d.inst) {
                        edges.push((p, k as u32));
                    }
                }
            }
            edges.sort_unstable();
            edges.dedup();
            let mut e = edges.iter().peekable();
            for k in 0..n as u32 {
                s.succ_at.push(s.succ.len() as u32);
                while let Some((_, to)) = e.next_if(|(from, _)| *from == k) {
                    s.succ.push(*to);
                    s.pending[*to as usize] += 1;
                }
            }
            s.succ_at.push(s.succ.len() as u32);
            if !never.is_empty() {
                for (k, id) in insts.iter().enumerate() {
                    s.pending[k] += never.get(id).map_or(0, |p| p.len() as u32);
                }
            }
            for (k, id) in insts.iter().enumerate() {
                let q = queue(&m.insts[*id]);
                s.queue_of[k] = q.map_or(ALL_QUEUES, |q| q as u8);
                match q {
                    Some(q) => s.queues[q].push(k as u32),
                    None => s.queues.iter_mut().for_each(|q| q.push(k as u32)),
                }
            }
        }
    }
    s.insts = insts;
    s
}

/// What to do with a type of instruction.
///
/// # Errors
/// A text for types that the simulator refuses.
fn action_of(op: Opcode, profile: &NumericProfile) -> Result<Action, String> {
    Ok(match op {
        Opcode::Generic
        | Opcode::MatmultBase
        | Opcode::Dma
        | Opcode::Collective
        | Opcode::DmaDescriptor
        | Opcode::Terminator => return Err(format!("{op} is an abstract base, no instruction")),
        // The reference skips these without a word; skipping leaves a note.
        Opcode::InlineAsmBytes | Opcode::NkiKlirKernel if profile.silent_skip == SilentSkip::SkipWithNote => {
            Action::Compute
        }
        Opcode::CustomOp | Opcode::BirKernel | Opcode::InlineAsmBytes => {
            return Err(format!("{op} is opaque code, which cannot be simulated"));
        }
        Opcode::NkiKernel
        | Opcode::NkiKlirKernel
        | Opcode::DmaTrigger
        | Opcode::DmaDescriptorCopy
        | Opcode::DmaDescriptorCce
        | Opcode::DmaDescriptorTranspose
        | Opcode::DmaDescriptorReplicate
        | Opcode::DmaBlock
        | Opcode::ReadVarAddr
        | Opcode::CollectiveSend
        | Opcode::CollectiveRecv
        | Opcode::TongaReduceMacroSymbolic => return Err(format!("{op} is not simulated")),
        Opcode::GenericCopy
        | Opcode::GenericRelu
        | Opcode::AbstractCopy
        | Opcode::Activation
        | Opcode::ReadActivationAccumulator
        | Opcode::Matmult
        | Opcode::MatmultSparse
        | Opcode::Memset
        | Opcode::Pool
        | Opcode::Reciprocal
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::IndirectCopy
        | Opcode::TensorReduce
        | Opcode::TensorScalar
        | Opcode::TensorScalarPtr
        | Opcode::TensorScalarCache
        | Opcode::TensorTensor
        | Opcode::BnStats
        | Opcode::BnStatsAggregate
        | Opcode::BnGradients
        | Opcode::BnBackprop
        | Opcode::BnBackprop2
        | Opcode::StreamShuffle
        | Opcode::StreamTranspose
        | Opcode::Select
        | Opcode::CopyPredicated
        | Opcode::DevicePrint
        | Opcode::GetRandState
        | Opcode::SetRandState
        | Opcode::Rand
        | Opcode::Iota
        | Opcode::TensorScalarAffineSelect
        | Opcode::RangeSelect
        | Opcode::GetSequenceBounds
        | Opcode::Dropout
        | Opcode::Max
        | Opcode::MaxIndex
        | Opcode::MatchReplace
        | Opcode::MaxIndexAndMatchReplace
        | Opcode::Gather
        | Opcode::MatmultMx
        | Opcode::QuantizeMx
        | Opcode::Rand2
        | Opcode::RandSetState
        | Opcode::RandGetState
        | Opcode::Rng
        | Opcode::ActivationReadAccumulator
        | Opcode::DveReadAccumulator
        | Opcode::Exponential
        | Opcode::NonzeroWithCount => Action::Compute,
        Opcode::Load
        | Opcode::Save
        | Opcode::DmaCopy
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate => Action::Transfer,
        Opcode::LoadActFuncSet
        | Opcode::NoOp
        | Opcode::EventSemaphore
        | Opcode::GroupResetSemaphores
        | Opcode::AllEngineBarrier
        | Opcode::Drain
        | Opcode::Halt
        | Opcode::BranchHint
        | Opcode::SwitchQueueInstance
        | Opcode::ResetQueueInstance => Action::Nothing,
        Opcode::GetGlobalRankId
        | Opcode::GetCurProcessingRankId
        | Opcode::RegisterAlu
        | Opcode::RegisterMove
        | Opcode::TensorLoad
        | Opcode::TensorSave => Action::Scalar,
        Opcode::GpsimdSb2Sb => Action::Sb2Sb,
        Opcode::CollectiveCompute => Action::Collective,
        Opcode::TensorCompletion => Action::Token,
        Opcode::CompareAndBranch
        | Opcode::UnconditionalBranch
        | Opcode::Return
        | Opcode::Exit
        | Opcode::Break
        | Opcode::Call
        | Opcode::CoreBarrier
        | Opcode::Loop
        | Opcode::DynamicForLoop
        | Opcode::DoWhile => Action::Control,
    })
}

fn control<'p>(
    m: &'p Module,
    f: FuncId,
    i: &'p Inst,
    labels: &FxHashMap<(FuncId, &str), BlockId>,
) -> Result<Control<'p>, String> {
    let label = |a: Attr| -> Result<BlockId, String> {
        let name = i.get_str(a).ok_or_else(|| format!("{} without `{}`", i.opcode, a.key()))?;
        labels.get(&(f, name)).copied().ok_or_else(|| format!("block `{name}` does not exist"))
    };
    Ok(match i.opcode {
        Opcode::UnconditionalBranch => Control::Jump(label(Attr::Target)?),
        Opcode::CompareAndBranch => {
            let op: BranchCompareOp = i.get_enum(Attr::CompOp).ok_or("the branch has no comparison")?;
            if op == BranchCompareOp::Unsupported {
                return Err("the comparison of the branch is `Unsupported`".into());
            }
            let left = i.ins.first().and_then(Operand::as_reg).ok_or("the branch compares no register")?;
            let unsigned = left.dtype.class() == tandem_bir::dtype::NumericClass::Unsigned;
            let right = match i.ins.get(1) {
                Some(Operand::Reg(r)) => Value::Reg(r.reg),
                Some(Operand::Imm(v)) => Value::Int(v.as_int().ok_or("the branch compares with a float")?),
                Some(Operand::Ap(_) | Operand::Other(_)) | None => {
                    return Err("the branch lacks its second operand".into());
                }
            };
            Control::Branch {
                op,
                left: left.reg,
                right,
                unsigned,
                yes: label(Attr::OnTrue)?,
                no: label(Attr::OnFalse)?,
            }
        }
        Opcode::Return => Control::Return,
        Opcode::Exit => Control::Exit,
        Opcode::Break => Control::Break,
        Opcode::Call => {
            let name = i.get_str(Attr::Target).ok_or("the call names no function")?;
            Control::Call(m.find_function(name).ok_or_else(|| format!("function `{name}` does not exist"))?)
        }
        Opcode::CoreBarrier => Control::Barrier(i),
        Opcode::Loop => looped(m, i, Attr::LoopAxisKey)?,
        Opcode::DynamicForLoop => looped(m, i, Attr::DynamicForLoopAxis)?,
        Opcode::DoWhile => {
            let v = match i.attrs.get(Attr::Cond) {
                Some(tandem_bir::AttrValue::Json(v)) => v,
                _ => return Err("the loop has no condition".into()),
            };
            let name = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str()));
            Control::DoWhile(register(m, name.ok_or("the condition of the loop is no register")?)?)
        }
        _ => return Err(format!("{} is no control instruction", i.opcode)),
    })
}

fn register(m: &Module, name: &str) -> Result<RegId, String> {
    m.regs
        .iter()
        .find(|(_, r)| r.name == name)
        .map(|(id, _)| id)
        .ok_or_else(|| format!("register `{name}` does not exist"))
}

fn looped<'p>(m: &Module, i: &Inst, key: Attr) -> Result<Control<'p>, String> {
    let Some(tandem_bir::AttrValue::Json(v)) = i.attrs.get(key) else {
        return Err("the loop has no axis".into());
    };
    let bound = |k: &str| -> Result<Expr, String> {
        let v = v.get(k).ok_or_else(|| format!("the axis of the loop has no `{k}`"))?;
        loop_bound(m, v)
    };
    let stride = match v.get("stride") {
        None => 1,
        Some(s) => s.as_i64().ok_or("the stride of the loop is no number")?,
    };
    if stride <= 0 {
        return Err(format!("the stride {stride} of the loop is not positive"));
    }
    let axis = v.get("name").and_then(|n| n.as_str()).map(CompactString::from);
    Ok(Control::Loop { axis, lb: bound("lb")?, ub: bound("ub")?, stride })
}

/// A loop bound: a number, a register's name, or `{terms: [{idx, coeff}], c}` with at most one register.
fn loop_bound(m: &Module, v: &serde_json::Value) -> Result<Expr, String> {
    const ONE: &str = "Only scalar values supported in Dynamic For Loop upper bound expressions currently";
    if let Some(n) = v.as_i64() {
        return Ok(Expr::Const(n));
    }
    if let Some(name) = v.as_str().or_else(|| v.get("regref").and_then(|r| r.as_str())) {
        return Ok(Expr::Reg(register(m, name)?));
    }
    let terms = v.get("terms").and_then(|t| t.as_array()).ok_or(ONE)?;
    let c = v.get("c").and_then(|c| c.as_i64()).unwrap_or(0);
    let mut out = Vec::new();
    for t in terms {
        let coeff = t.get("coeff").or_else(|| t.get("coef")).and_then(|c| c.as_i64()).unwrap_or(1);
        let idx = t.get("idx").unwrap_or(t);
        let name = idx.as_str().or_else(|| idx.get("regref").and_then(|r| r.as_str())).ok_or(ONE)?;
        out.push((coeff, Expr::Reg(register(m, name)?)));
    }
    if out.len() > 1 {
        return Err(ONE.into());
    }
    Ok(Expr::Affine { terms: out, c })
}

/// A kind-0 collective swaps; all others go through the collective model.
fn refine(action: Action, i: &Inst) -> Action {
    match (action, i.get_enum::<CollectiveKind>(Attr::Kind)) {
        (Action::Collective, Some(CollectiveKind::SendRecv)) => Action::Swap,
        _ => action,
    }
}

#[cfg(test)]
mod tests {
    use super::action_of;
    use crate::exec::{Coverage, coverage};
    use crate::numeric_profile::NumericProfile;
    use tandem_bir::Opcode;

    /// `docs/coverage.md` promises nothing that a program cannot have: what the machine refuses is listed as refused.
    #[test]
    fn the_coverage_table_says_what_the_machine_does() {
        for op in Opcode::ALL {
            let listed = matches!(coverage(*op), Coverage::Refused | Coverage::Abstract);
            let refused = action_of(*op, &NumericProfile::hw()).is_err();
            // Refused where it computes.
            let late = matches!(op, Opcode::MatmultSparse);
            assert_eq!(listed, refused || late, "{op}");
        }
    }
}
