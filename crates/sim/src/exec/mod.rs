//! What each instruction computes.
//!
//! [`exec`] runs one instruction to its end: it reads all inputs, computes, converts once, writes the outputs. Operands
//! come resolved ([`Arg`]); attributes are read from the [`Inst`].
//!
//! One file per family; the match in [`exec`] names every type. What has no model is refused by name with a code of class
//! "unsupported".
//!
//! Not here: register and rank instructions, branches, loops and calls, barriers, completion tokens, swaps, collectives
//! (the machine runs those itself), and scheduling.

mod accumulate;
pub(crate) mod activation;
mod batchnorm;
mod blend;
pub mod dma;
mod elementwise;
mod extreme;
mod fill;
mod fold;
mod gather;
pub(crate) mod matmul;
pub(crate) use matmul::accumulates_explicitly;
mod movement;
mod reduce;
mod rng;
mod scalar;
mod search;
mod select;
mod span;
pub mod state;
mod stream;
pub(crate) mod sure;
pub(crate) mod tile;

pub use state::EngineState;

use crate::memory::{Memory, View};
use crate::num::convert::Rules;
use crate::numeric_profile::{NumericProfile, RegisterInit, SilentSkip};
use crate::state::{CoreState, Fault, Note};
use smallvec::SmallVec;
use std::ops::Range;
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::codes;
use tandem_bir::{EngineKind, Immediate, Inst, InstId, Opcode};

/// A resolved operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Memory; inside its buffer.
    View(View),
    /// Immediate value.
    Imm(Immediate),
    /// Register, by index into [`CoreState::regs`].
    Reg(u32),
    /// Memory addressed by one index per partition or row (a gather or scatter).
    Indexed(Box<Indexed>),
}

/// An operand whose address holds an index per position: element `i` of the index operand moves row `i`.
///
/// Position `i` (in walk order of the index view) stands for position `i` of dimension 0 of the *other* side of the
/// transfer; its bytes start at `view.base + coeff_bytes · index[i]` and follow `view.dims[1..]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    /// The pattern at index 0. Dimension 0 has as many positions as the program's pattern and stride 0: the index alone
    /// says where a row is.
    pub view: View,
    /// Which of [`Decoded::indirect`] holds the indexes.
    pub index: usize,
    /// Bytes per unit of the index.
    pub coeff_bytes: isize,
    /// Largest legal index, when known.
    pub max_index: Option<i64>,
    /// Tensor dimension the index runs along, as the program counts.
    pub dim: i64,
    /// Bytes of the buffer that belong to the location; an access outside is out of bounds.
    pub limits: Range<usize>,
}

/// An instruction with its operands resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The instruction.
    pub inst: InstId,
    /// Its type.
    pub opcode: Opcode,
    /// Its engine; the default of the type when the program names none.
    pub engine: EngineKind,
    /// Inputs in order.
    pub ins: SmallVec<[Arg; 2]>,
    /// Outputs in order.
    pub outs: SmallVec<[Arg; 1]>,
    /// Index operands.
    pub indirect: Vec<Arg>,
}

impl Decoded {
    /// Input `i` as plain memory.
    pub fn in_view(&self, i: usize) -> Option<&View> {
        match self.ins.get(i) {
            Some(Arg::View(v)) => Some(v),
            Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) | None => None,
        }
    }
    /// Output `i` as plain memory.
    pub fn out_view(&self, i: usize) -> Option<&View> {
        match self.outs.get(i) {
            Some(Arg::View(v)) => Some(v),
            Some(Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_)) | None => None,
        }
    }
}

/// What an instruction may touch.
pub struct ExecCx<'a> {
    /// Memory of all cores.
    pub mem: &'a mut Memory,
    /// The core that runs it.
    pub core: &'a mut CoreState,
    /// Which reading of the undocumented numeric rules.
    pub profile: &'a NumericProfile,
    /// Geometry.
    pub arch: &'a ArchSpec,
    /// Remarks.
    pub notes: &'a mut Vec<Note>,
}

impl ExecCx<'_> {
    /// The ordinary conversion rules of the profile.
    pub(crate) fn rules(&self) -> Rules {
        Rules::of(self.profile)
    }
    /// Value of a register.
    pub(crate) fn register(&self, r: u32) -> Result<i64, Fault> {
        match self.core.regs.get(r as usize) {
            Some(v) if v.defined => Ok(v.bits),
            Some(_) if self.profile.register_init == RegisterInit::AllOnes => Ok(-1),
            Some(_) | None => Err(Fault::new(
                codes::S0004,
                format!("register {r} is read before anything was written to it"),
            )),
        }
    }
}

