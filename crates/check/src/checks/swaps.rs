//! The swaps (collectives of kind 0 and 1) of the two cores pair up.
//!
//! Definition: inside matched blocks the k-th swap of a pipe on one core belongs to the k-th swap of that pipe on the
//! other. Both have constant ranks inside the LNC, each receives from whom the other sends, destination and source have
//! equal partitions, elements per partition and element type. Source: the specification, file 06 §7.1, decision D15.
//!
//! May miss: swaps whose ranks are known only at run time; swaps executed unequally often by loops. Reports falsely: no,
//! when both cores take the same path through their blocks.

use crate::Cx;
use crate::meet::{self, BlockPair, Kind, Meeting};
use indexmap::IndexSet;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{AccessPattern, AluOp, Attr, CollectiveKind, Module, Operand};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    for (modules, pairs) in &cx.pairs {
        let modules = *modules;
        for pair in pairs.iter().filter(|p| p.present == [true, true]) {
            let pipes: IndexSet<i64> = pair
                .sides
                .iter()
                .flatten()
                .filter_map(|m| match m.kind {
                    Kind::Swap(p) => Some(p),
                    Kind::Collective | Kind::Barrier | Kind::Lone | Kind::Sb2Sb | Kind::Token(_) => None,
                })
                .collect();
            let mut unpaired = Vec::new();
            for pipe in pipes {
                unpaired.extend(one_pipe(cx, modules, pair, pipe, found));
            }
            // One swap left over on each core: the same swap with two pipe ids.
            if let [a, b] = &unpaired[..]
                && a.core != b.core
            {
                let (a, b) = if a.core == 0 { (a, b) } else { (b, a) };
                let name = |x: &Unpaired<'_>| modules[x.core].insts[x.extra.inst].name.clone();
                let [c, o] = [0, 1].map(|i| meet::core(modules[i], i));
                let message = format!(
                    "swap `{}` on core {c} is on pipe {}, its partner `{}` on core {o} on pipe {}: each waits for ever",
                    name(a),
                    a.pipe,
                    name(b),
                    b.pipe
                );
                let at = |x: &Unpaired<'_>| {
                    meet::site(cx.program, modules[x.core], x.extra).label(format!("pipe {}", x.pipe))
                };
                let d = Diagnostic::new(codes::C0101, message).site(at(a)).site(at(b));
                found.push(d.note("swaps of one pipe id pair in order"));
            } else {
                found.extend(unpaired.into_iter().map(|u| u.finding));
            }
        }
    }
}

/// Swaps of a pipe that one core has more of than the other.
struct Unpaired<'p> {
    core: usize,
    pipe: i64,
    extra: &'p Meeting,
    finding: Diagnostic,
}

fn one_pipe<'p>(
    cx: &Cx<'_>,
    modules: [&Module; 2],
    pair: &'p BlockPair,
    pipe: i64,
    found: &mut Vec<Diagnostic>,
) -> Option<Unpaired<'p>> {
    let a = meet::of_kind(&pair.sides[0], move |k| *k == Kind::Swap(pipe));
    let b = meet::of_kind(&pair.sides[1], move |k| *k == Kind::Swap(pipe));
    for (x, y) in a.iter().zip(&b) {
        partners(cx, modules, [x, y], found);
    }
    if a.len() == b.len() {
        return None;
    }
    let (more, n) = if a.len() > b.len() { (0, b.len()) } else { (1, a.len()) };
    let extra = if more == 0 { a[n] } else { b[n] };
    let name = &modules[more].insts[extra.inst].name;
    let other = meet::core(modules[1 - more], 1 - more);
    let message = format!(
        "swap `{name}` on core {} has no partner on core {other}: core {other} never comes to it, and core {} waits for ever",
        meet::core(modules[more], more),
        meet::core(modules[more], more),
    );
    let d = Diagnostic::new(codes::C0101, message);
    let d = meet::unequal(cx.program, modules, d, pair, [&a, &b], "swap");
    let finding = d.note(format!("swaps of one pipe id pair in order; this is pipe {pipe}"));
    Some(Unpaired { core: more, pipe, extra, finding })
}

struct Side<'p> {
    kind: Option<CollectiveKind>,
    send: Option<i64>,
    recv: Vec<Option<i64>>,
    ins: &'p [Operand],
    outs: &'p [Operand],
}

