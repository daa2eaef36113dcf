//! Levels `linked` and `bundles`: streams, queues and semaphores (styles Q and B of the specification, file 09 §10.2).
//!
//! Every engine of a core runs its stream in order, one instruction at a time, with a register file of its own. An
//! instruction starts when its semaphore waits hold and applies its updates when it completes. A transfer leaves its engine at once
//! and lands later, in order inside its queue (one local and one remote queue per engine), applying its update then. What
//! holds the order of a core together is the semaphores alone: a CoreBarrier blocks the engine it sits on and nothing else.
//!
//! A program read from a container runs here as well: its instructions are those its bundles decode to.
//!
//! Not here: the race check and the check of undefined bytes (levels up to lowered have them), several LNCs.

mod load;
mod meet;

use crate::collective::{Payload, Plan, Shape, Topology, plan, result, sb2sb_plan};
use crate::decode::{Env, Recipe, Resolved, decode, resolve};
use crate::exec::{Arg, Decoded, ExecCx, exec};
use crate::memory::Memory;
use crate::options::{Ranks, RunOptions, Schedule};
use crate::outcome::{Outcome, Stats, StopReason};
use crate::place::{Names, Place, place};
use crate::random::SplitMix64;
use crate::state::{CoreState, Fault, Note, RegValue};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use tandem_bir::arch::ArchSpec;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::SyncInfo;
use tandem_bir::inst::table::TABLE;
use tandem_bir::linked::{LinkedProgram, Stream, is_remote_copy};
use tandem_bir::{Attr, BranchCompareOp, CoreId, Inst, InstId, Module, Opcode, Operand};

/// Semaphores of a core.
const SEMAPHORES: usize = 256;

/// A transfer on its way.
struct Flight {
    inst: InstId,
    decoded: Decoded,
    skip: bool,
}

/// One engine.
struct Engine<'p> {
    stream: &'p Stream,
    pc: usize,
    done: bool,
    /// The token at the head has been counted.
    arrived: bool,
    regs: Vec<RegValue>,
    /// Local and remote transfers.
    flights: [VecDeque<Flight>; 2],
}

struct Core<'p> {
    module: &'p Module,
    places: Vec<Option<Place>>,
    topo: Topology,
    st: CoreState,
    sems: Vec<i32>,
    engines: Vec<Engine<'p>>,
    decoded: FxHashMap<InstId, (Decoded, Vec<Recipe<'p>>)>,
    remote: FxHashMap<InstId, bool>,
    plans: FxHashMap<InstId, Option<Plan>>,
    executed: Vec<u64>,
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Land { core: usize, engine: usize, queue: usize },
    Issue { core: usize, engine: usize },
}

struct Run<'p> {
    linked: &'p LinkedProgram,
    opts: RunOptions,
    arch: &'static ArchSpec,
    mem: Memory,
    cores: Vec<Core<'p>>,
    /// Token of an instruction.
    token_of: FxHashMap<(usize, InstId), usize>,
    /// Arrivals per token and core.
    arrivals: Vec<Vec<u64>>,
    steps: u64,
    rng: SplitMix64,
    notes: Vec<Note>,
    diagnostics: Vec<Diagnostic>,
}

