//! Conflicting accesses of two cores are separated by a core barrier.
//!
//! Definition (the specification, file 05 §10): on a lowered program every access has a *band*, the largest barrier index
//! that certainly happened before it and the smallest that certainly happens after it. A CoreBarrier is a full fence of its
//! core (decision D17), so the bands follow from the places of the barriers alone, whatever edges name them
//! (`docs/rationale/030-barrier-is-a-fence.md`). Two accesses of different cores to the same physical bytes, one of them
//! a write, must have bands that do not meet, or be ordered by what else two cores meet at: swaps, collectives, completion
//! tokens, transfers with a remote notification (decision D24). For pairs whose bands meet that order is worked out exactly,
//! queue by queue ([`crate::clocks`]). An instruction pair is reported once, and pairs that one more barrier would order
//! are one finding.
//!
//! What is compared. A program whose cores execute one list of instructions without choices (no loop, branch or call that
//! decides anything) is compared as a whole, and what is found is what the race check of a run finds between the cores. Otherwise the
//! blocks that both cores have are compared one by one, each from one nested region or call to the next, and the end of each
//! block behind its last meeting with the beginning of every block that it leads to without a meeting on any way; blocks that known
//! registers never choose are left out, and so is everything when another check has found that the cores do not meet equally
//! often.
//!
//! May miss: transfers of run-time address; in programs with loops or branches accesses of different iterations, and accesses
//! between which some way meets; everything beyond [`crate::CheckOptions::max_pairs`], and pairs of blocks beyond 16 million
//! steps along the ways between them (then a note says so, and the verdict is *not covered*); everything when
//! the cores do not come to the end of a list (the checks of meetings and of queues say why).
//! Reports falsely: in programs with loops or branches, for a way that depends on data and that no input takes on both cores. Two
//! cores that write the very same bytes are a warning: their values decide; so is a read behind its own core's write of the bytes
//! that the other core writes. They are nothing when both compute them in the same way from
//! the same inputs, in a program compared as a whole ([`crate::alike`]).

use crate::alike::Alike;
use crate::clocks::{self, Order};
use crate::meet::{self, Kind};
use crate::stretches::{MOST_STEPS, Unit, across, straight, units};
use crate::{Cx, Ranks};
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::footprint::{Footprint, Space, StorageMap, overlaps};
use tandem_bir::diag::{Diagnostic, Severity, Site, codes};
use tandem_bir::entity::SecondaryMap;
use tandem_bir::{BlockId, FuncId, InstId, Level, MemLocId, Module, Opcode};

/// Findings reported before the rest is left out (our choice).
const MAX_FINDINGS: usize = 500;

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered || cx.program.lnc_size != 2 {
        return;
    }
    let meetings = ["C01", "C02", "C03", "C04", "C11"];
    let agree =
        !found.iter().any(|d| meetings.iter().any(|p| d.is_error() && d.code.info().id.starts_with(p)));
    let storage = cx.storage();
    let mut budget = cx.options.max_pairs;
    for g in &cx.groups {
        let [a, b] = g.cores else { continue };
        group(cx, [a, b], [&storage[g.first], &storage[g.first + 1]], agree, &mut budget, found);
    }
    if budget == 0 {
        let message = format!("the barrier check stopped after {} pairs of accesses", cx.options.max_pairs);
        found.push(Diagnostic::new(codes::C0602, message));
    }
}

/// Band of an instruction: barrier indexes, the first barrier having index 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Band {
    lo: u32,
    hi: u32,
}

struct Access {
    side: usize,
    place: (FuncId, BlockId, InstId),
    /// Position in program order.
    order: u32,
    band: Band,
    write: bool,
    foot: Footprint,
    loc: MemLocId,
}