/// What the simulator does with a type of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Computed by [`exec`].
    Computed,
    /// Run by the machine: control, registers, synchronisation, collectives.
    Machine,
    /// Changes no value.
    NoEffect,
    /// Refused by name.
    Refused,
    /// An abstract base that no program contains; refused when a file has one.
    Abstract,
}

/// What the simulator does with a type of instruction.
pub const fn coverage(op: Opcode) -> Coverage {
    match op {
        Opcode::Generic
        | Opcode::MatmultBase
        | Opcode::Dma
        | Opcode::Collective
        | Opcode::DmaDescriptor
        | Opcode::Terminator => Coverage::Abstract,
        Opcode::MatmultSparse
        | Opcode::ReadVarAddr
        | Opcode::CustomOp
        | Opcode::BirKernel
        | Opcode::InlineAsmBytes
        | Opcode::TongaReduceMacroSymbolic
        | Opcode::NkiKernel
        | Opcode::NkiKlirKernel
        | Opcode::DmaTrigger
        | Opcode::DmaBlock
        | Opcode::DmaDescriptorCopy
        | Opcode::DmaDescriptorCce
        | Opcode::DmaDescriptorTranspose
        | Opcode::DmaDescriptorReplicate
        | Opcode::CollectiveSend
        | Opcode::CollectiveRecv => Coverage::Refused,
        Opcode::LoadActFuncSet | Opcode::NoOp | Opcode::BranchHint => Coverage::NoEffect,
        Opcode::GetGlobalRankId
        | Opcode::EventSemaphore
        | Opcode::GroupResetSemaphores
        | Opcode::AllEngineBarrier
        | Opcode::Drain
        | Opcode::Halt
        | Opcode::GpsimdSb2Sb
        | Opcode::CollectiveCompute
        | Opcode::GetCurProcessingRankId
        | Opcode::RegisterAlu
        | Opcode::RegisterMove
        | Opcode::TensorLoad
        | Opcode::TensorSave
        | Opcode::CompareAndBranch
        | Opcode::UnconditionalBranch
        | Opcode::Return
        | Opcode::Exit
        | Opcode::Break
        | Opcode::Call
        | Opcode::SwitchQueueInstance
        | Opcode::ResetQueueInstance
        | Opcode::CoreBarrier
        | Opcode::TensorCompletion
        | Opcode::Loop
        | Opcode::DynamicForLoop
        | Opcode::DoWhile => Coverage::Machine,
        Opcode::GenericCopy
        | Opcode::GenericRelu
        | Opcode::AbstractCopy
        | Opcode::Activation
        | Opcode::ReadActivationAccumulator
        | Opcode::Matmult
        | Opcode::Memset
        | Opcode::Load
        | Opcode::Pool
        | Opcode::Reciprocal
        | Opcode::Save
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst
        | Opcode::IndirectCopy
        | Opcode::TensorReduce
        | Opcode::TensorScalar
        | Opcode::TensorScalarPtr
        | Opcode::TensorScalarCache
        | Opcode::TensorTensor
        | Opcode::DmaCopy
        | Opcode::BnStats
        | Opcode::BnStatsAggregate
        | Opcode::BnGradients
        | Opcode::BnBackprop
        | Opcode::BnBackprop2
        | Opcode::StreamShuffle
        | Opcode::StreamTranspose
        | Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate
        | Opcode::Select
        | Opcode::CopyPredicated
        | Opcode::DevicePrint
        | Opcode::GetRandState
        | Opcode::SetRandState
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
        | Opcode::Rand
        | Opcode::Rand2
        | Opcode::RandSetState
        | Opcode::RandGetState
        | Opcode::Rng
        | Opcode::ActivationReadAccumulator
        | Opcode::DveReadAccumulator
        | Opcode::Exponential
        | Opcode::NonzeroWithCount => Coverage::Computed,
    }
}

