//! Every code of the checks: a program that raises it, made from a clean two-core program by one change, and mutations.

use tandem_bir::Program;
use tandem_bir::diag::{Code, Diagnostic, codes};
use tandem_check::{CHECKS, CheckOptions, Ranks, check, lnc_verifier};

const T: &str = "[[64,128] [1,64]] float32";

/// A two-core program in text form: the same storages on both cores, the given blocks.
fn text(level: &str, bodies: [&str; 2]) -> String {
    let mut out = format!("bir 1\nprogram \"k\" lnc 2 level {level}\n");
    for (c, body) in bodies.iter().enumerate() {
        let alias = 1 - c;
        out += &format!(
            r#"module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared float32 [128 x 64] {{ loc @x = DRAM [128, 256] addr 0 allocated }}
    set @y_set = ExternalOutput Tensor Shared float32 [128 x 64] {{ loc @y = DRAM [128, 256] addr 32768 allocated }}
    set @s_set = Internal Tensor Shared float32 [128 x 64] {{ loc @s = DRAM [128, 256] addr 65536 allocated }}
    set @a_set = Internal Tensor Local float32 [128 x 64] {{ loc @a = SB [128, 256] addr 0 allocated }}
    set @b_set = Internal Tensor Local float32 [128 x 64] {{ loc @b = SB [128, 256] addr 256 allocated }}
    set @a_remote_set = Internal Tensor Local float32 [128 x 64] {{ loc @a_remote = SB [128, 256] addr 0 allocated remote @a core {alias} }}
{body}
  }}
}}
"#
        );
    }
    out
}

fn parse(text: &str) -> Program {
    tandem_bir::text::parse(text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"))
}

fn run(p: &Program) -> Vec<Diagnostic> {
    check(p, &CheckOptions::default())
}

fn block(lines: &[&str]) -> String {
    format!("    block b0 {{\n      {}\n    }}", lines.join("\n      "))
}

fn swap(name: &str, rank: u32, pipe: u32) -> String {
    format!(
        "{name} = CollectiveCompute Pool @b{T} <- @a{T} {{kind = SendRecv, is_local = true, pipe_id = {pipe}, \
         recv_from_rank = [{rank}], send_to_rank = {rank}}}"
    )
}

const BAR: &str = "bar = CoreBarrier Pool {cores = [0, 1]}";
const GATHER: &str = "ag = CollectiveCompute Pool @y[[64,128] [1,64]] float32 <- @x[[64,64] [1,64]] float32 \
                      {kind = AllGather, replica_groups = [[0, 1]], cc_dim = Partition}";

/// Lines of one core of the clean program at level `bir`.
fn lines(core: u32) -> Vec<String> {
    let half = 4096 * core;
    vec![
        format!("ld = DMACopy DMA @a{T} <- @x{T}"),
        swap("sr", 1 - core, 0),
        BAR.to_owned(),
        swap("sr2", 1 - core, 3),
        GATHER.replace("@y[[64,128]", "@s[[64,128]"),
        format!("st = DMACopy DMA @y[[64,64] [1,64]] float32 + {half} <- @b[[64,64] [1,64]] float32"),
    ]
}

fn at_bir(change: impl Fn(&mut [Vec<String>; 2])) -> Vec<Diagnostic> {
    let mut l = [lines(0), lines(1)];
    change(&mut l);
    let bodies = l.map(|l| block(&l.iter().map(String::as_str).collect::<Vec<_>>()));
    let t = text("bir", [&bodies[0], &bodies[1]]);
    run(&parse(&t.replace(" + 0 <-", " <-").replace("[1,64]] float32 + 4096", "[1,64]] float32")))
}

fn expect(found: &[Diagnostic], code: Code, text: &str) {
    assert!(found.iter().any(|d| d.code == code && d.message.contains(text)), "{code} {text}: {found:#?}");
    for d in found {
        assert_eq!(d.code, code, "{found:#?}");
    }
}

#[test]
fn the_clean_program_has_no_findings() {
    let d = at_bir(|_| {});
    assert!(d.is_empty(), "{d:#?}");
}
