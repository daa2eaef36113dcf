//! Collectives agree between the cores, name legal ranks, and have fitting sizes.
//!
//! Definition: inside matched blocks the k-th collective (swaps apart) of one core belongs to the k-th of the other; both
//! have one kind, operation, locality, groups, pairs and dimensions, and operands of equal shapes and element types. Ranks
//! are in range and not repeated; gathers and scatters change the size by the size of the group, all others keep it.
//! Source: the specification, file 04 §10.2, file 09 §9.3–9.4, decision D30.
//!
//! May miss: operands of run-time address; the split along a dimension of a DRAM tensor (only totals are compared).
//! Reports falsely: no, when both cores take the same path through their blocks.

use crate::meet::{self, BlockPair, Kind};
use crate::{Cx, Ranks};
use rustc_hash::FxHashSet;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{AccessPattern, AluOp, Attr, CollectiveDimension, CollectiveKind, Inst, Module, Operand};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    for (modules, pairs) in &cx.pairs {
        for pair in pairs.iter().filter(|p| p.present == [true, true]) {
            agree(cx, *modules, pair, found);
        }
    }
    for g in &cx.groups {
        for m in g.cores {
            for (f, b) in meet::blocks(m) {
                for &i in &m.blocks[b].insts {
                    let inst = &m.insts[i];
                    if meet::kind_of(inst) == Some(Kind::Collective) {
                        let site = meet::inst_site(cx.program, m, f, b, i);
                        single(cx, m, inst, &site, found);
                    }
                }
            }
        }
    }
}

fn agree(cx: &Cx<'_>, modules: [&Module; 2], pair: &BlockPair, found: &mut Vec<Diagnostic>) {
    let [a, b] = [0, 1].map(|i| meet::of_kind(&pair.sides[i], |k| *k == Kind::Collective));
    let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
    let text =
        |k: usize| format!("collective #{k} disagrees between core {} and core {}", cores[0], cores[1]);
    for (k, (x, y)) in a.iter().zip(&b).enumerate() {
        let insts = [&modules[0].insts[x.inst], &modules[1].insts[y.inst]];
        let Some((field, values)) = difference(insts) else { continue };
        let sites = [meet::site(cx.program, modules[0], x), meet::site(cx.program, modules[1], y)];
        let [s0, s1] = sites;
        let [v0, v1] = values;
        let d = Diagnostic::new(codes::C0201, format!("{}: {field}", text(k)));
        found.push(d.site(s0.label(v0)).site(s1.label(v1)));
    }
    if a.len() != b.len() {
        let k = a.len().min(b.len());
        let d = Diagnostic::new(codes::C0201, format!("{}: only one core has it", text(k)));
        found.push(meet::unequal(cx.program, modules, d, pair, [&a, &b], "collective"));
    }
}

