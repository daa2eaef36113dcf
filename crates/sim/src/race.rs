//! Data races: exact happens-before over everything that runs, exact byte sets of what it touches.
//!
//! **Definition.** Two accesses race when they touch a common byte, at least one writes, and neither happens before the
//! other. Threads are the in-order queues of every core and, for each of them, its local and its remote transfer queue (one
//! thread per core at level `bir`). Order comes from: the order of a queue; dependency edges (producer complete before
//! consumer starts); the issue of a transfer before the transfer; the end of a segment (all threads of the core);
//! CoreBarriers (all threads of the cores that meet); swaps and collectives (all that arrive before all that leave);
//! completion tokens (the writes of the location that happen before the arrival on their core, and nothing else);
//! notifications of transfers. At levels `linked` and `bundles` there are no edges and no segments: semaphores take their
//! place (`queue_style::semaphore`), and a CoreBarrier orders the engines that execute it and nothing else.
//!
//! **What is compared.** Every distinct operand footprint has a *slot*: its last write and its last unordered reads, with
//! their clocks. Which slots overlap is worked out once per slot by the exact test of [`overlaps`]. An access is compared with the
//! slots that overlap its own. Slots are found by the pages of the bytes they really touch (not of the range they span) and by
//! groups of partitions, so that many distinct strided views of one buffer cost no comparison of all with all. Keeping only the last write (and, per slot, reads not ordered before another read of the slot)
//! loses no race: whatever races with a forgotten access races with the one that replaced it.
//!
//! Two writes of different cores that nothing orders are no race when the second stores what is there already
//! ([`Race::settle`]): a kernel that does not divide its work stores the same output twice. A note says so (S0026); it
//! holds for the inputs of the run. Such a write is *silent*: it stands beside the write that it repeats instead of in its
//! place, so that a later one is compared with both. What reads the bytes behind either of the two gets their value in
//! every order; so does a read of another core behind its own core's write of them. A read from before the write that is
//! repeated must be ordered before the silent one. An instruction that copies bytes onto themselves is a read.
//!
//! **It never reports falsely**: where the overlap test gives up (`SEARCH_BUDGET`), the two byte sets are compared run by run before
//! anything is reported (up to four million runs). **It may miss** races on
//! control paths and addresses that this run did not take, races on registers, and what a missing order explains that was reported
//! already. Grouping: races inside a core that one edge would order, one that leads forward in program order, are one finding
//! ([`Found::edge`]); what is unrelated to that edge is a finding of its own. The later access of a race counts as behind the earlier one
//! from there on; what the earlier one's thread has learned of *other* threads since then is taken with it, which may hide a race with those.
//! Between cores, races of the same two stretches of the program (from barrier to barrier inside a
//! block) are one finding, whatever iteration they are found in: one more barrier orders them.

use crate::memory::View;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use tandem_bir::InstId;
use tandem_bir::analysis::footprint::{Footprint, Space, overlaps};
use tandem_bir::entity::EntityRef as _;

/// A vector clock: completed steps per thread.
pub(crate) type Clock = Box<[u32]>;

pub(crate) fn join(into: &mut [u32], from: &[u32]) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// Which operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// Position in its list.
    pub(crate) index: u8,
    /// 0 input, 1 output, 2 index operand.
    pub(crate) list: u8,
}

impl Role {
    fn writes(self) -> bool {
        self.list == 1
    }
}

/// One access, for comparison and for the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) thread: u32,
    tick: u32,
    /// Place among the accesses of the run.
    seq: u64,
    pub(crate) core: u32,
    pub(crate) inst: InstId,
    pub(crate) role: Role,
}

/// The threads of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    /// In-order queues; 0 is program order: one thread.
    pub(crate) queues: usize,
    /// Transfer queues in use: the queue that issues, and whether they reach another core.
    pub(crate) transfers: Vec<(usize, bool)>,
}

