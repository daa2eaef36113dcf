//! Level `linked`: remote names resolved, swaps paired, semaphores allocated, barriers, tokens and variables numbered,
//! streams laid out.
//!
//! Source: the specification, file 08. Cores stay separate (our reading of §7.2). Every step has its own check; all findings
//! of a step are reported, then linking stops.
//!
//! Not modelled: recursion, the merging of queues.

mod accumulate;
pub mod expand;
pub mod flatten;
pub mod merge;
pub mod order;
mod peel;
pub mod registers;
pub mod resolve;
pub mod split;
pub mod sync;
pub mod tiles;

pub use tandem_bir::linked::{
    Barrier, InstRef, LinkedCore, LinkedProgram, SEM_BARRIER, SEM_ENGINE, SEM_QUEUE, Stream, SwapPair, Token,
    USABLE_REGISTERS, Var, VarClass,
};

use crate::encode::desc::Geometry;
use crate::encode::phys;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::analysis::edges::never_met;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::names::NameTable;
use tandem_bir::{
    AddressSpace, ArchLevel, Attr, BlockId, BranchCompareOp, CoreId, EngineKind, FuncId, Inst, InstId, Level,
    MemLocId, MemoryLocation, MemoryType, Module, Opcode, Operand, Origin, Program,
};

/// Options that linking reads.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    /// Completion tokens are real synchronisation (`--ptcom=p2p`); otherwise they order nothing.
    pub tokens_order: bool,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions { tokens_order: true }
    }
}

/// Links a lowered program. Warnings and notes come with the result.
///
/// # Errors
/// Every finding of the step that failed.
pub fn link(
    program: &Program,
    options: LinkOptions,
) -> Result<(LinkedProgram, Vec<Diagnostic>), Vec<Diagnostic>> {
    link_owned(program.clone(), options)
}

/// The same for a program that nobody needs any more: it is changed in place, which for a long one is most of the time and
/// memory that linking takes.
///
/// # Errors
/// Those of [`link`].
pub fn link_owned(
    mut p: Program,
    options: LinkOptions,
) -> Result<(LinkedProgram, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    if p.level != Level::Linked {
        merge::merge_subgraphs(&mut p, &mut diags);
        stop(&mut diags)?;
    }
    check_set(&p, &mut diags);
    check_edges(&p, &mut diags);
    stop(&mut diags)?;
    let spec = p
        .arch()
        .spec()
        .ok_or_else(|| vec![Diagnostic::new(codes::N0020, format!("there is no model of {}", p.arch()))])?;
    merge::unique_names(&mut p);
    let funcs = functions(&mut p, &mut diags);
    stop(&mut diags)?;
    let used: Vec<Vec<bool>> = p.modules.iter().map(resolve::used_locations).collect();
    resolve::map_addresses(&mut p, &used, &mut diags);
    resolve::check_used(&p, &used, &mut diags);
    check_aliases(&p, &mut diags);
    stop(&mut diags)?;
    let geo = phys::geometry(spec);
    let mut linked = Vec::new();
    for (c, func) in funcs.iter().enumerate() {
        let mut m = std::mem::replace(&mut p.modules[c], Module::new("", None, ArchLevel::Gen3));
        if let Some(f) = *func {
            linked.push(link_core(&p, &mut m, f, &used[c], &geo, &mut diags));
        } else {
            linked.push(None);
        }
        p.modules[c] = m;
    }
    stop(&mut diags)?;
    sync::vnc_link(&mut p, &mut diags);
    stop(&mut diags)?;
    let cores: Vec<LinkedCore> = linked.into_iter().map(Option::unwrap_or_default).collect();
    let swaps = pair_swaps(&p, &geo, &mut diags);
    let barriers = number_barriers(&mut p, &mut diags);
    let tokens = if options.tokens_order { number_tokens(&p, &mut diags) } else { Vec::new() };
    stop(&mut diags)?;
    diags.extend(sync::check_posts(&p));
    stop(&mut diags)?;
    p.level = Level::Linked;
    Ok((LinkedProgram { program: p, cores, barriers, tokens, swaps }, diags))
}

