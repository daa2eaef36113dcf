//! Turns the events of a timed run into packets.

use super::writer::{Label, LabelId, SeqId, SliceEvent, TraceWriter};
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use tandem_bir::diag::{LocTable, SourcePos};
use tandem_bir::{InstId, MemoryType, Program};
use tandem_sim::timing::trace::{Flow, MemoryUse, TraceHead, TraceLane, TraceSink, TraceSlice, Track};

/// Tracks of a core, by number: the process itself, then what is below it.
mod at {
    use tandem_bir::EngineKind;

    pub(super) const PROCESS: u64 = 0;
    pub(super) const CONTROL: u64 = 1;
    /// First engine.
    pub(super) const ENGINE: u64 = 2;
    /// Group of the DMA engines.
    pub(super) const DMA: u64 = 10;
    pub(super) const SBUF: u64 = 11;
    pub(super) const PSUM: u64 = 12;
    /// First of 16 × 8 pairs of DMA engine and queue.
    pub(super) const LANE: u64 = 16;
    /// Tracks of a core.
    pub(super) const STRIDE: u64 = 256;

    /// Place of an engine among its siblings, in the order of the machine's queues.
    pub(super) fn engine(e: EngineKind) -> u64 {
        match e {
            EngineKind::Pe => 0,
            EngineKind::Activation => 1,
            EngineKind::Dve => 2,
            EngineKind::Pool => 3,
            EngineKind::Sp => 4,
            EngineKind::Dma => 5,
            EngineKind::Unassigned => 6,
            EngineKind::All => 7,
        }
    }
}

/// What a core has announced so far.
#[derive(Debug, Default)]
struct CoreTracks {
    seq: Option<SeqId>,
    /// Bit per track number.
    known: [u64; (at::STRIDE / 64) as usize],
    /// Labels by module, instruction, and kinds of arrows that end there.
    labels: FxHashMap<(usize, InstId, u8), LabelId>,
    wait: Option<LabelId>,
}

/// Source position and names of an instruction.
#[derive(Clone, Debug, Default)]
struct Named {
    name: String,
    opcode: String,
    pos: Option<SourcePos>,
}

/// Writes a Perfetto trace while the events come. An error of the output is kept until [`PerfettoSink::finish`].
#[derive(Debug)]
pub struct PerfettoSink<W: Write> {
    writer: TraceWriter<W>,
    cores: Vec<CoreTracks>,
    names: Vec<Vec<Named>>,
    lnc: usize,
    /// More than one LNC.
    several: bool,
    error: Option<io::Error>,
    ids: (Vec<u64>, Vec<u64>),
}

impl<W: Write> PerfettoSink<W> {
    /// A sink that writes to `out`.
    pub fn new(out: W) -> PerfettoSink<W> {
        PerfettoSink {
            writer: TraceWriter::new(out),
            cores: Vec::new(),
            names: Vec::new(),
            lnc: 1,
            several: false,
            error: None,
            ids: (Vec::new(), Vec::new()),
        }
    }

    /// Events written so far: begins, ends and counter values.
    pub fn events(&self) -> u64 {
        self.writer.events()
    }