impl Lanes {
    fn threads(&self) -> usize {
        (self.queues + self.transfers.len()).max(1)
    }
    /// Adds the transfers of a queue.
    pub(crate) fn add(&mut self, queue: usize, remote: bool) {
        if !self.transfers.contains(&(queue, remote)) {
            self.transfers.push((queue, remote));
        }
    }
}

/// What a thread stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A whole core in program order.
    Core,
    /// An in-order queue.
    Queue(usize),
    /// Transfers that a queue issued.
    Transfers {
        /// The queue.
        queue: usize,
        /// Transfers to or from another core.
        remote: bool,
    },
}

/// Two accesses that race; the second is the one that found it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) first: Access,
    pub(crate) second: Access,
    pub(crate) both_write: bool,
    /// The edge that would order this race and those grouped with it: the accesses at its ends, in program order.
    edge: (Access, Access),
    /// What the thread of the second access knew then.
    known: Clock,
    /// Further races between the same stretches of the two cores.
    pub(crate) same: u64,
    /// Bytes of the buffer (inside a partition, on chip) and partitions in which both lie.
    pub(crate) bytes: (i64, i64),
    pub(crate) partitions: (i64, i64),
}

/// The finding that explains a race, and the edge that would order both.
#[derive(Clone, Copy)]
struct Explained {
    by: usize,
    edge: (Access, Access),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    buf: u32,
    base: usize,
    size: u8,
    dims: SmallVec<[(isize, usize); 4]>,
}

struct Slot {
    buf: u32,
    fp: Footprint,
    /// Slots that overlap, itself included.
    near: Vec<u32>,
    write: Option<Access>,
    /// Writes that nothing orders with another core's and that stored what was there, the last of each thread.
    silent: SmallVec<[Access; 1]>,
    /// Reads since the last write.
    reads: SmallVec<[Access; 2]>,
    /// Reads from before it, the last of each thread.
    old_reads: SmallVec<[Access; 1]>,
}

impl Slot {
    /// All writes that count.
    fn writes(&self) -> impl Iterator<Item = &Access> {
        self.write.iter().chain(&self.silent)
    }
    /// A write that changes bytes takes the place of everything before it.
    fn replace(&mut self, me: Access) {
        for r in std::mem::take(&mut self.reads) {
            last_of_thread(&mut self.old_reads, r);
        }
        self.silent.clear();
        self.write = Some(me);
    }
}

/// Keeps the last access of each thread.
fn last_of_thread(list: &mut SmallVec<[Access; 1]>, a: Access) {
    match list.iter_mut().find(|o| o.thread == a.thread) {
        Some(o) => *o = a,
        None => list.push(a),
    }
}

/// Slots of one buffer by pages of their bytes.
#[derive(Default)]
struct Pages {
    pitch: Option<usize>,
    lists: FxHashMap<i64, Vec<u32>>,
}

/// Bytes of a page, log 2 (our choice).
const PAGE: u32 = 9;
/// Partitions of a group, log 2 (our choice).
const GROUP: u32 = 4;
/// Runs of bytes beyond which a footprint is filed under every page it spans (our choice).
const MOST_RUNS: u64 = 1 << 14;

/// Pages under which a footprint is filed: page of the bytes, group of the partitions.
fn pages_of(fp: &Footprint) -> Vec<i64> {
    let mut pages: Vec<i64> = Vec::new();
    let runs = fp.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
    let spanned = ((fp.high - 1) >> PAGE) - (fp.low >> PAGE) + 1;
    if runs > MOST_RUNS || runs as i64 >= spanned {
        pages.extend(fp.low >> PAGE..=(fp.high - 1) >> PAGE);
    } else {
        let mut starts = vec![fp.low];
        for &(step, n) in &fp.dims {
            let from = std::mem::take(&mut starts);
            for s in from {
                starts.extend((0..n as i64).map(|k| s + k * step));
            }
        }
        for s in starts {
            pages.extend(s >> PAGE..=(s + fp.run - 1) >> PAGE);
        }
        pages.sort_unstable();
        pages.dedup();
    }
    let (first, last) = (fp.partition >> GROUP, fp.last_partition() >> GROUP);
    if (first, last) == (0, 0) {
        return pages.into_iter().map(|p| p << 16).collect();
    }
    let mut out = Vec::with_capacity(pages.len());
    for p in pages {
        out.extend((first..=last.min(first + 0xffff)).map(|g| (p << 16) | (g & 0xffff)));
    }
    out
}
/// Arrivals at a token that are kept for a core that does not come to it; one that comes later learns too much (our choice).
const MOST_ARRIVALS: usize = 1 << 10;
/// Findings after which the rest is only counted.
const MOST: usize = 100;

