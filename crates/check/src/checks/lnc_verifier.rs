//! The modules of one LNC agree: the checks of the vendor's `lnc_verifier`, with its codes.
//!
//! Definition: the specification, file 05 §8. A single module without a core is *symbolic* and gets the checks 1200–1202;
//! otherwise 1203, 1199, 1193, 1191, 1192, 1194, 1187, 1198, 1197, 1195, 1188, 1189, 1196 run in this order, core 0 against
//! the others. All failures of one check are reported, then the later ones are skipped, because they rely on it. With one
//! core nothing runs.
//!
//! As a check of [`crate::check`] it runs from level lowered on (before, names and ids of barriers are not settled yet;
//! barrier ids are checked at level lowered only, the linker numbers anew). Passes call [`lnc_verifier`] themselves.
//!
//! May miss: masks that depend on more than the core. Reports falsely: no.

use crate::Cx;
use crate::meet;
use indexmap::IndexSet;
use rustc_hash::{FxHashMap, FxHashSet};
use tandem_bir::diag::{Code, Diagnostic, Site, codes};
use tandem_bir::inst::OtherOperand;
use tandem_bir::{
    AddressSpace, Attr, AttrValue, BlockId, CoreId, Expr, FuncId, Inst, InstId, Level, MemLocId, Module,
    Opcode, Operand, Program, TensorKind,
};

/// Every code of this check.
pub static CODES: &[Code] = &[
    codes::C1187,
    codes::C1188,
    codes::C1189,
    codes::C1191,
    codes::C1192,
    codes::C1193,
    codes::C1194,
    codes::C1195,
    codes::C1196,
    codes::C1197,
    codes::C1198,
    codes::C1199,
    codes::C1200,
    codes::C1201,
    codes::C1202,
    codes::C1203,
];

/// One failure in the vendor's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierError {
    /// Vendor code, 1187..=1203.
    pub code: u16,
    /// Printed form of the code.
    pub tag: String,
    /// The condition that does not hold, in the vendor's words.
    pub predicate: &'static str,
    /// Line of `lnc_verifier.cpp`.
    pub line: u32,
    /// The finding.
    pub diagnostic: Diagnostic,
}

/// Vendor code, condition, line.
const PREDICATES: &[(u16, &str, u32)] = &[
    (1187, "expectedCBs == coreBarriers[ncId].size()", 108),
    (1188, "index == coreBarriers[ncId][index]->getId()", 157),
    (1189, "expectedName == coreBarriers[ncId][index]->getName()", 164),
    (1191, "func != nullptr", 80),
    (1192, "func->size() == func0.size()", 81),
    (1193, "modules[0]->size() == modules[ncId]->size()", 64),
    (1194, "all_blocks[0][blockIdx]->getName() == bb.getName()", 85),
    (1195, "targetMemLoc && targetMemLoc->getAddress() == memLoc.getAddress()", 142),
    (1196, "sharedTensors[ncId].count(address) > 0", 181),
    (1197, "memLoc.getRemoteLocalTarget().has_value()", 133),
    (1198, "expectedSB2SBs == actualSB2SBs", 116),
    (1199, "function.getShardIds().empty()", 52),
    (1200, "func0.getShardIds().size() == 1", 195),
    (1201, "active_barriers == 0 || active_barriers == Options.vnc_nc_count", 208),
    (1202, "expected_numsb2sb == sb2sbCounts[lncId]", 222),
    (1203, "modules[ncId]->getNeuronCoreId().has_value()", 50),
];

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    let symbolic = cx.program.modules.len() == 1 && cx.program.modules[0].core.is_none();
    if symbolic || cx.program.level != Level::Bir {
        // A barrier that one core has more of was named by the check of barriers, with the vendor's code in a note.
        let named = found.iter().any(|d| d.code == codes::C0301);
        let new = lnc_verifier(cx.program).into_iter().filter(|e| !(named && e.code == 1187));
        found.extend(new.map(|e| e.diagnostic));
    }
}

