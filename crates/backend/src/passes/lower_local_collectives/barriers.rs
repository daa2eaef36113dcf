//! Barriers of a group: what is inserted, and when the opening one is left out.

use super::{Cursor, Group, Lowering, Made};
use crate::explain::BarrierRow;
use crate::passes::build_deps::interval::{Pos, Touched};
use crate::passes::build_deps::is_fence;
use crate::storage::{Access, Region, for_each_access};
use tandem_bir::{Attr, EngineKind, Inst, InstId, MemLocId, Opcode};

/// Most instructions looked back at for a fence (our choice); beyond it the region counts as not fenced.
const MAX_LOOK_BACK: usize = 4096;

/// Locations by which a group touches other cores, as `(module, location)`.
#[derive(Debug, Default)]
pub(super) struct Remote {
    /// Read by another core: an earlier write must be fenced.
    pub(super) read: Vec<(usize, MemLocId)>,
    /// Written by another core: an earlier read or write must be fenced.
    pub(super) written: Vec<(usize, MemLocId)>,
}

/// What a core did in the block at hand since its last barrier over all cores. Positions are those of the new list.
#[derive(Debug, Default)]
pub(super) struct Since {
    /// Instructions looked at.
    upto: usize,
    barrier: Option<usize>,
    /// Last fence that is no barrier.
    fence: Option<usize>,
    /// Locations touched, as a whole.
    touched: Touched,
    last_write: Option<usize>,
    last_access: Option<usize>,
    /// The same, of storage that is not known.
    unknown_write: Option<usize>,
    unknown_access: Option<usize>,
}

impl Since {
    fn start_over(&mut self, barrier: usize) {
        *self = Since { barrier: Some(barrier), ..Since::default() };
    }

    fn record(&mut self, r: Option<Region>, write: bool, at: usize) {
        let at = Some(at);
        self.last_access = at;
        if write {
            self.last_write = at;
        }
        match (r, at.and_then(|at| Pos::try_from(at).ok())) {
            (Some(r), Some(pos)) => self.touched.access(&r, write, pos, &mut |_, _| {}),
            _ => {
                self.unknown_access = at;
                if write {
                    self.unknown_write = at;
                }
            }
        }
    }

    /// Last access that meets one of the tiles: a write, or with `reads` any. Unknown storage meets everything.
    fn latest(&self, tiles: &[Option<Region>], reads: bool) -> Option<usize> {
        let (unknown, any) = if reads {
            (self.unknown_access, self.last_access)
        } else {
            (self.unknown_write, self.last_write)
        };
        let each = tiles.iter().map(|t| match t {
            Some(r) => self.touched.latest(r, reads).map(|p| p as usize).max(unknown),
            None => any,
        });
        each.max().flatten()
    }
}

