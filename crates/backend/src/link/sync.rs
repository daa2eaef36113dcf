//! Dependency edges to semaphores.
//!
//! The scheme is the specification's (file 08 §9.2): a producer posts +1 when it completes, a consumer waits for as many
//! posts as it needs. Every engine and every transfer queue is one **source** with one semaphore; both complete in order, so
//! "n posts" names exactly one instruction. Only instructions that somebody waits for post. A wait that an earlier wait of
//! the same engine, or of a producer waited for, already implies is left out (vector clocks over the sources).
//!
//! Rules of our own, with their reasons in `docs/rationale/`:
//! * a core barrier is behind everything before it in its block and before everything after it, whether or not the edges
//!   say so (decision D17 as levels up to lowered have it);
//! * in a function of several blocks every block that posts ends in *join, reset, join*: an AllEngineBarrier that also
//!   waits for the transfers of each engine, one instruction on one engine that clears the semaphores the block used, and
//!   a second AllEngineBarrier, so that counts start at zero on every path and in every iteration;
//! * a stream that ends waits for its own transfers first;
//! * a transfer that notifies its peer (`--enable-remote-semaphore-dma`) updates its own queue's semaphore and, on the peer, the
//!   one that stands beside the queue semaphore of the peer's transfer of the same ordinal ([`vnc_link`]). What follows such
//!   a transfer waits for both: its own completion and the peer's notice.

use super::expand::{ENGINES, engine_index};
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::{SemUpdate, SemWait, SyncInfo};
use tandem_bir::linked::{SEM_ENGINE, SEM_QUEUE, is_remote_copy};
use tandem_bir::{Attr, BlockId, EngineKind, Inst, InstId, Module, Opcode, Operand, Origin, Program};

/// Local and remote queue of each engine.
const QUEUES: usize = 10;
/// First queue among the sources.
const FIRST_QUEUE: usize = 5;
/// First notice among the sources: the peer's transfers that belong to the transfers of a queue.
const FIRST_NOTICE: usize = FIRST_QUEUE + QUEUES;
/// Engines, queues, notices.
const SOURCES: usize = FIRST_NOTICE + QUEUES;
/// First semaphore of notices: one beside the semaphore of each queue (our choice, in the range that the specification leaves
/// free).
pub const SEM_NOTICE: u32 = 192;
type Clock = [u32; SOURCES];

/// Semaphore of a source.
fn semaphore(source: usize) -> u32 {
    if source < FIRST_QUEUE {
        SEM_ENGINE + source as u32
    } else if source < FIRST_NOTICE {
        SEM_QUEUE + (source - FIRST_QUEUE) as u32
    } else {
        SEM_NOTICE + (source - FIRST_NOTICE) as u32
    }
}

/// The place of an operand comes from memory or a register when the instruction is issued.
fn reads_its_address(i: &Inst) -> bool {
    let moved = |o: &Operand| o.as_ap().is_some_and(|a| a.dynamic.is_some());
    !i.indirection_ins().is_empty() || i.ins.iter().chain(&i.outs).any(moved)
}

/// Name of a transfer's queue.
pub fn queue_name(engine: EngineKind, remote: bool) -> String {
    if remote { format!("qRemote{engine}") } else { format!("q{engine}") }
}

/// The core a transfer notifies.
pub fn notified_core(m: &Module, i: &Inst) -> Option<u32> {
    let own = m.core.map_or(0, |c| c.0);
    i.get_ints(Attr::RemoteNotification).iter().filter_map(|c| u32::try_from(*c).ok()).find(|c| *c != own)
}

/// Source of an instruction's completion.
fn source(m: &Module, i: &Inst) -> usize {
    let e = engine_index(i.engine).unwrap_or(0);
    if i.opcode.is_dma() { FIRST_QUEUE + 2 * e + usize::from(is_remote_copy(m, i)) } else { e }
}

fn max(a: &mut Clock, b: &Clock) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

/// What the walk over a block knows of an instruction. Its place in the list of these is that in the block.
struct Known {
    /// Source of its completion, and which completion of it this is.
    source: u8,
    pos: u32,
    /// Position of the notice it sends; 0 for none.
    notice: u32,
}

