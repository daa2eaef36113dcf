//! Tensors, addresses, access forms and the small operands of operators.
//!
//! Fields and numbers: the specification, file 02 §5.2 and §5.3; meaning: §6.

use super::enums::{Dtype, Memory};
use super::prim::{ApList, F32, Str};
use std::sync::Arc;

klr_struct! {
    /// Extents of a tensor: the partition dimension and the free dimensions.
    Shape("Shape") = 112 {
        par_dim("parDim"): u64,
        free_dims("freeDims"): Vec<u64>,
    }
}

klr_struct! {
    /// The storage a tensor is a view of: `par_size` partitions (rows in HBM) of `free_size` bytes.
    Address("Address") = 113 {
        name("name"): Str,
        memory("memory"): Memory,
        par_size("parSize"): u64,
        free_size("freeSize"): u64,
        par_offset("parOffset"): Option<u64>,
        free_offset("freeOffset"): Option<u64>,
        is_shared("isShared"): bool,
    }
}

klr_struct! {
    /// A tensor: name, element type, shape and storage.
    TensorName("TensorName") = 114 check TensorName::check_bounds {
        name("name"): Str,
        dtype("dtype"): Dtype,
        shape("shape"): Shape,
        address("address"): Address,
        free_elements("freeElements"): u64,
        ["parWF", "freeWF"] address_rotation("addressRotation"): bool,
    }
}

klr_struct! {
    /// The indices `l, l + step, ...` below `u` (above `u` for a negative step) of one dimension.
    Slice("Slice") = 115 check Slice::check_step {
        l("l"): u64,
        u("u"): u64,
        step("step"): i64,
        ; ["wf"]
    }
}

klr_sum! {
    /// Index of one dimension in a basic access.
    Index("Index") = 117 {
        0 Coord("coord"): u64,
        1 Slice("slice"): Slice,
    }
}

klr_struct! {
    /// One index per dimension of a tensor.
    AccessBasic("AccessBasic") = 118 check AccessBasic::check_indexes {
        tensor("tensor"): Arc<TensorName>,
        indexes("indexes"): Vec<Index>,
        ; ["lenWF"]
    }
}

klr_struct! {
    /// `num` steps of `step` elements; `offset` is the start index of the dimension, already part of a linear offset.
    ApPair("APPair") = 119 {
        step("step"): i64,
        num("num"): u64,
        offset("offset"): u64,
    }
}

klr_struct! {
    /// A pattern with one pair per tensor dimension, partition first.
    AccessPattern("AccessPattern") = 120 {
        tensor("tensor"): Arc<TensorName>,
        par_num("parNum"): u64,
        pattern("pattern"): ApList,
        par_offset("parOffset"): u64,
        free_offset("freeOffset"): u64,
        fixed_axis("fixedAxis"): Vec<u64>,
    }
}

klr_sum! {
    /// A value known at run time that moves an access along one dimension.
    ScalarOffset("ScalarOffset") = 123 {
        0 Reg("reg"): Str,
        1 Acc("acc"): Access,
    }
}

klr_struct! {
    /// A linear access: element `offset + sum(step_j * i_j)` in row-major order over all dimensions.
    BirAccessPattern("BirAccessPattern") = 124 {
        tensor("tensor"): Arc<TensorName>,
        offset("offset"): u64,
        pattern("pattern"): ApList,
        scalar_offset("scalarOffset"): Option<ScalarOffset>,
        vector_offset("vectorOffset"): Option<Access>,
        indirect_dim("indirectDim"): i64,
        dtype_override("dtypeOverride"): Option<Dtype>,
    }
}

klr_sum! {
    /// Which elements of which tensor an operand covers.
    Access("Access") = 125 {
        0 Simple("simple"): Arc<TensorName>,
        1 Basic("basic"): Box<AccessBasic>,
        2 Pattern("pattern"): Box<AccessPattern>,
        3 BirPattern("birPattern"): Box<BirAccessPattern>,
    }
}

klr_struct! {
    /// An allocated view of HBM memory; never in traced files.
    TensorHbm("TensorHbm") = 126 {
        name("name"): Str,
        dtype("dtype"): Dtype,
        address("address"): u64,
        dims("dims"): ApList,
    }
}

klr_struct! {
    /// An allocated view of SBUF or PSUM memory; never in traced files.
    TensorSram("TensorSram") = 127 {
        name("name"): Str,
        dtype("dtype"): Dtype,
        par_num("parNum"): u64,
        pattern("pattern"): ApList,
        par_offset("parOffset"): u64,
        free_offset("freeOffset"): u64,
    }
}

klr_sum! {
    /// A tensor operand; always `Abstract` in traced files.
    TensorRef("TensorRef") = 128 {
        0 Abstract("abstract"): Access,
        1 Sbuf("sbuf"): Box<TensorSram>,
        2 Psum("psum"): Box<TensorSram>,
        3 Hbm("hbm"): Box<TensorHbm>,
        4 Register("register"): u64,
    }
}

klr_sum! {
    /// A scalar operand.
    Immediate("Immediate") = 131 {
        0 Register("register"): u64,
        1 Pointer("pointer"),
        2 Int("int"): i32,
        3 Float("float"): F32,
    }
}

klr_sum! {
    /// A scalar operand of the activation engine.
    ActivationImm("ActivationImm") = 132 {
        0 Register("register"): u64,
        1 Pointer("pointer"),
        2 Float("float"): F32,
    }
}

klr_sum! {
    /// A scalar or a tile.
    Operand("Operand") = 133 {
        0 Imm("imm"): Immediate,
        1 Tile("tile"): TensorRef,
    }
}

klr_sum! {
    /// What a DMA does with indices out of bounds.
    DmaBounds("DmaBounds") = 141 {
        0 Skip("skip"),
        1 Error("error"),
        2 Reg("reg"): u64,
    }
}

klr_sum! {
    /// What a gather writes for an index out of bounds.
    IndexMissBehavior("IndexMissBehavior") = 143 {
        0 Imm("imm"): Immediate,
        1 Skip("skip"),
    }
}

klr_sum! {
    /// Which ranks take part in a collective.
    ReplicaGroup("ReplicaGroup") = 198 {
        0 Unspecified("unspecified"),
        1 Named("named"): Str,
        2 Literal("literal"): Vec<Vec<i64>>,
    }
}

klr_struct! {
    /// An affine function of the position: `offset + sum(step_j * i_j) + channel_multiplier * partition`.
    DataPattern("DataPattern") = 134 {
        offset("offset"): i64,
        pattern("pattern"): ApList,
        channel_multiplier("channelMultiplier"): i64,
    }
}
