//! From a program to a simulation, and its inputs and outputs.

mod timed;

use crate::code::{Action, Code, Style, prepare, prepare_streams};
use crate::collective::Topology;
use crate::deferred::Deferred;
use crate::machine::{Core, Frame, List, Machine, Phase, SegRun};
use crate::memory::{BufId, Memory, View};
use crate::npy;
use crate::numeric_profile::{RegisterInit, Uninit};
use crate::options::{Ranks, RunOptions};
use crate::outcome::{Outcome, Stats, StopReason};
use crate::overlap::Overlap;
use crate::place::{Names, Place, at_loc, owner, place, view_of};
use crate::pool::{self, Helper};
use crate::queue_style;
use crate::race::{Lanes, Race};
use crate::state::{CoreState, RegValue};
use crate::sync::{Counters, Sync};
use crate::tensor::{Tensor, byte_len, describe};
use crate::timing::{Recorder, TimingReport};
use crate::undef::Undef;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tandem_bir::analysis::queue::{QUEUES, queue};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::table::TABLE;
use tandem_bir::linked::{LinkedProgram, is_remote_copy};
use tandem_bir::{
    AccessPattern, AddressSpace, CoreId, InstId, Level, MemLocId, Module, Opcode, Operand, Port, Program,
};

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
                Overlap::new(&modules[own.clone()], &names[own], &cores, lnc, arch)
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

/// The threads of a core.
fn lanes(core: &Core<'_>, style: Style) -> Lanes {
    let mut l = Lanes::default();
    let m = core.module;
    match style {
        Style::Program => {}
        Style::Dependency => {
            l.queues = QUEUES;
            for (id, i) in m.insts.iter() {
                if core.code.action[id.index()] == Action::Transfer
                    && let Some(q) = queue(i)
                {
                    l.add(q, is_remote_copy(m, i));
                }
            }
        }
        Style::Queue => {
            l.queues = core.streams.len();
            for (q, s) in core.streams.iter().enumerate() {
                for &i in &s.insts {
                    if core.code.action[i.index()] == Action::Transfer {
                        l.add(q, is_remote_copy(m, &m.insts[i]));
                    }
                }
            }
        }
    }
    l.transfers.sort_unstable();
    l
}

