//! Addresses on the wire: ADDR4 of on-chip descriptors and ADDR8 of transfers.
//!
//! Source: the specification, file 07 §3 and §7.7.2 (documented; the variable numbers of remote tiles are our choice).

use super::bundle::{WireError, WireResult};
use super::tables::wire_alignment;
use tandem_bir::diag::codes;
use tandem_bir::{ArchLevel, ArchSpec};

/// Bits of ADDR4 that hold the byte address.
pub const ADDR_MASK: u32 = 0x1FFF_FFFF;
/// Marks a gather index slot.
pub const INDIRECT_BIT: u32 = 1 << 29;
/// Marks a register: byte 0 is its number.
pub const REGISTER_BIT: u32 = 1 << 31;
/// First address of PSUM.
pub const PSUM_BASE: u32 = 0x0200_0000;
/// Size of the PSUM window.
pub const PSUM_WINDOW: u32 = 0x0040_0000;
/// Distance of SBUF partitions.
pub const SBUF_SHIFT: u32 = 18;
/// Distance of PSUM partitions.
pub const PSUM_SHIFT: u32 = 15;
/// Registers ADDR4 can name.
pub const MAX_REGISTERS: u8 = 64;

/// A decoded on-chip address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addr4 {
    /// SBUF: partition and byte inside it.
    Sbuf {
        /// Partition, 0..128.
        partition: u32,
        /// Byte inside the partition.
        byte: u32,
    },
    /// PSUM: partition and byte inside it (bank · 2048 + byte of the bank).
    Psum {
        /// Partition, 0..128.
        partition: u32,
        /// Byte inside the partition.
        byte: u32,
    },
    /// The address is in a register.
    Register(u8),
}

impl Addr4 {
    /// The 32-bit word.
    ///
    /// # Errors
    /// E0004 when a number leaves its field.
    pub fn to_wire(self) -> WireResult<u32> {
        let bad = |m: String| WireError::new(codes::E0004, m);
        match self {
            Addr4::Sbuf { partition, byte } => {
                if partition >= 128 || byte >= 1 << SBUF_SHIFT {
                    return Err(bad(format!("SBUF partition {partition} byte {byte:#x} is out of range")));
                }
                Ok((partition << SBUF_SHIFT) + byte)
            }
            Addr4::Psum { partition, byte } => {
                if partition >= 128 || byte >= 1 << PSUM_SHIFT {
                    return Err(bad(format!("PSUM partition {partition} byte {byte:#x} is out of range")));
                }
                Ok(PSUM_BASE + (partition << PSUM_SHIFT) + byte)
            }
            Addr4::Register(r) => {
                if r >= MAX_REGISTERS {
                    return Err(bad(format!("register {r} cannot be named in an address")));
                }
                Ok(REGISTER_BIT | u32::from(r))
            }
        }
    }

    /// Reads the word. The indirect marker is ignored.
    ///
    /// # Errors
    /// E0104 for a register form with other bits set and for addresses in neither memory.
    pub fn from_wire(word: u32) -> WireResult<Addr4> {
        let bad = |m: String| WireError::new(codes::E0104, m);
        if word & REGISTER_BIT != 0 {
            let id = (word & 0xFF) as u8;
            if word & 0x7FFF_FF00 != 0 || id >= MAX_REGISTERS {
                return Err(bad(format!("{word:#010x} is no register address")));
            }
            return Ok(Addr4::Register(id));
        }
        if word & (1 << 30) != 0 {
            return Err(bad(format!("{word:#010x} names a shape register")));
        }
        let a = word & ADDR_MASK;
        if a.wrapping_sub(PSUM_BASE) < PSUM_WINDOW {
            let r = a - PSUM_BASE;
            return Ok(Addr4::Psum { partition: r >> PSUM_SHIFT, byte: r & ((1 << PSUM_SHIFT) - 1) });
        }
        if a & 0x1E00_0000 != 0 {
            return Err(bad(format!("{word:#010x} lies in no memory")));
        }
        Ok(Addr4::Sbuf { partition: a >> SBUF_SHIFT, byte: a & ((1 << SBUF_SHIFT) - 1) })
    }
}

/// What an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It is written.
    pub write: bool,
    /// PSUM is allowed.
    pub psum: bool,
    /// SBUF is allowed.
    pub sbuf: bool,
}

/// The start-address rule of the machine's validator, by bytes.
///
/// # Errors
/// The reason, without a code.
pub fn check_start(
    word: u32,
    dtype: u8,
    access: Access,
    arch: ArchLevel,
    spec: &ArchSpec,
) -> Result<(), String> {
    if word & REGISTER_BIT != 0 {
        let zero = if arch == ArchLevel::Sunda { 0x7FFF_FF00 } else { 0x00FF_FF00 };
        return if word & zero == 0 && (word & 0xFF) < u32::from(MAX_REGISTERS) {
            Ok(())
        } else {
            Err(format!("{word:#010x} is no register address"))
        };
    }
    let align = wire_alignment(dtype, arch);
    let a = word & ADDR_MASK;
    if align == 0 {
        return Err(format!("dtype code {dtype} has no alignment"));
    }
    if u64::from(a) & (align - 1) != 0 {
        return Err(format!("address {a:#x} is not a multiple of {align}"));
    }
    if a.wrapping_sub(PSUM_BASE) < PSUM_WINDOW {
        if !access.psum {
            return Err("the operand may not lie in PSUM".to_owned());
        }
        if access.write && !matches!(dtype, 8..=11) {
            return Err(format!("PSUM takes 4-byte elements, not dtype code {dtype}"));
        }
        let byte = (a - PSUM_BASE) & ((1 << PSUM_SHIFT) - 1);
        if u64::from(byte) >= spec.psum_bytes {
            return Err(format!("byte {byte:#x} is beyond the PSUM partition"));
        }
        return Ok(());
    }
    if !access.sbuf {
        return Err("the operand must lie in PSUM".to_owned());
    }
    if a & 0x1E00_0000 != 0 {
        return Err(format!("address {a:#x} lies in no memory"));
    }
    let byte = a & ((1 << SBUF_SHIFT) - 1);
    if u64::from(byte) >= spec.sbuf_bytes {
        return Err(format!("byte {byte:#x} is beyond the SBUF partition"));
    }
    Ok(())
}

/// Static mode byte of ADDR8.
pub const ADDR8_STATIC: u8 = 0x10;
/// Largest variable number.
pub const MAX_VAR: u32 = (1 << 24) - 1;

/// An address of a transfer: offset and variable, 0 for local SBUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr8 {
    /// Bytes from the start of the variable; SBUF linear address for variable 0.
    pub offset: u32,
    /// Variable number.
    pub var: u32,
}

impl Addr8 {
    /// The eight bytes as a number.
    pub fn to_wire(self) -> u64 {
        u64::from(self.offset) | u64::from(self.var & MAX_VAR) << 32 | u64::from(ADDR8_STATIC) << 56
    }
    /// Reads the eight bytes.
    ///
    /// # Errors
    /// E0104 for a mode other than static.
    pub fn from_wire(v: u64) -> WireResult<Addr8> {
        if (v >> 56) as u8 != ADDR8_STATIC {
            return Err(WireError::new(
                codes::E0104,
                format!("mode {:#04x} of a transfer's address is not static", v >> 56),
            ));
        }
        Ok(Addr8 { offset: v as u32, var: (v >> 32) as u32 & MAX_VAR })
    }
}