pub(crate) struct Race {
    /// Clock of every thread.
    clocks: Vec<Clock>,
    /// First thread of every core, and one more.
    first: Vec<usize>,
    /// Threads of every core.
    lanes: Vec<Lanes>,
    /// Threads that have ended.
    retired: Vec<bool>,
    /// Clocks that reach an instruction of the running segment through edges, per core and position.
    incoming: Vec<Vec<Option<Clock>>>,
    pool: Vec<Clock>,
    slots: Vec<Slot>,
    lookup: FxHashMap<Key, u32>,
    pages: Vec<Pages>,
    seen: Vec<u32>,
    stamp: u32,
    /// Accesses so far.
    seq: u64,
    /// Slots of an instruction's static operands: start in `arena`, per core and instruction.
    cache: Vec<Vec<u32>>,
    arena: Vec<(u32, Role)>,
    /// Writes of locations that tokens stand for: per token and core, those folded and those not.
    token_done: Vec<Vec<Clock>>,
    token_open: Vec<Vec<Vec<(u32, u32, Clock)>>>,
    /// What each arrival of a core at a token handed on, from the first that somebody may still ask for.
    token_at: Vec<Vec<(u64, VecDeque<Clock>)>>,
    /// Per token the cores that execute it, with the executions that they have left.
    token_left: Vec<Vec<(usize, u64)>>,
    gc_at: usize,
    reported: rustc_hash::FxHashSet<((u32, InstId), (u32, InstId))>,
    /// The caller compares what a write changes ([`Race::settle`]).
    pub(crate) compare_values: bool,
    /// Writes whose values decide whether they race.
    pub(crate) doubts: Vec<(Access, u32, Access, u32)>,
    /// Pairs that stored equal values.
    equal: rustc_hash::FxHashSet<((u32, InstId), (u32, InstId))>,
    /// Place of every instruction in program order, and the stretch it lies in, per core.
    order: Vec<Vec<(u32, u32)>>,
    /// Stretches of two cores that race, and the finding.
    stretches: FxHashMap<(u32, u32), usize>,
    pub(crate) found: Vec<Found>,
    pub(crate) more: u64,
    /// Most slots at once.
    pub(crate) most: usize,
}

impl Race {
    /// `lanes` are the threads of every core.
    pub(crate) fn new(
        lanes: Vec<Lanes>,
        order: Vec<Vec<(u32, u32)>>,
        pitches: Vec<Option<usize>>,
        tokens: Vec<Vec<usize>>,
    ) -> Race {
        let cores = lanes.len();
        let mut first = vec![0];
        for l in &lanes {
            first.push(first[first.len() - 1] + l.threads());
        }
        let t = first[cores];
        let users = tokens;
        let tokens = users.len();
        let zero = || vec![0u32; t].into_boxed_slice();
        Race {
            clocks: (0..t).map(|_| zero()).collect(),
            first,
            lanes,
            retired: vec![false; t],
            incoming: vec![Vec::new(); cores],
            pool: Vec::new(),
            slots: Vec::new(),
            lookup: FxHashMap::default(),
            pages: pitches.into_iter().map(|pitch| Pages { pitch, lists: FxHashMap::default() }).collect(),
            seen: Vec::new(),
            stamp: 0,
            seq: 0,
            cache: order.iter().map(|o| vec![u32::MAX; o.len()]).collect(),
            arena: Vec::new(),
            token_done: (0..tokens).map(|_| (0..cores).map(|_| zero()).collect()).collect(),
            token_open: vec![vec![Vec::new(); cores]; tokens],
            token_at: vec![vec![(0, VecDeque::new()); cores]; tokens],
            token_left: users.into_iter().map(|u| u.into_iter().map(|c| (c, 0)).collect()).collect(),
            gc_at: 1 << 14,
            reported: Default::default(),
            compare_values: false,
            doubts: Vec::new(),
            equal: Default::default(),
            order,
            stretches: FxHashMap::default(),
            found: Vec::new(),
            more: 0,
            most: 0,
        }
    }

