//! From a program to a simulation, and through its run.

mod order;
mod tensors;
mod timed;

use crate::code::{Code, Style, prepare, prepare_streams};
use crate::collective::Topology;
use crate::deferred::Deferred;
use crate::machine::{Core, Frame, List, Machine, Phase, SegRun};
use crate::memory::Memory;
use crate::numeric_profile::{RegisterInit, Uninit};
use crate::options::{Ranks, RunOptions};
use crate::outcome::{Outcome, Stats, StopReason};
use crate::overlap::Overlap;
use crate::place::{Names, Place, place};
use crate::pool::{self, Helper};
use crate::queue_style;
use crate::race::Race;
use crate::state::{CoreState, RegValue};
use crate::sync::{Counters, Sync};
use crate::timing::{Recorder, TimingReport};
use crate::undef::Undef;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::inst::table::TABLE;
use tandem_bir::linked::LinkedProgram;
use tandem_bir::{CoreId, Level, Module, Program};

use order::{lanes, linked_tokens, program_order, tokens};
use timed::Timed;

/// LNCs of one simulation (our choice).
const MAX_LNCS: usize = 1024;

/// Makes simulations.
#[derive(Debug)]
pub struct Simulator;

/// A program with its memory, before it runs.
pub struct Ready<'p> {
    machine: Machine<'p>,
    /// What runs, subgraph by subgraph.
    parts: Vec<Part<'p>>,
    /// The streams of levels `linked` and `bundles`.
    linked: Option<&'p LinkedProgram>,
    /// Per module.
    names: Vec<Names<'p>>,
    lnc: usize,
    lncs: usize,
}

/// The cores of one subgraph.
struct Part<'p> {
    cores: Vec<Core<'p>>,
    sync: Sync,
    race: Option<Race>,
    overlap: Option<Overlap>,
}

impl std::fmt::Debug for Ready<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("lnc", &self.lnc).field("lncs", &self.lncs).finish_non_exhaustive()
    }
}

