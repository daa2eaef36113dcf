//! What one instruction costs: how long it holds its engine, how much later its result is there, what a transfer moves.
//!
//! Costs depend on the type of the instruction, its resolved operands and the generation, never on data. Formulas: the
//! specification, file 10 §2 (documented cycles), §3 (DMA), §4 (`hwm`), §7. A type without a published formula costs one
//! element per lane and cycle, class "our choice".

use super::params::{BackEnd, Certainty, Generation, P, Params, Span, ps};
use super::report::Traffic;
use crate::code::Action;
use crate::exec::{Arg, Decoded};
use crate::memory::{Memory, View};
use tandem_bir::inst::table::Family;
use tandem_bir::{
    AluOp, Attr, BirEnum as _, CopyMode, DgeType, DmaQosClass, Dtype, EngineKind, Inst, Opcode, TransposeOps,
};

/// DMA engines of a core, and SBUF partitions that each of them serves.
pub(crate) const LANES: usize = 16;
const LANE_PARTITIONS: usize = 8;
/// Innermost strides above this many bytes halve a port.
const WIDE: usize = 16;
/// Shared ports of a core: eight PSUM banks, the port that DVE and Pool share, the one that DVE and Activation share.
pub(crate) const PORTS: usize = 10;
const PORT_DVE_POOL: u16 = 1 << 8;
const PORT_DVE_ACT: u16 = 1 << 9;

/// Who makes the descriptors of a transfer (file 10 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dge {
    /// The compiler: none at run time.
    Static,
    /// Pool, which is busy with it.
    Software,
    /// A hardware generator.
    Hardware,
}

/// A transfer, cut for the DMA engines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) dge: Dge,
    /// Rank of its priority class, most urgent first.
    pub(crate) class: u8,
    /// Contiguous pieces that each DMA engine moves.
    pub(crate) pieces: [u64; LANES],
    /// Bytes of a piece.
    pub(crate) piece: u64,
    /// Sides in HBM (0 to 2).
    pub(crate) hbm_sides: u64,
    /// Share of the copy throughput it reaches.
    pub(crate) share: f64,
    /// Bytes moved.
    pub(crate) bytes: u64,
}

/// Cost of one execution of an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Holds its engine.
    pub(crate) hold: Span,
    /// From the end of that until the result is there.
    pub(crate) pipe: Span,
    /// After the last partner has arrived, until a meeting is over.
    pub(crate) meet: Span,
    pub(crate) transfer: Option<Box<Transfer>>,
    /// Ports held with the engine.
    pub(crate) ports: u16,
    pub(crate) flops: u64,
    /// What a transpose on the PE array would count as a product.
    pub(crate) transpose_flops: u64,
    /// Loading its stationary data, when the product before it does not hide that.
    pub(crate) load: Span,
    /// What its stationary data is; 0 for an instruction that has none.
    pub(crate) weights: u64,
    /// A matrix product or a transpose on the PE array.
    pub(crate) matmul: bool,
    /// Sixteenths of the PE array (32 rows by 32 columns) that a product on a tile of it takes; 0 for one on the whole array.
    pub(crate) cells: u16,
    pub(crate) traffic: Traffic,
    /// Bytes handed to the partner core by a swap.
    pub(crate) swapped: u64,
}

/// Rows and columns of a sixteenth of the PE array.
const CELL: u64 = 32;

/// Cells that a product takes by its `tile_position` and `tile_size` (rows, columns); 0 for the whole array.
fn cells(inst: &Inst) -> u16 {
    let two = |a: Attr| -> Option<[u64; 2]> {
        let v = inst.get_ints(a);
        Some([u64::try_from(*v.first()?).ok()?, u64::try_from(*v.get(1)?).ok()?])
    };
    let (Some(at), Some(size)) = (two(Attr::TilePosition), two(Attr::TileSize)) else { return 0 };
    let span = |k: usize| at[k] / CELL..at[k].saturating_add(size[k]).div_ceil(CELL).min(4);
    let mut bits = 0u16;
    for r in span(0) {
        span(1).for_each(|c| bits |= 1 << (4 * r + c));
    }
    if bits == u16::MAX { 0 } else { bits }
}

/// Gives costs.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub(crate) params: &'a Params,
    pub(crate) g: Generation,
}

/// Shape of an engine instruction's formula, in cycles of its engine.
enum Rule {
    /// `max(floor, n / speed)`.
    Stream { n: f64, speed: f64 },
    /// `max(64, n)` then an accumulator read.
    StreamRead { n: f64, speed: f64 },
    /// No floor.
    Bare(f64),
    /// Start-up plus cycles (Pool).
    Started(f64),
    /// Floor of a copy with a run-time offset.
    Dynamic(f64),
    /// Matrix product: moving columns times passes.
    Matmul { n: f64, passes: f64 },
    /// A fixed number of the table.
    Fixed(P),
    /// A sequencer instruction.
    Plain,
}

