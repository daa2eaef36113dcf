//! Every sample file lowers without an error, to instructions that match the rows of the instruction table.
//!
//! The facts asserted about single files are those of their description (what the kernel does), not our output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tandem_bir::diag::Diagnostic;
use tandem_bir::inst::Presence;
use tandem_bir::{
    AddressSpace, ArchLevel, Attr, CollectiveDimension, CollectiveKind, CoreId, Module, Opcode, Program,
    TensorKind,
};
use tandem_klr::lower::{LowerOptions, Lowered, lower};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr")
}

fn lower_sample(name: &str) -> Lowered {
    let file = tandem_klr::read_path(&folder().join(name)).expect(name).file;
    let load = |f: &str| std::fs::read(folder().join(f));
    lower(&file, &LowerOptions::new(ArchLevel::Gen3, &load))
}

fn program(prefix: &str) -> Program {
    let name = samples().into_iter().find(|n| n.starts_with(prefix)).expect(prefix);
    lower_sample(&name).program.expect(prefix)
}

fn samples() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("testdata")
        .map(|e| e.expect("entry").file_name().into_string().expect("utf-8"))
        .filter(|n| n.ends_with(".klr"))
        .collect();
    names.sort();
    names
}

fn count(m: &Module) -> BTreeMap<Opcode, usize> {
    let mut count = BTreeMap::new();
    for (_, _, i) in m.walk() {
        *count.entry(m.insts[i].opcode).or_default() += 1;
    }
    count
}

fn collective(m: &Module) -> &tandem_bir::Inst {
    let id = m.walk().into_iter().map(|w| w.2).find(|i| m.insts[*i].opcode == Opcode::CollectiveCompute);
    &m.insts[id.expect("a collective")]
}

fn set<'m>(m: &'m Module, name: &str) -> &'m tandem_bir::MemoryLocationSet {
    let loc = m.find_location(m.functions[0], name).expect(name);
    m.set_of(loc)
}

#[test]
fn all_samples_lower_without_an_error() {
    let names = samples();
    assert_eq!(names.len(), 26);
    for name in names {
        let l = lower_sample(&name);
        let errors: Vec<&Diagnostic> = l.diags.iter().filter(|d| d.is_error()).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        let p = l.program.expect(&name);
        for m in &p.modules {
            for (_, _, id) in m.walk() {
                let i = &m.insts[id];
                let spec = i.spec();
                for (list, (lo, hi)) in [(&i.ins, spec.ins_range()), (&i.outs, spec.outs_range())] {
                    assert!(list.len() >= lo && hi.is_none_or(|h| list.len() <= h), "{name} {}", i.name);
                }
                for a in spec.attrs.iter().filter(|a| a.presence == Presence::Required) {
                    assert!(i.attrs.get(a.attr).is_some(), "{name} {} lacks {}", i.name, a.attr.key());
                }
                assert!(p.locs.source(i.loc).is_some(), "{name} {} has no source", i.name);
            }
        }
    }
}

#[test]
fn swap_of_file_01() {
    let p = program("01_");
    assert_eq!((p.lnc_size, p.modules.len()), (2, 2));
    for (core, m) in p.modules.iter().enumerate() {
        assert_eq!(m.core, Some(CoreId(core as u32)));
        assert_eq!(count(m), BTreeMap::from([(Opcode::DmaCopy, 2), (Opcode::CollectiveCompute, 1)]));
        let swap = collective(m);
        assert_eq!(swap.name, "LocalSendRecv-0");
        assert_eq!(swap.more.as_ref().and_then(|m| m.label.as_deref()), Some("inst.2"));
        assert_eq!(swap.get_expr(Attr::SendToRank).and_then(|e| e.as_const()), Some(1 - core as i64));
        for name in ["x", "out"] {
            assert_eq!(set(m, name).addr_space, AddressSpace::Shared);
        }
        assert_eq!(set(m, "x").kind, TensorKind::ExternalInput);
        assert_eq!(set(m, "out").kind, TensorKind::ExternalOutput);
        assert_eq!(set(m, "tensor0").kind, TensorKind::Internal);
        // core 1 starts at row 128 of x: element 128 * 64
        let load = &m.insts[m.blocks[m.funcs[m.functions[0]].blocks[0]].insts[0]];
        assert_eq!(load.ins[0].as_ap().map(|a| a.offset), Some(core as i64 * 8192));
    }
    let port = &p.signature.inputs[0];
    assert_eq!((port.name.as_str(), port.core, port.shape.as_slice()), ("x", None, &[256, 64][..]));
}