/// The instructions of a block that were walked over. One table serves all blocks.
#[derive(Default)]
struct Walked {
    /// Place in the block, counted on from those of the blocks before, plus one; 0 for none.
    at: Vec<u32>,
    /// Places of earlier blocks.
    before: u32,
    list: Vec<Known>,
    /// Sources that the block has. Programs use few of them, so clocks are kept for these only.
    live: Vec<u8>,
    /// What has completed when an instruction has: a row of one number per live source.
    after: Vec<u32>,
}

impl Walked {
    /// Forgets a block; the next has these sources and so many instructions.
    fn start(&mut self, live: Vec<u8>, insts: usize, ids: usize) {
        self.before += self.list.len() as u32;
        self.list.clear();
        self.after.clear();
        self.list.reserve_exact(insts);
        self.after.reserve_exact(insts * live.len());
        self.live = live;
        if self.at.len() < ids {
            self.at.resize(ids, 0);
        }
    }
    /// Place of an instruction of this block.
    fn place(&self, i: InstId) -> Option<u32> {
        self.at.get(i.index())?.checked_sub(self.before + 1)
    }
    fn get(&self, place: u32) -> Option<(&Known, &[u32])> {
        let (k, n) = (place as usize, self.live.len());
        Some((self.list.get(k)?, self.after.get(k * n..(k + 1) * n)?))
    }
    fn push(&mut self, i: InstId, known: Known, after: &Clock) {
        self.list.push(known);
        self.after.extend(self.live.iter().map(|s| after[usize::from(*s)]));
        if let Some(at) = self.at.get_mut(i.index()) {
            *at = self.before + self.list.len() as u32;
        }
    }
    fn set_after(&mut self, place: u32, after: &Clock) {
        let (k, n) = (place as usize, self.live.len());
        for (x, s) in self.after.iter_mut().skip(k * n).take(n).zip(&self.live) {
            *x = after[usize::from(*s)];
        }
    }
    fn max(&self, a: &mut Clock, row: &[u32]) {
        for (s, y) in self.live.iter().zip(row) {
            let x = &mut a[usize::from(*s)];
            *x = (*x).max(*y);
        }
    }
}

/// Allocates the semaphores of one core. Returns the number of waits and of posts.
pub fn allocate(m: &mut Module, blocks: &[BlockId], used: &[EngineKind]) -> (usize, usize) {
    let several = blocks.len() > 1;
    let mut totals = (0, 0);
    let mut walked = Walked::default();
    for &b in blocks {
        if several {
            join_block(m, b, used);
        }
        let (w, p) = block(m, b, used, several, &mut walked);
        totals.0 += w;
        totals.1 += p;
    }
    totals
}

/// Position of the terminators of a block.
fn end_of(m: &Module, b: BlockId) -> usize {
    end_of_list(m, &m.blocks[b].insts)
}

/// Position of the first terminator of a list. Terminators stand at its end, one per engine.
fn end_of_list(m: &Module, list: &[InstId]) -> usize {
    list.len() - list.iter().rev().take_while(|i| m.insts[**i].opcode.is_terminator()).count()
}

/// How many completions of each source post up to a position: only those that somebody waits for do.
struct Posts {
    /// By source and position, from position 0.
    upto: Vec<Vec<u32>>,
}

impl Posts {
    fn of(
        waits: &[(u8, u32)],
        tail: &[(EngineKind, Vec<(u8, u32)>)],
        walked: &Walked,
        pos: &[u32; SOURCES],
    ) -> Posts {
        let mut upto: Vec<Vec<u32>> = vec![Vec::new(); FIRST_NOTICE];
        let mut mark = |s: u8, p: u32| {
            // every notice posts, whether or not somebody waits for it
            let Some(list) = upto.get_mut(usize::from(s)) else { return };
            if list.is_empty() {
                list.resize(pos[usize::from(s)] as usize + 1, 0);
            }
            if let Some(x) = list.get_mut(p as usize) {
                *x = 1;
            }
        };
        for (s, p) in waits.iter().chain(tail.iter().flat_map(|(_, w)| w)) {
            mark(*s, *p);
        }
        // a transfer that notifies completes for its own core too: the peer takes the number of that semaphore
        for w in walked.list.iter().filter(|w| w.notice > 0) {
            mark(w.source, w.pos);
        }
        for list in &mut upto {
            let mut n = 0;
            for x in list {
                n += *x;
                *x = n;
            }
        }
        Posts { upto }
    }
    /// Some completion of a source posts.
    fn any(&self, source: usize) -> bool {
        self.upto.get(source).is_some_and(|l| !l.is_empty())
    }
    /// Waits for completions.
    fn waits(&self, m: &Module, at: &[Vec<InstId>; SOURCES], list: &[(u8, u32)]) -> Vec<SemWait> {
        list.iter()
            .map(|&(s, p)| {
                let s = usize::from(s);
                let upto = self.upto.get(s).map_or(p, |l| l.get(p as usize).copied().unwrap_or(0));
                let from = at[s].get(p as usize - 1).map(|i| m.insts[*i].name.clone());
                SemWait { sem: semaphore(s), value: i64::from(upto), from, extra: None }
            })
            .collect()
    }
}