fn stop(diags: &mut Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    if diags.iter().any(Diagnostic::is_error) { Err(std::mem::take(diags)) } else { Ok(()) }
}

/// Step 1: exactly one module per core.
fn check_set(p: &Program, diags: &mut Vec<Diagnostic>) {
    if p.level == Level::Linked {
        diags.push(Diagnostic::new(codes::N0025, "the program is already linked"));
        return;
    }
    let n = p.lnc_size as usize;
    if p.modules.len() != n {
        diags.push(
            Diagnostic::new(codes::N0001, format!("{} modules for an LNC of {n} cores", p.modules.len()))
                .note("assertions 1509 and 1513: modules.size() == options.vnc_nc_count"),
        );
        return;
    }
    for (c, m) in p.modules.iter().enumerate() {
        let id = m.core.map_or(0, |c| c.index());
        if id != c || (m.core.is_none() && n > 1) {
            diags.push(Diagnostic::new(codes::N0001, format!("module {c} is of core {id}")));
        }
        if m.arch != p.arch() || m.subgraph != 0 {
            diags.push(Diagnostic::new(
                codes::N0001,
                format!("module {c} has another architecture or subgraph"),
            ));
        }
    }
}

/// Edges to what comes only later are met at no level.
fn check_edges(p: &Program, diags: &mut Vec<Diagnostic>) {
    for m in &p.modules {
        for (i, producer) in never_met(m) {
            let name = &m.insts[producer].name;
            diags.push(
                Diagnostic::new(
                    codes::C0405,
                    format!("`{}` waits for `{name}`, which comes only after it", m.insts[i].name),
                )
                .inst(p, m, i)
                .note("an edge to what comes later can never be met"),
            );
        }
    }
}

/// Step 2: the function that runs on each core, its calls and structured loops written out.
fn functions(p: &mut Program, diags: &mut Vec<Diagnostic>) -> Vec<Option<FuncId>> {
    let mut out = Vec::new();
    for c in 0..p.modules.len() {
        let mut m = std::mem::replace(&mut p.modules[c], Module::new("", None, ArchLevel::Gen3));
        out.push(flatten::flatten(p, &mut m, diags));
        p.modules[c] = m;
    }
    out
}

/// Every instruction of a module without regions, in program order.
fn flat(m: &Module) -> impl Iterator<Item = InstId> + '_ {
    m.all_functions().flat_map(|f| &m.funcs[f].blocks).flat_map(|b| m.blocks[*b].insts.iter().copied())
}

/// Only transfers reach other cores.
fn check_aliases(p: &Program, diags: &mut Vec<Diagnostic>) {
    for m in &p.modules {
        let foreign = |l: &MemoryLocation| {
            let own = l.remote_local_target.as_ref().is_none_or(|t| Some(t.core) == m.core);
            !own && l.mem != MemoryType::Dram
        };
        if !m.memlocs.values().any(foreign) {
            continue;
        }
        for i in flat(m) {
            let inst = &m.insts[i];
            if inst.opcode.is_dma() || matches!(inst.opcode, Opcode::TensorCompletion | Opcode::CoreBarrier) {
                continue;
            }
            for a in inst.ins.iter().chain(&inst.outs).filter_map(Operand::as_ap) {
                let l = &m.memlocs[a.loc];
                if foreign(l) {
                    diags.push(
                        Diagnostic::new(
                            codes::N0023,
                            format!("{} uses `{}`, which is memory of another core", inst.opcode, l.name),
                        )
                        .inst(p, m, i),
                    );
                }
            }
        }
    }
}

