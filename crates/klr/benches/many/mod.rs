//! A kernel of many statements, for the benches.

#![allow(dead_code, reason = "every bench uses a part")]

use tandem_klr::ast::{
    AluOp, Dtype, Engine, Memory, Operand, Operator, TensorScalar, TensorScalarReverseOps,
};
use tandem_klr::{KlrFile, build};

/// Two cores: load, swap, add, store over 64 tiles.
pub(crate) fn file(statements: u64) -> KlrFile {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[8192, 512]);
    let out = build::tensor("out", Dtype::Float32, Memory::Hbm, &[16_384, 512]);
    let tiles: Vec<_> = (0..64)
        .map(|i| build::tensor(&format!("tensor{i}"), Dtype::Float32, Memory::Sbuf, &[128, 512]))
        .collect();
    let body = |core: u64| {
        let stmts = (0..statements / 2).map(|i| {
            let tile = &tiles[i as usize / 4 % 32];
            let other = &tiles[i as usize / 4 % 32 + 32];
            let rows = |t, k| build::pattern(t, k * 65536, &[(512, 128), (1, 512)]);
            let k = i / 4 % 64;
            let op = match i % 4 {
                0 => build::dma_copy(build::whole(tile), rows(&x, k)),
                1 => build::send_recv(build::whole(other), build::whole(tile), 1 - core as i32, 0),
                2 => build::tensor_tensor(
                    build::whole(tile),
                    build::whole(tile),
                    build::whole(other),
                    AluOp::Add,
                    Engine::Dve,
                ),
                // each core has its own half of the output
                _ => build::dma_copy(rows(&out, core * 64 + k), build::whole(tile)),
            };
            build::stmt(&format!("inst.{i}"), 1 + i % 300, op)
        });
        vec![build::block("main.1", stmts.collect())]
    };
    build::lnc("bench.many", &[&x], &[&out], vec![body(0), body(1)]).into()
}

/// Two cores: every step swaps a tile `[128 x 64]`, adds what came and scales by a quarter.
pub(crate) fn steps(n: u64) -> KlrFile {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[256, 64]);
    let out = build::tensor("out", Dtype::Float32, Memory::Hbm, &[256, 64]);
    let tile = build::tensor("tile", Dtype::Float32, Memory::Sbuf, &[128, 64]);
    let other = build::tensor("other", Dtype::Float32, Memory::Sbuf, &[128, 64]);
    let body = |core: u64| {
        let rows = |t| build::pattern(t, core * 128 * 64, &[(64, 128), (1, 64)]);
        let (mine, theirs) = (|| build::whole(&tile), || build::whole(&other));
        let scale = || {
            Operator::TensorScalar(TensorScalar {
                dst: mine(),
                src: mine(),
                imm0: Operand::Imm(build::float(0.25)),
                op0: AluOp::Mult,
                imm1: None,
                op1: None,
                reverse: TensorScalarReverseOps::None,
                engine: Engine::Dve,
                dtype: None,
            })
        };
        let mut stmts = vec![build::stmt("load", 1, build::dma_copy(mine(), rows(&x)))];
        for i in 0..n {
            let add = build::tensor_tensor(mine(), mine(), theirs(), AluOp::Add, Engine::Dve);
            let ops = [build::send_recv(theirs(), mine(), 1 - core as i32, 0), add, scale()];
            let named = ["swap", "add", "scale"].iter().zip(ops).zip(2..);
            stmts.extend(named.map(|((what, op), line)| build::stmt(&format!("{what}.{i}"), line, op)));
        }
        stmts.push(build::stmt("store", 5, build::dma_copy(rows(&out), mine())));
        vec![build::block("main.1", stmts)]
    };
    build::lnc("bench.steps", &[&x], &[&out], vec![body(0), body(1)]).into()
}
