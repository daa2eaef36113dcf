//! Undefined bytes (decision D32): which bytes of memory nothing has written, and where they are used.
//!
//! Every byte of memory has a mark; a mark that was carried names the instruction that carried it last, so that a finding can show
//! the way from where the bytes were left out to where they are used ([`Carrier`]). Copies, transfers, swaps, transposes, gathers and selects carry marks along; any other
//! instruction that reads a marked byte is a finding (S0021) at that instruction, and its outputs count as defined, so that one
//! cause gives one finding. Index operands and predicates are uses, so are scalar loads into registers, and so is a destination
//! that is accumulated onto (explicit PSUM accumulation, folding transfers). An output of the kernel with
//! marked bytes is a finding. `can_read_uninit` on an instruction lifts its own.
//!
//! How marks travel through a mover without a second implementation of every mover: the instruction is run with the marked
//! bytes of its operands set to one pattern, then to another, then as they were. Result bytes that differ between the first two
//! runs depend on marked bytes. (A byte that ignores its marked source, such as one that a select discards, stays defined.)
//! This happens only where marks are met, which clean programs rarely do.
//!
//! Definedness only grows until a mark is carried onto a defined byte, so an instruction with fixed operands that was
//! found clean is not looked at again before that happens ([`Undef::generation`]); nor is a view that was defined as a whole,
//! by whatever instruction.
//!
//! **May miss**: uses on paths not taken; marks that meet in a conversion that saturates both patterns to one value. **Never reports falsely** in the sense of the definition above.

use crate::exec::{Arg, Decoded};
use crate::memory::{BufId, Dims, Memory, View};
use rustc_hash::FxHashMap;
use tandem_bir::{AluOp, Attr, CopyMode, Inst, InstId, Opcode};

/// Mark of a byte that nothing wrote.
const NEVER_WRITTEN: u8 = 1;
/// Mark of the first carrier.
const FIRST_CARRIER: u8 = 2;

/// An instruction that carried undefined bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carrier {
    /// Simulated core.
    pub(crate) core: usize,
    /// The mover.
    pub(crate) inst: InstId,
    /// One of the bytes it read, and that byte's mark.
    pub(crate) from: Byte,
    mark: u8,
}

/// A byte of memory.
pub(crate) type Byte = (BufId, usize);

/// Marks of all buffers: 0 = defined, 1 = nothing wrote this byte, larger = a carrier put it there.
#[derive(Debug)]
pub(crate) struct Undef {
    marks: Memory,
    /// What the marks from [`FIRST_CARRIER`] on mean. When there are no more marks, a carrier hands on the mark it read.
    carriers: Vec<Carrier>,
    /// Grows when a defined byte becomes undefined.
    pub(crate) generation: u32,
    /// Per core and instruction: the generation in which its operands were found clean, plus one.
    clean: Vec<Vec<u32>>,
    /// Views without a mark, and the generation in which they had none.
    views: FxHashMap<Key, u32>,
}

/// The bytes of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    buf: BufId,
    base: usize,
    size: u8,
    dims: Dims,
}

impl Key {
    fn of(v: &View) -> Key {
        Key { buf: v.buf, base: v.base, size: v.elem_size() as u8, dims: v.dims.clone() }
    }
}

/// Views that are remembered at once (our choice).
const MOST_VIEWS: usize = 1 << 14;

/// How an instruction treats marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Carries its data inputs.
    Moves,
    /// Uses its inputs.
    Uses,
    /// Reads nothing that counts.
    Ignores,
}

/// Treatment of an instruction.
pub(crate) fn treatment(i: &Inst) -> Treatment {
    match i.opcode {
        Opcode::DmaCopy => {
            let mode: CopyMode = i.get_enum(Attr::Mode).unwrap_or(CopyMode::Copy);
            let op: AluOp = i.get_enum(Attr::CceOp).unwrap_or(AluOp::Bypass);
            match mode {
                CopyMode::Cce => Treatment::Uses,
                CopyMode::Copy | CopyMode::Transpose | CopyMode::Replicate | CopyMode::Dynamic => {
                    if op == AluOp::Bypass { Treatment::Moves } else { Treatment::Uses }
                }
            }
        }
        Opcode::Matmult if i.get_bool(Attr::IsTranspose) => Treatment::Moves,
        Opcode::GenericCopy
        | Opcode::AbstractCopy
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::Load
        | Opcode::Save
        | Opcode::StreamShuffle
        | Opcode::StreamTranspose
        | Opcode::IndirectCopy
        | Opcode::Gather
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::IndirectSave
        | Opcode::Select
        | Opcode::CopyPredicated
        | Opcode::TensorScalarAffineSelect
        | Opcode::RangeSelect => Treatment::Moves,
        Opcode::DevicePrint | Opcode::Memset | Opcode::Iota => Treatment::Ignores,
        _ => Treatment::Uses,
    }
}

