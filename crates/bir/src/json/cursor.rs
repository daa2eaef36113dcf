//! A pull reader over a JSON text: strict grammar, nesting limit, byte offsets, no allocation for plain strings.

use std::borrow::Cow;

/// Deepest nesting of arrays and objects (the limit serde_json has too).
pub(super) const MAX_JSON_DEPTH: u32 = 128;

/// A fault of the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    /// Byte offset.
    pub(super) at: usize,
    /// What is wrong.
    pub(super) message: String,
    /// The nesting limit was reached.
    pub(super) too_deep: bool,
}

type R<T> = Result<T, Syntax>;

/// Reads values one after another.
#[derive(Clone)]
pub(super) struct Cursor<'s> {
    src: &'s str,
    at: usize,
    depth: u32,
}

/// Kind of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a text",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        }
    }
}

impl<'s> Cursor<'s> {
    pub(super) fn new(src: &'s str) -> Cursor<'s> {
        Cursor { src, at: 0, depth: 0 }
    }
    /// Offset of the next byte.
    pub(super) fn offset(&self) -> usize {
        self.at
    }
    /// Goes to a value whose offset was noted before.
    pub(super) fn seek(&mut self, at: usize) {
        self.at = at;
    }
    pub(super) fn source(&self) -> &'s str {
        self.src
    }
    fn fail<T>(&self, message: impl Into<String>) -> R<T> {
        Err(Syntax { at: self.at, message: message.into(), too_deep: false })
    }
    fn byte(&self) -> u8 {
        self.src.as_bytes().get(self.at).copied().unwrap_or(0)
    }
    /// Skips white space.
    pub(super) fn space(&mut self) {
        while matches!(self.byte(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }
    fn found(&self) -> String {
        match self.src.get(self.at..).and_then(|r| r.chars().next()) {
            Some(c) => format!("`{}`", c.escape_debug()),
            None => "the end of the file".to_owned(),
        }
    }
    fn need(&mut self, c: u8) -> R<()> {
        self.space();
        if self.byte() == c {
            self.at += 1;
            return Ok(());
        }
        self.fail(format!("expected `{}`, found {}", char::from(c), self.found()))
    }
    /// Kind of the next value; the cursor is on its first byte afterwards.
    pub(super) fn kind(&mut self) -> R<Kind> {
        self.space();
        Ok(match self.byte() {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => return self.fail(format!("expected a value, found {}", self.found())),
        })
    }
    fn open(&mut self, c: u8) -> R<()> {
        self.need(c)?;
        if self.depth >= MAX_JSON_DEPTH {
            let message = format!("more than {MAX_JSON_DEPTH} levels of nesting");
            return Err(Syntax { at: self.at, message, too_deep: true });
        }
        self.depth += 1;
        Ok(())
    }
    /// Enters an object; then call [`Cursor::key`] until it gives `None`.
    pub(super) fn object(&mut self) -> R<bool> {
        self.open(b'{')?;
        Ok(true)
    }
    /// Next key of the object; the value must be read or skipped before the next call.
    pub(super) fn key(&mut self, first: &mut bool) -> R<Option<Cow<'s, str>>> {
        self.space();
        if self.byte() == b'}' {
            self.at += 1;
            self.depth -= 1;
            return Ok(None);
        }
        if !std::mem::replace(first, false) {
            self.need(b',')?;
            self.space();
        }
        let key = self.string()?;
        self.need(b':')?;
        self.space();
        Ok(Some(key))
    }
    /// Enters an array; then call [`Cursor::element`] until it gives `false`.
    pub(super) fn array(&mut self) -> R<bool> {
        self.open(b'[')?;
        Ok(true)
    }
    /// True when there is another element.
    pub(super) fn element(&mut self, first: &mut bool) -> R<bool> {
        self.space();
        if self.byte() == b']' {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.need(b',')?;
            self.space();
            if self.byte() == b']' {
                return self.fail("expected a value, found `]`");
            }
        }
        Ok(true)
    }
    fn literal(&mut self, word: &'static str) -> R<()> {
        if self.src.get(self.at..).is_some_and(|r| r.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        self.fail(format!("expected a value, found {}", self.found()))
    }
    pub(super) fn bool(&mut self) -> R<bool> {
        self.space();
        let yes = self.byte() == b't';
        self.literal(if yes { "true" } else { "false" })?;
        Ok(yes)
    }
    pub(super) fn null(&mut self) -> R<()> {
        self.space();
        self.literal("null")
    }
    /// The text of a number.
    pub(super) fn number(&mut self) -> R<&'s str> {
        self.space();
        let start = self.at;
        let bytes = self.src.as_bytes();
        let digits =
            |at: usize| bytes.get(at..).unwrap_or(&[]).iter().take_while(|c| c.is_ascii_digit()).count();
        let mut at = start + usize::from(self.byte() == b'-');
        let int = digits(at);
        if int == 0 || (int > 1 && bytes.get(at) == Some(&b'0')) {
            return self.fail("this is no JSON number");
        }
        at += int;
        if bytes.get(at) == Some(&b'.') {
            let n = digits(at + 1);
            if n == 0 {
                return self.fail("this is no JSON number");
            }
            at += 1 + n;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let n = digits(at + 1 + sign);
            if n == 0 {
                return self.fail("this is no JSON number");
            }
            at += 1 + sign + n;
        }
        self.at = at;
        Ok(self.src.get(start..at).unwrap_or(""))
    }
    pub(super) fn string(&mut self) -> R<Cow<'s, str>> {
        self.space();
        if self.byte() != b'"' {
            return self.fail(format!("expected a text, found {}", self.found()));
        }
        self.at += 1;
        let start = self.at;
        let n = self.plain();
        let plain = self.src.get(start..start + n).unwrap_or("");
        self.at += n;
        if self.byte() == b'"' {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        let mut out = plain.to_owned();
        loop {
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                b'\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ if self.at >= self.src.len() => return self.fail("this text has no end"),
                c if c < 0x20 => return self.fail("a control character inside a text must be escaped"),
                _ => {
                    let n = self.plain();
                    out.push_str(self.src.get(self.at..self.at + n).unwrap_or(""));
                    self.at += n;
                }
            }
        }
    }
    /// Length of the run of bytes that stand for themselves.
    fn plain(&self) -> usize {
        let rest = self.src.as_bytes().get(self.at..).unwrap_or(&[]);
        rest.iter().position(|c| matches!(c, b'"' | b'\\') || *c < 0x20).unwrap_or(rest.len())
    }
    fn escape(&mut self) -> R<char> {
        let c = self.byte();
        self.at += 1;
        Ok(match c {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let hi = self.hex4()?;
                let code = if (0xd800..0xdc00).contains(&hi) {
                    if self.byte() != b'\\' || self.src.as_bytes().get(self.at + 1) != Some(&b'u') {
                        return self.fail("a lone surrogate is no character");
                    }
                    self.at += 2;
                    let lo = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&lo) {
                        return self.fail("a lone surrogate is no character");
                    }
                    0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00)
                } else {
                    hi
                };
                match char::from_u32(code) {
                    Some(c) => c,
                    None => return self.fail("a lone surrogate is no character"),
                }
            }
            _ => {
                self.at -= 1;
                return self.fail("unknown escape in a text");
            }
        })
    }
    fn hex4(&mut self) -> R<u32> {
        let text = self.src.get(self.at..self.at + 4).filter(|t| t.bytes().all(|c| c.is_ascii_hexdigit()));
        match text.and_then(|t| u32::from_str_radix(t, 16).ok()) {
            Some(v) => {
                self.at += 4;
                Ok(v)
            }
            None => self.fail("`\\u` needs four hexadecimal digits"),
        }
    }
    /// Reads over one value of any kind, checking it.
    pub(super) fn skip(&mut self) -> R<()> {
        match self.kind()? {
            Kind::Object => {
                let mut first = self.object()?;
                while self.key(&mut first)?.is_some() {
                    self.skip()?;
                }
            }
            Kind::Array => {
                let mut first = self.array()?;
                while self.element(&mut first)? {
                    self.skip()?;
                }
            }
            Kind::String => {
                self.string()?;
            }
            Kind::Number => {
                self.number()?;
            }
            Kind::Bool => {
                self.bool()?;
            }
            Kind::Null => self.null()?,
        }
        Ok(())
    }
    /// One value of any kind.
    pub(super) fn value(&mut self) -> R<serde_json::Value> {
        self.space();
        let start = self.at;
        self.skip()?;
        let text = self.src.get(start..self.at).unwrap_or("");
        serde_json::from_str(text).map_err(|e| Syntax { at: start, message: e.to_string(), too_deep: false })
    }
    /// The text value of a member of the object the cursor is on; the cursor does not move. `None` when there is no such
    /// member, or it is no text, or the object is broken.
    pub(super) fn peek_text(&self, name: &str) -> Option<Cow<'s, str>> {
        let mut c = self.clone();
        let mut first = c.object().ok()?;
        while let Some(key) = c.key(&mut first).ok()? {
            if key == name {
                return c.string().ok();
            }
            c.skip().ok()?;
        }
        None
    }
    /// True when the object the cursor is on has this member.
    pub(super) fn has_member(&self, name: &str) -> bool {
        let mut c = self.clone();
        let Ok(mut first) = c.object() else { return false };
        while let Ok(Some(key)) = c.key(&mut first) {
            if key == name {
                return true;
            }
            if c.skip().is_err() {
                return false;
            }
        }
        false
    }
}

