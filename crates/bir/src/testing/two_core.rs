//! Two-core programs that make sense: the same bytes come out under every legal order, so levels and options can be compared.
//!
//! Swaps, reductions, folding swaps, barriers, shared DRAM handed over between barriers, loops (also around meetings), work
//! of one core only, tiles placed on each other by the author or at different addresses on the two cores, operands in place,
//! core-dependent offsets. Input `x`, output `y`: shared DRAM, one row block per core and tile. Level `bir`, not yet placed.

use super::by_hand::{Build, allreduce, barrier, branch, copy, dma, jump, program, sendrecv, tile};
use crate::ap::{AccessPattern, DynamicAp};
use crate::dtype::Dtype;
use crate::enums::{AddressSpace, AluOp, CollectiveKind, TensorKind};
use crate::expr::Expr;
use crate::ids::{BlockId, MemLocId, RegId};
use crate::inst::{Attr, Immediate, Inst, Opcode, RegAccess};
use crate::module::{Port, Program};

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
    fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len() as u64) as usize]
    }
}

const P: u64 = 8; // partitions of a tile
const W: u64 = 24; // elements of a row
const TILES: usize = 5;

struct Gen {
    b: Build,
    r: Rng,
    at: Vec<BlockId>,
    tiles: Vec<MemLocId>,
    shared: Vec<MemLocId>,
    n: u32,
    blocks: u32,
    dtype: Dtype,
    reg: RegId,
}

