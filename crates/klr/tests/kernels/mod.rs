//! Short ways to make kernels and lower them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;
use tandem_bir::{ArchLevel, EngineKind, Inst, Module, Opcode, Program};
use tandem_klr::ast::*;
use tandem_klr::lower::{LowerOptions, Lowered, lower};
use tandem_klr::{KlrFile, build};

/// No shared constants.
pub(crate) fn no_files(name: &str) -> std::io::Result<Vec<u8>> {
    Err(std::io::Error::new(std::io::ErrorKind::NotFound, format!("no file {name}")))
}

/// Options for trn2.
pub(crate) fn options() -> LowerOptions<'static> {
    LowerOptions::new(ArchLevel::Gen3, &no_files)
}

/// Lowers with the default options.
pub(crate) fn run(kernel: LncKernel) -> Lowered {
    lower(&kernel.into(), &options())
}

/// Lowers with the 2.24 behaviour.
pub(crate) fn run_strict(kernel: LncKernel) -> Lowered {
    let opts = LowerOptions { strict_2_24: true, ..options() };
    lower(&KlrFile::from(kernel), &opts)
}

/// An SBUF tensor.
pub(crate) fn sb(name: &str, dtype: Dtype, dims: &[u64]) -> Arc<TensorName> {
    build::tensor(name, dtype, Memory::Sbuf, dims)
}

/// The whole of a float32 SBUF tile of 128 x 64.
pub(crate) fn t(name: &str) -> TensorRef {
    build::whole(&sb(name, Dtype::Float32, &[128, 64]))
}

/// The whole of an SBUF tile.
pub(crate) fn tile(name: &str, dtype: Dtype, dims: &[u64]) -> TensorRef {
    build::whole(&sb(name, dtype, dims))
}

/// The whole of an HBM tensor.
pub(crate) fn hbm(name: &str, dims: &[u64]) -> TensorRef {
    build::whole(&build::tensor(name, Dtype::Float32, Memory::Hbm, dims))
}

/// A tile moved along dimension 0 by a register or by indices.
pub(crate) fn moved(name: &str, by: Result<&str, TensorRef>, scalar: bool) -> TensorRef {
    let tensor = build::tensor(name, Dtype::Float32, Memory::Hbm, &[8, 128, 64]);
    let mut p = build::bir(&tensor, 0, &[(64, 128), (1, 64)]);
    match by {
        Ok(reg) => p.scalar_offset = Some(ScalarOffset::Reg(Str::new(reg))),
        Err(TensorRef::Abstract(a)) if scalar => p.scalar_offset = Some(ScalarOffset::Acc(a)),
        Err(TensorRef::Abstract(a)) => p.vector_offset = Some(a),
        Err(_) => unreachable!("index operands are accesses"),
    }
    build::access(p)
}

/// Statements named `s0`, `s1`, ... at lines 10, 11, ...
pub(crate) fn stmts(ops: Vec<Operator>) -> Vec<Stmt> {
    ops.into_iter().enumerate().map(|(i, op)| build::stmt(&format!("s{i}"), 10 + i as u64, op)).collect()
}

/// A kernel of these statements on one core.
pub(crate) fn one_core(ops: Vec<Operator>) -> LncKernel {
    build::lnc("k", &[], &[], vec![vec![build::block("main.0", stmts(ops))]])
}

/// A kernel of two bodies of one block each.
pub(crate) fn two_cores(zero: Vec<Operator>, one: Vec<Operator>) -> LncKernel {
    let body = |ops| vec![build::block("main.0", stmts(ops))];
    build::lnc("k", &[], &[], vec![body(zero), body(one)])
}

/// Program of a run that must be clean of errors.
pub(crate) fn good(l: Lowered) -> Program {
    assert!(!l.diags.iter().any(|d| d.is_error()), "{:#?}", l.diags);
    l.program.expect("program")
}

/// Instructions of a module in program order.
pub(crate) fn insts(m: &Module) -> Vec<&Inst> {
    m.walk().into_iter().map(|(_, _, i)| &m.insts[i]).collect()
}

/// The instruction of a name.
pub(crate) fn by_name<'m>(m: &'m Module, name: &str) -> &'m Inst {
    insts(m).into_iter().find(|i| i.name == name).unwrap_or_else(|| panic!("no instruction {name}"))
}

/// `(InstructionType, engine)` of every instruction.
pub(crate) fn kinds(m: &Module) -> Vec<(Opcode, EngineKind)> {
    insts(m).iter().map(|i| (i.opcode, i.engine)).collect()
}

/// Operands in one letter each: A access, I int32, F float32, R register.
pub(crate) fn letters(list: &[tandem_bir::Operand]) -> String {
    use tandem_bir::Operand as O;
    list.iter()
        .map(|o| match o {
            O::Ap(_) => 'A',
            O::Imm(i) if i.dtype == tandem_bir::Dtype::Int32 => 'I',
            O::Imm(_) => 'F',
            O::Reg(_) => 'R',
            O::Other(_) => '?',
        })
        .collect()
}
