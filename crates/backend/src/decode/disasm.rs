//! Text of streams: every record with its fields; bytes that no field explains are shown as such.

use super::pieces::{Index, Piece};
use crate::container::Container;
use crate::container::format::Kind as Section;
use crate::encode::addr::{Addr4, Addr8, INDIRECT_BIT};
use crate::encode::bundle::Bundle;
use crate::encode::desc::get_tensor;
use crate::encode::events;
use crate::encode::forms::{Form, Kind};
use crate::encode::opcodes;
use crate::encode::tables::{alu_of_wire, dtype_of_wire};
use std::fmt::Write as _;
use tandem_bir::{ArchLevel, BirEnum, EngineKind};

/// Text of an on-chip address word.
fn address(word: u32) -> String {
    let indirect = if word & INDIRECT_BIT != 0 { " (index)" } else { "" };
    match Addr4::from_wire(word & !INDIRECT_BIT) {
        Ok(Addr4::Sbuf { partition, byte }) => format!("SBUF p{partition}+{byte:#x}{indirect}"),
        Ok(Addr4::Psum { partition, byte }) => {
            format!("PSUM p{partition} bank {}+{:#x}{indirect}", byte / 2048, byte % 2048)
        }
        Ok(Addr4::Register(r)) => format!("[r{r}]{indirect}"),
        Err(_) => format!("{word:#010x} (no address)"),
    }
}

fn dtype(code: u8, arch: ArchLevel) -> String {
    dtype_of_wire(code, arch).map_or_else(|_| format!("dtype {code}?"), |d| d.to_string())
}

/// Text of the sync region.
fn sync(b: &Bundle) -> String {
    let r = if b.opcode() == 0xA0 { events::get_extended(b) } else { events::get(b) };
    match r {
        Ok(s) => {
            let mut out = String::new();
            for w in &s.on_wait {
                let _ = write!(out, " wait sem{} >= {}", w.sem, w.value);
            }
            for u in &s.on_update {
                let _ = write!(out, " then sem{} {:+}", u.sem, u.value);
            }
            out
        }
        Err(_) => format!(" events {:02x?}", &b.0[4..12]),
    }
}

/// Fields of a record, one line each: offset, name, value.
pub fn fields(b: &Bundle, form: &Form, arch: ArchLevel) -> String {
    let mut out = String::new();
    let mut known: u64 = 0xFFF;
    for f in form.fields {
        let n = u32::from(f.width).min(63);
        known |= ((1u64 << n) - 1) << f.off;
        let v = b.get(f.off, f.width.min(8));
        let text = match f.kind {
            Kind::Tensor(_, rank, _) => match get_tensor(b, f.off, rank) {
                Ok((word, free)) => {
                    let dims: Vec<String> = free.iter().map(|p| format!("[{},{}]", p.step, p.num)).collect();
                    format!("{} {}", address(word), dims.join(""))
                }
                Err(e) => e.message,
            },
            Kind::Pointer(_) => address(v as u32),
            Kind::Dtype(_) => dtype(v as u8, arch),
            Kind::DtypeLow(_) => dtype(v as u8 & 15, arch),
            Kind::DtypeHigh(_) => dtype(v as u8 >> 4, arch),
            Kind::Alu(_) => alu_of_wire(v as u8, arch).map_or_else(|_| format!("{v:#x}?"), |a| a.to_string()),
            Kind::F32(_) => format!("{}", f32::from_bits(v as u32)),
            Kind::Int(_) => b.get_i(f.off, f.width.min(8)).to_string(),
            Kind::Flag(_, bit) => (v >> bit & 1).to_string(),
            Kind::Register(_) => format!("r{v}"),
            Kind::Const(_)
            | Kind::Channels(_)
            | Kind::Channels32(_)
            | Kind::Elems(_)
            | Kind::Enum(..)
            | Kind::ImmSource(_)
            | Kind::BiasSource(_)
            | Kind::ImmValue(_)
            | Kind::Part
            | Kind::Special(_) => format!("{v:#x}"),
        };
        let _ = writeln!(out, "        +{:02X} {}: {text}", f.off, f.name);
    }
    for (i, v) in b.0.iter().enumerate() {
        if *v != 0 && known >> i & 1 == 0 {
            let _ = writeln!(out, "        +{i:02X} reserved: {v:#04x}");
        }
    }
    out
}

