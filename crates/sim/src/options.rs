//! What a caller may choose about a run.

use crate::numeric_profile::NumericProfile;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_bir::diag::Severity;

/// Who acts next when several may (the specification, file 09 §10.2). Race-free programs give the same bytes under all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A transfer lands as early as legal; the lowest core runs first.
    #[default]
    Eager,
    /// A transfer lands as late as legal; the highest core runs first.
    Late,
    /// A random choice among all that may act, from this seed.
    Seed(u64),
}

impl Schedule {
    /// Reads `eager`, `late` or `seed=N`.
    pub fn parse(text: &str) -> Option<Schedule> {
        match text {
            "eager" => Some(Schedule::Eager),
            "late" => Some(Schedule::Late),
            t => t.strip_prefix("seed=")?.parse().ok().map(Schedule::Seed),
        }
    }
}

/// What replica ids and rank instructions mean (decision D14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// Ids are the cores of the one LNC that runs.
    #[default]
    AreCores,
    /// So many whole LNCs run; ids are LNCs.
    Lncs(u32),
}

/// What a completion token does (decision D3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ptcom {
    /// It waits until the last writes of its location on every core have completed.
    #[default]
    P2p,
    /// It tells the runtime and orders nothing.
    Notify,
}

/// What memory holds before anything is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Bytes 0xFF (a NaN in every float type, −1 in every signed integer).
    #[default]
    Ff,
    /// NaN in floats, 4 in integers, by the type of the tensor.
    Nan4,
    /// Random bytes of this seed.
    Random(u64),
}

impl Fill {
    /// Reads `ff`, `nan4` or `random=N`.
    pub fn parse(text: &str) -> Option<Fill> {
        match text {
            "ff" => Some(Fill::Ff),
            "nan4" => Some(Fill::Nan4),
            t => t.strip_prefix("random=")?.parse().ok().map(Fill::Random),
        }
    }
}

/// Called now and then with the number of instructions completed.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Order among those that may act.
    pub schedule: Schedule,
    /// Meaning of ranks.
    pub ranks: Ranks,
    /// Meaning of completion tokens.
    pub ptcom: Ptcom,
    /// Content of memory before the first write.
    pub fill: Fill,
    /// Readings of undocumented numeric rules.
    pub profile: NumericProfile,
    /// Look for data races.
    pub race_check: bool,
    /// Two cores that store equal values in the same places, in whatever order, are a note (S0026) and no race.
    pub equal_writes: bool,
    /// Look for uses of bytes that nothing has written.
    pub undefined_check: bool,
    /// Severity of the findings of that check.
    pub undefined_severity: Severity,
    /// Instructions that may complete before the run is stopped as a livelock (our choice: 10⁸).
    pub step_limit: u64,
    /// Bytes of simulated memory (our choice: 8 GiB).
    pub memory_limit: u64,
    /// Depth of calls and loop regions (our choice: 256).
    pub depth_limit: usize,
    /// Work, in elements of a simple instruction, from which on the cores of a program compute side by side: what an
    /// instruction computes may then come later than its place in the order, with the same bytes and findings. `u64::MAX`: never.
    /// 0: whenever it can be, and large instructions are shared by two threads whether or not one of them is known to be awake.
    pub side_by_side: u64,
    /// Called every 2¹⁶ instructions.
    pub progress: Option<Progress>,
    /// Set to stop the run; looked at every 2¹² steps.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            schedule: Schedule::default(),
            ranks: Ranks::default(),
            ptcom: Ptcom::default(),
            fill: Fill::default(),
            profile: NumericProfile::default(),
            race_check: true,
            equal_writes: false,
            undefined_check: true,
            undefined_severity: Severity::Error,
            step_limit: 100_000_000,
            memory_limit: 8 << 30,
            depth_limit: 256,
            side_by_side: crate::deferred::WORTH,
            progress: None,
            cancel: None,
        }
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("schedule", &self.schedule)
            .field("ranks", &self.ranks)
            .field("ptcom", &self.ptcom)
            .field("fill", &self.fill)
            .field("race_check", &self.race_check)
            .field("equal_writes", &self.equal_writes)
            .field("undefined_check", &self.undefined_check)
            .field("step_limit", &self.step_limit)
            .field("memory_limit", &self.memory_limit)
            .finish_non_exhaustive()
    }
}
