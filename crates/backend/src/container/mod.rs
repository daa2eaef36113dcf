//! The bundle container: streams, tables, constants in one deterministic file.
//!
//! The specification, file 08 §10.3, plus one section kind of ours: RECORDS holds what records cannot say (dtypes that share
//! a code, attributes without a field). Execution uses every section but DEBUG.

pub mod format;
mod json;
mod read;
mod write;

pub use read::{Container, check, decode, is_container, read_sections, round_trip};
pub use write::{WriteOptions, encode, write_image};

use tandem_bir::BirEnum as _;

/// Summary of a container: sizes and counts, as JSON with sorted keys.
pub fn info(c: &Container) -> serde_json::Value {
    let streams: Vec<serde_json::Value> = c
        .sections
        .iter()
        .filter(|s| s.kind == format::Kind::Stream)
        .map(|s| {
            let mut by: std::collections::BTreeMap<&'static str, usize> = std::collections::BTreeMap::new();
            for opcode in s.bytes.iter().step_by(crate::encode::BUNDLE_BYTES) {
                *by.entry(crate::encode::opcodes::name(*opcode)).or_default() += 1;
            }
            let engine = tandem_bir::EngineKind::from_ordinal(u16::from(s.engine)).map_or("?", |e| e.name());
            serde_json::json!({"core": s.core, "engine": engine, "bundles": s.bytes.len() / 64, "opcodes": by})
        })
        .collect();
    let manifest = c
        .section(format::Kind::Manifest, format::GLOBAL, 0)
        .and_then(|s| serde_json::from_slice::<serde_json::Value>(&s.bytes).ok())
        .unwrap_or_default();
    serde_json::json!({
        "kind": "bundle container", "version": "1.0", "arch": c.arch.name(), "cores": c.cores,
        "debug": c.flags & format::FLAG_DEBUG != 0, "own_layouts": c.flags & format::FLAG_OWN != 0,
        "bundles": c.num_bundles(), "streams": streams, "manifest": manifest,
    })
}
