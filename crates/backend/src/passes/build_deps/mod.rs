//! `build-deps`: dependency edges inside every block, from the bytes that operands touch.
//!
//! Flow, Anti and Output edges come from rectangles of physical storage, so two names over the same bytes conflict; an
//! alias of another core's tensor conflicts with other accesses of this core to that tensor. Registers and hidden engine
//! state are resources of their own. A CoreBarrier is a full fence of its core (decision D17), a terminator follows
//! everything, barriers, collectives, swaps and tokens keep their order. Edges never leave a block: block ends join the
//! engines (decision D25). Existing edges are kept and count.
//!
//! Edges are transitively sufficient, not all pairs: a fence waits for the instructions that nothing later waits for, and
//! only the first instructions after a fence name it. Time is linear in the instructions and the intervals they touch.

pub(super) mod interval;

use crate::edit;
use crate::edit::is_meeting_point;
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use crate::storage::{Access, Region, Regions, StorageKey, StorageMap, for_each_access};
use interval::{Cell, Pos, Touched};
use rustc_hash::FxHashMap;
use tandem_bir::entity::SecondaryMap;
use tandem_bir::inst::Effects;
use tandem_bir::{Attr, BlockId, Dep, EdgeKind, EngineKind, Inst, InstId, Module, Opcode, Program, RegId};

/// The pass.
#[derive(Debug)]
pub struct BuildDeps;

static INFO: PassInfo = PassInfo {
    name: "build-deps",
    summary: "orders conflicting accesses inside each block by edges",
    requires: &[Fact::EnginesAssigned],
    ensures: &[Fact::DepsBuilt],
    breaks: &[],
    options: &[],
    stats: &["edges_added", "fences"],
};

impl Pass for BuildDeps {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let (edges, fences) = build(p);
        cx.count("edges_added", edges);
        cx.count("fences", fences);
        Ok(())
    }
}

/// Adds the missing edges of every block. Returns the numbers of edges added and of fences seen.
pub fn build(p: &mut Program) -> (u64, u64) {
    let map = StorageMap::new(p);
    let totals = edit::each_module(p, |mi, m| {
        let mut edges = 0;
        let mut b = Builder::new(mi, m, &map);
        for block in m.blocks.keys().collect::<Vec<_>>() {
            for (i, deps) in b.block(m, block) {
                edges += (deps.len() - m.insts[i].deps.len()) as u64;
                m.insts[i].deps = deps;
            }
        }
        (edges, b.fences)
    });
    totals.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

/// An instruction that everything before it must precede and everything after it must follow, inside its block.
pub fn is_fence(i: &Inst) -> bool {
    let e = i.spec().effects;
    match i.opcode {
        Opcode::CoreBarrier | Opcode::AllEngineBarrier | Opcode::Drain | Opcode::Halt => true,
        Opcode::Call | Opcode::NkiKernel | Opcode::NkiKlirKernel | Opcode::BirKernel => true,
        Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => true,
        // stands for the closing barrier that it replaces
        Opcode::DmaCopy => !i.get_ints(Attr::RemoteNotification).is_empty(),
        _ => e.has(Effects::TERMINATOR),
    }
}

/// Position of an instruction that is not in the block.
const NOWHERE: Pos = Pos::MAX;

struct Builder<'a> {
    module: usize,
    map: &'a StorageMap,
    /// Positions of the instructions of the block at hand; [`NOWHERE`] for those of other blocks.
    pos: SecondaryMap<InstId, Pos>,
    touched: Touched,
    regs: FxHashMap<RegId, Cell>,
    state: FxHashMap<EngineKind, Cell>,
    external: Cell,
    written: FxHashMap<StorageKey, (u64, u64)>,
    fences: u64,
}

