//! Dominators and postdominators of a [`Cfg`]. Iterative; a node that cannot be reached (from the entry, or backwards
//! from the exit) has neither and dominates nothing.

use super::cfg::{Cfg, Node};
use petgraph::algo::dominators::{Dominators, simple_fast};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Reversed;

/// Dominator tree of one direction.
#[derive(Clone, Debug)]
pub struct DomTree {
    idom: Vec<Option<Node>>,
    depth: Vec<u32>,
    root: Node,
}

const UNREACHED: u32 = u32::MAX;

impl DomTree {
    /// Dominators: from the entry along edges.
    pub fn dominators(cfg: &Cfg) -> DomTree {
        let g = graph(cfg);
        let d = simple_fast(&g, NodeIndex::new(cfg.entry() as usize));
        DomTree::collect(cfg.len(), cfg.entry(), &d)
    }
    /// Postdominators: from the exit against edges.
    pub fn postdominators(cfg: &Cfg) -> DomTree {
        let g = graph(cfg);
        let d = simple_fast(Reversed(&g), NodeIndex::new(cfg.exit() as usize));
        DomTree::collect(cfg.len(), cfg.exit(), &d)
    }

    fn collect(n: usize, root: Node, d: &Dominators<NodeIndex>) -> DomTree {
        let idom: Vec<Option<Node>> =
            (0..n).map(|i| d.immediate_dominator(NodeIndex::new(i)).map(|x| x.index() as Node)).collect();
        let mut depth = vec![UNREACHED; n];
        if let Some(d) = depth.get_mut(root as usize) {
            *d = 0;
        }
        let mut path = Vec::new();
        for i in 0..n {
            let mut x = i;
            while depth[x] == UNREACHED {
                let Some(up) = idom[x] else { break };
                path.push(x);
                x = up as usize;
            }
            let mut at = depth[x];
            while let Some(y) = path.pop() {
                at = at.saturating_add(1);
                depth[y] = at;
            }
        }
        DomTree { idom, depth, root }
    }

    /// Nearest strict dominator; `None` for the root and for nodes that cannot be reached.
    pub fn immediate(&self, node: Node) -> Option<Node> {
        if node == self.root { None } else { self.idom.get(node as usize).copied().flatten() }
    }
    /// The node is in the tree.
    pub fn reached(&self, node: Node) -> bool {
        self.depth.get(node as usize).is_some_and(|d| *d != UNREACHED)
    }
    /// `a` dominates `b`; every reached node dominates itself.
    pub fn dominates(&self, a: Node, b: Node) -> bool {
        self.reached(a) && self.common(a, b) == Some(a)
    }
    /// Nearest node that dominates both; `None` when one is not in the tree.
    pub fn common(&self, mut a: Node, mut b: Node) -> Option<Node> {
        if !self.reached(a) || !self.reached(b) {
            return None;
        }
        while a != b {
            if self.depth[a as usize] >= self.depth[b as usize] {
                a = self.immediate(a)?;
            } else {
                b = self.immediate(b)?;
            }
        }
        Some(a)
    }
    /// Nearest node that dominates all; `None` for no nodes or when one is not in the tree.
    pub fn common_of(&self, nodes: impl IntoIterator<Item = Node>) -> Option<Node> {
        let mut it = nodes.into_iter();
        let first = it.next().filter(|n| self.reached(*n))?;
        it.try_fold(first, |a, b| self.common(a, b))
    }
}

pub(super) fn graph(cfg: &Cfg) -> DiGraph<(), (), u32> {
    let mut g = DiGraph::with_capacity(cfg.len(), cfg.len());
    for _ in 0..cfg.len() {
        g.add_node(());
    }
    for (a, b) in cfg.edges() {
        g.add_edge(NodeIndex::new(a as usize), NodeIndex::new(b as usize), ());
    }
    g
}
