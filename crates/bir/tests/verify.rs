//! Every code of the verifier: a program that raises it, made from a clean program by one change.

use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_bir::entity::EntityRef;
use tandem_bir::inst::{SemUpdate, SemWait, SyncInfo};
use tandem_bir::module::Storage;
use tandem_bir::verify::verify;
use tandem_bir::*;

const P: i64 = 64; // pitch of the SBUF tiles, elements of float32

fn add(m: &mut Module, name: &str, kind: TensorKind, mem: MemoryType, addr: u64, dims: &[u64]) -> MemLocId {
    let f = m.functions[0];
    let l = MemoryLocation { addr, allocated: true, ..MemoryLocation::new(name, SetId::new(0), mem, dims) };
    m.add_location(f, MemoryLocationSet::new(name, Dtype::Float32, kind, AddressSpace::Local, &[128, 64]), l)
}

fn ap(l: MemLocId, d: Dtype, pairs: &[(i64, u64)]) -> Operand {
    AccessPattern::new(l, d, 0, pairs).into()
}
fn tile(l: MemLocId) -> Operand {
    ap(l, Dtype::Float32, &[(P, 128), (1, 64)])
}

/// Locations of the clean program's modules, in the order in which they are added.
const X: usize = 0;
const Y: usize = 1;
const A: usize = 2;
const B: usize = 3;
const PS: usize = 4;
const PS2: usize = 5;
const U: usize = 6;
const ALIAS: usize = 7;

fn at(i: usize) -> MemLocId {
    MemLocId::new(i)
}

