//! Tensors at the border: what is given by value is not copied where it need not be, and gives what a copy gives.

use tandem_bir::{Dtype, Program, text};
use tandem_sim::{Outcome, Ranks, RunOptions, Simulator, Tensor};

/// A program of two cores without instructions. `x` and `w` are shared inputs in storage of their own; `a` and `b` are inputs that
/// lie one behind the other at given addresses.
fn program(outputs: &str) -> Program {
    let module = |c: usize| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared int32 [4] {{ loc @x = DRAM [16] addr 0 }}
    set @w_set = ExternalInput Tensor Shared int32 [4] {{ loc @w = DRAM [16] addr 0 }}
    set @a_set = ExternalInput Tensor Shared int32 [2] {{ loc @a = DRAM [8] addr 64 allocated }}
    set @b_set = ExternalInput Tensor Shared int32 [2] {{ loc @b = DRAM [8] addr 72 allocated }}
    block b0 {{
      n = DMACopy SP @w[[1,4]] int32 <- @w[[1,4]] int32
      o = DMACopy SP @x[[1,4]] int32 <- @x[[1,4]] int32
      p = DMACopy SP @a[[1,2]] int32 <- @a[[1,2]] int32
      q = DMACopy SP @b[[1,2]] int32 <- @b[[1,2]] int32
    }}
  }}
}}
"
        )
    };
    let src = format!(
        "bir 1
program \"t\" lnc 2 level bir
input \"x\" = @x int32 [4]
input \"w\" = @w int32 [4]
input \"a\" = @a int32 [2]
input \"b\" = @b int32 [2]
{outputs}{}{}",
        module(0),
        module(1)
    );
    text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"))
}

fn ints(name: &str, values: &[i32]) -> Tensor {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor { name: name.into(), dtype: Dtype::Int32, shape: vec![values.len() as u64], bytes }
}

fn inputs() -> Vec<Tensor> {
    vec![ints("x", &[1, 2, 3, 4]), ints("w", &[5, 6, 7, 8]), ints("a", &[9, 10]), ints("b", &[11, 12])]
}

fn run(p: &Program, opts: &RunOptions, inputs: Vec<Tensor>, give: bool) -> Outcome {
    let mut r = Simulator::new(p, opts.clone()).unwrap();
    if give {
        r.give_inputs(inputs).unwrap();
    } else {
        r.set_inputs(&inputs).unwrap();
    }
    r.run()
}

#[test]
fn what_is_all_of_a_buffer_is_in_memory_once() {
    let p = program("output \"x\" = @x int32 [4]\noutput \"w\" = @w int32 [4]\n");
    let given = inputs();
    let at: Vec<*const u8> = given.iter().map(|t| t.bytes.as_ptr()).collect();
    let o = run(&p, &RunOptions::default(), given, true);
    assert!(o.diagnostics.is_empty(), "{:?}", o.diagnostics);
    assert_eq!(o.outputs[..], inputs()[..2]);
    let back: Vec<*const u8> = o.outputs.iter().map(|t| t.bytes.as_ptr()).collect();
    assert_eq!(back, at[..2]);
}

#[test]
fn given_and_copied_tensors_give_the_same() {
    // The same location twice, and tensors that share a buffer.
    let p = program(
        "output \"x\" = @x int32 [4]
output \"again\" = @x int32 [4]
output \"b\" = @b int32 [2]
output \"a\" = @a int32 [2]
output \"a2\" = @a int32 [2]
",
    );
    for (ranks, lncs) in [(Ranks::AreCores, 1), (Ranks::Lncs(3), 3)] {
        for undefined_check in [true, false] {
            let opts = RunOptions { ranks, undefined_check, ..RunOptions::default() };
            let mut all = inputs();
            if lncs > 1 {
                all.push(ints("rank1:x", &[-1, -2, -3, -4]));
            }
            let got = [true, false].map(|give| {
                let o = run(&p, &opts, all.clone(), give);
                assert!(o.diagnostics.is_empty(), "{:?}", o.diagnostics);
                o.outputs
            });
            assert_eq!(got[0], got[1]);
            assert_eq!(got[0].len(), 5 * lncs);
            for (k, t) in got[0].iter().enumerate() {
                let rank1 = k / 5 == 1;
                let want = match k % 5 {
                    0 | 1 if rank1 => &all[4],
                    0 | 1 => &all[0],
                    2 => &all[3],
                    _ => &all[2],
                };
                assert_eq!(t.bytes, want.bytes, "{}", t.name);
            }
        }
    }
}

#[test]
fn what_nobody_gave_is_undefined_whatever_lies_beside_it() {
    // `a` is given, `b` is no input here: they share a buffer.
    let mut p = program("output \"a\" = @a int32 [2]\noutput \"b\" = @b int32 [2]\n");
    p.signature.inputs.retain(|i| i.name != "b");
    for give in [true, false] {
        let o = run(&p, &RunOptions::default(), inputs()[..3].to_vec(), give);
        let found: Vec<String> = o.diagnostics.iter().map(|d| d.code.to_string()).collect();
        assert_eq!(found, ["S0021"], "{:?}", o.diagnostics);
        assert!(o.diagnostics[0].message.contains("`b` has 8 bytes"), "{}", o.diagnostics[0].message);
        assert_eq!(o.outputs[1].bytes, [0xff; 8]);
    }
}
