//! Code generation of one core: where instructions, names and findings go while a body is walked.

use super::access::Bound;
use super::fail::{Fail, Res};
use super::names::Names;
use super::plan::{Kernel, Plan};
use super::tensors::Region;
use super::{cfg, ops};
use crate::ast as k;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use tandem_bir::diag::{Diagnostic, Loc, LocEntry, Site, SourcePos, codes};
use tandem_bir::names::NameTable;
use tandem_bir::{
    BlockId, CompactString, CoreId, Dep, Dtype, EdgeKind, FuncId, Inst, InstId, MemLocId, Module, RegId,
};

/// A collective as the cross-core checks need it.
#[derive(Clone, Debug)]
pub(crate) struct CcRecord {
    pub inst: InstId,
    /// Replica groups, or source/target pairs.
    pub groups: Vec<Vec<i64>>,
}

/// A barrier as the cross-core checks need it.
#[derive(Clone, Debug)]
pub(crate) struct BarrierRecord {
    pub inst: InstId,
    pub cores: Vec<i64>,
}

/// What is left of a core when its body is done.
#[derive(Debug)]
pub(crate) struct Done {
    pub module: Module,
    pub names: Names,
    pub collectives: Vec<CcRecord>,
    pub barriers: Vec<BarrierRecord>,
    /// DRAM locations that are shared when another core has them too.
    pub hbm_internal: Vec<MemLocId>,
    pub has_body: bool,
    /// A collective, swap or barrier could not be lowered, so their lists are incomplete.
    pub broken: bool,
}

/// The statement being lowered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor<'k> {
    pub stmt: Option<&'k k::Stmt>,
    pub block: &'k str,
    pub index: usize,
    pub block_index: usize,
    pub loc: Option<Loc>,
}

/// Code generation of one core.
pub(crate) struct Core<'k> {
    pub plan: &'k Plan<'k>,
    pub kernel: &'k mut Kernel,
    pub core: u32,
    pub m: Module,
    pub f: FuncId,
    /// Block that takes the instructions.
    pub b: Option<BlockId>,
    /// Views by the address of their shared tensor value, which lives as long as the kernel.
    pub bound: FxHashMap<usize, Bound>,
    /// Locations by address name.
    pub regions: FxHashMap<CompactString, Region>,
    pub regs: FxHashMap<CompactString, RegId>,
    pub names: Names,
    /// Statement names of instructions that keep a name of their own.
    pub aliases: NameTable,
    pub cur: Cursor<'k>,
    /// Instructions of the current statement, main one first.
    pub minted: SmallVec<[InstId; 2]>,
    /// Compiler-made instructions for the top of the entry block.
    pub prelude: Vec<InstId>,
    pub zero_bias: Option<(u64, MemLocId)>,
    pub zero_biases: u64,
    pub identities: FxHashMap<Dtype, MemLocId>,
    counter: u64,
    cc_counter: u64,
    pub collectives: Vec<CcRecord>,
    pub barriers: Vec<BarrierRecord>,
    pub hbm_internal: Vec<MemLocId>,
    pub blocks: cfg::Blocks<'k>,
    pub has_body: bool,
    broken: bool,
    /// Names of statements that could not be lowered.
    failed: FxHashSet<CompactString>,
}

