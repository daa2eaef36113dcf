//! Every form of a program computes the same bytes: the kernel itself, its BIR as text, its BIR as JSON, through the
//! library and through the command.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tandem::cli::{Cli, CompileArgs, Verb};
use tandem::driver;
use tandem::load::{BirForm, Input, load};
use tandem_bir::text::{Constants, PrintOptions};
use tandem_bir::{Program, fs, json, text};
use tandem_sim::{RunOptions, Simulator, StopReason, Tensor, npy, random};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn samples() -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(root().join("testdata/klr"))
        .expect("the samples")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "klr"))
        .collect();
    list.sort();
    assert_eq!(list.len(), 26);
    list
}

fn options() -> CompileArgs {
    use clap::Parser as _;
    match Cli::try_parse_from(["tandem", "check", "x"]).expect("options are known").verb {
        Verb::Check(c) => c.compile,
        _ => unreachable!("the verb is check"),
    }
}

fn to_bir(input: Input) -> Program {
    let staged = driver::to_bir(input, &options());
    let diags = format!("{:?}", staged.diags);
    staged.program.unwrap_or_else(|| panic!("{diags}"))
}

fn to_lowered(p: &Program) -> Program {
    let input = Input::Bir(Box::new(p.clone()), BirForm::Text);
    let staged = driver::to_lowered(driver::to_bir(input, &options()), &options());
    let diags = format!("{:?}", staged.diags);
    staged.program.unwrap_or_else(|| panic!("{diags}"))
}

fn inputs(p: &Program) -> Vec<Tensor> {
    let made = |p: &tandem_bir::Port| random::random_tensor(5, &p.name, p.dtype, &p.shape, 1 << 32);
    p.signature.inputs.iter().map(|p| made(p).expect("fits")).collect()
}

fn run(p: &Program, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut ready = Simulator::new(p, RunOptions::default()).unwrap_or_else(|d| panic!("{d:?}"));
    ready.set_inputs(inputs).unwrap_or_else(|d| panic!("{d:?}"));
    let o = ready.run();
    assert_eq!(o.stop, StopReason::Finished, "{:?}", o.diagnostics);
    assert!(!o.outputs.is_empty());
    o.outputs
}

#[test]
fn every_sample_computes_the_same_bytes_after_a_trip_through_json_and_text() {
    for file in samples() {
        let direct = to_bir(load(&file).unwrap_or_else(|d| panic!("{d:?}")));
        let given = inputs(&direct);
        let want = run(&direct, &given);
        let mut bytes = Vec::new();
        json::write_program(&direct, Constants::Inline, &mut bytes).expect("written");
        let by_json = fs::read_bytes(&bytes, "p.json").unwrap_or_else(|d| panic!("{d:?}"));
        let printed = text::print_with(&direct, PrintOptions { constants: Constants::Inline });
        let by_text = fs::read_bytes(printed.as_bytes(), "p.bir").unwrap_or_else(|d| panic!("{d:?}"));
        for (form, p, kind) in [("json", by_json, BirForm::Json), ("text", by_text, BirForm::Text)] {
            let again = to_bir(Input::Bir(Box::new(p), kind));
            assert!(run(&again, &given) == want, "{} through {form}", file.display());
            assert!(run(&to_lowered(&again), &given) == want, "{} through {form}, lowered", file.display());
        }
    }
}

/// The command, with this standard input; standard output when it ends well.
fn tandem(args: &[&str], stdin: Option<&[u8]>) -> Vec<u8> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(args)
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let pipe = child.stdin.take();
    let given = stdin.map(<[u8]>::to_vec);
    let writer = std::thread::spawn(move || {
        if let (Some(mut pipe), Some(given)) = (pipe, given) {
            pipe.write_all(&given).expect("the command reads its input");
        }
    });
    let out = child.wait_with_output().expect("the command ends");
    writer.join().expect("written");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// Every file below a folder: relative name, content.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut out = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(d) = todo.pop() {
        for e in std::fs::read_dir(&d).expect("a folder") {
            let p = e.expect("an entry").path();
            if p.is_dir() {
                todo.push(p);
            } else {
                let name = p.strip_prefix(dir).expect("below").to_path_buf();
                out.push((name, std::fs::read(&p).expect("readable")));
            }
        }
    }
    out.sort();
    assert!(!out.is_empty());
    out
}

