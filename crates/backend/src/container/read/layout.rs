//! The layout of a container: header, section table, checksums, padding; its sections and tables as they lie in the file.

use super::super::format::*;
use super::super::json;
use crate::decode::patch::Patch;
use crate::encode::bundle::{BUNDLE_BYTES, Bundle};
use serde_json::Value;
use tandem_bir::diag::{Code, Diagnostic, Site, codes};
use tandem_bir::{ArchLevel, BirEnum};

/// A container in memory: its sections, checked.
#[derive(Clone, Debug)]
pub struct Container {
    /// Architecture level.
    pub arch: ArchLevel,
    /// Cores.
    pub cores: u8,
    /// Flags.
    pub flags: u8,
    /// Sections in table order.
    pub sections: Vec<Section>,
}

pub(super) fn bad(code: Code, offset: usize, m: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code, m).site(Site { offset: Some(offset as u64), ..Site::default() })
}

fn le(b: &[u8], at: usize, n: usize) -> u64 {
    (0..n).rev().fold(0, |v, i| v << 8 | u64::from(b.get(at + i).copied().unwrap_or(0)))
}

/// True when the bytes start like a container.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads and checks the layout of a container.
///
/// # Errors
/// The first fault, with its offset.
pub fn read_sections(b: &[u8]) -> Result<Container, Diagnostic> {
    let l = layout(b)?;
    let sections = l.parts.iter().map(|p| p.section(b)).collect();
    Ok(Container { arch: l.arch, cores: l.cores, flags: l.flags, sections })
}

/// A section where it lies in the file.
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) core: u8,
    pub(super) engine: u8,
    pub(super) bytes: std::ops::Range<usize>,
}

impl Part {
    /// A copy of it.
    fn section(&self, b: &[u8]) -> Section {
        Section {
            kind: self.kind,
            core: self.core,
            engine: self.engine,
            offset: self.bytes.start,
            bytes: b[self.bytes.clone()].to_vec(),
        }
    }
}

/// Header and section table of a container.
pub(super) struct Layout {
    pub(super) arch: ArchLevel,
    pub(super) cores: u8,
    pub(super) flags: u8,
    pub(super) parts: Vec<Part>,
}

impl Layout {
    pub(super) fn streams(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|p| p.kind == Kind::Stream)
    }
    /// The container without its streams, which stay where they lie.
    pub(super) fn tables(&self, b: &[u8]) -> Container {
        let sections = self.parts.iter().filter(|p| p.kind != Kind::Stream).map(|p| p.section(b)).collect();
        Container { arch: self.arch, cores: self.cores, flags: self.flags, sections }
    }
}

/// Checks the layout of a container without copying its sections.
pub(super) fn layout(b: &[u8]) -> Result<Layout, Diagnostic> {
    if !is_container(b) {
        return Err(bad(codes::E0101, 0, "the magic bytes are missing"));
    }
    if b.len() < HEADER {
        return Err(bad(codes::E0102, b.len(), "the header is cut short"));
    }
    let (major, minor) = (le(b, 8, 2), le(b, 10, 2));
    if (major, minor) != (u64::from(MAJOR), u64::from(MINOR)) {
        return Err(bad(codes::E0101, 8, format!("version {major}.{minor} is not 1.0")));
    }
    let arch = ArchLevel::from_ordinal(le(b, 12, 2) as u16).filter(|a| a.spec().is_some());
    let Some(arch) = arch else {
        return Err(bad(codes::E0101, 12, format!("architecture {} has no model", le(b, 12, 2))));
    };
    let (cores, flags) = (b[14], b[15]);
    if !(1..=2).contains(&cores) {
        return Err(bad(codes::E0101, 14, format!("{cores} cores")));
    }
    if flags & !7 != 0 {
        return Err(bad(codes::E0102, 15, "unknown flags"));
    }
    if le(b, 16, 8) != b.len() as u64 {
        return Err(bad(
            codes::E0102,
            16,
            format!("the file has {} bytes, the header says {}", b.len(), le(b, 16, 8)),
        ));
    }
    let n = le(b, 24, 4) as usize;
    if n > MAX_SECTIONS {
        return Err(bad(codes::E0107, 24, format!("{n} sections")));
    }
    let table = (HEADER + ENTRY * n).next_multiple_of(64);
    if le(b, 28, 4) as usize != table || table > b.len() {
        return Err(bad(codes::E0103, 28, "the length of the table does not fit"));
    }
    if b[40..64].iter().any(|x| *x != 0) {
        return Err(bad(codes::E0102, 40, "reserved bytes of the header are not zero"));
    }
    if let Some(k) = b[HEADER + ENTRY * n..table].iter().position(|x| *x != 0) {
        return Err(bad(codes::E0102, HEADER + ENTRY * n + k, "padding is not zero"));
    }
    let mut sections: Vec<Part> = Vec::new();
    let mut end = table;
    let mut id = FNV_START;
    for k in 0..n {
        let at = HEADER + ENTRY * k;
        let Some(kind) = Kind::of(le(b, at, 2) as u16) else {
            return Err(bad(codes::E0103, at, format!("section kind {} is unknown", le(b, at, 2))));
        };
        let (core, engine) = (b[at + 2], b[at + 3]);
        if kind.per_core() != (core != GLOBAL) || (core != GLOBAL && core >= cores) {
            return Err(bad(codes::E0103, at + 2, format!("core {core} of a section")));
        }
        if kind.per_engine() != matches!(engine, 1 | 2 | 3 | 5 | 6) || (!kind.per_engine() && engine != 0) {
            return Err(bad(codes::E0103, at + 3, format!("engine {engine} of a section")));
        }
        if le(b, at + 4, 4) != 0 || le(b, at + 28, 4) != 0 {
            return Err(bad(codes::E0102, at + 4, "reserved bytes of a section entry are not zero"));
        }
        if let Some(p) = sections.last()
            && (p.kind, p.core, p.engine) >= (kind, core, engine)
        {
            return Err(bad(codes::E0103, at, "the section table is not sorted"));
        }
        let (offset, len) = (le(b, at + 8, 8), le(b, at + 16, 8));
        if offset != end.next_multiple_of(64) as u64 {
            return Err(bad(codes::E0103, at + 8, "sections are not adjacent or not aligned"));
        }
        let offset = offset as usize;
        if len > (b.len().saturating_sub(offset)) as u64 {
            return Err(bad(codes::E0102, at + 16, "a section reaches beyond the end of the file"));
        }
        let len = len as usize;
        if let Some(k) = b[end..offset].iter().position(|x| *x != 0) {
            return Err(bad(codes::E0102, end + k, "padding is not zero"));
        }
        let bytes = &b[offset..offset + len];
        if u64::from(crc32(bytes)) != le(b, at + 24, 4) {
            return Err(bad(codes::E0102, offset, "the checksum of a section is wrong"));
        }
        if kind == Kind::Stream && (!len.is_multiple_of(BUNDLE_BYTES) || len / BUNDLE_BYTES > MAX_RECORDS) {
            return Err(bad(codes::E0103, at + 16, "a stream is not a whole number of records, or too long"));
        }
        id = fnv(id, bytes);
        end = offset + len;
        sections.push(Part { kind, core, engine, bytes: offset..end });
    }
    if end != b.len() {
        return Err(bad(codes::E0102, end, "bytes after the last section"));
    }
    if id != le(b, 32, 8) {
        return Err(bad(codes::E0102, 32, "the content id is wrong"));
    }
    Ok(Layout { arch, cores, flags, parts: sections })
}

