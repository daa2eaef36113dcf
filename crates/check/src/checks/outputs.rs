//! Every output of the kernel is written.
//!
//! Definition: for each output of the signature (without a signature: each location of an output kind) some instruction on
//! a core that has it writes its location, directly, through a remote alias, or through a symbolic operand. An in-place
//! output, which is its input's location, and an output with declared aliases hold values anyway and are not reported.
//!
//! May miss: outputs written only in part, or on a path that is never taken (the simulator reports uninitialised bytes).
//! Reports falsely: no; programs with opaque kernels are not judged.

use crate::Cx;
use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::inst::{Family, OtherOperand};
use tandem_bir::{CompactString, CoreId, MemLocId, Module, Operand};

pub(crate) fn run(cx: &Cx<'_>, found: &mut Vec<Diagnostic>) {
    let p = cx.program;
    let mut written: FxHashSet<(u32, Option<CoreId>, CompactString)> = FxHashSet::default();
    let mut kinds: IndexMap<(u32, Option<CoreId>, CompactString), bool> = IndexMap::new();
    for m in &p.modules {
        for (_, b) in crate::meet::blocks(m) {
            for &i in &m.blocks[b].insts {
                let inst = &m.insts[i];
                if inst.spec().family == Family::Kernel {
                    return;
                }
                for o in &inst.outs {
                    each_location(m, o, &mut |l| {
                        let loc = &m.memlocs[l];
                        written.insert((m.subgraph, m.core, loc.name.clone()));
                        if let Some(t) = &loc.remote_local_target {
                            written.insert((m.subgraph, Some(t.core), t.name.clone()));
                        }
                    });
                }
            }
        }
        for loc in m.memlocs.values() {
            let set = &m.sets[loc.set];
            if set.kind.is_output() && !loc.is_remote() {
                kinds.insert((m.subgraph, m.core, loc.name.clone()), loc.aliases.is_empty());
            }
        }
    }
    let mut report = |name: &str, location: &str, core: Option<CoreId>, shared: bool| {
        let message = if name == location {
            format!("output `{name}` is never written")
        } else {
            format!("output `{name}` (location `{location}`) is never written")
        };
        let site = Site { core, path: location.to_owned(), ..Site::default() };
        let d = Diagnostic::new(codes::C0501, message).site(site);
        found.push(if shared { d.note("no instruction of any core writes it") } else { d });
    };
    if p.signature.outputs.is_empty() {
        // A location of the same name on both cores is one output when it is shared.
        let mut said: FxHashSet<CompactString> = FxHashSet::default();
        for ((sub, core, name), judged) in &kinds {
            let on_any = p.modules.iter().any(|m| written.contains(&(*sub, m.core, name.clone())));
            if *judged && !on_any && said.insert(name.clone()) {
                report(name, name, *core, false);
            }
        }
        return;
    }
    for port in &p.signature.outputs {
        let holders = p.modules.iter().filter(|m| {
            m.subgraph == port.subgraph && (port.core.is_none() || m.core == port.core || m.core.is_none())
        });
        let mut judged = false;
        let mut done = false;
        for m in holders {
            judged |= kinds.get(&(m.subgraph, m.core, port.location.clone())).copied().unwrap_or(false);
            done |= written.contains(&(m.subgraph, m.core, port.location.clone()));
        }
        if judged && !done {
            report(&port.name, &port.location, port.core, port.core.is_none() && p.lnc_size > 1);
        }
    }
}

fn each_location(m: &Module, o: &Operand, f: &mut dyn FnMut(MemLocId)) {
    match o {
        Operand::Ap(a) => f(a.loc),
        Operand::Imm(_) | Operand::Reg(_) => {}
        Operand::Other(o) => match &**o {
            OtherOperand::Symbolic { set, .. } | OtherOperand::RegisterAp { set, .. } => {
                m.sets[*set].locs.iter().for_each(|l| f(*l));
            }
            OtherOperand::SymbolicImm { .. } | OtherOperand::ImmArray { .. } => {}
        },
    }
}
