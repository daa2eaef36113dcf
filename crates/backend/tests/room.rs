//! Placement where tensors do not fit side by side: instructions that move, tensors of loops, orders of placement, tensors that
//! leave SBUF for a while. The numbers are worked out here.

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

/// Runs a program under three schedules; its output as numbers.
fn run(p: &Program, x: &[f32]) -> Vec<f32> {
    run_all(p, x).swap_remove(0)
}

/// All outputs.
fn run_all(p: &Program, x: &[f32]) -> Vec<Vec<f32>> {
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
        let bytes: Vec<Vec<u8>> = out.outputs.into_iter().map(|t| t.bytes).collect();
        assert_eq!(*first.get_or_insert_with(|| bytes.clone()), bytes);
    }
    let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let outputs = first.unwrap_or_default();
    outputs.iter().map(|bytes| bytes.chunks_exact(4).map(number).collect()).collect()
}

/// Elements of a tile: 16 KiB per partition, so SBUF holds 12 of them.
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
    let mut moved = 0;
    for _ in 0..60 {
        let (loads, sums) = (4 + rng.below(20), 2 + rng.below(10));
        let (src, pairs) = loads_sums_stores(&mut rng, loads, sums);
        let mut p = parsed(&src);
        let before = order(&p.modules[0]);
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert!(out.ok(), "{:?}\n{src}", out.diags);
        let after = order(&p.modules[0]);
        assert_eq!(out.stat("allocate", "moved") == 0, after == before, "{src}");
        assert_eq!(out.stat("allocate", "spilled"), 0, "{src}");
        // Where all tensors that are alive together fit, nothing moves.
        if loads + sums <= 12 {
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
    assert!(moved >= 5, "{moved} moved");
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

/// Rounds of sums that keep all tiles alive.
const RING: usize = 2;

/// A program of `tiles` tiles that all live from the start to the end: each is loaded or filled, then changed by `steps` random
/// steps (sums into another tile, sums in place, fills of one half), then gets another tile's first half added, then is stored.
/// With the input and the output.
fn all_alive(rng: &mut Rng, tiles: usize, steps: usize, rows: usize) -> (String, Vec<f32>, Vec<f32>) {
    let (f, n) = (F, rows * F);
    let x: Vec<f32> = (0..tiles * n).map(|k| ((k / F * 5 + k % 13) % 64) as f32).collect();
    let mut s = format!(
        "bir 1\nprogram \"alive\" lnc 1 level bir\ninput \"x\" = @x float32 [{0}]\noutput \"y\" = @y float32 [{0}]\n\
         module @nc00 core 0 arch gen3 {{\n func @main {{\n\
         set @x_set = ExternalInput Tensor Local float32 [{0}] {{ loc @x = DRAM [1, {1}] addr 0 }}\n\
         set @y_set = ExternalOutput Tensor Local float32 [{0}] {{ loc @y = DRAM [1, {1}] addr 0 }}\n",
        tiles * n,
        4 * tiles * n
    );
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "set @t{k}_set = Internal NeuronSBTensor Local float32 [{rows} x {f}] {{ loc @t{k} = SB [{rows}, {}] addr 0 }}",
            4 * f
        );
    }
    s += "block b0 {\n";
    let tile = |k: usize| format!("@t{k}[[{f},{rows}] [1,{f}]] float32");
    let mut values: Vec<Vec<f32>> = Vec::new();
    for k in 0..tiles {
        if rng.below(3) == 0 {
            let c = 1.0 + k as f32;
            let _ =
                writeln!(s, "f{k} = Memset Pool {} {{mode = Const, constant = {}}}", tile(k), c.to_bits());
            values.push(vec![c; n]);
        } else {
            let _ = writeln!(
                s,
                "l{k} = DMACopy SP {} <- @x[off {}, [{f},{rows}] [1,{f}]] float32",
                tile(k),
                k * n
            );
            values.push(x[k * n..(k + 1) * n].to_vec());
        }
    }
    for i in 0..steps {
        let (a, b, c) = (rng.below(tiles), rng.below(tiles), rng.below(tiles));
        match rng.below(4) {
            0 => {
                let _ = writeln!(
                    s,
                    "h{i} = Memset Pool @t{a}[off {}, [{f},{rows}] [1,{}]] float32 {{mode = Const, constant = {}}}",
                    f / 2,
                    f / 2,
                    3f32.to_bits()
                );
                values[a].chunks_mut(f).for_each(|row| row[f / 2..].fill(3.0));
            }
            1 => {
                let _ = writeln!(s, "c{i} = TensorCopy DVE {} <- {}", tile(a), tile(b));
                values[a] = values[b].clone();
            }
            _ => {
                let op = if rng.below(2) == 0 { "add" } else { "subtract" };
                let _ = writeln!(
                    s,
                    "a{i} = TensorTensor DVE {} <- {}, {} {{op = {op}}}",
                    tile(a),
                    tile(b),
                    tile(c)
                );
                let sum = values[b].iter().zip(&values[c]);
                values[a] = sum.map(|(x, y)| if op == "add" { x + y } else { x - y }).collect();
            }
        }
    }
    for (i, k) in (0..RING * tiles).map(|i| (i, i % tiles)) {
        let other = (k + 7) % tiles;
        let half = |k: usize| format!("@t{k}[[{f},{rows}] [1,{}]] float32", f / 2);
        let _ = writeln!(s, "r{i} = TensorTensor DVE {0} <- {0}, {1} {{op = add}}", half(k), half(other));
        let add = values[other].clone();
        let (mine, add) = (values[k].chunks_mut(f), add.chunks(f));
        mine.zip(add).for_each(|(m, a)| m[..f / 2].iter_mut().zip(a).for_each(|(m, a)| *m += a));
    }
    for k in 0..tiles {
        let _ =
            writeln!(s, "o{k} = DMACopy SP @y[off {}, [{f},{rows}] [1,{f}]] float32 <- {}", k * n, tile(k));
    }
    (s + "}\n}\n}\n", x, values.concat())
}

