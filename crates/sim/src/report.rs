//! The report of a deadlock: who waits for whom, and why.
//!
//! **Definition.** A run is deadlocked when no move is possible and a core has not finished: every queue that is not empty waits for
//! a meeting whose other members have not come, for an edge whose producer is not complete, or for its turn behind such a
//! head. There is no clock in it: quiescence ends the run. The report names every head that waits at a meeting with the cores that it
//! waits for, every head that only the queues of its own core hold up, the last synchronisation that each core completed, and the
//! cycle of cores when there is one. A core that waits for one that has ended is S0011, everything else S0010; members that meet
//! but do not fit are S0012 to S0014.
//!
//! **May miss** deadlocks of control paths that the run did not take. **Never reports falsely**: which meetings a core comes to depends on its
//! control flow alone, so a run that stops here stops under every schedule.

use crate::code::{ALL_QUEUES, QUEUE_NAMES, Style};
use crate::machine::{Core, Machine, Phase, Wait};
use crate::race::{Access, Lane};
use crate::sync::Channel;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::fmt::Write as _;
use tandem_bir::analysis::queue::QUEUES;
use tandem_bir::diag::{Diagnostic, Site, codes, render::site_text};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{BirEnum as _, InstId};

/// One thing that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Simulated core.
    pub core: usize,
    /// Queue it heads (`Pool`), or empty when the whole core waits.
    pub queue: &'static str,
    /// The instruction.
    pub site: Site,
    /// What it waits for, in words.
    pub what: String,
    /// Cores it waits for.
    pub cores: Vec<usize>,
    /// Names of instructions it waits for.
    pub insts: Vec<String>,
    /// Queues it waits for: core and name.
    pub queues: Vec<(usize, &'static str)>,
    /// Semaphores that are too low (levels `linked` and `bundles`).
    pub semaphores: Vec<Unmet>,
}

/// A wait for a semaphore that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// Number of the semaphore.
    pub sem: u32,
    /// Its value.
    pub have: i64,
    /// The value waited for.
    pub need: i64,
    /// Instructions that are left and would raise it: core, queue, name. The first few.
    pub raisers: Vec<(usize, &'static str, String)>,
    /// How many are left.
    pub left: usize,
    /// It had been this high before a reset, by the instruction of this name.
    pub was: Option<(i64, String)>,
}

/// Who waits for whom at quiescence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFor {
    /// Everything that is blocked, by core.
    pub blocked: Vec<Blocked>,
    /// Cores that have finished.
    pub finished: Vec<usize>,
    /// Last synchronisation each core completed.
    pub last: Vec<Option<Site>>,
    /// A cycle of cores, when there is one.
    pub cycle: Vec<usize>,
    /// A cycle of queues, when there is one: core and name.
    pub ring: Vec<(usize, &'static str)>,
}

impl Unmet {
    fn to_json(&self) -> Value {
        json!({
            "sem": self.sem, "have": self.have, "need": self.need, "left": self.left,
            "raisers": self.raisers.iter()
                .map(|(c, q, n)| json!({"core": c, "queue": q, "inst": n})).collect::<Vec<_>>(),
            "was": self.was.as_ref().map(|(v, by)| json!({"value": v, "reset_by": by})),
        })
    }
    /// In words: what is there, what is needed.
    pub fn text(&self) -> String {
        format!("sem {}: have {}, need {}", self.sem, self.have, self.need)
    }
}

