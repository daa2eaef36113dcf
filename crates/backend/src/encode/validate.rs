//! The machine's rules on a record, by bytes only.
//!
//! Source: the specification, file 07 §3.2, §4.4 and §9 (documented; the start-partition table is decision D20).

use super::addr::{Access, Addr4, check_start};
use super::bundle::{Bundle, INST_WORD_LEN, WireError, WireResult};
use super::events::{UPDATE_MODES, WAIT_MODES};
use super::forms::Form;
use super::opcodes;
use tandem_bir::diag::codes;
use tandem_bir::{ArchSpec, EngineKind};

fn breaks(rule: &str, why: impl std::fmt::Display) -> WireError {
    WireError::new(codes::E0010, format!("{rule}: {why}"))
}

/// Rules every record obeys: header and events.
///
/// # Errors
/// E0010 naming the rule.
pub fn validate_common(b: &Bundle, spec: &ArchSpec) -> WireResult<()> {
    if !opcodes::exists(b.opcode(), spec.level) {
        return Err(breaks("has_valid_neuron_header", format!("opcode {:#04x} does not exist", b.opcode())));
    }
    if b.byte(1) != INST_WORD_LEN || b.get(2, 2) != 0 {
        return Err(breaks("has_valid_neuron_header", "bytes 1 to 3 are not 10 00 00"));
    }
    if !WAIT_MODES.contains(&b.byte(4)) {
        return Err(breaks("has_valid_neuron_events", format!("wait mode {:#04x}", b.byte(4))));
    }
    if !UPDATE_MODES.contains(&b.byte(6)) {
        return Err(breaks("has_valid_neuron_events", format!("update mode {:#04x}", b.byte(6))));
    }
    Ok(())
}

/// Rules of a record of row forms: descriptors, channels, start partitions.
///
/// # Errors
/// E0010 naming the rule and the byte.
pub fn validate_form(b: &Bundle, form: &Form, engine: EngineKind, spec: &ArchSpec) -> WireResult<()> {
    validate_common(b, spec)?;
    let channels = (form.channels != 0).then(|| u64::from(b.byte(form.channels)));
    if let Some(n) = channels
        && !(1..=128).contains(&n)
    {
        return Err(breaks("check_active_ports", format!("{n} partitions are not in 1..=128")));
    }
    for t in form.tensors.iter().take_while(|t| t.rank > 0) {
        let at = usize::from(t.off + 4 + 2 * t.rank);
        let counts = b.0.get(at..at + 2 * usize::from(t.rank)).unwrap_or(&[]).as_chunks::<2>().0;
        for (i, n) in counts.iter().enumerate() {
            if *n == [0, 0] {
                return Err(breaks(
                    "tensor_valid",
                    format!("count {i} of the descriptor at {:#04x} is 0", t.off),
                ));
            }
        }
        let word = b.get(t.off, 4) as u32;
        let dtype = (t.dtype != 0).then(|| match (b.byte(t.dtype), t.half) {
            (v, 1) => v & 15,
            (v, 2) => v >> 4,
            (v, _) => v,
        });
        // What PE writes in bf16 is the documented exception of the 4-byte rule; a transposition of fp16 keeps its type
        // too (kernels of the vendor's library transpose it into PSUM).
        let half = matches!(form.byte, 0x02 | 0x0A) && t.write && matches!(dtype, Some(6 | 7));
        let access = Access { write: t.write && !half, psum: engine != EngineKind::Pool, sbuf: true };
        if let Some(d) = dtype {
            check_start(word, d, access, spec.level, spec).map_err(|m| {
                breaks("tensor_start_addr_valid", format!("descriptor at {:#04x}: {m}", t.off))
            })?;
        }
        if form.byte == 0xBF || form.byte == 0x23 {
            continue;
        }
        if let (Some(n), Ok(a)) = (channels, Addr4::from_wire(word & !super::addr::INDIRECT_BIT)) {
            let start = match a {
                Addr4::Sbuf { partition, .. } | Addr4::Psum { partition, .. } => u64::from(partition),
                Addr4::Register(_) => continue,
            };
            let n = if t.own || !t.write || same_parts(form) { n } else { 1 };
            check_partitions(start, n).map_err(|m| breaks("start_addr_active_channels", m))?;
        }
    }
    Ok(())
}

