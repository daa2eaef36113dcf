//! Every code of the checks: a program that raises it, made from a clean two-core program by one change, and mutations.

use tandem_bir::Program;
use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_check::{CHECKS, CheckOptions, Ranks, check, lnc_verifier};

const T: &str = "[[64,128] [1,64]] float32";

/// A two-core program in text form: the same storages on both cores, the given blocks.
fn text(level: &str, bodies: [&str; 2]) -> String {
    let mut out = format!("bir 1\nprogram \"k\" lnc 2 level {level}\n");
    for (c, body) in bodies.iter().enumerate() {
        let alias = 1 - c;
        out += &format!(
            r#"module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared float32 [128 x 64] {{ loc @x = DRAM [128, 256] addr 0 allocated }}
    set @y_set = ExternalOutput Tensor Shared float32 [128 x 64] {{ loc @y = DRAM [128, 256] addr 32768 allocated }}
    set @s_set = Internal Tensor Shared float32 [128 x 64] {{ loc @s = DRAM [128, 256] addr 65536 allocated }}
    set @a_set = Internal Tensor Local float32 [128 x 64] {{ loc @a = SB [128, 256] addr 0 allocated }}
    set @b_set = Internal Tensor Local float32 [128 x 64] {{ loc @b = SB [128, 256] addr 256 allocated }}
    set @a_remote_set = Internal Tensor Local float32 [128 x 64] {{ loc @a_remote = SB [128, 256] addr 0 allocated remote @a core {alias} }}
{body}
  }}
}}
"#
        );
    }
    out
}