#[test]
fn the_command_computes_the_same_files_from_a_kernel_from_text_from_json_and_from_standard_input() {
    for name in ["01_sendrecv_swap_f32_128x64", "18_loop_cmpbranch_f32", "24_shared_constant_f32"] {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |n: &str| dir.path().join(n).display().to_string();
        let kernel = root().join(format!("testdata/klr/{name}.klr")).display().to_string();
        tandem(&["run", &kernel, "--random", "3", "-o", &at("direct")], None);
        let want = files(&dir.path().join("direct"));
        for format in ["text", "json"] {
            // To a file (JSON: a folder of modules) and from there.
            let (file, out) = (at(&format!("p.{format}")), at(&format!("from-{format}")));
            tandem(&["lower", &kernel, "--emit", "bir", "--format", format, "-o", &file], None);
            tandem(&["run", &file, "--random", "3", "-o", &out], None);
            assert!(files(Path::new(&out)) == want, "{name} by {format} file");
            // Through pipes, constants inside.
            let (out, again) = (at(&format!("piped-{format}")), at(&format!("piped-{format}-lowered")));
            let printed = tandem(&["lower", &kernel, "--emit", "bir", "--format", format], None);
            tandem(&["run", "-", "--random", "3", "-o", &out], Some(&printed));
            assert!(files(Path::new(&out)) == want, "{name} by {format} on standard input");
            let lowered = tandem(&["lower", "-", "--emit", "lowered", "--format", format], Some(&printed));
            tandem(&["run", "-", "--random", "3", "-o", &again], Some(&lowered));
            assert!(files(Path::new(&again)) == want, "{name} lowered by {format} on standard input");
        }
    }
}

fn f32s(t: &Tensor) -> Vec<f32> {
    t.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
fn tensor(name: &str, shape: &[u64], value: impl Fn(usize) -> f32) -> Tensor {
    let n = shape.iter().product::<u64>() as usize;
    let bytes = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
    Tensor { name: name.into(), dtype: tandem_bir::Dtype::Float32, shape: shape.to_vec(), bytes }
}

/// `y0 = y1 = x0 + x1`, with sums that are exact.
#[test]
fn the_swap_pair_adds_what_the_cores_have() {
    let input = load(&root().join("examples/bir/swap_pair")).unwrap_or_else(|d| panic!("{d:?}"));
    let bir = to_bir(input);
    let x0 = |i: usize| i as f32;
    let x1 = |i: usize| 0.5 * i as f32 - 7.0;
    let given = [tensor("nc00:x", &[128, 64], x0), tensor("nc01:x", &[128, 64], x1)];
    let want: Vec<f32> = (0..128 * 64).map(|i| x0(i) + x1(i)).collect();
    for p in [&bir, &to_lowered(&bir)] {
        let out = run(p, &given);
        assert_eq!(out.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["nc00:y", "nc01:y"]);
        assert!(out.iter().all(|t| f32s(t) == want));
    }
}

#[test]
fn the_swap_pair_by_the_command_reads_and_writes_one_file_per_core() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |n: &str| dir.path().join(n).display().to_string();
    for c in 0..2 {
        let t = tensor("x", &[128, 64], |i| (i + 100 * c) as f32);
        std::fs::write(at(&format!("x{c}.npy")), npy::write(&t)).expect("written");
    }
    let (x0, x1) = (format!("nc00:x={}", at("x0.npy")), format!("nc01:x={}", at("x1.npy")));
    let example = root().join("examples/bir/swap_pair").display().to_string();
    tandem(&["check", &example], None);
    tandem(&["run", &example, "-i", &x0, "-i", &x1, "-o", &at("out")], None);
    let found = files(&dir.path().join("out"));
    let names: Vec<String> = found.iter().map(|f| f.0.display().to_string()).collect();
    assert_eq!(names, ["nc00/y.npy", "nc01/y.npy"]);
    let want = tensor("y", &[128, 64], |i| (2 * i + 100) as f32);
    for (name, bytes) in found {
        let got = npy::read(&bytes).and_then(|a| a.into_tensor("y", want.dtype)).expect("npy");
        assert!(got == want, "{}", name.display());
    }
}