fn same_parts(form: &Form) -> bool {
    form.out_parts == super::forms::OutParts::Channels
}

/// Start partitions of compute records: more than 64 partitions start at 0, 33 to 64 at 0 or 64, up to 32 at a multiple
/// of 32.
fn check_partitions(start: u64, n: u64) -> Result<(), String> {
    let unit = match n {
        0..=32 => 32,
        33..=64 => 64,
        _ => 128,
    };
    if !start.is_multiple_of(unit) || start + n > 128 {
        return Err(format!("{n} partitions cannot start at {start}"));
    }
    Ok(())
}

/// The rules of the swap record, each by the name the machine's header gives it.
///
/// # Errors
/// E0010 naming the first rule that fails.
pub fn validate_sb2sb(b: &Bundle, engine: EngineKind, spec: &ArchSpec) -> WireResult<()> {
    validate_common(b, spec)?;
    if b.opcode() != 0xBF {
        return Err(breaks("has_sb2sbcollective_opcode", format!("opcode {:#04x}", b.opcode())));
    }
    if spec.level < tandem_bir::ArchLevel::Gen3 {
        return Err(breaks("has_valid_nc_sb2sb_collective", "the record needs NC-v3 or later"));
    }
    if b.byte(0x20) != 1 {
        let why = match b.byte(0x20) {
            0 => "LNC1 is a self copy, which no program has".to_owned(),
            2 | 3 => format!("LNC{} is not allowed", 1u32 << b.byte(0x20)),
            v => format!("{v} is no LNC size"),
        };
        return Err(breaks("has_valid_LncSizefmt", why));
    }
    if !(1..=128).contains(&b.byte(0x21)) {
        return Err(breaks("check_active_ports", format!("{} partitions are not in 1..=128", b.byte(0x21))));
    }
    if b.get(0x0E, 2) != 0 || (0x22..0x30).any(|i| b.byte(i) != 0) {
        return Err(breaks("s3d3_collective_reserved_zero", "a reserved byte is not zero"));
    }
    for (off, write, name) in [(0x10u8, false, "tensor3d_valid(src)"), (0x30, true, "tensor3d_valid(dst)")] {
        if (0..3).any(|i| b.get(off + 10 + 2 * i, 2) == 0) {
            return Err(breaks(name, "a count is 0"));
        }
        let dtype = b.byte(if write { 0x0D } else { 0x0C });
        let word = b.get(off, 4) as u32;
        let access = Access { write, psum: false, sbuf: true };
        check_start(word, dtype, access, spec.level, spec).map_err(|m| breaks(name, m))?;
        if let Ok(Addr4::Sbuf { partition, .. }) = Addr4::from_wire(word)
            && u64::from(partition) + u64::from(b.byte(0x21)) > spec.partitions
        {
            return Err(breaks(name, "the tile leaves the 128 partitions"));
        }
    }
    let count = |off: u8| (0..3).fold(1u64, |a, i| a.saturating_mul(b.get(off + 10 + 2 * i, 2)));
    if count(0x10) > 256 {
        return Err(breaks(
            "size_check_src",
            format!("{} elements per partition, more than 256", count(0x10)),
        ));
    }
    if b.byte(0x0C) != b.byte(0x0D) {
        return Err(breaks("dtype_equality_check", format!("{} and {}", b.byte(0x0C), b.byte(0x0D))));
    }
    if engine != EngineKind::Pool {
        return Err(breaks("opcode on engine", format!("the swap runs on Pool, not {engine}")));
    }
    if count(0x30) != count(0x10) {
        return Err(breaks("element counts", format!("{} and {}", count(0x10), count(0x30))));
    }
    Ok(())
}