impl<'k> Core<'k> {
    pub(crate) fn new(plan: &'k Plan<'k>, kernel: &'k mut Kernel, core: u32) -> Core<'k> {
        let id = plan.opts.assign_cores.then_some(CoreId(core));
        let mut m = Module::new(&format!("nc{core:02}"), id, plan.opts.arch);
        let f = m.add_function("sg0000");
        Core {
            plan,
            kernel,
            core,
            m,
            f,
            b: None,
            bound: FxHashMap::default(),
            regions: FxHashMap::default(),
            regs: FxHashMap::default(),
            names: Names::default(),
            aliases: NameTable::default(),
            cur: Cursor::default(),
            minted: SmallVec::new(),
            prelude: Vec::new(),
            zero_bias: None,
            zero_biases: 0,
            identities: FxHashMap::default(),
            counter: 0,
            cc_counter: 0,
            collectives: Vec::new(),
            barriers: Vec::new(),
            hbm_internal: Vec::new(),
            blocks: cfg::Blocks::default(),
            has_body: false,
            broken: false,
            failed: FxHashSet::default(),
        }
    }

    pub(crate) fn done(self) -> Done {
        Done {
            module: self.m,
            names: self.names,
            collectives: self.collectives,
            barriers: self.barriers,
            hbm_internal: self.hbm_internal,
            has_body: self.has_body,
            broken: self.broken,
        }
    }

    pub(crate) fn skip_note(&mut self) {
        let text = format!(
            "The kernel is compiled for LNC count lower than the current core_id {} skip lowering",
            self.core
        );
        let site = self.core_site();
        self.kernel.diags.push(Diagnostic::new(codes::K0003, text).site(site));
    }

    /// The core as a place.
    pub(crate) fn core_site(&self) -> Site {
        Site { core: Some(CoreId(self.core)), function: "sg0000".into(), ..Site::default() }
    }

    /// The current statement as a place.
    pub(crate) fn site(&self) -> Site {
        let mut site = self.core_site();
        let Some(stmt) = self.cur.stmt else { return site };
        site.block = self.cur.block.to_string();
        site.inst = stmt.name.as_deref().unwrap_or_default().to_string();
        site.pos = Some(source_pos(&stmt.pos));
        site.path = format!(
            "bodies[{}][{}].body[{}].op.{}",
            self.core,
            self.cur.block_index,
            self.cur.index,
            stmt.op.name()
        );
        site
    }

    /// Adds a finding at the current statement; its text is preceded by the operator.
    pub(crate) fn report(&mut self, fail: Fail) {
        let message = match self.cur.stmt {
            Some(stmt) => format!("{}: {}", stmt.op.name(), fail.message),
            None => fail.message,
        };
        let mut d = Diagnostic::new(fail.code, message).site(self.site());
        d.notes = fail.notes;
        d.help = fail.help;
        self.kernel.diags.push(d);
    }

    /// Lowers the statement under the cursor.
    pub(crate) fn statement(&mut self) {
        let Some(stmt) = self.cur.stmt else { return };
        self.minted.clear();
        let entry = LocEntry::Pos(source_pos(&stmt.pos));
        self.cur.loc = Some(self.kernel.locs.intern(entry));
        if let Err(fail) = ops::leaf(self, &stmt.op) {
            self.report(*fail);
            // Checks that would only repeat this finding in other words leave the statement out.
            self.broken |= stmt.op.is_cross_core();
            self.failed.extend(stmt.name.clone());
        }
    }

    fn count(&mut self) -> u64 {
        let n = self.counter;
        self.counter = n.wrapping_add(1);
        n
    }

    fn statement_name(&self) -> Option<&'k CompactString> {
        self.cur.stmt.and_then(|s| s.name.as_ref()).filter(|n| !n.is_empty())
    }

    fn push(&mut self, mut inst: Inst, name: CompactString) -> InstId {
        inst.name = name;
        inst.loc = self.cur.loc.unwrap_or(Loc::NONE);
        inst.shrink_to_fit();
        let id = match self.b {
            Some(b) => self.m.push_inst(b, inst),
            None => self.m.insts.push(inst),
        };
        self.minted.push(id);
        id
    }

    /// Adds the main instruction of a statement: named as the statement, or `prefix` and a number.
    pub(crate) fn emit(&mut self, prefix: &str, inst: Inst) -> InstId {
        let number = self.count();
        self.emit_with(inst, |_| format!("{prefix}{number}"))
    }