impl Gen {
    fn name(&mut self, what: &str) -> String {
        self.n += 1;
        format!("{what}-{}", self.n)
    }
    fn both(&mut self, make: impl Fn(&Build, usize) -> Inst) {
        for c in 0..2 {
            let i = make(&self.b, c);
            self.b.push_in(c, self.at[c], i);
        }
    }
    /// A random pattern of `rows` x the elements of `dims` inside a tile; columns from `col`.
    fn ap(l: MemLocId, d: Dtype, row: u64, rows: u64, col: u64, dims: &[u64]) -> AccessPattern {
        let mut pairs = vec![(W as i64, rows)];
        let mut step: i64 = dims.iter().product::<u64>() as i64;
        for &n in dims {
            step /= n as i64;
            pairs.push((step, n));
        }
        AccessPattern::new(l, d, (row * W + col) as i64, &pairs)
    }
    /// Two windows of equal shape: over two tiles, or over one (disjoint columns, or the very same ones).
    fn windows(
        &mut self,
        may_overlap: bool,
    ) -> (impl Fn(usize) -> AccessPattern + use<>, impl Fn(usize) -> AccessPattern + use<>) {
        let d = self.dtype;
        let dims: Vec<u64> = match self.r.below(5) {
            0 => vec![8],
            1 => vec![2, 4],
            2 => vec![3],
            3 => vec![1, 8],
            _ => vec![4],
        };
        let w: u64 = dims.iter().product();
        let (s, mut t) = (self.r.pick(&self.tiles), self.r.pick(&self.tiles));
        let (sc, mut tc) = (self.r.below(W - 8 - w + 1), self.r.below(W - 8 - w + 1));
        let rows = self.r.pick(&[P, P / 2]);
        // movers may start anywhere, compute at partition 0 only
        let (sr, tr) =
            if may_overlap { (self.r.below(P - rows + 1), self.r.below(P - rows + 1)) } else { (0, 0) };
        if s == t && !may_overlap {
            t = self.tiles[(self.tiles.iter().position(|x| *x == s).unwrap() + 1) % TILES];
        }
        if s == t && self.r.chance(3) {
            tc = sc; // in place
        }
        // the cores may use different columns
        let shift = if self.r.chance(3) { 8 } else { 0 };
        (move |c: usize| Gen::ap(s, d, sr, rows, sc + shift * c as u64, &dims.clone()), {
            let dims2 = vec![w];
            move |c: usize| Gen::ap(t, d, tr, rows, tc + if c == 0 { shift } else { 0 }, &dims2)
        })
    }
    fn step(&mut self, in_loop: bool) {
        match self.r.below(14) {
            0 | 1 if in_loop => {
                // the source moves with the loop counter; the cores may count from different columns
                let n = self.name("LocalSendRecv");
                let (s, t) = (self.r.pick(&self.tiles), self.r.pick(&self.tiles));
                let (d, reg, skew, fold) = (self.dtype, self.reg, self.r.below(3), self.r.chance(3));
                self.both(|_, c| {
                    let mut a = Gen::ap(s, d, 0, P, 1 + skew * c as u64, &[8]);
                    let terms = vec![(2, Expr::Reg(reg))];
                    a.dynamic = Some(Box::new(DynamicAp { terms, indirect_dim: 1, max_index: None }));
                    let z = Gen::ap(t, d, 0, P, 14, &[8]);
                    if fold {
                        allreduce(&n, AluOp::Add, a, z)
                    } else {
                        sendrecv(&n, 1 - c as i64, 1 - c as i64, a, z)
                    }
                });
            }
            0..=3 => {
                let n = self.name("LocalSendRecv");
                let (s, t) = self.windows(true);
                self.both(|_, c| {
                    let p = 1 - c as i64;
                    sendrecv(&n, p, p, s(c), t(c))
                });
            }
            4 => {
                let n = self.name("AllReduce");
                let op = self.r.pick(&[AluOp::Add, AluOp::Max, AluOp::Min]);
                let same = self.r.chance(3);
                let (s, t) = self.windows(true);
                self.both(|_, _| allreduce(&n, op, s(0), if same { s(0) } else { t(0) }));
            }
            5 => {
                let n = self.name("CCE");
                let op = self.r.pick(&[AluOp::Add, AluOp::Max, AluOp::Min]);
                let ranks = self.r.pick(&[[0i64, 1].as_slice(), &[1, 0], &[1], &[0, 1, 1]]);
                let (s, t) = self.windows(true);
                self.both(|_, c| {
                    let mut i = allreduce(&n, op, s(c), t(c));
                    i.set(Attr::Kind, CollectiveKind::SendRecvCce);
                    i.set(Attr::IsLocal, true);
                    i.set(Attr::RecvFromRank, ranks.iter().map(|r| Expr::Const(*r)).collect::<Vec<_>>());
                    i
                });
            }
            6 => {
                let n = self.name("CoreBarrier");
                self.both(|_, _| barrier(&n));
            }
            7 | 8 => {
                // through shared DRAM: write the own half, meet, read the peer's half, meet
                let s = self.r.pick(&self.shared);
                let (a, z) = (self.r.pick(&self.tiles), self.r.pick(&self.tiles));
                let names: Vec<String> = ["st", "cb", "ld", "cb2"].iter().map(|x| self.name(x)).collect();
                self.both(|b, c| {
                    let r = c as u64 * P;
                    dma(&names[0], b.whole(c, a), tile(&b.p.modules[c], s, r..r + P, 0..W))
                });
                self.both(|_, _| barrier(&names[1]));
                self.both(|b, c| {
                    let r = (1 - c as u64) * P;
                    dma(&names[2], tile(&b.p.modules[c], s, r..r + P, 0..W), b.whole(c, z))
                });
                self.both(|_, _| barrier(&names[3]));
            }
            9 if !in_loop => {
                // work on one core only
                let c = self.r.below(2) as usize;
                for _ in 0..1 + self.r.below(3) {
                    let n = self.name("only");
                    let (s, t) = self.windows(false);
                    let i = copy(&n, s(c), t(c));
                    self.b.push_in(c, self.at[c], i);
                }
            }
            _ => {
                let n = self.name("tt");
                let (s, t) = self.windows(false);
                let op = self.r.pick(&[AluOp::Add, AluOp::Max, AluOp::Subtract]);
                self.both(|_, c| {
                    let mut i = Inst::new(&n, Opcode::TensorTensor);
                    i.set(Attr::Op, op);
                    i.ins.push(s(c).into());
                    i.ins.push(AccessPattern { pairs: s(c).pairs, ..t(c) }.into());
                    let mut o = t(c);
                    o.pairs = s(c).pairs;
                    i.outs.push(o.into());
                    i
                });
            }
        }
    }
    fn new_block(&mut self) -> (String, Vec<BlockId>) {
        self.blocks += 1;
        let n = format!("b{}", self.blocks);
        let b = self.b.block(&n);
        (n, b)
    }
    /// A loop of a few steps; the trip counts are equal unless the body meets nobody.
    fn looped(&mut self, reg: RegId) {
        let (ln, lb) = self.new_block();
        let (an, ab) = self.new_block();
        let (m, j, a, br) = (self.name("mv"), self.name("j"), self.name("inc"), self.name("br"));
        self.both(|_, _| {
            let mut i = Inst::new(&m, Opcode::RegisterMove);
            i.ins.push(Immediate::i32(0).into());
            i.outs.push(RegAccess { reg, dtype: Dtype::Int32 }.into());
            i
        });
        self.both(|_, _| jump(&j, &ln));
        self.at = lb;
        for _ in 0..1 + self.r.below(4) {
            self.step(true);
        }
        self.both(|_, _| {
            let mut i = Inst::new(&a, Opcode::RegisterAlu);
            i.set(Attr::Op, AluOp::Add);
            i.ins.push(RegAccess { reg, dtype: Dtype::Int32 }.into());
            i.ins.push(Immediate::i32(1).into());
            i.outs.push(RegAccess { reg, dtype: Dtype::Int32 }.into());
            i
        });
        self.both(|_, _| branch(&br, reg, &ln, &an));
        self.at = ab;
    }
}

