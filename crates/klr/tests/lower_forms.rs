//! Fan-outs on both sides of their predicates, access forms, blocks, names, edges, borders. Expected numbers are
//! worked out by hand from the rules of the specification, file 04; the trace is its §14.

mod kernels;

use kernels::*;
use std::sync::Arc;
use tandem_bir::{
    AddressSpace, AluOp as A, ApPair, ArchLevel, Attr, BirEnum, CollectiveKind, CopyMode, EdgeKind,
    EngineKind, Expr, Inst, MemoryType, Module, Opcode, Operand as O, TensorKind, TransposeOps as T,
};
use tandem_klr::ast::*;
use tandem_klr::build::{self, float, int};
use tandem_klr::lower::{LocalAllReduce, LowerOptions, RanksAre, lower};

fn m(k: LncKernel) -> Module {
    good(run(k)).modules.swap_remove(0)
}
fn copy(dst: TensorRef, src: TensorRef, compute_op: DgeComputeOp, unique_indices: bool) -> Operator {
    Operator::NcDmaCopy(NcDmaCopy {
        dst,
        src,
        compute_op,
        oob_mode: DmaBounds::Error,
        dge_mode: 0,
        unique_indices,
        priority: None,
        engine: Engine::Unassigned,
    })
}
fn tcopy(dst: TensorRef, src: TensorRef) -> Operator {
    Operator::NcCopy(NcCopy { dst, src, dtype: None, engine: Engine::Pool })
}
fn set(reg: &str) -> Operator {
    Operator::RegisterMove(RegisterMove { dst: Str::new(reg), imm: 3 })
}
fn fill(dst: TensorRef, value: Immediate, dtype: Dtype, engine: Engine) -> Operator {
    Operator::MemSet(MemSet { dst, value, dtype, engine })
}
fn zero(name: &str, engine: Engine) -> Operator {
    fill(t(name), float(0.0), Dtype::Float32, engine)
}
fn indices() -> TensorRef {
    tile("i", Dtype::Int32, &[128, 1])
}
fn branch(op: BrCmpOp, reg2: &str, yes: &str, no: &str) -> Operator {
    Operator::CmpBranch(CmpBranch {
        reg1: Str::new("r"),
        reg2: Str::new(reg2),
        imm: -7,
        op,
        true_label: Str::new(yes),
        false_label: Str::new(no),
    })
}
fn block(label: &str, body: Vec<Stmt>) -> Block {
    build::block(label, body)
}
fn no_reorder(label: &str, body: Vec<Stmt>) -> Block {
    Block { no_reorder: true, ..build::block(label, body) }
}
fn ap(i: &Inst, out: bool, n: usize) -> &tandem_bir::AccessPattern {
    let list = if out { &i.outs } else { &i.ins };
    list[n].as_ap().expect("an access")
}
fn pairs(a: &tandem_bir::AccessPattern) -> Vec<(i64, u64)> {
    a.pairs.iter().map(|p| (p.step, p.num)).collect()
}
fn location<'m>(m: &'m Module, name: &str) -> &'m tandem_bir::MemoryLocation {
    &m.memlocs[m.find_location(m.functions[0], name).expect(name)]
}
fn space(m: &Module, name: &str) -> (TensorKind, AddressSpace) {
    let s = m.set_of(m.find_location(m.functions[0], name).expect(name));
    (s.kind, s.addr_space)
}
fn deps(m: &Module, name: &str) -> Vec<(String, EdgeKind)> {
    by_name(m, name).deps.iter().map(|d| (m.insts[d.inst].name.to_string(), d.kind)).collect()
}
fn ordered(names: &[&str]) -> Vec<(String, EdgeKind)> {
    names.iter().map(|n| (n.to_string(), EdgeKind::Ordered)).collect()
}

// ---- fan-outs ----

#[test]
fn f1_copy_by_run_time_offset() {
    let reg = || moved("h", Ok("r"), true);
    let acc = || moved("h", Err(tile("one", Dtype::Int32, &[1, 1])), true);
    for (dst, src, it, ins) in [
        (t("a"), t("b"), Opcode::TensorCopy, "A"),
        (t("a"), reg(), Opcode::TensorCopyDynamicSrc, "AR"),
        (reg(), t("b"), Opcode::TensorCopyDynamicDst, "AR"),
        (t("a"), acc(), Opcode::TensorCopyDynamicSrc, "AA"),
    ] {
        let m = m(one_core(vec![set("r"), tcopy(dst, src)]));
        let i = by_name(&m, "s1");
        assert_eq!((i.opcode, i.engine, letters(&i.ins).as_str()), (it, EngineKind::Pool, ins));
        assert!(ap(i, false, 0).is_static() && ap(i, true, 0).is_static());
        if it != Opcode::TensorCopy {
            // [8, 128, 64] moved along dimension 0: 128 * 64 elements per index
            assert_eq!(i.get_int(Attr::Scale), Some(8192));
        }
    }
}

#[test]
fn a_sum_with_a_run_time_source_accumulates() {
    let vector = || moved("h", Err(indices()), false);
    let sum = |dst: TensorRef, srcs: Vec<TensorRef>, scale: f32| {
        Operator::DmaCompute(DmaCompute {
            scales: vec![float(1.0), float(scale)],
            dst,
            srcs,
            reduce_op: AluOp::Add,
        })
    };
    for (dst, srcs) in [
        (t("a"), vec![vector(), t("a")]),
        (t("a"), vec![t("a"), vector()]),
        (vector(), vec![vector(), t("a")]),
    ] {
        let m = m(one_core(vec![sum(dst, srcs, 1.0)]));
        let i = by_name(&m, "s0");
        assert_eq!(
            (i.opcode, letters(&i.ins), letters(i.indirection_ins())),
            (Opcode::DmaCopy, "A".into(), "A".into())
        );
        assert_eq!(i.get_enum::<A>(Attr::CceOp), Some(A::Add));
        assert_eq!(i.get_enum::<CopyMode>(Attr::Mode).unwrap_or(CopyMode::Copy), CopyMode::Copy);
    }
    // Other forms, and all of them under the vendor's rules, take no run-time access.
    for (o, strict) in [
        (sum(t("a"), vec![vector(), t("a")], 0.5), false),
        (sum(t("a"), vec![vector(), t("b")], 1.0), false),
        (sum(t("a"), vec![vector(), t("a")], 1.0), true),
    ] {
        let k = one_core(vec![o]);
        let l = if strict { run_strict(k) } else { run(k) };
        assert!(l.diags.iter().any(|d| d.code.info().id == "K0014"), "{:?}", l.diags);
    }
}