    /// Thread of an in-order queue.
    pub(crate) fn thread(&self, core: usize, q: usize) -> usize {
        self.first[core] + if self.lanes[core].queues == 0 { 0 } else { q }
    }
    /// Thread of the local or remote transfers that a queue issues.
    pub(crate) fn transfers(&self, core: usize, q: usize, remote: bool) -> usize {
        let l = &self.lanes[core];
        let at = l.transfers.iter().position(|t| *t == (q, remote));
        self.first[core] + at.map_or(if l.queues == 0 { 0 } else { q }, |at| l.queues + at)
    }
    /// What a thread of a core is.
    pub(crate) fn lane(&self, core: usize, thread: usize) -> Lane {
        let at = thread.saturating_sub(self.first[core]);
        let l = &self.lanes[core];
        match at.checked_sub(l.queues) {
            _ if l.queues == 0 => Lane::Core,
            None => Lane::Queue(at),
            Some(t) => {
                let (queue, remote) = l.transfers.get(t).copied().unwrap_or((at, false));
                Lane::Transfers { queue, remote }
            }
        }
    }
    fn threads_of(&self, core: usize) -> std::ops::Range<usize> {
        self.first[core]..self.first[core + 1]
    }
    fn fresh(&mut self, like: usize) -> Clock {
        match self.pool.pop() {
            Some(mut c) => {
                c.copy_from_slice(&self.clocks[like]);
                c
            }
            None => self.clocks[like].clone(),
        }
    }
    /// Copy of a thread's clock.
    pub(crate) fn clock(&mut self, thread: usize) -> Clock {
        self.fresh(thread)
    }
    /// Gives a clock back.
    pub(crate) fn give(&mut self, c: Clock) {
        if self.pool.len() < 1024 {
            self.pool.push(c);
        }
    }
    /// A thread learns a clock.
    pub(crate) fn learn(&mut self, thread: usize, c: &[u32]) {
        join(&mut self.clocks[thread], c);
    }

    /// A thread learns what another knows.
    pub(crate) fn learn_from(&mut self, thread: usize, other: usize) {
        let c = self.fresh(other);
        join(&mut self.clocks[thread], &c);
        self.give(c);
    }

    pub(crate) fn start_segment(&mut self, core: usize, n: usize) {
        let v = &mut self.incoming[core];
        v.clear();
        v.resize(n, None);
    }

