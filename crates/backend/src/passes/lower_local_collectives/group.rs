//! Grouping: which instructions of the cores are one collective.
//!
//! The key is function name, block name and ordinal inside the block; every core has exactly one member. Members agree on
//! everything that decides the lowering, the pipe of a swap included (the specification, file 06 §4; decisions D15, D30).

use indexmap::IndexMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{
    AccessPattern, AluOp, Attr, AttrValue, BlockId, CollectiveKind, CompactString, CoreId, FuncId, Inst,
    InstId, Opcode, Operand, Program,
};

/// One core's part of a collective.
#[derive(Clone, Copy, Debug)]
pub(in crate::passes) struct Member {
    /// Index of the module in the program.
    pub(in crate::passes) module: usize,
    /// Function.
    pub(in crate::passes) func: FuncId,
    /// Block.
    pub(in crate::passes) block: BlockId,
    /// Instruction.
    pub(in crate::passes) inst: InstId,
    /// Position in the block.
    pub(in crate::passes) at: usize,
}

/// Collectives of one block, over all cores.
#[derive(Debug)]
pub(in crate::passes) struct BlockGroups {
    /// Function name.
    pub(in crate::passes) func: CompactString,
    /// `groups[k][core]`.
    pub(in crate::passes) groups: Vec<Vec<Member>>,
}

/// How `is_local` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes) enum Locality {
    Absent,
    Yes,
    No,
    NotConstant,
}

/// Locality of a collective.
pub(in crate::passes) fn locality(i: &Inst) -> Locality {
    match i.attrs.get(Attr::IsLocal) {
        None => Locality::Absent,
        Some(AttrValue::Bool(b)) => {
            if *b {
                Locality::Yes
            } else {
                Locality::No
            }
        }
        Some(AttrValue::Int(v)) => {
            if *v != 0 {
                Locality::Yes
            } else {
                Locality::No
            }
        }
        Some(_) => Locality::NotConstant,
    }
}

type Key = (CompactString, CompactString);

/// Groups of one subgraph (`modules` are its cores in order), block by block in program order.
///
/// # Errors
/// One diagnostic per group whose members are missing or disagree.
pub(in crate::passes) fn group(
    p: &Program,
    modules: std::ops::Range<usize>,
) -> Result<Vec<BlockGroups>, Vec<Diagnostic>> {
    let n = modules.len();
    let mut blocks: IndexMap<Key, Vec<Vec<Member>>> = IndexMap::new();
    for (core, mi) in modules.clone().enumerate() {
        let m = &p.modules[mi];
        let mut seen: IndexMap<BlockId, FuncId> = IndexMap::new();
        let mut last = None;
        for (f, b, _) in m.walk() {
            if last.replace(b) != Some(b) {
                seen.entry(b).or_insert(f);
            }
        }
        for (b, f) in seen {
            for (at, &i) in m.blocks[b].insts.iter().enumerate() {
                if m.insts[i].opcode == Opcode::CollectiveCompute {
                    let key = (m.funcs[f].name.clone(), m.blocks[b].name.clone());
                    blocks.entry(key).or_insert_with(|| vec![Vec::new(); n])[core].push(Member {
                        module: mi,
                        func: f,
                        block: b,
                        inst: i,
                        at,
                    });
                }
            }
        }
    }
    let mut errors = Vec::new();
    let mut out = Vec::new();
    for ((func, block), per_core) in blocks {
        let count = per_core.iter().map(Vec::len).max().unwrap_or(0);
        let mut groups = Vec::with_capacity(count);
        for k in 0..count {
            let members: Vec<Option<Member>> = per_core.iter().map(|v| v.get(k).copied()).collect();
            match check(p, &func, &block, k, &members) {
                Ok(g) => groups.push(g),
                Err(d) => {
                    errors.push(*d);
                    break; // what follows in this block is shifted
                }
            }
        }
        out.push(BlockGroups { func, groups });
    }
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

fn site(p: &Program, m: &Member, func: &str, block: &str) -> Site {
    let mut s = Site::of_inst(&p.locs, &p.modules[m.module], m.inst);
    s.function = func.into();
    s.block = block.into();
    s
}

fn check(
    p: &Program,
    func: &str,
    block: &str,
    ordinal: usize,
    members: &[Option<Member>],
) -> Result<Vec<Member>, Box<Diagnostic>> {
    let mismatch = |field: &str| {
        Diagnostic::new(
            codes::L0010,
            format!("collective group mismatch in {func}/{block} #{ordinal}: {field}"),
        )
    };
    let mut all = Vec::with_capacity(members.len());
    for m in members {
        match m {
            Some(m) => all.push(*m),
            None => {
                let mut d = mismatch("number of members");
                for (core, m) in members.iter().enumerate() {
                    d = d.site(match m {
                        Some(m) => site(p, m, func, block),
                        None => Site::on_core(CoreId(core as u32)).label("has no such collective"),
                    });
                }
                return Err(Box::new(
                    d.note("every core of the LNC must have one member of each collective"),
                ));
            }
        }
    }
    let inst = |m: &Member| &p.modules[m.module].insts[m.inst];
    let first = inst(&all[0]);
    for m in &all[1..] {
        let other = inst(m);
        if let Some((field, a, b)) = difference(first, other) {
            let (s0, s1) = (site(p, &all[0], func, block), site(p, m, func, block));
            return Err(Box::new(mismatch(field).site(s0.label(a)).site(s1.label(b))));
        }
        let (pa, pb) = (first.get_int(Attr::PipeId), other.get_int(Attr::PipeId));
        if is_swap(first) && pa != pb {
            let text = |v: Option<i64>| format!("pipe {}", v.unwrap_or(0));
            let d = Diagnostic::new(
                codes::L0011,
                format!(
                    "deadlock: crossed pipes in {func}/{block} #{ordinal}: {} is on {}, {} on {}",
                    first.name,
                    text(pa),
                    other.name,
                    text(pb)
                ),
            )
            .site(site(p, &all[0], func, block).label(text(pa)))
            .site(site(p, m, func, block).label(text(pb)))
            .note("swaps of different pipes in crossed order wait for each other: their barriers meet in program order")
            .note("the vendor's text lets swaps of different pipe ids progress independently; the lowered program cannot");
            return Err(Box::new(d));
        }
    }
    Ok(all)
}

fn is_swap(i: &Inst) -> bool {
    matches!(
        i.get_enum::<CollectiveKind>(Attr::Kind),
        Some(CollectiveKind::SendRecv | CollectiveKind::SendRecvCce)
    )
}

/// Extents of the free dimensions that are no units.
fn free(a: &AccessPattern) -> impl Iterator<Item = u64> + '_ {
    a.pairs.iter().skip(1).map(|p| p.num).filter(|n| *n != 1)
}

