//! What swaps and collectives compute (the specification, file 09 §9.1, §9.2, §9.4).
//!
//! All members hand in copies of their inputs when they arrive ([`Payload`]); when all have arrived, each member's result is a
//! function of those copies ([`result`]). Kinds without an operator move bits when the element types agree and convert through
//! fp32 otherwise. The fold of a *local* kind 1 or 2 is the one of decision D22 ([`fold_local`]); a collective that is kept
//! uses the collective reducer ([`fold_kept`]), which differs only in what a NaN in the accumulator does.

use crate::exec::dma::{fold_max, fold_min};
use crate::memory::View;
use crate::num::convert::{Rules, from_f32, lanes, to_f32};
use crate::num::round::canonical;
use crate::numeric_profile::{AllReduceMultiworker, Kind8, MultiLnc, NumericProfile};
use smallvec::SmallVec;
use tandem_bir::diag::{Code, codes};
use tandem_bir::{AluOp, Attr, CollectiveDimension, CollectiveKind, Dtype, Expr, Inst};

/// A member's input, packed in walk order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Element type.
    pub dtype: Dtype,
    /// Extent of dimension 0 (partitions).
    pub rows: usize,
    /// Elements per row.
    pub row_elems: usize,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Marks of undefined bytes, when there are any.
    pub marks: Option<Vec<u8>>,
}

/// Shape of a member's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Element type.
    pub dtype: Dtype,
    /// Extent of dimension 0 (partitions).
    pub rows: usize,
    /// Elements per row.
    pub row_elems: usize,
}

impl Shape {
    /// Shape of a view.
    pub fn of(v: &View) -> Shape {
        Shape { dtype: v.dtype, rows: v.partitions(), row_elems: v.elems_per_partition() }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} x {}] {}", self.rows, self.row_elems, self.dtype)
    }
}

/// A collective as one member sees it. Members are simulated cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Kind.
    pub kind: CollectiveKind,
    /// Operator of reducing kinds.
    pub op: AluOp,
    /// Folds as a local collective (decision D22).
    pub local: bool,
    /// All members in group order.
    pub members: SmallVec<[u32; 4]>,
    /// Own position in `members`.
    pub me: usize,
    /// Positions received from, for kinds 0 and 1.
    pub recv: SmallVec<[usize; 2]>,
    /// Position sent to, for kind 0.
    pub send: Option<usize>,
    /// `(source, target)` positions, for kinds 7 and 8.
    pub pairs: Vec<(usize, usize)>,
    /// Data is cut and joined along the rows (partitions), not inside them.
    pub along_rows: bool,
    /// Pipe of a swap.
    pub pipe: i64,
    /// A kept collective of several LNCs of one core each, the reference's mode of several workers.
    pub multiworker: bool,
}

impl Plan {
    /// Computes with its inputs; otherwise it moves them.
    pub fn folds(&self) -> bool {
        match self.kind {
            CollectiveKind::SendRecvCce
            | CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::PermuteReduce
            | CollectiveKind::PermuteReduceImplicit => true,
            CollectiveKind::SendRecv
            | CollectiveKind::AllGather
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllV
            | CollectiveKind::Permute
            | CollectiveKind::PermuteImplicit => false,
        }
    }
    /// The own output is written (the target of a permutation that nobody sends to keeps its value).
    pub fn writes(&self) -> bool {
        match self.kind {
            CollectiveKind::Permute => self.pairs.iter().any(|(_, t)| *t == self.me),
            CollectiveKind::PermuteReduce => {
                self.pairs.is_empty() || self.pairs.iter().any(|(_, t)| *t == self.me)
            }
            CollectiveKind::SendRecv
            | CollectiveKind::SendRecvCce
            | CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllGather
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllV
            | CollectiveKind::PermuteImplicit
            | CollectiveKind::PermuteReduceImplicit => true,
        }
    }
}

/// Who is who: how ids in an instruction become simulated cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topology {
    /// Cores per LNC.
    pub(crate) lnc: usize,
    /// Number of LNCs.
    pub(crate) lncs: usize,
    /// Ids are LNCs, not cores.
    pub(crate) ids_are_lncs: bool,
    /// LNC of this core.
    pub(crate) my_lnc: usize,
    /// Core inside its LNC.
    pub(crate) my_core: usize,
}

