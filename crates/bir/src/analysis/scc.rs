//! Strongly connected components of a [`Cfg`]: which blocks lie in a loop. Iterative.

use super::cfg::{Cfg, Node};
use super::dom::graph;
use petgraph::algo::kosaraju_scc;

/// Components of a control-flow graph.
#[derive(Clone, Debug)]
pub struct Scc {
    component: Vec<u32>,
    looping: Vec<bool>,
}

impl Scc {
    /// Components of a graph, numbered in reverse topological order.
    pub fn new(cfg: &Cfg) -> Scc {
        let parts = kosaraju_scc(&graph(cfg));
        let mut component = vec![0; cfg.len()];
        let mut looping = vec![false; parts.len()];
        for (i, part) in parts.iter().enumerate() {
            for n in part {
                component[n.index()] = i as u32;
            }
            looping[i] = part.len() > 1
                || part.iter().any(|n| cfg.successors(n.index() as Node).contains(&(n.index() as Node)));
        }
        Scc { component, looping }
    }
    /// Component of a node.
    pub fn of(&self, node: Node) -> Option<u32> {
        self.component.get(node as usize).copied()
    }
    /// The node lies on a cycle (an edge to itself counts).
    pub fn in_loop(&self, node: Node) -> bool {
        self.of(node).is_some_and(|c| self.looping.get(c as usize).copied().unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cfg::Cfg;
    use super::super::dom::DomTree;
    use super::*;
    use crate::arch::ArchLevel;
    use crate::inst::{Attr, Inst, Opcode};
    use crate::module::Module;
    use proptest::prelude::*;

    /// A function of `n` blocks; block i branches to the two given blocks, or returns.
    fn build(edges: &[Option<(usize, usize)>]) -> (Module, Cfg) {
        let mut m = Module::new("m", None, ArchLevel::Gen3);
        let f = m.add_function("f");
        let blocks: Vec<_> = (0..edges.len()).map(|i| m.add_block(f, &format!("b{i}"))).collect();
        for (b, e) in blocks.iter().zip(edges) {
            let i = match e {
                Some((t, x)) => Inst::new("br", Opcode::CompareAndBranch)
                    .with(Attr::OnTrue, format!("b{t}").as_str())
                    .with(Attr::OnFalse, format!("b{x}").as_str()),
                None => Inst::new("ret", Opcode::Return),
            };
            m.push_inst(*b, i);
        }
        let cfg = Cfg::new(&m, f);
        (m, cfg)
    }

    fn reach(cfg: &Cfg, from: u32, without: Option<u32>, back: bool) -> Vec<bool> {
        let mut seen = vec![false; cfg.len()];
        let mut stack = vec![from];
        while let Some(n) = stack.pop() {
            if Some(n) == without || std::mem::replace(&mut seen[n as usize], true) {
                continue;
            }
            stack.extend(if back { cfg.predecessors(n) } else { cfg.successors(n) });
        }
        seen
    }

    fn edges() -> impl Strategy<Value = Vec<Option<(usize, usize)>>> {
        (1usize..9).prop_flat_map(|n| prop::collection::vec(prop::option::weighted(0.8, (0..n, 0..n)), n..=n))
    }

    proptest! {
        #[test]
        fn dominance_and_loops_equal_their_definitions(e in edges()) {
            let (_m, cfg) = build(&e);
            let (dom, post, scc) = (DomTree::dominators(&cfg), DomTree::postdominators(&cfg), Scc::new(&cfg));
            for (tree, root, back) in [(&dom, cfg.entry(), false), (&post, cfg.exit(), true)] {
                let all = reach(&cfg, root, None, back);
                for a in 0..cfg.len() as u32 {
                    prop_assert_eq!(tree.reached(a), all[a as usize]);
                    let without = reach(&cfg, root, Some(a), back);
                    for b in 0..cfg.len() as u32 {
                        let want = all[a as usize] && all[b as usize] && !without[b as usize];
                        prop_assert_eq!(tree.dominates(a, b), want, "{} {} {}", a, b, back);
                    }
                }
            }
            for a in 0..cfg.len() as u32 {
                let after: Vec<bool> = cfg.successors(a).iter().map(|s| reach(&cfg, *s, None, false)[a as usize]).collect();
                prop_assert_eq!(scc.in_loop(a), after.contains(&true));
            }
        }
    }

    #[test]
    fn the_worked_example_of_tokens() {
        // entry -> loop -> (loop | after) ; after -> (left | right) -> join -> exit
        let e = [Some((1, 1)), Some((1, 2)), Some((3, 4)), Some((5, 5)), Some((5, 5)), None];
        let (_m, cfg) = build(&e);
        let (post, scc) = (DomTree::postdominators(&cfg), Scc::new(&cfg));
        assert!(scc.in_loop(1) && !scc.in_loop(2));
        assert_eq!(post.immediate(1), Some(2));
        assert_eq!(post.common_of([3, 4]), Some(5));
        assert_eq!(post.immediate(5), Some(cfg.exit()));
    }

    #[test]
    fn deep_functions_do_not_recurse() {
        let n = 200_000;
        let e: Vec<_> = (0..n).map(|i| if i + 1 < n { Some((i + 1, i + 1)) } else { None }).collect();
        let (_m, cfg) = build(&e);
        let post = DomTree::postdominators(&cfg);
        assert!(post.dominates(n as u32 - 1, 0) && !Scc::new(&cfg).in_loop(7));
    }
}
