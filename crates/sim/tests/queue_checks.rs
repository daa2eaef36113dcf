//! The checks of levels linked and bundles: the verdicts of level lowered, what a counting semaphore proves, reports of
//! deadlocks, several LNCs, progress and cancelling, and the cost of a step.

mod generated;

use cpu_time::ThreadTime;
use generated::program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::diag::{Diagnostic, codes, render};
use tandem_bir::inst::{SemUpdate, SemWait};
use tandem_bir::linked::{LinkedCore, LinkedProgram, Stream};
use tandem_bir::*;
use tandem_sim::random::{SplitMix64, random_tensor};
use tandem_sim::{Outcome, Ranks, RunOptions, Schedule, Simulator, StopReason, Tensor, queue_style};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn inputs(p: &Program) -> Vec<Tensor> {
    p.signature
        .inputs
        .iter()
        .map(|w| random_tensor(7, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect()
}

fn lowered(seed: u64) -> Program {
    let mut p = program(seed);
    let opts = tandem_backend::PassOptions::for_program(&p);
    let o = tandem_backend::lower(&mut p, &opts);
    assert!(!o.failed, "{seed}: {}", show(&o.diags));
    p
}

fn linked(p: &Program) -> LinkedProgram {
    link(p, LinkOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).0
}

fn bundles(l: &LinkedProgram, debug: bool) -> LinkedProgram {
    let opts = WriteOptions { debug, ..WriteOptions::default() };
    let (bytes, _) = encode(l, opts).unwrap_or_else(|e| panic!("{}", show(&e)));
    decode(&bytes).unwrap_or_else(|e| panic!("{}", show(&[e])))
}

fn run(l: &LinkedProgram, opts: RunOptions) -> Outcome {
    queue_style::run(l, &inputs(&l.program), opts).unwrap_or_else(|e| panic!("{}", show(&e)))
}

fn eager(l: &LinkedProgram) -> Outcome {
    run(l, RunOptions::default())
}

fn run_lowered(p: &Program) -> Outcome {
    let mut r = Simulator::new(p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
    r.set_inputs(&inputs(p)).unwrap_or_else(|e| panic!("{}", show(&e)));
    r.run()
}

fn codes_of(o: &Outcome) -> Vec<String> {
    let mut c: Vec<String> = o.diagnostics.iter().map(|d| d.code.to_string()).collect();
    c.sort();
    c.dedup();
    c
}

/// Drops one edge of one instruction; `None` when the one chosen has none.
fn without_an_edge(p: &Program, rng: &mut SplitMix64) -> Option<Program> {
    let mut p = p.clone();
    let core = rng.below(2) as usize;
    let m = &mut p.modules[core];
    let with: Vec<InstId> = m.insts.iter().filter(|(_, i)| !i.deps.is_empty()).map(|(id, _)| id).collect();
    let i = *with.get(rng.below(with.len().max(1) as u64) as usize)?;
    let n = m.insts[i].deps.len();
    m.insts[i].deps.remove(rng.below(n as u64) as usize);
    Some(p)
}

#[test]
fn one_edge_less_is_judged_as_at_level_lowered() {
    let n = if cfg!(debug_assertions) { 120 } else { 1000 };
    let (mut races, mut clean) = (0, 0);
    for seed in 0..n {
        let whole = lowered(seed);
        let mut rng = SplitMix64(seed);
        for _ in 0..4 {
            let Some(p) = without_an_edge(&whole, &mut rng) else { continue };
            let want = codes_of(&run_lowered(&p));
            let l = linked(&p);
            for (what, x) in
                [("linked", l.clone()), ("debug", bundles(&l, true)), ("bare", bundles(&l, false))]
            {
                let o = eager(&x);
                assert_eq!(codes_of(&o), want, "{seed} {what}: {}", show(&o.diagnostics));
            }
            if want.is_empty() {
                clean += 1;
            } else {
                races += 1;
            }
        }
    }
    assert!(races > 20 && clean > 20, "{races} with a race, {clean} without");
}

#[test]
fn a_race_names_both_places_at_every_level() {
    let mut seen = 0;
    for seed in 0..60 {
        let whole = lowered(seed);
        let mut rng = SplitMix64(seed);
        let Some(mut p) = without_an_edge(&whole, &mut rng) else { continue };
        let pos = |line| {
            diag::LocEntry::Pos(diag::SourcePos {
                file: "k.py".into(),
                line,
                column: 1,
                end_line: None,
                end_column: None,
            })
        };
        for c in 0..2 {
            for k in 0..p.modules[c].insts.len() as u32 {
                let loc = p.locs.intern(pos(100 * c as u32 + k + 1));
                p.modules[c].insts[entity::EntityRef::new(k as usize)].loc = loc;
            }
        }
        let race = |o: &Outcome| o.diagnostics.iter().find(|d| d.code == codes::S0020).cloned();
        let Some(want) = race(&run_lowered(&p)) else { continue };
        seen += 1;
        let key = |d: &Diagnostic| {
            let mut k: Vec<_> = d.sites.iter().map(|s| (s.core, s.inst.clone(), s.pos.clone())).collect();
            k.sort_by_key(|k| (k.0, k.1.clone()));
            k
        };
        let l = linked(&p);
        for x in [l.clone(), bundles(&l, true)] {
            let d = race(&eager(&x)).expect("the race");
            assert_eq!(d.sites.len(), 2);
            assert_eq!(key(&d), key(&want), "{seed}: {}\n{}", show(&[d]), show(std::slice::from_ref(&want)));
        }
        // Without names: the stream and the record.
        let d = race(&eager(&bundles(&l, false))).expect("the race");
        for s in &d.sites {
            let (engine, record) = s.inst.split_once('.').expect("engine and record");
            assert!(s.pos.is_none() && record.parse::<u32>().is_ok(), "{engine} {record}");
        }
    }
    assert!(seen > 4, "{seen}");
}

/// Every wait holds something: without it, the program is refuted, or another wait orders the same.
#[test]
fn a_dropped_wait_is_seen() {
    let (mut refuted, mut all) = (0, 0);
    for seed in 0..12 {
        let l = linked(&lowered(seed));
        for c in 0..2 {
            let waits: Vec<InstId> = l.program.modules[c]
                .insts
                .iter()
                .filter(|(_, i)| i.sync().is_some_and(|s| !s.on_wait.is_empty()))
                .map(|(id, _)| id)
                .collect();
            for i in waits {
                let mut x = l.clone();
                x.program.modules[c].insts[i].more_mut().sync.get_or_insert_default().on_wait.clear();
                let o = eager(&x);
                assert_eq!(o.stop, StopReason::Finished);
                let found = codes_of(&o);
                assert!(found.iter().all(|c| c == "S0020" || c == "S0025"), "{}", show(&o.diagnostics));
                all += 1;
                refuted += usize::from(!found.is_empty());
                if found.is_empty() {
                    continue;
                }
                // Its bytes may be right all the same: the finding does not hang on the schedule.
                let late = run(&x, RunOptions { schedule: Schedule::Late, ..RunOptions::default() });
                assert_eq!(codes_of(&late), found, "{seed}: {}", show(&late.diagnostics));
            }
        }
    }
    assert!(refuted * 2 > all, "{refuted} of {all}");
}

/// One core, `n` engines; engine `k` copies `x` into its tile `t<k>` and raises semaphore 20; the last engine waits and
/// adds up the first two tiles.
struct Hand {
    p: Program,
    streams: Vec<Stream>,
}

impl Hand {
    fn new(engines: &[EngineKind]) -> Hand {
        let mut p = lowered(0);
        p.lnc_size = 1;
        p.level = Level::Linked;
        p.locs = Default::default();
        p.signature = Signature::default();
        let mut m = Module::new("nc00", Some(CoreId(0)), ArchLevel::Gen3);
        let f = m.add_function("main");
        m.add_block(f, "b0");
        p.modules = vec![m];
        let streams =
            engines.iter().map(|e| Stream { engine: *e, insts: Vec::new(), branches: Vec::new() }).collect();
        Hand { p, streams }
    }
    fn tile(&mut self, name: &str, at: u64) -> MemLocId {
        let m = &mut self.p.modules[0];
        let f = m.functions[0];
        let set = MemoryLocationSet {
            class: TensorClass::NeuronSbTensor,
            ..MemoryLocationSet::new(name, Dtype::Float32, TensorKind::Internal, AddressSpace::Local, &[4, 4])
        };
        let mut l = MemoryLocation::new(name, SetId::from_u32(0), MemoryType::Sb, &[4, 16]);
        l.addr = at;
        l.allocated = true;
        m.add_location(f, set, l)
    }
    fn push(&mut self, e: usize, mut i: Inst, waits: &[(u32, i64)], updates: &[(u32, i64)]) -> InstId {
        i.engine = self.streams[e].engine;
        if !waits.is_empty() || !updates.is_empty() {
            let s = i.more_mut().sync.get_or_insert_default();
            s.on_wait = waits
                .iter()
                .map(|(sem, value)| SemWait { sem: *sem, value: *value, ..SemWait::default() })
                .collect();
            s.on_update = updates
                .iter()
                .map(|(sem, value)| SemUpdate { sem: *sem, value: *value, ..SemUpdate::default() })
                .collect();
        }
        let m = &mut self.p.modules[0];
        let b = m.funcs[m.functions[0]].blocks[0];
        let id = m.push_inst(b, i);
        self.streams[e].insts.push(id);
        id
    }
    fn fill(&mut self, e: usize, name: &str, t: MemLocId, waits: &[(u32, i64)], updates: &[(u32, i64)]) {
        let mut i = Inst::new(name, Opcode::Memset)
            .with(Attr::Mode, MemsetMode::Const)
            .with(Attr::Constant, i64::from(1f32.to_bits()));
        i.outs = vec![ap(t)];
        self.push(e, i, waits, updates);
    }
    #[expect(clippy::too_many_arguments, reason = "one line per instruction of a test program")]
    fn copy(
        &mut self,
        e: usize,
        name: &str,
        op: Opcode,
        from: MemLocId,
        to: MemLocId,
        waits: &[(u32, i64)],
        updates: &[(u32, i64)],
    ) {
        let mut i = Inst::new(name, op);
        i.ins = vec![ap(from)];
        i.outs = vec![ap(to)];
        self.push(e, i, waits, updates);
    }
    fn reset(&mut self, e: usize, name: &str, sem: i64, waits: &[(u32, i64)], updates: &[(u32, i64)]) {
        let i = Inst::new(name, Opcode::GroupResetSemaphores)
            .with(Attr::Mode, EventSemaphoreClearMode::SemaphoreZeroBitmask)
            .with(Attr::SemaGroup, vec![sem]);
        self.push(e, i, waits, updates);
    }
    fn end(mut self) -> LinkedProgram {
        for e in 0..self.streams.len() {
            self.push(e, Inst::new(&format!("exit{e}"), Opcode::Exit), &[], &[]);
        }
        let core = LinkedCore { streams: self.streams, ..LinkedCore::default() };
        LinkedProgram { program: self.p, cores: vec![core], barriers: vec![], tokens: vec![], swaps: vec![] }
    }
}

fn ap(l: MemLocId) -> Operand {
    Operand::Ap(AccessPattern::new(l, Dtype::Float32, 0, &[(4, 4), (1, 4)]))
}

const DVE_ACT_POOL: [EngineKind; 3] = [EngineKind::Dve, EngineKind::Activation, EngineKind::Pool];

/// Two producers raise semaphore 20 by `a` and `b`; a third engine waits for `need` and reads the tile of the first.
fn two_producers(a: i64, b: i64, need: i64) -> Outcome {
    let mut h = Hand::new(&DVE_ACT_POOL);
    let (t, u, v) = (h.tile("t", 0), h.tile("u", 16), h.tile("v", 32));
    h.fill(0, "first", t, &[], &[(20, a)]);
    h.fill(1, "second", u, &[], &[(20, b)]);
    h.copy(2, "use", Opcode::TensorCopy, t, v, &[(20, need)], &[]);
    eager(&h.end())
}

#[test]
fn a_wait_proves_what_the_others_cannot_supply() {
    // 1 + 1: waiting for both proves both.
    assert!(two_producers(1, 1, 2).diagnostics.is_empty());
    // The second alone could have supplied it.
    let o = two_producers(1, 1, 1);
    assert_eq!(codes_of(&o), ["S0020"]);
    let note = "ambiguous wait: `use` needs 1, 2 producers can supply it";
    assert!(o.diagnostics[0].notes.iter().any(|n| n == note), "{}", show(&o.diagnostics));
    // 3 of 2 + 2 needs the first; 2 of them does not.
    assert!(two_producers(2, 2, 3).diagnostics.is_empty());
    assert_eq!(codes_of(&two_producers(2, 2, 2)), ["S0020"]);
    // 2 + 1: for 2 the first is needed, for 1 it is not.
    assert!(two_producers(2, 1, 2).diagnostics.is_empty());
    assert_eq!(codes_of(&two_producers(2, 1, 1)), ["S0020"]);
}

#[test]
fn one_producer_is_proved_up_to_the_value() {
    let build = |need| {
        let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Pool]);
        let (t, v) = (h.tile("t", 0), h.tile("v", 32));
        h.fill(0, "one", v, &[], &[(3, 1)]);
        h.fill(0, "two", t, &[], &[(3, 1)]);
        h.copy(1, "use", Opcode::TensorCopy, t, v, &[(3, need)], &[]);
        eager(&h.end())
    };
    assert!(build(2).diagnostics.is_empty());
    assert_eq!(codes_of(&build(1)), ["S0020"]);
}

#[test]
fn what_goes_up_and_down_orders_nothing() {
    let mut h = Hand::new(&DVE_ACT_POOL);
    let (t, u, v) = (h.tile("t", 0), h.tile("u", 16), h.tile("v", 32));
    h.fill(0, "first", t, &[], &[(20, 2)]);
    h.fill(1, "second", u, &[(20, 2)], &[(20, -1)]);
    h.copy(2, "use", Opcode::TensorCopy, t, v, &[(20, 1)], &[]);
    let o = eager(&h.end());
    assert_eq!(codes_of(&o), ["S0020", "S0024"], "{}", show(&o.diagnostics));
    let mut h = Hand::new(&[EngineKind::Dve]);
    let t = h.tile("t", 0);
    h.fill(0, "first", t, &[], &[(20, -1)]);
    let o = eager(&h.end());
    assert!(
        o.diagnostics.iter().any(|d| d.is_error() && d.message.contains("below 0")),
        "{}",
        show(&o.diagnostics)
    );
}

/// `use` waits for 1 in both epochs of semaphore 5; DVE resets it in between, ordered or not.
fn with_reset(ordered: bool, schedule: Schedule) -> Outcome {
    let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Pool]);
    let (t, v) = (h.tile("t", 0), h.tile("v", 32));
    h.fill(0, "one", t, &[], &[(5, 1)]);
    h.copy(1, "use", Opcode::TensorCopy, t, v, &[(5, 1)], &[(6, 1)]);
    type Counts = [(u32, i64)];
    let (wait, go): (&Counts, &Counts) = if ordered { (&[(6, 1)], &[(7, 1)]) } else { (&[], &[]) };
    h.reset(0, "zero", 5, wait, go);
    h.fill(0, "two", t, &[(6, 1)], &[(5, 1)]);
    let wait: &[(u32, i64)] = if ordered { &[(7, 1)] } else { &[] };
    h.push(1, Inst::new("go", Opcode::EventSemaphore), wait, &[]);
    h.copy(1, "again", Opcode::TensorCopy, t, v, &[(5, 1)], &[]);
    run(&h.end(), RunOptions { schedule, ..RunOptions::default() })
}

