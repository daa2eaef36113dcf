//! The opcode byte: names and generations.
//!
//! Source: the specification, file 07 §8 (documented). Every byte is stable across generations; bytes absent here are
//! reserved.

use tandem_bir::ArchLevel;

/// One opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeRow {
    /// Byte 0 of the record.
    pub byte: u8,
    /// Name.
    pub name: &'static str,
    /// Header trees that have it, one decimal digit each (2 to 5 for NC-v2 to NC-v5).
    pub generations: &'static str,
}

const fn r(byte: u8, name: &'static str, generations: &'static str) -> OpcodeRow {
    OpcodeRow { byte, name, generations }
}

/// Every opcode in byte order. Two are known from the encoder alone and are in no header tree.
#[rustfmt::skip]
pub const OPCODES: &[OpcodeRow] = &[
    r(0x01, "LdWeights", "2345"),
    r(0x02, "Matmul", "2345"),
    r(0x03, "PeRegWrite", "2345"),
    r(0x04, "WeightMask", "2345"),
    r(0x05, "WeightShift", "2345"),
    r(0x06, "LdTags", "345"),
    r(0x07, "MatmulSparse", "345"),
    r(0x08, "PeManageSeed", "45"),
    r(0x09, "LdWeightsMX", "45"),
    r(0x0A, "MatmulMX", "45"),
    r(0x21, "Activate", "2345"),
    r(0x22, "ActivateQuantize", "2345"),
    r(0x23, "ActTableLoad", "2345"),
    r(0x24, "ActReadAccumulator", "2345"),
    r(0x25, "Activate2", "45"),
    r(0x26, "ActivateMultipass", "5"),
    r(0x30, "Exponential", "2345"),
    r(0x41, "TensorTensorArith", "2345"),
    r(0x42, "TensorReduceArith", "2345"),
    r(0x43, "TensorScalarArith", "2345"),
    r(0x44, "TensorScalarPtrArith", "2345"),
    r(0x45, "Pool", "2345"),
    r(0x46, "Copy", "2345"),
    r(0x47, "Cast", "2345"),
    r(0x48, "Reciprocal", "2345"),
    r(0x49, "Memset", "2345"),
    r(0x4A, "RegLoad", "2345"),
    r(0x4B, "RegStore", "2345"),
    r(0x4C, "RegShuffle", "2345"),
    r(0x4D, "Rng", "2345"),
    r(0x4E, "TensorCumulativeArith", "2345"),
    r(0x4F, "TSPtrMultiArith", "2345"),
    r(0x51, "TensorTensorBitvec", "2345"),
    r(0x52, "TensorReduceBitvec", "2345"),
    r(0x53, "TensorScalarBitvec", "2345"),
    r(0x54, "TSPtrBitvec", "2345"),
    r(0x58, "MaxPoolSelect", "2345"),
    r(0x5E, "TensorCumulativeBitvec", "2345"),
    r(0x5F, "TSPtrMultiBitvec", "2345"),
    r(0x60, "BatchNormStats", "2345"),
    r(0x61, "BatchNormStats2", "2345"),
    r(0x62, "BatchNormAggregate", "2345"),
    r(0x63, "BNGradAccumulate", "2345"),
    r(0x64, "BNParamLoad", "2345"),
    r(0x65, "BNBackProp", "2345"),
    r(0x66, "LoadParameterRam", "2345"),
    r(0x67, "PoolBufferLoad", "2345"),
    r(0x68, "Gather", "2345"),
    r(0x69, "LoadMaskSelect", "2345"),
    r(0x6A, "StreamShuffle", "2345"),
    r(0x6B, "StreamTranspose", "2345"),
    r(0x6C, "Max8", "2345"),
    r(0x6D, "MatchValueLoad", "2345"),
    r(0x6E, "FindIndex8", "2345"),
    r(0x6F, "MatchReplace8", "2345"),
    r(0x70, "TSImmLdArith", "2345"),
    r(0x71, "TSImmLdBitvec", "2345"),
    r(0x72, "CopyPredicated", "2345"),
    r(0x73, "RoiAlign", "2345"),
    r(0x74, "TensorScalarAddr", "2345"),
    r(0x76, "Rand", "2345"),
    r(0x77, "RandGetState", "2345"),
    r(0x78, "RandSetState", "2345"),
    r(0x79, "EmbeddingUpdate", "2345"),
    r(0x7A, "LoadPoolArgument", "2345"),
    r(0x7B, "TensorDequantize", "2345"),
    r(0x7C, "CrossLaneReduceArith", "2345"),
    r(0x7D, "CrossLaneReduceBitvec", "2345"),
    r(0x7E, "Iota", "2345"),
    r(0x7F, "Dropout", "2345"),
    r(0x81, "JpegDecode", "345"),
    r(0x82, "TransposeBNStats2", "2345"),
    r(0x83, "TransposeTensorReduceArith", "2345"),
    r(0x84, "TransposeTensorReduceBitvec", "2345"),
    r(0x85, "CustomOpHeader", "2345"),
    r(0x86, "CustomOpPayload", "2345"),
    r(0x87, "TSPtrMultiDualArith", "2"),
    r(0x88, "TSPtrMultiDualBitvec", "2"),
    r(0x8A, "TensorTensorAddBF16", "2"),
    r(0x8B, "TensorTensorMultBF16", "2"),
    r(0x8C, "TensorReduceAddBF16", "2"),
    r(0x8D, "TensorReduceMaxBF16", "2"),
    r(0x8E, "BNParamLoad2", "2345"),
    r(0x8F, "TensorTensorSubBF16", "2"),
    r(0x92, "TSAffineSelect", "2345"),
    r(0x93, "TransposeTensorScalarArith", "2345"),
    r(0x94, "BNGradAccumulate2", "2345"),
    r(0x95, "ModifyPoolConfig", "2345"),
    r(0x96, "Sort", "2345"),
    r(0x98, "TensorScalarSelect", "2345"),
    r(0x99, "CastPredicated", "2345"),
    r(0x9A, "TSCacheReduce", "2345"),
    r(0x9B, "DveReadAccumulator", "2345"),
    r(0x9C, "TensorReduceRangeCheck", "2345"),
    r(0x9D, "ScalarTensorTensorArith", "2345"),
    r(0x9E, "ScalarTensorTensorBitvec", "2345"),
    r(0x9F, "EngineNop", "2345"),
    r(0xA0, "EventSemaphore", "2345"),
    r(0xA1, "Halt", "2345"),
    r(0xA2, "Drain", "2345"),
    r(0xA3, "InstructionFlush", "2345"),
    r(0xA4, "Nop", "2345"),
    r(0xA5, "Write", "2345"),
    r(0xA6, "Notify", "2345"),
    r(0xA7, "Move", "2345"),
    r(0xA8, "AluOp", "2345"),
    r(0xA9, "CompareBranch", "2345"),
    r(0xAA, "TensorLoad", "2345"),
    r(0xAB, "TensorStore", "2345"),
    r(0xB0, "EventSemaphoreRangeClear", "2345"),
    r(0xB1, "SetOrderingMode", "2345"),
    r(0xB2, "MoveShape", "2345"),
    r(0xB3, "PollSem", "2345"),
    r(0xB4, "TestEventSem", "45"),
    r(0xB5, "BranchPrefetchHint", "2345"),
    r(0xB6, "CompactControlInst", "5"),
    r(0xB7, "UcodeConfig", ""),
    r(0xB8, "DmaMemcpy", "2345"),
    r(0xB9, "DmaMemcpy2", "5"),
    r(0xBA, "DmaImmediate", "5"),
    r(0xBB, "DmaIndirect", "2345"),
    r(0xBC, "RangeSelect", "345"),
    r(0xBD, "DmaTranspose", "345"),
    r(0xBE, "GetSequenceBounds", "345"),
    r(0xBF, "Sb2sbCollective", "345"),
    r(0xC1, "PseudoDmaTrigger", "2345"),
    r(0xC2, "PseudoDmaRearm", "2345"),
    r(0xC3, "PseudoDmaBarrier", "2345"),
    r(0xC4, "PseudoDmaMemcpyFullInd", "2345"),
    r(0xC5, "PseudoSemaphoreSet", "2345"),
    r(0xC6, "PseudoLoadActFuncSet", "2345"),
    r(0xC7, "PseudoTriggerAllReduce", "2345"),
    r(0xC8, "PseudoTriggerCollective", "2345"),
    r(0xC9, "PseudoReadVarAddr", "2345"),
    r(0xCA, "PseudoEmbeddingUpdate", "2345"),
    r(0xCB, "PseudoSendRecv", "2345"),
    r(0xCC, "PseudoBranchLabel", "2345"),
    r(0xCD, "PseudoTensorStore", "2345"),
    r(0xCE, "PseudoTensorLoad", "2345"),
    r(0xCF, "PseudoDmaSwapQueueSet", "2345"),
    r(0xD0, "PseudoSetRngSeed", "2345"),
    r(0xD1, "PseudoFunctionBegin", "2345"),
    r(0xD2, "PseudoFunctionReturn", "2345"),
    r(0xD3, "PseudoFunctionCall", "2345"),
    r(0xD4, "PseudoDmaDirect2d", "2345"),
    r(0xD5, "PseudoSyncBarrier", "2345"),
    r(0xD6, "PseudoRangeCheck", "2345"),
    r(0xD7, "PseudoJpegDecode", "345"),
    r(0xD8, "PseudoCoreBarrier", "2345"),
    r(0xD9, "PseudoTriggerCollective2", "2345"),
    r(0xDA, "PseudoExtension", "2345"),
    r(0xDB, "PseudoCurProcessingRankId", "2345"),
    r(0xDC, "PseudoGidLoad", "2345"),
    r(0xDD, "PseudoBranchPrefetchHint", "2345"),
    r(0xDE, "PseudoTensorCompletion", "2345"),
    r(0xDF, "PseudoInst", "2345"),
    r(0xE0, "SparsityCompress", "45"),
    r(0xE1, "SparsityCompressTag", "45"),
    r(0xE2, "Rand2", "45"),
    r(0xE3, "QuantizeMX", "45"),
    r(0xE4, "ConvLutLoad", "345"),
    r(0xE5, "TensorTensorScanArith", "2345"),
    r(0xE6, "TSCacheCumulative", "2345"),
    r(0xE7, "IndirectCopy", "2345"),
    r(0xE8, "CopyPredicatedScalar", "2345"),
    r(0xE9, "DveReadIndices", "345"),
    r(0xEA, "SelectReduce", "2345"),
    r(0xEB, "Hint", ""),
    r(0xF0, "ExtendedInst", "2345"),
    r(0xF1, "DmaGatherTranspose", "345"),
    r(0xF2, "NonzeroWithCount", "345"),
    r(0xF3, "TensorTensorIntWide", "5"),
    r(0xF4, "TensorScalarIntWide", "5"),
    r(0xFF, "Invalid", "2345"),
];

