//! Every number of the timing model, in one table: name, value per generation, unit, source, certainty.
//!
//! Sources are sections of the specification, file 10, and the public documents those sections name. A number that nobody
//! publishes is *our choice* and says so; the report adds up which share of a predicted time rests on which class.

use serde_json::{Map, Value, json};
use tandem_bir::ArchLevel;
use tandem_bir::diag::{Code, Diagnostic, codes};

/// Chip generation of a timing run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Second-generation cores.
    Trn1,
    /// Third generation.
    Trn2,
    /// Fourth generation.
    Trn3,
}

impl Generation {
    /// Generation of an architecture level; `None` for levels without a model.
    pub fn of(level: ArchLevel) -> Option<Generation> {
        match level {
            ArchLevel::Sunda => Some(Generation::Trn1),
            ArchLevel::Gen3 => Some(Generation::Trn2),
            ArchLevel::CoreV4 => Some(Generation::Trn3),
            ArchLevel::Inferentia | ArchLevel::CoreV5 => None,
        }
    }
    /// Command-line name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

const NAMES: [&str; 3] = ["trn1", "trn2", "trn3"];

/// Which formulas give the costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackEnd {
    /// Documented instruction costs and the DMA model of 16 engines.
    #[default]
    Doc,
    /// The cost formulas of the reference compiler, as far as they are published.
    Hwm,
    /// One nanosecond per instruction; no pipelines, no latencies.
    Unit,
}

impl BackEnd {
    /// Reads `doc`, `hwm` or `unit`.
    pub fn parse(text: &str) -> Option<BackEnd> {
        match text {
            "doc" => Some(BackEnd::Doc),
            "hwm" => Some(BackEnd::Hwm),
            "unit" => Some(BackEnd::Unit),
            _ => None,
        }
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            BackEnd::Doc => "doc",
            BackEnd::Hwm => "hwm",
            BackEnd::Unit => "unit",
        }
    }
}

/// How sure a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// A public document states it.
    Documented,
    /// Read off pictures or curves, or deduced from documented numbers.
    Inferred,
    /// Nobody states it; a plausible value.
    OurChoice,
    /// Replaced by the user's calibration file.
    Calibrated,
}

impl Certainty {
    /// All classes in report order.
    pub const ALL: [Certainty; 4] =
        [Certainty::Documented, Certainty::Inferred, Certainty::OurChoice, Certainty::Calibrated];
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::Documented => "documented",
            Certainty::Inferred => "inferred",
            Certainty::OurChoice => "our choice",
            Certainty::Calibrated => "calibrated",
        }
    }
}

/// One number of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name, as a calibration file spells it.
    pub name: &'static str,
    /// Value on trn1, trn2, trn3.
    pub values: [f64; 3],
    /// Unit.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// How sure it is.
    pub certainty: Certainty,
}

