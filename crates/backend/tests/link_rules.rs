//! What linking checks and makes, on small programs.

mod common;

use tandem_backend::link::resolve::remote_addr_map;
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_bir::inst::SyncInfo;
use tandem_bir::*;

/// An allocated location on a core.
fn loc(
    b: &mut common::Build,
    c: usize,
    name: &str,
    mem: MemoryType,
    addr: u64,
    base: u32,
    dims: &[u64],
) -> MemLocId {
    let s = MemoryLocationSet::new(name, Dtype::Bfloat16, TensorKind::Internal, AddressSpace::Local, dims);
    let mut l = MemoryLocation::new(name, SetId::from_u32(0), mem, dims);
    l.addr = addr;
    l.base = base;
    l.allocated = true;
    b.p.modules[c].add_location(b.f[c], s, l)
}

fn push(b: &mut common::Build, c: usize, i: Inst) -> InstId {
    b.p.modules[c].push_inst(b.b[c], i)
}

fn op(name: &str, opcode: Opcode, e: EngineKind, ins: Vec<Operand>, outs: Vec<Operand>) -> Inst {
    let mut i = Inst::new(name, opcode);
    i.engine = e;
    i.ins = ins;
    i.outs = outs;
    i
}

fn whole(b: &common::Build, c: usize, l: MemLocId) -> Operand {
    Operand::Ap(AccessPattern::whole(l, &b.p.modules[c].memlocs[l], Dtype::Bfloat16))
}

fn swap_program(y: [u64; 2]) -> common::Build {
    let mut b = common::program(2);
    for c in 0..2 {
        let x = loc(&mut b, c, "x", MemoryType::Sb, 0x1000, 32, &[64, 256]);
        let d = loc(&mut b, c, "y", MemoryType::Sb, y[c], 32, &[64, 256]);
        let (s, t) = (whole(&b, c, x), whole(&b, c, d));
        push(&mut b, c, op("swap", Opcode::GpsimdSb2Sb, EngineKind::Pool, vec![s], vec![t]));
    }
    b.p.level = Level::Lowered;
    b
}

fn ok(b: &common::Build) -> (LinkedProgram, Vec<Diagnostic>) {
    link(&b.p, LinkOptions::default()).unwrap_or_else(|e| panic!("{e:?}"))
}

fn fails(b: &common::Build, code: Code) -> Diagnostic {
    let e = link(&b.p, LinkOptions::default()).expect_err("must fail");
    e.into_iter().find(|d| d.code == code).unwrap_or_else(|| panic!("no {code}"))
}

#[test]
fn asymmetric_swap_is_a_note_and_names_the_partner() {
    use tandem_backend::encode::program::{EncodeOptions, encode_streams};
    let (l, notes) = ok(&swap_program([0x9000, 0x8000]));
    assert!(notes.iter().any(|d| d.code == codes::N0010));
    let (image, _) = encode_streams(&l, EncodeOptions::default()).unwrap();
    let word = |c: usize| image[c][0].records.iter().find(|b| b.opcode() == 0xBF).unwrap().get(0x30, 4);
    assert_eq!(word(0), (32 << 18) + 0x8000);
    assert_eq!(word(1), (32 << 18) + 0x9000);
    let (_, notes) = ok(&swap_program([0x8000, 0x8000]));
    assert!(notes.is_empty());
}

#[test]
fn swap_counts_and_shapes_must_agree() {
    let mut b = swap_program([0x8000, 0x8000]);
    b.p.modules[1].blocks[b.b[1]].insts.clear();
    let d = fails(&b, codes::N0008);
    assert_eq!(d.message, "swap count differs: core 0 has 1, core 1 has 0");
    let mut b = swap_program([0x8000, 0x8000]);
    let i = b.p.modules[1].blocks[b.b[1]].insts[0];
    if let Some(Operand::Ap(a)) = b.p.modules[1].insts[i].outs.first_mut() {
        a.pairs[1].num = 5;
    }
    fails(&b, codes::N0009);
}

#[test]
fn module_count_and_ids_are_checked() {
    let mut b = swap_program([0x8000, 0x8000]);
    b.p.modules.pop();
    assert!(fails(&b, codes::N0001).notes[0].contains("1513"));
    let mut b = swap_program([0x8000, 0x8000]);
    b.p.modules.swap(0, 1);
    fails(&b, codes::N0001);
    let mut b = swap_program([0x8000, 0x8000]);
    b.p.level = Level::Linked;
    fails(&b, codes::N0025);
}

