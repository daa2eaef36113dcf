//! Where things come from: [`Loc`] is an index into a [`LocTable`], which knows files, lines and derivations.

use compact_str::CompactString;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Index of a source position; [`Loc::NONE`] when unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loc(pub u32);

impl Loc {
    /// Unknown position.
    pub const NONE: Loc = Loc(u32::MAX);
}

/// A position in a source file. Lines and columns count as the producer counted them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourcePos {
    /// File name as the producer wrote it.
    pub file: CompactString,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// Last line, when known.
    pub end_line: Option<u32>,
    /// Last column, when known.
    pub end_column: Option<u32>,
}

impl std::fmt::Display for SourcePos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One entry of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LocEntry {
    /// A position in the kernel's source or in a textual file.
    Pos(SourcePos),
    /// Byte offset in a binary file.
    Byte(u64),
    /// JSON pointer in a JSON file.
    Json(CompactString),
    /// Made by a pass from something else.
    Derived {
        /// Name of the pass.
        pass: CompactString,
        /// What it was made from.
        from: Loc,
    },
}

/// Interned source positions. Equal entries share an index.
#[derive(Clone, Debug, Default)]
pub struct LocTable {
    // Each entry is held once: a file of a million lines has a million of them.
    entries: IndexSet<LocEntry, FxBuildHasher>,
}

impl PartialEq for LocTable {
    fn eq(&self, other: &Self) -> bool {
        self.entries.iter().eq(&other.entries)
    }
}

impl LocTable {
    /// Index of an entry, added when new.
    pub fn intern(&mut self, entry: LocEntry) -> Loc {
        Loc(self.entries.insert_full(entry).0 as u32)
    }
    /// The entry at an index.
    pub fn get(&self, loc: Loc) -> Option<&LocEntry> {
        self.entries.get_index(loc.0 as usize)
    }
    /// A `Derived` entry.
    pub fn derive(&mut self, pass: &str, from: Loc) -> Loc {
        self.intern(LocEntry::Derived { pass: pass.into(), from })
    }
    /// The source position behind an index, through derivations.
    pub fn source(&self, mut loc: Loc) -> Option<&SourcePos> {
        loop {
            match self.get(loc)? {
                LocEntry::Pos(p) => return Some(p),
                LocEntry::Derived { from, .. } if from.0 < loc.0 => loc = *from,
                LocEntry::Derived { .. } | LocEntry::Byte(_) | LocEntry::Json(_) => return None,
            }
        }
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// All entries in index order, taken out.
    pub fn into_entries(self) -> impl ExactSizeIterator<Item = LocEntry> {
        self.entries.into_iter()
    }
    /// All entries in index order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &LocEntry> {
        self.entries.iter()
    }
}
