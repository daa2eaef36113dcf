//! Shared by the tests: sample files, a random generator, an independent decoder and a table-driven writer.
//!
//! Nothing here uses the reader, the writer or the declarations of the crate.
#![allow(dead_code, reason = "each test uses its own part")]

use std::path::{Path, PathBuf};

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Names and bytes of the `.klr` files of a folder of `testdata`, sorted by name.
pub(crate) fn samples(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut list: Vec<_> = std::fs::read_dir(data().join(folder))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "klr"))
        .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap()))
        .collect();
    list.sort();
    assert!(!list.is_empty());
    list
}

pub(crate) fn sample(name: &str) -> Vec<u8> {
    std::fs::read(data().join("klr").join(name)).unwrap()
}

/// xorshift64*: the same numbers everywhere.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

// ---- independent decoder: generic CBOR, plus which tags have fields without bytes ----

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Int(i128),
    Text(String),
    List(Vec<Item>),
    /// Type tag, constructor, announced fields, fields with bytes.
    Tagged(u8, u8, usize, Vec<Item>),
    Bool(bool),
    F32(u32),
}

fn byte(b: &mut &[u8]) -> u8 {
    let x = b[0];
    *b = &b[1..];
    x
}

pub(crate) fn decode(b: &mut &[u8]) -> Item {
    let first = byte(b);
    let n: u64 = match first % 32 {
        i @ 0..24 => i as u64,
        i @ 24..28 => (0..1 << (i - 24)).fold(0, |n, _| n * 256 + byte(b) as u64),
        _ => panic!("head {first:x}"),
    };
    match first / 32 {
        0 => Item::Int(n as i128),
        1 => Item::Int(-1 - n as i128),
        3 => {
            let (text, rest) = b.split_at(n as usize);
            *b = rest;
            Item::Text(String::from_utf8(text.to_vec()).unwrap())
        }
        4 => Item::List((0..n).map(|_| decode(b)).collect()),
        6 => {
            let (tag, constructor) = ((n / 256) as u8, (n % 256) as u8);
            let announced = (byte(b) - 0x80) as usize;
            let without_bytes = match tag {
                114 => 2,
                115 | 118 => 1,
                _ => 0,
            };
            Item::Tagged(tag, constructor, announced, (without_bytes..announced).map(|_| decode(b)).collect())
        }
        7 if first == 0xfa => Item::F32(n as u32),
        7 if n == 20 || n == 21 => Item::Bool(n == 21),
        _ => panic!("head {first:x}"),
    }
}

/// The items of a file.
pub(crate) fn decode_file(bytes: &[u8]) -> Vec<Item> {
    let mut b = bytes;
    let mut items = Vec::new();
    while !b.is_empty() {
        items.push(decode(&mut b));
    }
    items
}

/// Where two trees differ: path of child indices and both values, leaves only.
pub(crate) fn differences(a: &Item, b: &Item, path: &str, out: &mut Vec<(String, Item, Item)>) {
    let children = |x: &Item| match x {
        Item::List(v) => Some((None, v.clone())),
        Item::Tagged(t, c, n, v) => Some((Some((*t, *c, *n)), v.clone())),
        _ => None,
    };
    match (children(a), children(b)) {
        (Some((ha, ca)), Some((hb, cb))) if ha == hb && ca.len() == cb.len() => {
            for (i, (x, y)) in ca.iter().zip(&cb).enumerate() {
                differences(x, y, &format!("{path}/{i}"), out);
            }
        }
        _ if a == b => {}
        _ => out.push((path.to_string(), a.clone(), b.clone())),
    }
}

// ---- table-driven writer of random values ----

#[derive(Debug, Clone)]
pub(crate) struct TypeRow {
    pub(crate) kind: String,
    pub(crate) tag: u8,
    pub(crate) name: String,
    /// Name, type (empty: none), proposition, absent from 2.24.
    pub(crate) parts: Vec<(String, String, bool, bool)>,
}

