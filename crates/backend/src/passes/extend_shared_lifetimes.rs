//! `extend-shared-lifetimes`: every shared scratch tensor lives from one barrier to another on all cores.
//!
//! From the first access on any core to the last on any core, the tensor is bracketed by two barriers over all cores; an
//! existing barrier is used where it lies right on every core, else one is inserted. Brackets never stand in a loop or in an
//! arm of a branch (cores may take different ways): they move to the nearest dominator and postdominator outside. The start
//! barrier names the tensor as output, the end barrier as input; the shared allocator reads lifetimes from that. A tensor that
//! no block after all accesses can close stays open to the end. Completion tokens and barrier operands are no accesses.
//!
//! With one core nothing changes. Source: the specification, file 06 §10.

use super::localize_shared_memory::shared_internals;
use crate::edit::{BlockEdits, Names, positions, renumber_core_barriers, subgraphs};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use crate::storage::for_each_location;
use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use tandem_bir::analysis::cfg::{Cfg, Node};
use tandem_bir::analysis::dom::DomTree;
use tandem_bir::analysis::scc::Scc;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{
    AccessPattern, Attr, CompactString, EngineKind, FuncId, Inst, InstId, MemLocId, MemoryType, Module,
    Opcode, Operand, Origin, Program,
};

/// The pass.
#[derive(Debug)]
pub struct ExtendSharedLifetimes;

static INFO: PassInfo = PassInfo {
    name: "extend-shared-lifetimes",
    summary: "brackets the lifetime of each shared scratch tensor by barriers on all cores",
    requires: &[Fact::CollectivesLowered],
    ensures: &[Fact::LifetimesFenced],
    breaks: &[Fact::EdgesFinal],
    options: &["separate_lifetime_corebarriers"],
    stats: &["tensors", "reused", "barriers_added", "open_ended"],
};

impl Pass for ExtendSharedLifetimes {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        if p.lnc_size <= 1 {
            return Ok(());
        }
        for range in subgraphs(p) {
            let names: Vec<CompactString> = {
                let m0 = &p.modules[range.start];
                m0.all_functions().map(|f| m0.funcs[f].name.clone()).collect()
            };
            for m in &p.modules[range.clone()] {
                if m.all_functions().count() != names.len() {
                    let text = format!("core {:?} has another number of functions than core 0", m.core);
                    return Err(cx.fail(
                        Diagnostic::new(codes::L0040, text)
                            .note("vendor assertion extend_shared_lifetimes.cpp:88"),
                    ));
                }
            }
            for name in &names {
                for m in &p.modules[range.clone()] {
                    if m.find_function(name).is_none() {
                        return Err(cx.fail(
                            Diagnostic::new(
                                codes::L0040,
                                format!("core {:?} has no function {name}", m.core),
                            )
                            .note("vendor assertion extend_shared_lifetimes.cpp:92"),
                        ));
                    }
                }
            }
            if p.modules[range.clone()].iter().all(|m| shared_internals(m).is_empty()) {
                continue;
            }
            let mut fresh = Names::of(&p.modules[range.clone()]);
            let mut brackets = Brackets::default();
            for name in names {
                function(p, range.clone(), &name, &mut fresh, &mut brackets, cx)?;
            }
        }
        renumber_core_barriers(p);
        cx.log.push("Renumbering core barriers.".into());
        Ok(())
    }
}

/// Where a bracket goes: block and side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Point {
    Start(Node),
    End(Node),
}

/// Barrier of a bracket: an existing ordinal or a point to insert at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Existing(usize),
    New(Point),
}

#[derive(Default)]
struct Brackets {
    starts: u32,
    ends: u32,
}

/// First and last access positions of one tensor on one core, and the blocks it is accessed in.
#[derive(Clone, Default)]
struct Span {
    first: Option<(usize, usize)>,
    last: Option<(usize, usize)>,
    blocks: FxHashSet<usize>,
}

/// One core's view of the function.
struct CoreView {
    module: usize,
    func: FuncId,
    spans: FxHashMap<CompactString, Span>,
    locs: FxHashMap<CompactString, MemLocId>,
    /// Barriers over all cores: block, position, instruction.
    barriers: Vec<(usize, usize, InstId)>,
}