fn group(
    cx: &Cx<'_>,
    modules: [&Module; 2],
    storage: [&StorageMap; 2],
    agree: bool,
    budget: &mut u64,
    found: &mut Vec<Diagnostic>,
) {
    let visible = visible_locations(modules, storage);
    let mut seen: FxHashSet<(InstId, InstId)> = FxHashSet::default();
    let mut hits = Vec::new();
    // What memory holds where a part of a program begins is not known.
    let whole = modules.iter().all(|m| straight(m).is_some());
    let (pairs, complete) = across(cx, modules, agree);
    for unit in units(cx, modules, agree).into_iter().chain(pairs) {
        let more = compare(cx, modules, storage, &visible, &unit, whole, budget, &mut seen, &mut hits);
        if !more {
            break;
        }
    }
    found.extend(one_per_barrier(hits));
    if !complete {
        let message =
            format!("the barrier check stopped after {MOST_STEPS} steps along the ways between blocks");
        found.push(Diagnostic::new(codes::C0602, message));
    }
}

/// Compares the accesses of one stretch of both cores; false when the budget is used up.
#[allow(clippy::too_many_arguments, reason = "what all stretches share, and one of them")]
fn compare(
    cx: &Cx<'_>,
    modules: [&Module; 2],
    storage: [&StorageMap; 2],
    visible: &[SecondaryMap<MemLocId, bool>; 2],
    unit: &Unit,
    whole: bool,
    budget: &mut u64,
    seen: &mut FxHashSet<(InstId, InstId)>,
    hits: &mut Vec<Hit>,
) -> bool {
    let mut per_space: Vec<(Space, Vec<Access>)> = Vec::new();
    let mut index: FxHashMap<Space, usize> = FxHashMap::default();
    for side in 0..2 {
        collect(modules[side], storage[side], &visible[side], unit, side, &mut |a| {
            let next = per_space.len();
            let at = *index.entry(a.foot.space.clone()).or_insert(next);
            if at == next {
                per_space.push((a.foot.space.clone(), Vec::new()));
            }
            per_space[at].1.push(a);
        });
    }
    // Worked out when the first pair asks for it.
    let mut order: Option<Option<Order>> = None;
    let mut alike: Option<Alike> = None;
    for (_, mut list) in per_space {
        list.sort_by_key(|a| (a.band.lo, a.side, a.order));
        let mut active: [[Vec<usize>; 2]; 2] = Default::default(); // [side][write]
        for i in 0..list.len() {
            let x = &list[i];
            let other = 1 - x.side;
            for write in [true, false] {
                if !write && !x.write {
                    continue; // two reads
                }
                let live = &mut active[other][usize::from(write)];
                live.retain(|&j| list[j].band.hi > x.band.lo);
                if *budget < live.len() as u64 {
                    *budget = 0;
                    return false;
                }
                *budget -= live.len() as u64;
                for &j in live.iter() {
                    let (p, q) = if x.side == 0 { (x, &list[j]) } else { (&list[j], x) };
                    let conflict = p.foot.exact && q.foot.exact && overlaps(&p.foot, &q.foot);
                    if !conflict || seen.contains(&(p.place.2, q.place.2)) {
                        continue;
                    }
                    let Some(order) = order.get_or_insert_with(|| ordered(cx, modules, visible, unit)) else {
                        return true;
                    };
                    let of = |a: &Access| (a.side, a.place.2, a.write);
                    if order.before(of(p), of(q)) || order.before(of(q), of(p)) {
                        continue;
                    }
                    seen.insert((p.place.2, q.place.2));
                    // The write of each core that stores what the other's does: the accesses themselves, or, for a read, its
                    // own core's write of the very same bytes before it.
                    let twins = (cx.options.equal_writes).then(|| match (p.write, q.write) {
                        (true, true) => (p.foot == q.foot).then_some((p, q)),
                        (true, false) => own_write(order, &list, p, q).map(|w| (p, w)),
                        (false, true) => own_write(order, &list, q, p).map(|w| (w, q)),
                        (false, false) => None,
                    });
                    let twins = twins.flatten();
                    if let (Some((v, w)), true) = (twins, whole) {
                        let alike = alike.get_or_insert_with(|| {
                            let lists = [0, 1].map(|s| unit.stretch(s).concat());
                            Alike::new(modules, storage, [&lists[0], &lists[1]])
                        });
                        if alike.same(v.place.2, w.place.2) {
                            continue;
                        }
                    }
                    if hits.len() < MAX_FINDINGS {
                        hits.push(Hit {
                            after: p.band.lo.max(q.band.lo),
                            before: p.band.hi.min(q.band.hi),
                            finding: if twins.is_some() {
                                weak(report(cx, modules, p, q))
                            } else {
                                report(cx, modules, p, q)
                            },
                        });
                    }
                }
            }
            active[x.side][usize::from(x.write)].push(i);
        }
    }
    true
}

