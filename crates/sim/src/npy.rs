//! `.npy` files: bytes to tensors and back.
//!
//! Versions 1, 2 and 3 of the format, C and Fortran order, either byte order (big-endian data is converted). numpy has no
//! bfloat16 or fp8; what `numpy.save` writes for arrays of `ml_dtypes` is a void record of the same width (`<V2`, `<V1`),
//! and that is what [`write()`] makes. (For `float8_e5m2` numpy writes `<f1`, which it cannot load itself: accepted here,
//! written as `<V1`.) [`NpyArray::into_tensor`] accepts, for each element type, the plain type, a void record and an unsigned
//! integer of the same width (bit patterns).
//!
//! Nothing is allocated from what a header claims: shape and length are compared first.

use crate::tensor::Tensor;
use tandem_bir::{BirEnum as _, Dtype};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header accepted (our choice; numpy itself refuses more than 10,000 bytes from untrusted files).
const MAX_HEADER: usize = 1 << 16;

/// A file read: element kind as numpy spells it, shape, little-endian row-major bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyArray {
    /// Kind letter: `f` float, `i` signed, `u` unsigned, `V` void, `b` boolean.
    pub kind: char,
    /// Bytes per element.
    pub width: usize,
    /// Extents.
    pub shape: Vec<u64>,
    /// Elements in row-major order, little-endian.
    pub bytes: Vec<u8>,
}

/// Reads a file.
///
/// # Errors
/// A text when the file is not a `.npy` file, is cut short or has bytes left over, or holds a kind of element that is no
/// plain number.
pub fn read(file: &[u8]) -> Result<NpyArray, String> {
    let layout = Layout::of(file)?;
    let elements = file[layout.start..].to_vec();
    layout.array(elements)
}

/// The same; the elements stay in the memory of the file.
///
/// # Errors
/// As [`read`].
pub fn read_owned(mut file: Vec<u8>) -> Result<NpyArray, String> {
    let layout = Layout::of(&file)?;
    file.drain(..layout.start);
    layout.array(file)
}

/// What a header says, and where the elements start.
struct Layout {
    start: usize,
    order: char,
    kind: char,
    width: usize,
    fortran: bool,
    shape: Vec<u64>,
}

impl Layout {
    fn of(file: &[u8]) -> Result<Layout, String> {
        let rest = file.strip_prefix(MAGIC).ok_or("not a .npy file (no \\x93NUMPY at the start)")?;
        let (&[major, _minor], rest) =
            rest.split_first_chunk::<2>().ok_or("the file ends inside its header")?;
        let (len, rest) = match major {
            1 => {
                let (l, r) = rest.split_first_chunk::<2>().ok_or("the file ends inside its header")?;
                (u16::from_le_bytes(*l) as usize, r)
            }
            2 | 3 => {
                let (l, r) = rest.split_first_chunk::<4>().ok_or("the file ends inside its header")?;
                (u32::from_le_bytes(*l) as usize, r)
            }
            v => return Err(format!("version {v} of the .npy format is not known")),
        };
        if len > MAX_HEADER {
            return Err(format!("the header claims {len} bytes"));
        }
        if rest.len() < len {
            return Err("the file ends inside its header".into());
        }
        let (header, data) = rest.split_at(len);
        let text = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
        let h = Header::parse(text)?;

        let (order, kind, width) = type_str(&h.descr)?;
        let elems = h.shape.iter().try_fold(1u64, |a, &d| a.checked_mul(d));
        let want = elems.and_then(|n| n.checked_mul(width as u64));
        if want != Some(data.len() as u64) {
            return Err(format!(
                "shape {:?} of {}-byte elements does not fit the {} bytes of data",
                h.shape,
                width,
                data.len()
            ));
        }
        let start = file.len() - data.len();
        Ok(Layout { start, order, kind, width, fortran: h.fortran, shape: h.shape })
    }

    /// The array of these elements, as many as the shape says.
    fn array(self, mut bytes: Vec<u8>) -> Result<NpyArray, String> {
        if self.fortran {
            bytes = from_fortran(&bytes, self.width, &self.shape);
        }
        if self.order == '>' && self.kind != 'V' {
            for e in bytes.chunks_exact_mut(self.width) {
                e.reverse();
            }
        }
        Ok(NpyArray { kind: self.kind, width: self.width, shape: self.shape, bytes })
    }
}

/// Byte order, kind letter and width of a type string such as `<f4`.
fn type_str(descr: &str) -> Result<(char, char, usize), String> {
    let mut c = descr.chars();
    let bad = || format!("element type `{descr}` is not supported (plain numbers and void records are)");
    let (order, kind) = match (c.next(), c.next()) {
        (Some(o @ ('<' | '>' | '|' | '=')), Some(k)) => (o, k),
        _ => return Err(bad()),
    };
    let width: usize = c.as_str().parse().map_err(|_| bad())?;
    let ok = match kind {
        'f' => matches!(width, 1 | 2 | 4 | 8),
        'i' | 'u' => matches!(width, 1 | 2 | 4 | 8),
        'b' => width == 1,
        'V' => matches!(width, 1 | 2 | 4),
        _ => false,
    };
    if ok { Ok((order, kind, width)) } else { Err(bad()) }
}

