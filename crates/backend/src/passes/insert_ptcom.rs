//! `insert-ptcom-flat`: completion tokens.
//!
//! Two readings (decision D3). `p2p`: one token per shared DRAM tensor or output that is written, on every core, before the
//! first terminator of the block where the writers converge, outside loops; it stands for the last writes on all cores.
//! `notify`: one token per output, on core 0, some barriers after the last write; it orders nothing. Locations, blocks and
//! barriers of any core are matched to core 0 by name. A second run finds its tokens and adds none.
//!
//! Source: the specification, file 06 §13.

use crate::edit::{BlockEdits, LocIndex, Names, positions, renumber_core_barriers, subgraphs};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, PtcomMode, Stop};
use crate::storage::for_each_location;
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use tandem_bir::analysis::cfg::{Cfg, Node};
use tandem_bir::analysis::dom::DomTree;
use tandem_bir::analysis::scc::Scc;
use tandem_bir::diag::{Diagnostic, Severity, codes};
use tandem_bir::entity::{EntitySet, SecondaryMap};
use tandem_bir::{
    AccessPattern, AddressSpace, Attr, BlockId, CompactString, EdgeKind, EngineKind, FuncId, Inst, InstId,
    MemLocId, MemoryType, Module, Opcode, Operand, Origin, Program, TensorCompletionMode,
};

/// The pass.
#[derive(Debug)]
pub struct InsertPtcom;

static INFO: PassInfo = PassInfo {
    name: "insert-ptcom-flat",
    summary: "inserts completion tokens",
    requires: &[Fact::CollectivesLowered],
    ensures: &[],
    breaks: &[Fact::EdgesFinal],
    options: &["ptcom", "ptcom_barrier_distance"],
    stats: &["locations", "tokens", "barriers_added"],
};

impl Pass for InsertPtcom {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        match cx.options.ptcom {
            PtcomMode::Off => return Ok(()),
            PtcomMode::P2p if p.lnc_size <= 1 => return Ok(()),
            PtcomMode::P2p | PtcomMode::Notify => {}
        }
        for range in subgraphs(p) {
            let m0 = &p.modules[range.start];
            let names: Vec<CompactString> = m0.all_functions().map(|f| m0.funcs[f].name.clone()).collect();
            for f in names {
                if let Err(d) = function(p, range.clone(), &f, cx) {
                    return Err(cx.fail(*d));
                }
            }
        }
        renumber_core_barriers(p);
        Ok(())
    }
}

type Fail = Box<Diagnostic>;

fn assertion(text: &str) -> Fail {
    Box::new(Diagnostic::new(codes::L0042, format!("insert_ptcom_flat: {text}")))
}

/// A core's function.
#[derive(Clone, Copy, Debug)]
pub struct CoreFunc {
    /// Module index in the program.
    pub module: usize,
    /// Function.
    pub func: FuncId,
}

/// A location of the flat name space: function name and core-0 location name.
pub type Key = CompactString;

/// Writers of each candidate per core: `(block node, position, instruction)`.
pub type Writes = Vec<Vec<(Node, usize, InstId)>>;

/// Step 1: candidates with the blocks that write them, in the order first met.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Index of each location.
    pub loc2index: IndexMap<Key, usize>,
    /// Blocks that write it, by index.
    pub blocks: Vec<FxHashSet<Node>>,
    /// Writes of it per core, by index.
    pub writes: Vec<Writes>,
}

fn core0_name(m: &Module, l: MemLocId) -> CompactString {
    let loc = &m.memlocs[l];
    loc.remote_local_target.as_ref().map_or_else(|| loc.name.clone(), |t| t.name.clone())
}

/// Collects the candidates of one function over all cores.
pub fn candidates(p: &Program, cores: &[CoreFunc], mode: PtcomMode) -> Candidates {
    let mut out = Candidates::default();
    for (c, cf) in cores.iter().enumerate() {
        let m = &p.modules[cf.module];
        for (bi, at, i) in positions(m, cf.func) {
            let inst = &m.insts[i];
            if inst.opcode == Opcode::CoreBarrier {
                continue; // operands of a barrier are names
            }
            let mut seen: FxHashSet<Key> = FxHashSet::default();
            for_each_location(m, inst, &mut |l, write| {
                let set = m.set_of(l);
                let dram =
                    matches!(m.memlocs[l].mem, MemoryType::Dram | MemoryType::Output | MemoryType::Input);
                let shared = dram && set.addr_space == AddressSpace::Shared;
                let wanted = match mode {
                    PtcomMode::P2p => shared || set.kind.is_output(),
                    PtcomMode::Notify => set.kind.is_output(),
                    PtcomMode::Off => false,
                };
                if !write || !wanted {
                    return;
                }
                let key = core0_name(m, l);
                if !seen.insert(key.clone()) {
                    return;
                }
                let next = out.loc2index.len();
                let k = *out.loc2index.entry(key).or_insert(next);
                if k == out.blocks.len() {
                    out.blocks.push(FxHashSet::default());
                    out.writes.push(vec![Vec::new(); cores.len()]);
                }
                out.blocks[k].insert(bi as Node);
                out.writes[k][c].push((bi as Node, at, i));
            });
        }
    }
    out
}

