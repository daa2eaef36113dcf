//! Group 2: sets and locations agree, locations have sane dimensions and lie inside their memories, inputs and outputs
//! of the kernel do not share bytes, aliases are of a kind that exists.
//!
//! Sizes are the array sizes (decision D19). Locations that are not allocated have no place yet and are not tested for
//! one; two allocated on-chip locations of different sets may overlap, authors do that on purpose.

use super::{Cx, array_bytes};
use crate::analysis::footprint::{Placement, Space};
use crate::diag::{Diagnostic, Site, codes};
use crate::entity::EntitySet;
use crate::enums::{AddressSpace, MemoryType};
use crate::ids::MemLocId;
use crate::memloc::{MemoryLocation, MemoryLocationSet};
use crate::module::{Module, Program};

pub(super) fn run(cx: &mut Cx<'_>) {
    let program = cx.program;
    for m in &program.modules {
        let mut listed = EntitySet::<MemLocId>::with_capacity(m.memlocs.len());
        for (id, set) in m.sets.iter() {
            for &l in &set.locs {
                if m.memlocs[l].set == id {
                    listed.insert(l);
                } else {
                    let message = format!(
                        "set `{}` lists location `{}`, which belongs to `{}`",
                        set.name, m.memlocs[l].name, m.sets[m.memlocs[l].set].name
                    );
                    cx.in_module(codes::V0201, m, set.name.to_string(), message);
                }
            }
        }
        for (id, l) in m.memlocs.iter() {
            location(cx, m, l, listed.contains(id));
        }
    }
    if cx.found.is_empty() {
        ports_overlap(cx, program);
    }
}

/// `listed`: its set names it.
fn location(cx: &mut Cx<'_>, m: &Module, l: &MemoryLocation, listed: bool) {
    let set = &m.sets[l.set];
    if !listed {
        let message = format!("location `{}` belongs to set `{}`, which does not list it", l.name, set.name);
        cx.in_module(codes::V0201, m, l.name.to_string(), message);
    }
    alias(cx, m, l, set);
    let placed = match l.mem {
        MemoryType::Sb | MemoryType::Psum | MemoryType::Dram => true,
        MemoryType::Unallocated | MemoryType::Input | MemoryType::Output => false,
        MemoryType::RngState | MemoryType::Reg => false,
    };
    if !placed {
        return;
    }
    if l.dims.is_empty() || (l.is_on_chip() && l.dims.len() != 2) {
        let want = if l.is_on_chip() { "[partitions, bytes per partition]" } else { "at least one" };
        let message =
            format!("{} location `{}` has {} dimensions; it needs {want}", l.mem, l.name, l.dims.len());
        cx.in_module(codes::V0202, m, l.name.to_string(), message);
        return;
    }
    let size = l.dims.iter().try_fold(1u64, |a, &d| a.checked_mul(d)).filter(|s| *s <= i64::MAX as u64);
    let Some(size) = size.filter(|s| *s > 0) else {
        let message =
            format!("location `{}` has dimensions {:?}, which are no size in bytes", l.name, &l.dims[..]);
        cx.in_module(codes::V0202, m, l.name.to_string(), message);
        return;
    };
    let Some(arch) = m.arch.spec() else { return };
    if l.is_on_chip() && l.rows() > arch.partitions {
        let message =
            format!("location `{}` has {} partitions; {} has {}", l.name, l.rows(), l.mem, arch.partitions);
        cx.in_module(codes::V0203, m, l.name.to_string(), message);
        return;
    }
    if !l.allocated {
        return;
    }
    if let Some(array) = array_bytes(m, l.mem) {
        let last = u64::from(l.base) + l.rows();
        if last > arch.partitions {
            let message = format!(
                "location `{}` covers partitions {}..{last}, {} has {}",
                l.name, l.base, l.mem, arch.partitions
            );
            cx.in_module(codes::V0203, m, l.name.to_string(), message);
        }
        let bank = if l.mem == MemoryType::Psum { l.bank.unsigned_abs() } else { 0 };
        let first = bank.saturating_mul(arch.psum_bank_bytes).saturating_add(l.addr);
        let end = first.saturating_add(l.row_bytes());
        if end > array {
            let message = format!(
                "location `{}` ends at byte {end} of each partition, {} has {array} on {}",
                l.name, l.mem, m.arch
            );
            cx.in_module(codes::V0203, m, l.name.to_string(), message);
        }
    } else {
        // One window per core; a location seen by all cores may lie in any of them.
        let window = arch.hbm_bytes.saturating_mul(u64::from(cx.program.lnc_size.clamp(1, 2)));
        let end = l.addr.saturating_add(size);
        if end > window {
            let message = format!("location `{}` ends at DRAM byte {end}, the window has {window}", l.name);
            cx.in_module(codes::V0203, m, l.name.to_string(), message);
        }
    }
}

