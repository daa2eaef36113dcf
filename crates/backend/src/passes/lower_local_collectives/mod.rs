//! `lower-local-collectives`: on-chip collectives become swaps, transfers and barriers, on all cores at once.
//!
//! | is local | kind | becomes |
//! |---|---|---|
//! | yes | 0 SendRecv | GPSIMD swap, DMA pull or self copy between two barriers |
//! | yes | 1 SendRecvCCE | one folding transfer between two barriers |
//! | yes | 2 AllReduce | reduce-scatter, barrier, all-gather; or one folding transfer |
//! | any | others | a barrier before it, the collective stays |
//!
//! Every decision is taken once per group and written to all cores under the core-0 name, so that cores never disagree on
//! names, counts or transports. A second run finds nothing to do. Source: the specification, file 06 §§1–9, 12. Does nothing
//! with one core.

#![allow(
    clippy::needless_range_loop,
    reason = "lists of equal length are indexed by core and by operand pair"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "steps of one lowering that share its group, cursors and result"
)]

mod alias;
mod allreduce;
mod barriers;
mod cce;
mod fence;
pub(super) mod group;
mod legalize;
mod sendrecv;
mod stage;

pub use alias::{MIN_SCATTER_EXTENT, scatter_dimension};
pub use allreduce::{GATHER_DIM_KEY, SCATTER_DIM_KEY};
pub use legalize::{MAX_FREE_PAIRS, MAX_SPLIT};
pub use sendrecv::{REQUEST_KEY, requested_gpsimd};

use crate::edit::{LocIndex, Names, order_core_barriers_and_collectives, remap_deps, renumber_core_barriers};
use crate::explain::{BarrierRow, ExplainRow, RowSource};
use crate::pass::{Fact, Pass, PassCtx, PassInfo, Stop};
use crate::storage::StorageMap;
use group::{BlockGroups, Locality, Member, locality};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;
use tandem_bir::diag::{Diagnostic, Loc, Severity, Site, codes};
use tandem_bir::{
    AccessPattern, Attr, AttrValue, BirEnum, CollectiveKind, CompactString, CoreId, EdgeKind, FuncId, Inst,
    InstId, MemLocId, Opcode, Program,
};

/// The pass.
#[derive(Debug)]
pub struct LowerLocalCollectives;

static INFO: PassInfo = PassInfo {
    name: "lower-local-collectives",
    summary: "replaces on-chip collectives by swaps, transfers and barriers",
    requires: &[Fact::Concrete],
    ensures: &[Fact::CollectivesLowered],
    breaks: &[Fact::EdgesFinal, Fact::BarriersNumbered, Fact::OnChipPlaced],
    options: &[
        "lnc",
        "sendrecv_to_gpsimd_max_bpp",
        "transport",
        "sb2sb_elide_end_barrier",
        "sb2sb_repack",
        "enable_remote_semaphore_dma",
    ],
    stats: &[
        "groups",
        "gpsimd_swaps",
        "dma_swaps",
        "self_copies",
        "reduces",
        "kept",
        "barriers_added",
        "barriers_elided",
        "aliases",
    ],
};

impl Pass for LowerLocalCollectives {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }
    fn run(&self, p: &mut Program, cx: &mut PassCtx) -> Result<(), Stop> {
        let lnc = p.lnc_size.max(1) as usize;
        if lnc == 1 {
            return Ok(());
        }
        for g in 0..p.modules.len() / lnc {
            let mut low = Lowering::new(p, cx, g * lnc..(g + 1) * lnc);
            low.run()?;
        }
        renumber_core_barriers(p);
        Ok(())
    }
}

/// Answer of the single-module entry: nothing happens, status 2 (documented).
pub const SINGLE_MODULE_STATUS: i32 = 2;

/// The single-module form: a no-op returning [`SINGLE_MODULE_STATUS`].
pub fn run_single(_m: &mut tandem_bir::Module) -> i32 {
    SINGLE_MODULE_STATUS
}

