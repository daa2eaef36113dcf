//! Why each swap and collective was lowered as it was: one [`ExplainRow`] per group, as JSON and as text.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tandem_bir::CompactString;

/// One predicate of the transport rule, with the value it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredicateRow {
    /// Short name: `C1`..`C8`, `knob`, `option`, `exchange`.
    pub id: &'static str,
    /// What must hold for GPSIMD.
    pub text: &'static str,
    /// The value.
    pub value: String,
    /// Whether it holds on every core.
    pub holds: bool,
}

/// A barrier of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierRow {
    /// Its name (that it would have, when elided).
    pub name: String,
    /// Inserted, or left out.
    pub inserted: bool,
    /// Why.
    pub why: String,
}

/// Source position of a group's core-0 member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSource {
    /// File.
    pub file: CompactString,
    /// Line.
    pub line: u32,
}

/// The decision on one swap or collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRow {
    /// Name of the core-0 member.
    pub name: String,
    /// Its source position, when known.
    pub source: Option<RowSource>,
    /// Cores that take part.
    pub core_group: Vec<u32>,
    /// Kind of collective.
    pub kind: &'static str,
    /// `gpsimd`, `dma`, `self` or `kept`.
    pub transport: &'static str,
    /// What the kernel asked for: `gpsimd` or nothing.
    pub requested: Option<&'static str>,
    /// Element type of the source.
    pub dtype: &'static str,
    /// Shape of the source pattern, partitions first.
    pub shape: Vec<u64>,
    /// Bytes per partition of the source.
    pub bytes_per_partition: u64,
    /// Bytes per partition after the dtype pad.
    pub effective_bytes_per_partition: u64,
    /// Predicates in order; swaps that are judged alike share them.
    pub predicates: Arc<[PredicateRow]>,
    /// Barriers of the group.
    pub barriers: Vec<BarrierRow>,
    /// Why this transport, and what single change would give the other.
    pub note: Arc<str>,
}

impl ExplainRow {
    /// The row as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "source": self.source.as_ref().map(|s| json!({"file": s.file.as_str(), "line": s.line})),
            "core_group": self.core_group,
            "kind": self.kind,
            "transport": self.transport,
            "requested": self.requested,
            "dtype": self.dtype,
            "shape": self.shape,
            "bytes_per_partition": self.bytes_per_partition,
            "effective_bytes_per_partition": self.effective_bytes_per_partition,
            "predicates": self.predicates.iter().map(|p| json!({
                "id": p.id, "text": p.text, "value": p.value, "holds": p.holds})).collect::<Vec<_>>(),
            "barriers": self.barriers.iter().map(|b| json!({
                "name": b.name, "state": if b.inserted { "inserted" } else { "elided" }, "why": b.why}))
                .collect::<Vec<_>>(),
            "note": &*self.note,
        })
    }
    /// The row for a person.
    pub fn to_text(&self) -> String {
        let mut s = String::new();
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let _ = write!(
            s,
            "{}  {}  {} [{}]  -> {}",
            self.name,
            self.kind,
            self.dtype,
            shape.join(" x "),
            self.transport
        );
        if let Some(p) = &self.source {
            let _ = write!(s, "  ({}:{})", p.file, p.line);
        }
        let _ = writeln!(s);
        if self.bytes_per_partition > 0 {
            let _ = writeln!(
                s,
                "  bytes per partition {}, effective {}; kernel asked for {}",
                self.bytes_per_partition,
                self.effective_bytes_per_partition,
                self.requested.unwrap_or("nothing")
            );
        }
        for p in self.predicates.iter() {
            let mark = if p.holds { "ok  " } else { "FAIL" };
            let _ = writeln!(s, "  {mark} {:<8} {}: {}", p.id, p.text, p.value);
        }
        for b in &self.barriers {
            let state = if b.inserted { "inserted" } else { "elided" };
            let _ = writeln!(s, "  barrier {} {state}: {}", b.name, b.why);
        }
        if !self.note.is_empty() {
            let _ = writeln!(s, "  {}", self.note);
        }
        s
    }
}
