//! Element types as kernels name them.

use tandem_klr::ast::Dtype;

/// An element type: the name kernels use and the KLR type it is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elem {
    /// The name a kernel sees, as `t.dtype`.
    pub(crate) name: &'static str,
    /// The KLR type.
    pub(crate) klr: Dtype,
}

/// Names kernels use, and the KLR types (the specification, file 02 §5.1 below the table). `float8_e8m0fnu` has no
/// KLR type and travels as bytes.
const TABLE: &[Elem] = &[
    Elem { name: "bfloat16", klr: Dtype::Bfloat16 },
    Elem { name: "bool", klr: Dtype::Uint8 },
    Elem { name: "float16", klr: Dtype::Float16 },
    Elem { name: "float32", klr: Dtype::Float32 },
    Elem { name: "float4_e2m1fn_x4", klr: Dtype::Float4E2m1fnX4 },
    Elem { name: "float8_e3m4", klr: Dtype::Float8e3 },
    Elem { name: "float8_e4m3", klr: Dtype::Float8e4 },
    Elem { name: "float8_e4m3fn", klr: Dtype::Float8E4m3fn },
    Elem { name: "float8_e4m3fn_x4", klr: Dtype::Float8E4m3fnX4 },
    Elem { name: "float8_e5m2", klr: Dtype::Float8e5 },
    Elem { name: "float8_e5m2_x4", klr: Dtype::Float8E5m2X4 },
    Elem { name: "float8_e8m0fnu", klr: Dtype::Uint8 },
    Elem { name: "int16", klr: Dtype::Int16 },
    Elem { name: "int32", klr: Dtype::Int32 },
    Elem { name: "int64", klr: Dtype::Int64 },
    Elem { name: "int8", klr: Dtype::Int8 },
    Elem { name: "tfloat32", klr: Dtype::Float32r },
    Elem { name: "uint16", klr: Dtype::Uint16 },
    Elem { name: "uint32", klr: Dtype::Uint32 },
    Elem { name: "uint64", klr: Dtype::Uint64 },
    Elem { name: "uint8", klr: Dtype::Uint8 },
];

impl Elem {
    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<Elem> {
        TABLE.iter().find(|e| e.name == name).copied()
    }

    /// Bytes of one element.
    pub(crate) fn size(self) -> u64 {
        self.klr.size_bytes()
    }
}