/// Control flow of a function over all cores.
pub struct Flow {
    /// Blocks of core 0, edges of all cores.
    pub cfg: Cfg,
    post: DomTree,
    scc: Scc,
}

impl Flow {
    /// Graph of a function.
    pub fn new(p: &Program, cores: &[CoreFunc]) -> Flow {
        let pairs: Vec<(&Module, FuncId)> = cores.iter().map(|c| (&p.modules[c.module], c.func)).collect();
        let cfg = Cfg::merged(&pairs);
        let (post, scc) = (DomTree::postdominators(&cfg), Scc::new(&cfg));
        Flow { cfg, post, scc }
    }
    /// The block lies in no loop.
    pub fn meets_requirements(&self, node: Node) -> bool {
        !self.scc.in_loop(node)
    }
    /// First common postdominator of some blocks, hoisted out of loops; `None` when only the exit is left.
    pub fn convergence(&self, blocks: &FxHashSet<Node>) -> Option<Node> {
        let mut sorted: Vec<Node> = blocks.iter().copied().collect();
        sorted.sort_unstable();
        let mut b = self.post.common_of(sorted)?;
        while b != self.cfg.exit() && !self.meets_requirements(b) {
            b = self.post.immediate(b)?;
        }
        (b != self.cfg.exit()).then_some(b)
    }
}

/// Step 2: one block per location.
///
/// # Errors
/// The reference's assertions `loc2index.count(loc) > 0` and `blocks.size() == 1`.
pub fn identify_blocks(
    flow: &Flow,
    c: &Candidates,
    order: &[Key],
    skipped: &mut Vec<Key>,
) -> Result<Vec<(usize, Node)>, Fail> {
    let mut out: Vec<(usize, Node)> = Vec::new();
    let mut block_of: FxHashMap<usize, Node> = FxHashMap::default();
    for loc in order {
        let Some(&k) = c.loc2index.get(loc) else { return Err(assertion("loc2index.count(loc) > 0")) };
        match flow.convergence(&c.blocks[k]) {
            Some(b) => match block_of.insert(k, b) {
                Some(other) if other != b => return Err(assertion("blocks.size() == 1")),
                Some(_) => {}
                None => out.push((k, b)),
            },
            None => skipped.push(loc.clone()),
        }
    }
    one_block_per_location(&out)?;
    Ok(out)
}

/// Every location has exactly one block.
///
/// # Errors
/// The reference's assertion `blocks.size() == 1`.
pub fn one_block_per_location(pairs: &[(usize, Node)]) -> Result<(), Fail> {
    let mut seen = FxHashSet::default();
    if pairs.iter().all(|(k, _)| seen.insert(*k)) { Ok(()) } else { Err(assertion("blocks.size() == 1")) }
}