/// Row of a byte.
pub fn row(byte: u8) -> Option<&'static OpcodeRow> {
    OPCODES.binary_search_by_key(&byte, |r| r.byte).ok().map(|i| &OPCODES[i])
}

/// Name of a byte, for people.
pub fn name(byte: u8) -> &'static str {
    row(byte).map_or("reserved", |r| r.name)
}

/// Bit per header tree (NC-v2 is bit 0), by opcode byte.
static TREES: [u8; 256] = {
    let mut out = [0u8; 256];
    let mut i = 0;
    while i < OPCODES.len() {
        let digits = OPCODES[i].generations.as_bytes();
        let mut k = 0;
        while k < digits.len() {
            out[OPCODES[i].byte as usize] |= 1 << (digits[k] - b'2');
            k += 1;
        }
        i += 1;
    }
    out
};

/// The opcode exists on a generation.
#[inline]
pub fn exists(byte: u8, arch: ArchLevel) -> bool {
    let bit = match arch {
        ArchLevel::Inferentia => return false,
        ArchLevel::Sunda => 0,
        ArchLevel::Gen3 => 1,
        ArchLevel::CoreV4 => 2,
        ArchLevel::CoreV5 => 3,
    };
    TREES[byte as usize] >> bit & 1 == 1
}

/// A pseudo opcode, which a runtime would rewrite; we run these directly.
pub fn is_pseudo(byte: u8) -> bool {
    byte >> 5 == 0b110
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_the_header_trees_have_their_documented_sizes() {
        assert!(OPCODES.windows(2).all(|w| w[0].byte < w[1].byte));
        for (digit, n) in [('2', 145), ('3', 150), ('4', 159), ('5', 165)] {
            assert_eq!(OPCODES.iter().filter(|r| r.generations.contains(digit)).count(), n, "NC-v{digit}");
        }
    }

    #[test]
    fn the_swap_opcode_starts_with_gen3() {
        assert!(!exists(0xBF, ArchLevel::Sunda));
        assert!(exists(0xBF, ArchLevel::Gen3) && exists(0xBF, ArchLevel::CoreV4));
    }
}
