//! Kind 0, SendRecv: by GPSIMD swap, DMA pull or self copy (the specification, file 06 §7). One decision per group.

use super::barriers::Remote;
use super::cce::{in_group, part_name};
use super::legalize::legalize;
use super::{Cursor, Fail, Group, Lowering, Made};
use crate::explain::PredicateRow;
use crate::pass::Transport;
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::Arc;
use tandem_bir::analysis::sb2sb::{Compatibility, MAX_BYTES_PER_PARTITION as MAX_EFFECTIVE, Measure};
use tandem_bir::diag::{Diagnostic, Severity, codes};
use tandem_bir::{AccessPattern, Attr, EngineKind, Inst, MemoryType, Opcode};

/// Key under which a KLR kernel's request for the GPSIMD path travels, when it is not the instruction's own attribute.
pub const REQUEST_KEY: &str = "requested_gpsimd";

/// The kernel asked for the GPSIMD path.
pub fn requested_gpsimd(cc: &Inst) -> bool {
    cc.get_bool(Attr::UseGpsimdDma)
        || cc
            .more
            .as_ref()
            .and_then(|m| m.extra.as_ref())
            .is_some_and(|e| e.get(REQUEST_KEY).and_then(serde_json::Value::as_bool) == Some(true))
}

/// Path of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    SelfCopy,
    Gpsimd,
    Repack,
    Dma,
}

struct Decision {
    path: Path,
    predicates: Arc<[PredicateRow]>,
    note: Arc<str>,
}

/// What decides a swap beside the options of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// Of every member, pair by pair.
    measures: SmallVec<[Measure; 2]>,
    pairs: usize,
    exchange: bool,
    /// Members that asked for GPSIMD.
    asked: usize,
}

/// The answer to a [`Question`].
#[derive(Debug)]
pub(super) struct Judged {
    path: Path,
    /// GPSIMD can carry it, the knob left aside.
    fits: bool,
    predicates: Arc<[PredicateRow]>,
    note: Arc<str>,
    /// Why a request for GPSIMD is not met.
    refused: Option<String>,
}