fn alias_program(prepare: impl Fn(&mut common::Build)) -> common::Build {
    let mut b = common::program(2);
    for c in 0..2 {
        let _ = loc(&mut b, c, "x", MemoryType::Sb, 0x2000 + 0x100 * c as u64, 0, &[128, 64]);
        let d = loc(&mut b, c, "y", MemoryType::Sb, 0x4000, 0, &[128, 64]);
        let a = loc(&mut b, c, &format!("x_remote_{}", 1 - c), MemoryType::Sb, 0, 0, &[128, 64]);
        b.p.modules[c].memlocs[a].allocated = false;
        b.p.modules[c].memlocs[a].remote_local_target =
            Some(RemoteTarget { name: "x".into(), core: CoreId(1 - c as u32) });
        let (s, t) = (whole(&b, c, a), whole(&b, c, d));
        push(&mut b, c, op("pull", Opcode::DmaCopy, EngineKind::Unassigned, vec![s], vec![t]));
    }
    prepare(&mut b);
    b.p.level = Level::Lowered;
    b
}

#[test]
fn aliases_get_the_owners_place_once_and_for_all() {
    let b = alias_program(|_| ());
    let mut p = b.p.clone();
    let mut d = Vec::new();
    remote_addr_map(&mut p, &mut d);
    assert!(d.is_empty());
    let once = p.clone();
    remote_addr_map(&mut p, &mut d);
    assert!(p == once, "the map is idempotent");
    let l = p.modules[0].find_location(b.f[0], "x_remote_1").unwrap();
    assert_eq!((p.modules[0].memlocs[l].addr, p.modules[0].memlocs[l].allocated), (0x2100, true));
    let (l, _) = ok(&b);
    assert_eq!(l.cores[0].vars.len(), 1);
    assert_eq!(l.cores[0].vars[0].class.name(), "remote");
    assert_eq!(l.cores[0].vars[0].owner, CoreId(1));
}

#[test]
fn aliases_that_lead_nowhere_are_refused() {
    let edit = |f: &dyn Fn(&mut MemoryLocation)| {
        alias_program(|b| {
            let l = b.p.modules[1].find_location(b.f[1], "x").unwrap();
            f(&mut b.p.modules[1].memlocs[l]);
        })
    };
    assert!(fails(&edit(&|l| l.name = "z".into()), codes::N0003).notes[0].contains("1514"));
    fails(&edit(&|l| l.allocated = false), codes::N0005);
    fails(&edit(&|l| l.mem = MemoryType::Psum), codes::N0006);
    let chain = |l: &mut MemoryLocation| {
        l.remote_local_target = Some(RemoteTarget { name: "y".into(), core: CoreId(0) });
    };
    fails(&edit(&chain), codes::N0004);
    let b = alias_program(|b| {
        let i = b.p.modules[0].blocks[b.b[0]].insts[0];
        b.p.modules[0].insts[i].opcode = Opcode::TensorCopy;
        b.p.modules[0].insts[i].engine = EngineKind::Dve;
    });
    fails(&b, codes::N0023);
}

#[test]
fn barriers_have_one_id_on_all_cores_and_drift_is_an_error() {
    let make = |names: [&[&str]; 2]| {
        let mut b = common::program(2);
        for c in 0..2 {
            for n in names[c] {
                let mut i = Inst::new(n, Opcode::CoreBarrier).with(Attr::Cores, vec![0i64, 1]);
                i.engine = EngineKind::Pool;
                push(&mut b, c, i);
            }
        }
        b.p.level = Level::Lowered;
        b
    };
    let (l, _) = ok(&make([&["a", "b"], &["a", "b"]]));
    assert_eq!(l.barriers.len(), 2);
    for (id, k) in l.barriers.iter().enumerate() {
        assert_eq!(k.members.len(), 2);
        for r in &k.members {
            assert_eq!(l.inst(*r).unwrap().get_int(Attr::Id), Some(id as i64));
        }
    }
    fails(&make([&["a", "b"], &["a"]]), codes::N0011);
    fails(&make([&["a", "b"], &["b", "a"]]), codes::N0011);
    fails(&make([&["a"], &["c"]]), codes::N0011);
}

fn sync(l: &LinkedProgram, name: &str) -> SyncInfo {
    let m = &l.program.modules[0];
    let i = m.insts.values().find(|i| i.name == name).unwrap();
    i.more.as_ref().and_then(|m| m.sync.clone()).unwrap_or_default()
}