#[test]
fn tensors_leave_sbuf_until_the_others_fit() {
    let mut rng = Rng(11);
    let (mut stored, mut again) = (0, 0);
    for case in 0..24 {
        let (tiles, steps, rows) = (10 + rng.below(12), rng.below(24), 1 + rng.below(3));
        let (src, x, want) = all_alive(&mut rng, tiles, steps, rows);
        let mut p = parsed(&src);
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert!(out.ok(), "{case}: {:?}\n{src}", out.diags);
        let note = out.diags.iter().find(|d| d.code == codes::L0005);
        assert_eq!(note.is_some(), out.stat("allocate", "spilled") > 0);
        if tiles <= 12 {
            assert!(note.is_none(), "{src}");
        }
        let m = &p.modules[0];
        for l in m.memlocs.values().filter(|l| l.is_on_chip()) {
            assert!(l.allocated && l.addr + 4 * F as u64 <= 212_984);
        }
        let names = |what: &str| m.walk().iter().filter(|w| m.insts[w.2].name.contains(what)).count();
        stored += names("spill_store");
        again += names("_again");
        assert_eq!(run(&p, &x), want, "{case} bir\n{src}");
        assert!(lower(&mut p, &o).ok());
        assert_eq!(run(&p, &x), want, "{case} lowered\n{src}");
    }
    assert!(stored >= 100 && again >= 5, "{stored} stored, {again} loaded again");
}