fn link_core(
    program: &Program,
    m: &mut Module,
    func: FuncId,
    locations: &[bool],
    geo: &Geometry,
    diags: &mut Vec<Diagnostic>,
) -> Option<LinkedCore> {
    let before = diags.len();
    accumulate::resolve(program, m, func, diags);
    let e = expand::expand(program, m, func, geo, diags)?;
    let blocks = m.funcs[func].blocks.clone();
    order::edges_lead_back(program, m, &blocks, diags);
    if diags.iter().skip(before).any(Diagnostic::is_error) {
        return None;
    }
    sync::check_notices(program, m, &blocks, diags);
    sync::allocate(m, &blocks, &e.used);
    let mut core = LinkedCore { vars: number_vars(m, locations, diags), ..LinkedCore::default() };
    match registers::number(m, func, &e.used, USABLE_REGISTERS) {
        Ok(n) => core.reg_numbers = n,
        Err(n) => diags.push(Diagnostic::new(
            codes::N0022,
            format!(
                "core {} needs {n} registers at one time, an engine has {USABLE_REGISTERS}",
                m.core.map_or(0, |c| c.0)
            ),
        )),
    }
    core.streams = streams(program, m, func, &e.used, diags);
    Some(core)
}

/// Step 9: variables in location order. Expansion adds only locations that are no variables and takes no variable's last
/// use, so what was used before it still is.
fn number_vars(m: &Module, used: &[bool], diags: &mut Vec<Diagnostic>) -> Vec<Var> {
    let own = m.core.unwrap_or(CoreId(0));
    let mut out = Vec::new();
    for (l, loc) in m.memlocs.iter() {
        let set = m.set_of(l);
        let border = set.kind.is_input() || set.kind.is_output();
        let remote = loc.remote_local_target.as_ref().filter(|t| t.core != own);
        let used = used.get(l.index()).is_some_and(|u| *u);
        if loc.mem != MemoryType::Dram && remote.is_none() || !used && !border {
            continue;
        }
        let class = if remote.is_some() {
            VarClass::Remote
        } else if set.file.as_ref().is_some_and(|f| !f.is_empty()) {
            VarClass::File
        } else if set.kind.is_input() {
            VarClass::Input
        } else if set.kind.is_output() {
            VarClass::Output
        } else if set.addr_space == AddressSpace::Shared {
            VarClass::Shared
        } else {
            VarClass::TmpBuf
        };
        let owner = match (remote, class) {
            (Some(t), _) => t.core,
            (None, VarClass::Shared) => CoreId(0),
            (None, _) => own,
        };
        out.push(Var { loc: l, class, owner });
    }
    diags.extend(too_many_variables(out.len()));
    out
}

/// The finding for more variables than a record can number.
pub fn too_many_variables(n: usize) -> Option<Diagnostic> {
    (n as u64 > u64::from(crate::encode::addr::MAX_VAR))
        .then(|| Diagnostic::new(codes::N0018, format!("{n} variables")))
}

/// The instructions of one engine in program order.
struct Own {
    insts: Vec<InstId>,
    /// Where the instructions of each block begin.
    starts: Vec<usize>,
}

impl Own {
    fn block(&self, k: usize) -> &[InstId] {
        let from = self.starts.get(k).copied().unwrap_or(0);
        let to = self.starts.get(k + 1).copied().unwrap_or(self.insts.len());
        self.insts.get(from..to).unwrap_or(&[])
    }
}

/// The instructions of each engine.
fn by_engine(m: &Module, blocks: &[BlockId], used: &[EngineKind]) -> Vec<Own> {
    let at = |i: &InstId| {
        let e = m.insts[*i].engine;
        used.iter().position(|u| *u == e)
    };
    let mut counts = vec![0usize; used.len()];
    for k in blocks.iter().flat_map(|b| &m.blocks[*b].insts).filter_map(at) {
        counts[k] += 1;
    }
    let own = |n: usize| Own { insts: Vec::with_capacity(n), starts: Vec::with_capacity(blocks.len()) };
    let mut out: Vec<Own> = counts.into_iter().map(own).collect();
    for b in blocks {
        out.iter_mut().for_each(|o| o.starts.push(o.insts.len()));
        for i in &m.blocks[*b].insts {
            if let Some(k) = at(i) {
                out[k].insts.push(*i);
            }
        }
    }
    out
}

