//! Names of instructions to ids, for programs of millions of instructions.
//!
//! Nearly all names end in a counter (`inst.17`, `sendrecv-4`, `I-9`). [`NameTable`] splits them into a stem and a
//! number and keeps the numbers of one stem side by side in one list. Names that come in the order of their counters,
//! as all producers write them, are then read and written in the order of memory; a table of hashes touches a cold
//! line for every name instead, and holds ten times as many bytes.

use crate::ids::InstId;
use compact_str::CompactString;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;

/// A map from names to instructions.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    stems: FxHashMap<CompactString, Stem>,
}

/// All names with one stem.
#[derive(Clone, Debug, Default)]
struct Stem {
    /// The stem itself as a name.
    bare: PackedOption<InstId>,
    /// The first numbered name; most stems of names without a counter have no other.
    first: Option<(u64, InstId)>,
    more: Option<Box<Numbers>>,
}

/// Instructions by number.
#[derive(Clone, Debug, Default)]
struct Numbers {
    dense: Vec<PackedOption<InstId>>,
    held: u64,
    /// Numbers far beyond how many there are.
    sparse: FxHashMap<u64, InstId>,
}

/// Stem and number of a name: the longest tail of decimal digits that is a number as printed, up to 18 digits.
fn split(name: &str) -> (&str, Option<u64>) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (stem, tail) = name.split_at(name.len() - digits);
    let printed = digits == 1 || !tail.starts_with('0');
    match tail.parse() {
        Ok(n) if printed && digits <= 18 => (stem, Some(n)),
        _ => (name, None),
    }
}

impl NameTable {
    /// Enters a name; when it is taken, gives the instruction that has it and changes nothing.
    pub fn insert(&mut self, name: &str, inst: InstId) -> Result<(), InstId> {
        let (stem, number) = split(name);
        if !self.stems.contains_key(stem) {
            self.stems.insert(stem.into(), Stem::default());
        }
        let Some(entry) = self.stems.get_mut(stem) else { return Ok(()) };
        match number {
            None => take(&mut entry.bare, inst),
            Some(n) => match entry.first {
                None => {
                    entry.first = Some((n, inst));
                    Ok(())
                }
                Some((at, holder)) if at == n => Err(holder),
                Some(_) => entry.more.get_or_insert_default().insert(n, inst),
            },
        }
    }
    /// The instruction of this name.
    pub fn get(&self, name: &str) -> Option<InstId> {
        let (stem, number) = split(name);
        let entry = self.stems.get(stem)?;
        match (number, entry.first) {
            (None, _) => entry.bare.expand(),
            (Some(n), Some((at, holder))) if at == n => Some(holder),
            (Some(n), _) => entry.more.as_ref()?.get(n),
        }
    }
    /// Takes a name out.
    pub fn remove(&mut self, name: &str) -> Option<InstId> {
        let (stem, number) = split(name);
        let entry = self.stems.get_mut(stem)?;
        match (number, entry.first) {
            (None, _) => entry.bare.take(),
            (Some(n), Some((at, holder))) if at == n => {
                entry.first = None;
                Some(holder)
            }
            (Some(n), _) => entry.more.as_mut()?.remove(n),
        }
    }
}

fn take(slot: &mut PackedOption<InstId>, inst: InstId) -> Result<(), InstId> {
    match slot.expand() {
        Some(holder) => Err(holder),
        None => {
            *slot = inst.into();
            Ok(())
        }
    }
}

impl Numbers {
    /// The slot of a number in the list. The list grows up to twice what it holds, and a little for a start.
    fn slot(&mut self, n: u64) -> Option<&mut PackedOption<InstId>> {
        let n = usize::try_from(n).ok()?;
        if n >= self.dense.len() && (n as u64) < self.held.saturating_mul(2).saturating_add(64) {
            self.dense.resize(n + 1, PackedOption::default());
        }
        self.dense.get_mut(n)
    }
    fn insert(&mut self, n: u64, inst: InstId) -> Result<(), InstId> {
        if let Some(&holder) = self.sparse.get(&n) {
            return Err(holder);
        }
        match self.slot(n) {
            Some(slot) => take(slot, inst)?,
            None => {
                self.sparse.insert(n, inst);
            }
        }
        self.held += 1;
        Ok(())
    }
    fn get(&self, n: u64) -> Option<InstId> {
        let dense = usize::try_from(n).ok().and_then(|n| self.dense.get(n)).and_then(|slot| slot.expand());
        dense.or_else(|| self.sparse.get(&n).copied())
    }
    fn remove(&mut self, n: u64) -> Option<InstId> {
        let dense = usize::try_from(n).ok().and_then(|n| self.dense.get_mut(n)).and_then(PackedOption::take);
        let found = dense.or_else(|| self.sparse.remove(&n));
        self.held -= u64::from(found.is_some());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::EntityRef;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_name_splits_where_its_printed_number_begins() {
        assert_eq!(split("inst.17"), ("inst.", Some(17)));
        assert_eq!(split("a0"), ("a", Some(0)));
        assert_eq!(split("a00"), ("a00", None));
        assert_eq!(split("a017"), ("a017", None));
        assert_eq!(split("7"), ("", Some(7)));
        assert_eq!(split(""), ("", None));
        assert_eq!(split("a"), ("a", None));
        assert_eq!(split("é9"), ("é", Some(9)));
        assert_eq!(split("x1234567890123456789"), ("x1234567890123456789", None));
    }

    proptest! {
        /// The table is a map: whatever is entered, asked for and taken out, a hash map says the same.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u8..3, "(a|b.|)(0{0,2}[0-9]{0,2}|[1-9][0-9]{5,19})", 0usize..99), 0..200)) {
            let mut table = NameTable::default();
            let mut map: BTreeMap<String, InstId> = BTreeMap::new();
            for (what, name, id) in steps {
                let id = InstId::new(id);
                match what {
                    0 => {
                        let want = match map.get(&name) {
                            Some(holder) => Err(*holder),
                            None => { map.insert(name.clone(), id); Ok(()) }
                        };
                        prop_assert_eq!(table.insert(&name, id), want);
                    }
                    1 => prop_assert_eq!(table.remove(&name), map.remove(&name)),
                    _ => {}
                }
                prop_assert_eq!(table.get(&name), map.get(&name).copied());
            }
            for (name, id) in &map {
                prop_assert_eq!(table.get(name), Some(*id));
            }
        }
    }
}
