//! Overlapping live allocations: bytes of one tensor destroyed by another that was placed over it.
//!
//! **Definition.** Two locations of one core's SBUF or PSUM, placed on common bytes, are both live when a byte was written
//! under the name of the first, then written under the name of the second, and is then read under the name of the first
//! without having been written under it again. The read is a finding (S0023) with the read and the write that destroyed the
//! byte. A byte that the first name never wrote belongs to nobody: reading it under another name is a view, not a fault.
//!
//! **What is followed.** Only locations that overlap another one on the same core and neither of which names the other as
//! an alias; where the code of a core has no loops and no branches, only those whose uses are interleaved in program order.
//! Remote aliases count as the location of the owner. A finding whose read or write takes part in a data race is left out: the
//! race is the cause.
//! Operands that linking made an address in a register name the whole memory and are not followed, nor are those of bundles
//! whose debug table does not name their tensors.
//!
//! **May miss**: uses on paths not taken; DRAM; accesses through a gather or scatter by index. **Reports falsely** when two
//! names are meant to be the same tensor and no alias says so.

use crate::exec::Arg;
use crate::machine::{Core, Machine};
use crate::memory::View;
use crate::place::{Names, owner};
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{InstId, MemLocId, Module, Operand};

/// Byte never written under the name, and byte last written under it; larger values name the write that destroyed it.
const NEVER: u32 = 0;
const OWN: u32 = 1;
const FIRST_KILLER: u32 = 2;

/// A followed location.
struct Followed {
    core: usize,
    loc: MemLocId,
    /// First partition and byte inside the partition; extents.
    part: usize,
    col: usize,
    rows: usize,
    cols: usize,
    /// One entry per byte.
    state: Vec<u32>,
    /// Other followed locations on common bytes.
    others: Vec<usize>,
}

/// Everything that is followed.
pub(crate) struct Overlap {
    list: Vec<Followed>,
    /// By core and location as an instruction names it.
    at: FxHashMap<(usize, MemLocId), usize>,
    /// Writes that destroyed something: core, instruction, location.
    killers: Vec<(usize, InstId, usize)>,
    killer_of: FxHashMap<(usize, InstId, usize), u32>,
}

/// First and last use of every location in program order; `None` when the module has control flow.
fn uses(m: &Module) -> Option<Vec<(u32, u32)>> {
    let mut out = vec![(u32::MAX, 0); m.memlocs.len()];
    for (n, (_, _, id)) in m.walk().into_iter().enumerate() {
        let i = &m.insts[id];
        if i.is_terminator_like() {
            return None;
        }
        for ap in crate::place::all_aps(i) {
            let u = &mut out[ap.loc.index()];
            *u = (u.0.min(n as u32), u.1.max(n as u32));
        }
    }
    Some(out)
}

/// Instructions after which program order is not time order.
trait Jumps {
    fn is_terminator_like(&self) -> bool;
}
impl Jumps for tandem_bir::Inst {
    fn is_terminator_like(&self) -> bool {
        use tandem_bir::Opcode as O;
        !self.regions().is_empty()
            || matches!(self.opcode, O::CompareAndBranch | O::UnconditionalBranch | O::Call)
    }
}