pub(crate) fn type_table() -> Vec<TypeRow> {
    include_str!("../types.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| {
            let mut w = l.split(' ');
            let kind = w.next().unwrap().to_string();
            let tag = w.next().unwrap().parse().unwrap();
            let name = w.next().unwrap().to_string();
            let parts = w
                .map(|p| {
                    let (flag, p) = match p.as_bytes()[0] {
                        f @ (b'!' | b'?') => (f, &p[1..]),
                        _ => (0, p),
                    };
                    let (n, t) = p.split_once(':').unwrap_or((p, ""));
                    (n.to_string(), t.to_string(), flag == b'!', flag == b'?')
                })
                .collect();
            TypeRow { kind, tag, name, parts }
        })
        .collect()
}

pub(crate) struct Gen {
    pub(crate) rng: Rng,
    pub(crate) table: Vec<TypeRow>,
    pub(crate) out: Vec<u8>,
    /// Write the 2.24 layout.
    pub(crate) old: bool,
    /// Write propositions as empty lists.
    pub(crate) prop_bytes: bool,
    /// Operator to write next instead of a random one.
    pub(crate) operator: Option<usize>,
    depth: usize,
}

impl Gen {
    pub(crate) fn new(seed: u64) -> Gen {
        let (rng, table) = (Rng(seed * 2 + 1), type_table());
        Gen { rng, table, out: Vec::new(), old: false, prop_bytes: false, operator: None, depth: 0 }
    }

    pub(crate) fn head(&mut self, major: u8, n: u64) {
        let m = major * 32;
        let bytes = n.to_be_bytes();
        match n {
            0..24 => self.out.push(m + n as u8),
            24..0x100 => self.out.extend([m + 24, n as u8]),
            0x100..0x1_0000 => self.out.extend([&[m + 25][..], &bytes[6..]].concat()),
            0x1_0000..0x1_0000_0000 => self.out.extend([&[m + 26][..], &bytes[4..]].concat()),
            _ => self.out.extend([&[m + 27][..], &bytes].concat()),
        }
    }

    pub(crate) fn tagged(&mut self, tag: u8, constructor: usize, fields: usize) {
        self.out.extend([0xd9, tag, constructor as u8, 0x80 + fields as u8]);
    }

    pub(crate) fn text(&mut self, s: &str) {
        self.head(3, s.len() as u64);
        self.out.extend(s.bytes());
    }

    /// A file: header, metadata, and an LNC kernel (or one for one core).
    pub(crate) fn file(&mut self, lnc: bool) {
        self.out.extend([0xd9, 0xd9, 0xf7, 0x83, 0, 0, 12, 0xd9, 0xeb, 0, 0x81]);
        self.text("NKI");
        self.tagged(236, if lnc { 3 } else { 2 }, 1);
        self.value(if lnc { "LncKernel" } else { "Kernel" });
    }

    /// A kernel whose only statement is this operator.
    pub(crate) fn file_of_operator(&mut self, operator: usize) {
        self.out.extend([0xd9, 0xd9, 0xf7, 0x83, 0, 0, 12, 0xd9, 0xeb, 0, 0x81]);
        self.text("NKI");
        self.tagged(236, 2, 1);
        self.tagged(105, 0, 4);
        self.text("k");
        self.head(4, 1);
        self.value("TensorName");
        self.head(4, 0);
        self.head(4, 1);
        self.tagged(104, 0, 3);
        self.text("main.1");
        self.out.push(0xf4);
        self.head(4, 1);
        self.operator = Some(operator);
        self.value("Stmt");
    }

    fn dims(&mut self) -> (Vec<u64>, u64) {
        let dims: Vec<u64> = (0..self.rng.below(4)).map(|_| self.rng.below(300) as u64).collect();
        let elements = dims.iter().product();
        (dims, elements)
    }