fn view(a: &Arg) -> Option<&View> {
    match a {
        Arg::View(v) => Some(v),
        Arg::Indexed(x) => Some(&x.view),
        Arg::Imm(_) | Arg::Reg(_) => None,
    }
}

fn views(d: &Decoded) -> impl Iterator<Item = &View> {
    d.ins.iter().chain(&d.outs).filter_map(view)
}

/// bf16 or fp16, or fp8 where the generation treats it alike.
fn narrow(t: Dtype, fp8_too: bool) -> bool {
    match t {
        Dtype::Bfloat16 | Dtype::Float16 => true,
        Dtype::Float8E3 | Dtype::Float8E4 | Dtype::Float8E4m3Fn | Dtype::Float8E5 => fp8_too,
        Dtype::Float8E8m0Fnu
        | Dtype::Uint8
        | Dtype::Int8
        | Dtype::Float4E2m1FnX4
        | Dtype::Float8E4m3FnX4
        | Dtype::Float8E5m2X4
        | Dtype::Uint16
        | Dtype::Int16
        | Dtype::Uint32
        | Dtype::Int32
        | Dtype::Float32
        | Dtype::Float32r
        | Dtype::Uint64
        | Dtype::Int64 => false,
    }
}

/// Elements of the packed run at the end of a view; a run never crosses a partition.
fn run_elems(v: &View, on_chip: bool) -> u64 {
    let dims = if on_chip { v.free_dims() } else { &v.dims[..] };
    let mut want = v.elem_size() as i128;
    let mut n = 1u64;
    for d in dims.iter().rev() {
        if d.num == 1 {
            continue;
        }
        if d.stride as i128 != want {
            break;
        }
        want = want.saturating_mul(d.num as i128);
        n = n.saturating_mul(d.num as u64);
    }
    n
}

