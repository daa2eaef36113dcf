//! Codes that no command raises: a reader, the verifier or the driver says something else first. Callers of the libraries
//! can raise them. One test per code, named after it; the page of the code shows the test.

use tandem_backend::encode::Bundle;
use tandem_backend::encode::events::{put_update, put_wait};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, link, resolve::check_locations, sync::vnc_link, too_many_variables};
use tandem_backend::pass::{PassCtx, PassOptions};
use tandem_backend::passes::{allocate, extend_shared_lifetimes, insert_ptcom, lnc_splitter};
use tandem_backend::passes::{lower_local_collectives::LowerLocalCollectives, sync_shared_allocations};
use tandem_backend::{Pipeline, decode::patch, pipeline};
use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::verify::verify;
use tandem_bir::*;
use tandem_klr::build::{self, tensor, whole};
use tandem_klr::lower::{LowerOptions, lower};
use tandem_klr::{ast, write_as};
use tandem_sim::{RunOptions, Simulator};

/// The program of `testdata/codes/NAME/pass.bir`: correct before a test changes it.
fn program(name: &str) -> Program {
    let path = format!("{}/../../testdata/codes/{name}/pass.bir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text::parse(&text).unwrap_or_else(|d| panic!("{path}: {d:#?}"))
}
/// Two cores, each with `ld`, a barrier, a swap of `a` to `b`, a barrier.
fn swap() -> Program {
    program("N0008")
}
/// Two cores, each pulls `a` of the other through the alias `r`.
fn pull() -> Program {
    program("N0003")
}
fn has(found: &[Diagnostic], code: Code) -> bool {
    found.iter().any(|d| d.code == code)
}
/// The findings of a stage; none when it succeeds.
fn found<T>(r: Result<T, Vec<Diagnostic>>) -> Vec<Diagnostic> {
    r.err().unwrap_or_default()
}
/// The verifier says `code` after a change of core 0, and nothing before it.
fn verifier(code: Code, change: impl Fn(&mut Program)) {
    let mut p = swap();
    assert!(verify(&p).is_ok());
    change(&mut p);
    assert!(has(&found(verify(&p)), code));
}
/// A pass says `code` about a program.
fn pass(pass: &dyn tandem_backend::pass::Pass, mut p: Program, code: Code) {
    let mut cx = PassCtx::new(PassOptions::for_program(&p));
    assert!(pass.run(&mut p, &mut cx).is_err());
    assert!(has(&cx.diags, code), "{:?}", cx.diags);
}
/// Linking says `code` after a change of the program, and nothing before it.
fn linker(code: Code, p: Program, change: impl Fn(&mut Program)) {
    assert!(link(&p, LinkOptions::default()).is_ok());
    let mut p = p;
    change(&mut p);
    assert!(has(&found(link(&p, LinkOptions::default())), code));
}
fn named(m: &mut Module, name: &str) -> InstId {
    m.insts.iter().find(|(_, i)| i.name == name).map(|(id, _)| id).expect("an instruction of this name")
}
fn location<'m>(m: &'m mut Module, name: &str) -> &'m mut MemoryLocation {
    m.memlocs.values_mut().find(|l| l.name == name).expect("a location of this name")
}
fn options() -> LowerOptions<'static> {
    LowerOptions::new(ArchLevel::Gen3, &|name| Err(std::io::Error::other(format!("no file {name}"))))
}
fn statement(op: ast::Operator) -> Vec<ast::Block> {
    vec![build::block("main.1", vec![build::stmt("inst.1", 1, op)])]
}

// ---- P: reading ----

#[test]
fn p0001_unreadable_file() {
    let e = tandem_klr::read_path("no/such/file.klr".as_ref()).unwrap_err();
    assert_eq!(Diagnostic::from(e).code, codes::P0001);
}

