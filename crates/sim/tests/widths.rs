//! The same bytes at every vector width and on any number of threads: every family of instruction that has a vector kernel
//! or is cut into bands, on tiles large enough for the bands, contiguous and strided.

use tandem_bir::{ActivationFunctionType, Program, text};
use tandem_sim::num::simd::{self, Width};
use tandem_sim::random::random_tensor;
use tandem_sim::{RunOptions, Simulator, StopReason};

const COLS: usize = 2048;

/// Instructions whose result lies in `z` (f32), written with `X`, `Y`, `Z` for whole tiles, `H` for a tile of half the type,
/// `S` for one value per partition.
fn bodies() -> Vec<String> {
    let mut all: Vec<String> = [
        "i = TensorTensor DVE Z <- X, Y {op = add}",
        "i = TensorTensor DVE Z <- X, Y {op = divide}",
        "i = TensorTensor DVE Z <- X, Y {op = max}",
        "i = TensorTensor DVE Z <- X, Y {op = pow}",
        "i = TensorTensor DVE Z <- X, X {op = mult}",
        "j = TensorCopy DVE Z <- Y; i = TensorTensor DVE Z <- Z, X {op = subtract}",
        "i = TensorScalar DVE Z <- X {op0 = mult, const0 = 1.7, op1 = add, const1 = 0.3}",
        "i = TensorScalarPtr DVE Z <- X, S {op0 = mult, op1 = bypass, reverse0 = false, reverse1 = false}",
        "i = TensorScalarPtr DVE Z <- X, S, Y {op0 = subtract, op1 = mult, reverse0 = true, reverse1 = false, is_scalar_tensor_tensor = true}",
        "i = TensorCopy DVE Z <- X",
        "j = TensorCopy DVE H <- X; i = TensorCopy DVE Z <- H",
        "j = TensorCopy DVE H <- X; i = TensorTensor DVE Z <- H, Y {op = add}",
        "i = TensorScalarAffineSelect Pool Z <- X {compare_op = is_ge, base = -900, channel_multiplier = 7, pattern = [[1,2048]], fill_value = 0.5}",
        "j = TensorTensor DVE M <- X, Y {op = is_gt}; k = TensorCopy DVE Z <- Y; i = CopyPredicated DVE Z <- X, M",
        "j = TensorTensor DVE M <- X, Y {op = is_lt}; i = CopyPredicated DVE Z <- M, X, Y",
        "j = TensorTensor DVE M <- X, Y {op = is_lt}; i = CopyPredicated DVE Z <- M, X, S",
        "j = TensorCopy DVE Z <- X; i = TensorReduce DVE @z[[2048,128] [1,1]] float32 <- X {op = add, axis = X}",
        "j = TensorCopy DVE Z <- X; i = TensorReduce DVE @z[[2048,128] [1,1]] float32 <- X {op = max, axis = X}",
        "j = TensorCopy DVE Z <- X; i = TensorReduce DVE @z[[2048,128] [1,1]] float32 <- X {op = average, axis = X}",
        "j = TensorCopy DVE Z <- X; i = TensorReduce DVE @z[[2048,128] [1,32]] float32 <- @x[[2048,128] [1,32] [32,64]] float32 {op = add, axis = X}",
        // Strided and transposed patterns.
        "j = TensorCopy DVE Z <- X; i = TensorTensor DVE @z[[2048,128] [2,1024]] float32 <- @x[[2048,128] [2,1024]] float32, @y[[2048,128] [1,1024]] float32 {op = add}",
        "i = TensorTensor DVE Z <- @x[[2048,128] [1,32] [32,64]] float32, Y {op = mult}",
        "i = TensorCopy DVE Z <- @x[[2048,128] [1,32] [32,64]] float32",
        // Overlapping in place: not piece by piece.
        "j = TensorCopy DVE Z <- X; i = TensorScalar DVE @z[off 1, [2048,128] [1,2047]] float32 <- @z[[2048,128] [1,2047]] float32 {op0 = mult, const0 = 1.5, op1 = bypass, const1 = 0.0}",
        "j = TensorCopy DVE Z <- X; i = TensorCopy DVE @z[off 1, [2048,128] [1,2047]] float32 <- @z[[2048,128] [1,2047]] float32",
        // Other partitions than the source's.
        "j = TensorCopy DVE Z <- X; i = TensorScalar DVE @z[off 131072, [2048,64] [1,2048]] float32 <- @x[[2048,64] [1,2048]] float32 {op0 = mult, const0 = 1.5, op1 = bypass, const1 = 0.0}",
        // Products; the second starts where the first's block ends.
        "j = Matmult PE @p[[512,128] [1,512]] float32 <- @x[[2048,128] [1,512]] float32, @y[[2048,128] [1,128]] float32 {accumulation_flag = 3}; k = TensorCopy DVE Z <- X; i = TensorCopy DVE @z[[2048,128] [1,512]] float32 <- @p[[512,128] [1,512]] float32",
        "h = TensorCopy DVE H <- X; j = Matmult PE @p[[512,96] [1,333]] float32 <- @h[[2048,128] [1,333]] bfloat16, @h[[2048,128] [1,96]] bfloat16 {accumulation_flag = 3}; k = TensorCopy DVE Z <- X; i = TensorCopy DVE @z[[2048,96] [1,333]] float32 <- @p[[512,96] [1,333]] float32",
    ]
    .map(String::from)
    .to_vec();
    for f in ActivationFunctionType::ALL {
        if *f == ActivationFunctionType::Unknown {
            continue;
        }
        all.push(format!(
            "i = Activation Activation Z <- X, 0.25 float32 {{func = {f}, scale = 1.5, alpha = 0.1, acc = Idle, op0 = mult, op1 = add, reduce_op = add}}"
        ));
    }
    for t in ["float16", "float8e4", "float8_e4m3fn", "float8e5", "int32", "int16", "int8", "uint8"] {
        let t = tandem_bir::Dtype::ALL.iter().find(|d| d.to_string() == t).expect("a type");
        let v = format!("@w[[{},128] [1,2048]] {t}", 8192 / t.bytes());
        all.push(format!("j = TensorCopy DVE {v} <- X; i = TensorCopy DVE Z <- {v}"));
    }
    all
}

