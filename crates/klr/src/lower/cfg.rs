//! Blocks, branches and what a walk over them needs: labels, inlining of `noReorder` blocks, legal ends.
//!
//! Source: the specification, file 04 §2 (e)–(h), 2.2 and 2.3. A `noReorder` block gets no block of its own: where an
//! `always` branch leads to it, its statements continue the current block. Inside, operators of one engine stay in
//! order (`Ordered` edges); an operator without an engine is ordered against all.

use super::Core;
use super::fail::Fail;
use crate::ast as k;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{Attr, BlockId, CompactString, EdgeKind, Inst, InstId, Opcode};

/// Statements that inlining may add, in multiples of those in the body (our choice): traced kernels inline every
/// block once, so only a damaged file gets there.
const MAX_INLINING: usize = 4;

/// What a label stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Label {
    Block(BlockId),
    /// Index in the body.
    NoReorder(usize),
}

/// The blocks of a body.
#[derive(Debug, Default)]
pub(crate) struct Blocks<'k> {
    labels: FxHashMap<&'k str, Label>,
    /// Ordinary blocks: id and index in the body.
    order: Vec<(BlockId, usize)>,
    successors: FxHashMap<BlockId, SmallVec<[BlockId; 2]>>,
    /// Blocks whose last statement is a branch, legal or not.
    ended: FxHashSet<BlockId>,
    inlined: FxHashSet<usize>,
}

/// Last operators of a `noReorder` block.
#[derive(Debug, Default)]
struct Chain {
    engines: [Option<InstId>; k::Engine::ALL.len()],
    barrier: Option<InstId>,
}

impl<'k> Core<'k> {
    /// Lowers the blocks of a body.
    pub(crate) fn body(&mut self, body: &'k [k::Block]) {
        self.has_body = true;
        self.create_blocks(body);
        let statements = body.iter().map(|b| b.body.len()).sum::<usize>();
        self.m.insts.reserve(statements);
        let mut budget = statements.saturating_mul(MAX_INLINING).max(1024);
        for (block, index) in self.blocks.order.clone() {
            self.walk_block(body, block, index, &mut budget);
        }
        self.legalize(body);
        self.cur = super::core::Cursor::default();
    }

    fn at_block(&mut self, body: &'k [k::Block], index: usize, stmt: usize) {
        let Some(block) = body.get(index) else { return };
        self.cur.block = &block.label;
        self.cur.block_index = index;
        self.cur.index = stmt;
        self.cur.stmt = block.body.get(stmt);
    }

    fn create_blocks(&mut self, body: &'k [k::Block]) {
        for (index, block) in body.iter().enumerate() {
            if self.blocks.labels.contains_key(block.label.as_str()) {
                self.at_block(body, index, 0);
                let fail = Fail::new(codes::K0073, format!("block {} is defined twice", block.label));
                self.block_finding(*fail);
                continue;
            }
            if block.no_reorder {
                self.check_no_reorder(body, index);
                self.blocks.labels.insert(&block.label, Label::NoReorder(index));
                if index > 0 {
                    continue;
                }
            }
            let id = self.m.add_block(self.f, &block.label);
            self.m.blocks[id].insts.reserve(block.body.len());
            self.blocks.order.push((id, index));
            self.blocks.labels.entry(&block.label).or_insert(Label::Block(id));
        }
    }

    fn block_finding(&mut self, fail: Fail) {
        let mut d = Diagnostic::new(fail.code, fail.message).site(self.site());
        d.notes = fail.notes;
        self.kernel.diags.push(d);
    }

    /// A `noReorder` block ends in an unconditional branch.
    fn check_no_reorder(&mut self, body: &'k [k::Block], index: usize) {
        let Some(block) = body.get(index) else { return };
        let broken = match block.body.last().map(|s| &s.op) {
            Some(k::Operator::CmpBranch(b)) if b.op == k::BrCmpOp::Always => return,
            Some(k::Operator::CmpBranch(_)) => "op->op == BrCmpOp::always",
            Some(_) => "op->tag == Operator::Tag::cmpBranch",
            None => "lastStmt->tag == klr::Stmt::Tag::oper",
        };
        self.at_block(body, index, block.body.len().saturating_sub(1));
        let text = format!("noReorder block {} does not end in an unconditional branch", block.label);
        self.block_finding(
            *Fail::new(codes::K0072, text).note(format!("the vendor's compiler asserts: {broken}")),
        );
    }

