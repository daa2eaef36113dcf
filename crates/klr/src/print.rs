//! KLR for people: one operator per line, fields in the declared order under their KLR names.
//!
//! ```text
//! body 0
//! main.1:
//!   inst.2 = sendRecv dst=tensor1[f32 sbuf] + 0 [[64,128],[1,64]] src=... useGpsimdDma=false ; kernel.py:5:2
//! ```
//!
//! An access shows the tensor with its element type and memory, then what it covers: nothing for the whole tensor,
//! `[:, 1, 0:32:2]` for one index per dimension, `@ [[start,num,step],...]` for an unlowered pattern, and
//! `+ offset [[step,num],...]` for a linear access. There is no parser for this text.

use crate::ast::*;
use crate::container::{Contents, KlrFile};
use std::fmt::Write as _;

/// Collects the text.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    out: String,
}

impl Printer {
    pub(crate) fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// ` name=`, in front of a field's value.
    pub(crate) fn field(&mut self, name: &str) {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push('=');
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // writing to a String cannot fail
        let _ = write!(self.out, "{value}");
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Printer, &T)) {
        self.text("[");
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.text(",");
            }
            each(self, item);
        }
        self.text("]");
    }
}

/// A value that can be shown inside a line.
pub(crate) trait Show {
    fn show(&self, p: &mut Printer);
}

macro_rules! show_as_displayed {
    ($($T:ty),*) => { $(impl Show for $T { fn show(&self, p: &mut Printer) { p.display(self); } })* };
}
show_as_displayed!(u64, i64, i32, bool, F32);

impl Show for Str {
    fn show(&self, p: &mut Printer) {
        p.display(format_args!("\"{}\"", self.escape_debug()));
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, p: &mut Printer) {
        match self {
            None => p.text("none"),
            Some(value) => value.show(p),
        }
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self, p: &mut Printer) {
        p.list(self, |p, item| item.show(p));
    }
}

/// Element type in a few letters: `f32`, `bf16`, `i8`; other types keep their KLR name.
pub fn short_dtype(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bfloat16 => "bf16",
        Dtype::Float16 => "f16",
        Dtype::Float32 => "f32",
        Dtype::Float32r => "f32r",
        Dtype::Int8 => "i8",
        Dtype::Int16 => "i16",
        Dtype::Int32 => "i32",
        Dtype::Int64 => "i64",
        Dtype::Uint8 => "u8",
        Dtype::Uint16 => "u16",
        Dtype::Uint32 => "u32",
        Dtype::Uint64 => "u64",
        Dtype::Float8e3
        | Dtype::Float8e4
        | Dtype::Float8e5
        | Dtype::Float8E4m3
        | Dtype::Float8E4m3fn
        | Dtype::Float8E5m2X4
        | Dtype::Float8E4m3fnX4
        | Dtype::Float4E2m1fnX4 => dtype.name(),
    }
}

fn tensor_head(p: &mut Printer, tensor: &TensorName) {
    p.display(format_args!(
        "{}[{} {}]",
        tensor.name.escape_debug(),
        short_dtype(tensor.dtype),
        tensor.address.memory.name()
    ));
}

fn pairs(p: &mut Printer, list: &[ApPair]) {
    p.list(list, |p, pair| p.display(format_args!("[{},{}]", pair.step, pair.num)));
}

impl Show for Access {
    fn show(&self, p: &mut Printer) {
        match self {
            Access::Simple(tensor) => tensor_head(p, tensor),
            Access::Basic(access) => {
                tensor_head(p, &access.tensor);
                p.list(&access.indexes, |p, index| match index {
                    Index::Coord(at) => at.show(p),
                    Index::Slice(s) if s.step == 1 => p.display(format_args!("{}:{}", s.l, s.u)),
                    Index::Slice(s) => p.display(format_args!("{}:{}:{}", s.l, s.u, s.step)),
                });
            }
            Access::Pattern(access) => {
                tensor_head(p, &access.tensor);
                p.text(" @ ");
                p.list(&access.pattern, |p, pair| {
                    p.display(format_args!("[{},{},{}]", pair.offset, pair.num, pair.step));
                });
                if access.par_offset != 0 || access.free_offset != 0 {
                    p.display(format_args!(" at ({},{})", access.par_offset, access.free_offset));
                }
                if !access.fixed_axis.is_empty() {
                    p.text(" fixed ");
                    access.fixed_axis.show(p);
                }
            }
            Access::BirPattern(access) => access.show(p),
        }
    }
}

