//! The sample kernels verify and check clean at both levels, and damage done to them is found.

use std::path::PathBuf;
use tandem_backend::{PassOptions, PtcomMode, Transport, lower, prepare};
use tandem_bir::diag::Diagnostic;
use tandem_bir::verify::verify;
use tandem_bir::{ArchLevel, Opcode, Program};
use tandem_check::{CheckOptions, check};
use tandem_klr::lower::{LowerOptions, lower as read_kernel};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

fn kernels() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".klr"))
        .collect();
    names.sort();
    assert!(names.len() >= 26, "{names:?}");
    names
}

fn load(name: &str) -> Program {
    let file = tandem_klr::read_path(&folder().join(name)).expect(name).file;
    let constants = |n: &str| std::fs::read(folder().join(n));
    let l = read_kernel(&file, &LowerOptions::new(ArchLevel::Gen3, &constants));
    assert!(l.program.is_some(), "{name}: {:#?}", l.diags);
    l.program.unwrap()
}

/// The program at level `bir` (false) or `lowered` (true).
fn at(name: &str, lowered: bool) -> Program {
    let mut p = load(name);
    let opts = PassOptions::for_program(&p);
    let out = if lowered { lower(&mut p, &opts) } else { prepare(&mut p, &opts) };
    assert!(out.ok(), "{name}: {:#?}", out.diags);
    p
}

fn errors(p: &Program) -> Vec<Diagnostic> {
    check(p, &CheckOptions::default()).into_iter().filter(Diagnostic::is_error).collect()
}

#[test]
fn sample_kernels_have_no_findings() {
    let mut bad = Vec::new();
    for name in kernels() {
        let p = load(&name);
        if let Err(d) = verify(&p) {
            bad.push(format!("{name} as read: {d:#?}"));
        }
        for lowered in [false, true] {
            let p = at(&name, lowered);
            let d = check(&p, &CheckOptions::default());
            if !d.is_empty() {
                bad.push(format!("{name} lowered {lowered}: {d:#?}"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn every_way_of_lowering_checks_clean() {
    let mut bad = Vec::new();
    type Change = fn(&mut PassOptions);
    let ways: &[(&str, Change)] = &[
        ("dma", |o| o.transport = Transport::Dma),
        ("dma, remote semaphores", |o| {
            o.transport = Transport::Dma;
            o.enable_remote_semaphore_dma = true;
        }),
        ("elided", |o| o.sb2sb_elide_end_barrier = true),
        ("repack", |o| o.sb2sb_repack = true),
        ("tokens off", |o| o.ptcom = PtcomMode::Off),
        ("tokens notify", |o| o.ptcom = PtcomMode::Notify),
        ("early placement", |o| o.run_shared_allocation_before_post_sched = true),
        ("own brackets", |o| o.separate_lifetime_corebarriers = true),
        ("strict", |o| o.strict_2_24 = true),
    ];
    for name in kernels() {
        for (way, change) in ways {
            let mut p = load(&name);
            let mut opts = PassOptions::for_program(&p);
            change(&mut opts);
            let out = lower(&mut p, &opts);
            assert!(out.ok(), "{name} {way}: {:#?}", out.diags);
            let tokens_order = opts.ptcom == PtcomMode::P2p;
            let d = check(&p, &CheckOptions { tokens_order, ..CheckOptions::default() });
            if !d.is_empty() {
                bad.push(format!("{name} {way}: {d:#?}"));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Takes the n-th instruction of an opcode out of the given cores; edges to it go to what it depended on.
fn remove(p: &mut Program, op: Opcode, n: usize, cores: &[usize]) -> bool {
    let mut any = false;
    for &c in cores {
        let Some(m) = p.modules.get_mut(c) else { continue };
        let all: Vec<_> = m.walk().into_iter().filter(|(_, _, i)| m.insts[*i].opcode == op).collect();
        let Some(&(_, b, i)) = all.get(n) else { continue };
        m.blocks[b].insts.retain(|x| *x != i);
        let spliced = m.insts[i].deps.clone();
        let mut next = 0;
        for (_, _, k) in m.walk() {
            if m.insts[k].deps.iter().any(|d| d.inst == i) {
                m.insts[k].deps.retain(|d| d.inst != i);
                for d in &spliced {
                    m.insts[k].add_dep(k, d.inst, d.kind);
                }
            }
            // Ids stay dense, so that only the missing meeting can be objected to.
            if m.insts[k].opcode == Opcode::CoreBarrier && op == Opcode::CoreBarrier {
                m.insts[k].set(tandem_bir::Attr::Id, next);
                next += 1i64;
            }
        }
        any = true;
    }
    any
}

#[test]
fn a_meeting_removed_from_one_core_is_found() {
    let mut tried = 0;
    for name in kernels() {
        for (lowered, op) in [
            (false, Opcode::CollectiveCompute),
            (false, Opcode::CoreBarrier),
            (true, Opcode::CoreBarrier),
            (true, Opcode::GpsimdSb2Sb),
            (true, Opcode::CollectiveCompute),
        ] {
            let clean = at(&name, lowered);
            if clean.lnc_size != 2 {
                continue;
            }
            for n in 0..4 {
                for core in 0..2 {
                    let mut p = clean.clone();
                    if remove(&mut p, op, n, &[core]) {
                        tried += 1;
                        assert!(!errors(&p).is_empty(), "{name}: {op} #{n} of core {core}");
                    }
                }
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn a_barrier_removed_from_both_cores_is_found_where_it_orders_something() {
    let (mut found, mut all, mut kept) = (0, 0, Vec::new());
    for name in kernels() {
        let clean = at(&name, true);
        if clean.lnc_size != 2 {
            continue;
        }
        for n in 0.. {
            let mut p = clean.clone();
            if !remove(&mut p, Opcode::CoreBarrier, n, &[0, 1]) {
                break;
            }
            all += 1;
            if errors(&p).is_empty() { kept.push(format!("{name} #{n}")) } else { found += 1 }
        }
    }
    println!("{found} of {all} deletions found; not found: {kept:#?}");
    assert!(found > 0, "{kept:?}");
}
