//! The enumerations of KLR (constructors without arguments).
//!
//! Type tags, constructor numbers and names: the specification, file 02 §5.1 (confirmed against the definitions
//! and the serializer upstream). Constructor numbers are the 0-based ones on disk.

klr_enum! {
    /// Where a tensor lives.
    Memory("Memory") = 110 {
        0 Hbm("hbm"),
        1 Sbuf("sbuf"),
        2 Psum("psum"),
        3 Reg("reg"),
        4 SharedHbm("shared_hbm"),
        5 PrivateHbm("private_hbm"),
    }
}

klr_enum! {
    /// Element type of a tensor.
    Dtype("Dtype") = 111 {
        0 Bfloat16("bfloat16"),
        1 Float8e3("float8e3"),
        2 Float8e4("float8e4"),
        3 Float8e5("float8e5"),
        4 Float16("float16"),
        5 Float32("float32"),
        6 Float32r("float32r"),
        7 Int8("int8"),
        8 Int16("int16"),
        9 Int64("int64"),
        10 Int32("int32"),
        11 Uint8("uint8"),
        12 Uint16("uint16"),
        13 Uint32("uint32"),
        14 Uint64("uint64"),
        15 Float8E4m3("float8_e4m3"),
        16 Float8E4m3fn("float8_e4m3fn"),
        17 Float8E5m2X4("float8_e5m2_x4"),
        18 Float8E4m3fnX4("float8_e4m3fn_x4"),
        19 Float4E2m1fnX4("float4_e2m1fn_x4"),
    }
}

klr_enum! {
    /// Rows-per-cycle mode of a matrix multiplication.
    MatmulPerfMode("MatmulPerfMode") = 129 {
        0 None("None"),
        1 DoubleRow("DoubleRow"),
        2 DoubleRowSwInterleave("DoubleRowSwInterleave"),
    }
}

klr_enum! {
    /// Engine of a NeuronCore, as a kernel names it.
    Engine("Engine") = 130 {
        0 Unassigned("unassigned"),
        1 Act("act"),
        2 Dma("dma"),
        3 Dve("dve"),
        4 Pe("pe"),
        5 Pool("pool"),
        6 Sp("sp"),
    }
}

klr_enum! {
    /// Operation of an arithmetic unit on two values.
    AluOp("AluOp") = 135 {
        0 Abs("abs"),
        1 Add("add"),
        2 ArithShiftLeft("arith_shift_left"),
        3 ArithShiftRight("arith_shift_right"),
        4 Average("average"),
        5 BitwiseAnd("bitwise_and"),
        6 BitwiseNot("bitwise_not"),
        7 BitwiseOr("bitwise_or"),
        8 BitwiseXor("bitwise_xor"),
        9 Bypass("bypass"),
        10 Divide("divide"),
        11 IsEqual("is_equal"),
        12 IsGe("is_ge"),
        13 IsGt("is_gt"),
        14 IsLe("is_le"),
        15 IsLt("is_lt"),
        16 LogicalAnd("logical_and"),
        17 LogicalOr("logical_or"),
        18 LogicalShiftLeft("logical_shift_left"),
        19 LogicalShiftRight("logical_shift_right"),
        20 LogicalXor("logical_xor"),
        21 Max("max"),
        22 Min("min"),
        23 Mod("mod"),
        24 Mult("mult"),
        25 NotEqual("not_equal"),
        26 Pow("pow"),
        27 Rsqrt("rsqrt"),
        28 Subtract("subtract"),
    }
}

klr_enum! {
    /// Whether a dropout threshold is the rate of dropped or of kept elements.
    DropoutThresholdType("DropoutThresholdType") = 136 {
        0 DropRate("DropRate"),
        1 KeepRate("KeepRate"),
    }
}

klr_enum! {
    /// What an operator does with its accumulator registers.
    AccumCmd("AccumCmd") = 137 {
        0 Idle("Idle"),
        1 Zero("Zero"),
        2 Accumulate("Accumulate"),
        3 ZeroAccumulate("ZeroAccumulate"),
        4 LoadAccumulate("LoadAccumulate"),
    }
}