#[test]
fn a_reset_is_ordered_with_what_counts() {
    for schedule in [Schedule::Eager, Schedule::Late] {
        let o = with_reset(true, schedule);
        assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
        assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
    }
    // The wait comes first: what comes after it may as well come before.
    let o = with_reset(false, Schedule::Late);
    assert!(codes_of(&o).contains(&"S0024".to_owned()), "{:?} {}", o.stop, show(&o.diagnostics));
    // The reset comes first: nothing raises it again.
    let o = with_reset(false, Schedule::Eager);
    assert_eq!(o.stop, StopReason::Deadlock);
    let note = "semaphore 5 of core 0 had reached 1 when `zero` reset it";
    assert!(o.diagnostics.iter().any(|d| d.notes.iter().any(|n| n == note)), "{}", show(&o.diagnostics));
}

#[test]
fn a_transfer_nobody_waits_for_is_in_flight_at_the_end() {
    for waited in [true, false] {
        for schedule in [Schedule::Eager, Schedule::Late] {
            let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Sp]);
            let (t, v) = (h.tile("t", 0), h.tile("v", 32));
            h.fill(0, "one", t, &[], &[(0, 1)]);
            h.copy(1, "move", Opcode::DmaCopy, t, v, &[(0, 1)], &[(128, 1)]);
            if waited {
                h.push(0, Inst::new("drain", Opcode::EventSemaphore), &[(128, 1)], &[]);
            }
            let o = run(&h.end(), RunOptions { schedule, ..RunOptions::default() });
            let want: &[&str] = if waited { &[] } else { &["S0025"] };
            assert_eq!(codes_of(&o), want, "{}", show(&o.diagnostics));
        }
    }
}

