//! Damaged programs: neither the verifier, the checks, nor the lowering of what verifies may panic or hang.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tandem_backend::{PassOptions, lower, prepare};
use tandem_bir::damage::{Rng, damage};
use tandem_bir::diag::LocTable;
use tandem_bir::verify::verify;
use tandem_bir::*;
use tandem_check::{CheckOptions, check, lnc_verifier};
use tandem_klr::lower::{LowerOptions, lower as read_kernel};

fn bases() -> Vec<Program> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let mut out = Vec::new();
    for n in names.iter().filter(|n| n.extension().is_some_and(|e| e == "klr")) {
        let file = tandem_klr::read_path(n).unwrap().file;
        let load = |c: &str| std::fs::read(folder.join(c));
        let p = read_kernel(&file, &LowerOptions::new(ArchLevel::Gen3, &load)).program.unwrap();
        for lowered in [false, true] {
            let mut p = p.clone();
            let opts = PassOptions::for_program(&p);
            if lowered {
                lower(&mut p, &opts)
            } else {
                prepare(&mut p, &opts)
            };
            out.push(p);
        }
    }
    out
}

#[test]
fn damaged_programs_never_panic() {
    let bases = bases();
    let cases = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let (mut passed, mut slowest) = (0u32, (Duration::ZERO, 0));
    for case in 0..cases {
        let mut r = Rng::of_case(case);
        let mut p = bases[r.below(bases.len())].clone();
        for _ in 0..1 + r.below(3) {
            damage(&mut p, &mut r);
        }
        let start = Instant::now();
        let ok = verify(&p).is_ok();
        let _ = check(&p, &CheckOptions::default());
        if ok {
            passed += 1;
            let _ = lnc_verifier(&p);
            if p.level == Level::Bir {
                let opts = PassOptions::for_program(&p);
                let mut q = p.clone();
                let out = prepare(&mut q, &opts);
                if out.ok() {
                    lower(&mut p, &opts);
                    let _ = check(&p, &CheckOptions::default());
                }
            }
        }
        let took = start.elapsed();
        assert!(took < Duration::from_secs(10), "case {case} took {took:?}");
        slowest = slowest.max((took, case));
    }
    println!("{passed} of {cases} damaged programs verify; slowest {slowest:?}");
    assert!(passed > cases as u32 / 50 && passed < cases as u32, "{passed}");
}

#[test]
fn arbitrary_programs_never_panic() {
    for seed in 0..5_000 {
        let p = testing::build(seed, 24);
        let _ = check(&p, &CheckOptions::default());
        let _ = verify(&p);
    }
}

#[test]
fn an_empty_program_is_refused() {
    let p = Program {
        name: String::new(),
        lnc_size: 0,
        level: Level::Bir,
        modules: vec![],
        locs: LocTable::default(),
        constants: Default::default(),
        signature: Signature::default(),
    };
    assert!(!check(&p, &CheckOptions::default()).is_empty());
}
