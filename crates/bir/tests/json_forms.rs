//! What the JSON reader accepts beside what the writer writes, and how it refuses.

use std::path::{Path, PathBuf};
use tandem_bir::diag::{Diagnostic, LocTable};
use tandem_bir::inst::{AttrValue, Immediate};
use tandem_bir::text::Constants;
use tandem_bir::{
    AddressSpace, Attr, CoreId, Dtype, EdgeKind, EngineKind, Expr, Inst, MemoryType, Module, Opcode, Operand,
    Program, fs, json, text,
};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A module with one instruction; `inst` are its members beside the name, `rest` members of the module.
fn document(inst: &str, rest: &str) -> String {
    format!(
        r#"{{"arch": "gen3", {rest} "functions": [{{"name": "f", "allocations": [
            {{"Skind": "memory_location_set", "name": "a_set", "dtype": "float32", "tensor_shape": [4, 4],
              "memorylocations": [{{"name": "a", "type": "SB", "dims": [4, 16]}}]}},
            {{"Skind": "register", "name": "r0", "engine": "ALL"}}],
           "blocks": [{{"name": "b", "instructions": [{{"name": "p", "opcode": "NoOp"}}, {{"name": "x", {inst}}}]}}]}}]}}"#
    )
}
fn module(inst: &str) -> Module {
    let doc = document(inst, "");
    json::read_module(doc.as_bytes(), "x.json", &mut LocTable::default()).unwrap_or_else(|e| panic!("{e:#?}"))
}
fn last(inst: &str) -> Inst {
    module(inst).insts.values().last().expect("an instruction").clone()
}
fn refuse_with(inst: &str, rest: &str) -> Diagnostic {
    let doc = document(inst, rest);
    let mut e = json::read_module(doc.as_bytes(), "x.json", &mut LocTable::default()).expect_err(&doc);
    let d = e.remove(0);
    // The finding always says where.
    assert!(d.sites[0].pos.is_some(), "{d:?}");
    d
}
#[track_caller]
fn refuse(inst: &str, code: &str, pointer: &str, message: &str) {
    let d = refuse_with(inst, "");
    assert_eq!(d.code.to_string(), code, "{}", d.message);
    assert_eq!(d.sites[0].path, pointer, "{}", d.message);
    assert!(d.message.contains(message), "{}", d.message);
}
const AT: &str = "/functions/0/blocks/0/instructions/1";

#[test]
fn the_example_of_the_specification_reads_as_printed() {
    let bytes = std::fs::read(root("testdata/bir/spec_11_1.json")).expect("the file");
    let p = fs::read_bytes(&bytes, "spec_11_1.json").unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!((p.lnc_size, p.modules.len()), (1, 1));
    let m = &p.modules[0];
    assert_eq!(m.core, Some(CoreId(0)));
    let names: Vec<&str> = m.insts.values().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["ld", "LocalSendRecv-0", "sum", "st"]);
    let swap = m.insts.values().nth(1).expect("the swap");
    assert_eq!(swap.opcode, Opcode::CollectiveCompute);
    assert_eq!(swap.attrs.get(Attr::IsLocal), Some(&AttrValue::Bool(true)));
    assert_eq!(swap.attrs.get(Attr::StreamId), Some(&AttrValue::Int(-1)));
    assert_eq!(swap.get_expr(Attr::SendToRank), Some(Expr::Const(1)));
    assert_eq!(swap.get_exprs(Attr::RecvFromRank), [Expr::Const(1)]);
    assert_eq!(swap.deps[0].kind, EdgeKind::Ordered);
    let a = swap.ins[0].as_ap().expect("memory");
    assert_eq!((a.pairs[0].step, a.pairs[0].num, a.pairs[1].step, a.pairs[1].num), (64, 128, 1, 64));
    // One core: no prefix.
    let ports: Vec<&str> =
        p.signature.inputs.iter().chain(&p.signature.outputs).map(|p| p.name.as_str()).collect();
    assert_eq!(ports, ["x", "y"]);
}