impl Model<'_> {
    fn get(&self, p: P) -> f64 {
        self.params.get(p, self.g)
    }
    /// A number in nanoseconds.
    pub(crate) fn ns(&self, p: P) -> Span {
        Span::of(ps(self.get(p)), self.params.certainty(p))
    }
    fn clock(&self, e: EngineKind) -> f64 {
        let hwm = self.params.back_end == BackEnd::Hwm;
        self.get(match e {
            EngineKind::Dve if hwm => P::HwmClockDve,
            EngineKind::Dve => P::ClockDve,
            EngineKind::Pe | EngineKind::Activation | EngineKind::Pool if hwm => P::HwmClock,
            EngineKind::Pe => P::ClockPe,
            EngineKind::Activation => P::ClockAct,
            EngineKind::Pool | EngineKind::Unassigned => P::ClockPool,
            EngineKind::Sp | EngineKind::Dma | EngineKind::All => P::ClockSp,
        })
    }
    fn cycles(&self, e: EngineKind, cycles: f64, c: Certainty) -> Span {
        Span::of(ps(cycles / self.clock(e)), c)
    }
    /// A number of the table that counts cycles of an engine.
    pub(crate) fn table_cycles(&self, e: EngineKind, p: P) -> Span {
        self.cycles(e, self.get(p), self.params.certainty(p))
    }

    /// Cost of a branch, loop edge or call.
    pub(crate) fn branch(&self) -> Span {
        match self.params.back_end {
            BackEnd::Doc => self.table_cycles(EngineKind::Sp, P::Branch),
            BackEnd::Hwm => Span::ZERO,
            BackEnd::Unit => self.ns(P::UnitCost),
        }
    }
    /// Cost of a branch that an engine takes alone.
    pub(crate) fn branch_of(&self, e: EngineKind) -> Span {
        match self.params.back_end {
            BackEnd::Doc => self.table_cycles(e, P::Branch),
            BackEnd::Hwm | BackEnd::Unit => self.branch(),
        }
    }
    /// A CoreBarrier itself, beside the way between the cores.
    pub(crate) fn barrier(&self) -> Span {
        match self.params.back_end {
            BackEnd::Doc | BackEnd::Hwm => Span::ZERO,
            BackEnd::Unit => self.ns(P::UnitCost),
        }
    }
    /// One way between the cores.
    pub(crate) fn remote(&self) -> Span {
        match self.params.back_end {
            BackEnd::Doc => self.ns(P::RemoteSem),
            BackEnd::Hwm | BackEnd::Unit => Span::ZERO,
        }
    }
    /// From an engine to a waiter on its core.
    pub(crate) fn join(&self) -> Span {
        match self.params.back_end {
            BackEnd::Doc => self.ns(P::SemLocal),
            BackEnd::Hwm | BackEnd::Unit => Span::ZERO,
        }
    }
    /// From a transfer's last byte to a waiter.
    pub(crate) fn landing(&self) -> Span {
        match self.params.back_end {
            BackEnd::Doc => self.ns(P::SemDma),
            BackEnd::Hwm | BackEnd::Unit => Span::ZERO,
        }
    }
    /// Extra time of a collective of `n` members.
    pub(crate) fn hops(&self, n: usize) -> Span {
        match self.params.back_end {
            BackEnd::Doc | BackEnd::Hwm => self.ns(P::Hop).times(n.saturating_sub(1).max(1) as u64),
            BackEnd::Unit => Span::ZERO,
        }
    }
    /// Swap of `b` effective bytes per partition, after both sides have issued it.
    pub(crate) fn swap(&self, b: u64) -> Span {
        if self.params.back_end == BackEnd::Unit {
            return self.ns(P::UnitCost);
        }
        let (b, knee) = (b as f64, self.get(P::SwapKnee));
        let part = |p: P, n: f64| Span::of(ps(self.get(p) * n), self.params.certainty(p));
        self.ns(P::SwapBase)
            .plus(part(P::SwapSlopeLow, b.min(knee)))
            .plus(part(P::SwapSlopeHigh, (b - knee).max(0.0)))
    }

    /// Cost of an instruction with its operands resolved. `dynamic`: it has a run-time address.
    pub(crate) fn cost(&self, action: Action, inst: &Inst, d: &Decoded, mem: &Memory, dynamic: bool) -> Cost {
        let mut c = Cost::default();
        if !matches!(action, Action::Token | Action::Nothing | Action::Control) {
            c.traffic = traffic(d, mem);
        }
        c.matmul = inst.spec().family == Family::Matmul;
        if c.matmul && self.params.back_end == BackEnd::Doc {
            c.cells = cells(inst);
        }
        if c.matmul && inst.get_bool(Attr::IsTranspose) {
            c.transpose_flops = product(d);
        } else {
            c.flops = flops(inst, d);
        }
        let unit = self.params.back_end == BackEnd::Unit;
        match action {
            Action::Transfer => {
                let mut t = self.transfer(inst, d, mem);
                if let Some(t) = &mut t {
                    t.dge = self.dge(inst, d.engine, dynamic);
                    t.class = match inst.get_enum::<DmaQosClass>(Attr::DmaQos) {
                        None | Some(DmaQosClass::Unassigned | DmaQosClass::Default) => u8::MAX,
                        Some(class) => class.ordinal() as u8,
                    };
                    t.hbm_sides = u64::from(c.traffic.hbm_read > 0) + u64::from(c.traffic.hbm_written > 0);
                }
                c.transfer = t.map(Box::new);
                c.hold = match self.params.back_end {
                    BackEnd::Unit => self.ns(P::UnitCost),
                    BackEnd::Hwm => Span::ZERO,
                    BackEnd::Doc
                        if d.engine == EngineKind::Pool
                            && c.transfer.as_ref().is_some_and(|t| t.dge == Dge::Software) =>
                    {
                        self.ns(P::DgeSoft)
                    }
                    BackEnd::Doc => self.table_cycles(d.engine, P::Plain),
                };
            }
            Action::Sb2Sb | Action::Swap | Action::Collective => {
                let bytes = views(d).map(|v| v.num_bytes() as u64).max().unwrap_or(0);
                let first = d.in_view(0);
                if action == Action::Sb2Sb {
                    let b = first.map_or(0, |v| {
                        (v.elems_per_partition() as u64)
                            .saturating_mul(v.dtype.bytes())
                            .saturating_mul(v.dtype.sb2sb_factor())
                    });
                    c.meet = self.swap(b);
                } else if unit {
                    c.meet = self.ns(P::UnitCost);
                } else {
                    let p = P::StreamBw;
                    c.meet = Span::of(ps(bytes as f64 / self.get(p)), self.params.certainty(p));
                }
                c.swapped = first.map_or(0, |v| v.num_bytes() as u64);
            }
            Action::Compute | Action::Scalar | Action::Nothing | Action::Token | Action::Control => {
                if unit {
                    c.hold = self.ns(P::UnitCost);
                    return c;
                }
                let rule = self.rule(inst, d, mem);
                match self.params.back_end {
                    BackEnd::Doc | BackEnd::Unit => self.doc(&mut c, &rule, d, mem),
                    BackEnd::Hwm => self.hwm(&mut c, &rule, inst, d),
                }
            }
        }
        c
    }

    fn doc(&self, c: &mut Cost, rule: &Rule, d: &Decoded, mem: &Memory) {
        let e = d.engine;
        let floor = self.get(P::MinInterval);
        let (cycles, basis) = match rule {
            Rule::Stream { n, speed } => ((n / speed).max(floor), P::MinInterval),
            Rule::StreamRead { n, speed } => ((n / speed).max(floor) + self.get(P::AccRead), P::MinInterval),
            Rule::Bare(n) => (*n, P::MinInterval),
            Rule::Started(n) => (n + self.get(P::PoolStart), P::PoolStart),
            Rule::Dynamic(n) => (n.max(self.get(P::DynamicCopy)), P::DynamicCopy),
            Rule::Matmul { n, passes } => (n.max(floor) * passes, P::MinInterval),
            Rule::Fixed(p) => (self.get(*p), *p),
            Rule::Plain => (self.get(P::Plain), P::Plain),
        };
        let wide = self.wide(e, d, mem);
        let (cycles, basis) = if wide > cycles { (wide, P::WideStride) } else { (cycles, basis) };
        let certainty = match (documented(d.opcode), self.params.certainty(basis)) {
            (false, Certainty::Documented) => Certainty::OurChoice,
            (_, c) => c,
        };
        c.hold = if let Rule::Fixed(P::ActTable) = rule {
            self.ns(P::ActTable)
        } else {
            self.cycles(e, cycles, certainty)
        };
        if matches!(rule, Rule::Plain | Rule::Fixed(P::ActTable)) {
            return;
        }
        if let (Rule::Matmul { .. }, Some(s)) = (rule, d.in_view(1)) {
            let rows = s.partitions().min(128) as f64 / 128.0;
            c.load = self.cycles(e, self.get(P::PeLoad) * rows, self.params.certainty(P::PeLoad));
            c.weights = fingerprint(s);
        }
        c.pipe = match e {
            EngineKind::Pe => self.ns(P::PipePe),
            EngineKind::Activation => {
                let two = views(d).any(|v| v.dtype.bytes() == 2);
                self.table_cycles(e, if two { P::PipeAct16 } else { P::PipeAct32 })
            }
            EngineKind::Dve => self.table_cycles(e, P::PipeDve),
            EngineKind::Pool | EngineKind::Unassigned => self.table_cycles(e, P::PipePool),
            EngineKind::Sp | EngineKind::Dma | EngineKind::All => Span::ZERO,
        };
        c.ports = self.ports(rule, d, mem);
    }

    /// Formulas of the reference cost oracle, as far as they are published.
    fn hwm(&self, c: &mut Cost, rule: &Rule, inst: &Inst, d: &Decoded) {
        let e = d.engine;
        let n = views(d).map(View::elems_per_partition).max().unwrap_or(0) as f64;
        let (total, certainty) = match (rule, inst.opcode) {
            (Rule::Plain, _) => (Span::ZERO, Certainty::Documented),
            (Rule::Matmul { n, .. }, _) => {
                (self.cycles(e, n / 2.0 + 200.0, Certainty::Documented), Certainty::Documented)
            }
            (_, Opcode::Memset) => (self.cycles(e, n + 50.0, Certainty::Documented), Certainty::Documented),
            (_, Opcode::Activation) if self.g == Generation::Trn3 => {
                let has = |b: u64| views(d).any(|v| v.dtype.bytes() == b);
                let init = if has(2) {
                    222.0
                } else if has(4) {
                    172.0
                } else {
                    100.0
                };
                (self.cycles(e, n + init, Certainty::Documented), Certainty::Documented)
            }
            _ => {
                let k = self.params.certainty(P::HwmMult);
                (self.cycles(e, n * self.get(P::HwmMult), k), k)
            }
        };
        // The next instruction may start 100 ns before the end of a long one.
        let over = ps(self.get(P::HwmOverlap));
        let hold = if total.ps() > over { total.ps() - over } else { total.ps() };
        c.hold = Span::of(hold, certainty);
        c.pipe = Span::of(total.ps() - hold, certainty);
    }

    /// Ports an instruction holds: file 10 §2, pipeline facts.
    fn ports(&self, rule: &Rule, d: &Decoded, mem: &Memory) -> u16 {
        let mut m = 0;
        let (mut sbuf, mut psum) = (false, false);
        for v in views(d) {
            let info = mem.info(v.buf);
            let Some(pitch) = info.pitch.filter(|p| *p > 0) else { continue };
            if !info.psum {
                sbuf = true;
                continue;
            }
            psum = true;
            if self.g != Generation::Trn1 {
                let row = View { dims: v.free_dims().into(), ..v.clone() };
                let (lo, hi) = row.byte_range().unwrap_or((0, 1));
                let at = |b: i128| ((b.max(0) as usize % pitch) / 2048).min(7);
                (at(lo)..=at(hi - 1).max(at(lo))).for_each(|b| m |= 1 << b);
            }
        }
        let fast = matches!(rule, Rule::Stream { speed, .. } if *speed > 1.0);
        match (self.g, d.engine) {
            (Generation::Trn1, EngineKind::Dve) => {
                if sbuf {
                    m |= PORT_DVE_POOL;
                }
                if psum {
                    m |= PORT_DVE_ACT;
                }
            }
            (Generation::Trn1, EngineKind::Activation) if psum => m |= PORT_DVE_ACT,
            (_, EngineKind::Pool) if sbuf => m |= PORT_DVE_POOL,
            (Generation::Trn2 | Generation::Trn3, EngineKind::Dve) if fast => m |= PORT_DVE_POOL,
            (_, _) => {}
        }
        m
    }

    /// Cycles that the port of an on-chip operand with a wide innermost stride needs (file 10 §2); 0 without one. The PE array
    /// has ports of its own.
    fn wide(&self, e: EngineKind, d: &Decoded, mem: &Memory) -> f64 {
        if e == EngineKind::Pe {
            return 0.0;
        }
        views(d)
            .filter(|v| mem.info(v.buf).pitch.is_some())
            .filter(|v| {
                v.free_dims().iter().rev().find(|x| x.num > 1).is_some_and(|x| x.stride.unsigned_abs() > WIDE)
            })
            .map(|v| v.elems_per_partition() as f64 * self.get(P::WideStride))
            .fold(0.0, f64::max)
    }

    /// Elements per lane and cycle of a copy or tensor-scalar (file 10 §2, generation changes).
    fn speed(&self, d: &Decoded, mem: &Memory) -> f64 {
        let fp8 = self.g == Generation::Trn3;
        let all_narrow = views(d).all(|v| narrow(v.dtype, fp8));
        match (self.g, d.engine) {
            (Generation::Trn2 | Generation::Trn3, EngineKind::Dve) if all_narrow => {
                let psum = views(d).filter(|v| mem.info(v.buf).psum).count();
                let packed = views(d).all(|v| {
                    v.free_dims().last().is_none_or(|x| x.num == 1 || x.stride == v.elem_size() as isize)
                });
                match (psum, packed) {
                    (0, true) => 4.0,
                    (0, false) | (1, true) => 2.0,
                    _ => 1.0,
                }
            }
            (Generation::Trn3, EngineKind::Activation) if all_narrow => 2.0,
            _ => 1.0,
        }
    }

    /// The formula of a type.
    fn rule(&self, inst: &Inst, d: &Decoded, mem: &Memory) -> Rule {
        let per = |v: &View| v.elems_per_partition() as f64;
        let n = views(d).map(per).fold(0.0, f64::max);
        let n_in = d.in_view(0).map_or(n, per);
        let n_out = d.out_view(0).map_or(n, per);
        let bf16 = views(d).all(|v| v.dtype == Dtype::Bfloat16);
        let stream = |n: f64| Rule::Stream { n, speed: 1.0 };
        match inst.opcode {
            Opcode::GenericCopy | Opcode::AbstractCopy | Opcode::TensorCopy | Opcode::TensorScalar => {
                Rule::Stream { n, speed: self.speed(d, mem) }
            }
            Opcode::Activation | Opcode::GenericRelu => {
                let speed = self.speed(d, mem);
                if d.outs.len() > 1 { Rule::StreamRead { n, speed } } else { Rule::Stream { n, speed } }
            }
            Opcode::ReadActivationAccumulator
            | Opcode::ActivationReadAccumulator
            | Opcode::DveReadAccumulator => Rule::Fixed(P::AccRead),
            Opcode::LoadActFuncSet => Rule::Fixed(P::ActTable),
            Opcode::Matmult | Opcode::MatmultSparse => {
                let fp32 = d.in_view(0).is_some_and(|v| v.dtype == Dtype::Float32);
                let passes = if fp32 && !inst.get_bool(Attr::IsTranspose) { 4.0 } else { 1.0 };
                Rule::Matmul { n: n_in, passes }
            }
            Opcode::MatmultMx => Rule::Matmul { n: n_out, passes: 1.0 },
            Opcode::Memset => {
                let zero = inst.get_int(Attr::Constant) == Some(0);
                let half = zero && d.out_view(0).is_some_and(|v| narrow(v.dtype, false));
                stream(if half { n / 2.0 } else { n })
            }
            Opcode::Reciprocal => stream(8.0 * n),
            Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst => Rule::Dynamic(n_out),
            Opcode::TensorReduce => {
                let op = inst.get_enum::<AluOp>(Attr::Op);
                let quick = bf16 && matches!(op, Some(AluOp::Add | AluOp::Max));
                Rule::Bare(if quick { n_in / 2.0 } else { n_in })
            }
            Opcode::TensorScalarPtr => {
                if inst.get_bool(Attr::IsTensorTensorScan) {
                    stream(2.0 * n)
                } else if inst.get_bool(Attr::IsScalarTensorTensor) {
                    let ops = (inst.get_enum(Attr::Op0), inst.get_enum(Attr::Op1));
                    let quick = bf16 && ops == (Some(AluOp::Subtract), Some(AluOp::Mult)) && n % 2.0 == 0.0;
                    Rule::Bare(if quick { n } else { 2.0 * n })
                } else if d.outs.len() > 1 {
                    Rule::StreamRead { n, speed: 1.0 }
                } else {
                    // The per-partition scalars do not stream.
                    let main = Decoded { ins: d.ins.iter().take(1).cloned().collect(), ..d.clone() };
                    Rule::Stream { n, speed: self.speed(&main, mem) }
                }
            }
            Opcode::TensorTensor => {
                let ins = || d.ins.iter().filter_map(view);
                let psum = ins().filter(|v| mem.info(v.buf).psum).count();
                let op = inst.get_enum::<AluOp>(Attr::Op);
                let simple = matches!(op, Some(AluOp::Add | AluOp::Mult | AluOp::Subtract));
                let packed = ins().all(View::is_contiguous_rows);
                let once = psum == 1 || (psum == 0 && bf16 && simple && packed);
                let all_narrow = views(d).all(|v| narrow(v.dtype, self.g == Generation::Trn3));
                let two =
                    self.g != Generation::Trn1 && d.engine == EngineKind::Dve && psum == 0 && all_narrow;
                Rule::Stream { n: if once { n } else { 2.0 * n }, speed: if two { 2.0 } else { 1.0 } }
            }
            Opcode::CopyPredicated => {
                let in_sbuf = d.ins.iter().filter_map(view).all(|v| !mem.info(v.buf).psum);
                if in_sbuf { Rule::Bare(2.0 * n) } else { stream(n) }
            }
            Opcode::BnStats => stream(n_in),
            Opcode::BnStatsAggregate => stream(13.0 * n_in / 3.0),
            Opcode::RangeSelect
            | Opcode::Dropout
            | Opcode::StreamShuffle
            | Opcode::StreamTranspose
            | Opcode::MatchReplace
            | Opcode::MaxIndexAndMatchReplace => stream(n),
            Opcode::Max | Opcode::MaxIndex => Rule::Bare(n),
            Opcode::Iota | Opcode::TensorScalarAffineSelect | Opcode::Gather => Rule::Started(n),
            Opcode::IndirectCopy => {
                let out = d.out_view(0);
                let e = d.ins.get(2).map_or(1.0, |a| match a {
                    Arg::Imm(i) => f64::from(i.as_f32()).max(1.0),
                    Arg::View(_) | Arg::Reg(_) | Arg::Indexed(_) => 1.0,
                });
                let size = out.map_or(4.0, |v| v.elem_size() as f64);
                let valid = inst.get_int(Attr::NumValidIndices).unwrap_or(0).max(0) as f64;
                let c = ((28.0 + 4.0 * e) / (4.0 * e)) / (4.0 / size).min(1.0 / e).max(1e-9);
                Rule::Started(valid * e / c)
            }
            Opcode::Exponential => {
                Rule::Stream { n, speed: if self.g == Generation::Trn3 { 4.0 } else { 1.0 } }
            }
            Opcode::QuantizeMx => Rule::Stream { n: n_in, speed: 4.0 },
            Opcode::Pool
            | Opcode::TensorScalarCache
            | Opcode::BnGradients
            | Opcode::BnBackprop
            | Opcode::BnBackprop2
            | Opcode::Select
            | Opcode::GetRandState
            | Opcode::SetRandState
            | Opcode::Rand
            | Opcode::Rand2
            | Opcode::RandSetState
            | Opcode::RandGetState
            | Opcode::Rng
            | Opcode::GetSequenceBounds
            | Opcode::NonzeroWithCount => {
                if d.engine == EngineKind::Pool {
                    Rule::Started(n)
                } else {
                    stream(n)
                }
            }
            // Without a data path, or not an engine's data path.
            Opcode::NoOp
            | Opcode::EventSemaphore
            | Opcode::GroupResetSemaphores
            | Opcode::AllEngineBarrier
            | Opcode::Drain
            | Opcode::Halt
            | Opcode::BranchHint
            | Opcode::SwitchQueueInstance
            | Opcode::ResetQueueInstance
            | Opcode::GetGlobalRankId
            | Opcode::GetCurProcessingRankId
            | Opcode::RegisterAlu
            | Opcode::RegisterMove
            | Opcode::TensorLoad
            | Opcode::TensorSave
            | Opcode::TensorCompletion
            | Opcode::DevicePrint => Rule::Plain,
            // Handled elsewhere: transfers, meetings, control; or refused before a run.
            Opcode::Load
            | Opcode::Save
            | Opcode::DmaCopy
            | Opcode::GenericIndirectLoad
            | Opcode::IndirectLoad
            | Opcode::GenericIndirectSave
            | Opcode::IndirectSave
            | Opcode::IndirectSaveAccumulate
            | Opcode::GpsimdSb2Sb
            | Opcode::CollectiveCompute
            | Opcode::CompareAndBranch
            | Opcode::UnconditionalBranch
            | Opcode::Return
            | Opcode::Exit
            | Opcode::Break
            | Opcode::Call
            | Opcode::CoreBarrier
            | Opcode::Loop
            | Opcode::DynamicForLoop
            | Opcode::DoWhile
            | Opcode::Generic
            | Opcode::MatmultBase
            | Opcode::Dma
            | Opcode::Collective
            | Opcode::DmaDescriptor
            | Opcode::Terminator
            | Opcode::CustomOp
            | Opcode::BirKernel
            | Opcode::InlineAsmBytes
            | Opcode::NkiKernel
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
            | Opcode::TongaReduceMacroSymbolic => Rule::Plain,
        }
    }

    /// Cuts a transfer into pieces that are contiguous on both sides, dealt to the engines by SBUF partition.
    fn transfer(&self, inst: &Inst, d: &Decoded, mem: &Memory) -> Option<Transfer> {
        let dst = d.outs.first().and_then(view)?;
        let src = d.ins.iter().find_map(view)?;
        let chip = |v: &View| mem.info(v.buf).pitch.filter(|p| *p > 0);
        let sources = if inst.get_enum::<CopyMode>(Attr::Mode) == Some(CopyMode::Cce) {
            d.ins.iter().filter_map(view).count().max(1) as u64
        } else {
            1
        };
        let elems = (dst.num_elems() as u64).saturating_mul(sources);
        let run = run_elems(src, chip(src).is_some()).min(run_elems(dst, chip(dst).is_some())).max(1);
        let size = (src.elem_size().max(dst.elem_size())) as u64;
        let bytes = elems.saturating_mul(size);
        let mut t = Transfer {
            dge: Dge::Static,
            class: u8::MAX,
            pieces: [0; LANES],
            piece: run.saturating_mul(size),
            hbm_sides: 0,
            share: self.share(inst, chip(src).is_some() && chip(dst).is_some()),
            bytes,
        };
        let total = elems.div_ceil(run);
        match (chip(dst), chip(src)) {
            (Some(pitch), _) => deal(&mut t.pieces, dst, pitch, total),
            (None, Some(pitch)) => deal(&mut t.pieces, src, pitch, total),
            (None, None) => {
                // Sixteen equal byte ranges.
                let each = bytes.div_ceil(LANES as u64).max(1);
                t.piece = t.piece.min(each);
                t.pieces = [total.div_ceil(LANES as u64); LANES];
            }
        }
        Some(t)
    }

    /// Who makes the descriptors: as the instruction says. Where it leaves that open (our choice): a hardware generator when
    /// the generation has one and Activation or SP triggers the transfer (file 10 §1: "via Act or SP"; what has no engine is in
    /// the queue of SP); otherwise software for
    /// a run-time address, the compiler for a fixed one.
    fn dge(&self, inst: &Inst, engine: EngineKind, dynamic: bool) -> Dge {
        let hardware = self.get(P::DgeHard) > 0.0;
        match inst.get_enum::<DgeType>(Attr::DgeTypeKey).unwrap_or(DgeType::Unassigned) {
            DgeType::None => Dge::Static,
            DgeType::SwDge => Dge::Software,
            DgeType::HwDge if hardware => Dge::Hardware,
            DgeType::HwDge => Dge::Software,
            DgeType::Unassigned
                if hardware
                    && matches!(engine, EngineKind::Activation | EngineKind::Sp | EngineKind::Dma) =>
            {
                Dge::Hardware
            }
            DgeType::Unassigned if dynamic => Dge::Software,
            DgeType::Unassigned => Dge::Static,
        }
    }

    fn share(&self, inst: &Inst, on_chip: bool) -> f64 {
        let transposes =
            inst.get_enum::<TransposeOps>(Attr::TransposeOp).is_some_and(|t| t != TransposeOps::None);
        match inst.get_enum::<CopyMode>(Attr::Mode) {
            Some(CopyMode::Cce) => self.get(P::DmaCce),
            Some(CopyMode::Transpose) if on_chip => self.get(P::DmaTransposeChip),
            Some(CopyMode::Transpose) => self.get(P::DmaTransposeHbm),
            _ if inst.opcode == Opcode::IndirectSaveAccumulate => self.get(P::DmaCce),
            _ if transposes && on_chip => self.get(P::DmaTransposeChip),
            _ if transposes => self.get(P::DmaTransposeHbm),
            _ => 1.0,
        }
    }
}

