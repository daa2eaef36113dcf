//! Placement where tensors do not fit side by side: instructions that move, tensors of loops, orders of placement. The numbers
//! are worked out here.

use std::fmt::Write;
use tandem_backend::pass::PassOptions;
use tandem_backend::{lower, prepare};
use tandem_bir::diag::codes;
use tandem_bir::{Dtype, InstId, Module, Program, text};
use tandem_sim::{Ptcom, RunOptions, Schedule, Simulator, StopReason, Tensor};

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn parsed(src: &str) -> Program {
    text::parse(src).unwrap_or_else(|e| panic!("{e:?}\n{src}"))
}

fn options(p: &Program) -> PassOptions {
    PassOptions::for_program(p)
}

/// Runs a program under three schedules; its outputs as numbers.
fn run(p: &Program, x: &[f32]) -> Vec<f32> {
    let port = &p.signature.inputs[0];
    let bytes = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let x = Tensor { name: port.name.clone(), dtype: Dtype::Float32, shape: port.shape.clone(), bytes };
    let mut first = None;
    for schedule in [Schedule::Eager, Schedule::Late, Schedule::Seed(3)] {
        let o = RunOptions { schedule, ptcom: Ptcom::P2p, ..RunOptions::default() };
        let mut s = Simulator::new(p, o).unwrap_or_else(|e| panic!("{e:?}"));
        s.set_inputs(std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e:?}"));
        let out = s.run();
        assert_eq!(out.stop, StopReason::Finished, "{:?}", out.diagnostics);
        let bad: Vec<_> = out.diagnostics.iter().filter(|d| d.is_error()).collect();
        assert!(bad.is_empty(), "{bad:#?}");
        let bytes = out.outputs[0].bytes.clone();
        assert_eq!(*first.get_or_insert_with(|| bytes.clone()), bytes);
    }
    let bytes = first.unwrap_or_default();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Elements of a tile: 16 KiB per partition, so SBUF holds 13 of them.
const F: usize = 4096;

/// Loads first, then sums of two tiles each, then stores.
fn loads_sums_stores(rng: &mut Rng, loads: usize, sums: usize) -> (String, Vec<(usize, usize)>) {
    let (nx, ny) = (loads * F, sums * F);
    let mut s = format!(
        "bir 1\nprogram \"room\" lnc 1 level bir\ninput \"x\" = @x float32 [{nx}]\noutput \"y\" = @y float32 [{ny}]\n\
         module @nc00 core 0 arch gen3 {{\n func @main {{\n\
         set @x_set = ExternalInput Tensor Local float32 [{nx}] {{ loc @x = DRAM [1, {}] addr 0 }}\n\
         set @y_set = ExternalOutput Tensor Local float32 [{ny}] {{ loc @y = DRAM [1, {}] addr 0 }}\n",
        4 * nx,
        4 * ny
    );
    for (kind, n) in [("t", loads), ("s", sums)] {
        for k in 0..n {
            let _ = writeln!(
                s,
                "set @{kind}{k}_set = Internal NeuronSBTensor Local float32 [1 x {F}] {{ loc @{kind}{k} = SB [1, {}] addr 0 }}",
                4 * F
            );
        }
    }
    s += "block b0 {\n";
    for k in 0..loads {
        let _ = writeln!(
            s,
            "l{k} = DMACopy SP @t{k}[[{F},1] [1,{F}]] float32 <- @x[off {}, [1,{F}]] float32",
            k * F
        );
    }
    let pairs: Vec<_> = (0..sums).map(|_| (rng.below(loads), rng.below(loads))).collect();
    for (k, (a, b)) in pairs.iter().enumerate() {
        let t = |n: &usize| format!("@t{n}[[{F},1] [1,{F}]] float32");
        let _ = writeln!(
            s,
            "a{k} = TensorTensor DVE @s{k}[[{F},1] [1,{F}]] float32 <- {}, {} {{op = add}}",
            t(a),
            t(b)
        );
    }
    for k in 0..sums {
        let _ = writeln!(
            s,
            "o{k} = DMACopy SP @y[off {}, [1,{F}]] float32 <- @s{k}[[{F},1] [1,{F}]] float32",
            k * F
        );
    }
    s += "}\n}\n}\n";
    (s, pairs)
}

fn order(m: &Module) -> Vec<InstId> {
    m.walk().iter().map(|w| w.2).collect()
}

#[test]
fn instructions_move_until_tensors_fit() {
    let mut rng = Rng(5);
    let (mut moved, mut refused) = (0, 0);
    for _ in 0..60 {
        let (loads, sums) = (4 + rng.below(20), 2 + rng.below(10));
        let (src, pairs) = loads_sums_stores(&mut rng, loads, sums);
        let mut p = parsed(&src);
        let before = order(&p.modules[0]);
        let o = options(&p);
        let out = prepare(&mut p, &o);
        if !out.ok() {
            // Nothing is left half moved, and the finding is the one of the kernel's own order.
            assert!(
                out.diags.iter().filter(|d| d.is_error()).all(|d| d.code == codes::L0003),
                "{:?}",
                out.diags
            );
            assert_eq!(order(&p.modules[0]), before);
            refused += 1;
            continue;
        }
        let after = order(&p.modules[0]);
        assert_eq!(out.stat("allocate", "moved") == 0, after == before, "{src}");
        // Where all tensors that are alive together fit, nothing moves.
        if loads + sums <= 13 {
            assert_eq!(after, before);
        }
        moved += usize::from(after != before);
        for l in p.modules[0].memlocs.values().filter(|l| l.is_on_chip()) {
            assert!(l.allocated && l.addr + 4 * F as u64 <= 212_984);
        }
        let x: Vec<f32> = (0..loads * F).map(|k| (k / F * 8 + k % 7) as f32).collect();
        let want: Vec<f32> = pairs
            .iter()
            .flat_map(|&(a, b)| (0..F).map(move |k| (a, b, k)))
            .map(|(a, b, k)| x[a * F + k] + x[b * F + k])
            .collect();
        assert_eq!(run(&p, &x), want, "bir\n{src}");
        assert!(lower(&mut p, &o).ok());
        assert_eq!(run(&p, &x), want, "lowered\n{src}");
    }
    assert!(moved >= 15 && refused < 20, "{moved} moved, {refused} refused");
}

/// Products of a loop written out that are all read after the last: `tiles` banks, each of `steps` products of whole tiles.
fn products_then_copies(tiles: usize, steps: usize) -> String {
    let n = 512;
    let mut s = format!(
        "bir 1\nprogram \"banks\" lnc 1 level bir\ninput \"x\" = @x float32 [{n}]\noutput \"y\" = @y float32 [{}]\n\
         module @nc00 core 0 arch gen3 {{\n func @main {{\n\
         set @x_set = ExternalInput Tensor Local float32 [{n}] {{ loc @x = DRAM [1, {}] addr 0 }}\n\
         set @y_set = ExternalOutput Tensor Local float32 [{}] {{ loc @y = DRAM [1, {}] addr 0 }}\n\
         set @m_set = Internal NeuronSBTensor Local float32 [1 x {n}] {{ loc @m = SB [1, {}] addr 0 }}\n\
         set @u_set = Internal NeuronSBTensor Local float32 [1 x {tiles}] {{ loc @u = SB [1, {}] addr 0 }}\n",
        tiles * n,
        4 * n,
        tiles * n,
        4 * tiles * n,
        4 * n,
        4 * tiles
    );
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "set @p{k}_set = Internal NeuronPSUMTensor Local float32 [1 x {n}] {{ loc @p{k} = PSUM [1, {}] bank 0 addr 0 }}",
            4 * n
        );
        let _ = writeln!(
            s,
            "set @s{k}_set = Internal NeuronSBTensor Local float32 [1 x {n}] {{ loc @s{k} = SB [1, {}] addr 0 }}",
            4 * n
        );
    }
    let _ = writeln!(s, "block b0 {{\nl = DMACopy SP @m[[{n},1] [1,{n}]] float32 <- @x[[1,{n}]] float32");
    for k in 0..tiles {
        // 1, 2, 3, ... as float32
        let _ = writeln!(
            s,
            "u{k} = Memset Pool @u[off {k}, [{tiles},1] [1,1]] float32 {{mode = Const, constant = {}}}",
            (k as f32 + 1.0).to_bits()
        );
    }
    for k in 0..tiles {
        for i in 0..steps {
            let _ = writeln!(
                s,
                "p{k}_{i} = Matmult PE @p{k}[[{n},1] [1,{n}]] float32 <- @m[[{n},1] [1,{n}]] float32, @u[off {k}, [{tiles},1] [1,1]] float32"
            );
        }
    }
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "c{k} = TensorCopy DVE @s{k}[[{n},1] [1,{n}]] float32 <- @p{k}[[{n},1] [1,{n}]] float32"
        );
    }
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "o{k} = DMACopy SP @y[off {}, [1,{n}]] float32 <- @s{k}[[{n},1] [1,{n}]] float32",
            k * n
        );
    }
    s + "}\n}\n}\n"
}