/// The write of `write`'s bytes by the core of `read` that happens before `read`.
fn own_write<'a>(order: &Order, list: &'a [Access], write: &Access, read: &Access) -> Option<&'a Access> {
    let of = |a: &Access| (a.side, a.place.2, a.write);
    let own = |a: &&Access| a.side == read.side && a.write && a.foot == write.foot;
    list.iter().find(|a| own(a) && order.before(of(a), of(read)))
}

/// The exact order of a stretch.
fn ordered(
    cx: &Cx<'_>,
    modules: [&Module; 2],
    visible: &[SecondaryMap<MemLocId, bool>; 2],
    unit: &Unit,
) -> Option<Order> {
    let keep = |side: usize, id: InstId| {
        let inst = &modules[side].insts[id];
        let all = inst.operands();
        all.filter_map(|o| o.as_ap()).any(|a| visible[side][a.loc])
    };
    let lists = [0, 1].map(|s| unit.stretch(s));
    let ranks = matches!(cx.options.ranks, Ranks::Lncs(_));
    clocks::order(modules, cx.shared(modules), [&lists[0], &lists[1]], cx.options.tokens_order, ranks, &keep)
        .ok()
}

/// A pair that nothing orders; a barrier in any gap from behind barrier `after` to before barrier `before` would.
struct Hit {
    after: u32,
    before: u32,
    finding: Diagnostic,
}

/// Two writes of the very same bytes: whether their order matters is a question of their values, which a run answers.
fn weak(mut d: Diagnostic) -> Diagnostic {
    d.severity = Severity::Warning;
    d.note("both write the same places; if they store the same values, their order does not matter: a run compares them")
}

/// Pairs of one finding that are named (our choice).
const NAMED: usize = 4;

/// Pairs that one more barrier would order are one finding: the fewest gaps that lie in every pair's range.
fn one_per_barrier(hits: Vec<Hit>) -> Vec<Diagnostic> {
    let mut by_end: Vec<usize> = (0..hits.len()).collect();
    by_end.sort_by_key(|&k| (hits[k].before, k));
    // A finding is as severe as its most severe pair, which gives it its text.
    let strong = |hits: &[Hit], k: usize| hits[k].finding.is_error();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut end = None;
    for k in by_end {
        if let (Some(e), Some(g)) = (end, groups.last_mut())
            && hits[k].after < e
        {
            g.push(k);
            continue;
        }
        end = Some(hits[k].before);
        groups.push(vec![k]);
    }
    groups.iter_mut().for_each(|g| g.sort_unstable());
    groups.sort_unstable();
    groups.iter_mut().for_each(|g| g.sort_by_key(|&k| !strong(&hits, k)));
    let mut hits: Vec<Option<Diagnostic>> = hits.into_iter().map(|h| Some(h.finding)).collect();
    let mut out = Vec::new();
    for g in groups {
        let mut members = g.iter().filter_map(|&k| hits[k].take());
        let Some(mut d) = members.next() else { continue };
        let rest: Vec<Diagnostic> = members.collect();
        for x in rest.iter().take(NAMED) {
            let pair = x.message.trim_start_matches("missing core barrier ");
            d = d.note(format!("the same barrier is missing {pair}"));
        }
        if rest.len() > NAMED {
            d = d.note(format!("{} more pairs need it", rest.len() - NAMED));
        }
        out.push(d);
    }
    out
}

