//! Writes a large kernel of two cores, for measurements: `cargo run --release -p tandem-klr --example gen_kernel -- SHAPE N
//! FILE`.
//!
//! `many`: N statements in all, of which a quarter are swaps. `steps`: N times swap, add, scale on a tile `[128 x 64]` of
//! float32 per core, unrolled. The same bytes come out on every run.

#[path = "../benches/many/mod.rs"]
mod many;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [shape, n, path] = args.as_slice() else {
        return Err("usage: gen_kernel many|steps N FILE".into());
    };
    let n: u64 = n.parse()?;
    let file = match shape.as_str() {
        "many" => many::file(n),
        "steps" => many::steps(n),
        other => return Err(format!("unknown shape {other}: many or steps").into()),
    };
    std::fs::write(path, tandem_klr::write(&file)?)?;
    Ok(())
}