/// Deals pieces to engines by the partitions of a side.
fn deal(pieces: &mut [u64; LANES], v: &View, pitch: usize, total: u64) {
    let n = v.partitions().max(1) as u64;
    let each = total.div_ceil(n);
    let first = v.dims.first().map_or(0, |d| d.stride);
    for k in 0..n.min(128) {
        let at = v.base as i128 + first as i128 * i128::from(k);
        let p = usize::try_from(at).unwrap_or(0) / pitch;
        pieces[(p / LANE_PARTITIONS) % LANES] += each;
    }
}

/// The documents give this type's cycles.
fn documented(op: Opcode) -> bool {
    !matches!(
        op,
        Opcode::Pool
            | Opcode::TensorScalarCache
            | Opcode::BnGradients
            | Opcode::BnBackprop
            | Opcode::BnBackprop2
            | Opcode::Select
            | Opcode::GetRandState
            | Opcode::SetRandState
            | Opcode::Rand
            | Opcode::Rand2
            | Opcode::RandSetState
            | Opcode::RandGetState
            | Opcode::Rng
            | Opcode::GetSequenceBounds
            | Opcode::NonzeroWithCount
            | Opcode::MatmultSparse
            | Opcode::MatchReplace
            | Opcode::MaxIndexAndMatchReplace
            | Opcode::Gather
            | Opcode::GenericRelu
    )
}

