//! Layout of the container, version 1.0 (the specification, file 08 §10.3, our choice).

use tandem_bir::EngineKind;

/// First eight bytes.
pub const MAGIC: &[u8; 8] = b"TNDMBNDL";
/// Version.
pub const MAJOR: u16 = 1;
/// Minor version.
pub const MINOR: u16 = 0;
/// Bytes of the header.
pub const HEADER: usize = 64;
/// Bytes of a section entry.
pub const ENTRY: usize = 32;
/// Most sections.
pub const MAX_SECTIONS: usize = 4096;
/// Most records of a stream.
pub const MAX_RECORDS: usize = 1 << 22;
/// Core byte of global sections.
pub const GLOBAL: u8 = 0xFF;
/// Flag: has a debug table.
pub const FLAG_DEBUG: u8 = 1;
/// Flag: has constants.
pub const FLAG_CONST: u8 = 2;
/// Flag: has records of our own layout.
pub const FLAG_OWN: u8 = 4;

/// Kinds of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the specification's table")]
pub enum Kind {
    Manifest = 1,
    Stream = 2,
    Vars = 3,
    Barriers = 4,
    Swaps = 5,
    Dma = 6,
    Const = 7,
    Debug = 8,
    CcTable = 9,
    TensorMap = 10,
    Tokens = 11,
    /// Ours: what records cannot say.
    Records = 12,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Manifest,
        Kind::Stream,
        Kind::Vars,
        Kind::Barriers,
        Kind::Swaps,
        Kind::Dma,
        Kind::Const,
        Kind::Debug,
        Kind::CcTable,
        Kind::TensorMap,
        Kind::Tokens,
        Kind::Records,
    ];
    /// Kind of a number.
    pub fn of(n: u16) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| *k as u16 == n)
    }
    /// Belongs to a core.
    pub fn per_core(self) -> bool {
        matches!(self, Kind::Stream | Kind::Vars | Kind::Dma | Kind::Debug | Kind::Records)
    }
    /// Belongs to an engine.
    pub fn per_engine(self) -> bool {
        matches!(self, Kind::Stream | Kind::Dma | Kind::Debug | Kind::Records)
    }
}

/// A section.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Kind.
    pub kind: Kind,
    /// Core, or [`GLOBAL`].
    pub core: u8,
    /// Engine ordinal, 0 when none.
    pub engine: u8,
    /// Offset in the file.
    pub offset: usize,
    /// Bytes.
    pub bytes: Vec<u8>,
}

/// Ordinal of an engine in tables.
pub fn engine_ordinal(e: EngineKind) -> u8 {
    e as u8
}

/// CRC-32 (IEEE), as the section table stores it. Eight bytes at a time through eight tables.
pub fn crc32(bytes: &[u8]) -> u32 {
    static TABLES: [[u32; 256]; 8] = {
        let mut t = [[0u32; 256]; 8];
        let mut i = 0;
        while i < 256 {
            let mut c = i as u32;
            let mut k = 0;
            while k < 8 {
                c = if c & 1 == 1 { 0xEDB8_8320 ^ c >> 1 } else { c >> 1 };
                k += 1;
            }
            t[0][i] = c;
            i += 1;
        }
        let mut n = 1;
        while n < 8 {
            let mut i = 0;
            while i < 256 {
                t[n][i] = t[0][(t[n - 1][i] & 0xFF) as usize] ^ t[n - 1][i] >> 8;
                i += 1;
            }
            n += 1;
        }
        t
    };
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut c = u32::MAX;
    for b in chunks {
        let w = u64::from_le_bytes(*b) ^ u64::from(c);
        c = 0;
        for (n, table) in TABLES.iter().rev().enumerate() {
            c ^= table[(w >> (8 * n) & 0xFF) as usize];
        }
    }
    !rest.iter().fold(c, |c, b| TABLES[0][((c ^ u32::from(*b)) & 0xFF) as usize] ^ c >> 8)
}

/// FNV-1a, 64 bits, continued from `h`.
pub fn fnv(h: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(h, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3))
}

/// Start value of [`fnv`].
pub const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;

/// Lays out sections: header, table, payloads aligned to 64 bytes. The offsets of `sections` are set.
pub fn assemble(arch: u16, cores: u8, flags: u8, sections: &mut [Section]) -> Vec<u8> {
    sections.sort_by_key(|s| (s.kind, s.core, s.engine));
    let table = (HEADER + ENTRY * sections.len()).next_multiple_of(64);
    let mut at = table;
    for s in sections.iter_mut() {
        s.offset = at;
        at = (at + s.bytes.len()).next_multiple_of(64);
    }
    let end = sections.last().map_or(table, |s| s.offset + s.bytes.len());
    let mut out = vec![0u8; end];
    let id = sections.iter().fold(FNV_START, |h, s| fnv(h, &s.bytes));
    out[..8].copy_from_slice(MAGIC);
    out[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    out[10..12].copy_from_slice(&MINOR.to_le_bytes());
    out[12..14].copy_from_slice(&arch.to_le_bytes());
    out[14] = cores;
    out[15] = flags;
    out[16..24].copy_from_slice(&(end as u64).to_le_bytes());
    out[24..28].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    out[28..32].copy_from_slice(&(table as u32).to_le_bytes());
    out[32..40].copy_from_slice(&id.to_le_bytes());
    for (k, s) in sections.iter().enumerate() {
        let e = &mut out[HEADER + ENTRY * k..HEADER + ENTRY * (k + 1)];
        e[0..2].copy_from_slice(&(s.kind as u16).to_le_bytes());
        e[2] = s.core;
        e[3] = s.engine;
        e[8..16].copy_from_slice(&(s.offset as u64).to_le_bytes());
        e[16..24].copy_from_slice(&(s.bytes.len() as u64).to_le_bytes());
        e[24..28].copy_from_slice(&crc32(&s.bytes).to_le_bytes());
    }
    for s in sections.iter() {
        out[s.offset..s.offset + s.bytes.len()].copy_from_slice(&s.bytes);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn checksums_of_known_texts() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(super::crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
        assert_eq!(super::crc32(b""), 0);
        assert_eq!(super::fnv(super::FNV_START, b"a"), 0xAF63_DC4C_8601_EC8C);
    }
}
