//! Levels `linked` and `bundles`: streams, queues and semaphores (styles Q and B of the specification, file 09 §10.2).
//!
//! Every engine of a core runs its stream in order, one instruction at a time, with a register file of its own. An
//! instruction starts when its semaphore waits hold and applies its updates when it completes. A transfer leaves its engine at once
//! and lands later, in order inside its queue (one local and one remote queue per engine), applying its update then. What
//! holds the order of a core together is the semaphores alone: a CoreBarrier blocks the engine it sits on and nothing else.
//!
//! A program read from a container runs here as well: its instructions are those its bundles decode to. Meetings, races,
//! undefined bytes and overlapping tensors are those of the other levels ([`crate::collective`], `sync`, `race`, `undef`,
//! `overlap`); what is different is where order comes from ([`semaphore`]) and what a blocked queue waits for ([`report`]).
//! Overlapping tensors need the names of tensors, which a container without a debug table does not have.
//!
//! * `ready`: one bit per possible move and core, recomputed for a core when something of it changed.
//! * `step`: issuing and landing.
//!
//! **Our choice.** A transfer that no engine of its core has waited for when the core ends is a finding (S0025): nothing says
//! that its bytes are there. Without the race check only what really is in flight then is seen; beside races it is not looked for.

mod ready;
mod report;
mod semaphore;
mod step;

use crate::exec::Decoded;
use crate::machine::{Machine, Phase};
use crate::options::RunOptions;
use crate::outcome::{Outcome, StopReason};
use crate::race::{Clock, Race};
use crate::report::WaitFor;
use crate::state::RegValue;
use crate::tensor::Tensor;
use crate::{Ready, Simulator};
use ready::ReadyList;
use semaphore::{Semaphores, Totals};
use std::collections::VecDeque;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::SyncInfo;
use tandem_bir::linked::LinkedProgram;
use tandem_bir::{Inst, InstId};

/// Semaphores of a core.
pub const SEMAPHORES: u32 = 256;
/// Engines of a core.
const ENGINES: usize = 5;

/// Runs a linked program.
///
/// # Errors
/// Findings before the run: operands outside their location, types without a model, inputs that do not fit.
pub fn run(linked: &LinkedProgram, inputs: &[Tensor], opts: RunOptions) -> Result<Outcome, Vec<Diagnostic>> {
    let mut ready: Ready<'_> = Simulator::linked(linked, opts)?;
    ready.set_inputs(inputs)?;
    Ok(ready.run())
}

/// Checks what the streams of a program rely on.
///
/// # Errors
/// S0024 for semaphores that no core has, S0002 for more streams than engines.
pub(crate) fn validate(linked: &LinkedProgram) -> Result<(), Vec<Diagnostic>> {
    let p = &linked.program;
    let mut errs = Vec::new();
    for (core, m) in linked.cores.iter().zip(&p.modules) {
        if core.streams.len() > ENGINES {
            let text = format!("a core has {} streams and {ENGINES} engines", core.streams.len());
            errs.push(Diagnostic::new(codes::S0002, text));
        }
        for &id in core.streams.iter().flat_map(|s| &s.insts) {
            let Some(s) = m.insts.get(id).and_then(sync_of) else { continue };
            let cores = p.modules.len() as u32;
            let sems = s.on_wait.iter().map(|w| w.sem).chain(s.on_update.iter().map(|u| u.sem));
            if let Some(sem) = sems.into_iter().find(|s| *s >= SEMAPHORES) {
                let text = format!("semaphore {sem} is none of the {SEMAPHORES} of a core");
                errs.push(Diagnostic::new(codes::S0024, text).inst(p, m, id));
            }
            if let Some(t) = s.on_update.iter().filter_map(|u| u.target_core).find(|t| *t >= cores) {
                let text = format!("an update names core {t} of {cores}");
                errs.push(Diagnostic::new(codes::S0024, text).inst(p, m, id));
            }
        }
    }
    if errs.is_empty() { Ok(()) } else { Err(errs) }
}

/// Waits and updates of an instruction.
fn sync_of(i: &Inst) -> Option<&SyncInfo> {
    i.sync()
}

/// A transfer on its way.
struct Flight {
    inst: InstId,
    /// Operands that were set when it was issued, when they depend on the run.
    decoded: Option<Decoded>,
    skip: bool,
    /// What its engine knew when it was issued.
    clock: Option<Clock>,
}