fn parse(text: &str) -> Program {
    tandem_bir::text::parse(text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"))
}

fn run(p: &Program) -> Vec<Diagnostic> {
    check(p, &CheckOptions::default())
}

fn block(lines: &[&str]) -> String {
    format!("    block b0 {{\n      {}\n    }}", lines.join("\n      "))
}

fn swap(name: &str, rank: u32, pipe: u32) -> String {
    format!(
        "{name} = CollectiveCompute Pool @b{T} <- @a{T} {{kind = SendRecv, is_local = true, pipe_id = {pipe}, \
         recv_from_rank = [{rank}], send_to_rank = {rank}}}"
    )
}

const BAR: &str = "bar = CoreBarrier Pool {cores = [0, 1]}";
const GATHER: &str = "ag = CollectiveCompute Pool @y[[64,128] [1,64]] float32 <- @x[[64,64] [1,64]] float32 \
                      {kind = AllGather, replica_groups = [[0, 1]], cc_dim = Partition}";

/// Lines of one core of the clean program at level `bir`.
fn lines(core: u32) -> Vec<String> {
    let half = 4096 * core;
    vec![
        format!("ld = DMACopy DMA @a{T} <- @x{T}"),
        swap("sr", 1 - core, 0),
        BAR.to_owned(),
        swap("sr2", 1 - core, 3),
        GATHER.replace("@y[[64,128]", "@s[[64,128]"),
        format!("st = DMACopy DMA @y[off {half}, [64,64] [1,64]] float32 <- @b[[64,64] [1,64]] float32"),
    ]
}

fn at_bir(change: impl Fn(&mut [Vec<String>; 2])) -> Vec<Diagnostic> {
    let mut l = [lines(0), lines(1)];
    change(&mut l);
    let bodies = l.map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
    let t = text("bir", [&bodies[0], &bodies[1]]);
    run(&parse(&t))
}

fn expect(found: &[Diagnostic], code: Code, text: &str) {
    assert!(found.iter().any(|d| d.code == code && d.message.contains(text)), "{code} {text}: {found:#?}");
    for d in found {
        assert_eq!(d.code, code, "{found:#?}");
    }
}

#[test]
fn the_clean_program_has_no_findings() {
    let d = at_bir(|_| {});
    assert!(d.is_empty(), "{d:#?}");
}

#[test]
fn swaps() {
    expect(&at_bir(|l| drop(l[1].remove(1))), codes::C0101, "swap `sr` on core 0 has no partner on core 1");
    expect(&at_bir(|l| drop(l[0].remove(3))), codes::C0101, "swap `sr2` on core 1 has no partner on core 0");
    let d = at_bir(|l| l[0][1] = swap("sr", 2, 0));
    expect(&d, codes::C0102, "SendRecv rank 2 on core 0 is outside the LNC group of 2");
    let d = at_bir(|l| l[1][1] = swap("sr", 1, 0));
    expect(&d, codes::C0103, "SendRecv ranks are not paired: core 0 sends to 1 which receives from 1");
    assert_eq!(d[0].sites.len(), 2);
    let d = at_bir(|l| l[1][1] = l[1][1].replace("<- @a[[64,128]", "<- @a[[64,64]"));
    expect(&d, codes::C0104, "SendRecv shape mismatch: core 0 receives float32 [128 x 64] from core 1");
    let d = at_bir(|l| {
        l[1][1] = l[1][1].replace("@b[[64,128] [1,64]] float32 <-", "@b[[64,128] [1,64]] int32 <-")
    });
    expect(&d, codes::C0105, "core 1 receives int32 from core 0, which sends float32");
    let cce = |l: &mut [Vec<String>; 2], op: &str| {
        for l in l {
            l[1] = l[1].replace("kind = SendRecv,", &format!("kind = SendRecvCCE, op = {op},"));
        }
    };
    expect(&at_bir(|l| cce(l, "mult")), codes::C0204, "SendRecvCCE `sr` folds with mult");
    assert!(at_bir(|l| cce(l, "add")).is_empty(), "a folding swap with add is clean");
    // Ranks that depend on the core through the shard id are evaluated.
    let d = at_bir(|l| l[0][1] = l[0][1].replace("kind = SendRecv,", "kind = SendRecvCCE, op = add,"));
    expect(&d, codes::C0103, "stand at the same position");
}

#[test]
fn collectives() {
    let gather = |l: &mut [Vec<String>; 2], from: &str, to: &str| {
        for l in l {
            assert!(l[4].contains(from));
            l[4] = l[4].replace(from, to);
        }
    };
    let d = at_bir(|l| l[1][4] = l[1][4].replace("cc_dim = Partition", "cc_dim = Free"));
    assert!(
        d.iter().any(|d| d.code == codes::C0201
            && d.message == "collective #0 disagrees between core 0 and core 1: cc_dim"
            && d.sites[0].label == "Partition"
            && d.sites[1].label == "Free"),
        "{d:#?}"
    );
    expect(
        &at_bir(|l| drop(l[1].remove(4))),
        codes::C0201,
        "collective #0 disagrees between core 0 and core 1: only one",
    );
    expect(&at_bir(|l| gather(l, "@x[[64,64]", "@x[[64,128]")), codes::C0202, "destination 0 is [128 x 64]");
    expect(&at_bir(|l| gather(l, "[[0, 1]]", "[[0, 2]]")), codes::C0203, "names rank 2; there are 2");
    expect(&at_bir(|l| gather(l, "[[0, 1]]", "[[0, 0]]")), codes::C0203, "rank 0 twice");
    let permute = |pairs: &str| {
        at_bir(|l| {
            for l in l {
                l[4] = format!(
                    "cp = CollectiveCompute Pool @s{T} <- @x{T} {{kind = Permute, src_target_pairs = {pairs}}}"
                );
            }
        })
    };
    assert!(permute("[[0, 1], [1, 0]]").is_empty());
    expect(&permute("[[0, 1], [0, 1]]"), codes::C0203, "twice as a source");
    expect(&permute("[[0, 0]]"), codes::C0203, "with itself");
    expect(&permute("[[0, 1, 0]]"), codes::C0203, "a pair has two ranks");
    expect(&permute("[[0, 1]], replica_groups = [[0, 1]]"), codes::C0203, "has replica groups");
    let reduce = |op: &str| {
        at_bir(|l| {
            for l in l {
                l[4] = format!(
                    "ar = CollectiveCompute Pool @s{T} <- @x{T} {{kind = AllReduce, replica_groups = [[0, 1]], op = {op}}}"
                );
            }
        })
    };
    assert!(reduce("max").is_empty());
    expect(&reduce("mult"), codes::C0204, "AllReduce `ar` folds with mult");
    // Eight whole LNCs: ranks up to 7 exist, and a gather over a group of two doubles.
    let mut l = [lines(0), lines(1)];
    gather(&mut l, "[[0, 1]]", "[[6, 7]]");
    let bodies = l.map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
    let p = parse(&text("bir", [&bodies[0], &bodies[1]]));
    let lncs = CheckOptions { ranks: Ranks::Lncs(8), ..CheckOptions::default() };
    assert!(check(&p, &lncs).is_empty());
    expect(&run(&p), codes::C0203, "names rank 6");
}

#[test]
fn barriers() {
    let d = at_bir(|l| drop(l[1].remove(2)));
    expect(&d, codes::C0301, "core barrier `bar` on core 0 has no partner on core 1");
    assert!(d[0].notes.iter().any(|n| n.contains("NCC_IXLV000")));
    let d = at_bir(|l| l[0][2] = "bar = CoreBarrier Pool {cores = [0]}".into());
    expect(&d, codes::C0302, "core barrier #0 of block `b0` lists different cores");
    assert_eq!((d[0].sites[0].label.as_str(), d[0].sites[1].label.as_str()), ("cores [0]", "cores [0, 1]"));
    let alone =
        at_bir(|l| (0..2).for_each(|c| l[c][2] = format!("bar = CoreBarrier Pool {{cores = [{c}]}}")));
    assert!(alone.is_empty(), "a barrier of one core meets nobody");
}

#[test]
fn barrier_lists_and_names() {
    // A list without a repeated core is the same list in another order.
    assert!(at_bir(|l| l[0][2] = "bar = CoreBarrier Pool {cores = [1, 0]}".into()).is_empty());
    assert!(at_bir(|l| l[0][2] = "bar = CoreBarrier Pool".into()).is_empty(), "no list means all cores");
    let d = at_bir(|l| l[0][2] = l[0][2].replace("bar", "other"));
    expect(&d, codes::C0303, "`other` on one core and `bar` on the other");
    assert!(!d[0].is_error());
}

#[test]
fn crossed_meetings_are_deadlocks() {
    let d = at_bir(|l| l[0].swap(1, 2));
    expect(
        &d,
        codes::C0401,
        "deadlock: core 0 waits at core barrier `bar` while core 1 waits at swap on pipe 0 `sr`",
    );
    let d = at_bir(|l| l[0].swap(2, 3));
    expect(&d, codes::C0401, "waits at swap on pipe 3 `sr2` while core 1 waits at core barrier `bar`");
    let labels: Vec<&str> = d[0].sites.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["first unmatched", "first unmatched", "last matched", "last matched"]);
    assert_eq!(d[0].sites[2].inst, "sr");
    let d = at_bir(|l| {
        l.iter_mut().for_each(|l| drop(l.remove(2)));
        l[0].swap(1, 2);
    });
    expect(&d, codes::C0402, "deadlock: core 0 waits at swap on pipe 3 `sr2`");
    assert!(d[0].notes.iter().any(|n| n.contains("crossed pipes hang")));
    // The same order on both cores is clean, whatever it is.
    assert!(at_bir(|l| l.iter_mut().for_each(|l| l.swap(1, 2))).is_empty());
}