/// Step 11: one walk in program order writes every instruction to its engine's stream.
fn streams(
    program: &Program,
    m: &mut Module,
    func: FuncId,
    used: &[EngineKind],
    diags: &mut Vec<Diagnostic>,
) -> Vec<Stream> {
    let blocks = m.funcs[func].blocks.clone();
    let index: FxHashMap<String, usize> =
        blocks.iter().enumerate().map(|(k, b)| (m.blocks[*b].name.to_string(), k)).collect();
    let mut out = Vec::new();
    let mut dropped: FxHashSet<InstId> = FxHashSet::default();
    let mut extra: Vec<(usize, InstId, InstId)> = Vec::new();
    for (e, own) in used.iter().zip(by_engine(m, &blocks, used)) {
        let mut s =
            Stream { engine: *e, insts: Vec::with_capacity(own.insts.len() + 1), branches: Vec::new() };
        let mut starts = vec![0u32; blocks.len() + 1];
        let mut fixups: Vec<(u32, usize)> = Vec::new();
        for k in 0..blocks.len() {
            starts[k] = s.insts.len() as u32;
            for &i in own.block(k) {
                let find = |m: &Module, a: Attr| m.insts[i].get_str(a).and_then(|n| index.get(n)).copied();
                match m.insts[i].opcode {
                    Opcode::UnconditionalBranch => {
                        let Some(t) = find(m, Attr::Target) else {
                            diags.push(
                                Diagnostic::new(codes::N0020, "a jump to no block").inst(program, m, i),
                            );
                            continue;
                        };
                        if t == k + 1 {
                            dropped.insert(i);
                        } else {
                            fixups.push((s.insts.len() as u32, t));
                            s.insts.push(i);
                        }
                    }
                    Opcode::CompareAndBranch => {
                        let (Some(yes), Some(no)) = (find(m, Attr::OnTrue), find(m, Attr::OnFalse)) else {
                            diags.push(
                                Diagnostic::new(codes::N0020, "a branch to no block").inst(program, m, i),
                            );
                            continue;
                        };
                        if yes == no {
                            if yes == k + 1 {
                                dropped.insert(i);
                                continue;
                            }
                            fixups.push((s.insts.len() as u32, yes));
                            s.insts.push(i);
                            let j = jump(m, i, *e, &m.blocks[blocks[no]].name.clone());
                            extra.push((k, i, j));
                            fixups.push((s.insts.len() as u32, no));
                            s.insts.push(j);
                            continue;
                        }
                        if yes == k + 1 {
                            negate(&mut m.insts[i]);
                            fixups.push((s.insts.len() as u32, no));
                            s.insts.push(i);
                        } else {
                            fixups.push((s.insts.len() as u32, yes));
                            s.insts.push(i);
                            if no != k + 1 {
                                let name = m.blocks[blocks[no]].name.clone();
                                let j = jump(m, i, *e, &name);
                                extra.push((k, i, j));
                                fixups.push((s.insts.len() as u32, no));
                                s.insts.push(j);
                            }
                        }
                    }
                    Opcode::Return | Opcode::Exit => {
                        if k + 1 == blocks.len() {
                            dropped.insert(i);
                        } else {
                            // leaves by the Exit at the end of the stream
                            let mut j = Inst::new(&m.insts[i].name.clone(), Opcode::UnconditionalBranch);
                            j.engine = *e;
                            j.loc = m.insts[i].loc;
                            j.set(Attr::Target, "exit");
                            m.insts[i] = j;
                            fixups.push((s.insts.len() as u32, blocks.len()));
                            s.insts.push(i);
                        }
                    }
                    _ => s.insts.push(i),
                }
            }
        }
        starts[blocks.len()] = s.insts.len() as u32;
        let mut exit = Inst::new(&format!("exit.{e}"), Opcode::Exit);
        exit.engine = *e;
        exit.origin = Origin::Internal;
        let exit = m.insts.push(exit);
        if let Some(b) = blocks.last() {
            m.blocks[*b].insts.push(exit);
        }
        s.insts.push(exit);
        s.branches = fixups.into_iter().map(|(at, t)| (at, starts[t])).collect();
        out.push(s);
    }
    for (k, after, j) in extra {
        let list = &mut m.blocks[blocks[k]].insts;
        let at = list.iter().rposition(|x| *x == after).map_or(list.len(), |x| x + 1);
        list.insert(at, j);
    }
    if !dropped.is_empty() {
        for b in &blocks {
            m.blocks[*b].insts.retain(|i| !dropped.contains(i));
        }
    }
    out
}

