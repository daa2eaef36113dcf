//! Swaps and collectives in the machine: the rows of the numeric profile that it reads, several LNCs, and what each kind
//! asserts about its instruction. Every expected value is worked out by hand.

use tandem_bir::diag::{Class, Diagnostic, render};
use tandem_bir::{Program, text};
use tandem_sim::numeric_profile::{
    AllReduceMultiworker, Kind8, MultiLnc, NumericProfile, Sb2SbInt32, Uninit,
};
use tandem_sim::{Outcome, Ranks, RunOptions, Simulator, StopReason};

/// A program of `lnc` cores with tiles `a` and `b` of one partition and two elements, an output `y` of four elements, and a
/// register `r`; `body` is the block of a core.
fn program(lnc: u32, level: &str, t: &str, body: impl Fn(u32) -> String) -> Program {
    let kind = if lnc == 1 { "Local" } else { "Shared" };
    let mut src = format!("bir 1\nprogram \"t\" lnc {lnc} level {level}\noutput \"y\" = @y {t} [4]\n");
    for c in 0..lnc {
        src += &format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @y_set = ExternalOutput Tensor {kind} {t} [4] {{ loc @y = DRAM [16] addr 0 }}
    set @a_set = Internal NeuronSBTensor Local {t} [1 x 2] {{ loc @a = SB [1, 8] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local {t} [1 x 2] {{ loc @b = SB [1, 8] addr 64 allocated }}
    reg $r = ALL
    block b0 {{
{}
    }}
  }}
}}
",
            body(c)
        );
    }
    text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)))
}

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

fn run(p: &Program, profile: NumericProfile, lncs: Option<u32>) -> Outcome {
    let ranks = lncs.map_or(Ranks::AreCores, Ranks::Lncs);
    let opts = RunOptions { profile, ranks, ..RunOptions::default() };
    Simulator::new(p, opts).unwrap_or_else(|e| panic!("{}", show(&e))).run()
}

/// The words of all outputs of a run without findings.
fn words(p: &Program, profile: NumericProfile, lncs: Option<u32>) -> Vec<u32> {
    let o = run(p, profile, lncs);
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    assert!(o.diagnostics.is_empty(), "{}", show(&o.diagnostics));
    o.outputs
        .iter()
        .flat_map(|t| {
            t.bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect::<Vec<_>>()
        })
        .collect()
}

fn floats(p: &Program, profile: NumericProfile, lncs: Option<u32>) -> Vec<f32> {
    words(p, profile, lncs).into_iter().map(f32::from_bits).collect()
}

/// The one finding that stops a run.
fn refusal(p: &Program, profile: NumericProfile, lncs: Option<u32>) -> (String, Class, String) {
    let o = run(p, profile, lncs);
    assert_eq!(o.stop, StopReason::Fault, "{}", show(&o.diagnostics));
    let d = o.diagnostics.last().unwrap();
    (d.code.to_string(), d.code.info().class, d.message.clone())
}

fn fill(tile: &str, t: &str, bits: u32) -> String {
    format!("m{tile} = Memset Pool @{tile}[[2,1] [1,2]] {t} {{constant = {bits}}}\n")
}

/// Both elements of a tile to `y`, from element `at` on.
fn out(tile: &str, t: &str, at: u32) -> String {
    (0..2)
        .map(|k| {
            format!(
                "l{tile}{k} = TensorLoad ALL $r {t} <- @{tile}[off {k}, [2,1] [1,1]] {t}
s{tile}{k} = TensorSave ALL @y[off {}, [1,1]] {t} <- $r {t}\n",
                at + k
            )
        })
        .collect()
}

fn collective(kind: &str, more: &str, t: &str, ins: &str) -> String {
    let ins: Vec<String> = ins.split(' ').map(|x| format!("@{x}[[2,1] [1,2]] {t}")).collect();
    format!(
        "cc = CollectiveCompute Pool @b[[2,1] [1,2]] {t} <- {} {{kind = {kind}{}{more}}}\n",
        ins.join(", "),
        if more.is_empty() { "" } else { ", " }
    )
}

const F: &str = "float32";

/// Each core fills `a` with `value(core)` and `b` with zeros, runs the collective, and writes `b` to its half of `y`.
fn kept(lnc: u32, value: fn(u32) -> f32, cc: &str) -> Program {
    program(lnc, "bir", F, |c| {
        fill("a", F, value(c).to_bits())
            + &fill("b", F, 0)
            + cc
            + &out("b", F, 2 * c)
            + if lnc == 1 {
                "x2 = TensorSave ALL @y[off 2, [1,1]] float32 <- 0.0 float32
x3 = TensorSave ALL @y[off 3, [1,1]] float32 <- 0.0 float32\n"
            } else {
                ""
            }
    })
}