/// Step 3: the last writes of a location on one core: those of the block, else those of every block, without the ones that
/// another of them depends on.
pub fn last_writes(p: &Program, cf: CoreFunc, writes: &[(Node, usize, InstId)], block: Node) -> Vec<InstId> {
    let m = &p.modules[cf.module];
    let inside: Vec<(Node, usize, InstId)> = writes.iter().copied().filter(|w| w.0 == block).collect();
    let set = if inside.is_empty() { writes.to_vec() } else { inside };
    let mut by_block: IndexMap<Node, Vec<(usize, InstId)>> = IndexMap::new();
    for (b, at, i) in set {
        by_block.entry(b).or_default().push((at, i));
    }
    let mut out = Vec::new();
    for (b, list) in by_block {
        if let [(_, only)] = list.as_slice() {
            out.push(*only);
            continue;
        }
        let Some(&bid) = m.funcs[cf.func].blocks.get(b as usize) else { continue };
        let insts = &m.blocks[bid].insts;
        let low = list.iter().map(|(at, _)| *at).min().unwrap_or(0);
        let high = list.iter().map(|(at, _)| *at).max().unwrap_or(0);
        let range = insts.get(low..=high).unwrap_or(&[]);
        // a table over all instructions where the range is a good part of them
        let dense = range.len() >= m.insts.len() / 16;
        let mut table: SecondaryMap<InstId, u32> = SecondaryMap::with_default(u32::MAX);
        let mut few: FxHashMap<InstId, u32> = FxHashMap::default();
        if dense {
            table.resize(m.insts.len());
            range.iter().zip(0..).for_each(|(&i, k)| table[i] = k);
        } else {
            few.extend(range.iter().copied().zip(0..));
        }
        let pos = |i: InstId| if dense { table[i] } else { few.get(&i).copied().unwrap_or(u32::MAX) };
        // ancestors of the members, going back to the first of them
        let mut covered = vec![false; range.len()];
        let mut visited = vec![false; range.len()];
        let mut stack: Vec<usize> = list.iter().map(|(at, _)| *at - low).collect();
        while let Some(at) = stack.pop() {
            let Some(i) = range.get(at) else { continue };
            if std::mem::replace(&mut visited[at], true) {
                continue;
            }
            for d in &m.insts[*i].deps {
                let q = pos(d.inst) as usize;
                if let Some(c) = covered.get_mut(q) {
                    *c = true;
                    stack.push(q);
                }
            }
        }
        out.extend(list.iter().filter(|(at, _)| covered.get(*at - low) != Some(&true)).map(|(_, i)| *i));
    }
    out
}

/// A write on another core that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteWrite {
    /// Core that writes.
    pub core: usize,
    /// The write.
    pub inst: InstId,
}

/// The instructions in blocks of each core's function.
pub fn live(p: &Program, cores: &[CoreFunc]) -> Vec<EntitySet<InstId>> {
    let of = |cf: &CoreFunc| {
        let m = &p.modules[cf.module];
        let mut set = EntitySet::with_capacity(m.insts.len());
        set.extend(positions(m, cf.func).into_iter().map(|x| x.2));
        set
    };
    cores.iter().map(of).collect()
}

/// Step 4: what the token on each core stands for beside its own writes. A core without the location gets none.
///
/// # Errors
/// The reference's assertion `extendedWrite != nullptr`, when a last write is in no block any more and no later write of the
/// location is found.
pub fn extend_last_writes(
    p: &Program,
    cores: &[CoreFunc],
    key: &str,
    own: &[Vec<InstId>],
    has: &[bool],
    live: &[EntitySet<InstId>],
) -> Result<Vec<Vec<RemoteWrite>>, Fail> {
    let mut out = vec![Vec::new(); cores.len()];
    for (c, list) in own.iter().enumerate() {
        let m = &p.modules[cores[c].module];
        for &w in list {
            let mut writes = false;
            for_each_location(m, &m.insts[w], &mut |l, write| writes |= write && core0_name(m, l) == key);
            if !writes || !live.get(c).is_some_and(|l| l.contains(w)) {
                return Err(assertion("extendedWrite != nullptr"));
            }
            for (a, x) in out.iter_mut().enumerate() {
                if a != c && has[a] {
                    x.push(RemoteWrite { core: c, inst: w });
                }
            }
        }
    }
    Ok(out)
}

fn datapath(e: EngineKind) -> EngineKind {
    match e {
        EngineKind::Pool | EngineKind::Activation | EngineKind::Pe | EngineKind::Dve | EngineKind::Sp => e,
        EngineKind::Unassigned | EngineKind::Dma | EngineKind::All => EngineKind::Pool,
    }
}

fn whole(m: &Module, l: MemLocId) -> AccessPattern {
    AccessPattern::whole(l, &m.memlocs[l], m.set_of(l).dtype)
}

/// Terminators are the last instructions of a block.
fn first_terminator(m: &Module, b: BlockId) -> Option<InstId> {
    m.blocks[b].insts.iter().rev().copied().take_while(|i| m.insts[*i].opcode.is_terminator()).last()
}

fn token(name: &str, engine: EngineKind, ap: AccessPattern) -> Inst {
    let mut t = Inst::new(name, Opcode::TensorCompletion);
    t.engine = engine;
    t.origin = Origin::Internal;
    t.set(Attr::Mode, TensorCompletionMode::Default);
    t.ins.push(Operand::Ap(ap));
    t
}