fn jump(m: &mut Module, from: InstId, e: EngineKind, target: &str) -> InstId {
    let mut j = Inst::new(&format!("{}.else", m.insts[from].name), Opcode::UnconditionalBranch)
        .with(Attr::Target, target);
    j.engine = e;
    j.loc = m.insts[from].loc;
    j.origin = Origin::Internal;
    m.insts.push(j)
}

/// The branch on the opposite, with its successors exchanged.
fn negate(i: &mut Inst) {
    use tandem_bir::BirEnum as _;
    let op: Option<BranchCompareOp> = i.get_enum(Attr::CompOp);
    if let Some(n) = op
        .and_then(|o| crate::encode::tables::BRANCH_NEGATION.get(o.ordinal() as usize))
        .and_then(|n| BranchCompareOp::from_ordinal(*n))
    {
        i.set(Attr::CompOp, n);
    }
    let (yes, no) = (i.get_str(Attr::OnTrue).map(str::to_owned), i.get_str(Attr::OnFalse).map(str::to_owned));
    if let (Some(y), Some(n)) = (yes, no) {
        i.set(Attr::OnTrue, n.as_str());
        i.set(Attr::OnFalse, y.as_str());
    }
}

/// Instructions of a type on a core in program order: by block, then position.
fn in_order(m: &Module, op: Opcode) -> Vec<InstId> {
    flat(m).filter(|i| m.insts[*i].opcode == op).collect()
}

/// Step 5: the k-th swap of each core.
fn pair_swaps(p: &Program, geo: &Geometry, diags: &mut Vec<Diagnostic>) -> Vec<SwapPair> {
    let lists: Vec<Vec<InstId>> = p.modules.iter().map(|m| in_order(m, Opcode::GpsimdSb2Sb)).collect();
    if lists.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let [a, b] = lists.as_slice() else {
        if let Some((m, i)) = p.modules.first().zip(lists.first().and_then(|l| l.first())) {
            diags.push(
                Diagnostic::new(
                    codes::E0006,
                    format!("assertion 936: cores per LNC is {}, supported \"2\"", p.lnc_size),
                )
                .inst(p, m, *i),
            );
        }
        return Vec::new();
    };
    if a.len() != b.len() {
        diags.push(
            Diagnostic::new(
                codes::N0008,
                format!("swap count differs: core 0 has {}, core 1 has {}", a.len(), b.len()),
            )
            .note("the vendor's verifier reports 1198"),
        );
        return Vec::new();
    }
    let mut out = Vec::new();
    for (k, (&i, &j)) in a.iter().zip(b).enumerate() {
        let ops = |c: usize, i: InstId| {
            let x = &p.modules[c].insts[i];
            Some((x.ins.first()?.as_ap()?, x.outs.first()?.as_ap()?))
        };
        let (Some((s0, d0)), Some((s1, d1))) = (ops(0, i), ops(1, j)) else {
            diags.push(Diagnostic::new(codes::N0009, format!("swap {k} lacks an operand")).inst(
                p,
                &p.modules[0],
                i,
            ));
            continue;
        };
        let fits = |s: &tandem_bir::AccessPattern, d: &tandem_bir::AccessPattern| {
            s.dtype == d.dtype
                && s.num_partitions() == d.num_partitions()
                && s.elems_per_partition() == d.elems_per_partition()
        };
        if !fits(s0, d1) || !fits(s1, d0) || s0.dtype != s1.dtype {
            diags.push(
                Diagnostic::new(codes::N0009, format!("the tiles of swap {k} do not match"))
                    .inst(p, &p.modules[0], i)
                    .inst(p, &p.modules[1], j),
            );
            continue;
        }
        let place = |c: usize, a: &tandem_bir::AccessPattern| {
            let m = &p.modules[c];
            crate::encode::desc::start_on_chip(a, &m.memlocs[a.loc], geo).ok()
        };
        if place(0, d0) != place(1, d1) {
            diags.push(
                Diagnostic::new(codes::N0010, format!("asymmetric swap buffers in swap {k}"))
                    .inst(p, &p.modules[0], i)
                    .inst(p, &p.modules[1], j),
            );
        }
        out.push(SwapPair {
            a: InstRef { core: CoreId(0), inst: i },
            b: InstRef { core: CoreId(1), inst: j },
        });
    }
    out
}