#[test]
fn a_block_of_one_core_alone() {
    let mut l = lines(0);
    l.push("j = UnconditionalBranch Sp {target = \"b1\"}".replace("Sp", "SP"));
    let extra = format!(
        "{}\n    block b1 {{\n      z = CoreBarrier Pool\n    }}",
        block(&l.iter().map(String::as_str).collect::<Vec<_>>())
    );
    let other = block(&lines(1).iter().map(String::as_str).collect::<Vec<_>>());
    let d = run(&parse(&text("bir", [&extra, &other])));
    expect(&d, codes::C0403, "block `b1` of core 0 waits for core 1");
}

#[test]
fn outputs() {
    let d = at_bir(|l| l.iter_mut().for_each(|l| drop(l.pop())));
    expect(&d, codes::C0501, "output `y` is never written");
    assert_eq!(d.len(), 1, "a shared output is one output");
    assert!(at_bir(|l| drop(l[1].pop())).is_empty(), "one core may write a shared output alone");
}

// ---- lowered programs ----

/// Lines of one core at level `lowered`: pull the peer's tile between two barriers, edges written down.
fn lowered(core: u32) -> Vec<String> {
    let half = 4096 * core;
    vec![
        format!("ld = DMACopy DMA @a{T} <- @x{T}"),
        "begin = CoreBarrier Pool {cores = [0, 1], id = 0} after(ld)".to_owned(),
        format!("pull = DMACopy DMA @b{T} <- @a_remote{T} after(begin)"),
        "end = CoreBarrier Pool {cores = [0, 1], id = 1} after(pull)".to_owned(),
        format!("neg = TensorCopy DVE @a{T} <- @b{T} after(end)"),
        format!(
            "st = DMACopy DMA @y[off {half}, [64,64] [1,64]] float32 <- @a[[64,64] [1,64]] float32 after(neg)"
        ),
    ]
}

fn at_lowered(change: impl Fn(&mut [Vec<String>; 2])) -> Vec<Diagnostic> {
    let mut l = [lowered(0), lowered(1)];
    change(&mut l);
    let bodies = l.map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
    run(&parse(&text("lowered", [&bodies[0], &bodies[1]])))
}

