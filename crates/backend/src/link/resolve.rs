//! Remote targets to addresses: `vnc_remote_addr_map` and shared DRAM.
//!
//! Source: the specification, file 08 §4; the lookup in the owner's module and the failure policy are our choice.

use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{AddressSpace, CoreId, InstId, MemLocId, MemoryType, Module, Operand, Program};

/// Gives every alias the placement of its owner. Running it twice changes nothing.
///
/// # Errors
/// N0003 to N0007 and N0021; every finding is reported.
pub fn remote_addr_map(p: &mut Program, diags: &mut Vec<Diagnostic>) {
    let used: Vec<Vec<bool>> = p.modules.iter().map(used_locations).collect();
    map_addresses(p, &used, diags);
}

/// The same, told per core which locations instructions name.
pub(super) fn map_addresses(p: &mut Program, used: &[Vec<bool>], diags: &mut Vec<Diagnostic>) {
    if p.modules.iter().flat_map(|m| m.memlocs.values()).all(|l| l.remote_local_target.is_none()) {
        return;
    }
    let mut copies = Vec::new();
    let index = OwnerIndex::new(p);
    for ((c, m), used) in p.modules.iter().enumerate().zip(used) {
        for (l, loc) in m.memlocs.iter() {
            let Some(t) = &loc.remote_local_target else { continue };
            let site = || Site { core: m.core, path: loc.name.to_string(), ..Site::default() };
            let Some((oc, ol)) = index.find(p, m, l, t.core, &t.name) else {
                if used[l.index()] {
                    diags.push(
                        Diagnostic::new(
                            codes::N0003,
                            format!(
                                "`{}` stands for `{}` of core {}, which does not exist",
                                loc.name, t.name, t.core
                            ),
                        )
                        .site(site())
                        .note("assertion 1514: remote_mloc != nullptr"),
                    );
                }
                continue;
            };
            if (oc, ol) == (c, l) {
                continue;
            }
            let owner = &p.modules[oc].memlocs[ol];
            if !used[l.index()] {
                continue;
            }
            if owner.is_remote() && owner.remote_local_target.as_ref().is_none_or(|t| t.core.index() != oc) {
                diags.push(
                    Diagnostic::new(
                        codes::N0004,
                        format!("remote target of `{}` is itself remote", loc.name),
                    )
                    .site(site()),
                );
                continue;
            }
            if owner.mem == MemoryType::Psum {
                diags.push(
                    Diagnostic::new(codes::N0006, format!("`{}` is a remote alias in PSUM", loc.name))
                        .site(site()),
                );
                continue;
            }
            if !owner.allocated {
                diags.push(
                    Diagnostic::new(
                        codes::N0005,
                        format!("remote target `{}` on core {} is not allocated", t.name, t.core),
                    )
                    .site(site()),
                );
                continue;
            }
            let shared = p.modules[oc].set_of(ol).addr_space == AddressSpace::Shared;
            let same =
                loc.addr == owner.addr && loc.bank == owner.bank && loc.base == owner.base && loc.allocated;
            if owner.mem == MemoryType::Dram && shared && !same {
                diags.push(
                    Diagnostic::new(codes::N0019, format!("shared location `{}` resolved late", loc.name))
                        .site(site()),
                );
            }
            copies.push((c, l, owner.mem, owner.addr, owner.bank, owner.base, owner.allocated));
        }
    }
    for (c, l, mem, addr, bank, base, allocated) in copies {
        let loc = &mut p.modules[c].memlocs[l];
        loc.mem = mem;
        loc.addr = addr;
        loc.bank = bank;
        loc.base = base;
        loc.allocated = allocated;
    }
}

/// Locations of every core by function and name.
struct OwnerIndex<'p> {
    /// Per core: by function name and location name, and by location name alone (the first function that has it).
    by_name: Vec<FxHashMap<(&'p str, &'p str), MemLocId>>,
    anywhere: Vec<FxHashMap<&'p str, MemLocId>>,
    /// Per core: function of a set.
    func_of: Vec<FxHashMap<tandem_bir::SetId, &'p str>>,
}

