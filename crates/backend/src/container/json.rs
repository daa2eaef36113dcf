//! Canonical JSON: sorted keys, no spaces, integers only.

use serde_json::Value;

/// The canonical text.
pub(super) fn canonical(v: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put(v, &mut out);
    out
}

fn put(v: &Value, out: &mut Vec<u8>) {
    match v {
        Value::Array(a) => {
            out.push(b'[');
            for (i, x) in a.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                put(x, out);
            }
            out.push(b']');
        }
        Value::Object(o) => {
            let mut keys: Vec<&String> = o.keys().collect();
            keys.sort();
            out.push(b'{');
            for (i, k) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(Value::String(k.clone()).to_string().as_bytes());
                out.push(b':');
                if let Some(x) = o.get(k) {
                    put(x, out);
                }
            }
            out.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.extend_from_slice(v.to_string().as_bytes());
        }
    }
}

/// Parses canonical JSON; `None` for anything else.
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    let v: Value = serde_json::from_slice(bytes).ok()?;
    (canonical(&v) == bytes && integers(&v)).then_some(v)
}

fn integers(v: &Value) -> bool {
    match v {
        Value::Number(n) => n.is_i64() || n.is_u64(),
        Value::Array(a) => a.iter().all(integers),
        Value::Object(o) => o.values().all(integers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