    /// An instruction starts on a thread: the thread learns what its producers knew.
    pub(crate) fn start(&mut self, core: usize, i: u32, thread: usize) {
        if let Some(c) = self.incoming[core].get_mut(i as usize).and_then(Option::take) {
            join(&mut self.clocks[thread], &c);
            self.give(c);
        }
    }
    /// All five in-order queues of a core know what each knew (an instruction of engine ALL).
    pub(crate) fn meet_queues(&mut self, core: usize) {
        let first = self.first[core];
        self.join_threads(first..first + self.lanes[core].queues.max(1));
    }
    /// Threads know what each of them knew.
    pub(crate) fn meet(&mut self, threads: &[usize]) {
        let Some(&f) = threads.first() else { return };
        let mut all = self.fresh(f);
        for t in threads {
            join(&mut all, &self.clocks[*t]);
        }
        for t in threads {
            self.clocks[*t].copy_from_slice(&all);
        }
        self.give(all);
    }
    /// A thread has taken its last step.
    pub(crate) fn retire(&mut self, thread: usize) {
        self.retired[thread] = true;
    }
    /// Steps of `of` that happen before the present of `thread`.
    pub(crate) fn knows(&self, thread: usize, of: usize) -> u32 {
        self.clocks[thread][of]
    }
    /// What every thread that still runs knows.
    pub(crate) fn known_to_all(&self) -> Option<Clock> {
        let mut live = self.clocks.iter().zip(&self.retired).filter(|(_, r)| !**r).map(|(c, _)| c);
        let mut low = live.next()?.clone();
        for c in live {
            low.iter_mut().zip(c.iter()).for_each(|(a, b)| *a = (*a).min(*b));
        }
        Some(low)
    }
    /// Slots are to be collected ([`Race::collect`]).
    pub(crate) fn due(&self) -> bool {
        self.slots.len() >= self.gc_at
    }
    /// All threads of a core know what each knew (the end of a segment).
    pub(crate) fn meet_core(&mut self, core: usize) {
        self.join_threads(self.threads_of(core));
        for t in 0..self.token_open.len() {
            for (_, _, c) in std::mem::take(&mut self.token_open[t][core]) {
                join(&mut self.token_done[t][core], &c);
                self.give(c);
            }
        }
    }
    fn join_threads(&mut self, r: std::ops::Range<usize>) {
        if r.len() < 2 {
            return;
        }
        let mut all = self.fresh(r.start);
        for t in r.clone() {
            join(&mut all, &self.clocks[t]);
        }
        for t in r {
            self.clocks[t].copy_from_slice(&all);
        }
        self.give(all);
    }
    /// Every thread of a core learns a clock (behind a CoreBarrier).
    pub(crate) fn core_learns(&mut self, core: usize, c: &[u32]) {
        for t in self.threads_of(core) {
            join(&mut self.clocks[t], c);
        }
    }
    /// A transfer is issued: it will start with what its engine knows now.
    pub(crate) fn issue(&mut self, core: usize, i: u32, engine: usize) {
        let c = self.fresh(engine);
        if let Some(slot) = self.incoming[core].get_mut(i as usize) {
            *slot = Some(c);
        }
    }
    /// An instruction of a thread is complete: its consumers will learn what the thread knows.
    pub(crate) fn complete(&mut self, core: usize, thread: usize, consumers: &[u32]) {
        for &s in consumers {
            match &mut self.incoming[core][s as usize] {
                Some(c) => join(c, &self.clocks[thread]),
                None => {
                    let c = self.fresh(thread);
                    self.incoming[core][s as usize] = Some(c);
                }
            }
        }
    }
    /// The same with a clock of one's own.
    pub(crate) fn complete_with(&mut self, core: usize, clock: &[u32], consumers: &[u32]) {
        for &s in consumers {
            match &mut self.incoming[core][s as usize] {
                Some(c) => join(c, clock),
                slot @ None => *slot = Some(clock.into()),
            }
        }
    }
    /// A thread takes a step.
    pub(crate) fn tick(&mut self, thread: usize) {
        self.clocks[thread][thread] += 1;
    }

