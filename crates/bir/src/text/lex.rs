//! Tokens of textual BIR. Never fails by itself: a character that starts no token is a token of its own.

use std::borrow::Cow;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tok<'s> {
    /// Bare name or keyword.
    Word(&'s str),
    /// Quoted text, escapes resolved.
    Str(Cow<'s, str>),
    /// Number as written: integer, float, `inf` with a sign.
    Num(&'s str),
    /// Punctuation.
    Punct(&'static str),
    /// A text without end, or with an unknown escape: the message.
    Bad(&'static str),
    /// Any other character.
    Other(char),
    /// End of the text.
    Eof,
}

/// Place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Byte offset.
    pub(super) at: usize,
    /// Line, from 1.
    pub(super) line: u32,
    /// Byte offset where the line starts.
    pub(super) line_start: usize,
}

/// Reads tokens one after another.
#[derive(Clone)]
pub(super) struct Lexer<'s> {
    src: &'s str,
    spot: Spot,
}

/// Punctuation that starts with a byte; the longer one where the next byte belongs to it.
fn punct(c: u8, next: u8) -> Option<&'static str> {
    Some(match (c, next) {
        (b'<', b'-') => "<-",
        (b'>', b'=') => ">=",
        (b'+', b'=') => "+=",
        (b'{', _) => "{",
        (b'}', _) => "}",
        (b'[', _) => "[",
        (b']', _) => "]",
        (b'(', _) => "(",
        (b')', _) => ")",
        (b',', _) => ",",
        (b'=', _) => "=",
        (b':', _) => ":",
        (b'*', _) => "*",
        (b'@', _) => "@",
        (b'$', _) => "$",
        (b'/', _) => "/",
        (b'!', _) => "!",
        (b'-', _) => "-",
        (b'<', _) => "<",
        _ => return None,
    })
}

/// What a byte may be part of: [`START`], [`NAME`] and [`DIGIT`], by its value.
static CLASS: [u8; 256] = classes();
/// Starts a name.
const START: u8 = 1;
/// Continues a name.
const NAME: u8 = 2;
/// Is a decimal digit.
const DIGIT: u8 = 4;

const fn classes() -> [u8; 256] {
    let mut out = [0; 256];
    let mut c = 0;
    while c < 256 {
        let b = c as u8;
        if b.is_ascii_alphabetic() || b == b'_' {
            out[c] = START | NAME;
        } else if b.is_ascii_digit() {
            out[c] = DIGIT | NAME;
        } else if b == b'.' || b == b'-' {
            out[c] = NAME;
        }
        c += 1;
    }
    out
}

fn is(c: u8, class: u8) -> bool {
    CLASS[usize::from(c)] & class != 0
}

impl<'s> Lexer<'s> {
    pub(super) fn new(src: &'s str) -> Lexer<'s> {
        Lexer { src, spot: Spot { at: 0, line: 1, line_start: 0 } }
    }
    /// The whole text.
    pub(super) fn source(&self) -> &'s str {
        self.src
    }
    fn rest(&self) -> &'s str {
        self.src.get(self.spot.at..).unwrap_or("")
    }
    fn byte(&self, ahead: usize) -> u8 {
        self.src.as_bytes().get(self.spot.at + ahead).copied().unwrap_or(0)
    }
    fn skip_space(&mut self) {
        loop {
            match self.byte(0) {
                b'\n' => {
                    self.spot.at += 1;
                    self.spot.line = self.spot.line.saturating_add(1);
                    self.spot.line_start = self.spot.at;
                }
                b' ' | b'\t' | b'\r' => self.spot.at += 1,
                b';' => {
                    let rest = self.rest();
                    self.spot.at += rest.bytes().position(|c| c == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }
    /// Goes back to a place.
    pub(super) fn rewind(&mut self, spot: Spot) {
        self.spot = spot;
    }
    /// Place of the next token.
    pub(super) fn spot(&mut self) -> Spot {
        self.skip_space();
        self.spot
    }
    fn take(&mut self, n: usize) -> &'s str {
        let text = self.src.get(self.spot.at..self.spot.at + n).unwrap_or("");
        self.spot.at += text.len();
        text
    }
    fn run(&self, from: usize, ok: impl Fn(u8) -> bool) -> usize {
        let bytes = self.src.as_bytes().get(self.spot.at + from..).unwrap_or(&[]);
        from + bytes.iter().position(|c| !ok(*c)).unwrap_or(bytes.len())
    }
    /// The next token.
    pub(super) fn next(&mut self) -> Tok<'s> {
        self.skip_space();
        let c = self.byte(0);
        if is(c, START) {
            let n = self.run(1, |c| is(c, NAME));
            return Tok::Word(self.take(n));
        }
        if is(c, DIGIT) || (c == b'-' && (is(self.byte(1), DIGIT) || self.rest().starts_with("-inf"))) {
            return self.number();
        }
        if c == b'"' {
            return self.string();
        }
        if let Some(p) = punct(c, self.byte(1)) {
            self.spot.at += p.len();
            return Tok::Punct(p);
        }
        match self.rest().chars().next() {
            Some(c) => {
                self.spot.at += c.len_utf8();
                Tok::Other(c)
            }
            None => Tok::Eof,
        }
    }
    fn number(&mut self) -> Tok<'s> {
        let mut n = usize::from(self.byte(0) == b'-');
        if self.byte(n) == b'i' {
            return Tok::Num(self.take(n + 3));
        }
        if self.byte(n) == b'0' && self.byte(n + 1) == b'x' {
            n = self.run(n + 2, |c| c.is_ascii_hexdigit());
            return Tok::Num(self.take(n));
        }
        n = self.run(n, |c| is(c, DIGIT));
        if self.byte(n) == b'.' && self.byte(n + 1).is_ascii_digit() {
            n = self.run(n + 1, |c| c.is_ascii_digit());
        }
        if matches!(self.byte(n), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(n + 1), b'+' | b'-'));
            if self.byte(n + 1 + sign).is_ascii_digit() {
                n = self.run(n + 1 + sign, |c| c.is_ascii_digit());
            }
        }
        Tok::Num(self.take(n))
    }
    fn string(&mut self) -> Tok<'s> {
        self.spot.at += 1;
        let rest = self.rest();
        let plain = rest.bytes().position(|c| matches!(c, b'"' | b'\\' | b'\n')).unwrap_or(rest.len());
        if rest.as_bytes().get(plain) == Some(&b'"') {
            let text = self.take(plain);
            self.spot.at += 1;
            return Tok::Str(Cow::Borrowed(text));
        }
        let mut out = String::new();
        let mut chars = rest.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.spot.at += i + 1;
                    return Tok::Str(Cow::Owned(out));
                }
                '\n' => break,
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some(c @ ('"' | '\\')) => out.push(c),
                    Some('u') => {
                        let tail = rest.get(i + 2..).unwrap_or("");
                        let hex = tail.strip_prefix('{').and_then(|t| t.split_once('}')).map(|(h, _)| h);
                        let code = hex.filter(|h| h.len() <= 6).and_then(|h| u32::from_str_radix(h, 16).ok());
                        let (Some(hex), Some(c)) = (hex, code.and_then(char::from_u32)) else {
                            return Tok::Bad("`\\u{…}` needs a character's number in hexadecimal");
                        };
                        out.push(c);
                        for _ in 0..hex.chars().count() + 2 {
                            chars.next();
                        }
                    }
                    _ => {
                        return Tok::Bad(
                            "unknown escape; `\\\"`, `\\\\`, `\\n`, `\\t`, `\\r` and `\\u{…}` exist",
                        );
                    }
                },
                c => out.push(c),
            }
        }
        Tok::Bad("this text has no closing quote on its line")
    }
    /// The next characters as the file name of a source position (bare form).
    pub(super) fn path(&mut self) -> &'s str {
        self.skip_space();
        let n = self.run(0, |c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-' | b'/' | b'+'));
        self.take(n)
    }
    /// The next characters as one JSON value.
    pub(super) fn json(&mut self) -> Result<serde_json::Value, String> {
        self.skip_space();
        let mut stream = serde_json::Deserializer::from_str(self.rest()).into_iter::<serde_json::Value>();
        let value = match stream.next() {
            Some(v) => v.map_err(|e| e.to_string())?,
            None => return Err("a JSON value is missing".to_owned()),
        };
        let end = self.spot.at + stream.byte_offset();
        for (i, c) in self.src.as_bytes().get(self.spot.at..end).unwrap_or(&[]).iter().enumerate() {
            if *c == b'\n' {
                self.spot.line = self.spot.line.saturating_add(1);
                self.spot.line_start = self.spot.at + i + 1;
            }
        }
        self.spot.at = end;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(src: &str) -> Vec<Tok<'_>> {
        let mut l = Lexer::new(src);
        let mut out = Vec::new();
        loop {
            match l.next() {
                Tok::Eof => return out,
                t => out.push(t),
            }
        }
    }

    #[test]
    fn tokens_of_an_instruction() {
        use Tok::*;
        assert_eq!(
            all("a-1 = X @t[off -8, [64,1]] <- 1.5e-3 ; rest"),
            [
                Word("a-1"),
                Punct("="),
                Word("X"),
                Punct("@"),
                Word("t"),
                Punct("["),
                Word("off"),
                Num("-8"),
                Punct(","),
                Punct("["),
                Num("64"),
                Punct(","),
                Num("1"),
                Punct("]"),
                Punct("]"),
                Punct("<-"),
                Num("1.5e-3")
            ]
        );
        assert_eq!(all("-inf 6:10"), [Num("-inf"), Num("6"), Punct(":"), Num("10")]);
    }

    #[test]
    fn texts_and_their_faults() {
        assert_eq!(all(r#""a\"\u{1f600}b""#), [Tok::Str(Cow::Owned("a\"\u{1f600}b".into()))]);
        assert!(matches!(all("\"a\nb").first(), Some(Tok::Bad(_))));
        assert!(matches!(all(r#""\q""#).first(), Some(Tok::Bad(_))));
        assert!(matches!(all(r#""\u{110000}""#).first(), Some(Tok::Bad(_))));
    }
}