fn partners(cx: &Cx<'_>, modules: [&Module; 2], pair: [&Meeting; 2], found: &mut Vec<Diagnostic>) {
    let n = i64::from(cx.program.lnc_size);
    let sites = [0, 1].map(|i| meet::site(cx.program, modules[i], pair[i]));
    let sides = [0, 1].map(|i| {
        let inst = &modules[i].insts[pair[i].inst];
        Side {
            kind: inst.get_enum(Attr::Kind),
            send: inst.get_expr(Attr::SendToRank).and_then(|e| meet::rank(&e, modules[i].core)),
            recv: inst.get_exprs(Attr::RecvFromRank).iter().map(|e| meet::rank(e, modules[i].core)).collect(),
            ins: &inst.ins,
            outs: &inst.outs,
        }
    });
    let mut legal = true;
    for i in 0..2 {
        let core = meet::core(modules[i], i);
        let ranks: IndexSet<i64> =
            sides[i].send.iter().chain(sides[i].recv.iter().flatten()).copied().collect();
        for r in ranks {
            if !(0..n).contains(&r) {
                legal = false;
                let message = format!("SendRecv rank {r} on core {core} is outside the LNC group of {n}");
                found.push(Diagnostic::new(codes::C0102, message).site(sites[i].clone()));
            }
        }
    }
    if sides[0].kind != sides[1].kind {
        let message = "a SendRecv and a SendRecvCCE stand at the same position of the two cores";
        found.push(Diagnostic::new(codes::C0103, message).site(sites[0].clone()).site(sites[1].clone()));
        return;
    }
    if !legal {
        return;
    }
    if sides[0].kind == Some(CollectiveKind::SendRecv) {
        // Who receives what core i sends must be core i's own choice of partner.
        for i in 0..2 {
            let (Some(s), core) = (sides[i].send, i64::from(meet::core(modules[i], i))) else { continue };
            let to = usize::try_from(s).unwrap_or(0).min(1);
            let Some(Some(x)) = sides[to].recv.first().copied() else { continue };
            if x != core {
                let message = format!(
                    "SendRecv ranks are not paired: core {core} sends to {s} which receives from {x}"
                );
                let mut d = Diagnostic::new(codes::C0103, message).site(sites[i].clone());
                if to != i {
                    d = d.site(sites[to].clone());
                }
                found.push(
                    d.help("the usual swap has send_to_rank = recv_from_rank = 1 - core on both cores"),
                );
                return;
            }
        }
    }
    fold_op(modules, pair, &sites, found);
    for i in 0..2 {
        for r in sides[i].recv.iter().flatten() {
            let from = usize::try_from(*r).unwrap_or(0).min(1);
            let (Some(dst), Some(src)) = (first(sides[i].outs), first(sides[from].ins)) else { continue };
            let place = |d: Diagnostic| {
                let d = d.site(sites[i].clone().label(format!("destination: {}", shape(dst))));
                d.site(sites[from].clone().label(format!("source: {}", shape(src))))
            };
            let (core, from_core) = (meet::core(modules[i], i), meet::core(modules[from], from));
            if (dst.num_partitions(), dst.elems_per_partition())
                != (src.num_partitions(), src.elems_per_partition())
            {
                let message = format!(
                    "SendRecv shape mismatch: core {core} receives {} from core {from_core}, which sends {}",
                    shape(dst),
                    shape(src)
                );
                found.push(place(Diagnostic::new(codes::C0104, message)));
                return; // the other direction is the same mismatch seen from the other core
            } else if dst.dtype != src.dtype {
                let message = format!(
                    "SendRecv dtype mismatch: core {core} receives {} from core {from_core}, which sends {}",
                    dst.dtype, src.dtype
                );
                found.push(place(Diagnostic::new(codes::C0105, message)));
                return;
            }
        }
    }
}

/// A folding swap (kind 1) needs the same fold on both sides, one that the lowering knows.
fn fold_op(
    modules: [&Module; 2],
    pair: [&Meeting; 2],
    sites: &[tandem_bir::diag::Site; 2],
    found: &mut Vec<Diagnostic>,
) {
    let insts = [0, 1].map(|i| &modules[i].insts[pair[i].inst]);
    if insts[0].get_enum::<CollectiveKind>(Attr::Kind) != Some(CollectiveKind::SendRecvCce) {
        return;
    }
    let ops = insts.map(|i| i.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Bypass));
    for i in 0..2 {
        if !matches!(ops[i], AluOp::Add | AluOp::Max | AluOp::Min) {
            let message = format!("SendRecvCCE `{}` folds with {}", insts[i].name, ops[i]);
            let d = Diagnostic::new(codes::C0204, message).site(sites[i].clone());
            found.push(d.note("Unsupported OP type: a local fold is add, max or min"));
        }
    }
}

fn first(list: &[Operand]) -> Option<&AccessPattern> {
    list.first().and_then(Operand::as_ap)
}

fn shape(ap: &AccessPattern) -> String {
    format!("{} [{} x {}]", ap.dtype, ap.num_partitions(), ap.elems_per_partition())
}
