//! Every code of the linker that `link_rules.rs` does not raise, on the smallest program that does.

mod common;

use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, LinkedProgram, link, sync, too_many_variables};
use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_bir::*;

fn build(cores: u32) -> common::Build {
    let mut b = common::program(cores);
    for (c, m) in b.p.modules.iter_mut().enumerate() {
        m.core = Some(CoreId(c as u32));
    }
    b.p.level = Level::Lowered;
    b
}

fn loc(
    b: &mut common::Build,
    c: usize,
    name: &str,
    mem: MemoryType,
    space: AddressSpace,
    addr: u64,
) -> MemLocId {
    let dims = [128, 256];
    let s = MemoryLocationSet::new(
        &format!("{name}.{addr}"),
        Dtype::Bfloat16,
        TensorKind::Internal,
        space,
        &dims,
    );
    let mut l = MemoryLocation::new(name, SetId::from_u32(0), mem, &dims);
    l.addr = addr;
    l.allocated = true;
    b.p.modules[c].add_location(b.f[c], s, l)
}

fn sb(b: &mut common::Build, c: usize, name: &str, addr: u64) -> MemLocId {
    loc(b, c, name, MemoryType::Sb, AddressSpace::Local, addr)
}

fn whole(b: &common::Build, c: usize, l: MemLocId) -> Operand {
    Operand::Ap(AccessPattern::whole(l, &b.p.modules[c].memlocs[l], Dtype::Bfloat16))
}

fn op(name: &str, opcode: Opcode, e: EngineKind, ins: Vec<Operand>, outs: Vec<Operand>) -> Inst {
    let mut i = Inst::new(name, opcode);
    i.engine = e;
    i.ins = ins;
    i.outs = outs;
    i
}

fn push(b: &mut common::Build, c: usize, i: Inst) -> InstId {
    b.p.modules[c].push_inst(b.b[c], i)
}

fn linked(b: &common::Build) -> (LinkedProgram, Vec<Diagnostic>) {
    link(&b.p, LinkOptions::default()).unwrap_or_else(|e| panic!("{e:?}"))
}

fn fails(b: &common::Build, code: Code) -> Diagnostic {
    let e = link(&b.p, LinkOptions::default()).expect_err("must fail");
    let all: Vec<String> = e.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    e.into_iter().find(|d| d.code == code).unwrap_or_else(|| panic!("no {code} in {all:?}"))
}

fn copy(b: &mut common::Build, c: usize, from: MemLocId, to: MemLocId) {
    let (s, t) = (whole(b, c, from), whole(b, c, to));
    push(b, c, op("copy", Opcode::TensorCopy, EngineKind::Dve, vec![s], vec![t]));
}

#[test]
fn n0002_two_locations_of_one_name() {
    let mut b = build(1);
    let (x, y) = (sb(&mut b, 0, "x", 0), sb(&mut b, 0, "x", 0x1000));
    copy(&mut b, 0, x, y);
    assert!(fails(&b, codes::N0002).message.contains("`x`"));
}

#[test]
fn n0007_no_address() {
    let mut b = build(1);
    let (x, y) = (sb(&mut b, 0, "x", 0), sb(&mut b, 0, "y", 0x1000));
    b.p.modules[0].memlocs[y].allocated = false;
    copy(&mut b, 0, x, y);
    assert!(fails(&b, codes::N0007).message.contains("`y`"));
}

#[test]
fn n0012_tokens_in_another_order() {
    let mut b = build(2);
    for c in 0..2 {
        let mut names = ["s", "t"];
        if c == 1 {
            names.reverse();
        }
        for (k, n) in names.iter().enumerate() {
            let l = loc(&mut b, c, n, MemoryType::Dram, AddressSpace::Local, 0x10000 * (k as u64 + 1));
            let a = whole(&b, c, l);
            push(&mut b, c, op(n, Opcode::TensorCompletion, EngineKind::Pool, vec![a], vec![]));
        }
    }
    assert!(fails(&b, codes::N0012).message.contains("another order"));
}

#[test]
fn n0016_no_engine() {
    let mut b = build(1);
    let (x, y) = (sb(&mut b, 0, "x", 0), sb(&mut b, 0, "y", 0x1000));
    copy(&mut b, 0, x, y);
    let i = b.p.modules[0].blocks[b.b[0]].insts[0];
    b.p.modules[0].insts[i].engine = EngineKind::Dma;
    assert!(fails(&b, codes::N0016).message.contains("not valid TPB engines"));
}

#[test]
fn n0017_a_branch_out_of_its_stream() {
    let mut b = build(1);
    let (x, y) = (sb(&mut b, 0, "x", 0), sb(&mut b, 0, "y", 0x1000));
    copy(&mut b, 0, x, y);
    let (mut l, _) = linked(&b);
    l.cores[0].streams[0].branches.push((0, 1 << 30));
    let e = encode_streams(&l, EncodeOptions::default()).expect_err("refused");
    assert!(e.iter().any(|d| d.code == codes::N0017));
}

#[test]
fn n0018_variables_have_24_bits() {
    assert!(too_many_variables((1 << 24) - 1).is_none());
    assert_eq!(too_many_variables(1 << 24).map(|d| d.code), Some(codes::N0018));
}