/// Runs the checks on a verified program; `found` in order, all failures of the first check that fails (per subgraph).
pub fn lnc_verifier(program: &Program) -> Vec<VerifierError> {
    let n = program.lnc_size as usize;
    let mut v = Verifier { program, found: Vec::new() };
    if n <= 1 || program.modules.is_empty() {
        return v.found;
    }
    if program.modules.len() == 1 && program.modules[0].core.is_none() {
        v.symbolic(&program.modules[0]);
        return v.found;
    }
    let mut all = Vec::new();
    for group in program.modules.chunks(n) {
        v.concretized(group);
        all.append(&mut v.found);
    }
    all
}

struct Verifier<'p> {
    program: &'p Program,
    found: Vec<VerifierError>,
}

type Placed = (FuncId, BlockId, InstId);

impl<'p> Verifier<'p> {
    fn say(&mut self, code: u16, message: String, sites: Vec<Site>) {
        let Some(&(_, predicate, line)) = PREDICATES.iter().find(|p| p.0 == code) else { return };
        let Some(id) = CODES.iter().find(|c| c.info().id[1..].parse() == Ok(code)) else { return };
        let tag = format!("NCC_IXLV{:03}", code - 1187);
        let mut d = Diagnostic::new(*id, message);
        d.sites = sites;
        let diagnostic =
            d.note(format!("vendor check {code} ({tag}): {predicate} [lnc_verifier.cpp:{line}]"));
        self.found.push(VerifierError { code, tag, predicate, line, diagnostic });
    }

    fn site(&self, m: &Module, p: Placed) -> Site {
        meet::inst_site(self.program, m, p.0, p.1, p.2)
    }

    fn module_site(m: &Module, position: usize, function: &str, block: &str, label: String) -> Site {
        let core = Some(CoreId(meet::core(m, position)));
        Site { core, function: function.to_owned(), block: block.to_owned(), label, ..Site::default() }
    }

    fn of_opcode(m: &Module, op: Opcode) -> Vec<Placed> {
        let mut out = Vec::new();
        for (f, b) in meet::blocks(m) {
            out.extend(m.blocks[b].insts.iter().filter(|i| m.insts[**i].opcode == op).map(|i| (f, b, *i)));
        }
        out
    }

    // ---- one symbolic module ----

    fn symbolic(&mut self, m: &'p Module) {
        let n = self.program.lnc_size;
        for f in m.all_functions() {
            let ids = shard_ids(m, f);
            if ids > 1 {
                let name = &m.funcs[f].name;
                let message = format!("function `{name}` has {ids} shard ids, one is allowed");
                self.say(1200, message, vec![Self::module_site(m, 0, name, "", String::new())]);
            }
        }
        if !self.found.is_empty() {
            return;
        }
        let active = |i: &Inst, core: u32| -> Option<bool> {
            let leaf = &mut |e: &Expr| match e {
                Expr::ShardId { .. } => Some(i64::from(core)),
                _ => None,
            };
            let predicates = i.more.as_ref().map_or(&[][..], |m| &m.predicates);
            predicates.iter().try_fold(true, |on, p| Some(on && p.eval(leaf)? >= 0))
        };
        for p in Self::of_opcode(m, Opcode::CoreBarrier) {
            let inst = &m.insts[p.2];
            let on: Option<Vec<bool>> = (0..n).map(|c| active(inst, c)).collect();
            let Some(on) = on else { continue };
            let count = on.iter().filter(|x| **x).count();
            if count != 0 && count != n as usize {
                let message = format!("core barrier `{}` fires on {count} of {n} cores", inst.name);
                self.say(1201, message, vec![self.site(m, p)]);
            }
        }
        if !self.found.is_empty() {
            return;
        }
        let swaps = Self::of_opcode(m, Opcode::GpsimdSb2Sb);
        let count = |c: u32| swaps.iter().filter(|p| active(&m.insts[p.2], c) == Some(true)).count();
        let expected = count(0);
        for c in 1..n {
            let have = count(c);
            if have != expected {
                let message = format!("core {c} runs {have} GPSIMD swaps, core 0 runs {expected}");
                let sites = swaps.first().map(|p| self.site(m, *p)).into_iter().collect();
                self.say(1202, message, sites);
            }
        }
    }

    // ---- one module per core ----