#[test]
fn f2_dma_copy_or_scatter() {
    let vector = || moved("h", Err(indices()), false);
    use DgeComputeOp::{Add, None as Keep};
    for (dst, compute, unique, it, cce) in [
        (t("a"), Keep, false, Opcode::DmaCopy, A::Bypass),
        (t("a"), Keep, true, Opcode::DmaCopy, A::Bypass),
        (vector(), Keep, false, Opcode::DmaCopy, A::Bypass),
        (vector(), Add, true, Opcode::DmaCopy, A::Add),
        (t("a"), Add, true, Opcode::DmaCopy, A::Add),
        (t("a"), Add, false, Opcode::DmaCopy, A::Add),
        (vector(), Add, false, Opcode::GenericIndirectSave, A::Bypass),
    ] {
        let m = m(one_core(vec![copy(dst, t("b"), compute, unique)]));
        let i = by_name(&m, "s0");
        assert_eq!(i.opcode, it);
        if it == Opcode::DmaCopy {
            assert_eq!(i.get_enum::<A>(Attr::CceOp), Some(cce));
        } else {
            assert_eq!(i.get_enum::<A>(Attr::Op), Some(A::Add));
            assert_eq!(i.get_ints(Attr::IndirectDims), [0]);
            assert_eq!(letters(i.indirection_ins()), "A");
        }
    }
    let unnamed = |op| {
        let mut k = one_core(vec![set("r"), op]);
        k.bodies[0][0].body[1].name = None;
        insts(&m(k))[1].name.to_string()
    };
    assert_eq!(unnamed(copy(t("a"), t("b"), Keep, false)), "dma_copy_1");
    assert_eq!(unnamed(copy(t("a"), moved("h", Ok("r"), true), Keep, false)), "DynamicDMACopy-1");
    assert_eq!(unnamed(copy(vector(), t("b"), Add, false)), "IndirectSaveAccumulate-1");
}

#[test]
fn f3_transpose_on_vector_or_tensor_engine() {
    let transpose = |dst, src| Operator::Transpose(Transpose { dst, src, dtype: None, engine: Engine::Dve });
    let f32s = m(one_core(vec![transpose(
        tile("a", Dtype::Float32, &[32, 16]),
        tile("b", Dtype::Float32, &[16, 32]),
    )]));
    assert_eq!(kinds(&f32s), [(Opcode::StreamTranspose, EngineKind::Unassigned)]);

    let into = |memory| build::whole(&build::tensor("p", Dtype::Bfloat16, memory, &[64, 128]));
    let bf = || tile("b", Dtype::Bfloat16, &[128, 64]);
    let m2 = m(one_core(vec![transpose(into(Memory::Psum), bf()), transpose(into(Memory::Psum), bf())]));
    let names: Vec<_> = insts(&m2).iter().map(|i| (i.name.to_string(), i.opcode)).collect();
    let id = "COMPILER-GENERATED-id.bfloat16";
    assert_eq!(
        names,
        [
            (format!("{id}_memset"), Opcode::Memset),
            (format!("{id}=IDAffineSelect(mask,fill=1)"), Opcode::TensorScalarAffineSelect),
            ("s0".into(), Opcode::Matmult),
            ("s1".into(), Opcode::Matmult),
        ]
    );
    let eye = by_name(&m2, &format!("{id}=IDAffineSelect(mask,fill=1)"));
    assert_eq!((eye.get_int(Attr::Base), eye.get_int(Attr::ChannelMultiplier)), (Some(0), Some(-1)));
    assert_eq!((eye.get_enum(Attr::CompareOp), eye.get_f32(Attr::FillValue)), (Some(A::NotEqual), Some(1.0)));
    let mm = by_name(&m2, "s0");
    assert!(mm.get_bool(Attr::IsTranspose) && mm.engine == EngineKind::Pe);
    assert_eq!(m2.memlocs[ap(mm, false, 0).loc].name, "b");
    assert_eq!(m2.memlocs[ap(mm, false, 1).loc].name, id);
    // 2.24 decides by the element type alone
    let strict = good(run_strict(one_core(vec![transpose(into(Memory::Sbuf), bf())])));
    assert_eq!(by_name(&strict.modules[0], "s0").opcode, Opcode::Matmult);
}

#[test]
fn f4_match_replace_with_and_without_indexes() {
    for (dst_idx, it, outs) in [
        (None, Opcode::MatchReplace, "A"),
        (Some(tile("x", Dtype::Uint32, &[128, 8])), Opcode::MaxIndexAndMatchReplace, "AA"),
    ] {
        let op = MatchReplace8 {
            dst: t("a"),
            src: t("b"),
            vals: tile("v", Dtype::Float32, &[128, 8]),
            replace_value: float(-1.0),
            dst_idx,
            dtype: None,
        };
        let m = m(one_core(vec![Operator::MatchReplace8(op)]));
        let i = by_name(&m, "s0");
        assert_eq!((i.opcode, letters(&i.outs).as_str(), i.get_f32(Attr::ImmValue)), (it, outs, Some(-1.0)));
    }
}

