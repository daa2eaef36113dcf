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
//! * a stream that ends waits for its own transfers first.

use super::expand::{ENGINES, engine_index};
use rustc_hash::FxHashMap;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::inst::{SemUpdate, SemWait, SyncInfo};
use tandem_bir::linked::{SEM_ENGINE, SEM_QUEUE, is_remote_copy};
use tandem_bir::{Attr, BlockId, EngineKind, Inst, InstId, Module, Opcode, Operand, Origin};

/// Engines, then local queue and remote queue of each engine.
const SOURCES: usize = 15;
type Clock = [u32; SOURCES];

/// Semaphore of a source.
fn semaphore(source: usize) -> u32 {
    if source < 5 { SEM_ENGINE + source as u32 } else { SEM_QUEUE + (source as u32 - 5) }
}

/// Name of a transfer's queue.
pub fn queue_name(engine: EngineKind, remote: bool) -> String {
    if remote { format!("qRemote{engine}") } else { format!("q{engine}") }
}

/// Source of an instruction's completion.
fn source(m: &Module, i: &Inst) -> usize {
    let e = engine_index(i.engine).unwrap_or(0);
    if i.opcode.is_dma() { 5 + 2 * e + usize::from(is_remote_copy(m, i)) } else { e }
}

fn max(a: &mut Clock, b: &Clock) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

/// Allocates the semaphores of one core. Returns the number of waits and of posts.
pub fn allocate(m: &mut Module, blocks: &[BlockId], used: &[EngineKind]) -> (usize, usize) {
    let several = blocks.len() > 1;
    let mut totals = (0, 0);
    for &b in blocks {
        if several {
            join_block(m, b, used);
        }
        let (w, p) = block(m, b, used, several);
        totals.0 += w;
        totals.1 += p;
    }
    totals
}

/// Position of the terminators of a block.
fn end_of(m: &Module, b: BlockId) -> usize {
    let list = &m.blocks[b].insts;
    list.iter().position(|i| m.insts[*i].opcode.is_terminator()).unwrap_or(list.len())
}

