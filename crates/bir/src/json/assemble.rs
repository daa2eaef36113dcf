//! Modules to a program: which core and subgraph each is, and the border of the kernel.

use crate::diag::codes::{P0115, P0116};
use crate::diag::{Diagnostic, LocTable};
use crate::expr::Expr;
use crate::ids::CoreId;
use crate::inst::AttrValue;
use crate::module::{Level, Module, Port, Program, Signature, Storage};
use indexmap::IndexMap;
use std::sync::Arc;

/// Largest number of cores of a logical NeuronCore.
const MAX_CORES: u32 = 2;

/// What our own key of a module says about its program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramInfo {
    /// Name of the program.
    pub name: String,
    /// Cores per logical NeuronCore.
    pub lnc_size: u32,
    /// Level reached.
    pub level: Level,
    /// Border of the kernel.
    pub signature: Signature,
}

/// A module as read, and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The module.
    pub module: Module,
    /// `(subgraph, core)` when the folder it came from says so.
    pub place: Option<(u32, CoreId)>,
    /// What its own key says about the program.
    pub info: Option<ProgramInfo>,
    /// Constants it carries, by file name.
    pub constants: Vec<(String, Vec<u8>)>,
}

impl Part {
    /// A module with a known place.
    pub fn at(module: Module, subgraph: u32, core: CoreId) -> Part {
        Part { module, place: Some((subgraph, core)), info: None, constants: Vec::new() }
    }
}

fn fault(text: String) -> Vec<Diagnostic> {
    vec![Diagnostic::new(P0115, text)]
}

/// Puts modules together. The place of a module is its folder's, else its own core id and subgraph, else its position
/// in the list.
///
/// # Errors
/// P0115 when a core or subgraph is missing, comes twice or disagrees; P0116 for more than two cores.
pub fn assemble(parts: Vec<Part>, locs: LocTable) -> Result<Program, Vec<Diagnostic>> {
    if parts.is_empty() {
        return Err(fault("there is no module".to_owned()));
    }
    let info = parts.iter().find_map(|p| p.info.clone());
    let count = parts.len() as u32;
    let highest = parts.iter().filter_map(|p| p.place.map(|p| p.1).or(p.module.core)).map(|c| c.0).max();
    let lnc_size = match (&info, highest) {
        (Some(i), _) => i.lnc_size.max(1),
        (None, Some(h)) => h.saturating_add(1),
        (None, None) => count,
    };
    if lnc_size > MAX_CORES || highest.is_some_and(|h| h >= MAX_CORES) {
        let n = highest.map_or(lnc_size, |h| lnc_size.max(h.saturating_add(1)));
        return Err(vec![
            Diagnostic::new(
                P0116,
                format!("a logical NeuronCore of {n} cores cannot be expressed; the machine has 1 or 2"),
            )
            .note("the LNC size is 1 or 2"),
        ]);
    }
    let mut slots: Vec<Option<Module>> = Vec::new();
    slots.resize_with(parts.len(), || None);
    let mut constants: IndexMap<String, Arc<[u8]>> = IndexMap::new();
    for (i, part) in parts.into_iter().enumerate() {
        let Part { mut module, place, info: own, constants: carried } = part;
        let position = (i as u32 / lnc_size, CoreId(i as u32 % lnc_size));
        let (subgraph, core) = match place {
            Some((_, c)) if module.core.is_some_and(|m| m != c) => {
                let own = module.core.map_or(0, |c| c.0);
                return Err(fault(format!(
                    "the module in the folder of core {c} says that it is core {own}"
                )));
            }
            Some(p) => p,
            None if own.is_some() => (module.subgraph, module.core.unwrap_or(position.1)),
            None => (position.0, module.core.unwrap_or(position.1)),
        };
        module.subgraph = subgraph;
        if own.is_none() && (place.is_some() || !is_symbolic(&module)) {
            module.core = Some(core);
        }
        if module.name.is_empty() {
            module.name = format!("nc{:02}", core.0).into();
        }
        let slot = u64::from(core.0) + u64::from(subgraph) * u64::from(lnc_size);
        match usize::try_from(slot).ok().and_then(|s| slots.get_mut(s)) {
            None => {
                return Err(fault(format!(
                    "core {core} of subgraph {subgraph} is given, but {count} modules on {lnc_size} cores leave a gap before it"
                )));
            }
            Some(Some(_)) => return Err(fault(format!("core {core} of subgraph {subgraph} is given twice"))),
            Some(slot @ None) => *slot = Some(module),
        }
        for (file, bytes) in carried {
            constants.insert(file, bytes.into());
        }
    }
    let modules: Vec<Module> = slots.into_iter().flatten().collect();
    if !modules.len().is_multiple_of(lnc_size as usize) {
        return Err(fault(format!("{} modules do not fill {lnc_size} cores", modules.len())));
    }
    if let Some(first) = modules.first()
        && let Some(m) = modules.iter().find(|m| m.arch != first.arch)
    {
        return Err(fault(format!(
            "the modules are for different architectures: `{}` for {}, `{}` for {}",
            first.name, first.arch, m.name, m.arch
        )));
    }
    let (name, level, signature) = match info {
        Some(i) => (i.name, i.level, i.signature),
        None => (program_name(&modules), Level::Bir, derive_signature(&modules, lnc_size)),
    };
    Ok(Program { name, lnc_size, level, modules, locs, constants, signature })
}

