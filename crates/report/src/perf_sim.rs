//! A timed run in the form of the reference compiler's `perf_sim` traces, which existing viewers read.
//!
//! Form and names: the specification, file 10 §5 (the reference's traces: field names confirmed by its book, their exact texts are
//! not published). An array of Chrome trace events: metadata that names processes (one per core, our choice; the reference has
//! one) and threads, then `ph: "X"` events with `ts` and `dur` in microseconds, whose `args` hold `bir_id`, `bir_name`, `opcode`,
//! `nki_source_location`, `inputs`, `outputs`, `inst_dump` and `deps` (`edge_type`, `bir_name`, and `end_time` in nanoseconds of the
//! producer's last execution before). Bundles carry no edges: `deps` is empty for a container.
//!
//! Thread ids are the reference's timelines: 0 unassigned, 1 Pool, 2 Activation, 3 PE, 4 DMA, 5 DVE, 6 SP, 7 what holds all engines. On
//! the DMA thread a transfer stands from its start to its last byte.
//!
//! # Guarantees
//!
//! The same run gives the same bytes. Memory is that of the program, not of the events.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::io::{self, Write};
use tandem_bir::text::print_instructions;
use tandem_bir::{BirEnum as _, EngineKind, InstId, Module, Operand, Program};
use tandem_sim::timing::TraceSink;
use tandem_sim::timing::trace::{TraceHead, TraceSlice, Track};

/// Timelines: thread id, name.
const THREADS: [(u8, &str); 8] = [
    (0, "0. Unassigned"),
    (1, "4. POOL"),
    (2, "7. ACT"),
    (3, "5. PE"),
    (4, "1. DMA"),
    (5, "6. DVE"),
    (6, "3. SP"),
    (7, "8. Barrier"),
];
const DMA: u8 = 4;

fn thread(t: Track) -> u8 {
    match t {
        Track::Control => 7,
        Track::Dma { .. } => DMA,
        Track::Engine(e) => match e {
            EngineKind::Pool => 1,
            EngineKind::Activation => 2,
            EngineKind::Pe => 3,
            EngineKind::Dma => DMA,
            EngineKind::Dve => 5,
            EngineKind::Sp => 6,
            EngineKind::Unassigned | EngineKind::All => 0,
        },
    }
}

/// What is said of every execution of an instruction.
struct Row {
    name: String,
    /// Without `deps`.
    args: Value,
    deps: Vec<(&'static str, InstId)>,
}

/// Writes the events of a timed run as they come.
pub struct PerfSimSink<W: Write> {
    out: W,
    rows: Vec<FxHashMap<InstId, Row>>,
    /// Last end of every instruction, by core.
    ends: FxHashMap<(usize, InstId), u64>,
    first: bool,
    error: Option<io::Error>,
}

impl<W: Write> std::fmt::Debug for PerfSimSink<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfSimSink").finish_non_exhaustive()
    }
}

fn operands(m: &Module, list: &[Operand]) -> Value {
    let aps = list.iter().filter_map(Operand::as_ap).map(|a| {
        json!({
            "name": m.memlocs[a.loc].name.as_str(), "dtype": a.dtype.to_string(), "offset": a.offset,
            "shape": a.pairs.iter().map(|p| p.num).collect::<Vec<_>>(),
            "pattern": a.pairs.iter().map(|p| json!([p.step, p.num])).collect::<Vec<_>>(),
        })
    });
    Value::Array(aps.collect())
}

fn rows(p: &Program, m: &Module) -> FxHashMap<InstId, Row> {
    let walk = m.walk();
    let dumps: FxHashMap<InstId, String> = print_instructions(m, &walk).collect();
    m.insts
        .iter()
        .map(|(id, i)| {
            let at = p.locs.source(i.loc).map_or_else(String::new, |s| format!("{}:{}", s.file, s.line));
            let args = json!({
                "bir_id": id.as_u32(), "bir_name": i.name.as_str(), "opcode": i.opcode.to_string(),
                "nki_source_location": at, "inputs": operands(m, &i.ins), "outputs": operands(m, &i.outs),
                "inst_dump": dumps.get(&id).map_or("", String::as_str),
            });
            let deps = i.deps.iter().map(|d| (d.kind.name(), d.inst)).collect();
            (id, Row { name: i.name.to_string(), args, deps })
        })
        .collect()
}

impl<W: Write> PerfSimSink<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> PerfSimSink<W> {
        PerfSimSink { out, rows: Vec::new(), ends: FxHashMap::default(), first: true, error: None }
    }
    /// The writer, when everything was written.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(e) = self.error {
            return Err(e);
        }
        self.out.flush()?;
        Ok(self.out)
    }
    fn put(&mut self, v: &Value) {
        let start = if std::mem::take(&mut self.first) { "[\n" } else { ",\n" };
        self.write(&format!("{start}{v}"));
    }
    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.out.write_all(text.as_bytes()).err();
        }
    }
    fn event(&mut self, s: &TraceSlice<'_>, tid: u8, from: u64, to: u64) {
        let Some(row) = self.rows.get(s.module).and_then(|r| r.get(&s.inst)) else { return };
        let mut args = row.args.clone();
        let deps: Vec<Value> = row
            .deps
            .iter()
            .filter_map(|(kind, d)| {
                let end = *self.ends.get(&(s.core, *d))?;
                let name = self.rows[s.module].get(d)?.name.as_str();
                Some(json!({"edge_type": kind, "bir_name": name, "end_time": end as f64 / 1e3}))
            })
            .collect();
        if let Some(a) = args.as_object_mut() {
            a.insert("deps".to_owned(), Value::Array(deps));
        }
        let us = |ps: u64| ps as f64 / 1e6;
        let v = json!({
            "name": row.name, "ph": "X", "ts": us(from), "dur": us(to.saturating_sub(from)), "pid": s.core, "tid": tid,
            "args": args,
        });
        self.put(&v);
    }
}

impl<W: Write> TraceSink for PerfSimSink<W> {
    fn begin(&mut self, head: &TraceHead<'_>) {
        self.rows = head.program.modules.iter().map(|m| rows(head.program, m)).collect();
        for core in 0..head.cores {
            let name = format!("core {core}");
            self.put(
                &json!({"name": "process_name", "ph": "M", "pid": core, "tid": 0, "args": {"name": name}}),
            );
            for (tid, name) in THREADS {
                self.put(
                    &json!({"name": "thread_name", "ph": "M", "pid": core, "tid": tid, "args": {"name": name}}),
                );
            }
        }
    }
    fn slice(&mut self, s: &TraceSlice<'_>) {
        self.event(s, thread(s.track), s.start_ps, s.free_ps);
        if let Some(t) = &s.transfer {
            self.event(s, DMA, t.start_ps, t.end_ps);
        }
        self.ends.insert((s.core, s.inst), s.done_ps);
    }
    fn end(&mut self, _total_ps: u64) {
        self.write("\n]\n");
    }
}