/// Two cores swap tiles while others leave SBUF: what the swap names stays.
#[test]
fn tensors_of_a_swap_stay() {
    let (mut src, mut want) = (String::from("bir 1\nprogram \"two\" lnc 2 level bir\n"), Vec::new());
    let mut modules = String::new();
    let mut x = Vec::new();
    for core in 0..2 {
        let (one, input, out) = all_alive(&mut Rng(20 + core as u64), 20, 12, 1);
        let at = one.find("module").unwrap_or(0);
        if core == 0 {
            src += one[..at].lines().find(|l| l.starts_with("input")).unwrap_or("");
        }
        let ports = format!("\noutput \"y{core}\" = @y core {core} float32 [{}]\n", out.len());
        src += &ports;
        let peer = 1 - core;
        let swap = format!(
            "s = CollectiveCompute Unassigned @t0[[{F},1] [1,{F}]] float32 <- @t1[[{F},1] [1,{F}]] float32 \
             {{kind = SendRecv, is_local = true, recv_from_rank = [{peer}], send_to_rank = {peer}}}\no0 = "
        );
        let shared = one[at..].replace("ExternalInput Tensor Local", "ExternalInput Tensor Shared");
        modules += &shared
            .replace("@nc00 core 0", &format!("@nc0{core} core {core}"))
            .replace("\no0 = ", &format!("\n{swap}"));
        (x, want) = (input, [want, vec![out]].concat());
    }
    let src = src + &modules;
    let mut p = parsed(&src);
    let o = options(&p);
    let out = prepare(&mut p, &o);
    assert!(out.ok() && out.stat("allocate", "spilled") > 4, "{:?}", out.diags);
    let again = |p: &Program| {
        let insts = p.modules.iter().flat_map(|m| m.walk().into_iter().map(|w| &m.insts[w.2]));
        insts.filter(|i| i.name.contains("_again")).count()
    };
    assert!(again(&p) > 0);
    // Where one core writes the input, no core loads it twice.
    let at = src.rfind("\no0 = ").unwrap_or_else(|| panic!("{src}"));
    let write = format!("\nw = DMACopy SP @x[[1,{F}]] float32 <- @t5[[{F},1] [1,{F}]] float32");
    let mut written = parsed(&format!("{}{write}{}", &src[..at], &src[at..]));
    let out = prepare(&mut written, &o);
    assert!(out.ok() && out.stat("allocate", "spilled") > 4 && again(&written) == 0, "{:?}", out.diags);
    for m in &p.modules {
        assert!(m.memlocs.values().any(|l| l.name.contains(".part")));
        assert!(m.memlocs.values().all(|l| !l.name.starts_with("t0.") && !l.name.starts_with("t1.")));
    }
    let swapped = [want[1][F..2 * F].to_vec(), want[0][F..2 * F].to_vec()];
    for (mine, other) in want.iter_mut().zip(swapped) {
        mine[..F].copy_from_slice(&other);
    }
    assert_eq!(run_all(&p, &x), want);
    assert!(lower(&mut p, &o).ok());
    assert_eq!(run_all(&p, &x), want);
}

/// A tensor that must not leave stays.
#[test]
fn what_must_stay_in_sbuf_stays() {
    let (src, ..) = all_alive(&mut Rng(3), 20, 8, 1);
    for (mark, fits) in [("", true), ("no_spill ", false), ("volatile ", false)] {
        let marked = src.replace("{ loc @t", &format!("{mark}{{ loc @t"));
        let mut p = parsed(&marked);
        let (before, o) = (order(&p.modules[0]), options(&p));
        let out = prepare(&mut p, &o);
        assert_eq!(out.ok(), fits, "{mark}: {:?}", out.diags);
        if !fits {
            let errors: Vec<_> = out.diags.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
            assert_eq!(errors, [codes::L0003]);
            assert_eq!(order(&p.modules[0]), before);
        }
    }
}

/// Bytes that nothing has written are found where they are used, not where a tensor that has them is copied.
#[test]
fn a_copy_of_undefined_bytes_is_no_use_of_them() {
    let (src, ..) = all_alive(&mut Rng(3), 20, 0, 1);
    let fill = |name: &str, k: &str, off: usize| {
        format!(
            "{name}{k} = Memset Pool @t{k}[off {off}, [{F},1] [1,{}]] float32 {{mode = Const, constant = 0}}\n",
            F / 2
        )
    };
    let (mut text, mut late) = (String::new(), String::new());
    for line in src.lines() {
        match line.strip_prefix('f').and_then(|l| l.split_once(' ')) {
            Some((k, _)) => {
                text += &fill("f", k, 0);
                late += &fill("g", k, F / 2);
            }
            None if line.starts_with("o0 ") => text += &format!("LATE{line}\n"),
            None => text += &format!("{line}\n"),
        }
    }
    let first = late.split_inclusive('\n').next().unwrap_or_else(|| panic!("no fill\n{src}")).to_owned();
    for (late, clean) in [(late.clone(), true), (late.replace(&first, ""), false)] {
        let mut p = parsed(&text.replace("LATE", &late));
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert!(out.ok() && out.stat("allocate", "spilled") > 0, "{:?}", out.diags);
        assert!(lower(&mut p, &o).ok());
        let bytes = vec![0u8; 4 * 20 * F];
        let x = Tensor { name: "x".into(), dtype: Dtype::Float32, shape: vec![20 * F as u64], bytes };
        let o = RunOptions { ptcom: Ptcom::P2p, ..RunOptions::default() };
        let mut s = Simulator::new(&p, o).unwrap_or_else(|e| panic!("{e:?}"));
        s.set_inputs(std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e:?}"));
        let found: Vec<_> = s.run().diagnostics.into_iter().filter(|d| d.code == codes::S0021).collect();
        assert_eq!(found.is_empty(), clean, "{found:#?}");
        assert!(found.iter().all(|d| !d.message.contains("spill")), "{found:#?}");
    }
}