/// Makes sure that a block ends in a join.
fn join_block(m: &mut Module, b: BlockId, used: &[EngineKind]) {
    let end = end_of(m, b);
    let list = &m.blocks[b].insts;
    let joined = end >= used.len()
        && list[end - used.len()..end].iter().all(|i| m.insts[*i].opcode == Opcode::AllEngineBarrier);
    let registers_only = list[..end]
        .iter()
        .all(|i| matches!(m.insts[*i].opcode, Opcode::RegisterAlu | Opcode::RegisterMove | Opcode::NoOp));
    if joined || registers_only {
        return;
    }
    let name = format!("{}-end-join", m.blocks[b].name);
    let made = clones(m, &name, Opcode::AllEngineBarrier, used);
    m.blocks[b].insts.splice(end..end, made);
}

fn clones(m: &mut Module, name: &str, opcode: Opcode, used: &[EngineKind]) -> Vec<InstId> {
    used.iter()
        .enumerate()
        .map(|(k, e)| {
            let mut i = Inst::new(&if k == 0 { name.to_owned() } else { format!("{name}.{e}") }, opcode);
            i.engine = *e;
            i.origin = Origin::Internal;
            m.insts.push(i)
        })
        .collect()
}

/// The sources that complete in a block, in order.
fn live_sources(m: &Module, list: &[InstId]) -> Vec<u8> {
    let mut live = [false; SOURCES];
    for i in list {
        let i = &m.insts[*i];
        let s = source(m, i);
        live[s] = true;
        if s >= FIRST_QUEUE && notified_core(m, i).is_some() {
            live[s + QUEUES] = true;
        }
    }
    (0..SOURCES as u8).filter(|s| live[usize::from(*s)]).collect()
}