fn module(core: u32) -> Module {
    use MemoryType::{Dram, Psum, Sb};
    let mut m = Module::new(&format!("nc0{core}"), Some(CoreId(core)), ArchLevel::Gen3);
    let f = m.add_function("main");
    add(&mut m, "x", TensorKind::ExternalInput, Dram, 0, &[128, 256]);
    add(&mut m, "y", TensorKind::ExternalOutput, Dram, 32768, &[128, 256]);
    add(&mut m, "a", TensorKind::Internal, Sb, 0, &[128, 256]);
    add(&mut m, "b", TensorKind::Internal, Sb, 256, &[128, 256]);
    add(&mut m, "ps", TensorKind::Internal, Psum, 0, &[128, 256]);
    let ps2 = add(&mut m, "ps2", TensorKind::Internal, Psum, 0, &[128, 256]);
    m.memlocs[ps2].bank = 7;
    add(&mut m, "u", TensorKind::Internal, Sb, 4096, &[128, 2048]);
    let alias = add(&mut m, "a_remote", TensorKind::Internal, Sb, 0, &[128, 256]);
    m.memlocs[alias].remote_local_target = Some(RemoteTarget { name: "a".into(), core: CoreId(1 - core) });
    let r = m.regs.push(Register { name: "r".into(), engine: EngineKind::All, num_physical: 1, extra: None });
    m.funcs[f].storages.push(Storage::Register(r));
    let b0 = m.add_block(f, "b0");
    let b1 = m.add_block(f, "b1");
    let mut put =
        |b, name: &str, op, ins: Vec<Operand>, outs: Vec<Operand>, attrs: Vec<(Attr, AttrValue)>| {
            let mut i = Inst::new(name, op);
            i.ins = ins;
            i.outs = outs;
            for (a, v) in attrs {
                i.set(a, v);
            }
            m.push_inst(b, i)
        };
    let add = (Attr::Op, AluOp::Add.into());
    put(b0, "ld", Opcode::DmaCopy, vec![tile(at(X))], vec![tile(at(A))], vec![]);
    put(b0, "swap", Opcode::GpsimdSb2Sb, vec![tile(at(A))], vec![tile(at(B))], vec![]);
    put(b0, "pull", Opcode::DmaCopy, vec![tile(at(ALIAS))], vec![tile(at(B))], vec![]);
    let bar = put(b0, "bar", Opcode::CoreBarrier, vec![], vec![], vec![(Attr::Cores, vec![0i64, 1].into())]);
    put(b0, "tt", Opcode::TensorTensor, vec![tile(at(A)), tile(at(B))], vec![tile(at(A))], vec![add.clone()]);
    let k = |l| ap(l, Dtype::Float32, &[(P, 64), (1, 64)]);
    put(b0, "mm", Opcode::Matmult, vec![k(at(A)), k(at(B))], vec![k(at(PS))], vec![]);
    let axis = |a: AxisListType| (Attr::Axis, a.into());
    let one = |l| ap(l, Dtype::Float32, &[(P, 128), (1, 1)]);
    put(
        b0,
        "red",
        Opcode::TensorReduce,
        vec![tile(at(A))],
        vec![one(at(B))],
        vec![add.clone(), axis(AxisListType::X)],
    );
    put(b0, "cp", Opcode::TensorCopy, vec![k(at(PS))], vec![k(at(B))], vec![]);
    let u32s = |n| ap(at(U), Dtype::Uint32, &[(512, 128), (1, n)]);
    let bits = vec![
        (Attr::Op0, AluOp::LogicalShiftLeft.into()),
        (Attr::Op1, AluOp::BitwiseAnd.into()),
        (Attr::Reverse0, false.into()),
        (Attr::Reverse1, false.into()),
    ];
    let imm = |v| Operand::Imm(Immediate::i32(v));
    put(b0, "bits", Opcode::TensorScalarPtr, vec![u32s(8), imm(3), imm(255)], vec![u32s(8)], bits);
    let mask: Vec<i64> = (0..32).rev().collect();
    put(
        b0,
        "sh",
        Opcode::StreamShuffle,
        vec![tile(at(A))],
        vec![tile(at(B))],
        vec![(Attr::Mask, mask.into())],
    );
    let reg = Operand::Reg(RegAccess { reg: r, dtype: Dtype::Int32 });
    let cmp = vec![
        (Attr::CompOp, BranchCompareOp::LtImm.into()),
        (Attr::OnTrue, "b0".into()),
        (Attr::OnFalse, "b1".into()),
    ];
    put(b0, "br", Opcode::CompareAndBranch, vec![reg, imm(3)], vec![], cmp);
    put(b1, "st", Opcode::DmaCopy, vec![tile(at(A))], vec![tile(at(Y))], vec![]);
    put(b1, "ret", Opcode::Return, vec![], vec![], vec![]);
    let tt = InstId::new(4);
    m.insts[tt].add_dep(tt, bar, EdgeKind::Ordered);
    m
}

fn clean() -> Program {
    Program {
        name: "k".into(),
        lnc_size: 2,
        level: Level::Lowered,
        modules: vec![module(0), module(1)],
        locs: diag::LocTable::default(),
        constants: Default::default(),
        signature: Signature::default(),
    }
}

fn find(m: &mut Module, name: &str) -> InstId {
    m.insts.iter().find(|(_, i)| i.name == name).map(|(k, _)| k).unwrap()
}

fn codes_of(p: &Program) -> Vec<Code> {
    match verify(p) {
        Ok(_) => vec![],
        Err(d) => d.iter().map(|d| d.code).collect(),
    }
}

/// Applies a change to module 0 of the clean program.
fn case(change: impl Fn(&mut Module)) -> Vec<Diagnostic> {
    let mut p = clean();
    change(&mut p.modules[0]);
    verify(&p).err().unwrap_or_default()
}

/// Applies a change to one instruction.
fn inst(name: &str, change: impl Fn(&mut Inst)) -> Vec<Diagnostic> {
    case(|m| {
        let i = find(m, name);
        change(&mut m.insts[i]);
    })
}

fn expect(found: Vec<Diagnostic>, code: Code, text: &str) {
    assert!(!found.is_empty(), "{code} not raised");
    for d in &found {
        assert_eq!(d.code, code, "{found:#?}");
        assert!(!d.sites.is_empty() || code == codes::V0107 || code == codes::V0701, "{d:?}");
    }
    assert!(found[0].message.contains(text), "{code}: {}", found[0].message);
}