impl Topology {
    fn own(&self) -> u32 {
        (self.my_lnc * self.lnc + self.my_core) as u32
    }
    /// The cores of this LNC.
    fn lnc_cores(&self) -> SmallVec<[u32; 4]> {
        (0..self.lnc).map(|c| (self.my_lnc * self.lnc + c) as u32).collect()
    }
    /// The core that an id of a kept collective stands for.
    fn of_id(&self, id: i64) -> Result<u32, (Code, String)> {
        let n = if self.ids_are_lncs { self.lncs } else { self.lnc };
        match usize::try_from(id).ok().filter(|i| *i < n) {
            Some(i) if self.ids_are_lncs => Ok((i * self.lnc + self.my_core) as u32),
            Some(i) => Ok((self.my_lnc * self.lnc + i) as u32),
            None => Err((codes::S0017, format!("rank {id} is not one of the {n} that run"))),
        }
    }
    fn everyone(&self) -> SmallVec<[u32; 4]> {
        let n = if self.ids_are_lncs { self.lncs } else { self.lnc };
        (0..n as i64).filter_map(|i| self.of_id(i).ok()).collect()
    }
}

/// Reads a collective. `None` when this core is in no group.
pub(crate) fn plan(i: &Inst, t: &Topology, profile: &NumericProfile) -> Result<Option<Plan>, (Code, String)> {
    let kind: CollectiveKind = i.get_enum(Attr::Kind).unwrap_or(CollectiveKind::AllReduce);
    limits(i, kind, t, profile)?;
    let op: AluOp = i.get_enum(Attr::Op).unwrap_or(AluOp::Bypass);
    let swap = matches!(kind, CollectiveKind::SendRecv | CollectiveKind::SendRecvCce);
    let local = i.get_bool(Attr::IsLocal) || swap;
    let members = if local {
        t.lnc_cores()
    } else {
        let groups = i.get_groups(Attr::ReplicaGroups);
        let mut mine = None;
        for g in groups {
            let ids: SmallVec<[u32; 4]> = g.iter().map(|id| t.of_id(*id)).collect::<Result<_, _>>()?;
            let twice = ids.iter().enumerate().any(|(k, a)| ids[..k].contains(a));
            if twice {
                return Err((codes::S0017, "a rank stands twice in a replica group".into()));
            }
            if mine.is_none() && ids.contains(&t.own()) {
                mine = Some(ids);
            }
        }
        match mine {
            Some(m) => m,
            None if groups.is_empty() => t.everyone(),
            None => return Ok(None),
        }
    };
    let me = members.iter().position(|m| *m == t.own());
    let me = me.ok_or((codes::S0017, "this core is not in its own group".to_owned()))?;
    let n = members.len();
    let rank = |e: &Expr| -> Result<usize, (Code, String)> {
        let v = e.eval(&mut |l| match l {
            Expr::ShardId { .. } => Some(t.my_core as i64),
            _ => None,
        });
        let v =
            v.ok_or((codes::S0002, "a rank that depends on run-time values is not simulated".to_owned()))?;
        let bad = || {
            (codes::S0017, format!("SendRecv rank {v} on core {} is outside the LNC group of {n}", t.my_core))
        };
        usize::try_from(v).ok().filter(|r| *r < n).ok_or_else(bad)
    };
    let mut recv: SmallVec<[usize; 2]> =
        i.get_exprs(Attr::RecvFromRank).iter().map(rank).collect::<Result<_, _>>()?;
    let mut send = i.get_expr(Attr::SendToRank).map(|e| rank(&e)).transpose()?;
    if kind == CollectiveKind::SendRecv {
        // A swap without ranks can only mean the partner of a pair.
        if recv.is_empty() {
            match send {
                Some(s) => recv.push(s),
                None if n == 2 => recv.push(1 - me),
                None => {
                    return Err((codes::S0017, "the swap does not say from which core it receives".into()));
                }
            }
        }
        send = send.or(recv.first().copied());
    }
    if kind == CollectiveKind::SendRecvCce && recv.is_empty() {
        return Err((codes::S0017, "the collective does not say from which cores it receives".into()));
    }
    let mut pairs = Vec::new();
    for p in i.get_groups(Attr::SrcTargetPairs) {
        let [s, d] = **p else { return Err((codes::S0014, "a source-target pair has not two ranks".into())) };
        let pos = |id| -> Result<usize, (Code, String)> {
            let g = t.of_id(id)?;
            let found = members.iter().position(|m| *m == g);
            found.ok_or_else(|| (codes::S0017, format!("rank {id} of a pair is no member")))
        };
        pairs.push((pos(s)?, pos(d)?));
    }
    if kind == CollectiveKind::AllToAllV {
        return Err((codes::S0002, "AllToAllV is not simulated (its metadata is undocumented)".into()));
    }
    let along_rows = match kind {
        CollectiveKind::AllToAll => i.get_int(Attr::ConcatDim).unwrap_or(0) == 0,
        _ => i.get_enum(Attr::CcDim) == Some(CollectiveDimension::Partition),
    };
    let pipe = i.get_int(Attr::PipeId).unwrap_or(0);
    let multiworker = !local && t.lnc == 1 && t.lncs > 1;
    Ok(Some(Plan { kind, op, local, members, me, recv, send, pairs, along_rows, pipe, multiworker }))
}