/// The tokens that linking numbered; without numbers they order nothing.
fn linked_tokens(l: &LinkedProgram, modules: &[&Module], names: &[Names<'_>], lncs: usize, sync: &mut Sync) {
    let lnc = modules.len();
    let key = |c: usize, loc: MemLocId| owner(modules, names, c, loc).unwrap_or((c, loc));
    let shared = |c: usize, loc: MemLocId| -> (usize, String) {
        let (oc, ol) = key(c, loc);
        let m = modules[oc];
        // A shared location has one name on all cores.
        let all = m.set_of(ol).addr_space == AddressSpace::Shared;
        (if all { usize::MAX } else { oc }, m.memlocs[ol].name.to_string())
    };
    // Every location with its owner once, not once per token.
    let mut of: FxHashMap<(usize, String), Vec<(usize, MemLocId)>> = FxHashMap::default();
    if !l.tokens.is_empty() {
        for (c, m) in modules.iter().enumerate() {
            for (loc, _) in m.memlocs.iter() {
                of.entry(shared(c, loc)).or_default().push((c, loc));
            }
        }
    }
    for r in 0..lncs {
        for t in &l.tokens {
            let writers = t.writers.iter().map(|c| r * lnc + *c as usize).collect();
            let mut users: Vec<usize> = t.members.iter().map(|m| r * lnc + m.core.index()).collect();
            users.sort_unstable();
            users.dedup();
            let id = sync.add_token(t.location.to_string(), writers, users, lnc * lncs);
            for at in &t.members {
                let c = at.core.index();
                sync.token_of.insert((r * lnc + c, at.inst), id);
                let loc =
                    modules.get(c).and_then(|m| m.insts.get(at.inst)?.ins.first()?.as_ap()).map(|a| a.loc);
                for (c, x) in loc.and_then(|x| of.get(&shared(c, x))).into_iter().flatten() {
                    sync.token_loc.insert((r * lnc + c, *x), id);
                }
            }
        }
    }
}

/// Numbers of instructions.
fn lengths(cores: &[Core<'_>]) -> Vec<usize> {
    cores.iter().map(|c| c.module.insts.len()).collect()
}

/// Finds the completion tokens and the writers of their locations (the specification, file 06 §13.3).
fn tokens(modules: &[&Module], names: &[Names<'_>], lncs: usize, sync: &mut Sync) {
    let lnc = modules.len();
    let key = |c: usize, l: MemLocId| -> (String, String) {
        let (oc, ol) = owner(modules, names, c, l).unwrap_or((c, l));
        (names[oc].func_of(ol).to_owned(), modules[oc].memlocs[ol].name.to_string())
    };
    type Uses = (Vec<(usize, InstId)>, Vec<usize>);
    let mut found: BTreeMap<(String, String), Uses> = BTreeMap::new();
    for (c, m) in modules.iter().enumerate() {
        for b in m.blocks.values() {
            for &id in &b.insts {
                let i = &m.insts[id];
                if i.opcode == Opcode::TensorCompletion
                    && let Some(ap) = i.ins.first().and_then(Operand::as_ap)
                {
                    found.entry(key(c, ap.loc)).or_default().0.push((c, id));
                }
            }
        }
    }
    if found.is_empty() {
        return;
    }
    for (c, m) in modules.iter().enumerate() {
        let mut written: Vec<bool> = vec![false; m.memlocs.len()];
        for b in m.blocks.values() {
            for &id in &b.insts {
                let i = &m.insts[id];
                if i.opcode == Opcode::CoreBarrier {
                    continue;
                }
                for ap in i.outs.iter().filter_map(Operand::as_ap) {
                    written[ap.loc.index()] = true;
                }
            }
        }
        for (l, _) in m.memlocs.iter().filter(|(l, _)| written[l.index()]) {
            if let Some((_, w)) = found.get_mut(&key(c, l))
                && !w.contains(&c)
            {
                w.push(c);
            }
        }
    }
    for r in 0..lncs {
        for (k, (uses, writers)) in &found {
            let name = &k.1;
            let w = writers.iter().map(|c| r * lnc + c).collect();
            let mut who: Vec<usize> = uses.iter().map(|(c, _)| r * lnc + c).collect();
            who.sort_unstable();
            who.dedup();
            let t = sync.add_token(name.clone(), w, who, lnc * lncs);
            for (c, id) in uses {
                sync.token_of.insert((r * lnc + c, *id), t);
            }
            for (c, m) in modules.iter().enumerate() {
                for (l, _) in m.memlocs.iter().filter(|(l, _)| key(c, *l) == *k) {
                    sync.token_loc.insert((r * lnc + c, l), t);
                }
            }
        }
    }
}

impl Ready<'_> {
    /// Inputs that [`Ready::set_inputs`] wants.
    pub fn wanted(&self) -> &[Port] {
        &self.machine.program.signature.inputs
    }

    /// Number of simulated cores.
    pub fn num_cores(&self) -> usize {
        self.lnc * self.lncs
    }

    /// Loads the input tensors. With several LNCs every one gets the tensor `x`, or its own `rank<k>:x`.
    ///
    /// # Errors
    /// One finding (U0003) that lists what does not fit and what the kernel wants.
    pub fn set_inputs(&mut self, inputs: &[Tensor]) -> Result<(), Vec<Diagnostic>> {
        for load in self.loads(inputs)? {
            for v in &load.views {
                self.store_at(v, &inputs[load.tensor].bytes);
            }
        }
        Ok(())
    }

    /// The same, for tensors that nobody needs any more: where a tensor is all of a buffer of the simulation, its bytes become that
    /// buffer, so that they are in memory once.
    ///
    /// # Errors
    /// As [`Ready::set_inputs`].
    pub fn give_inputs(&mut self, mut inputs: Vec<Tensor>) -> Result<(), Vec<Diagnostic>> {
        let loads = self.loads(&inputs)?;
        let mut left = vec![0; inputs.len()];
        loads.iter().for_each(|l| left[l.tensor] += 1);
        for load in loads {
            left[load.tensor] -= 1;
            let bytes = &mut inputs[load.tensor].bytes;
            let mut views = load.views;
            let last = if left[load.tensor] == 0 { views.pop() } else { None };
            for v in &views {
                self.store_at(v, bytes);
            }
            match last {
                Some(v) if v.is_all_of(self.machine.mem.bytes(v.buf).len()) => {
                    self.machine.mem.replace(v.buf, std::mem::take(bytes));
                    if let Some(u) = &mut self.machine.undef {
                        u.give(&v);
                    }
                }
                Some(v) => self.store_at(&v, bytes),
                None => {}
            }
        }
        Ok(())
    }

    /// Which tensor goes where.
    fn loads(&self, inputs: &[Tensor]) -> Result<Vec<Load>, Vec<Diagnostic>> {
        let program = self.machine.program;
        let wanted = &program.signature.inputs;
        let mut wrong = Vec::new();
        let mut used = vec![false; inputs.len()];
        let mut loads: Vec<(usize, &Port, usize)> = Vec::new();
        for p in wanted {
            for r in 0..self.lncs {
                let own = format!("rank{r}:{}", p.name);
                let fits = |t: &Tensor| t.name == p.name || (self.lncs > 1 && t.name == own);
                let mut hits: Vec<usize> = (0..inputs.len()).filter(|k| fits(&inputs[*k])).collect();
                hits.iter().for_each(|k| used[*k] = true);
                if let Some(k) = hits.iter().copied().find(|k| inputs[*k].name == own) {
                    hits = vec![k];
                }
                match hits.as_slice() {
                    [] if r == 0 => wrong.push(format!("no input `{}` was given", p.name)),
                    [] => wrong.push(format!("no input `{}` was given to rank {r}", p.name)),
                    [k] => {
                        let t = &inputs[*k];
                        if t.dtype != p.dtype || t.shape != p.shape {
                            let have = describe(&t.name, t.dtype, &t.shape);
                            wrong.push(format!(
                                "{have} was given, {} is wanted",
                                describe(&p.name, p.dtype, &p.shape)
                            ));
                        } else if byte_len(t.dtype, &t.shape) != Some(t.bytes.len() as u64) {
                            wrong.push(format!(
                                "`{}` has {} bytes, its shape says otherwise",
                                t.name,
                                t.bytes.len()
                            ));
                        } else {
                            loads.push((r, p, *k));
                        }
                    }
                    _ if r == 0 => wrong.push(format!("input `{}` was given twice", p.name)),
                    _ => {}
                }
            }
        }
        for (t, used) in inputs.iter().zip(&used) {
            if !used {
                wrong.push(format!("`{}` is no input of the kernel", t.name));
            }
        }
        if !wrong.is_empty() {
            let list: Vec<String> = wanted.iter().map(|p| describe(&p.name, p.dtype, &p.shape)).collect();
            let list = if list.is_empty() { "nothing".to_owned() } else { list.join("; ") };
            let mut d = Diagnostic::new(codes::U0003, format!("the inputs do not fit: {}", wrong[0]));
            for w in &wrong[1..] {
                d = d.note(w.clone());
            }
            return Err(vec![d.note(format!("the kernel wants {list}"))]);
        }
        let (mut out, mut errs) = (Vec::new(), Vec::new());
        for (r, p, tensor) in loads {
            let s = p.subgraph as usize;
            let mut views: Vec<View> = Vec::new();
            for c in 0..self.lnc {
                if p.core.is_some_and(|x| x.index() != c) {
                    continue;
                }
                let Some(l) = self.find(s, c, &p.location) else { continue };
                match self.room_for((s, r * self.lnc + c), l, inputs[tensor].bytes.len()) {
                    // Cores share a location: once.
                    Ok(Some(v)) if !views.contains(&v) => views.push(v),
                    Ok(_) => {}
                    Err(e) => errs.push(Diagnostic::new(codes::U0003, format!("input `{}`: {e}", p.name))),
                }
            }
            out.push(Load { tensor, views });
        }
        if errs.is_empty() { Ok(out) } else { Err(errs) }
    }

    /// Location of this name on a core of a subgraph.
    fn find(&self, subgraph: usize, core: usize, location: &str) -> Option<MemLocId> {
        let module = self.parts.get(subgraph)?.cores.get(core)?.module;
        self.names.get(subgraph * self.lnc + core)?.find_any(module, location)
    }

    /// Where a location's whole content goes; nowhere if nothing uses it. A core is `(subgraph, core)`.
    fn room_for(&self, core: (usize, usize), l: MemLocId, bytes: usize) -> Result<Option<View>, String> {
        let Some(v) = self.whole(core, l)? else { return Ok(None) };
        if v.num_bytes() != bytes {
            return Err(format!("{bytes} bytes do not fit the {} of the location", v.num_bytes()));
        }
        Ok(Some(v))
    }

    /// Writes a location's whole content.
    fn store_at(&mut self, v: &View, bytes: &[u8]) {
        self.machine.mem.fill(v.buf);
        self.machine.mem.scatter(v, bytes);
        if let Some(u) = &mut self.machine.undef {
            u.give(v);
        }
    }

    /// The whole of a location as bytes.
    fn whole(&self, (subgraph, core): (usize, usize), l: MemLocId) -> Result<Option<View>, String> {
        let k = &self.parts[subgraph].cores[core];
        let Some(place): Option<Place> = k.places[l.index()] else { return Ok(None) };
        let loc = &k.module.memlocs[l];
        let (rows, row) = match place.pitch {
            Some(_) => (loc.rows(), loc.row_bytes()),
            None => (1, loc.size_bytes()),
        };
        if row == 0 || rows == 0 {
            return Ok(None);
        }
        let step = i64::try_from(row).map_err(|_| "the location is too large")?;
        let ap = AccessPattern::new(l, tandem_bir::Dtype::Uint8, 0, &[(step, rows), (1, row)]);
        view_of(&ap, 0, loc, Some(&place), |b| self.machine.mem.bytes(b).len()).map(Some)
    }

    fn load_constants(&mut self) -> Result<(), Vec<Diagnostic>> {
        let mut errs = Vec::new();
        let program = self.machine.program;
        let cores = self.lnc * self.lncs;
        let all = (0..self.parts.len()).flat_map(|s| (0..cores).map(move |g| (s, g)));
        for (s, g) in all {
            let m = self.parts[s].cores[g].module;
            for (l, loc) in m.memlocs.iter() {
                let set = m.set_of(l);
                let Some(file) = set.file.as_ref().filter(|f| !f.is_empty()) else { continue };
                if self.parts[s].cores[g].places[l.index()].is_none() || loc.is_remote() {
                    continue;
                }
                let bytes = program
                    .constants
                    .get(file.as_str())
                    .ok_or_else(|| format!("the payload `{file}` of `{}` is missing", loc.name))
                    .and_then(|b| npy::read(b).map_err(|e| format!("`{file}`: {e}")))
                    .and_then(|a| a.into_tensor(&loc.name, set.dtype).map_err(|e| format!("`{file}`: {e}")));
                let stored = bytes.and_then(|t| {
                    let room =
                        self.room_for((s, g), l, t.bytes.len()).map_err(|e| format!("`{file}`: {e}"))?;
                    room.iter().for_each(|v| self.store_at(v, &t.bytes));
                    Ok(())
                });
                if let Err(e) = stored {
                    errs.push(Diagnostic::new(codes::S0008, e).site(at_loc(m, loc)));
                }
            }
        }
        if errs.is_empty() { Ok(()) } else { Err(errs) }
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

    /// The output tensors. A buffer that is all of one tensor is handed over, not copied.
    fn outputs(&mut self, finished: bool) -> Vec<Tensor> {
        let mut found = Vec::new();
        let mut left: FxHashMap<BufId, usize> = FxHashMap::default();
        for r in 0..self.lncs {
            for p in &self.machine.program.signature.outputs {
                let Some((core, l)) = self.location_of(r, p) else { continue };
                let Ok(Some(v)) = self.whole(core, l) else { continue };
                *left.entry(v.buf).or_default() += 1;
                found.push((r, p, core, l, v));
            }
        }
        let mut out = Vec::new();
        for (r, p, core, l, v) in found {
            if finished {
                self.undefined_output(p, core, l, &v);
            }
            let uses = left.entry(v.buf).or_default();
            *uses -= 1;
            let mem = &mut self.machine.mem;
            let bytes = if *uses == 0 && v.is_all_of(mem.bytes(v.buf).len()) {
                mem.take(v.buf)
            } else {
                let mut bytes = Vec::new();
                mem.gather(&v, &mut bytes);
                bytes
            };
            let name = if self.lncs > 1 { format!("rank{r}:{}", p.name) } else { p.name.clone() };
            out.push(Tensor { name, dtype: p.dtype, shape: p.shape.clone(), bytes });
        }
        out
    }

    /// The core, as `(subgraph, core)`, and the location that hold an output of an LNC.
    fn location_of(&self, r: usize, p: &Port) -> Option<((usize, usize), MemLocId)> {
        let (s, first) = (p.subgraph as usize, p.core.map_or(0, CoreId::index));
        let order = std::iter::once(first).chain(0..self.lnc);
        order
            .filter(|c| *c < self.lnc)
            .find_map(|c| self.find(s, c, &p.location).map(|l| ((s, r * self.lnc + c), l)))
    }

    /// Reports an output with bytes that nothing has written.
    fn undefined_output(&mut self, p: &Port, c: (usize, usize), l: MemLocId, v: &View) {
        let Some(undef) = &self.machine.undef else { return };
        let Some(first) = undef.first(v) else { return };
        let marks = undef.gather(v).unwrap_or_default();
        let n = marks.iter().filter(|m| **m != 0).count();
        let at = marks.iter().position(|m| *m != 0).unwrap_or(0);
        drop(marks);
        let text = format!("output `{}` has {n} bytes that nothing has written", p.name);
        let module = self.parts[c.0].cores[c.1].module;
        let loc = &module.memlocs[l];
        let mut d = Diagnostic::new(codes::S0021, text)
            .site(at_loc(module, loc).label(format!("the first is byte {at}")));
        // Ways are those of the last subgraph's run.
        std::mem::swap(&mut self.machine.cores, &mut self.parts[c.0].cores);
        for s in self.machine.origin_of_output(c.1, l, (v.buf, first)) {
            d = d.site(s);
        }
        std::mem::swap(&mut self.machine.cores, &mut self.parts[c.0].cores);
        d.severity = self.machine.opts.undefined_severity;
        self.machine.diagnostics.push(d);
    }
}

/// A tensor and where its bytes go.
struct Load {
    tensor: usize,
    views: Vec<View>,
}

/// Of every instruction the place in the order of blocks and of their lists, and the stretch from meeting to meeting.
fn program_order(core: &Core<'_>) -> Vec<(u32, u32)> {
    let m = core.module;
    let mut order = vec![(u32::MAX, u32::MAX); m.insts.len()];
    let (mut place, mut stretch) = (0, 0);
    // A container has streams only; its debug table knows the blocks.
    if let Some(t) = core.debug {
        let mut block = None;
        for d in &t.insts {
            if block.replace(&d.block).is_some_and(|b| *b != d.block) {
                stretch += 1;
            }
            if let (Some(o), Some(i)) = (order.get_mut(d.inst.index()), m.insts.get(d.inst)) {
                *o = (place, stretch);
                place += 1;
                if matches!(i.opcode, Opcode::CoreBarrier | Opcode::CollectiveCompute) {
                    stretch += 1;
                }
            }
        }
        return order;
    }
    for (_, block) in m.blocks.iter() {
        stretch += 1;
        for &i in &block.insts {
            order[i.index()] = (place, stretch);
            place += 1;
            if matches!(m.insts[i].opcode, Opcode::CoreBarrier | Opcode::CollectiveCompute) {
                stretch += 1;
            }
        }
    }
    order
}