/// A transfer queue of an engine.
#[derive(Default)]
struct Queue {
    flights: VecDeque<Flight>,
    /// The last transfer that landed.
    last: Option<InstId>,
}

/// One engine.
struct Engine {
    done: bool,
    /// It waits for the other engines of its core.
    joining: bool,
    regs: Vec<RegValue>,
    /// Local and remote transfers.
    queues: [Queue; 2],
}

/// The engines of all cores, running.
struct Run<'m, 'p> {
    m: &'m mut Machine<'p>,
    linked: &'p LinkedProgram,
    engines: Vec<Vec<Engine>>,
    /// Cores with an engine that has not ended.
    running: usize,
    sems: Semaphores,
    ready: ReadyList,
}

/// Runs the streams of a machine whose cores stand at their beginning.
pub(crate) fn run_streams<'p>(
    m: &mut Machine<'p>,
    linked: &'p LinkedProgram,
) -> (StopReason, Option<WaitFor>) {
    let mut totals = None;
    if m.race.is_some() && Semaphores::new(linked, m.cores.len()).has_several() {
        totals = Some(count_totals(m, linked));
    }
    Run::new(m, linked, totals).go()
}

/// What every producer adds to every semaphore in every epoch: a run without checks on a copy of the machine's state.
fn count_totals<'p>(m: &mut Machine<'p>, linked: &'p LinkedProgram) -> Totals {
    let mem = m.mem.clone();
    let sync = m.sync.clone();
    let (race, undef, overlap) = (m.race.take(), m.undef.take(), m.overlap.take());
    let (progress, rng, timing) = (m.opts.progress.take(), m.rng.clone(), m.timing.take());
    let cores: Vec<_> =
        m.cores.iter().map(|c| (c.st.clone(), c.counters.clone(), c.executed.clone())).collect();
    let diagnostics = std::mem::take(&mut m.diagnostics);
    let noted = m.noted.clone();

    let mut run = Run::new(m, linked, None);
    run.sems.count();
    let _ = run.go_on();
    let totals = run.sems.take_totals();

    m.mem = mem;
    m.sync = sync;
    (m.race, m.undef, m.overlap) = (race, undef, overlap);
    (m.opts.progress, m.rng, m.timing) = (progress, rng, timing);
    for (c, (st, counters, executed)) in m.cores.iter_mut().zip(cores) {
        (c.st, c.counters, c.executed) = (st, counters, executed);
        c.run = Default::default();
        c.last_sync = None;
    }
    m.deferred.forget();
    m.diagnostics = diagnostics;
    m.noted = noted;
    (m.steps, m.idle_steps, m.put_off, m.carried_by_value) = (0, 0, 0, false);
    m.notes.clear();
    totals
}

impl<'m, 'p> Run<'m, 'p> {
    fn new(m: &'m mut Machine<'p>, linked: &'p LinkedProgram, totals: Option<Totals>) -> Run<'m, 'p> {
        let mut engines = Vec::new();
        for core in &mut m.cores {
            core.phase = if core.streams.is_empty() { Phase::Done } else { Phase::Streams };
            let engine = |_| Engine {
                done: false,
                joining: false,
                regs: core.st.regs.clone(),
                queues: Default::default(),
            };
            engines.push(core.streams.iter().map(engine).collect());
        }
        let running = m.cores.iter().filter(|c| c.phase == Phase::Streams).count();
        let mut sems = Semaphores::new(linked, m.cores.len());
        sems.set_totals(totals);
        let ready = ReadyList::new(m.cores.len());
        Run { m, linked, engines, running, sems, ready }
    }

    fn go(mut self) -> (StopReason, Option<WaitFor>) {
        let stop = self.go_on();
        let told = self.sems.take_ambiguous();
        let thread = |r: &Race, lane: u32| {
            let (c, l) = (lane as usize / (3 * ENGINES), lane as usize % (3 * ENGINES));
            match l.checked_sub(ENGINES) {
                None => r.thread(c, l),
                Some(t) => r.transfers(c, t / 2, t % 2 == 1),
            }
        };
        if let Some(r) = &self.m.race {
            self.m.ambiguous = told.into_iter().map(|(l, c, t)| (thread(r, l) as u32, c, t)).collect();
        }
        match stop {
            StopReason::Finished => {
                self.transfers_left();
                (stop, None)
            }
            StopReason::Deadlock => {
                let w = self.wait_for();
                (stop, Some(w))
            }
            StopReason::StepLimit | StopReason::Fault | StopReason::Cancelled => (stop, None),
        }
    }