/// Extents of an operand without unit free dimensions, and its dtype.
fn shape(o: &Operand) -> String {
    match o {
        Operand::Ap(a) => {
            let mut dims = vec![a.num_partitions().to_string()];
            dims.extend(a.pairs.iter().skip(1).filter(|p| p.num != 1).map(|p| p.num.to_string()));
            dims.join(" x ")
        }
        Operand::Imm(_) | Operand::Reg(_) | Operand::Other(_) => "not a memory pattern".into(),
    }
}

fn dtype(o: &Operand) -> String {
    o.as_ap().map_or_else(|| "none".into(), |a| a.dtype.to_string())
}

/// First field in which two members differ, with both values. Nothing is written down while they agree.
fn difference(a: &Inst, b: &Inst) -> Option<(&'static str, String, String)> {
    let named = |v: Option<String>| v.unwrap_or_else(|| "?".into());
    let kind = |i: &Inst| i.get_enum::<CollectiveKind>(Attr::Kind);
    if kind(a) != kind(b) {
        let text = |i: &Inst| named(kind(i).map(|k| k.to_string()));
        return Some(("kind", text(a), text(b)));
    }
    if locality(a) != locality(b) {
        return Some(("is_local", format!("{:?}", locality(a)), format!("{:?}", locality(b))));
    }
    let op = |i: &Inst| i.get_enum::<AluOp>(Attr::Op);
    if op(a) != op(b) {
        let text = |i: &Inst| named(op(i).map(|k| k.to_string()));
        return Some(("op", text(a), text(b)));
    }
    for (what, x, y) in [("number of inputs", &a.ins, &b.ins), ("number of outputs", &a.outs, &b.outs)] {
        if x.len() != y.len() {
            return Some((what, x.len().to_string(), y.len().to_string()));
        }
    }
    for (what_d, what_s, x, y) in [
        ("dtype of an input", "shape of an input", &a.ins, &b.ins),
        ("dtype of an output", "shape of an output", &a.outs, &b.outs),
    ] {
        for (p, q) in x.iter().zip(y) {
            if p.as_ap().map(|a| a.dtype) != q.as_ap().map(|a| a.dtype) {
                return Some((what_d, dtype(p), dtype(q)));
            }
            let alike = match (p, q) {
                (Operand::Ap(p), Operand::Ap(q)) => {
                    p.num_partitions() == q.num_partitions() && free(p).eq(free(q))
                }
                _ => shape(p) == shape(q),
            };
            if !alike {
                return Some((what_s, shape(p), shape(q)));
            }
        }
    }
    None
}