#[test]
fn the_clean_program_passes_and_places_are_known() {
    let p = clean();
    let v = verify(&p).unwrap_or_else(|d| panic!("{d:#?}"));
    let (f, b) = v.place(0, InstId::new(0)).unwrap();
    assert_eq!((p.modules[0].funcs[f].name.as_str(), p.modules[0].blocks[b].name.as_str()), ("main", "b0"));
    assert_eq!(v.blocks(1).len(), 2);
}

#[test]
fn ids_group() {
    expect(
        inst("tt", |i| i.ins[0].as_ap_mut().unwrap().loc = MemLocId::new(99)),
        codes::V0101,
        "input 0 (in0) of `tt`",
    );
    expect(case(|m| m.functions.push(FuncId::new(7))), codes::V0101, "function fn7");
    expect(
        case(|m| {
            let b = m.funcs[FuncId::new(0)].blocks[0];
            m.blocks[b].insts.push(InstId::new(500));
        }),
        codes::V0101,
        "i500",
    );
    expect(case(|m| m.memlocs[at(A)].set = SetId::new(44)), codes::V0101, "`a` belongs to set44");
    expect(
        case(|m| {
            let b = m.funcs[FuncId::new(0)].blocks[1];
            m.blocks[b].insts.insert(0, InstId::new(0));
        }),
        codes::V0102,
        "`ld` (DMACopy) is listed twice",
    );
    expect(
        case(|m| {
            let (b, i) = (m.funcs[FuncId::new(0)].blocks[1], find(m, "st"));
            m.insts[i].more_mut().regions = vec![b];
        }),
        codes::V0102,
        "inside itself",
    );
    expect(case(|m| m.blocks[BlockId::new(1)].name = "b0".into()), codes::V0103, "two blocks");
    expect(case(|m| m.insts[InstId::new(1)].name = "ld".into()), codes::V0103, "two instructions");
    expect(case(|m| m.memlocs[at(B)].name = "a".into()), codes::V0103, "two locations");
    let missing = inst("br", |i| i.set(Attr::OnTrue, "nowhere"));
    expect(missing.clone(), codes::V0104, "`nowhere`");
    assert!(missing[0].notes[0].contains("BasicBlock does not exist!"));
    expect(
        case(|m| {
            let b = m.funcs[FuncId::new(0)].blocks[0];
            m.blocks[b].insts.retain(|i| *i != InstId::new(3));
        }),
        codes::V0105,
        "`tt` (TensorTensor) depends on `bar`",
    );
    expect(
        case(|m| {
            let i = find(m, "ld");
            m.insts[i].deps.push(Dep { inst: i, kind: EdgeKind::Flow });
        }),
        codes::V0105,
        "depends on itself",
    );
    expect(
        case(|m| {
            let b = m.funcs[FuncId::new(0)].blocks[1];
            m.blocks[b].insts.reverse();
        }),
        codes::V0106,
        "follows the terminator `ret`",
    );
    let mut p = clean();
    p.modules.swap(0, 1);
    assert_eq!(codes_of(&p), [codes::V0107, codes::V0107]);
    p = clean();
    p.modules.pop();
    assert_eq!(codes_of(&p), [codes::V0107]);
    p = clean();
    p.modules[1].arch = ArchLevel::CoreV4;
    assert_eq!(codes_of(&p), [codes::V0107]);
}

