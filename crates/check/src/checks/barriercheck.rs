//! Conflicting accesses of two cores are separated by a core barrier.
//!
//! Definition (the specification, file 05 §10): on a lowered program every instruction has a *band*, the largest barrier
//! index that certainly happened before it and the smallest that certainly happens after it, by dependency edges, by the
//! order of compute engines, and by the join at block ends. Two accesses of different cores to the same physical bytes, one
//! of them a write, must have bands that do not meet, unless the two are one synchronised operation (the k-th GPSIMD swap
//! or the k-th kept collective of both cores) or a completion token orders them. DMA transfers have no order by queue,
//! since a queue starts them in order but does not wait for them. An instruction pair is reported once, and pairs that one
//! more barrier would order are one finding.
//!
//! May miss: transfers of run-time address; accesses of different iterations of a loop; everything beyond
//! [`crate::CheckOptions::max_pairs`] (then a note says so); positions behind a nested region are numbered before it.
//! Reports falsely: when both cores write equal values.
//!
//! Transfers with a remote notification (decision D24) order like barriers, in bands of their own: the k-th of one core
//! belongs to the k-th of the other, and what follows one follows both.

use crate::Cx;
use crate::meet::{self, Kind};
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::footprint::{Footprint, Space, StorageMap, overlaps};
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::entity::SecondaryMap;
use tandem_bir::inst::Family;
use tandem_bir::verify::effective_engine;
use tandem_bir::{Attr, BlockId, EngineKind, FuncId, InstId, Level, MemLocId, Module, Opcode};

/// Findings reported before the rest is left out (our choice).
const MAX_FINDINGS: usize = 500;

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    if cx.program.level != Level::Lowered || cx.program.lnc_size != 2 {
        return;
    }
    let storage = cx.storage();
    let mut budget = cx.options.max_pairs;
    for g in &cx.groups {
        let [a, b] = g.cores else { continue };
        group(cx, [a, b], [&storage[g.first], &storage[g.first + 1]], &mut budget, found);
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
    /// Position in program order, and the number of its block.
    order: u32,
    block: u32,
    band: Band,
    /// The same by transfers with a remote notification.
    notified: Band,
    /// Identity of a synchronised operation: its opcode class and ordinal.
    sync: Option<(bool, u32)>,
    write: bool,
    foot: Footprint,
    loc: MemLocId,
}

/// A completion token of one core.
struct Token {
    side: usize,
    name: String,
    order: u32,
    block: u32,
    foot: Footprint,
}

fn group(
    cx: &Cx<'_>,
    modules: [&Module; 2],
    storage: [&StorageMap; 2],
    budget: &mut u64,
    found: &mut Vec<Diagnostic>,
) {
    let visible = visible_locations(modules, storage);
    let mut per_space: Vec<(Space, Vec<Access>)> = Vec::new();
    let mut index: FxHashMap<Space, usize> = FxHashMap::default();
    let mut tokens = Vec::new();
    for side in 0..2 {
        collect(modules[side], storage[side], &visible[side], side, &mut |a| match a {
            Found::Access(a) => {
                let next = per_space.len();
                let at = *index.entry(a.foot.space.clone()).or_insert(next);
                if at == next {
                    per_space.push((a.foot.space.clone(), Vec::new()));
                }
                per_space[at].1.push(a);
            }
            Found::Token(t) => tokens.push(t),
        });
    }
    let mut seen: FxHashSet<(InstId, InstId)> = FxHashSet::default();
    let mut hits = Vec::new();
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
                    found.extend(one_per_barrier(hits));
                    return;
                }
                *budget -= live.len() as u64;
                for &j in live.iter() {
                    let (p, q) = if x.side == 0 { (x, &list[j]) } else { (&list[j], x) };
                    if conflict(p, q)
                        && !token_orders(cx, &tokens, p, q)
                        && seen.insert((p.place.2, q.place.2))
                        && hits.len() < MAX_FINDINGS
                    {
                        hits.push(Hit {
                            after: p.band.lo.max(q.band.lo),
                            before: p.band.hi.min(q.band.hi),
                            finding: report(cx, modules, p, q),
                        });
                    }
                }
            }
            active[x.side][usize::from(x.write)].push(i);
        }
    }
    found.extend(one_per_barrier(hits));
}