#[test]
fn products_are_read_before_the_next_ones_need_their_banks() {
    for (tiles, steps) in [(4, 2), (8, 3), (9, 1), (12, 3), (30, 2)] {
        let src = products_then_copies(tiles, steps);
        let mut p = parsed(&src);
        let before = order(&p.modules[0]);
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert!(out.ok(), "{tiles}: {:?}", out.diags);
        assert_eq!(order(&p.modules[0]) == before, tiles <= 8);
        let x: Vec<f32> = (0..512).map(|k| (k % 50) as f32).collect();
        let want: Vec<f32> =
            (0..tiles).flat_map(|k| x.iter().map(move |v| v * ((k + 1) * steps) as f32)).collect();
        assert_eq!(run(&p, &x), want, "{tiles} {steps}");
        assert!(lower(&mut p, &o).ok());
        assert_eq!(run(&p, &x), want, "{tiles} {steps} lowered");
    }
}

/// A loop of three rounds: each loads tiles one by one and adds them to a sum; `carried` reads a tile before it is loaded.
fn rounds(tiles: usize, carried: bool) -> String {
    let mut s = format!(
        "bir 1\nprogram \"rounds\" lnc 1 level bir\ninput \"x\" = @x float32 [{0}]\noutput \"y\" = @y float32 [{F}]\n\
         module @nc00 core 0 arch gen3 {{\n func @main {{\n\
         set @x_set = ExternalInput Tensor Local float32 [{0}] {{ loc @x = DRAM [1, {1}] addr 0 }}\n\
         set @y_set = ExternalOutput Tensor Local float32 [{F}] {{ loc @y = DRAM [1, {2}] addr 0 }}\n\
         set @s_set = Internal NeuronSBTensor Local float32 [1 x {F}] {{ loc @s = SB [1, {2}] addr 0 }}\n",
        tiles * F,
        4 * tiles * F,
        4 * F
    );
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "set @t{k}_set = Internal NeuronSBTensor Local float32 [1 x {F}] {{ loc @t{k} = SB [1, {}] addr 0 }}",
            4 * F
        );
    }
    let tile = |n: &str| format!("@{n}[[{F},1] [1,{F}]] float32");
    let _ = writeln!(s, "block b0 {{\nz = Memset Pool {} {{mode = Const, constant = 0}}", tile("s"));
    for k in 0..if carried { tiles } else { 0 } {
        let _ = writeln!(s, "z{k} = Memset Pool {} {{mode = Const, constant = 0}}", tile(&format!("t{k}")));
    }
    let mut body = String::new();
    for k in 0..tiles {
        let t = tile(&format!("t{k}"));
        let add = format!("a{k} = TensorTensor DVE {0} <- {0}, {t} {{op = add}}\n", tile("s"));
        let load = format!("l{k} = DMACopy SP {t} <- @x[off {}, [1,{F}]] float32\n", k * F);
        body += &if carried { add + &load } else { load + &add };
    }
    let _ = writeln!(
        s,
        "lp = Loop Unassigned {{LoopAxis = {{\"name\":\"i\",\"lb\":0,\"ub\":3,\"stride\":1}}}} regions {{ block body {{\n{body}}} }}"
    );
    let _ = writeln!(s, "o = DMACopy SP @y[[1,{F}]] float32 <- {}", tile("s"));
    s + "}\n}\n}\n"
}