/// The program of a seed. Equal seeds give equal programs.
pub fn generate(seed: u64) -> Program {
    let mut b = program(2);
    let mut r = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let dtype = r.pick(&[Dtype::Float32, Dtype::Float32, Dtype::Bfloat16]);
    let x = b.dram("x", TensorKind::ExternalInput, AddressSpace::Shared, dtype, [2 * P * TILES as u64, W]);
    let y = b.dram("y", TensorKind::ExternalOutput, AddressSpace::Shared, dtype, [2 * P * TILES as u64, W]);
    let tiles: Vec<MemLocId> = (0..TILES).map(|k| b.sb(&format!("t{k}"), dtype, [P, W])).collect();
    let shared: Vec<MemLocId> = (0..3)
        .map(|k| b.dram(&format!("s{k}"), TensorKind::Internal, AddressSpace::Shared, dtype, [2 * P, W]))
        .collect();
    if r.chance(3) {
        // the author puts two tiles on the same bytes, and one across both
        for m in &mut b.p.modules {
            for (t, addr) in [(tiles[0], 0u64), (tiles[1], 0), (tiles[2], W / 2 * dtype.bytes())] {
                m.memlocs[t].allocated = true;
                m.memlocs[t].addr = addr;
            }
        }
    }
    if r.chance(4) {
        // tiles at different addresses on the two cores
        let l = &mut b.p.modules[1].memlocs[tiles[3]];
        (l.allocated, l.addr) = (true, 8192);
    }
    let reg = b.reg("k");
    let port = |name: &str, l: &str| Port {
        name: name.into(),
        location: l.into(),
        core: None,
        subgraph: 0,
        dtype,
        shape: vec![2 * P * TILES as u64, W],
    };
    b.p.signature.inputs.push(port("x", "x"));
    b.p.signature.outputs.push(port("y", "y"));
    let at = b.b.clone();
    let mut g = Gen { b, r, at, tiles, shared, n: 0, blocks: 0, dtype, reg };
    let rows = |c: usize, k: usize| {
        let r = (c * TILES + k) as u64 * P;
        r..r + P
    };
    for k in 0..TILES {
        let t = g.tiles[k];
        g.both(|b, c| dma(&format!("in{k}"), tile(&b.p.modules[c], x, rows(c, k), 0..W), b.whole(c, t)));
    }
    for k in 0..g.shared.len() {
        let (s, t) = (g.shared[k], g.tiles[0]);
        g.both(|b, c| {
            let r = c as u64 * P;
            dma(&format!("init{k}"), b.whole(c, t), tile(&b.p.modules[c], s, r..r + P, 0..W))
        });
    }
    for _ in 0..1 + g.r.below(4) {
        if g.r.chance(3) {
            g.looped(reg);
        } else {
            for _ in 0..1 + g.r.below(5) {
                g.step(false);
            }
        }
    }
    for k in 0..TILES {
        let t = g.tiles[k];
        g.both(|b, c| dma(&format!("out{k}"), b.whole(c, t), tile(&b.p.modules[c], y, rows(c, k), 0..W)));
    }
    g.both(|_, _| Inst::new("ret", Opcode::Return));
    g.b.p
}

/// `n` swaps of two SBUF tiles to and fro, for measuring how lowering grows.
pub fn swaps(n: usize) -> Program {
    swaps_over(n, 2)
}

/// `n` swaps round a circle of `tiles` SBUF tiles, each from one to the next.
pub fn swaps_over(n: usize, tiles: usize) -> Program {
    let mut b = program(2);
    let tile: Vec<_> = (0..tiles).map(|k| b.sb(&format!("t{k}"), Dtype::Float32, [128, 16])).collect();
    for k in 0..n {
        let (s, t) = (tile[k % tiles], tile[(k + 1) % tiles]);
        for c in 0..2 {
            let p = 1 - c as i64;
            let i = sendrecv(&format!("s{k}"), p, p, b.whole(c, s), b.whole(c, t));
            b.push_in(c, b.b[c], i);
        }
    }
    b.p
}