fn shared(alias: bool) -> common::Build {
    let mut b = build(2);
    for c in 0..2usize {
        let s = loc(&mut b, c, "s", MemoryType::Dram, AddressSpace::Shared, 0x40 * (1 + c as u64));
        if alias && c == 1 {
            b.p.modules[1].memlocs[s].remote_local_target =
                Some(RemoteTarget { name: "s".into(), core: CoreId(0) });
        }
        let t = sb(&mut b, c, "t", 0);
        let (f, to) = (whole(&b, c, s), whole(&b, c, t));
        push(&mut b, c, op("ld", Opcode::DmaCopy, EngineKind::Sp, vec![f], vec![to]));
    }
    b
}

#[test]
fn n0019_a_shared_location_resolved_late() {
    let (l, notes) = linked(&shared(true));
    assert!(notes.iter().any(|d| d.code == codes::N0019));
    let m = &l.program.modules[1];
    let s = m.memlocs.values().find(|l| l.name == "s").unwrap();
    assert_eq!(s.addr, 0x40, "the owner's address");
}

#[test]
fn n0021_a_shared_location_in_two_places() {
    assert!(fails(&shared(false), codes::N0021).message.contains("0x80"));
}

#[test]
fn n0022_more_registers_than_an_engine_has() {
    // all written before the first is read
    for (n, ok) in [(62, true), (63, false)] {
        let mut b = build(1);
        let mut all = Vec::new();
        for k in 0..n {
            let r = b.reg(&format!("r{k}"));
            let to = RegAccess { reg: r, dtype: Dtype::Int32 };
            all.push(to);
            let mv = op(
                "mv",
                Opcode::RegisterMove,
                EngineKind::Sp,
                vec![Immediate::i32(1).into()],
                vec![to.into()],
            );
            push(&mut b, 0, mv);
        }
        for pair in all.windows(2) {
            let mut add = op(
                "add",
                Opcode::RegisterAlu,
                EngineKind::Sp,
                vec![pair[0].into(), pair[1].into()],
                vec![pair[1].into()],
            );
            add.set(Attr::Op, AluOp::Add);
            push(&mut b, 0, add);
        }
        if ok {
            linked(&b);
        } else {
            assert!(fails(&b, codes::N0022).message.contains("63"));
        }
    }
}

#[test]
fn n0024_half_of_a_destination_is_open() {
    let mut b = build(1);
    let w = sb(&mut b, 0, "w", 0);
    let p = loc(&mut b, 0, "p", MemoryType::Psum, AddressSpace::Local, 0);
    let tile = |l: MemLocId, d: Dtype, pitch: i64, n: u64| -> Operand {
        Operand::Ap(AccessPattern::new(l, d, 0, &[(pitch, 64), (1, n)]))
    };
    for (k, n) in [32u64, 64].into_iter().enumerate() {
        let bf = Dtype::Bfloat16;
        let i = op(
            &format!("mm{k}"),
            Opcode::Matmult,
            EngineKind::Pe,
            vec![tile(w, bf, 128, n), tile(w, bf, 128, 64)],
            vec![tile(p, Dtype::Float32, 64, n)],
        );
        push(&mut b, 0, i);
    }
    assert!(fails(&b, codes::N0024).message.contains("a part of its destination"));
}

#[test]
fn n0026_a_copy_that_cannot_be_cut() {
    let mut b = build(1);
    let (x, y) = (
        loc(&mut b, 0, "x", MemoryType::Dram, AddressSpace::Local, 0),
        loc(&mut b, 0, "y", MemoryType::Dram, AddressSpace::Local, 1 << 20),
    );
    let walk = |l: MemLocId, by: i64| -> Operand {
        let n = 4099;
        Operand::Ap(AccessPattern::new(
            l,
            Dtype::Bfloat16,
            0,
            &[(by * 9, n), (by * 5, n), (by * 3, n), (by, n)],
        ))
    };
    let i = op("cp", Opcode::DmaCopy, EngineKind::Sp, vec![walk(x, 2)], vec![walk(y, 4)]);
    push(&mut b, 0, i);
    assert!(fails(&b, codes::N0026).message.contains("cannot be cut"));
}

/// No wait without enough posts: what linking made has none, and a removed post is seen.
#[test]
fn every_wait_has_its_posts() {
    let mut b = build(1);
    let (x, y, z) = (sb(&mut b, 0, "x", 0), sb(&mut b, 0, "y", 0x1000), sb(&mut b, 0, "z", 0x2000));
    copy(&mut b, 0, x, y);
    let first = b.p.modules[0].blocks[b.b[0]].insts[0];
    let (s, t) = (whole(&b, 0, y), whole(&b, 0, z));
    let mut second = op("second", Opcode::TensorCopy, EngineKind::Pool, vec![s], vec![t]);
    second.deps = vec![inst::Dep { inst: first, kind: EdgeKind::Flow }];
    push(&mut b, 0, second);
    // what a file says about semaphores is replaced
    let stale = inst::SyncInfo {
        on_wait: vec![inst::SemWait { sem: 77, value: 9, ..Default::default() }],
        ..Default::default()
    };
    b.p.modules[0].insts[first].more_mut().sync = Some(stale);
    let (mut l, _) = linked(&b);
    assert!(sync::check_posts(&l.program).is_empty());
    for i in l.program.modules[0].insts.values_mut() {
        if let Some(s) = i.more.as_mut().and_then(|m| m.sync.as_mut()) {
            assert!(s.on_wait.iter().all(|w| w.sem != 77));
            s.on_update.clear();
        }
    }
    let d = sync::check_posts(&l.program);
    assert!(d.len() == 1 && d[0].message.contains("second"), "{d:?}");
}