    /// Hands everything to the output and gives it back.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(self) -> io::Result<W> {
        match self.error {
            Some(e) => Err(e),
            None => self.writer.finish(),
        }
    }

    fn try_with(&mut self, f: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.error.is_none()
            && let Err(e) = f(self)
        {
            self.error = Some(e);
        }
    }

    /// Sequence of a core; announces the core when it is new.
    fn seq(&mut self, core: usize) -> io::Result<SeqId> {
        while self.cores.len() <= core {
            self.cores.push(CoreTracks::default());
        }
        if let Some(s) = self.cores[core].seq {
            return Ok(s);
        }
        let seq = self.writer.sequence();
        self.cores[core].seq = Some(seq);
        self.cores[core].known[0] |= 1;
        let name = if self.several {
            format!("LNC {} core {}", core / self.lnc, core % self.lnc)
        } else {
            format!("core {core}")
        };
        self.writer.process(seq, uuid(core, at::PROCESS), core as u64 + 1, &name)?;
        Ok(seq)
    }

    /// Announces a track the first time that it is used.
    fn track(&mut self, core: usize, t: Track) -> io::Result<(SeqId, u64)> {
        let seq = self.seq(core)?;
        let (n, parent, name, rank) = match t {
            Track::Control => (at::CONTROL, at::PROCESS, "all engines".to_owned(), 0),
            Track::Engine(e) => {
                let k = at::engine(e);
                (at::ENGINE + k, at::PROCESS, e.external_name().to_owned(), 1 + k)
            }
            Track::Dma { engine, queue } => {
                if self.learn(core, at::DMA) {
                    let (u, p) = (uuid(core, at::DMA), uuid(core, at::PROCESS));
                    self.writer.track(seq, u, p, "DMA engines", at::DMA)?;
                }
                let k = u64::from(engine) % 16 * 8 + at::engine(queue);
                let name = format!("DMA engine {engine}, queue of {}", queue.external_name());
                (at::LANE + k, at::DMA, name, k)
            }
        };
        let u = uuid(core, n);
        if self.learn(core, n) {
            self.writer.track(seq, u, uuid(core, parent), &name, rank)?;
        }
        Ok((seq, u))
    }

    /// Whether a track is used for the first time.
    fn learn(&mut self, core: usize, n: u64) -> bool {
        let (word, bit) = ((n / 64) as usize, 1 << (n % 64));
        let known = &mut self.cores[core].known[word];
        let new = *known & bit == 0;
        *known |= bit;
        new
    }

    fn label(&mut self, seq: SeqId, core: usize, module: usize, inst: InstId, flows_in: &[Flow]) -> LabelId {
        let kinds = flows_in.iter().fold(0u8, |m, f| m | 1 << (f.kind as u8 & 7));
        if let Some(l) = self.cores[core].labels.get(&(module, inst, kinds)) {
            return *l;
        }
        use tandem_bir::entity::EntityRef as _;
        let none = Named::default();
        let n = self.names.get(module).and_then(|m| m.get(inst.index())).unwrap_or(&none);
        let place = n.pos.as_ref().map(|p| format!("{}:{}", p.file, p.line)).unwrap_or_default();
        let after: Vec<&str> = flows_in.iter().map(|f| f.kind.name()).collect();
        let after = after.join(", ");
        let mut notes = vec![("bir_name", n.name.as_str()), ("opcode", n.opcode.as_str())];
        if n.pos.is_some() {
            notes.push(("nki_source_location", place.as_str()));
        }
        if !after.is_empty() {
            notes.push(("waited_for", after.as_str()));
        }
        let label = Label {
            name: &n.opcode,
            category: "instruction",
            annotations: &notes,
            source: n.pos.as_ref().map(|p| (p.file.as_str(), p.line)),
        };
        let l = self.writer.label(seq, &label);
        self.cores[core].labels.insert((module, inst, kinds), l);
        l
    }

    fn write_slice(&mut self, s: &TraceSlice<'_>) -> io::Result<()> {
        let (seq, track) = self.track(s.core, s.track)?;
        let label = self.label(seq, s.core, s.module, s.inst, s.flows_in);
        let (mut out, mut into) = std::mem::take(&mut self.ids);
        out.clear();
        into.clear();
        // 0 is no flow.
        out.extend(s.flows_out.iter().map(|f| f.id.wrapping_add(1)));
        into.extend(s.flows_in.iter().map(|f| f.id.wrapping_add(1)));
        let numbers = [
            ("execution", s.id),
            ("duration_ps", s.free_ps.saturating_sub(s.start_ps)),
            ("result_ps", s.done_ps.saturating_sub(s.start_ps)),
            ("bytes", s.transfer.map_or(0, |t| t.bytes)),
        ];
        let numbers = if s.transfer.is_some() { &numbers[..] } else { &numbers[..3] };
        let e = SliceEvent { track, label, begin_ps: s.start_ps, flows_out: &out, flows_in: &into, numbers };
        let r = self.writer.begin(seq, &e);
        self.ids = (out, into);
        r?;
        if s.partner_ps > 0 {
            let wait = match self.cores[s.core].wait {
                Some(w) => w,
                None => {
                    let l = Label { name: "waits for partner", category: "wait", ..Label::default() };
                    let w = self.writer.label(seq, &l);
                    self.cores[s.core].wait = Some(w);
                    w
                }
            };
            let end = s.start_ps.saturating_add(s.partner_ps).min(s.free_ps);
            let numbers = [("duration_ps", end.saturating_sub(s.start_ps))];
            let e = SliceEvent {
                track,
                label: wait,
                begin_ps: s.start_ps,
                flows_out: &[],
                flows_in: &[],
                numbers: &numbers,
            };
            self.writer.begin(seq, &e)?;
            self.writer.end(seq, track, end)?;
        }
        self.writer.end(seq, track, s.free_ps)
    }

    fn write_lane(&mut self, l: &TraceLane) -> io::Result<()> {
        let (seq, track) = self.track(l.core, Track::Dma { engine: l.engine, queue: l.queue })?;
        let label = self.label(seq, l.core, l.module, l.inst, &[]);
        let numbers = [
            ("execution", l.slice),
            ("duration_ps", l.end_ps.saturating_sub(l.start_ps)),
            ("bytes", l.bytes),
        ];
        let e = SliceEvent {
            track,
            label,
            begin_ps: l.start_ps,
            flows_out: &[],
            flows_in: &[],
            numbers: &numbers,
        };
        self.writer.begin(seq, &e)?;
        self.writer.end(seq, track, l.end_ps)
    }

    fn write_memory(&mut self, m: &MemoryUse) -> io::Result<()> {
        let seq = self.seq(m.core)?;
        let (n, name) =
            if m.memory == MemoryType::Psum { (at::PSUM, "PSUM in use") } else { (at::SBUF, "SBUF in use") };
        let u = uuid(m.core, n);
        if self.learn(m.core, n) {
            self.writer.bytes_track(seq, u, uuid(m.core, at::PROCESS), name, n)?;
        }
        self.writer.counter(seq, u, m.at_ps, m.bytes)
    }
}

/// Unique id of a track: never 0.
fn uuid(core: usize, track: u64) -> u64 {
    (core as u64).wrapping_add(1).wrapping_mul(at::STRIDE).wrapping_add(track)
}

fn named(p: &Program) -> Vec<Vec<Named>> {
    let of = |locs: &LocTable, i: &tandem_bir::Inst| Named {
        name: i.name.to_string(),
        opcode: i.opcode.to_string(),
        pos: locs.source(i.loc).cloned(),
    };
    p.modules.iter().map(|m| m.insts.values().map(|i| of(&p.locs, i)).collect()).collect()
}

impl<W: Write> TraceSink for PerfettoSink<W> {
    fn begin(&mut self, head: &TraceHead<'_>) {
        self.names = named(head.program);
        self.lnc = head.lnc.max(1);
        self.several = head.cores > self.lnc;
    }
    fn slice(&mut self, slice: &TraceSlice<'_>) {
        self.try_with(|s| s.write_slice(slice));
    }
    fn lane(&mut self, lane: &TraceLane) {
        self.try_with(|s| s.write_lane(lane));
    }
    fn memory(&mut self, usage: &MemoryUse) {
        self.try_with(|s| s.write_memory(usage));
    }
}