impl<'p> OwnerIndex<'p> {
    fn new(p: &'p Program) -> OwnerIndex<'p> {
        let mut out = OwnerIndex { by_name: Vec::new(), anywhere: Vec::new(), func_of: Vec::new() };
        for m in &p.modules {
            let (mut by_name, mut anywhere, mut func_of) =
                (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
            for f in m.all_functions() {
                let func = m.funcs[f].name.as_str();
                for s in &m.funcs[f].storages {
                    let tandem_bir::Storage::Set(s) = s else { continue };
                    func_of.entry(*s).or_insert(func);
                    for &l in &m.sets[*s].locs {
                        let name = m.memlocs[l].name.as_str();
                        by_name.entry((func, name)).or_insert(l);
                        anywhere.entry(name).or_insert(l);
                    }
                }
            }
            out.by_name.push(by_name);
            out.anywhere.push(anywhere);
            out.func_of.push(func_of);
        }
        out
    }

    /// The owner's location: same function first, then any function of the owner.
    fn find(
        &self,
        p: &Program,
        m: &Module,
        l: MemLocId,
        core: CoreId,
        name: &str,
    ) -> Option<(usize, MemLocId)> {
        let oc = core.index();
        let own = p.modules.iter().position(|x| std::ptr::eq(x, m))?;
        let set = m.memlocs.get(l)?.set;
        let same = self.func_of[own].get(&set).and_then(|f| self.by_name.get(oc)?.get(&(*f, name)));
        same.or_else(|| self.anywhere.get(oc)?.get(name)).map(|l| (oc, *l))
    }
}

/// Which locations an instruction of the module names.
pub fn used_locations(m: &Module) -> Vec<bool> {
    let mut used = vec![false; m.memlocs.len()];
    let mut note = |i: InstId| {
        for a in m.insts[i].operands().filter_map(Operand::as_ap) {
            if let Some(u) = used.get_mut(a.loc.index()) {
                *u = true;
            }
        }
    };
    if m.may_have_regions() {
        m.walk().into_iter().for_each(|(_, _, i)| note(i));
    } else {
        super::flat(m).for_each(note);
    }
    used
}

/// Names unique per core, addresses known, shared DRAM equal on all cores.
pub fn check_locations(p: &Program, diags: &mut Vec<Diagnostic>) {
    let used: Vec<Vec<bool>> = p.modules.iter().map(used_locations).collect();
    check_used(p, &used, diags);
}

/// The same, told per core which locations instructions name.
pub(super) fn check_used(p: &Program, used: &[Vec<bool>], diags: &mut Vec<Diagnostic>) {
    let mut shared: FxHashMap<&str, (usize, u64)> = FxHashMap::default();
    for ((c, m), used) in p.modules.iter().enumerate().zip(used) {
        let mut seen: FxHashMap<&str, MemLocId> = FxHashMap::default();
        for (l, loc) in m.memlocs.iter() {
            if !used[l.index()] {
                continue;
            }
            let site = || Site { core: m.core, path: loc.name.to_string(), ..Site::default() };
            if seen.insert(loc.name.as_str(), l).is_some() {
                diags.push(
                    Diagnostic::new(codes::N0002, format!("two locations are named `{}`", loc.name))
                        .site(site()),
                );
            }
            let set = m.set_of(l);
            let border = set.kind.is_input() || set.kind.is_output() || set.file.is_some();
            if !(loc.allocated || border && loc.mem == MemoryType::Dram) {
                diags.push(
                    Diagnostic::new(codes::N0007, format!("location `{}` has no address", loc.name))
                        .site(site()),
                );
            }
            if loc.mem == MemoryType::Dram
                && set.addr_space == AddressSpace::Shared
                && !loc.is_remote()
                && loc.allocated
            {
                match shared.get(loc.name.as_str()) {
                    Some(&(other, addr)) if addr != loc.addr && !border => diags.push(
                        Diagnostic::new(
                            codes::N0021,
                            format!(
                                "shared `{}` is at {:#x} here, at {addr:#x} on core {other}",
                                loc.name, loc.addr
                            ),
                        )
                        .site(site()),
                    ),
                    Some(_) => {}
                    None => {
                        shared.insert(loc.name.as_str(), (c, loc.addr));
                    }
                }
            }
        }
    }
}