    fn walk_block(&mut self, body: &'k [k::Block], block: BlockId, index: usize, budget: &mut usize) {
        self.b = Some(block);
        let mut at = index;
        let mut seen = FxHashSet::default();
        loop {
            let Some(b) = body.get(at) else { return };
            let mut chain = b.no_reorder.then(Chain::default);
            if b.no_reorder {
                self.blocks.inlined.insert(at);
                seen.insert(at);
            }
            let mut next = None;
            let mut ended = false;
            for (i, stmt) in b.body.iter().enumerate() {
                self.at_block(body, at, i);
                if ended {
                    self.report(*Fail::new(
                        codes::K0074,
                        format!("statement after the branch of block {}", b.label),
                    ));
                    break;
                }
                if let k::Operator::CmpBranch(branch) = &stmt.op {
                    ended = true;
                    if branch.op == k::BrCmpOp::Always
                        && let Some(Label::NoReorder(target)) =
                            self.blocks.labels.get(branch.true_label.as_str())
                    {
                        next = Some(*target);
                        continue;
                    }
                }
                self.statement();
                if let Some(chain) = &mut chain {
                    self.order(chain, stmt.op.engine());
                }
            }
            let Some(target) = next else {
                if ended {
                    self.blocks.ended.insert(block);
                }
                return;
            };
            self.blocks.ended.insert(block);
            // A chain of inlined blocks is a path; meeting one of its blocks again means it never ends.
            let cost = body.get(target).map_or(1, |b| b.body.len().max(1));
            let circle = seen.contains(&target);
            if circle || *budget < cost {
                let text = if circle {
                    format!("noReorder blocks branch in a circle at {}", b.label)
                } else {
                    "noReorder blocks are inlined too often".to_string()
                };
                self.report(*Fail::new(codes::K0075, text));
                return;
            }
            *budget = budget.saturating_sub(cost);
            at = target;
        }
    }

    /// Ordered edges of the statement just lowered.
    fn order(&mut self, chain: &mut Chain, engine: k::Engine) {
        let (Some(&first), Some(&last)) = (self.minted.first(), self.minted.last()) else { return };
        if engine == k::Engine::Unassigned {
            for before in chain.engines.iter().flatten().chain(&chain.barrier) {
                self.m.insts[first].add_dep(first, *before, EdgeKind::Ordered);
            }
            *chain = Chain { barrier: Some(last), ..Chain::default() };
        } else if let Some(slot) = chain.engines.get_mut(engine as usize) {
            if let Some(before) = slot.or(chain.barrier) {
                self.m.insts[first].add_dep(first, before, EdgeKind::Ordered);
            }
            *slot = Some(last);
        }
    }

    /// The block a conditional or real branch leads to.
    pub(crate) fn branch_target(&mut self, label: &k::Str) -> super::Res<CompactString> {
        match self.blocks.labels.get(label.as_str()) {
            Some(Label::Block(target)) => {
                if let Some(b) = self.b {
                    self.blocks.successors.entry(b).or_default().push(*target);
                }
                Ok(label.clone())
            }
            Some(Label::NoReorder(_)) => {
                Err(Fail::new(codes::K0071, format!("{label} BasicBlock does not exist!"))
                    .note("the label is a noReorder block, which only an unconditional branch can enter"))
            }
            None => Err(Fail::new(codes::K0071, format!("{label} BasicBlock does not exist!"))),
        }
    }

    /// Ends of blocks, and blocks nobody reaches.
    fn legalize(&mut self, body: &'k [k::Block]) {
        let reached = self.reached();
        let order = std::mem::take(&mut self.blocks.order);
        let last = order.last().map(|(b, _)| *b);
        let mut resume = None;
        for &(block, index) in &order {
            let empty = self.m.blocks[block].insts.is_empty();
            if self.blocks.ended.contains(&block) || (empty && !reached.contains(&block)) {
                continue;
            }
            if Some(block) != last {
                let Some(b) = body.get(index) else { continue };
                self.at_block(body, index, b.body.len().saturating_sub(1));
                let fail = Fail::new(codes::K0070, format!("block {} has no terminator", b.label))
                    .note("only the last block of a body may end without a branch; it ends the kernel");
                self.block_finding(*fail);
            } else if empty && order.len() > 1 {
                resume = Some(block);
            }
        }
        self.m.funcs[self.f].blocks.retain(|b| {
            Some(*b) == order.first().map(|(e, _)| *e)
                || reached.contains(b)
                || !self.m.blocks[*b].insts.is_empty()
        });
        if let Some(exit) = resume {
            self.resume(exit);
        }
        for (index, b) in body.iter().enumerate() {
            if b.no_reorder && !self.blocks.inlined.contains(&index) {
                self.at_block(body, index, 0);
                let text =
                    format!("no branch leads to noReorder block {}; its statements are left out", b.label);
                self.block_finding(*Fail::new(codes::K0076, text));
            }
        }
    }

    /// Sends an empty exit block to the shared block where the caller would go on.
    fn resume(&mut self, exit: BlockId) {
        let mut name = format!("{}-RESUME-Block-compiler-inserted", self.plan.view.name);
        while self.blocks.labels.contains_key(name.as_str()) {
            name.push_str(".1");
        }
        self.m.add_block(self.f, &name);
        let mut branch = Inst::new("", Opcode::UnconditionalBranch);
        branch.set(Attr::Target, name.as_str());
        self.b = Some(exit);
        self.emit_helper("UnconditionalBranch-", branch);
    }

    fn reached(&self) -> FxHashSet<BlockId> {
        let mut reached = FxHashSet::default();
        let mut todo: Vec<BlockId> = self.blocks.order.first().map(|(b, _)| *b).into_iter().collect();
        while let Some(b) = todo.pop() {
            if reached.insert(b)
                && let Some(next) = self.blocks.successors.get(&b)
            {
                todo.extend(next);
            }
        }
        reached
    }
}
