//! Numbers and sentences for people.

use maud::{Markup, html};

/// A sentence whose names between backquotes are set as code.
pub(super) fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // Names come in pairs of quotes; a text with one left over is shown as it is.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (i, p) in parts.iter().enumerate() {
            @if i % 2 == 1 { code { (p) } } @else { (p) }
        }
    }
}

/// A time with a unit, three or four digits.
pub(super) fn time(ps: u64) -> String {
    let x = ps as f64;
    let (v, unit) = match ps {
        0 => return "0 ns".to_owned(),
        1..1_000 => return format!("{ps} ps"),
        1_000..1_000_000 => (x / 1e3, "ns"),
        1_000_000..1_000_000_000 => (x / 1e6, "µs"),
        1_000_000_000..1_000_000_000_000 => (x / 1e9, "ms"),
        _ => (x / 1e12, "s"),
    };
    format!("{} {unit}", digits(v))
}

fn digits(v: f64) -> String {
    let s = match v {
        v if v >= 100.0 => format!("{v:.1}"),
        v if v >= 10.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    };
    if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s }
}

/// Bytes with a unit.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{} KiB", digits(n as f64 / 1024.0)),
        1_048_576..1_073_741_824 => format!("{} MiB", digits(n as f64 / 1_048_576.0)),
        _ => format!("{} GiB", digits(n as f64 / 1_073_741_824.0)),
    }
}

/// A number with its thousands apart.
pub(super) fn number(n: u64) -> String {
    let s = n.to_string();
    let mut out = String::with_capacity(s.len() + s.len() / 3);
    for (i, c) in s.chars().enumerate() {
        if i > 0 && (s.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// `1 core`, `2 cores`.
pub(super) fn count(n: u64, word: &str) -> String {
    format!("{} {word}{}", number(n), if n == 1 { "" } else { "s" })
}

/// A share in percent, one digit after the point.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_backquotes_are_code() {
        assert_eq!(prose("a `b<c` d").into_string(), "a <code>b&lt;c</code> d");
        assert_eq!(prose("a ` b").into_string(), "a ` b");
    }

    #[test]
    fn times_and_sizes_have_the_unit_that_fits() {
        assert_eq!(time(0), "0 ns");
        assert_eq!(time(12), "12 ps");
        assert_eq!(time(1_000), "1 ns");
        assert_eq!(time(500_000), "500 ns");
        assert_eq!(time(10_795_400), "10.8 µs");
        assert_eq!(time(28_300_000_000), "28.3 ms");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(524_288), "512 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(1, "core"), "1 core");
        assert_eq!(percent(1, 3), "33.3 %");
    }
}
