//! Structured control, calls, subgraphs, notifying transfers, peeled accumulation: levels linked and bundles give the bytes
//! of level lowered under all schedules.

use tandem_backend::container::{WriteOptions, decode, encode};
use tandem_backend::link::{LinkOptions, LinkedProgram, link};
use tandem_backend::{PassOptions, lower, prepare};
use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::{Program, text};
use tandem_sim::{
    Outcome, RunOptions, Schedule, Simulator, StopReason, Tensor, queue_style, random::random_tensor,
};

const SCHEDULES: [Schedule; 5] =
    [Schedule::Eager, Schedule::Late, Schedule::Seed(1), Schedule::Seed(2), Schedule::Seed(3)];

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn inputs(p: &Program) -> Vec<Tensor> {
    p.signature
        .inputs
        .iter()
        .map(|w| random_tensor(11, &w.name, w.dtype, &w.shape, 1 << 30).expect("size"))
        .collect()
}

fn options(schedule: Schedule) -> RunOptions {
    RunOptions { schedule, race_check: false, undefined_check: false, ..RunOptions::default() }
}

fn lowered(src: &str, change: impl Fn(&mut PassOptions)) -> Program {
    let mut p = text::parse(src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let mut o = PassOptions::for_program(&p);
    change(&mut o);
    let out = prepare(&mut p, &o);
    assert!(out.ok(), "{}", show(&out.diags));
    let out = lower(&mut p, &o);
    assert!(out.ok(), "{}", show(&out.diags));
    p
}

fn reference(p: &Program) -> Outcome {
    let mut all: Option<Outcome> = None;
    for s in SCHEDULES {
        let mut r = Simulator::new(p, options(s)).unwrap_or_else(|e| panic!("{}", show(&e)));
        r.set_inputs(&inputs(p)).unwrap_or_else(|e| panic!("{}", show(&e)));
        let o = r.run();
        assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
        assert!(all.as_ref().is_none_or(|a| a.outputs == o.outputs), "lowered, {s:?}");
        all = Some(o);
    }
    all.expect("ran")
}

fn same(what: &str, l: &LinkedProgram, p: &Program, want: &Outcome) {
    for s in SCHEDULES {
        let o =
            queue_style::run(l, &inputs(p), options(s)).unwrap_or_else(|e| panic!("{what}: {}", show(&e)));
        assert_eq!(o.stop, StopReason::Finished, "{what} {s:?}: {}", show(&o.diagnostics));
        assert!(o.diagnostics.is_empty(), "{what} {s:?}: {}", show(&o.diagnostics));
        let row = o
            .outputs
            .iter()
            .zip(&want.outputs)
            .find_map(|(a, b)| a.bytes.chunks(256).zip(b.bytes.chunks(256)).position(|(x, y)| x != y));
        assert!(o.outputs == want.outputs, "{what} {s:?}: other bytes, first in row {row:?}");
    }
}

/// The linked program; both levels gave the bytes of lowered.
fn agrees(p: &Program) -> (LinkedProgram, Outcome) {
    let want = reference(p);
    let tokens_order = true;
    let (l, notes) = link(p, LinkOptions { tokens_order }).unwrap_or_else(|e| panic!("{}", show(&e)));
    assert!(notes.iter().all(|d| !d.is_error()));
    same("linked", &l, p, &want);
    for debug in [true, false] {
        let o = WriteOptions { debug, ..WriteOptions::default() };
        let (bytes, _) = encode(&l, o).unwrap_or_else(|e| panic!("{}", show(&e)));
        let d = decode(&bytes).unwrap_or_else(|e| panic!("{}", show(&[e])));
        same("bundles", &d, p, &want);
    }
    (l, want)
}

/// One core with registers `n`, `i`, `t` and an output `y` of eight int32, all zero before `body`.
fn scalars(body: &str, more: &str) -> Program {
    scalars_with("", body, more)
}

/// The same with further registers.
fn scalars_with(registers: &str, body: &str, more: &str) -> Program {
    let zero: String =
        (0..8).map(|k| format!("z{k} = TensorSave ALL @y[off {k}, [1,1]] int32 <- $zero int32\n")).collect();
    lowered(
        &format!(
            "bir 1
program \"t\" lnc 1 level bir
output \"y\" = @y int32 [8]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @y_set = ExternalOutput Tensor Local int32 [8] {{ loc @y = DRAM [32] addr 0 }}
    reg $n = ALL
    reg $i = ALL
    reg $t = ALL
    reg $zero = ALL
    {registers}
    block b0 {{
      zr = RegisterMove ALL $zero int32 <- 0 int32
      {zero}
      {body}
    }}
  }}
  {more}
}}
"
        ),
        |_| (),
    )
}