    fn concretized(&mut self, group: &'p [Module]) {
        type Step<'p> = fn(&mut Verifier<'p>, &'p [Module]);
        let steps: [Step<'p>; 13] = [
            Self::core_ids,
            Self::no_shard_ids,
            Self::function_counts,
            Self::function_names,
            Self::block_counts,
            Self::block_names,
            Self::barrier_counts,
            Self::swap_counts,
            Self::owners_named,
            Self::owners_placed,
            Self::barrier_ids,
            Self::barrier_names,
            Self::shared_addresses,
        ];
        for step in steps {
            step(self, group);
            if !self.found.is_empty() {
                return;
            }
        }
    }

    fn core_ids(&mut self, group: &'p [Module]) {
        for (i, m) in group.iter().enumerate().filter(|(_, m)| m.core.is_none()) {
            let site = Self::module_site(m, i, &m.name, "", String::new());
            self.say(1203, format!("module `{}` (position {i}) has no core id", m.name), vec![site]);
        }
    }

    fn no_shard_ids(&mut self, group: &'p [Module]) {
        for (i, m) in group.iter().enumerate() {
            for f in m.all_functions().filter(|f| shard_ids(m, *f) > 0) {
                let name = &m.funcs[f].name;
                let message = format!("function `{name}` of core {} still has a shard id", meet::core(m, i));
                self.say(1199, message, vec![Self::module_site(m, i, name, "", String::new())]);
            }
        }
    }

    fn function_counts(&mut self, group: &'p [Module]) {
        let want = group[0].all_functions().count();
        for (i, m) in group.iter().enumerate().skip(1) {
            let have = m.all_functions().count();
            if have != want {
                let message = format!("core {} has {have} functions, core 0 has {want}", meet::core(m, i));
                let sites = vec![
                    Self::module_site(&group[0], 0, &group[0].name, "", format!("{want} functions")),
                    Self::module_site(m, i, &m.name, "", format!("{have} functions")),
                ];
                self.say(1193, message, sites);
            }
        }
    }

    fn each_function(group: &'p [Module]) -> Vec<(FuncId, usize, Option<FuncId>)> {
        let mut out = Vec::new();
        for (i, m) in group.iter().enumerate().skip(1) {
            let names: FxHashMap<&str, FuncId> =
                m.all_functions().map(|f| (m.funcs[f].name.as_str(), f)).collect();
            let of_0 = group[0].all_functions();
            out.extend(of_0.map(|f| (f, i, names.get(group[0].funcs[f].name.as_str()).copied())));
        }
        out
    }

    fn function_names(&mut self, group: &'p [Module]) {
        for (f, i, other) in Self::each_function(group) {
            if other.is_none() {
                let (name, core) = (&group[0].funcs[f].name, meet::core(&group[i], i));
                let site =
                    Self::module_site(&group[0], 0, name, "", format!("core {core} has no such function"));
                self.say(1191, format!("core {core} has no function `{name}`"), vec![site]);
            }
        }
    }

    fn block_counts(&mut self, group: &'p [Module]) {
        for (f, i, other) in Self::each_function(group) {
            let Some(g) = other else { continue };
            let (a, b) = (group[0].funcs[f].blocks.len(), group[i].funcs[g].blocks.len());
            if a != b {
                let name = &group[0].funcs[f].name;
                let core = meet::core(&group[i], i);
                let sites = vec![
                    Self::module_site(&group[0], 0, name, "", format!("{a} blocks")),
                    Self::module_site(&group[i], i, name, "", format!("{b} blocks")),
                ];
                self.say(
                    1192,
                    format!("function `{name}` has {a} blocks on core 0 and {b} on core {core}"),
                    sites,
                );
            }
        }
    }

    fn block_names(&mut self, group: &'p [Module]) {
        for (f, i, other) in Self::each_function(group) {
            let Some(g) = other else { continue };
            let (a, b) = (&group[0].funcs[f], &group[i].funcs[g]);
            for (k, (x, y)) in a.blocks.iter().zip(&b.blocks).enumerate() {
                let (x, y) = (&group[0].blocks[*x].name, &group[i].blocks[*y].name);
                if x != y {
                    let core = meet::core(&group[i], i);
                    let message =
                        format!("block {k} of `{}` is `{x}` on core 0 and `{y}` on core {core}", a.name);
                    let sites = vec![
                        Self::module_site(&group[0], 0, &a.name, x, String::new()),
                        Self::module_site(&group[i], i, &b.name, y, String::new()),
                    ];
                    self.say(1194, message, sites);
                }
            }
        }
    }