impl Lowering<'_> {
    /// A CoreBarrier over all cores at the end of every core's list.
    pub(super) fn barrier(&mut self, g: &Group<'_>, made: &mut Made, suffix: &str, why: &str) {
        let name = self.names.inst(&format!("{}{suffix}", g.name));
        let id = made.next_id;
        made.next_id += 1;
        let cores: Vec<i64> = (0..self.n() as i64).collect();
        for core in 0..self.n() {
            let mut b = Inst::new(&name, Opcode::CoreBarrier);
            b.engine = EngineKind::Pool;
            b.set(Attr::Id, id);
            b.set(Attr::Cores, cores.clone());
            self.emit(g, made, core, b);
        }
        self.cx.count("barriers_added", 1);
        made.barriers.push(BarrierRow { name: name.to_string(), inserted: true, why: why.into() });
    }

    /// Records a barrier that was left out.
    pub(super) fn no_barrier(&mut self, g: &Group<'_>, made: &mut Made, suffix: &str, why: &str) {
        self.cx.count("barriers_elided", 1);
        made.barriers.push(BarrierRow {
            name: format!("{}{suffix}", g.name),
            inserted: false,
            why: why.into(),
        });
    }

    /// The opening barrier, unless no member wants it or every core is already fenced. `staged`: the group begins by
    /// writing what other cores will read.
    pub(super) fn open(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        suffix: &str,
        remote: &Remote,
        staged: bool,
    ) {
        let wanted = g.members.iter().any(|m| {
            let cc = self.cc(m);
            cc.spec().attr(Attr::InitialCorebarrier).is_none_or(|_| cc.get_bool(Attr::InitialCorebarrier))
        });
        if !wanted && !staged {
            self.no_barrier(g, made, suffix, "initial_corebarrier is false");
            return;
        }
        if staged {
            self.barrier(g, made, suffix, "a staging copy writes what the peer reads");
            return;
        }
        match self.fenced(g, cursors, remote) {
            Ok(fence) => {
                let why = format!("every core is fenced by {fence} and nothing in between touches the tiles");
                self.no_barrier(g, made, suffix, &why);
            }
            Err(why) => self.barrier(g, made, suffix, &why),
        }
    }

    /// Name of the barrier that already fences every core, or why there is none. The look goes back inside the block, over
    /// what earlier groups were lowered to.
    pub(super) fn fenced(
        &self,
        g: &Group<'_>,
        cursors: &[Cursor],
        remote: &Remote,
    ) -> Result<String, String> {
        let whole = |list: &[(usize, MemLocId)]| -> Vec<Option<Region>> {
            list.iter().map(|&(mi, l)| self.map.whole(mi, &self.p.modules[mi], l)).collect()
        };
        let (reads, writes) = (whole(&remote.read), whole(&remote.written));
        let mut fence = String::new();
        for (core, (c, m)) in cursors.iter().zip(g.members).enumerate() {
            let mut since = c.since.borrow_mut();
            self.bring_up(&mut since, &c.new, m.module);
            let reach = c.new.len().saturating_sub(MAX_LOOK_BACK);
            let near = |at: Option<usize>| at.filter(|at| *at >= reach);
            let hit = since.latest(&reads, false).max(since.latest(&writes, true));
            let (barrier, fence_at, hit) = (near(since.barrier), near(since.fence), near(hit));
            let name = |at: usize| &self.p.modules[m.module].insts[c.new[at]].name;
            match (barrier, fence_at, hit) {
                (_, Some(f), _) if Some(f) > barrier && Some(f) >= hit => {
                    return Err(format!("core {core} runs {} before it", name(f)));
                }
                (_, _, Some(h)) if Some(h) > barrier => {
                    return Err(format!("core {core} touches a tile of it in {}", name(h)));
                }
                (Some(b), _, _) => {
                    if fence.is_empty() {
                        fence = name(b).to_string();
                    }
                }
                (None, _, _) => return Err(format!("no barrier before it in its block on core {core}")),
            }
        }
        Ok(fence)
    }

    /// Takes up the instructions of a core's new list that came since the last look.
    fn bring_up(&self, since: &mut Since, list: &[InstId], mi: usize) {
        let module = &self.p.modules[mi];
        let is_barrier = |i: InstId| {
            let inst = &module.insts[i];
            inst.opcode == Opcode::CoreBarrier && self.over_all_cores(inst)
        };
        // what a barrier over all cores or the reach of the look leaves behind need not be read
        let mut from = since.upto.max(list.len().saturating_sub(MAX_LOOK_BACK));
        if let Some(k) = list.get(from..).unwrap_or(&[]).iter().rposition(|i| is_barrier(*i)) {
            since.start_over(from + k);
            from += k + 1;
        }
        for (at, &i) in list.iter().enumerate().skip(from) {
            let inst = &module.insts[i];
            if inst.opcode == Opcode::CoreBarrier {
                continue;
            }
            if is_fence(inst) {
                since.fence = Some(at);
            }
            for_each_access(inst, &mut |a, w| match a {
                Access::Ap(ap) => since.record(self.map.whole(mi, module, ap.loc), w, at),
                Access::Set(s) => {
                    for &l in module.sets.get(s).map_or(&[][..], |s| &s.locs) {
                        since.record(self.map.whole(mi, module, l), w, at);
                    }
                }
                Access::Reg(_) => {}
            });
        }
        since.upto = list.len();
    }

    fn over_all_cores(&self, b: &Inst) -> bool {
        let cores = b.get_ints(Attr::Cores);
        (0..self.n() as i64).all(|c| cores.contains(&c))
    }
}
