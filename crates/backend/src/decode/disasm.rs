//! Text of streams: every record with its fields; bytes that no field explains are shown as such.

use super::pieces::{Index, Piece};
use crate::container::Container;
use crate::container::format::{Kind as Section, Section as SectionOf};
use crate::encode::addr::{Addr4, Addr8, INDIRECT_BIT};
use crate::encode::bundle::Bundle;
use crate::encode::desc::get_tensor;
use crate::encode::events;
use crate::encode::forms::{Form, Kind};
use crate::encode::opcodes;
use crate::encode::tables::{alu_of_wire, dtype_of_wire};
use serde_json::{Value, json};
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
    for f in form.fields {
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
    unexplained(b, form.used, &mut out);
    out
}

/// How a piece of a transfer or collective record is shown.
#[derive(Clone, Copy)]
enum Look {
    Number,
    Signed,
    Float,
    Dtype,
    Alu,
    /// An eight-byte address.
    Address,
    /// A packed run, 0 for 65536.
    Run,
}

type Piece8 = (u8, u8, &'static str, Look);

const TRANSFER: &[Piece8] = &[
    (0x0C, 1, "priority class", Look::Number),
    (0x0D, 1, "completion semaphore", Look::Number),
    (0x0E, 1, "completion increment", Look::Number),
    (0x0F, 1, "command", Look::Number),
    (0x10, 8, "source", Look::Address),
    (0x18, 4, "source step 0", Look::Signed),
    (0x1C, 4, "source step 1", Look::Signed),
    (0x20, 2, "source count 0", Look::Number),
    (0x22, 2, "source count 1", Look::Number),
    (0x24, 2, "source run", Look::Run),
    (0x26, 2, "offset registers", Look::Number),
    (0x28, 8, "destination", Look::Address),
    (0x30, 4, "destination step 0", Look::Signed),
    (0x34, 4, "destination step 1", Look::Signed),
    (0x38, 2, "destination count 0", Look::Number),
    (0x3A, 2, "destination count 1", Look::Number),
    (0x3C, 2, "destination run", Look::Run),
    (0x3E, 1, "source dtype", Look::Dtype),
    (0x3F, 1, "destination dtype", Look::Dtype),
];
const SHAPE: &[Piece8] = &[
    (0x0C, 2, "fixed", Look::Number),
    (0x0E, 1, "fixed", Look::Number),
    (0x10, 1, "transposition", Look::Number),
    (0x11, 1, "pairs", Look::Number),
    (0x20, 4, "step 0", Look::Signed),
    (0x24, 4, "step 1", Look::Signed),
    (0x28, 4, "step 2", Look::Signed),
    (0x2C, 4, "step 3", Look::Signed),
    (0x30, 4, "count 0", Look::Number),
    (0x34, 4, "count 1", Look::Number),
    (0x38, 4, "count 2", Look::Number),
    (0x3C, 4, "count 3", Look::Number),
];
const FOLD: &[Piece8] = &[
    (0x0C, 1, "fold operation", Look::Alu),
    (0x0D, 1, "source dtype", Look::Dtype),
    (0x0E, 1, "kind of extension", Look::Number),
    (0x10, 8, "source", Look::Address),
    (0x18, 4, "source step 0", Look::Signed),
    (0x1C, 4, "source step 1", Look::Signed),
    (0x20, 4, "source count 0", Look::Number),
    (0x24, 4, "source count 1", Look::Number),
    (0x30, 4, "its scale", Look::Float),
    (0x34, 4, "scale of the first source", Look::Float),
];
const TERM_REGISTER: &[Piece8] = &[
    (0x0C, 1, "side", Look::Number),
    (0x0D, 1, "term is a register", Look::Number),
    (0x0E, 1, "kind of extension", Look::Number),
    (0x0F, 1, "bounds flags", Look::Number),
    (0x10, 8, "elements per unit", Look::Signed),
    (0x18, 8, "largest index", Look::Signed),
    (0x20, 2, "dimension", Look::Signed),
    (0x22, 1, "register", Look::Number),
];
const TERM_INDEX: &[Piece8] = &[
    (0x0C, 1, "side", Look::Number),
    (0x0D, 1, "term is an index operand", Look::Number),
    (0x0E, 1, "kind of extension", Look::Number),
    (0x0F, 1, "bounds flags", Look::Number),
    (0x10, 8, "elements per unit", Look::Signed),
    (0x18, 8, "largest index", Look::Signed),
    (0x20, 2, "dimension", Look::Signed),
    (0x22, 1, "index dtype", Look::Dtype),
    (0x23, 1, "index pairs", Look::Number),
    (0x24, 8, "indexes", Look::Address),
    (0x2C, 4, "index step 0", Look::Signed),
    (0x30, 4, "index step 1", Look::Signed),
    (0x34, 4, "index step 2", Look::Signed),
    (0x38, 2, "index count 0", Look::Number),
    (0x3A, 2, "index count 1", Look::Number),
    (0x3C, 2, "index count 2", Look::Number),
];
const COLLECTIVE: &[Piece8] = &[
    (0x0C, 1, "op", Look::Alu),
    (0x0D, 1, "dtype", Look::Dtype),
    (0x0E, 1, "kind", Look::Number),
    (0x10, 8, "source", Look::Address),
    (0x18, 4, "source step 0", Look::Signed),
    (0x1C, 4, "source step 1", Look::Signed),
    (0x20, 4, "source count 0", Look::Number),
    (0x24, 4, "source count 1", Look::Number),
    (0x28, 8, "second source or destination", Look::Address),
    (0x30, 4, "its step 0", Look::Signed),
    (0x34, 4, "its step 1", Look::Signed),
    (0x38, 4, "its count 0", Look::Number),
    (0x3C, 4, "its count 1", Look::Number),
];
const COLLECTIVE_EXT: &[Piece8] = &[
    (0x0C, 1, "op", Look::Alu),
    (0x0D, 1, "dtype", Look::Dtype),
    (0x0E, 1, "kind", Look::Number),
    (0x10, 8, "destination", Look::Address),
    (0x18, 4, "destination step 0", Look::Signed),
    (0x1C, 4, "destination step 1", Look::Signed),
    (0x20, 4, "destination count 0", Look::Number),
    (0x24, 4, "destination count 1", Look::Number),
    (0x2A, 1, "operand pairs that follow", Look::Number),
    (0x2B, 1, "sources", Look::Number),
];

/// Pieces of a record of a transfer or a kept collective.
fn pieces_of(b: &Bundle, collective: bool) -> Option<&'static [Piece8]> {
    Some(match b.opcode() {
        0xD4 => TRANSFER,
        0xB2 => SHAPE,
        0xD9 => COLLECTIVE,
        0xDA if collective => COLLECTIVE_EXT,
        0xDA => match (b.byte(0x0E), b.byte(0x0D)) {
            (2, 1) => TERM_REGISTER,
            (2, _) => TERM_INDEX,
            _ => FOLD,
        },
        _ => return None,
    })
}