fn alias(cx: &mut Cx<'_>, m: &Module, l: &MemoryLocation, set: &MemoryLocationSet) {
    if !l.aliases.is_empty() && l.mem != MemoryType::Dram {
        let to = &l.aliases[0].1;
        let message = format!("{} location `{}` is declared an alias of `{to}`", l.mem, l.name);
        let note = format!("{} -> {to}. Aliasing only permitted for DRAM locations.", l.name);
        cx.push(
            Diagnostic::new(codes::V0206, message)
                .site(super::module_site(m, set.name.to_string()))
                .note(note),
        );
    }
    let Some(t) = &l.remote_local_target else { return };
    let why = if l.mem == MemoryType::Psum {
        "PSUM is never visible to another core".to_owned()
    } else if t.core.0 >= cx.program.lnc_size.clamp(1, 2) {
        format!("the LNC has no core {}", t.core)
    } else if m.core == Some(t.core) {
        format!("core {} needs no alias for its own memory", t.core)
    } else {
        return;
    };
    let message = format!("location `{}` stands for `{}` of core {}: {why}", l.name, t.name, t.core);
    cx.in_module(codes::V0205, m, l.name.to_string(), message);
}

struct Port<'p> {
    space: Space,
    start: u64,
    end: u64,
    module: usize,
    loc: &'p MemoryLocation,
    set: &'p MemoryLocationSet,
}

/// Allocated DRAM inputs and outputs of different names must not share bytes.
fn ports_overlap(cx: &mut Cx<'_>, program: &Program) {
    let mut ports: Vec<Port<'_>> = Vec::new();
    for (i, m) in program.modules.iter().enumerate() {
        for (id, loc) in m.memlocs.iter() {
            let set = &m.sets[loc.set];
            let at_border = set.kind.is_input() || set.kind.is_output();
            if at_border && loc.allocated && loc.mem == MemoryType::Dram && !loc.is_remote() {
                let space = Placement::of(m, id).space;
                let end = loc.addr.saturating_add(loc.size_bytes());
                ports.push(Port { space, start: loc.addr, end, module: i, loc, set });
            }
        }
    }
    ports.sort_by(|a, b| (&a.space, a.start, a.end, a.module).cmp(&(&b.space, b.start, b.end, b.module)));
    let mut said: Vec<(&str, &str)> = Vec::new();
    let mut reach: Option<usize> = None; // the port seen so far that ends last
    for i in 0..ports.len() {
        let Some(r) = reach.filter(|r| ports[*r].space == ports[i].space) else {
            reach = Some(i);
            continue;
        };
        let (a, b) = (&ports[r], &ports[i]);
        if b.start < a.end && a.loc.name != b.loc.name && !declared(a, b) {
            let names = (a.loc.name.as_str(), b.loc.name.as_str());
            let names = (names.0.min(names.1), names.0.max(names.1));
            if !said.contains(&names) && said.len() < 64 {
                said.push(names);
                report_overlap(cx, program, a, b);
            }
        }
        if b.end > a.end {
            reach = Some(i);
        }
    }
}

fn declared(a: &Port<'_>, b: &Port<'_>) -> bool {
    let lists = |x: &Port<'_>, y: &Port<'_>| x.loc.aliases.iter().any(|(_, l, _)| *l == y.loc.name);
    lists(a, b) || lists(b, a)
}

fn report_overlap(cx: &mut Cx<'_>, program: &Program, a: &Port<'_>, b: &Port<'_>) {
    let space = if a.set.addr_space == AddressSpace::Shared { "shared DRAM" } else { "DRAM" };
    let message = format!(
        "`{}` ({}) and `{}` ({}) share {space} bytes {}..{}",
        a.loc.name,
        a.set.kind,
        b.loc.name,
        b.set.kind,
        a.start.max(b.start),
        a.end.min(b.end)
    );
    let site = |p: &Port<'_>| {
        let label = format!("`{}` at bytes {}..{}", p.loc.name, p.start, p.end);
        Site { label, ..super::module_site(&program.modules[p.module], p.loc.name.to_string()) }
    };
    let mut d = Diagnostic::new(codes::V0204, message).site(site(a)).site(site(b));
    let writers = |p: &Port<'_>| p.set.kind.is_output() && p.set.addr_space == AddressSpace::Shared;
    if program.lnc_size > 1 && (writers(a) || writers(b)) {
        d = d.note("the location is shared: every core that writes it writes the same bytes");
    }
    cx.push(d.help(
        "give them different addresses; a tensor of one core alone belongs in its Local address space",
    ));
}