    fn counts(&mut self, group: &'p [Module], op: Opcode, code: u16, what: &str) {
        let a = Self::of_opcode(&group[0], op);
        for (i, m) in group.iter().enumerate().skip(1) {
            let b = Self::of_opcode(m, op);
            if a.len() != b.len() {
                let core = meet::core(m, i);
                let message = format!("core 0 has {} {what}, core {core} has {}", a.len(), b.len());
                // The first position at which the two sequences part.
                let name = |m: &Module, p: &Placed| m.insts[p.2].name.clone();
                let k = a.iter().zip(&b).take_while(|(x, y)| name(&group[0], x) == name(m, y)).count();
                let mut sites = Vec::new();
                sites.extend(a.get(k).map(|p| self.site(&group[0], *p).label("first that differs")));
                sites.extend(b.get(k).map(|p| self.site(m, *p).label("first that differs")));
                self.say(code, message, sites);
            }
        }
    }

    fn barrier_counts(&mut self, group: &'p [Module]) {
        self.counts(group, Opcode::CoreBarrier, 1187, "core barriers");
    }

    fn swap_counts(&mut self, group: &'p [Module]) {
        self.counts(group, Opcode::GpsimdSb2Sb, 1198, "GPSIMD swaps");
    }

    fn shared_placed(m: &Module) -> impl Iterator<Item = MemLocId> + '_ {
        m.memlocs
            .iter()
            .filter(|(_, l)| m.sets[l.set].kind == TensorKind::Internal && l.is_shared_post_dram_alloc)
            .map(|(id, _)| id)
    }

    fn owners_named(&mut self, group: &'p [Module]) {
        for (i, m) in group.iter().enumerate().skip(1) {
            for l in Self::shared_placed(m).filter(|l| m.memlocs[*l].remote_local_target.is_none()) {
                let name = &m.memlocs[l].name;
                let message =
                    format!("shared location `{name}` of core {} does not name its owner", meet::core(m, i));
                self.say(1197, message, vec![Self::module_site(m, i, name, "", String::new())]);
            }
        }
    }

    fn owners_placed(&mut self, group: &'p [Module]) {
        let names: Vec<FxHashMap<&str, MemLocId>> =
            group.iter().map(|m| m.memlocs.iter().map(|(id, l)| (l.name.as_str(), id)).collect()).collect();
        for (i, m) in group.iter().enumerate().skip(1) {
            for l in Self::shared_placed(m) {
                let loc = &m.memlocs[l];
                let Some(t) = &loc.remote_local_target else { continue };
                let owner = names
                    .get(t.core.index())
                    .and_then(|n| n.get(t.name.as_str()))
                    .map(|o| (t.core.index(), *o));
                let have = owner.map(|(c, o)| group[c].memlocs[o].addr);
                if have != Some(loc.addr) {
                    let of = match have {
                        Some(a) => format!("`{}` of core {} is at {a}", t.name, t.core),
                        None => format!("core {} has no location `{}`", t.core, t.name),
                    };
                    let core = meet::core(m, i);
                    let message =
                        format!("shared location `{}` of core {core} is at {}, {of}", loc.name, loc.addr);
                    self.say(1195, message, vec![Self::module_site(m, i, &loc.name, "", String::new())]);
                }
            }
        }
    }

    fn barrier_ids(&mut self, group: &'p [Module]) {
        if self.program.level != Level::Lowered {
            return;
        }
        for (c, m) in group.iter().enumerate() {
            for (i, p) in Self::of_opcode(m, Opcode::CoreBarrier).into_iter().enumerate() {
                let id = m.insts[p.2].get_int(Attr::Id);
                if id != Some(i as i64) {
                    let id = id.map_or("no constant".to_owned(), |i| i.to_string());
                    let core = meet::core(m, c);
                    let message =
                        format!("core barrier #{i} (`{}`) of core {core} has id {id}", m.insts[p.2].name);
                    self.say(1188, message, vec![self.site(m, p)]);
                }
            }
        }
    }

    fn barrier_names(&mut self, group: &'p [Module]) {
        let a = Self::of_opcode(&group[0], Opcode::CoreBarrier);
        for (i, m) in group.iter().enumerate().skip(1) {
            for (k, (x, y)) in a.iter().zip(Self::of_opcode(m, Opcode::CoreBarrier)).enumerate() {
                let (want, have) = (&group[0].insts[x.2].name, &m.insts[y.2].name);
                if want != have {
                    let core = meet::core(m, i);
                    let message =
                        format!("core barrier #{k} is `{want}` on core 0 and `{have}` on core {core}");
                    self.say(1189, message, vec![self.site(&group[0], *x), self.site(m, y)]);
                }
            }
        }
    }

    fn shared_addresses(&mut self, group: &'p [Module]) {
        let addresses = |m: &Module| -> IndexSet<u64> {
            let of = m
                .memlocs
                .values()
                .filter(|l| l.is_shared_post_dram_alloc && m.sets[l.set].addr_space == AddressSpace::Shared);
            let mut v: Vec<u64> = of.map(|l| l.addr).collect();
            v.sort_unstable();
            v.into_iter().collect()
        };
        let a = addresses(&group[0]);
        for (i, m) in group.iter().enumerate().skip(1) {
            let b = addresses(m);
            let core = meet::core(m, i);
            for (missing, from, at) in
                a.difference(&b).map(|x| (x, 0, core)).chain(b.difference(&a).map(|x| (x, core, 0)))
            {
                let message = format!(
                    "core {from} has a shared tensor at DRAM address {missing}, core {at} has none there"
                );
                self.say(1196, message, vec![Self::module_site(m, i, &m.name, "", String::new())]);
            }
        }
    }
}