impl Lowering<'_> {
    pub(super) fn send_recv(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
    ) -> Result<(), Fail> {
        let pairs = self.pairs(g)?;
        let from = self.validate(g, pairs)?;
        let d = self.decide(g, pairs, &from)?;
        let mut row = self.row(
            g,
            match d.path {
                Path::SelfCopy => "self",
                Path::Gpsimd | Path::Repack => "gpsimd",
                Path::Dma => "dma",
            },
        );
        let asked = g.members.iter().filter(|m| requested_gpsimd(self.cc(m))).count();
        row.requested = (asked > 0).then_some("gpsimd");
        match d.path {
            Path::SelfCopy => self.self_copy(g, cursors, made, pairs)?,
            Path::Gpsimd => self.swap(g, cursors, made, pairs)?,
            Path::Repack => self.repacked_swap(g, cursors, made, pairs)?,
            Path::Dma => self.pull(g, cursors, made, pairs, &from)?,
        }
        self.cx.count("groups", 1);
        let stat = match d.path {
            Path::SelfCopy => "self_copies",
            Path::Gpsimd | Path::Repack => "gpsimd_swaps",
            Path::Dma => "dma_swaps",
        };
        self.cx.count(stat, 1);
        row.predicates = d.predicates;
        row.note = d.note;
        row.barriers = std::mem::take(&mut made.barriers);
        self.cx.decisions.push(row);
        Ok(())
    }

    /// Ranks and shapes; gives the source core of each core.
    fn validate(&self, g: &Group<'_>, pairs: usize) -> Result<Vec<usize>, Fail> {
        let n = self.n();
        let mut from = Vec::new();
        for core in 0..n {
            let r = self.recv_ranks(g, core)?;
            let [r] = r[..] else {
                return Err(Box::new(Diagnostic::new(
                    codes::L0018,
                    format!("{} names {} receive ranks on core {core}, a swap has one", g.name, r.len()),
                )));
            };
            from.push(r);
        }
        for core in 0..n {
            let Some(e) = self.cc(&g.members[core]).get_expr(Attr::SendToRank) else { continue };
            let s = e.as_const().ok_or_else(|| {
                Box::new(Diagnostic::new(
                    codes::L0017,
                    format!("the send rank of {} on core {core} is not a constant", g.name),
                ))
            })?;
            let s = in_group(s, core, n)?;
            if from[s] != core {
                return Err(Box::new(Diagnostic::new(
                    codes::L0015,
                    format!(
                        "SendRecv ranks are not paired: core {core} sends to {s} which receives from {}",
                        from[s]
                    ),
                )));
            }
        }
        // without send ranks the receive ranks alone must be a pairing
        for r in 0..n {
            if from.iter().filter(|x| **x == r).count() != 1 {
                return Err(Box::new(Diagnostic::new(
                    codes::L0015,
                    format!(
                        "SendRecv ranks are not paired: core {r} is not received from by exactly one core"
                    ),
                )));
            }
        }
        for (core, &r) in from.iter().enumerate() {
            for k in 0..pairs {
                let (s, d) = (self.in_ap(&g.members[r], k)?, self.out_ap(&g.members[core], k)?);
                if s.dtype != d.dtype
                    || s.num_partitions() != d.num_partitions()
                    || s.elems_per_partition() != d.elems_per_partition()
                {
                    let text = |a: &AccessPattern| {
                        format!("{} x {} {}", a.num_partitions(), a.elems_per_partition(), a.dtype)
                    };
                    return Err(Box::new(
                        Diagnostic::new(codes::L0016, "SendRecv shape mismatch").note(format!(
                            "core {core} receives {} from core {r} into {}",
                            text(s),
                            text(d)
                        )),
                    ));
                }
            }
        }
        Ok(from)
    }

    fn decide(&mut self, g: &Group<'_>, pairs: usize, from: &[usize]) -> Result<Decision, Fail> {
        let n = self.n();
        if from.iter().enumerate().all(|(c, r)| c == *r) {
            return Ok(Decision {
                path: Path::SelfCopy,
                predicates: Arc::default(),
                note: "every core receives from itself: a copy inside the core".into(),
            });
        }
        let exchange = n == 2 && from.iter().enumerate().all(|(c, r)| c != *r);
        let asked = g.members.iter().filter(|m| requested_gpsimd(self.cc(m))).count();
        let mut measures = SmallVec::new();
        for m in g.members {
            let module = &self.p.modules[m.module];
            for k in 0..pairs {
                let (s, d) = (self.in_ap(m, k)?, self.out_ap(m, k)?);
                measures.push(Measure::of(n as u32, module.arch, s, d, module));
            }
        }
        let key = Question { measures, pairs, exchange, asked };
        let judged = match self.judged.get(&key) {
            Some(j) => j.clone(),
            None => {
                let j = Arc::new(self.judge(g.members.len(), &key));
                self.judged.insert(key, j.clone());
                j
            }
        };
        if self.cx.options.transport == Transport::Gpsimd && !judged.fits {
            return Err(Box::new(forced(g, &judged.predicates)));
        }
        if let Some(why) = &judged.refused {
            let mut d =
                Diagnostic::new(codes::L0022, format!("{} asked for GPSIMD and goes by DMA: {why}", g.name));
            d.severity = Severity::Note;
            d.sites = g
                .members
                .iter()
                .map(|m| tandem_bir::diag::Site::of_inst(&self.p.locs, &self.p.modules[m.module], m.inst))
                .collect();
            self.cx.report(d);
        }
        Ok(Decision { path: judged.path, predicates: judged.predicates.clone(), note: judged.note.clone() })
    }

    /// The answer for all swaps of these measures: under the options of one run it depends on nothing else.
    fn judge(&self, members: usize, q: &Question) -> Judged {
        let Question { measures, pairs, exchange, asked } = q;
        let (exchange, asked) = (*exchange, *asked);
        let verdicts: Vec<Compatibility> = measures.iter().map(Measure::judge).collect();
        let knob = self.cx.options.sendrecv_to_gpsimd_max_bpp;
        let mut predicates = join(&verdicts);
        let effective = verdicts.iter().map(|v| v.effective_bytes).max().unwrap_or(0);
        let within = effective <= knob;
        predicates.push(PredicateRow {
            id: "knob",
            text: "effective bytes per partition <= sendrecv-to-gpsimd-max-bpp",
            value: format!("{effective} <= {knob}"),
            holds: within,
        });
        let compatible = exchange && verdicts.iter().all(Compatibility::holds);
        let repackable = exchange
            && self.cx.options.sb2sb_repack
            && !compatible
            && verdicts.iter().all(|v| v.holds() || v.only_needs_repack);
        let fits = compatible || repackable;
        let mut refused = None;
        let gpsimd = match self.cx.options.transport {
            Transport::Auto => fits && within,
            Transport::Dma => false,
            Transport::Gpsimd => fits,
            Transport::Request => {
                let all = asked == members;
                if asked > 0 && !(all && fits) {
                    refused = Some(if all {
                        first_failure(&predicates).unwrap_or_default()
                    } else {
                        "the cores ask for different transports".to_owned()
                    });
                }
                all && fits
            }
        };
        let path = match (gpsimd, compatible) {
            (true, true) => Path::Gpsimd,
            (true, false) => Path::Repack,
            (false, _) => Path::Dma,
        };
        let elems = measures.iter().step_by((*pairs).max(1)).map(Measure::elems_per_partition).max();
        let facts = Facts {
            fits,
            within,
            asked,
            exchange,
            charge: elems.map_or(0, |n| effective.checked_div(n).unwrap_or(0)),
            elems: elems.unwrap_or(0),
            effective,
            repack_would: exchange
                && !self.cx.options.sb2sb_repack
                && verdicts.iter().all(|v| v.holds() || v.only_needs_repack),
        };
        let note = self.why(path, &predicates, &facts).into();
        Judged { path, fits, predicates: predicates.into(), note, refused }
    }

    /// Why the path was taken and which single change would give the other.
    fn why(&self, path: Path, rows: &[PredicateRow], f: &Facts) -> String {
        let o = &self.cx.options;
        match path {
            Path::SelfCopy => String::new(),
            Path::Repack => {
                "by GPSIMD through dense temporaries (--sb2sb-repack); without the option it goes by DMA".into()
            }
            Path::Gpsimd => match o.transport {
                Transport::Auto => {
                    let mut ways = Vec::new();
                    if let Some(below) = f.effective.checked_sub(1) {
                        ways.push(format!("--sendrecv-to-gpsimd-max-bpp {below} or less"));
                    }
                    ways.push("--transport dma".to_owned());
                    if let Some(most) = MAX_EFFECTIVE.min(o.sendrecv_to_gpsimd_max_bpp).checked_div(f.charge) {
                        ways.push(format!("more than {most} elements per partition"));
                    }
                    format!("every predicate holds: by GPSIMD; any of these alone moves it to DMA: {}", ways.join(", "))
                }
                Transport::Gpsimd => "forced by --transport gpsimd; --transport dma alone moves it to DMA".into(),
                Transport::Request => {
                    "the kernel asked for GPSIMD; without the request it goes by DMA under --transport request".into()
                }
                Transport::Dma => String::new(),
            },
            Path::Dma => {
                let exchange = "the cores do not exchange with each other, which GPSIMD needs: by DMA";
                match o.transport {
                    Transport::Dma if f.fits && f.within => {
                        "forced by --transport dma; --transport auto alone moves it to GPSIMD".into()
                    }
                    Transport::Dma if f.fits => {
                        "forced by --transport dma; --transport gpsimd alone moves it to GPSIMD".into()
                    }
                    Transport::Dma if !f.exchange => exchange.into(),
                    Transport::Dma => {
                        format!("forced by --transport dma; under --transport auto: {}", self.ways(rows, f))
                    }
                    Transport::Request if f.asked == 0 && f.fits => {
                        "the kernel did not ask for GPSIMD; asking for it, --transport gpsimd, or --transport auto \
                         with a knob that admits it, moves it to GPSIMD"
                            .into()
                    }
                    Transport::Auto | Transport::Gpsimd | Transport::Request if !f.exchange => exchange.into(),
                    Transport::Auto | Transport::Gpsimd | Transport::Request => self.ways(rows, f),
                }
            }
        }
    }

    /// What fails, and each single change that alone makes every failing predicate hold; without one, what it takes together.
    fn ways(&self, rows: &[PredicateRow], f: &Facts) -> String {
        let knob = self.cx.options.sendrecv_to_gpsimd_max_bpp;
        let request = self.cx.options.transport == Transport::Request; // does not look at the knob
        let failing: Vec<&PredicateRow> =
            rows.iter().filter(|r| !(r.holds || request && r.id == "knob")).collect();
        let ids: Vec<&str> = failing.iter().map(|r| r.id).collect();
        let mut changes: Vec<(&[&str], String)> = Vec::new();
        let ceiling = if request { MAX_EFFECTIVE } else { MAX_EFFECTIVE.min(knob) };
        if let Some(most) = ceiling.checked_div(f.charge).filter(|n| *n > 0) {
            let now = f.elems;
            changes.push((&["C8", "knob"], format!("at most {most} elements per partition (now {now})")));
        }
        if f.effective <= MAX_EFFECTIVE {
            changes.push((&["knob"], format!("--sendrecv-to-gpsimd-max-bpp {}", f.effective)));
        }
        if f.repack_would {
            changes.push((&["C5"], "--sb2sb-repack".to_owned()));
        }
        for (id, text) in REMEDIES {
            changes.push((std::slice::from_ref(id), (*text).to_owned()));
        }
        let alone: Vec<&str> = changes
            .iter()
            .filter(|(fixes, _)| ids.iter().all(|id| fixes.contains(id)))
            .map(|(_, text)| text.as_str())
            .collect();
        let verb = if ids.len() == 1 { "fails" } else { "fail" };
        let mut s = format!("{} {verb}: by DMA; ", ids.join(", "));
        if alone.is_empty() {
            let mut left = ids.clone();
            let mut needed = Vec::new();
            for (fixes, text) in &changes {
                if left.iter().any(|id| fixes.contains(id)) {
                    left.retain(|id| !fixes.contains(id));
                    needed.push(text.as_str());
                }
            }
            let _ =
                write!(s, "no single change moves it to GPSIMD, it takes together: {}", needed.join("; "));
        } else if alone.len() == 1 {
            let _ = write!(s, "this alone moves it to GPSIMD: {}", alone.join(""));
        } else {
            let _ = write!(s, "any of these alone moves it to GPSIMD: {}", alone.join("; "));
        }
        s
    }

    fn self_copy(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        pairs: usize,
    ) -> Result<(), Fail> {
        self.open(g, cursors, made, "_sr_cb_begin", &Remote::default(), false);
        for k in 0..pairs {
            let name = self.mover(g, "self", k, pairs);
            for core in 0..self.n() {
                let m = g.members[core];
                let (s, d) = (self.in_ap(&m, k)?, self.out_ap(&m, k)?);
                let i = self.local_copy(g, core, &name, s, d);
                self.emit(g, made, core, i);
            }
        }
        self.barrier(g, made, "_sr_cb_end", "closes the swap");
        Ok(())
    }

    /// The tiles of all cores, by which a GPSIMD swap touches its peer.
    fn tiles(&self, g: &Group<'_>, src: &[Vec<AccessPattern>], dst: &[Vec<AccessPattern>]) -> Remote {
        let mut remote = Remote::default();
        for ((m, s), d) in g.members.iter().zip(src).zip(dst) {
            remote.read.extend(s.iter().map(|a| (m.module, a.loc)));
            remote.written.extend(d.iter().map(|a| (m.module, a.loc)));
        }
        remote
    }

    fn operands(&self, g: &Group<'_>, pairs: usize, input: bool) -> Result<Vec<Vec<AccessPattern>>, Fail> {
        g.members
            .iter()
            .map(|m| (0..pairs).map(|k| self.operand(m, k, input).cloned()).collect::<Result<Vec<_>, Fail>>())
            .collect()
    }

    fn swap(&mut self, g: &Group<'_>, cursors: &[Cursor], made: &mut Made, pairs: usize) -> Result<(), Fail> {
        let (src, dst) = (self.operands(g, pairs, true)?, self.operands(g, pairs, false)?);
        let remote = self.tiles(g, &src, &dst);
        self.open(g, cursors, made, "_sr_cb_begin", &remote, false);
        self.emit_swaps(g, made, pairs, &src, &dst);
        self.close_swap(g, made);
        Ok(())
    }

    fn emit_swaps(
        &mut self,
        g: &Group<'_>,
        made: &mut Made,
        pairs: usize,
        src: &[Vec<AccessPattern>],
        dst: &[Vec<AccessPattern>],
    ) {
        for k in 0..pairs {
            let name = self.mover(g, "sb2sb", k, pairs);
            for core in 0..self.n() {
                let mut i = Inst::new(&name, Opcode::GpsimdSb2Sb);
                i.engine = EngineKind::Pool;
                i.ins.push(src[core][k].clone().into());
                i.outs.push(dst[core][k].clone().into());
                let m = g.members[core].module;
                self.p.modules[m].memlocs[dst[core][k].loc].written_by_another_core = true;
                self.emit(g, made, core, i);
            }
        }
    }

    fn close_swap(&mut self, g: &Group<'_>, made: &mut Made) {
        if self.cx.options.sb2sb_elide_end_barrier {
            self.no_barrier(
                g,
                made,
                "_sr_cb_end",
                "--sb2sb-elide-end-barrier: the swap itself meets the peer",
            );
        } else {
            self.barrier(g, made, "_sr_cb_end", "closes the swap");
        }
    }

    /// Swap between dense temporaries: pack before the opening barrier, unpack after the closing one (decision D7).
    fn repacked_swap(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        pairs: usize,
    ) -> Result<(), Fail> {
        let (src, dst) = (self.operands(g, pairs, true)?, self.operands(g, pairs, false)?);
        let (mut tmp_src, mut tmp_dst) = (vec![Vec::new(); self.n()], vec![Vec::new(); self.n()]);
        for k in 0..pairs {
            let name = self.mover(g, "pack", k, pairs);
            let (ns, nd) = (
                self.fresh_names(&format!("{}_pack_src", g.name)),
                self.fresh_names(&format!("{}_pack_dst", g.name)),
            );
            for core in 0..self.n() {
                let m = g.members[core];
                let (_, s) = self.temporary(m.module, m.func, &ns, &src[core][k], MemoryType::Sb);
                let (_, d) = self.temporary(m.module, m.func, &nd, &dst[core][k], MemoryType::Sb);
                let copy = self.local_copy(g, core, &name, &src[core][k], &s);
                self.emit(g, made, core, copy);
                tmp_src[core].push(s);
                tmp_dst[core].push(d);
            }
        }
        self.open(g, cursors, made, "_sr_cb_begin", &Remote::default(), true);
        self.emit_swaps(g, made, pairs, &tmp_src, &tmp_dst);
        self.barrier(g, made, "_sr_cb_end", "closes the swap");
        for k in 0..pairs {
            let name = self.mover(g, "unpack", k, pairs);
            for core in 0..self.n() {
                let copy = self.local_copy(g, core, &name, &tmp_dst[core][k], &dst[core][k]);
                self.emit(g, made, core, copy);
            }
        }
        Ok(())
    }

    fn pull(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
        pairs: usize,
        from: &[usize],
    ) -> Result<(), Fail> {
        let (src, staged) = self.stage_sources(g, made, pairs)?;
        let dst = self.operands(g, pairs, false)?;
        let mut remote = Remote::default();
        for (core, &r) in from.iter().enumerate() {
            if r != core {
                remote.read.extend(src[r].iter().map(|a| (g.members[r].module, a.loc)));
            }
        }
        self.open(g, cursors, made, "_sr_cb_begin", &remote, staged);
        let notify =
            self.cx.options.enable_remote_semaphore_dma && from.iter().enumerate().all(|(c, r)| c != *r);
        for k in 0..pairs {
            let name = self.mover(g, "dma", k, pairs);
            for (core, &r) in from.iter().enumerate() {
                let m = g.members[core];
                let remote = self.remote_ap(g.members[r].module, &src[r][k], m.module, m.func)?;
                let copies = legalize(&[remote, dst[core][k].clone()]);
                let last = copies.len().saturating_sub(1);
                for (part, aps) in copies.into_iter().enumerate() {
                    let mut i = self.dma(g, core, &part_name(&name, part));
                    let mut it = aps.into_iter();
                    i.ins.extend(it.next().map(Into::into));
                    i.outs.extend(it.next().map(Into::into));
                    if notify && k + 1 == pairs && part == last {
                        i.set(Attr::RemoteNotification, vec![r as i64]);
                    }
                    self.emit(g, made, core, i);
                }
            }
        }
        if notify {
            self.no_barrier(
                g,
                made,
                "_sr_cb_end",
                "--enable-remote-semaphore-dma: the pull notifies the peer that its source has been read",
            );
        } else {
            self.barrier(g, made, "_sr_cb_end", "closes the swap: the peer has read this core's source");
        }
        Ok(())
    }
}