macro_rules! params {
    ($($(#[$doc:meta])* $id:ident $name:literal [$a:literal, $b:literal, $c:literal] $unit:literal $cert:ident $source:literal;)*) => {
        /// Key of a number in [`Params`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the table beside each name says what it is")]
        pub enum P { $($id),* }
        const DEFAULTS: &[Param] = &[$(Param {
            name: $name, values: [$a, $b, $c], unit: $unit, source: $source, certainty: Certainty::$cert,
        }),*];
    };
}

params! {
    FixedOverhead "fixed_overhead" [500.0, 500.0, 500.0] "ns" Inferred "file 10 §5: constant 500 of the reference scheduler; that it is a start-up cost is our reading";
    ClockPe "clock_pe" [2.8, 2.4, 2.4] "GHz" Documented "file 10 §1";
    ClockAct "clock_act" [1.4, 1.2, 1.2] "GHz" Documented "file 10 §1";
    ClockDve "clock_dve" [1.12, 0.96, 1.2] "GHz" Documented "file 10 §1";
    ClockPool "clock_pool" [1.4, 1.2, 1.2] "GHz" Documented "file 10 §1";
    ClockSp "clock_sp" [1.4, 1.2, 1.2] "GHz" Inferred "file 10 §1: the clock of Activation and Pool";
    MinInterval "min_interval" [64.0, 64.0, 64.0] "cycles" Documented "file 10 §2: smallest initiation interval";
    PoolStart "pool_start" [150.0, 150.0, 150.0] "cycles" Documented "file 10 §2: start-up of a GpSimd instruction";
    DynamicCopy "dynamic_copy_min" [600.0, 600.0, 600.0] "cycles" Documented "file 10 §2: copy with a run-time offset";
    WideStride "wide_stride" [2.0, 2.0, 2.0] "cycles" Inferred "file 10 §2: an innermost stride above 16 bytes halves a tensor port: cycles per element and lane; documented for trn1";
    AccRead "accumulator_read" [64.0, 64.0, 64.0] "cycles" Documented "file 10 §2: accumulator read";
    PipeAct16 "pipe_act_16bit" [200.0, 222.0, 222.0] "cycles" Inferred "file 10 §7.1: 264 measured less 64 (trn1), reference init (trn3), analogy (trn2)";
    PipeAct32 "pipe_act_32bit" [200.0, 172.0, 172.0] "cycles" Inferred "file 10 §7.1";
    PipeDve "pipe_dve" [112.0, 112.0, 112.0] "cycles" Inferred "file 10 §7.1: ~100 cycles documented, 112 by the Mamba fit";
    PipePool "pipe_pool" [150.0, 150.0, 150.0] "cycles" Inferred "file 10 §7.1: equal to the start-up";
    PipePe "pipe_pe" [143.0, 167.0, 167.0] "ns" Inferred "file 10 §4: 200-cycle term of the matmul estimator";
    PeLoad "pe_load" [32.0, 32.0, 32.0] "cycles" Documented "file 10 §2: loading 128 rows of stationary data with fast load, 128/4; hidden behind the previous product";
    PeRamp "pe_ramp" [0.0, 3000.0, 3000.0] "ns" Inferred "file 10 §2: PE limited to about half speed until 3 us of activity; the shape is not published; 0 switches it off";
    PeRampIdle "pe_ramp_idle" [1500.0, 1500.0, 1500.0] "ns" OurChoice "idle time after which the PE limit is armed again: half of the 3 us window";
    SemLocal "sem_local" [60.0, 60.0, 60.0] "ns" OurChoice "file 10 §7.1: semaphore update to waiter on one core, unvalidated";
    SemDma "sem_dma" [300.0, 300.0, 300.0] "ns" Inferred "file 10 §3.2: 290 to 310 ns from last byte to consumer in profiler pictures";
    DmaStart "dma_start" [750.0, 750.0, 750.0] "ns" Inferred "file 10 §3.2: 620 to 780 ns from trigger to first byte in pictures";
    DmaStagger "dma_stagger" [25.0, 25.0, 25.0] "ns" Inferred "file 10 §7.1: start delay per DMA engine index";
    DmaDesc "dma_desc" [12.0, 12.0, 12.0] "ns" Inferred "file 10 §7.1: floor per contiguous piece and engine";
    DmaInterval "dma_interval" [850.0, 850.0, 850.0] "ns" Inferred "file 10 §3.2: constant interval of small transfers of one queue";
    DmaTail "dma_tail" [50.0, 50.0, 50.0] "ns" Inferred "file 10 §7.1: per transfer, curve above 4 KiB";
    DmaPacket "dma_packet" [4096.0, 4096.0, 4096.0] "B" Documented "file 10 §3.1: default packet";
    DmaClasses "dma_priority_classes" [0.0, 0.0, 1.0] "flag" Documented "file 10 §3.1: round robin over queues (0) or priority classes (1); weights are not published, P0 goes first by our choice";
    DmaBw "dma_engine_bandwidth" [17.0, 23.0, 33.0] "B/ns" Documented "file 10 §1: achievable per DMA engine";
    HbmLone "hbm_bandwidth_one_core" [410.0, 358.0, 589.0] "B/ns" Inferred "file 10 §1: public driver figures, read as per LNC";
    HbmPair "hbm_bandwidth_two_cores" [820.0, 716.0, 1178.0] "B/ns" Inferred "file 10 §1: public driver figures, read as per LNC";
    HbmWindow "hbm_window" [1000.0, 1000.0, 1000.0] "ns" OurChoice "file 10 §7.2: window over which the HBM cap holds";
    DgeHard "dge_hardware" [0.0, 600.0, 600.0] "ns" Documented "file 10 §3.1: one instruction of a hardware descriptor generator; 0: there is none";
    DgeUnits "dge_units" [1.0, 2.0, 2.0] "units" Documented "file 10 §1";
    DgeSoft "dge_software" [357.0, 583.0, 583.0] "ns" Inferred "file 10 §3.3: Pool busy per run-time-addressed transfer it issues";
    DmaTransposeHbm "dma_transpose_hbm" [0.9, 0.9, 0.9] "fraction" Documented "file 10 §3.1: share of copy throughput";
    DmaTransposeChip "dma_transpose_chip" [0.5, 0.5, 0.5] "fraction" Documented "file 10 §3.1";
    DmaCce "dma_compute" [0.5, 0.5, 1.0] "fraction" Documented "file 10 §3.1: compute or accumulate in DMA";
    ActTable "act_table_load" [1300.0, 1300.0, 1300.0] "ns" Inferred "file 10 §2: profiler picture";
    Branch "branch" [100.0, 100.0, 100.0] "cycles" OurChoice "file 10 §7.1: branch or loop back edge";
    Plain "sequencer_instruction" [20.0, 20.0, 20.0] "cycles" OurChoice "file 10 §7.1: instruction without data path, DMA trigger, register instruction";
    RemoteSem "remote_semaphore" [700.0, 700.0, 700.0] "ns" OurChoice "file 10 §7.1: one way between cores, about a DMA start";
    SwapBase "sb2sb_base" [500.0, 500.0, 450.0] "ns" OurChoice "file 10 §7.4: swap of at most the knee";
    SwapKnee "sb2sb_knee" [56.0, 56.0, 56.0] "B/partition" Documented "file 10 §4: break of the piecewise-linear curve";
    SwapSlopeLow "sb2sb_slope_below" [0.0, 0.0, 0.0] "ns/B" OurChoice "file 10 §7.4";
    SwapSlopeHigh "sb2sb_slope_above" [0.84, 0.84, 0.84] "ns/B" Inferred "file 10 §7.4: 128 partitions at 153 GB/s";
    Hop "collective_hop" [1500.0, 1500.0, 1500.0] "ns" Inferred "file 10 §6: 1 to 2 us per hop inside a node";
    StreamBw "collective_bandwidth" [272.0, 276.0, 264.0] "B/ns" Inferred "file 10 §5: share of the first collective stream of the DMA bandwidth";
    UnitCost "unit_cost" [1.0, 1.0, 1.0] "ns" OurChoice "the `unit` back end: every instruction";
    HwmClock "hwm_divisor" [1.4, 1.2, 1.2] "GHz" Documented "file 10 §4: frequency divisor of Pool, Activation and PE";
    HwmClockDve "hwm_divisor_dve" [1.12, 0.96, 1.2] "GHz" Documented "file 10 §4";
    HwmDmaInit "hwm_dma_init" [1300.0, 1300.0, 1300.0] "ns" Documented "file 10 §3.3";
    HwmDmaDiv "hwm_dma_divisor" [17.0, 23.0, 33.0] "B/ns" Documented "file 10 §3.3; trn3 by the bandwidth guide";
    HwmOverlap "hwm_overlap" [100.0, 100.0, 100.0] "ns" Documented "file 10 §5: overlap of long compute instructions";
    HwmMult "hwm_multiplier" [1.0, 1.0, 1.0] "factor" OurChoice "file 10 §4: 1 to 3 by type, table not published";
}

/// The numbers of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Which formulas use them.
    pub back_end: BackEnd,
    table: Vec<Param>,
}

impl Default for Params {
    fn default() -> Params {
        Params { back_end: BackEnd::Doc, table: DEFAULTS.to_vec() }
    }
}

impl Params {
    /// The preset of file 10 §7.1 whose transfers start later, so that start and semaphore make up the documented 1,300 ns
    /// between a semaphore and a transfer's start.
    pub fn conservative(&mut self) {
        let row = &mut self.table[P::DmaStart as usize];
        row.values = [1000.0; 3];
        row.certainty = Certainty::Documented;
        row.source = "file 10 §3.1: ~1300 ns from semaphore to start, less sem_dma (preset conservative)";
    }
    /// Switches off the PE array's current limit.
    pub fn without_pe_ramp(&mut self) {
        self.table[P::PeRamp as usize].values = [0.0; 3];
    }
    /// The default numbers for a back end.
    pub fn new(back_end: BackEnd) -> Params {
        Params { back_end, ..Params::default() }
    }
    /// All rows in table order.
    pub fn rows(&self) -> &[Param] {
        &self.table
    }
    /// A number on a generation.
    pub fn get(&self, p: P, g: Generation) -> f64 {
        self.table[p as usize].values[g as usize]
    }
    /// How sure a number is.
    pub fn certainty(&self, p: P) -> Certainty {
        self.table[p as usize].certainty
    }
    /// Replaces a number on all generations; it counts as calibrated from then on. Negative numbers become 0.
    pub fn set(&mut self, p: P, values: [f64; 3]) {
        let row = &mut self.table[p as usize];
        row.values = values.map(|v| if v.is_finite() && v >= 0.0 { v.min(1e12) } else { 0.0 });
        row.certainty = Certainty::Calibrated;
    }

    /// Reads a calibration file: `{"name": number}` for all generations or `{"name": {"trn2": number}}` for some.
    ///
    /// # Errors
    /// Text that is no such object (U0002), names that do not exist (U0001), numbers out of range (U0005).
    pub fn calibrate(&mut self, text: &str) -> Result<(), Diagnostic> {
        let bad = |code: Code, text: String| Diagnostic::new(code, text);
        let v: Value = serde_json::from_str(text)
            .map_err(|e| bad(codes::U0002, format!("the calibration file is no JSON: {e}")))?;
        let Value::Object(map) = v else {
            return Err(bad(codes::U0002, "the calibration file is no JSON object".into()));
        };
        for (name, v) in &map {
            let Some(row) = self.table.iter_mut().find(|r| r.name == name) else {
                return Err(bad(codes::U0001, format!("the timing model has no number `{name}`"))
                    .help("`tandem time --list-params` prints all names"));
            };
            let number = |v: &Value| -> Result<f64, Diagnostic> {
                // Divisors must not vanish.
                let divisor = ["GHz", "B/ns", "fraction", "units", "B"].contains(&row.unit);
                let least = if divisor { 1e-3 } else { 0.0 };
                v.as_f64().filter(|x| (least..=1e9).contains(x)).ok_or_else(|| {
                    bad(codes::U0005, format!("`{name}` takes a number from {least} to 1e9, not {v}"))
                })
            };
            let mut values = row.values;
            match v {
                Value::Object(per) => {
                    for (g, v) in per {
                        let Some(k) = NAMES.iter().position(|n| n == g) else {
                            return Err(bad(
                                codes::U0001,
                                format!("`{name}`: `{g}` is no generation; known: trn1, trn2, trn3"),
                            ));
                        };
                        values[k] = number(v)?;
                    }
                }
                v => values = [number(v)?; 3],
            }
            row.values = values;
            row.certainty = Certainty::Calibrated;
        }
        Ok(())
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .table
            .iter()
            .map(|r| {
                let mut m = Map::new();
                m.insert("name".into(), json!(r.name));
                for (n, v) in NAMES.iter().zip(r.values) {
                    m.insert((*n).into(), json!(v));
                }
                m.insert("unit".into(), json!(r.unit));
                m.insert("certainty".into(), json!(r.certainty.name()));
                m.insert("source".into(), json!(r.source));
                Value::Object(m)
            })
            .collect();
        json!({"back_end": self.back_end.name(), "params": rows})
    }

    /// The table for people.
    pub fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let mut s = format!(
            "{:<24} {:>8} {:>8} {:>8}  {:<11}  {:<10}  source\n",
            "name", "trn1", "trn2", "trn3", "unit", "certainty"
        );
        for r in &self.table {
            let [a, b, c] = r.values;
            let (n, u, k) = (r.name, r.unit, r.certainty.name());
            let _ = writeln!(s, "{n:<24} {a:>8} {b:>8} {c:>8}  {u:<11}  {k:<10}  {}", r.source);
        }
        s
    }
}

/// A stretch of time in picoseconds, split by how sure its numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span(pub [u64; 4]);

impl Span {
    /// Nothing.
    pub const ZERO: Span = Span([0; 4]);
    /// A time of one class.
    pub fn of(ps: u64, c: Certainty) -> Span {
        let mut s = Span::ZERO;
        s.0[c as usize] = ps;
        s
    }
    /// All of it.
    pub fn ps(self) -> u64 {
        self.0.iter().fold(0u64, |a, b| a.saturating_add(*b))
    }
    /// Both.
    pub fn plus(self, o: Span) -> Span {
        let mut s = self;
        for (a, b) in s.0.iter_mut().zip(o.0) {
            *a = a.saturating_add(b);
        }
        s
    }
    /// `n` times.
    pub fn times(self, n: u64) -> Span {
        Span(self.0.map(|a| a.saturating_mul(n)))
    }
}

/// Nanoseconds as whole picoseconds, never negative, saturating.
pub fn ps(ns: f64) -> u64 {
    (ns * 1000.0).round() as u64
}