#[test]
fn a_pull_between_barriers_is_clean_and_every_barrier_of_it_is_needed() {
    let d = at_lowered(|_| {});
    assert!(d.is_empty(), "{d:#?}");
    // Both cores lose the opening barrier: the pull may read the tile before it is loaded.
    let d = at_lowered(|l| {
        for l in l {
            l.remove(1);
            l[1] = l[1].replace("after(begin)", "after(ld)");
            l[2] = l[2].replace("id = 1", "id = 0");
        }
    });
    expect(&d, codes::C0601, "missing core barrier between ld@nc0 and pull@nc1 on a");
    assert_eq!(d.len(), 1, "{d:#?}");
    // Both lose the closing one: the tile may be overwritten while the other core reads it.
    let d = at_lowered(|l| {
        for l in l {
            l.remove(3);
            l[3] = l[3].replace("after(end)", "after(pull)");
        }
    });
    expect(&d, codes::C0601, "missing core barrier between neg@nc0 and pull@nc1 on a");
    assert_eq!(d.len(), 1, "{d:#?}");
}

#[test]
fn a_barrier_is_a_fence_without_edges() {
    // The place of a barrier orders, whatever edges name it (decision D17).
    let d = at_lowered(|l| l.iter_mut().for_each(|l| l[1] = l[1].replace(" after(ld)", "")));
    assert!(d.is_empty(), "{d:#?}");
    let d = at_lowered(|l| l.iter_mut().for_each(|l| l[4] = l[4].replace(" after(end)", " after(pull)")));
    assert!(d.is_empty(), "{d:#?}");
    // An edge to what stands behind the barrier is never met.
    let d = at_lowered(|l| l[0][0].push_str(" after(neg)"));
    expect(&d, codes::C0405, "deadlock inside core 0");
    assert!(d.len() == 1 && d[0].sites.len() >= 2, "{d:#?}");
}

#[test]
fn both_cores_writing_one_output_is_a_missing_barrier_and_halves_are_not() {
    let d = at_lowered(|l| l[1][5] = lowered(0)[5].clone());
    expect(&d, codes::C0601, "missing core barrier between st@nc0 and st@nc1 on y");
    assert!(d[0].sites[0].label.contains("writes bytes 32768..49152"), "{d:#?}");
}

#[test]
fn a_token_orders_a_write_and_a_later_block() {
    let body = |core: usize| {
        let tok = "\"y-PTCOM\" = TensorCompletion Pool <- @s[[64,128] [1,64]] float32";
        if core == 0 {
            format!(
                "{}\n{}",
                block(&[
                    &format!("w = DMACopy DMA @s{T} <- @x{T}"),
                    &format!("{tok} after(w)"),
                    "j = UnconditionalBranch SP {target = \"b1\"}"
                ]),
                block(&[&format!("st = DMACopy DMA @y{T} <- @x{T}")]).replace("b0", "b1")
            )
        } else {
            format!(
                "{}\n{}",
                block(&[tok, "j = UnconditionalBranch SP {target = \"b1\"}"]),
                block(&[&format!("r = DMACopy DMA @a{T} <- @s{T}")]).replace("b0", "b1")
            )
        }
    };
    let p = parse(&text("lowered", [&body(0), &body(1)]));
    let d = run(&p);
    assert!(d.is_empty(), "{d:#?}");
    let off = CheckOptions { tokens_order: false, ..CheckOptions::default() };
    expect(&check(&p, &off), codes::C0601, "missing core barrier between w@nc0 and r@nc1 on s");
    let few = CheckOptions { max_pairs: 0, tokens_order: false, ..CheckOptions::default() };
    expect(&check(&p, &few), codes::C0602, "stopped after 0 pairs");
    let skip =
        CheckOptions { skip: vec!["barriercheck".into()], tokens_order: false, ..CheckOptions::default() };
    assert!(check(&p, &skip).is_empty());
}

#[test]
fn a_remote_notification_stands_for_the_closing_barrier() {
    let without_end = |l: &mut [Vec<String>; 2], notify: bool| {
        for (c, l) in l.iter_mut().enumerate() {
            l.remove(3);
            l[3] = l[3].replace("after(end)", "after(pull)");
            if notify {
                l[2] = l[2].replace(
                    " after(begin)",
                    &format!(" {{remote_notification = [{}]}} after(begin)", 1 - c),
                );
            }
        }
    };
    assert!(at_lowered(|l| without_end(l, true)).is_empty(), "{:#?}", at_lowered(|l| without_end(l, true)));
    expect(&at_lowered(|l| without_end(l, false)), codes::C0601, "neg@nc0 and pull@nc1");
    // What does not wait for the own transfer does not wait for the notice either.
    let d = at_lowered(|l| {
        without_end(l, true);
        l.iter_mut().for_each(|l| l[3] = l[3].replace("after(pull)", "after(begin)"));
    });
    expect(&d, codes::C0601, "neg@nc0 and pull@nc1");
    // The two transfers themselves are not ordered: a swap in place is a race.
    let d = at_lowered(|l| {
        without_end(l, true);
        l.iter_mut().for_each(|l| l[2] = l[2].replace("DMA @b[", "DMA @a["));
    });
    expect(&d, codes::C0601, "pull@nc0 and pull@nc1 on a");
}

