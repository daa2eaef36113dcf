//! Names of instructions: unique in a function, in constant time each.
//!
//! A name that is taken gets `.1`, `.2`, ... appended (the specification, file 03 §1; the form of the suffix is our
//! choice). File 03 asks for uniqueness per block; ours holds for the whole function, which includes that, because
//! edges name instructions across blocks.

use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use tandem_bir::names::NameTable;
use tandem_bir::{CompactString, InstId};

/// Names in use and what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: NameTable,
    next: FxHashMap<CompactString, u64>,
}

impl Names {
    /// Takes `base`, or `base` with the first free suffix, for an instruction.
    pub(crate) fn take(&mut self, base: &str, inst: InstId) -> CompactString {
        let mut name = CompactString::new(base);
        if self.taken.insert(base, inst).is_ok() {
            return name;
        }
        let next = self.next.entry(name.clone()).or_insert(1);
        loop {
            name.clear();
            let _ = write!(name, "{base}.{next}");
            *next += 1;
            if self.taken.insert(&name, inst).is_ok() {
                return name;
            }
        }
    }
    /// The instruction of this name.
    pub(crate) fn find(&self, name: &str) -> Option<InstId> {
        self.taken.get(name)
    }
    /// Gives a name back.
    pub(crate) fn release(&mut self, name: &str) {
        self.taken.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_bir::entity::EntityRef;

    #[test]
    fn collisions_get_suffixes() {
        let mut n = Names::default();
        let i = InstId::new(0);
        assert_eq!(n.take("a", i), "a");
        assert_eq!(n.take("a.1", i), "a.1");
        assert_eq!(n.take("a", i), "a.2");
        assert_eq!(n.take("a", i), "a.3");
        n.release("a.2");
        assert_eq!(n.find("a.2"), None);
        assert_eq!(n.find("a.3"), Some(i));
    }
}