#[test]
fn f5_branches() {
    let end = || block("end.1", vec![build::stmt("fin", 90, set("r"))]);
    let kernel = |op| {
        let first = block("main.0", vec![build::stmt("set", 1, set("r")), build::stmt("br", 2, op)]);
        build::lnc("k", &[], &[], vec![vec![first, end()]])
    };
    let jump = m(kernel(branch(BrCmpOp::Always, "", "end.1", "")));
    let i = by_name(&jump, "br");
    assert_eq!(
        (i.opcode, i.engine, i.get_str(Attr::Target)),
        (Opcode::UnconditionalBranch, EngineKind::Unassigned, Some("end.1"))
    );
    let imm = m(kernel(branch(BrCmpOp::LtImm, "", "main.0", "end.1")));
    let i = by_name(&imm, "br");
    assert_eq!((i.opcode, letters(&i.ins).as_str()), (Opcode::CompareAndBranch, "RI"));
    assert_eq!(i.ins[1].as_imm().and_then(|i| i.as_int()), Some(-7));
    assert_eq!((i.get_str(Attr::OnTrue), i.get_str(Attr::OnFalse)), (Some("main.0"), Some("end.1")));
    let reg = m(kernel(branch(BrCmpOp::GtReg, "r", "main.0", "end.1")));
    assert_eq!(letters(&by_name(&reg, "br").ins), "RR");
    // into a noReorder block: no instruction, its statements follow
    let inlined = build::lnc(
        "k",
        &[],
        &[],
        vec![vec![
            block("main.0", vec![build::stmt("set", 1, set("r")), build::stmt("j0", 2, build::jump("n.1"))]),
            no_reorder(
                "n.1",
                vec![build::stmt("in", 3, set("r")), build::stmt("j1", 4, build::jump("end.1"))],
            ),
            end(),
        ]],
    );
    let m = m(inlined);
    let f = &m.funcs[m.functions[0]];
    let blocks: Vec<_> = f.blocks.iter().map(|b| m.blocks[*b].name.as_str()).collect();
    assert_eq!(blocks, ["main.0", "end.1"]);
    let names: Vec<_> = insts(&m).iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["set", "in", "j1", "fin"]);
}

// ---- accesses ----

fn one_access(r: TensorRef) -> (tandem_bir::AccessPattern, Module) {
    let m = m(one_core(vec![Operator::SetRngSeed(SetRngSeed { src: r })]));
    (ap(by_name(&m, "s0"), false, 0).clone(), m)
}

#[test]
fn access_forms() {
    let tensor = sb("a", Dtype::Float32, &[16, 4, 8]);
    let (a, _) = one_access(build::simple(&tensor));
    assert_eq!((a.offset, pairs(&a)), (0, vec![(32, 16), (1, 32)]));
    let basic = |indexes| {
        TensorRef::Abstract(Access::Basic(Box::new(AccessBasic { tensor: tensor.clone(), indexes })))
    };
    let slice = |l, u, step| Index::Slice(Slice { l, u, step });
    // rows 2..10 by 3, column 3, elements 1..8 by 2: offset 2*32 + 3*8 + 1
    let (a, _) = one_access(basic(vec![slice(2, 10, 3), Index::Coord(3), slice(1, 8, 2)]));
    assert_eq!((a.offset, pairs(&a)), (89, vec![(96, 3), (8, 1), (2, 4)]));
    // backwards: elements 7, 5, 3 of row 0
    let (a, _) = one_access(basic(vec![slice(0, 1, 1), Index::Coord(0), slice(7, 1, -2)]));
    assert_eq!((a.offset, pairs(&a)), (7, vec![(32, 1), (8, 1), (-2, 3)]));
    let with_offset = |step, num, offset| ApPairKlr { step, num, offset };
    let pattern = AccessPattern {
        tensor: tensor.clone(),
        par_num: 4,
        pattern: [with_offset(32, 4, 3), with_offset(8, 2, 1), with_offset(1, 8, 0)].into_iter().collect(),
        par_offset: 0,
        free_offset: 0,
        fixed_axis: vec![],
    };
    let (a, _) = one_access(TensorRef::Abstract(Access::Pattern(Box::new(pattern))));
    assert_eq!((a.offset, pairs(&a)), (104, vec![(32, 4), (8, 2), (1, 8)]));
    // the pairs' own offsets are already in a linear access
    let mut linear = build::bir(&tensor, 64, &[(32, 4), (1, 8)]);
    linear.pattern[0].offset = 2;
    let (a, _) = one_access(build::access(linear));
    assert_eq!((a.offset, pairs(&a)), (64, vec![(32, 4), (1, 8)]));
}

use tandem_klr::ast::ApPair as ApPairKlr;

#[test]
fn views_take_the_pitch_of_their_region() {
    // rows of 8 elements in partitions of 128 bytes = 32 elements
    let mut view = TensorName::clone(&sb("a", Dtype::Float32, &[16, 8]));
    view.address.free_size = 128;
    let view = Arc::new(view);
    // row 2, element 3, every second row
    let (a, m) = one_access(build::pattern(&view, 19, &[(16, 4), (1, 5)]));
    assert_eq!((a.offset, pairs(&a)), (2 * 32 + 3, vec![(64, 4), (1, 5)]));
    assert_eq!(location(&m, "a").dims.as_slice(), [16, 128]);
    let (a, _) = one_access(build::simple(&view));
    assert_eq!(pairs(&a), [(32, 16), (1, 8)]);
    // the same bytes as bfloat16: twice the elements per row and per partition
    let mut half = build::bir(&view, 16, &[(16, 4), (1, 16)]);
    half.dtype_override = Some(Dtype::Bfloat16);
    let (a, _) = one_access(build::access(half));
    assert_eq!((a.dtype.name(), a.offset, pairs(&a)), ("bfloat16", 64, vec![(64, 4), (1, 16)]));
    // DRAM is linear in the view's own elements
    let mut rows = TensorName::clone(&build::tensor("h", Dtype::Float32, Memory::Hbm, &[16, 8]));
    rows.address.free_size = 128;
    let (a, _) = one_access(build::pattern(&Arc::new(rows), 19, &[(16, 4), (1, 5)]));
    assert_eq!((a.offset, pairs(&a)), (19, vec![(16, 4), (1, 5)]));
}

