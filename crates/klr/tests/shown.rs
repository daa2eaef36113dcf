//! The summary against the manifest of the sample files and an independent count; the printed form against lines
//! written by hand.

mod common;

use common::{Item, data, decode_file, sample, samples};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tandem_klr::{Info, build, print_file, print_lnc, read};

/// Operators of one body, by constructor index, from the independent decoder.
fn count(item: &Item, out: &mut BTreeMap<u8, u64>) {
    match item {
        Item::Tagged(tag, constructor, _, children) => {
            if *tag == 218 {
                *out.entry(*constructor).or_default() += 1;
            }
            children.iter().for_each(|c| count(c, out));
        }
        Item::List(children) => children.iter().for_each(|c| count(c, out)),
        Item::Int(_) | Item::Text(_) | Item::Bool(_) | Item::F32(_) => {}
    }
}

#[test]
fn summary_agrees_with_the_manifest_and_an_independent_count() {
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(data().join("klr/manifest.json")).unwrap()).unwrap();
    let operators = common::type_table().into_iter().find(|r| r.name == "Operator").unwrap().parts;
    let entries = manifest["files"].as_array().unwrap();
    assert_eq!(entries.len(), 26);
    for entry in entries {
        let name = entry["file"].as_str().unwrap();
        let bytes = sample(name);
        let info = Info::of(&read(&bytes).unwrap()).to_json();
        assert_eq!(info["cores"], entry["cores"], "{name}");
        let brief = |list: &Value| -> Vec<Value> {
            let one = |t: &Value| json!([t["name"], t["dtype"], t["shape"]]);
            list.as_array().unwrap().iter().map(one).collect()
        };
        assert_eq!(brief(&info["inputs"]), brief(&entry["inputs"]), "{name}");
        assert_eq!(brief(&info["outputs"]), brief(&entry["outputs"]), "{name}");
        if name.starts_with("q01") {
            assert_eq!(info["notes"][0]["code"], "P0051");
            continue; // the independent decoder does not know the defect
        }
        let Item::Tagged(_, contents, _, kernel) = &decode_file(&bytes)[2] else { panic!() };
        assert_eq!(info["kind"], if *contents == 2 { "kernel" } else { "lnc" });
        let Item::Tagged(_, _, _, fields) = &kernel[0] else { panic!() };
        let bodies = match (&fields[3], *contents) {
            (Item::List(bodies), 3) => bodies.clone(),
            (body, _) => vec![body.clone()],
        };
        for (core, body) in bodies.iter().enumerate() {
            let mut want = BTreeMap::new();
            count(body, &mut want);
            let named: serde_json::Map<String, Value> =
                want.iter().map(|(i, n)| (operators[*i as usize].0.clone(), json!(n))).collect();
            assert_eq!(info["bodies"][core]["operators"], Value::Object(named), "{name} core {core}");
        }
    }
}

