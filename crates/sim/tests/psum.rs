//! Automatic accumulation through the machine: whole programs, where buffers are sized by need.

use tandem_bir::diag::Severity;
use tandem_bir::{Dtype, text};
use tandem_sim::{RunOptions, Simulator, StopReason, Tensor};

const T: &str = "[[2,2] [1,2]] float32";

fn program(allocated: &str) -> String {
    format!(
        "bir 1
program \"t\" lnc 1 level bir
input \"x\" = @x float32 [2 x 2]
output \"y\" = @y float32 [4 x 2]
module @nc00 core 0 arch gen3 {{
  func @main {{
    set @x_set = ExternalInput Tensor Local float32 [2 x 2] {{ loc @x = DRAM [16] addr 0 }}
    set @y_set = ExternalOutput Tensor Local float32 [4 x 2] {{ loc @y = DRAM [32] addr 0 }}
    set @m_set = Internal NeuronSBTensor Local float32 [2 x 2] {{ loc @m = SB [2, 8] addr 0 {allocated} }}
    set @r_set = Internal NeuronSBTensor Local float32 [2 x 2] {{ loc @r = SB [2, 8] addr 64 {allocated} }}
    set @p_set = Internal NeuronPSUMTensor Local float32 [2 x 2] {{ loc @p = PSUM [2, 8] addr 0 {allocated} }}
    block b0 {{
      a = DMACopy DMA @m{T} <- @x{T}
      b = Matmult PE @p{T} <- @m{T}, @m{T}
      c = Matmult PE @p{T} <- @m{T}, @m{T}
      d = TensorCopy DVE @r{T} <- @p{T}
      e = DMACopy DMA @y{T} <- @r{T}
      f = Matmult PE @p{T} <- @m{T}, @m{T}
      g = TensorCopy DVE @r{T} <- @p{T}
      h = DMACopy DMA @y[off 4, [2,2] [1,2]] float32 <- @r{T}
    }}
  }}
}}
"
    )
}

#[test]
fn groups_end_where_psum_is_read() {
    for allocated in ["allocated", ""] {
        let p = text::parse(&program(allocated)).unwrap_or_else(|e| panic!("{e:?}"));
        let mut s = Simulator::new(&p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let x: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        s.set_inputs(&[Tensor { name: "x".into(), dtype: Dtype::Float32, shape: vec![2, 2], bytes: x }])
            .unwrap();
        let o = s.run();
        assert_eq!(o.stop, StopReason::Finished, "{:?}", o.diagnostics);
        let y: Vec<f32> =
            o.outputs[0].bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        // mᵀ·m, twice before the first read, once after it.
        assert_eq!(y, [20.0, 28.0, 28.0, 40.0, 10.0, 14.0, 14.0, 20.0]);
        let seen: Vec<_> = o.diagnostics.iter().map(|d| (d.code.info().id, d.severity)).collect();
        assert_eq!(seen, [("S0209", Severity::Note)]);
    }
}
