//! Bytes that nothing has written: carried without a finding, a finding where they are used.

use tandem_bir::diag::{Diagnostic, render};
use tandem_bir::text;
use tandem_sim::{RunOptions, Simulator, StopReason};

fn show(d: &[Diagnostic]) -> String {
    d.iter().map(|d| render::text(d, render::Style::Plain, &|_, _| None)).collect()
}

/// Runs a body on one core with tiles `a`, `b` (the first half of each row of `a` is written) and an output `y` of 32 floats;
/// gives the findings.
fn run(body: &str) -> Vec<Diagnostic> {
    let src = format!(
        "bir 1
program \"t\" lnc 1 level bir
output \"y\" = @y float32 [32]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @y_set = ExternalOutput Tensor Local float32 [32] {{ loc @y = DRAM [128] addr 0 }}
    set @a_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @a = SB [4, 32] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @b = SB [4, 32] addr 32 allocated }}
    block b0 {{
      m = Memset DVE @a[[8,4] [1,4]] float32 {{mode = Const, constant = 1065353216}}
      {body}
    }}
  }}
}}
"
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let o = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run();
    assert_eq!(o.stop, StopReason::Finished, "{}", show(&o.diagnostics));
    o.diagnostics
}

const COPY: &str = "c = TensorCopy DVE @b[[8,4] [1,8]] float32 <- @a[[8,4] [1,8]] float32\n";
const ZERO_Y: &str = "z = Memset DVE @y[[1,32]] float32 {mode = Const, constant = 0}\n";

#[test]
fn carried_and_unused_bytes_are_no_finding() {
    assert!(run(&(COPY.to_owned() + ZERO_Y)).is_empty());
    // The written half is used after the copy, also through a conversion of type.
    let half = "h = TensorScalarPtr DVE @b[[8,4] [1,4]] float32 <- @b[[8,4] [1,4]] float32, 2.0 float32 \
                {op0 = mult, reverse0 = false, op1 = bypass, reverse1 = false}\n";
    assert!(run(&(COPY.to_owned() + half + ZERO_Y)).is_empty());
}

#[test]
fn a_use_after_a_copy_is_one_finding_at_the_reader() {
    let all = "h = TensorScalarPtr DVE @b[[8,4] [1,8]] float32 <- @b[[8,4] [1,8]] float32, 2.0 float32 \
               {op0 = mult, reverse0 = false, op1 = bypass, reverse1 = false} !loc k.py:8:2\n";
    let d = run(&(COPY.to_owned() + all + all.replace("h =", "g =").as_str() + ZERO_Y));
    assert_eq!(d.len(), 1, "{}", show(&d));
    let text = show(&d);
    assert!(text.contains("S0021") && text.contains("k.py:8:2") && text.contains("`b`"), "{text}");
    assert!(text.contains("byte 16 of partition 0"), "{text}");
}

#[test]
fn an_output_with_unwritten_bytes_is_a_finding() {
    let d = run("s = DMACopy SP @y[[8,4] [1,8]] float32 <- @a[[8,4] [1,8]] float32");
    assert_eq!(d.len(), 1, "{}", show(&d));
    assert!(show(&d).contains("output `y` has 64 bytes"), "{}", show(&d));
    let d = run("n = NoOp SP");
    assert!(show(&d).contains("output `y` has 128 bytes"), "{}", show(&d));
}

fn codes_of(body: &str) -> Vec<String> {
    let src = format!(
        "bir 1
program \"t\" lnc 1 level bir
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @a_set = Internal NeuronSBTensor Local float32 [32 x 32] {{ loc @a = SB [32, 128] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [32 x 32] {{ loc @b = SB [32, 128] addr 128 allocated }}
    set @i_set = Internal NeuronSBTensor Local uint32 [32 x 32] {{ loc @i = SB [32, 128] addr 256 allocated }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [32 x 32] {{ loc @p = PSUM [32, 128] bank 0 addr 0 allocated }}
    block b0 {{
      wa = Memset DVE @a[[32,32] [1,32]] float32 {{mode = Const, constant = 0}}
      wb = Memset DVE @b[[32,32] [1,32]] float32 {{mode = Const, constant = 0}}
      {body}
    }}
  }}
}}
"
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let o = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run();
    let list: Vec<String> = o.diagnostics.iter().map(|d| d.code.to_string()).collect();
    if o.stop != StopReason::Finished {
        // An index of undefined bytes may also lead nowhere.
        assert_eq!(list.last().map(String::as_str), Some("S0203"), "{}", show(&o.diagnostics));
    }
    list
}

const WRITE_I: &str = "wi = Memset DVE @i[[32,32] [1,32]] uint32 {mode = Const, constant = 0}\n";
const ALL: &str = "[[32,32] [1,32]]";

#[test]
fn indices_and_predicates_are_uses_even_of_movers() {
    let cases = [
        format!("g = Gather Pool @b{ALL} float32 <- @a{ALL} float32, @i{ALL} uint32\n"),
        format!("c = CopyPredicated DVE @b{ALL} float32 <- @a{ALL} float32, @i{ALL} uint32\n"),
    ];
    for c in &cases {
        let d = codes_of(c);
        assert_eq!(d.iter().filter(|c| *c == "S0021").count(), 1, "{c}{d:?}");
        assert_eq!(codes_of(&(WRITE_I.to_owned() + c)), Vec::<String>::new(), "{c}");
    }
}