/// Which inputs of a mover are uses although its data is carried: indices, offsets, predicates, bounds.
pub(crate) fn controls(i: &Inst) -> std::ops::Range<usize> {
    match i.opcode {
        Opcode::Gather | Opcode::IndirectCopy => 1..2,
        Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst | Opcode::RangeSelect => 1..i.ins.len(),
        // With two inputs the predicate comes second, with three it comes first.
        Opcode::CopyPredicated if i.ins.len() == 2 => 1..2,
        Opcode::CopyPredicated | Opcode::Select => 0..1,
        _ => 0..0,
    }
}

/// The instruction folds into what its outputs hold.
pub(crate) fn folds_into_outputs(i: &Inst) -> bool {
    match i.opcode {
        Opcode::Matmult | Opcode::MatmultSparse | Opcode::MatmultMx => {
            crate::exec::accumulates_explicitly(i) && !i.get_bool(Attr::IsTranspose)
        }
        Opcode::DmaCopy => {
            let mode: CopyMode = i.get_enum(Attr::Mode).unwrap_or(CopyMode::Copy);
            mode != CopyMode::Cce && i.get_enum::<AluOp>(Attr::CceOp).is_some_and(|op| op != AluOp::Bypass)
        }
        Opcode::IndirectSaveAccumulate => true,
        _ => false,
    }
}

/// Where the bytes of a carried value go depends on other values.
pub(crate) fn selects_by_value(i: &Inst) -> bool {
    matches!(
        i.opcode,
        Opcode::Gather
            | Opcode::IndirectCopy
            | Opcode::TensorCopyDynamicSrc
            | Opcode::TensorCopyDynamicDst
            | Opcode::RangeSelect
            | Opcode::CopyPredicated
            | Opcode::Select
    )
}

/// The instruction may leave bytes of its outputs as they were.
pub(crate) fn partial(d: &Decoded) -> bool {
    d.outs.iter().any(|a| matches!(a, Arg::Indexed(_)))
        || matches!(
            d.opcode,
            Opcode::StreamShuffle | Opcode::CopyPredicated | Opcode::IndirectCopy | Opcode::NonzeroWithCount
        )
}

/// The inputs that an instruction really reads: a search for nonzero elements looks at every 16th partition only.
pub(crate) fn looked_at(d: &Decoded) -> std::borrow::Cow<'_, [Arg]> {
    if d.opcode != Opcode::NonzeroWithCount {
        return (&d.ins[..]).into();
    }
    let mut ins = d.ins.to_vec();
    if let Some(Arg::View(v)) = ins.first_mut()
        && let Some(p) = v.dims.first_mut()
    {
        p.stride = p.stride.saturating_mul(16);
        p.num = p.num.div_ceil(16);
    }
    ins.into()
}

