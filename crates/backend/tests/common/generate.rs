//! Generated two-core programs ([`tandem_bir::testing::two_core`]), their inputs, and running them.

use super::*;
use tandem_sim::{Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor};

pub struct Rng(pub u64);
impl Rng {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Copy>(&mut self, v: &[T]) -> T {
        v[self.below(v.len() as u64) as usize]
    }
}

/// The program of a seed.
pub fn generate(seed: u64) -> Build {
    let p = tandem_bir::testing::two_core::generate(seed);
    let f: Vec<FuncId> = p.modules.iter().filter_map(|m| m.all_functions().next()).collect();
    let b = p.modules.iter().zip(&f).map(|(m, f)| m.funcs[*f].blocks[0]).collect();
    Build { p, f, b }
}

pub fn input(p: &Program, seed: u64) -> Tensor {
    let port = &p.signature.inputs[0];
    let n = port.shape.iter().product::<u64>() * port.dtype.bytes();
    let mut r = Rng(seed | 1);
    let mut bytes = Vec::with_capacity(n as usize);
    while (bytes.len() as u64) < n {
        let special = [0.0f32, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-41, -3.0e38];
        let v = if r.chance(9) { r.pick(&special) } else { r.below(2000) as f32 / 7.0 - 140.0 };
        if port.dtype == Dtype::Float32 {
            bytes.extend(v.to_le_bytes());
        } else {
            bytes.extend(&v.to_le_bytes()[2..]);
        }
    }
    Tensor { name: port.name.clone(), dtype: port.dtype, shape: port.shape.clone(), bytes }
}

pub fn run(p: &Program, x: &Tensor, schedule: Schedule, ptcom: Ptcom, what: &str) -> Vec<u8> {
    let o = RunOptions { schedule, ptcom, ..RunOptions::default() };
    let mut r = Simulator::new(p, o)
        .unwrap_or_else(|e| panic!("{what}: {:?}", e.iter().map(|d| &d.message).collect::<Vec<_>>()));
    r.set_inputs(std::slice::from_ref(x)).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let out = r.run();
    assert_eq!(
        out.stop,
        StopReason::Finished,
        "{what}: {:?}",
        out.diagnostics.iter().map(|d| (&d.message, &d.notes)).collect::<Vec<_>>()
    );
    out.outputs[0].bytes.clone()
}
