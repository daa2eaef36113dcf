//! Runs that are timed.

use super::Ready;
use crate::code::Style;
use crate::outcome::Outcome;
use crate::timing::trace::{TraceHead, TraceSink};
use crate::timing::{Builder, Clock, Generation, Params, Recorder, Stage, TimingReport, emit};
use tandem_bir::diag::{Diagnostic, codes};

/// How a run is timed.
pub(super) struct Timed<'s> {
    pub(super) params: Params,
    pub(super) g: Generation,
    pub(super) sink: Option<&'s mut dyn TraceSink>,
}

/// More was executed than there is memory to time.
pub(super) fn too_long(limit: u64) -> Diagnostic {
    Diagnostic::new(codes::S0005, "the run has too many executions to be timed")
        .note(format!("the record of a timed run may take {limit} bytes"))
        .help("time fewer iterations of the outer loop: iterations that are alike take the same time")
}

impl Ready<'_> {
    /// Runs the program and predicts its time; the prediction is there when the run finishes.
    ///
    /// # Errors
    /// One finding (S0002) for a program of level `bir`, or a generation without numbers.
    pub fn run_timed(self, params: &Params) -> Result<(Outcome, Option<TimingReport>), Vec<Diagnostic>> {
        self.timed(params, None)
    }

    /// The same, and hands every event of the run to a sink once it has finished ([`crate::timing::trace`]).
    ///
    /// # Errors
    /// As [`Ready::run_timed`].
    pub fn run_traced(
        self,
        params: &Params,
        sink: &mut dyn TraceSink,
    ) -> Result<(Outcome, Option<TimingReport>), Vec<Diagnostic>> {
        self.timed(params, Some(sink))
    }

    fn timed(
        self,
        params: &Params,
        sink: Option<&mut dyn TraceSink>,
    ) -> Result<(Outcome, Option<TimingReport>), Vec<Diagnostic>> {
        let refuse = |text: String| vec![Diagnostic::new(codes::S0002, text)];
        if self.machine.style == Style::Program {
            return Err(refuse("time is predicted at levels lowered, linked and bundles".into()));
        }
        let arch = self.machine.program.arch();
        let Some(g) = Generation::of(arch) else {
            return Err(refuse(format!("there is no timing model of {arch}")));
        };
        Ok(self.go(Some(Timed { params: params.clone(), g, sink })))
    }

    /// Gives the recorded executions their times: one subgraph after the other.
    pub(super) fn time(
        &self,
        records: &[Recorder],
        mut sink: Option<&mut (dyn TraceSink + '_)>,
    ) -> Result<Option<TimingReport>, Diagnostic> {
        let Some(first) = records.first() else { return Ok(None) };
        let program = self.machine.program;
        let cores = self.lnc * self.lncs;
        let overhead_ps = first.overhead().ps();
        if let Some(s) = &mut sink {
            s.begin(&TraceHead {
                program,
                generation: first.g,
                back_end: first.params.back_end,
                cores,
                lnc: self.lnc,
                overhead_ps,
            });
        }
        let mut report = Builder::new(program, first, cores, self.lnc);
        let (mut execution, mut flow) = (0, 0);
        for (k, (rec, p)) in records.iter().zip(&self.parts).enumerate() {
            let mut stage = Stage {
                start: report.total(),
                module: k * self.lnc,
                first: execution,
                sink: match &mut sink {
                    Some(s) => Some(&mut **s),
                    None => None,
                },
            };
            let timeline = Clock::new(rec, &p.cores, &p.sync.tokens, self.lnc, &mut stage).run();
            if timeline.stuck > 0 {
                return Err(stuck(timeline.stuck));
            }
            flow = emit(rec, &p.cores, self.lnc, &timeline, &mut stage, flow);
            execution += rec.cores.iter().map(|w| w.nodes.len() as u64).sum::<u64>();
            report.add(rec, &p.cores, &timeline);
        }
        let report = report.finish();
        if let Some(s) = &mut sink {
            s.end(report.total_ps);
        }
        Ok(Some(report))
    }
}

/// The run ends in the order of the schedule, and not in the order of time.
fn stuck(left: usize) -> Diagnostic {
    let text = format!(
        "in the order of time {left} instructions wait for ever: the semaphores count differently then"
    );
    Diagnostic::new(codes::S0024, text)
        .help("run with the race check: two uses of a semaphore that nothing orders are the reason")
}
