//! Computations put off, so that the cores of a program compute side by side on the threads of the host.
//!
//! The scheduler stays what it is: one thread, one order of decisions. It decides, checks races, follows undefined bytes, counts and
//! times as before, none of which looks at the bytes of a plain instruction. What such an instruction *computes* may come later:
//! it is put at the end of the chain of its core ([`Machine::put_off`]) and computed before anything looks at its result
//! ([`Machine::catch_up`]). Then the chains run, each in its order, the chains of several cores on several threads.
//!
//! **Why the bytes are the same.** A core's chain computes in the order in which the scheduler issued, with the engine state of its
//! core alone. Two chains never touch a common byte one of them writes: on-chip memory is held by one chain at a time, and in DRAM the
//! patterns are compared; whatever would break this makes all chains catch up first. So does everything that reads or writes bytes itself:
//! swaps, collectives, register loads, addresses that lie in memory, undefined bytes that are carried, stores whose values decide
//! whether they race, the end of the run. **Why the findings are the same.** Only instructions that cannot fault
//! ([`crate::exec::sure`]) are put off, and the notes that one leaves are filed where they would have stood. **Why the number of
//! threads does not matter.** What is put off, and until when, does not depend on it.
//!
//! A core that is far ahead keeps what it put off in a window of bounded size ([`ROOM`]); when it is full, all catch up.

use crate::exec::sure::{Opened, settled_by_one_run, sure, weight};
use crate::exec::{Arg, Decoded, ExecCx, exec};
use crate::machine::{Machine, Stop};
use crate::memory::{BufId, Memory, View};
use crate::numeric_profile::NumericProfile;
use crate::outcome::StopReason;
use crate::race::footprint;
use crate::state::{CoreState, Fault, Note};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tandem_bir::analysis::footprint::{Footprint, overlaps};
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{InstId, Module};

/// Work, in elements of a simple instruction, from which on an instruction is put off (our choice: about 5 us).
pub(crate) const WORTH: u64 = 1 << 14;
/// Work of a chain in units of [`WORTH`] from which on it is worth a thread (our choice: well above what waking one costs).
const THREAD: u64 = 16;
/// Entries of the window: an instruction takes one, one whose operands were set by the run takes [`OWN`] (our choice: a few MiB).
const ROOM: u32 = 1 << 18;
const OWN: u32 = 16;
/// Cores beyond which nothing is put off (our choice).
const MOST_CORES: usize = 64;
/// Patterns of a DRAM buffer that are kept apart for a core; beyond, the range they span counts (our choice).
const MOST_VIEWS: usize = 128;

/// An instruction that is still to be computed.
#[derive(Debug)]
struct Task {
    inst: InstId,
    /// Diagnostics when it was issued.
    at: u32,
    /// Place among the instructions in the window.
    seq: u32,
    /// Its operands, when the run has set them.
    decoded: Option<Box<Decoded>>,
}

/// What a core has put off.
#[derive(Debug, Default)]
struct Chain {
    tasks: Vec<Task>,
    /// Buffers that nobody else touches.
    bufs: Vec<BufId>,
    weight: u64,
    /// The machine's buffers as far as this chain works on them; empty in between.
    mem: Memory,
}

/// Patterns of one buffer.
#[derive(Debug, Default)]
struct Patterns {
    /// First byte, and one past the last.
    hull: Option<(i128, i128)>,
    list: Vec<(View, Footprint)>,
    /// The list is not all.
    more: bool,
}