/// Fields of a transfer or collective record; anything else as 64 bytes. An address that is not there is zero.
fn plain_fields(b: &Bundle, arch: ArchLevel, collective: bool) -> String {
    let mut out = String::new();
    let Some(list) = pieces_of(b, collective) else {
        for line in b.dump().lines() {
            let _ = writeln!(out, "        {line}");
        }
        return out;
    };
    let mut known: u64 = 0xFFF;
    for &(off, width, name, look) in list {
        known |= ((1u64 << width) - 1) << off;
        let v = b.get(off, width);
        if v == 0 && matches!(look, Look::Address | Look::Signed | Look::Number) && off != 0x0F {
            continue;
        }
        let text = match look {
            Look::Number => v.to_string(),
            Look::Signed => b.get_i(off, width).to_string(),
            Look::Float => format!("{}", f32::from_bits(v as u32)),
            Look::Dtype => dtype(v as u8, arch),
            Look::Alu => alu_of_wire(v as u8, arch).map_or_else(|_| format!("{v:#x}?"), |a| a.to_string()),
            Look::Run => format!("{} bytes", if v == 0 { 65_536 } else { v }),
            Look::Address => match Addr8::from_wire(v) {
                Ok(a) if a.var == 0 => address(a.offset),
                Ok(a) => format!("variable {}+{:#x}", a.var, a.offset),
                Err(e) => e.message,
            },
        };
        let _ = writeln!(out, "        +{off:02X} {name}: {text}");
    }
    unexplained(b, known, &mut out);
    out
}