/// Reorders column-major data into row-major; `data` holds exactly the elements of `shape`.
fn from_fortran(data: &[u8], width: usize, shape: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut stride = Vec::with_capacity(shape.len());
    let mut s = width;
    for &d in shape {
        stride.push(s);
        s *= d as usize;
    }
    let mut pos = vec![0u64; shape.len()];
    let mut at = 0usize;
    for _ in 0..data.len() / width {
        out.extend_from_slice(&data[at..at + width]);
        for k in (0..shape.len()).rev() {
            pos[k] += 1;
            at += stride[k];
            if pos[k] < shape[k] {
                break;
            }
            at -= stride[k] * shape[k] as usize;
            pos[k] = 0;
        }
    }
    out
}

/// The three entries of a header.
struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`. The grammar has no nesting, so neither has
    /// the parser; a structured `descr` (a list) is refused.
    fn parse(text: &str) -> Result<Header, String> {
        let mut p = Scan { s: text.trim_start() };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        p.expect('{')?;
        while !p.eat('}') {
            let key = p.string()?;
            p.expect(':')?;
            match key {
                "descr" => {
                    descr =
                        Some(p.string().map_err(|_| "structured element types are not supported")?.to_owned())
                }
                "fortran_order" => fortran = Some(p.boolean()?),
                "shape" => shape = Some(p.tuple()?),
                k => return Err(format!("header key `{k}` is not known")),
            }
            if !p.eat(',') {
                p.expect('}')?;
                break;
            }
        }
        if !p.s.trim().is_empty() {
            return Err("text after the header".into());
        }
        match (descr, fortran, shape) {
            (Some(descr), Some(fortran), Some(shape)) => Ok(Header { descr, fortran, shape }),
            _ => Err("the header lacks descr, fortran_order or shape".into()),
        }
    }
}

struct Scan<'a> {
    s: &'a str,
}

impl<'a> Scan<'a> {
    fn eat(&mut self, c: char) -> bool {
        self.s = self.s.trim_start();
        match self.s.strip_prefix(c) {
            Some(r) => {
                self.s = r;
                true
            }
            None => false,
        }
    }
    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) { Ok(()) } else { Err(format!("the header has no `{c}` where one belongs")) }
    }
    fn string(&mut self) -> Result<&'a str, String> {
        let q = if self.eat('\'') {
            '\''
        } else if self.eat('"') {
            '"'
        } else {
            return Err("the header has no quoted text where one belongs".into());
        };
        let (a, b) = self.s.split_once(q).ok_or("a quoted text of the header has no end")?;
        self.s = b;
        Ok(a)
    }
    fn boolean(&mut self) -> Result<bool, String> {
        self.s = self.s.trim_start();
        for (w, v) in [("True", true), ("False", false)] {
            if let Some(r) = self.s.strip_prefix(w) {
                self.s = r;
                return Ok(v);
            }
        }
        Err("fortran_order is neither True nor False".into())
    }
    fn tuple(&mut self) -> Result<Vec<u64>, String> {
        self.expect('(')?;
        let mut out = Vec::new();
        while !self.eat(')') {
            self.s = self.s.trim_start();
            let n = self.s.bytes().take_while(u8::is_ascii_digit).count();
            let v = self.s[..n].parse().map_err(|_| "an extent of the shape is no number")?;
            self.s = self.s[n..].strip_prefix('L').unwrap_or(&self.s[n..]);
            out.push(v);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(out)
    }
}

/// How `numpy.save` spells an element type: of `ml_dtypes` ones, the void record of that width.
pub fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Uint8 => "|u1",
        Dtype::Int8 => "|i1",
        Dtype::Uint16 => "<u2",
        Dtype::Int16 => "<i2",
        Dtype::Uint32 => "<u4",
        Dtype::Int32 => "<i4",
        Dtype::Uint64 => "<u8",
        Dtype::Int64 => "<i8",
        Dtype::Float16 => "<f2",
        Dtype::Float32 | Dtype::Float32r => "<f4",
        Dtype::Bfloat16 => "<V2",
        Dtype::Float8E3 | Dtype::Float8E4 | Dtype::Float8E4m3Fn | Dtype::Float8E8m0Fnu => "<V1",
        Dtype::Float8E5 => "<V1",
        Dtype::Float4E2m1FnX4 => "<u2",
        Dtype::Float8E4m3FnX4 | Dtype::Float8E5m2X4 => "<u4",
    }
}

impl NpyArray {
    /// The array as a tensor of an element type; the bits are taken as they are.
    ///
    /// # Errors
    /// A text naming what the file holds when that is neither the plain type nor a bit pattern of its width.
    pub fn into_tensor(self, name: &str, dtype: Dtype) -> Result<Tensor, String> {
        let plain = descr(dtype);
        let plain_kind = plain.chars().nth(1).unwrap_or('V');
        let same_width = self.width as u64 == dtype.bytes();
        let is_fp8 = plain_kind == 'V' && self.width == 1 && self.kind == 'f';
        let is_bool = dtype == Dtype::Uint8 && self.kind == 'b';
        if same_width && (self.kind == plain_kind || matches!(self.kind, 'V' | 'u') || is_bool || is_fp8) {
            return Ok(Tensor { name: name.to_owned(), dtype, shape: self.shape, bytes: self.bytes });
        }
        Err(format!(
            "`{}{}` elements cannot be {} (wanted `{plain}`, a void record or an unsigned integer of {} bytes)",
            self.kind,
            self.width,
            dtype.name(),
            dtype.bytes()
        ))
    }
}

/// A tensor as a `.npy` file (version 1, C order), as `numpy.save` writes it.
pub fn write(t: &Tensor) -> Vec<u8> {
    let dims: Vec<String> = t.shape.iter().map(u64::to_string).collect();
    let shape = match dims.as_slice() {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    };
    let mut head = format!("{{'descr': '{}', 'fortran_order': False, 'shape': {shape}, }}", descr(t.dtype));
    let before = MAGIC.len() + 4;
    let pad = 64 - (before + head.len() + 1) % 64;
    head.extend(std::iter::repeat_n(' ', pad % 64));
    head.push('\n');
    let mut out = Vec::with_capacity(before + head.len() + t.bytes.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(head.len() as u16).to_le_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&t.bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::{NpyArray, read_owned, write};
    use crate::tensor::Tensor;
    use proptest::prelude::*;
    use tandem_bir::Dtype;

    /// Both ways to read, which must agree.
    fn read(file: &[u8]) -> Result<NpyArray, String> {
        let a = super::read(file);
        assert_eq!(a, read_owned(file.to_vec()));
        a
    }

    /// `numpy.save` of `numpy.arange(6, dtype='<i2').reshape(2, 3)`, byte for byte (numpy 2).
    fn arange_2x3_i16() -> Vec<u8> {
        let mut v =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }".to_vec();
        v.resize(127, b' ');
        v.push(b'\n');
        for i in 0..6i16 {
            v.extend_from_slice(&i.to_le_bytes());
        }
        v
    }

    fn raw(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let head = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut v = b"\x93NUMPY\x01\x00".to_vec();
        v.extend_from_slice(&(head.len() as u16).to_le_bytes());
        v.extend_from_slice(head.as_bytes());
        v.extend_from_slice(data);
        v
    }

    #[test]
    fn writes_the_bytes_numpy_writes_and_reads_them_back() {
        let bytes: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
        let t = Tensor { name: "x".into(), dtype: Dtype::Int16, shape: vec![2, 3], bytes };
        assert_eq!(write(&t), arange_2x3_i16());
        assert_eq!(read(&arange_2x3_i16()).unwrap().into_tensor("x", Dtype::Int16).unwrap(), t);
    }

    #[test]
    fn reads_fortran_order_and_big_endian() {
        let data: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|v| v.to_be_bytes()).collect();
        let a = read(&raw(">i2", "True", "(2, 3)", &data)).unwrap();
        assert_eq!(a.bytes, (0..6i16).flat_map(i16::to_le_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn accepts_void_records_and_bit_patterns_for_bfloat16_and_fp8() {
        for descr in ["|V2", "<V2", "<u2"] {
            let a = read(&raw(descr, "False", "(1,)", &[0x80, 0x3f])).unwrap();
            assert_eq!(a.into_tensor("x", Dtype::Bfloat16).unwrap().bytes, [0x80, 0x3f]);
        }
        for descr in ["|V1", "<V1", "<f1", "|u1"] {
            let a = read(&raw(descr, "False", "()", &[0x38])).unwrap();
            assert_eq!(a.into_tensor("x", Dtype::Float8E4m3Fn).unwrap().bytes, [0x38]);
        }
        let a = read(&raw("<i2", "False", "(1,)", &[0, 0])).unwrap();
        assert!(a.into_tensor("x", Dtype::Bfloat16).unwrap_err().contains("bfloat16"));
    }

    #[test]
    fn refuses_a_shape_that_the_data_does_not_have() {
        for shape in ["(3,)", "(1,)", "(4294967296, 4294967296, 4294967296)", "(99999999999999999999,)"] {
            assert!(read(&raw("<f4", "False", shape, &[0; 8])).is_err(), "{shape}");
        }
        assert!(read(&raw("[('a', '<f4')]", "False", "(2,)", &[0; 8])).is_err());
        assert!(read(&raw("|O", "False", "(1,)", &[0; 8])).is_err());
    }

    proptest! {
        #[test]
        fn never_panics_on_damaged_files(at in 0usize..140, v in any::<u8>(), cut in 0usize..141) {
            let mut f = arange_2x3_i16();
            if let Some(b) = f.get_mut(at) { *b = v; }
            let _ = read(&f);
            f.truncate(cut);
            let _ = read(&f);
        }
    }
}