/// A transfer that is waited for or not; and a semaphore that is raised or lowered.
fn examples() -> [(&'static str, LinkedProgram); 4] {
    let transfer = |waited: bool| {
        let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Sp]);
        let (t, v) = (h.tile("t", 0), h.tile("v", 32));
        h.fill(0, "one", t, &[], &[(0, 1)]);
        h.copy(1, "move", Opcode::DmaCopy, t, v, &[(0, 1)], &[(128, 1)]);
        if waited {
            h.push(0, Inst::new("drain", Opcode::EventSemaphore), &[(128, 1)], &[]);
        }
        h.end()
    };
    let semaphore = |by: i64| {
        let mut h = Hand::new(&[EngineKind::Dve]);
        let t = h.tile("t", 0);
        h.fill(0, "one", t, &[], &[(20, by)]);
        h.end()
    };
    [
        ("S0025/fail", transfer(false)),
        ("S0025/pass", transfer(true)),
        ("S0024/fail", semaphore(-1)),
        ("S0024/pass", semaphore(1)),
    ]
}

/// The containers in `testdata/codes` that show S0024 and S0025 are these programs (`BLESS=1` writes them).
#[test]
fn the_example_containers_are_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/codes");
    for (name, l) in examples() {
        let (bytes, _) = encode(&l, WriteOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
        let path = root.join(format!("{name}.bundles"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(&path, &bytes).expect("written");
        }
        assert!(std::fs::read(&path).expect(name) == bytes, "{name}: run with BLESS=1");
        let d = decode(&bytes).unwrap_or_else(|e| panic!("{}", show(&[e])));
        let (code, fails) = name.split_once('/').expect("code and kind");
        assert_eq!(codes_of(&eager(&d)).contains(&code.to_owned()), fails == "fail", "{name}");
    }
}

#[test]
fn numbers_no_core_has_are_refused() {
    for (wait, update, text) in [(256, 0, "semaphore 256"), (0, 300, "semaphore 300")] {
        let mut h = Hand::new(&[EngineKind::Dve]);
        let t = h.tile("t", 0);
        h.fill(0, "one", t, &[(wait, 0)], &[(update, 1)]);
        let l = h.end();
        let e = queue_style::run(&l, &[], RunOptions::default()).expect_err("refused");
        assert_eq!(e[0].code, codes::S0024);
        assert!(e[0].message.contains(text));
    }
    let mut h = Hand::new(&[EngineKind::Dve]);
    let t = h.tile("t", 0);
    h.fill(0, "one", t, &[], &[(1, 1)]);
    let mut l = h.end();
    for i in l.program.modules[0].insts.values_mut() {
        i.more_mut().sync.get_or_insert_default().on_update.iter_mut().for_each(|u| u.target_core = Some(4));
    }
    assert_eq!(queue_style::run(&l, &[], RunOptions::default()).expect_err("refused")[0].code, codes::S0024);
}

#[test]
fn undefined_bytes_are_followed() {
    let mut h = Hand::new(&[EngineKind::Dve]);
    let (t, u, v) = (h.tile("t", 0), h.tile("u", 16), h.tile("v", 32));
    h.copy(0, "carry", Opcode::TensorCopy, t, u, &[], &[]);
    let mut i = Inst::new("use", Opcode::TensorTensor).with(Attr::Op, AluOp::Add);
    i.ins = vec![ap(u), ap(u)];
    i.outs = vec![ap(v)];
    h.push(0, i, &[], &[]);
    let o = eager(&h.end());
    assert_eq!(codes_of(&o), ["S0021"]);
    assert_eq!(o.diagnostics[0].sites[0].inst, "use");
}

#[test]
fn a_lost_signal_says_what_is_missing() {
    let mut h = Hand::new(&DVE_ACT_POOL);
    let (t, u, v) = (h.tile("t", 0), h.tile("u", 16), h.tile("v", 32));
    h.fill(0, "first", t, &[], &[(20, 1)]);
    h.fill(1, "second", u, &[(21, 1)], &[(22, 1)]);
    h.copy(2, "use", Opcode::TensorCopy, t, v, &[(20, 3)], &[(21, 1)]);
    let o = eager(&h.end());
    assert_eq!(o.stop, StopReason::Deadlock);
    let text = show(&o.diagnostics);
    assert!(text.contains("sem 20: have 1, need 3"), "{text}");
    assert!(
        text.contains("semaphore 20 of core 0, for which Pool waits, has no producer left: a lost signal"),
        "{text}"
    );
    assert!(text.contains("semaphore 21 of core 0 would be raised by `use` (Pool of core 0)"), "{text}");
    let w = o.wait_for.expect("a report");
    assert!(w.to_dot().contains("nothing that is left"), "{}", w.to_dot());
    let j = w.to_json();
    assert_eq!(j["blocked"][0]["semaphores"][0]["need"], 1);
    assert_eq!(j["blocked"][1]["semaphores"][0]["left"], 0);
}

#[test]
fn a_circle_of_engines_is_named() {
    let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Pool]);
    let (t, u) = (h.tile("t", 0), h.tile("u", 16));
    h.fill(0, "a", t, &[(1, 1)], &[(2, 1)]);
    h.fill(1, "b", u, &[(2, 1)], &[(1, 1)]);
    let o = eager(&h.end());
    assert_eq!(o.stop, StopReason::Deadlock);
    let w = o.wait_for.expect("a report");
    assert_eq!(w.ring, [(0, "DVE"), (0, "Pool")], "{w:?}");
    let text = show(&o.diagnostics);
    assert!(text.contains("in a circle: DVE of core 0, then Pool of core 0"), "{text}");
    let dot = w.to_dot();
    assert!(dot.contains("b0 -> b1") && dot.contains("b1 -> b0"), "{dot}");
}