/// Bytes that no field names and that are not zero.
fn unexplained(b: &Bundle, known: u64, out: &mut String) {
    for (i, v) in b.0.iter().enumerate() {
        if *v != 0 && known >> i & 1 == 0 {
            let _ = writeln!(out, "        +{i:02X} reserved: {v:#04x}");
        }
    }
    if b.byte(1) != crate::encode::bundle::INST_WORD_LEN || b.get(2, 2) != 0 {
        let _ = writeln!(out, "        +01 header: {:02x} {:02x} {:02x}", b.byte(1), b.byte(2), b.byte(3));
    }
}

/// A record, explained.
struct Explained {
    index: usize,
    opcode: u8,
    name: &'static str,
    mark: &'static str,
    sync: String,
    /// Name and position of the instruction that it is the first record of.
    label: Option<String>,
    /// Its fields, one line each.
    fields: String,
}

/// Text of one stream. `names` are sorted by first record.
pub fn stream(records: &[Bundle], arch: ArchLevel, names: &[(u32, String)]) -> String {
    let mut out = String::new();
    explain(records, arch, names, &mut |e, _| out.push_str(&e.text()));
    out
}

impl Explained {
    fn text(&self) -> String {
        let Explained { index, opcode, name, mark, sync, label, fields } = self;
        let mark = if mark.is_empty() { String::new() } else { format!(" ({mark})") };
        let label = label.as_ref().map_or_else(String::new, |l| format!("  ; {l}"));
        format!("{index:>6} {opcode:02X} {name}{mark}{sync}{label}\n{fields}")
    }
    fn json(&self, b: &Bundle) -> Value {
        // A line of text is `+offset name: value`; what is no field has neither.
        let field = |line: &str| {
            let line = line.trim();
            let parts = line.strip_prefix('+').and_then(|l| {
                let (off, rest) = l.split_once(' ')?;
                let (name, value) = rest.split_once(": ")?;
                Some((u8::from_str_radix(off, 16).ok()?, name, value))
            });
            match parts {
                Some((off, name, value)) => json!({"offset": off, "name": name, "value": value}),
                None => json!({"offset": null, "name": null, "value": line}),
            }
        };
        let bytes: String = b.0.iter().fold(String::new(), |mut s, x| {
            let _ = write!(s, "{x:02x}");
            s
        });
        json!({
            "index": self.index, "opcode": self.opcode, "name": self.name, "remark": self.mark, "sync": self.sync.trim(),
            "instruction": self.label, "bytes": bytes, "fields": self.fields.lines().map(field).collect::<Vec<_>>(),
        })
    }
}

fn explain(
    records: &[Bundle],
    arch: ArchLevel,
    names: &[(u32, String)],
    sink: &mut dyn FnMut(&Explained, &Bundle),
) {
    let index = Index::default();
    let mut at = 0;
    let mut next = 0;
    while at < records.len() {
        let (n, piece) = match index.at(&records[at..]) {
            Ok((n, p)) => (n.clamp(1, records.len() - at), Some(p)),
            Err(_) => (1, None),
        };
        let mut label = match names.get(next) {
            Some((r, s)) if *r as usize == at => {
                next += 1;
                Some(s.clone())
            }
            _ => None,
        };
        for (k, b) in records[at..at + n].iter().enumerate() {
            let form = match piece {
                Some(Piece::Rows(g)) => g.forms.get(k).copied(),
                Some(Piece::Dma | Piece::Collective) | None => None,
            };
            let mark = match (piece, form) {
                (Some(Piece::Rows(_)), Some(f)) if !f.authentic => "layout ours",
                (Some(Piece::Collective), _) => "layout ours",
                (Some(Piece::Dma), _) if n > 1 => "layout ours",
                (None, _) => "no instruction",
                _ => "",
            };
            let e = Explained {
                index: at + k,
                opcode: b.opcode(),
                name: opcodes::name(b.opcode()),
                mark,
                sync: sync(b),
                label: label.take(),
                fields: match form {
                    Some(f) => fields(b, f, arch),
                    None => plain_fields(b, arch, matches!(piece, Some(Piece::Collective))),
                },
            };
            sink(&e, b);
        }
        at += n;
    }
}

