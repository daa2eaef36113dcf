//! Accesses are compared; what races is reported once, with the edge that would order it.

use super::slots::{last_of_thread, share_a_byte};
use super::{Access, Found, Race, Role, join};
use tandem_bir::InstId;
use tandem_bir::entity::EntityRef as _;

/// Findings after which the rest is only counted.
const MOST: usize = 100;

/// The finding that explains a race, and the edge that would order both.
#[derive(Clone, Copy)]
struct Explained {
    by: usize,
    edge: (Access, Access),
}

impl Race {
    /// An access of a thread to a slot: compares, then takes its place.
    pub(crate) fn access(&mut self, slot: u32, thread: usize, core: usize, inst: InstId, role: Role) {
        self.seq += 1;
        let me = Access {
            thread: thread as u32,
            tick: self.clocks[thread][thread],
            seq: self.seq,
            core: core as u32,
            inst,
            role,
        };
        let mut hit: Option<(Access, u32)>;
        let mut doubt: Option<(Access, u32)>;
        let mut follows: Option<(Access, Explained)>;
        // Whether what a write changes may settle it; found out when it matters.
        let mut by_value = None;
        loop {
            (hit, doubt, follows) = (None, None, None);
            let clock = &self.clocks[thread];
            let before = |a: &Access| clock[a.thread as usize] >= a.tick;
            'near: for &n in &self.slots[slot as usize].near {
                let s = &self.slots[n as usize];
                // A read behind one of several equal writes gets their value.
                let known = !role.writes() && !s.silent.is_empty() && s.writes().any(&before);
                let writes = s.writes().filter(|_| !known);
                let reads = s.reads.iter().filter(|_| role.writes());
                for a in writes.chain(reads).filter(|a| !before(a)) {
                    if self.compare_values
                        && role.writes()
                        && a.core != me.core
                        && (a.role.writes() || self.own(slot, a))
                        && *by_value.get_or_insert_with(|| !self.read_before(slot, &before))
                    {
                        doubt = doubt.or(Some((*a, n)));
                        continue;
                    }
                    match self.explained(a, &me) {
                        Some(why) => follows = Some((*a, why)),
                        None => {
                            hit = Some((*a, n));
                            break 'near;
                        }
                    }
                }
            }
            let Some((_, n)) = hit else { break };
            if share_a_byte(&self.slots[n as usize].fp, &self.slots[slot as usize].fp) {
                break;
            }
            // The quick test had given up and answered "maybe".
            self.slots[n as usize].near.retain(|x| *x != slot);
            self.slots[slot as usize].near.retain(|x| *x != n);
        }
        match (hit, follows) {
            (Some((other, n)), _) => self.report(other, n, me, slot),
            (None, Some((other, why))) => {
                if let Some(f) = self.found.get_mut(why.by) {
                    f.edge = why.edge;
                }
                self.as_if_ordered(&other, &me);
            }
            (None, None) => {}
        }
        if let (None, Some((other, n))) = (hit, doubt) {
            self.doubts.push((other, n, me, slot));
            return;
        }
        let clock = &self.clocks[thread];
        let s = &mut self.slots[slot as usize];
        if role.writes() {
            s.replace(me);
        } else {
            s.reads.retain(|r| clock[r.thread as usize] < r.tick);
            s.reads.push(me);
        }
    }

    /// A read comes behind a write of its own core to the slot: they touch common bytes, so the two are ordered or have
    /// been reported.
    fn own(&self, slot: u32, read: &Access) -> bool {
        self.slots[slot as usize].writes().any(|w| w.core == read.core && w.seq < read.seq)
    }

    /// Something that is not ordered before has read bytes of a slot before they were last changed.
    fn read_before(&self, slot: u32, before: &impl Fn(&Access) -> bool) -> bool {
        let near = &self.slots[slot as usize].near;
        near.iter().any(|n| self.slots[*n as usize].old_reads.iter().any(|r| !before(r)))
    }

    /// Writes that nothing orders with an access of another core wait for their values: they are a race unless they changed
    /// nothing. Gives the pair to name in a note, once for each.
    pub(crate) fn settle(&mut self, changed: bool) -> Option<(Access, Access)> {
        let mut pair = None;
        for (other, n, me, slot) in std::mem::take(&mut self.doubts) {
            if changed {
                if share_a_byte(&self.slots[n as usize].fp, &self.slots[slot as usize].fp) {
                    self.report(other, n, me, slot);
                }
                self.slots[slot as usize].replace(me);
                continue;
            }
            last_of_thread(&mut self.slots[slot as usize].silent, me);
            if other.role.writes() && self.equal.insert(((other.core, other.inst), (me.core, me.inst))) {
                pair = pair.or(Some((other, me)));
            }
        }
        pair
    }

    fn report(&mut self, other: Access, n: u32, me: Access, slot: u32) {
        let (a, b) = (&self.slots[n as usize].fp, &self.slots[slot as usize].fp);
        let found = Found {
            first: other,
            second: me,
            both_write: other.role.writes() && me.role.writes(),
            edge: self.in_order(&other, &me),
            known: self.clocks[me.thread as usize].clone(),
            same: 0,
            bytes: (a.low.max(b.low), a.high.min(b.high)),
            partitions: (a.partition.max(b.partition), a.last_partition().min(b.last_partition())),
        };
        let (a, b) = ((other.core, other.inst), (me.core, me.inst));
        if self.reported.insert((a.min(b), a.max(b))) {
            let stretch = |a: &Access| self.place(a).1;
            let (x, y) = (stretch(&other), stretch(&me));
            let key = (x.min(y), x.max(y));
            let known = self.stretches.get(&key).filter(|_| other.core != me.core);
            if let Some(f) = known.and_then(|k| self.found.get_mut(*k)) {
                f.same += 1;
            } else if self.found.len() < MOST {
                if other.core != me.core {
                    self.stretches.insert(key, self.found.len());
                }
                self.found.push(found);
            } else {
                self.more += 1;
            }
        }
        self.as_if_ordered(&other, &me);
    }

    fn place(&self, a: &Access) -> (u32, u32) {
        self.order[a.core as usize].get(a.inst.index()).copied().unwrap_or((u32::MAX, u32::MAX))
    }

    /// Two accesses of a core in program order.
    fn in_order(&self, a: &Access, b: &Access) -> (Access, Access) {
        if self.place(a).0 <= self.place(b).0 { (*a, *b) } else { (*b, *a) }
    }

    /// An earlier finding inside a core explains a race: one edge would order both.
    fn explained(&self, other: &Access, me: &Access) -> Option<Explained> {
        let all = self.found.iter().enumerate().filter(|(_, f)| f.first.core == f.second.core);
        if other.core != me.core {
            // An edge from here to the second access of a finding inside a core would order both: what that access comes
            // before on its core, it would then come before on the other.
            for (by, f) in all {
                let (p, q) = &f.edge;
                // The side of the finding, and the other one. Which comes first is the schedule's choice.
                let through = |near: &Access, far: &Access| {
                    p.core == near.core
                        && p.thread == near.thread
                        && p.tick <= near.tick
                        && self.clocks[far.thread as usize][q.thread as usize] >= q.tick
                };
                if through(other, me) || through(me, other) {
                    return Some(Explained { by, edge: f.edge });
                }
            }
            return None;
        }
        let (u, v) = self.in_order(other, me);
        for (by, f) in all.filter(|(_, f)| f.first.core == me.core) {
            // What is known of who comes before whom: inside a thread, and before what runs now or closed the finding.
            let same = |x: &Access, y: &Access| x.thread == y.thread && x.tick == y.tick;
            let before = |x: &Access, y: &Access| {
                (x.thread == y.thread && x.tick <= y.tick)
                    || (same(y, me) && self.clocks[me.thread as usize][x.thread as usize] >= x.tick)
                    || (same(y, &f.second) && f.known[x.thread as usize] >= x.tick)
            };
            let (p, q) = &f.edge;
            let from = if before(&u, p) {
                *p
            } else if before(p, &u) {
                u
            } else {
                continue;
            };
            let to = if before(q, &v) {
                *q
            } else if before(&v, q) {
                v
            } else {
                continue;
            };
            if self.place(&from).0 <= self.place(&to).0 {
                return Some(Explained { by, edge: (from, to) });
            }
        }
        None
    }

    /// One missing order, one finding: the two count as ordered; of two cores all threads, as if they had met.
    fn as_if_ordered(&mut self, other: &Access, me: &Access) {
        let (x, y) = (other.core as usize, me.core as usize);
        if x == y {
            let forward = self.place(other).0 <= self.place(me).0;
            let (early, late) = if forward { (other, me) } else { (me, other) };
            let mut c = self.fresh(early.thread as usize);
            // What its thread has done since does not come before.
            c[early.thread as usize] = early.tick;
            join(&mut self.clocks[late.thread as usize], &c);
            self.give(c);
        } else {
            let mut all = self.fresh(me.thread as usize);
            for t in self.threads_of(x).chain(self.threads_of(y)) {
                join(&mut all, &self.clocks[t]);
            }
            for t in self.threads_of(x).chain(self.threads_of(y)) {
                self.clocks[t].copy_from_slice(&all);
            }
            self.give(all);
        }
    }
}