#[test]
fn the_swap_pair_is_two_cores_with_private_tensors() {
    let p = fs::read_dir(&root("examples/bir/swap_pair")).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!((p.lnc_size, p.modules.len()), (2, 2));
    for (c, m) in p.modules.iter().enumerate() {
        assert_eq!(m.core, Some(CoreId(c as u32)));
        let swap = m.insts.values().nth(1).expect("the swap");
        assert_eq!(swap.get_expr(Attr::SendToRank), Some(Expr::Const(1 - c as i64)));
        let ids: std::collections::BTreeSet<i32> = m.memlocs.values().map(|l| l.tensor_id).collect();
        assert_eq!(ids.len(), 4);
        assert!(m.sets.values().all(|s| s.addr_space == AddressSpace::Local));
        let dram: Vec<u64> =
            m.memlocs.values().filter(|l| l.mem == MemoryType::Dram).map(|l| l.addr).collect();
        assert_eq!(dram, [0, 32768]);
    }
    let ports: Vec<&str> =
        p.signature.inputs.iter().chain(&p.signature.outputs).map(|p| p.name.as_str()).collect();
    assert_eq!(ports, ["nc00:x", "nc01:x", "nc00:y", "nc01:y"]);
}

#[test]
fn two_subgraphs_on_two_cores_fill_four_slots() {
    let p = fs::read_dir(&root("testdata/bir/two_subgraphs")).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!((p.lnc_size, p.num_subgraphs()), (2, 2));
    for sg in 0..2 {
        for c in 0..2 {
            let m = p.module(CoreId(c), sg).expect("a module");
            assert_eq!((m.core, m.subgraph), (Some(CoreId(c)), sg));
            assert_eq!(m.funcs[m.functions[0]].name, format!("sg000{sg}"));
        }
    }
    let inputs: Vec<(&str, u32)> = p.signature.inputs.iter().map(|p| (p.name.as_str(), p.subgraph)).collect();
    assert_eq!(inputs, [("nc00:x", 0), ("nc01:x", 0), ("nc00:u", 1), ("nc01:u", 1)]);
}

#[test]
fn programs_on_disk_come_back_with_their_constants() {
    let mut p = fs::read_dir(&root("examples/bir/swap_pair")).expect("the example");
    for m in &mut p.modules {
        let set = m.sets.keys().next().expect("a set");
        m.sets[set].file = Some("weights/w.npy".into());
        m.sets[set].kind = tandem_bir::TensorKind::Const;
    }
    p.constants.insert("weights/w.npy".into(), b"\x93NUMPY".as_slice().into());
    let dir = tempfile::tempdir().expect("a folder");
    fs::write_json(&p, &dir.path().join("out.json")).expect("written");
    let back = fs::read_program(&dir.path().join("out.json")).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(back, p);
    fs::write_text(&p, &dir.path().join("p.bir")).expect("written");
    let back = fs::read_program(&dir.path().join("p.bir")).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(text::print(&back).lines().count(), text::print(&p).lines().count());
    assert_eq!(back.constants, p.constants);

    for core in ["nc00", "nc01"] {
        std::fs::remove_dir_all(dir.path().join("out.json").join(core).join("sg00/weights"))
            .expect("removed");
    }
    let back = fs::read_program(&dir.path().join("out.json")).expect("readable without its constant");
    let found = tandem_bir::remarks::remarks(&back);
    assert_eq!(found.iter().map(|d| d.code.to_string()).collect::<Vec<_>>(), ["P0120"], "{found:?}");
    // An absolute name, as in a dump of other tools, is never opened.
    let mut foreign = p.clone();
    for m in &mut foreign.modules {
        let set = m.sets.keys().next().expect("a set");
        m.sets[set].file = Some("/etc/hostname".into());
    }
    foreign.constants.clear();
    fs::write_text(&foreign, &dir.path().join("foreign.bir")).expect("written");
    let back = fs::read_program(&dir.path().join("foreign.bir")).expect("readable");
    assert!(back.constants.is_empty());
    assert!(tandem_bir::remarks::remarks(&back)[0].message.contains("`/etc/hostname`"));
}