    /// A tensor that fits its address; its rank.
    fn tensor(&mut self) -> usize {
        let (free, elements) = self.dims();
        self.tagged(114, 0, 8);
        self.value("String");
        self.value("Dtype");
        let par = self.rng.below(129) as u64;
        self.tagged(112, 0, 2);
        self.head(0, par);
        self.head(4, free.len() as u64);
        free.iter().for_each(|d| self.head(0, *d));
        self.tagged(113, 0, 7);
        self.value("String");
        self.value("Memory");
        let extra = self.rng.below(3) as u64;
        self.head(0, par + extra);
        self.head(0, elements * 8 + extra);
        self.value("Option.Nat");
        self.value("Option.Nat");
        self.value("Bool");
        self.head(0, elements);
        self.prop();
        self.prop();
        self.value("Bool");
        free.len() + 1
    }

    fn prop(&mut self) {
        if self.prop_bytes {
            self.out.push(0x80);
        }
    }

    pub(crate) fn value(&mut self, ty: &str) {
        if let Some(of) = ty.strip_prefix("Option.") {
            let some = self.rng.one_in(2) && !(of == "Access" && self.depth > 6);
            self.tagged(255, some as usize, some as usize);
            if some {
                self.value(of);
            }
            return;
        }
        if let Some(of) = ty.strip_prefix("List.") {
            let n = self.rng.below(4);
            self.head(4, n as u64);
            (0..n).for_each(|_| self.value(of));
            return;
        }
        let edge = self.rng.one_in(4);
        let bits = self.rng.next() >> self.rng.below(64);
        match ty {
            "Nat" => return self.head(0, if edge { u64::MAX } else { bits }),
            "Int" | "Int32" => {
                let top = if ty == "Int" { 63 } else { 31 };
                let n = if edge { (1 << top) - 1 } else { bits % (1 << top) };
                let major = self.rng.below(2) as u8;
                return self.head(major, n);
            }
            "Bool" => return self.out.push(0xf4 + (bits & 1) as u8),
            "Float32" => {
                self.out.push(0xfa);
                let bits: u32 = if edge { 0x7fa0_0001 } else { self.rng.next() as u32 };
                return self.out.extend(bits.to_be_bytes());
            }
            "String" => {
                let s: String = (0..self.rng.below(40))
                    .map(|_| *['a', 'b', '.', '7', 'ä', '\u{1f980}'].get(self.rng.below(6)).unwrap())
                    .collect();
                return self.text(&s);
            }
            "TensorName" => {
                self.tensor();
                return;
            }
            "Slice" => {
                self.tagged(115, 0, 4);
                self.head(0, bits);
                self.value("Nat");
                let (major, n) = (self.rng.below(2) as u8, self.rng.below(100) as u64 + 1);
                self.head(major, n);
                return self.prop();
            }
            "AccessBasic" => {
                self.tagged(118, 0, 3);
                let rank = self.tensor();
                self.head(4, rank as u64);
                (0..rank).for_each(|_| self.value("Index"));
                return self.prop();
            }
            _ => {}
        }
        let row = self.table.iter().find(|r| r.name == ty).unwrap_or_else(|| panic!("type {ty}")).clone();
        match row.kind.as_str() {
            "struct" => {
                let parts: Vec<_> = row.parts.iter().filter(|p| !(self.old && p.3)).collect();
                self.tagged(row.tag, 0, parts.len());
                parts.iter().for_each(|p| self.value(&p.1));
            }
            _ => {
                let nested = ty == "Access";
                self.depth += nested as usize;
                let mut pick = self.rng.below(row.parts.len());
                if ty == "Operator" {
                    pick = self.operator.take().unwrap_or(pick);
                }
                if ty == "ScalarOffset" && self.depth > 6 {
                    pick = 0;
                }
                let of = row.parts[pick].1.clone();
                self.tagged(row.tag, pick, !of.is_empty() as usize);
                if !of.is_empty() {
                    self.value(&of);
                }
                self.depth -= nested as usize;
            }
        }
    }
}