fn program() -> (Program, usize) {
    let bodies = bodies();
    let n = bodies.len();
    let tile = |name: &str, t: &str| format!("@{name}[[{COLS},128] [1,{COLS}]] {t}");
    let mut block = format!(
        "lx = DMACopy SP {} <- @in[[{two},128] [1,{COLS}]] float32\nly = DMACopy SP {} <- @in[off {COLS}, [{two},128] [1,{COLS}]] float32\n",
        tile("x", "float32"),
        tile("y", "float32"),
        two = 2 * COLS,
    );
    for (k, body) in bodies.iter().enumerate() {
        for line in body.split("; ") {
            let (name, rest) = line.split_once(" = ").expect("a name");
            let mut rest = format!(" {rest} ");
            for (mark, text) in [
                ("X", tile("x", "float32")),
                ("Y", tile("y", "float32")),
                ("Z", tile("z", "float32")),
                ("H", tile("h", "bfloat16")),
                ("M", tile("m", "uint8")),
                ("S", "@y[[2048,128] [1,1]] float32".to_owned()),
            ] {
                for end in [" ", ","] {
                    rest = rest.replace(&format!(" {mark}{end}"), &format!(" {text}{end}"));
                }
            }
            // The name of an axis is no tile.
            let rest = rest.replace(&format!("axis = {}", tile("x", "float32")), "axis = X");
            block += &format!("{name}{k} ={rest}\n");
        }
        block += &format!(
            "o{k} = DMACopy SP @out[off {}, [{COLS},128] [1,{COLS}]] float32 <- {}\n",
            k * 128 * COLS,
            tile("z", "float32")
        );
    }
    let set = |name: &str, t: &str, size: usize, at: usize| {
        format!(
            "set @{name}_set = Internal NeuronSBTensor Local {t} [128 x {COLS}] {{ loc @{name} = SB [128, {}] addr {at} allocated }}\n",
            size * COLS
        )
    };
    let sets = set("x", "float32", 4, 0)
        + &set("y", "float32", 4, 8192)
        + &set("z", "float32", 4, 16384)
        + &set("h", "bfloat16", 2, 24576)
        + &set("m", "uint8", 1, 28672)
        + &set("w", "float32", 4, 32768)
        + "set @p_set = Internal NeuronPSUMTensor Local float32 [128 x 512] { loc @p = PSUM [128, 2048] addr 0 allocated }\n"
        + &format!(
            "set @in_set = ExternalInput Tensor Shared float32 [128 x {}] {{ loc @in = DRAM [128, {}] }}\n",
            2 * COLS,
            8 * COLS
        )
        + &format!(
            "set @out_set = ExternalOutput Tensor Shared float32 [{} x {COLS}] {{ loc @out = DRAM [{}, {}] }}\n",
            128 * n,
            128 * n,
            4 * COLS
        );
    let text = format!(
        "bir 1\nprogram \"w\" lnc 1 level bir\ninput \"in\" = @in float32 [128 x {}]\noutput \"out\" = @out float32 [{} x {COLS}]\n\
         module @nc00 core 0 arch gen3 {{\n func @f {{\n{sets} block main {{\n{block} }}\n }}\n}}\n",
        2 * COLS,
        128 * n
    );
    (text::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}")), n)
}

fn outputs(p: &Program, threads: usize, side_by_side: u64) -> Vec<u8> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        let options = RunOptions { side_by_side, ..RunOptions::default() };
        let mut r = Simulator::new(p, options).unwrap_or_else(|e| panic!("{e:?}"));
        let w = &r.wanted()[0];
        let input = random_tensor(3, &w.name, w.dtype, &w.shape, 1 << 30).expect("size");
        r.set_inputs(&[input]).unwrap_or_else(|e| panic!("{e:?}"));
        let o = r.run();
        assert_eq!(o.stop, StopReason::Finished, "{:?}", o.diagnostics);
        o.outputs.into_iter().flat_map(|t| t.bytes).collect()
    })
}

#[test]
fn bytes_do_not_depend_on_the_width_or_the_threads() {
    let (p, n) = program();
    assert!(simd::force(Some(Width::Baseline)), "every CPU has it");
    let want = outputs(&p, 1, u64::MAX);
    let each = want.len() / n;
    assert!((0..n).all(|k| want[k * each..(k + 1) * each].iter().any(|b| *b != 0)), "a result is empty");
    for width in Width::ALL {
        if !simd::force(Some(width)) {
            continue;
        }
        // 0: every large instruction is cut.
        for (threads, from) in [(1, 0), (2, 0), (5, 0), (2, RunOptions::default().side_by_side)] {
            let got = outputs(&p, threads, from);
            if let Some(k) = (0..n).find(|k| got[k * each..(k + 1) * each] != want[k * each..(k + 1) * each])
            {
                panic!("{width:?} on {threads} threads, from {from}: `{}` differs", bodies()[k]);
            }
        }
    }
    simd::force(None);
}
