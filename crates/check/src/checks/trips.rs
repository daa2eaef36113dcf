//! Loops around a meeting run equally often on both cores.
//!
//! Definition: when matched blocks with meetings lie inside loops whose bounds are constants on both cores, the product of
//! the numbers of rounds of those loops is the same on both. Otherwise one core comes to the meeting more often than the
//! other and waits for ever.
//!
//! May miss: loops with run-time bounds, conditions, branches or breaks inside (the simulator finds those); meetings in
//! functions that a loop calls. Reports falsely: no, when both cores come to the loops equally often.

use crate::Cx;
use crate::meet::{self, Kind};
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Attr, AttrValue, BlockId, InstId, Module, Opcode};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    for (modules, pairs) in &cx.pairs {
        let modules = *modules;
        let nests = modules.map(Nests::new);
        let mut said: FxHashSet<[InstId; 2]> = FxHashSet::default();
        for pair in pairs.iter().filter(|p| p.present == [true, true]) {
            let first = [0, 1].map(|s| pair.sides[s].iter().find(|m| m.kind != Kind::Lone));
            let [Some(a), Some(b)] = first else { continue };
            let loops = [nests[0].loops(modules[0], a.block), nests[1].loops(modules[1], b.block)];
            let [Some(x), Some(y)] = &loops else { continue };
            let total = |l: &[(InstId, i64)]| l.iter().fold(1i64, |n, (_, t)| n.saturating_mul(*t));
            let (n, m) = (total(x), total(y));
            if n == m || x.is_empty() || y.is_empty() {
                continue;
            }
            let at = x.iter().zip(y).position(|(p, q)| p.1 != q.1).unwrap_or(0);
            let (p, q) = (x[at], y[at]);
            if !said.insert([p.0, q.0]) {
                continue;
            }
            let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
            let message = format!(
                "core {} comes {n} times to {} `{}`, core {} {m} times: their loops have different numbers of rounds",
                cores[0],
                a.kind.text(),
                modules[0].insts[a.inst].name,
                cores[1]
            );
            let mut d = Diagnostic::new(codes::C0404, message);
            for (s, (id, rounds)) in [p, q].into_iter().enumerate() {
                let site = tandem_bir::diag::Site::of_inst(&cx.program.locs, modules[s], id);
                d = d.site(site.label(format!("{rounds} rounds on core {}", cores[s])));
            }
            for (s, x) in [a, b].into_iter().enumerate() {
                d = d.site(meet::site(cx.program, modules[s], x).label("inside the loop"));
            }
            found.push(d.help("give both loops the same number of rounds"));
        }
    }
}

/// Which instruction owns a nested block, and which block holds an instruction.
struct Nests {
    owner: FxHashMap<BlockId, (InstId, BlockId)>,
}

impl Nests {
    fn new(m: &Module) -> Nests {
        let mut owner = FxHashMap::default();
        for (_, b) in meet::blocks(m) {
            for &i in &m.blocks[b].insts {
                for &r in m.insts[i].regions() {
                    owner.insert(r, (i, b));
                }
            }
        }
        Nests { owner }
    }

    /// Loops around a block, innermost first, with their rounds; `None` when one is not static.
    fn loops(&self, m: &Module, block: BlockId) -> Option<Vec<(InstId, i64)>> {
        let mut out = Vec::new();
        let mut at = block;
        while let Some(&(i, outer)) = self.owner.get(&at) {
            for &r in m.insts[i].regions() {
                let dynamic = m.blocks[r].insts.iter().any(|x| {
                    matches!(
                        m.insts[*x].opcode,
                        Opcode::CompareAndBranch | Opcode::Break | Opcode::Return | Opcode::Exit
                    )
                });
                if dynamic {
                    return None;
                }
            }
            out.push((i, rounds(m, i)?));
            if out.len() > 64 {
                return None;
            }
            at = outer;
        }
        Some(out)
    }
}

/// Rounds of a loop with constant bounds.
fn rounds(m: &Module, id: InstId) -> Option<i64> {
    let i = &m.insts[id];
    let key = match i.opcode {
        Opcode::Loop => Attr::LoopAxisKey,
        Opcode::DynamicForLoop => Attr::DynamicForLoopAxis,
        _ => return None,
    };
    let Some(AttrValue::Json(v)) = i.attrs.get(key) else { return None };
    let bound = |k: &str| -> Option<i64> {
        let v = v.get(k)?;
        if let Some(n) = v.as_i64() {
            return Some(n);
        }
        let terms = v.get("terms")?.as_array()?;
        if terms.is_empty() { v.get("c")?.as_i64() } else { None }
    };
    let (lb, ub) = (bound("lb")?, bound("ub")?);
    let stride = v.get("stride").map_or(Some(1), serde_json::Value::as_i64).filter(|s| *s > 0)?;
    let span = ub.checked_sub(lb)?.max(0);
    Some(span / stride + i64::from(span % stride != 0))
}