/// Key under which a function of a symbolic module lists its shard ids, where a file does (our choice of the name; no source
/// gives it).
pub const SHARD_IDS_KEY: &str = "shard_ids";

/// The module is one for all cores: a function has a shard id.
pub fn uses_shard_ids(m: &Module) -> bool {
    m.all_functions().any(|f| shard_ids(m, f) > 0)
}

/// Number of distinct shard ids of a function: those it lists, or those its instructions mention when these are more.
fn shard_ids(m: &Module, f: FuncId) -> usize {
    let listed = m.funcs[f].extra.as_ref().and_then(|e| e.get(SHARD_IDS_KEY)).and_then(|v| v.as_array());
    let listed: FxHashSet<String> = listed.into_iter().flatten().map(ToString::to_string).collect();
    listed.len().max(mentioned_shard_ids(m, f).len())
}

/// Distinct shard ids that a function's instructions mention.
fn mentioned_shard_ids(m: &Module, f: FuncId) -> IndexSet<i64> {
    let mut ids = IndexSet::new();
    let mut see = |e: &Expr| {
        e.for_each_leaf(&mut |l| {
            if let Expr::ShardId { ub } = l {
                ids.insert(*ub);
            }
        });
    };
    for (g, b) in meet::blocks(m) {
        if g != f {
            continue;
        }
        for &i in &m.blocks[b].insts {
            let inst = &m.insts[i];
            for (_, v) in inst.attrs.iter() {
                match v {
                    AttrValue::Expr(e) => see(e),
                    AttrValue::Exprs(v) => v.iter().for_each(&mut see),
                    AttrValue::Bool(_)
                    | AttrValue::Int(_)
                    | AttrValue::F32(_)
                    | AttrValue::Enum(_)
                    | AttrValue::Str(_)
                    | AttrValue::Ints(_)
                    | AttrValue::Floats(_)
                    | AttrValue::Strs(_)
                    | AttrValue::Groups(_)
                    | AttrValue::Pairs(_)
                    | AttrValue::Json(_) => {}
                }
            }
            if let Some(more) = &inst.more {
                more.predicates.iter().chain(&more.order).for_each(&mut see);
            }
            for o in inst.operands() {
                match o {
                    Operand::Ap(a) => {
                        a.dynamic.iter().flat_map(|d| &d.terms).for_each(|(_, e)| see(e));
                    }
                    Operand::Imm(_) | Operand::Reg(_) => {}
                    Operand::Other(o) => match &**o {
                        OtherOperand::Symbolic { addrs, .. } => addrs.iter().for_each(&mut see),
                        OtherOperand::SymbolicImm { expr, .. } => see(expr),
                        OtherOperand::RegisterAp { .. } | OtherOperand::ImmArray { .. } => {}
                    },
                }
            }
        }
    }
    ids
}