#[test]
fn p0023_not_expressible_in_2_24() {
    let t = tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[1, 1]);
    let mut op = build::collective(vec![whole(&t)], vec![whole(&t)], &[&[0, 1]]);
    let file = |op| build::lnc("k", &[], &[], vec![statement(ast::Operator::AllReduce(op))]).into();
    assert!(write_as(&file(op.clone()), tandem_klr::Compat::V2_24).is_ok());
    op.priority = Some(0); // a field that layout does not have
    assert_eq!(write_as(&file(op), tandem_klr::Compat::V2_24).unwrap_err().code, codes::P0023);
}

// ---- K: KLR to BIR ----

#[test]
fn k0004_core_id_missing() {
    let kernel = build::lnc("k", &[], &[], vec![vec![], vec![]]).into();
    assert!(!has(&lower(&kernel, &options()).diags, codes::K0004));
    let without = LowerOptions { assign_cores: false, ..options() };
    assert!(has(&lower(&kernel, &without).diags, codes::K0004));
}

#[test]
fn k0048_swap_without_a_core_id() {
    let t = tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[1, 1]);
    let one = || build::int(1);
    let swap = ast::SendRecv {
        dst: whole(&t),
        src: whole(&t),
        send_to_rank: one(),
        recv_from_rank: one(),
        pipe_id: build::int(0),
        use_gpsimd_dma: false,
    };
    let kernel = build::lnc("k", &[], &[], vec![statement(ast::Operator::SendRecv(swap))]).into();
    assert!(!has(&lower(&kernel, &options()).diags, codes::K0048));
    let without = LowerOptions { assign_cores: false, ..options() };
    assert!(has(&lower(&kernel, &without).diags, codes::K0048));
}

#[test]
fn k0068_accesses_nested_too_deep() {
    let t = tensor("t", ast::Dtype::Int32, ast::Memory::Sbuf, &[1, 1]);
    let nested = |depth: usize| {
        let mut access = ast::Access::Simple(t.clone());
        for _ in 0..depth {
            let mut p = build::bir(&t, 0, &[(1, 1)]);
            p.scalar_offset = Some(ast::ScalarOffset::Acc(access));
            access = ast::Access::BirPattern(Box::new(p));
        }
        let copy = build::dma_copy(whole(&t), ast::TensorRef::Abstract(access));
        lower(&build::lnc("k", &[], &[], vec![statement(copy)]).into(), &options()).diags
    };
    assert!(!has(&nested(1), codes::K0068));
    assert!(has(&nested(9), codes::K0068));
}

// ---- V: verifier ----

#[test]
fn v0101_reference_to_nothing() {
    verifier(codes::V0101, |p| p.modules[0].blocks[BlockId::new(0)].insts.push(InstId::new(1000)));
}

#[test]
fn v0102_listed_twice() {
    verifier(codes::V0102, |p| {
        let block = &mut p.modules[0].blocks[BlockId::new(0)];
        block.insts.push(block.insts[0]);
    });
}

#[test]
fn v0103_name_used_twice() {
    verifier(codes::V0103, |p| p.modules[0].insts[InstId::new(1)].name = "ld".into());
}

#[test]
fn v0201_location_and_set_disagree() {
    verifier(codes::V0201, |p| location(&mut p.modules[0], "a").set = SetId::new(0));
}

#[test]
fn v0304_attribute_of_another_type() {
    verifier(codes::V0304, |p| {
        let barrier = named(&mut p.modules[0], "begin");
        p.modules[0].insts[barrier].set(Attr::Cores, "both");
    });
}

#[test]
fn v0701_lnc_of_three_cores() {
    verifier(codes::V0701, |p| p.lnc_size = 3);
}

// ---- L: passes ----

#[test]
fn l0002_no_model_of_the_generation() {
    let mut p = swap();
    p.modules.iter_mut().for_each(|m| m.arch = ArchLevel::CoreV5);
    pass(&allocate::Allocate, p, codes::L0002);
}

#[test]
fn l0021_memory_that_another_core_cannot_reach() {
    let mut p = program("L0020");
    p.modules.iter_mut().for_each(|m| location(m, "s").mem = MemoryType::Reg);
    pass(&LowerLocalCollectives, p, codes::L0021);
}