impl Patterns {
    fn add(&mut self, v: &View) {
        if self.list.iter().rev().any(|(o, _)| o == v) {
            return;
        }
        let Some((lo, hi)) = v.byte_range() else { return };
        self.hull = Some(self.hull.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        if self.list.len() < MOST_VIEWS {
            self.list.push((v.clone(), footprint(v, None)));
        } else {
            self.more = true;
        }
    }
    /// May share a byte with a view.
    fn meets(&self, v: &View) -> bool {
        let (Some((l, h)), Some((lo, hi))) = (self.hull, v.byte_range()) else { return false };
        if lo >= h || l >= hi {
            return false;
        }
        let f = footprint(v, None);
        self.more || self.list.iter().any(|(_, o)| overlaps(o, &f))
    }
}

/// A DRAM buffer that chains touch.
#[derive(Debug)]
struct Common {
    buf: BufId,
    /// What each core reads and writes there.
    by: SmallVec<[(usize, [Patterns; 2]); 2]>,
}

/// All that is put off.
#[derive(Debug)]
pub(crate) struct Deferred {
    /// Work from which on an instruction is put off; `None`: none is.
    from: Option<u64>,
    chains: Vec<Chain>,
    /// Per buffer: the core whose chain holds it, plus one.
    held: Vec<u32>,
    common: Vec<Common>,
    /// Per buffer: its place in `common`, plus one.
    common_at: Vec<u32>,
    issued: u32,
    room: u32,
    /// Per core: PSUM that products opened.
    opened: Vec<Opened>,
    /// Per core: instructions that have run and will not fault.
    settled: Vec<FxHashSet<InstId>>,
    /// The caller asked to stop, and something was not computed.
    dropped: bool,
}

impl Deferred {
    /// Nothing is put off.
    pub(crate) fn off() -> Deferred {
        Deferred {
            from: None,
            chains: Vec::new(),
            held: Vec::new(),
            common: Vec::new(),
            common_at: Vec::new(),
            issued: 0,
            room: ROOM,
            opened: Vec::new(),
            settled: Vec::new(),
            dropped: false,
        }
    }
    /// For so many cores: one core has nobody to compute beside, and each of many would need a table of all memories.
    pub(crate) fn new(cores: usize, from: u64) -> Deferred {
        Deferred {
            from: ((2..=MOST_CORES).contains(&cores) && from < u64::MAX).then_some(from),
            chains: (0..cores).map(|_| Chain::default()).collect(),
            opened: (0..cores).map(|_| Opened::default()).collect(),
            settled: vec![FxHashSet::default(); cores],
            ..Deferred::off()
        }
    }
    fn is_empty(&self) -> bool {
        self.issued == 0
    }
    /// Engine state starts anew.
    pub(crate) fn forget(&mut self) {
        self.opened.iter_mut().for_each(|o| *o = Opened::default());
    }

    fn common_of(&self, buf: BufId) -> Option<&Common> {
        let at = self.common_at.get(buf.index())?.checked_sub(1)?;
        self.common.get(at as usize)
    }

    /// An instruction of a core touches what the chain of another core works on.
    fn conflicts(&self, c: usize, d: &Decoded, mem: &Memory) -> bool {
        let lists = [(&d.ins[..], false), (&d.outs[..], true), (&d.indirect[..], false)];
        lists.iter().flat_map(|(l, w)| l.iter().map(move |a| (a, *w))).any(|(a, writes)| match a {
            Arg::Imm(_) | Arg::Reg(_) => false,
            // Where it goes stands in memory.
            Arg::Indexed(_) => true,
            Arg::View(v) if mem.info(v.buf).pitch.is_some() => {
                !matches!(self.held.get(v.buf.index()), None | Some(0))
                    && self.held[v.buf.index()] != c as u32 + 1
            }
            Arg::View(v) => self
                .common_of(v.buf)
                .iter()
                .flat_map(|x| &x.by)
                .any(|(o, [reads, written])| *o != c && (written.meets(v) || (writes && reads.meets(v)))),
        })
    }

    /// Puts an instruction at the end of its core's chain; it conflicts with no other chain.
    fn push(&mut self, c: usize, d: &Decoded, own: bool, at: usize, work: u64, mem: &Memory) {
        if self.held.len() < mem.len() {
            self.held.resize(mem.len(), 0);
            self.common_at.resize(mem.len(), 0);
        }
        let chain = &mut self.chains[c];
        for (args, writes) in [(&d.ins[..], 0), (&d.outs[..], 1), (&d.indirect[..], 0)] {
            for a in args {
                let Arg::View(v) = a else { continue };
                if mem.info(v.buf).pitch.is_some() {
                    let held = &mut self.held[v.buf.index()];
                    if *held == 0 {
                        *held = c as u32 + 1;
                        chain.bufs.push(v.buf);
                    }
                    continue;
                }
                let at = &mut self.common_at[v.buf.index()];
                if *at == 0 {
                    self.common.push(Common { buf: v.buf, by: SmallVec::new() });
                    *at = self.common.len() as u32;
                }
                let k = *at as usize - 1;
                let by = &mut self.common[k].by;
                let k = by.iter().position(|x| x.0 == c).unwrap_or_else(|| {
                    by.push((c, Default::default()));
                    by.len() - 1
                });
                by[k].1[writes].add(v);
            }
        }
        let decoded = own.then(|| Box::new(d.clone()));
        chain.tasks.push(Task { inst: d.inst, at: at as u32, seq: self.issued, decoded });
        chain.weight = chain.weight.saturating_add(work);
        self.issued += 1;
        self.room = self.room.saturating_sub(if own { OWN } else { 1 });
    }
}

/// A note, and where it belongs.
struct Left {
    seq: u32,
    at: u32,
    core: usize,
    inst: InstId,
    note: Note,
}

/// A fault that came later than it should; only of instructions that cannot fault.
struct Late {
    seq: u32,
    at: u32,
    core: usize,
    stop: Stop,
}

/// What all chains share.
struct Shared<'a> {
    profile: &'a NumericProfile,
    arch: &'a ArchSpec,
    noted: &'a FxHashSet<(usize, InstId, &'static str)>,
    cancel: Option<&'a AtomicBool>,
    /// DRAM that several chains touch, in order of the buffers.
    common: Vec<(BufId, Mutex<Vec<u8>>)>,
}