type Fail = Box<Diagnostic>;

/// State of one run over the cores of one subgraph.
struct Lowering<'a> {
    p: &'a mut Program,
    cx: &'a mut PassCtx,
    /// Modules of the subgraph, core by core.
    cores: std::ops::Range<usize>,
    map: StorageMap,
    names: Names,
    index: Vec<LocIndex>,
    aliases: FxHashMap<(usize, FuncId, usize, MemLocId), MemLocId>,
    /// Swaps judged so far: a program of many swaps has few kinds of them.
    judged: FxHashMap<sendrecv::Question, Arc<sendrecv::Judged>>,
    /// Last instruction made from a lowered collective, per module.
    last_of: Vec<FxHashMap<InstId, InstId>>,
}

/// What a group is lowered with.
struct Group<'g> {
    members: &'g [Member],
    /// Core-0 name.
    name: CompactString,
    kind: CollectiveKind,
}

/// Instructions made for one group so far, core by core, and the rows about its barriers.
#[derive(Default)]
struct Made {
    lists: Vec<Vec<InstId>>,
    barriers: Vec<BarrierRow>,
    next_id: i64,
}

/// The new instruction list of one core's block, up to a cursor in the old one.
#[derive(Default)]
struct Cursor {
    new: Vec<InstId>,
    next: usize,
    since: RefCell<barriers::Since>,
}

