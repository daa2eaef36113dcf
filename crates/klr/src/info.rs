//! What a file holds, in brief: the facts `tandem info` shows.

use crate::ast::{Block, Operator, TensorName};
use crate::container::{Contents, ReadOutcome};
use crate::write::Compat;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Name, element type and extents of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name.
    pub name: String,
    /// KLR name of the element type.
    pub dtype: &'static str,
    /// KLR name of the memory.
    pub memory: &'static str,
    /// All extents, the partition dimension first.
    pub shape: Vec<u64>,
}

/// What one core runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreInfo {
    /// Number of blocks.
    pub blocks: usize,
    /// Number of statements.
    pub statements: usize,
    /// KLR operator name and how often it occurs, in the order of the operator table.
    pub operators: Vec<(&'static str, usize)>,
}

/// The facts of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// `kernel` (one core) or `lnc`.
    pub kind: &'static str,
    /// Version in the header.
    pub version: String,
    /// Metadata text.
    pub metadata: String,
    /// Layout of the structures that changed after 2.24: `current` or `2.24`.
    pub layout: &'static str,
    /// Name of the kernel.
    pub name: String,
    /// Inputs in order.
    pub inputs: Vec<TensorInfo>,
    /// Outputs in order.
    pub outputs: Vec<TensorInfo>,
    /// Buffers all cores share.
    pub shared_buffers: Vec<TensorInfo>,
    /// Tensor and file of each shared constant.
    pub shared_constants: Vec<(String, String)>,
    /// Number of scheduling edges.
    pub edges: usize,
    /// One entry per core.
    pub cores: Vec<CoreInfo>,
    /// Source files the statements come from, sorted.
    pub source_files: Vec<String>,
    /// Code and text of what was unusual.
    pub notes: Vec<(String, String)>,
}

impl Info {
    /// The facts of a file that was read.
    pub fn of(outcome: &ReadOutcome) -> Info {
        let file = &outcome.file;
        let kernel = file.lnc();
        let [major, minor, patch] = file.version;
        let mut files = BTreeSet::new();
        let cores = kernel.bodies.iter().map(|blocks| core(blocks, &mut files)).collect();
        Info {
            kind: match file.contents {
                Contents::Kernel(_) => "kernel",
                Contents::Lnc(_) => "lnc",
            },
            version: format!("{major}.{minor}.{patch}"),
            metadata: file.format.to_string(),
            layout: match outcome.compat {
                Compat::Current => "current",
                Compat::V2_24 => "2.24",
            },
            name: kernel.name.to_string(),
            inputs: tensors(&kernel.inputs),
            outputs: tensors(&kernel.outputs),
            shared_buffers: tensors(&kernel.shared_buffers),
            shared_constants: kernel
                .shared_constants
                .iter()
                .map(|c| (c.name.to_string(), c.file_name.to_string()))
                .collect(),
            edges: kernel.edges.len(),
            cores,
            source_files: files.into_iter().map(str::to_string).collect(),
            notes: outcome.notes.iter().map(|n| (n.code.to_string(), n.message.clone())).collect(),
        }
    }

    /// The facts as JSON.
    pub fn to_json(&self) -> Value {
        let tensors = |list: &[TensorInfo]| -> Value {
            list.iter()
                .map(|t| json!({"name": t.name, "dtype": t.dtype, "memory": t.memory, "shape": t.shape}))
                .collect()
        };
        let core = |c: &CoreInfo| {
            let operators: serde_json::Map<String, Value> =
                c.operators.iter().map(|(name, count)| (name.to_string(), json!(count))).collect();
            json!({"blocks": c.blocks, "statements": c.statements, "operators": operators})
        };
        json!({
            "kind": self.kind,
            "version": self.version,
            "metadata": self.metadata,
            "layout": self.layout,
            "name": self.name,
            "cores": self.cores.len(),
            "inputs": tensors(&self.inputs),
            "outputs": tensors(&self.outputs),
            "shared_buffers": tensors(&self.shared_buffers),
            "shared_constants":
                self.shared_constants.iter().map(|(n, f)| json!({"name": n, "file": f})).collect::<Value>(),
            "edges": self.edges,
            "bodies": self.cores.iter().map(core).collect::<Value>(),
            "source_files": self.source_files,
            "notes": self.notes.iter().map(|(c, m)| json!({"code": c, "message": m})).collect::<Value>(),
        })
    }

    /// The facts as text, a line each.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut line = |label: &str, text: &str| {
            // names come from the file: keep control characters off the terminal
            let text = text.replace(|c: char| c.is_control(), "\u{fffd}");
            let _ = writeln!(out, "{label:<14}{text}");
        };
        line("kind", &format!("KLR {} kernel", self.kind));
        line(
            "version",
            &format!("{} (metadata \"{}\", layout {})", self.version, self.metadata, self.layout),
        );
        line("kernel", &self.name);
        line("cores", &self.cores.len().to_string());
        for (label, list) in
            [("input", &self.inputs), ("output", &self.outputs), ("shared buffer", &self.shared_buffers)]
        {
            for t in list {
                line(label, &format!("{} {} {:?} in {}", t.name, t.dtype, t.shape, t.memory));
            }
        }
        for (name, file) in &self.shared_constants {
            line("constant", &format!("{name} from {file}"));
        }
        if self.edges > 0 {
            line("edges", &self.edges.to_string());
        }
        for (core, c) in self.cores.iter().enumerate() {
            let list: Vec<String> =
                c.operators.iter().map(|(name, count)| format!("{name} {count}")).collect();
            line(
                &format!("core {core}"),
                &format!("{} blocks, {} statements: {}", c.blocks, c.statements, list.join(", ")),
            );
        }
        for file in &self.source_files {
            line("source", file);
        }
        for (code, message) in &self.notes {
            line("note", &format!("{code}: {message}"));
        }
        out
    }
}

fn tensors(list: &[Arc<TensorName>]) -> Vec<TensorInfo> {
    list.iter()
        .map(|t| TensorInfo {
            name: t.name.to_string(),
            dtype: t.dtype.name(),
            memory: t.address.memory.name(),
            shape: t.shape.dims(),
        })
        .collect()
}

fn core<'a>(blocks: &'a [Block], files: &mut BTreeSet<&'a str>) -> CoreInfo {
    let mut counts: BTreeMap<u8, (&'static str, usize)> = BTreeMap::new();
    let mut statements = 0usize;
    for stmt in blocks.iter().flat_map(|b| &b.body) {
        let op: &Operator = &stmt.op;
        counts.entry(op.cbor_index()).or_insert((op.name(), 0)).1 += 1;
        statements += 1;
        if let Some(name) = &stmt.pos.filename {
            files.insert(name);
        }
    }
    CoreInfo { blocks: blocks.len(), statements, operators: counts.into_values().collect() }
}