/// A chain to run.
struct Job<'a> {
    core: usize,
    module: &'a Module,
    st: &'a mut CoreState,
    decoded: &'a [Decoded],
    chain: &'a mut Chain,
    notes: Vec<Left>,
    seen: FxHashSet<(InstId, &'static str)>,
    late: Option<Late>,
    dropped: bool,
}

impl Job<'_> {
    fn run(&mut self, shared: &Shared<'_>) {
        let mut notes = Vec::new();
        let alone = self.chain.mem.alone;
        for t in &self.chain.tasks {
            if shared.cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                self.dropped = true;
                break;
            }
            let d = t.decoded.as_deref().unwrap_or(&self.decoded[t.inst.index()]);
            let mem = &mut self.chain.mem;
            let locked = lock(mem, d, shared);
            // A thread that waits inside the instruction could take up a chain that wants the same lock.
            mem.alone = alone || !locked.is_empty();
            let mut cx =
                ExecCx { mem, core: self.st, profile: shared.profile, arch: shared.arch, notes: &mut notes };
            let done = exec(&mut cx, d, &self.module.insts[t.inst]);
            for (b, mut guard) in locked {
                *guard = self.chain.mem.take(b);
            }
            if let Err(fault) = done {
                let stop = Stop { inst: Some(t.inst), fault };
                self.late = Some(Late { seq: t.seq, at: t.at, core: self.core, stop });
                break;
            }
            for note in notes.drain(..) {
                let id = note.code.info().id;
                if !shared.noted.contains(&(self.core, t.inst, id)) && self.seen.insert((t.inst, id)) {
                    self.notes.push(Left { seq: t.seq, at: t.at, core: self.core, inst: t.inst, note });
                }
            }
        }
        self.chain.mem.alone = false;
    }
}