impl<'a> Lowering<'a> {
    fn new(p: &'a mut Program, cx: &'a mut PassCtx, cores: std::ops::Range<usize>) -> Lowering<'a> {
        let map = StorageMap::new(p);
        let names = Names::of(&p.modules[cores.clone()]);
        let index = p.modules.iter().map(LocIndex::new).collect();
        let last_of = vec![FxHashMap::default(); p.modules.len()];
        Lowering {
            p,
            cx,
            cores,
            map,
            names,
            index,
            aliases: FxHashMap::default(),
            judged: FxHashMap::default(),
            last_of,
        }
    }

    fn n(&self) -> usize {
        self.cores.len()
    }

    fn core_of(&self, module: usize) -> CoreId {
        self.p.modules[module].core.unwrap_or(CoreId((module - self.cores.start) as u32))
    }

    fn run(&mut self) -> Result<(), Stop> {
        let blocks = match group::group(self.p, self.cores.clone()) {
            Ok(b) => b,
            Err(errors) => {
                self.cx.diags.extend(errors);
                return Err(Stop);
            }
        };
        let aliases_before = self.aliases.len();
        let mut failed = false;
        for bg in &blocks {
            failed |= self.block(bg).is_err();
        }
        for mi in self.cores.clone() {
            remap_deps(&mut self.p.modules[mi], &self.last_of[mi]);
        }
        for bg in &blocks {
            for m in bg.groups.first().into_iter().flatten() {
                order_core_barriers_and_collectives(&mut self.p.modules[m.module], m.block);
            }
        }
        self.cx.count("aliases", (self.aliases.len() - aliases_before) as u64);
        if failed { Err(Stop) } else { Ok(()) }
    }

    fn block(&mut self, bg: &BlockGroups) -> Result<(), Stop> {
        let Some(first) = bg.groups.first() else { return Ok(()) };
        let mut cursors: Vec<Cursor> = first.iter().map(|_| Cursor::default()).collect();
        let mut failed = false;
        for members in &bg.groups {
            for (c, m) in cursors.iter_mut().zip(members) {
                c.new.extend_from_slice(&self.p.modules[m.module].blocks[m.block].insts[c.next..m.at]);
                c.next = m.at + 1;
            }
            match self.lower_group(members, bg, &cursors) {
                Ok((made, keep)) => {
                    for ((c, m), list) in cursors.iter_mut().zip(members).zip(&made.lists) {
                        c.new.extend_from_slice(list);
                        if keep {
                            c.new.push(m.inst);
                            if let Some(&l) = list.last() {
                                self.p.modules[m.module].insts[m.inst].add_dep(m.inst, l, EdgeKind::Ordered);
                            }
                        } else if let Some(&l) = list.last() {
                            self.last_of[m.module].insert(m.inst, l);
                        }
                    }
                }
                Err(d) => {
                    let d = self.with_sites(*d, members, bg);
                    self.cx.report(d);
                    failed = true;
                    for (c, m) in cursors.iter_mut().zip(members) {
                        c.new.push(m.inst);
                    }
                }
            }
        }
        for (c, m) in cursors.iter_mut().zip(first) {
            let b = &mut self.p.modules[m.module].blocks[m.block];
            c.new.extend_from_slice(&b.insts[c.next..]);
            b.insts = std::mem::take(&mut c.new);
        }
        if failed { Err(Stop) } else { Ok(()) }
    }

    fn with_sites(&self, mut d: Diagnostic, members: &[Member], bg: &BlockGroups) -> Diagnostic {
        if d.sites.is_empty() {
            for m in members {
                let mut s = Site::of_inst(&self.p.locs, &self.p.modules[m.module], m.inst);
                s.function = bg.func.to_string();
                s.block = self.p.modules[m.module].blocks[m.block].name.to_string();
                d = d.site(s);
            }
        }
        d
    }

    /// Lowers one group; the flag says that the collective itself stays.
    fn lower_group(
        &mut self,
        members: &[Member],
        bg: &BlockGroups,
        cursors: &[Cursor],
    ) -> Result<(Made, bool), Fail> {
        let cc0 = self.cc(&members[0]);
        let kind = cc0.get_enum::<CollectiveKind>(Attr::Kind).unwrap_or(CollectiveKind::AllReduce);
        let local = locality(cc0);
        let g = Group { members, name: cc0.name.clone(), kind };
        let mut made = Made { lists: vec![Vec::new(); members.len()], ..Made::default() };
        if local == Locality::NotConstant {
            return Err(Box::new(Diagnostic::new(
                codes::L0017,
                format!("is_local of {} is not a constant", g.name),
            )));
        }
        match kind {
            CollectiveKind::SendRecv | CollectiveKind::SendRecvCce => {
                if local == Locality::No {
                    return Err(Box::new(
                        Diagnostic::new(
                            codes::L0012,
                            format!("non-local SendRecv cannot be encoded ({})", g.name),
                        )
                        .note("kinds 0 and 1 exist inside one LNC only; the collective opcode has no code for them"),
                    ));
                }
                if local == Locality::Absent {
                    let mut d = Diagnostic::new(
                        codes::L0013,
                        format!("{} does not say whether it is local; taken as local", g.name),
                    );
                    d.severity = Severity::Note;
                    let d = self.with_sites(d, members, bg);
                    self.cx.report(d);
                }
                if kind == CollectiveKind::SendRecv {
                    self.send_recv(&g, cursors, &mut made)?;
                } else {
                    self.send_recv_cce(&g, cursors, &mut made)?;
                }
                Ok((made, false))
            }
            CollectiveKind::AllReduce if local == Locality::Yes => {
                self.all_reduce(&g, cursors, &mut made)?;
                Ok((made, false))
            }
            CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllGather
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllV
            | CollectiveKind::Permute
            | CollectiveKind::PermuteReduce
            | CollectiveKind::PermuteImplicit
            | CollectiveKind::PermuteReduceImplicit => {
                self.fence_only(&g, cursors, &mut made);
                Ok((made, true))
            }
        }
    }

    fn cc(&self, m: &Member) -> &Inst {
        &self.p.modules[m.module].insts[m.inst]
    }

    /// The k-th source of a member.
    fn in_ap(&self, m: &Member, k: usize) -> Result<&AccessPattern, Fail> {
        self.operand(m, k, true)
    }

    /// The k-th destination of a member.
    fn out_ap(&self, m: &Member, k: usize) -> Result<&AccessPattern, Fail> {
        self.operand(m, k, false)
    }

    fn operand(&self, m: &Member, k: usize, input: bool) -> Result<&AccessPattern, Fail> {
        let cc = self.cc(m);
        let list = if input { &cc.ins } else { &cc.outs };
        list.get(k).and_then(|o| o.as_ap()).ok_or_else(|| {
            let which = if input { "input" } else { "output" };
            Box::new(Diagnostic::new(
                codes::L0018,
                format!("{which} {k} of {} is no memory pattern", cc.name),
            ))
        })
    }

    /// Number of source/destination pairs; they must match on every core.
    fn pairs(&self, g: &Group<'_>) -> Result<usize, Fail> {
        let cc = self.cc(&g.members[0]);
        if cc.ins.is_empty() || cc.ins.len() != cc.outs.len() {
            return Err(Box::new(Diagnostic::new(
                codes::L0018,
                format!("{} has {} inputs and {} outputs", g.name, cc.ins.len(), cc.outs.len()),
            )));
        }
        Ok(cc.ins.len())
    }

    /// Adds an instruction to a core's list: position, origin and class of the collective, ordered after the one before;
    /// the first takes the collective's own dependencies.
    fn emit(&mut self, g: &Group<'_>, made: &mut Made, core: usize, mut inst: Inst) -> InstId {
        let m = g.members[core];
        let cc = self.cc(&m);
        let from = cc.loc;
        inst.origin = cc.origin;
        let id = self.p.modules[m.module].insts.next_key();
        match made.lists[core].last() {
            Some(&prev) => inst.add_dep(id, prev, EdgeKind::Ordered),
            None => {
                for d in &cc.deps {
                    inst.add_dep(id, d.inst, d.kind);
                }
            }
        }
        inst.loc = if from == Loc::NONE { from } else { self.p.locs.derive(INFO.name, from) };
        inst.shrink_to_fit();
        self.p.modules[m.module].insts.push(inst);
        made.lists[core].push(id);
        id
    }

    /// A transfer that carries what the collective says about transfers.
    fn dma(&self, g: &Group<'_>, core: usize, name: &str) -> Inst {
        let cc = self.cc(&g.members[core]);
        let mut i = Inst::new(name, Opcode::DmaCopy);
        i.engine = tandem_bir::EngineKind::Dma;
        if let Some(AttrValue::Enum(q)) = cc.attr(Attr::DmaQos) {
            i.set(Attr::DmaQos, AttrValue::Enum(q));
        }
        if cc.get_bool(Attr::CanReadUninit) {
            i.set(Attr::CanReadUninit, true);
        }
        i
    }

    /// Name of the k-th mover of a group: a suffix only when there are several.
    fn mover(&mut self, g: &Group<'_>, what: &str, k: usize, of: usize) -> CompactString {
        let base = if of > 1 { format!("{}_{what}_{k}", g.name) } else { format!("{}_{what}", g.name) };
        self.names.inst(&base)
    }

    /// Row of `explain` with what is common to all kinds.
    fn row(&self, g: &Group<'_>, transport: &'static str) -> ExplainRow {
        let m = &g.members[0];
        let cc = self.cc(m);
        let src = cc.ins.first().and_then(|o| o.as_ap());
        let source = self.p.locs.source(cc.loc).map(|s| RowSource { file: s.file.clone(), line: s.line });
        ExplainRow {
            name: g.name.to_string(),
            source,
            core_group: self.cores.clone().map(|mi| self.core_of(mi).0).collect(),
            kind: g.kind.name(),
            transport,
            requested: None,
            dtype: src.map_or("", |a| a.dtype.name()),
            shape: src.map_or(Vec::new(), |a| a.pairs.iter().map(|p| p.num).collect()),
            bytes_per_partition: src.map_or(0, AccessPattern::bytes_per_partition),
            effective_bytes_per_partition: src.map_or(0, AccessPattern::effective_bytes_per_partition),
            predicates: Arc::default(),
            barriers: Vec::new(),
            note: "".into(),
        }
    }
}
