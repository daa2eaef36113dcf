//! Where a run computes: on a thread of the pool when it has work for several.
//!
//! Work that a thread outside of the pool hands to it costs two wake-ups, of a thread of the pool and of the caller, about
//! as much as a reduction of 128 × 4096 elements. On a thread of the pool it costs none: what no other thread has taken by the time
//! it is wanted, the thread that handed it out does itself.

use crate::machine::Core;

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