/// The page `docs/coverage.md`.
pub fn coverage_page() -> String {
    use std::fmt::Write as _;
    let mut out = String::from(
        "# Instructions and what the simulator does with them\n\n\
         Generated by `cargo run -p tandem-sim --example coverage`; do not edit.\n\n\
         *computed*: changes memory or engine state. *machine*: control, registers, synchronisation and collectives, run by\n\
         the scheduler. *no effect*: changes no value. *refused*: stops the run with a code of class \"unsupported\" (exit 3)\n\
         that names the type. *abstract*: a base class that no program contains; refused too. A computed type may still\n\
         refuse an operation or mode, by the same rule.\n\n\
         | IT | Name | Simulator | Why refused |\n|---|---|---|---|\n",
    );
    for op in Opcode::ALL {
        let what = match coverage(*op) {
            Coverage::Computed => "computed",
            Coverage::Machine => "machine",
            Coverage::NoEffect => "no effect",
            Coverage::Refused => "refused",
            Coverage::Abstract => "abstract",
        };
        let _ = writeln!(out, "| {} | {op} | {what} | {} |", *op as u16, why_refused(*op));
    }
    out
}

/// Why an instruction type is refused, for people; empty for one that is not.
const fn why_refused(op: Opcode) -> &'static str {
    match op {
        Opcode::MatmultSparse => "the form of the compressed weights is not published",
        Opcode::ReadVarAddr => {
            "no source gives its operands, and addresses of tensors are not part of a program's meaning"
        }
        Opcode::CollectiveSend | Opcode::CollectiveRecv => "halves of a transfer between devices",
        Opcode::CustomOp | Opcode::BirKernel => "an opaque kernel: an external program",
        Opcode::NkiKernel | Opcode::NkiKlirKernel => {
            "a kernel kept in another file or function, to be inlined before"
        }
        Opcode::InlineAsmBytes => "opaque bytes",
        Opcode::DmaTrigger
        | Opcode::DmaBlock
        | Opcode::DmaDescriptorCopy
        | Opcode::DmaDescriptorCce
        | Opcode::DmaDescriptorTranspose
        | Opcode::DmaDescriptorReplicate => {
            "lowered form of explicit DMA blocks; the keys of their queues are not published"
        }
        Opcode::TongaReduceMacroSymbolic => "a macro of another compiler, without published meaning",
        _ => "",
    }
}

/// The reference skips these without a word (the specification, file 09 §7, class B).
const fn reference_skips(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::GenericRelu
            | Opcode::NkiKlirKernel
            | Opcode::InlineAsmBytes
            | Opcode::Rng
            | Opcode::NonzeroWithCount
    )
}

/// Largest operand of one instruction, in elements, that is larger than the buffer it lies in (our choice). Operands are
/// copied before anything is written, and a pattern that walks the same bytes again and again costs a file nothing.
pub const MAX_ELEMS: usize = 1 << 28;

/// `Some(why)` when an operand of `elems` elements of `size` bytes is more than [`MAX_ELEMS`] and more than the `len`
/// bytes of its buffer: memory that the program has is bounded already, what a pattern claims is not.
pub(crate) fn claims_too_much(elems: usize, size: usize, len: usize) -> Option<String> {
    let too_many = elems > MAX_ELEMS && elems.saturating_mul(size) > len;
    too_many
        .then(|| format!("an operand of {elems} elements (more than {MAX_ELEMS}) in a buffer of {len} bytes"))
}

/// [`claims_too_much`] of a view.
fn view_claims_too_much(mem: &Memory, v: &View) -> Option<String> {
    let elems = v.dims.iter().fold(1usize, |n, x| n.saturating_mul(x.num));
    claims_too_much(elems, v.elem_size(), mem.bytes(v.buf).len())
}

/// Runs one instruction.
///
/// # Errors
/// A [`Fault`] when the instruction cannot be carried out; memory may be partly written then.
pub fn exec(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    if cx.profile.silent_skip == SilentSkip::SkipWithNote && reference_skips(d.opcode) {
        cx.notes.push(Note {
            code: codes::S0211,
            message: format!("{} is skipped, as the reference skips it", d.opcode),
        });
        return Ok(());
    }
    for v in views(&d.ins).chain(views(&d.outs)).chain(views(&d.indirect)) {
        if let Some(why) = view_claims_too_much(cx.mem, v) {
            return Err(tile::unsupported(d, why));
        }
    }
    warn_overlap(cx, d);
    run(cx, d, inst)?;
    close_groups(cx, d);
    Ok(())
}