/// Makes sure that a block ends in a join.
fn join_block(m: &mut Module, b: BlockId, used: &[EngineKind]) {
    let end = end_of(m, b);
    let list = &m.blocks[b].insts;
    let joined = end >= used.len()
        && list[end - used.len()..end].iter().all(|i| m.insts[*i].opcode == Opcode::AllEngineBarrier);
    if joined || end == 0 {
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

/// What the walk over a block finds for an instruction.
struct Need {
    /// `(source, position)` waits.
    waits: Vec<(usize, u32)>,
}

fn block(m: &mut Module, b: BlockId, used: &[EngineKind], several: bool) -> (usize, usize) {
    let list = m.blocks[b].insts.clone();
    let mut pos = [0u32; SOURCES];
    // instruction at (source, position)
    let mut at: [Vec<InstId>; SOURCES] = Default::default();
    let mut order: FxHashMap<InstId, usize> = FxHashMap::default();
    let mut place: FxHashMap<InstId, (usize, u32)> = FxHashMap::default();
    let mut after: FxHashMap<InstId, Clock> = FxHashMap::default();
    let mut known: [Clock; 5] = [[0; SOURCES]; 5];
    let mut queue_clock: [Clock; SOURCES] = [[0; SOURCES]; SOURCES];
    let mut needs: Vec<(InstId, Need)> = Vec::with_capacity(list.len());
    let mut fence: Option<InstId> = None;
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
                let mut waits = Vec::new();
                for q in [5 + 2 * e, 6 + 2 * e] {
                    if known[e][q] < pos[q] {
                        waits.push((q, pos[q]));
                        known[e][q] = pos[q];
                        let c = queue_clock[q];
                        max(&mut known[e], &c);
                    }
                }
                pos[e] += 1;
                at[e].push(g);
                known[e][e] = pos[e];
                order.insert(g, k);
                place.insert(g, (e, pos[e]));
                max(&mut joined, &known[e]);
                needs.push((g, Need { waits }));
            }
            for &g in group {
                let e = engine_index(m.insts[g].engine).unwrap_or(0);
                max(&mut known[e], &joined);
                after.insert(g, known[e]);
            }
            k += n;
            continue;
        }
        let e = engine_index(m.insts[id].engine).unwrap_or(0);
        let s = source(m, &m.insts[id]);
        let mut producers: Vec<InstId> =
            m.insts[id].deps.iter().map(|d| d.inst).filter(|d| place.contains_key(d)).collect();
        if op == Opcode::CoreBarrier {
            producers.extend(at.iter().filter_map(|l| l.last().copied()));
        }
        producers.extend(fence);
        producers.sort_unstable_by_key(|p| std::cmp::Reverse(order.get(p).copied().unwrap_or(0)));
        producers.dedup();
        let mut waits = Vec::new();
        let mut own: Clock = known[e];
        for p in producers {
            let Some(&(ps, pp)) = place.get(&p) else { continue };
            if known[e][ps] >= pp || (s == ps && s >= 5) {
                continue;
            }
            waits.push((ps, pp));
            if let Some(c) = after.get(&p) {
                max(&mut known[e], c);
                max(&mut own, c);
            }
            known[e][ps] = known[e][ps].max(pp);
        }
        pos[s] += 1;
        at[s].push(id);
        order.insert(id, k);
        place.insert(id, (s, pos[s]));
        if s == e {
            known[e][e] = pos[e];
            after.insert(id, known[e]);
        } else {
            max(&mut own, &known[e]);
            max(&mut own, &queue_clock[s]);
            own[s] = pos[s];
            queue_clock[s] = own;
            after.insert(id, own);
        }
        if op == Opcode::CoreBarrier {
            fence = Some(id);
        }
        needs.push((id, Need { waits }));
        k += 1;
    }

    // streams that end here wait for their transfers
    let ends = !several;
    let mut tail: Vec<(EngineKind, Vec<(usize, u32)>)> = Vec::new();
    if ends {
        for e in used {
            let x = engine_index(*e).unwrap_or(0);
            let w: Vec<(usize, u32)> = [5 + 2 * x, 6 + 2 * x]
                .into_iter()
                .filter(|q| known[x][*q] < pos[*q])
                .map(|q| (q, pos[q]))
                .collect();
            if !w.is_empty() {
                tail.push((*e, w));
            }
        }
    }

    // posts
    let mut posts: [Vec<u32>; SOURCES] = Default::default();
    for (s, p) in needs.iter().flat_map(|(_, n)| &n.waits).chain(tail.iter().flat_map(|(_, w)| w)) {
        posts[*s].push(*p);
    }
    for p in &mut posts {
        p.sort_unstable();
        p.dedup();
    }
    let value = |s: usize, p: u32| -> i64 { posts[s].partition_point(|x| *x <= p) as i64 };
    let mut num_posts = 0;
    for (s, list) in posts.iter().enumerate() {
        for p in list {
            let Some(&id) = at[s].get(*p as usize - 1) else { continue };
            num_posts += 1;
            let sync = m.insts[id].more_mut().sync.get_or_insert_default();
            sync.on_update.push(SemUpdate { sem: semaphore(s), value: 1, ..SemUpdate::default() });
        }
    }
    let mut num_waits = 0;
    let mut out: Vec<InstId> = Vec::with_capacity(list.len());
    for (id, need) in needs {
        let mut waits: Vec<SemWait> =
            need.waits.iter().map(|&(s, p)| wait(m, &at, s, p, value(s, p))).collect();
        num_waits += waits.len();
        waits.sort_by_key(|w| w.sem);
        let room = if m.insts[id].opcode == Opcode::EventSemaphore { 2 } else { 1 };
        let name = m.insts[id].name.clone();
        let (engine, loc) = (m.insts[id].engine, m.insts[id].loc);
        let mut n = 0;
        while waits.len() > room {
            let take = waits.len().min(2).min(waits.len() - room);
            let first: Vec<SemWait> = waits.drain(..take).collect();
            let mut e = event(&format!("{name}-wait{n}"), engine, first);
            e.loc = loc;
            out.push(m.insts.push(e));
            n += 1;
        }
        if !waits.is_empty() {
            m.insts[id].more_mut().sync.get_or_insert_default().on_wait.extend(waits);
        }
        out.push(id);
    }
    for (e, w) in tail {
        let mut waits: Vec<SemWait> = w.iter().map(|&(s, p)| wait(m, &at, s, p, value(s, p))).collect();
        num_waits += waits.len();
        let mut n = 0;
        while !waits.is_empty() {
            let take = waits.len().min(2);
            let first: Vec<SemWait> = waits.drain(..take).collect();
            let name = format!("{}-{e}-drain{n}", m.blocks[b].name);
            let i = m.insts.push(event(&name, e, first));
            let end = out.iter().position(|i| m.insts[*i].opcode.is_terminator()).unwrap_or(out.len());
            out.insert(end, i);
            n += 1;
        }
    }
    if several && num_posts > 0 {
        let sems: Vec<i64> =
            (0..SOURCES).filter(|s| !posts[*s].is_empty()).map(|s| i64::from(semaphore(s))).collect();
        let name = m.blocks[b].name.clone();
        let mut reset = Inst::new(&format!("{name}-reset"), Opcode::GroupResetSemaphores)
            .with(Attr::Mode, tandem_bir::EventSemaphoreClearMode::SemaphoreZeroBitmask)
            .with(Attr::SemaGroup, sems);
        reset.engine = used.first().copied().unwrap_or(ENGINES[4]);
        reset.origin = Origin::Internal;
        let reset = m.insts.push(reset);
        let second = clones(m, &format!("{name}-reset-join"), Opcode::AllEngineBarrier, used);
        let end = out.iter().position(|i| m.insts[*i].opcode.is_terminator()).unwrap_or(out.len());
        out.splice(end..end, std::iter::once(reset).chain(second));
    }
    m.blocks[b].insts = out;
    (num_waits, num_posts)
}