/// First field in which two members of a collective differ, with both values.
fn difference(i: [&Inst; 2]) -> Option<(&'static str, [String; 2])> {
    let differ = |name, v: [String; 2]| (v[0] != v[1]).then_some((name, v));
    let shape = |list: &[Operand]| {
        let one = |o: &Operand| match o.as_ap() {
            Some(a) => format!("{} [{} x {}]", a.dtype, a.num_partitions(), a.elems_per_partition()),
            None => "another operand".to_owned(),
        };
        list.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let groups = |a: Attr| i.map(|i| format!("{:?}", i.get_groups(a)));
    let kind =
        i.map(|i| i.get_enum::<CollectiveKind>(Attr::Kind).map_or_else(String::new, |k| k.to_string()));
    let op = i.map(|i| i.get_enum::<AluOp>(Attr::Op).map_or_else(String::new, |k| k.to_string()));
    let dim =
        i.map(|i| i.get_enum::<CollectiveDimension>(Attr::CcDim).map_or_else(String::new, |k| k.to_string()));
    differ("kind", kind)
        .or_else(|| differ("op", op))
        .or_else(|| differ("is_local", i.map(|i| i.get_bool(Attr::IsLocal).to_string())))
        .or_else(|| differ("replica_groups", groups(Attr::ReplicaGroups)))
        .or_else(|| differ("src_target_pairs", groups(Attr::SrcTargetPairs)))
        .or_else(|| differ("cc_dim", dim))
        .or_else(|| differ("concat_dim", i.map(|i| format!("{:?}", i.get_int(Attr::ConcatDim)))))
        .or_else(|| differ("inputs", i.map(|i| shape(&i.ins))))
        .or_else(|| differ("outputs", i.map(|i| shape(&i.outs))))
}

fn single(cx: &Cx<'_>, m: &Module, inst: &Inst, site: &Site, found: &mut Vec<Diagnostic>) {
    let Some(kind) = inst.get_enum::<CollectiveKind>(Attr::Kind) else { return };
    let groups = inst.get_groups(Attr::ReplicaGroups);
    let pairs = inst.get_groups(Attr::SrcTargetPairs);
    let before = found.len();
    let mut say = |code, message: String, note: Option<&str>| {
        let d = Diagnostic::new(code, message).site(site.clone());
        found.push(match note {
            Some(n) => d.note(n),
            None => d,
        });
    };
    let name = &inst.name;
    if kind == CollectiveKind::Permute && !groups.is_empty() {
        let note = Some("Permute should not contain replica_groups");
        say(codes::C0203, format!("Permute `{name}` has replica groups"), note);
    }
    let implicit = matches!(kind, CollectiveKind::PermuteImplicit | CollectiveKind::PermuteReduceImplicit);
    if implicit && !pairs.is_empty() {
        let note = Some("PermuteImplicit should not contain src_target_pairs");
        say(codes::C0203, format!("{kind} `{name}` has source-target pairs"), note);
    }
    let ranks = match cx.options.ranks {
        Ranks::Cores => i64::from(cx.program.lnc_size),
        Ranks::Lncs(n) => i64::from(n),
    };
    let mut seen = FxHashSet::default();
    for r in groups.iter().flat_map(|g| g.iter()) {
        if !(0..ranks).contains(r) {
            say(codes::C0203, format!("{kind} `{name}` names rank {r}; there are {ranks}"), None);
        } else if !seen.insert(*r) {
            say(codes::C0203, format!("{kind} `{name}` names rank {r} twice in its groups"), None);
        }
    }
    let (mut sources, mut targets) = (FxHashSet::default(), FxHashSet::default());
    for p in pairs {
        let [s, t] = **p else {
            say(codes::C0203, format!("{kind} `{name}` has the pair {p:?}, a pair has two ranks"), None);
            continue;
        };
        for r in [s, t] {
            if !(0..ranks).contains(&r) {
                say(codes::C0203, format!("{kind} `{name}` names rank {r}; there are {ranks}"), None);
            }
        }
        if s == t {
            say(codes::C0203, format!("{kind} `{name}` pairs rank {s} with itself"), None);
        }
        if !sources.insert(s) {
            say(codes::C0203, format!("{kind} `{name}` has rank {s} twice as a source"), None);
        }
        if !targets.insert(t) {
            say(codes::C0203, format!("{kind} `{name}` has rank {t} twice as a target"), None);
        }
    }
    let op = inst.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Bypass);
    let folds = match kind {
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter => true,
        CollectiveKind::PermuteReduce | CollectiveKind::PermuteReduceImplicit => true,
        CollectiveKind::SendRecv | CollectiveKind::SendRecvCce | CollectiveKind::AllGather => false,
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV | CollectiveKind::Permute => false,
        CollectiveKind::PermuteImplicit => false,
    };
    if folds && !matches!(op, AluOp::Add | AluOp::Max | AluOp::Min) {
        let note = if kind == CollectiveKind::PermuteReduceImplicit {
            "Unsupported OP type for Permute Reduce Implicit"
        } else {
            "Unsupported OP type: collectives fold with add, max or min"
        };
        say(codes::C0204, format!("{kind} `{name}` folds with {op}"), Some(note));
    }
    if kind == CollectiveKind::PermuteReduceImplicit && (inst.ins.len(), inst.outs.len()) != (2, 1) {
        let message =
            format!("{kind} `{name}` has {} inputs and {} outputs", inst.ins.len(), inst.outs.len());
        say(codes::C0203, message, Some("PermuteReduceImplicit must have 2 inputs and 1 output"));
    }
    if found.len() == before {
        sizes(m, inst, kind, ranks, site, found);
    }
}

