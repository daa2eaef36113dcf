//! Small two-core programs and their listings, for the tests of this crate.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::too_many_arguments,
    clippy::needless_range_loop,
    reason = "each test file uses its part"
)]

pub mod generate;

use tandem_backend::PassOptions;
use tandem_bir::entity::EntityRef;
use tandem_bir::*;

/// A program of `n` cores with one function `f` and one block `main` each.
pub struct Build {
    pub p: Program,
    pub f: Vec<FuncId>,
    pub b: Vec<BlockId>,
}

pub fn program(n: u32) -> Build {
    let mut p = Program {
        name: "t".into(),
        lnc_size: n,
        level: Level::Bir,
        modules: Vec::new(),
        locs: Default::default(),
        constants: Default::default(),
        signature: Default::default(),
    };
    let (mut f, mut b) = (Vec::new(), Vec::new());
    for c in 0..n {
        let mut m = Module::new(&format!("nc{c:02}"), Some(CoreId(c)), ArchLevel::Gen3);
        let fid = m.add_function("f");
        f.push(fid);
        b.push(m.add_block(fid, "main"));
        p.modules.push(m);
    }
    Build { p, f, b }
}

pub fn set(
    dtype: Dtype,
    kind: TensorKind,
    space: AddressSpace,
    shape: &[u64],
    name: &str,
) -> MemoryLocationSet {
    MemoryLocationSet {
        name: format!("{name}_set").into(),
        dtype,
        kind,
        class: TensorClass::Tensor,
        addr_space: space,
        shape: shape.iter().copied().collect(),
        partition_dim: 0,
        locs: vec![],
        file: None,
        no_spill: false,
        volatile: false,
        is_virtual: false,
        do_not_rotate: false,
        extra: None,
    }
}

impl Build {
    pub fn n(&self) -> usize {
        self.p.modules.len()
    }
    pub fn loc_on(
        &mut self,
        c: usize,
        name: &str,
        mem: MemoryType,
        kind: TensorKind,
        space: AddressSpace,
        dtype: Dtype,
        shape: [u64; 2],
    ) -> MemLocId {
        let dims = [shape[0], shape[1] * dtype.bytes()];
        let s = set(dtype, kind, space, &shape, name);
        let l = MemoryLocation::new(name, SetId::new(0), mem, &dims);
        let f = self.f[c];
        self.p.modules[c].add_location(f, s, l)
    }
    /// An SBUF tensor on all cores; ids are equal because cores are built alike.
    pub fn sb(&mut self, name: &str, dtype: Dtype, shape: [u64; 2]) -> MemLocId {
        let mut id = MemLocId::new(0);
        for c in 0..self.n() {
            id =
                self.loc_on(c, name, MemoryType::Sb, TensorKind::Internal, AddressSpace::Local, dtype, shape);
        }
        id
    }
    pub fn dram(
        &mut self,
        name: &str,
        kind: TensorKind,
        space: AddressSpace,
        dtype: Dtype,
        shape: [u64; 2],
    ) -> MemLocId {
        let mut id = MemLocId::new(0);
        for c in 0..self.n() {
            id = self.loc_on(c, name, MemoryType::Dram, kind, space, dtype, shape);
        }
        id
    }
    pub fn whole(&self, c: usize, l: MemLocId) -> AccessPattern {
        let m = &self.p.modules[c];
        AccessPattern::whole(l, &m.memlocs[l], m.set_of(l).dtype)
    }
    pub fn push(&mut self, c: usize, i: Inst) -> InstId {
        let b = self.b[c];
        self.p.modules[c].push_inst(b, i)
    }
    /// The same instruction on every core.
    pub fn all(&mut self, make: impl Fn(&Build, usize) -> Inst) {
        for c in 0..self.n() {
            let i = make(self, c);
            self.push(c, i);
        }
    }
    pub fn swap(&mut self, name: &str, src: MemLocId, dst: MemLocId) {
        self.all(|b, c| sendrecv(name, 1 - c as i64, 1 - c as i64, b.whole(c, src), b.whole(c, dst)));
    }
    pub fn memset(&mut self, c: usize, name: &str, dst: AccessPattern) -> InstId {
        let mut i = Inst::new(name, Opcode::Memset);
        i.set(Attr::Mode, MemsetMode::Const);
        i.set(Attr::Constant, 0i64);
        i.outs.push(dst.into());
        self.push(c, i)
    }
    pub fn opts(&self) -> PassOptions {
        PassOptions::for_program(&self.p)
    }
}