#[test]
fn run_time_offsets_of_dma() {
    let ops = vec![set("r"), copy(t("a"), moved("h", Ok("r"), true), DgeComputeOp::None, false)];
    let m1 = m(one_core(ops));
    let d = ap(by_name(&m1, "s1"), false, 0).dynamic.clone().expect("dynamic");
    let reg = m1.regs.keys().next().expect("a register");
    assert_eq!((d.terms, d.indirect_dim, d.max_index), (vec![(8192, Expr::Reg(reg))], 0, Some(7)));
    // along dimension 1 the coefficient is 64, the last index 127
    let tensor = build::tensor("h", Dtype::Float32, Memory::Hbm, &[8, 128, 64]);
    let dim1 = build::with_register(build::bir(&tensor, 5, &[(8192, 8), (1, 64)]), "r", 1);
    let m2 = m(one_core(vec![
        set("r"),
        copy(tile("a", Dtype::Float32, &[8, 64]), dim1, DgeComputeOp::None, false),
    ]));
    let a = ap(by_name(&m2, "s1"), false, 0);
    let d = a.dynamic.clone().expect("dynamic");
    assert_eq!((a.offset, d.terms[0].0, d.indirect_dim, d.max_index), (5, 64, 1, Some(127)));
    // a vector of indices is the first indirection operand
    let m3 = m(one_core(vec![copy(t("a"), moved("h", Err(indices()), false), DgeComputeOp::None, false)]));
    let i = by_name(&m3, "s0");
    let d = ap(i, false, 0).dynamic.clone().expect("dynamic");
    assert!(d.is_vector() && d.terms == [(8192, Expr::IndirectArg(1))]);
    let O::Ap(index) = &i.indirection_ins()[0] else { panic!("an access") };
    assert_eq!(m3.memlocs[index.loc].name, "i");
}

// ---- memory ----

#[test]
fn addresses_of_the_file() {
    let sbuf = build::at(&sb("a", Dtype::Float32, &[32, 64]), 64, 4096);
    let psum = build::at(&build::tensor("p", Dtype::Float32, Memory::Psum, &[128, 64]), 0, 5000);
    let m = m(one_core(vec![
        tcopy(build::whole(&psum), build::whole(&psum)),
        tcopy(build::whole(&sbuf), build::whole(&sbuf)),
        zero("z", Engine::Dve),
    ]));
    let a = location(&m, "a");
    assert_eq!(
        (a.mem, a.allocated, a.base, a.addr, a.dims.as_slice()),
        (MemoryType::Sb, true, 64, 4096, &[32, 256][..])
    );
    assert!(m.set_of(m.find_location(m.functions[0], "a").expect("a")).do_not_rotate);
    let p = location(&m, "p");
    assert_eq!((p.mem, p.base, p.bank, p.addr), (MemoryType::Psum, 0, 2, 5000 - 2 * 2048));
    assert!(!location(&m, "z").allocated);
    // the last usable byte of trn2, in order
    let edge = build::whole(&build::at(&sb("e", Dtype::Float32, &[128, 64]), 0, 212_984 - 256));
    good(run(one_core(vec![fill(edge, float(0.0), Dtype::Float32, Engine::Dve)])));
}