/// Relation of destination and source sizes.
enum Size {
    Same,
    Times,
    Part,
}

fn sizes(
    m: &Module,
    inst: &Inst,
    kind: CollectiveKind,
    ranks: i64,
    site: &Site,
    found: &mut Vec<Diagnostic>,
) {
    let rule = match kind {
        CollectiveKind::AllGather => Size::Times,
        CollectiveKind::ReduceScatter => Size::Part,
        CollectiveKind::AllReduce | CollectiveKind::AllToAll | CollectiveKind::Permute => Size::Same,
        CollectiveKind::PermuteImplicit | CollectiveKind::PermuteReduceImplicit => Size::Same,
        CollectiveKind::SendRecv | CollectiveKind::SendRecvCce => return,
        CollectiveKind::AllToAllV | CollectiveKind::PermuteReduce => return,
    };
    let groups = inst.get_groups(Attr::ReplicaGroups);
    let own = m.core.map(|c| i64::from(c.0));
    let group = groups.iter().find(|g| own.is_some_and(|c| g.contains(&c))).or(groups.first());
    let size = group.map_or(ranks.max(1) as u64, |g| g.len().max(1) as u64);
    let by_partition =
        inst.get_enum::<CollectiveDimension>(Attr::CcDim) == Some(CollectiveDimension::Partition);
    for (k, (i, o)) in inst.ins.iter().zip(&inst.outs).enumerate() {
        let (Some(s), Some(d)) = (i.as_ap(), o.as_ap()) else { continue };
        if !s.is_static() || !d.is_static() {
            continue;
        }
        let total = (s.num_elems(), d.num_elems());
        let rows = (s.num_partitions(), d.num_partitions());
        let on_chip = |a: &AccessPattern| m.memlocs[a.loc].is_on_chip();
        let (fits, want) = match rule {
            Size::Same => (total.0 == total.1, "as many elements as its source".to_owned()),
            Size::Times => (
                total.0.checked_mul(size) == Some(total.1),
                format!("{size} times the elements of its source"),
            ),
            Size::Part => (
                total.1.checked_mul(size) == Some(total.0),
                format!("1/{size} of the elements of its source"),
            ),
        };
        let rows_fit = !(on_chip(s) && on_chip(d))
            || match (&rule, by_partition) {
                (Size::Same, _) => true,
                (Size::Times | Size::Part, false) => rows.0 == rows.1,
                (Size::Times, true) => rows.0.checked_mul(size) == Some(rows.1),
                (Size::Part, true) => rows.1.checked_mul(size) == Some(rows.0),
            };
        if !fits || !rows_fit {
            let message = format!(
                "{kind} `{}`: destination {k} is [{} x {}], its source [{} x {}]",
                inst.name,
                rows.1,
                d.elems_per_partition(),
                rows.0,
                s.elems_per_partition()
            );
            let along = if by_partition { "the partitions" } else { "the free dimension" };
            let note = match rule {
                Size::Same => format!("the destination must have {want}"),
                Size::Times | Size::Part => {
                    format!("for a group of {size} along {along} the destination must have {want}")
                }
            };
            found.push(Diagnostic::new(codes::C0202, message).site(site.clone()).note(note));
        }
    }
}