#[test]
fn sb2sb_int32() {
    let t = "int32";
    let p = program(2, "lowered", t, |c| {
        fill("a", t, 16_777_217 + 2 * c)
            + &format!("s = GPSIMDSB2SB Pool @b[[2,1] [1,2]] {t} <- @a[[2,1] [1,2]] {t} after(ma)\n")
            + &out("b", t, 2 * c)
    });
    // Each core gets the other's value; through fp32 both are ties, which go to the even neighbour.
    let (a, b) = (16_777_219, 16_777_217);
    assert_eq!(words(&p, NumericProfile::hw(), None), [a, a, b, b]);
    let (a, b) = (16_777_220, 16_777_216);
    assert_eq!(words(&p, NumericProfile::birsim(), None), [a, a, b, b]);
    let only = NumericProfile { sb2sb_int32: Sb2SbInt32::ThroughF32, ..NumericProfile::hw() };
    assert_eq!(words(&p, only, None), [a, a, b, b]);
}

#[test]
fn kind8() {
    let value = |c| if c == 0 { 1.0 } else { 10.0 };
    for pairs in ["src_target_pairs = [[0, 1], [1, 0]]", "replica_groups = [[0, 1]]"] {
        let p = kept(2, value, &collective("PermuteReduce", &format!("{pairs}, op = add"), F, "a"));
        assert_eq!(floats(&p, NumericProfile::hw(), None), [11.0; 4]);
        assert_eq!(floats(&p, NumericProfile::birsim(), None), [10.0, 10.0, 1.0, 1.0]);
        let only = NumericProfile { kind8: Kind8::Identity, ..NumericProfile::hw() };
        assert_eq!(floats(&p, only, None), [10.0, 10.0, 1.0, 1.0]);
    }
}

/// LNCs of one core; `a` holds ten plus the rank.
fn ranked(op: &str) -> Program {
    let t = "int32";
    program(1, "bir", t, |_| {
        "g = GetGlobalRankId ALL $r uint32 {world_size = 0}
n = RegisterAlu ALL $r int32 <- $r int32, 10 int32 {op = add}
w0 = TensorSave ALL @a[off 0, [2,1] [1,1]] int32 <- $r int32
w1 = TensorSave ALL @a[off 1, [2,1] [1,1]] int32 <- $r int32
"
        .to_owned()
            + &collective("AllReduce", &format!("replica_groups = [[0, 1, 2]], op = {op}"), t, "a")
            + &out("b", t, 0)
            + &out("a", t, 2).replace("la", "ka").replace("sa", "ta")
    })
}

#[test]
fn allreduce_multiworker() {
    let sum = ranked("add");
    let want = |v: [u32; 3]| -> Vec<u32> {
        (0..3).flat_map(|r| [v[r], v[r], 10 + r as u32, 10 + r as u32]).collect()
    };
    assert_eq!(words(&sum, NumericProfile::hw(), Some(3)), want([33, 33, 33]));
    assert_eq!(words(&sum, NumericProfile::birsim(), Some(3)), want([30, 33, 36]));
    let only = NumericProfile {
        allreduce_multiworker: AllReduceMultiworker::LocalTimesMembers,
        ..NumericProfile::hw()
    };
    assert_eq!(words(&sum, only, Some(3)), want([30, 33, 36]));
    // The approximation is one of sums, and of workers with one core.
    assert_eq!(words(&ranked("max"), NumericProfile::birsim(), Some(3)), want([12, 12, 12]));
    let cc = collective("AllReduce", "replica_groups = [[0, 1]], op = add", F, "a");
    let two = kept(2, |c| if c == 0 { 1.0 } else { 10.0 }, &cc);
    assert_eq!(floats(&two, NumericProfile::birsim(), None), [11.0; 4]);
}

