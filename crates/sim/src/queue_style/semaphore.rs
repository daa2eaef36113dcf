//! Counting semaphores: their values, and what a wait proves (the specification, file 09 §8.1 and §11).
//!
//! An *epoch* of a semaphore ends at a reset. A wait for value `v` proves this about a producer `p`, and nothing else: with
//! `need = v − (everything all other producers add in this epoch)`, if `need > 0`, the update of `p` whose running sum
//! reaches `need` happened before the wait. With one producer that is the classic rule. What the others add in the whole epoch
//! is known before only for semaphores with several producers: from a run without checks ([`Totals`]); runs are
//! deterministic. A semaphore that somebody lowers proves nothing (a warning says so).
//!
//! A reset is an access of its own: it must be ordered with every update and every wait of the epochs on both sides,
//! otherwise another schedule counts otherwise (S0024, our choice; the specification takes epochs as given).

use super::{ENGINES, Run, SEMAPHORES, sync_of};
use crate::race::{Clock, Race};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tandem_bir::diag::{Diagnostic, Severity, codes};
use tandem_bir::linked::{LinkedProgram, is_remote_copy};
use tandem_bir::{Attr, InstId, Opcode};

/// What each producer adds, by core, semaphore and epoch.
pub(super) type Totals = FxHashMap<(u32, u32, u32), SmallVec<[(u32, i64); 2]>>;

/// Posts after which those that everybody knows are forgotten (our choice).
const MANY: usize = 1024;

/// The place of an instruction among all: the engine of its core, or the local or remote queue of that engine.
pub(super) fn lane(c: usize, e: usize, transfer: Option<bool>) -> u32 {
    let lane = match transfer {
        None => e,
        Some(remote) => ENGINES + 2 * e + usize::from(remote),
    };
    (c * 3 * ENGINES + lane) as u32
}

/// What is known of a semaphore number before the run: on which core it sits, who updates it.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Lanes of one LNC that update it.
    producers: SmallVec<[u32; 2]>,
    /// Some update lowers it.
    lowered: bool,
    /// Some instruction resets it.
    reset: bool,
}

/// A thread that adds.
#[derive(Debug)]
struct Producer {
    lane: u32,
    sum: i64,
    /// Running sums and what was known then; those before `forgotten` are known to everybody.
    posts: Vec<(i64, Clock)>,
    forgotten: i64,
    /// Its last update: thread, tick, instruction.
    last: Option<(u32, u32, InstId)>,
}

/// A counter of a core.
#[derive(Debug, Default)]
struct Counter {
    value: i32,
    epoch: u32,
    producers: SmallVec<[Producer; 1]>,
    /// Waits of this epoch, the last of every thread, when it is reset somewhere: thread, tick, core, instruction.
    waits: SmallVec<[(u32, u32, usize, InstId); 2]>,
    /// The reset that began the epoch: thread, tick, core, instruction.
    reset: Option<(u32, u32, usize, InstId)>,
    /// Value at the last reset.
    was: i32,
}

/// Something wrong with the order of a reset: the other place, and what it does.
pub(super) struct Unordered {
    pub(super) core: usize,
    pub(super) inst: InstId,
    pub(super) does: &'static str,
}

/// An ambiguous wait: producer thread, core that waits, text.
pub(crate) type Ambiguous = (u32, usize, String);

/// All counters.
pub(super) struct Semaphores {
    /// Place of a number in a bank; numbers that nobody uses have none.
    slot: Vec<u16>,
    banks: Vec<Vec<Counter>>,
    facts: Vec<Vec<Facts>>,
    lnc: usize,
    totals: Option<Totals>,
    counting: bool,
    posts: usize,
    prune_at: usize,
    ambiguous: FxHashMap<(u32, usize), String>,
}

