//! Programs built by hand, core by core, for tests.

use crate::ap::AccessPattern;
use crate::arch::ArchLevel;
use crate::dtype::Dtype;
use crate::entity::EntityRef;
use crate::enums::{
    AddressSpace, AluOp, BranchCompareOp, CollectiveKind, EngineKind, MemoryType, MemsetMode, TensorKind,
};
use crate::expr::Expr;
use crate::ids::{BlockId, CoreId, FuncId, InstId, MemLocId, RegId, SetId};
use crate::inst::{Attr, Immediate, Inst, Opcode, RegAccess};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register};
use crate::module::{Level, Module, Program, Storage};

/// A program of `n` cores with one function `f` and one block `main` each.
#[derive(Debug)]
pub struct Build {
    /// The program.
    pub p: Program,
    /// The function of each core.
    pub f: Vec<FuncId>,
    /// Its first block.
    pub b: Vec<BlockId>,
}

/// An empty one, at level `bir`.
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

impl Build {
    /// Number of cores.
    pub fn n(&self) -> usize {
        self.p.modules.len()
    }
    /// A location on one core: its memory, role and space, and its set.
    pub fn loc_on(
        &mut self,
        c: usize,
        name: &str,
        (mem, kind, space): (MemoryType, TensorKind, AddressSpace),
        dtype: Dtype,
        shape: [u64; 2],
    ) -> MemLocId {
        let dims = [shape[0], shape[1] * dtype.bytes()];
        let s = MemoryLocationSet::new(name, dtype, kind, space, &shape);
        let l = MemoryLocation::new(name, SetId::new(0), mem, &dims);
        let f = self.f[c];
        self.p.modules[c].add_location(f, s, l)
    }
    /// An SBUF tensor on all cores; ids are equal because cores are built alike.
    pub fn sb(&mut self, name: &str, dtype: Dtype, shape: [u64; 2]) -> MemLocId {
        let mut id = MemLocId::new(0);
        for c in 0..self.n() {
            id = self.loc_on(
                c,
                name,
                (MemoryType::Sb, TensorKind::Internal, AddressSpace::Local),
                dtype,
                shape,
            );
        }
        id
    }
    /// A DRAM tensor on all cores.
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
            id = self.loc_on(c, name, (MemoryType::Dram, kind, space), dtype, shape);
        }
        id
    }
    /// All of a location of a core.
    pub fn whole(&self, c: usize, l: MemLocId) -> AccessPattern {
        let m = &self.p.modules[c];
        AccessPattern::whole(l, &m.memlocs[l], m.set_of(l).dtype)
    }
    /// Appends to the first block of a core.
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
    /// A swap of both cores.
    pub fn swap(&mut self, name: &str, src: MemLocId, dst: MemLocId) {
        self.all(|b, c| sendrecv(name, 1 - c as i64, 1 - c as i64, b.whole(c, src), b.whole(c, dst)));
    }
    /// Fills with zeros.
    pub fn memset(&mut self, c: usize, name: &str, dst: AccessPattern) -> InstId {
        let mut i = Inst::new(name, Opcode::Memset);
        i.set(Attr::Mode, MemsetMode::Const);
        i.set(Attr::Constant, 0i64);
        i.outs.push(dst.into());
        self.push(c, i)
    }
    /// Adds a block on every core.
    pub fn block(&mut self, name: &str) -> Vec<BlockId> {
        (0..self.n()).map(|c| self.p.modules[c].add_block(self.f[c], name)).collect()
    }
    /// Appends to a block of a core.
    pub fn push_in(&mut self, c: usize, b: BlockId, i: Inst) -> InstId {
        self.p.modules[c].push_inst(b, i)
    }
    /// A register on all cores.
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
}

/// A swap: CollectiveCompute of kind SendRecv.
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

/// A local AllReduce of cores 0 and 1.
pub fn allreduce(name: &str, op: AluOp, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::CollectiveCompute);
    i.set(Attr::Kind, CollectiveKind::AllReduce);
    i.set(Attr::Op, op);
    i.set(Attr::ReplicaGroups, vec![vec![0i64, 1]]);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

/// TensorCopy.
pub fn copy(name: &str, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::TensorCopy);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

/// DMACopy.
pub fn dma(name: &str, src: AccessPattern, dst: AccessPattern) -> Inst {
    let mut i = Inst::new(name, Opcode::DmaCopy);
    i.ins.push(src.into());
    i.outs.push(dst.into());
    i
}

/// CoreBarrier of cores 0 and 1.
pub fn barrier(name: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::CoreBarrier);
    i.set(Attr::Cores, vec![0i64, 1]);
    i
}

/// To `yes` while the register is below 3.
pub fn branch(name: &str, reg: RegId, yes: &str, no: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::CompareAndBranch);
    i.set(Attr::CompOp, BranchCompareOp::LtImm);
    i.set(Attr::OnTrue, yes);
    i.set(Attr::OnFalse, no);
    i.ins.push(RegAccess { reg, dtype: Dtype::Int32 }.into());
    i.ins.push(Immediate::i32(3).into());
    i
}

/// UnconditionalBranch.
pub fn jump(name: &str, to: &str) -> Inst {
    let mut i = Inst::new(name, Opcode::UnconditionalBranch);
    i.set(Attr::Target, to);
    i
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