fn report(cx: &Cx<'_>, modules: [&Module; 2], p: &Access, q: &Access) -> Diagnostic {
    let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
    let insts = [&modules[0].insts[p.place.2], &modules[1].insts[q.place.2]];
    let loc = &modules[0].memlocs[p.loc];
    let name = loc.owner_name();
    let message = format!(
        "missing core barrier between {}@nc{} and {}@nc{} on {name}",
        insts[0].name, cores[0], insts[1].name, cores[1]
    );
    let site = |i: usize, a: &Access| -> Site {
        let word = if a.write { "writes" } else { "reads" };
        let f = &a.foot;
        let place = if matches!(f.space, Space::Sb(_) | Space::Psum(_)) {
            format!("partitions {}..={}, bytes {}..{}", f.partition, f.last_partition(), f.low, f.high)
        } else {
            format!("bytes {}..{}", f.low, f.high)
        };
        meet::inst_site(cx.program, modules[i], a.place.0, a.place.1, a.place.2)
            .label(format!("{word} {place}"))
    };
    let band = |a: &Access| {
        let after =
            if a.band.lo == 0 { "no barrier".to_owned() } else { format!("barrier #{}", a.band.lo - 1) };
        format!("certainly after {after}, before barrier #{} if there is one", a.band.hi.saturating_sub(1))
    };
    Diagnostic::new(codes::C0601, message)
        .site(site(0, p))
        .site(site(1, q))
        .note(format!("{} of core {}: {}", insts[0].name, cores[0], band(p)))
        .note(format!("{} of core {}: {}", insts[1].name, cores[1], band(q)))
        .help("put a core barrier between the two accesses on both cores")
}

/// Locations through which the two cores may touch the same bytes.
fn visible_locations(modules: [&Module; 2], storage: [&StorageMap; 2]) -> [SecondaryMap<MemLocId, bool>; 2] {
    // What is seen through an alias, per array: boxes around the aliased locations.
    let mut seen: FxHashMap<Space, Vec<Footprint>> = FxHashMap::default();
    for i in 0..2 {
        for (id, l) in modules[i].memlocs.iter().filter(|(_, l)| l.is_remote()) {
            let f = Footprint::whole(storage[i].placement(id), l);
            let list = seen.entry(f.space.clone()).or_default();
            if !list.contains(&f) {
                list.push(f);
            }
        }
    }
    [0, 1].map(|i| {
        let mut out = SecondaryMap::with_capacity(modules[i].memlocs.len());
        for (id, l) in modules[i].memlocs.iter() {
            let place = storage[i].placement(id);
            let shared = matches!(place.space, Space::SharedDram | Space::Unplaced(None, _));
            let aliased = || {
                let f = Footprint::whole(place, l);
                seen.get(&f.space).is_some_and(|v| v.iter().any(|s| overlaps(s, &f)))
            };
            out[id] = shared || aliased();
        }
        out
    })
}

fn collect(
    m: &Module,
    storage: &StorageMap,
    visible: &SecondaryMap<MemLocId, bool>,
    unit: &Unit,
    side: usize,
    give: &mut dyn FnMut(Access),
) {
    let last = unit.sides[side].iter().flat_map(|(_, _, l)| l);
    let barriers = last.filter(|i| is_barrier(m, **i)).count() as u32;
    let (mut order, mut count) = (0u32, unit.base[side]);
    let barriers = barriers + count;
    for (f, b, list) in &unit.sides[side] {
        for &i in list {
            let inst = &m.insts[i];
            order += 1;
            if is_barrier(m, i) {
                count += 1;
                continue;
            }
            if matches!(inst.opcode, Opcode::CoreBarrier | Opcode::TensorCompletion) {
                continue;
            }
            let ins = inst.ins.iter().chain(inst.indirection_ins()).map(|o| (o, false));
            let outs = inst.outs.iter().filter(|_| !inst.copies_onto_itself()).map(|o| (o, true));
            for (o, write) in ins.chain(outs) {
                let Some(a) = o.as_ap().filter(|a| visible[a.loc]) else { continue };
                give(Access {
                    side,
                    place: (*f, *b, i),
                    order,
                    band: Band { lo: count, hi: (count + 1).min(barriers + 1) },
                    write,
                    foot: storage.footprint(m, a),
                    loc: a.loc,
                });
            }
        }
    }
}

fn is_barrier(m: &Module, i: InstId) -> bool {
    meet::kind_of(&m.insts[i]) == Some(Kind::Barrier)
}