#[test]
fn memory_group() {
    expect(case(|m| m.memlocs[at(A)].set = m.memlocs[at(B)].set), codes::V0201, "`a_set` lists location `a`");
    expect(case(|m| m.memlocs[at(A)].dims = [128u64].into_iter().collect()), codes::V0202, "1 dimensions");
    expect(case(|m| m.memlocs[at(X)].dims = [u64::MAX, 3].into_iter().collect()), codes::V0202, "no size");
    expect(
        case(|m| m.memlocs[at(A)].dims = [129u64, 256].into_iter().collect()),
        codes::V0203,
        "129 partitions",
    );
    expect(case(|m| m.memlocs[at(A)].addr = 229_376 - 255), codes::V0203, "ends at byte 229377");
    expect(case(|m| m.memlocs[at(PS2)].addr = 2048 - 255), codes::V0203, "PSUM has 16384");
    expect(case(|m| m.memlocs[at(A)].base = 32), codes::V0203, "partitions 32..160");
    expect(case(|m| m.memlocs[at(Y)].addr = 48 << 30), codes::V0203, "the window has");
    assert!(case(|m| m.memlocs[at(A)].addr = 229_376 - 256).is_empty(), "the array size itself is legal");
    expect(case(|m| m.memlocs[at(Y)].addr = 32767), codes::V0204, "share DRAM bytes 32767..32768");
    assert!(
        case(|m| {
            m.memlocs[at(Y)].addr = 0;
            m.memlocs[at(Y)].aliases.push(("x_set".into(), "x".into(), 3));
        })
        .is_empty(),
        "a declared alias may overlap"
    );
    expect(
        case(|m| {
            m.memlocs[at(PS)].remote_local_target = Some(RemoteTarget { name: "ps".into(), core: CoreId(1) })
        }),
        codes::V0205,
        "PSUM is never visible",
    );
    expect(
        case(|m| {
            m.memlocs[at(ALIAS)].remote_local_target =
                Some(RemoteTarget { name: "a".into(), core: CoreId(0) })
        }),
        codes::V0205,
        "its own memory",
    );
    expect(
        case(|m| m.memlocs[at(A)].aliases.push(("b_set".into(), "b".into(), 1))),
        codes::V0206,
        "SB location `a`",
    );
}

#[test]
fn the_printed_example_with_one_shared_x_and_y_at_zero_is_refused() {
    let mut p = clean();
    for m in &mut p.modules {
        for l in [at(X), at(Y)] {
            m.memlocs[l].addr = 0;
            let s = m.memlocs[l].set;
            m.sets[s].addr_space = AddressSpace::Shared;
        }
    }
    let d = verify(&p).unwrap_err();
    expect(
        d.clone(),
        codes::V0204,
        "`x` (ExternalInput) and `y` (ExternalOutput) share shared DRAM bytes 0..32768",
    );
    assert!(d[0].notes[0].contains("every core that writes it writes the same bytes"), "{d:?}");
}