#[test]
fn a_tensor_of_one_round_of_a_loop_is_alive_for_its_own_part_of_it() {
    for (tiles, carried, fits) in [(6, false, true), (20, false, true), (6, true, true), (20, true, false)] {
        let mut p = parsed(&rounds(tiles, carried));
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert_eq!(out.ok(), fits, "{tiles} {carried}: {:?}", out.diags);
        if !fits {
            assert!(out.diags.iter().any(|d| d.code == codes::L0003));
            continue;
        }
        let x: Vec<f32> = (0..tiles * F).map(|k| (k % 11) as f32).collect();
        // A tile that is read before it is loaded holds what the round before loaded.
        let rounds = if carried { 2.0 } else { 3.0 };
        let want: Vec<f32> = (0..F).map(|k| (0..tiles).map(|t| x[t * F + k]).sum::<f32>() * rounds).collect();
        assert_eq!(run(&p, &x), want, "{tiles} {carried}");
        assert!(lower(&mut p, &o).ok());
        assert_eq!(run(&p, &x), want, "{tiles} {carried} lowered");
    }
}

/// What can never fit ends in one finding about SBUF, however many tensors there are to move.
#[test]
fn what_never_fits_ends() {
    let mut rng = Rng(5);
    let (src, _) = loads_sums_stores(&mut rng, 1500, 1500);
    // Every load is used once more at the end, so that all of them stay alive.
    let late: String = (0..1500)
        .map(|k| {
            format!(
                "z{k} = TensorCopy DVE @s{k}[[{F},1] [1,{F}]] float32 <- @t{k}[[{F},1] [1,{F}]] float32\n"
            )
        })
        .collect();
    let at = src.find("o0 = ").unwrap_or_else(|| panic!("the first store\n{}", &src[src.len() - 900..]));
    let mut p = parsed(&format!("{}{late}{}", &src[..at], &src[at..]));
    let before = order(&p.modules[0]);
    let o = options(&p);
    let out = prepare(&mut p, &o);
    let errors: Vec<_> = out.diags.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
    assert_eq!(errors, [codes::L0003], "{:?}", out.diags);
    assert_eq!(order(&p.modules[0]), before);
}