fn lnc_code(p: &Program) -> Vec<u16> {
    lnc_verifier(p).iter().map(|e| e.code).collect()
}

#[test]
fn lnc_verifier_concretized() {
    let base = || {
        let bodies =
            [lowered(0), lowered(1)].map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
        parse(&text("lowered", [&bodies[0], &bodies[1]]))
    };
    let with = |change: &dyn Fn(&mut Program)| {
        let mut p = base();
        change(&mut p);
        lnc_verifier(&p)
    };
    use tandem_bir::entity::EntityRef;
    use tandem_bir::{Attr, BlockId, CoreId, Expr, FuncId, Inst, InstId, Opcode, RemoteTarget};
    assert!(lnc_verifier(&base()).is_empty());
    let only = |code: u16, text: &str, change: &dyn Fn(&mut Program)| {
        let e = with(change);
        assert!(!e.is_empty() && e.iter().all(|e| e.code == code), "{code}: {e:#?}");
        let d = &e[0].diagnostic;
        assert!(d.message.contains(text), "{code}: {}", d.message);
        assert_eq!(e[0].tag, format!("NCC_IXLV{:03}", code - 1187));
        assert!(d.notes[0].contains(&format!("vendor check {code} ({})", e[0].tag)), "{d:?}");
        assert_eq!(d.code.info().id, format!("C{code}"));
    };
    only(1203, "has no core id", &|p| p.modules[1].core = None);
    only(1199, "still has a shard id", &|p| {
        p.modules[1].insts[InstId::new(0)].more_mut().predicates.push(Expr::ShardId { ub: 2 });
    });
    only(1193, "core 1 has 2 functions, core 0 has 1", &|p| {
        p.modules[1].add_function("g");
    });
    only(1191, "core 1 has no function `main`", &|p| {
        p.modules[1].funcs[FuncId::new(0)].name = "other".into()
    });
    only(1192, "has 1 blocks on core 0 and 2 on core 1", &|p| {
        p.modules[1].add_block(FuncId::new(0), "b9");
    });
    only(1194, "is `b0` on core 0 and `bx` on core 1", &|p| {
        p.modules[1].blocks[BlockId::new(0)].name = "bx".into()
    });
    only(1187, "core 0 has 2 core barriers, core 1 has 1", &|p| {
        p.modules[1].blocks[BlockId::new(0)].insts.remove(1);
    });
    only(1198, "core 0 has 0 GPSIMD swaps, core 1 has 1", &|p| {
        p.modules[1].push_inst(BlockId::new(0), Inst::new("s", Opcode::GpsimdSb2Sb));
    });
    // Location 2 is `s`: shared, internal.
    let placed = |p: &mut Program| {
        for m in &mut p.modules {
            m.memlocs[tandem_bir::MemLocId::new(2)].is_shared_post_dram_alloc = true;
        }
        p.modules[1].memlocs[tandem_bir::MemLocId::new(2)].remote_local_target =
            Some(RemoteTarget { name: "s".into(), core: CoreId(0) });
    };
    assert!(with(&placed).is_empty());
    only(1197, "does not name its owner", &|p| {
        placed(p);
        p.modules[1].memlocs[tandem_bir::MemLocId::new(2)].remote_local_target = None;
    });
    only(1195, "is at 65537, `s` of core 0 is at 65536", &|p| {
        placed(p);
        p.modules[1].memlocs[tandem_bir::MemLocId::new(2)].addr += 1;
    });
    only(1195, "core 0 has no location `gone`", &|p| {
        placed(p);
        p.modules[1].memlocs[tandem_bir::MemLocId::new(2)].remote_local_target =
            Some(RemoteTarget { name: "gone".into(), core: CoreId(0) });
    });
    only(1188, "core barrier #1 (`end`) of core 1 has id 7", &|p| {
        p.modules[1].insts[InstId::new(3)].set(Attr::Id, 7i64);
    });
    only(1189, "is `end` on core 0 and `finish` on core 1", &|p| {
        p.modules[1].insts[InstId::new(3)].name = "finish".into();
    });
    only(1196, "core 0 has a shared tensor at DRAM address 65536, core 1 has none there", &|p| {
        p.modules[0].memlocs[tandem_bir::MemLocId::new(2)].is_shared_post_dram_alloc = true;
    });
    let mut p = base();
    p.lnc_size = 1;
    assert!(lnc_code(&p).is_empty(), "one core: nothing runs");
    // Several failures of one check are all reported.
    let e = with(&|p| {
        p.modules.iter_mut().for_each(|m| {
            m.insts[InstId::new(1)].set(Attr::Id, 5i64);
            m.insts[InstId::new(3)].set(Attr::Id, 6i64);
        })
    });
    assert_eq!(e.len(), 4);
}