/// Fields of a transfer or collective record.
fn plain_fields(b: &Bundle, arch: ArchLevel) -> String {
    let mut out = String::new();
    if b.opcode() != 0xD4 {
        for (i, row) in b.0[12..].chunks(13).enumerate() {
            let hex: Vec<String> = row.iter().map(|x| format!("{x:02X}")).collect();
            let _ = writeln!(out, "        +{:02X} {}", 12 + 13 * i, hex.join(" "));
        }
        return out;
    }
    let _ = writeln!(
        out,
        "        +0C priority {}, completion sem{} +{}, command {}",
        b.byte(0x0C),
        b.byte(0x0D),
        b.byte(0x0E),
        b.byte(0x0F)
    );
    for (off, name) in [(0x10u8, "source"), (0x28, "destination")] {
        let text = match Addr8::from_wire(b.get(off, 8)) {
            Ok(a) if a.var == 0 => address(a.offset),
            Ok(a) => format!("variable {}+{:#x}", a.var, a.offset),
            Err(e) => e.message,
        };
        let run = match b.get(off + 20, 2) {
            0 => 65_536,
            n => n,
        };
        let _ = writeln!(
            out,
            "        +{off:02X} {name}: {text} [{},{}][{},{}] runs of {run} bytes",
            b.get_i(off + 12, 4),
            b.get(off + 18, 2),
            b.get_i(off + 8, 4),
            b.get(off + 16, 2),
        );
    }
    let _ =
        writeln!(out, "        +3E dtypes: {} to {}", dtype(b.byte(0x3E), arch), dtype(b.byte(0x3F), arch));
    out
}

/// Text of one stream. `names` are sorted by first record.
pub fn stream(records: &[Bundle], arch: ArchLevel, names: &[(u32, String)]) -> String {
    let index = Index::default();
    let mut out = String::new();
    let mut at = 0;
    let mut next = 0;
    while at < records.len() {
        let (n, piece) = match index.at(&records[at..]) {
            Ok((n, p)) => (n.clamp(1, records.len() - at), Some(p)),
            Err(_) => (1, None),
        };
        let label = match names.get(next) {
            Some((r, s)) if *r as usize == at => {
                next += 1;
                format!("  ; {s}")
            }
            _ => String::new(),
        };
        for (k, b) in records[at..at + n].iter().enumerate() {
            let form = match piece {
                Some(Piece::Rows(g)) => g.forms.get(k).copied(),
                Some(Piece::Dma | Piece::Collective) | None => None,
            };
            let mark = match (piece, form) {
                (Some(Piece::Rows(_)), Some(f)) if !f.authentic => " (layout ours)",
                (Some(Piece::Collective), _) => " (layout ours)",
                (Some(Piece::Dma), _) if n > 1 => " (layout ours)",
                (None, _) => " (no instruction)",
                _ => "",
            };
            let label = if k == 0 { label.as_str() } else { "" };
            let (op, name, s) = (b.opcode(), opcodes::name(b.opcode()), sync(b));
            let _ = writeln!(out, "{:>6} {op:02X} {name}{mark}{s}{label}", at + k);
            match form {
                Some(f) => out.push_str(&fields(b, f, arch)),
                None => out.push_str(&plain_fields(b, arch)),
            }
        }
        at += n;
    }
    out
}

/// Text of a container: its streams in order.
pub fn disasm(c: &Container) -> String {
    let mut out = String::from(
        "; byte +0x21 of Sb2sbCollective: number of active partitions (another reading: base partition on the peer)\n",
    );
    for s in c.sections.iter().filter(|s| s.kind == Section::Stream) {
        let engine = EngineKind::from_ordinal(u16::from(s.engine)).unwrap_or(EngineKind::Unassigned);
        let names = c.section(Section::Debug, s.core, s.engine).map_or_else(Vec::new, |d| labels(&d.bytes));
        let records = c.records(s);
        let _ = writeln!(
            out,
            "core {} {} ({}), {} records",
            s.core,
            engine.name(),
            engine.external_name(),
            records.len()
        );
        out.push_str(&stream(&records, c.arch, &names));
    }
    out
}

/// Names and positions of a debug table.
fn labels(bytes: &[u8]) -> Vec<(u32, String)> {
    let table: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    table.as_array().map_or_else(Vec::new, |l| {
        l.iter()
            .filter_map(|e| {
                let mut t = e[1].as_str()?.to_owned();
                if let (Some(f), Some(l)) = (e[2].as_str(), e[3].as_u64()) {
                    let _ = write!(t, " at {f}:{l}");
                }
                Some((u32::try_from(e[0].as_u64()?).ok()?, t))
            })
            .collect()
    })
}

/// Every record layout that is our own: `(opcode, name, what is ours)`, in opcode order.
pub fn own_layouts() -> Vec<(u8, &'static str, &'static str)> {
    let mut out: Vec<(u8, &'static str, &'static str)> = Vec::new();
    for f in crate::encode::rows::GROUPS.iter().flat_map(|g| g.forms) {
        if !f.authentic && !out.iter().any(|(b, ..)| *b == f.byte) {
            out.push((
                f.byte,
                opcodes::name(f.byte),
                "no public field map; slots of the documented families",
            ));
        }
    }
    for (b, why) in [
        (0xB2, "exact patterns of transpositions, replications and run-time transfers"),
        (0xD9, "place of the destination of a kept collective"),
        (0xDA, "further sources, accumulation and run-time terms of transfers; kept collectives"),
    ] {
        out.push((b, opcodes::name(b), why));
    }
    out.sort_by_key(|(b, ..)| *b);
    out
}
