//! Traces in the reference's form: what a viewer reads, checked with a JSON reader against the events that went in.

#[path = "support/events.rs"]
mod events;

use serde_json::Value;
use std::collections::BTreeMap;
use tandem_report::PerfSimSink;
use tandem_sim::timing::TraceSink;
use tandem_sim::timing::trace::{TraceHead, TraceSlice};

/// Time on engines and in transfers, by core, and slices.
#[derive(Default)]
struct Sums {
    held: BTreeMap<usize, u64>,
    transfers: BTreeMap<usize, u64>,
    slices: usize,
}

impl TraceSink for Sums {
    fn begin(&mut self, _: &TraceHead<'_>) {}
    fn slice(&mut self, s: &TraceSlice<'_>) {
        self.slices += 1;
        *self.held.entry(s.core).or_default() += s.free_ps - s.start_ps;
        if let Some(t) = &s.transfer {
            self.slices += 1;
            *self.transfers.entry(s.core).or_default() += t.end_ps - t.start_ps;
        }
    }
}

fn written(slices: u64) -> String {
    let p = events::program(200);
    let mut sink = PerfSimSink::new(Vec::new());
    events::feed(&p, slices, &mut sink);
    String::from_utf8(sink.finish().expect("a Vec takes everything")).expect("UTF-8")
}

#[test]
fn events_have_the_references_fields_and_add_up() {
    let p = events::program(200);
    let mut sums = Sums::default();
    events::feed(&p, 4_000, &mut sums);
    let v: Value = serde_json::from_str(&written(4_000)).expect("an array");
    let list = v.as_array().expect("an array");
    let of = |ph: &str| list.iter().filter(|e| e["ph"] == ph).collect::<Vec<_>>();
    let names: Vec<&str> =
        of("M").iter().filter(|e| e["pid"] == 0).filter_map(|e| e["args"]["name"].as_str()).collect();
    for name in ["0. Unassigned", "4. POOL", "7. ACT", "5. PE", "1. DMA", "6. DVE", "3. SP"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let events = of("X");
    assert_eq!(events.len(), sums.slices);
    assert_eq!(events.len() + of("M").len(), list.len());
    let mut held: BTreeMap<usize, u64> = BTreeMap::new();
    let mut transfers: BTreeMap<usize, u64> = BTreeMap::new();
    for e in &events {
        let a = e["args"].as_object().expect("arguments");
        for k in
            ["bir_id", "bir_name", "opcode", "nki_source_location", "inputs", "outputs", "inst_dump", "deps"]
        {
            assert!(a.contains_key(k), "{k}: {e}");
        }
        assert_eq!(e["name"], a["bir_name"]);
        assert!(a["nki_source_location"].as_str().is_some_and(|s| s.starts_with("kernel.py:")));
        assert!(a["inst_dump"].as_str().is_some_and(|s| s.contains("TensorTensor")), "{e}");
        assert!(e["ts"].as_f64().is_some_and(|t| t >= 0.5), "the fixed overhead comes first");
        let ps = (e["dur"].as_f64().expect("a duration") * 1e6).round() as u64;
        let of = if e["tid"] == 4 { &mut transfers } else { &mut held };
        *of.entry(e["pid"].as_u64().expect("a core") as usize).or_default() += ps;
    }
    assert_eq!((held, transfers), (sums.held, sums.transfers));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(written(500), written(500));
}