impl Container {
    /// A section.
    pub fn section(&self, kind: Kind, core: u8, engine: u8) -> Option<&Section> {
        self.sections.iter().find(|s| (s.kind, s.core, s.engine) == (kind, core, engine))
    }
    /// A JSON section; an absent one is an empty list.
    pub(super) fn json(&self, kind: Kind, core: u8, engine: u8) -> Result<(Value, usize), Diagnostic> {
        match self.section(kind, core, engine) {
            None => Ok((Value::Array(Vec::new()), 0)),
            Some(s) => json::parse(&s.bytes)
                .map(|v| (v, s.offset))
                .ok_or_else(|| bad(codes::E0106, s.offset, "a table is not canonical JSON")),
        }
    }
    /// Records of a stream.
    pub fn records(&self, s: &Section) -> Vec<Bundle> {
        let (chunks, _) = s.bytes.as_chunks::<BUNDLE_BYTES>();
        chunks.iter().map(|c| Bundle(*c)).collect()
    }
    /// What the records of a stream cannot say, by first record.
    ///
    /// # Errors
    /// E0106 for a table of another shape.
    pub fn patches(&self, core: u8, engine: u8) -> Result<Vec<(u32, Patch)>, Diagnostic> {
        patches(self, core, engine)
    }
    /// Number of bundles in all streams.
    pub fn num_bundles(&self) -> usize {
        self.sections.iter().filter(|s| s.kind == Kind::Stream).map(|s| s.bytes.len() / BUNDLE_BYTES).sum()
    }
}

/// What the records of a stream cannot say, by first record.
pub(super) fn patches(c: &Container, core: u8, engine: u8) -> Result<Vec<(u32, Patch)>, Diagnostic> {
    let shape = |at: usize| bad(codes::E0106, at, "a table has another shape than its kind");
    let mut patches: Vec<(u32, Patch)> = Vec::new();
    let (list, at) = c.json(Kind::Records, core, engine)?;
    for e in list.as_array().ok_or_else(|| shape(at))? {
        let r = e[0].as_u64().and_then(|r| u32::try_from(r).ok()).ok_or_else(|| shape(at))?;
        patches.push((r, Patch::from_json(&e[1]).ok_or_else(|| shape(at))?));
    }
    let (cc, at) = c.json(Kind::CcTable, GLOBAL, 0)?;
    for e in cc.as_array().ok_or_else(|| shape(at))? {
        if e[0].as_u64() == Some(u64::from(core)) && e[1].as_u64() == Some(u64::from(engine)) {
            let r = e[2].as_u64().and_then(|r| u32::try_from(r).ok()).ok_or_else(|| shape(at))?;
            patches.push((r, Patch::from_json(&e[3]).ok_or_else(|| shape(at))?));
        }
    }
    patches.sort_by_key(|p| p.0);
    Ok(patches)
}