/// Text that is handed on in pieces of this size (our choice).
const PIECE: usize = 1 << 16;

/// Text of a container: its streams in order.
pub fn disasm(c: &Container) -> String {
    let mut out = String::new();
    write_text(c, &mut |piece| out.push_str(piece));
    out
}

/// Text of a container, in pieces: that of a long one is many times its size.
pub fn write_text(c: &Container, sink: &mut dyn FnMut(&str)) {
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
        explain(&records, c.arch, &names, &mut |e, _| {
            out.push_str(&e.text());
            if out.len() >= PIECE {
                sink(&out);
                out.clear();
            }
        });
    }
    sink(&out);
}

/// The same for programs: streams in order, each a list of records with their bytes and fields.
pub fn to_json(c: &Container) -> Value {
    let streams = c.sections.iter().filter(|s| s.kind == Section::Stream).map(|s| {
        let mut rows: Vec<Value> = Vec::new();
        each_row(c, s, &mut |v| rows.push(v));
        let (core, engine) = (s.core, engine_name(s));
        json!({"core": core, "engine": engine, "records": rows})
    });
    json!({"arch": c.arch.name(), "streams": streams.collect::<Vec<_>>()})
}

fn engine_name(s: &SectionOf) -> &'static str {
    EngineKind::from_ordinal(u16::from(s.engine)).unwrap_or(EngineKind::Unassigned).name()
}

fn each_row(c: &Container, s: &SectionOf, sink: &mut dyn FnMut(Value)) {
    let names = c.section(Section::Debug, s.core, s.engine).map_or_else(Vec::new, |d| labels(&d.bytes));
    explain(&c.records(s), c.arch, &names, &mut |e, b| sink(e.json(b)));
}

/// The indented text of [`to_json`] with `more` beside its members, in pieces.
pub fn write_json(c: &Container, more: &[(&str, Value)], sink: &mut dyn FnMut(&str)) {
    let streams: Vec<&SectionOf> = c.sections.iter().filter(|s| s.kind == Section::Stream).collect();
    // what stands around the records, with a mark in place of each list
    let mark = |k: usize| format!("\u{1}{k}");
    let frame: Vec<Value> = streams
        .iter()
        .enumerate()
        .map(|(k, s)| json!({"core": s.core, "engine": engine_name(s), "records": mark(k)}))
        .collect();
    let mut v = json!({"arch": c.arch.name(), "streams": frame});
    if let Some(m) = v.as_object_mut() {
        m.extend(more.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    }
    let text = serde_json::to_string_pretty(&v).unwrap_or_default();
    let mut rest = text.as_str();
    let mut out = String::new();
    for (k, s) in streams.iter().enumerate() {
        let quoted = serde_json::to_string(&mark(k)).unwrap_or_default();
        let Some((before, after)) = rest.split_once(quoted.as_str()) else { continue };
        rest = after;
        out.push_str(before);
        let line = before.rsplit('\n').next().unwrap_or("");
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let mut any = false;
        each_row(c, s, &mut |row| {
            out.push_str(if any { "," } else { "[" });
            any = true;
            for line in serde_json::to_string_pretty(&row).unwrap_or_default().lines() {
                let _ = write!(out, "\n{indent}  {line}");
            }
            if out.len() >= PIECE {
                sink(&out);
                out.clear();
            }
        });
        if any {
            let _ = write!(out, "\n{indent}]");
        } else {
            out.push_str("[]");
        }
    }
    out.push_str(rest);
    sink(&out);
}

/// Names and positions of a debug table.
fn labels(bytes: &[u8]) -> Vec<(u32, String)> {
    let table: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    table["records"].as_array().map_or_else(Vec::new, |l| {
        l.iter()
            .filter_map(|e| {
                let mut t = e[1].as_str()?.to_owned();
                if let (Some(f), Some(l)) = (e[5].as_str(), e[6].as_u64()) {
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