fn y(o: &Outcome) -> Vec<i32> {
    o.outputs[0].bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

#[test]
fn do_while_and_break() {
    for (start, leave) in [(1, false), (7, false), (9, true)] {
        let brk = if leave { "x = Break ALL" } else { "" };
        let body = format!(
            "m = RegisterMove ALL $n int32 <- {start} int32
      c = RegisterMove ALL $i int32 <- 0 int32
      w = DoWhile Unassigned {{cond = {{\"regref\":\"n\"}}}} regions {{
        block inner {{
          a = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
          d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {{op = subtract}}
          {brk}
        }}
      }}
      s = TensorSave ALL @y[[1,1]] int32 <- $i int32
      e = TensorSave ALL @y[off 1, [1,1]] int32 <- $n int32"
        );
        let (_, o) = agrees(&scalars(&body, ""));
        assert_eq!(y(&o)[..2], if leave { [1, 8] } else { [start, 0] });
    }
}

#[test]
fn dynamic_loops() {
    for (n, want) in [(2, [10, 11, 12, 13, 14, 0, 0, 0]), (0, [10, 0, 0, 0, 0, 0, 0, 0]), (-1, [0; 8])] {
        let body = format!(
            "m = RegisterMove ALL $n int32 <- {n} int32
      c = RegisterMove ALL $i int32 <- 10 int32
      f = DynamicForLoop Unassigned {{DynamicForLoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":{{\"terms\":[{{\"idx\":\"n\",\"coeff\":2}}],\"c\":1}},\"stride\":1}}}} regions {{
        block inner {{
          s = TensorSave ALL @y[[1,1], dyn(1*axis(k)) dim 0] int32 <- $i int32
          a = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
        }}
      }}"
        );
        let (_, o) = agrees(&scalars(&body, ""));
        assert_eq!(y(&o), want);
    }
}

#[test]
fn calls_twice_and_nested() {
    let sub = "func @twice {
    block s0 {
      a = RegisterMove ALL $main/n int32 <- 21 int32
      b = RegisterAlu ALL $main/n int32 <- $main/n int32, 2 int32 {op = mult}
      c = Call ALL {target = \"inner\"}
      r = Return ALL
      never = RegisterMove ALL $main/n int32 <- 0 int32
    }
  }
  func @inner {
    block s0 {
      a = RegisterAlu ALL $main/n int32 <- $main/n int32, 1 int32 {op = add}
      b = CompareAndBranch Unassigned <- $main/n int32, 100 int32 {comp_op = IS_LTIMM, on_true = s2, on_false = s1}
    }
    block s1 {
      never = RegisterMove ALL $main/n int32 <- 0 int32
    }
    block s2 {
      c = NoOp SP
    }
  }";
    let body = "c1 = Call ALL {target = \"twice\"}
      s1 = TensorSave ALL @y[[1,1]] int32 <- $n int32
      c2 = Call ALL {target = \"twice\"}
      s2 = TensorSave ALL @y[off 3, [1,1]] int32 <- $n int32
      c3 = Call ALL {target = \"inner\"}
      s3 = TensorSave ALL @y[off 4, [1,1]] int32 <- $n int32";
    let (_, o) = agrees(&scalars(body, sub));
    assert_eq!(y(&o), [43, 0, 0, 43, 44, 0, 0, 0]);
}

#[test]
fn a_function_that_calls_itself_is_refused() {
    let sub = "func @again {
    block s0 {
      c = Call ALL {target = \"again\"}
    }
  }";
    let p = scalars("c1 = Call ALL {target = \"again\"}", sub);
    let e = link(&p, LinkOptions::default()).expect_err("refused");
    assert!(e.iter().any(|d| d.message.contains("calls itself")), "{}", show(&e));
}

/// Rows of a table moved by loops: nested, with halves and remainders of the axes, and thirds, which no register
/// operation gives.
fn moved(inner: &str, rows: u64) -> Program {
    lowered(
        &format!(
            "bir 1
program \"moved\" lnc 1 level bir
input \"x\" = @x float32 [{rows} x 64]
output \"out\" = @out float32 [{rows} x 64]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared float32 [{rows} x 64] {{ loc @x = DRAM [{rows}, 256] }}
    set @out_set = ExternalOutput Tensor Shared float32 [{rows} x 64] {{ loc @out = DRAM [{rows}, 256] }}
    set @t_set = Internal NeuronSBTensor Local float32 [1 x 4096] {{ loc @t = SB [1, 16384] }}
    set @u_set = Internal NeuronSBTensor Local float32 [1 x 4096] {{ loc @u = SB [1, 16384] }}
    block b0 {{
      all = DMACopy Unassigned @t[[4096,1] [1,{n}]] float32 <- @x[[1,{n}]] float32
      clear = Memset DVE @u[[4096,1] [1,4096]] float32 {{mode = Const, constant = 0}}
      {inner}
      save = DMACopy Unassigned @out[[1,{n}]] float32 <- @u[[4096,1] [1,{n}]] float32
    }}
  }}
}}
",
            n = rows * 64
        ),
        |_| (),
    )
}

fn axis(n: &str, lb: i64, ub: i64, by: i64) -> String {
    format!("{{LoopAxis = {{\"name\":\"{n}\",\"lb\":{lb},\"ub\":{ub},\"stride\":{by}}}}}")
}

#[test]
fn nested_loops_over_tiles() {
    // row k of the result is row 2k + j of the table for the last j
    let nested = format!(
        "l = Loop Unassigned {} regions {{
        block body {{
          m = Loop Unassigned {} regions {{
            block deep {{
              c = TensorCopy DVE @u[[4096,1] [1,64], dyn(64*axis(k)) dim 0] float32 <- @t[[4096,1] [1,64], dyn(128*axis(k), 64*axis(j)) dim 0] float32
            }}
          }}
        }}
      }}",
        axis("k", 0, 4, 1),
        axis("j", 0, 2, 1)
    );
    let p = moved(&nested, 8);
    let (_, o) = agrees(&p);
    let x = &inputs(&p)[0].bytes;
    for k in 0..4 {
        assert_eq!(o.outputs[0].bytes[k * 256..(k + 1) * 256], x[(2 * k + 1) * 256..(2 * k + 2) * 256]);
    }
}

