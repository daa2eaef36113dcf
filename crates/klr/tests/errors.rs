//! Every code of the read stage, raised by a file made for it: code, offset, path and text.

mod common;

use common::{Gen, data, sample};
use tandem_bir::diag::{Diagnostic, Severity};
use tandem_klr::ast::{self, Access, ScalarOffset, TensorRef};
use tandem_klr::error::code;
use tandem_klr::{Compat, Contents, ReadError, build, read, read_path, read_with, write, write_as};

const SWAP: &str = "01_sendrecv_swap_f32_128x64.klr";

fn find(bytes: &[u8], needle: &[u8], nth: usize) -> usize {
    let hits = bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle);
    hits.map(|(i, _)| i).nth(nth).expect("the pattern occurs")
}

/// Replaces bytes at an offset and reads the result.
fn patched(bytes: &[u8], at: usize, len: usize, with: &[u8]) -> ReadError {
    let mut b = bytes.to_vec();
    b.splice(at..at + len, with.iter().copied());
    read(&b).expect_err("must be refused")
}

#[track_caller]
fn expect(e: &ReadError, code: tandem_bir::diag::Code, offset: usize, path: &str, message: &str) {
    assert_eq!((e.code, e.offset, e.path.as_str()), (code, offset, path), "{e}");
    assert!(e.message.contains(message), "{e}");
}

#[test]
fn p0001_unreadable_file() {
    let e = read_path(&data().join("klr/no-such-file.klr")).unwrap_err();
    assert_eq!(e.code, code::UNREADABLE);
    assert!(e.note.unwrap().contains("fail to locate KLIR artifact"));
}

#[test]
fn p0002_something_else() {
    for bytes in [&b"\x93NUMPY"[..], b"\x7fELF\x02", b"\xd9\xd9\xf6\x83", b"hello"] {
        expect(&read(bytes).unwrap_err(), code::NOT_KLR, 0, "", "d9 d9 f7");
    }
}

#[test]
fn p0003_text_forms() {
    for (file, kind) in [
        ("add_one.traced.json", "JSON"),
        ("add_one.v009.traced.json", "JSON"),
        ("add_one.traced.txt", "older KLR"),
    ] {
        let e = read(&std::fs::read(data().join("klr-old").join(file)).unwrap()).unwrap_err();
        expect(&e, code::TEXT_FORM, 0, "", kind);
    }
}

#[test]
fn p0004_version() {
    let e = patched(&sample(SWAP), 6, 1, &[13]);
    expect(&e, code::WRONG_VERSION, 0, "KLRFile", "Wrong KLR version 0.0.13, expected 0.0.12");
}

#[test]
fn p0005_syntax_trees() {
    for (name, bytes) in common::samples("klr-old") {
        let e = read(&bytes).unwrap_err();
        assert_eq!(e.code, code::NOT_TRACED, "{name}: {e}");
        assert_eq!(e.message, "this file holds a Python AST, not a traced kernel");
        assert!(e.note.unwrap().contains("Wrong KLIR content type"));
    }
    let at = find(&sample(SWAP), &[0xd9, 236, 3, 0x81], 0);
    let e = patched(&sample(SWAP), at + 2, 1, &[1]);
    expect(&e, code::NOT_TRACED, at, "Contents", "NKI AST");
}

#[test]
fn p0006_call_sites() {
    let bytes = sample(SWAP);
    let at = find(&bytes, &[0xd9, 236, 3, 0x81], 0);
    let with = |constructor| {
        let mut b = bytes[..at].to_vec();
        b.extend([0xd9, 236, constructor, 0x81, 0x65]);
        b.extend(b"k.klr");
        read(&b).unwrap_err()
    };
    expect(&with(4), code::CALL_SITE, at, "Contents", "call site (kernel file `k.klr`)");
    let e = with(2);
    expect(&e, code::CALL_SITE, at, "Contents", "call site (kernel file `k.klr`)");
    assert!(e.note.unwrap().contains("July 2025"));
}

