//! What moving data costs when nothing else runs: predicted without running anything, so no inputs and no memory are needed.

use super::cost::{Cost, LANES, Model};
use super::params::{BackEnd, Certainty, Generation, P, Params, Span, ps};
use crate::code::Action;
use crate::decode::decode;
use crate::memory::{BufInfo, Memory};
use crate::place::{Names, Place, on_chip_start, owner};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{InstId, Level, MemLocId, MemoryType, Module, Opcode, Program};

/// A GPSIMD swap or a transfer, alone on an idle machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Index of the module.
    pub module: usize,
    /// The instruction.
    pub inst: InstId,
    /// From the moment both sides have issued it until its last byte is there.
    pub time: Span,
    /// Until what waits for it may start.
    pub wake: Span,
}

/// Times of the GPSIMD swaps and transfers of a program of level `lowered`, in program order. The cap of HBM is not applied.
/// Instructions with operands that only a run can tell are left out.
///
/// # Errors
/// A program of another level, or of a generation without numbers (S0002).
pub fn alone(program: &Program, params: &Params) -> Result<Vec<Alone>, Diagnostic> {
    let refuse = |text: String| Diagnostic::new(codes::S0002, text);
    if program.level != Level::Lowered {
        return Err(refuse("time is predicted at level lowered only".into()));
    }
    let (Some(g), Some(arch)) = (Generation::of(program.arch()), program.arch().spec()) else {
        return Err(refuse(format!("there is no timing model of {}", program.arch())));
    };
    let model = Model { params, g };
    let modules: Vec<&Module> = program.modules.iter().collect();
    let names: Vec<Names<'_>> = modules.iter().map(|m| Names::new(m)).collect();
    // Buffers without bytes: costs depend on shapes and addresses alone.
    let mut mem = Memory::new();
    let (sbuf, psum, dram) = (mem.add(0, 0), mem.add(0, 0), mem.add(0, 0));
    mem.describe(sbuf, BufInfo { pitch: Some(arch.sbuf_bytes as usize), psum: false });
    mem.describe(psum, BufInfo { pitch: Some(arch.psum_bytes as usize), psum: true });
    let place = |m: usize, l: MemLocId| -> Option<Place> {
        let (om, ol) = owner(&modules, &names, m, l).ok()?;
        let loc = &modules[om].memlocs[ol];
        let (buf, pitch) = match loc.mem {
            MemoryType::Sb => (sbuf, arch.sbuf_bytes),
            MemoryType::Psum => (psum, arch.psum_bytes),
            _ => return Some(Place { buf: dram, base: 0, pitch: None }),
        };
        let (row, start) =
            if loc.allocated { (u64::from(loc.base), on_chip_start(loc, arch)) } else { (0, 0) };
        let base = row.checked_mul(pitch)?.checked_add(start)?;
        Some(Place { buf, base: usize::try_from(base).ok()?, pitch: Some(pitch as usize) })
    };
    let mut out = Vec::new();
    for (k, m) in modules.iter().enumerate() {
        let mut places: Vec<Option<Place>> = vec![None; m.memlocs.len()];
        for (_, _, inst) in m.walk() {
            let i = &m.insts[inst];
            let action = if i.opcode == Opcode::GpsimdSb2Sb {
                Action::Sb2Sb
            } else if i.opcode.is_dma() {
                Action::Transfer
            } else {
                continue;
            };
            for ap in crate::place::all_aps(i) {
                if let Some(slot) = places.get_mut(ap.loc.index())
                    && slot.is_none()
                {
                    *slot = place(k, ap.loc);
                }
            }
            let Ok((d, recipes)) = decode(m, &places, inst, &|_| usize::MAX) else { continue };
            if !recipes.is_empty() {
                continue;
            }
            let cost = model.cost(action, i, &d, &mem, false);
            if let Some((time, wake)) = model.alone(&cost) {
                out.push(Alone { module: k, inst, time, wake });
            }
        }
    }
    Ok(out)
}

/// A GPSIMD swap of so many effective bytes per partition: the model's curve, also beyond the largest size that is legal.
pub fn swap_curve(params: &Params, g: Generation, bytes: u64) -> Span {
    Model { params, g }.swap(bytes)
}

/// One CoreBarrier whose cores arrive together, and the join of the engines before it.
pub fn barrier(program: &Program, params: &Params) -> Option<(Span, Span)> {
    let model = Model { params, g: Generation::of(program.arch())? };
    let join = match params.back_end {
        BackEnd::Doc => model.ns(P::SemLocal),
        BackEnd::Hwm | BackEnd::Unit => Span::ZERO,
    };
    Some((model.remote(), join))
}

impl Model<'_> {
    /// Time of a swap or transfer on an idle machine, and the same with the semaphore that tells of it.
    fn alone(&self, cost: &Cost) -> Option<(Span, Span)> {
        let doc = self.params.back_end == BackEnd::Doc;
        let Some(t) = cost.transfer.as_deref() else {
            let time = cost.hold.plus(cost.meet);
            let sem = if doc { self.ns(P::SemLocal) } else { Span::ZERO };
            return Some((time, time.plus(sem)));
        };
        let class = |p: P| self.params.certainty(p);
        let get = |p: P| self.params.get(p, self.g);
        let time = match self.params.back_end {
            BackEnd::Unit => cost.hold,
            BackEnd::Hwm => {
                let exec = ps(t.bytes as f64 / (LANES as f64 * get(P::HwmDmaDiv)));
                self.ns(P::HwmDmaInit).plus(Span::of(exec, class(P::HwmDmaDiv)))
            }
            BackEnd::Doc => {
                let packet = (get(P::DmaPacket) as u64).max(1);
                let one = |bytes: u64| ps((bytes as f64 / get(P::DmaBw) / t.share).max(get(P::DmaDesc)));
                let piece = if t.piece > packet {
                    let rest = t.piece % packet;
                    let full = one(packet).saturating_mul(t.piece / packet);
                    if rest == 0 { full } else { full.saturating_add(one(rest)) }
                } else {
                    one(t.piece)
                };
                // The DMA engine that ends last.
                let (stagger, lane) = (0..LANES)
                    .filter(|k| t.pieces[*k] > 0)
                    .map(|k| {
                        (ps(get(P::DmaStagger)).saturating_mul(k as u64), piece.saturating_mul(t.pieces[k]))
                    })
                    .max_by_key(|(a, b)| a.saturating_add(*b))?;
                let moved = Span::of(lane, class(P::DmaBw));
                let late = Span::of(stagger, class(P::DmaStagger));
                self.ns(P::DmaStart).plus(late).plus(moved).plus(self.ns(P::DmaTail)).plus(match t.dge {
                    super::cost::Dge::Software => self.ns(P::DgeSoft),
                    super::cost::Dge::Static | super::cost::Dge::Hardware => Span::ZERO,
                })
            }
        };
        let sem = if doc { self.ns(P::SemDma) } else { Span::ZERO };
        Some((time, time.plus(sem)))
    }
}

impl Span {
    /// Shares by certainty, in the order of [`Certainty::ALL`]; nothing for no time.
    pub fn shares(self) -> [f64; 4] {
        let all = self.ps().max(1) as f64;
        Certainty::ALL.map(|c| self.0[c as usize] as f64 / all)
    }
}