/// Halves and remainders of an axis; thirds are written out.
fn split(d: u64) {
    let split = format!(
        "l = Loop Unassigned {} regions {{
    block body {{
      c = TensorCopy Activation @u[[4096,1] [1,64], dyn(64*axis(k)) dim 0] float32 <- @t[[4096,1] [1,64], dyn(64*div(axis(k), {d})) dim 0] float32
      e = DMACopy Unassigned @u[off 512, [4096,1] [1,64], dyn(64*mod(axis(k), {d})) dim 0] float32 <- @t[[4096,1] [1,64], dyn(64*axis(k)) dim 0] float32
    }}
  }}",
        axis("k", 1, 8, 3)
    );
    let p = moved(&split, 16);
    let (l, o) = agrees(&p);
    let x = &inputs(&p)[0].bytes;
    for k in [1usize, 4, 7] {
        let from = k / d as usize;
        assert_eq!(o.outputs[0].bytes[k * 256..(k + 1) * 256], x[from * 256..(from + 1) * 256], "{d}");
    }
    // thirds are written out
    let copies = l.program.modules[0]
        .walk()
        .iter()
        .filter(|w| l.program.modules[0].insts[w.2].opcode == tandem_bir::Opcode::TensorCopy)
        .count();
    assert_eq!(copies, if d == 3 { 3 } else { 1 });
}

#[test]
fn halves_of_an_axis() {
    split(2);
}

#[test]
fn thirds_of_an_axis() {
    split(3);
}

#[test]
fn quarters_of_an_axis() {
    split(4);
}

const RSEM: &str = include_str!("../../../filetests/lower/remote_semaphores.bir");

