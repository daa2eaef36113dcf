//! The report for programs. Times in nanoseconds, except in the tables that the vendor's profiler has, too.

use super::{BarrierRow, CoreReport, TimingReport};
use crate::timing::params::Certainty;
use serde_json::{Map, Value, json};
use tandem_bir::EngineKind;
use tandem_bir::diag::SourcePos;

fn ns(ps: u64) -> Value {
    json!(ps as f64 / 1000.0)
}

fn place(pos: &Option<SourcePos>) -> Value {
    pos.as_ref().map_or(Value::Null, |p| json!({"file": p.file.as_str(), "line": p.line}))
}

/// Engine as the profiler's columns spell it, and as its tables print it.
pub(super) fn profiler_name(e: EngineKind) -> (&'static str, &'static str) {
    match e {
        EngineKind::Pe => ("tensor", "Tensor"),
        EngineKind::Activation => ("scalar", "Scalar"),
        EngineKind::Dve => ("vector", "Vector"),
        EngineKind::Pool | EngineKind::Unassigned => ("gpsimd", "GpSimd"),
        EngineKind::Sp | EngineKind::Dma | EngineKind::All => ("sync", "Sync"),
    }
}

impl TimingReport {
    /// One row per core with the column names, units and meanings of the profiler's `Summary` table (Neuron Explorer, profile
    /// schema 7.4.0): times in seconds, shares in percent. Only columns whose quantity the model has. `hardware_flops` counts
    /// matrix products and transposes on the tensor engine, as there; the peak behind `*_estimated_percent` is that of 16-bit
    /// operands on this core, the bandwidth behind `mbu_estimated_percent` this core's share of HBM.
    pub fn summary(&self) -> Vec<Value> {
        self.cores.iter().map(|c| self.summary_of(c)).collect()
    }

    fn summary_of(&self, c: &CoreReport) -> Value {
        let s = |ps: u64| ps as f64 * 1e-12;
        let percent = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
        let total = s(self.total_ps);
        let share = |ps: u64| percent(s(ps), total);
        let mut m = Map::new();
        let mut put = |k: &str, v: Value| {
            m.insert(k.to_owned(), v);
        };
        put("pcore_idx", json!(c.core));
        put("total_time", json!(total));
        let hbm = c.traffic.hbm_read.saturating_add(c.traffic.hbm_written);
        let bandwidth = self.peak_hbm / self.cores.len().max(1) as f64;
        put("hardware_flops", json!(c.matmul_flops.saturating_add(c.transpose_flops)));
        put("transpose_flops", json!(c.transpose_flops));
        put(
            "mm_arithmetic_intensity",
            if hbm == 0 { Value::Null } else { json!(c.matmul_flops as f64 / hbm as f64) },
        );
        put("peak_flops_bandwidth_ratio", json!(self.peak_flops / bandwidth.max(1.0)));
        put("mfu_inst_estimated_percent", json!(percent(c.matmul_flops as f64, self.peak_flops * total)));
        let all = c.matmul_flops.saturating_add(c.transpose_flops);
        put("hfu_estimated_percent", json!(percent(all as f64, self.peak_flops * total)));
        put("mbu_estimated_percent", json!(percent(hbm as f64, bandwidth * total)));
        for (k, n) in [
            ("hbm_read_bytes", c.traffic.hbm_read),
            ("hbm_write_bytes", c.traffic.hbm_written),
            ("sbuf_read_bytes", c.traffic.sbuf_read),
            ("sbuf_write_bytes", c.traffic.sbuf_written),
            ("psum_read_bytes", c.traffic.psum_read),
            ("psum_write_bytes", c.traffic.psum_written),
        ] {
            put(k, json!(n));
        }
        put("dma_active_time", json!(s(c.dma_active_ps)));
        put("dma_active_time_percent", json!(share(c.dma_active_ps)));
        put("dma_packet_time", json!(s(c.dma_busy_ps.iter().sum())));
        put("dma_transfer_time", json!(s(c.transfer_ps)));
        put("dma_transfer_count", json!(c.transfers));
        put("dma_transfer_total_bytes", json!(c.dma_bytes));
        put(
            "dma_transfer_average_bytes",
            if c.transfers == 0 { Value::Null } else { json!(c.dma_bytes as f64 / c.transfers as f64) },
        );
        put("matmul_instruction_count", json!(c.matmuls));
        for e in [EngineKind::Pe, EngineKind::Dve, EngineKind::Activation, EngineKind::Pool, EngineKind::Sp] {
            let name = profiler_name(e).0;
            let x = c.engines.iter().find(|x| x.engine == e);
            let (n, held, busy) = x.map_or((0, 0, 0), |x| (x.instructions, x.held_ps, x.busy_ps));
            put(&format!("{name}_engine_instruction_count"), json!(n));
            put(&format!("{name}_engine_instruction_time"), json!(s(held)));
            put(&format!("{name}_engine_active_time"), json!(s(busy)));
            put(&format!("{name}_engine_active_time_percent"), json!(share(busy)));
        }
        put("cc_op_count", json!(c.swaps));
        put("cc_op_time", json!(s(c.swap_ps)));
        Value::Object(m)
    }