/// A pair that nothing orders; a barrier in any gap from behind barrier `after` to before barrier `before` would.
struct Hit {
    after: u32,
    before: u32,
    finding: Diagnostic,
}

/// Pairs of one finding that are named (our choice).
const NAMED: usize = 4;

/// Pairs that one more barrier would order are one finding: the fewest gaps that lie in every pair's range.
fn one_per_barrier(hits: Vec<Hit>) -> Vec<Diagnostic> {
    let mut by_end: Vec<usize> = (0..hits.len()).collect();
    by_end.sort_by_key(|&k| (hits[k].before, k));
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

fn conflict(p: &Access, q: &Access) -> bool {
    let one_operation = p.sync.is_some() && p.sync == q.sync;
    p.foot.exact
        && q.foot.exact
        && !one_operation
        && !notified(p.notified, q.notified)
        && overlaps(&p.foot, &q.foot)
}

/// One access comes before a pair of notifying transfers (or is one of them), the other after it.
fn notified(p: Band, q: Band) -> bool {
    let pair = p.lo == p.hi && p == q; // the two transfers themselves are not ordered
    !pair && (p.hi <= q.lo || q.hi <= p.lo)
}

/// A write of one core before a token, the other access behind the token of that name on its core.
fn token_orders(cx: &Cx<'_>, tokens: &[Token], p: &Access, q: &Access) -> bool {
    let ordered = |w: &Access, after: &Access| {
        w.write
            && tokens.iter().any(|t| {
                t.side == w.side
                    && w.order < t.order
                    && overlaps(&t.foot, &w.foot)
                    && tokens
                        .iter()
                        .any(|u| u.side == after.side && u.name == t.name && after.block > u.block)
            })
    };
    cx.options.tokens_order && (ordered(p, q) || ordered(q, p))
}

fn report(cx: &Cx<'_>, modules: [&Module; 2], p: &Access, q: &Access) -> Diagnostic {
    let cores = [meet::core(modules[0], 0), meet::core(modules[1], 1)];
    let insts = [&modules[0].insts[p.place.2], &modules[1].insts[q.place.2]];
    let loc = &modules[0].memlocs[p.loc];
    let name = loc.remote_local_target.as_ref().map_or(&loc.name, |t| &t.name);
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

enum Found {
    Access(Access),
    Token(Token),
}

fn collect(
    m: &Module,
    storage: &StorageMap,
    visible: &SecondaryMap<MemLocId, bool>,
    side: usize,
    give: &mut dyn FnMut(Found),
) {
    let blocks = meet::blocks(m);
    let by_barrier = bands(m, &blocks, is_barrier);
    let by_notice = bands(m, &blocks, notifies);
    let (mut order, mut swaps, mut collectives) = (0u32, 0u32, 0u32);
    for (n, &(f, b)) in blocks.iter().enumerate() {
        for &i in &m.blocks[b].insts {
            let inst = &m.insts[i];
            order += 1;
            if inst.opcode == Opcode::CoreBarrier {
                continue;
            }
            if inst.opcode == Opcode::TensorCompletion {
                for a in inst.ins.iter().filter_map(|o| o.as_ap()) {
                    let foot = storage.footprint(m, a);
                    let name = inst.name.to_string();
                    give(Found::Token(Token { side, name, order, block: n as u32, foot }));
                }
                continue;
            }
            let sync = if inst.opcode == Opcode::GpsimdSb2Sb {
                swaps += 1;
                Some((true, swaps))
            } else if meet::kind_of(inst) == Some(Kind::Collective) {
                collectives += 1;
                Some((false, collectives))
            } else {
                None
            };
            let ins = inst.ins.iter().chain(inst.indirection_ins()).map(|o| (o, false));
            for (o, write) in ins.chain(inst.outs.iter().map(|o| (o, true))) {
                let Some(a) = o.as_ap().filter(|a| visible[a.loc]) else { continue };
                let foot = storage.footprint(m, a);
                give(Found::Access(Access {
                    side,
                    place: (f, b, i),
                    order,
                    block: n as u32,
                    band: by_barrier[i],
                    notified: by_notice[i],
                    sync,
                    write,
                    foot,
                    loc: a.loc,
                }));
            }
        }
    }
}

/// Engine whose in-order execution orders an instruction; `None` for transfers.
fn ordered_engine(m: &Module, i: InstId) -> Option<usize> {
    let inst = &m.insts[i];
    if matches!(inst.spec().family, Family::Dma | Family::DmaDescriptor | Family::Collective) {
        return None;
    }
    match effective_engine(inst) {
        EngineKind::Dma | EngineKind::Unassigned => None,
        EngineKind::All => Some(EngineKind::Sp as usize),
        e @ (EngineKind::Pool
        | EngineKind::Activation
        | EngineKind::Pe
        | EngineKind::Dve
        | EngineKind::Sp) => Some(e as usize),
    }
}

fn is_barrier(m: &Module, i: InstId) -> bool {
    meet::kind_of(&m.insts[i]) == Some(Kind::Barrier)
}

fn notifies(m: &Module, i: InstId) -> bool {
    let inst = &m.insts[i];
    inst.opcode == Opcode::DmaCopy && !inst.get_ints(Attr::RemoteNotification).is_empty()
}

/// Bands by the instructions that `mark` selects, numbered from 1 in program order.
fn bands(
    m: &Module,
    blocks: &[(FuncId, BlockId)],
    mark: fn(&Module, InstId) -> bool,
) -> SecondaryMap<InstId, Band> {
    let mut band: SecondaryMap<InstId, Band> = SecondaryMap::with_capacity(m.insts.len());
    let mut number: SecondaryMap<InstId, u32> = SecondaryMap::with_capacity(m.insts.len());
    let mut in_block: SecondaryMap<InstId, u32> = SecondaryMap::with_capacity(m.insts.len());
    let mut count = 0u32;
    for (n, &(_, b)) in blocks.iter().enumerate() {
        let entry = count;
        let mut engines = [entry; 8];
        for &i in &m.blocks[b].insts {
            in_block[i] = n as u32 + 1;
            let engine = ordered_engine(m, i);
            let mut lo = engine.map_or(entry, |e| engines[e]);
            for d in &m.insts[i].deps {
                if in_block[d.inst] == n as u32 + 1 {
                    lo = lo.max(band[d.inst].lo);
                }
            }
            if mark(m, i) {
                count += 1;
                number[i] = count;
                lo = count;
            }
            band[i].lo = lo;
            if let Some(e) = engine {
                engines[e] = engines[e].max(lo);
            }
        }
        let exit = count + 1;
        for &i in &m.blocks[b].insts {
            band[i].hi = exit;
        }
        let mut engines = [exit; 8];
        for &i in m.blocks[b].insts.iter().rev() {
            let engine = ordered_engine(m, i);
            if let Some(e) = engine {
                band[i].hi = band[i].hi.min(engines[e]);
            }
            if number[i] > 0 {
                band[i].hi = number[i];
            }
            let hi = band[i].hi;
            if let Some(e) = engine {
                engines[e] = engines[e].min(hi);
            }
            for d in &m.insts[i].deps {
                if in_block[d.inst] == n as u32 + 1 {
                    band[d.inst].hi = band[d.inst].hi.min(hi);
                }
            }
        }
    }
    band
}