#[test]
fn types_group() {
    expect(inst("tt", |i| i.ins.truncate(1)), codes::V0301, "has 1 inputs, its type takes 2");
    expect(inst("tt", |i| i.outs.push(tile(at(A)))), codes::V0301, "has 2 outputs, its type takes 1");
    expect(
        inst("cp", |i| i.ins[0] = Immediate::f32(1.0).into()),
        codes::V0302,
        "is an immediate, it must be memory",
    );
    expect(inst("br", |i| i.ins[0] = Immediate::i32(1).into()), codes::V0302, "must be a register");
    expect(
        inst("red", |i| {
            i.attrs.remove(Attr::Axis);
        }),
        codes::V0303,
        "no attribute axis",
    );
    expect(inst("red", |i| i.set(Attr::Axis, 3i64)), codes::V0304, "axis");
    expect(inst("red", |i| i.set(Attr::Axis, AttrValue::Enum(77))), codes::V0304, "Enum(77)");
    let int = |l| ap(l, Dtype::Int32, &[(P, 128), (1, 64)]);
    assert!(inst("tt", |i| i.ins[1] = int(at(B))).is_empty(), "each input has a type of its own");
    expect(inst("sh", |i| i.outs[0] = int(at(B))), codes::V0305, "`sh`");
    // One row spread over a block of 32.
    let rows = |l, n| ap(l, Dtype::Float32, &[(P, n), (1, 64)]);
    let spread = |src, dst, mask: i64| {
        inst("sh", |i| {
            i.ins[0] = rows(at(A), src);
            i.outs[0] = rows(at(B), dst);
            i.set(Attr::Mask, vec![mask; 32]);
        })
    };
    assert!(spread(1, 32, 0).is_empty(), "row 0 goes to all");
    assert!(spread(33, 64, 0).is_empty(), "and so in every block");
    assert!(spread(1, 32, 255).is_empty(), "no row goes anywhere");
    expect(spread(1, 33, 0), codes::V0405, "row 32 goes to 32");
    expect(spread(1, 32, 1), codes::V0405, "row 1 goes to 0");
    let k = |l, d| ap(l, d, &[(if d == Dtype::Bfloat16 { 2 * P } else { P }, 64), (1, 64)]);
    expect(inst("mm", |i| i.ins[0] = k(at(A), Dtype::Bfloat16)), codes::V0305, "bfloat16 at input 0");
    assert!(
        inst("mm", |i| i.ins = vec![k(at(A), Dtype::Bfloat16), k(at(B), Dtype::Bfloat16)]).is_empty(),
        "two bfloat16 operands multiply"
    );
    expect(
        inst("mm", |i| i.ins = vec![k(at(A), Dtype::Int32), k(at(B), Dtype::Int32)]),
        codes::V0306,
        "input 0 (moving) of `mm` (Matmult) is int32",
    );
    expect(inst("mm", |i| i.outs[0] = k(at(PS), Dtype::Bfloat16)), codes::V0306, "output 0 (dst)");
    expect(
        inst("bits", |i| i.set(Attr::Op1, AluOp::Add)),
        codes::V0307,
        "combines logical_shift_left with add",
    );
    expect(inst("bits", |i| i.engine = EngineKind::Pool), codes::V0307, "on Pool");
    expect(
        inst("bits", |i| i.ins[0].as_ap_mut().unwrap().dtype = Dtype::Float32),
        codes::V0307,
        "works on integers",
    );
    expect(inst("tt", |i| i.opcode = Opcode::MatmultBase), codes::V0308, "abstract base");
    let fp8 = Immediate { dtype: Dtype::Float8E4, value: ImmValue::Int(1) };
    expect(inst("bits", |i| i.ins[1] = fp8.into()), codes::V0309, "float8e4");
    expect(inst("sh", |i| i.set(Attr::Mask, vec![0i64; 31])), codes::V0310, "31 entries");
    expect(inst("sh", |i| i.set(Attr::Mask, vec![32i64; 32])), codes::V0310, "mask entry 32");
    expect(inst("ld", |i| i.set(Attr::CceOp, AluOp::Mult)), codes::V0310, "folds with mult");
}