#[test]
fn lnc_verifier_symbolic() {
    use tandem_bir::{ArchLevel, Expr, Inst, Level, Module, Opcode};
    let build = |insts: Vec<Inst>| {
        let mut m = Module::new("sym", None, ArchLevel::Gen3);
        let f = m.add_function("main");
        let b = m.add_block(f, "b0");
        for i in insts {
            m.push_inst(b, i);
        }
        Program {
            name: "k".into(),
            lnc_size: 2,
            level: Level::Bir,
            modules: vec![m],
            locs: Default::default(),
            constants: Default::default(),
            signature: Default::default(),
        }
    };
    // shard == 0 as two predicates: shard >= 0 and -shard >= 0.
    let only_0 = |mut i: Inst, ub: i64| {
        let s = Expr::ShardId { ub };
        i.more_mut().predicates = vec![s.clone(), Expr::Mult { var: Box::new(s), scale: -1 }];
        i
    };
    let bar = || Inst::new("bar", Opcode::CoreBarrier);
    assert!(lnc_code(&build(vec![bar()])).is_empty());
    assert_eq!(lnc_code(&build(vec![only_0(bar(), 2)])), [1201]);
    let mut two = Inst::new("b2", Opcode::CoreBarrier);
    two.more_mut().predicates = vec![Expr::ShardId { ub: 4 }];
    assert_eq!(lnc_code(&build(vec![only_0(bar(), 2), two])), [1200]);
    assert_eq!(lnc_code(&build(vec![only_0(Inst::new("s", Opcode::GpsimdSb2Sb), 2)])), [1202]);
}

#[test]
fn paths_with_unequal_meetings() {
    let body = |trips: u32, from: &str| {
        let start = format!(
            "m = RegisterMove ALL $i int32 <- 0 int32
n = {from}
j = UnconditionalBranch ALL {{target = b1}}"
        );
        let step = format!(
            "{BAR}
add = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
             br = CompareAndBranch ALL <- $i int32, $n int32 {{comp_op = IS_LTREG, on_true = b1, on_false = b2}}"
        );
        let end = format!("st = DMACopy DMA @y{T} <- @x{T}");
        let b = |name: &str, lines: &str| block(&[lines]).replace("b0 {", &format!("{name} {{"));
        let trips = trips.to_string();
        let regs = "    reg $i = ALL
    reg $n = ALL
    set @n_set = Internal NeuronSBTensor Local int32 [1 x 1] { loc @nn = SB [1, 4] addr 4096 allocated }
";
        format!(
            "{regs}{}
{}
{}",
            b("b0", &start.replace("TRIPS", &trips)),
            b("b1", &step),
            b("b2", &end)
        )
    };
    let known = "RegisterMove ALL $n int32 <- TRIPS int32";
    let both = |a: String, b: String| run(&parse(&text("bir", [&a, &b])));
    let d = both(body(3, known), body(3, known));
    assert!(d.is_empty(), "{d:#?}");
    let d = both(body(3, known), body(2, known));
    expect(&d, codes::C0407, "deadlock: core 0 waits at core barrier `bar` (execution 3), core 1 has ended");
    assert_eq!(d.len(), 1);
    // A number of trips from memory is not known, so nothing is said.
    let d = both(body(3, "TensorLoad ALL $n int32 <- @nn[[1,1] [1,1]] int32"), body(2, known));
    assert!(d.is_empty(), "{d:#?}");
}

#[test]
fn a_program_that_does_not_verify_gives_the_verifiers_findings() {
    let d = at_bir(|l| l[0][0] = l[0][0].replace("[1,64]] float32 <-", "[1,32]] float32 <-"));
    assert!(d.iter().all(|d| d.code.info().id.starts_with('V')), "{d:#?}");
}