/// What a kind asserts about the instruction itself, in the words of the reference.
fn limits(
    i: &Inst,
    kind: CollectiveKind,
    t: &Topology,
    profile: &NumericProfile,
) -> Result<(), (Code, String)> {
    let assert = |ok: bool, text: &str| if ok { Ok(()) } else { Err((codes::S0014, text.to_owned())) };
    let has = |a| !i.get_groups(a).is_empty();
    let local = i.get_bool(Attr::IsLocal);
    let refuse = t.lncs > 1 && profile.multi_lnc == MultiLnc::Refuse;
    match kind {
        CollectiveKind::SendRecv | CollectiveKind::SendRecvCce if refuse => {
            Err((codes::S0002, format!("Multiple LNCs are not supported yet ({kind})")))
        }
        CollectiveKind::ReduceScatter if refuse && !local => {
            Err((codes::S0002, format!("multiple LNCs aren't yet supported ({kind})")))
        }
        CollectiveKind::Permute => {
            assert(!has(Attr::ReplicaGroups), "Permute should not contain replica_groups")
        }
        CollectiveKind::PermuteImplicit => {
            assert(!has(Attr::SrcTargetPairs), "PermuteImplicit should not contain src_target_pairs")
        }
        CollectiveKind::PermuteReduceImplicit => {
            assert(
                (i.ins.len(), i.outs.len()) == (2, 1),
                "PermuteReduceImplicit must have 2 inputs and 1 output",
            )?;
            let text = "PermuteReduceImplicit should not contain src_target_pairs";
            assert(!has(Attr::SrcTargetPairs), text)
        }
        CollectiveKind::SendRecv
        | CollectiveKind::SendRecvCce
        | CollectiveKind::AllReduce
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllGather
        | CollectiveKind::AllToAll
        | CollectiveKind::AllToAllV
        | CollectiveKind::PermuteReduce => Ok(()),
    }
}

/// The plan of a lowered swap: partner of a pair of cores.
pub(crate) fn sb2sb_plan(t: &Topology) -> Result<Plan, (Code, String)> {
    if t.lnc != 2 {
        return Err((codes::S0012, "GPSIMDSB2SB needs an LNC of two cores".into()));
    }
    let me = t.my_core;
    Ok(Plan {
        kind: CollectiveKind::SendRecv,
        op: AluOp::Bypass,
        local: true,
        members: t.lnc_cores(),
        me,
        recv: SmallVec::from_slice(&[1 - me]),
        send: Some(1 - me),
        pairs: Vec::new(),
        along_rows: false,
        pipe: 0,
        multiworker: false,
    })
}