/// Tells stationary operands apart; never 0.
fn fingerprint(v: &View) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut h = rustc_hash::FxHasher::default();
    (v.buf, v.dtype as u8, v.base).hash(&mut h);
    for d in &v.dims {
        (d.stride, d.num).hash(&mut h);
    }
    h.finish() | 1
}

/// 2·K·M·N.
fn product(d: &Decoded) -> u64 {
    let (Some(m), Some(s)) = (d.in_view(0), d.in_view(1)) else { return 0 };
    let packed = if m.dtype.class() == tandem_bir::dtype::NumericClass::PackedFloat { 4 } else { 1 };
    (m.num_elems() as u64).saturating_mul(s.elems_per_partition() as u64).saturating_mul(2 * packed)
}

/// Bytes that the operands name, by memory and direction.
fn traffic(d: &Decoded, mem: &Memory) -> Traffic {
    let mut t = Traffic::default();
    let mut add = |v: &View, out: bool| {
        let info = mem.info(v.buf);
        let n = match (info.pitch, info.psum, out) {
            (None, _, false) => &mut t.hbm_read,
            (None, _, true) => &mut t.hbm_written,
            (Some(_), false, false) => &mut t.sbuf_read,
            (Some(_), false, true) => &mut t.sbuf_written,
            (Some(_), true, false) => &mut t.psum_read,
            (Some(_), true, true) => &mut t.psum_written,
        };
        *n = n.saturating_add(v.num_bytes() as u64);
    };
    d.ins.iter().filter_map(view).for_each(|v| add(v, false));
    d.outs.iter().filter_map(view).for_each(|v| add(v, true));
    t
}