impl WaitFor {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let site = |s: &Site| json!({"text": site_text(s), "inst": s.inst, "label": s.label});
        let queue = |q: &(usize, &'static str)| json!({"core": q.0, "queue": q.1});
        json!({
            "blocked": self.blocked.iter().map(|b| json!({
                "core": b.core, "queue": b.queue, "at": site(&b.site), "waits_for": b.what, "cores": b.cores,
                "instructions": b.insts,
                "queues": b.queues.iter().map(queue).collect::<Vec<_>>(),
                "semaphores": b.semaphores.iter().map(Unmet::to_json).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "finished": self.finished,
            "last_matched": self.last.iter().map(|l| l.as_ref().map(site)).collect::<Vec<_>>(),
            "cycle": self.cycle,
            "ring": self.ring.iter().map(queue).collect::<Vec<_>>(),
        })
    }
    /// As a Graphviz graph.
    pub fn to_dot(&self) -> String {
        let esc = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
        let mut o = String::from("digraph wait_for {\n");
        for f in &self.finished {
            let _ = writeln!(o, "  core{f} [label=\"core {f}\\nfinished\", style=dashed];");
        }
        for c in 0..self.last.len() {
            if !self.finished.contains(&c) {
                let _ = writeln!(o, "  core{c} [label=\"core {c}\"];");
            }
        }
        for (k, b) in self.blocked.iter().enumerate() {
            let label = format!("{}\n{}", site_text(&b.site), b.queue);
            let _ = writeln!(o, "  b{k} [shape=box, label=\"{}\"];", esc(&label).replace('\n', "\\n"));
            let _ = writeln!(o, "  core{} -> b{k} [style=dotted];", b.core);
            for c in &b.cores {
                let _ = writeln!(o, "  b{k} -> core{c} [label=\"{}\"];", esc(&b.what));
            }
            for (c, q) in &b.queues {
                let to = self.blocked.iter().position(|x| (x.core, x.queue) == (*c, q));
                if let Some(to) = to.filter(|_| !b.cores.contains(c)) {
                    let _ = writeln!(o, "  b{k} -> b{to} [label=\"{}\"];", esc(&b.what));
                }
            }
            if b.cores.is_empty() && b.queues.is_empty() {
                let _ = writeln!(o, "  none{k} [shape=plaintext, label=\"nothing that is left\"];");
                let _ = writeln!(o, "  b{k} -> none{k} [label=\"{}\"];", esc(&b.what));
            }
        }
        o.push_str("}\n");
        o
    }
}

impl Machine<'_> {
    /// Site of an instruction of a simulated core.
    pub(crate) fn site(&self, c: usize, id: InstId) -> Site {
        let mut s = Site::near_inst(&self.program.locs, self.cores[c].module, id);
        s.core = Some(self.cores[c].id);
        s
    }

    /// Where a core is: its first instruction not complete.
    pub(crate) fn here(&self, c: usize) -> Option<Site> {
        let core = &self.cores[c];
        match core.phase {
            Phase::Done => None,
            Phase::Barrier { inst, .. } => Some(self.site(c, inst)),
            Phase::Streams => {
                let head = |q: usize| core.streams.get(q)?.insts.get(core.run.heads[q] as usize);
                (0..core.streams.len()).find_map(head).map(|i| self.site(c, *i))
            }
            Phase::Segment => {
                let seg = core.segment();
                let i = core.run.done.iter().position(|d| !d)?;
                Some(self.site(c, seg.insts[i]))
            }
            Phase::Control => {
                let f = core.frames.last()?;
                let name = core.module.blocks[f.block].name.to_string();
                Some(Site { core: Some(core.id), block: name, ..Site::default() })
            }
        }
    }

    /// The last instruction of what a core starts with; the core itself when it has none.
    fn last_place(&self, c: usize) -> Site {
        let core = &self.cores[c];
        let blocks = core.code.entry.map_or(&[][..], |f| &core.module.funcs[f].blocks);
        match blocks.iter().rev().find_map(|b| core.module.blocks[*b].insts.last()) {
            Some(&i) => self.site(c, i),
            None => Site::on_core(core.id),
        }
    }

    /// Two writes of different cores stored the same values.
    pub(crate) fn equal_writes(&mut self, a: &Access, b: &Access) {
        let inst = |x: &Access| &self.cores[x.core as usize].module.insts[x.inst].name;
        let core = |x: &Access| self.cores[x.core as usize].id;
        let text = format!("{}@nc{} and {}@nc{} store the same values", inst(a), core(a), inst(b), core(b));
        let mut d = Diagnostic::new(codes::S0026, text);
        for x in [a, b] {
            let site = self.site(x.core as usize, x.inst);
            d = d.site(site.label(self.thread_name(x).trim_end_matches(',')));
        }
        self.diagnostics.push(d.note("nothing orders them; the second write changed nothing"));
    }

    /// Turns the races found into findings.
    pub(crate) fn race_findings(&mut self) {
        let Some(race) = &mut self.race else { return };
        let found = std::mem::take(&mut race.found);
        let more = race.more;
        for f in &found {
            let name = |a: &Access| {
                let core = &self.cores[a.core as usize];
                if let Some(t) =
                    core.debug_tensor(a.inst, a.role).and_then(|k| core.debug?.tensors.get(k as usize))
                {
                    return t.name.as_str();
                }
                let i = &self.cores[a.core as usize].module.insts[a.inst];
                let list = match a.role.list {
                    0 => i.ins.get(a.role.index as usize),
                    1 => i.outs.get(a.role.index as usize),
                    _ => i.indirection_ins().get(a.role.index as usize),
                };
                let loc = list.and_then(|o| o.as_ap()).map(|ap| ap.loc);
                loc.map_or("memory", |l| self.cores[a.core as usize].module.memlocs[l].name.as_str())
            };
            let (a, b) = (&f.first, &f.second);
            let what = if f.both_write { "both write" } else { "one writes" };
            let text = if a.core == b.core {
                format!(
                    "data race on `{}` inside core {}: nothing orders two accesses and {what}",
                    name(b),
                    b.core
                )
            } else {
                let (x, y) = (a.core, b.core);
                format!(
                    "data race on `{}` between core {x} and core {y}: nothing orders two accesses and {what}",
                    name(b)
                )
            };
            let mut d = Diagnostic::new(codes::S0020, text);
            for x in [a, b] {
                let verb = if x.role.list == 1 { "writes" } else { "reads" };
                let at = self.thread_name(x);
                let site = self.site(x.core as usize, x.inst);
                d = d.site(site.label(format!("{at} {verb} `{}`", name(x))));
            }
            let (lo, hi) = f.bytes;
            let (p, q) = f.partitions;
            d = d.note(if p == 0 && q == 0 {
                format!("both lie in bytes {lo} to {} of the storage", hi - 1)
            } else {
                format!("both lie in bytes {lo} to {} of partitions {p} to {q}", hi - 1)
            });
            if f.same > 0 {
                d = d.note(format!("{} more of the same two stretches are not listed", f.same));
            }
            let told = self.ambiguous.iter().find(|(p, c, _)| {
                let pair = |x: &Access, y: &Access| *p == x.thread && *c == y.core as usize;
                pair(a, b) || pair(b, a)
            });
            if let Some((_, _, text)) = told {
                d = d.note(text.clone());
            }
            d = d.help(if self.style == Style::Queue && a.core == b.core {
                "a semaphore that the first raises and the second waits for would order them"
            } else if a.core == b.core {
                "a dependency edge from the first to the second, or the same engine for both, would order them"
            } else {
                "a CoreBarrier between them on both cores would order them, so would a swap or a completion token"
            });
            self.diagnostics.push(d);
        }
        if more > 0
            && let Some(d) = self.diagnostics.last_mut()
        {
            *d = d.clone().note(format!("{more} more races are not listed"));
        }
    }

    /// Leaves out an overlap whose read or write takes part in a race: one missing order, one finding.
    pub(crate) fn group_overlaps(&mut self) {
        let races: Vec<Site> = self
            .diagnostics
            .iter()
            .filter(|d| d.code == codes::S0020)
            .flat_map(|d| d.sites.iter().cloned())
            .collect();
        let raced = |s: &Site| races.iter().any(|r| (r.core, &r.inst) == (s.core, &s.inst));
        self.diagnostics.retain(|d| d.code != codes::S0023 || !d.sites.iter().any(raced));
    }

    fn thread_name(&self, a: &Access) -> String {
        let core = &self.cores[a.core as usize];
        let id = core.id;
        let name = |q: usize| queue_name(core, q);
        match self.race.as_ref().map(|r| r.lane(a.core as usize, a.thread as usize)) {
            None | Some(Lane::Core) => format!("core {id}"),
            Some(Lane::Queue(q)) => format!("core {id}, {},", name(q)),
            Some(Lane::Transfers { queue, .. }) => format!("core {id}, a transfer of {},", name(queue)),
        }
    }

    /// Adds the finding of a report.
    pub(crate) fn deadlock_found(&mut self, w: &WaitFor) {
        let d = self.deadlock_finding(w);
        self.diagnostics.push(d);
    }

    /// Builds the report at quiescence, and its diagnostic.
    pub(crate) fn deadlock(&mut self) -> WaitFor {
        let mut w = WaitFor::default();
        for c in 0..self.cores.len() {
            let core = &self.cores[c];
            w.last.push(core.last_sync.map(|id| self.site(c, id)));
            match core.phase {
                Phase::Done => w.finished.push(c),
                Phase::Barrier { group, inst, .. } => w.blocked.push(self.blocked_group(c, "", inst, group)),
                Phase::Segment | Phase::Control => self.blocked_heads(c, &mut w),
                Phase::Streams => {}
            }
        }
        w.find_cycles(self.cores.len());
        self.deadlock_found(&w);
        w
    }

    /// A queue that waits at a meeting.
    pub(crate) fn blocked_group(&self, c: usize, queue: &'static str, inst: InstId, group: u32) -> Blocked {
        let g = &self.sync.groups[group as usize];
        let missing: Vec<usize> = g
            .expect
            .iter()
            .map(|x| *x as usize)
            .filter(|x| !g.members.iter().any(|m| m.core == *x))
            .collect();
        let n = g.n;
        let what = match self.sync.channel(g.channel) {
            Channel::Swap { pipe, .. } => format!("the partner of swap #{n} of pipe {pipe}"),
            Channel::Sb2Sb { .. } => format!("the partner of GPSIMDSB2SB #{n}"),
            Channel::Collective { .. } => format!("the other members of collective #{n}"),
            Channel::Barrier { .. } => format!("the other cores at barrier #{n}"),
            Channel::BarrierId { id, .. } => format!("the other cores at barrier {id}, execution #{n}"),
            Channel::Notify { .. } => format!("notification #{n} of the peer's transfer"),
        };
        Blocked { cores: missing, ..Blocked::new(c, queue, self.site(c, inst), what) }
    }

    fn blocked_heads(&self, c: usize, w: &mut WaitFor) {
        let core = &self.cores[c];
        let seg = core.segment();
        let mut seen = Vec::new();
        let mut edges_only = Vec::new();
        let before = w.blocked.len();
        for (q, name) in QUEUE_NAMES.iter().enumerate() {
            let Some(&i) = seg.queues[q].get(core.run.heads[q] as usize) else { continue };
            if seen.contains(&i) {
                continue;
            }
            seen.push(i);
            let id = seg.insts[i as usize];
            let queue = if self.style == Style::Program { "" } else { name };
            match core.run.waits[q] {
                Some(Wait::Group { group, .. }) => w.blocked.push(self.blocked_group(c, queue, id, group)),
                Some(Wait::Token { token, n, .. }) => {
                    w.blocked.push(self.blocked_token(c, queue, id, token, n))
                }
                None => edges_only.push((queue, id)),
            }
        }
        // What waits behind a meeting is not listed; what only the queues of this core hold up is a cause of its own.
        let meets = w.blocked.len() > before;
        for (queue, id) in edges_only {
            if meets && self.held_by_meeting(core, id) {
                continue;
            }
            let (insts, queues) = self.unmet(c, core, id);
            let action = core.code.action[id.index()];
            let queue = if action == crate::code::Action::Control { "" } else { queue };
            let never = core.code.never.get(&id).and_then(|n| n.first());
            let what = match never {
                Some(x) => {
                    format!("`{}` of its own core, which comes only behind it", core.module.insts[*x].name)
                }
                None => format!("{} on its own core", list(&insts)),
            };
            w.blocked.push(Blocked { insts, queues, ..Blocked::new(c, queue, self.site(c, id), what) });
        }
    }

    /// Something that an instruction waits for, by edges or in its queue, waits at a meeting.
    fn held_by_meeting(&self, core: &Core<'_>, id: InstId) -> bool {
        let seg = core.segment();
        let at: FxHashMap<InstId, usize> = seg.insts.iter().enumerate().map(|(k, i)| (*i, k)).collect();
        let mut seen = vec![false; seg.insts.len()];
        let mut open: Vec<usize> = at.get(&id).copied().into_iter().collect();
        while let Some(k) = open.pop() {
            if std::mem::replace(&mut seen[k], true) {
                continue;
            }
            let mut queues = (0..QUEUES).filter(|q| [*q as u8, ALL_QUEUES].contains(&seg.queue_of[k]));
            let head = |q: usize| seg.queues[q].get(core.run.heads[q] as usize).map(|h| *h as usize);
            if queues.clone().any(|q| head(q) == Some(k) && core.run.waits[q].is_some()) {
                return true;
            }
            open.extend(queues.by_ref().filter_map(head));
            let deps = core.module.insts[seg.insts[k]].deps.iter();
            open.extend(deps.filter_map(|d| at.get(&d.inst)).filter(|p| !core.run.done[**p]));
        }
        false
    }

    /// A queue that waits at a token.
    pub(crate) fn blocked_token(
        &self,
        c: usize,
        queue: &'static str,
        id: InstId,
        token: u32,
        n: u64,
    ) -> Blocked {
        let t = &self.sync.tokens[token as usize];
        let cores = t.writers.iter().copied().filter(|x| t.arrived[*x] < n).collect();
        let what = format!("completion #{} of `{}`", n - 1, t.name);
        Blocked { cores, ..Blocked::new(c, queue, self.site(c, id), what) }
    }

    /// Names of the producers of an instruction that are not complete, and their queues.
    fn unmet(&self, c: usize, core: &Core<'_>, id: InstId) -> (Vec<String>, Vec<(usize, &'static str)>) {
        let seg = core.segment();
        let deps = &core.module.insts[id].deps;
        let (mut out, mut queues) = (Vec::new(), Vec::new());
        for (k, x) in seg.insts.iter().enumerate() {
            if !core.run.done[k] && deps.iter().any(|d| d.inst == *x) {
                out.push(core.module.insts[*x].name.to_string());
                let q = QUEUE_NAMES.get(seg.queue_of[k] as usize).map(|q| (c, *q));
                queues.extend(q.filter(|q| self.style != Style::Program && !queues.contains(q)));
            }
        }
        let never = core.code.never.get(&id).into_iter().flatten();
        out.extend(never.map(|x| core.module.insts[*x].name.to_string()));
        (out, queues)
    }

    fn deadlock_finding(&self, w: &WaitFor) -> Diagnostic {
        let ended: Vec<usize> =
            w.finished.iter().copied().filter(|f| w.blocked.iter().any(|b| b.cores.contains(f))).collect();
        let name = |c: usize| if c < self.cores.len() { self.cores[c].id.to_string() } else { c.to_string() };
        let own: Vec<&Blocked> = w.blocked.iter().filter(|b| b.cores.is_empty()).collect();
        let (code, text) = if let Some(e) = ended.first() {
            let who = w.blocked.iter().find(|b| b.cores.contains(e));
            let waiter = who.map_or(0, |b| b.core);
            let what = who.map_or("a synchronisation", |b| b.what.as_str());
            (codes::S0011, format!("core {} waits for {what}, but core {} has ended", name(waiter), name(*e)))
        } else if !w.cycle.is_empty() {
            let ring: Vec<String> = w.cycle.iter().map(|c| format!("core {}", name(*c))).collect();
            (codes::S0010, format!("deadlock: {} wait for each other", ring.join(" and ")))
        } else if let Some(b) = own.iter().find(|b| b.is_lost()) {
            let what = format!(
                "deadlock: core {} waits for {}, which nothing that is left raises",
                name(b.core),
                b.what
            );
            (codes::S0010, what)
        } else if let Some(b) = own.first() {
            (codes::S0010, format!("deadlock: the queues of core {} wait for each other", name(b.core)))
        } else {
            (codes::S0010, "deadlock: nothing can run".to_owned())
        };
        let mut d = Diagnostic::new(code, text);
        for b in &w.blocked {
            let on = if b.queue.is_empty() { String::new() } else { format!("{} ", b.queue) };
            d = d.site(b.site.clone().label(format!("{on}waits for {}", b.what)));
        }
        for &f in w.finished.iter().filter(|f| ended.contains(f)) {
            let site = match w.last.get(f).and_then(Option::as_ref) {
                Some(s) => s.clone().label(format!("the last that core {} met; then it ended", name(f))),
                None => self.last_place(f).label(format!("core {} ended without meeting", name(f))),
            };
            d = d.site(site);
        }
        for b in &w.blocked {
            b.semaphores.iter().for_each(|u| d.notes.extend(u.notes(&name(b.core), b.queue)));
        }
        if w.ring.len() > 1 && w.ring.iter().all(|(_, q)| !q.is_empty()) {
            let ring: Vec<String> = w.ring.iter().map(|(c, q)| format!("{q} of core {}", name(*c))).collect();
            d = d.note(format!("in a circle: {}", ring.join(", then ")));
        }
        for (c, l) in w.last.iter().enumerate() {
            let text = match l {
                Some(s) => format!("core {}: last synchronisation that matched: {}", name(c), site_text(s)),
                None => format!("core {}: no synchronisation has matched yet", name(c)),
            };
            d = d.note(text);
        }
        for f in &w.finished {
            d = d.note(format!("core {} has finished", name(*f)));
        }
        if self.crossed_pipes() {
            d = d.note(
                "the cores wait on different pipes; the vendor's text lets pipes progress independently, but the barriers of \
                 the lowered program meet in program order, so the machine would hang here",
            );
            d = d.help("give both cores the same order of swaps");
        } else if code == codes::S0011 {
            d = d.help("make both cores execute the same number of swaps, barriers, collectives and tokens");
        }
        d
    }

    /// Two cores of one LNC wait at swaps of different pipes.
    fn crossed_pipes(&self) -> bool {
        let mut at: Vec<(usize, i64)> = Vec::new();
        for core in &self.cores {
            for x in core.run.waits.iter().flatten() {
                if let Wait::Group { group, released: false } = x
                    && let Channel::Swap { lnc, pipe } =
                        self.sync.channel(self.sync.groups[*group as usize].channel)
                {
                    at.push((*lnc, *pipe));
                }
            }
        }
        at.iter().any(|a| at.iter().any(|b| a.0 == b.0 && a.1 != b.1))
    }
}

impl Blocked {
    pub(crate) fn new(core: usize, queue: &'static str, site: Site, what: String) -> Blocked {
        Blocked {
            core,
            queue,
            site,
            what,
            cores: Vec::new(),
            insts: Vec::new(),
            queues: Vec::new(),
            semaphores: Vec::new(),
        }
    }
    /// It waits for a semaphore that nothing raises any more.
    fn is_lost(&self) -> bool {
        self.semaphores.iter().any(|s| s.left == 0)
    }
}

impl Unmet {
    /// Why it may stay as it is.
    fn notes(&self, core: &str, queue: &str) -> Vec<String> {
        let mut out = Vec::new();
        let sem = self.sem;
        if self.left == 0 {
            out.push(format!(
                "semaphore {sem} of core {core}, for which {queue} waits, has no producer left: a lost signal"
            ));
        } else {
            let list: Vec<String> =
                self.raisers.iter().map(|(c, q, n)| format!("`{n}` ({q} of core {c})")).collect();
            let more = self.left.saturating_sub(list.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            out.push(format!("semaphore {sem} of core {core} would be raised by {}{more}", list.join(", ")));
        }
        if let Some((v, by)) = &self.was {
            out.push(format!("semaphore {sem} of core {core} had reached {v} when `{by}` reset it"));
        }
        out
    }
}

impl WaitFor {
    /// Fills in the cycles.
    pub(crate) fn find_cycles(&mut self, cores: usize) {
        self.cycle = cycle(self, cores);
        self.ring = ring(self);
    }
}

/// Name of an in-order queue of a core.
pub(crate) fn queue_name(core: &Core<'_>, q: usize) -> &'static str {
    match core.streams.get(q) {
        Some(s) => s.engine.name(),
        None => QUEUE_NAMES.get(q).copied().unwrap_or(""),
    }
}

/// A cycle of queues that wait for each other: every blocked queue waits for the blocked ones among those it names, and for
/// all blocked ones of a core it names.
fn ring(w: &WaitFor) -> Vec<(usize, &'static str)> {
    let n = w.blocked.len();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (k, b) in w.blocked.iter().enumerate() {
        for (j, o) in w.blocked.iter().enumerate() {
            let named = b.queues.contains(&(o.core, o.queue));
            let whole = b.cores.contains(&o.core) && !b.queues.iter().any(|q| q.0 == o.core);
            if named || whole {
                next[k].push(j);
            }
        }
    }
    // Depth first without recursion; the path is the stack.
    let mut state = vec![0u8; n];
    for start in 0..n {
        if state[start] != 0 {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        state[start] = 1;
        while let Some((k, at)) = path.last_mut() {
            match next[*k].get(*at) {
                None => {
                    state[*k] = 2;
                    path.pop();
                }
                Some(&j) => {
                    *at += 1;
                    if state[j] == 1 {
                        let from = path.iter().position(|p| p.0 == j).unwrap_or(0);
                        return path[from..]
                            .iter()
                            .map(|(k, _)| (w.blocked[*k].core, w.blocked[*k].queue))
                            .collect();
                    }
                    if state[j] == 0 {
                        state[j] = 1;
                        path.push((j, 0));
                    }
                }
            }
        }
    }
    Vec::new()
}

fn list(names: &[String]) -> String {
    match names {
        [] => "its turn".to_owned(),
        [a] => format!("`{a}`"),
        [a, rest @ ..] => format!("`{a}` and {} more", rest.len()),
    }
}

/// A cycle of cores that wait for each other, smallest first.
fn cycle(w: &WaitFor, n: usize) -> Vec<usize> {
    for start in 0..n {
        let mut path = vec![start];
        let mut at = start;
        for _ in 0..n {
            let next = w
                .blocked
                .iter()
                .filter(|b| b.core == at)
                .flat_map(|b| &b.cores)
                .find(|c| !w.finished.contains(c));
            let Some(&next) = next else { break };
            if next == start {
                return path;
            }
            if path.contains(&next) {
                break;
            }
            path.push(next);
            at = next;
        }
    }
    Vec::new()
}
