//! A kernel of many statements, for the benches.

use tandem_klr::ast::{AluOp, Dtype, Engine, Memory};
use tandem_klr::{KlrFile, build};

/// Two cores: load, swap, add, store over 64 tiles.
pub(crate) fn file(statements: u64) -> KlrFile {
    let x = build::tensor("x", Dtype::Float32, Memory::Hbm, &[8192, 512]);
    let out = build::tensor("out", Dtype::Float32, Memory::Hbm, &[8192, 512]);
    let tiles: Vec<_> = (0..64)
        .map(|i| build::tensor(&format!("tensor{i}"), Dtype::Float32, Memory::Sbuf, &[128, 512]))
        .collect();
    let body = |core: u64| {
        let stmts = (0..statements / 2).map(|i| {
            let tile = &tiles[i as usize / 4 % 32];
            let other = &tiles[i as usize / 4 % 32 + 32];
            let rows = |t| build::pattern(t, (i / 4 % 64) * 65536, &[(512, 128), (1, 512)]);
            let op = match i % 4 {
                0 => build::dma_copy(build::whole(tile), rows(&x)),
                1 => build::send_recv(build::whole(other), build::whole(tile), 1 - core as i32, 0),
                2 => build::tensor_tensor(
                    build::whole(tile),
                    build::whole(tile),
                    build::whole(other),
                    AluOp::Add,
                    Engine::Dve,
                ),
                _ => build::dma_copy(rows(&out), build::whole(tile)),
            };
            build::stmt(&format!("inst.{i}"), 1 + i % 300, op)
        });
        vec![build::block("main.1", stmts.collect())]
    };
    build::lnc("bench.many", &[&x], &[&out], vec![body(0), body(1)]).into()
}