fn view(p: &Program, module: usize, func: FuncId) -> CoreView {
    let m = &p.modules[module];
    let fname = &m.funcs[func].name;
    let locs: FxHashMap<CompactString, MemLocId> = shared_internals(m)
        .into_iter()
        .filter(|((f, _), l)| f == fname && m.memlocs[*l].mem == MemoryType::Dram)
        .map(|((_, n), l)| (n, l))
        .collect();
    let by_id: FxHashMap<MemLocId, &CompactString> = locs.iter().map(|(n, l)| (*l, n)).collect();
    let mut spans: FxHashMap<CompactString, Span> = FxHashMap::default();
    let mut barriers = Vec::new();
    let all: Vec<i64> = (0..i64::from(p.lnc_size)).collect();
    for (bi, at, i) in positions(m, func) {
        let inst = &m.insts[i];
        if inst.opcode == Opcode::CoreBarrier {
            let own = m.funcs[func].blocks.get(bi).is_some_and(|b| m.blocks[*b].insts.get(at) == Some(&i));
            if own && all.iter().all(|c| inst.get_ints(Attr::Cores).contains(c)) {
                barriers.push((bi, at, i));
            }
            continue;
        }
        if inst.opcode == Opcode::TensorCompletion {
            continue;
        }
        for_each_location(m, inst, &mut |l, _| {
            if let Some(n) = by_id.get(&l) {
                let s = spans.entry((*n).clone()).or_default();
                s.first = Some(s.first.map_or((bi, at), |f| f.min((bi, at))));
                s.last = Some(s.last.map_or((bi, at), |f| f.max((bi, at))));
                s.blocks.insert(bi);
            }
        });
    }
    CoreView { module, func, spans, locs, barriers }
}

fn function(
    p: &mut Program,
    range: Range<usize>,
    fname: &str,
    fresh: &mut Names,
    brackets: &mut Brackets,
    cx: &mut PassCtx,
) -> Result<(), Stop> {
    let mut cores = Vec::new();
    for mi in range {
        // Every core has the function: looked at before.
        if let Some(f) = p.modules[mi].find_function(fname) {
            cores.push(view(p, mi, f));
        }
    }
    // tensors in the order of the first core that has them
    let mut tensors: IndexMap<CompactString, ()> = IndexMap::new();
    for c in &cores {
        for ((f, n), _) in shared_internals(&p.modules[c.module]) {
            if f == fname && cores.iter().any(|c| c.spans.contains_key(&n)) {
                tensors.entry(n).or_insert(());
            }
        }
    }
    if tensors.is_empty() {
        return Ok(());
    }
    let pairs: Vec<(&Module, FuncId)> = cores.iter().map(|c| (&p.modules[c.module], c.func)).collect();
    let cfg = Cfg::merged(&pairs);
    let (dom, post, scc) = (DomTree::dominators(&cfg), DomTree::postdominators(&cfg), Scc::new(&cfg));
    let flow = Flow { cfg: &cfg, dom: &dom, post: &post, scc: &scc };
    let separate = cx.options.separate_lifetime_corebarriers;
    let mut plan: Vec<(CompactString, Option<Bracket>, Option<Bracket>)> = Vec::new();
    for (name, ()) in tensors {
        cx.count("tensors", 1);
        let spans: Vec<Option<&Span>> = cores.iter().map(|c| c.spans.get(&name)).collect();
        let (start, end) = flow.bracket(&cores, &spans, separate);
        for b in [start, end].into_iter().flatten() {
            if matches!(b, Bracket::Existing(_)) {
                cx.count("reused", 1);
            }
        }
        if start.is_none() || end.is_none() {
            cx.count("open_ended", 1);
        }
        plan.push((name, start, end));
    }
    // insert: one barrier per point
    let mut made: IndexMap<Point, (CompactString, Vec<InstId>)> = IndexMap::new();
    let mut edits: Vec<BlockEdits> = cores.iter().map(|_| BlockEdits::default()).collect();
    let subgraph = p.modules[cores[0].module].subgraph;
    for (_, start, end) in &plan {
        for (b, is_start) in [(start, true), (end, false)] {
            let Some(Bracket::New(point)) = b else { continue };
            if made.contains_key(point) {
                continue;
            }
            let (counter, what) =
                if is_start { (&mut brackets.starts, "start") } else { (&mut brackets.ends, "end") };
            let base = match *counter {
                0 => format!("cb_sg{subgraph}_{what}"),
                k => format!("cb_sg{subgraph}_{what}_{k}"),
            };
            *counter += 1;
            let name = fresh.inst(&base);
            let mut ids = Vec::new();
            for (c, e) in cores.iter().zip(&mut edits) {
                let m = &mut p.modules[c.module];
                let (Point::Start(node) | Point::End(node)) = *point;
                let Some(block) = block_of(m, c.func, node) else {
                    continue;
                };
                let mut i = Inst::new(&name, Opcode::CoreBarrier);
                i.engine = EngineKind::Pool;
                i.origin = Origin::Internal;
                i.set(Attr::Cores, (0..i64::from(p.lnc_size)).collect::<Vec<_>>());
                let id = m.insts.push(i);
                match point {
                    Point::Start(_) => e.at_start.entry(block).or_default().push(id),
                    Point::End(_) => e.at_end.entry(block).or_default().push(id),
                }
                ids.push(id);
            }
            cx.count("barriers_added", 1);
            cx.log.push(format!("Inserted new CB {name}"));
            made.insert(*point, (name, ids));
        }
    }
    for (c, e) in cores.iter().zip(edits) {
        e.apply(&mut p.modules[c.module]);
    }
    // record: output on the start barrier, input on the end barrier
    for (name, start, end) in plan {
        for (k, c) in cores.iter().enumerate() {
            let Some(&loc) = c.locs.get(&name) else { continue };
            let m = &mut p.modules[c.module];
            let ap = AccessPattern::whole(loc, &m.memlocs[loc], m.set_of(loc).dtype);
            for (b, is_start) in [(start, true), (end, false)] {
                let id = match b {
                    None => continue,
                    Some(Bracket::Existing(o)) => c.barriers.get(o).map(|b| b.2),
                    Some(Bracket::New(point)) => made.get(&point).and_then(|(_, ids)| ids.get(k).copied()),
                };
                let Some(id) = id else { continue };
                let list = if is_start { &mut m.insts[id].outs } else { &mut m.insts[id].ins };
                let operand = Operand::Ap(ap.clone());
                if !list.contains(&operand) {
                    list.push(operand);
                }
            }
        }
    }
    Ok(())
}