#[test]
fn notifying_transfers() {
    let p = lowered(RSEM, |o| o.enable_remote_semaphore_dma = true);
    let (l, _) = agrees(&p);
    for (c, m) in l.program.modules.iter().enumerate() {
        let updates: Vec<_> = m
            .insts
            .values()
            .filter_map(|i| i.more.as_ref()?.sync.as_ref())
            .flat_map(|s| &s.on_update)
            .filter(|u| u.target_core.is_some())
            .collect();
        assert_eq!(updates.len(), 1);
        assert_eq!(updates[0].target_core, Some(1 - c as u32));
        let waits = m
            .insts
            .values()
            .filter_map(|i| i.more.as_ref()?.sync.as_ref())
            .flat_map(|s| &s.on_wait)
            .filter(|w| w.sem == updates[0].sem)
            .count();
        assert!(waits > 0, "the peer's notice is waited for on core {c}");
    }
}

/// Without the wait for the peer's notice the next write of the source is not ordered behind the peer's read.
#[test]
fn a_lost_notice_is_a_deadlock() {
    let p = lowered(RSEM, |o| o.enable_remote_semaphore_dma = true);
    let (mut l, _) = link(&p, LinkOptions::default()).unwrap();
    let m = &mut l.program.modules[0];
    for i in m.insts.values_mut() {
        if let Some(s) = i.more.as_mut().and_then(|m| m.sync.as_mut()) {
            s.on_update.retain(|u| u.target_core.is_none());
        }
    }
    let o = queue_style::run(&l, &inputs(&p), options(Schedule::Eager)).unwrap();
    assert_eq!(o.stop, StopReason::Deadlock);
}

/// Two subgraphs on two cores; the second reads what the first left in SBUF.
#[test]
fn subgraphs_run_one_after_the_other() {
    let module = |c: u32, sg: u32| {
        let (io, kind, body) = if sg == 0 {
            (
                "x",
                "ExternalInput",
                format!(
                    "a = DMACopy Unassigned @t[[64,128] [1,64]] float32 <- @x[off {}, [64,128] [1,64]] float32
      s = CollectiveCompute Unassigned @u[[64,128] [1,64]] float32 <- @t[[64,128] [1,64]] float32 {{kind = SendRecv, is_local = true, recv_from_rank = [{p}], send_to_rank = {p}}}
      r = Return ALL",
                    8192 * c,
                    p = 1 - c
                ),
            )
        } else {
            (
                "v",
                "ExternalOutput",
                format!(
                    "b = TensorTensor DVE @t[[64,128] [1,64]] float32 <- @u[[64,128] [1,64]] float32, @u[[64,128] [1,64]] float32 {{op = add}}
      c = DMACopy Unassigned @v[off {}, [64,128] [1,64]] float32 <- @t[[64,128] [1,64]] float32",
                    8192 * c
                ),
            )
        };
        let place = if io == "x" { 0 } else { 65536 };
        format!(
            "module @nc0{c} core {c}{} arch gen3 {{
  func @f {{
    set @{io}_set = {kind} Tensor Shared float32 [256 x 64] {{ loc @{io} = DRAM [256, 256] addr {place} }}
    set @t_set = Internal NeuronSBTensor Local float32 [128 x 64] {{ loc @t = SB [128, 256] addr 1024 allocated }}
    set @u_set = Internal NeuronSBTensor Local float32 [128 x 64] {{ loc @u = SB [128, 256] addr 4096 allocated }}
    block main {{
      {body}
    }}
  }}
}}
",
            if sg == 0 { String::new() } else { format!(" subgraph {sg}") }
        )
    };
    let src = format!(
        "bir 1\nprogram \"sg\" lnc 2 level bir\ninput \"x\" = @x float32 [256 x 64]\noutput \"v\" = @v subgraph 1 float32 [256 x 64]\n{}{}{}{}",
        module(0, 0),
        module(1, 0),
        module(0, 1),
        module(1, 1)
    );
    let p = lowered(&src, |_| ());
    let (l, o) = agrees(&p);
    assert_eq!(l.program.modules.len(), 2);
    let f =
        |b: &[u8]| -> Vec<f32> { b.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect() };
    let (x, v) = (f(&inputs(&p)[0].bytes), f(&o.outputs[0].bytes));
    let n = x.len() / 2;
    assert!((0..n).all(|i| v[i] == x[n + i] + x[n + i] && v[n + i] == x[i] + x[i]));
}

