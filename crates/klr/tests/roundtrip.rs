//! Reading and writing are inverse: on the sample files, and on generated values of every type.

mod common;

use common::{Gen, Item, decode_file, differences, sample, samples, type_table};
use tandem_klr::ast::{self, Operator, Str};
use tandem_klr::{Compat, Contents, KlrFile, error::code, read, write, write_as};

#[test]
fn every_well_formed_sample_comes_back_byte_for_byte() {
    let mut compared = 0;
    for (name, bytes) in samples("klr") {
        let outcome = read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let quirk = name.starts_with("q01");
        let codes: Vec<_> = outcome.notes.iter().map(|n| n.code).collect();
        assert_eq!(codes, if quirk { vec![code::PROPOSITION_BYTES] } else { vec![] }, "{name}");
        assert_eq!(outcome.compat, Compat::Current);
        if !quirk {
            assert_eq!(write(&outcome.file).unwrap(), bytes, "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 25);
}

/// The quirk file is the kernel of file 01 with an empty list per proposition, so it writes as file 01.
#[test]
fn the_quirk_file_is_file_01() {
    let quirk = read(&sample("q01_prop_bytes_f32_128x64.klr")).unwrap();
    assert_eq!(write(&quirk.file).unwrap(), sample("01_sendrecv_swap_f32_128x64.klr"));
    assert!(matches!(quirk.file.contents, Contents::Lnc(_)));
}

/// One changed field changes exactly one leaf of what an independent decoder sees.
#[test]
fn a_changed_field_is_written_and_nothing_else() {
    let bytes = sample("01_sendrecv_swap_f32_128x64.klr");
    type Change = fn(&mut ast::SendRecv);
    let cases: [(Change, &str, Item, Item); 4] = [
        (|op| op.use_gpsimd_dma = true, "/5", Item::Bool(false), Item::Bool(true)),
        (|op| op.pipe_id = tandem_klr::build::int(-70000), "/4/0", Item::Int(0), Item::Int(-70000)),
        (
            |op| {
                let ast::TensorRef::Abstract(ast::Access::BirPattern(access)) = &mut op.dst else { panic!() };
                access.pattern[1].step = 300;
            },
            "/0/0/0/2/1/0",
            Item::Int(1),
            Item::Int(300),
        ),
        (
            |op| {
                let ast::TensorRef::Abstract(ast::Access::BirPattern(access)) = &mut op.src else { panic!() };
                std::sync::Arc::make_mut(&mut access.tensor).name =
                    Str::new("a longer name than the one before");
            },
            "/1/0/0/0/0",
            Item::Text("tensor0".into()),
            Item::Text("a longer name than the one before".into()),
        ),
    ];
    for (change, path, before, after) in cases {
        let mut file = read(&bytes).unwrap().file;
        let Contents::Lnc(kernel) = &mut file.contents else { panic!() };
        let Operator::SendRecv(op) = &mut kernel.bodies[1][0].body[1].op else { panic!() };
        change(op);
        let written = write(&file).unwrap();
        let (old, new) = (decode_file(&bytes), decode_file(&written));
        assert_eq!((old.len(), new.len()), (3, 3));
        assert_eq!(old[..2], new[..2]);
        let mut found = Vec::new();
        differences(&old[2], &new[2], "", &mut found);
        // contents / kernel . bodies[1][0] . body[1] . op / sendRecv / fields
        assert_eq!(found, vec![(format!("/0/3/1/0/2/1/0/0{path}"), before, after)]);
        assert_eq!(read(&written).unwrap().file, file);
    }
}

#[test]
fn floats_keep_every_bit() {
    let mut file = read(&sample("17_many_ops_single_body.klr")).unwrap().file;
    for bits in [0x7fc0_0000, 0x7f80_0001, 0xffff_ffff, 0x8000_0000, 0x0000_0001, 0xff80_0000u32] {
        let (Contents::Lnc(ast::LncKernel { bodies, .. }), value) =
            (&mut file.contents, ast::F32::from_bits(bits))
        else {
            panic!()
        };
        let stmt = &mut bodies[0][0].body[0];
        stmt.op = Operator::MemSet(ast::MemSet {
            dst: ast::TensorRef::Register(3),
            value: ast::Immediate::Float(value),
            dtype: ast::Dtype::Float32,
            engine: ast::Engine::Dve,
        });
        let written = write(&file).unwrap();
        let needle = [&[0xd9, 131, 3, 0x81, 0xfa][..], &bits.to_be_bytes()].concat();
        assert!(written.windows(needle.len()).any(|w| w == needle), "{bits:x}");
        assert_eq!(read(&written).unwrap().file, file);
    }
}

/// Every operator with random fields, written by the table-driven writer of the tests: the reader takes it, finds
/// the right operator, and the writer gives the same bytes.
#[test]
fn every_operator_of_the_type_table_round_trips() {
    let operators = type_table().into_iter().find(|r| r.name == "Operator").unwrap().parts;
    assert_eq!(operators.len(), 76);
    for (index, (name, ..)) in operators.iter().enumerate() {
        for seed in 0..40 {
            let mut g = Gen::new(seed * 100 + index as u64);
            g.file_of_operator(index);
            let outcome = read(&g.out).unwrap_or_else(|e| panic!("{name} seed {seed}: {e}"));
            assert!(outcome.notes.is_empty(), "{name}: {:?}", outcome.notes);
            let Contents::Kernel(kernel) = &outcome.file.contents else { panic!() };
            let op = &kernel.body[0].body[0].op;
            assert_eq!((op.name(), op.cbor_index() as usize), (name.as_str(), index));
            assert_eq!(op.kind() as usize, index + 1);
            assert_eq!(write(&outcome.file).unwrap(), g.out, "{name} seed {seed}");
        }
    }
}

#[test]
fn generated_files_round_trip_in_both_layouts() {
    for seed in 0..60 {
        for old in [false, true] {
            let mut g = Gen::new(seed + 7000);
            g.old = old;
            g.file(seed % 2 == 0);
            let outcome = read(&g.out).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let layout = if old { Compat::V2_24 } else { Compat::Current };
            assert_eq!(write_as(&outcome.file, layout).unwrap(), g.out, "seed {seed}");
            assert!(outcome.notes.iter().all(|n| n.code == code::LAYOUT_2_24 && old), "{:?}", outcome.notes);
            assert_eq!(outcome.compat == Compat::V2_24, !outcome.notes.is_empty());
        }
    }
}

#[test]
fn proposition_bytes_are_accepted_everywhere_and_never_written() {
    for seed in 0..60 {
        let mut plain = Gen::new(seed + 9000);
        plain.file(true);
        let mut quirk = Gen::new(seed + 9000);
        quirk.prop_bytes = true;
        quirk.file(true);
        let a = read(&plain.out).unwrap().file;
        let b = read(&quirk.out).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(a, b.file);
        assert_eq!(write(&b.file).unwrap(), plain.out);
    }
}

/// Type tags, names, constructors and field names of the declarations against the table.
#[test]
fn names_and_tags_match_the_type_table() {
    let table = type_table();
    for row in &table {
        assert_eq!(ast::type_name(row.tag), Some(row.name.as_str()));
    }
    assert_eq!(ast::TYPES.len(), table.len() + 2, "plus Contents and Option");
    assert!(ast::TYPES.windows(2).all(|w| w[0].0 < w[1].0), "sorted for the binary search");
    let names = |name: &str| -> Vec<String> {
        table.iter().find(|r| r.name == name).unwrap().parts.iter().map(|p| p.0.clone()).collect()
    };
    macro_rules! enums {
        ($($T:ident),*) => { $(
            assert_eq!(ast::$T::ALL.iter().map(|v| v.name().to_string()).collect::<Vec<_>>(), names(stringify!($T)));
            for (i, v) in ast::$T::ALL.iter().enumerate() {
                assert_eq!((v.cbor_index() as usize, v.kind() as usize), (i, i + 1));
                assert_eq!(ast::$T::from_name(v.name()), Some(*v));
            }
        )* };
    }
    enums!(
        Memory,
        Dtype,
        MatmulPerfMode,
        Engine,
        AluOp,
        DropoutThresholdType,
        AccumCmd,
        ActivationFunc,
        AffineSelectCmp,
        DgeComputeOp,
        MatmulGroupElement,
        TensorScalarReverseOps,
        TensorSubDim,
        TransposeOps,
        BrCmpOp,
        PrintOutputBuffer
    );
    assert_eq!(Operator::NAMES.to_vec(), names("Operator"));
    assert_eq!(ast::TensorName::FIELDS.to_vec(), names("TensorName"));
    assert_eq!(ast::Activate2::FIELDS.to_vec(), names("Activate2"));
    assert_eq!(ast::CollectiveOp::FIELDS.to_vec(), names("CollectiveOp"));
    assert_eq!(ast::LncKernel::FIELDS.to_vec(), names("LncKernel"));
}

#[test]
fn the_2_24_layout_refuses_what_it_cannot_hold() {
    let mut file: KlrFile = read(&sample("01_sendrecv_swap_f32_128x64.klr")).unwrap().file;
    let old = write_as(&file, Compat::V2_24).unwrap();
    // two copies per core lack one field of four bytes (Option none)
    assert_eq!(old.len() + 4 * 4, write(&file).unwrap().len());
    let back = read(&old).unwrap();
    assert_eq!((back.file == file, back.compat), (true, Compat::V2_24));
    let Contents::Lnc(kernel) = &mut file.contents else { panic!() };
    let Operator::NcDmaCopy(op) = &mut kernel.bodies[0][0].body[0].op else { panic!() };
    op.priority = Some(1);
    let error = write_as(&file, Compat::V2_24).unwrap_err();
    assert_eq!((error.code, error.field), (code::NOT_EXPRESSIBLE, "NcDmaCopy.priority"));
}

/// Engine of each operator in the order of the table; `own`: the operator's engine field, `-`: unassigned.
const ENGINES: &str = "\
    act act act pool pool dve dve - own dve dma own dma dve dve pool dve pe pool \
    pool pe pe dve dve dve own dve dve dve dve dve dve - own own dve pool dve \
    own dve pool - - - - - - - dve pe dma - - - - - - \
    - - - - - - own own - own - own - dve - - - dve act";

#[test]
fn engines_follow_the_operator_table() {
    let table = type_table();
    let engines = &table.iter().find(|r| r.name == "Engine").unwrap().parts;
    let operators = &table.iter().find(|r| r.name == "Operator").unwrap().parts;
    assert_eq!(ENGINES.split_whitespace().count(), 76);
    for (index, want) in ENGINES.split_whitespace().enumerate() {
        let mut g = Gen::new(index as u64 + 300);
        g.file_of_operator(index);
        let Contents::Kernel(kernel) = read(&g.out).unwrap().file.contents else { panic!() };
        let got = kernel.body[0].body[0].op.engine().name();
        let want = match want {
            "-" => "unassigned",
            "own" => {
                // down to the operator's fields, with the independent decoder
                let mut item = decode_file(&g.out).remove(2);
                for child in [0, 3, 0, 2, 0, 0, 0] {
                    let (Item::Tagged(_, _, _, v) | Item::List(v)) = item else { panic!() };
                    item = v[child].clone();
                }
                let Item::Tagged(_, _, _, fields) = item else { panic!() };
                let row = table.iter().find(|r| r.name == operators[index].1).unwrap();
                let at = row.parts.iter().position(|p| p.0 == "engine").unwrap();
                let Item::Tagged(130, constructor, 0, _) = fields[at] else { panic!() };
                engines[constructor as usize].0.as_str()
            }
            fixed => fixed,
        };
        assert_eq!(got, want, "{}", operators[index].0);
    }
}