/// Arithmetic of an instruction: 2·K·M·N for products, elements times operators otherwise, nothing for movers.
fn flops(inst: &Inst, d: &Decoded) -> u64 {
    let elems = |v: Option<&View>| v.map_or(0, |v| v.num_elems() as u64);
    let op = |a: Attr| u64::from(inst.get_enum::<AluOp>(a).is_some_and(|o| o != AluOp::Bypass));
    match inst.spec().family {
        Family::Matmul => product(d),
        Family::TensorScalar => elems(d.out_view(0)).saturating_mul(op(Attr::Op0) + op(Attr::Op1)),
        Family::Elementwise | Family::Activation => elems(d.out_view(0)),
        Family::Reduce | Family::BatchNorm | Family::Pool => elems(d.in_view(0)),
        Family::Generic
        | Family::Fill
        | Family::Rank
        | Family::Control
        | Family::Sync
        | Family::Dma
        | Family::Copy
        | Family::Gather
        | Family::OnChipMove
        | Family::DataMove
        | Family::Collective
        | Family::Select
        | Family::Kernel
        | Family::Debug
        | Family::Rng
        | Family::Misc
        | Family::DmaDescriptor
        | Family::Register
        | Family::Terminator
        | Family::Queue
        | Family::Search
        | Family::Mx
        | Family::Structured
        | Family::Macro => 0,
    }
}