impl<'a> Builder<'a> {
    fn new(module: usize, m: &Module, map: &'a StorageMap) -> Builder<'a> {
        Builder {
            module,
            map,
            pos: {
                let mut pos = SecondaryMap::with_default(NOWHERE);
                pos.resize(m.insts.len());
                pos
            },
            touched: Touched::default(),
            regs: FxHashMap::default(),
            state: FxHashMap::default(),
            external: Cell::default(),
            written: FxHashMap::default(),
            fences: 0,
        }
    }

    fn regions_of(&self, m: &Module, a: Access<'_>, out: &mut Regions) {
        out.clear();
        match a {
            Access::Ap(ap) => self.map.regions(self.module, m, ap, out),
            Access::Set(s) => {
                if let Some(set) = m.sets.get(s) {
                    out.extend(set.locs.iter().filter_map(|l| self.map.whole(self.module, m, *l)));
                }
            }
            Access::Reg(_) => {}
        }
    }

    /// Hull of the bytes written per storage: reads outside it need no edges.
    fn hull(&mut self, m: &Module, insts: &[InstId]) {
        self.written.clear();
        for &i in insts {
            for_each_access(&m.insts[i], &mut |a, w| {
                if !w {
                    return;
                }
                let mut add = |r: Region| {
                    let h = self.written.entry(r.key).or_insert((r.lo, r.hi));
                    *h = (h.0.min(r.lo), h.1.max(r.hi));
                };
                match a {
                    Access::Ap(ap) => {
                        if let Some(r) = self.map.bounds(self.module, m, ap) {
                            add(r);
                        }
                    }
                    Access::Set(s) => {
                        for &l in m.sets.get(s).map_or(&[][..], |s| &s.locs) {
                            if let Some(r) = self.map.whole(self.module, m, l) {
                                add(r);
                            }
                        }
                    }
                    Access::Reg(_) => {}
                }
            });
        }
    }

    /// New dependency lists of the instructions that gained edges.
    fn block(&mut self, m: &Module, block: BlockId) -> Vec<(InstId, Vec<Dep>)> {
        let insts = &m.blocks[block].insts;
        for (k, &i) in insts.iter().enumerate() {
            self.pos[i] = k as Pos;
        }
        self.touched.clear();
        self.regs.clear();
        self.state.clear();
        self.external = Cell::default();
        self.hull(m, insts);
        let mut out = Vec::new();
        let mut last_fence: Option<Pos> = None;
        let mut last_meeting: Option<Pos> = None;
        let mut has_follower = vec![false; insts.len()];
        let mut edges: Vec<(Pos, EdgeKind)> = Vec::new();
        let mut regions = Regions::new();
        for (k, &id) in insts.iter().enumerate() {
            let at = k as Pos;
            let inst = &m.insts[id];
            edges.clear();
            let mut edge = |from: Pos, kind: EdgeKind| {
                if from != at {
                    edges.push((from, kind));
                }
            };
            let fence = is_fence(inst);
            for_each_access(inst, &mut |a, w| {
                if let Access::Reg(r) = a {
                    let c = self.regs.entry(r).or_default();
                    if w {
                        c.write(at, &mut edge)
                    } else {
                        c.read(at, &mut edge)
                    }
                    return;
                }
                if fence && inst.opcode == Opcode::CoreBarrier {
                    return; // its semaphore operand is a name, the fence says the rest
                }
                self.regions_of(m, a, &mut regions);
                for r in &regions {
                    let needed =
                        w || self.written.get(&r.key).is_some_and(|&(lo, hi)| r.lo < hi && lo < r.hi);
                    if needed {
                        self.touched.access(r, w, at, &mut edge);
                    }
                }
            });
            let effects = inst.spec().effects;
            if effects.has(Effects::STATE) {
                let c = self.state.entry(inst.engine).or_default();
                c.write(at, &mut |f, _| edge(f, EdgeKind::Ordered));
            }
            if effects.has(Effects::EXTERNAL) {
                self.external.write(at, &mut |f, _| edge(f, EdgeKind::Ordered));
            }
            if is_meeting_point(inst.opcode) {
                if let Some(l) = last_meeting {
                    edge(l, EdgeKind::Ordered);
                }
                last_meeting = Some(at);
            }
            if fence {
                // everything since the last fence that nothing later waits for yet
                let from = last_fence.map_or(0, |f| f as usize);
                for (q, follower) in has_follower.iter().enumerate().take(k).skip(from) {
                    if !follower {
                        edge(q as Pos, EdgeKind::Ordered);
                    }
                }
                // what is after the fence follows it and so all before it
                self.touched.clear();
                self.regs.clear();
                self.state.clear();
                self.external = Cell::default();
                self.fences += 1;
            }
            if let Some(f) = last_fence {
                let own = inst.deps.iter().map(|d| self.pos[d.inst]);
                if !own.chain(edges.iter().map(|e| e.0)).any(|p| p >= f && p < at) {
                    edges.push((f, EdgeKind::Ordered));
                }
            }
            if fence {
                last_fence = Some(at);
            }
            for d in &inst.deps {
                let p = self.pos[d.inst];
                if p < at {
                    has_follower[p as usize] = true;
                }
            }
            if let Some(deps) = merged(inst, insts, &mut edges) {
                out.push((id, deps));
            }
            for e in &edges {
                has_follower[e.0 as usize] = true;
            }
        }
        for &i in insts {
            self.pos[i] = NOWHERE;
        }
        out
    }
}

/// Existing edges and new ones, the larger kind where both name a producer; `None` when nothing is new.
fn merged(inst: &Inst, insts: &[InstId], edges: &mut Vec<(Pos, EdgeKind)>) -> Option<Vec<Dep>> {
    edges.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    edges.dedup_by_key(|e| e.0);
    if edges.is_empty() {
        return None;
    }
    let own = &inst.deps;
    let few = own.len() <= 16;
    let known: FxHashMap<InstId, usize> =
        if few { FxHashMap::default() } else { own.iter().enumerate().map(|(i, d)| (d.inst, i)).collect() };
    let find = |producer: InstId| {
        if few { own.iter().position(|d| d.inst == producer) } else { known.get(&producer).copied() }
    };
    let mut deps: Option<Vec<Dep>> = None;
    for &(p, kind) in edges.iter() {
        let producer = insts[p as usize];
        let at = find(producer);
        if at.is_some_and(|i| own[i].kind >= kind) {
            continue;
        }
        let deps = deps.get_or_insert_with(|| {
            let mut all = Vec::with_capacity(own.len() + edges.len());
            all.extend_from_slice(own);
            all
        });
        match at {
            Some(i) => deps[i].kind = kind,
            None => deps.push(Dep { inst: producer, kind }),
        }
    }
    if let Some(deps) = &mut deps {
        deps.shrink_to_fit();
    }
    deps
}