#[test]
fn explicit_accumulation_onto_bytes_never_written_is_a_use() {
    let product = |name: &str, flag: u32| {
        format!(
            "{name} = Matmult PE @p{ALL} float32 <- @a{ALL} float32, @b{ALL} float32 {{accumulation_flag = {flag}}}\n"
        )
    };
    assert_eq!(codes_of(&product("m", 4)), ["S0021"]);
    // Start, then accumulate: the group was begun.
    assert!(codes_of(&(product("m", 1) + &product("n", 4))).is_empty());
    // A folding transfer reads its destination.
    let add = "d = DMACopy DMA @i[[32,32] [1,32]] float32 <- @a[[32,32] [1,32]] float32 {cce_op = add}\n";
    assert_eq!(codes_of(add), ["S0021"]);
    assert!(codes_of(&(WRITE_I.to_owned() + add)).is_empty());
}

#[test]
fn the_severity_is_the_callers() {
    let src = "bir 1
program \"t\" lnc 1 level bir
output \"y\" = @y float32 [4]
module @nc00 core 0 arch gen3 {
  func @main {
    set @y_set = ExternalOutput Tensor Local float32 [4] { loc @y = DRAM [16] addr 0 }
    block b0 {
      n = Memset DVE @y[[1,2]] float32 {mode = Const, constant = 0}
    }
  }
}
";
    let p = text::parse(src).expect("text");
    for severity in [tandem_bir::diag::Severity::Warning, tandem_bir::diag::Severity::Error] {
        let o = RunOptions { undefined_severity: severity, ..RunOptions::default() };
        let o = Simulator::new(&p, o).expect("program").run();
        assert_eq!(o.diagnostics.len(), 1);
        assert_eq!(o.diagnostics[0].severity, severity);
    }
}

/// Codes of a mover from `u`, whose left half alone is written, into `b`, and a use of a view of `b`; `i` holds `index`.
fn moved(mover: &str, index: u32, used: &str) -> Vec<Diagnostic> {
    let src = format!(
        "bir 1
program \"t\" lnc 1 level bir
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @u_set = Internal NeuronSBTensor Local float32 [32 x 32] {{ loc @u = SB [32, 128] addr 0 allocated }}
    set @b_set = Internal NeuronSBTensor Local float32 [32 x 32] {{ loc @b = SB [32, 128] addr 128 allocated }}
    set @i_set = Internal NeuronSBTensor Local uint32 [32 x 32] {{ loc @i = SB [32, 128] addr 256 allocated }}
    set @c_set = Internal NeuronSBTensor Local float32 [32 x 32] {{ loc @c = SB [32, 128] addr 384 allocated }}
    set @d_set = Internal Tensor Local float32 [32 x 32] {{ loc @d = DRAM [32, 128] addr 0 allocated }}
    block b0 {{
      wu = Memset DVE @u[[32,32] [1,16]] float32 {{mode = Const, constant = 0}} !loc k.py:1:1
      wi = Memset DVE @i[[32,32] [1,32]] uint32 {{mode = Const, constant = {index}}} !loc k.py:2:1
      {mover} !loc k.py:3:1
      use = TensorTensor DVE @c{used} float32 <- @b{used} float32, @b{used} float32 {{op = add}} !loc k.py:9:1
    }}
  }}
}}
"
    );
    let p = text::parse(&src).unwrap_or_else(|e| panic!("{}\n{src}", show(&e)));
    let o = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{}", show(&e))).run();
    assert_eq!(o.stop, StopReason::Finished, "{mover}: {}", show(&o.diagnostics));
    o.diagnostics
}

#[test]
fn marks_travel_with_the_bytes_through_every_kind_of_mover() {
    let (left, right) = ("[[32,32] [1,16]]", "[off 16, [32,32] [1,16]]");
    let (upper, lower) = ("[[32,16] [1,32]]", "[off 512, [32,16] [1,32]]");
    let copy = format!("m = TensorCopy DVE @b{ALL} float32 <- @u{ALL} float32");
    let dma = format!("m = DMACopy SP @b{ALL} float32 <- @u{ALL} float32");
    let twice = format!(
        "m0 = DMACopy SP @d{ALL} float32 <- @u{ALL} float32\n m = DMACopy SP @b{ALL} float32 <- @d{ALL} float32"
    );
    let transpose = format!("m = StreamTranspose DVE @b{ALL} float32 <- @u{ALL} float32");
    let gather = format!("m = Gather Pool @b{ALL} float32 <- @u{ALL} float32, @i{ALL} uint32");
    for (mover, index, clean, dirty) in [
        (&copy, 0, left, Some(right)),
        (&dma, 0, left, Some(right)),
        (&twice, 0, left, Some(right)),
        (&transpose, 0, upper, Some(lower)),
        (&gather, 3, ALL, None),
        (&gather, 20, "[[32,32] [1,0]]", Some(ALL)),
    ] {
        if !clean.contains(",0]]") {
            let d = moved(mover, index, clean);
            assert!(d.is_empty(), "{mover}, {clean}: {}", show(&d));
        }
        let Some(dirty) = dirty else { continue };
        let d = moved(mover, index, dirty);
        assert_eq!(d.len(), 1, "{mover}, {dirty}: {}", show(&d));
        let text = show(&d);
        // The use, the mover, and what left the bytes out.
        for line in ["k.py:9:1", "k.py:3:1", "k.py:1:1"] {
            assert!(text.contains(line), "{mover}: {text}");
        }
    }
}