/// Two subgraphs on two cores: the first adds its inputs of both cores, the second subtracts the other core's from its own.
#[test]
fn two_subgraphs_run_one_after_the_other() {
    let input = load(&root().join("testdata/bir/two_subgraphs")).unwrap_or_else(|d| panic!("{d:?}"));
    let bir = to_bir(input);
    assert_eq!(bir.num_subgraphs(), 2);
    let value = |k: usize| move |i: usize| (i * (k + 1)) as f32;
    let names = ["nc00:x", "nc01:x", "nc00:u", "nc01:u"];
    let given: Vec<Tensor> = names.iter().enumerate().map(|(k, n)| tensor(n, &[128, 64], value(k))).collect();
    for p in [&bir, &to_lowered(&bir)] {
        let out = run(p, &given);
        let names: Vec<&str> = out.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["nc00:y", "nc01:y", "nc00:v", "nc01:v"]);
        for (t, factor) in out.iter().zip([3.0, 3.0, -1.0, 1.0]) {
            assert!(f32s(t).iter().enumerate().all(|(i, v)| *v == factor * i as f32), "{}", t.name);
        }
    }
    let mut bytes = Vec::new();
    json::write_program(&bir, Constants::Inline, &mut bytes).expect("written");
    let again = fs::read_bytes(&bytes, "p.json").unwrap_or_else(|d| panic!("{d:?}"));
    assert!(run(&again, &given) == run(&bir, &given));
}

/// What one subgraph leaves at an on-chip or DRAM address the next one finds there.
#[test]
fn subgraphs_share_the_memories_of_their_core() {
    let module = |sub: u32, io: &str, body: &str| {
        format!(
            "module @nc00 core 0 {}arch gen3 {{\n  func @main {{\n{io}    block b0 {{\n{body}    }}\n  }}\n}}\n",
            if sub > 0 { format!("subgraph {sub} ") } else { String::new() }
        )
    };
    let t = "[[64,128] [1,64]] float32";
    let left = "    set @a_set = Internal Tensor Local float32 [128 x 64] { loc @a = SB [128, 256] addr 512 allocated }\n    \
                set @d_set = Internal Tensor Local float32 [128 x 64] { loc @d = DRAM [128, 256] addr 4096 allocated }\n";
    let first = module(
        0,
        &format!(
            "    set @x_set = ExternalInput Tensor Local float32 [128 x 64] {{ loc @x = DRAM [128, 256] addr 65536 allocated }}\n{left}"
        ),
        &format!("      ld = DMACopy DMA @a{t} <- @x{t}\n      st = DMACopy DMA @d{t} <- @a{t}\n"),
    );
    let out = |n: &str, addr: u32| {
        format!(
            "    set @{n}_set = ExternalOutput Tensor Local float32 [128 x 64] {{ loc @{n} = DRAM [128, 256] addr {addr} allocated }}\n"
        )
    };
    let second = module(
        1,
        &format!("{}{}{left}", out("y", 131_072), out("z", 262_144)),
        &format!("      st = DMACopy DMA @y{t} <- @a{t}\n      st2 = DMACopy DMA @z{t} <- @d{t}\n"),
    );
    let head = "bir 1\nprogram \"k\" lnc 1 level bir\n";
    let mut p = text::parse(&format!("{head}{first}{second}")).unwrap_or_else(|d| panic!("{d:#?}"));
    let port = |n: &str, subgraph| tandem_bir::Port {
        name: n.into(),
        location: n.into(),
        core: None,
        subgraph,
        dtype: tandem_bir::Dtype::Float32,
        shape: vec![128, 64],
    };
    p.signature.inputs = vec![port("x", 0)];
    p.signature.outputs = vec![port("y", 1), port("z", 1)];
    let x = tensor("x", &[128, 64], |i| i as f32);
    let got = run(&p, std::slice::from_ref(&x));
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|t| t.bytes == x.bytes));
}

/// The example as the specification prints it: one shared `x` and `y`, both at address 0.
#[test]
fn the_printed_example_is_refused_with_the_reason() {
    let printed = std::fs::read_to_string(root().join("testdata/bir/spec_11_1.json")).expect("the example");
    let dir = tempfile::tempdir().expect("a folder");
    for c in 0..2 {
        let d = dir.path().join(format!("nc0{c}/sg00"));
        std::fs::create_dir_all(&d).expect("a folder");
        let own = printed.replace("\"neuron_core_id\": 0", &format!("\"neuron_core_id\": {c}"));
        assert!(c == 0 || own != printed);
        std::fs::write(d.join("bir.json"), own).expect("written");
    }
    let input = load(dir.path()).unwrap_or_else(|d| panic!("{d:?}"));
    let staged = driver::to_bir(input, &options());
    assert!(staged.program.is_none());
    let found = &staged.diags;
    assert!(
        found.iter().any(|d| d.code.info().id == "V0204"
            && d.message.contains("`x` (ExternalInput) and `y` (ExternalOutput)")),
        "{found:#?}"
    );
}