fn run(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    match d.opcode {
        Opcode::GenericCopy
        | Opcode::AbstractCopy
        | Opcode::TensorCopy
        | Opcode::TensorCopyDynamicSrc
        | Opcode::TensorCopyDynamicDst => elementwise::tensor_copy(cx, d),
        Opcode::GenericRelu => elementwise::relu(cx, d),
        Opcode::Reciprocal => elementwise::reciprocal(cx, d),
        Opcode::TensorTensor => elementwise::tensor_tensor(cx, d, inst),
        Opcode::TensorScalar => scalar::tensor_scalar(cx, d, inst),
        Opcode::TensorScalarPtr => scalar::tensor_scalar_ptr(cx, d, inst),
        Opcode::TensorScalarCache => scalar::cumulative(cx, d, inst),
        Opcode::Activation => activation::activation(cx, d, inst),
        Opcode::Exponential => activation::exponential(cx, d, inst),
        Opcode::ReadActivationAccumulator
        | Opcode::ActivationReadAccumulator
        | Opcode::DveReadAccumulator => activation::read_accumulator(cx, d, inst),
        Opcode::LoadActFuncSet => activation::load_func_set(d, inst),
        Opcode::NoOp | Opcode::BranchHint => Ok(()),
        Opcode::TensorReduce => reduce::tensor_reduce(cx, d, inst),
        Opcode::Pool => reduce::pool(cx, d, inst),
        Opcode::Matmult => matmul::matmult(cx, d, inst),
        Opcode::MatmultMx => matmul::matmult_mx(cx, d, inst),
        Opcode::QuantizeMx => matmul::quantize_mx(cx, d),
        Opcode::Memset => fill::memset(cx, d, inst),
        Opcode::Iota => fill::iota(cx, d, inst),
        Opcode::Dropout => fill::dropout(cx, d, inst),
        Opcode::Load | Opcode::Save | Opcode::DmaDescriptorCopy => dma::plain(cx, d, inst),
        Opcode::DmaCopy => dma::dma_copy(cx, d, inst),
        Opcode::DmaDescriptorCce => dma::descriptor_cce(cx, d, inst),
        Opcode::DmaDescriptorTranspose => dma::descriptor_transpose(cx, d, inst),
        Opcode::DmaDescriptorReplicate => dma::replicate(cx, d),
        Opcode::GenericIndirectLoad
        | Opcode::IndirectLoad
        | Opcode::GenericIndirectSave
        | Opcode::IndirectSave
        | Opcode::IndirectSaveAccumulate => dma::indirect(cx, d, inst),
        Opcode::IndirectCopy => gather::local_gather(cx, d, inst),
        Opcode::Gather => gather::gather(cx, d),
        Opcode::GetSequenceBounds => gather::sequence_bounds(cx, d),
        Opcode::DevicePrint => gather::device_print(cx, d, inst),
        Opcode::BnStats => batchnorm::stats(cx, d, inst),
        Opcode::BnStatsAggregate => batchnorm::aggregate(cx, d),
        Opcode::BnGradients => batchnorm::gradients(cx, d),
        Opcode::BnBackprop => batchnorm::backprop(cx, d, inst, false),
        Opcode::BnBackprop2 => batchnorm::backprop(cx, d, inst, true),
        Opcode::StreamShuffle => movement::shuffle(cx, d, inst),
        Opcode::StreamTranspose => movement::transpose(cx, d),
        Opcode::TensorScalarAffineSelect => select::affine_select(cx, d, inst),
        Opcode::RangeSelect => select::range_select(cx, d, inst),
        Opcode::CopyPredicated => select::copy_predicated(cx, d, inst),
        Opcode::Select => select::select(cx, d),
        Opcode::Max => search::max8(cx, d),
        Opcode::MaxIndex => search::find_index8(cx, d),
        Opcode::MatchReplace => search::match_replace(cx, d, inst, false),
        Opcode::MaxIndexAndMatchReplace => search::match_replace(cx, d, inst, true),
        Opcode::NonzeroWithCount => search::nonzero_with_count(cx, d),
        Opcode::Rand => rng::rand(cx, d, inst),
        Opcode::Rand2 => rng::rand2(cx, d),
        Opcode::Rng => rng::rng_bits(cx, d),
        Opcode::RandSetState => rng::set_state(cx, d),
        Opcode::RandGetState | Opcode::GetRandState => rng::get_state(cx, d),
        Opcode::SetRandState => rng::seed(cx, d),
        Opcode::CustomOp | Opcode::BirKernel => {
            Err(Fault::new(codes::S0201, format!("unsupported: opaque kernel ({})", d.opcode)))
        }
        Opcode::MatmultSparse
        | Opcode::ReadVarAddr
        | Opcode::InlineAsmBytes
        | Opcode::TongaReduceMacroSymbolic
        | Opcode::Generic
        | Opcode::MatmultBase
        | Opcode::Dma
        | Opcode::Collective
        | Opcode::DmaDescriptor
        | Opcode::Terminator => Err(tile::unsupported(d, "this type of instruction")),
        Opcode::GetGlobalRankId
        | Opcode::EventSemaphore
        | Opcode::GroupResetSemaphores
        | Opcode::AllEngineBarrier
        | Opcode::Drain
        | Opcode::Halt
        | Opcode::GpsimdSb2Sb
        | Opcode::CollectiveCompute
        | Opcode::CollectiveSend
        | Opcode::CollectiveRecv
        | Opcode::NkiKernel
        | Opcode::NkiKlirKernel
        | Opcode::GetCurProcessingRankId
        | Opcode::DmaTrigger
        | Opcode::RegisterAlu
        | Opcode::RegisterMove
        | Opcode::TensorLoad
        | Opcode::TensorSave
        | Opcode::CompareAndBranch
        | Opcode::UnconditionalBranch
        | Opcode::Return
        | Opcode::Exit
        | Opcode::Break
        | Opcode::Call
        | Opcode::SwitchQueueInstance
        | Opcode::ResetQueueInstance
        | Opcode::CoreBarrier
        | Opcode::TensorCompletion
        | Opcode::Loop
        | Opcode::DynamicForLoop
        | Opcode::DmaBlock
        | Opcode::DoWhile => Err(Fault::new(
            codes::S0212,
            format!("{} is an instruction of the machine and reached the arithmetic", d.opcode),
        )),
    }
}

