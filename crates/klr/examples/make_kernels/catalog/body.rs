//! A writer for the body of one core, and short forms of the operators that the kernels use.

use std::sync::Arc;
use tandem_klr::ast::*;
use tandem_klr::build;

pub(super) type Tensor = Arc<TensorName>;

/// A float32 tensor in device memory.
pub(super) fn hbm(name: &str, dims: &[u64]) -> Tensor {
    build::tensor(name, Dtype::Float32, Memory::Hbm, dims)
}

/// A float32 tile in SBUF.
pub(super) fn sbuf(name: &str, dims: &[u64]) -> Tensor {
    build::tensor(name, Dtype::Float32, Memory::Sbuf, dims)
}

/// A float32 tile in PSUM.
pub(super) fn psum(name: &str, dims: &[u64]) -> Tensor {
    build::tensor(name, Dtype::Float32, Memory::Psum, dims)
}

pub(super) fn all(t: &Tensor) -> TensorRef {
    build::whole(t)
}

/// A tile's columns: the elements of one row of a tensor of two dimensions.
fn width(t: &Tensor) -> i64 {
    i64::try_from(t.shape.free_dims.iter().product::<u64>()).expect("small tensors")
}

/// Rows and columns of a tensor of two dimensions, as `(first, count)`.
pub(super) fn rect(t: &Tensor, rows: (u64, u64), cols: (u64, u64)) -> TensorRef {
    let w = width(t);
    build::pattern(t, rows.0 * w as u64 + cols.0, &[(w, rows.1), (1, cols.1)])
}

/// Some columns of all rows.
pub(super) fn cols(t: &Tensor, first: u64, count: u64) -> TensorRef {
    rect(t, (0, t.shape.par_dim), (first, count))
}

/// Some rows, whole.
pub(super) fn rows(t: &Tensor, first: u64, count: u64) -> TensorRef {
    rect(t, (first, count), (0, width(t) as u64))
}

/// One row of a tensor, the same for 128 partitions.
pub(super) fn row_for_all(t: &Tensor, first: u64, count: u64) -> TensorRef {
    build::pattern(t, first, &[(0, 128), (1, count)])
}

/// Of a tensor of three dimensions the plane that a register names: all rows, some columns.
pub(super) fn plane(t: &Tensor, register: &str, first: u64, count: u64) -> TensorRef {
    let (rows, w) = (t.shape.free_dims[0], t.shape.free_dims[1]);
    let p = build::bir(t, first, &[(i64::try_from(w).expect("small"), rows), (1, count)]);
    build::with_register(p, register, 0)
}

/// Of a tensor of three dimensions one plane, whole.
pub(super) fn fixed_plane(t: &Tensor, index: u64) -> TensorRef {
    let (rows, w) = (t.shape.free_dims[0], t.shape.free_dims[1]);
    build::pattern(t, index * rows * w, &[(i64::try_from(w).expect("small"), rows), (1, w)])
}

/// The body of one core. Statements are named by their number, so the two cores have the same names and lines.
pub(super) struct Body {
    pub(super) core: u64,
    blocks: Vec<Block>,
    label: &'static str,
    stmts: Vec<Stmt>,
    count: u64,
}

impl Body {
    fn new(core: u64) -> Body {
        Body { core, blocks: Vec::new(), label: "main.1", stmts: Vec::new(), count: 0 }
    }

    pub(super) fn other(&self) -> u64 {
        1 - self.core
    }

    pub(super) fn op(&mut self, op: Operator) {
        self.count += 1;
        self.stmts.push(build::stmt(&format!("inst.{}", self.count), 9 + self.count, op));
    }

    /// A source line that does nothing on this core.
    pub(super) fn skip(&mut self) {
        self.count += 1;
    }

    /// Ends the block, which must end in a branch, and begins another one.
    fn block(&mut self, label: &'static str) {
        let body = std::mem::take(&mut self.stmts);
        self.blocks.push(build::block(self.label, body));
        self.label = label;
    }

    fn finish(mut self) -> Vec<Block> {
        self.block("");
        self.blocks
    }

    /// `for i in range(trips)`, with a register `i` and a register that holds the bound.
    pub(super) fn for_loop(&mut self, trips: i32, body: impl FnOnce(&mut Body)) {
        let test = || {
            Operator::CmpBranch(CmpBranch {
                reg1: Str::new("i"),
                reg2: Str::new("n"),
                imm: 0,
                op: BrCmpOp::LtReg,
                true_label: Str::new("body.2"),
                false_label: Str::new("exit.3"),
            })
        };
        self.op(Operator::RegisterMove(RegisterMove { dst: Str::new("i"), imm: 0 }));
        self.op(Operator::RegisterMove(RegisterMove { dst: Str::new("n"), imm: trips }));
        self.op(test());
        self.block("body.2");
        body(self);
        self.op(register("i", "i", AluOp::Add, 1));
        self.op(test());
        self.block("exit.3");
    }

    pub(super) fn copy(&mut self, dst: TensorRef, src: TensorRef) {
        self.op(build::dma_copy(dst, src));
    }