/// Runs a linked program.
///
/// # Errors
/// Findings before the run: operands outside their location, types without a model, inputs that do not fit.
pub fn run(linked: &LinkedProgram, inputs: &[Tensor], opts: RunOptions) -> Result<Outcome, Vec<Diagnostic>> {
    let program = &linked.program;
    let Some(arch) = program.arch().spec() else {
        return Err(vec![Diagnostic::new(codes::S0002, format!("there is no model of {}", program.arch()))]);
    };
    let ids_are_lncs = match opts.ranks {
        Ranks::AreCores => false,
        Ranks::Lncs(0 | 1) => true,
        Ranks::Lncs(n) => {
            let text = format!("{n} LNCs are not simulated at the linked levels");
            return Err(vec![Diagnostic::new(codes::S0002, text)]);
        }
    };
    let modules: Vec<&Module> = program.modules.iter().collect();
    let names: Vec<Names<'_>> = modules.iter().map(|m| Names::new(m)).collect();
    let mut mem = Memory::new();
    let places = place(program, &modules, &names, modules.len(), arch, &opts, 1, &mut mem)?;
    let lnc = modules.len();
    let mut cores = Vec::new();
    let mut errs = Vec::new();
    for (c, places) in places.of.into_iter().enumerate() {
        let m = modules[c];
        let mut decoded = FxHashMap::default();
        let mut remote = FxHashMap::default();
        for s in &linked.cores[c].streams {
            for &i in &s.insts {
                let inst = &m.insts[i];
                if without_operands(inst.opcode) {
                    continue;
                }
                match decode(m, &places, i, &|b| mem.bytes(b).len()) {
                    Ok(d) => {
                        decoded.insert(i, d);
                    }
                    Err((code, text)) => errs.push(Diagnostic::new(code, text).inst(program, m, i)),
                }
                if inst.opcode.is_dma() {
                    remote.insert(i, is_remote_copy(m, inst));
                }
            }
        }
        let regs = vec![RegValue::default(); m.regs.len()];
        let engines = linked.cores[c]
            .streams
            .iter()
            .map(|s| Engine {
                stream: s,
                pc: 0,
                done: false,
                arrived: false,
                regs: regs.clone(),
                flights: Default::default(),
            })
            .collect();
        cores.push(Core {
            module: m,
            places,
            topo: Topology { lnc, lncs: 1, ids_are_lncs, my_lnc: 0, my_core: c },
            st: CoreState::new(CoreId(c as u32), if ids_are_lncs { 0 } else { c as i64 }, 0),
            sems: vec![0; SEMAPHORES],
            engines,
            decoded,
            remote,
            plans: FxHashMap::default(),
            executed: vec![0; TABLE.len()],
        });
    }
    if !errs.is_empty() {
        return Err(errs);
    }
    let mut token_of = FxHashMap::default();
    for (t, k) in linked.tokens.iter().enumerate() {
        for r in &k.members {
            token_of.insert((r.core.index(), r.inst), t);
        }
    }
    let seed = match opts.schedule {
        Schedule::Seed(s) => s,
        Schedule::Eager | Schedule::Late => 0,
    };
    let mut run = Run {
        linked,
        opts,
        arch,
        mem,
        cores,
        token_of,
        arrivals: vec![vec![0; lnc]; linked.tokens.len()],
        steps: 0,
        rng: SplitMix64(seed),
        notes: Vec::new(),
        diagnostics: Vec::new(),
    };
    run.load(&names, inputs)?;
    let stop = run.go();
    let outputs = program.signature.outputs.iter().filter_map(|p| run.output(&names, p)).collect();
    let mut stats = Stats { executed: Vec::new() };
    let mut prints = Vec::new();
    for c in run.cores {
        stats.executed.push(c.executed);
        prints.extend(c.st.prints);
    }
    Ok(Outcome {
        stop,
        outputs,
        stats,
        prints,
        diagnostics: run.diagnostics,
        wait_for: None,
        steps: run.steps,
        carried_by_value: false,
        race_records: 0,
    })
}

/// Instructions whose operands, if any, are not decoded.
fn without_operands(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::CoreBarrier
            | Opcode::TensorCompletion
            | Opcode::AllEngineBarrier
            | Opcode::EventSemaphore
            | Opcode::GroupResetSemaphores
            | Opcode::NoOp
            | Opcode::Drain
            | Opcode::Halt
            | Opcode::Exit
            | Opcode::Return
            | Opcode::UnconditionalBranch
            | Opcode::CompareAndBranch
            | Opcode::LoadActFuncSet
    )
}

fn sync_of(i: &Inst) -> Option<&SyncInfo> {
    i.more.as_ref().and_then(|m| m.sync.as_ref())
}

impl<'p> Run<'p> {
    /// The instruction at the head of an engine.
    fn head(&self, c: usize, e: usize) -> Option<InstId> {
        let x = &self.cores[c].engines[e];
        if x.done { None } else { x.stream.insts.get(x.pc).copied() }
    }