fn views(args: &[Arg]) -> impl Iterator<Item = &View> {
    args.iter().filter_map(|a| match a {
        Arg::View(v) => Some(v),
        Arg::Indexed(x) => Some(&x.view),
        Arg::Imm(_) | Arg::Reg(_) => None,
    })
}

/// The hardware streams: a destination that overlaps a source without being the same pattern is a hazard there.
fn warn_overlap(cx: &mut ExecCx<'_>, d: &Decoded) {
    for o in views(&d.outs) {
        for i in views(&d.ins) {
            let same =
                o.buf == i.buf && o.base == i.base && o.dims == i.dims && o.elem_size() == i.elem_size();
            if o.buf != i.buf || same || d.opcode == Opcode::Matmult {
                continue;
            }
            if touches(o, i) {
                cx.notes.push(Note {
                    code: codes::S0213,
                    message: format!("{}: overlapping in-place operands", d.opcode),
                });
                return;
            }
        }
    }
}

/// The byte sets of two views of one buffer may meet: exact for views whose partitions keep to their own pitch.
pub(crate) fn touches(a: &View, b: &View) -> bool {
    let (Some((al, ah)), Some((bl, bh))) = (a.byte_range(), b.byte_range()) else { return false };
    if al >= bh || bl >= ah {
        return false;
    }
    // Same partition distance: compare the spans inside one partition.
    let (Some(a0), Some(b0)) = (a.dims.first(), b.dims.first()) else { return true };
    if a.dims.len() > 1 && b.dims.len() > 1 && a0.stride == b0.stride && a0.stride > 0 {
        let pitch = a0.stride as i128;
        let span = |v: &View| {
            let mut one = v.clone();
            one.dims[0].num = 1;
            one.byte_range().map(|(l, h)| (l.rem_euclid(pitch), h - l))
        };
        if let (Some((x, xn)), Some((y, yn))) = (span(a), span(b))
            && x + xn <= pitch
            && y + yn <= pitch
        {
            return x < y + yn && y < x + xn;
        }
    }
    true
}

/// A read closes the PSUM bytes it touched, a write by anything but a matmul too (the automatic accumulation rule).
fn close_groups(cx: &mut ExecCx<'_>, d: &Decoded) {
    for v in views(&d.ins).chain(views(&d.indirect)) {
        if cx.mem.info(v.buf).psum {
            if cx.core.engines.psum.is_unfinished(v) {
                cx.notes.push(Note {
                    code: codes::S0214,
                    message: format!("{} reads PSUM of an accumulation group that is not finished", d.opcode),
                });
            }
            cx.core.engines.psum.note_read(v);
        }
    }
    if matches!(d.opcode, Opcode::Matmult | Opcode::MatmultMx) {
        return;
    }
    for v in views(&d.outs) {
        if cx.mem.info(v.buf).psum {
            cx.core.engines.psum.note_foreign(v, cx.mem.bytes(v.buf).len());
        }
    }
}