/// Step 8: barriers. Ids are equal on all cores and distinct across barriers.
fn number_barriers(p: &mut Program, diags: &mut Vec<Diagnostic>) -> Vec<Barrier> {
    let lists: Vec<Vec<InstId>> = p.modules.iter().map(|m| in_order(m, Opcode::CoreBarrier)).collect();
    let all: Vec<i64> = (0..p.modules.len() as i64).collect();
    let mut out: Vec<Barrier> = Vec::with_capacity(lists.first().map_or(0, Vec::len));
    // ids by name, and by core in order
    let mut by_name = NameTable::default();
    let mut of_core: Vec<Vec<u32>> = vec![Vec::new(); p.modules.len()];
    let mut sets: Vec<Vec<u32>> = Vec::with_capacity(lists.len());
    for (c, list) in lists.iter().enumerate() {
        let m = &p.modules[c];
        let mut ids = Vec::with_capacity(list.len());
        for (ordinal, &i) in list.iter().enumerate() {
            let name = &m.insts[i].name;
            let members = match m.insts[i].get_ints(Attr::Cores) {
                [] => &all[..],
                l => l,
            };
            let id = if let Some(id) = by_name.get(name) {
                id.index()
            } else {
                // the same ordinal among barriers of the same cores, else a new one
                let same = of_core.get(c).filter(|_| c > 0).and_then(|l| l.get(ordinal)).map(|k| *k as usize);
                match same {
                    Some(id) if out[id].members.iter().all(|m| m.core.index() != c) => {
                        diags.push(
                            Diagnostic::new(
                                codes::N0011,
                                format!(
                                    "barrier {id}: core {c} is at `{name}`, core 0 at `{}`",
                                    out[id].name
                                ),
                            )
                            .inst(p, m, i)
                            .note("the vendor's verifier reports 1187 to 1189"),
                        );
                        id
                    }
                    _ => {
                        let id = out.len() as u32;
                        let cores: Vec<u32> = members.iter().filter_map(|c| u32::try_from(*c).ok()).collect();
                        for k in 0..of_core.len() {
                            if cores.contains(&(k as u32)) {
                                of_core[k].push(id);
                            }
                        }
                        let members = Vec::with_capacity(cores.len());
                        out.push(Barrier { name: name.clone(), cores, members });
                        let _ = by_name.insert(name, InstId::from_u32(id));
                        id as usize
                    }
                }
            };
            let b = &mut out[id];
            if b.cores.iter().map(|c| i64::from(*c)).ne(members.iter().copied()) {
                diags.push(
                    Diagnostic::new(codes::N0011, format!("barrier {id}: the cores of `{name}` differ"))
                        .inst(p, m, i),
                );
            }
            b.members.push(InstRef { core: CoreId(c as u32), inst: i });
            ids.push(id as u32);
        }
        sets.push(ids);
    }
    for (id, b) in out.iter().enumerate() {
        for c in &b.cores {
            if !b.members.iter().any(|m| m.core.0 == *c) {
                let first = b.members.first().copied();
                let mut d = Diagnostic::new(
                    codes::N0011,
                    format!("barrier {id}: core {c} never reaches `{}`", b.name),
                )
                .note("the vendor's verifier reports 1187");
                if let Some(f) = first {
                    d = d.inst(p, &p.modules[f.core.index()], f.inst);
                }
                diags.push(d);
            }
        }
    }
    // every core meets them in one order
    for (c, ids) in sets.iter().enumerate() {
        if ids.windows(2).any(|w| w[0] > w[1]) {
            diags.push(Diagnostic::new(
                codes::N0011,
                format!("core {c} meets its barriers in another order than core 0"),
            ));
        }
    }
    for (c, (list, ids)) in lists.into_iter().zip(sets).enumerate() {
        for (i, id) in list.into_iter().zip(ids) {
            let inst = &mut p.modules[c].insts[i];
            inst.set(Attr::Id, i64::from(id));
            inst.set(Attr::RuntimeSemaphore, i64::from(SEM_BARRIER) + i64::from(id % 8));
        }
    }
    out
}