/// Result of member `plan.me` for its `k`-th output, packed in the output's type. `input(member, k)` is a member's `k`-th
/// input. `None`: the output keeps its old value.
///
/// # Errors
/// Code and text when shapes or the operator do not fit.
pub fn result<'a>(
    plan: &Plan,
    k: usize,
    out: Shape,
    input: &dyn Fn(usize, usize) -> Option<&'a Payload>,
    profile: &NumericProfile,
) -> Result<Option<Vec<u8>>, (Code, String)> {
    let rules = Rules::of(profile);
    let get = |m: usize, k: usize| -> Result<&'a Payload, (Code, String)> {
        input(m, k).ok_or_else(|| (codes::S0014, format!("member {m} of the collective has no input {k}")))
    };
    let n = plan.members.len();
    let fold: Fold = if plan.local { fold_local } else { fold_kept };
    let copy_of = |m: usize| -> Result<Option<Vec<u8>>, (Code, String)> {
        let p = get(m, k)?;
        same_size(p, out)?;
        convert(p, out.dtype, rules).map(Some)
    };
    match plan.kind {
        CollectiveKind::SendRecv => copy_of(plan.recv.first().copied().unwrap_or(plan.me)),
        CollectiveKind::SendRecvCce => {
            let list: Vec<&Payload> = plan.recv.iter().map(|m| get(*m, k)).collect::<Result<_, _>>()?;
            folded(plan.op, &list, out, fold, rules).map(Some)
        }
        CollectiveKind::AllReduce
            if plan.multiworker
                && plan.op == AluOp::Add
                && profile.allreduce_multiworker == AllReduceMultiworker::LocalTimesMembers =>
        {
            let own = get(plan.me, k)?;
            same_size(own, out)?;
            let mut v = widen(own, rules);
            v.iter_mut().for_each(|x| *x = canonical(*x * n as f32));
            Ok(Some(narrow(&v, out, rules)))
        }
        CollectiveKind::AllReduce => {
            let list: Vec<&Payload> = (0..n).map(|m| get(m, k)).collect::<Result<_, _>>()?;
            folded(plan.op, &list, out, fold, rules).map(Some)
        }
        CollectiveKind::ReduceScatter => {
            let list: Vec<Payload> =
                (0..n).map(|m| chunk(get(m, k)?, plan.me, n, plan.along_rows)).collect::<Result<_, _>>()?;
            let list: Vec<&Payload> = list.iter().collect();
            folded(plan.op, &list, out, fold, rules).map(Some)
        }
        CollectiveKind::AllGather => {
            let list: Vec<&Payload> = (0..n).map(|m| get(m, k)).collect::<Result<_, _>>()?;
            let p = concat(&list, plan.along_rows)?;
            same_size(&p, out)?;
            convert(&p, out.dtype, rules).map(Some)
        }
        CollectiveKind::AllToAll => {
            let list: Vec<Payload> =
                (0..n).map(|m| chunk(get(m, k)?, plan.me, n, plan.along_rows)).collect::<Result<_, _>>()?;
            let list: Vec<&Payload> = list.iter().collect();
            let p = concat(&list, plan.along_rows)?;
            same_size(&p, out)?;
            convert(&p, out.dtype, rules).map(Some)
        }
        CollectiveKind::AllToAllV => Err((codes::S0002, "AllToAllV is not simulated".into())),
        CollectiveKind::Permute | CollectiveKind::PermuteReduce => {
            let Some((s, _)) = plan.pairs.iter().find(|(_, t)| *t == plan.me) else {
                // Kind 8 without pairs goes round the ring, like the implicit kinds.
                if plan.kind == CollectiveKind::PermuteReduce && plan.pairs.is_empty() {
                    return permute_reduce(
                        plan,
                        k,
                        out,
                        get((plan.me + n - 1) % n, k)?,
                        get(plan.me, k)?,
                        rules,
                        profile,
                    );
                }
                return Ok(None);
            };
            if plan.kind == CollectiveKind::Permute {
                return copy_of(*s);
            }
            permute_reduce(plan, k, out, get(*s, k)?, get(plan.me, k)?, rules, profile)
        }
        CollectiveKind::PermuteImplicit => copy_of((plan.me + n - 1) % n),
        CollectiveKind::PermuteReduceImplicit => {
            let from = (plan.me + n - 1) % n;
            if fold(plan.op, 0.0, 0.0).is_none() {
                let text = format!("Unsupported OP type for Permute Reduce Implicit ({})", plan.op);
                return Err((codes::S0002, text));
            }
            folded(plan.op, &[get(from, 0)?, get(from, 1)?], out, fold, rules).map(Some)
        }
    }
}

fn permute_reduce(
    plan: &Plan,
    _k: usize,
    out: Shape,
    received: &Payload,
    own: &Payload,
    rules: Rules,
    profile: &NumericProfile,
) -> Result<Option<Vec<u8>>, (Code, String)> {
    match profile.kind8 {
        Kind8::Fold => folded(plan.op, &[own, received], out, fold_kept, rules).map(Some),
        Kind8::Identity => {
            same_size(received, out)?;
            convert(received, out.dtype, rules).map(Some)
        }
    }
}

type Fold = fn(AluOp, f32, f32) -> Option<f32>;

/// Fold step of a local collective (decision D22): max and min ignore NaN and keep the accumulator on a tie.
pub fn fold_local(op: AluOp, acc: f32, x: f32) -> Option<f32> {
    match op {
        AluOp::Add => Some(canonical(acc + x)),
        AluOp::Max => Some(fold_max(acc, x)),
        AluOp::Min => Some(fold_min(acc, x)),
        _ => None,
    }
}