impl Semaphores {
    pub(super) fn new(linked: &LinkedProgram, cores: usize) -> Semaphores {
        let lnc = linked.cores.len().max(1);
        let mut slot = vec![u16::MAX; SEMAPHORES as usize];
        let mut used = 0u16;
        let mut facts: Vec<FxHashMap<u32, Facts>> = vec![FxHashMap::default(); lnc];
        for (c, (core, m)) in linked.cores.iter().zip(&linked.program.modules).enumerate() {
            for (e, s) in core.streams.iter().enumerate() {
                for &i in &s.insts {
                    let Some(inst) = m.insts.get(i) else { continue };
                    if inst.opcode == Opcode::GroupResetSemaphores {
                        for s in inst.get_ints(Attr::SemaGroup).iter().filter_map(|s| u32::try_from(*s).ok())
                        {
                            facts[c].entry(s).or_default().reset = true;
                        }
                    }
                    let Some(s) = sync_of(inst) else { continue };
                    for w in &s.on_wait {
                        facts[c].entry(w.sem).or_default();
                    }
                    let lane = lane(c, e, inst.opcode.is_dma().then(|| is_remote_copy(m, inst)));
                    for u in &s.on_update {
                        let Some(f) = facts.get_mut(u.target_core.map_or(c, |t| t as usize)) else {
                            continue;
                        };
                        let f = f.entry(u.sem).or_default();
                        f.lowered |= u.value < 0;
                        if !f.producers.contains(&lane) {
                            f.producers.push(lane);
                        }
                    }
                }
            }
        }
        for f in &facts {
            let mut list: Vec<u32> = f.keys().copied().collect();
            list.sort_unstable();
            for s in list {
                if let Some(slot) = slot.get_mut(s as usize).filter(|s| **s == u16::MAX) {
                    *slot = used;
                    used += 1;
                }
            }
        }
        let table = |f: &FxHashMap<u32, Facts>| {
            let mut t = vec![Facts::default(); used as usize];
            for (s, at) in slot.iter().enumerate() {
                if let (Some(to), Some(from)) = (t.get_mut(*at as usize), f.get(&(s as u32))) {
                    *to = from.clone();
                }
            }
            t
        };
        let bank = || (0..used).map(|_| Counter::default()).collect();
        Semaphores {
            facts: facts.iter().map(table).collect(),
            slot,
            banks: (0..cores).map(|_| bank()).collect(),
            lnc,
            totals: None,
            counting: false,
            posts: 0,
            prune_at: MANY,
            ambiguous: FxHashMap::default(),
        }
    }

    /// Some semaphore has several producers.
    pub(super) fn has_several(&self) -> bool {
        self.facts.iter().flatten().any(|f| f.producers.len() > 1 && !f.lowered)
    }
    pub(super) fn set_totals(&mut self, t: Option<Totals>) {
        self.totals = t;
    }
    /// Counts what every producer adds instead of keeping clocks.
    pub(super) fn count(&mut self) {
        self.counting = true;
        self.totals = Some(Totals::default());
    }
    pub(super) fn take_totals(&mut self) -> Totals {
        self.totals.take().unwrap_or_default()
    }
    pub(super) fn take_ambiguous(&mut self) -> Vec<Ambiguous> {
        let mut out: Vec<Ambiguous> = self.ambiguous.drain().map(|((p, c), t)| (p, c, t)).collect();
        out.sort_unstable();
        out
    }

    fn counter(&self, c: usize, sem: u32) -> Option<&Counter> {
        let at = *self.slot.get(sem as usize)?;
        self.banks.get(c)?.get(at as usize)
    }

    /// Value of a semaphore, as the machine compares it.
    pub(super) fn value(&self, c: usize, sem: u32) -> i64 {
        self.counter(c, sem).map_or(0, |k| i64::from(k.value))
    }
    /// Value before the last reset, and the instruction that reset it.
    pub(super) fn was(&self, c: usize, sem: u32) -> Option<(i64, usize, InstId)> {
        let k = self.counter(c, sem)?;
        k.reset.map(|(_, _, core, i)| (i64::from(k.was), core, i))
    }

