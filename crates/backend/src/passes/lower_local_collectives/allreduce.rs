//! Kind 2, AllReduce: reduce-scatter, barrier, all-gather where a free dimension splits alike on all cores; else every core
//! folds the whole (the specification, file 06 §9.2). Inputs are in ascending core order on every core, so all results
//! are equal bit for bit. Each core writes only its own memory.

use super::alias::{partial_ap, scatter_dimension};
use super::barriers::Remote;
use super::cce::{fold_op, part_name};
use super::legalize::legalize;
use super::{Cursor, Fail, Group, Lowering, Made};
use serde_json::json;
use tandem_bir::{AccessPattern, InstId, MemoryType};

/// Key under which a folding transfer carries the dimension it scatters along (ours; no source names one).
pub const SCATTER_DIM_KEY: &str = "scatter_dim";
/// Key under which a gather copy carries the dimension it gathers along (ours).
pub const GATHER_DIM_KEY: &str = "gather_dim";

impl Lowering<'_> {
    pub(super) fn all_reduce(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
    ) -> Result<(), Fail> {
        let op = fold_op(self.cc(&g.members[0]))?;
        let pairs = self.pairs(g)?;
        let mut dst = Vec::new();
        for m in g.members {
            let mut own = Vec::new();
            for k in 0..pairs {
                let d = self.out_ap(m, k)?;
                self.same_count(g, self.in_ap(m, k)?, d)?;
                own.push(d.clone());
            }
            dst.push(own);
        }
        let plan = self.split_plan(g, pairs, &dst)?;
        let mut row = self.row(g, "dma");
        let note = match plan {
            Some(_) => self.split(g, cursors, made, op, pairs, &dst, plan)?,
            None => self.replicated(g, cursors, made, op, pairs, &dst)?,
        };
        self.cx.count("groups", 1);
        self.cx.count("reduces", 1);
        row.barriers = std::mem::take(&mut made.barriers);
        row.note = note.into();
        self.cx.decisions.push(row);
        Ok(())
    }

    /// Dimension and extent of the split: the same for source and destination, on all cores and pairs.
    fn split_plan(
        &self,
        g: &Group<'_>,
        pairs: usize,
        dst: &[Vec<AccessPattern>],
    ) -> Result<Option<(usize, u64)>, Fail> {
        let n = self.n() as u64;
        let mut plan = None;
        for (core, m) in g.members.iter().enumerate() {
            for k in 0..pairs {
                let (s, d) = (self.in_ap(m, k)?, &dst[core][k]);
                let readable = |a: &AccessPattern| {
                    a.is_static() && matches!(self.mem(m.module, a.loc), MemoryType::Sb | MemoryType::Dram)
                };
                let both = (scatter_dimension(s, n), scatter_dimension(d, n));
                match (both, plan) {
                    ((Some(a), Some(b)), None) if a == b && readable(s) && readable(d) => plan = Some(a),
                    ((Some(a), Some(b)), Some(p)) if a == b && a == p && readable(s) && readable(d) => {}
                    _ => return Ok(None),
                }
            }
        }
        // a partial overlap of source and destination would let a reduce overwrite what a peer still reads
        for (core, m) in g.members.iter().enumerate() {
            for k in 0..pairs {
                let (s, d) = (self.in_ap(m, k)?, &dst[core][k]);
                let same = s.loc == d.loc && s.offset == d.offset && s.pairs == d.pairs && s.dtype == d.dtype;
                let meets = |a: &AccessPattern, b: &AccessPattern| match (
                    self.bytes_of(m.module, a),
                    self.bytes_of(m.module, b),
                ) {
                    (Some(x), Some(y)) => x.meets(&y),
                    _ => true,
                };
                for j in 0..pairs {
                    let other = self.in_ap(m, j)?;
                    if meets(other, d) && !(j == k && same) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(plan)
    }

    fn split(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        op: tandem_bir::AluOp,
        pairs: usize,
        dst: &[Vec<AccessPattern>],
        plan: Option<(usize, u64)>,
    ) -> Result<String, Fail> {
        let n = self.n();
        let (dim, extent) = plan.unwrap_or((1, n as u64));
        let part = extent / n as u64;
        let mut remote = Remote::default();
        let mut src = Vec::new();
        for (core, m) in g.members.iter().enumerate() {
            let mut own = Vec::new();
            for k in 0..pairs {
                own.push(self.in_ap(m, k)?.clone());
                remote.read.push((m.module, own[k].loc));
                remote.read.push((m.module, dst[core][k].loc));
            }
            src.push(own);
        }
        self.open(g, cursors, made, "_cb_begin", &remote, false);
        for k in 0..pairs {
            let name = self.mover(g, "reduce", k, pairs);
            for core in 0..n {
                let m = g.members[core];
                let mut ins = Vec::new();
                for (peer, own) in src.iter().enumerate() {
                    let ap = self.remote_ap(g.members[peer].module, &own[k], m.module, m.func)?;
                    ins.push(partial_ap(&ap, dim, part, core as u64));
                }
                let out = partial_ap(&dst[core][k], dim, part, core as u64);
                let from = made.lists[core].len();
                self.fold(g, made, core, &name, op, &ins, &out);
                self.carry(g, made, core, from, SCATTER_DIM_KEY, dim);
            }
        }
        self.barrier(g, made, "_cb_mid", "every core has reduced its slice before the others gather it");
        for k in 0..pairs {
            // one name per peer and pair, equal on all cores; a core has none for itself
            for peer in 0..n {
                let what = format!("gather_{peer}");
                let name = self.mover(g, &what, k, pairs);
                for core in (0..n).filter(|c| *c != peer) {
                    let m = g.members[core];
                    let ap = self.remote_ap(g.members[peer].module, &dst[peer][k], m.module, m.func)?;
                    let from = partial_ap(&ap, dim, part, peer as u64);
                    let to = partial_ap(&dst[core][k], dim, part, peer as u64);
                    let start = made.lists[core].len();
                    for (part, aps) in legalize(&[from, to]).into_iter().enumerate() {
                        let mut i = self.dma(g, core, &part_name(&name, part));
                        let mut it = aps.into_iter();
                        i.ins.extend(it.next().map(Into::into));
                        i.outs.extend(it.next().map(Into::into));
                        self.emit(g, made, core, i);
                    }
                    self.carry(g, made, core, start, GATHER_DIM_KEY, dim);
                }
            }
        }
        self.barrier(g, made, "_cb_end", "every core has gathered its peers' slices");
        Ok(format!(
            "split along pattern dimension {dim}: each core folds {part} of {extent} and gathers the rest"
        ))
    }

    fn replicated(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        op: tandem_bir::AluOp,
        pairs: usize,
        dst: &[Vec<AccessPattern>],
    ) -> Result<String, Fail> {
        let n = self.n();
        // sources that other cores cannot read as they are get staged; mere overlap is handled by `<cc>_tmp` below
        let mut unreadable = false;
        let mut in_place = false;
        for (core, m) in g.members.iter().enumerate() {
            for k in 0..pairs {
                let s = self.in_ap(m, k)?;
                unreadable |= !s.is_static() || self.mem(m.module, s.loc) == MemoryType::Psum;
                for d in &dst[core] {
                    in_place |= match (self.bytes_of(m.module, s), self.bytes_of(m.module, d)) {
                        (Some(x), Some(y)) => x.meets(&y),
                        _ => true,
                    };
                }
            }
        }
        let (src, staged) = if unreadable {
            self.stage_sources(g, made, pairs)?
        } else {
            let mut src = Vec::new();
            for m in g.members {
                src.push((0..pairs).map(|k| self.in_ap(m, k).cloned()).collect::<Result<Vec<_>, Fail>>()?);
            }
            (src, false)
        };
        let use_tmp = in_place && !staged;
        let mut remote = Remote::default();
        for (m, own) in g.members.iter().zip(&src) {
            remote.read.extend(own.iter().map(|a| (m.module, a.loc)));
        }
        self.open(g, cursors, made, "_cb_begin", &remote, staged);
        let mut copies: Vec<Vec<(AccessPattern, AccessPattern)>> = vec![Vec::new(); n];
        for k in 0..pairs {
            let name = self.mover(g, "reduce", k, pairs);
            let tmp_names = use_tmp.then(|| self.fresh_names(&format!("{}_tmp", g.name)));
            for core in 0..n {
                let m = g.members[core];
                let mut ins = Vec::new();
                for (peer, own) in src.iter().enumerate() {
                    ins.push(self.remote_ap(g.members[peer].module, &own[k], m.module, m.func)?);
                }
                let mut out = dst[core][k].clone();
                if let Some(names) = &tmp_names {
                    let mem = match self.mem(m.module, out.loc) {
                        MemoryType::Sb | MemoryType::Psum => MemoryType::Sb,
                        MemoryType::Unallocated
                        | MemoryType::Input
                        | MemoryType::Output
                        | MemoryType::Dram
                        | MemoryType::RngState
                        | MemoryType::Reg => MemoryType::Dram,
                    };
                    let (_, tile) = self.temporary(m.module, m.func, names, &out, mem);
                    copies[core].push((tile.clone(), out));
                    out = tile;
                }
                self.fold(g, made, core, &name, op, &ins, &out);
            }
        }
        if use_tmp {
            self.barrier(
                g,
                made,
                "_cb_mid",
                "source and destination share bytes: all cores read before one writes",
            );
            for k in 0..pairs {
                let name = self.mover(g, "unpack", k, pairs);
                for (core, list) in copies.iter().enumerate() {
                    let (from, to) = &list[k];
                    let copy = self.local_copy(g, core, &name, from, to);
                    self.emit(g, made, core, copy);
                }
            }
        }
        self.barrier(g, made, "_cb_end", "every core has read its peers' sources");
        Ok("no free dimension splits alike on all cores: every core folds the whole".into())
    }

    fn carry(&mut self, g: &Group<'_>, made: &Made, core: usize, from: usize, key: &str, dim: usize) {
        let m = g.members[core].module;
        let list: Vec<InstId> = made.lists[core].get(from..).unwrap_or(&[]).to_vec();
        for i in list {
            self.p.modules[m].insts[i]
                .more_mut()
                .extra
                .get_or_insert_default()
                .insert(key.into(), json!(dim));
        }
    }
}