impl Simulator {
    /// Places the memory of a program, decodes its instructions and loads its constants.
    ///
    /// Subgraphs run one after the other (our choice, no source says how they are joined): `sg00` on all cores, then `sg01`.
    /// Placed locations of a core share its memories, so that what one subgraph leaves at an address the next one finds
    /// there; inputs, outputs and locations without an address belong to their subgraph. Registers and engine state start
    /// anew.
    ///
    /// # Errors
    /// Findings: operands that leave their location (S0001), instructions and forms that are not simulated (S0002), too much
    /// memory (S0005), locations outside their memory (S0006), aliases of nothing (S0007), constants that do not fit (S0008).
    #[allow(clippy::new_ret_no_self, reason = "a simulator is what makes simulations; it has no state")]
    pub fn new(program: &Program, opts: RunOptions) -> Result<Ready<'_>, Vec<Diagnostic>> {
        let style = match program.level {
            Level::Bir => Style::Program,
            Level::Lowered => Style::Dependency,
            Level::Linked => {
                let text = "a program of level linked runs with its streams (`Simulator::linked`)";
                return Err(vec![Diagnostic::new(codes::S0002, text)]);
            }
        };
        Simulator::build(program, None, opts, style)
    }

    /// The same for a linked program, or one read from a container of bundles: engines run their streams, semaphores hold
    /// the order ([`queue_style`]).
    ///
    /// # Errors
    /// As [`Simulator::new`], and numbers of semaphores that no core has (S0024).
    pub fn linked(linked: &LinkedProgram, opts: RunOptions) -> Result<Ready<'_>, Vec<Diagnostic>> {
        queue_style::validate(linked)?;
        Simulator::build(&linked.program, Some(linked), opts, Style::Queue)
    }

    fn build<'p>(
        program: &'p Program,
        linked: Option<&'p LinkedProgram>,
        opts: RunOptions,
        style: Style,
    ) -> Result<Ready<'p>, Vec<Diagnostic>> {
        let unsupported = |text: String| vec![Diagnostic::new(codes::S0002, text)];
        let lnc = program.lnc_size.max(1) as usize;
        if program.modules.is_empty() || program.modules.len() < lnc {
            return Err(unsupported(format!(
                "the program has {} modules for {lnc} cores",
                program.modules.len()
            )));
        }
        if !program.modules.len().is_multiple_of(lnc) {
            return Err(unsupported(format!("{} modules do not fill {lnc} cores", program.modules.len())));
        }
        let Some(arch) = program.arch().spec() else {
            return Err(unsupported(format!("there is no model of {}", program.arch())));
        };
        let modules: Vec<&Module> = program.modules.iter().collect();
        if lnc > 1 && modules.iter().any(|m| m.core.is_none()) {
            return Err(unsupported("a symbolic module must be split into cores first".into()));
        }
        let (lncs, ids_are_lncs) = match opts.ranks {
            Ranks::AreCores => (1, false),
            Ranks::Lncs(n) => (n.max(1) as usize, true),
        };
        if lncs > MAX_LNCS {
            return Err(unsupported(format!("{lncs} LNCs are not simulated, at most {MAX_LNCS}")));
        }
        let names: Vec<Names<'_>> = modules.iter().map(|m| Names::new(m)).collect();
        let mut mem = Memory::new();
        let places = place(program, &modules, &names, lnc, arch, &opts, lncs, &mut mem)?;

        let mut errs = Vec::new();
        let mut all: Vec<Vec<Core<'_>>> = (0..modules.len() / lnc).map(|_| Vec::new()).collect();
        let streams_of = |k: usize| linked.and_then(|l| l.cores.get(k)).map_or(&[][..], |c| &c.streams);
        let prepared = |(g, places): (usize, &Vec<Option<Place>>)| {
            let k = g % modules.len();
            let (m, len) = (modules[k], |b| mem.bytes(b).len());
            match style {
                Style::Queue => prepare_streams(program, m, streams_of(k), places, &opts.profile, &len),
                Style::Program | Style::Dependency => prepare(program, m, places, style, &opts.profile, &len),
            }
        };
        let codes: Vec<Result<Code<'_>, Vec<Diagnostic>>> = if program.is_large() {
            places.of.par_iter().enumerate().map(prepared).collect()
        } else {
            places.of.iter().enumerate().map(prepared).collect()
        };
        for (g, (places, code)) in places.of.into_iter().zip(codes).enumerate() {
            let (r, k) = (g / modules.len(), g % modules.len());
            let (subgraph, c) = (k / lnc, k % lnc);
            let m = modules[k];
            let streams = streams_of(k);
            let debug = linked.and_then(|l| l.cores.get(k)).map(|c| &c.debug).filter(|d| !d.insts.is_empty());
            let code = match code {
                Ok(code) => code,
                Err(e) => {
                    if r == 0 {
                        errs.extend(e);
                    }
                    continue;
                }
            };
            let topo = Topology { lnc, lncs, ids_are_lncs, my_lnc: r, my_core: c };
            let rank = if ids_are_lncs { r } else { c };
            let mut st = CoreState::new(CoreId(c as u32), rank as i64, m.regs.len());
            if opts.profile.register_init != RegisterInit::Poison {
                st.regs.fill(RegValue { bits: -1, defined: true });
            }
            let frames = code.entry.and_then(|f| {
                let block = *m.funcs[f].blocks.first()?;
                Some(Frame { list: List::Func(f), pos: 0, block, step: 0, looped: None })
            });
            all[subgraph].push(Core {
                id: CoreId(c as u32),
                module: m,
                streams,
                debug_of: debug.iter().flat_map(|d| &d.insts).zip(0..).map(|(i, k)| (i.inst, k)).collect(),
                debug,
                code,
                places,
                topo,
                st,
                frames: frames.into_iter().collect(),
                axes: Vec::new(),
                phase: Phase::Control,
                run: SegRun::default(),
                ready: 0,
                counters: Counters::default(),
                plans: FxHashMap::default(),
                executed: vec![0; TABLE.len()],
                last_sync: None,
            });
        }
        if !errs.is_empty() {
            return Err(errs);
        }
        let mut parts = Vec::new();
        for (s, cores) in all.into_iter().enumerate() {
            let own = s * lnc..(s + 1) * lnc;
            let mut sync = Sync::default();
            match linked {
                Some(l) => linked_tokens(l, &modules, &names, lncs, &mut sync),
                None => tokens(&modules[own.clone()], &names[own.clone()], lncs, &mut sync),
            }
            let race = opts.race_check.then(|| {
                let order = cores.iter().map(program_order).collect();
                let mut pitches = vec![None; mem.len()];
                for p in cores.iter().flat_map(|c| &c.places).flatten() {
                    pitches[p.buf.index()] = p.pitch;
                }
                let lanes = cores.iter().map(|c| lanes(c, style)).collect();
                let users = sync.tokens.iter().map(|t| t.users.clone()).collect();
                Race::new(lanes, order, pitches, users)
            });
            let overlap = if opts.race_check {
                Overlap::new(&modules[own.clone()], &names[own], &cores, lnc, arch, opts.memory_limit)
            } else {
                None
            };
            parts.push(Part { cores, sync, race, overlap });
        }
        let marks = opts.undefined_check && opts.profile.uninit == Uninit::InitBits;
        let undef = marks.then(|| Undef::new(&mem, &[]));
        let mut machine = Machine::new(program, opts, arch, style, mem, Vec::new(), Sync::default());
        machine.undef = undef;
        let mut ready = Ready { machine, parts, linked, names, lnc, lncs };
        ready.load_constants()?;
        Ok(ready)
    }
}