    /// Clocks are to be pruned.
    pub(super) fn due(&self) -> bool {
        self.posts >= self.prune_at
    }
    /// Forgets posts that everybody knows.
    pub(super) fn prune(&mut self, race: &mut Race) {
        if !self.due() {
            return;
        }
        let Some(low) = race.known_to_all() else { return };
        let mut left = 0;
        for p in self.banks.iter_mut().flatten().flat_map(|k| &mut k.producers) {
            let n = p.posts.iter().take_while(|(_, c)| c.iter().zip(&low).all(|(a, b)| a <= b)).count();
            for (sum, c) in p.posts.drain(..n) {
                p.forgotten = sum;
                race.give(c);
            }
            left += p.posts.len();
        }
        self.posts = left;
        self.prune_at = (2 * left).max(MANY);
    }
}

impl Run<'_, '_> {
    /// Applies the updates of an instruction; `lane` and `thread` are those that execute it.
    pub(super) fn updates(&mut self, c: usize, i: InstId, lane: u32, thread: usize) {
        let Some(s) = sync_of(self.inst(c, i)) else { return };
        for u in &s.on_update {
            let lnc = self.sems.lnc;
            let to = u.target_core.map_or(c, |t| c / lnc * lnc + t as usize);
            let Some(&at) = self.sems.slot.get(u.sem as usize) else { continue };
            let facts = self.sems.facts.get(to % lnc).and_then(|f| f.get(at as usize));
            let (lowered, resets) = facts.map_or((false, false), |f| (f.lowered, f.reset));
            let Some(k) = self.sems.banks.get_mut(to).and_then(|b| b.get_mut(at as usize)) else { continue };
            k.value = k.value.wrapping_add(u.value as i32);
            let below = k.value < 0;
            let mut unordered = None;
            if self.sems.counting {
                let totals = self.sems.totals.get_or_insert_default();
                let t = totals.entry((to as u32, u.sem, k.epoch)).or_default();
                match t.iter_mut().find(|t| t.0 == lane) {
                    Some(t) => t.1 += u.value,
                    None => t.push((lane, u.value)),
                }
            } else if let Some(race) = &mut self.m.race {
                race.tick(thread);
                unordered = k.after_reset(race, thread);
                if !lowered {
                    let at = match k.producers.iter().position(|p| p.lane == lane) {
                        Some(at) => at,
                        None => {
                            k.producers.push(Producer {
                                lane,
                                sum: 0,
                                posts: Vec::new(),
                                forgotten: 0,
                                last: None,
                            });
                            k.producers.len() - 1
                        }
                    };
                    let p = &mut k.producers[at];
                    p.sum += u.value;
                    p.posts.push((p.sum, race.clock(thread)));
                    self.sems.posts += 1;
                    if resets {
                        p.last = Some((thread as u32, race.knows(thread, thread), i));
                    }
                }
            }
            self.m.woken.push(to);
            if below {
                let sem = u.sem;
                self.misuse(c, i, format!("semaphore {sem} of core {} went below 0", to % lnc));
            }
            if let Some(o) = unordered {
                self.unordered(c, i, u.sem, "raises it", o);
            }
        }
    }