    /// Executions of CoreBarriers with the column names of the profiler's `CoreBarriers` table (times in nanoseconds), and
    /// three columns of ours: `name`, `late_ns` (until the last core arrived) and `last_pcore_idx`.
    pub fn core_barriers(&self) -> Vec<Value> {
        self.barriers
            .iter()
            .map(|b| {
                let BarrierRow { core, name, id, engine, pos, start_ps, end_ps, late_ps, last } = b;
                json!({
                    "start_ts": ns(*start_ps), "end_ts": ns(*end_ps), "duration_ns": ns(end_ps.saturating_sub(*start_ps)),
                    "engine_name": profiler_name(*engine).1, "id": id, "compiler_opcode": "PSEUDO_CORE_BARRIER",
                    "pcore_idx": core, "name": name, "source": place(pos), "late_ns": ns(*late_ps), "last_pcore_idx": last,
                })
            })
            .collect()
    }

    /// The report as JSON; times in nanoseconds.
    pub fn to_json(&self) -> Value {
        let (flops, read, written) = self.sums();
        let mut shares = Map::new();
        for (k, t) in Certainty::ALL.iter().zip(self.by_certainty_ps) {
            shares.insert(k.name().replace(' ', "_"), json!(t as f64 / self.critical_ps.max(1) as f64));
        }
        let cores: Vec<Value> = self
            .cores
            .iter()
            .map(|c| {
                let engines: Vec<Value> = c
                    .engines
                    .iter()
                    .map(|e| {
                        let waits: Map<String, Value> =
                            e.waits_ps.iter().map(|(k, t)| (k.replace(' ', "_"), ns(*t))).collect();
                        json!({"engine": e.engine.to_string(), "instructions": e.instructions, "busy_ns": ns(e.busy_ps),
                            "held_ns": ns(e.held_ps), "waits_ns": waits})
                    })
                    .collect();
                let [software, hardware] = c.dynamic_transfers;
                json!({
                    "core": c.core, "engines": engines, "control_ns": ns(c.control_ps), "core_barriers_ns": ns(c.barrier_ps),
                    "swaps_ns": ns(c.swap_ps), "tokens_ns": ns(c.token_ps), "transfers": c.transfers,
                    "software_dynamic_transfers": software, "hardware_dynamic_transfers": hardware,
                    "dma_bytes": c.dma_bytes,
                    "dma_engine_busy_ns": c.dma_busy_ps.iter().map(|t| ns(*t)).collect::<Vec<_>>(),
                    "dma_active_ns": ns(c.dma_active_ps),
                    "hbm_read_bytes": c.traffic.hbm_read, "hbm_write_bytes": c.traffic.hbm_written,
                    "sbuf_read_bytes": c.traffic.sbuf_read, "sbuf_write_bytes": c.traffic.sbuf_written,
                    "psum_read_bytes": c.traffic.psum_read, "psum_write_bytes": c.traffic.psum_written,
                    "swap_bytes": c.swap_bytes, "flops": c.flops,
                })
            })
            .collect();
        let path: Vec<Value> = self
            .critical
            .iter()
            .map(|s| {
                json!({"core": s.core, "name": s.name, "opcode": s.opcode.to_string(), "source": place(&s.pos), "count": s.count, "ns": ns(s.ps)})
            })
            .collect();
        let syncs: Vec<Value> = self
            .syncs
            .iter()
            .map(|s| {
                json!({"core": s.core, "name": s.name, "opcode": s.opcode.to_string(), "source": place(&s.pos), "count": s.count,
                    "total_ns": ns(s.total_ps), "partner_ns": ns(s.partner_ps)})
            })
            .collect();
        let lines: Vec<Value> =
            self.by_line().iter().map(|(l, t)| json!({"line": l, "ns": ns(*t)})).collect();
        let hbm = read.saturating_add(written);
        json!({
            "back_end": self.back_end.name(), "target": self.generation.name(), "total_ns": ns(self.total_ps),
            "overhead_ns": ns(self.overhead_ps), "critical_path_ns": ns(self.critical_ps), "share_by_certainty": shares,
            "subgraphs_ns": self.subgraphs_ps.iter().map(|t| ns(*t)).collect::<Vec<_>>(),
            "flops": flops, "hbm_read_bytes": read, "hbm_write_bytes": written, "hbm_wait_ns": ns(self.hbm_wait_ps),
            "flops_per_second": self.per_second(flops), "peak_flops_per_second": self.peak(),
            "hbm_bytes_per_second": self.per_second(hbm), "peak_hbm_bytes_per_second": self.peak_hbm,
            "cores": cores, "critical_path": path, "critical_path_by_line": lines, "synchronisation": syncs,
            "Summary": self.summary(), "CoreBarriers": self.core_barriers(), "more_core_barriers": self.more_barriers,
        })
    }
}