#[test]
fn l0031_symbolic_beside_concrete_modules() {
    let mut p = swap();
    p.modules[1].core = None;
    pass(&lnc_splitter::LncSplitter, p, codes::L0031);
}

#[test]
fn l0032_splitter_on_one_module() {
    assert_eq!(lnc_splitter::run_single(&mut swap().modules[0]).unwrap_err().code, codes::L0032);
}

#[test]
fn l0040_functions_differ_between_cores() {
    let mut p = swap();
    p.modules[1].funcs[FuncId::new(0)].name = "other".into();
    pass(&extend_shared_lifetimes::ExtendSharedLifetimes, p, codes::L0040);
}

#[test]
fn l0041_view_without_an_owner() {
    let mut p = swap();
    let a = location(&mut p.modules[0], "a");
    (a.allocated, a.is_shared_post_dram_alloc) = (false, true);
    pass(&sync_shared_allocations::SyncSharedAllocations, p, codes::L0041);
}

#[test]
fn l0042_two_blocks_for_one_location() {
    assert!(insert_ptcom::one_block_per_location(&[(0, 3), (1, 3)]).is_ok());
    let twice = insert_ptcom::one_block_per_location(&[(0, 3), (0, 4)]);
    assert_eq!(twice.unwrap_err().code, codes::L0042);
}

// ---- N: link ----

#[test]
fn n0001_wrong_set_of_modules() {
    linker(codes::N0001, swap(), |p| drop(p.modules.pop()));
}

#[test]
fn n0002_two_locations_of_one_name() {
    let check = |p: &Program| {
        let mut d = Vec::new();
        check_locations(p, &mut d);
        d
    };
    let mut p = swap();
    assert!(check(&p).is_empty());
    location(&mut p.modules[0], "b").name = "a".into();
    assert!(has(&check(&p), codes::N0002));
}

#[test]
fn n0006_alias_in_psum() {
    linker(codes::N0006, pull(), |p| location(&mut p.modules[1], "a").mem = MemoryType::Psum);
}

#[test]
fn n0014_notice_without_an_update_of_the_peer() {
    let mut p = pull();
    for (c, m) in p.modules.iter_mut().enumerate() {
        let pull = named(m, "pull");
        let other = 1 - c as u32;
        m.insts[pull].set(Attr::RemoteNotification, vec![i64::from(other)]);
        let notice = inst::SemUpdate { sem: 129, value: 1, target_core: Some(other), extra: None };
        let sync = inst::SyncInfo { on_update: vec![notice], ..Default::default() };
        m.insts[pull].more_mut().sync = Some(sync); // no update of its own
    }
    let mut d = Vec::new();
    vnc_link(&mut p, &mut d);
    assert!(has(&d, codes::N0014));
}

#[test]
fn n0017_branch_out_of_its_stream() {
    let (mut l, _) = link(&swap(), LinkOptions::default()).unwrap();
    assert!(encode_streams(&l, EncodeOptions::default()).is_ok());
    l.cores[0].streams[0].branches.push((0, 1000));
    assert!(has(&found(encode_streams(&l, EncodeOptions::default())), codes::N0017));
}

#[test]
fn n0018_too_many_variables() {
    assert!(too_many_variables((1 << 24) - 1).is_none());
    assert_eq!(too_many_variables(1 << 24).map(|d| d.code), Some(codes::N0018));
}

#[test]
fn n0023_alias_on_a_compute_engine() {
    linker(codes::N0023, pull(), |p| {
        let pull = named(&mut p.modules[0], "pull");
        p.modules[0].insts[pull].opcode = Opcode::TensorCopy;
        p.modules[0].insts[pull].engine = EngineKind::Dve;
    });
}

// ---- E: encode ----

#[test]
fn e0006_swap_of_one_core() {
    linker(codes::E0006, swap(), |p| {
        p.modules.truncate(1);
        p.lnc_size = 1;
    });
}