/// One row per predicate over all cores and pairs: it holds when it holds everywhere; differing values are all shown.
fn join(verdicts: &[Compatibility]) -> Vec<PredicateRow> {
    let Some(first) = verdicts.first() else { return Vec::new() };
    first
        .predicates
        .iter()
        .enumerate()
        .map(|(k, p)| {
            let all: Vec<_> = verdicts.iter().filter_map(|v| v.predicates.get(k)).collect();
            let mut values: Vec<&str> = all.iter().map(|p| p.value.as_str()).collect();
            values.dedup();
            PredicateRow {
                id: p.id,
                text: p.text,
                value: values.join("; "),
                holds: all.iter().all(|p| p.holds),
            }
        })
        .collect()
}

fn first_failure(rows: &[PredicateRow]) -> Option<String> {
    rows.iter()
        .find(|r| !r.holds && r.id != "knob")
        .map(|r| format!("{} fails ({}: {})", r.id, r.text, r.value))
}

fn forced(g: &Group<'_>, rows: &[PredicateRow]) -> Diagnostic {
    let why = first_failure(rows).unwrap_or_else(|| "the cores do not exchange with each other".into());
    let mut d = Diagnostic::new(codes::L0023, format!("{} cannot go by GPSIMD: {why}", g.name))
        .note("--transport gpsimd ignores the knob, not the predicate");
    if rows.iter().any(|r| r.id == "C1" && !r.holds) {
        d = d.note("the encoder repeats this test as assertion 936 (supported=\"2\")");
    }
    d
}

/// Values of a decision that its reason names.
struct Facts {
    fits: bool,
    within: bool,
    asked: usize,
    exchange: bool,
    /// Bytes that the rule charges for one element.
    charge: u64,
    /// Elements per partition.
    elems: u64,
    effective: u64,
    /// `--sb2sb-repack` would make the predicate hold.
    repack_would: bool,
}

/// What makes a predicate hold that depends on neither the size nor an option.
const REMEDIES: &[(&str, &str)] = &[
    ("C1", "an LNC of 2 cores (--lnc 2)"),
    ("C2", "a target of gen3 or later (--target trn2)"),
    ("C3", "one dtype for source and destination"),
    ("C4", "equal partition counts and equal elements per partition on both sides"),
    ("C5", "patterns of rank 2 to 5 with at most 3 free pairs that do not merge"),
    ("C6", "source and destination in SBUF"),
    ("C7", "static addresses on both sides"),
];