klr_enum! {
    /// Function of the activation engine.
    ActivationFunc("ActivationFunc") = 138 {
        0 Abs("abs"),
        1 Arctan("arctan"),
        2 Copy("copy"),
        3 Erf("erf"),
        4 ErfDx("erf_dx"),
        5 Exp("exp"),
        6 Gelu("gelu"),
        7 GeluApprxTanh("gelu_apprx_tanh"),
        8 GeluDx("gelu_dx"),
        9 Log("log"),
        10 Mish("mish"),
        11 Reciprocal("reciprocal"),
        12 Relu("relu"),
        13 Rsqrt("rsqrt"),
        14 Sigmoid("sigmoid"),
        15 Sign("sign"),
        16 Silu("silu"),
        17 SiluDx("silu_dx"),
        18 Sin("sin"),
        19 Softplus("softplus"),
        20 Sqrt("sqrt"),
        21 Square("square"),
        22 Tanh("tanh"),
        23 GeluApprxSigmoid("gelu_apprx_sigmoid"),
        24 GeluApprxSigmoidDx("gelu_apprx_sigmoid_dx"),
    }
}

klr_enum! {
    /// Comparison of an affine selection with zero.
    AffineSelectCmp("AffineSelectCmp") = 139 {
        0 GreaterThan("GreaterThan"),
        1 GreaterThanEq("GreaterThanEq"),
        2 Eq("Eq"),
        3 NotEq("NotEq"),
    }
}

klr_enum! {
    /// What a DMA does with the bytes already at the destination.
    DgeComputeOp("DgeComputeOp") = 140 {
        0 None("none"),
        1 Add("add"),
    }
}

klr_enum! {
    /// Place of a matrix multiplication in its accumulation group.
    MatmulGroupElement("MatmulGroupElement") = 142 {
        0 First("first"),
        1 Middle("middle"),
        2 Last("last"),
        3 Whole("whole"),
    }
}

klr_enum! {
    /// Which operations take their operands in reverse order.
    TensorScalarReverseOps("TensorScalarReverseOps") = 144 {
        0 None("none"),
        1 First("first"),
        2 Second("second"),
        3 Both("both"),
    }
}

klr_enum! {
    /// How many of the free dimensions, innermost first, an operation covers.
    TensorSubDim("TensorSubDim") = 145 {
        0 X("X"),
        1 Xy("XY"),
        2 Xyz("XYZ"),
        3 Xyzw("XYZW"),
    }
}

klr_enum! {
    /// Order of the dimensions after a DMA transposition.
    TransposeOps("TransposeOps") = 146 {
        0 None("None"),
        1 Wzxy("WZXY"),
        2 Wxzy("WXZY"),
        3 Wyxz("WYXZ"),
        4 Zwyx("ZWYX"),
        5 Zywx("ZYWX"),
        6 Zyxw("ZYXW"),
        7 Yxwz("YXWZ"),
        8 Yxzw("YXZW"),
        9 Ywzx("YWZX"),
        10 Xwzy("XWZY"),
        11 Xzyw("XZYW"),
        12 Xyzw("XYZW"),
        13 Xywz("XYWZ"),
    }
}

klr_enum! {
    /// Condition of a branch.
    BrCmpOp("BrCmpOp") = 189 {
        0 Always("always"),
        1 LtImm("lt_imm"),
        2 LeImm("le_imm"),
        3 EqImm("eq_imm"),
        4 NeImm("ne_imm"),
        5 GeImm("ge_imm"),
        6 GtImm("gt_imm"),
        7 LtReg("lt_reg"),
        8 LeReg("le_reg"),
        9 EqReg("eq_reg"),
        10 NeReg("ne_reg"),
        11 GeReg("ge_reg"),
        12 GtReg("gt_reg"),
    }
}

klr_enum! {
    /// Where a device print goes.
    PrintOutputBuffer("PrintOutputBuffer") = 214 {
        0 Stdout("stdout"),
        1 Stderr("stderr"),
    }
}