#[test]
fn p0007_older_layouts() {
    let bytes = sample(SWAP);
    let text = "file written by an older KLR (September 2025 or before)";
    let op = find(&bytes, &[0xd9, 218], 0);
    for tag in [202, 203, 189] {
        let e = patched(&bytes, op + 1, 1, &[tag]);
        expect(&e, code::OLDER_LAYOUT, op, "LncKernel.bodies[0][0].body[0].op", text);
    }
    let lnc = find(&bytes, &[0xd9, 108, 0, 0x87], 0);
    expect(&patched(&bytes, lnc + 3, 1, &[0x86]), code::OLDER_LAYOUT, lnc, "LncKernel", text);
    let block = find(&bytes, &[0xd9, 104, 0, 0x83], 1);
    expect(
        &patched(&bytes, block + 3, 1, &[0x82]),
        code::OLDER_LAYOUT,
        block,
        "LncKernel.bodies[1][0]",
        text,
    );
    for (tag, now, then, path) in [
        (114, 8, 7, "LncKernel.inputs[0]"),
        (113, 7, 6, "LncKernel.inputs[0].address"),
        (119, 3, 2, "LncKernel.bodies[0][0].body[0].op.ncDmaCopy.dst.abstract.birPattern.pattern[0]"),
        (124, 7, 6, "LncKernel.bodies[0][0].body[0].op.ncDmaCopy.dst.abstract.birPattern"),
    ] {
        let at = find(&bytes, &[0xd9, tag, 0, 0x80 + now], 0);
        expect(&patched(&bytes, at + 3, 1, &[0x80 + then]), code::OLDER_LAYOUT, at, path, text);
    }
    // statements in the place of blocks (no blocks yet): the label is an operator
    let mut b = bytes[..block + 4].to_vec();
    b.extend([0xd9, 189, 3, 0x81, 0xf4, 0x80]);
    expect(&read(&b).unwrap_err(), code::OLDER_LAYOUT, block + 4, "LncKernel.bodies[1][0].label", text);
}

#[test]
fn p0008_every_cut_is_an_error_that_ends_at_the_cut() {
    assert_eq!(read(&[]).unwrap_err().code, code::TRUNCATED);
    let bytes = sample(SWAP);
    for cut in 1..bytes.len() {
        let e = read(&bytes[..cut]).unwrap_err();
        assert!(e.code == code::TRUNCATED || e.code == code::LENGTH, "{cut}: {e}");
        assert!(e.offset <= cut, "{cut}: {e}");
    }
    let e = read(&bytes[..bytes.len() - 1]).unwrap_err();
    expect(&e, code::TRUNCATED, bytes.len() - 1, "LncKernel.edges", "the file ends inside a value");
}

/// The example of the specification: a negative count of elements.
#[test]
fn p0009_wrong_kind() {
    let bytes = sample(SWAP);
    let stmt = find(&bytes, &[0xd9, 187, 0, 0x86], 0);
    let pair = stmt + find(&bytes[stmt..], &[0xd9, 119, 0, 0x83, 0x18, 0x40, 0x18, 0x80], 0);
    let path = "LncKernel.bodies[0][0].body[1].op.sendRecv.dst.abstract.birPattern.pattern[0].num";
    let e = patched(&bytes, pair + 6, 2, &[0x38, 127]);
    expect(&e, code::WRONG_KIND, pair + 6, path, "expected Nat, found -128");
    let last = bytes.len() - 3;
    for (with, found) in [
        (&[0xf5][..], "expected List, found true"),
        (&[0xf6], "expected List, found null"),
        (&[0xf9, 0, 0], "expected List, found a 16-bit float"),
        (&[0xfb, 0, 0, 0, 0, 0, 0, 0, 0], "expected List, found a 64-bit float"),
        (&[0x41, 7], "expected List, found a byte string of 1 bytes"),
        (&[0xa0], "expected List, found a map"),
    ] {
        expect(&patched(&bytes, last, 1, with), code::WRONG_KIND, last, "LncKernel.sharedConstants", found);
    }
    let flag = find(&bytes, b"\x66main.1", 0) + 7;
    let e = patched(&bytes, flag, 1, &[0]);
    expect(&e, code::WRONG_KIND, flag, "LncKernel.bodies[0][0].noReorder", "expected Bool, found 0");
}