#[test]
fn removing_any_one_meeting_is_objected_to() {
    let meetings = [1, 2, 3, 4];
    for core in 0..2 {
        for m in meetings {
            let d = at_bir(|l| drop(l[core].remove(m)));
            assert!(d.iter().any(Diagnostic::is_error), "core {core} line {m}");
        }
    }
    for core in 0..2 {
        for (line, edge) in [(1, "after(begin)"), (3, "after(end)")] {
            let d = at_lowered(|l| {
                l[core].remove(line);
                let i = line;
                l[core][i] = l[core][i].replace(edge, if line == 1 { "after(ld)" } else { "after(pull)" });
            });
            assert!(d.iter().any(Diagnostic::is_error), "core {core} line {line}");
        }
    }
}

#[test]
fn a_location_without_address_and_owner_has_no_place() {
    let l = [lowered(0), lowered(1)];
    let bodies = l.map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
    let t = text("lowered", [&bodies[0], &bodies[1]]);
    // an alias has its owner's place, allocated itself or not
    let placeless = t.replacen(" addr 0 allocated remote @a core 1", " remote @a core 1", 1);
    assert!(run(&parse(&placeless)).is_empty());
    let d = run(&parse(&placeless.replacen(" remote @a core 1", "", 1)));
    let d: Vec<_> = d.into_iter().filter(|d| d.code == codes::C0603).collect();
    expect(&d, codes::C0603, "`a_remote` lies in SB and is neither allocated nor an alias");
    assert_eq!((d.len(), d[0].sites.len()), (1, 1));
}

#[test]
fn the_registry_covers_every_code_and_every_code_has_a_test() {
    let text = include_str!("checks.rs");
    for c in codes::ALL.iter().filter(|c| c.info().id.starts_with('C')) {
        let id = c.info().id;
        assert!(CHECKS.iter().any(|k| k.codes.contains(c)), "{id} belongs to no check");
        assert!(text.contains(&format!("codes::{id}")) || text.contains(&id[1..]), "{id} has no test");
    }
}

// ---- trip counts, queues, pending waits ----

#[test]
fn loops_around_a_meeting_have_equal_rounds() {
    let body = |lb: u32, ub: u32, stride: u32, inside: &str| {
        format!(
            "    block b0 {{
      ld = DMACopy DMA @a{T} <- @x{T}
      st = DMACopy DMA @y{T} <- @x{T}
      l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":{lb},\"ub\":{ub},\"stride\":{stride}}}}} regions {{
        block inner {{
          {inside}
        }}
      }}
    }}"
        )
    };
    let two = |a: &str, b: &str| {
        run(&parse(&text("bir", [a, b]))).into_iter().filter(|d| d.code == codes::C0404).collect::<Vec<_>>()
    };
    assert!(two(&body(0, 4, 1, BAR), &body(0, 4, 1, BAR)).is_empty());
    // 4 rounds either way: 0, 1, 2, 3 and 1, 3, 5, 7.
    assert!(two(&body(0, 4, 1, BAR), &body(1, 8, 2, BAR)).is_empty());
    let d = two(&body(0, 4, 1, BAR), &body(0, 5, 1, BAR));
    assert_eq!(d.len(), 1, "{d:#?}");
    assert!(d[0].message.contains("core 0 comes 4 times to core barrier `bar`, core 1 5 times"), "{d:#?}");
    assert_eq!(d[0].sites.iter().map(|s| s.inst.as_str()).collect::<Vec<_>>(), ["l", "l", "bar", "bar"]);
    // A loop that meets nobody may run as often as it likes.
    let quiet = format!("c = TensorCopy DVE @b{T} <- @a{T}");
    assert!(two(&body(0, 4, 1, &quiet), &body(0, 5, 1, &quiet)).is_empty());
}

#[test]
fn a_circle_of_queues_is_a_deadlock() {
    let lines = |forward: &str| {
        let copy = |n: &str, e: &str, deps: &str| format!("{n} = TensorCopy {e} @b{T} <- @a{T} {deps}");
        block(
            &[
                format!("ld = DMACopy DMA @a{T} <- @x{T}"),
                copy("d1", "DVE", forward),
                copy("p1", "Pool", "after(d2)"),
                copy("d2", "DVE", "after(ld)"),
                copy("p2", "Pool", ""),
                format!("st = DMACopy DMA @y{T} <- @b{T} after(p2)"),
            ]
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        )
    };
    let circles = |body: &str| {
        let d = run(&parse(&text("lowered", [body, body])));
        d.into_iter().filter(|d| d.code == codes::C0405).collect::<Vec<_>>()
    };
    // An edge that points forward to another queue is legal as long as nothing comes back.
    assert!(circles(&lines("after(ld)")).is_empty());
    let d = circles(&lines("after(p2)"));
    assert_eq!(d.len(), 2, "one on each core: {d:#?}");
    let names: std::collections::BTreeSet<&str> = d[0].sites.iter().map(|s| s.inst.as_str()).collect();
    // d1 waits for p2 by its edge, p2 for p1 by its queue, p1 for d2 by its edge, d2 for d1 by its queue.
    assert_eq!(names, ["d1", "d2", "p1", "p2"].into_iter().collect());
}

