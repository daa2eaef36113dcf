//! A line on standard error about work that takes longer than a second; nothing when that is no terminal.
//!
//! The line is drawn by a thread of its own and wiped before anything else is printed. What a program computes and prints does
//! not depend on it.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tandem_backend::pass::{Hooks, PassInfo};
use tandem_backend::pipeline;
use tandem_bir::Program;
use tandem_bir::diag::Diagnostic;

/// Work shorter than this shows nothing.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two drawings.
const EVERY: Duration = Duration::from_millis(100);
/// Characters of a bar.
const WIDTH: u64 = 24;

#[derive(Default)]
struct State {
    stage: String,
    /// Nothing is under way any more.
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    done: AtomicU64,
    total: AtomicU64,
}

fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows what is under way.
#[derive(Clone)]
pub struct Progress {
    on: bool,
    delay: Duration,
    every: Duration,
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    out: Arc<Mutex<dyn Write + Send>>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("on", &self.on).finish_non_exhaustive()
    }
}

impl Progress {
    /// On standard error, when that is a terminal.
    pub fn stderr() -> Progress {
        Progress::to(Arc::new(Mutex::new(io::stderr())), io::stderr().is_terminal(), DELAY, EVERY)
    }
    /// Nowhere.
    pub fn off() -> Progress {
        Progress::to(Arc::new(Mutex::new(io::sink())), false, DELAY, EVERY)
    }
    fn to(out: Arc<Mutex<dyn Write + Send>>, on: bool, delay: Duration, every: Duration) -> Progress {
        Progress { on, delay, every, shared: Arc::default(), thread: Arc::default(), out }
    }

    /// Says what is under way now, and of how many steps (0: not known).
    pub fn stage(&self, what: &str, total: u64) {
        if !self.on {
            return;
        }
        lock(&self.shared.state).stage = what.to_owned();
        self.shared.done.store(0, Ordering::Relaxed);
        self.shared.total.store(total, Ordering::Relaxed);
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            lock(&self.shared.state).stop = false;
            let (shared, out) = (Arc::clone(&self.shared), Arc::clone(&self.out));
            let (delay, every) = (self.delay, self.every);
            *thread = std::thread::Builder::new()
                .name("progress".to_owned())
                .spawn(move || draw(&shared, &out, delay, every))
                .ok();
        }
    }
    /// Steps done of the stage.
    pub fn done(&self, steps: u64) {
        self.shared.done.store(steps, Ordering::Relaxed);
    }
    /// One more step.
    pub fn step(&self) {
        self.shared.done.fetch_add(1, Ordering::Relaxed);
    }
    /// Called with the number of steps done; nothing when nothing is shown.
    pub fn counter(&self) -> Option<Arc<dyn Fn(u64) + Send + Sync>> {
        let shared = Arc::clone(&self.shared);
        let count: Arc<dyn Fn(u64) + Send + Sync> =
            Arc::new(move |n| shared.done.store(n, Ordering::Relaxed));
        self.on.then_some(count)
    }
    /// Wipes the line; it comes back with the next stage.
    pub fn finish(&self) {
        let Some(thread) = lock(&self.thread).take() else { return };
        lock(&self.shared.state).stop = true;
        self.shared.wake.notify_all();
        // A panic there has nothing to do with the work.
        let _ = thread.join();
    }
}

/// Hooks that count passes, around the hooks of a command.
pub struct Passes<'a> {
    progress: &'a Progress,
    inner: &'a mut dyn Hooks,
}

impl<'a> Passes<'a> {
    /// Counts passes from here on.
    pub fn new(progress: &'a Progress, inner: &'a mut dyn Hooks) -> Passes<'a> {
        let all = pipeline::TO_BIR.len() + pipeline::TO_LOWERED.len();
        progress.stage("passes", all as u64);
        Passes { progress, inner }
    }
}

impl Hooks for Passes<'_> {
    fn after_pass(&mut self, info: &'static PassInfo, p: &Program) {
        self.inner.after_pass(info, p);
    }
    fn verify(&mut self, info: &'static PassInfo, p: &Program) -> Vec<Diagnostic> {
        self.inner.verify(info, p)
    }
    fn elapsed(&mut self, info: &'static PassInfo, time: Duration) {
        self.progress.step();
        self.inner.elapsed(info, time);
    }
}

fn draw(shared: &Shared, out: &Mutex<dyn Write + Send>, delay: Duration, every: Duration) {
    let start = Instant::now();
    let mut wait = delay;
    let mut shown = false;
    let mut turn = 0usize;
    let mut state = lock(&shared.state);
    while !state.stop {
        let (s, timeout) = shared.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        state = s;
        if state.stop {
            break;
        }
        if !timeout.timed_out() {
            continue;
        }
        wait = every;
        let (done, total) = (shared.done.load(Ordering::Relaxed), shared.total.load(Ordering::Relaxed));
        let text = line(&state.stage, done, total, start.elapsed(), turn);
        turn += 1;
        shown = true;
        let mut w = lock(out);
        let _ = write!(w, "\r\x1b[K{text}").and_then(|()| w.flush());
    }
    drop(state);
    if shown {
        let mut w = lock(out);
        let _ = write!(w, "\r\x1b[K").and_then(|()| w.flush());
    }
}

/// The line: a bar when the number of steps is known, a count otherwise.
fn line(stage: &str, done: u64, total: u64, elapsed: Duration, turn: usize) -> String {
    let seconds = elapsed.as_secs();
    if let Some(full) = (done.min(total) * WIDTH).checked_div(total) {
        let bar: String = (0..WIDTH).map(|k| if k < full { '#' } else { '-' }).collect();
        return format!("[{bar}] {stage} {}/{total}, {seconds} s", done.min(total));
    }
    let wheel = ['|', '/', '-', '\\'][turn % 4];
    if done == 0 {
        return format!("{wheel} {stage}, {seconds} s");
    }
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("{wheel} {stage}: {done} instructions, {rate:.0}/s, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(on: bool, work: Duration) -> String {
        let buffer = Arc::new(Mutex::new(Vec::new()));
        let out: Arc<Mutex<dyn Write + Send>> = Arc::clone(&buffer) as _;
        let p = Progress::to(out, on, Duration::from_millis(20), Duration::from_millis(5));
        p.stage("simulating", 4);
        p.step();
        std::thread::sleep(work);
        p.finish();
        p.finish();
        let bytes = lock(&buffer).clone();
        String::from_utf8(bytes).unwrap_or_default()
    }

    #[test]
    fn long_work_shows_a_line_and_wipes_it() {
        let s = captured(true, Duration::from_millis(400));
        assert!(s.contains("[######------------------] simulating 1/4, 0 s"), "{s:?}");
        assert!(s.ends_with("\r\x1b[K"), "{s:?}");
    }

    #[test]
    fn short_work_and_no_terminal_show_nothing() {
        assert_eq!(captured(true, Duration::ZERO), "");
        assert_eq!(captured(false, Duration::from_millis(100)), "");
    }

    #[test]
    fn lines_say_what_is_known() {
        let s = Duration::from_secs(2);
        assert_eq!(line("reading", 0, 0, s, 0), "| reading, 2 s");
        assert_eq!(line("simulating", 10, 0, s, 1), "/ simulating: 10 instructions, 5/s, 2 s");
        assert_eq!(line("passes", 9, 3, s, 1), "[########################] passes 3/3, 2 s");
    }
}
