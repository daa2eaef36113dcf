//! Generated two-core programs: loads, copies, sums on four engines, swaps of both transports, barriers, stores. Levels bir,
//! lowered, linked and bundles give the same bytes.

use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::*;
use tandem_sim::random::{SplitMix64, random_tensor};
use tandem_sim::{RunOptions, Schedule, Simulator, StopReason, queue_style};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

const ROWS: u64 = 8;

struct Gen {
    rng: SplitMix64,
    p: Program,
    func: Vec<FuncId>,
    block: Vec<BlockId>,
    cols: u64,
}

impl Gen {
    fn below(&mut self, n: u64) -> usize {
        self.rng.below(n) as usize
    }
    fn loc(
        &mut self,
        c: usize,
        name: &str,
        mem: MemoryType,
        kind: TensorKind,
        space: AddressSpace,
    ) -> MemLocId {
        let dims = [ROWS, self.cols * 4];
        let set = MemoryLocationSet {
            name: format!("{name}_set").as_str().into(),
            dtype: Dtype::Float32,
            kind,
            class: TensorClass::Tensor,
            addr_space: space,
            shape: [ROWS, self.cols].into_iter().collect(),
            partition_dim: 0,
            locs: Vec::new(),
            file: None,
            no_spill: false,
            volatile: false,
            is_virtual: false,
            do_not_rotate: false,
            extra: None,
        };
        let l = MemoryLocation::new(name, SetId::from_u32(0), mem, &dims);
        self.p.modules[c].add_location(self.func[c], set, l)
    }
    fn ap(&self, l: MemLocId) -> Operand {
        let n = self.cols;
        Operand::Ap(AccessPattern::new(l, Dtype::Float32, 0, &[(n as i64, ROWS), (1, n)]))
    }
    fn push(
        &mut self,
        c: usize,
        name: String,
        op: Opcode,
        e: EngineKind,
        ins: &[MemLocId],
        out: MemLocId,
    ) -> InstId {
        let mut i = Inst::new(&name, op);
        i.engine = e;
        i.ins = ins.iter().map(|l| self.ap(*l)).collect();
        i.outs = vec![self.ap(out)];
        let b = self.block[c];
        self.p.modules[c].push_inst(b, i)
    }
}

fn program(seed: u64) -> Program {
    let mut rng = SplitMix64(seed);
    let cols = [16, 64, 320][rng.below(3) as usize];
    let mut g = Gen {
        rng,
        cols,
        p: Program {
            name: format!("g{seed}"),
            lnc_size: 2,
            level: Level::Bir,
            modules: Vec::new(),
            locs: Default::default(),
            constants: Default::default(),
            signature: Signature::default(),
        },
        func: Vec::new(),
        block: Vec::new(),
    };
    for c in 0..2u32 {
        let mut m = Module::new(&format!("nc{c:02}"), Some(CoreId(c)), ArchLevel::Gen3);
        let f = m.add_function("main");
        g.func.push(f);
        g.block.push(m.add_block(f, "b0"));
        g.p.modules.push(m);
    }
    let port = |name: &str, c: u32| Port {
        name: format!("nc{c:02}:{name}"),
        location: name.into(),
        core: Some(CoreId(c)),
        subgraph: 0,
        dtype: Dtype::Float32,
        shape: vec![ROWS, cols],
    };
    let mut tiles: Vec<Vec<MemLocId>> = Vec::new();
    let mut outs = Vec::new();
    for c in 0..2 {
        let x = g.loc(c, "x", MemoryType::Dram, TensorKind::ExternalInput, AddressSpace::Local);
        outs.push(g.loc(c, "out", MemoryType::Dram, TensorKind::ExternalOutput, AddressSpace::Local));
        let list: Vec<MemLocId> = (0..4)
            .map(|k| g.loc(c, &format!("t{k}"), MemoryType::Sb, TensorKind::Internal, AddressSpace::Local))
            .collect();
        for (k, t) in list.iter().enumerate() {
            g.push(c, format!("ld{k}"), Opcode::DmaCopy, EngineKind::Unassigned, &[x], *t);
        }
        tiles.push(list);
        g.p.signature.inputs.push(port("x", c as u32));
        g.p.signature.outputs.push(port("out", c as u32));
    }
    let steps = 4 + g.below(12);
    for s in 0..steps {
        let kind = g.below(6);
        let (a, b, d) = (g.below(4), g.below(4), g.below(4));
        if kind == 0 && a != d {
            for c in 0..2 {
                let i = g.push(
                    c,
                    format!("sw{s}"),
                    Opcode::CollectiveCompute,
                    EngineKind::Pool,
                    &[tiles[c][a]],
                    tiles[c][d],
                );
                let other = 1 - c as i64;
                let i = &mut g.p.modules[c].insts[i];
                i.set(Attr::Kind, CollectiveKind::SendRecv);
                i.set(Attr::IsLocal, true);
                i.set(Attr::SendToRank, Expr::Const(other));
                i.set(Attr::RecvFromRank, vec![Expr::Const(other)]);
            }
            continue;
        }
        if kind == 1 {
            for c in 0..2 {
                let mut i =
                    Inst::new(&format!("cb{s}"), Opcode::CoreBarrier).with(Attr::Cores, vec![0i64, 1]);
                i.engine = EngineKind::Pool;
                let blk = g.block[c];
                g.p.modules[c].push_inst(blk, i);
            }
            continue;
        }
        for c in 0..2 {
            let e = [EngineKind::Dve, EngineKind::Pool, EngineKind::Activation][g.below(3)];
            let t = tiles[c].clone();
            match g.below(3) {
                0 => {
                    let e = if e == EngineKind::Activation { EngineKind::Dve } else { e };
                    let i = g.push(c, format!("add{s}"), Opcode::TensorTensor, e, &[t[a], t[b]], t[d]);
                    g.p.modules[c].insts[i].set(Attr::Op, AluOp::Add);
                }
                1 => {
                    g.push(c, format!("cp{s}"), Opcode::TensorCopy, e, &[t[a]], t[d]);
                }
                _ if a != d => {
                    let e = [EngineKind::Sp, EngineKind::Activation, EngineKind::Unassigned][g.below(3)];
                    g.push(c, format!("dma{s}"), Opcode::DmaCopy, e, &[t[a]], t[d]);
                }
                _ => {}
            }
        }
    }
    for c in 0..2 {
        let k = g.below(4);
        let (src, out) = (tiles[c][k], outs[c]);
        g.push(c, "st".into(), Opcode::DmaCopy, EngineKind::Unassigned, &[src], out);
    }
    g.p
}