#[test]
fn several_lncs_give_the_bytes_of_lowered() {
    for seed in 0..10 {
        let p = lowered(seed);
        let opts = |schedule| RunOptions { schedule, ranks: Ranks::Lncs(3), ..RunOptions::default() };
        let ins: Vec<Tensor> = (0..3)
            .flat_map(|r| p.signature.inputs.iter().map(move |w| (r, w)))
            .map(|(r, w)| {
                random_tensor(seed + r, &format!("rank{r}:{}", w.name), w.dtype, &w.shape, 1 << 30)
                    .expect("size")
            })
            .collect();
        let mut r = Simulator::new(&p, opts(Schedule::Eager)).unwrap_or_else(|e| panic!("{}", show(&e)));
        r.set_inputs(&ins).unwrap_or_else(|e| panic!("{}", show(&e)));
        let want = r.run();
        assert_eq!(want.stop, StopReason::Finished);
        let l = linked(&p);
        for x in [l.clone(), bundles(&l, false)] {
            for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(seed)] {
                let o = queue_style::run(&x, &ins, opts(s)).unwrap_or_else(|e| panic!("{}", show(&e)));
                assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
                assert!(o.outputs == want.outputs && o.outputs.len() == 6, "{seed} {s:?}");
                assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
            }
        }
    }
}