/// Numbers of instructions.
fn lengths(cores: &[Core<'_>]) -> Vec<usize> {
    cores.iter().map(|c| c.module.insts.len()).collect()
}

impl Ready<'_> {
    /// Number of simulated cores.
    pub fn num_cores(&self) -> usize {
        self.lnc * self.lncs
    }

    /// Runs the program.
    pub fn run(self) -> Outcome {
        self.go(None).0
    }

    fn go(mut self, mut timing: Option<Timed<'_>>) -> (Outcome, Option<TimingReport>) {
        let (mut stop, mut wait_for) = (StopReason::Finished, None);
        let mut records = Vec::new();
        self.machine.mem.fill_all();
        for p in &mut self.parts {
            let m = &mut self.machine;
            if let Some(u) = &mut m.undef {
                u.next_program(&lengths(&p.cores));
            }
            m.noted.clear();
            std::mem::swap(&mut m.cores, &mut p.cores);
            std::mem::swap(&mut m.sync, &mut p.sync);
            // The reference's guard looks at every result.
            let guarded = m.opts.profile.uninit == Uninit::NanGuard && m.opts.undefined_check;
            let from = if guarded { u64::MAX } else { m.opts.side_by_side };
            m.deferred = Deferred::new(m.cores.len(), from);
            m.mem.helper = Helper::new(m.opts.side_by_side == 0);
            m.race = p.race.take();
            m.overlap = p.overlap.take();
            m.timing = timing
                .as_ref()
                .map(|t| Recorder::new(t.params.clone(), t.g, &lengths(&m.cores), m.opts.memory_limit));
            if self.linked.is_some() {
                m.timing = m.timing.take().map(Recorder::streams);
            }
            (stop, wait_for) = pool::run(pool::has_large_tensors(&m.cores), || match self.linked {
                Some(l) => queue_style::run_streams(m, l),
                None => (m.run(), None),
            });
            m.race_findings();
            m.overlap_findings();
            m.group_overlaps();
            if let Some(w) = &wait_for {
                m.deadlock_found(w);
            } else if stop == StopReason::Deadlock {
                wait_for = Some(m.deadlock());
            }
            records.extend(m.timing.take().map(|mut r| {
                r.finish();
                r
            }));
            std::mem::swap(&mut m.cores, &mut p.cores);
            std::mem::swap(&mut m.sync, &mut p.sync);
            if stop != StopReason::Finished {
                break;
            }
        }
        let timed = match &mut timing {
            Some(_) if records.iter().any(Recorder::is_full) => {
                self.machine.diagnostics.push(timed::too_long(self.machine.opts.memory_limit));
                None
            }
            Some(t) if stop == StopReason::Finished => match self.time(&records, t.sink.as_deref_mut()) {
                Ok(report) => report,
                Err(d) => {
                    self.machine.diagnostics.push(d);
                    None
                }
            },
            Some(_) | None => None,
        };
        drop(records);
        let outputs = self.outputs(stop == StopReason::Finished);
        self.fold_consequences();
        let m = self.machine;
        let mut stats = Stats { executed: vec![vec![0; TABLE.len()]; self.lnc * self.lncs] };
        let mut prints = Vec::new();
        let mut codes: Vec<Code<'_>> = Vec::new();
        for p in self.parts {
            for (sum, c) in stats.executed.iter_mut().zip(p.cores) {
                sum.iter_mut().zip(&c.executed).for_each(|(a, b)| *a += b);
                prints.extend(c.st.prints);
                codes.push(c.code);
            }
        }
        if m.program.is_large() {
            codes.into_par_iter().for_each(drop);
        }
        let outcome = Outcome {
            put_off: m.put_off,
            stop,
            outputs,
            stats,
            prints,
            diagnostics: m.diagnostics,
            wait_for,
            steps: m.steps,
            carried_by_value: m.carried_by_value,
            race_records: m.race.as_ref().map_or(0, |r| r.most),
        };
        (outcome, timed)
    }

    /// A race lets bytes be read before they are written: undefined bytes are not listed beside races.
    fn fold_consequences(&mut self) {
        let list = &mut self.machine.diagnostics;
        let Some(race) = list.iter().position(|d| d.code == codes::S0020) else { return };
        let all = list.len();
        let first = list[..race].iter().filter(|d| d.code != codes::S0021).count();
        list.retain(|d| d.code != codes::S0021);
        let gone = all - list.len();
        if gone > 0
            && let Some(d) = list.get_mut(first)
        {
            let text = match gone {
                1 => "one use of undefined bytes is not listed: it may follow from the race".to_owned(),
                n => format!("{n} uses of undefined bytes are not listed: they may follow from the race"),
            };
            *d = d.clone().note(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Simulator;
    use crate::options::RunOptions;
    use tandem_bir::{Program, text};

    /// Each core fills `n` tensors that lie on the same bytes, one after the other, and reads each of the other core's between two barriers.
    /// `skew` more barriers stand at the end of core 1.
    fn exchanges(n: usize, skew: usize) -> Program {
        let mut src = "bir 1\nprogram \"t\" lnc 2 level lowered\n".to_owned();
        for c in 0..2 {
            src += &format!("module @nc0{c} core {c} arch gen3 {{\n func @main {{\n");
            src += "set @o_set = Internal NeuronSBTensor Local float32 [4 x 8] { loc @o = SB [4, 32] addr 64 allocated }\n";
            for k in 0..n {
                src += &format!(
                    "set @t{k}_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @t{k} = SB [4, 32] addr 0 allocated written_by_another_core }}
                    set @r{k}_set = Internal NeuronSBTensor Local float32 [4 x 8] {{ loc @r{k} = SB [4, 32] remote @t{k} core {} }}\n",
                    1 - c
                );
            }
            src += "block b0 {\n";
            let mut last = String::new();
            for k in 0..n {
                src += &format!(
                    "w{k} = Memset DVE @t{k}[[8,4] [1,8]] float32 {{mode = Const, constant = 1}} {last}
                    a{k} = CoreBarrier Pool {{id = {}, cores = [0, 1]}} after(w{k})
                    c{k} = DMACopy DMA @o[[8,4] [1,8]] float32 <- @r{k}[[8,4] [1,8]] float32 after(a{k})
                    b{k} = CoreBarrier Pool {{id = {}, cores = [0, 1]}} after(c{k})\n",
                    2 * k,
                    2 * k + 1
                );
                last = format!("after(b{k})");
            }
            for k in 0..skew * c {
                src += &format!("e{k} = CoreBarrier Pool {{id = {}, cores = [0, 1]}}\n", 2 * n + k);
            }
            src += "}\n}\n}\n";
        }
        text::parse(&src).unwrap_or_else(|e| panic!("{e:?}\n{src}"))
    }

    fn followed(p: &Program) -> usize {
        let ready = Simulator::new(p, RunOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
        ready.parts[0].overlap.as_ref().map_or(0, |o| o.followed())
    }

    #[test]
    fn what_barriers_keep_apart_is_not_followed() {
        assert_eq!(followed(&exchanges(40, 0)), 0);
        // Without a way to tell which barrier is which, everything is.
        assert_eq!(followed(&exchanges(40, 1)), 80);
    }
}