#[test]
fn bounds_group() {
    expect(inst("tt", |i| i.ins[0].as_ap_mut().unwrap().pairs.clear()), codes::V0401, "input 0 (in0)");
    expect(inst("tt", |i| i.ins[0].as_ap_mut().unwrap().pairs[1].num = 0), codes::V0401, "empty");
    expect(inst("ld", |i| i.ins[0].as_ap_mut().unwrap().offset = 1), codes::V0402, "1..=8192 of `x`");
    expect(inst("ld", |i| i.ins[0].as_ap_mut().unwrap().offset = -1), codes::V0402, "-1..=8190");
    expect(
        inst("ld", |i| i.outs[0].as_ap_mut().unwrap().offset = P),
        codes::V0402,
        "partitions 1..=128 of `a`",
    );
    expect(
        inst("cp", |i| i.outs[0].as_ap_mut().unwrap().offset = 1),
        codes::V0403,
        "crosses the partition pitch",
    );
    expect(inst("cp", |i| i.outs[0].as_ap_mut().unwrap().pairs[0].step = 63), codes::V0403, "not a multiple");
    expect(
        case(|m| {
            // 64 partitions from 64 fit the array but the pattern's own rows reach past the last partition.
            m.memlocs[at(B)].dims = [64u64, 256].into_iter().collect();
            m.memlocs[at(B)].base = 64;
        }),
        codes::V0402,
        "of `b`",
    );
    expect(
        inst("cp", |i| i.outs[0].as_ap_mut().unwrap().offset = 32 * P),
        codes::V0404,
        "64 partitions from partition 32",
    );
    assert!(inst("cp", |i| i.outs[0].as_ap_mut().unwrap().offset = 64 * P).is_empty(), "64 from 64 is legal");
    assert!(
        inst("ld", |i| {
            for o in [&mut i.ins[0], &mut i.outs[0]] {
                let a = o.as_ap_mut().unwrap();
                (a.offset, a.pairs[0].num) = (5 * P, 70);
            }
        })
        .is_empty(),
        "a mover starts anywhere"
    );
    expect(
        inst("tt", |i| i.outs[0] = ap(at(A), Dtype::Float32, &[(P, 128), (1, 32)])),
        codes::V0405,
        "8192 elements, 4096",
    );
    expect(inst("ld", |i| i.outs[0] = ap(at(A), Dtype::Float32, &[(P, 128), (1, 32)])), codes::V0405, "`ld`");
    expect(inst("red", |i| i.outs[0] = tile(at(B))), codes::V0405, "output 0 (dst) of `red`");
    expect(
        inst("mm", |i| i.outs[0] = ap(at(PS), Dtype::Float32, &[(P, 64), (1, 32)])),
        codes::V0405,
        "writes 64 x 32 elements, the product has 64 x 64",
    );
    expect(
        inst("mm", |i| i.ins[0] = ap(at(A), Dtype::Float32, &[(P, 32), (1, 64)])),
        codes::V0405,
        "32 rows of the moving tile with 64",
    );
    expect(
        inst("mm", |i| i.outs[0] = ap(at(B), Dtype::Float32, &[(P, 64), (1, 64)])),
        codes::V0406,
        "lies in SB",
    );
    expect(
        inst("mm", |i| i.ins[0] = ap(at(PS2), Dtype::Float32, &[(P, 64), (1, 64)])),
        codes::V0406,
        "lies in PSUM",
    );
    expect(inst("tt", |i| i.ins[0] = tile(at(X))), codes::V0406, "lies in DRAM");
    expect(inst("cp", |i| i.engine = EngineKind::Pool), codes::V0406, "PSUM (`ps`) on engine Pool");
    expect(
        inst("tt", |i| i.ins = vec![tile(at(PS)), tile(at(PS2))]),
        codes::V0406,
        "both of its tensor inputs",
    );
    assert!(inst("tt", |i| i.ins = vec![tile(at(PS)), tile(at(B))]).is_empty(), "one input in PSUM is legal");
    let wide = |d| ap(at(U), Dtype::Float32, &[(512, 64), (1, d)]);
    expect(inst("mm", |i| i.ins[1] = wide(129)), codes::V0407, "stationary columns is 129");
    expect(
        inst("red", |i| i.set(Attr::Axis, AxisListType::Xy)),
        codes::V0408,
        "folds 2 pairs of a pattern of 2",
    );
}

#[test]
fn the_base_of_an_unallocated_location_counts_for_nothing() {
    let moved = |m: &mut Module| (m.memlocs[at(U)].allocated, m.memlocs[at(U)].base) = (false, 1);
    assert!(case(moved).is_empty());
    expect(case(|m| m.memlocs[at(U)].base = 1), codes::V0203, "`u`");
}