/// Fold step of a collective that is kept: NaN or tie keeps the accumulator.
pub fn fold_kept(op: AluOp, acc: f32, x: f32) -> Option<f32> {
    match op {
        AluOp::Add => Some(canonical(acc + x)),
        AluOp::Max => Some(if x > acc { x } else { acc }),
        AluOp::Min => Some(if x < acc { x } else { acc }),
        _ => None,
    }
}

/// Widens, folds left to right from the first input, converts once.
fn folded(
    op: AluOp,
    list: &[&Payload],
    out: Shape,
    fold: Fold,
    rules: Rules,
) -> Result<Vec<u8>, (Code, String)> {
    if fold(op, 0.0, 0.0).is_none() {
        return Err((
            codes::S0002,
            format!("Unsupported OP type ({op}): a collective folds by add, max or min"),
        ));
    }
    let Some((first, rest)) = list.split_first() else {
        return Err((codes::S0014, "the collective has no inputs".into()));
    };
    for p in list {
        same_size(p, out)?;
    }
    let mut acc = widen(first, rules);
    let mut x = vec![0f32; acc.len()];
    for p in rest {
        x.resize(acc.len().max(p.rows * p.row_elems * lanes(p.dtype)), 0.0);
        to_f32(p.dtype, &p.bytes, &mut x, rules);
        for (a, b) in acc.iter_mut().zip(&x) {
            if let Some(r) = fold(op, *a, *b) {
                *a = r;
            }
        }
    }
    // NaN payloads differ between hosts; a fold gives the one that all arithmetic gives.
    acc.iter_mut().for_each(|a| *a = canonical(*a));
    Ok(narrow(&acc, out, rules))
}

fn widen(p: &Payload, rules: Rules) -> Vec<f32> {
    let mut v = vec![0f32; p.rows * p.row_elems * lanes(p.dtype)];
    to_f32(p.dtype, &p.bytes, &mut v, rules);
    v
}

fn narrow(v: &[f32], out: Shape, rules: Rules) -> Vec<u8> {
    let mut b = vec![0u8; out.rows * out.row_elems * out.dtype.bytes() as usize];
    from_f32(out.dtype, v, &mut b, rules);
    b
}

fn convert(p: &Payload, to: Dtype, rules: Rules) -> Result<Vec<u8>, (Code, String)> {
    if p.dtype == to {
        return Ok(p.bytes.clone());
    }
    if lanes(p.dtype) != lanes(to) {
        return Err((codes::S0014, format!("{} cannot become {to} in a collective", p.dtype)));
    }
    let v = widen(p, rules);
    Ok(narrow(&v, Shape { dtype: to, rows: p.rows, row_elems: p.row_elems }, rules))
}

fn same_size(p: &Payload, out: Shape) -> Result<(), (Code, String)> {
    if p.rows * p.row_elems * lanes(p.dtype) == out.rows * out.row_elems * lanes(out.dtype) {
        return Ok(());
    }
    Err((
        codes::S0014,
        format!("a result of [{} x {}] {} does not fit a destination of {out}", p.rows, p.row_elems, p.dtype),
    ))
}

/// Part `j` of `n` equal parts, along the rows or inside each row.
fn chunk(p: &Payload, j: usize, n: usize, along_rows: bool) -> Result<Payload, (Code, String)> {
    let (extent, what) = if along_rows { (p.rows, "rows") } else { (p.row_elems, "elements per row") };
    if n == 0 || extent % n != 0 {
        return Err((codes::S0014, format!("{extent} {what} cannot be cut into {n} equal parts")));
    }
    let size = p.dtype.bytes() as usize;
    let row = p.row_elems * size;
    let (rows, row_elems) = if along_rows { (p.rows / n, p.row_elems) } else { (p.rows, p.row_elems / n) };
    let bytes = if along_rows {
        p.bytes[j * rows * row..(j + 1) * rows * row].to_vec()
    } else {
        let part = row_elems * size;
        p.bytes.chunks_exact(row.max(1)).flat_map(|r| r[j * part..(j + 1) * part].iter().copied()).collect()
    };
    Ok(Payload { dtype: p.dtype, rows, row_elems, bytes, marks: None })
}

