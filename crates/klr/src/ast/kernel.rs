//! Kernels, blocks, statements and source positions.
//!
//! Fields and numbers: the specification, file 02 §5.3; meaning: §7.

use super::operators::Operator;
use super::prim::Str;
use super::tensor::TensorName;
use std::sync::Arc;

klr_struct! {
    /// Position in the source of the kernel; lines and columns as the tracer wrote them.
    Pos("Pos") = 100 {
        line("line"): u64,
        column("column"): u64,
        line_end("lineEnd"): Option<u64>,
        column_end("columnEnd"): Option<u64>,
        filename("filename"): Option<Arc<str>>,
    }
}

klr_struct! {
    /// One statement: an operator, its name and where it stands in the kernel's source.
    ///
    /// On disk a sum of one constructor (`oper`), which has the same bytes as a structure.
    Stmt("Stmt") = 103 {
        op("op"): Operator,
        name("name"): Option<Str>,
        pos("pos"): Pos,
    }
}

klr_struct! {
    /// A basic block: label, ordering flag and statements.
    Block("Block") = 104 {
        label("label"): Str,
        no_reorder("noReorder"): bool,
        body("body"): Vec<Stmt>,
    }
}

klr_struct! {
    /// A kernel for one core (contents `kernel`).
    Kernel("Kernel") = 105 {
        name("name"): Str,
        inputs("inputs"): Vec<Arc<TensorName>>,
        outputs("outputs"): Vec<Arc<TensorName>>,
        body("body"): Vec<Block>,
    }
}

klr_struct! {
    /// The file that holds the value of a shared constant, relative to the kernel's folder.
    SharedConstantFile("SharedConstantFile") = 106 {
        name("name"): Str,
        file_name("fileName"): Str,
    }
}

klr_struct! {
    /// Scheduling edges: the statement `from_edge` runs before each of `to_edges`.
    Edges("Edges") = 107 {
        from_edge("fromEdge"): Str,
        to_edges("toEdges"): Vec<Str>,
    }
}

klr_struct! {
    /// A kernel for the cores of one LNC: one list of blocks per core (contents `lnc`).
    LncKernel("LncKernel") = 108 {
        name("name"): Str,
        inputs("inputs"): Vec<Arc<TensorName>>,
        outputs("outputs"): Vec<Arc<TensorName>>,
        bodies("bodies"): Vec<Vec<Block>>,
        shared_constants("sharedConstants"): Vec<SharedConstantFile>,
        shared_buffers("sharedBuffers"): Vec<Arc<TensorName>>,
        edges("edges"): Vec<Edges>,
    }
}