    fn inst(&self, c: usize, i: InstId) -> &'p Inst {
        &self.cores[c].module.insts[i]
    }

    /// The semaphore waits of an instruction hold.
    fn waits_hold(&self, c: usize, i: InstId) -> bool {
        let sems = &self.cores[c].sems;
        sync_of(self.inst(c, i)).is_none_or(|s| {
            s.on_wait.iter().all(|w| sems.get(w.sem as usize).is_some_and(|v| i64::from(*v) >= w.value))
        })
    }

    /// Runs to the end, to quiescence, or to a fault.
    fn go(&mut self) -> StopReason {
        let mut ticks = 0u64;
        let mut moves: Vec<Move> = Vec::new();
        loop {
            ticks += 1;
            if ticks & 0xfff == 0 && self.opts.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
                return StopReason::Cancelled;
            }
            if ticks & 0xffff == 0
                && let Some(p) = &self.opts.progress
            {
                p(self.steps);
            }
            if self.steps > self.opts.step_limit {
                self.diagnostics.push(Diagnostic::new(
                    codes::S0015,
                    format!("stopped after {} instructions: the step limit", self.steps),
                ));
                return StopReason::StepLimit;
            }
            moves.clear();
            self.moves(&mut moves);
            let Some(m) = self.pick(&moves) else { break };
            if let Err((c, i, f)) = self.act(m) {
                self.fault(c, i, f);
                return StopReason::Fault;
            }
        }
        if self.cores.iter().all(|c| c.engines.iter().all(|e| e.done)) {
            for (c, k) in self.cores.iter().enumerate() {
                if k.engines.iter().any(|e| e.flights.iter().any(|f| !f.is_empty())) {
                    self.diagnostics.push(
                        Diagnostic::new(codes::S0010, "a transfer is still in flight at the end")
                            .site(Site::on_core(CoreId(c as u32))),
                    );
                }
            }
            StopReason::Finished
        } else {
            self.deadlock();
            StopReason::Deadlock
        }
    }

    fn moves(&self, out: &mut Vec<Move>) {
        for (c, core) in self.cores.iter().enumerate() {
            for (e, x) in core.engines.iter().enumerate() {
                for (q, f) in x.flights.iter().enumerate() {
                    if !f.is_empty() {
                        out.push(Move::Land { core: c, engine: e, queue: q });
                    }
                }
                if let Some(i) = self.head(c, e)
                    && self.waits_hold(c, i)
                    && self.meeting_ready(c, e, i)
                {
                    out.push(Move::Issue { core: c, engine: e });
                }
            }
        }
    }

    fn pick(&mut self, moves: &[Move]) -> Option<Move> {
        let lands = |m: &&Move| matches!(m, Move::Land { .. });
        match self.opts.schedule {
            Schedule::Eager => moves.iter().find(lands).or(moves.first()).copied(),
            Schedule::Late => moves.iter().rev().find(|m| !lands(m)).or(moves.last()).copied(),
            Schedule::Seed(_) => {
                if moves.is_empty() {
                    return None;
                }
                moves.get(self.rng.below(moves.len() as u64) as usize).copied()
            }
        }
    }

    fn act(&mut self, m: Move) -> Result<(), (usize, InstId, Fault)> {
        match m {
            Move::Land { core, engine, queue } => {
                let Some(f) = self.cores[core].engines[engine].flights[queue].pop_front() else {
                    return Ok(());
                };
                if !f.skip {
                    self.compute(core, engine, &f.decoded).map_err(|x| (core, f.inst, x))?;
                }
                self.updates(core, f.inst);
                self.count(core, f.inst);
                Ok(())
            }
            Move::Issue { core, engine } => {
                let Some(i) = self.head(core, engine) else { return Ok(()) };
                self.issue(core, engine, i).map_err(|f| (core, i, f))
            }
        }
    }

    /// Applies the updates of an instruction.
    fn updates(&mut self, c: usize, i: InstId) {
        let Some(s) = sync_of(self.inst(c, i)) else { return };
        for u in &s.on_update {
            let to = u.target_core.map_or(c, |t| t as usize);
            if let Some(v) = self.cores.get_mut(to).and_then(|k| k.sems.get_mut(u.sem as usize)) {
                *v = v.wrapping_add(u.value as i32);
                if *v < 0 {
                    let (m, locs) = (self.cores[c].module, &self.linked.program.locs);
                    self.diagnostics.push(
                        Diagnostic::new(codes::S0010, format!("semaphore {} went below 0", u.sem))
                            .site(Site::of_inst(locs, m, i)),
                    );
                }
            }
        }
    }

    fn count(&mut self, c: usize, i: InstId) {
        self.steps += 1;
        let op = self.inst(c, i).opcode as usize;
        self.cores[c].executed[op] += 1;
    }

    /// The head of an engine is complete.
    fn advance(&mut self, c: usize, e: usize, i: InstId) {
        self.updates(c, i);
        self.count(c, i);
        let x = &mut self.cores[c].engines[e];
        x.pc += 1;
        x.arrived = false;
    }

    fn compute(&mut self, c: usize, e: usize, d: &Decoded) -> Result<(), Fault> {
        let core = &mut self.cores[c];
        std::mem::swap(&mut core.st.regs, &mut core.engines[e].regs);
        let inst = &core.module.insts[d.inst];
        let mut cx = ExecCx {
            mem: &mut self.mem,
            core: &mut core.st,
            profile: &self.opts.profile,
            arch: self.arch,
            notes: &mut self.notes,
        };
        let r = exec(&mut cx, d, inst);
        std::mem::swap(&mut core.st.regs, &mut core.engines[e].regs);
        let (m, program) = (core.module, &self.linked.program);
        for n in self.notes.drain(..) {
            self.diagnostics.push(Diagnostic::new(n.code, n.message).inst(program, m, d.inst));
        }
        r
    }

    /// The instruction with its run-time operands set.
    fn resolved(&mut self, c: usize, e: usize, i: InstId) -> Result<(Decoded, bool), Fault> {
        let core = &mut self.cores[c];
        let Some((d, recipes)) = core.decoded.get(&i) else {
            return Err(Fault::new(codes::I0001, "an instruction was not decoded"));
        };
        let mut d = d.clone();
        let mut skip = false;
        if !recipes.is_empty() {
            let env = Env { regs: &core.engines[e].regs, axes: &[], core: c as i64, mem: &self.mem };
            skip = resolve(&mut d, recipes, core.module, &core.places, &env)? == Resolved::Skip;
        }
        Ok((d, skip))
    }

    fn issue(&mut self, c: usize, e: usize, i: InstId) -> Result<(), Fault> {
        let inst = self.inst(c, i);
        match inst.opcode {
            Opcode::Exit | Opcode::Halt => {
                self.count(c, i);
                self.cores[c].engines[e].done = true;
            }
            Opcode::EventSemaphore
            | Opcode::NoOp
            | Opcode::Drain
            | Opcode::LoadActFuncSet
            | Opcode::Return => {
                self.advance(c, e, i);
            }
            Opcode::GroupResetSemaphores => {
                for s in inst.get_ints(Attr::SemaGroup) {
                    if let Some(v) = usize::try_from(*s).ok().and_then(|s| self.cores[c].sems.get_mut(s)) {
                        *v = 0;
                    }
                }
                self.advance(c, e, i);
            }
            Opcode::UnconditionalBranch => self.branch(c, e, i, true),
            Opcode::CompareAndBranch => {
                let taken = self.compare(c, e, inst)?;
                self.branch(c, e, i, taken);
            }
            Opcode::AllEngineBarrier
            | Opcode::CoreBarrier
            | Opcode::TensorCompletion
            | Opcode::GpsimdSb2Sb
            | Opcode::CollectiveCompute => self.meet(c, e, i)?,
            Opcode::GetGlobalRankId
            | Opcode::GetCurProcessingRankId
            | Opcode::RegisterAlu
            | Opcode::RegisterMove
            | Opcode::TensorLoad
            | Opcode::TensorSave => {
                let (d, _) = self.resolved(c, e, i)?;
                let core = &mut self.cores[c];
                std::mem::swap(&mut core.st.regs, &mut core.engines[e].regs);
                let r = crate::scalar::run(&mut self.mem, &mut core.st, core.module, &d, inst);
                std::mem::swap(&mut core.st.regs, &mut core.engines[e].regs);
                r?;
                self.advance(c, e, i);
            }
            op if op.is_dma() => {
                let (decoded, skip) = self.resolved(c, e, i)?;
                let q = usize::from(self.cores[c].remote.get(&i).copied().unwrap_or(false));
                let x = &mut self.cores[c].engines[e];
                x.flights[q].push_back(Flight { inst: i, decoded, skip });
                x.pc += 1;
            }
            _ => {
                let (d, skip) = self.resolved(c, e, i)?;
                if !skip {
                    self.compute(c, e, &d)?;
                }
                self.advance(c, e, i);
            }
        }
        Ok(())
    }

    fn branch(&mut self, c: usize, e: usize, i: InstId, taken: bool) {
        self.advance(c, e, i);
        let x = &mut self.cores[c].engines[e];
        if taken && let Some(t) = x.stream.target(x.pc - 1) {
            x.pc = t;
        }
    }

    fn compare(&self, c: usize, e: usize, i: &Inst) -> Result<bool, Fault> {
        let bad = |t: &str| Fault::new(codes::S0002, t.to_owned());
        let left =
            i.ins.first().and_then(Operand::as_reg).ok_or_else(|| bad("the branch compares no register"))?;
        let regs = &self.cores[c].engines[e].regs;
        let read = |r: tandem_bir::RegId| match regs.get(r.index()) {
            Some(v) if v.defined => Ok(v.bits),
            _ => Err(crate::decode::poison(self.cores[c].module, r)),
        };
        let a = read(left.reg)?;
        let b = match i.ins.get(1) {
            Some(Operand::Reg(r)) => read(r.reg)?,
            Some(Operand::Imm(v)) => v.as_int().ok_or_else(|| bad("the branch compares with a float"))?,
            _ => return Err(bad("the branch compares with nothing")),
        };
        let unsigned = left.dtype.class() == tandem_bir::dtype::NumericClass::Unsigned;
        let (a, b) = if unsigned { (i64::from(a as u32), i64::from(b as u32)) } else { (a, b) };
        let op: BranchCompareOp =
            i.get_enum(Attr::CompOp).ok_or_else(|| bad("the branch has no comparison"))?;
        Ok(match op {
            BranchCompareOp::LtImm | BranchCompareOp::LtReg => a < b,
            BranchCompareOp::LeImm | BranchCompareOp::LeReg => a <= b,
            BranchCompareOp::EqImm | BranchCompareOp::EqReg => a == b,
            BranchCompareOp::NeImm | BranchCompareOp::NeReg => a != b,
            BranchCompareOp::GeImm | BranchCompareOp::GeReg => a >= b,
            BranchCompareOp::GtImm | BranchCompareOp::GtReg => a > b,
            BranchCompareOp::Unsupported => return Err(bad("the comparison of the branch is `Unsupported`")),
        })
    }

    fn fault(&mut self, c: usize, i: InstId, f: Fault) {
        let mut d = Diagnostic::new(f.code, f.message);
        d.notes = f.notes;
        let mut site = Site::of_inst(&self.linked.program.locs, self.cores[c].module, i);
        site.core = Some(CoreId(c as u32));
        self.diagnostics.push(d.site(site));
    }

    fn deadlock(&mut self) {
        let mut d =
            Diagnostic::new(codes::S0010, "nothing can run any more, and the program has not finished");
        for (c, core) in self.cores.iter().enumerate() {
            for (e, x) in core.engines.iter().enumerate() {
                let Some(i) = self.head(c, e) else { continue };
                let mut site = Site::of_inst(&self.linked.program.locs, core.module, i);
                site.core = Some(CoreId(c as u32));
                let unmet: Vec<String> = sync_of(&core.module.insts[i])
                    .into_iter()
                    .flat_map(|s| &s.on_wait)
                    .filter_map(|w| {
                        let have = core.sems.get(w.sem as usize).copied().unwrap_or(0);
                        (i64::from(have) < w.value)
                            .then(|| format!("sem {}: have {have}, need {}", w.sem, w.value))
                    })
                    .collect();
                let what = if unmet.is_empty() { self.meeting_text(c, i) } else { unmet.join(", ") };
                d = d.site(site.label(format!("{} waits: {what}", x.stream.engine)));
            }
        }
        self.diagnostics.push(d);
    }

    /// The plan of a swap or collective.
    fn plan_of(&mut self, c: usize, i: InstId) -> Result<Option<Plan>, Fault> {
        if let Some(p) = self.cores[c].plans.get(&i) {
            return Ok(p.clone());
        }
        let inst = self.inst(c, i);
        let topo = &self.cores[c].topo;
        let p = match inst.opcode {
            Opcode::GpsimdSb2Sb => sb2sb_plan(topo).map(Some),
            _ => plan(inst, topo, &self.opts.profile),
        }
        .map_err(|(code, text)| Fault::new(code, text))?;
        self.cores[c].plans.insert(i, p.clone());
        Ok(p)
    }

    fn payloads(&mut self, c: usize, e: usize, i: InstId) -> Result<SmallVec<[Payload; 1]>, Fault> {
        let (d, _) = self.resolved(c, e, i)?;
        let mut out = SmallVec::new();
        for a in &d.ins {
            let Arg::View(v) = a else {
                return Err(Fault::new(codes::S0002, "a collective takes plain memory operands"));
            };
            let mut bytes = Vec::new();
            self.mem.gather(v, &mut bytes);
            let s = Shape::of(v);
            out.push(Payload { dtype: s.dtype, rows: s.rows, row_elems: s.row_elems, bytes, marks: None });
        }
        Ok(out)
    }

    fn store_results(
        &mut self,
        c: usize,
        e: usize,
        i: InstId,
        plan: &Plan,
        inputs: &[(usize, SmallVec<[Payload; 1]>)],
    ) -> Result<(), Fault> {
        let (d, _) = self.resolved(c, e, i)?;
        let input = |m: usize, k: usize| -> Option<&Payload> {
            let who = *plan.members.get(m)? as usize;
            inputs.iter().find(|(c, _)| *c == who)?.1.get(k)
        };
        for (k, a) in d.outs.iter().enumerate() {
            let Arg::View(v) = a else {
                return Err(Fault::new(codes::S0002, "a collective takes plain memory operands"));
            };
            let r = result(plan, k, Shape::of(v), &input, &self.opts.profile)
                .map_err(|(code, text)| Fault::new(code, text))?;
            if let Some(b) = r {
                self.mem.scatter(v, &b);
            }
        }
        Ok(())
    }
}