#[test]
fn uninit() {
    let codes = |p: &Program, profile: NumericProfile| -> Vec<String> {
        let o = run(p, profile, None);
        assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
        o.diagnostics.iter().map(|d| d.code.to_string()).collect()
    };
    let copy = |t: &str| format!("c = TensorCopy DVE @b[[2,1] [1,2]] {t} <- @a[[2,1] [1,2]] {t}\n");
    // Nothing has written `a`. As floats it is NaN, which the guard sees; as integers only the marks know.
    let body = |t: &str, before: String| {
        let t = t.to_owned();
        program(1, "bir", &t.clone(), move |_| {
            before.clone()
                + &copy(&t)
                + &out("b", &t, 0)
                + &out("b", &t, 2).replace("lb", "kb").replace("sb", "tb")
        })
    };
    let float = body(F, String::new());
    assert!(codes(&float, NumericProfile::hw()).iter().all(|c| c == "S0021"));
    assert!(!codes(&float, NumericProfile::hw()).is_empty());
    assert_eq!(codes(&float, NumericProfile::birsim()), ["S0022"]);
    let int = body("int32", String::new());
    assert!(!codes(&int, NumericProfile::hw()).is_empty());
    assert!(codes(&int, NumericProfile::birsim()).is_empty());
    // A NaN that the program wrote itself is no undefined byte, and all the guard can see.
    let nan = body(F, fill("a", F, f32::NAN.to_bits()));
    assert!(codes(&nan, NumericProfile::hw()).is_empty());
    assert_eq!(codes(&nan, NumericProfile::birsim()), ["S0022", "S0022"]);
    let only = NumericProfile { uninit: Uninit::NanGuard, ..NumericProfile::hw() };
    assert_eq!(codes(&nan, only), ["S0022", "S0022"]);
    // The flag of an instruction lifts its own; what the Memset wrote is left.
    let mut flagged = nan.clone();
    for (_, i) in flagged.modules[0].insts.iter_mut().filter(|(_, i)| i.name == "c") {
        i.set(tandem_bir::Attr::CanReadUninit, true);
    }
    assert_eq!(codes(&flagged, NumericProfile::birsim()), ["S0022"]);
}

#[test]
fn swaps_and_scatters_of_several_lncs() {
    let value = |c| if c == 0 { 1.0f32 } else { 10.0 };
    let swap = |kind: &str, local: &str| {
        program(2, "bir", F, |c| {
            let more = format!("op = add, recv_from_rank = [{0}], send_to_rank = {0}{local}", 1 - c);
            fill("a", F, value(c).to_bits()) + &collective(kind, &more, F, "a") + &out("b", F, 2 * c)
        })
    };
    let hw = NumericProfile::hw();
    // A swap stays inside its LNC, however many there are.
    for (kind, local) in
        [("SendRecv", ""), ("SendRecv", ", is_local = true"), ("SendRecvCCE", ", is_local = true")]
    {
        let local = swap(kind, local);
        let got = floats(&local, hw.clone(), Some(2));
        assert_eq!(got, [10.0, 10.0, 1.0, 1.0, 10.0, 10.0, 1.0, 1.0]);
        let (code, class, text) = refusal(&local, NumericProfile::birsim(), Some(2));
        assert_eq!((code.as_str(), class), ("S0002", Class::Unsupported));
        assert!(text.contains("Multiple LNCs are not supported yet"), "{text}");
    }
    let t = "int32";
    let scatter = program(1, "bir", t, |_| {
        "g = GetGlobalRankId ALL $r uint32 {world_size = 0}
w0 = TensorSave ALL @a[off 0, [2,1] [1,1]] int32 <- $r int32
w1 = TensorSave ALL @a[off 1, [2,1] [1,1]] int32 <- 5 int32
"
        .to_owned()
            + "cc = CollectiveCompute Pool @b[[2,1] [1,1]] int32 <- @a[[2,1] [1,2]] int32 \
               {kind = ReduceScatter, op = add, cc_dim = Free, replica_groups = [[0, 1]]}
l = TensorLoad ALL $r int32 <- @b[[2,1] [1,1]] int32\n"
            + &(0..4)
                .map(|k| format!("s{k} = TensorSave ALL @y[off {k}, [1,1]] int32 <- $r int32\n"))
                .collect::<String>()
    });
    assert_eq!(words(&scatter, hw.clone(), Some(2)), [1, 1, 1, 1, 10, 10, 10, 10]);
    let (code, class, text) = refusal(&scatter, NumericProfile::birsim(), Some(2));
    assert_eq!((code.as_str(), class), ("S0002", Class::Unsupported));
    assert!(text.contains("multiple LNCs aren't yet supported"), "{text}");
    let only = NumericProfile { multi_lnc: MultiLnc::Refuse, ..hw };
    assert_eq!(refusal(&scatter, only, Some(2)).0, "S0002");
}

#[test]
fn permute_reduce_implicit_folds_before_it_sends() {
    // Core 0 has a = 1, core 1 has a = 10, b is 100 on both.
    let p = program(2, "bir", F, |c| {
        let a = if c == 0 { 1.0f32 } else { 10.0 };
        fill("a", F, a.to_bits())
            + &fill("b", F, 100f32.to_bits())
            + &collective("PermuteReduceImplicit", "replica_groups = [[0, 1]], op = add", F, "a b")
            + &out("b", F, 2 * c)
    });
    assert_eq!(floats(&p, NumericProfile::hw(), None), [110.0, 110.0, 101.0, 101.0]);
}

