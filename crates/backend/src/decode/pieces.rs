//! Cutting a stream into the records of single instructions.

use crate::encode::bundle::{Bundle, WireError, WireResult};
use crate::encode::collective;
use crate::encode::dma;
use crate::encode::events::{UPDATE_NONE, WAIT_NONE};
use crate::encode::forms::{Group, Kind};
use crate::encode::opcodes;
use crate::encode::rows::GROUPS;
use tandem_bir::diag::codes;

/// What a run of records is.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Row forms.
    Rows(&'static Group),
    /// A transfer with its extensions.
    Dma,
    /// A kept collective with its extensions.
    Collective,
}

/// Groups by first opcode byte, longer ones first.
pub struct Index(Vec<Vec<&'static Group>>);

impl Default for Index {
    fn default() -> Self {
        let mut by = vec![Vec::new(); 256];
        for g in GROUPS {
            if let Some(f) = g.forms.first() {
                by[f.byte as usize].push(*g);
            }
        }
        for list in &mut by {
            list.sort_by_key(|g: &&Group| std::cmp::Reverse(g.forms.len()));
        }
        Index(by)
    }
}

impl Index {
    /// The piece at the start of `records` and its length.
    ///
    /// # Errors
    /// E0104 when no instruction starts here.
    pub fn at(&self, records: &[Bundle]) -> WireResult<(usize, Piece)> {
        let Some(b) = records.first() else {
            return Err(WireError::new(codes::E0104, "no record"));
        };
        match b.opcode() {
            0xD4 => return Ok((dma::group_len(records), Piece::Dma)),
            0xD9 => {
                return Ok((collective::group_len(records), Piece::Collective));
            }
            _ => {}
        }
        for g in &self.0[b.opcode() as usize] {
            if matches(records, g) {
                return Ok((g.forms.len(), Piece::Rows(g)));
            }
        }
        let name = opcodes::name(b.opcode());
        Err(WireError::new(
            codes::E0104,
            format!("no instruction starts with this record: opcode {:#04x} ({name})", b.opcode()),
        ))
    }
}

fn matches(records: &[Bundle], g: &Group) -> bool {
    let n = g.forms.len();
    if records.len() < n {
        return false;
    }
    for (i, (f, b)) in g.forms.iter().zip(records).enumerate() {
        if b.opcode() != f.byte {
            return false;
        }
        if i > 0 && b.byte(4) != WAIT_NONE || i + 1 < n && b.byte(6) != UPDATE_NONE {
            return false;
        }
        for k in f.fields {
            if let Kind::Const(v) = k.kind
                && b.get(k.off, k.width) != v
            {
                return false;
            }
        }
    }
    true
}

/// Every piece of a stream as `(first record, piece)`; an entry of error ends the list.
pub fn pieces(records: &[Bundle]) -> Vec<WireResult<(usize, Piece)>> {
    let index = Index::default();
    let mut out = Vec::new();
    let mut at = 0;
    while at < records.len() {
        match index.at(&records[at..]) {
            Ok((n, p)) => {
                out.push(Ok((at, p)));
                at += n.max(1);
            }
            Err(e) => {
                out.push(Err(e));
                break;
            }
        }
    }
    out
}