impl Undef {
    /// Everything undefined.
    pub(crate) fn new(mem: &Memory, insts: &[usize]) -> Undef {
        let mut marks = Memory::new();
        for b in 0..mem.len() {
            marks.add_unfilled(mem.bytes(BufId(b as u32)).len(), NEVER_WRITTEN);
        }
        Undef {
            marks,
            carriers: Vec::new(),
            generation: 0,
            clean: insts.iter().map(|n| vec![0; *n]).collect(),
            views: FxHashMap::default(),
        }
    }
    /// Other instructions run next, on the same memory.
    pub(crate) fn next_program(&mut self, insts: &[usize]) {
        self.marks.fill_all();
        self.clean = insts.iter().map(|n| vec![0; *n]).collect();
        // The carriers of another program: their bytes count as never written.
        if !std::mem::take(&mut self.carriers).is_empty() {
            for b in 0..self.marks.len() {
                self.marks.bytes_mut(BufId(b as u32)).iter_mut().for_each(|m| *m = (*m).min(NEVER_WRITTEN));
            }
        }
    }
    /// The instruction's operands were clean and nothing has become undefined since.
    pub(crate) fn known_clean(&self, core: usize, inst: usize) -> bool {
        self.clean[core][inst] == self.generation + 1
    }
    pub(crate) fn set_clean(&mut self, core: usize, inst: usize) {
        self.clean[core][inst] = self.generation + 1;
    }
    /// First marked byte of a view.
    pub(crate) fn first(&self, v: &View) -> Option<usize> {
        if self.views.get(&Key::of(v)) == Some(&self.generation) {
            return None;
        }
        let m = self.marks.bytes(v.buf);
        let mut hit = None;
        v.for_each_run(|at, len| {
            if hit.is_none() && m[at..at + len].iter().fold(0, |a, b| a | b) != 0 {
                hit = m[at..at + len].iter().position(|b| *b != 0).map(|k| at + k);
            }
        });
        hit
    }
    /// First marked byte of any operand.
    pub(crate) fn first_of(&self, mem: &Memory, d: &Decoded, args: &[Arg]) -> Option<Byte> {
        let of = |v: &View| self.first(v).map(|at| (v.buf, at));
        args.iter().find_map(|a| match a {
            Arg::View(v) => of(v),
            Arg::Indexed(x) => crate::effects::rows(mem, d, x).iter().find_map(of),
            Arg::Imm(_) | Arg::Reg(_) => None,
        })
    }
    /// The mark for what an instruction carries on from a byte.
    pub(crate) fn carrier(&mut self, core: usize, inst: InstId, from: Byte) -> u8 {
        if let Some(k) = self.carriers.iter().position(|c| (c.core, c.inst) == (core, inst)) {
            return k as u8 + FIRST_CARRIER;
        }
        let mark = self.mark(from).max(NEVER_WRITTEN);
        if self.carriers.len() >= usize::from(u8::MAX - FIRST_CARRIER) {
            return mark;
        }
        self.carriers.push(Carrier { core, inst, from, mark });
        self.carriers.len() as u8 - 1 + FIRST_CARRIER
    }
    fn mark(&self, (buf, at): Byte) -> u8 {
        self.marks.bytes(buf).get(at).copied().unwrap_or(0)
    }
    /// The instructions that carried a byte, the last one first.
    pub(crate) fn way(&self, byte: Byte) -> Vec<Carrier> {
        let mut out: Vec<Carrier> = Vec::new();
        let mut mark = self.mark(byte);
        while let Some(c) = mark.checked_sub(FIRST_CARRIER).and_then(|k| self.carriers.get(usize::from(k))) {
            // The table keeps one way into an instruction: in loops it may lead back.
            if out.iter().any(|x| (x.core, x.inst) == (c.core, c.inst)) {
                break;
            }
            out.push(*c);
            mark = c.mark;
        }
        out
    }
    /// All bytes of a view have their first values, before anything runs.
    pub(crate) fn give(&mut self, v: &View) {
        if v.is_all_of(self.marks.bytes(v.buf).len()) && self.marks.leave_zero(v.buf) {
            return;
        }
        self.marks.fill(v.buf);
        self.define(v);
    }
    /// All bytes of a view are defined now.
    pub(crate) fn define(&mut self, v: &View) {
        let key = Key::of(v);
        if self.views.get(&key) == Some(&self.generation) {
            return;
        }
        if self.views.len() >= MOST_VIEWS {
            self.views.clear();
        }
        self.views.insert(key, self.generation);
        let m = self.marks.bytes_mut(v.buf);
        v.for_each_run(|at, len| m[at..at + len].fill(0));
    }
    /// Marks of a view, packed in walk order; `None` when it has none.
    pub(crate) fn gather(&self, v: &View) -> Option<Vec<u8>> {
        self.first(v)?;
        let mut out = Vec::new();
        self.marks.gather(v, &mut out);
        Some(out)
    }
    /// Sets the marks of a view from packed ones.
    pub(crate) fn scatter(&mut self, v: &View, marks: &[u8]) {
        let m = self.marks.bytes_mut(v.buf);
        let (mut from, mut lost) = (0, false);
        v.for_each_run(|at, len| {
            for (to, new) in m[at..at + len].iter_mut().zip(&marks[from..]) {
                lost |= *to == 0 && *new != 0;
                *to = *new;
            }
            from += len;
        });
        if lost {
            self.generation += 1;
        }
    }
    /// Sets the marked bytes of views to a pattern.
    pub(crate) fn paint(&self, mem: &mut Memory, views: &[View], pattern: u8) {
        for v in views {
            let m = self.marks.bytes(v.buf);
            let b = mem.bytes_mut(v.buf);
            v.for_each_run(|at, len| {
                for k in at..at + len {
                    if m[k] != 0 {
                        b[k] = pattern;
                    }
                }
            });
        }
    }
}
