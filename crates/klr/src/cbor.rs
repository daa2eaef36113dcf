//! CBOR heads: the initial byte of an item and its argument.
//!
//! Knows the part of CBOR that KLR files use (definite lengths only) and enough of the rest to name it in messages.
//! Longer heads than needed are accepted and reported in [`Head::shortest`]; [`put_head`] writes the shortest.

/// Major type of unsigned integers.
pub(crate) const UNSIGNED: u8 = 0;
/// Major type of negative integers (`-1 - argument`).
pub(crate) const NEGATIVE: u8 = 1;
/// Major type of UTF-8 strings.
pub(crate) const TEXT: u8 = 3;
/// Major type of lists.
pub(crate) const LIST: u8 = 4;
/// Major type of tags.
pub(crate) const TAG: u8 = 6;
/// Major type of simple values and floats.
pub(crate) const SIMPLE: u8 = 7;

/// Initial byte and argument of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Major type, 0 to 7.
    pub(crate) major: u8,
    /// The low five bits of the initial byte.
    pub(crate) info: u8,
    /// Argument: value, length, count, tag or float bits.
    pub(crate) arg: u64,
    /// Bytes of the head, 1 to 9.
    pub(crate) len: usize,
}

impl Head {
    /// Whether the argument is written in as few bytes as possible. Floats always are.
    pub(crate) fn shortest(&self) -> bool {
        match (self.major, self.info) {
            (SIMPLE, _) => true,
            (_, 24) => self.arg >= 24,
            (_, 25) => self.arg > 0xff,
            (_, 26) => self.arg > 0xffff,
            (_, 27) => self.arg > 0xffff_ffff,
            _ => true,
        }
    }
}

/// Why there is no head at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// The input ends before or inside the head.
    Truncated,
    /// An indefinite length (or a lone break byte): CBOR, but not KLR.
    Indefinite,
    /// A head CBOR reserves.
    Reserved,
}

/// Reads the head at `pos`.
#[inline]
pub(crate) fn head(buf: &[u8], pos: usize) -> Result<Head, HeadError> {
    let rest = buf.get(pos..).unwrap_or_default();
    let Some((&first, tail)) = rest.split_first() else { return Err(HeadError::Truncated) };
    let (major, info) = (first >> 5, first & 0x1f);
    let (arg, len) = match info {
        0..=23 => (u64::from(info), 1),
        24 => (u64::from(u8::from_be_bytes(take(tail)?)), 2),
        25 => (u64::from(u16::from_be_bytes(take(tail)?)), 3),
        26 => (u64::from(u32::from_be_bytes(take(tail)?)), 5),
        27 => (u64::from_be_bytes(take(tail)?), 9),
        31 => return Err(HeadError::Indefinite),
        _ => return Err(HeadError::Reserved),
    };
    Ok(Head { major, info, arg, len })
}

#[inline]
fn take<const N: usize>(tail: &[u8]) -> Result<[u8; N], HeadError> {
    tail.first_chunk::<N>().copied().ok_or(HeadError::Truncated)
}

/// Appends the shortest head of `major` with argument `arg`.
#[inline]
pub(crate) fn put_head(out: &mut Vec<u8>, major: u8, arg: u64) {
    let m = major << 5;
    if arg < 24 {
        out.push(m | arg as u8);
    } else if let Ok(v) = u8::try_from(arg) {
        out.extend_from_slice(&[m | 24, v]);
    } else if let Ok(v) = u16::try_from(arg) {
        out.push(m | 25);
        out.extend_from_slice(&v.to_be_bytes());
    } else if let Ok(v) = u32::try_from(arg) {
        out.push(m | 26);
        out.extend_from_slice(&v.to_be_bytes());
    } else {
        out.push(m | 27);
        out.extend_from_slice(&arg.to_be_bytes());
    }
}

/// Names the item at `pos` for a message: `-128`, `a string of 4 bytes`, `the end of the file`.
pub(crate) fn describe(buf: &[u8], pos: usize) -> String {
    let h = match head(buf, pos) {
        Ok(h) => h,
        Err(HeadError::Truncated) => return "the end of the file".into(),
        Err(HeadError::Indefinite) => return "an item of indefinite length".into(),
        Err(HeadError::Reserved) => return "a reserved CBOR head".into(),
    };
    match (h.major, h.info) {
        (UNSIGNED, _) => h.arg.to_string(),
        (NEGATIVE, _) => i128::from(h.arg).saturating_neg().saturating_sub(1).to_string(),
        (2, _) => format!("a byte string of {} bytes", h.arg),
        (TEXT, _) => format!("a string of {} bytes", h.arg),
        (LIST, _) => format!("a list of {}", h.arg),
        (5, _) => "a map".into(),
        (TAG, _) => match (u8::try_from(h.arg >> 8), h.arg & 0xff) {
            (Ok(tag), constructor) => match crate::ast::type_name(tag) {
                Some(name) => format!("{name} (type tag {tag}, constructor {constructor})"),
                None => format!("a value of unknown type tag {tag}"),
            },
            (Err(_), _) => format!("CBOR tag {}", h.arg),
        },
        (SIMPLE, 20) => "false".into(),
        (SIMPLE, 21) => "true".into(),
        (SIMPLE, 22) => "null".into(),
        (SIMPLE, 25) => "a 16-bit float".into(),
        (SIMPLE, 26) => "a 32-bit float".into(),
        (SIMPLE, 27) => "a 64-bit float".into(),
        _ => format!("simple value {}", h.arg),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_written_in_the_shortest_form_and_read_back() {
        for (arg, len) in [
            (0u64, 1),
            (23, 1),
            (24, 2),
            (255, 2),
            (256, 3),
            (65535, 3),
            (65536, 5),
            (u64::from(u32::MAX), 5),
            (1 << 32, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Vec::new();
            put_head(&mut out, LIST, arg);
            assert_eq!(out.len(), len);
            let h = head(&out, 0).unwrap();
            assert_eq!((h.major, h.arg, h.len, h.shortest()), (LIST, arg, len, true));
            assert_eq!(head(&out[..len - 1], 0), Err(HeadError::Truncated));
        }
    }

    #[test]
    fn longer_heads_than_needed_are_marked() {
        for bytes in [
            &[0x18, 23][..],
            &[0x19, 0, 255],
            &[0x1a, 0, 0, 255, 255],
            &[0x1b, 0, 0, 0, 0, 255, 255, 255, 255],
        ] {
            assert!(!head(bytes, 0).unwrap().shortest(), "{bytes:x?}");
        }
        assert_eq!(head(&[0x9f], 0), Err(HeadError::Indefinite));
        assert_eq!(head(&[0x1c], 0), Err(HeadError::Reserved));
    }
}
