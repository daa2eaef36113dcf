//! Control flow of a function: its blocks as nodes, one virtual exit behind all returns.
//!
//! Edges follow the last instruction of a block: a branch to the blocks it names, Return, Exit and Break to the exit; a
//! block without a terminator goes to the next block of the list, the last one to the exit. Blocks of nested regions
//! (Loop, DynamicForLoop, DoWhile, DMABlock) are no nodes: [`Cfg::node_of`] gives the block that contains them.
//! A branch to a block that does not exist has no edge; the verifier reports it.

use crate::ids::{BlockId, FuncId, InstId};
use crate::inst::{Attr, Opcode};
use crate::module::Module;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Index of a node: position of the block in the function's list; the exit comes last.
pub type Node = u32;

/// Control-flow graph of one function.
#[derive(Clone, Debug)]
pub struct Cfg {
    blocks: Vec<BlockId>,
    succ: Vec<SmallVec<[Node; 2]>>,
    pred: Vec<SmallVec<[Node; 2]>>,
    node_of: FxHashMap<BlockId, Node>,
    nested: FxHashMap<BlockId, InstId>,
}

impl Cfg {
    /// Graph of a function.
    pub fn new(module: &Module, func: FuncId) -> Cfg {
        Cfg::merged(&[(module, func)])
    }

    /// Graph over the blocks of the first function with the edges of all of them, blocks matched by name (the same
    /// function on several cores). No functions give a graph of the exit alone.
    pub fn merged(funcs: &[(&Module, FuncId)]) -> Cfg {
        let blocks: Vec<BlockId> =
            funcs.first().and_then(|(m, f)| m.funcs.get(*f)).map_or_else(Vec::new, |f| f.blocks.clone());
        let n = blocks.len();
        let mut cfg = Cfg {
            succ: vec![SmallVec::new(); n + 1],
            pred: vec![SmallVec::new(); n + 1],
            node_of: FxHashMap::default(),
            nested: FxHashMap::default(),
            blocks,
        };
        let Some(&(m0, _)) = funcs.first() else { return cfg };
        for i in 0..n {
            cfg.enter(m0, cfg.blocks[i], i as Node);
        }
        let mut names: FxHashMap<&str, Node> = FxHashMap::default();
        for (i, b) in cfg.blocks.iter().enumerate() {
            if let Some(b) = m0.blocks.get(*b) {
                names.entry(b.name.as_str()).or_insert(i as Node);
            }
        }
        for &(m, f) in funcs {
            let Some(f) = m.funcs.get(f) else { continue };
            for (i, &b) in f.blocks.iter().enumerate() {
                let Some(block) = m.blocks.get(b) else { continue };
                let Some(&from) = names.get(block.name.as_str()) else { continue };
                let next = || f.blocks.get(i + 1).and_then(|b| m.blocks.get(*b)).map(|b| b.name.as_str());
                for to in targets(m, b, next()) {
                    match to {
                        Target::Exit => cfg.edge(from, n as Node),
                        Target::Block(name) => {
                            if let Some(&to) = names.get(name) {
                                cfg.edge(from, to);
                            }
                        }
                    }
                }
            }
        }
        cfg
    }

    fn enter(&mut self, m: &Module, block: BlockId, node: Node) {
        let mut stack = vec![block];
        while let Some(b) = stack.pop() {
            if self.node_of.insert(b, node).is_some() {
                continue;
            }
            let Some(data) = m.blocks.get(b) else { continue };
            for &i in &data.insts {
                for &r in m.insts.get(i).map_or(&[][..], |i| i.regions()) {
                    if !self.node_of.contains_key(&r) {
                        self.nested.insert(r, i);
                        stack.push(r);
                    }
                }
            }
        }
    }

    fn edge(&mut self, from: Node, to: Node) {
        if !self.succ[from as usize].contains(&to) {
            self.succ[from as usize].push(to);
            self.pred[to as usize].push(from);
        }
    }

    /// Number of nodes, the exit included.
    pub fn len(&self) -> usize {
        self.succ.len()
    }
    /// The function has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
    /// The entry: the first block, or the exit of a function without blocks.
    pub fn entry(&self) -> Node {
        0
    }
    /// The virtual exit.
    pub fn exit(&self) -> Node {
        self.blocks.len() as Node
    }
    /// Block of a node; `None` for the exit.
    pub fn block(&self, node: Node) -> Option<BlockId> {
        self.blocks.get(node as usize).copied()
    }
    /// The node that is or contains a block (a block of a nested region counts as its outermost owner).
    pub fn node_of(&self, block: BlockId) -> Option<Node> {
        self.node_of.get(&block).copied()
    }
    /// The instruction whose region a nested block is; `None` for a block of the function's list.
    pub fn region_owner(&self, block: BlockId) -> Option<InstId> {
        self.nested.get(&block).copied()
    }
    /// Successors of a node.
    pub fn successors(&self, node: Node) -> &[Node] {
        self.succ.get(node as usize).map_or(&[], |s| s)
    }
    /// Predecessors of a node.
    pub fn predecessors(&self, node: Node) -> &[Node] {
        self.pred.get(node as usize).map_or(&[], |s| s)
    }
    /// All edges, sources ascending.
    pub fn edges(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        self.succ.iter().enumerate().flat_map(|(a, s)| s.iter().map(move |b| (a as Node, *b)))
    }
}

enum Target<'m> {
    Block(&'m str),
    Exit,
}

fn targets<'m>(m: &'m Module, block: BlockId, next: Option<&'m str>) -> SmallVec<[Target<'m>; 2]> {
    let mut out = SmallVec::new();
    let last = m.blocks.get(block).and_then(|b| b.insts.last()).and_then(|i| m.insts.get(*i));
    let last = last.filter(|i| i.opcode.is_terminator());
    let Some(inst) = last else {
        out.push(next.map_or(Target::Exit, Target::Block));
        return out;
    };
    let keys: &[Attr] = if inst.opcode == Opcode::CompareAndBranch {
        &[Attr::OnTrue, Attr::OnFalse]
    } else if inst.opcode == Opcode::UnconditionalBranch {
        &[Attr::Target]
    } else {
        &[] // Return, Exit, Break
    };
    if keys.is_empty() {
        out.push(Target::Exit);
    }
    out.extend(keys.iter().filter_map(|k| inst.get_str(*k)).map(Target::Block));
    out
}
