//! `--ranks N`: whole LNCs beside each other, from the command line to the files.

mod command;

use command::tandem;
use std::path::Path;
use tandem_bir::Dtype;
use tandem_sim::{Tensor, npy};

/// Two cores; core c sums `x[c]` over the LNCs by a kept AllReduce, and writes the sum and its rank to its half of `y`.
fn program() -> String {
    let module = |c: usize| {
        format!(
            "module @nc0{c} core {c} arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Shared int32 [2] {{ loc @x = DRAM [1, 8] addr 0 }}
    set @y_set = ExternalOutput Tensor Shared int32 [4] {{ loc @y = DRAM [1, 16] addr 0 }}
    set @s_set = Internal Tensor Local int32 [1] {{ loc @s = DRAM [1, 4] addr 0 }}
    set @t_set = Internal Tensor Local int32 [1] {{ loc @t = DRAM [1, 4] addr 0 }}
    reg $r = ALL
    block b0 {{
      a = TensorLoad ALL $r int32 <- @x[off {c}, [1,1]] int32
      b = TensorSave ALL @s[[1,1]] int32 <- $r int32
      cc = CollectiveCompute Pool @t[[1,1]] int32 <- @s[[1,1]] int32 {{kind = AllReduce, op = add, replica_groups = [[0, 1]]}}
      d = TensorLoad ALL $r int32 <- @t[[1,1]] int32
      e = TensorSave ALL @y[off {}, [1,1]] int32 <- $r int32
      g = GetGlobalRankId ALL $r uint32 {{world_size = 2}}
      h = TensorSave ALL @y[off {}, [1,1]] int32 <- $r int32
    }}
  }}
}}
",
            2 * c,
            2 * c + 1
        )
    };
    format!(
        "bir 1
program \"sums\" lnc 2 level bir
input \"x\" = @x int32 [2]
output \"y\" = @y int32 [4]
{}{}",
        module(0),
        module(1)
    )
}

fn ints(dir: &Path, file: &str) -> Vec<i32> {
    let bytes = std::fs::read(dir.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let t = npy::read(&bytes).and_then(|a| a.into_tensor("y", Dtype::Int32)).expect(file);
    t.bytes.chunks(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn setup(dir: &Path) {
    std::fs::write(dir.join("sums.bir"), program()).expect("sums.bir");
    for (file, v) in [("one.npy", [1i32, 2]), ("ten.npy", [10, 20])] {
        let bytes = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        let t = Tensor { name: "x".into(), dtype: Dtype::Int32, shape: vec![2], bytes };
        std::fs::write(dir.join(file), npy::write(&t)).expect(file);
    }
}

#[test]
fn an_allreduce_is_kept_across_two_lncs_with_inputs_and_outputs_of_their_own() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path();
    setup(dir);
    for level in ["bir", "lowered", "linked", "bundles"] {
        for schedule in ["eager", "late", "seed=3"] {
            let out = format!("out-{level}-{schedule}");
            let own = ["-i", "rank0:x=one.npy", "-i", "rank1:x=ten.npy"];
            let common =
                ["run", "sums.bir", "--ranks", "2", "--level", level, "--schedule", schedule, "-o", &out];
            let o = tandem(dir, &[&common[..], &own[..]].concat());
            assert_eq!(o.exit, 0, "{}", o.err);
            assert_eq!(ints(dir, &format!("{out}/rank0/y.npy")), [11, 0, 22, 0]);
            assert_eq!(ints(dir, &format!("{out}/rank1/y.npy")), [11, 1, 22, 1]);
        }
    }
    // One file for all, and an exception for one rank.
    let o = tandem(dir, &["run", "sums.bir", "one.npy", "--ranks", "2", "-o", "same"]);
    assert_eq!(o.exit, 0, "{}", o.err);
    assert_eq!(ints(dir, "same/rank1/y.npy"), [2, 1, 4, 1]);
    let o =
        tandem(dir, &["run", "sums.bir", "one.npy", "-i", "rank1:x=ten.npy", "--ranks", "2", "-o", "but"]);
    assert_eq!(o.exit, 0, "{}", o.err);
    assert_eq!(ints(dir, "but/rank0/y.npy"), [11, 0, 22, 0]);
    // Without `--ranks` the ids are the cores of the one LNC.
    let o = tandem(dir, &["run", "sums.bir", "one.npy", "--level", "bir", "-o", "cores"]);
    assert_eq!(o.exit, 0, "{}", o.err);
    assert_eq!(ints(dir, "cores/y.npy"), [3, 0, 3, 1]);
}

#[test]
fn inputs_of_ranks_that_do_not_exist_or_lack_one_are_refused() {
    let tmp = tempfile::tempdir().expect("a folder");
    let dir = tmp.path();
    setup(dir);
    for (args, text) in [
        (vec!["-i", "rank2:x=one.npy", "--ranks", "2"], "no input `rank2:x`"),
        (vec!["-i", "rank01:x=one.npy", "--ranks", "2"], "no input `rank01:x`"),
        (vec!["-i", "rank0:x=one.npy"], "no input `rank0:x`"),
        (vec!["-i", "rank0:x=one.npy", "--ranks", "2"], "input `rank1:x` is missing"),
        (vec!["--ranks", "2"], "input `x` is missing"),
    ] {
        let o = tandem(dir, &[&["run", "sums.bir"], &args[..]].concat());
        assert_eq!(o.exit, 2, "{}", o.err);
        assert!(o.err.contains(text), "{args:?}: {}", o.err);
    }
    let o = tandem(dir, &["run", "sums.bir", "one.npy", "--ranks", "4000000000"]);
    assert_eq!(o.exit, 3, "{}", o.err);
}