    /// A write of a location that a token stands for.
    pub(crate) fn token_write(&mut self, token: usize, core: usize, thread: usize) {
        let c = self.fresh(thread);
        let tick = c[thread];
        self.token_open[token][core].push((thread as u32, tick, c));
    }
    /// A core arrives at a token: the writes that happen before count from here on.
    pub(crate) fn token_arrive(&mut self, token: usize, core: usize, thread: usize) {
        let open = std::mem::take(&mut self.token_open[token][core]);
        for (t, tick, c) in open {
            if self.clocks[thread][t as usize] >= tick {
                join(&mut self.token_done[token][core], &c);
                self.give(c);
            } else {
                self.token_open[token][core].push((t, tick, c));
            }
        }
        let now = self.token_done[token][core].clone();
        self.token_at[token][core].1.push_back(now);
    }
    /// The `n`-th execution of a token completes on a thread of a core: it hands on what the `n`-th arrival of each writer
    /// stood for, and not what a writer has written since.
    pub(crate) fn token_leave(
        &mut self,
        token: usize,
        n: u64,
        writers: &[usize],
        core: usize,
        thread: usize,
    ) {
        for w in writers {
            let (first, list) = &self.token_at[token][*w];
            let at = usize::try_from(n.saturating_sub(first + 1)).unwrap_or(usize::MAX);
            if let Some(c) = list.get(at) {
                join(&mut self.clocks[thread], c);
            }
        }
        let left = &mut self.token_left[token];
        if let Some(l) = left.iter_mut().find(|l| l.0 == core) {
            l.1 = l.1.max(n);
        }
        let all = left.iter().map(|l| l.1).min().unwrap_or(0);
        for (first, list) in &mut self.token_at[token] {
            while (*first < all || list.len() > MOST_ARRIVALS) && list.pop_front().is_some() {
                *first += 1;
            }
        }
    }

    /// Slots of an instruction's static operands, when known.
    pub(crate) fn cached(&self, core: usize, inst: usize) -> Option<(usize, usize)> {
        let at = self.cache[core][inst];
        (at != u32::MAX).then(|| {
            let (n, _) = self.arena[at as usize];
            (at as usize + 1, at as usize + 1 + n as usize)
        })
    }
    /// Remembers the slots of an instruction's static operands.
    pub(crate) fn remember(&mut self, core: usize, inst: usize, list: &[(u32, Role)]) {
        self.cache[core][inst] = self.arena.len() as u32;
        self.arena.push((list.len() as u32, Role { index: 0, list: 0 }));
        self.arena.extend_from_slice(list);
    }
    /// One of the remembered slots.
    pub(crate) fn remembered(&self, k: usize) -> (u32, Role) {
        self.arena[k]
    }

    /// Slot of a view, made when new.
    pub(crate) fn slot(&mut self, v: &View) -> u32 {
        let key = Key {
            buf: v.buf.0,
            base: v.base,
            size: v.elem_size() as u8,
            dims: v.dims.iter().map(|d| (d.stride, d.num)).collect(),
        };
        if let Some(&s) = self.lookup.get(&key) {
            return s;
        }
        let id = self.slots.len() as u32;
        let fp = footprint(v, self.pages[v.buf.index()].pitch);
        let mut near = vec![id];
        self.seen.push(0);
        self.stamp += 1;
        let pages = &mut self.pages[v.buf.index()];
        for p in pages_of(&fp) {
            let list = pages.lists.entry(p).or_default();
            for &o in list.iter() {
                if self.seen[o as usize] == self.stamp {
                    continue;
                }
                self.seen[o as usize] = self.stamp;
                if overlaps(&fp, &self.slots[o as usize].fp) {
                    near.push(o);
                }
            }
            list.push(id);
        }
        for &o in &near[1..] {
            self.slots[o as usize].near.push(id);
        }
        self.slots.push(Slot {
            buf: v.buf.0,
            fp,
            near,
            write: None,
            silent: SmallVec::new(),
            reads: SmallVec::new(),
            old_reads: SmallVec::new(),
        });
        self.most = self.most.max(self.slots.len());
        self.lookup.insert(key, id);
        id
    }

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