/// Line and column (from 1) of a byte offset.
pub(super) fn line_column(src: &str, at: usize) -> (u32, u32) {
    let before = src.as_bytes().get(..at.min(src.len())).unwrap_or(&[]);
    let line = before.iter().filter(|c| **c == b'\n').count() + 1;
    let start = before.iter().rposition(|c| *c == b'\n').map_or(0, |p| p + 1);
    let column = src.get(start..at.min(src.len())).map_or(at - start, |t| t.chars().count()) + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// JSON pointer of the value that starts at, or contains, a byte offset. Found by reading again, so that the normal
/// path pays nothing for it.
pub(super) fn pointer(src: &str, at: usize) -> String {
    let mut c = Cursor::new(src);
    let mut path = String::new();
    let _ = descend(&mut c, at, &mut path);
    path
}

/// True when the offset lies in the value that was read.
fn descend(c: &mut Cursor<'_>, at: usize, path: &mut String) -> R<bool> {
    let kind = c.kind()?;
    if c.offset() == at {
        return Ok(true);
    }
    let len = path.len();
    match kind {
        Kind::Object => {
            let mut first = c.object()?;
            while let Some(key) = c.key(&mut first)? {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                if descend(c, at, path)? {
                    return Ok(true);
                }
                path.truncate(len);
                if c.offset() > at {
                    return Ok(true);
                }
            }
        }
        Kind::Array => {
            let mut first = c.array()?;
            let mut i = 0usize;
            while c.element(&mut first)? {
                path.push_str(&format!("/{i}"));
                if descend(c, at, path)? {
                    return Ok(true);
                }
                path.truncate(len);
                i += 1;
                if c.offset() > at {
                    return Ok(true);
                }
            }
        }
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => c.skip()?,
    }
    Ok(c.offset() > at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_the_value() {
        let src = r#"{"a": [1, {"b/c": "x"}, 2], "d": 3}"#;
        for (what, want) in
            [("1", "/a/0"), ("\"x\"", "/a/1/b~1c"), ("2", "/a/2"), ("3", "/d"), ("{\"b", "/a/1")]
        {
            assert_eq!(pointer(src, src.find(what).unwrap_or(0)), want);
        }
        assert_eq!(pointer(src, 0), "");
    }

    #[test]
    fn agrees_with_serde_json_about_what_is_json() {
        for src in [
            "{}",
            "[]",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "01",
            "-",
            "1.",
            "1.e2",
            "1e",
            "1e+5",
            "-0.5E-3",
            "tru",
            "nul",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud83d\\ude00\"",
            "\"\\q\"",
            "\"a\nb\"",
            "\"",
            "[1 2]",
            "{1:2}",
            "[[]",
            "]",
            "",
            "  7 ",
            "\"\\/\\b\\f\"",
        ] {
            let mut c = Cursor::new(src);
            let ours = c.value().ok().filter(|_| {
                c.space();
                c.offset() == src.len()
            });
            assert_eq!(ours, serde_json::from_str(src).ok(), "{src}");
        }
    }
}