/// Vector writes, Scalar reads, GPSIMD reads both.
#[test]
fn edges_become_the_fewest_waits() {
    let mut b = common::program(1);
    b.p.modules[0].core = Some(CoreId(0));
    let l: Vec<MemLocId> = (0..4)
        .map(|k| loc(&mut b, 0, &format!("t{k}"), MemoryType::Sb, 0x1000 * (k + 1), 0, &[128, 64]))
        .collect();
    let w = |b: &common::Build, k: usize| whole(b, 0, l[k]);
    let (t0, t1, t2, t3) = (w(&b, 0), w(&b, 1), w(&b, 2), w(&b, 3));
    let ld =
        push(&mut b, 0, op("a", Opcode::TensorCopy, EngineKind::Dve, vec![t0.clone()], vec![t1.clone()]));
    let mut s = op("s", Opcode::TensorCopy, EngineKind::Activation, vec![t1.clone()], vec![t2.clone()]);
    s.deps = vec![inst::Dep { inst: ld, kind: EdgeKind::Flow }];
    let s = push(&mut b, 0, s);
    let mut p = op("p", Opcode::TensorCopy, EngineKind::Pool, vec![t2], vec![t3]);
    p.deps = vec![inst::Dep { inst: ld, kind: EdgeKind::Flow }, inst::Dep { inst: s, kind: EdgeKind::Flow }];
    push(&mut b, 0, p);
    b.p.level = Level::Lowered;
    let (l, _) = ok(&b);
    let (a, s, p) = (sync(&l, "a"), sync(&l, "s"), sync(&l, "p"));
    assert_eq!((a.on_wait.len(), a.on_update.len()), (0, 1));
    assert_eq!((s.on_wait.len(), s.on_update.len()), (1, 1));
    // the wait for `s` implies the one for `a`
    assert_eq!((p.on_wait.len(), p.on_update.len()), (1, 0));
    assert_eq!(p.on_wait[0].sem, s.on_update[0].sem);
    assert_eq!(s.on_wait[0].value, 1);
}

#[test]
fn streams_wait_for_their_transfers_and_end_in_exit() {
    let (l, _) = ok(&alias_program(|_| ()));
    for (c, core) in l.cores.iter().enumerate() {
        assert_eq!(core.streams.len(), 1);
        let ops: Vec<Opcode> =
            core.streams[0].insts.iter().map(|i| l.program.modules[c].insts[*i].opcode).collect();
        assert_eq!(ops, [Opcode::DmaCopy, Opcode::EventSemaphore, Opcode::Exit]);
    }
}

#[test]
fn a_copy_of_many_dimensions_becomes_several_records() {
    let mut b = common::program(1);
    b.p.modules[0].core = Some(CoreId(0));
    let x = loc(&mut b, 0, "x", MemoryType::Dram, 0, 0, &[4096, 64]);
    let y = loc(&mut b, 0, "y", MemoryType::Sb, 0, 0, &[128, 2048]);
    let src = AccessPattern::new(x, Dtype::Bfloat16, 0, &[(900, 128), (200, 3), (40, 4), (10, 2), (1, 4)]);
    let dst = AccessPattern::new(y, Dtype::Bfloat16, 0, &[(1024, 128), (1, 96)]);
    push(&mut b, 0, op("cp", Opcode::DmaCopy, EngineKind::Sp, vec![src.clone().into()], vec![dst.into()]));
    b.p.level = Level::Lowered;
    let (l, _) = ok(&b);
    let m = &l.program.modules[0];
    let parts: Vec<&Inst> = l.cores[0].streams[0]
        .insts
        .iter()
        .map(|i| &m.insts[*i])
        .filter(|i| i.opcode == Opcode::DmaCopy)
        .collect();
    assert!(parts.len() > 1);
    // the pieces walk the same elements in the same order
    let walk = |a: &AccessPattern| -> Vec<i64> {
        let mut out = vec![a.offset];
        for p in &a.pairs {
            out = out.iter().flat_map(|o| (0..p.num as i64).map(move |k| o + k * p.step)).collect();
        }
        out
    };
    let all: Vec<i64> = parts.iter().flat_map(|i| walk(i.ins[0].as_ap().unwrap())).collect();
    assert_eq!(all, walk(&src));
    let posts: usize = parts.iter().map(|i| Inst::sync(i).map_or(0, |s| s.on_update.len())).sum();
    assert_eq!(posts, 1, "one completion");
}

/// The pull program with transfers that notify the other core.
fn notifying(b: &mut common::Build) {
    for c in 0..2usize {
        let i = b.p.modules[c].blocks[b.b[c]].insts[0];
        b.p.modules[c].insts[i].set(Attr::RemoteNotification, vec![1 - c as i64]);
    }
}