fn wait(m: &Module, at: &[Vec<InstId>; SOURCES], s: usize, p: u32, value: i64) -> SemWait {
    let from = at[s].get(p as usize - 1).map(|i| m.insts[*i].name.clone());
    SemWait { sem: semaphore(s), value, from, extra: None }
}

fn event(name: &str, engine: EngineKind, waits: Vec<SemWait>) -> Inst {
    let mut i = Inst::new(name, Opcode::EventSemaphore);
    i.engine = engine;
    i.origin = Origin::Internal;
    i.more_mut().sync = Some(SyncInfo { on_wait: waits, on_update: Vec::new(), extra: None });
    i
}

/// Register numbers in order of first use; registers nobody uses get none.
///
/// # Errors
/// The number of registers needed, when it is too large.
pub fn number_registers(m: &Module, limit: usize) -> Result<Vec<u8>, usize> {
    let mut numbers = vec![u8::MAX; m.regs.len()];
    let mut next = 0usize;
    let mut take = |r: tandem_bir::RegId| {
        if let Some(n) = numbers.get_mut(r.index())
            && *n == u8::MAX
        {
            *n = next.min(254) as u8;
            next += 1;
        }
    };
    for (_, _, i) in m.walk() {
        let i = &m.insts[i];
        for o in i.ins.iter().chain(&i.outs).chain(i.indirection_ins()) {
            match o {
                Operand::Reg(r) => take(r.reg),
                Operand::Ap(a) => {
                    for (_, e) in a.dynamic.iter().flat_map(|d| &d.terms) {
                        e.for_each_leaf(&mut |l| {
                            if let tandem_bir::Expr::Reg(r) = l {
                                take(*r);
                            }
                        });
                    }
                }
                Operand::Imm(_) | Operand::Other(_) => {}
            }
        }
    }
    if next > limit { Err(next) } else { Ok(numbers) }
}