/// Nodes of the merged graph are blocks of the first core, in order; all cores have the same blocks in the same order (the
/// verifier's rules 1191–1194).
fn block_of(m: &Module, func: FuncId, node: Node) -> Option<tandem_bir::BlockId> {
    m.funcs[func].blocks.get(node as usize).copied()
}

struct Flow<'a> {
    cfg: &'a Cfg,
    dom: &'a DomTree,
    post: &'a DomTree,
    scc: &'a Scc,
}

impl Flow<'_> {
    fn bracket(
        &self,
        cores: &[CoreView],
        spans: &[Option<&Span>],
        separate: bool,
    ) -> (Option<Bracket>, Option<Bracket>) {
        let mut blocks: Vec<Node> =
            spans.iter().flatten().flat_map(|s| s.blocks.iter().map(|b| *b as Node)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let (mut start, mut end) = (None, None);
        if !separate {
            let equal = cores.iter().all(|c| {
                c.barriers.len() == cores[0].barriers.len()
                    && c.barriers.iter().zip(&cores[0].barriers).all(|(a, b)| a.0 == b.0)
            });
            if equal {
                start = self.reuse_start(cores, spans, &blocks);
                end = self.reuse_end(cores, spans, &blocks);
            }
        }
        (
            start.map(Bracket::Existing).or_else(|| self.new_start(&blocks).map(Bracket::New)),
            end.map(Bracket::Existing).or_else(|| self.new_end(&blocks).map(Bracket::New)),
        )
    }

    /// Last barrier that comes before every access on every core, on every way.
    fn reuse_start(&self, cores: &[CoreView], spans: &[Option<&Span>], blocks: &[Node]) -> Option<usize> {
        (0..cores[0].barriers.len()).rev().find(|&k| {
            let node = cores[0].barriers[k].0 as Node;
            !self.scc.in_loop(node)
                && blocks.iter().all(|b| self.dom.dominates(node, *b))
                && cores.iter().zip(spans).all(|(c, s)| {
                    let (b, at, _) = c.barriers[k];
                    s.and_then(|s| s.first).is_none_or(|f| b != f.0 || at < f.1)
                        && s.is_none_or(|s| !s.blocks.contains(&b) || s.first.is_some_and(|f| f >= (b, at)))
                })
        })
    }

    /// First barrier that comes after every access on every core, on every way.
    fn reuse_end(&self, cores: &[CoreView], spans: &[Option<&Span>], blocks: &[Node]) -> Option<usize> {
        (0..cores[0].barriers.len()).find(|&k| {
            let node = cores[0].barriers[k].0 as Node;
            !self.scc.in_loop(node)
                && blocks.iter().all(|b| self.post.dominates(node, *b))
                && cores.iter().zip(spans).all(|(c, s)| {
                    let (b, at, _) = c.barriers[k];
                    s.is_none_or(|s| !s.blocks.contains(&b) || s.last.is_some_and(|l| l <= (b, at)))
                })
        })
    }

    fn new_start(&self, blocks: &[Node]) -> Option<Point> {
        let mut node = self.dom.common_of(blocks.iter().copied())?;
        while self.scc.in_loop(node) {
            node = self.dom.immediate(node)?;
        }
        // in the first block itself the barrier comes before everything; in a dominator, before the branch
        Some(if blocks.contains(&node) { Point::Start(node) } else { Point::End(node) })
    }

    fn new_end(&self, blocks: &[Node]) -> Option<Point> {
        let mut node = self.post.common_of(blocks.iter().copied())?;
        while node != self.cfg.exit() && self.scc.in_loop(node) {
            node = self.post.immediate(node)?;
        }
        if node == self.cfg.exit() {
            return None;
        }
        Some(if blocks.contains(&node) { Point::End(node) } else { Point::Start(node) })
    }
}