#[test]
fn p0010_wrong_type() {
    let bytes = sample(SWAP);
    let pos = find(&bytes, &[0xd9, 100, 0, 0x85], 0);
    let e = patched(&bytes, pos + 1, 1, &[112]);
    expect(
        &e,
        code::WRONG_TYPE,
        pos,
        "LncKernel.bodies[0][0].body[0].pos",
        "expected Pos, found Shape (type tag 112",
    );
    let e = patched(&bytes, pos + 1, 1, &[101]);
    expect(
        &e,
        code::WRONG_TYPE,
        pos,
        "LncKernel.bodies[0][0].body[0].pos",
        "a value of unknown type tag 101",
    );
    let e = patched(&bytes, pos, 3, &[0xda, 1, 0, 0, 0]);
    expect(&e, code::WRONG_TYPE, pos, "LncKernel.bodies[0][0].body[0].pos", "found CBOR tag 16777216");
}

#[test]
fn p0011_unknown_constructor() {
    let bytes = sample(SWAP);
    let dtype = find(&bytes, &[0xd9, 111, 5, 0x80], 0);
    let e = patched(&bytes, dtype + 2, 1, &[20]);
    expect(&e, code::UNKNOWN_CONSTRUCTOR, dtype, "LncKernel.inputs[0].dtype", "Dtype has no constructor 20");
    let op = find(&bytes, &[0xd9, 218, 41], 0);
    let e = patched(&bytes, op + 2, 1, &[76]);
    expect(
        &e,
        code::UNKNOWN_CONSTRUCTOR,
        op,
        "LncKernel.bodies[0][0].body[1].op",
        "Operator has no constructor 76",
    );
    let contents = find(&bytes, &[0xd9, 236, 3, 0x81], 0);
    let e = patched(&bytes, contents + 2, 1, &[5]);
    expect(&e, code::UNKNOWN_CONSTRUCTOR, contents, "Contents", "Contents has no constructor 5");
    let none = find(&bytes, &[0xd9, 255, 0, 0x80], 0);
    let e = patched(&bytes, none + 2, 1, &[2]);
    expect(
        &e,
        code::UNKNOWN_CONSTRUCTOR,
        none,
        "LncKernel.inputs[0].address.parOffset",
        "Option has no constructor 2",
    );
    let shape = find(&bytes, &[0xd9, 112, 0, 0x82], 0);
    let e = patched(&bytes, shape + 2, 1, &[1]);
    expect(&e, code::UNKNOWN_CONSTRUCTOR, shape, "LncKernel.inputs[0].shape", "Shape has no constructor 1");
    expect(&patched(&bytes, 2, 1, &[0xf6]), code::NOT_KLR, 0, "", "d9 d9 f7");
}

#[test]
fn p0012_field_count() {
    let bytes = sample(SWAP);
    let op = find(&bytes, &[0xd9, 187, 0, 0x86], 0);
    let path = "LncKernel.bodies[0][0].body[1].op.sendRecv";
    let e = patched(&bytes, op + 3, 1, &[0x87]);
    expect(&e, code::FIELD_COUNT, op, path, "SendRecv has 6 fields, the file announces 7");
    let copy = find(&bytes, &[0xd9, 153, 0, 0x88], 0);
    let e = patched(&bytes, copy + 3, 1, &[0x86]);
    let path = "LncKernel.bodies[0][0].body[0].op.ncDmaCopy";
    expect(&e, code::FIELD_COUNT, copy, path, "8 (or 7 in the 2.24 layout) fields, the file announces 6");
    let dtype = find(&bytes, &[0xd9, 111, 5, 0x80], 0);
    let e = patched(&bytes, dtype + 3, 1, &[0x81]);
    expect(&e, code::FIELD_COUNT, dtype, "LncKernel.inputs[0].dtype", "constructor float32 has 0 fields");
    // more than 23 fields need a longer head; still only a wrong count
    let e = patched(&bytes, op + 3, 1, &[0x98, 200]);
    expect(&e, code::FIELD_COUNT, op, "LncKernel.bodies[0][0].body[1].op.sendRecv", "the file announces 200");
}

