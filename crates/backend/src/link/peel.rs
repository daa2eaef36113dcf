//! Takes the first iteration out of a loop.
//!
//! A copy of the loop's blocks runs first; its edges back to the head go to the loop itself. Used where an instruction
//! means one thing in the first iteration and another in the later ones (the specification, file 07 §7.13: matmuls that
//! accumulate over a loop).

use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::cfg::{Cfg, Node};
use tandem_bir::analysis::dom::DomTree;
use tandem_bir::{
    Attr, Block, BlockId, CompactString, EngineKind, FuncId, Inst, InstId, Module, Opcode, Origin,
};

/// Peels the innermost natural loop around a block. False when there is none.
pub(super) fn peel(m: &mut Module, func: FuncId, block: BlockId) -> bool {
    let cfg = Cfg::new(m, func);
    let dom = DomTree::dominators(&cfg);
    let Some(node) = cfg.node_of(block) else { return false };
    let mut best: Option<(Node, FxHashSet<Node>)> = None;
    for (from, head) in cfg.edges() {
        if !dom.reached(from) || !dom.dominates(head, from) {
            continue;
        }
        let body = natural_loop(&cfg, &dom, head);
        if body.contains(&node) && best.as_ref().is_none_or(|(_, b)| body.len() < b.len()) {
            best = Some((head, body));
        }
    }
    let Some((head, body)) = best else { return false };
    let list = m.funcs[func].blocks.clone();
    let mut nodes: Vec<Node> = body.iter().copied().collect();
    nodes.sort_unstable();
    let taken: FxHashSet<CompactString> = list.iter().map(|b| m.blocks[*b].name.clone()).collect();
    let mut copy: FxHashMap<Node, BlockId> = FxHashMap::default();
    for &n in &nodes {
        let name = free_name(&taken, &m.blocks[list[n as usize]].name);
        copy.insert(n, m.blocks.push(Block { name, insts: Vec::new(), extra: None }));
    }
    // every block says where it goes, so that the copies can stand anywhere
    for k in 0..list.len() {
        let ended = m.blocks[list[k]].insts.last().is_some_and(|i| m.insts[*i].opcode.is_terminator());
        if !ended {
            let end = match list.get(k + 1) {
                Some(next) => {
                    let name = m.blocks[*next].name.clone();
                    Inst::new("", Opcode::UnconditionalBranch).with(Attr::Target, name.as_str())
                }
                None => Inst::new("", Opcode::Return),
            };
            push(m, list[k], end);
        }
    }
    let by_name: FxHashMap<CompactString, Node> =
        list.iter().enumerate().map(|(k, b)| (m.blocks[*b].name.clone(), k as Node)).collect();
    let name_of = |m: &Module, b: BlockId| m.blocks[b].name.clone();
    // the copies: back to the loop itself, else to the other copies
    for &n in &nodes {
        let insts = m.blocks[list[n as usize]].insts.clone();
        let mut became: FxHashMap<InstId, InstId> = FxHashMap::default();
        for i in insts {
            let mut x = m.insts[i].clone();
            x.name = format!("{}.first", x.name).as_str().into();
            x.deps.retain(|d| became.contains_key(&d.inst));
            x.deps.iter_mut().for_each(|d| d.inst = became[&d.inst]);
            redirect(&mut x, |t| {
                let to = by_name.get(t)?;
                (*to != head).then(|| copy.get(to).map(|b| name_of(m, *b))).flatten()
            });
            let id = m.insts.push(x);
            became.insert(i, id);
            m.blocks[copy[&n]].insts.push(id);
        }
    }
    // from outside the loop to the copy of its head
    let first = name_of(m, copy[&head]);
    for (k, b) in list.iter().enumerate() {
        if body.contains(&(k as Node)) {
            continue;
        }
        for i in m.blocks[*b].insts.clone() {
            let mut x = m.insts[i].clone();
            if x.opcode.is_terminator() {
                redirect(&mut x, |t| (by_name.get(t) == Some(&head)).then(|| first.clone()));
                m.insts[i] = x;
            }
        }
    }
    let mut blocks = list;
    if head == cfg.entry() {
        let name = free_name(&taken, "entry");
        let b = m.blocks.push(Block { name, insts: Vec::new(), extra: None });
        push(m, b, Inst::new("", Opcode::UnconditionalBranch).with(Attr::Target, first.as_str()));
        blocks.insert(0, b);
    }
    blocks.extend(nodes.iter().map(|n| copy[n]));
    m.funcs[func].blocks = blocks;
    true
}

fn natural_loop(cfg: &Cfg, dom: &DomTree, head: Node) -> FxHashSet<Node> {
    let mut body: FxHashSet<Node> = FxHashSet::default();
    body.insert(head);
    let mut work: Vec<Node> =
        cfg.predecessors(head).iter().copied().filter(|p| dom.dominates(head, *p)).collect();
    while let Some(n) = work.pop() {
        if body.insert(n) {
            work.extend(cfg.predecessors(n).iter().filter(|p| dom.reached(**p)));
        }
    }
    body
}

fn free_name(taken: &FxHashSet<CompactString>, stem: &str) -> CompactString {
    let mut k = 0;
    loop {
        let name: CompactString =
            if k == 0 { format!("{stem}.first") } else { format!("{stem}.first{k}") }.as_str().into();
        if !taken.contains(&name) {
            return name;
        }
        k += 1;
    }
}

fn push(m: &mut Module, b: BlockId, mut i: Inst) {
    i.name = format!("{}-end.{}", m.blocks[b].name, m.insts.len()).as_str().into();
    i.engine = EngineKind::All;
    i.origin = Origin::Internal;
    m.push_inst(b, i);
}

fn redirect(i: &mut Inst, to: impl Fn(&str) -> Option<CompactString>) {
    if !i.opcode.is_terminator() {
        return;
    }
    for a in [Attr::Target, Attr::OnTrue, Attr::OnFalse] {
        if i.spec().attr(a).is_some()
            && let Some(n) = i.get_str(a).and_then(&to)
        {
            i.set(a, n.as_str());
        }
    }
}