pub fn sendrecv(name: &str, send: i64, recv: i64, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::CollectiveCompute);
    i.set(Attr::Kind, CollectiveKind::SendRecv);
    i.set(Attr::IsLocal, true);
    i.set(Attr::SendToRank, Expr::Const(send));
    i.set(Attr::RecvFromRank, vec![Expr::Const(recv)]);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

pub fn allreduce(name: &str, op: AluOp, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::CollectiveCompute);
    i.set(Attr::Kind, CollectiveKind::AllReduce);
    i.set(Attr::Op, op);
    i.set(Attr::ReplicaGroups, vec![vec![0i64, 1]]);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

pub fn copy(name: &str, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::TensorCopy);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

pub fn dma(name: &str, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::DmaCopy);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

pub fn barrier(name: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::CoreBarrier);
    i.set(Attr::Cores, vec![0i64, 1]);
    i
}

fn ap(m: &Module, o: &Operand) -> String {
    match o {
        Operand::Ap(a) => {
            let pairs: Vec<String> = a.pairs.iter().map(|p| format!("[{},{}]", p.step, p.num)).collect();
            format!("{}+{} {}", m.memlocs[a.loc].name, a.offset, pairs.join(""))
        }
        Operand::Imm(i) => format!("{:?}", i.value),
        Operand::Reg(r) => m.regs[r.reg].name.to_string(),
        Operand::Other(_) => "?".into(),
    }
}

/// One line per instruction of a block: `name type engine outs <- ins`, the id of barriers, mode and operator of folds.
pub fn listing_of(m: &Module, b: BlockId) -> Vec<String> {
    m.blocks[b]
        .insts
        .iter()
        .map(|&i| {
            let x = &m.insts[i];
            let mut s = format!("{} {} {}", x.name, x.opcode, x.engine);
            if x.opcode == Opcode::CoreBarrier {
                s += &format!(" id={} cores={:?}", x.get_int(Attr::Id).unwrap(), x.get_ints(Attr::Cores));
                if x.ins.is_empty() && x.outs.is_empty() {
                    return s;
                }
            }
            if x.opcode == Opcode::DmaCopy {
                let mode: CopyMode = x.get_enum(Attr::Mode).unwrap();
                s += &format!(" {mode}");
                if mode == CopyMode::Cce {
                    s += &format!(" {}", x.get_enum::<AluOp>(Attr::CceOp).unwrap());
                }
            }
            let list = |v: &[Operand]| v.iter().map(|o| ap(m, o)).collect::<Vec<_>>().join(", ");
            s + &format!(" {} <- {}", list(&x.outs), list(&x.ins))
        })
        .collect()
}

pub fn listing(b: &Build, core: usize) -> Vec<String> {
    listing_of(&b.p.modules[core], b.b[core])
}

/// Transitive closure of the edges of a block, as positions.
pub fn reaches(m: &Module, b: BlockId) -> Vec<Vec<bool>> {
    let insts = &m.blocks[b].insts;
    let n = insts.len();
    let pos = |i: InstId| insts.iter().position(|x| *x == i);
    let mut r = vec![vec![false; n]; n];
    for j in 0..n {
        for d in &m.insts[insts[j]].deps {
            if let Some(i) = pos(d.inst) {
                r[i][j] = true;
                for k in 0..n {
                    r[k][j] |= r[k][i];
                }
            }
        }
    }
    r
}

pub fn codes(d: &[diag::Diagnostic]) -> Vec<String> {
    d.iter().map(|d| d.code.to_string()).collect()
}

