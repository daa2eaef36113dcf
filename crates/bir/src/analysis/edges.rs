//! Dependency edges that no execution can meet, because their producer comes only after their consumer.
//!
//! At level lowered an instruction starts when every instruction that its edges name has completed, inside the same execution
//! of its block. Control instructions (branches, loops, calls, CoreBarriers) divide a block into segments, and each waits for
//! all that stands before it (decision D17, and D25 for the end of a block). So an edge to a producer before the segment
//! is met when the segment starts, and an edge to a producer behind it never is: the producer waits for the segment to end,
//! the segment for the producer. Edges inside a segment are the queues' own business and are not listed.
//!
//! Between blocks: an edge is listed when its consumer's block can reach the producer's block and not the other way round.
//! Where both reach each other (a loop around both) the edge names the producer of the round before and counts as met; where
//! neither does, the two never run in one path. Between functions nothing is listed.

use super::cfg::Cfg;
use crate::entity::EntityRef as _;
use crate::ids::{BlockId, FuncId, InstId};
use crate::inst::Opcode;
use crate::module::Module;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An instruction that the whole core meets: it ends a segment.
pub fn ends_segment(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::CompareAndBranch
            | Opcode::UnconditionalBranch
            | Opcode::Return
            | Opcode::Exit
            | Opcode::Break
            | Opcode::Call
            | Opcode::CoreBarrier
            | Opcode::Loop
            | Opcode::DynamicForLoop
            | Opcode::DoWhile
    )
}

#[derive(Clone, Copy)]
struct Place {
    func: FuncId,
    block: BlockId,
    position: u32,
    /// Number of segments of the block before it; a control instruction counts as one of its own.
    segment: u32,
}

/// There are plain blocks only, and every edge leads back inside its block, as in most programs.
fn all_lead_back(m: &Module) -> bool {
    if m.may_have_regions() {
        return false;
    }
    let mut order = vec![0u32; m.insts.len()];
    let mut n = 0u32;
    for b in m.all_functions().flat_map(|f| &m.funcs[f].blocks) {
        let first = n;
        for i in &m.blocks[*b].insts {
            n += 1;
            // those of this block that stand before it have a number that is larger than that of the block's beginning
            if m.insts[*i].deps.iter().any(|d| order.get(d.inst.index()).is_none_or(|p| *p <= first)) {
                return false;
            }
            if let Some(o) = order.get_mut(i.index()) {
                *o = n;
            }
        }
    }
    true
}

/// Edges that are never met: `(consumer, producer)`, in program order of the consumers.
pub fn never_met(m: &Module) -> Vec<(InstId, InstId)> {
    if all_lead_back(m) {
        return Vec::new();
    }
    let mut places: Vec<Option<Place>> = vec![None; m.insts.len()];
    let mut owner: FxHashMap<BlockId, InstId> = FxHashMap::default();
    let walk = m.walk();
    let mut at: FxHashMap<BlockId, (u32, u32)> = FxHashMap::default();
    for &(func, block, id) in &walk {
        let (position, segment) = at.entry(block).or_insert((0, 0));
        let control = ends_segment(m.insts[id].opcode);
        *segment += u32::from(control);
        places[id.index()] = Some(Place { func, block, position: *position, segment: *segment });
        *position += 1;
        *segment += u32::from(control);
        for &r in m.insts[id].regions() {
            owner.insert(r, id);
        }
    }
    let mut graphs: FxHashMap<FuncId, (Cfg, FxHashMap<u32, Vec<bool>>)> = FxHashMap::default();
    let mut out: Vec<(InstId, InstId)> = Vec::new();
    for &(_, block, id) in &walk {
        for d in &m.insts[id].deps {
            let (Some(c), Some(Some(p))) = (places[id.index()], places.get(d.inst.index()).copied()) else {
                continue;
            };
            if c.func != p.func {
                continue;
            }
            let later = if p.block == block {
                p.position > c.position && p.segment > c.segment
            } else {
                behind(m, c, p, &places, &owner, &mut graphs)
            };
            // an edge may be given twice
            let again = out.iter().rev().take_while(|(i, _)| *i == id).any(|(_, p)| *p == d.inst);
            if later && !again {
                out.push((id, d.inst));
            }
        }
    }
    out
}

/// The places of an instruction and of the instructions around it, innermost first.
fn chain(first: Place, places: &[Option<Place>], owner: &FxHashMap<BlockId, InstId>) -> SmallVec<[Place; 4]> {
    let mut out = SmallVec::from_iter([first]);
    let mut at = first;
    while let Some(o) = owner.get(&at.block)
        && let Some(p) = places[o.index()]
        && out.len() < places.len()
    {
        out.push(p);
        at = p;
    }
    out
}

fn behind(
    m: &Module,
    c: Place,
    p: Place,
    places: &[Option<Place>],
    owner: &FxHashMap<BlockId, InstId>,
    graphs: &mut FxHashMap<FuncId, (Cfg, FxHashMap<u32, Vec<bool>>)>,
) -> bool {
    let (cs, ps) = (chain(c, places, owner), chain(p, places, owner));
    for (i, x) in cs.iter().enumerate() {
        if let Some((j, y)) = ps.iter().enumerate().find(|(_, y)| y.block == x.block) {
            // Equal: both lie inside of one instruction, or one is the instruction around the other, which ends after it.
            let around = x.position == y.position && (i == 0 || j == 0);
            return y.position > x.position || around;
        }
    }
    let (Some(x), Some(y)) = (cs.last(), ps.last()) else { return false };
    let (cfg, reach) = graphs.entry(c.func).or_insert_with(|| (Cfg::new(m, c.func), FxHashMap::default()));
    let (Some(from), Some(to)) = (cfg.node_of(x.block), cfg.node_of(y.block)) else { return false };
    let mut reaches = |a: u32, b: u32| -> bool {
        let seen = reach.entry(a).or_insert_with(|| {
            let mut seen = vec![false; cfg.len()];
            let mut open = vec![a];
            while let Some(n) = open.pop() {
                for &s in cfg.successors(n) {
                    if !std::mem::replace(&mut seen[s as usize], true) {
                        open.push(s);
                    }
                }
            }
            seen
        });
        seen[b as usize]
    };
    reaches(from, to) && !reaches(to, from)
}