/// The addresses that the kernel gives end 256 bytes before the end of SBUF, at a multiple of 8: a tensor that lives throughout
/// takes them.
#[test]
fn the_last_bytes_of_sbuf_are_used() {
    let last = |bytes: usize| {
        // More than 64 partitions start at partition 0.
        let (big, row, n, rows) = (212_728, 212_728 / 4, bytes / 4, 65);
        let all = rows * n;
        format!(
            "bir 1\nprogram \"last\" lnc 1 level bir\ninput \"x\" = @x float32 [{all}]\noutput \"y\" = @y float32 [{all}]\n\
             module @nc00 core 0 arch gen3 {{\n func @main {{\n\
             set @x_set = ExternalInput Tensor Local float32 [{all}] {{ loc @x = DRAM [{rows}, {bytes}] addr 0 }}\n\
             set @y_set = ExternalOutput Tensor Local float32 [{all}] {{ loc @y = DRAM [{rows}, {bytes}] addr 0 }}\n\
             set @b_set = Internal NeuronSBTensor Local float32 [{rows} x {row}] {{ loc @b = SB [{rows}, {big}] addr 0 allocated }}\n\
             set @t_set = Internal NeuronSBTensor Local float32 [{rows} x {n}] {{ loc @t = SB [{rows}, {bytes}] }}\n\
             block b0 {{\n\
             l = DMACopy SP @t[[{n},{rows}] [1,{n}]] float32 <- @x[[{n},{rows}] [1,{n}]] float32\n\
             c = TensorCopy DVE @b[[{row},{rows}] [1,{n}]] float32 <- @t[[{n},{rows}] [1,{n}]] float32\n\
             d = TensorCopy DVE @t[[{n},{rows}] [1,{n}]] float32 <- @b[[{row},{rows}] [1,{n}]] float32\n\
             o = DMACopy SP @y[[{n},{rows}] [1,{n}]] float32 <- @t[[{n},{rows}] [1,{n}]] float32\n}}\n}}\n}}\n"
        )
    };
    for (bytes, fits) in [(256, true), (260, false)] {
        let mut p = parsed(&last(bytes));
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert_eq!(out.ok(), fits, "{:?}", out.diags);
        if fits {
            let x: Vec<f32> = (0..65 * bytes / 4).map(|k| k as f32).collect();
            assert_eq!(run(&p, &x), x);
        }
    }
}