/// Adds a block on every core.
impl Build {
    pub fn block(&mut self, name: &str) -> Vec<BlockId> {
        (0..self.n()).map(|c| self.p.modules[c].add_block(self.f[c], name)).collect()
    }
    pub fn push_in(&mut self, c: usize, b: BlockId, i: Inst) -> InstId {
        self.p.modules[c].push_inst(b, i)
    }
    pub fn reg(&mut self, name: &str) -> RegId {
        let mut id = RegId::new(0);
        for c in 0..self.n() {
            let f = self.f[c];
            let m = &mut self.p.modules[c];
            id = m.regs.push(Register {
                name: name.into(),
                engine: EngineKind::All,
                num_physical: 1,
                extra: None,
            });
            m.funcs[f].storages.push(Storage::Register(id));
        }
        id
    }
    /// Runs the passes of level `bir` and then only the pass given.
    pub fn run(&mut self, pass: &dyn tandem_backend::Pass, o: &PassOptions) -> tandem_backend::PassCtx {
        let mut cx = tandem_backend::PassCtx::new(o.clone());
        cx.enter(pass.info());
        let r = pass.run(&mut self.p, &mut cx);
        assert_eq!(r.is_err(), cx.has_errors(), "{:?}", cx.diags);
        cx
    }
    /// Both pipelines; must succeed.
    pub fn lower(&mut self, o: &PassOptions) -> tandem_backend::PassOutcome {
        let out = tandem_backend::prepare(&mut self.p, o);
        assert!(out.ok(), "{:?}", out.diags);
        verify(&self.p);
        let out = tandem_backend::lower(&mut self.p, o);
        assert!(out.ok(), "{:?}", out.diags);
        verify(&self.p);
        out
    }
    /// Both pipelines; gives the findings of the one that failed.
    pub fn lower_err(&mut self, o: &PassOptions) -> Vec<diag::Diagnostic> {
        let out = tandem_backend::prepare(&mut self.p, o);
        if !out.ok() {
            return out.diags;
        }
        let out = tandem_backend::lower(&mut self.p, o);
        assert!(!out.ok());
        out.diags
    }
}

pub fn branch(name: &str, reg: RegId, yes: &str, no: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::CompareAndBranch);
    i.set(Attr::CompOp, BranchCompareOp::LtImm);
    i.set(Attr::OnTrue, yes);
    i.set(Attr::OnFalse, no);
    i.ins.push(RegAccess { reg, dtype: Dtype::Int32 }.into());
    i.ins.push(Immediate::i32(3).into());
    i
}

pub fn jump(name: &str, to: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::UnconditionalBranch);
    i.set(Attr::Target, to);
    i
}

/// Names of a block's instructions.
pub fn names(m: &Module, b: BlockId) -> Vec<String> {
    m.blocks[b].insts.iter().map(|i| m.insts[*i].name.to_string()).collect()
}

/// Sub-rectangle of a location: rows and columns.
pub fn tile(
    m: &Module,
    l: MemLocId,
    rows: std::ops::Range<u64>,
    cols: std::ops::Range<u64>,
) -> AccessPattern {
    let d = m.set_of(l).dtype;
    let pitch = m.memlocs[l].row_bytes() / d.bytes();
    let (r, c) = (rows.end - rows.start, cols.end - cols.start);
    AccessPattern::new(l, d, (rows.start * pitch + cols.start) as i64, &[(pitch as i64, r), (1, c)])
}

/// The verifier must be silent.
pub fn verify(p: &Program) {
    if let Err(e) = tandem_bir::verify::verify(p) {
        panic!("{:?}", e.iter().map(|d| d.message.clone()).collect::<Vec<_>>());
    }
}

/// The static checks must be silent.
pub fn clean(p: &Program, tokens_order: bool, what: &str) {
    let o = tandem_check::CheckOptions { tokens_order, ..tandem_check::CheckOptions::default() };
    let found = tandem_check::check(p, &o);
    assert!(
        found.is_empty(),
        "{what}: {:?}",
        found.iter().map(|d| (d.code, &d.message, &d.notes)).collect::<Vec<_>>()
    );
}