#[test]
fn collectives_of_files_06_to_15() {
    for (file, kind, dim, local, groups, pairs, channel) in [
        ("06_", CollectiveKind::AllReduce, 1, true, true, false, None),
        ("07_", CollectiveKind::AllReduce, 1, true, true, false, None),
        ("09_", CollectiveKind::AllGather, 0, false, true, false, None),
        ("10_", CollectiveKind::AllGather, 1, false, true, false, None),
        ("11_", CollectiveKind::ReduceScatter, 0, false, true, false, None),
        ("12_", CollectiveKind::AllToAll, 1, false, true, false, None),
        ("13_", CollectiveKind::Permute, 1, false, false, true, None),
        ("14_", CollectiveKind::PermuteImplicit, 1, false, true, false, Some(0)),
        ("15_", CollectiveKind::PermuteReduceImplicit, 1, false, true, false, Some(0)),
    ] {
        let p = program(file);
        for m in &p.modules {
            let i = collective(m);
            assert_eq!(i.get_enum::<CollectiveKind>(Attr::Kind), Some(kind), "{file}");
            let want = if dim == 0 { CollectiveDimension::Partition } else { CollectiveDimension::Free };
            assert_eq!(i.get_enum::<CollectiveDimension>(Attr::CcDim), Some(want), "{file}");
            assert_eq!(i.get_bool(Attr::IsLocal), local, "{file}");
            assert_eq!(!i.get_groups(Attr::ReplicaGroups).is_empty(), groups, "{file}");
            assert_eq!(!i.get_groups(Attr::SrcTargetPairs).is_empty(), pairs, "{file}");
            assert_eq!(i.get_int(Attr::CcChannel), channel, "{file}");
            assert_eq!(i.get_int(Attr::StreamId), Some(-1), "{file}");
        }
    }
}

#[test]
fn memories_of_files_07_08_24() {
    // 07: private_hbm of one name in both cores is two memories; 08: a listed shared buffer is one.
    let p = program("07_");
    for m in &p.modules {
        let private: Vec<_> = m.sets.values().filter(|s| s.kind == TensorKind::Internal).collect();
        assert!(!private.is_empty() && private.iter().all(|s| s.addr_space == AddressSpace::Local));
    }
    let p = program("08_");
    for m in &p.modules {
        assert_eq!(set(m, "xbuf").addr_space, AddressSpace::Shared);
        assert_eq!(count(m)[&Opcode::CoreBarrier], 1);
    }
    let p = program("24_");
    for m in &p.modules {
        let s = set(m, "tmp.7");
        assert_eq!(
            (s.kind, s.file.as_deref()),
            (TensorKind::Const, Some("shared_constants/ramp_128x64.npy"))
        );
    }
    assert!(p.constants["shared_constants/ramp_128x64.npy"].starts_with(b"\x93NUMPY"));
}

#[test]
fn tensor_ids_agree_across_cores() {
    for name in samples() {
        let p = lower_sample(&name).program.expect(&name);
        let mut ids: BTreeMap<String, i32> = BTreeMap::new();
        for m in &p.modules {
            for l in m.memlocs.values() {
                let id = *ids.entry(l.name.to_string()).or_insert(l.tensor_id);
                assert_eq!(id, l.tensor_id, "{name} {}", l.name);
            }
        }
        let mut all: Vec<i32> = ids.into_values().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|w| w[0] != w[1]), "{name}");
    }
}

#[test]
fn the_verifier_accepts_every_sample() {
    for name in samples() {
        let p = lower_sample(&name).program.expect(&name);
        if let Err(found) = tandem_bir::verify::verify(&p) {
            let errors: Vec<_> = found.iter().filter(|d| d.is_error()).collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
        }
    }
}
