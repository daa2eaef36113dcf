//! What each thread knows of the others: edges, meetings, transfers, tokens.

use super::{Clock, Race, join};

/// Arrivals at a token that are kept for a core that does not come to it; one that comes later learns too much (our choice).
const MOST_ARRIVALS: usize = 1 << 10;

impl Race {
    pub(super) fn fresh(&mut self, like: usize) -> Clock {
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
}
