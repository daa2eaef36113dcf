//! Names of instructions: unique in a function, in constant time each.
//!
//! A name that is taken gets `.1`, `.2`, ... appended (the specification, file 03 §1; the form of the suffix is our
//! choice). File 03 asks for uniqueness per block; ours holds for the whole function, which includes that, because
//! edges name instructions across blocks.

use indexmap::IndexMap;
use indexmap::map::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::fmt::Write as _;
use tandem_bir::{CompactString, InstId};

/// Names in use and what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    // The table itself holds numbers only, so that a million names stay in the reach of the caches.
    taken: IndexMap<CompactString, InstId, FxBuildHasher>,
    next: FxHashMap<CompactString, u64>,
}

impl Names {
    /// Takes `base`, or `base` with the first free suffix, for an instruction.
    pub(crate) fn take(&mut self, base: &str, inst: InstId) -> CompactString {
        let name = CompactString::new(base);
        match self.taken.entry(name) {
            Entry::Vacant(free) => {
                let name = free.key().clone();
                free.insert(inst);
                name
            }
            Entry::Occupied(taken) => {
                let next = self.next.entry(taken.key().clone()).or_insert(1);
                let mut name = CompactString::default();
                loop {
                    name.clear();
                    let _ = write!(name, "{base}.{next}");
                    *next += 1;
                    if let Entry::Vacant(free) = self.taken.entry(name.clone()) {
                        free.insert(inst);
                        return name;
                    }
                }
            }
        }
    }
    /// Makes room for more names.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.taken.reserve(more);
    }
    /// The instruction of this name.
    pub(crate) fn find(&self, name: &str) -> Option<InstId> {
        self.taken.get(name).copied()
    }
    /// Gives a name back.
    pub(crate) fn release(&mut self, name: &str) {
        self.taken.swap_remove(name);
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
