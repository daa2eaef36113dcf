//! The block of JSON that the charts are drawn from.
//!
//! Times are picoseconds; those of items are differences to the end of the item before. `report.js` reads exactly this form.

use super::code::Code;
use super::{ReportInput, memory};
use crate::picture::{ENGINES, End, Picture, Row};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use tandem_bir::inst::Family;
use tandem_bir::{EngineKind, InstId, MemoryType, Program};

/// The block, safe inside a script element: `<`, `>` and `&` are written as escapes, so that neither `</script>` nor `<!--` can
/// stand in it, and the two line separators that old scripts took for line ends.
pub(super) fn json(r: &ReportInput<'_>, code: &Code) -> String {
    let v = match (&r.timed, r.program) {
        (Some(t), Some(p)) => build(r, p, t.picture, code),
        _ => Value::Null,
    };
    escape(&v.to_string())
}

pub(super) fn escape(json: &str) -> String {
    let mut s = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => s.push_str("\\u003c"),
            '>' => s.push_str("\\u003e"),
            '&' => s.push_str("\\u0026"),
            '\u{2028}' => s.push_str("\\u2028"),
            '\u{2029}' => s.push_str("\\u2029"),
            c => s.push(c),
        }
    }
    s
}

fn build(r: &ReportInput<'_>, program: &Program, p: &Picture, code: &Code) -> Value {
    let mut labels: IndexMap<(u32, InstId), Value> = IndexMap::new();
    let index: FxHashMap<(usize, Row), usize> =
        p.lanes.iter().enumerate().map(|(i, l)| ((l.core, l.row), i)).collect();
    let lanes: Vec<Value> = p
        .lanes
        .iter()
        .map(|l| {
            let mut flat: Vec<u64> = Vec::with_capacity(l.items.len() * 6);
            let mut at = 0;
            for i in &l.items {
                let entry = labels.entry((i.module, i.inst));
                let k = entry.index();
                entry.or_insert_with(|| label(program, i.module, i.inst, code));
                let span = i.end_ps.saturating_sub(i.start_ps);
                let held = if i.held_ps == span { 0 } else { i.held_ps };
                flat.extend([i.start_ps.saturating_sub(at), span, k as u64, i.partner_ps, i.count, held]);
                at = i.end_ps;
            }
            let (kind, name) = match l.row {
                Row::Control => ("c", "all".to_owned()),
                Row::Engine(e) => {
                    let e = ENGINES.get(usize::from(e)).copied().unwrap_or(EngineKind::Unassigned);
                    ("e", e.external_name().to_owned())
                }
                Row::Dma(k) => ("d", format!("DMA {k}")),
            };
            json!({"c": l.core, "k": kind, "n": name, "s": flat})
        })
        .collect();
    let end = |e: &End| index.get(&(e.core, e.row)).map(|i| [*i as u64, e.start_ps, e.at_ps]);
    let arrows: Vec<Value> = p
        .arrows
        .iter()
        .filter_map(|a| {
            let (f, t) = (end(&a.from)?, end(&a.to)?);
            Some(json!([a.kind.name(), f[0], f[1], f[2], t[0], t[1], t[2]]))
        })
        .collect();
    json!({
        "total": p.total_ps, "overhead": p.overhead_ps, "lanes": lanes,
        "labels": labels.into_values().collect::<Vec<_>>(), "arrows": arrows, "memory": maps(r, program),
    })
}

/// Name, type, source line, colour class, anchor.
fn label(program: &Program, module: u32, inst: InstId, code: &Code) -> Value {
    let Some(i) = program.modules.get(module as usize).and_then(|m| m.insts.get(inst)) else {
        return json!(["?", "?", "", 0, ""]);
    };
    let place = program.locs.source(i.loc).map_or_else(String::new, |p| format!("{}:{}", p.file, p.line));
    let anchor = code.anchor(module as usize, inst).unwrap_or_default();
    json!([i.name.as_str(), i.opcode.to_string(), place, class(i.spec().family), anchor])
}

/// Colour: 0 compute, 1 moving data, 2 meetings of cores, 3 control flow.
fn class(f: Family) -> u8 {
    match f {
        Family::Sync | Family::Collective | Family::OnChipMove => 2,
        Family::Dma | Family::DataMove | Family::DmaDescriptor | Family::Queue => 1,
        Family::Control | Family::Terminator | Family::Register | Family::Structured => 3,
        Family::Generic
        | Family::Activation
        | Family::Matmul
        | Family::Fill
        | Family::Rank
        | Family::Pool
        | Family::Elementwise
        | Family::Copy
        | Family::Gather
        | Family::Reduce
        | Family::TensorScalar
        | Family::BatchNorm
        | Family::Select
        | Family::Kernel
        | Family::Debug
        | Family::Rng
        | Family::Misc
        | Family::Search
        | Family::Mx
        | Family::Macro => 0,
    }
}

fn maps(r: &ReportInput<'_>, program: &Program) -> Vec<Value> {
    let Some(t) = &r.timed else { return Vec::new() };
    let spec = program.arch().spec();
    let mut maps: IndexMap<(usize, &'static str), Vec<Value>> = IndexMap::new();
    for p in memory::drawn(memory::placed(program, t)) {
        let set = program.modules[p.life.module].set_of(p.life.loc);
        let shape: Vec<String> = set.shape.iter().map(u64::to_string).collect();
        maps.entry((p.life.core, p.memory())).or_default().push(json!([
            p.loc.name.as_str(),
            p.addr,
            p.loc.row_bytes(),
            p.loc.base,
            p.loc.rows(),
            p.life.start_ps,
            p.life.end_ps,
            format!("{} [{}]", set.dtype, shape.join(" × ")),
        ]));
    }
    maps.into_iter()
        .map(|((core, memory), tensors)| {
            let psum = memory == "PSUM";
            let curve = t
                .picture
                .curves
                .iter()
                .find(|c| c.core == core && (c.memory == MemoryType::Psum) == psum);
            let points: Vec<u64> =
                curve.map(|c| c.points.iter().flat_map(|(a, b)| [*a, *b]).collect()).unwrap_or_default();
            let size = spec.map_or(0, |s| if psum { s.psum_bytes } else { s.sbuf_bytes });
            json!({"c": core, "m": memory, "size": size, "t": tensors, "u": points, "peak": curve.map_or(0, |c| c.peak)})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn a_script_cannot_be_left_and_the_value_survives() {
        let text = "</script><!-- & \u{2028}\u{2029} \"";
        let v = serde_json::json!([text]);
        let s = escape(&v.to_string());
        assert!(!s.contains('<') && !s.contains('>') && !s.contains('\u{2028}'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&s).expect("JSON"), v);
    }
}
