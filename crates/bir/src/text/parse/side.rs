//! Modules of a long text, read side by side.
//!
//! A line that begins with `module @` probably begins a module, and nothing before it changes how a module reads. So such
//! places of a long text are read ahead, each by a parser of its own. The parser of the program takes a module that was read
//! without a finding when it comes to just this place, and reads the module itself otherwise: what comes out, findings
//! included, is what one parser gives.

use super::super::lex::Spot;
use super::{ParseOptions, Parser};
use crate::diag::{Loc, LocEntry, LocTable};
use crate::module::Module;
use rayon::prelude::*;

/// Length of a text from which on its modules are read side by side (our choice: well above what waking a thread costs).
pub(super) const FROM_BYTES: usize = 1 << 20;

/// Places read ahead (our choice; no program has more modules).
const MOST: usize = 256;

/// A module read ahead.
pub(super) struct Ahead {
    /// Byte of the word `module`.
    start: usize,
    module: Module,
    /// Positions its instructions refer to.
    locs: LocTable,
    /// The token behind it.
    next: Spot,
}

/// Reads what looks like the modules of a text. Those with findings are left out.
pub(super) fn modules(src: &str, options: &ParseOptions<'_>) -> Vec<Ahead> {
    let mut starts = Vec::new();
    let (mut from, mut line) = (0, 1u32);
    while let Some(found) = src.get(from..).and_then(|rest| rest.find("\nmodule @")) {
        let at = from + found + 1;
        let lines = src.as_bytes().get(from..at).unwrap_or(&[]).iter().filter(|c| **c == b'\n').count();
        line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        starts.push(Spot { at, line, line_start: at });
        from = at;
    }
    if starts.len() < 2 || starts.len() > MOST {
        return Vec::new();
    }
    let read: Vec<Option<Ahead>> = starts.into_par_iter().map(|at| module(src, options, at)).collect();
    read.into_iter().flatten().collect()
}

fn module(src: &str, options: &ParseOptions<'_>, at: Spot) -> Option<Ahead> {
    let mut p = Parser::new(src, options, Some(at));
    if !p.eat_word("module") {
        return None;
    }
    let module = p.module().ok()?;
    let clean = p.errors.is_empty();
    clean.then_some(Ahead { start: at.at, module, locs: p.locs, next: p.spot })
}

impl Parser<'_, '_> {
    /// The module that starts here, when it was read ahead.
    pub(super) fn take_ahead(&mut self) -> Option<Module> {
        let k = self.ahead.iter().position(|a| a.start == self.spot.at)?;
        let mut a = self.ahead.swap_remove(k);
        self.lexer.rewind(a.next);
        self.advance();
        if self.locs.is_empty() {
            self.locs = a.locs;
            return Some(a.module);
        }
        let mut map: Vec<Loc> = Vec::with_capacity(a.locs.len());
        let moved = |map: &[Loc], loc: Loc| map.get(loc.0 as usize).copied().unwrap_or(loc);
        for entry in a.locs.into_entries() {
            let entry = match entry {
                LocEntry::Derived { pass, from } => LocEntry::Derived { pass, from: moved(&map, from) },
                LocEntry::Pos(_) | LocEntry::Byte(_) | LocEntry::Json(_) => entry,
            };
            map.push(self.locs.intern(entry));
        }
        for inst in a.module.insts.values_mut() {
            inst.loc = moved(&map, inst.loc);
        }
        Some(a.module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::two_core::swaps;
    use crate::text::print;

    /// Reads a text both ways.
    fn both(src: &str) {
        for own_positions in [false, true] {
            let options = ParseOptions { file: "t.bir", own_positions };
            let ahead = modules(src, &options);
            assert_eq!(
                super::super::read(src, &options, ahead),
                super::super::read(src, &options, Vec::new())
            );
        }
    }

    #[test]
    fn side_by_side_reads_as_one_after_the_other() {
        let text = print(&swaps(20));
        assert_eq!(modules(&text, &ParseOptions::default()).len(), 2);
        both(&text);
        // Positions of both cores, shared and derived ones.
        let mut k = 0;
        let located: String = text
            .lines()
            .map(|l| {
                k += 1;
                match l.contains(" = ") && l.starts_with("      ") {
                    true if k % 3 == 0 => format!("{l} !loc a.py:{}:1 via p via q\n", k % 7),
                    true if k % 3 == 1 => format!("{l} !loc a.py:{}:1\n", k % 5),
                    _ => format!("{l}\n"),
                }
            })
            .collect();
        assert!(located.contains("via"));
        both(&located);
    }

    #[test]
    fn faults_are_found_where_one_parser_finds_them() {
        let text = print(&swaps(4));
        let places: Vec<usize> = text.char_indices().map(|(i, _)| i).step_by(37).collect();
        for at in places {
            let (head, tail) = text.split_at(at);
            both(&format!("{head}${tail}"));
            both(head);
        }
        // What looks like a module inside a comment or behind the end of one.
        both(&text.replace("\nmodule @", "\n; x\nmodule @nothing\nmodule @"));
        both(&format!("{text}\nmodule @x arch gen3 {{ }}\n; \nmodule @y"));
    }
}