fn block(
    m: &mut Module,
    b: BlockId,
    used: &[EngineKind],
    several: bool,
    walked: &mut Walked,
) -> (usize, usize) {
    let list = std::mem::take(&mut m.blocks[b].insts);
    walked.start(live_sources(m, &list), list.len(), m.insts.len());
    let mut pos = [0u32; SOURCES];
    // instruction at (source, position)
    let mut at: [Vec<InstId>; SOURCES] = Default::default();
    let mut known: [Clock; 5] = [[0; SOURCES]; 5];
    let mut queue_clock: [Clock; SOURCES] = [[0; SOURCES]; SOURCES];
    // `(source, position)` waits, and where those of each instruction end
    let mut waits: Vec<(u8, u32)> = Vec::new();
    let mut ends: Vec<u32> = Vec::with_capacity(list.len());
    let mut producers: Vec<u32> = Vec::new();
    let mut fence: Option<u32> = None;
    let mut k = 0;
    while k < list.len() {
        let id = list[k];
        let op = m.insts[id].opcode;
        if op == Opcode::AllEngineBarrier {
            let n = list[k..].iter().take_while(|i| m.insts[**i].opcode == op).count().min(used.len());
            let group = &list[k..k + n];
            let mut joined: Clock = [0; SOURCES];
            for &g in group {
                let e = engine_index(m.insts[g].engine).unwrap_or(0);
                for q in own_transfers(e) {
                    if known[e][q] < pos[q] {
                        waits.push((q as u8, pos[q]));
                        known[e][q] = pos[q];
                        let c = queue_clock[q];
                        max(&mut known[e], &c);
                    }
                }
                pos[e] += 1;
                at[e].push(g);
                known[e][e] = pos[e];
                walked.push(g, Known { source: e as u8, pos: pos[e], notice: 0 }, &known[e]);
                max(&mut joined, &known[e]);
                ends.push(waits.len() as u32);
            }
            for (n, &g) in group.iter().enumerate() {
                let e = engine_index(m.insts[g].engine).unwrap_or(0);
                max(&mut known[e], &joined);
                walked.set_after((k + n) as u32, &known[e]);
            }
            k += n;
            continue;
        }
        let inst = &m.insts[id];
        let e = engine_index(inst.engine).unwrap_or(0);
        let s = source(m, inst);
        let addressed = s >= FIRST_QUEUE && reads_its_address(inst);
        producers.clear();
        producers.extend(inst.deps.iter().filter_map(|d| walked.place(d.inst)));
        if op == Opcode::CoreBarrier {
            producers.extend(at.iter().filter_map(|l| walked.place(*l.last()?)));
        }
        producers.extend(fence);
        producers.sort_unstable_by(|a, b| b.cmp(a));
        producers.dedup();
        let mut own: Clock = known[e];
        if op == Opcode::CoreBarrier {
            for n in FIRST_NOTICE..SOURCES {
                if known[e][n] < pos[n] {
                    waits.push((n as u8, pos[n]));
                    known[e][n] = pos[n];
                }
            }
        }
        for &p in &producers {
            let Some((w, after)) = walked.get(p) else { continue };
            let (ps, pp) = (usize::from(w.source), w.pos);
            if w.notice > 0 && known[e][ps + QUEUES] < w.notice {
                waits.push(((ps + QUEUES) as u8, w.notice));
                known[e][ps + QUEUES] = w.notice;
            }
            // Transfers of a queue move their data in order, but their addresses are made when they are issued.
            if known[e][ps] >= pp || (s == ps && s >= FIRST_QUEUE && !addressed) {
                continue;
            }
            waits.push((w.source, pp));
            walked.max(&mut known[e], after);
            walked.max(&mut own, after);
            known[e][ps] = known[e][ps].max(pp);
        }
        pos[s] += 1;
        at[s].push(id);
        let mut notice = 0;
        if s >= FIRST_QUEUE && notified_core(m, inst).is_some() {
            pos[s + QUEUES] += 1;
            at[s + QUEUES].push(id);
            notice = pos[s + QUEUES];
        }
        if s == e {
            known[e][e] = pos[e];
            own = known[e];
        } else {
            max(&mut own, &known[e]);
            max(&mut own, &queue_clock[s]);
            own[s] = pos[s];
            queue_clock[s] = own;
        }
        walked.push(id, Known { source: s as u8, pos: pos[s], notice }, &own);
        if op == Opcode::CoreBarrier {
            fence = Some(k as u32);
        }
        ends.push(waits.len() as u32);
        k += 1;
    }

    // streams that end here wait for their transfers
    let mut tail: Vec<(EngineKind, Vec<(u8, u32)>)> = Vec::new();
    if !several {
        for e in used {
            let x = engine_index(*e).unwrap_or(0);
            let w: Vec<(u8, u32)> = own_transfers(x)
                .into_iter()
                .filter(|q| known[x][*q] < pos[*q])
                .map(|q| (q as u8, pos[q]))
                .collect();
            if !w.is_empty() {
                tail.push((*e, w));
            }
        }
    }

    let posts = Posts::of(&waits, &tail, walked, &pos);
    let mut num_posts = 0;
    for (s, list) in posts.upto.iter().enumerate() {
        for (p, w) in list.windows(2).enumerate() {
            let Some(&id) = at[s].get(p).filter(|_| w[0] < w[1]) else { continue };
            num_posts += 1;
            let sync = m.insts[id].more_mut().sync.get_or_insert_default();
            sync.on_update.reserve_exact(1);
            sync.on_update.push(SemUpdate { sem: semaphore(s), value: 1, ..SemUpdate::default() });
        }
    }
    for (id, w) in list.iter().zip(&walked.list) {
        if w.notice > 0
            && let Some(to) = notified_core(m, &m.insts[*id])
        {
            let sem = semaphore(usize::from(w.source));
            let sync = m.insts[*id].more_mut().sync.get_or_insert_default();
            let update = SemUpdate { sem, value: 1, target_core: Some(to), extra: None };
            sync.on_update.push(update);
        }
    }
    let mut num_waits = 0;
    let mut out: Vec<InstId> = Vec::with_capacity(list.len());
    let mut from = 0;
    for (&id, to) in list.iter().zip(ends) {
        let own = waits.get_mut(from..to as usize).unwrap_or(&mut []);
        from = to as usize;
        num_waits += own.len();
        own.sort_by_key(|(s, _)| semaphore(usize::from(*s)));
        let room = if m.insts[id].opcode == Opcode::EventSemaphore { 2 } else { 1 };
        let mut rest: &[(u8, u32)] = own;
        let mut n = 0;
        while rest.len() > room {
            let (first, more) = rest.split_at(2.min(rest.len() - room));
            let name = format!("{}-wait{n}", m.insts[id].name);
            let mut e = event(&name, m.insts[id].engine, posts.waits(m, &at, first));
            e.loc = m.insts[id].loc;
            out.push(m.insts.push(e));
            rest = more;
            n += 1;
        }
        if !rest.is_empty() {
            let waits = posts.waits(m, &at, rest);
            m.insts[id].more_mut().sync.get_or_insert_default().on_wait = waits;
        }
        out.push(id);
    }
    for (e, w) in tail {
        num_waits += w.len();
        for (n, first) in w.chunks(2).enumerate() {
            let name = format!("{}-{e}-drain{n}", m.blocks[b].name);
            let i = m.insts.push(event(&name, e, posts.waits(m, &at, first)));
            let end = end_of_list(m, &out);
            out.insert(end, i);
        }
    }
    if several && num_posts > 0 {
        let sems: Vec<i64> = (0..SOURCES)
            .filter(|s| posts.any(*s) || *s >= FIRST_NOTICE && pos[*s] > 0)
            .map(|s| i64::from(semaphore(s)))
            .collect();
        let name = m.blocks[b].name.clone();
        let mut reset = Inst::new(&format!("{name}-reset"), Opcode::GroupResetSemaphores)
            .with(Attr::Mode, tandem_bir::EventSemaphoreClearMode::SemaphoreZeroBitmask)
            .with(Attr::SemaGroup, sems);
        reset.engine = used.first().copied().unwrap_or(ENGINES[4]);
        reset.origin = Origin::Internal;
        let reset = m.insts.push(reset);
        let second = clones(m, &format!("{name}-reset-join"), Opcode::AllEngineBarrier, used);
        let end = end_of_list(m, &out);
        out.splice(end..end, std::iter::once(reset).chain(second));
    }
    m.blocks[b].insts = out;
    (num_waits, num_posts)
}

