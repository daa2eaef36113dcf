//! Where a run computes: on a thread of the pool when it has work for several.
//!
//! Work that a thread outside of the pool hands to it costs two wake-ups, of a thread of the pool and of the caller, about
//! as much as a reduction of 128 × 4096 elements. On a thread of the pool it costs none: what no other thread has taken by the time
//! it is wanted, the thread that handed it out does itself.

use crate::machine::Core;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a tensor from which on an instruction on it may be worth several threads (our choice).
const LARGE: u64 = 1 << 16;

/// `f` on a thread of the pool, where `large` says that it is worth the way there.
pub(crate) fn run<T: Send>(large: bool, f: impl FnOnce() -> T + Send) -> T {
    if large && rayon::current_thread_index().is_none() && rayon::current_num_threads() > 1 {
        rayon::scope(|_| f())
    } else {
        f()
    }
}

/// The cores have a tensor that is large enough for several threads.
pub(crate) fn has_large_tensors(cores: &[Core<'_>]) -> bool {
    cores.iter().any(|c| c.module.memlocs.iter().any(|(_, l)| l.size_bytes() >= LARGE))
}

/// How long a thread of the pool looks for work before it sleeps (our choice; below what the pool's own rule amounts to).
const AWAKE: Duration = Duration::from_micros(20);
/// How much more work an instruction must be when the helper sleeps: to wake it takes about 50 us (our choice).
const WAKING: usize = 4;

/// Whether a second thread is likely to be awake. It decides how the work is done, never what comes out.
#[derive(Debug)]
pub(crate) struct Helper {
    start: Instant,
    /// Nanoseconds from `start` to the end of its last work; 0: it had none.
    used: AtomicU64,
    /// Taken to be awake, so that what is cut does not depend on time; for tests.
    always: bool,
}

impl Helper {
    pub(crate) fn new(always: bool) -> Helper {
        Helper { start: Instant::now(), used: AtomicU64::new(0), always }
    }

    /// Work of `size` is worth the second thread, if work of `least` is when that thread is awake.
    pub(crate) fn is_worth(&self, size: usize, least: usize) -> bool {
        size >= least.saturating_mul(WAKING) || size >= least && self.is_awake()
    }

    /// Does both, on two threads when the second one comes in time.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let done = rayon::join(a, b);
        self.was_used();
        done
    }

    /// The second thread had work until now.
    pub(crate) fn was_used(&self) {
        self.used.store(self.now().max(1), Ordering::Relaxed);
    }

    fn is_awake(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        self.always || used != 0 && self.now().saturating_sub(used) < AWAKE.as_nanos() as u64
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

impl Default for Helper {
    fn default() -> Helper {
        Helper::new(false)
    }
}

impl Clone for Helper {
    fn clone(&self) -> Helper {
        Helper::new(self.always)
    }
}