/// A product accumulated over a loop: the first turn overwrites, the others add.
#[test]
fn accumulation_over_a_loop_peels_its_first_turn() {
    for by_branch in [false, true] {
        let matmul = "w = DMACopy Unassigned @a[[64,64] [1,64]] bfloat16 <- @x[[64,64] [1,64], dyn(4096*KEY) dim 0] bfloat16
          mm = Matmult PE @p[[64,64] [1,64]] float32 <- @a[[64,64] [1,64]] bfloat16, @a[[64,64] [1,64]] bfloat16";
        let (head, blocks) = if by_branch {
            (
                "m = RegisterMove ALL $k int32 <- 0 int32".to_owned(),
                format!(
                    "block turn {{
      {}
      add = RegisterAlu ALL $k int32 <- $k int32, 1 int32 {{op = add}}
      br = CompareAndBranch Unassigned <- $k int32, 4 int32 {{comp_op = IS_LTIMM, on_true = turn, on_false = end}}
    }}
    block end {{",
                    matmul.replace("KEY", "$k")
                ),
            )
        } else {
            (
                format!(
                    "l = Loop Unassigned {{LoopAxis = {{\"name\":\"k\",\"lb\":0,\"ub\":4,\"stride\":1}}}} regions {{
        block body {{
          {}
        }}
      }}",
                    matmul.replace("KEY", "axis(k)")
                ),
                String::new(),
            )
        };
        let head = if by_branch { format!("{head}\n    }}\n    {blocks}") } else { head };
        let src = format!(
            "bir 1
program \"mm\" lnc 1 level bir
input \"x\" = @x bfloat16 [256 x 64]
output \"out\" = @out float32 [64 x 64]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared bfloat16 [256 x 64] {{ loc @x = DRAM [256, 128] }}
    set @out_set = ExternalOutput Tensor Shared float32 [64 x 64] {{ loc @out = DRAM [64, 256] }}
    set @a_set = Internal NeuronSBTensor Local bfloat16 [64 x 64] {{ loc @a = SB [64, 128] }}
    set @s_set = Internal NeuronSBTensor Local float32 [64 x 64] {{ loc @s = SB [64, 256] }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [64 x 64] {{ loc @p = PSUM [64, 256] }}
    reg $k = ALL
    block b0 {{
      {head}
      c = TensorCopy DVE @s[[64,64] [1,64]] float32 <- @p[[64,64] [1,64]] float32
      o = DMACopy Unassigned @out[[64,64] [1,64]] float32 <- @s[[64,64] [1,64]] float32
    }}
  }}
}}
"
        );
        let p = lowered(&src, |_| ());
        let (l, _) = agrees(&p);
        let flags: Vec<i64> = l.program.modules[0]
            .walk()
            .iter()
            .map(|w| &l.program.modules[0].insts[w.2])
            .filter(|i| i.opcode == tandem_bir::Opcode::Matmult)
            .filter_map(|i| i.get_int(tandem_bir::Attr::AccumulationFlag))
            .collect();
        let mut sorted = flags.clone();
        sorted.sort_unstable();
        assert!(sorted.len() == 2 && sorted[0] & 4 == 0 && sorted[1] & 4 == 4, "{flags:?}");
    }
}