#[test]
fn engines_sync_and_arch_groups() {
    let m = inst("tt", |i| {
        *i = Inst::new("tt", Opcode::Memset).with(Attr::Mode, MemsetMode::Const).with(Attr::Constant, 0i64);
        i.outs = vec![tile(at(A))];
        i.engine = EngineKind::Activation;
    });
    expect(m, codes::V0501, "cannot run on Activation");
    let wait = |sem| SyncInfo {
        on_wait: vec![SemWait { sem, value: 1, ..SemWait::default() }],
        ..SyncInfo::default()
    };
    expect(inst("tt", |i| i.more_mut().sync = Some(wait(256))), codes::V0601, "semaphore 256");
    assert!(inst("tt", |i| i.more_mut().sync = Some(wait(255))).is_empty());
    let update = SemUpdate { sem: 1, value: 1, target_core: Some(2), extra: None };
    let sync = SyncInfo { on_update: vec![update], ..SyncInfo::default() };
    expect(inst("tt", |i| i.more_mut().sync = Some(sync.clone())), codes::V0603, "core 2");
    expect(inst("bar", |i| i.set(Attr::Cores, vec![0i64, 2])), codes::V0602, "lists core 2");
    expect(inst("bar", |i| i.set(Attr::Cores, vec![1i64])), codes::V0602, "without its own");

    let mut p = clean();
    p.lnc_size = 3;
    let d = verify(&p).unwrap_err();
    assert!(d.iter().any(|d| d.message == "LNC size must be 1 or 2, got 3"), "{d:#?}");
    p = clean();
    p.lnc_size = 1;
    p.modules.pop();
    for i in ["swap", "bar", "pull"] {
        let i = find(&mut p.modules[0], i);
        p.modules[0].blocks[BlockId::new(0)].insts.retain(|x| *x != i);
        p.modules[0].insts[InstId::new(4)].deps.clear();
    }
    p.modules[0].memlocs[at(ALIAS)].remote_local_target = None;
    assert!(codes_of(&p).is_empty(), "one core without barriers is clean: {:?}", codes_of(&p));
    let b = Inst::new("bar2", Opcode::CoreBarrier);
    let id = p.modules[0].insts.push(b);
    p.modules[0].blocks[BlockId::new(0)].insts.insert(0, id);
    assert_eq!(codes_of(&p), [codes::V0703]);
    p.modules[0].arch = ArchLevel::Sunda;
    assert_eq!(codes_of(&p), [codes::V0702]);
    p.modules[0].arch = ArchLevel::CoreV5;
    assert!(codes_of(&p).contains(&codes::V0706));

    let d = inst("swap", |i| {
        let wide = ap(at(U), Dtype::Float32, &[(512, 64), (1, 257)]);
        (i.ins, i.outs) = (vec![wide.clone()], vec![wide]);
    });
    expect(d.clone(), codes::V0704, "C8 does not hold");
    assert!(d[0].notes.iter().any(|n| n.contains("1028")), "{d:?}");
    expect(inst("swap", |i| i.engine = EngineKind::Dma), codes::V0704, "V1 does not hold");
    expect(inst("tt", |i| i.ins[1] = tile(at(ALIAS))), codes::V0705, "an alias of `a` on core 1");
}

#[test]
fn findings_are_capped_and_counted() {
    let mut p = clean();
    let m = &mut p.modules[0];
    for i in m.insts.values_mut() {
        i.more_mut().sync = Some(SyncInfo {
            on_wait: vec![SemWait { sem: 999, ..SemWait::default() }],
            ..SyncInfo::default()
        });
    }
    let n = m.insts.len();
    let d = tandem_bir::verify::verify_with(&p, &tandem_bir::verify::VerifyOptions { max_findings: 3 })
        .unwrap_err();
    assert_eq!(d.len(), 3);
    assert!(d[2].notes.iter().any(|x| x.contains(&format!("{} more findings", n - 3))), "{d:?}");
}

#[test]
fn every_verifier_code_has_a_test() {
    let text = include_str!("verify.rs");
    for c in codes::ALL.iter().filter(|c| c.info().id.starts_with('V')) {
        assert!(text.contains(&format!("codes::{}", c.info().id)), "{c} has no test");
    }
}
