//! No core waits at its end for something that never comes.
//!
//! Definition: inside matched blocks both cores have equally many completion tokens of a location (when tokens order, and the
//! core that has fewer writes the location), and equally many transfers with a remote notification: the k-th of one core
//! answers the k-th of the other. Swaps, collectives, barriers and GPSIMD swaps without a partner are the business of
//! their own checks.
//!
//! May miss: waits inside branches and loops with run-time bounds. Reports falsely: no, when both cores take the same path.

use crate::Cx;
use crate::meet;
use indexmap::IndexMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{Attr, BlockId, CompactString, FuncId, InstId, Level, Module, Opcode, Operand};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered {
        return;
    }
    for (modules, _) in &cx.pairs {
        let sides = modules.map(|m| waits(m, cx.options.tokens_order));
        for (key, list) in sides[0].iter().chain(&sides[1]) {
            let n = [0, 1].map(|s| sides[s].get(key).map_or(0, Vec::len));
            let more = usize::from(n[1] > n[0]);
            if n[0] == n[1] || list.len() != n[more] {
                continue;
            }
            let fewer = 1 - more;
            let (m, other) = (modules[more], modules[fewer]);
            if let What::Token(name) = &key.2
                && !writes(other, name)
            {
                continue;
            }
            let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
            let (f, b, id) = list[n[fewer]];
            let what = match &key.2 {
                What::Token(l) => format!("completion #{} of `{l}`", n[fewer]),
                What::Notice => format!("remote notification #{}", n[fewer]),
            };
            let message = format!(
                "core {} ends with a pending wait: `{}` waits for {what}, which core {} never gives",
                cores[more], m.insts[id].name, cores[fewer]
            );
            let mut d = Diagnostic::new(codes::C0406, message);
            d = d.site(meet::inst_site(cx.program, m, f, b, id).label("first unmatched"));
            match sides[fewer].get(key).and_then(|l| l.last()) {
                Some(&(f, b, id)) => {
                    d = d.site(meet::inst_site(cx.program, other, f, b, id).label("last matched"));
                }
                None => {
                    let mut s = Site { core: other.core, ..Site::default() };
                    s.function = key.0.to_string();
                    s.block = key.1.to_string();
                    d = d.site(s.label(format!("core {} has none in this block", cores[fewer])));
                }
            }
            found.push(d);
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum What {
    Token(CompactString),
    Notice,
}

type Key = (CompactString, CompactString, What);
type Places = IndexMap<Key, Vec<(FuncId, BlockId, InstId)>>;

fn waits(m: &Module, tokens: bool) -> Places {
    let mut out = Places::new();
    for (f, b) in meet::blocks(m) {
        for &id in &m.blocks[b].insts {
            let i = &m.insts[id];
            let what = if i.opcode == Opcode::TensorCompletion && tokens {
                let Some(ap) = i.ins.first().and_then(Operand::as_ap) else { continue };
                What::Token(m.memlocs[ap.loc].owner_name().clone())
            } else if !i.get_ints(Attr::RemoteNotification).is_empty() {
                What::Notice
            } else {
                continue;
            };
            let key = (m.funcs[f].name.clone(), m.blocks[b].name.clone(), what);
            out.entry(key).or_default().push((f, b, id));
        }
    }
    out
}

fn writes(m: &Module, name: &str) -> bool {
    meet::blocks(m).into_iter().any(|(_, b)| {
        m.blocks[b].insts.iter().any(|i| {
            let outs = m.insts[*i].outs.iter().filter_map(Operand::as_ap);
            m.insts[*i].opcode != Opcode::CoreBarrier
                && outs.into_iter().any(|a| *m.memlocs[a.loc].owner_name() == name)
        })
    })
}
