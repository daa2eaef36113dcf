//! Arbitrary programs neither panic nor hang the simulator, nor make it allocate what they claim.

use proptest::prelude::*;
use tandem_bir::{Dtype, Level, Program, testing};
use tandem_sim::{RunOptions, Schedule, Simulator, Tensor};

fn options(schedule: Schedule) -> RunOptions {
    RunOptions { schedule, step_limit: 2_000, memory_limit: 1 << 20, ..RunOptions::default() }
}

fn attempt(p: &Program, schedule: Schedule) {
    if let Ok(r) = Simulator::new(p, options(schedule)) {
        let out = r.run();
        let _ = out.wait_for.map(|w| (w.to_dot(), w.to_json()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 100 } else { 3000 }, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_programs_end(mut p in testing::program(), seed in any::<u64>()) {
        for level in [Level::Bir, Level::Lowered] {
            p.level = level;
            p.modules.truncate(p.lnc_size.max(1) as usize);
            attempt(&p, Schedule::Eager);
            attempt(&p, Schedule::Seed(seed));
        }
    }
}

/// Programs whose operands are sane, with arbitrary opcodes, so that more of them get past decoding.
#[test]
fn arbitrary_opcodes_on_small_operands_end() {
    use tandem_bir::{AccessPattern, Operand};
    let mut ran = 0;
    for seed in 0..400u64 {
        let mut p = testing::build(seed, 20);
        p.modules.truncate(p.lnc_size.max(1) as usize);
        for m in &mut p.modules {
            for l in m.memlocs.values_mut() {
                l.dims = [4, 64].into_iter().collect();
                l.allocated = false;
                l.mem = tandem_bir::MemoryType::Dram;
                l.remote_local_target = None;
            }
            for s in m.sets.values_mut() {
                s.file = None;
            }
            for i in m.insts.values_mut() {
                let small = |o: &mut Operand| {
                    if let Operand::Ap(a) = o {
                        *a = AccessPattern::new(a.loc, Dtype::Float32, 0, &[(16, 4), (1, 4)]);
                    }
                    if let Operand::Other(_) = o {
                        *o = Operand::Imm(tandem_bir::Immediate::f32(1.0));
                    }
                };
                i.ins.iter_mut().for_each(small);
                i.outs.iter_mut().for_each(small);
                if let Some(x) = &mut i.more {
                    x.indirection_ins.clear();
                }
            }
            // Keep only what the simulator takes, so that the rest runs.
            let keep: Vec<_> = m
                .insts
                .iter()
                .filter(|(_, i)| {
                    !matches!(
                        i.spec().family,
                        tandem_bir::inst::Family::Kernel | tandem_bir::inst::Family::Generic
                    )
                })
                .map(|(k, _)| k)
                .collect();
            for b in m.blocks.values_mut() {
                b.insts.retain(|i| keep.contains(i));
            }
        }
        for level in [Level::Bir, Level::Lowered] {
            p.level = level;
            loop {
                match Simulator::new(&p, options(Schedule::Eager)) {
                    Ok(r) => {
                        let _ = r.run();
                        ran += 1;
                        break;
                    }
                    Err(e) => {
                        // Drop the instructions it refuses.
                        let mut dropped = false;
                        for m in &mut p.modules {
                            let bad: Vec<_> = m
                                .insts
                                .iter()
                                .filter(|(_, i)| {
                                    e.iter().any(|d| d.sites.iter().any(|s| s.inst == i.name.as_str()))
                                })
                                .map(|(k, _)| k)
                                .collect();
                            for b in m.blocks.values_mut() {
                                let n = b.insts.len();
                                b.insts.retain(|i| !bad.contains(i));
                                dropped |= n != b.insts.len();
                            }
                        }
                        if !dropped {
                            break;
                        }
                    }
                }
            }
        }
    }
    assert!(ran > 100, "only {ran} programs got as far as running");
}

/// Steps of 0 let a few bytes claim any number of elements; every kind of operand is refused before anything is copied or walked.
#[test]
fn operands_that_claim_too_many_elements_are_refused() {
    let tile = "[[64,128] [1,64]] float32";
    let many = "[[64,128] [0,4294967296] [0,4294967296]] float32";
    let module = |core: usize, body: &str| {
        let set = |n: &str, at: usize| {
            format!(
                "set @{n}_set = Internal NeuronSBTensor Local float32 [128 x 64] {{ loc @{n} = SB [128, 256] addr {at} allocated }}\n"
            )
        };
        let sets = set("a", 0) + &set("b", 256);
        format!(
            "module @nc0{core} core {core} arch gen3 {{\n func @f {{\n{sets} block main {{\n{body}\n }}\n }}\n}}\n"
        )
    };
    let attrs = |peer: usize| {
        format!("{{kind = SendRecv, is_local = true, recv_from_rank = [{peer}], send_to_rank = {peer}}}")
    };
    let swap = |dst: &str, src: &str, peer: usize| {
        format!("s = CollectiveCompute Unassigned @b{dst} <- @a{src} {}", attrs(peer))
    };
    let bodies = [
        [swap(many, tile, 1), swap(tile, tile, 0)],
        [swap(tile, many, 1), swap(tile, tile, 0)],
        [swap(many, many, 1), swap(many, many, 0)],
        [format!("c = TensorCopy DVE @b{many} <- @a{many}"), String::new()],
        [format!("c = DMACopy Unassigned @b{tile} <- @a{many}"), String::new()],
        [format!("c = Memset DVE @b{many} {{mode = Const, constant = 1}}"), String::new()],
    ];
    for [x, y] in bodies {
        let src = format!("bir 1\nprogram \"many\" lnc 2 level bir\n{}{}", module(0, &x), module(1, &y));
        let p = tandem_bir::text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"));
        let e = Simulator::new(&p, RunOptions::default()).err().unwrap_or_else(|| panic!("accepted\n{src}"));
        assert!(e.iter().any(|d| d.code == tandem_bir::diag::codes::S0002), "{e:?}\n{src}");
    }
}

/// The limit is for patterns that walk bytes again: a tensor that the program really has may be larger.
#[test]
fn a_tensor_larger_than_the_limit_is_walked() {
    const MANY: usize = (1 << 28) + 4096;
    let set = |n: &str, kind: &str| {
        format!("set @{n}_set = {kind} Tensor Local uint8 [{MANY}] {{ loc @{n} = DRAM [{MANY}] addr 0 }}\n")
    };
    let module = |body: &str| {
        let sets = set("x", "ExternalInput") + &set("y", "ExternalOutput");
        format!(
            "bir 1\nprogram \"large\" lnc 1 level bir\ninput \"x\" = @x uint8 [{MANY}]\noutput \"y\" = @y uint8 [{MANY}]\nmodule @nc00 core 0 arch gen3 {{\n func @f {{\n{sets} block main {{\n{body}\n }}\n }}\n}}\n"
        )
    };
    let copy = |pairs: &str| format!("c = DMACopy Unassigned @y{pairs} uint8 <- @x{pairs} uint8");
    let whole = format!("[[1,{MANY}]]");
    let again = format!("[[1,{}] [0,2]]", MANY / 2 + 4096);
    let src = module(&copy(&again));
    let p = tandem_bir::text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"));
    let e = Simulator::new(&p, RunOptions::default()).err().unwrap_or_else(|| panic!("accepted\n{src}"));
    assert!(e.iter().any(|d| d.code == tandem_bir::diag::codes::S0002), "{e:?}");

    let src = module(&copy(&whole));
    let p = tandem_bir::text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"));
    let options = RunOptions { race_check: false, ..RunOptions::default() };
    let mut sim = Simulator::new(&p, options).unwrap_or_else(|e| panic!("{e:?}"));
    let mut data = vec![0u8; MANY];
    data[MANY - 3..].copy_from_slice(&[1, 2, 3]);
    let x = Tensor { name: "x".into(), dtype: Dtype::Uint8, shape: vec![MANY as u64], bytes: data.clone() };
    sim.set_inputs(&[x]).unwrap_or_else(|e| panic!("{e:?}"));
    let out = sim.run();
    assert!(out.diagnostics.is_empty(), "{:?}", out.diagnostics);
    assert!(out.outputs[0].bytes == data);
}