impl Overlap {
    /// Finds the locations to follow; `None` when there are none.
    pub(crate) fn new(
        modules: &[&Module],
        names: &[Names<'_>],
        cores: &[Core<'_>],
        lnc: usize,
    ) -> Option<Overlap> {
        let mut o = Overlap {
            list: Vec::new(),
            at: FxHashMap::default(),
            killers: Vec::new(),
            killer_of: FxHashMap::default(),
        };
        let remote: rustc_hash::FxHashSet<(usize, MemLocId)> = modules
            .iter()
            .enumerate()
            .flat_map(|(c, m)| m.memlocs.iter().filter(|(_, l)| l.is_remote()).map(move |(l, _)| (c, l)))
            .filter_map(|(c, l)| owner(modules, names, c, l).ok())
            .collect();
        for (g, core) in cores.iter().enumerate() {
            let m = core.module;
            let elsewhere = |l: MemLocId| remote.contains(&(g % lnc, l));
            // By the first byte, so that only neighbours are compared.
            let mut placed: Vec<(usize, usize, MemLocId)> = Vec::new();
            for (l, loc) in m.memlocs.iter() {
                if loc.is_on_chip()
                    && loc.allocated
                    && !loc.is_remote()
                    && let Some(p) = core.places[l.index()]
                    && let Some(pitch) = p.pitch.filter(|p| *p > 0)
                {
                    placed.push((p.buf.index(), p.base % pitch, l));
                }
            }
            placed.sort_unstable_by_key(|(b, c, l)| (*b, *c, l.index()));
            let mut use_of = None;
            for (k, &(buf, col, l)) in placed.iter().enumerate() {
                let end = col + m.memlocs[l].row_bytes() as usize;
                for &(buf2, col2, l2) in &placed[k + 1..] {
                    if buf2 != buf || col2 >= end {
                        break;
                    }
                    let uses = use_of.get_or_insert_with(|| uses(m));
                    if let Some(u) = uses
                        && !elsewhere(l)
                        && !elsewhere(l2)
                    {
                        let (a, b) = (u[l.index()], u[l2.index()]);
                        if a.0 == u32::MAX || b.0 == u32::MAX || a.1 < b.0 || b.1 < a.0 {
                            continue;
                        }
                    }
                    let (a, b) = (&m.memlocs[l], &m.memlocs[l2]);
                    let named = |x: &tandem_bir::MemoryLocation, y: &tandem_bir::MemoryLocation| {
                        x.aliases.iter().any(|(s, l, _)| *s == y.name || *l == y.name)
                    };
                    if named(a, b) || named(b, a) {
                        continue;
                    }
                    let i = o.follow(g, core, l);
                    let j = o.follow(g, core, l2);
                    let (x, y) = (&o.list[i], &o.list[j]);
                    if x.part < y.part + y.rows && y.part < x.part + x.rows {
                        o.list[i].others.push(j);
                        o.list[j].others.push(i);
                    }
                }
            }
        }
        if o.list.is_empty() {
            return None;
        }
        for (g, core) in cores.iter().enumerate() {
            let (r, c) = (g / lnc, g % lnc);
            for (l, loc) in core.module.memlocs.iter().filter(|(_, l)| l.is_remote()) {
                let _ = loc;
                if let Ok((oc, ol)) = owner(modules, names, c, l)
                    && let Some(&k) = o.at.get(&(r * lnc + oc, ol))
                {
                    o.at.insert((g, l), k);
                }
            }
        }
        Some(o)
    }

    fn follow(&mut self, g: usize, core: &Core<'_>, l: MemLocId) -> usize {
        if let Some(&k) = self.at.get(&(g, l)) {
            return k;
        }
        let loc = &core.module.memlocs[l];
        let (base, pitch) = core.places[l.index()].map_or((0, 1), |p| (p.base, p.pitch.unwrap_or(1).max(1)));
        let (rows, cols) = (loc.rows() as usize, loc.row_bytes() as usize);
        let cols = cols.min(pitch);
        self.list.push(Followed {
            core: g,
            loc: l,
            part: base / pitch,
            col: base % pitch,
            rows,
            cols,
            state: vec![NEVER; rows.saturating_mul(cols)],
            others: Vec::new(),
        });
        self.at.insert((g, l), self.list.len() - 1);
        self.list.len() - 1
    }
}

impl Followed {
    /// Part of the entries that a run of bytes of the buffer covers.
    fn range(&self, at: usize, len: usize, pitch: usize) -> Option<std::ops::Range<usize>> {
        let (part, col) = (at / pitch, at % pitch);
        let row = part.checked_sub(self.part).filter(|r| *r < self.rows)?;
        let lo = col.max(self.col);
        let hi = (col + len).min(self.col + self.cols);
        (lo < hi).then(|| row * self.cols + lo - self.col..row * self.cols + hi - self.col)
    }
}

impl Machine<'_> {
    /// Follows the accesses of an instruction; `lists` as for [`Machine::touch`].
    pub(crate) fn overlapping(&mut self, c: usize, id: InstId, lists: u8) {
        let Some(o) = &mut self.overlap else { return };
        let core = &self.cores[c];
        let inst = &core.module.insts[id];
        let d = &core.code.decoded[id.index()];
        let mut hit: Option<(usize, u32, usize)> = None;
        let followed = |ap: Option<&Operand>, a: &Arg, o: &Overlap| -> Option<(usize, View)> {
            let k = *o.at.get(&(c, ap?.as_ap()?.loc))?;
            match a {
                Arg::View(v) => Some((k, v.clone())),
                Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_) => None,
            }
        };
        for (bit, args, ops) in
            [(0u8, &d.ins[..], &inst.ins[..]), (2, &d.indirect[..], inst.indirection_ins())]
        {
            if lists & (1 << bit) == 0 {
                continue;
            }
            for (a, op) in args.iter().zip(ops) {
                let Some((k, v)) = followed(Some(op), a, o) else { continue };
                let Some(pitch) = self.mem.info(v.buf).pitch.filter(|p| *p > 0) else { continue };
                let f = &o.list[k];
                v.for_each_run(|at, len| {
                    if hit.is_none()
                        && let Some(r) = f.range(at, len, pitch)
                        && let Some(s) = f.state[r].iter().find(|s| **s >= FIRST_KILLER)
                    {
                        hit = Some((k, *s, at));
                    }
                });
            }
        }
        if lists & 2 != 0 {
            for (a, op) in d.outs.iter().zip(&inst.outs) {
                let Some((k, v)) = followed(Some(op), a, o) else { continue };
                let Some(pitch) = self.mem.info(v.buf).pitch.filter(|p| *p > 0) else { continue };
                let next = o.killers.len() as u32 + FIRST_KILLER;
                let killer = *o.killer_of.entry((c, id, k)).or_insert(next);
                if killer == next {
                    o.killers.push((c, id, k));
                }
                v.for_each_run(|at, len| {
                    if let Some(r) = o.list[k].range(at, len, pitch) {
                        o.list[k].state[r].fill(OWN);
                    }
                });
                for n in 0..o.list[k].others.len() {
                    let other = o.list[k].others[n];
                    let f = &mut o.list[other];
                    v.for_each_run(|at, len| {
                        if let Some(r) = f.range(at, len, pitch) {
                            for s in &mut f.state[r] {
                                if *s != NEVER {
                                    *s = killer;
                                }
                            }
                        }
                    });
                }
            }
        }
        let Some((k, killer, at)) = hit else { return };
        let (kc, ki, kl) = o.killers[(killer - FIRST_KILLER) as usize];
        let name = |f: &Followed| self.cores[f.core].module.memlocs[f.loc].name.to_string();
        let (mine, theirs) = (name(&o.list[k]), name(&o.list[kl]));
        let pitch = self.mem.info(
            self.cores[o.list[k].core].places[o.list[k].loc.index()]
                .map_or(crate::memory::BufId(0), |p| p.buf),
        );
        let part = pitch.pitch.filter(|p| *p > 0).map_or(0, |p| at / p);
        if !self.noted.insert((c, id, "S0023")) {
            return;
        }
        let text =
            format!("`{mine}` is read, but `{theirs}`, which lies on the same bytes, was written over it");
        let d = Diagnostic::new(codes::S0023, text)
            .site(self.site(c, id).label(format!("reads `{mine}` in partition {part}")))
            .site(self.site(kc, ki).label(format!("writes `{theirs}` over it")))
            .note("both tensors are live between the two places, and their placements overlap")
            .help("place one of them elsewhere");
        self.diagnostics.push(d);
    }
}