impl Show for BirAccessPattern {
    fn show(&self, p: &mut Printer) {
        let BirAccessPattern {
            tensor,
            offset,
            pattern,
            scalar_offset,
            vector_offset,
            indirect_dim,
            dtype_override,
        } = self;
        tensor_head(p, tensor);
        if let Some(dtype) = dtype_override {
            p.display(format_args!(" as {}", short_dtype(*dtype)));
        }
        p.display(format_args!(" + {offset} "));
        pairs(p, pattern);
        match scalar_offset {
            None => {}
            Some(ScalarOffset::Reg(name)) => {
                p.display(format_args!(" + {}*dim{indirect_dim}", name.escape_debug()))
            }
            Some(ScalarOffset::Acc(access)) => {
                p.text(" + (");
                access.show(p);
                p.display(format_args!(")*dim{indirect_dim}"));
            }
        }
        if let Some(access) = vector_offset {
            p.text(" + indices(");
            access.show(p);
            p.display(format_args!(")*dim{indirect_dim}"));
        }
    }
}

impl Show for TensorSram {
    fn show(&self, p: &mut Printer) {
        p.display(format_args!(
            "{}[{}] at ({},{}) partitions {} ",
            self.name.escape_debug(),
            short_dtype(self.dtype),
            self.par_offset,
            self.free_offset,
            self.par_num
        ));
        pairs(p, &self.pattern);
    }
}

impl Show for TensorRef {
    fn show(&self, p: &mut Printer) {
        match self {
            TensorRef::Abstract(access) => access.show(p),
            TensorRef::Sbuf(view) => {
                p.text("sbuf ");
                view.show(p);
            }
            TensorRef::Psum(view) => {
                p.text("psum ");
                view.show(p);
            }
            TensorRef::Hbm(view) => {
                let (name, dtype) = (view.name.escape_debug(), short_dtype(view.dtype));
                p.display(format_args!("hbm {name}[{dtype}] at {} ", view.address));
                pairs(p, &view.dims);
            }
            TensorRef::Register(reg) => p.display(format_args!("register {reg}")),
        }
    }
}

impl Show for Immediate {
    fn show(&self, p: &mut Printer) {
        match self {
            Immediate::Register(reg) => p.display(format_args!("register {reg}")),
            Immediate::Pointer => p.text("pointer"),
            Immediate::Int(value) => value.show(p),
            Immediate::Float(value) => value.show(p),
        }
    }
}

impl Show for Operand {
    fn show(&self, p: &mut Printer) {
        match self {
            Operand::Imm(value) => value.show(p),
            Operand::Tile(tile) => tile.show(p),
        }
    }
}

impl Show for DmaBounds {
    fn show(&self, p: &mut Printer) {
        p.text(self.name());
        if let DmaBounds::Reg(reg) = self {
            p.display(format_args!(" {reg}"));
        }
    }
}

impl Show for IndexMissBehavior {
    fn show(&self, p: &mut Printer) {
        match self {
            IndexMissBehavior::Imm(value) => value.show(p),
            IndexMissBehavior::Skip => p.text("skip"),
        }
    }
}

impl Show for ReplicaGroup {
    fn show(&self, p: &mut Printer) {
        match self {
            ReplicaGroup::Unspecified => p.text("unspecified"),
            ReplicaGroup::Named(name) => name.show(p),
            ReplicaGroup::Literal(groups) => groups.show(p),
        }
    }
}

impl Show for DataPattern {
    fn show(&self, p: &mut Printer) {
        p.display(format_args!("{} ", self.offset));
        pairs(p, &self.pattern);
        p.display(format_args!(" + {}*partition", self.channel_multiplier));
    }
}

impl std::fmt::Display for Pos {
    /// `kernel.py:5:2`, without the file name where none is known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = &self.filename {
            write!(f, "{}:", name.escape_debug())?;
        }
        write!(f, "{}:{}", self.line, self.column)
    }
}