#[test]
fn p0013_length_beyond_the_file() {
    let bytes = sample(SWAP);
    let last = bytes.len() - 3;
    let huge = [0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0];
    let e = patched(&bytes, last, 1, &huge);
    expect(
        &e,
        code::LENGTH,
        last,
        "LncKernel.sharedConstants",
        "announces 1152921504606846976 elements but only 2",
    );
    let label = find(&bytes, b"\x66main.1", 0);
    let e = patched(&bytes, label, 1, &[0x7b, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    expect(&e, code::LENGTH, label, "LncKernel.bodies[0][0].label", "announces 1152921504606846976 bytes");
}

#[test]
fn p0014_utf8() {
    let bytes = sample(SWAP);
    let label = find(&bytes, b"\x66main.1", 0);
    let e = patched(&bytes, label + 3, 1, &[0xff]);
    expect(&e, code::UTF8, label + 3, "LncKernel.bodies[0][0].label", "not UTF-8");
}

#[test]
fn p0015_integer_range() {
    let bytes = sample(SWAP);
    let imm = find(&bytes, &[0xd9, 131, 2, 0x81, 1], 0);
    let path = "LncKernel.bodies[0][0].body[1].op.sendRecv.sendToRank.int";
    let e = patched(&bytes, imm + 4, 1, &[0x1a, 0x80, 0, 0, 0]);
    expect(&e, code::INT_RANGE, imm + 4, path, "2147483648 is outside the range of Int32");
    let e = patched(&bytes, imm + 4, 1, &[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    expect(&e, code::INT_RANGE, imm + 4, path, "-18446744073709551616 is outside the range of Int32");
    // the lowest value of 32 bits is fine
    let mut b = bytes.clone();
    b.splice(imm + 4..imm + 5, [0x3a, 0x7f, 0xff, 0xff, 0xff]);
    read(&b).unwrap();
}

/// A kernel whose first operand nests this many accesses.
fn nested(levels: usize) -> Vec<u8> {
    let t = build::tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[1, 1]);
    let mut access = Access::BirPattern(Box::new(build::bir(&t, 0, &[(1, 1), (1, 1)])));
    for level in 1..levels {
        let mut outer = build::bir(&t, 0, &[(1, 1), (1, 1)]);
        if level % 2 == 0 {
            outer.scalar_offset = Some(ScalarOffset::Acc(access));
        } else {
            outer.vector_offset = Some(access);
        }
        access = Access::BirPattern(Box::new(outer));
    }
    let op = build::dma_copy(TensorRef::Abstract(access), build::whole(&t));
    let block = build::block("main.1", vec![build::stmt("inst.1", 1, op)]);
    write(&build::lnc("k", &[], &[], vec![vec![block]]).into()).unwrap()
}

#[test]
fn p0016_depth() {
    read(&nested(8)).unwrap();
    let e = read(&nested(9)).unwrap_err();
    assert_eq!(e.code, code::TOO_DEEP);
    assert!(
        e.path.starts_with("LncKernel.bodies[0][0].body[0].op.ncDmaCopy.dst.abstract.birPattern."),
        "{e}"
    );
    // far beyond, written by hand: an endless chain of vector offsets
    let one = nested(1);
    let start = find(&one, &[0xd9, 125, 3, 0x81], 0);
    let none = start + find(&one[start..], &[0xd9, 255, 0, 0x80, 0xd9, 255, 0, 0x80, 0, 0xd9], 0);
    let mut b = one[..start].to_vec();
    for _ in 0..100_000 {
        b.extend(&one[start..none + 4]);
        b.extend([0xd9, 255, 1, 0x81]);
    }
    let e = read(&b).unwrap_err();
    assert_eq!((e.code, e.message.contains("more than 8 deep")), (code::TOO_DEEP, true), "{e}");
    // lists in lists where a scalar belongs
    let mut b = one[..start].to_vec();
    b.extend(std::iter::repeat_n(0x81, 1_000_000));
    assert_eq!(read(&b).unwrap_err().code, code::WRONG_KIND);
}

#[test]
fn p0017_long_strings() {
    let bytes = sample(SWAP);
    let label = find(&bytes, b"\x66main.1", 0);
    let with = |n: u32| {
        let mut b = bytes[..label].to_vec();
        b.push(0x7a);
        b.extend(n.to_be_bytes());
        b.extend(std::iter::repeat_n(b'x', n as usize));
        b.extend(&bytes[label + 7..]);
        b
    };
    let e = read(&with(65537)).unwrap_err();
    expect(&e, code::STRING_LIMIT, label, "LncKernel.bodies[0][0].label", "a string of 65537 bytes");
    read(&with(65536)).unwrap();
    let tight = tandem_klr::Limits { string_bytes: 3, ..Default::default() };
    assert_eq!(read_with(&bytes, tight).unwrap_err().code, code::STRING_LIMIT);
}

#[test]
fn p0018_tensor_bounds() {
    let x = build::tensor("x", ast::Dtype::Float32, ast::Memory::Hbm, &[4, 8]);
    let with = |change: &dyn Fn(&mut ast::TensorName)| {
        let mut t = ast::TensorName::clone(&x);
        change(&mut t);
        read(&write(&build::lnc("k", &[&t.into()], &[], vec![]).into()).unwrap())
    };
    with(&|_| ()).unwrap();
    for (change, text) in [
        (&(|t: &mut ast::TensorName| t.address.par_size = 3) as &dyn Fn(&mut ast::TensorName), "parDim 4"),
        (&|t| t.address.free_size = 31, "needs 32 bytes per partition but its address has freeSize 31"),
        (&|t| t.shape.free_dims = vec![1 << 32, 1 << 32], "overflow"),
        (&|t| t.shape.free_dims = vec![1 << 62], "overflow"),
    ] {
        let e = with(change).unwrap_err();
        assert_eq!((e.code, e.path.as_str()), (code::TENSOR_BOUNDS, "LncKernel.inputs[0]"));
        assert!(e.message.contains(text), "{e}");
    }
    // the stored count of free elements is not what counts
    let outcome = with(&|t| t.free_elements = 1 << 60).unwrap();
    assert_eq!(outcome.notes[0].code, code::FREE_ELEMENTS);
}

/// The copy of a basic access with these indices.
fn basic(indexes: Vec<ast::Index>) -> Vec<u8> {
    let t = build::tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[4, 4]);
    let access = ast::AccessBasic { tensor: t.clone(), indexes };
    let op = build::dma_copy(TensorRef::Abstract(Access::Basic(Box::new(access))), build::whole(&t));
    let block = build::block("main.1", vec![build::stmt("inst.1", 1, op)]);
    write(&build::lnc("k", &[], &[], vec![vec![block]]).into()).unwrap()
}

#[test]
fn p0019_slice_step() {
    let slice = |step| ast::Index::Slice(ast::Slice { l: 0, u: 4, step });
    read(&basic(vec![slice(1), slice(-1)])).unwrap();
    let e = read(&basic(vec![slice(1), slice(0)])).unwrap_err();
    assert_eq!(e.code, code::ZERO_SLICE_STEP);
    assert!(e.path.ends_with(".op.ncDmaCopy.dst.abstract.basic.indexes[1].slice"), "{e}");
}

#[test]
fn p0020_index_count() {
    let e = read(&basic(vec![ast::Index::Coord(0)])).unwrap_err();
    assert_eq!(e.code, code::INDEX_COUNT);
    assert!(e.message.contains("1 indices for 2 dimensions"), "{e}");
}

#[test]
fn p0021_mixed_propositions() {
    for (plain_first, at) in [(true, 1), (false, 1)] {
        let (mut a, mut b) = (Gen::new(5), Gen::new(5));
        (a.prop_bytes, b.prop_bytes) = (!plain_first, plain_first);
        for g in [&mut a, &mut b] {
            g.value("TensorName");
        }
        let mut g = Gen::new(1);
        g.out.extend([0xd9, 0xd9, 0xf7, 0x83, 0, 0, 12, 0xd9, 0xeb, 0, 0x81, 0x60]);
        g.tagged(236, 2, 1);
        g.tagged(105, 0, 4);
        g.text("k");
        g.head(4, 2);
        g.out.extend(&a.out);
        g.out.extend(&b.out);
        let e = read(&g.out).unwrap_err();
        assert_eq!(e.code, code::MIXED_PROPOSITIONS, "{e}");
        assert!(e.path.starts_with(&format!("Kernel.inputs[{at}].")), "{e}");
    }
}

#[test]
fn p0022_cbor_forms() {
    let bytes = sample(SWAP);
    let last = bytes.len() - 3;
    let e = patched(&bytes, last, 1, &[0x9f, 0xff]);
    expect(&e, code::CBOR_FORM, last, "LncKernel.sharedConstants", "indefinite");
    let e = patched(&bytes, last, 1, &[0x9c]);
    expect(&e, code::CBOR_FORM, last, "LncKernel.sharedConstants", "reserved");
}

#[test]
fn p0023_not_expressible_in_2_24() {
    let t = build::tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[1, 1]);
    let mut op = build::collective(vec![build::whole(&t)], vec![build::whole(&t)], &[&[0, 1]]);
    op.priority = Some(0);
    let stmt = build::stmt("inst.1", 1, ast::Operator::AllReduce(op));
    let file = build::lnc("k", &[], &[], vec![vec![build::block("main.1", vec![stmt])]]).into();
    let e = write_as(&file, Compat::V2_24).unwrap_err();
    assert_eq!((e.code, e.field), (code::NOT_EXPRESSIBLE, "CollectiveOp.priority"));
    assert_eq!(Diagnostic::from(e).severity, Severity::Error);
}

#[test]
fn notes_are_given_once_each_and_do_not_refuse() {
    let bytes = sample(SWAP);
    let note = |b: &[u8]| {
        let outcome = read(b).unwrap();
        assert_eq!(outcome.notes.len(), 1, "{:?}", outcome.notes);
        (outcome.notes[0].code, outcome.notes[0].offset, outcome.file)
    };
    let plain = read(&bytes).unwrap().file;

    let trailing = [&bytes[..], &[0, 1, 2]].concat();
    assert_eq!(note(&trailing), (code::TRAILING_BYTES, bytes.len(), plain.clone()));
    let d = Diagnostic::from(read(&trailing).unwrap().notes.remove(0));
    assert_eq!(d.severity, Severity::Warning);

    // longer heads: an integer, a length, a list count, a tag with its field count
    let label = find(&bytes, b"\x66main.1", 0);
    let pos = find(&bytes, &[0xd9, 100, 0, 0x85, 4], 0);
    let last = bytes.len() - 3;
    for (at, len, with) in [
        (6, 1, &[0x19, 0, 12][..]),
        (label, 1, &[0x7b, 0, 0, 0, 0, 0, 0, 0, 6]),
        (last, 1, &[0x9a, 0, 0, 0, 0]),
        (pos, 4, &[0xda, 0, 0, 100, 0, 0x98, 5]),
    ] {
        let mut b = bytes.clone();
        b.splice(at..at + len, with.iter().copied());
        let (code, offset, file) = note(&b);
        assert_eq!((code, offset), (code::LONG_HEAD, at));
        assert_eq!(write(&file).unwrap(), bytes, "written in the shortest form");
    }

    let old = write_as(&plain, Compat::V2_24).unwrap();
    assert_eq!((note(&old).0, note(&old).2), (code::LAYOUT_2_24, plain.clone()));
    let quirk = note(&sample("q01_prop_bytes_f32_128x64.klr"));
    assert_eq!((quirk.0, quirk.2), (code::PROPOSITION_BYTES, plain));
}

#[test]
fn an_error_becomes_a_diagnostic_with_its_place() {
    let bytes = sample(SWAP);
    let e = read(&bytes[..bytes.len() - 1]).unwrap_err();
    let d = Diagnostic::from(e);
    assert_eq!((d.code, d.severity, d.sites.len()), (code::TRUNCATED, Severity::Error, 1));
    assert_eq!(d.sites[0].offset, Some(bytes.len() as u64 - 1));
    assert_eq!(d.sites[0].path, "LncKernel.edges");
    assert_eq!(tandem_bir::diag::exit_code(&[d]), 2);
}

/// A new code needs a test: each constant is used above this line.
#[test]
fn every_code_has_a_test() {
    let source = include_str!("errors.rs");
    let table = include_str!("../src/error.rs");
    let names: Vec<&str> = table
        .lines()
        .filter_map(|l| l.trim().strip_prefix("pub const ")?.split_once(": Code = codes::P").map(|x| x.0))
        .collect();
    assert_eq!(names.len(), code::ALL.len());
    for name in names {
        assert!(source.contains(&format!("code::{name}")), "{name} is not tested");
    }
}

#[test]
fn a_kernel_for_one_core_reads_as_one_body() {
    let outcome = read(&sample("16_single_core_add_f32.klr")).unwrap();
    let Contents::Kernel(kernel) = &outcome.file.contents else { panic!() };
    assert_eq!(outcome.file.lnc().bodies, vec![kernel.body.clone()]);
}