    /// Forgets slots that no future access can race with, when there are many.
    pub(crate) fn collect(&mut self) {
        // Doubts name slots by their number.
        if !self.due() || !self.doubts.is_empty() {
            return;
        }
        let Some(low) = self.known_to_all() else { return };
        let live = |a: &Access| low[a.thread as usize] < a.tick;
        let mut map = vec![u32::MAX; self.slots.len()];
        let mut kept: Vec<Slot> = Vec::new();
        for (k, mut s) in std::mem::take(&mut self.slots).into_iter().enumerate() {
            s.reads.retain(|r| live(r));
            s.old_reads.retain(|r| live(r));
            s.silent.retain(|w| live(w));
            if s.write.as_ref().is_some_and(live) || !s.reads.is_empty() || !s.silent.is_empty() {
                map[k] = kept.len() as u32;
                kept.push(s);
            }
        }
        for s in &mut kept {
            s.near.retain(|n| map[*n as usize] != u32::MAX);
            s.near.iter_mut().for_each(|n| *n = map[*n as usize]);
        }
        self.lookup.retain(|_, s| map[*s as usize] != u32::MAX);
        self.lookup.values_mut().for_each(|s| *s = map[*s as usize]);
        for p in &mut self.pages {
            p.lists.clear();
        }
        for (k, s) in kept.iter().enumerate() {
            for p in pages_of(&s.fp) {
                self.pages[s.buf as usize].lists.entry(p).or_default().push(k as u32);
            }
        }
        self.slots = kept;
        self.seen.clear();
        self.seen.resize(self.slots.len(), 0);
        self.stamp = 0;
        self.arena.clear();
        self.cache.iter_mut().for_each(|c| c.fill(u32::MAX));
        self.gc_at = (2 * self.slots.len()).max(1 << 14);
    }
}

/// Runs that are compared one by one before a finding (our choice).
const MOST_COMPARED: u64 = 1 << 22;

/// Whether two footprints have a byte in common, run by run.
fn share_a_byte(a: &Footprint, b: &Footprint) -> bool {
    let count = |f: &Footprint| f.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.1));
    if count(a).max(count(b)) > MOST_COMPARED {
        return true;
    }
    let rows = |f: &Footprint| -> Vec<i64> {
        (0..f.partitions as i64).map(|k| f.partition + k * f.partition_stride).collect()
    };
    let other = rows(b);
    if !rows(a).iter().any(|r| other.contains(r)) {
        return false;
    }
    let runs = |f: &Footprint| -> Vec<i64> {
        let mut starts = vec![f.low];
        for &(step, n) in &f.dims {
            starts = starts.iter().flat_map(|s| (0..n as i64).map(move |k| s + k * step)).collect();
        }
        starts.sort_unstable();
        starts
    };
    let (x, y) = (runs(a), runs(b));
    let (mut i, mut j) = (0, 0);
    while let (Some(p), Some(q)) = (x.get(i), y.get(j)) {
        if *p < q + b.run && *q < p + a.run {
            return true;
        }
        if p + a.run <= q + b.run {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

/// Bytes of a view: partitions apart when the buffer has a pitch.
pub(crate) fn footprint(v: &View, pitch: Option<usize>) -> Footprint {
    let elem = v.elem_size() as i64;
    let all = |from: usize| -> SmallVec<[(i64, u64); 4]> {
        v.dims[from.min(v.dims.len())..].iter().map(|d| (d.stride as i64, d.num as u64)).collect()
    };
    let made = match pitch {
        Some(p) if p > 0 => {
            let p = p as i64;
            let first = v.dims.first().map_or((0, 1), |d| (d.stride as i64, d.num as u64));
            let count = if first.0 == 0 { 1 } else { first.1 };
            let part = v.base as i64 / p;
            Footprint::of_bytes(
                Space::SharedDram,
                (part, first.0 / p, count),
                v.base as i64 % p,
                elem,
                &all(1),
            )
        }
        _ => Footprint::of_bytes(Space::SharedDram, (0, 1, 1), v.base as i64, elem, &all(0)),
    };
    made.unwrap_or_default()
}
