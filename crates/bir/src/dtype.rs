//! Element types: ordinal, name, container width, numeric class.
//!
//! Source: the specification, file 03 §8.1 and file 09 §3.1 (documented).

crate::bir_enum! {
    /// Element type of an operand or a location. Packed `x4` types hold four elements per container.
    pub enum Dtype {
        Uint8 = 0 => "uint8", Int8 = 1 => "int8", Float4E2m1FnX4 = 2 => "float4_e2m1fn_x4", Float8E3 = 3 => "float8e3",
        Float8E4 = 4 => "float8e4", Float8E4m3Fn = 5 => "float8_e4m3fn", Float8E8m0Fnu = 6 => "float8_e8m0fnu",
        Float8E5 = 7 => "float8e5", Float8E4m3FnX4 = 8 => "float8_e4m3fn_x4", Float8E5m2X4 = 9 => "float8_e5m2_x4",
        Uint16 = 10 => "uint16", Int16 = 11 => "int16", Bfloat16 = 12 => "bfloat16", Float16 = 13 => "float16",
        Uint32 = 14 => "uint32", Int32 = 15 => "int32", Float32 = 16 => "float32", Float32r = 17 => "float32r",
        Uint64 = 18 => "uint64", Int64 = 19 => "int64",
    }
}

/// Numeric class of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericClass {
    /// Two's complement.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Floating point, one element per container.
    Float,
    /// Four floating-point elements per container.
    PackedFloat,
}

impl Dtype {
    /// Bytes of one container (for packed types: of the four elements together).
    pub const fn bytes(self) -> u64 {
        match self {
            Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E3 | Dtype::Float8E4 => 1,
            Dtype::Float8E4m3Fn | Dtype::Float8E8m0Fnu | Dtype::Float8E5 => 1,
            Dtype::Float4E2m1FnX4 | Dtype::Uint16 | Dtype::Int16 | Dtype::Bfloat16 | Dtype::Float16 => 2,
            Dtype::Float8E4m3FnX4 | Dtype::Float8E5m2X4 | Dtype::Uint32 | Dtype::Int32 => 4,
            Dtype::Float32 | Dtype::Float32r => 4,
            Dtype::Uint64 | Dtype::Int64 => 8,
        }
    }
    /// Numeric class. `float8_e8m0fnu` counts as a float (a scale), although the generic cast treats it as raw bytes.
    pub const fn class(self) -> NumericClass {
        match self {
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => NumericClass::Signed,
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => NumericClass::Unsigned,
            Dtype::Float4E2m1FnX4 | Dtype::Float8E4m3FnX4 | Dtype::Float8E5m2X4 => NumericClass::PackedFloat,
            Dtype::Float8E3
            | Dtype::Float8E4
            | Dtype::Float8E4m3Fn
            | Dtype::Float8E8m0Fnu
            | Dtype::Float8E5 => NumericClass::Float,
            Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float32 | Dtype::Float32r => NumericClass::Float,
        }
    }
    /// An integer type, signed or not.
    pub const fn is_int(self) -> bool {
        matches!(self.class(), NumericClass::Signed | NumericClass::Unsigned)
    }
    /// Factor that pads narrow elements to four bytes when the bytes of a swap are charged
    /// (the specification, file 06 §7.4; packed types count as their container).
    pub const fn sb2sb_factor(self) -> u64 {
        match self.bytes() {
            1 => 4,
            2 => 2,
            _ => 1,
        }
    }
}