    /// The waits of an instruction hold: its thread knows what they prove.
    pub(super) fn acquire(&mut self, c: usize, i: InstId, thread: usize) {
        if self.m.race.is_none() {
            return;
        }
        let Some(s) = sync_of(self.inst(c, i)) else { return };
        for w in &s.on_wait {
            let lnc = self.sems.lnc;
            let Some(&at) = self.sems.slot.get(w.sem as usize) else { continue };
            let Some(facts) = self.sems.facts.get(c % lnc).and_then(|f| f.get(at as usize)) else { continue };
            let (lowered, resets, n) = (facts.lowered, facts.reset, facts.producers.len());
            let Some(k) = self.sems.banks.get_mut(c).and_then(|b| b.get_mut(at as usize)) else { continue };
            let Some(race) = &mut self.m.race else { return };
            let mut unordered = None;
            if resets {
                race.tick(thread);
                unordered = k.after_reset(race, thread);
                let tick = race.knows(thread, thread);
                match k.waits.iter_mut().find(|x| x.0 == thread as u32) {
                    Some(x) => *x = (thread as u32, tick, c, i),
                    None => k.waits.push((thread as u32, tick, c, i)),
                }
            }
            let key = (c as u32, w.sem, k.epoch);
            let totals = self.sems.totals.as_ref().and_then(|t| t.get(&key)).filter(|_| n > 1);
            let all: i64 = totals.map_or(0, |t| t.iter().map(|t| t.1).sum());
            let mut nothing: SmallVec<[u32; 2]> = SmallVec::new();
            for p in &k.producers {
                let own = totals.and_then(|t| t.iter().find(|t| t.0 == p.lane)).map_or(0, |t| t.1);
                let need = w.value - (all - own);
                if need <= 0 {
                    nothing.push(p.lane);
                } else if need > p.forgotten {
                    let at = p.posts.partition_point(|(sum, _)| *sum < need);
                    if let Some((_, clock)) = p.posts.get(at) {
                        race.learn(thread, clock);
                    }
                }
            }
            if n > 1 {
                for lane in nothing {
                    let text = format!(
                        "ambiguous wait: `{}` needs {}, {n} producers can supply it",
                        self.m.cores[c].module.insts[i].name, w.value
                    );
                    self.sems.ambiguous.entry((lane, c)).or_insert(text);
                }
            }
            if lowered && self.m.noted.insert((c, i, "S0024")) {
                let text =
                    format!("semaphore {} is raised and lowered: waiting for it orders nothing", w.sem);
                let mut d = Diagnostic::new(codes::S0024, text).site(self.m.site(c, i));
                d.severity = Severity::Warning;
                self.m.diagnostics.push(d);
            }
            if let Some(o) = unordered {
                self.unordered(c, i, w.sem, "waits for it", o);
            }
        }
    }

    /// Sets a semaphore to 0: a new epoch.
    pub(super) fn reset(&mut self, c: usize, i: InstId, sem: u32, thread: usize) {
        let Some(&at) = self.sems.slot.get(sem as usize) else { return };
        let Some(k) = self.sems.banks.get_mut(c).and_then(|b| b.get_mut(at as usize)) else { return };
        k.was = std::mem::take(&mut k.value);
        k.epoch += 1;
        let mut found = None;
        let mut tick = 0;
        if let Some(race) = &mut self.m.race {
            race.tick(thread);
            tick = race.knows(thread, thread);
            found = k.after_reset(race, thread);
            let behind = |t: u32, tick: u32| race.knows(thread, t as usize) < tick;
            for p in &k.producers {
                if let Some((_, _, inst)) = p.last.filter(|l| behind(l.0, l.1)) {
                    let core = p.lane as usize / (3 * ENGINES);
                    found = Some(Unordered { core, inst, does: "raises it" });
                }
            }
            if let Some((_, _, core, inst)) = k.waits.iter().find(|w| behind(w.0, w.1)) {
                found = Some(Unordered { core: *core, inst: *inst, does: "waits for it" });
            }
            for p in k.producers.drain(..) {
                self.sems.posts -= p.posts.len();
                p.posts.into_iter().for_each(|(_, c)| race.give(c));
            }
        }
        k.waits.clear();
        k.reset = Some((thread as u32, tick, c, i));
        self.m.woken.push(c);
        if let Some(o) = found {
            self.unordered(c, i, sem, "resets it", o);
        }
    }

    fn unordered(&mut self, c: usize, i: InstId, sem: u32, does: &str, o: Unordered) {
        let other = self.m.site(o.core, o.inst).label(o.does);
        let text = format!("nothing orders two uses of semaphore {sem}, and one resets it");
        if !self.m.noted.insert((c, i, "S0024")) {
            return;
        }
        let d = Diagnostic::new(codes::S0024, text)
            .site(other)
            .site(self.m.site(c, i).label(does))
            .note("in another order the counts differ: waits may hold too early or never");
        self.m.diagnostics.push(d);
    }
}

impl Counter {
    /// The reset before, when a thread that uses the semaphore does not know of it.
    fn after_reset(&self, race: &Race, thread: usize) -> Option<Unordered> {
        let (t, tick, core, inst) = self.reset?;
        (race.knows(thread, t as usize) < tick).then_some(Unordered { core, inst, does: "resets it" })
    }
}