/// Takes the common buffers of an instruction into the chain's memory, in order, so that no two chains wait for each other.
fn lock<'a>(
    mem: &mut Memory,
    d: &Decoded,
    shared: &'a Shared<'_>,
) -> SmallVec<[(BufId, MutexGuard<'a, Vec<u8>>); 2]> {
    if shared.common.is_empty() {
        return SmallVec::new();
    }
    let views = d.ins.iter().chain(&d.outs).chain(&d.indirect);
    let mut wanted: SmallVec<[usize; 4]> = views
        .filter_map(|a| match a {
            Arg::View(v) => shared.common.binary_search_by_key(&v.buf, |x| x.0).ok(),
            Arg::Imm(_) | Arg::Reg(_) | Arg::Indexed(_) => None,
        })
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
        .into_iter()
        .map(|k| {
            let (b, bytes) = &shared.common[k];
            let mut guard = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            mem.put(*b, std::mem::take(&mut *guard));
            (*b, guard)
        })
        .collect()
}

impl Machine<'_> {
    /// The work of an instruction that starts now may come later. Otherwise what it touches has caught up.
    pub(crate) fn put_off(&mut self, c: usize, id: InstId) -> Result<Option<u64>, Stop> {
        let Some(from) = self.deferred.from else { return Ok(None) };
        let core = &self.cores[c];
        let (d, inst) = (&core.code.decoded[id.index()], &core.module.insts[id]);
        let work = weight(d);
        let mine = !self.deferred.chains[c].tasks.is_empty();
        let mut later = None;
        if mine || work >= from {
            let opened = &self.deferred.opened[c];
            let mut clear = sure(&self.mem, self.arch, &self.opts.profile, d, inst, opened);
            // It runs now for the first time; a fault ends the run.
            if !clear && core.code.recipes[id.index()].is_empty() && settled_by_one_run(d, inst) {
                clear = !self.deferred.settled[c].insert(id);
            }
            later = clear.then_some(work);
        }
        if !self.deferred.is_empty() {
            let full = self.deferred.room == 0;
            if full || (mine && later.is_none()) || self.deferred.conflicts(c, d, &self.mem) {
                self.catch_up()?;
                later = later.filter(|w| *w >= from);
            }
        }
        let core = &self.cores[c];
        let (d, inst) = (&core.code.decoded[id.index()], &core.module.insts[id]);
        self.deferred.opened[c].follow(&self.mem, d, inst);
        Ok(later)
    }

    /// Puts an instruction's computation at the end of its core's chain ([`Machine::put_off`] has said that it may be).
    pub(crate) fn compute_later(&mut self, c: usize, id: InstId, work: u64) {
        self.put_off += 1;
        let code = &self.cores[c].code;
        let own = !code.recipes[id.index()].is_empty();
        self.deferred.push(c, &code.decoded[id.index()], own, self.diagnostics.len(), work, &self.mem);
    }

    /// Computes everything that was put off.
    pub(crate) fn catch_up(&mut self) -> Result<(), Stop> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let Machine { cores, mem, deferred, noted, opts, arch, .. } = self;
        let enough = deferred.from.unwrap_or(0).saturating_mul(THREAD);
        let mut common = Vec::new();
        for x in deferred.common.drain(..) {
            deferred.common_at[x.buf.index()] = 0;
            match x.by.as_slice() {
                [(c, _)] => deferred.chains[*c].bufs.push(x.buf),
                _ => common.push((x.buf, Mutex::new(mem.take(x.buf)))),
            }
        }
        common.sort_unstable_by_key(|x| x.0);
        let shared = Shared { profile: &opts.profile, arch, noted, cancel: opts.cancel.as_deref(), common };
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for (c, (core, chain)) in cores.iter_mut().zip(&mut deferred.chains).enumerate() {
            if chain.tasks.is_empty() {
                continue;
            }
            if chain.mem.is_empty() {
                chain.mem = mem.shell();
            }
            for b in &chain.bufs {
                chain.mem.put(*b, mem.take(*b));
            }
            jobs.push(Job {
                core: c,
                module: core.module,
                st: &mut core.st,
                decoded: &core.code.decoded,
                chain,
                notes: Vec::new(),
                seen: FxHashSet::default(),
                late: None,
                dropped: false,
            });
        }
        let threads = rayon::current_num_threads();
        if threads > 1 && jobs.iter().filter(|j| j.chain.weight >= enough).count() > 1 {
            let alone = threads < 2 * jobs.len();
            jobs.iter_mut().for_each(|j| j.chain.mem.alone = alone);
            jobs.par_iter_mut().with_max_len(1).for_each(|j| j.run(&shared));
        } else {
            jobs.iter_mut().for_each(|j| j.run(&shared));
        }
        let mut notes = Vec::new();
        let mut late: Option<Late> = None;
        for j in jobs {
            notes.extend(j.notes);
            late = match (late, j.late) {
                (Some(a), Some(b)) => Some(if a.seq <= b.seq { a } else { b }),
                (a, b) => a.or(b),
            };
            deferred.dropped |= j.dropped;
            j.chain.tasks.clear();
            j.chain.weight = 0;
            for b in j.chain.bufs.drain(..) {
                mem.put(b, j.chain.mem.take(b));
                deferred.held[b.index()] = 0;
            }
        }
        for (b, bytes) in shared.common {
            mem.put(b, bytes.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        deferred.issued = 0;
        deferred.room = ROOM;
        if let Some(l) = &late {
            notes.retain(|n| n.seq < l.seq);
            self.diagnostics.truncate(l.at as usize);
        }
        self.file(notes);
        let done = |code| Err(Stop { inst: None, fault: Fault::new(code, "") });
        match late {
            Some(Late { core, stop, .. }) => {
                let code = stop.fault.code;
                self.fault(core, stop);
                done(code)
            }
            None if self.deferred.dropped => done(codes::I0001),
            None => Ok(()),
        }
    }

    /// Why a run stops that an instruction has stopped.
    pub(crate) fn stopped(&self) -> StopReason {
        if self.deferred.dropped { StopReason::Cancelled } else { StopReason::Fault }
    }

    /// Files notes among the diagnostics where their instructions were issued.
    fn file(&mut self, mut notes: Vec<Left>) {
        if notes.is_empty() {
            return;
        }
        notes.sort_unstable_by_key(|n| n.seq);
        let mut all = Vec::with_capacity(self.diagnostics.len() + notes.len());
        let mut notes = notes.into_iter().peekable();
        let file = |n: Left, all: &mut Vec<Diagnostic>| {
            let _ = self.noted.insert((n.core, n.inst, n.note.code.info().id));
            let module = self.cores[n.core].module;
            all.push(Diagnostic::new(n.note.code, n.note.message).inst(self.program, module, n.inst));
        };
        let mut file = file;
        for (k, d) in std::mem::take(&mut self.diagnostics).into_iter().enumerate() {
            while let Some(n) = notes.next_if(|n| n.at as usize <= k) {
                file(n, &mut all);
            }
            all.push(d);
        }
        notes.for_each(|n| file(n, &mut all));
        self.diagnostics = all;
    }
}