/// Step 8: tokens, in the order of core 0, then of the others.
fn number_tokens(p: &Program, diags: &mut Vec<Diagnostic>) -> Vec<Token> {
    let name_of = |c: usize, l: MemLocId| -> String {
        let m = &p.modules[c];
        let t = m.memlocs[l].remote_local_target.as_ref();
        t.map_or_else(|| m.memlocs[l].name.to_string(), |t| t.name.to_string())
    };
    let mut out: Vec<Token> = Vec::new();
    let mut by_name: FxHashMap<String, usize> = FxHashMap::default();
    for (c, m) in p.modules.iter().enumerate() {
        let mut last = None;
        for i in in_order(m, Opcode::TensorCompletion) {
            let Some(a) = m.insts[i].ins.first().and_then(Operand::as_ap) else { continue };
            let name = name_of(c, a.loc);
            let id = *by_name.entry(name.clone()).or_insert_with(|| {
                out.push(Token { location: name.as_str().into(), writers: Vec::new(), members: Vec::new() });
                out.len() - 1
            });
            if last.is_some_and(|l| id < l) {
                diags.push(
                    Diagnostic::new(
                        codes::N0012,
                        format!("token {id}: core {c} is at `{name}` in another order than core 0"),
                    )
                    .inst(p, m, i),
                );
            }
            last = Some(id);
            out[id].members.push(InstRef { core: CoreId(c as u32), inst: i });
        }
    }
    if out.is_empty() {
        return out;
    }
    for (c, m) in p.modules.iter().enumerate() {
        let token: Vec<Option<usize>> =
            m.memlocs.keys().map(|l| by_name.get(&name_of(c, l)).copied()).collect();
        for i in flat(m) {
            let inst = &m.insts[i];
            if inst.opcode == Opcode::CoreBarrier {
                continue;
            }
            for a in inst.outs.iter().filter_map(Operand::as_ap) {
                if let Some(t) = token.get(a.loc.index()).copied().flatten() {
                    let w = &mut out[t].writers;
                    if !w.contains(&(c as u32)) {
                        w.push(c as u32);
                    }
                }
            }
        }
    }
    for t in &mut out {
        t.writers.sort_unstable();
        for w in &t.writers {
            if !t.members.iter().any(|m| m.core.0 == *w) {
                diags.push(Diagnostic::new(
                    codes::N0012,
                    format!("core {w} writes `{}` but has no token for it", t.location),
                ));
            }
        }
    }
    out
}