#[test]
fn a_token_without_an_answer_is_a_pending_wait() {
    let tok = |n: &str| format!("\"{n}\" = TensorCompletion Pool <- @s[[64,128] [1,64]] float32");
    let body = |tokens: &[&str]| {
        let mut l = vec![
            format!("w = DMACopy DMA @s[[64,64] [1,64]] float32 <- @x[[64,64] [1,64]] float32"),
            format!("st = DMACopy DMA @y{T} <- @x{T}"),
        ];
        l.extend(tokens.iter().map(|n| tok(n) + " after(w)"));
        block(&l.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let pending = |a: &[&str], b: &[&str]| {
        let d = run(&parse(&text("lowered", [&body(a), &body(b)])));
        d.into_iter().filter(|d| d.code == codes::C0406).collect::<Vec<_>>()
    };
    assert!(pending(&["k"], &["k"]).is_empty());
    let d = pending(&["k", "k2"], &["k"]);
    assert_eq!(d.len(), 1, "{d:#?}");
    assert!(
        d[0].message.contains("core 0 ends with a pending wait: `k2` waits for completion #1 of `s`"),
        "{d:#?}"
    );
    assert_eq!(d[0].sites[1].label, "last matched");
    assert_eq!(pending(&[], &["k"]).len(), 1);
}

/// `n` blocks, each a barrier and nothing else, behind a branch; block 5 of core 0 ends with a write of shared DRAM, and the block
/// behind it begins on core 1 with a read, `apart` by the barrier of that block or not.
fn many_blocks(n: usize, free: bool, apart: bool) -> Program {
    let body = |c: usize| {
        let mut s = String::from(
            "    reg $r = ALL\n    reg $k = ALL\n    block b0 {\n      wi = Memset DVE @a[[64,1] [1,1]] float32 {mode = Const, constant = 1}\n      get = TensorLoad ALL $r int32 <- @a[[64,1] [1,1]] int32 after(wi)\n      k1 = RegisterMove ALL $k int32 <- 1 int32\n      br = CompareAndBranch ALL <- $r int32, $k int32 {comp_op = IS_EQREG, on_true = b1, on_false = b2}\n    }\n",
        );
        let mut id = 0;
        for b in 1..=n {
            s += &format!("    block b{b} {{\n");
            if !free || (b == 6 && apart) {
                s += &format!("      bar{b} = CoreBarrier Pool {{id = {id}, cores = [0, 1]}}\n");
                id += 1;
            }
            if b == 5 && c == 0 {
                s += &format!("      w = DMACopy DMA @s{T} <- @x{T}\n");
            }
            if b == 6 && c == 1 {
                s += &format!("      r = DMACopy DMA @b{T} <- @s{T}\n");
                if !free && !apart {
                    // The read comes before the barrier of its block.
                    let bar =
                        format!("      bar{b} = CoreBarrier Pool {{id = {}, cores = [0, 1]}}\n", id - 1);
                    s = s.replace(&bar, "");
                    s += &bar;
                }
            }
            s += "    }\n";
        }
        s
    };
    parse(&text("lowered", [&body(0), &body(1)]))
}

#[test]
fn accesses_of_neighbouring_blocks_are_compared_in_programs_of_any_number_of_blocks() {
    for n in [10, 127, 128, 129, 600] {
        let found = run(&many_blocks(n, false, false));
        let of = |c: Code| found.iter().filter(|d| d.code == c).count();
        assert_eq!((of(codes::C0601), of(codes::C0602)), (1, 0), "{n} blocks: {found:#?}");
        let found = run(&many_blocks(n, false, true));
        assert!(
            found.iter().all(|d| d.code != codes::C0601 && d.code != codes::C0602),
            "{n} blocks: {found:#?}"
        );
    }
}

#[test]
fn blocks_with_too_many_ways_between_them_are_said_to_be_left_out() {
    // Nothing meets anywhere: every block leads to every later one.
    let found = run(&many_blocks(700, true, false));
    assert!(found.iter().any(|d| d.code == codes::C0602 && d.message.contains("ways")), "{found:#?}");
}
