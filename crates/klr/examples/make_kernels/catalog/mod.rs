//! Two-core kernels of the shapes users run: clean ones with the value they compute as a numpy expression, and faulty
//! ones made from them by one change.

mod body;
mod matmuls;
mod norms;
mod shared;
mod tokens;

use serde_json::{Map, Value, json};
use std::sync::Arc;
use tandem_klr::ast::{Dtype, LncKernel, TensorName};

/// What must come out of a kernel.
pub(crate) enum Verdict {
    /// No finding, and each output equal to a numpy expression over the inputs within the tolerance.
    Valid { expr: &'static [(&'static str, &'static str)], tolerance: &'static str },
    /// A finding, from the checks or from a run.
    Fault(&'static str),
}

/// One kernel of the catalogue.
pub(crate) struct Entry {
    /// Name of the file, without extension.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) what: &'static str,
    pub(crate) kernel: LncKernel,
    pub(crate) verdict: Verdict,
}

/// All kernels, in the order of the manifest.
pub(crate) fn entries() -> Vec<Entry> {
    let mut all = norms::entries();
    all.extend(matmuls::entries());
    all.extend(tokens::entries());
    all.extend(shared::entries());
    all
}

/// Names and contents of all files: the kernels, and the manifest that `tools/corpus.py` reads.
pub(crate) fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut rows = Vec::new();
    for entry in entries() {
        let file = format!("{}.klr", entry.name);
        rows.push(manifest_row(&entry, &file));
        let bytes =
            tandem_klr::write(&entry.kernel.into()).expect("a kernel of the catalogue can be written");
        files.push((file, bytes));
    }
    let about = "Two-core kernels made by `cargo run -p tandem-klr --example make_kernels`. \
                 The expressions are numpy over the inputs; the format is that of testdata/klr.";
    let manifest = json!({ "about": about, "files": rows });
    let mut text = serde_json::to_vec_pretty(&manifest).expect("plain values");
    text.push(b'\n');
    files.push(("manifest.json".to_owned(), text));
    files
}

fn manifest_row(entry: &Entry, file: &str) -> Value {
    let mut row = Map::new();
    row.insert("name".into(), entry.name.into());
    row.insert("file".into(), file.into());
    row.insert("cores".into(), entry.kernel.bodies.len().into());
    row.insert("what".into(), entry.what.into());
    row.insert("inputs".into(), tensors(&entry.kernel.inputs));
    row.insert("outputs".into(), tensors(&entry.kernel.outputs));
    match &entry.verdict {
        Verdict::Valid { expr, tolerance } => {
            row.insert("verdict".into(), "valid".into());
            let expr: Map<_, _> = expr.iter().map(|(k, v)| ((*k).to_owned(), Value::from(*v))).collect();
            row.insert("expr".into(), Value::Object(expr));
            row.insert("tolerance".into(), (*tolerance).into());
        }
        Verdict::Fault(expected) => {
            row.insert("verdict".into(), "fault".into());
            row.insert("expected".into(), (*expected).into());
        }
    }
    Value::Object(row)
}

fn tensors(list: &[Arc<TensorName>]) -> Value {
    let one = |t: &Arc<TensorName>| {
        let dtype = match t.dtype {
            Dtype::Bfloat16 => "bfloat16",
            _ => "float32",
        };
        json!({ "name": t.name.to_string(), "dtype": dtype, "shape": t.shape.dims() })
    };
    list.iter().map(one).collect()
}