#[test]
fn a_notice_takes_the_number_beside_the_peers_own() {
    let (l, _) = ok(&alias_program(notifying));
    for c in 0..2usize {
        let i = l.program.modules[c].insts.values().find(|i| i.name == "pull").unwrap();
        let s = i.more.as_ref().unwrap().sync.as_ref().unwrap();
        let local: Vec<u32> = s.on_update.iter().filter(|u| u.target_core.is_none()).map(|u| u.sem).collect();
        let remote: Vec<(u32, Option<u32>)> =
            s.on_update.iter().filter(|u| u.target_core.is_some()).map(|u| (u.sem, u.target_core)).collect();
        // the remote queue of SP is source 14: semaphore 137, its notice 201
        assert_eq!(local, [137]);
        assert_eq!(remote, [(201, Some(1 - c as u32))]);
        // what ends the stream waits for both
        let waits: Vec<u32> = l.program.modules[c]
            .insts
            .values()
            .filter(|i| i.opcode == Opcode::EventSemaphore)
            .filter_map(|i| i.more.as_ref()?.sync.as_ref())
            .flat_map(|s| s.on_wait.iter().map(|w| w.sem))
            .collect();
        assert_eq!(waits, [137, 201]);
    }
}

#[test]
fn assertions_1511_and_1512_of_vnc_link() {
    use tandem_backend::link::sync::vnc_link;
    let b = alias_program(|b| {
        notifying(b);
        let i = b.p.modules[1].blocks[b.b[1]].insts[0];
        b.p.modules[1].insts[i].attrs.remove(Attr::RemoteNotification);
    });
    let d = fails(&b, codes::N0013);
    assert!(d.notes.iter().any(|n| n.contains("1512")) && d.notes[0].contains("Found 0 remote updates"));
    // the peer's transfer of the same ordinal updates nothing of its own
    let mut p = alias_program(notifying).p;
    for m in &mut p.modules {
        let peer = 1 - m.core.unwrap().0;
        for i in m.insts.values_mut() {
            let u = inst::SemUpdate { sem: 129, value: 1, target_core: Some(peer), extra: None };
            i.more_mut().sync = Some(SyncInfo { on_update: vec![u], ..SyncInfo::default() });
        }
    }
    let mut d = Vec::new();
    vnc_link(&mut p, &mut d);
    assert_eq!(d.len(), 2);
    assert!(d.iter().all(|d| d.code == codes::N0014 && d.notes[0].contains("1511")));
    assert!(d[0].message.contains("transfer 0 of core 1"), "{}", d[0].message);
    // with a local update on each it takes that number
    let mut p = alias_program(notifying).p;
    for (c, m) in p.modules.iter_mut().enumerate() {
        for i in m.insts.values_mut() {
            let local = inst::SemUpdate { sem: 130 + c as u32, value: 1, ..Default::default() };
            let remote = inst::SemUpdate { target_core: Some(1 - c as u32), ..local.clone() };
            let on_update = vec![local, remote];
            i.more_mut().sync = Some(SyncInfo { on_update, ..SyncInfo::default() });
        }
    }
    vnc_link(&mut p, &mut d);
    for (c, m) in p.modules.iter().enumerate() {
        let i = m.insts.values().next().unwrap();
        let s = i.more.as_ref().unwrap().sync.as_ref().unwrap();
        assert_eq!((s.on_update[0].sem, s.on_update[1].sem), (130 + c as u32, 195 - c as u32));
    }
}

#[test]
fn a_notice_in_a_loop_needs_a_barrier_before_it() {
    let b = alias_program(|b| {
        notifying(b);
        for c in 0..2usize {
            let f = b.f[c];
            b.p.modules[c].add_block(f, "second");
        }
    });
    let d = fails(&b, codes::N0020);
    assert!(d.message.contains("core barrier"), "{}", d.message);
}

/// Sixty-four dynamic operands share a handful of registers.
#[test]
fn run_time_addresses_share_registers() {
    let mut b = common::program(1);
    b.p.modules[0].core = Some(CoreId(0));
    let x = loc(&mut b, 0, "x", MemoryType::Sb, 0, 0, &[128, 4096]);
    let r = b.reg("r");
    let mut mv = op("mv", Opcode::RegisterMove, EngineKind::All, vec![Immediate::i32(3).into()], vec![]);
    mv.outs = vec![RegAccess { reg: r, dtype: Dtype::Int32 }.into()];
    push(&mut b, 0, mv);
    for k in 0..64 {
        let mut a = AccessPattern::new(x, Dtype::Bfloat16, 0, &[(2048, 128), (1, 8)]);
        a.dynamic =
            Some(Box::new(DynamicAp { terms: vec![(8, Expr::Reg(r))], indirect_dim: 0, max_index: None }));
        let d = AccessPattern::new(x, Dtype::Bfloat16, 1024, &[(2048, 128), (1, 8)]);
        push(
            &mut b,
            0,
            op(&format!("c{k}"), Opcode::TensorCopy, EngineKind::Dve, vec![a.into()], vec![d.into()]),
        );
    }
    b.p.level = Level::Lowered;
    let (l, _) = ok(&b);
    let used = l.cores[0].reg_numbers.iter().filter(|n| **n != u8::MAX).count();
    assert!(used <= 4, "{used} registers");
}
