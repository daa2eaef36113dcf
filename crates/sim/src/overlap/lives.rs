//! When a tensor is used: places in the program order of the core that it belongs to.
//!
//! What another core does with a tensor is placed by the CoreBarriers that all cores meet at: the k-th of one core is the k-th of every
//! other, so a use between two of them falls between the same two of the owner. That holds where no core has control flow and all
//! have the same number of such barriers; elsewhere a tensor that another core uses counts as used throughout.

use super::{Key, NAMED};
use crate::machine::Core;
use crate::place::{Names, all_aps, owner};
use rustc_hash::FxHashMap;
use tandem_bir::{Attr, Inst, MemLocId, Module, Opcode};

/// First and last place of a tensor's uses.
type Life = (u32, u32);

/// Places of the tensors of a debug table by name.
pub(super) type Told<'p> = FxHashMap<&'p str, u32>;

/// The uses of a core in program order.
struct Order {
    of: FxHashMap<Key, Life>,
    /// Other cores' locations, with the number of barriers before the use.
    remote: Vec<(MemLocId, usize)>,
    /// Places of the barriers that all cores meet at.
    meets: Vec<u32>,
}

/// Lives of the tensors of every core; `None` for a core with control flow.
pub(super) fn lives(
    modules: &[&Module],
    names: &[Names<'_>],
    cores: &[Core<'_>],
    told: &[Option<Told<'_>>],
    lnc: usize,
) -> Vec<Option<FxHashMap<Key, Life>>> {
    let mut orders: Vec<Option<Order>> = cores.iter().map(|c| order(c, lnc)).collect();
    let meets: Vec<Option<Vec<u32>>> =
        orders.iter_mut().map(|o| o.as_mut().map(|o| std::mem::take(&mut o.meets))).collect();
    for (g, core) in cores.iter().enumerate() {
        let (first, c) = (g / lnc * lnc, g % lnc);
        let uses = match &mut orders[g] {
            Some(o) => std::mem::take(&mut o.remote).into_iter().map(|(l, n)| (l, Some(n))).collect(),
            None => remote_of(core.module).map(|l| (l, None)).collect::<Vec<_>>(),
        };
        for (l, barriers) in uses {
            let Ok((oc, ol)) = owner(modules, names, c, l) else { continue };
            let Some(Order { of, .. }) = orders.get_mut(first + oc).and_then(Option::as_mut) else {
                continue;
            };
            let named = told[first + oc].as_ref().and_then(|t| t.get(modules[oc].memlocs[ol].name.as_str()));
            let key = named.map_or(ol.as_u32(), |k| k | NAMED);
            let (mine, theirs) = (&meets[g], &meets[first + oc]);
            let life = match (barriers, mine, theirs) {
                (Some(n), Some(mine), Some(theirs)) if mine.len() == theirs.len() => {
                    let start = n.checked_sub(1).and_then(|n| theirs.get(n)).copied().unwrap_or(0);
                    (start, theirs.get(n).copied().unwrap_or(u32::MAX))
                }
                _ => (0, u32::MAX),
            };
            of.entry(key).and_modify(|u| *u = (u.0.min(life.0), u.1.max(life.1))).or_insert(life);
        }
    }
    orders.into_iter().map(|o| o.map(|o| o.of)).collect()
}

/// The locations of a module that stand for another core's.
pub(super) fn remote_of(m: &Module) -> impl Iterator<Item = MemLocId> {
    m.memlocs.iter().filter(|(_, l)| l.is_remote()).map(|(l, _)| l)
}

/// The tensors of a debug table by name, of equal names the first.
pub(super) fn told<'p>(core: &Core<'p>) -> Option<Told<'p>> {
    let mut out = Told::default();
    for (t, k) in core.debug?.tensors.iter().zip(0..) {
        out.entry(t.name.as_str()).or_insert(k);
    }
    Some(out)
}

/// `None` when the core has control flow.
fn order(core: &Core<'_>, lnc: usize) -> Option<Order> {
    let m = core.module;
    let mut out = Order { of: FxHashMap::default(), remote: Vec::new(), meets: Vec::new() };
    let insts = match core.debug {
        Some(t) => t.insts.iter().map(|d| (d.inst, &d.operands[..])).collect::<Vec<_>>(),
        None => m.walk().into_iter().map(|(_, _, id)| (id, &[][..])).collect(),
    };
    for (n, (id, operands)) in insts.into_iter().enumerate() {
        let (n, i) = (n as u32, &m.insts[id]);
        if jumps(i) {
            return None;
        }
        let mut note = |key: Key| out.of.entry(key).or_insert((n, n)).1 = n;
        operands.iter().flatten().for_each(|k| note(k | NAMED));
        for ap in all_aps(i) {
            if core.debug.is_none() {
                note(ap.loc.as_u32());
            }
            if m.memlocs[ap.loc].is_remote() {
                out.remote.push((ap.loc, out.meets.len()));
            }
        }
        if i.opcode == Opcode::CoreBarrier && meets_all(i, lnc) {
            out.meets.push(n);
        }
    }
    Some(out)
}

/// After the instruction program order is not time order.
fn jumps(i: &Inst) -> bool {
    use Opcode as O;
    !i.regions().is_empty() || matches!(i.opcode, O::CompareAndBranch | O::UnconditionalBranch | O::Call)
}

/// A barrier of all cores of the LNC.
fn meets_all(i: &Inst, lnc: usize) -> bool {
    let cores = i.get_ints(Attr::Cores);
    cores.is_empty() || (0..lnc as i64).all(|c| cores.contains(&c))
}
