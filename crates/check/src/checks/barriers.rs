//! The core barriers of the two cores pair up.
//!
//! Definition: inside matched blocks the k-th barrier of one core meets the k-th of the other. Both cores have equally
//! many, pairs list the same cores. Different names only warn: this compiler matches barriers by position, the vendor's by
//! name too. A barrier that lists one core alone meets nobody and is left out, unless its
//! counterpart on the other core lists both. Source: the specification, file 04 §10.4,
//! file 05 §8.3, decision D11.
//!
//! May miss: unequal trip counts of loops. Reports falsely: no, when both cores take the same path through their blocks.

use crate::Cx;
use crate::meet::{self, Kind};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Attr, Level};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    for (modules, pairs) in &cx.pairs {
        let modules = *modules;
        for pair in pairs.iter().filter(|p| p.present == [true, true]) {
            let of = |ok: fn(&Kind) -> bool| [0, 1].map(|i| meet::of_kind(&pair.sides[i], ok));
            let [mut a, mut b] = of(|k| *k == Kind::Barrier);
            let [all_a, all_b] = of(|k| matches!(k, Kind::Barrier | Kind::Lone));
            if a.len() != b.len() && all_a.len() == all_b.len() {
                (a, b) = (all_a, all_b); // one side lists itself alone: a matter of lists, not of numbers
            }
            if a.len() != b.len() {
                let (more, n) = if a.len() > b.len() { (0, b.len()) } else { (1, a.len()) };
                let extra = if more == 0 { a[n] } else { b[n] };
                let name = &modules[more].insts[extra.inst].name;
                let core = meet::core(modules[more], more);
                let message = format!(
                    "core barrier `{name}` on core {core} has no partner on core {}",
                    meet::core(modules[1 - more], 1 - more)
                );
                let d = Diagnostic::new(codes::C0301, message);
                let d = meet::unequal(cx.program, modules, d, pair, [&a, &b], "core barrier");
                found.push(
                    d.note("vendor check 1187 (NCC_IXLV000): expectedCBs == coreBarriers[ncId].size()"),
                );
                continue;
            }
            for (k, (x, y)) in a.iter().zip(&b).enumerate() {
                let insts = [&modules[0].insts[x.inst], &modules[1].insts[y.inst]];
                let sites = [meet::site(cx.program, modules[0], x), meet::site(cx.program, modules[1], y)];
                let lists = insts.map(|i| {
                    let mut v = i.get_ints(Attr::Cores).to_vec();
                    v.sort_unstable();
                    v.dedup();
                    // No list stands for all cores.
                    if v.is_empty() { (0..i64::from(cx.program.lnc_size)).collect() } else { v }
                });
                if lists[0] != lists[1] {
                    let message =
                        format!("core barrier #{k} of block `{}` lists different cores", pair.block);
                    let [s0, s1] = sites;
                    let d = Diagnostic::new(codes::C0302, message);
                    let d = d.site(s0.label(format!("cores {:?}", lists[0])));
                    found.push(d.site(s1.label(format!("cores {:?}", lists[1]))));
                } else if insts[0].name != insts[1].name && cx.program.level == Level::Bir {
                    let message = format!(
                        "core barrier #{k} of block `{}` is `{}` on one core and `{}` on the other",
                        pair.block, insts[0].name, insts[1].name
                    );
                    let [s0, s1] = sites;
                    let d = Diagnostic::new(codes::C0303, message).site(s0).site(s1);
                    found.push(d.note("vendor check 1189 (NCC_IXLV002): expectedName == coreBarriers[ncId][index]->getName()"));
                }
            }
        }
    }
}