#[test]
fn kinds_assert_their_operands_in_the_words_of_the_reference() {
    let both = "replica_groups = [[0, 1]]";
    let pairs = "src_target_pairs = [[0, 1]]";
    let mult = format!("{both}, op = mult");
    let (all, add) = (format!("{both}, {pairs}"), format!("{both}, op = add"));
    let cases = [
        ("Permute", all.as_str(), "a", "S0014", "Permute should not contain replica_groups"),
        ("PermuteImplicit", &all, "a", "S0014", "PermuteImplicit should not contain src_target_pairs"),
        ("PermuteReduceImplicit", &add, "a", "S0014", "must have 2 inputs and 1 output"),
        ("AllReduce", &mult, "a", "S0002", "Unsupported OP type (mult)"),
        ("ReduceScatter", &mult, "a", "S0002", "Unsupported OP type (mult)"),
        ("PermuteReduce", &mult, "a", "S0002", "Unsupported OP type (mult)"),
        ("PermuteReduceImplicit", &mult, "a b", "S0002", "Unsupported OP type for Permute Reduce Implicit"),
        ("AllToAllV", both, "a", "S0002", "AllToAllV is not simulated"),
    ];
    for (kind, more, ins, code, text) in cases {
        let scatters = kind == "ReduceScatter";
        let cc = collective(kind, more, F, ins);
        let cc = if scatters {
            cc.replacen("[1,2]", "[1,1]", 1).replace("{kind", "{cc_dim = Free, kind")
        } else {
            cc
        };
        let (c, class, message) = refusal(&kept(2, |c| c as f32, &cc), NumericProfile::hw(), None);
        assert_eq!(c, code, "{kind}: {message}");
        assert_eq!(class == Class::Unsupported, code == "S0002");
        assert!(message.contains(text), "{kind}: {message}");
    }
}

#[test]
fn a_lowered_swap_needs_two_cores() {
    let p = program(1, "lowered", F, |_| {
        fill("a", F, 0)
            + "s = GPSIMDSB2SB Pool @b[[2,1] [1,2]] float32 <- @a[[2,1] [1,2]] float32 after(ma)\n"
    });
    let (code, _, text) = refusal(&p, NumericProfile::hw(), None);
    assert_eq!(code, "S0012");
    assert!(text.contains("LNC of two cores"), "{text}");
}

#[test]
fn an_input_of_one_rank_is_not_an_input_of_all() {
    let src = "bir 1
program \"t\" lnc 1 level bir
input \"x\" = @x int32 [1]
output \"y\" = @y int32 [1]
module @nc00 core 0 arch gen3 {
  func @main {
    set @x_set = ExternalInput Tensor Local int32 [1] { loc @x = DRAM [4] addr 0 }
    set @y_set = ExternalOutput Tensor Local int32 [1] { loc @y = DRAM [4] addr 0 }
    reg $r = ALL
    block b0 {
      l = TensorLoad ALL $r int32 <- @x[[1,1]] int32
      s = TensorSave ALL @y[[1,1]] int32 <- $r int32
    }
  }
}
";
    let p = text::parse(src).unwrap_or_else(|e| panic!("{}", show(&e)));
    let t = |name: &str, v: i32| tandem_sim::Tensor {
        name: name.into(),
        dtype: tandem_bir::Dtype::Int32,
        shape: vec![1],
        bytes: v.to_le_bytes().into(),
    };
    let start = |inputs: &[tandem_sim::Tensor]| {
        let opts = RunOptions { ranks: Ranks::Lncs(2), ..RunOptions::default() };
        let mut r = Simulator::new(&p, opts).unwrap();
        r.set_inputs(inputs).map(|()| r.run())
    };
    let got = |o: Outcome| o.outputs.iter().map(|t| (t.name.clone(), t.bytes[0])).collect::<Vec<_>>();
    let want = |a, b| [("rank0:y".to_owned(), a), ("rank1:y".to_owned(), b)];
    assert_eq!(got(start(&[t("x", 7)]).unwrap()), want(7, 7));
    assert_eq!(got(start(&[t("x", 7), t("rank1:x", 8)]).unwrap()), want(7, 8));
    assert_eq!(got(start(&[t("rank0:x", 5), t("rank1:x", 6)]).unwrap()), want(5, 6));
    let e = start(&[t("rank0:x", 5)]).unwrap_err();
    assert!(e[0].message.contains("no input `x` was given to rank 1"), "{}", e[0].message);
    assert!(start(&[t("x", 5), t("rank2:x", 6)]).is_err());
}
