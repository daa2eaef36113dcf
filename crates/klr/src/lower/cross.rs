//! What only holds across cores: equal sequences of collectives and barriers, one name per barrier, shared memory.
//!
//! Source: the specification, file 04 §§3.3, 10.1, 10.2, 10.4 and decision D11. Cores without a body take no part.

use super::plan::{Kernel, Plan};
use super::{BarrierRecord, Done};
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::{AddressSpace, Attr, CollectiveKind, CompactString, InstId, Module};

/// Compares the collectives and barriers of every core with those of core 0.
pub(crate) fn check(plan: &Plan<'_>, kernel: &mut Kernel, done: &mut [Done]) {
    if plan.view.bodies.len() < 2 {
        return;
    }
    if done.iter().any(|d| d.broken) {
        return;
    }
    let Some((zero, rest)) = done.split_first() else { return };
    for (i, other) in rest.iter().enumerate() {
        if other.has_body {
            collectives(kernel, zero, other, i + 1);
            barriers(kernel, zero, other, i + 1);
        }
    }
}

/// The place of an instruction, labelled with its statement when that has another name.
fn place(kernel: &Kernel, d: &Done, inst: InstId) -> Site {
    let site = Site::of_inst(&kernel.locs, &d.module, inst);
    match d.module.insts[inst].more.as_ref().and_then(|m| m.label.as_ref()) {
        Some(label) => site.label(format!("statement {label}")),
        None => site,
    }
}

fn collectives(kernel: &mut Kernel, zero: &Done, other: &Done, core: usize) {
    let describe = |d: &Done, i: usize| {
        d.collectives.get(i).map(|c| {
            let inst = &d.module.insts[c.inst];
            (inst.name.clone(), inst.get_enum::<CollectiveKind>(Attr::Kind))
        })
    };
    for i in 0..zero.collectives.len().max(other.collectives.len()) {
        let (a, b) = (zero.collectives.get(i), other.collectives.get(i));
        if describe(zero, i) != describe(other, i) {
            let name = describe(zero, i).or_else(|| describe(other, i)).map(|(n, _)| n).unwrap_or_default();
            let text = format!("collective sequence differs between core 0 and core {core} at {name}");
            let mut d = Diagnostic::new(codes::K0058, text)
                .note("every core must run the same collectives in the same order");
            d.sites.extend(a.map(|c| place(kernel, zero, c.inst)));
            d.sites.extend(b.map(|c| place(kernel, other, c.inst)));
            kernel.diags.push(d);
            return;
        }
        if let (Some(a), Some(b)) = (a, b)
            && a.groups != b.groups
        {
            let name = &zero.module.insts[a.inst].name;
            let text = format!("{name}: replica groups or pairs differ between core 0 and core {core}");
            let d = Diagnostic::new(codes::K0056, text)
                .note(format!("core 0 has {:?}, core {core} has {:?}", a.groups, b.groups))
                .site(place(kernel, zero, a.inst))
                .site(place(kernel, other, b.inst));
            kernel.diags.push(d);
        }
    }
}

fn barriers(kernel: &mut Kernel, zero: &Done, other: &Done, core: usize) {
    let vendor = "the vendor's verifier fails with codes 1187 to 1189 on barriers that differ between cores";
    let (n, m) = (zero.barriers.len(), other.barriers.len());
    if n != m {
        let text = format!("core 0 has {n} core barriers, core {core} has {m}");
        let mut d = Diagnostic::new(codes::K0061, text).note(vendor);
        // The first barrier without a partner, and the last one of the other core.
        let (more, fewer, at) = if n > m { (zero, other, m) } else { (other, zero, n) };
        d.sites.extend(more.barriers.get(at).map(|b| place(kernel, more, b.inst).label("has no partner")));
        d.sites.extend(
            fewer
                .barriers
                .last()
                .map(|b| place(kernel, fewer, b.inst).label("last barrier of the other core")),
        );
        kernel.diags.push(d);
        return;
    }
    for (i, (a, b)) in zero.barriers.iter().zip(&other.barriers).enumerate() {
        let sorted = |b: &BarrierRecord| {
            let mut cores = b.cores.clone();
            cores.sort_unstable();
            cores
        };
        if sorted(a) != sorted(b) {
            let text = format!(
                "core barrier {i} is for cores {:?} on core 0 and for cores {:?} on core {core}",
                a.cores, b.cores
            );
            let d = Diagnostic::new(codes::K0061, text)
                .note(vendor)
                .site(place(kernel, zero, a.inst))
                .site(place(kernel, other, b.inst));
            kernel.diags.push(d);
        }
    }
}

/// Gives DRAM that several cores name the shared address space and barriers the names of core 0.
pub(crate) fn share_and_name(done: &mut Vec<Done>) -> Vec<Module> {
    let mut uses: FxHashMap<CompactString, u32> = FxHashMap::default();
    for d in done.iter() {
        for loc in &d.hbm_internal {
            *uses.entry(d.module.memlocs[*loc].name.clone()).or_default() += 1;
        }
    }
    for d in done.iter_mut() {
        for loc in &d.hbm_internal {
            let l = &d.module.memlocs[*loc];
            if uses.get(&l.name).is_some_and(|n| *n > 1) {
                let set = l.set;
                d.module.sets[set].addr_space = AddressSpace::Shared;
            }
        }
    }
    let wanted: Vec<CompactString> = done
        .first()
        .map(|d| d.barriers.iter().map(|b| d.module.insts[b.inst].name.clone()).collect())
        .unwrap_or_default();
    for d in done.iter_mut().skip(1) {
        rename_barriers(d, &wanted);
    }
    std::mem::take(done).into_iter().map(|d| d.module).collect()
}

/// The i-th barrier takes the i-th wanted name; an instruction that holds it gets a suffix.
fn rename_barriers(d: &mut Done, wanted: &[CompactString]) {
    let own: Vec<(tandem_bir::InstId, CompactString)> =
        d.barriers.iter().map(|b| (b.inst, d.module.insts[b.inst].name.clone())).collect();
    let moves: Vec<_> = own.into_iter().zip(wanted).filter(|((_, own), want)| own != *want).collect();
    for ((_, own), _) in &moves {
        d.names.release(own);
    }
    for ((inst, own), want) in moves {
        if let Some(holder) = d.names.find(want) {
            d.names.release(want);
            d.names.take(want, inst);
            let new = d.names.take(want, holder);
            let held = &mut d.module.insts[holder];
            if held.more.as_ref().is_none_or(|m| m.label.is_none()) {
                held.more_mut().label = Some(held.name.clone());
            }
            held.name = new;
        } else {
            d.names.take(want, inst);
        }
        let barrier = &mut d.module.insts[inst];
        if barrier.more.as_ref().is_none_or(|m| m.label.is_none()) {
            barrier.more_mut().label = Some(own);
        }
        barrier.name = want.clone();
    }
}