/// Sources of an engine's transfers and of the notices that belong to them.
fn own_transfers(engine: usize) -> [usize; 4] {
    let q = FIRST_QUEUE + 2 * engine;
    [q, q + 1, q + QUEUES, q + 1 + QUEUES]
}

fn event(name: &str, engine: EngineKind, waits: Vec<SemWait>) -> Inst {
    let mut i = Inst::new(name, Opcode::EventSemaphore);
    i.engine = engine;
    i.origin = Origin::Internal;
    i.more_mut().sync = Some(SyncInfo { on_wait: waits, on_update: Vec::new(), extra: None });
    i
}

/// `vnc_link`: the number of a remote update. The k-th notifying transfer of a core carries its own semaphore's number and
/// the core it notifies; the number becomes that of the first local update of the peer's k-th notifying transfer, and from it
/// the notice semaphore beside it.
///
/// # Errors
/// N0013 (assertion 1512) for unequal counts, N0014 (assertion 1511) where the peer's transfer has no local update, N0020
/// where one notice semaphore would have several queues that post to it.
pub fn vnc_link(p: &mut Program, diags: &mut Vec<Diagnostic>) {
    let lists: Vec<Vec<InstId>> = p
        .modules
        .iter()
        .map(|m| {
            let all = super::flat(m);
            all.filter(|i| !m.insts[*i].get_ints(Attr::RemoteNotification).is_empty()).collect()
        })
        .collect();
    let counts: Vec<usize> = lists.iter().map(Vec::len).collect();
    if counts.windows(2).any(|w| w[0] != w[1]) {
        let table: Vec<String> = p
            .modules
            .iter()
            .zip(&counts)
            .map(|(m, n)| format!("{}: Found {n} remote updates", m.name))
            .collect();
        diags.push(
            Diagnostic::new(codes::N0013, "the cores have different numbers of notifying transfers")
                .note(table.join("; "))
                .note("assertion 1512: allEqual"),
        );
        return;
    }
    let local = |p: &Program, c: usize, i: InstId| -> Option<u32> {
        let sync = p.modules.get(c)?.insts[i].more.as_ref()?.sync.as_ref()?;
        sync.on_update.iter().find(|u| u.target_core.is_none()).map(|u| u.sem)
    };
    let mut producers: FxHashMap<(usize, u32), (usize, u32)> = FxHashMap::default();
    let mut changes = Vec::new();
    for (c, list) in lists.iter().enumerate() {
        for (k, &i) in list.iter().enumerate() {
            let updates = p.modules[c].insts[i].sync();
            for (u, update) in updates.map_or(&[][..], |s| s.on_update.as_slice()).iter().enumerate() {
                let Some(t) = update.target_core.map(|t| t as usize) else { continue };
                let peer = lists.get(t).and_then(|l| l.get(k)).copied();
                let Some(sem) = peer.and_then(|j| local(p, t, j)) else {
                    let m = &p.modules[c];
                    let mut d = Diagnostic::new(
                        codes::N0014,
                        format!("notifying transfer {k} of core {t} updates no semaphore of its own core"),
                    )
                    .inst(p, m, i)
                    .note("assertion 1511: the peer's transfer has no local update");
                    if let (Some(o), Some(j)) = (p.modules.get(t), peer) {
                        d = d.inst(p, o, j);
                    }
                    diags.push(d);
                    continue;
                };
                let notice = sem.saturating_sub(SEM_QUEUE) + SEM_NOTICE;
                let from = (c, local(p, c, i).unwrap_or(update.sem));
                if *producers.entry((t, notice)).or_insert(from) != from {
                    let text = "notifying transfers of one queue belong to transfers of several queues";
                    diags.push(Diagnostic::new(codes::N0020, text).inst(p, &p.modules[c], i));
                }
                changes.push((c, i, u, notice));
            }
        }
    }
    for (c, i, u, notice) in changes {
        if let Some(update) =
            p.modules[c].insts[i].more_mut().sync.as_mut().and_then(|s| s.on_update.get_mut(u))
        {
            update.sem = notice;
        }
    }
}