#[test]
fn kinds_and_spaces_of_dram() {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let p = build::tensor("p", Dtype::Float32, Memory::PrivateHbm, &[128, 64]);
    let y = build::tensor("y", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let q = build::tensor("q", Dtype::Float32, Memory::PrivateHbm, &[128, 64]);
    let buf = build::tensor("buf", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let c = build::tensor("c", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let use_all = |own: &str| {
        let both = build::tensor("both", Dtype::Float32, Memory::Hbm, &[128, 64]);
        let hidden = build::tensor("hidden", Dtype::Float32, Memory::PrivateHbm, &[128, 64]);
        let own = build::tensor(own, Dtype::Float32, Memory::Hbm, &[128, 64]);
        [&both, &hidden, &own, &c]
            .into_iter()
            .map(|s| build::dma_copy(t("a"), build::whole(s)))
            .collect::<Vec<_>>()
    };
    let mut k = two_cores(use_all("own0"), use_all("own1"));
    k.inputs = vec![x.clone(), p];
    k.outputs = vec![y, x.clone(), q];
    k.shared_buffers = vec![buf, x];
    k.shared_constants.push(SharedConstantFile { name: Str::new("c"), file_name: Str::new("d/c.npy") });
    let load = |_: &str| Ok(vec![1, 2, 3]);
    let prog = good(lower(&k.into(), &LowerOptions::new(ArchLevel::Gen3, &load)));
    use AddressSpace::{Local, Shared};
    for (core, m) in prog.modules.iter().enumerate() {
        for (name, want) in [
            ("x", (TensorKind::ExternalInput, Shared)),
            ("p", (TensorKind::ExternalInput, Local)),
            ("y", (TensorKind::ExternalOutput, Shared)),
            ("q", (TensorKind::ExternalOutput, Local)),
            ("buf", (TensorKind::Internal, Shared)),
            ("both", (TensorKind::Internal, Shared)),
            ("hidden", (TensorKind::Internal, Local)),
            ("c", (TensorKind::Const, Local)),
        ] {
            assert_eq!(space(m, name), want, "{name}");
        }
        assert_eq!(space(m, &format!("own{core}")), (TensorKind::Internal, Local));
        // ids: inputs, outputs, shared buffers, then first use
        let ids = ["x", "p", "y", "q", "buf", "a", "both"].map(|n| location(m, n).tensor_id);
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
    }
    let ports = |list: &[tandem_bir::Port]| -> Vec<(String, String, Option<u32>)> {
        list.iter().map(|p| (p.name.clone(), p.location.to_string(), p.core.map(|c| c.0))).collect()
    };
    let own = |name: &str, core: u32| (format!("nc{core:02}:{name}"), name.to_string(), Some(core));
    let shared = |name: &str| (name.to_string(), name.to_string(), None);
    assert_eq!(ports(&prog.signature.inputs), [shared("x"), own("p", 0), own("p", 1)]);
    // the second output is the input, changed in place
    assert_eq!(ports(&prog.signature.outputs), [shared("y"), shared("x"), own("q", 0), own("q", 1)]);
    assert_eq!(prog.constants["d/c.npy"].as_ref(), [1, 2, 3]);
}

#[test]
fn one_core_has_no_prefix_and_nothing_shared() {
    let x = build::tensor("x", Dtype::Float32, Memory::PrivateHbm, &[128, 64]);
    let buf = build::tensor("buf", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let mut k = one_core(vec![]);
    k.inputs = vec![x.clone()];
    k.shared_buffers = vec![buf];
    let p = good(run(k));
    assert_eq!((p.signature.inputs[0].name.as_str(), p.signature.inputs[0].core), ("x", None));
    assert_eq!(space(&p.modules[0], "x"), (TensorKind::ExternalInput, AddressSpace::Local));
    assert_eq!(space(&p.modules[0], "buf"), (TensorKind::Internal, AddressSpace::Local));
}

#[test]
fn a_core_without_a_body_is_empty_but_bound() {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let mut k = one_core(vec![zero("a", Engine::Dve)]);
    k.inputs = vec![x];
    let l = lower(&k.into(), &LowerOptions { lnc_size: Some(2), ..options() });
    assert_eq!(l.diags.iter().map(|d| d.code.info().id).collect::<Vec<_>>(), ["K0003"]);
    let p = good(l);
    assert_eq!((p.lnc_size, p.modules[1].insts.len()), (2, 0));
    assert_eq!(space(&p.modules[1], "x"), (TensorKind::ExternalInput, AddressSpace::Shared));
}

// ---- compiler-made instructions ----

#[test]
fn zero_bias_is_made_once_per_size() {
    let act = |rows: u64| {
        Operator::NcActivate(NcActivate {
            dst: tile("a", Dtype::Float32, &[128, 64]),
            src: build::pattern(&sb("a", Dtype::Float32, &[128, 64]), 0, &[(64, rows), (1, 64)]),
            accumulator_cmd: AccumCmd::Idle,
            activation_func: ActivationFunc::Exp,
            scale: Operand::Imm(float(1.0)),
            bias: None,
            reduce_op: None,
            reduce_res: None,
            dtype: None,
        })
    };
    let m = m(one_core(vec![act(32), act(16), act(128), act(64)]));
    let names: Vec<_> = insts(&m).iter().map(|i| i.name.as_str()).collect();
    let fill = "COMPILER-GENERATED-memset_zero_bias_";
    assert_eq!(names, [format!("{fill}0").as_str(), &format!("{fill}1"), "s0", "s1", "s2", "s3"]);
    let bias: Vec<_> = ["s0", "s1", "s2", "s3"]
        .iter()
        .map(|s| m.memlocs[ap(by_name(&m, s), false, 1).loc].name.as_str())
        .collect();
    let tensor = "COMPILER-GENERATED-zero_bias_act_";
    assert_eq!(
        bias,
        [format!("{tensor}0"), format!("{tensor}0"), format!("{tensor}1"), format!("{tensor}1")]
    );
    let l = location(&m, &format!("{tensor}1"));
    assert_eq!((l.mem, l.dims.as_slice(), l.allocated), (MemoryType::Sb, &[128, 4][..], false));
}

#[test]
fn fills_convert_to_the_class_of_the_destination() {
    for (dtype, value, bits) in [
        (Dtype::Float32, float(1.0), 0x3f80_0000),
        (Dtype::Bfloat16, float(1.0), 0x3f80_0000),
        (Dtype::Float32, int(-2), 0xc000_0000u32),
        (Dtype::Int32, int(-2), 0xffff_fffe),
        (Dtype::Uint8, int(200), 200),
        (Dtype::Int32, float(-3.0), 0xffff_fffd),
        (Dtype::Uint32, float(4e9), 4_000_000_000),
    ] {
        let m = m(one_core(vec![fill(tile("a", dtype, &[128, 64]), value, dtype, Engine::Dve)]));
        assert_eq!(by_name(&m, "s0").get_int(Attr::Constant), Some(i64::from(bits)), "{dtype}");
    }
}

// ---- names, edges, order ----

#[test]
fn names_of_unnamed_and_repeated_statements() {
    let mut k = one_core(vec![
        zero("a", Engine::Dve),
        build::tensor_tensor(t("c"), t("a"), t("b"), AluOp::Add, Engine::Dve),
    ]);
    k.bodies[0][0].body.iter_mut().for_each(|s| s.name = None);
    let m1 = m(k);
    let names: Vec<_> = insts(&m1)
        .iter()
        .map(|i| (i.name.to_string(), i.more.as_ref().and_then(|m| m.label.clone())))
        .collect();
    let label = || Some("nki-op".into());
    assert_eq!(names, [("Memset-0".to_string(), label()), ("c=TensorTensor_add(a, b)".to_string(), label())]);

    let mut k = one_core(vec![zero("a", Engine::Dve), zero("a", Engine::Dve), zero("a", Engine::Dve)]);
    k.bodies[0][0].body.iter_mut().for_each(|s| s.name = Some("x".into()));
    let m2 = m(k);
    let names: Vec<_> = insts(&m2)
        .iter()
        .map(|i| (i.name.as_str(), i.more.as_ref().and_then(|m| m.label.as_deref())))
        .collect();
    assert_eq!(names, [("x", None), ("x.1", Some("x")), ("x.2", Some("x"))]);
}

#[test]
fn edges_reach_collectives_by_statement_name() {
    let swap = |peer| build::send_recv(t("b"), t("a"), peer, 0);
    let body = |peer| vec![zero("a", Engine::Dve), swap(peer), zero("c", Engine::Dve)];
    let mut k = two_cores(body(1), body(0));
    let edge = |from: &str, to: &str| Edges { from_edge: Str::new(from), to_edges: vec![Str::new(to)] };
    k.edges = vec![edge("s0", "s1"), edge("s1", "s2"), edge("s1", "s2"), edge("s2", "s2")];
    let p = good(run(k.clone()));
    for m in &p.modules {
        assert_eq!(deps(m, "LocalSendRecv-0"), ordered(&["s0"]));
        assert_eq!(deps(m, "s2"), ordered(&["LocalSendRecv-0"]));
    }
    let l = run_strict(k);
    assert!(l.program.is_none());
    assert!(
        l.diags.iter().all(|d| d.message == "s1 is not found, unable to complete dependency edge insertion")
    );
    assert_eq!(l.diags.len(), 6);
}

#[test]
fn no_reorder_keeps_engines_in_order() {
    let s = |n: &str, op| build::stmt(n, 1, op);
    let reduce = Operator::TensorReduce(TensorReduce {
        dst: tile("s", Dtype::Float32, &[128, 1]),
        src: t("a"),
        op: AluOp::Add,
        op_dim: TensorSubDim::X,
        negated: false,
        dtype: None,
        keepdims: false,
    });
    let body = vec![
        block("main.0", vec![s("before", zero("z", Engine::Dve)), s("j", build::jump("n.1"))]),
        no_reorder(
            "n.1",
            vec![
                s("v0", zero("a", Engine::Dve)),
                s("p0", zero("b", Engine::Pool)),
                s("v1", zero("c", Engine::Dve)),
                s("all", reduce), // no engine: against everything
                s("p1", zero("d", Engine::Pool)),
                s("v2", zero("e", Engine::Dve)),
                s("v3", zero("f", Engine::Dve)),
                s("j2", build::jump("end.2")),
            ],
        ),
        block("end.2", vec![s("after", zero("z", Engine::Dve))]),
    ];
    let m = m(build::lnc("k", &[], &[], vec![body]));
    for (name, want) in [
        ("before", &[][..]),
        ("v0", &[]),
        ("p0", &[]),
        ("v1", &["v0"]),
        ("all", &["v1", "p0"]),
        ("p1", &["all"]),
        ("v2", &["all"]),
        ("v3", &["v2"]),
        ("j2", &["v3", "p1", "all"]),
        ("after", &[]),
    ] {
        let mut got = deps(&m, name);
        let mut want = ordered(want);
        got.sort();
        want.sort();
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn barriers_take_the_names_of_core_0() {
    let barrier = || build::core_barrier(hbm("h", &[1, 1]), &[0, 1]);
    let s = |n: &str, op| build::stmt(n, 1, op);
    let body = |list: Vec<Stmt>| vec![block("main.0", list)];
    let zero_body = body(vec![s("b0", barrier()), s("b1", barrier())]);
    // core 1 calls something else b0, and its barriers b1 and c
    let one_body = body(vec![s("b0", zero("a", Engine::Dve)), s("b1", barrier()), s("c", barrier())]);
    let mut k = build::lnc("k", &[], &[], vec![zero_body, one_body]);
    k.edges = vec![Edges { from_edge: Str::new("b0"), to_edges: vec![Str::new("b1")] }];
    let p = good(run(k));
    let names: Vec<_> = insts(&p.modules[1]).iter().map(|i| (i.name.as_str(), i.opcode)).collect();
    assert_eq!(names, [("b0.1", Opcode::Memset), ("b0", Opcode::CoreBarrier), ("b1", Opcode::CoreBarrier)]);
    // the edge meant core 1's own names
    assert_eq!(deps(&p.modules[1], "b0"), ordered(&["b0.1"]));
}

// ---- blocks ----

#[test]
fn empty_exit_block_resumes_and_unreached_empty_blocks_go() {
    let s = |n: &str, op| build::stmt(n, 1, op);
    let body = vec![
        block("main.0", vec![s("set", set("r")), s("j", build::jump("test.1"))]),
        block("test.1", vec![s("br", branch(BrCmpOp::LtImm, "", "test.1", "exit.3"))]),
        block("dead.2", vec![]),
        block("exit.3", vec![]),
    ];
    let m = m(build::lnc("mod.k", &[], &[], vec![body]));
    let f = &m.funcs[m.functions[0]];
    let blocks: Vec<_> = f.blocks.iter().map(|b| m.blocks[*b].name.as_str()).collect();
    let resume = "mod.k-RESUME-Block-compiler-inserted";
    assert_eq!(blocks, ["main.0", "test.1", "exit.3", resume]);
    let last = insts(&m).pop().expect("an instruction");
    assert_eq!((last.opcode, last.get_str(Attr::Target)), (Opcode::UnconditionalBranch, Some(resume)));
}

// ---- options ----

#[test]
fn local_all_reduce_option() {
    let reduce = |groups: &[&[i64]]| {
        Operator::AllReduce(CollectiveOp {
            op: Some(AluOp::Add),
            ..build::collective(vec![t("a")], vec![t("b")], groups)
        })
    };
    let local = |groups: &[&[i64]], local_allreduce, ranks| {
        let k = two_cores(vec![reduce(groups)], vec![reduce(groups)]);
        let p = good(lower(&k.into(), &LowerOptions { local_allreduce, ranks, ..options() }));
        by_name(&p.modules[0], "AllReduce-0").get_bool(Attr::IsLocal)
    };
    use LocalAllReduce::{Always, Auto, Never};
    assert!(local(&[&[0, 1]], Auto, RanksAre::Cores));
    assert!(!local(&[&[0], &[1]], Auto, RanksAre::Cores));
    assert!(!local(&[&[0, 1]], Auto, RanksAre::Lncs(2)));
    assert!(!local(&[&[0, 1]], Never, RanksAre::Cores));
    assert!(local(&[&[0], &[1]], Always, RanksAre::Cores));
}

#[test]
fn collectives_count_in_program_order_and_take_several_tensors() {
    let swap = |peer| build::send_recv(t("a"), t("b"), peer, 0);
    let reduce = || {
        let srcs = vec![t("a"), t("b")];
        let dsts = vec![t("c"), t("d")];
        Operator::AllReduce(CollectiveOp {
            op: Some(AluOp::Min),
            ..build::collective(dsts, srcs, &[&[0, 1]])
        })
    };
    let p = good(run(two_cores(vec![swap(1), reduce(), swap(1)], vec![swap(0), reduce(), swap(0)])));
    for m in &p.modules {
        let names: Vec<_> = insts(m).iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["LocalSendRecv-0", "AllReduce-1", "LocalSendRecv-2"]);
        let i = by_name(m, "AllReduce-1");
        let tensors = |list: &[O]| -> Vec<String> {
            list.iter().filter_map(O::as_ap).map(|a| m.memlocs[a.loc].name.to_string()).collect()
        };
        assert_eq!(
            (tensors(&i.ins), tensors(&i.outs)),
            (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()])
        );
    }
}

#[test]
fn usable_sbuf_of_each_generation() {
    for (arch, usable) in
        [(ArchLevel::Sunda, 180_224), (ArchLevel::Gen3, 212_984), (ArchLevel::CoreV4, 245_752)]
    {
        for (byte, fits) in [(usable - 256, true), (usable - 255, false)] {
            let tile = build::whole(&build::at(&sb("e", Dtype::Float32, &[128, 64]), 0, byte));
            let k = one_core(vec![fill(tile, float(0.0), Dtype::Float32, Engine::Dve)]);
            let l = lower(&k.into(), &LowerOptions { arch, ..options() });
            assert_eq!(l.program.is_some(), fits, "{arch} {byte}");
        }
    }
}

#[test]
fn hbm_views_are_constants() {
    let view = TensorRef::Hbm(Box::new(TensorHbm {
        name: Str::new("c"),
        dtype: Dtype::Float32,
        address: 64,
        dims: [build::pair(64, 128), build::pair(1, 64)].into_iter().collect(),
    }));
    let mut k = one_core(vec![copy(t("a"), view, DgeComputeOp::None, false)]);
    k.shared_constants.push(SharedConstantFile { name: Str::new("c"), file_name: Str::new("c.npy") });
    let load = |_: &str| Ok(Vec::new());
    let p = good(lower(&k.into(), &LowerOptions::new(ArchLevel::Gen3, &load)));
    let m = &p.modules[0];
    let a = ap(by_name(m, "s0"), false, 0);
    assert_eq!((a.offset, pairs(a)), (64, vec![(8192, 1), (1, 8192)]));
    assert_eq!(space(m, "c").0, TensorKind::Const);
    assert_eq!(location(m, "c").size_bytes(), (8192 + 64) * 4);
}

#[test]
fn strict_mode_drops_the_extensions() {
    let both = |op: Operator| (good(run(one_core(vec![op.clone()]))), good(run_strict(one_core(vec![op]))));
    let first = |p: &tandem_bir::Program| insts(&p.modules[0])[0].clone();
    let four = |n: &str| tile(n, Dtype::Float32, &[8, 2, 4, 8]);
    let (own, strict) = both(Operator::DmaTranspose(DmaTranspose {
        dst: four("a"),
        src: four("b"),
        axes: TransposeOps::Wzxy,
        dtype: None,
        dge_mode: 0,
        oob_mode: DmaBounds::Error,
        priority: Some(1),
    }));
    assert_eq!(
        [&own, &strict].map(|p| first(p).get_enum::<T>(Attr::TransposeOp)),
        [Some(T::Wzxy), Some(T::Xzyw)]
    );
    assert_eq!([&own, &strict].map(|p| first(p).attrs.get(Attr::DmaQos).is_some()), [true, false]);
    let (own, strict) = both(Operator::CopyPredicated(CopyPredicated {
        dst: t("a"),
        src: t("b"),
        predicate: t("c"),
        dtype: None,
        reverse_pred: true,
    }));
    assert_eq!([&own, &strict].map(|p| first(p).get_bool(Attr::ReversePred)), [true, false]);
    let (own, strict) = both(Operator::TensorScalarReduce(TensorScalarReduce {
        dst: t("a"),
        src: t("b"),
        operand0: Operand::Imm(float(1.0)),
        op0: AluOp::Mult,
        reverse0: false,
        dtype: None,
        reduce_op: Some(AluOp::Add),
        reduce_res: tile("r", Dtype::Float32, &[128, 1]),
        reduce_cmd: AccumCmd::Accumulate,
        reduce_init: Some(float(2.0)),
    }));
    assert_eq!([&own, &strict].map(|p| letters(&first(p).ins)), ["AFF", "AF"]);
    let all_to_all = Operator::AllToAll(CollectiveOp {
        concat_dim: Some(1),
        ..build::collective(vec![t("a")], vec![t("b")], &[&[0]])
    });
    let (own, strict) = both(all_to_all);
    assert_eq!([&own, &strict].map(|p| first(p).get_int(Attr::ConcatDim)), [Some(1), Some(0)]);
    let swap = |flag| {
        let op = |peer| match build::send_recv(t("a"), t("b"), peer, 0) {
            Operator::SendRecv(s) => Operator::SendRecv(SendRecv { use_gpsimd_dma: flag, ..s }),
            _ => unreachable!("send_recv makes a sendRecv"),
        };
        two_cores(vec![op(1)], vec![op(0)])
    };
    let asked = |p: &tandem_bir::Program| {
        let i = first(p);
        assert!(!i.get_bool(Attr::UseGpsimdDma));
        i.more.and_then(|m| m.extra).is_some_and(|e| e.get("requested_gpsimd") == Some(&true.into()))
    };
    assert!(asked(&good(run(swap(true)))));
    assert!(!asked(&good(run(swap(false)))));
    assert!(!asked(&good(run_strict(swap(true)))));
}

// ---- the worked trace ----

#[test]
fn worked_trace_of_two_cores() {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let y = build::tensor("y", Dtype::Float32, Memory::Hbm, &[128, 64]);
    let body = |peer| {
        let s = |n: &str, l, op| build::stmt(n, l, op);
        vec![block(
            "main",
            vec![
                s("ld", 1, build::dma_copy(t("t0"), build::whole(&x))),
                s("swap", 2, build::send_recv(t("t1"), t("t0"), peer, 0)),
                s("sum", 3, build::tensor_tensor(t("t0"), t("t0"), t("t1"), AluOp::Add, Engine::Dve)),
                s("st", 4, build::dma_copy(build::whole(&y), t("t0"))),
            ],
        )]
    };
    let p = good(run(build::lnc("k", &[&x], &[&y], vec![body(1), body(0)])));
    for (core, m) in p.modules.iter().enumerate() {
        let rows: Vec<_> = insts(m).iter().map(|i| (i.name.as_str(), i.opcode, i.engine)).collect();
        assert_eq!(
            rows,
            [
                ("ld", Opcode::DmaCopy, EngineKind::Unassigned),
                ("LocalSendRecv-0", Opcode::CollectiveCompute, EngineKind::Unassigned),
                ("sum", Opcode::TensorTensor, EngineKind::Dve),
                ("st", Opcode::DmaCopy, EngineKind::Unassigned),
            ]
        );
        let ld = by_name(m, "ld");
        assert_eq!((ld.attrs.get(Attr::DgeTypeKey), ld.attrs.get(Attr::OobIsErr)), (None, None));
        let swap = by_name(m, "LocalSendRecv-0");
        let peer = 1 - core as i64;
        assert_eq!(swap.get_enum::<CollectiveKind>(Attr::Kind), Some(CollectiveKind::SendRecv));
        assert_eq!(swap.get_expr(Attr::SendToRank), Some(Expr::Const(peer)));
        assert_eq!(swap.get_exprs(Attr::RecvFromRank), [Expr::Const(peer)]);
        assert_eq!(swap.more.as_ref().and_then(|m| m.label.as_deref()), Some("swap"));
        assert_eq!(by_name(m, "sum").get_enum::<A>(Attr::Op), Some(A::Add));
        assert!(insts(m).iter().all(|i| i.deps.is_empty()));
        let a = ap(swap, false, 0);
        assert_eq!(a.pairs.as_slice(), [ApPair::new(64, 128), ApPair::new(1, 64)]);
    }
}

// ---- size and damage ----

#[test]
fn many_statements_with_one_name_are_no_slower() {
    // The time of a kernel of `n` statements, named by `name`; the last one waits for all others.
    let time = |n: u32, name: &dyn Fn(u32) -> String| {
        let op = zero("a", Engine::Dve);
        let body: Vec<Stmt> = (0..n).map(|i| build::stmt(&name(i), i.into(), op.clone())).collect();
        let mut k = build::lnc("k", &[], &[], vec![vec![block("main.0", body)]]);
        let last = Str::new(name(n - 1));
        let all: Vec<Str> = if name(0) == name(1) {
            (1..n).map(|i| format!("same.{i}").into()).collect()
        } else {
            (0..n - 1).map(|i| Str::new(name(i))).collect()
        };
        let to = if name(0) == name(1) { Str::new("same") } else { last };
        k.edges =
            all.iter().map(|from| Edges { from_edge: from.clone(), to_edges: vec![to.clone()] }).collect();
        let start = std::time::Instant::now();
        let m = m(k);
        let took = start.elapsed().as_secs_f64();
        assert_eq!((m.insts.len(), by_name(&m, to.as_str()).deps.len()), (n as usize, n as usize - 1));
        took
    };
    let n = 100_000;
    let distinct = time(n, &|i| format!("s{i}"));
    let same = time(n, &|_| "same".to_owned());
    assert!(same < 10.0 * distinct, "{same} s with one name, {distinct} s with {n}");
}

#[test]
fn damaged_files_lower_or_are_refused_without_a_panic() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/klr");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut lowered = 0;
    for name in ["06", "17", "18", "19", "20", "21", "22", "23", "24"] {
        let entry = std::fs::read_dir(&folder).expect("testdata").flatten().find(|e| {
            e.file_name().to_string_lossy().starts_with(name)
                && e.path().extension().is_some_and(|x| x == "klr")
        });
        let bytes = std::fs::read(entry.expect(name).path()).expect(name);
        for _ in 0..4000 {
            let mut b = bytes.clone();
            for _ in 0..1 + next() % 2 {
                let at = next() % b.len();
                b[at] = match next() % 3 {
                    0 => b[at].wrapping_add(1),
                    1 => b[at] ^ (1 << (next() % 8)),
                    _ => next() as u8,
                };
            }
            if let Ok(read) = tandem_klr::read(&b) {
                let l = lower(&read.file, &LowerOptions { strict_2_24: next() % 4 == 0, ..options() });
                assert_eq!(l.program.is_none(), l.diags.iter().any(|d| d.is_error()));
                lowered += 1;
            }
        }
    }
    assert!(lowered > 4000, "only {lowered} damaged files could be read");
}
