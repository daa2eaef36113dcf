//! Barriers of a group: what is inserted, and when the opening one is left out.

use super::{Cursor, Group, Lowering, Made};
use crate::explain::BarrierRow;
use crate::passes::build_deps::is_fence;
use crate::storage::{Access, Region, for_each_access};
use tandem_bir::{Attr, EngineKind, Inst, MemLocId, Opcode};

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

    /// Name of the barrier that already fences every core, or why there is none. The scan goes back inside the block, over
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
            let module = &self.p.modules[m.module];
            let mut found = None;
            for &i in c.new.iter().rev().take(MAX_LOOK_BACK) {
                let inst = &module.insts[i];
                if inst.opcode == Opcode::CoreBarrier && self.over_all_cores(inst) {
                    found = Some(inst.name.to_string());
                    break;
                }
                if inst.opcode != Opcode::CoreBarrier && is_fence(inst) {
                    return Err(format!("core {core} runs {} before it", inst.name));
                }
                let mut hit = false;
                for_each_access(inst, &mut |a, w| {
                    let mut touch = |r: Option<Region>| {
                        let meets = |list: &[Option<Region>]| {
                            list.iter().any(|x| match (x, &r) {
                                (Some(x), Some(r)) => x.meets(r),
                                _ => true, // unknown storage: assume the worst
                            })
                        };
                        hit |= (w && meets(&reads)) || meets(&writes);
                    };
                    match a {
                        Access::Ap(ap) => touch(self.map.whole(m.module, module, ap.loc)),
                        Access::Set(s) => {
                            for &l in module.sets.get(s).map_or(&[][..], |s| &s.locs) {
                                touch(self.map.whole(m.module, module, l));
                            }
                        }
                        Access::Reg(_) => {}
                    }
                });
                if hit && inst.opcode != Opcode::CoreBarrier {
                    return Err(format!("core {core} touches a tile of it in {}", inst.name));
                }
            }
            match found {
                Some(name) => {
                    if fence.is_empty() {
                        fence = name;
                    }
                }
                None => return Err(format!("no barrier before it in its block on core {core}")),
            }
        }
        Ok(fence)
    }

    fn over_all_cores(&self, b: &Inst) -> bool {
        let cores = b.get_ints(Attr::Cores);
        (0..self.n() as i64).all(|c| cores.contains(&c))
    }
}