#[test]
fn folders_that_hold_no_program_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let code = |d: &Path| fs::read_dir(d).expect_err("refused")[0].code.to_string();
    assert_eq!(code(dir.path()), "P0118");
    let example = std::fs::read(root("examples/bir/swap_pair/nc00/sg00/bir.json")).expect("the example");
    let put = |core: u32, bytes: &[u8]| {
        let d = dir.path().join(format!("nc{core:02}/sg00"));
        std::fs::create_dir_all(&d).expect("a folder");
        std::fs::write(d.join("bir.json"), bytes).expect("written");
    };
    std::fs::create_dir_all(dir.path().join("nc00/sg00")).expect("a folder");
    assert_eq!(code(dir.path()), "P0118");
    put(0, &example);
    assert_eq!(fs::read_dir(dir.path()).expect("one core").lnc_size, 1);
    put(1, &example);
    assert_eq!(code(dir.path()), "P0115", "both say core 0");
    std::fs::remove_dir_all(dir.path().join("nc00")).expect("removed");
    put(1, &std::fs::read(root("examples/bir/swap_pair/nc01/sg00/bir.json")).expect("the example"));
    assert_eq!(code(dir.path()), "P0115", "core 0 is missing");
    put(0, &example);
    put(2, &example);
    assert_eq!(code(dir.path()), "P0116");
}

