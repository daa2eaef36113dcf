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
//! their clocks. Which slots overlap is worked out once per slot by the exact test of [`slots`]. An access is compared with the
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

mod access;
mod clocks;
mod slots;

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tandem_bir::InstId;

pub(crate) use slots::footprint;
use slots::{Key, Pages, Slot};

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
}