/// A record with a wait for 5, and what adding updates to it says.
fn wait_and_update(updates: &[i64]) -> Result<(), Code> {
    let update = |v: &i64| inst::SemUpdate { sem: 4, value: *v, ..Default::default() };
    let wait = inst::SemWait { sem: 3, value: 5, ..Default::default() };
    let mut record = Bundle::new(0xA0);
    let updates: Vec<_> = updates.iter().map(update).collect();
    put_wait(&mut record, &[wait]).and_then(|()| put_update(&mut record, &updates)).map_err(|e| e.code)
}

#[test]
fn e0007_wait_and_update_of_different_values() {
    assert_eq!(wait_and_update(&[5]), Ok(()));
    assert_eq!(wait_and_update(&[7]), Err(codes::E0007)); // one value serves both
}

#[test]
fn e0008_two_updates_in_a_record() {
    assert_eq!(wait_and_update(&[1]), Ok(()));
    assert_eq!(wait_and_update(&[1, 1]), Err(codes::E0008));
}

#[test]
fn e0011_record_that_does_not_read_back() {
    let (a, b) = (Inst::new("a", Opcode::NoOp), Inst::new("a", Opcode::Halt));
    assert!(patch::same(&a, &a).is_ok());
    assert_eq!(patch::same(&a, &b).unwrap_err().code, codes::E0011);
}

// ---- C: checks ----

#[test]
fn c1203_module_without_a_core() {
    let mut p = swap();
    assert!(tandem_check::lnc_verifier(&p).is_empty());
    p.modules[1].core = None;
    assert_eq!(tandem_check::lnc_verifier(&p)[0].diagnostic.code, codes::C1203);
}

// ---- S: simulator ----

#[test]
fn s0001_access_outside_its_location() {
    let mut p = program("S0021");
    assert!(Simulator::new(&p, RunOptions::default()).is_ok());
    let copy = named(&mut p.modules[0], "cp");
    p.modules[0].insts[copy].ins[0].as_ap_mut().unwrap().offset = 1 << 40;
    assert!(has(&found(Simulator::new(&p, RunOptions::default()).map(drop)), codes::S0001));
}

#[test]
fn s0006_location_outside_its_memory() {
    let mut p = program("S0021");
    location(&mut p.modules[0], "b").addr = 1 << 20;
    assert!(has(&found(Simulator::new(&p, RunOptions::default()).map(drop)), codes::S0006));
}

#[test]
fn s0212_machine_instruction_in_the_arithmetic() {
    use tandem_sim::exec::{Decoded, ExecCx, exec};
    let barrier = Inst::new("b", Opcode::CoreBarrier);
    let d = Decoded {
        inst: InstId::new(0),
        opcode: barrier.opcode,
        engine: EngineKind::Pool,
        ins: Default::default(),
        outs: Default::default(),
        indirect: Default::default(),
    };
    let mut core = tandem_sim::state::CoreState::new(CoreId(0), 0, 0);
    let mut cx = ExecCx {
        mem: &mut tandem_sim::memory::Memory::new(),
        core: &mut core,
        profile: &tandem_sim::numeric_profile::NumericProfile::preset("hw").unwrap(),
        arch: ArchLevel::Gen3.spec().unwrap(),
        notes: &mut Vec::new(),
    };
    assert_eq!(exec(&mut cx, &d, &barrier).unwrap_err().code, codes::S0212);
}

// ---- I: faults of Tandem ----

#[test]
fn i0001_pipeline_in_a_wrong_order() {
    use tandem_backend::pass::Fact;
    let given = [Fact::EnginesAssigned, Fact::OnChipPlaced, Fact::Concrete];
    let o = PassOptions::new(2, ArchLevel::Gen3);
    assert!(Pipeline::new("lowered", pipeline::TO_LOWERED, &o, &given).is_ok());
    let without = Pipeline::new("lowered", pipeline::TO_LOWERED, &o, &[]);
    assert_eq!(without.unwrap_err().code, codes::I0001);
}