/// One module for all cores: it asks for the shard id.
fn is_symbolic(m: &Module) -> bool {
    // A function may list its shard ids without using one.
    let mut found = m.funcs.values().any(|f| {
        let listed = f.extra.as_ref().and_then(|e| e.get("shard_ids"));
        listed.and_then(|v| v.as_array()).is_some_and(|a| !a.is_empty())
    });
    let mut look = |e: &Expr| e.for_each_leaf(&mut |l| found |= matches!(l, Expr::ShardId { .. }));
    for i in m.insts.values() {
        for (_, v) in i.attrs.iter() {
            match v {
                AttrValue::Expr(e) => look(e),
                AttrValue::Exprs(v) => v.iter().for_each(&mut look),
                _ => {}
            }
        }
        for o in i.operands() {
            match o {
                crate::Operand::Ap(a) => a.dynamic.iter().flat_map(|d| &d.terms).for_each(|(_, e)| look(e)),
                crate::Operand::Other(o) => match &**o {
                    crate::inst::OtherOperand::Symbolic { addrs, .. } => addrs.iter().for_each(&mut look),
                    crate::inst::OtherOperand::SymbolicImm { expr, .. } => look(expr),
                    crate::inst::OtherOperand::RegisterAp { .. }
                    | crate::inst::OtherOperand::ImmArray { .. } => {}
                },
                crate::Operand::Imm(_) | crate::Operand::Reg(_) => {}
            }
        }
        for e in i.more.iter().flat_map(|m| m.predicates.iter().chain(&m.order)) {
            look(e);
        }
    }
    found
}

/// Name of the first function.
fn program_name(modules: &[Module]) -> String {
    let first = modules.first().and_then(|m| m.all_functions().next().map(|f| m.funcs[f].name.to_string()));
    first.filter(|n| !n.is_empty()).unwrap_or_else(|| "kernel".to_owned())
}

/// Inputs and outputs from the kinds of sets (our choice, as no source orders them): subgraph by subgraph, core 0 in file
/// order, then what only core 1 has. A tensor private to one of two cores is named `nc00:x`; names that a later subgraph
/// uses again get `sgNN/` before them.
fn derive_signature(modules: &[Module], lnc_size: u32) -> Signature {
    let mut sig = Signature::default();
    for (slot, m) in modules.iter().enumerate() {
        let subgraph = slot as u32 / lnc_size;
        let core = CoreId(slot as u32 % lnc_size);
        let funcs = if m.functions.is_empty() { &m.nki_functions } else { &m.functions };
        for s in funcs.iter().flat_map(|f| &m.funcs[*f].storages) {
            let Storage::Set(set) = *s else { continue };
            let set = &m.sets[set];
            if !set.kind.is_input() && !set.kind.is_output() {
                continue;
            }
            let Some(loc) = set.locs.first().map(|l| &m.memlocs[*l]) else { continue };
            let private = lnc_size > 1 && set.addr_space != crate::AddressSpace::Shared;
            let owner = private.then_some(core);
            let name = if private { format!("nc{:02}:{}", core.0, loc.name) } else { loc.name.to_string() };
            let list = if set.kind.is_input() { &mut sig.inputs } else { &mut sig.outputs };
            let same = list.iter().find(|p| p.name == name).map(|p| p.subgraph);
            let name = match same {
                Some(s) if s == subgraph => continue,
                Some(_) => format!("sg{subgraph:02}/{name}"),
                None => name,
            };
            if list.iter().any(|p| p.name == name) {
                continue;
            }
            list.push(Port {
                name,
                location: loc.name.clone(),
                core: owner,
                subgraph,
                dtype: set.dtype,
                shape: set.shape.to_vec(),
            });
        }
    }
    sig
}