    /// The same with a whole default name.
    pub(crate) fn emit_named(&mut self, inst: Inst, default: impl FnOnce(&Core<'k>) -> String) -> InstId {
        self.count();
        self.emit_with(inst, default)
    }

    fn emit_with(&mut self, mut inst: Inst, default: impl FnOnce(&Core<'k>) -> String) -> InstId {
        let id = self.m.insts.next_key();
        let name = match self.statement_name() {
            Some(want) => {
                let name = self.names.take(want, id);
                if name != *want {
                    inst.more_mut().label = Some(want.clone());
                }
                name
            }
            None => {
                inst.more_mut().label = Some("nki-op".into());
                let default = default(self);
                self.names.take(&default, id)
            }
        };
        self.push(inst, name)
    }

    /// Adds a collective: `stem-<CC id>`; the statement name becomes an alias for edges.
    pub(crate) fn emit_collective(&mut self, stem: &str, mut inst: Inst) -> InstId {
        let number = self.cc_counter;
        self.cc_counter = number.wrapping_add(1);
        let id = self.m.insts.next_key();
        let name = self.names.take(&format!("{stem}-{number}"), id);
        match self.statement_name() {
            Some(stmt) => {
                if !self.plan.strict {
                    // The first statement of a name keeps it.
                    let _ = self.aliases.insert(stmt, id);
                }
                if *stmt != name {
                    inst.more_mut().label = Some(stmt.clone());
                }
            }
            None => inst.more_mut().label = Some("nki-op".into()),
        }
        self.push(inst, name)
    }

    /// Adds a second instruction of a statement, which keeps its default name.
    pub(crate) fn emit_helper(&mut self, prefix: &str, inst: Inst) -> InstId {
        let number = self.count();
        let id = self.m.insts.next_key();
        let name = self.names.take(&format!("{prefix}{number}"), id);
        self.push(inst, name)
    }

    /// Adds a compiler-made instruction to the top of the entry block.
    pub(crate) fn emit_prelude(&mut self, name: &str, mut inst: Inst) -> InstId {
        let id = self.m.insts.next_key();
        inst.name = self.names.take(name, id);
        inst.loc = self.cur.loc.map_or(Loc::NONE, |at| self.kernel.locs.derive("klr", at));
        inst.shrink_to_fit();
        self.m.insts.push(inst);
        self.prelude.push(id);
        id
    }

    pub(crate) fn finish_prelude(&mut self) {
        let Some(&entry) = self.m.funcs[self.f].blocks.first() else { return };
        if !self.prelude.is_empty() {
            let list = &mut self.m.blocks[entry].insts;
            list.splice(0..0, std::mem::take(&mut self.prelude));
        }
    }

    /// Edges of the file: every `to` waits for its `from`, on this core.
    pub(crate) fn insert_edges(&mut self) {
        let edges = self.plan.view.edges;
        let mut seen: FxHashSet<(InstId, InstId)> = FxHashSet::default();
        let mut touched: FxHashSet<InstId> = FxHashSet::default();
        for e in edges {
            for to in &e.to_edges {
                match (self.find_named(&e.from_edge), self.find_named(to)) {
                    (Some(from), Some(inst)) => {
                        let deps = &mut self.m.insts[inst].deps;
                        if touched.insert(inst) {
                            seen.extend(deps.iter().map(|d| (d.inst, inst)));
                        }
                        if from != inst && seen.insert((from, inst)) {
                            deps.push(Dep { inst: from, kind: EdgeKind::Ordered });
                        }
                    }
                    (from, _) => {
                        let missing = if from.is_none() { &e.from_edge } else { to };
                        if !self.failed.contains(missing) {
                            self.lost_edge(e, to, missing);
                        }
                    }
                }
            }
        }
    }

    fn lost_edge(&mut self, e: &k::Edges, to: &str, missing: &str) {
        let text = format!("{missing} is not found, unable to complete dependency edge insertion");
        let site = self.core_site();
        let d = Diagnostic::new(codes::K0011, text)
            .note(format!("the edge is {} before {to}; edges hold on every core", e.from_edge))
            .site(site);
        self.kernel.diags.push(d);
    }

    fn find_named(&self, name: &str) -> Option<InstId> {
        self.names.find(name).or_else(|| self.aliases.get(name))
    }
}

impl k::Operator {
    /// Takes part in the checks across cores.
    fn is_cross_core(&self) -> bool {
        matches!(
            self,
            k::Operator::SendRecv(_)
                | k::Operator::CoreBarrier(_)
                | k::Operator::AllReduce(_)
                | k::Operator::AllGather(_)
                | k::Operator::ReduceScatter(_)
                | k::Operator::AllToAll(_)
                | k::Operator::CollectivePermute(_)
                | k::Operator::CollectivePermuteImplicit(_)
                | k::Operator::CollectivePermuteImplicitReduce(_)
                | k::Operator::SendRecvCompute(_)
                | k::Operator::Broadcast(_)
        )
    }
}

/// A KLR position as a source position.
pub(crate) fn source_pos(p: &k::Pos) -> SourcePos {
    let narrow = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    SourcePos {
        file: p.filename.as_deref().unwrap_or("<unknown>").into(),
        line: narrow(p.line),
        column: narrow(p.column),
        end_line: p.line_end.map(narrow),
        end_column: p.column_end.map(narrow),
    }
}

/// A promise of the front end that does not hold; the operator's name stands in front of every message.
pub(crate) fn expected(what: &str) -> Box<Fail> {
    Fail::new(codes::K0050, format!("expected {what}"))
}

/// A step that gives nothing.
pub(crate) type Step = Res<()>;