    /// Sends a tile to the other core and receives one from it.
    pub(super) fn swap(&mut self, dst: TensorRef, src: TensorRef) {
        let peer = self.other() as i32;
        self.op(build::send_recv(dst, src, peer, 0));
    }

    pub(super) fn barrier(&mut self, around: &Tensor) {
        self.op(build::core_barrier(all(around), &[0, 1]));
    }

    pub(super) fn both(&mut self, dst: TensorRef, a: TensorRef, op: AluOp, b: TensorRef) {
        self.op(build::tensor_tensor(dst, a, b, op, Engine::Unassigned));
    }

    /// `dst = src op imm`
    pub(super) fn scalar(&mut self, dst: TensorRef, src: TensorRef, op: AluOp, imm: Operand) {
        self.two_scalars(dst, src, (op, imm), None);
    }

    /// `dst = (src op0 imm0) op1 imm1`
    pub(super) fn two_scalars(
        &mut self,
        dst: TensorRef,
        src: TensorRef,
        first: (AluOp, Operand),
        second: Option<(AluOp, Operand)>,
    ) {
        let (op1, imm1) = second.unzip();
        self.op(Operator::TensorScalar(TensorScalar {
            dst,
            src,
            imm0: first.1,
            op0: first.0,
            imm1,
            op1,
            reverse: TensorScalarReverseOps::None,
            engine: Engine::Unassigned,
            dtype: None,
        }));
    }

    /// Folds each row to one value.
    pub(super) fn reduce(&mut self, dst: TensorRef, op: AluOp, src: TensorRef) {
        self.op(Operator::TensorReduce(TensorReduce {
            dst,
            src,
            op,
            op_dim: TensorSubDim::X,
            negated: false,
            dtype: None,
            keepdims: false,
        }));
    }

    /// `dst = func(src * scale + bias)`
    pub(super) fn activate(
        &mut self,
        dst: TensorRef,
        func: ActivationFunc,
        src: TensorRef,
        scale: f32,
        bias: Option<TensorRef>,
    ) {
        self.op(Operator::NcActivate(activation(dst, func, src, scale, bias)));
    }

    /// `dst = func(src + bias)` and `sum` = the sum of each row of it.
    pub(super) fn activate_sum(
        &mut self,
        dst: TensorRef,
        sum: TensorRef,
        func: ActivationFunc,
        src: TensorRef,
        bias: Option<TensorRef>,
    ) {
        let mut op = activation(dst, func, src, 1.0, bias);
        op.accumulator_cmd = AccumCmd::ZeroAccumulate;
        op.reduce_op = Some(AluOp::Add);
        op.reduce_res = Some(sum);
        self.op(Operator::ActivationReduce(op));
    }

    pub(super) fn fill(&mut self, dst: TensorRef, value: f32) {
        self.op(Operator::MemSet(MemSet {
            dst,
            value: build::float(value),
            dtype: Dtype::Float32,
            engine: Engine::Unassigned,
        }));
    }

    /// `dst = stationary.T @ moving`, added to what `dst` holds since it was last read.
    pub(super) fn matmul(&mut self, dst: TensorRef, stationary: TensorRef, moving: TensorRef) {
        self.op(Operator::NcMatMul(NcMatMul {
            dst,
            stationary,
            moving,
            is_stationary_one_zero: false,
            is_moving_zero: false,
            is_transpose: false,
            tile_position: Vec::new(),
            tile_size: Vec::new(),
            perf_mode: MatmulPerfMode::None,
        }));
    }

    /// A copy by a compute engine, out of PSUM.
    pub(super) fn move_tile(&mut self, dst: TensorRef, src: TensorRef) {
        self.op(Operator::NcCopy(NcCopy { dst, src, dtype: None, engine: Engine::Unassigned }));
    }
}

/// `dst = src op imm` on registers.
pub(super) fn register(dst: &str, src: &str, op: AluOp, imm: i32) -> Operator {
    Operator::RegisterAluOp(RegisterAluOp { dst: Str::new(dst), src: Str::new(src), imm, op })
}

pub(super) fn number(value: f32) -> Operand {
    Operand::Imm(build::float(value))
}

pub(super) fn tile(t: TensorRef) -> Operand {
    Operand::Tile(t)
}

fn activation(
    dst: TensorRef,
    func: ActivationFunc,
    src: TensorRef,
    scale: f32,
    bias: Option<TensorRef>,
) -> NcActivate {
    NcActivate {
        dst,
        src,
        accumulator_cmd: AccumCmd::Idle,
        activation_func: func,
        scale: number(scale),
        bias,
        reduce_op: None,
        reduce_res: None,
        dtype: None,
    }
}

/// A kernel of two cores; `body` writes the body of each.
pub(super) fn kernel(
    name: &str,
    inputs: &[&Tensor],
    outputs: &[&Tensor],
    shared: &[&Tensor],
    body: impl Fn(&mut Body),
) -> LncKernel {
    let bodies = [0, 1].map(|core| {
        let mut b = Body::new(core);
        body(&mut b);
        b.finish()
    });
    let mut k = build::lnc(&format!("kernels.{name}"), inputs, outputs, bodies.into());
    k.shared_buffers = shared.iter().map(|t| Arc::clone(t)).collect();
    k
}