macro_rules! display_as_shown {
    ($($T:ty),*) => { $(
        /// The form used inside a line of the printed kernel.
        impl std::fmt::Display for $T {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut p = Printer::default();
                self.show(&mut p);
                f.write_str(&p.out)
            }
        }
    )* };
}
display_as_shown!(
    Access,
    BirAccessPattern,
    TensorRef,
    Immediate,
    Operand,
    DmaBounds,
    ReplicaGroup,
    DataPattern
);

impl std::fmt::Display for Operator {
    /// The KLR name and the fields, ` name=value` each.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut p = Printer::default();
        p.text(self.name());
        self.show_fields(&mut p);
        f.write_str(&p.out)
    }
}

impl std::fmt::Display for Stmt {
    /// `name = operator fields ; position`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{} = ", name.escape_debug())?;
        }
        write!(f, "{} ; {}", self.op, self.pos)
    }
}

impl std::fmt::Display for TensorName {
    /// `name: f32[128, 64] sbuf`, with what differs from the default storage.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TensorName { name, dtype, shape, address, free_elements: _, address_rotation } = self;
        write!(f, "{}: {}{:?} {}", name.escape_debug(), short_dtype(*dtype), shape.dims(), address.memory)?;
        let bytes = shape.free_elements().and_then(|n| n.checked_mul(dtype.size_bytes()));
        if address.name != *name || address.par_size != shape.par_dim || Some(address.free_size) != bytes {
            write!(f, " in {} {}x{}B", address.name.escape_debug(), address.par_size, address.free_size)?;
        }
        if address.par_offset.is_some() || address.free_offset.is_some() {
            let show = |o: Option<u64>| o.map_or("?".to_string(), |n| n.to_string());
            write!(f, " at ({},{})", show(address.par_offset), show(address.free_offset))?;
        }
        if address.is_shared {
            f.write_str(" shared")?;
        }
        if *address_rotation {
            f.write_str(" rotating")?;
        }
        Ok(())
    }
}

/// The whole file as text.
pub fn print_file(file: &KlrFile) -> String {
    match &file.contents {
        Contents::Kernel(kernel) => {
            let mut out = format!("kernel {}\n", kernel.name.escape_debug());
            tensors(&mut out, "input", &kernel.inputs);
            tensors(&mut out, "output", &kernel.outputs);
            body(&mut out, 0, &kernel.body);
            out
        }
        Contents::Lnc(kernel) => print_lnc(kernel),
    }
}

/// An LNC kernel as text.
pub fn print_lnc(kernel: &LncKernel) -> String {
    let LncKernel { name, inputs, outputs, bodies, shared_constants, shared_buffers, edges } = kernel;
    let mut out = format!("lnc {}\n", name.escape_debug());
    tensors(&mut out, "input", inputs);
    tensors(&mut out, "output", outputs);
    tensors(&mut out, "buffer", shared_buffers);
    for constant in shared_constants {
        let SharedConstantFile { name, file_name } = constant;
        let _ = writeln!(out, "constant {} = \"{}\"", name.escape_debug(), file_name.escape_debug());
    }
    for Edges { from_edge, to_edges } in edges {
        let _ = write!(out, "edge {} ->", from_edge.escape_debug());
        to_edges.iter().for_each(|to| {
            let _ = write!(out, " {}", to.escape_debug());
        });
        out.push('\n');
    }
    for (core, blocks) in bodies.iter().enumerate() {
        body(&mut out, core, blocks);
    }
    out
}

fn tensors(out: &mut String, what: &str, list: &[std::sync::Arc<TensorName>]) {
    for tensor in list {
        let _ = writeln!(out, "{what} {tensor}");
    }
}

fn body(out: &mut String, core: usize, blocks: &[Block]) {
    let _ = writeln!(out, "body {core}");
    for Block { label, no_reorder, body } in blocks {
        let _ = writeln!(out, "{}:{}", label.escape_debug(), if *no_reorder { " no-reorder" } else { "" });
        for stmt in body {
            let _ = writeln!(out, "  {stmt}");
        }
    }
}