#[test]
fn summary_as_text() {
    let text = Info::of(&read(&sample("24_shared_constant_f32.klr")).unwrap()).to_text();
    for line in [
        "kind          KLR lnc kernel",
        "version       0.0.12 (metadata \"NKI\", layout current)",
        "cores         2",
        "input         x float32 [256, 64] in hbm",
        "output        out float32 [256, 64] in hbm",
        "constant      tmp.7 from shared_constants/ramp_128x64.npy",
        "source        kernel.py",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(!text.contains('\x1b'));
}

#[test]
fn printed_lines() {
    let cases: [(&str, &[&str]); 6] = [
        (
            "01_sendrecv_swap_f32_128x64.klr",
            &[
                "lnc kernels.sendrecv_swap",
                "input x: f32[256, 64] hbm rotating",
                "body 1",
                "main.1:",
                "  inst.2 = sendRecv dst=tensor1[f32 sbuf] + 0 [[64,128],[1,64]] src=tensor0[f32 sbuf] + 0 [[64,128],\
                 [1,64]] sendToRank=1 recvFromRank=1 pipeId=0 useGpsimdDma=false ; kernel.py:5:2",
            ],
        ),
        ("18_loop_cmpbranch_f32.klr", &["  inst.4 = registerMove dst=\"reg.1\" imm=0 ; kernel.py:7:2"]),
        (
            "19_loop_dynamic_scalar_offset_f32.klr",
            &[
                "  inst.7 = ncDmaCopy dst=out[f32 hbm] + 0 [[64,128],[1,64]] + reg.1*dim0 src=tensor1[f32 sbuf] + 0 \
                 [[64,128],[1,64]] compute_op=none oobMode=error dgeMode=0 uniqueIndices=false priority=none \
                 engine=unassigned ; kernel.py:10:2",
            ],
        ),
        (
            "20_access_forms_f32.klr",
            &["  inst.2 = ncCopy dst=tensor1[f32 sbuf] src=tensor0[f32 sbuf][0:128,1,0:32] dtype=none \
               engine=unassigned ; kernel.py:5:2"],
        ),
        ("23_edges_no_reorder_f32.klr", &["edge inst.3 -> inst.4", "edge inst.1 -> inst.6"]),
        ("24_shared_constant_f32.klr", &["constant tmp.7 = \"shared_constants/ramp_128x64.npy\""]),
    ];
    for (name, lines) in cases {
        let text = print_file(&read(&sample(name)).unwrap().file);
        for line in lines {
            assert!(text.lines().any(|l| l == *line), "{name}: {line}\n{text}");
        }
    }
}

/// One line per statement, and the operator's own field names in the declared order on each.
#[test]
fn every_statement_is_one_line_with_all_its_fields() {
    for (name, bytes) in samples("klr") {
        let file = read(&bytes).unwrap().file;
        let text = print_file(&file);
        let kernel = file.lnc();
        let mut lines = text.lines().filter(|l| l.starts_with("  "));
        for stmt in kernel.bodies.iter().flatten().flat_map(|b| &b.body) {
            let mut line = lines.next().unwrap();
            for field in stmt.op.field_names() {
                let (_, rest) = line
                    .split_once(&format!(" {field}="))
                    .unwrap_or_else(|| panic!("{name}: {field}: {line}"));
                line = rest;
            }
        }
        assert_eq!(lines.next(), None);
    }
}

/// Names that hold line breaks or escape codes do not break the lines.
#[test]
fn strange_names_stay_on_their_line() {
    let x =
        build::tensor("a\nb\x1b[31m", tandem_klr::ast::Dtype::Int8, tandem_klr::ast::Memory::Hbm, &[1, 1]);
    let stmt = build::stmt("in\nst", 1, build::dma_copy(build::whole(&x), build::whole(&x)));
    let kernel = build::lnc("k\r\n", &[&x], &[], vec![vec![build::block("l\n", vec![stmt])]]);
    let text = print_lnc(&kernel);
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(!text.contains('\x1b'));
    let outcome = read(&tandem_klr::write(&kernel.into()).unwrap()).unwrap();
    assert!(!Info::of(&outcome).to_text().contains(['\x1b', '\r']));
}

/// A value in the notation of the C++ printer upstream, from the independent decoder and the type table: sums are
/// `TypeConstructorWrapper(value)`, lists are joined, propositions are empty.
fn upstream(item: &Item, ty: &str, table: &[common::TypeRow]) -> String {
    match item {
        Item::Int(n) => n.to_string(),
        Item::Text(s) => s.clone(),
        Item::Bool(b) => u8::from(*b).to_string(),
        Item::F32(bits) => format!("{:.6}", f32::from_bits(*bits)),
        Item::List(items) => {
            let of = ty.strip_prefix("List.").unwrap();
            items.iter().map(|i| upstream(i, of, table)).collect::<Vec<_>>().join(", ")
        }
        Item::Tagged(255, _, _, some) => match some.first() {
            Some(value) => upstream(value, ty.strip_prefix("Option.").unwrap(), table),
            None => "None".into(),
        },
        Item::Tagged(tag, constructor, _, values) => {
            let row = table.iter().find(|r| r.name == ty).unwrap_or_else(|| panic!("{ty}"));
            assert_eq!(row.tag, *tag);
            let part = row.parts.get(*constructor as usize);
            match row.kind.as_str() {
                "enum" => part.unwrap().0.clone(),
                "sum" => {
                    let (name, of, ..) = part.unwrap();
                    let value = values.first().map(|v| upstream(v, of, table)).unwrap_or_default();
                    format!("{ty}{}{}Wrapper({value})", name[..1].to_uppercase(), &name[1..])
                }
                _ => {
                    let mut values = values.iter();
                    let fields = row.parts.iter().map(|(name, of, proposition, _)| {
                        let value = if *proposition {
                            String::new()
                        } else {
                            upstream(values.next().unwrap(), of, table)
                        };
                        format!("{name}={value}")
                    });
                    format!("{ty}({})", fields.collect::<Vec<_>>().join(", "))
                }
            }
        }
    }
}

/// The type table of the tests says what upstream's own printer says: names, order and meaning of every field.
#[test]
fn the_type_table_agrees_with_the_printer_upstream() {
    let table = common::type_table();
    let mut compared = 0;
    for entry in std::fs::read_dir(data().join("klr-text")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let bytes = sample(&format!("{}.klr", path.file_stem().unwrap().to_string_lossy()));
        let Item::Tagged(236, 3, 1, kernel) = &decode_file(&bytes)[2] else { panic!() };
        let ours = upstream(&kernel[0], "LncKernel", &table);
        // the name of a sum's only argument is not in the table
        let mut theirs = String::new();
        for (i, piece) in text.trim().split("Wrapper(").enumerate() {
            let piece = match piece.split_once('=') {
                Some((name, rest)) if i > 0 && name.bytes().all(|b| b.is_ascii_alphanumeric()) => rest,
                _ => piece,
            };
            theirs.push_str(if i > 0 { "Wrapper(" } else { "" });
            theirs.push_str(piece);
        }
        let theirs = theirs.replace("StmtOperWrapper(", "Stmt(op=");
        assert_eq!(ours, theirs, "{}", path.display());
        compared += 1;
    }
    assert_eq!(compared, 10);
}