/// Two engines take turns `n` times, by semaphores.
fn turns(n: usize) -> LinkedProgram {
    let mut h = Hand::new(&[EngineKind::Dve, EngineKind::Pool]);
    let (t, v) = (h.tile("t", 0), h.tile("v", 32));
    h.fill(0, "zero", t, &[], &[]);
    for k in 0..n as i64 {
        h.copy(0, &format!("there{k}"), Opcode::TensorCopy, t, v, &[(1, k)], &[(0, 1)]);
        h.copy(1, &format!("back{k}"), Opcode::TensorCopy, v, t, &[(0, k + 1)], &[(1, 1)]);
    }
    h.end()
}

#[test]
fn a_run_reports_progress_and_stops_on_request() {
    let l = turns(70_000);
    let (calls, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (c, n) = (calls.clone(), last.clone());
    let opts = RunOptions {
        progress: Some(Arc::new(move |steps| {
            c.fetch_add(1, Ordering::Relaxed);
            n.store(steps, Ordering::Relaxed);
        })),
        ..RunOptions::default()
    };
    let o = run(&l, opts);
    assert_eq!(o.stop, StopReason::Finished);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert!(last.load(Ordering::Relaxed) > 100_000 && o.steps > 140_000);
    let cancel = Arc::new(AtomicBool::new(true));
    let o = run(&l, RunOptions { cancel: Some(cancel), ..RunOptions::default() });
    assert_eq!(o.stop, StopReason::Cancelled);
    assert!(o.steps < 5000);
}

/// Ten times the handshakes take about ten times as long, not a hundred times; memory of the race check stays flat.
#[test]
fn a_step_costs_the_same_in_a_long_program() {
    let time = |l: &LinkedProgram| -> Duration {
        (0..3)
            .map(|_| {
                // Time of this thread, which other work on the machine does not lengthen.
                let t = ThreadTime::now();
                let o = eager(l);
                assert_eq!(o.stop, StopReason::Finished);
                assert!(o.race_records < 10);
                t.elapsed()
            })
            .min()
            .unwrap_or_default()
    };
    let (small, large) = (time(&turns(2_000)), time(&turns(20_000)));
    assert!(large < small * 40, "{small:?} for 2,000 and {large:?} for 20,000");
}