#[test]
fn wrappers_and_arrays_are_read() {
    let one = document(r#""opcode": "NoOp""#, "");
    let wrapped = format!("{{\"other\": 1, \"module\": {one}}}");
    let read = |s: &str| {
        json::read(s.as_bytes(), "x", &mut LocTable::default()).unwrap_or_else(|e| panic!("{e:#?}"))
    };
    assert_eq!(read(&wrapped), read(&one));
    let array = format!("[{one}, {wrapped}]");
    assert_eq!(read(&array).len(), 2);
    let p = json::assemble(read(&array), LocTable::default()).expect("two cores");
    assert_eq!((p.lnc_size, p.modules[1].core), (2, Some(CoreId(1))));
}

#[test]
fn members_may_come_in_any_order() {
    let sorted = document(
        r#""opcode": "TensorTensor", "op": "add", "ins": [{"kind": "physical_ap", "memref": "a", "dtype": "int8", "ap": [[1, 2]]}], "outs": []"#,
        "",
    );
    let value: serde_json::Value = serde_json::from_str(&sorted).expect("JSON");
    // Blocks before allocations, operation before opcode, kind last.
    let f = &value["functions"][0];
    let x = &f["blocks"][0]["instructions"][1];
    let turned = format!(
        r#"{{"functions": [{{"blocks": [{{"instructions": [{}, {{"op": "add", "outs": [], "ins": [{{"ap": [[1,2]], "dtype": "int8", "memref": "a", "kind": "physical_ap"}}], "opcode": "TensorTensor", "name": "x"}}], "name": "b"}}], "allocations": {}, "name": "f"}}], "arch": "gen3"}}"#,
        f["blocks"][0]["instructions"][0], f["allocations"]
    );
    assert_eq!(x["op"], "add");
    let read = |s: &str| {
        json::read_module(s.as_bytes(), "x", &mut LocTable::default()).unwrap_or_else(|e| panic!("{e:#?}"))
    };
    assert_eq!(read(&turned), read(&sorted));
}

#[test]
fn tolerated_spellings() {
    // Memory types as flag integers.
    let doc = document(r#""opcode": "NoOp""#, "").replace(r#""type": "SB""#, r#""type": 16"#);
    let m = json::read_module(doc.as_bytes(), "x", &mut LocTable::default()).expect("read");
    assert_eq!(m.memlocs.values().next().expect("a location").mem, MemoryType::Sb);
    // Dependencies: a bare name is Flow, a kind may be a number; an edge given twice keeps the larger kind.
    let kinds = |deps: &str| {
        let i = last(&format!(r#""opcode": "NoOp", "dependencies": {deps}"#));
        i.deps.iter().map(|d| d.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(r#"["p"]"#), [EdgeKind::Flow]);
    assert_eq!(kinds(r#"[["p", "Anti"]]"#), [EdgeKind::Anti]);
    assert_eq!(kinds(r#"[["p", 1]]"#), [EdgeKind::Ordered]);
    assert_eq!(kinds(r#"[["p", 1], "p", ["p", 2]]"#), [EdgeKind::Flow]);
    // Scalars or expressions.
    let affine = |v: &str| {
        let i = last(&format!(r#""opcode": "CoreBarrier", "id": {v}"#));
        i.attrs.get(Attr::Id).cloned()
    };
    assert_eq!(affine("7"), Some(AttrValue::Int(7)));
    assert_eq!(affine(r#"{"kind": "AffExprKind", "terms": [], "c": 7}"#), Some(AttrValue::Int(7)));
    let shard = Expr::Affine { terms: vec![(3, Expr::ShardId { ub: 2 })], c: 1 };
    assert_eq!(
        affine(
            r#"{"kind": "AffExprKind", "c": 1, "terms": [{"coeff": 3, "idx": {"kind": "ShardIDKind", "ub": 2}}]}"#
        ),
        Some(AttrValue::Expr(Box::new(shard)))
    );
    // Version 1 expressions.
    let axis = Expr::Affine { terms: vec![(2, Expr::LoopAxis("i".into()))], c: 5 };
    assert_eq!(
        affine(r#"{"terms": [{"AxisLabel": "i", "coef": 2}], "c": 5}"#),
        Some(AttrValue::Expr(Box::new(axis.clone())))
    );
    assert_eq!(
        affine(r#"{"terms": [{"AxisLabel": "i", "coef": 2}], "c": 5, "op": "Mod", "op_param": 4}"#),
        Some(AttrValue::Expr(Box::new(Expr::Modulo(Box::new(axis), 4))))
    );
    // Attributes of functions as an object, revisions under their old key.
    let doc = document(r#""opcode": "NoOp""#, r#""archRev": "v1","#)
        .replace(r#""name": "f","#, r#""name": "f", "attributes": {"need_dce": true, "no_spill": false},"#);
    let m = json::read_module(doc.as_bytes(), "x", &mut LocTable::default()).expect("read");
    assert_eq!(m.funcs[m.functions[0]].attributes, ["need_dce"]);
    assert_eq!(m.extra.as_ref().expect("kept")["revision"], "v1");
    // Missing always-keys.
    let i = last(r#""opcode": "NoOp""#);
    assert_eq!((i.engine, i.ins.len(), i.more), (EngineKind::Unassigned, 0, None));
    // Floats that JSON has no number for; integers as floats.
    let imm = |dtype: &str, v: &str| {
        let i = last(&format!(
            r#""opcode": "NoOp", "ins": [{{"kind": "imm_value", "dtype": "{dtype}", "value": {v}}}]"#
        ));
        i.ins[0].as_imm().expect("an immediate")
    };
    assert_eq!(imm("float32", "1"), Immediate::f32(1.0));
    assert_eq!(imm("float32", "\"-inf\""), Immediate::f32(f32::NEG_INFINITY));
    assert_eq!(imm("int32", "3.0"), Immediate::i32(3));
    assert_eq!(imm("float32", "0.1"), Immediate::f32(0.1));
}

#[test]
fn collectives_flat_or_nested() {
    let flat = last(
        r#""opcode": "CollectiveCompute", "kind": "PermuteReduceImplicit", "op": "add", "cc_channel": 3, "replica_groups": [[0, 1]]"#,
    );
    let nested = last(
        r#""opcode": "CollectiveCompute", "cc_channel": {"kind": "PermuteReduceImplicit", "op": "add", "id": 3, "replica_groups": [[0, 1]]}"#,
    );
    assert_eq!(flat, nested);
    assert_eq!(flat.attrs.get(Attr::CcChannel), Some(&AttrValue::Int(3)));
    // An expression is not the nested form.
    let i = last(r#""opcode": "CollectiveCompute", "cc_channel": {"kind": "ShardIDKind", "ub": 2}"#);
    assert_eq!(i.attrs.get(Attr::CcChannel), Some(&AttrValue::Expr(Box::new(Expr::ShardId { ub: 2 }))));
}

#[test]
fn older_matmul_flags_become_the_accumulation_flag() {
    let flag =
        |s: &str| last(&format!(r#""opcode": "Matmult", {s}"#)).attrs.get(Attr::AccumulationFlag).cloned();
    assert_eq!(flag(r#""start_tensor_calc": true, "stop_tensor_calc": true"#), Some(AttrValue::Int(3)));
    assert_eq!(flag(r#""start_tensor_calc": false, "stop_tensor_calc": true"#), Some(AttrValue::Int(6)));
    assert_eq!(flag(r#""accumulation_flag": 1"#), Some(AttrValue::Int(1)));
}

#[test]
fn unknown_keys_survive_everywhere() {
    let doc = r#"{"arch": "gen3", "zm": {"a": [1, 2.5, null]}, "attributes": {"neuron_core_id": 0, "za": 1}, "queues": [{"name": "q", "zq": true}],
        "functions": [{"name": "f", "zf": 1, "allocations": [
            {"Skind": "memory_location_set", "name": "s", "dtype": "float32", "zs": 1, "debug": {"tensor_name": "t"},
             "memorylocations": [{"name": "a", "type": "SB", "dims": [1, 4], "zl": 1}]},
            {"Skind": "register", "name": "r", "zr": 1}],
          "blocks": [{"name": "b", "zb": 1, "instructions": [
            {"name": "x", "opcode": "NoOp", "zi": 1, "op": "kept, NoOp has none", "debug": {"filename": "k.py", "lineno": 3, "zd": 1},
             "ins": [{"kind": "physical_ap", "memref": "a", "dtype": "int8", "ap": [[1, 1]], "zo": 1},
                     {"kind": "imm_value", "dtype": "int8", "value": 1, "zv": 1}],
             "sync_info": {"on_wait": [{"id": 1, "wait_value": 2, "zw": 1}], "on_update": [], "zy": 1}}]}]}]}"#;
    let read = |b: &[u8]| {
        let mut locs = LocTable::default();
        let parts = json::read(b, "x", &mut locs).unwrap_or_else(|e| panic!("{e:#?}"));
        json::assemble(parts, locs).unwrap_or_else(|e| panic!("{e:#?}"))
    };
    let p = read(doc.as_bytes());
    let mut out = Vec::new();
    json::write_program(&p, Constants::Inline, &mut out).expect("written");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let at = |path: &str| value.pointer(path).unwrap_or_else(|| panic!("{path} is gone from {value:#}"));
    assert_eq!(at("/zm/a/1"), 2.5);
    assert_eq!(at("/attributes/za"), 1);
    assert_eq!(at("/attributes/neuron_core_id"), 0);
    assert_eq!(at("/queues/0/zq"), true);
    let f = "/functions/0";
    assert_eq!(at(&format!("{f}/allocations/0/debug/tensor_name")), "t");
    let i = format!("{f}/blocks/0/instructions/0");
    assert_eq!(at(&format!("{i}/op")), "kept, NoOp has none");
    assert_eq!(at(&format!("{i}/debug/filename")), "k.py");
    for path in [
        format!("{f}/zf"),
        format!("{f}/allocations/0/zs"),
        format!("{f}/allocations/0/memorylocations/0/zl"),
        format!("{f}/allocations/1/zr"),
        format!("{f}/blocks/0/zb"),
        format!("{i}/zi"),
        format!("{i}/debug/zd"),
        format!("{i}/ins/0/zo"),
        format!("{i}/ins/1/zv"),
        format!("{i}/sync_info/zy"),
        format!("{i}/sync_info/on_wait/0/zw"),
    ] {
        assert_eq!(at(&path), 1, "{path}");
    }
    assert_eq!(read(&out), p);
    let back: Program = text::parse(&text::print(&p)).expect("text");
    assert_eq!(back, p);
}

#[test]
fn defaults_are_left_out_and_always_keys_are_not() {
    let m = module(r#""opcode": "DMACopy", "oob_is_err": true, "mode": "Copy", "ins": [], "outs": []"#);
    let p = json::assemble(vec![json::Part::at(m, 0, CoreId(0))], LocTable::default()).expect("a program");
    let mut out = Vec::new();
    json::write_program(&p, Constants::Reference, &mut out).expect("written");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let x = value.pointer(AT).expect("the instruction").as_object().expect("an object");
    let keys: Vec<&str> = x.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "engine",
            "engine_id",
            "ins",
            "name",
            "opcode",
            "optin_passes",
            "origin",
            "outs",
            "scheduled_end",
            "scheduled_start"
        ]
    );
    assert_eq!(value["version"], 2);
    // All keys of a matrix product are written.
    let m = module(r#""opcode": "Matmult""#);
    let p = json::assemble(vec![json::Part::at(m, 0, CoreId(0))], LocTable::default()).expect("a program");
    let mut out = Vec::new();
    json::write_program(&p, Constants::Reference, &mut out).expect("written");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let x = value.pointer(AT).expect("the instruction");
    for key in [
        "accumulation_flag",
        "psum_zero_region",
        "replication_resolution",
        "replication_shift_amnt",
        "replication_num_rows",
        "is_transpose",
        "is_fmap_onezero",
        "is_weight_onezero",
        "tile_size",
        "tile_position",
        "perf_mode",
        "ifmap_quant_offset",
        "weights_quant_offset",
    ] {
        assert!(x.get(key).is_some(), "{key}");
    }
    assert_eq!(x["tile_size"], serde_json::json!([-1, -1]));
}

#[test]
fn faults_name_code_line_and_pointer() {
    let at = |p: &str| format!("{AT}{p}");
    refuse(r#""opcode": "Nope""#, "P0111", &at("/opcode"), "`Nope` is no instruction type");
    refuse(
        r#""opcode": "NoOp", "engine": "GPSIMD""#,
        "P0112",
        &at("/engine"),
        "ExternalEngineType used as EngineType. External: GPSIMD Internal: Pool",
    );
    refuse(r#""opcode": "TensorTensor", "op": "plus""#, "P0103", &at("/op"), "`plus` is no AluOp");
    refuse(r#""opcode": "TensorTensor""#, "P0110", AT, "needs `op`");
    refuse(
        r#""opcode": "NoOp", "dependencies": ["nope"]"#,
        "P0108",
        &at("/dependencies/0"),
        "Unknown dependency",
    );
    refuse(
        r#""opcode": "NoOp", "dependencies": {}"#,
        "P0109",
        &at("/dependencies"),
        "'dependencies' must be a JSON array",
    );
    refuse(
        r#""opcode": "NoOp", "loop_carried_dependencies": ["nope"]"#,
        "P0108",
        &at("/loop_carried_dependencies/0"),
        "Unknown loop-carried dependency",
    );
    refuse(
        r#""opcode": "UnconditionalBranch", "target": "nowhere""#,
        "P0108",
        &at("/target"),
        "BasicBlock does not exist!",
    );
    refuse(r#""opcode": "Load", "queue": "q9""#, "P0108", &at("/queue"), "Queue does not exist!");
    refuse(
        r#""opcode": "NoOp", "ins": [{"kind": "huh", "dtype": "int8"}]"#,
        "P0113",
        &at("/ins/0"),
        "Unsupported argument kind",
    );
    refuse(
        r#""opcode": "NoOp", "ins": [{"kind": "physical_ap", "dtype": "int8", "memref": "z"}]"#,
        "P0108",
        &at("/ins/0"),
        "`z`",
    );
    refuse(
        r#""opcode": "NoOp", "ins": [{"kind": "register_access", "dtype": "int8", "regref": "z"}]"#,
        "P0108",
        &at("/ins/0"),
        "`z`",
    );
    refuse(
        r#""opcode": "NoOp", "ins": [{"kind": "imm_value", "dtype": "f32", "value": 1}]"#,
        "P0103",
        &at("/ins/0/dtype"),
        "`f32` is no Dtype",
    );
    refuse(
        r#""opcode": "CoreBarrier", "id": {"kind": "CubeKind"}"#,
        "P0114",
        &at("/id"),
        "Walrus doesn't support this kind of Expr: CubeKind",
    );
    refuse(r#""opcode": "CoreBarrier", "id": 99999999999999999999"#, "P0104", &at("/id"), "does not fit");
    refuse(r#""opcode": "CoreBarrier", "id": "one""#, "P0109", &at("/id"), "expected a number, found a text");
    refuse(r#""opcode": "NoOp", "ins": 3"#, "P0109", &at("/ins"), "expected an array");
    refuse(r#""opcode": "NoOp" "ins": 3"#, "P0102", AT, "expected `,`");
    let d = refuse_with(r#""opcode": "NoOp""#, r#""version": 3,"#);
    assert_eq!((d.code.to_string().as_str(), d.sites[0].path.as_str()), ("P0107", "/version"));
    assert!(d.message.contains("should be 1 (old) or 2 (new)"));
    let twice = document(r#""opcode": "NoOp""#, "").replace(r#""name": "x""#, r#""name": "p""#);
    let e = json::read_module(twice.as_bytes(), "x", &mut LocTable::default()).expect_err("twice");
    assert_eq!(e[0].code.to_string(), "P0106");
}

#[test]
fn several_faults_are_reported_together_with_lines() {
    let doc = "{\n \"functions\": [{\"name\": \"f\", \"blocks\": [{\"name\": \"b\", \"instructions\": [\n  {\"name\": \"a\", \"opcode\": \"Huh\"},\n  {\"name\": \"b\", \"opcode\": \"NoOp\", \"engine\": \"Vector\"}]}]}]}";
    let e = json::read_module(doc.as_bytes(), "m.json", &mut LocTable::default()).expect_err("faults");
    let seen: Vec<(String, u32)> =
        e.iter().map(|d| (d.code.to_string(), d.sites[0].pos.as_ref().expect("a position").line)).collect();
    assert_eq!(seen, [("P0111".to_owned(), 3), ("P0112".to_owned(), 4)]);
}

#[test]
fn hostile_nesting_is_refused() {
    let code = |inst: &str| refuse_with(inst, "").code.to_string();
    let open = r#"{"kind": "SumKind", "terms": ["#;
    let deep = |n: usize| format!(r#""opcode": "CoreBarrier", "id": {}1{}"#, open.repeat(n), "]}".repeat(n));
    assert_eq!(last(&deep(40)).opcode, Opcode::CoreBarrier);
    assert_eq!(code(&deep(63)), "P0105");
    assert_eq!(code(&deep(100_000)), "P0105");
    assert_eq!(
        code(&format!(r#""opcode": "NoOp", "z": {}{}"#, "[".repeat(100_000), "]".repeat(100_000))),
        "P0105"
    );
    let body = r#""opcode": "Loop", "blocks": [{"name": "n", "instructions": [{"name": "l", "#;
    assert_eq!(
        code(&format!("{}\"opcode\": \"NoOp\"{}", body.repeat(10_000), "}]}]".repeat(10_000))),
        "P0105"
    );
}

#[test]
fn bytes_that_are_no_program_are_refused() {
    for bytes in [
        &b""[..],
        b"{",
        b"[]",
        b"nul",
        b"\xff\xfe",
        b"{}trailing",
        b"[{}",
        b"bir",
        b"bir x",
        b"\"text\"",
        b"{\"functions\": 3}",
        b"{}",
        b"{\"version\": 2, \"arch\": \"gen3\"}",
    ] {
        assert!(fs::read_bytes(bytes, "x").is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    // A module without functions in it is a module.
    assert_eq!(fs::read_bytes(b"{\"functions\": []}", "x").expect("empty").modules.len(), 1);
}

#[test]
fn operands_may_name_the_locations_of_another_function() {
    let doc = r#"{"functions": [
      {"name": "f", "allocations": [], "blocks": [{"name": "b", "instructions": [
        {"name": "x", "opcode": "NoOp", "ins": [{"kind": "physical_ap", "dtype": "int8", "ap": [[1, 1]], "memref": "a", "memsetref": "s", "memref_owner_func": "g"}]}]}]},
      {"name": "g", "allocations": [{"Skind": "memory_location_set", "name": "s", "dtype": "int8", "memorylocations": [{"name": "a", "type": "DRAM"}]}], "blocks": []}]}"#;
    let p = fs::read_bytes(doc.as_bytes(), "x").unwrap_or_else(|e| panic!("{e:#?}"));
    let m = &p.modules[0];
    let Operand::Ap(a) = &m.insts.values().next().expect("x").ins[0] else { panic!("memory") };
    assert_eq!((m.memlocs[a.loc].name.as_str(), a.dtype), ("a", Dtype::Int8));
    assert!(text::print(&p).contains("@g/s/a"));
    assert_eq!(text::parse(&text::print(&p)).expect("text"), p);
}