    /// Runs to the end, to quiescence, or to a fault; everything is computed then.
    fn go_on(&mut self) -> StopReason {
        let stop = self.schedule();
        if self.m.catch_up().is_err() { self.m.stopped() } else { stop }
    }

    fn schedule(&mut self) -> StopReason {
        for c in 0..self.engines.len() {
            self.refresh(c);
        }
        let mut ticks = 0u64;
        loop {
            if let Some(reason) = self.m.tick(&mut ticks) {
                return reason;
            }
            let Some((c, mv)) = self.ready.pick(self.m.opts.schedule, &mut self.m.rng) else { break };
            if let Err(stop) = self.act(c, mv) {
                self.m.fault(c, stop);
                return self.m.stopped();
            }
            self.collect();
            self.refresh(c);
            while let Some(c) = self.m.woken.pop() {
                self.refresh(c);
            }
        }
        if self.running == 0 { StopReason::Finished } else { StopReason::Deadlock }
    }

    /// The instruction at the head of an engine.
    fn head(&self, c: usize, e: usize) -> Option<InstId> {
        if self.engines[c][e].done {
            return None;
        }
        let core = &self.m.cores[c];
        core.streams[e].insts.get(core.run.heads[e] as usize).copied()
    }

    fn inst(&self, c: usize, i: InstId) -> &'p Inst {
        &self.m.cores[c].module.insts[i]
    }

    /// Forgets what no future access can race with, when there is much of it.
    fn collect(&mut self) {
        let Some(race) = &mut self.m.race else { return };
        if !race.due() && !self.sems.due() {
            return;
        }
        // Whatever lands later was issued later: an idle queue knows what its engine knows.
        for (c, engines) in self.engines.iter().enumerate() {
            for (e, x) in engines.iter().enumerate() {
                for (r, q) in x.queues.iter().enumerate() {
                    let thread = race.transfers(c, e, r == 1);
                    if q.flights.is_empty() && thread != race.thread(c, e) {
                        race.learn_from(thread, race.thread(c, e));
                    }
                }
            }
        }
        race.collect();
        self.sems.prune(race);
    }

    /// Transfers of a finished program that no engine of their core waited for.
    fn transfers_left(&mut self) {
        let Some(race) = &self.m.race else { return };
        // Behind a race the clocks pretend an order; the transfers are looked at when it is gone.
        if !race.found.is_empty() {
            return;
        }
        let mut found = Vec::new();
        for (c, engines) in self.engines.iter().enumerate() {
            for (e, x) in engines.iter().enumerate() {
                for (r, q) in x.queues.iter().enumerate() {
                    let Some(last) = q.last else { continue };
                    let t = race.transfers(c, e, r == 1);
                    let all = (0..engines.len()).map(|e| race.thread(c, e));
                    if all.map(|e| race.knows(e, t)).max() < Some(race.knows(t, t)) {
                        found.push((c, last));
                    }
                }
            }
        }
        for (c, i) in found {
            self.in_flight(c, i);
        }
    }

    /// A finding: nothing waits for a transfer before its core ends.
    fn in_flight(&mut self, c: usize, i: InstId) {
        if !self.m.noted.insert((c, i, "S0025")) {
            return;
        }
        let name = self.inst(c, i).name.clone();
        let d =
            Diagnostic::new(codes::S0025, format!("the core may end while transfer `{name}` is in flight"))
                .site(self.m.site(c, i).label("no engine waits for it"))
                .help("wait for its semaphore before Exit");
        self.m.diagnostics.push(d);
    }

    /// A finding about a semaphore, once per instruction.
    fn misuse(&mut self, c: usize, i: InstId, text: String) {
        if !self.m.noted.insert((c, i, "S0024")) {
            return;
        }
        self.m.diagnostics.push(Diagnostic::new(codes::S0024, text).site(self.m.site(c, i)));
    }

    /// What an instruction resets.
    fn reset_list(&self, c: usize, i: InstId) -> Vec<u32> {
        let list = self.inst(c, i).get_ints(tandem_bir::Attr::SemaGroup);
        list.iter().filter_map(|s| u32::try_from(*s).ok().filter(|s| *s < SEMAPHORES)).collect()
    }

    /// An operand depends on the run.
    fn is_dynamic(&self, c: usize, i: InstId) -> bool {
        !self.m.cores[c].code.recipes[i.index()].is_empty()
    }
}