/// Tiles of `rows` partitions, more than half of SBUF each: the first is loaded, the others are copies one of the other, `last` makes
/// the last one; all are stored.
fn tall(rows: usize, tiles: usize, last: &str) -> String {
    let (f, n) = (32_768, rows * 32_768);
    let mut s = format!(
        "bir 1\nprogram \"tall\" lnc 1 level bir\ninput \"x\" = @x float32 [{n}]\noutput \"y\" = @y float32 [{0}]\n\
         module @nc00 core 0 arch gen3 {{\n func @main {{\n\
         set @x_set = ExternalInput Tensor Local float32 [{n}] {{ loc @x = DRAM [1, {1}] addr 0 }}\n\
         set @y_set = ExternalOutput Tensor Local float32 [{0}] {{ loc @y = DRAM [1, {2}] addr 0 }}\n",
        tiles * n,
        4 * n,
        4 * tiles * n
    );
    for k in 0..tiles {
        let _ = writeln!(
            s,
            "set @t{k}_set = Internal NeuronSBTensor Local float32 [{rows} x {f}] {{ loc @t{k} = SB [{rows}, {}] }}",
            4 * f
        );
    }
    let small = format!(
        "set @s_set = Internal NeuronSBTensor Local float32 [{rows} x 4] {{ loc @s = SB [{rows}, 16] }}"
    );
    let _ = writeln!(s, "{}", if last == "beside" { small } else { String::new() });
    let tile = |k: usize| format!("@t{k}[[{f},{rows}] [1,{f}]] float32");
    let _ = writeln!(s, "block b0 {{\nl = DMACopy SP {} <- @x[[{f},{rows}] [1,{f}]] float32", tile(0));
    for k in 1..tiles {
        let _ = writeln!(s, "c{k} = TensorCopy DVE {} <- {}", tile(k), tile(k - 1));
    }
    let k = tiles - 1;
    let (mine, other) = (tile(k), tile(k - 1));
    if last == "beside" {
        let small = format!("@s[[4,{rows}] [1,4]] float32");
        let part = format!("@t{k}[[{f},{rows}] [1,4]] float32");
        let _ = writeln!(s, "z = Memset Pool {small} {{mode = Const, constant = 0}}");
        let _ = writeln!(s, "e = TensorTensor DVE {small} <- {part}, {small} {{op = add}}");
    }
    let _ = match last {
        "doubled" | "beside" => writeln!(s, "d = TensorTensor DVE {mine} <- {mine}, {mine} {{op = add}}"),
        _ => writeln!(s, "d = TensorTensor DVE {mine} <- {mine}, {other} {{op = add}}"),
    };
    for k in 0..tiles {
        let _ =
            writeln!(s, "o{k} = DMACopy SP @y[off {}, [{f},{rows}] [1,{f}]] float32 <- {}", k * n, tile(k));
    }
    s + "}\n}\n}\n"
}

/// Tensors of few partitions lie one below the other, unless one instruction reads both.
#[test]
fn tensors_of_few_partitions_lie_one_below_the_other() {
    let cases = [
        (64, 2, "doubled", &[0, 64][..]),
        (33, 2, "doubled", &[0, 64]),
        (32, 4, "doubled", &[0, 32, 64, 96]),
        // What is read together starts together.
        (64, 2, "beside", &[0, 64, 64]),
        (65, 2, "doubled", &[]),
        (64, 2, "summed", &[]),
    ];
    for (rows, tiles, last, bases) in cases {
        let mut p = parsed(&tall(rows, tiles, last));
        let o = options(&p);
        let out = prepare(&mut p, &o);
        assert_eq!(out.ok(), !bases.is_empty(), "{rows} {last}: {:?}", out.diags);
        if !out.ok() {
            continue;
        }
        let mut found: Vec<u32> =
            p.modules[0].memlocs.values().filter(|l| l.is_on_chip()).map(|l| l.base).collect();
        found.sort_unstable();
        assert_eq!(found, bases, "{rows} {last}");
        assert_eq!(out.stat("allocate", "moved") + out.stat("allocate", "spilled"), 0);
        let x: Vec<f32> = (0..rows * 32_768).map(|k| ((k / 32_768) * 100 + k % 9) as f32).collect();
        let once = x.repeat(tiles - 1);
        let want: Vec<f32> = once.into_iter().chain(x.iter().map(|v| 2.0 * v)).collect();
        assert_eq!(run(&p, &x), want, "{rows} bir");
        assert!(lower(&mut p, &o).ok());
        assert_eq!(run(&p, &x), want, "{rows} lowered");
    }
}

/// Many tensors that all live long, and what can never fit: both end, the latter in one finding about SBUF.
#[test]
fn many_tensors_end() {
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
    let src = format!("{}{late}{}", &src[..at], &src[at..]);
    for (mark, fits) in [("", true), ("no_spill ", false)] {
        let mut p = parsed(&src.replace("{ loc @t", &format!("{mark}{{ loc @t")));
        let (before, o) = (order(&p.modules[0]), options(&p));
        let out = prepare(&mut p, &o);
        let errors: Vec<_> = out.diags.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
        if fits {
            assert!(errors.is_empty() && out.stat("allocate", "spilled") > 1000, "{:?}", out.diags);
        } else {
            assert_eq!(errors, [codes::L0003], "{:?}", out.diags);
            assert_eq!(order(&p.modules[0]), before);
        }
    }
}