/// More registers than an engine has, few of them at one time; some live over a loop that uses many.
#[test]
fn registers_share_numbers() {
    let (short, long) = (90, 6);
    let mut body = String::from("acc = RegisterMove ALL $t int32 <- 0 int32\n");
    for k in 0..long {
        body += &format!("l{k} = RegisterMove ALL $l{k} int32 <- {} int32\n", 1000 * k);
    }
    let mut inner = String::new();
    for k in 0..short {
        inner += &format!(
            "a{k} = RegisterAlu ALL $s{k} int32 <- $i int32, {k} int32 {{op = add}}
          b{k} = RegisterAlu ALL $t int32 <- $t int32, $s{k} int32 {{op = add}}\n"
        );
    }
    body += &format!(
        "m = RegisterMove ALL $n int32 <- 3 int32
      c = RegisterMove ALL $i int32 <- 5 int32
      w = DoWhile Unassigned {{cond = {{\"regref\":\"n\"}}}} regions {{
        block inner {{
          {inner}
          u = RegisterAlu ALL $i int32 <- $i int32, 1 int32 {{op = add}}
          d = RegisterAlu ALL $n int32 <- $n int32, 1 int32 {{op = subtract}}
        }}
      }}\n"
    );
    for k in 0..long {
        body += &format!("r{k} = RegisterAlu ALL $l{k} int32 <- $l{k} int32, $t int32 {{op = add}}\n");
        body += &format!("y{k} = TensorSave ALL @y[off {k}, [1,1]] int32 <- $l{k} int32\n");
    }
    let names: String = (0..short)
        .map(|k| format!("    reg $s{k} = ALL\n"))
        .chain((0..long).map(|k| format!("    reg $l{k} = ALL\n")))
        .collect();
    let p = scalars_with(&names, &body, "");
    let (l, o) = agrees(&p);
    let sum: i32 = (5..8).map(|i| (0..short).map(|k| i + k).sum::<i32>()).sum();
    let want: Vec<i32> = (0..8).map(|k| if k < long { 1000 * k + sum } else { 0 }).collect();
    assert_eq!(y(&o), want);
    let numbers: Vec<u8> = l.cores[0].reg_numbers.iter().copied().filter(|n| *n != u8::MAX).collect();
    assert!(numbers.len() > 90 && numbers.iter().all(|n| *n < 62), "{numbers:?}");
}

/// One core: `x` into tile `a` of 1024 columns, `body` from `a` and `c` into `b`, `b` to `out`.
fn tiles(body: &str) -> Program {
    lowered(
        &format!(
            "bir 1
program \"tiles\" lnc 1 level bir
input \"x\" = @x float32 [128 x 1024]
output \"out\" = @out float32 [128 x 1024]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared float32 [128 x 1024] {{ loc @x = DRAM [128, 4096] }}
    set @out_set = ExternalOutput Tensor Shared float32 [128 x 1024] {{ loc @out = DRAM [128, 4096] }}
    set @a_set = Internal NeuronSBTensor Local float32 [128 x 1024] {{ loc @a = SB [128, 4096] }}
    set @b_set = Internal NeuronSBTensor Local float32 [128 x 1024] {{ loc @b = SB [128, 4096] }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [128 x 512] {{ loc @p = PSUM [128, 2048] }}
    block b0 {{
      ld = DMACopy Unassigned @a[[1024,128] [1,1024]] float32 <- @x[[1024,128] [1,1024]] float32
      z = Memset DVE @b[[1024,128] [1,1024]] float32 {{mode = Const, constant = 0}}
      {body}
      st = DMACopy Unassigned @out[[1024,128] [1,1024]] float32 <- @b[[1024,128] [1,1024]] float32
    }}
  }}
}}
"
        ),
        |_| (),
    )
}