#[test]
fn generated_programs_agree_at_all_levels() {
    let n = if cfg!(debug_assertions) { 300 } else { 2000 };
    let (mut swaps, mut pulls) = (0, 0);
    for seed in 0..n {
        let base = program(seed);
        let opts = tandem_backend::PassOptions::for_program(&base);
        let run_options = |schedule| RunOptions {
            schedule,
            race_check: false,
            undefined_check: false,
            ..RunOptions::default()
        };
        let (mut bir, mut low) = (base.clone(), base);
        let o = tandem_backend::prepare(&mut bir, &opts);
        assert!(!o.failed, "{seed}: {}", show(&o.diags));
        let o = tandem_backend::lower(&mut low, &opts);
        assert!(!o.failed, "{seed}: {}", show(&o.diags));
        let ins: Vec<_> = bir
            .signature
            .inputs
            .iter()
            .map(|w| random_tensor(seed, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
            .collect();
        let reference = |p: &Program| {
            let mut r = Simulator::new(p, run_options(Schedule::Eager))
                .unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
            r.set_inputs(&ins).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
            r.run()
        };
        let want = reference(&bir);
        assert_eq!(want.stop, StopReason::Finished, "{seed}");
        assert!(reference(&low).outputs == want.outputs, "{seed}: lowered differs");
        let (l, _) = link(&low, LinkOptions::default()).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
        swaps += l.swaps.len();
        pulls += l.cores[0].vars.iter().filter(|v| v.class.name() == "remote").count();
        let (bytes, _) =
            encode(&l, WriteOptions::default()).unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
        let d = decode(&bytes).unwrap_or_else(|e| panic!("{seed}: {}", show(&[e])));
        for (what, p) in [("linked", &l), ("bundles", &d)] {
            for s in [Schedule::Eager, Schedule::Late, Schedule::Seed(seed), Schedule::Seed(seed + 1)] {
                let o = queue_style::run(p, &ins, run_options(s))
                    .unwrap_or_else(|e| panic!("{seed}: {}", show(&e)));
                assert_eq!(o.stop, StopReason::Finished, "{seed} {what} {s:?}: {}", show(&o.diagnostics));
                assert!(o.outputs == want.outputs, "{seed} {what} {s:?}: other bytes");
            }
        }
    }
    assert!(swaps > 20 && pulls > 5, "{swaps} swaps, {pulls} remote variables");
}

/// Without the posts of one semaphore a program stops: the runs above really hang on them.
#[test]
fn a_dropped_post_is_a_deadlock() {
    let mut low = program(3);
    let opts = tandem_backend::PassOptions::for_program(&low);
    assert!(!tandem_backend::lower(&mut low, &opts).failed);
    let (mut l, _) = link(&low, LinkOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
    let m = &mut l.program.modules[0];
    let i = m
        .insts
        .values_mut()
        .find(|i| i.more.as_ref().is_some_and(|m| m.sync.as_ref().is_some_and(|s| !s.on_update.is_empty())))
        .expect("a post");
    if let Some(s) = i.more.as_mut().and_then(|m| m.sync.as_mut()) {
        s.on_update.clear();
    }
    let ins: Vec<_> = low
        .signature
        .inputs
        .iter()
        .map(|w| random_tensor(1, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect();
    let o = queue_style::run(&l, &ins, RunOptions::default()).expect("runs");
    assert_eq!(o.stop, StopReason::Deadlock);
    assert!(o.diagnostics.iter().any(|d| d.sites.iter().any(|s| s.label.contains("need"))));
}
