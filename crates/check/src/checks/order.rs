//! Both cores come to their meetings in the same order.
//!
//! Definition: inside matched blocks the sequences of meetings (swaps by pipe, other collectives, barriers, lowered swaps,
//! tokens by name) are equal position by position. Where they differ although both cores have the same meetings, each core
//! waits at a meeting that the other reaches only later: a deadlock. Crossed pipes are the special case of decision D15.
//! On a lowered program, where engines run on their own, such a difference counts only when the queues of the two cores do come to a
//! stop ([`crate::clocks`]). A lowered program without choices whose queues come to a stop in another way (an edge of one core, a token
//! of the other) is reported as well, when no other check has said why. Blocks with meetings that only one core has are
//! reported too. Unequal numbers are the business of the other checks.
//!
//! May miss: orders that depend on branches or loops. Reports falsely: no, when both cores take the same path.

use crate::meet::{self, BlockPair, Kind, Meeting};
use crate::{Cx, Ranks, clocks, stretches};
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Code, Diagnostic, Site, codes};
use tandem_bir::{InstId, Level, Module};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    for (modules, pairs) in &cx.pairs {
        let modules = *modules;
        for pair in pairs {
            if pair.present == [true, true] {
                crossing(cx, modules, pair, found);
            } else {
                let side = usize::from(!pair.present[0]);
                let Some(first) = pair.sides[side].iter().find(|m| m.kind != Kind::Lone) else { continue };
                let (core, other) =
                    (meet::core(modules[side], side), meet::core(modules[1 - side], 1 - side));
                let message = format!(
                    "block `{}` of core {core} waits for core {other}, which has no such block in `{}`",
                    pair.block, pair.func
                );
                let d = Diagnostic::new(codes::C0403, message);
                found.push(d.site(meet::site(cx.program, modules[side], first)));
            }
        }
    }
}

/// A program without choices whose queues come to a stop for a reason that no other check has found.
pub(crate) fn stuck(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    let meetings = ["C01", "C02", "C03", "C04", "C11"];
    let known =
        found.iter().any(|d| d.is_error() && meetings.iter().any(|p| d.code.info().id.starts_with(p)));
    if cx.program.level != Level::Lowered || known {
        return;
    }
    for (modules, _) in &cx.pairs {
        let modules = *modules;
        let [Some(a), Some(b)] = modules.map(stretches::straight) else { continue };
        let lists = [a, b].map(|l| l.into_iter().map(|p| p.2).collect::<Vec<_>>());
        let ranks = matches!(cx.options.ranks, Ranks::Lncs(_));
        let none = |_: usize, _: InstId| false;
        let Err(waiting) = clocks::order(
            modules,
            cx.shared(modules),
            [&lists[0], &lists[1]],
            cx.options.tokens_order,
            ranks,
            &none,
        ) else {
            continue;
        };
        let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
        let at = |c: usize| waiting.iter().find(|w| w.0 == c).map(|w| &modules[c].insts[w.1].name);
        let text = |c: usize| match at(c) {
            Some(n) => format!("core {} waits at `{n}`", cores[c]),
            None => format!("core {} has ended", cores[c]),
        };
        let mut d = Diagnostic::new(codes::C0401, format!("deadlock: {}, {}", text(0), text(1)));
        let place = |c: usize, id: InstId| {
            meet::blocks(modules[c]).into_iter().find(|(_, b)| modules[c].blocks[*b].insts.contains(&id))
        };
        for &(c, id) in &waiting {
            if let Some((f, b)) = place(c, id) {
                d = d.site(meet::inst_site(cx.program, modules[c], f, b, id).label("waits for ever"));
            }
        }
        for c in 0..2 {
            if at(c).is_none() {
                d = d.site(Site::on_core(tandem_bir::CoreId(cores[c])).label("has ended"));
            }
        }
        found.push(d.help(
            "follow the edges and queues from each place to the other: they form a circle through both cores",
        ));
    }
}

fn crossing(cx: &Cx<'_>, modules: [&Module; 2], pair: &BlockPair, found: &mut Vec<Diagnostic>) {
    let [a, b] = [0, 1].map(|i| meet::of_kind(&pair.sides[i], |k| *k != Kind::Lone));
    let Some(k) = a.iter().zip(&b).position(|(x, y)| x.kind != y.kind) else { return };
    let mut count: FxHashMap<&Kind, i64> = FxHashMap::default();
    a.iter().for_each(|m| *count.entry(&m.kind).or_insert(0) += 1);
    b.iter().for_each(|m| *count.entry(&m.kind).or_insert(0) -= 1);
    if count.values().any(|n| *n != 0) {
        return; // something is missing on one side; its own check says what
    }
    let (x, y) = (a[k], b[k]);
    if cx.program.level == Level::Lowered {
        let lists = [x, y].map(|m| m.block);
        let lists = [0, 1].map(|i| vec![modules[i].blocks[lists[i]].insts.clone()]);
        let ranks = matches!(cx.options.ranks, Ranks::Lncs(_));
        let none = |_: usize, _: InstId| false;
        if clocks::order(
            modules,
            cx.shared(modules),
            [&lists[0], &lists[1]],
            cx.options.tokens_order,
            ranks,
            &none,
        )
        .is_ok()
        {
            return;
        }
    }
    let pipes = matches!((&x.kind, &y.kind), (Kind::Swap(_), Kind::Swap(_)));
    let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
    let name = |i: usize, m: &Meeting| modules[i].insts[m.inst].name.clone();
    let what = |i: usize, m: &Meeting| format!("{} `{}`", m.kind.text(), name(i, m));
    let message = format!(
        "deadlock: core {} waits at {} while core {} waits at {}",
        cores[0],
        what(0, x),
        cores[1],
        what(1, y)
    );
    let code: Code = if pipes { codes::C0402 } else { codes::C0401 };
    let mut d = Diagnostic::new(code, message);
    let at =
        |i: usize, m: &Meeting, label: &str| -> Site { meet::site(cx.program, modules[i], m).label(label) };
    d = d.site(at(0, x, "first unmatched")).site(at(1, y, "first unmatched"));
    if let Some(p) = k.checked_sub(1) {
        d = d.site(at(0, a[p], "last matched")).site(at(1, b[p], "last matched"));
    } else {
        d = d.note("these are the first meetings of the block on both cores");
    }
    if pipes {
        d = d.note(
            "swaps of one pipe id pair in order; the vendor's text lets different pipes progress independently, but the \
             barriers around lowered swaps meet in program order, so crossed pipes hang",
        );
    }
    found.push(d.help("bring the meetings into the same order on both cores"));
}