/// Joins along the rows or inside each row.
fn concat(list: &[&Payload], along_rows: bool) -> Result<Payload, (Code, String)> {
    let Some(first) = list.first() else { return Err((codes::S0014, "nothing to gather".into())) };
    let (mut rows, mut row_elems) = (0, 0);
    for p in list {
        let other = if along_rows { p.row_elems != first.row_elems } else { p.rows != first.rows };
        if other || p.dtype != first.dtype {
            return Err((codes::S0014, "the members' inputs differ in shape or type".into()));
        }
        rows += p.rows;
        row_elems += p.row_elems;
    }
    let size = first.dtype.bytes() as usize;
    let mut bytes = Vec::new();
    if along_rows {
        list.iter().for_each(|p| bytes.extend_from_slice(&p.bytes));
        return Ok(Payload { dtype: first.dtype, rows, row_elems: first.row_elems, bytes, marks: None });
    }
    for r in 0..first.rows {
        for p in list {
            let row = p.row_elems * size;
            bytes.extend_from_slice(&p.bytes[r * row..(r + 1) * row]);
        }
    }
    Ok(Payload { dtype: first.dtype, rows: first.rows, row_elems, bytes, marks: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(rows: usize, v: &[f32]) -> Payload {
        let bytes = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        Payload { dtype: Dtype::Float32, rows, row_elems: v.len() / rows, bytes, marks: None }
    }
    fn run(
        kind: CollectiveKind,
        me: usize,
        along_rows: bool,
        op: AluOp,
        out: (usize, usize),
        ins: &[Payload],
    ) -> Option<Vec<f32>> {
        let p = Plan {
            kind,
            op,
            local: false,
            members: (0..ins.len() as u32).collect(),
            me,
            recv: SmallVec::from_slice(&[(me + 1) % ins.len()]),
            send: None,
            pairs: vec![(0, 1)],
            along_rows,
            pipe: 0,
            multiworker: false,
        };
        let shape = Shape { dtype: Dtype::Float32, rows: out.0, row_elems: out.1 };
        let r = result(&p, 0, shape, &|m, k| (k == 0).then_some(&ins[m]), &NumericProfile::hw()).unwrap();
        r.map(|b| b.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect())
    }

    #[test]
    fn data_of_the_kinds() {
        let a = f32s(2, &[1., 2., 3., 4.]);
        let b = f32s(2, &[10., 20., 30., 40.]);
        let ins = [a, b];
        let add = AluOp::Add;
        use CollectiveKind as K;
        assert_eq!(run(K::SendRecv, 0, false, add, (2, 2), &ins).unwrap(), [10., 20., 30., 40.]);
        assert_eq!(run(K::AllReduce, 1, false, add, (2, 2), &ins).unwrap(), [11., 22., 33., 44.]);
        assert_eq!(run(K::ReduceScatter, 1, true, add, (1, 2), &ins).unwrap(), [33., 44.]);
        assert_eq!(run(K::ReduceScatter, 1, false, add, (2, 1), &ins).unwrap(), [22., 44.]);
        assert_eq!(
            run(K::AllGather, 0, true, add, (4, 2), &ins).unwrap(),
            [1., 2., 3., 4., 10., 20., 30., 40.]
        );
        assert_eq!(
            run(K::AllGather, 0, false, add, (2, 4), &ins).unwrap(),
            [1., 2., 10., 20., 3., 4., 30., 40.]
        );
        assert_eq!(run(K::AllToAll, 1, true, add, (2, 2), &ins).unwrap(), [3., 4., 30., 40.]);
        assert_eq!(run(K::AllToAll, 0, false, add, (2, 2), &ins).unwrap(), [1., 10., 3., 30.]);
        assert_eq!(run(K::Permute, 1, false, add, (2, 2), &ins).unwrap(), [1., 2., 3., 4.]);
        assert_eq!(run(K::Permute, 0, false, add, (2, 2), &ins), None);
        assert_eq!(run(K::PermuteReduce, 1, false, add, (2, 2), &ins).unwrap(), [11., 22., 33., 44.]);
        assert_eq!(run(K::PermuteImplicit, 0, false, add, (2, 2), &ins).unwrap(), [10., 20., 30., 40.]);
    }

    #[test]
    fn folds_differ_only_by_a_nan_in_the_accumulator() {
        let n = f32::NAN;
        for op in [AluOp::Max, AluOp::Min] {
            assert_eq!(fold_local(op, n, 1.0), Some(1.0));
            assert!(fold_kept(op, n, 1.0).unwrap().is_nan());
            for f in [fold_local, fold_kept] {
                assert_eq!(f(op, 1.0, n), Some(1.0));
                assert_eq!(f(op, -0.0, 0.0).unwrap().to_bits(), (-0.0f32).to_bits());
            }
        }
        assert_eq!(fold_local(AluOp::Mult, 1.0, 1.0), None);
    }
}