fn function(p: &mut Program, range: Range<usize>, fname: &str, cx: &mut PassCtx) -> Result<(), Fail> {
    let mut cores = Vec::new();
    for module in range.clone() {
        let Some(func) = p.modules[module].find_function(fname) else { return Ok(()) };
        cores.push(CoreFunc { module, func });
    }
    let mode = cx.options.ptcom;
    let c = candidates(p, &cores, mode);
    if c.loc2index.is_empty() {
        return Ok(());
    }
    let flow = Flow::new(p, &cores);
    let order: Vec<Key> = c.loc2index.keys().cloned().collect();
    let mut skipped = Vec::new();
    let mut pairs = identify_blocks(&flow, &c, &order, &mut skipped)?;
    for loc in skipped {
        let mut d = Diagnostic::new(codes::L0043, format!("no PTCOM block for {loc}"));
        d.severity = Severity::Warning;
        cx.report(d);
    }
    pairs.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| order[a.0].cmp(&order[b.0])));
    let index: Vec<LocIndex> = cores.iter().map(|c| LocIndex::new(&p.modules[c.module])).collect();
    let present: FxHashSet<&str> = p.modules[range.clone()]
        .iter()
        .flat_map(|m| m.walk().into_iter().map(|(_, _, i)| m.insts[i].name.as_str()))
        .filter_map(|n| n.strip_suffix("-PTCOM"))
        .collect();
    pairs.retain(|(k, _)| !present.contains(order[*k].as_str()));
    cx.count("locations", pairs.len() as u64);
    match mode {
        PtcomMode::Off => Ok(()),
        PtcomMode::P2p => p2p(p, &cores, &c, &order, &pairs, &index, fname, cx),
        PtcomMode::Notify => {
            notify(p, &cores, &c, &order, &pairs, &index, fname, cx);
            Ok(())
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the tables of one function")]
fn p2p(
    p: &mut Program,
    cores: &[CoreFunc],
    c: &Candidates,
    order: &[Key],
    pairs: &[(usize, Node)],
    index: &[LocIndex],
    fname: &str,
    cx: &mut PassCtx,
) -> Result<(), Fail> {
    let mut edits: Vec<BlockEdits> = cores.iter().map(|_| BlockEdits::default()).collect();
    let live = live(p, cores);
    for &(k, block) in pairs {
        let key = &order[k];
        let own: Vec<Vec<InstId>> =
            cores.iter().enumerate().map(|(a, cf)| last_writes(p, *cf, &c.writes[k][a], block)).collect();
        let locs: Vec<Option<MemLocId>> = index.iter().map(|ix| ix.by_name(fname, key)).collect();
        let has: Vec<bool> = locs.iter().map(Option::is_some).collect();
        extend_last_writes(p, cores, key, &own, &has, &live)?;
        let engine = own
            .iter()
            .zip(cores)
            .find_map(|(l, cf)| l.first().map(|i| datapath(p.modules[cf.module].insts[*i].engine)))
            .unwrap_or(EngineKind::Pool);
        for (a, cf) in cores.iter().enumerate() {
            let Some(loc) = locs[a] else { continue };
            let m = &mut p.modules[cf.module];
            let Some(&bid) = m.funcs[cf.func].blocks.get(block as usize) else { continue };
            let t = token(&format!("{key}-PTCOM"), engine, whole(m, loc));
            let id = m.insts.push(t);
            let insts = &m.blocks[bid].insts;
            // not those in the body of a loop of the block
            let inside: FxHashSet<InstId> = c.writes[k][a]
                .iter()
                .filter(|(node, at, i)| *node == block && insts.get(*at) == Some(i))
                .map(|w| w.2)
                .collect();
            for &w in own[a].iter().filter(|w| inside.contains(w)) {
                m.insts[id].add_dep(id, w, EdgeKind::Flow);
            }
            if let Some(term) = first_terminator(m, bid) {
                m.insts[term].add_dep(term, id, EdgeKind::Ordered);
            }
            edits[a].at_end.entry(bid).or_default().push(id);
            cx.count("tokens", 1);
        }
    }
    for (cf, e) in cores.iter().zip(edits) {
        e.apply(&mut p.modules[cf.module]);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the tables of one function")]
fn notify(
    p: &mut Program,
    cores: &[CoreFunc],
    c: &Candidates,
    order: &[Key],
    pairs: &[(usize, Node)],
    index: &[LocIndex],
    fname: &str,
    cx: &mut PassCtx,
) {
    let distance = cx.options.ptcom_barrier_distance.max(1) as usize;
    let modules: Vec<usize> = cores.iter().map(|c| c.module).collect();
    let mut names = Names::of(modules.iter().map(|m| &p.modules[*m]));
    let mut edits: Vec<BlockEdits> = cores.iter().map(|_| BlockEdits::default()).collect();
    for &(k, block) in pairs {
        let key = &order[k];
        // position of the last write inside the block, per core; none: the block's start
        let last: Vec<Option<usize>> =
            c.writes[k].iter().map(|w| w.iter().filter(|w| w.0 == block).map(|w| w.1).max()).collect();
        let cf0 = cores[0];
        let Some(loc) = index[0].by_name(fname, key).or_else(|| adopt(p, cores, index, fname, key)) else {
            continue;
        };
        let m0 = &p.modules[cf0.module];
        let Some(&b0) = m0.funcs[cf0.func].blocks.get(block as usize) else { continue };
        let name = format!("{key}-PTCOM");
        if cores.len() == 1 {
            let anchor = last[0].map(|at| m0.blocks[b0].insts[at]);
            let engine = anchor.map_or(EngineKind::Pool, |i| datapath(m0.insts[i].engine));
            let m = &mut p.modules[cf0.module];
            let id = m.insts.push(token(&name, engine, whole(m, loc)));
            match anchor {
                Some(w) => {
                    m.insts[id].add_dep(id, w, EdgeKind::Flow);
                    edits[0].after.entry(w).or_default().push(id);
                }
                None => edits[0].at_start.entry(b0).or_default().push(id),
            }
            cx.count("tokens", 1);
            continue;
        }
        let barriers = |cf: &CoreFunc| -> Vec<(usize, InstId)> {
            let m = &p.modules[cf.module];
            m.funcs[cf.func].blocks.get(block as usize).map_or_else(Vec::new, |b| {
                m.blocks[*b]
                    .insts
                    .iter()
                    .enumerate()
                    .filter(|(_, i)| m.insts[**i].opcode == Opcode::CoreBarrier)
                    .map(|(at, i)| (at, *i))
                    .collect()
            })
        };
        let before = |cf: &CoreFunc, w: Option<usize>| {
            w.map_or(0, |w| barriers(cf).iter().filter(|(at, _)| *at < w).count())
        };
        let k0 = cores.iter().zip(&last).map(|(cf, w)| before(cf, *w)).max().unwrap_or(0);
        let own = barriers(&cf0);
        let by_distance = own.get(k0 + distance - 1).copied();
        let anchor = by_distance.or_else(|| own.last().copied().filter(|_| own.len() > k0));
        let anchor_id = match anchor {
            Some((_, i)) => i,
            None => {
                // no barrier after the last writes: one of its own, on every core
                let cb = names.inst(&format!("{key}_ptcom_cb"));
                let mut first = None;
                for (a, cf) in cores.iter().enumerate() {
                    let cores_list: Vec<i64> = (0..cores.len() as i64).collect();
                    let m = &mut p.modules[cf.module];
                    let Some(&b) = m.funcs[cf.func].blocks.get(block as usize) else { continue };
                    let mut i = Inst::new(&cb, Opcode::CoreBarrier);
                    i.engine = EngineKind::Pool;
                    i.origin = Origin::Internal;
                    i.set(Attr::Cores, cores_list);
                    let id = m.insts.push(i);
                    edits[a].at_end.entry(b).or_default().push(id);
                    first.get_or_insert(id);
                }
                cx.count("barriers_added", 1);
                match first {
                    Some(i) => i,
                    None => continue,
                }
            }
        };
        let m = &mut p.modules[cf0.module];
        let engine = datapath(m.insts[anchor_id].engine);
        let id = m.insts.push(token(&name, engine, whole(m, loc)));
        m.insts[id].add_dep(id, anchor_id, EdgeKind::Ordered);
        if let Some(term) = first_terminator(m, b0) {
            m.insts[term].add_dep(term, id, EdgeKind::Ordered);
        }
        if by_distance.is_some() {
            edits[0].after.entry(anchor_id).or_default().push(id);
        } else {
            edits[0].at_end.entry(b0).or_default().push(id);
        }
        cx.count("tokens", 1);
    }
    for (cf, e) in cores.iter().zip(edits) {
        e.apply(&mut p.modules[cf.module]);
    }
}

/// An output that core 0 lacks is added to it by name, a copy of the lowest core's that has it.
fn adopt(
    p: &mut Program,
    cores: &[CoreFunc],
    index: &[LocIndex],
    fname: &str,
    key: &str,
) -> Option<MemLocId> {
    let (cf, l) = cores.iter().zip(index).find_map(|(cf, ix)| ix.by_name(fname, key).map(|l| (cf, l)))?;
    let m = &p.modules[cf.module];
    let (set, mut loc) = (m.set_of(l).clone(), m.memlocs[l].clone());
    if set.addr_space != AddressSpace::Shared {
        // a private output of another core: core 0's token stands for the name alone
        loc.allocated = false;
    }
    let m0 = &mut p.modules[cores[0].module];
    Some(m0.add_location(cores[0].func, set, loc))
}