/// Operands with more dimensions than their descriptors hold: the instruction becomes several.
#[test]
fn tiles_of_many_dimensions_are_cut() {
    let b5 = "@b[[1024,128] [256,2] [100,2] [40,2] [15,2] [3,4]] float32";
    let a5 = "@a[[1024,128] [300,2] [120,2] [50,2] [14,2] [2,4]] float32";
    let b3 = "@b[[1024,128] [256,2] [100,2] [3,16]] float32";
    let a3 = "@a[[1024,128] [300,2] [120,2] [2,16]] float32";
    let flat = "@a[[1024,128] [1,64]] float32";
    for (what, body) in [
        ("copy", format!("i = TensorCopy DVE {b5} <- {a5}")),
        ("copy from a flat tile", format!("i = TensorCopy Pool {b5} <- {flat}")),
        ("cast", format!("i = TensorCopy Activation {} <- {a5}", b5.replace("float32", "int32"))),
        ("fill", format!("i = Memset Pool {b5} {{mode = Const, constant = 1065353216}}")),
        ("sum", format!("i = TensorTensor DVE {b5} <- {a5}, {flat} {{op = add}}")),
        ("reciprocal", format!("i = Reciprocal DVE {b5} <- {a5}")),
        (
            "scalars",
            format!(
                "i = TensorScalarPtr DVE {b5} <- {a5}, 2.5 float32, @a[off 7, [1024,128] [1,1]] float32 {{op0 = mult, op1 = add}}"
            ),
        ),
        (
            "scalar-tensor-tensor",
            format!(
                "i = TensorScalarPtr DVE {b3} <- {a3}, 2.5 float32, {flat} {{op0 = mult, op1 = add, is_scalar_tensor_tensor = true}}"
            ),
        ),
        (
            "activation",
            format!(
                "i = Activation Activation {b5} <- {a5}, 0.0 float32 {{func = Square, scale = 1.5, acc = Idle}}"
            ),
        ),
        // reductions are cut along what they keep
        (
            "sum of rows",
            format!("i = TensorReduce DVE @b[[1024,128] [1,16]] float32 <- {a5} {{op = add, axis = X}}"),
        ),
        (
            "largest of planes, scattered",
            format!(
                "i = TensorReduce DVE @b[[1024,128] [400,2] [150,2] [70,2]] float32 <- {a5} {{op = max, axis = XY}}"
            ),
        ),
        (
            "sum of all but one",
            format!("i = TensorReduce DVE @b[[1024,128] [9,2]] float32 <- {a5} {{op = add, axis = XYZW}}"),
        ),
        // a folded dimension of one element still counts as one
        (
            "sum of rows of one",
            format!(
                "i = TensorReduce DVE @b[[1024,128] [1,16]] float32 <- {} {{op = add, axis = X}}",
                a5.replace("[2,4]", "[2,1]")
            ),
        ),
        // matmuls along the moving tile
        (
            "product",
            format!(
                "i = Matmult PE @p[[512,64] [1,64]] float32 <- {a5}, @a[off 1, [1024,128] [1,64]] float32\n c = TensorCopy DVE @b[[1024,64] [1,64]] float32 <- @p[[512,64] [1,64]] float32"
            ),
        ),
        // in place: the same pattern read and written
        (
            "in place",
            format!(
                "j = TensorCopy DVE @b[[1024,128] [1,1024]] float32 <- @a[[1024,128] [1,1024]] float32\n i = TensorTensor DVE {b5} <- {b5}, {flat} {{op = add}}"
            ),
        ),
    ] {
        let p = tiles(&body);
        let (l, _) = agrees(&p);
        let m = &l.program.modules[0];
        let made = m.insts.values().filter(|i| i.name == "i" || i.name.starts_with("i.")).count();
        assert!(made > 1, "{what}: {made}");
    }
}

/// What carries something from element to element, and what writes over what it has still to read, is not cut.
#[test]
fn tiles_that_cannot_be_cut_are_refused() {
    let b5 = "@b[[1024,128] [256,2] [100,2] [40,2] [15,2] [3,4]] float32";
    for body in [
        // the output lies over the input in another pattern
        format!(
            "i = TensorCopy DVE {b5} <- @b[off 3, [1024,128] [256,2] [100,2] [40,2] [15,2] [3,4]] float32"
        ),
        // a fold of partitions, and a product that clears more than its own destination
        "i = TensorReduce Pool @b[[1024,1] [1,64]] float32 <- @a[[1024,128] [300,2] [120,2] [50,2] [14,2] [2,4]] float32 {op = add, axis = C}".to_owned(),
        "i = Matmult PE @p[[512,64] [1,64]] float32 <- @a[[1024,128] [300,2] [120,2] [50,2] [14,2] [2,4]] float32, @a[off 1, [1024,128] [1,64]] float32 {accumulation_flag = 3}".to_owned(),
        // a running value
        "i = TensorScalarPtr DVE @b[[1024,128] [256,2] [100,2] [3,16]] float32 <- @a[[1024,128] [300,2] [120,2] [2,16]] float32, 0.0 float32, @a[[1024,128] [1,64]] float32 {op0 = mult, op1 = add, is_tensor_tensor_scan = true}".to_owned(),
    ] {
        let p = tiles(&body);
        reference(&p);
        let (l, _) = link(&p, LinkOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e)));
        let e = encode(&l, WriteOptions::default()).expect_err("refused");
        assert!(e.iter().any(|d| d.code == tandem_bir::diag::codes::E0003), "{}", show(&e));
    }
}