/// No wait without enough posts (the specification, file 08 §11): in its block a semaphore gets at least the value that is waited
/// for, from the instructions of the block and from other cores. Findings are faults of linking.
pub fn check_posts(p: &Program) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    // what other cores add, in all
    let mut remote: FxHashMap<(u32, u32), i64> = FxHashMap::default();
    for m in &p.modules {
        for i in super::flat(m) {
            for u in m.insts[i].sync().map_or(&[][..], |s| s.on_update.as_slice()) {
                if let Some(t) = u.target_core {
                    *remote.entry((t, u.sem)).or_default() += u.value;
                }
            }
        }
    }
    for (c, m) in p.modules.iter().enumerate() {
        for f in m.all_functions() {
            for b in &m.funcs[f].blocks {
                let list = &m.blocks[*b].insts;
                let sync = |i: &InstId| m.insts[*i].sync();
                let mut posts = [0i64; 256];
                for u in list.iter().filter_map(sync).flat_map(|s| &s.on_update) {
                    if u.target_core.is_none()
                        && let Some(n) = posts.get_mut(u.sem as usize)
                    {
                        *n += u.value;
                    }
                }
                for i in list {
                    for w in sync(i).map_or(&[][..], |s| s.on_wait.as_slice()) {
                        let have = posts.get(w.sem as usize).copied().unwrap_or(0)
                            + remote.get(&(c as u32, w.sem)).copied().unwrap_or(0);
                        if w.sem > 255 || have < w.value {
                            let text = format!(
                                "`{}` waits for {} posts of semaphore {}, its block has {have}",
                                m.insts[*i].name, w.value, w.sem
                            );
                            out.push(Diagnostic::new(codes::I0001, text).inst(p, m, *i));
                        }
                    }
                }
            }
        }
    }
    out
}

/// A notice is taken back by the reset at the end of its block. A peer that is ahead must not send the next one before: in a
/// program of several blocks a core barrier stands before the first notifying transfer of a block.
pub fn check_notices(p: &Program, m: &Module, blocks: &[BlockId], diags: &mut Vec<Diagnostic>) {
    if blocks.len() < 2 {
        return;
    }
    for b in blocks {
        for &i in &m.blocks[*b].insts {
            if m.insts[i].opcode == Opcode::CoreBarrier {
                break;
            }
            if m.insts[i].opcode.is_dma() && notified_core(m, &m.insts[i]).is_some() {
                let text = "in a program of several blocks a notifying transfer stands behind a core barrier of its block";
                diags.push(Diagnostic::new(codes::N0020, text).inst(p, m, i));
            }
        }
    }
}
