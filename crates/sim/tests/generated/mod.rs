//! Generated two-core programs: loads, copies, sums on several engines, swaps of both transports, barriers, stores.

use tandem_bir::*;
use tandem_sim::random::SplitMix64;

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
        let set = MemoryLocationSet::new(name, Dtype::Float32, kind, space, &[ROWS, self.cols]);
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

/// The program of a seed.
pub(crate) fn program(seed: u64) -> Program {
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
