//! Collectives, swaps and barriers.
//!
//! Seven operators become IT 48 by three routes: the four of a group and `collectivePermuteImplicit` share a body,
//! the other two permutations have their own, and `sendRecv` is a local swap. Source: the specification, file 04 §10.
//! Everything the front end is said to guarantee is checked and reported as `expected <what>`.

use super::{dma, inst};
use crate::ast::{self as k, Operator as Op};
use crate::lower::fail::Fail;
use crate::lower::{BarrierRecord, CcRecord, Core, LocalAllReduce, RanksAre, Res, Step, enums, expected};
use rustc_hash::FxHashSet;
use tandem_bir::diag::codes;
use tandem_bir::{AccessPattern, Attr, CollectiveDimension, CollectiveKind, Expr, Inst, Opcode};

/// Stem of the name and kind; `None` for what is no collective of a leaf.
fn kind_of(op: &Op) -> Option<(&'static str, CollectiveKind)> {
    Some(match op {
        Op::AllReduce(_) => ("AllReduce", CollectiveKind::AllReduce),
        Op::AllGather(_) => ("AllGather", CollectiveKind::AllGather),
        Op::ReduceScatter(_) => ("ReduceScatter", CollectiveKind::ReduceScatter),
        Op::AllToAll(_) => ("AllToAll", CollectiveKind::AllToAll),
        Op::CollectivePermute(_) => ("CollectivePermute", CollectiveKind::Permute),
        Op::CollectivePermuteImplicit(_) => ("CollectivePermuteImplicit", CollectiveKind::PermuteImplicit),
        Op::CollectivePermuteImplicitReduce(_) => {
            ("CollectivePermuteImplicitReduce", CollectiveKind::PermuteReduceImplicit)
        }
        _ => return None,
    })
}

/// Any of the seven.
pub(super) fn collective(c: &mut Core<'_>, op: &Op, o: &k::CollectiveOp) -> Step {
    let Some((stem, kind)) = kind_of(op) else { return Err(expected("a collective")) };
    let permutes = matches!(
        kind,
        CollectiveKind::Permute | CollectiveKind::PermuteImplicit | CollectiveKind::PermuteReduceImplicit
    );
    let sources = if kind == CollectiveKind::PermuteReduceImplicit { 2 } else { 1 };
    if permutes && (o.srcs.len() != sources || o.dsts.len() != 1) {
        return Err(expected(if sources == 2 {
            "2 sources and 1 destination"
        } else {
            "1 source and 1 destination"
        }));
    }
    if o.srcs.is_empty() {
        return Err(expected("at least one source"));
    }
    if o.dsts.is_empty() {
        return Err(expected("at least one destination"));
    }
    if !permutes && o.srcs.len() != o.dsts.len() {
        return Err(expected("as many sources as destinations"));
    }
    let mut i = inst(Opcode::CollectiveCompute);
    i.set(Attr::Kind, kind);
    i.set(Attr::StreamId, -1i64);
    let groups = if kind == CollectiveKind::Permute { pairs(c, o)? } else { literal_groups(c, o)? };
    i.set(
        if kind == CollectiveKind::Permute { Attr::SrcTargetPairs } else { Attr::ReplicaGroups },
        groups.clone(),
    );
    let reduces = matches!(
        kind,
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::PermuteReduceImplicit
    );
    match o.op {
        Some(alu) if reduces => i.set(Attr::Op, enums::alu(alu)),
        None if reduces => return Err(expected("a reduce op")),
        _ => {}
    }
    if matches!(kind, CollectiveKind::PermuteImplicit | CollectiveKind::PermuteReduceImplicit) {
        match o.channel_id {
            Some(channel) => i.set(Attr::CcChannel, channel),
            None => return Err(expected("a channel_id")),
        }
    }
    let dim = dimension(c, o, kind, &mut i)?;
    let mut srcs = Vec::with_capacity(o.srcs.len());
    for src in &o.srcs {
        srcs.push(c.ap(src)?);
    }
    let mut dsts = Vec::with_capacity(o.dsts.len());
    for dst in &o.dsts {
        dsts.push(c.ap(dst)?);
    }
    let members = group_size(c, &groups);
    for (n, src) in srcs.iter().enumerate() {
        if let Some(dst) = dsts.get(n).or(dsts.first()) {
            check_size(kind, dim, members, src, dst)?;
        }
    }
    dma::set_qos(c, &mut i, o.priority)?;
    if kind == CollectiveKind::AllReduce && is_local(c, &groups) {
        i.set(Attr::IsLocal, true);
    }
    i.ins = srcs.into_iter().map(Into::into).collect();
    i.outs = dsts.into_iter().map(Into::into).collect();
    let id = c.emit_collective(stem, i);
    c.collectives.push(CcRecord { inst: id, groups });
    Ok(())
}

/// `cc_dim` of gather and scatter; the dimension of `allToAll` lives in our own key.
fn dimension(
    c: &Core<'_>,
    o: &k::CollectiveOp,
    kind: CollectiveKind,
    i: &mut Inst,
) -> Res<CollectiveDimension> {
    let none = CollectiveDimension::Partition;
    let wanted = matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter);
    let dim = match o.concat_dim {
        Some(dim) if wanted || kind == CollectiveKind::AllToAll => dim,
        None if wanted => return Err(expected("a concatDim")),
        _ => return Ok(none),
    };
    let from_start = if dim < 0 { dim.checked_add(2) } else { Some(dim) };
    let dim = match from_start {
        Some(0) => CollectiveDimension::Partition,
        Some(1) => CollectiveDimension::Free,
        _ => {
            return Err(Fail::new(
                codes::K0053,
                format!("concat_dim {dim} is not supported (0 = partition, 1 = free)"),
            ));
        }
    };
    if wanted {
        i.set(Attr::CcDim, dim);
    } else if !c.plan.strict {
        i.set(Attr::ConcatDim, i64::from(dim == CollectiveDimension::Free));
    }
    Ok(dim)
}

fn literal_groups(c: &Core<'_>, o: &k::CollectiveOp) -> Res<Vec<Vec<i64>>> {
    let k::ReplicaGroup::Literal(groups) = &o.replica_group else {
        return Err(Fail::new(codes::K0051, "replica group must be literal")
            .note(format!("the kernel gives a group that is {}", o.replica_group.name())));
    };
    check_groups(c, groups)?;
    Ok(groups.clone())
}

/// Ranks of groups: in range, each at most once.
pub(super) fn check_groups(c: &Core<'_>, groups: &[Vec<i64>]) -> Step {
    let mut seen = FxHashSet::default();
    for &rank in groups.iter().flatten() {
        check_rank(c, rank)?;
        if !seen.insert(rank) {
            return Err(Fail::new(codes::K0055, format!("rank {rank} is twice in the replica groups")));
        }
    }
    Ok(())
}

fn check_rank(c: &Core<'_>, rank: i64) -> Step {
    let cores = i64::from(c.plan.lnc_size);
    if rank < 0 {
        return Err(Fail::new(codes::K0054, format!("rank {rank} is negative")));
    }
    if c.plan.opts.ranks == RanksAre::Cores && rank >= cores {
        return Err(Fail::new(
            codes::K0054,
            format!("rank {rank} is outside 0..{}", cores.saturating_sub(1)),
        )
        .note("ranks are the cores of the LNC (--ranks-are cores)"));
    }
    Ok(())
}

fn pairs(c: &Core<'_>, o: &k::CollectiveOp) -> Res<Vec<Vec<i64>>> {
    if !matches!(o.replica_group, k::ReplicaGroup::Unspecified) {
        return Err(Fail::new(codes::K0052, "Permute should not contain replica_groups"));
    }
    let Some(pairs) = &o.source_target_pairs else { return Err(expected("sourceTargetPairs")) };
    let (mut sources, mut targets) = (FxHashSet::default(), FxHashSet::default());
    for pair in pairs {
        let &[source, target] = pair.as_slice() else {
            return Err(expected(&format!("pairs of 2 ranks, found {}", pair.len())));
        };
        check_rank(c, source)?;
        check_rank(c, target)?;
        let twice =
            |role: &str, rank| Fail::new(codes::K0055, format!("rank {rank} is twice a {role} of the pairs"));
        if !sources.insert(source) {
            return Err(twice("source", source));
        }
        if !targets.insert(target) {
            return Err(twice("target", target));
        }
        if source == target {
            return Err(Fail::new(codes::K0055, format!("rank {source} is paired with itself")));
        }
    }
    Ok(pairs.clone())
}

/// Members of the group this core is in; no groups means everyone.
fn group_size(c: &Core<'_>, groups: &[Vec<i64>]) -> u64 {
    let own = groups.iter().find(|g| c.plan.opts.ranks == RanksAre::Cores && g.contains(&i64::from(c.core)));
    own.or(groups.first()).map_or(u64::from(c.plan.lnc_size), |g| g.len() as u64)
}

/// Rows and columns: leading dimensions of extent 1 do not count when more than two are left.
fn extents(ap: &AccessPattern) -> (u64, u64) {
    let unit = ap.pairs.iter().take(ap.pairs.len().saturating_sub(2)).take_while(|p| p.num == 1).count();
    let rest = ap.pairs.get(unit..).unwrap_or_default();
    let free = rest.iter().skip(1).fold(1u64, |n, p| n.saturating_mul(p.num));
    (rest.first().map_or(0, |p| p.num), free)
}

fn check_size(
    kind: CollectiveKind,
    dim: CollectiveDimension,
    members: u64,
    src: &AccessPattern,
    dst: &AccessPattern,
) -> Step {
    let (s, d) = (extents(src), extents(dst));
    let times = |(p, f): (u64, u64)| match dim {
        CollectiveDimension::Partition => (p.saturating_mul(members), f),
        CollectiveDimension::Free => (p, f.saturating_mul(members)),
    };
    let fits = match kind {
        CollectiveKind::AllGather => times(s) == d,
        CollectiveKind::ReduceScatter => times(d) == s,
        CollectiveKind::SendRecv
        | CollectiveKind::SendRecvCce
        | CollectiveKind::AllReduce
        | CollectiveKind::AllToAll
        | CollectiveKind::AllToAllV
        | CollectiveKind::Permute
        | CollectiveKind::PermuteReduce
        | CollectiveKind::PermuteImplicit
        | CollectiveKind::PermuteReduceImplicit => src.num_elems() == dst.num_elems(),
    };
    if fits {
        return Ok(());
    }
    let rule = if kind == CollectiveKind::AllGather {
        "the source times the group size along the dimension"
    } else if kind == CollectiveKind::ReduceScatter {
        "the source divided by the group size along the dimension"
    } else {
        "as large as the source"
    };
    Err(Fail::new(
        codes::K0057,
        format!("destination {}x{} does not fit source {}x{} of {members} members", d.0, d.1, s.0, s.1),
    )
    .note(format!("the destination must be {rule}")))
}

/// The `local-allreduce` option.
fn is_local(c: &Core<'_>, groups: &[Vec<i64>]) -> bool {
    let several = c.plan.lnc_size > 1;
    match c.plan.opts.local_allreduce {
        LocalAllReduce::Never => false,
        LocalAllReduce::Always => several,
        LocalAllReduce::Auto => {
            let all: Vec<i64> = (0..i64::from(c.plan.lnc_size)).collect();
            several && c.plan.opts.ranks == RanksAre::Cores && matches!(groups, [one] if *one == all)
        }
    }
}

/// IT 48 of kind 0: a swap with another core.
pub(super) fn send_recv(c: &mut Core<'_>, o: &k::SendRecv) -> Step {
    let dst = c.ap(&o.dst)?;
    let src = c.ap(&o.src)?;
    let send = i64::from(c.int_imm(&o.send_to_rank, codes::K0043, "The sendToRank must be a integer")?);
    let recv = i64::from(c.int_imm(&o.recv_from_rank, codes::K0043, "The recvFromRank must be a integer")?);
    let pipe = i64::from(c.int_imm(&o.pipe_id, codes::K0043, "The pipeId must be a integer")?);
    if c.m.core.is_none() {
        return Err(Fail::new(codes::K0048, "SendRecv needs a module with a neuron_core_id"));
    }
    let own = i64::from(c.core);
    for (rank, verb) in [(recv, "receiving from"), (send, "sending to")] {
        if rank == own {
            let text = format!("SendRecv instruction on core {own} is {verb} itself!");
            return Err(Fail::new(codes::K0044, text));
        }
    }
    let n = i64::from(c.plan.lnc_size);
    if let Some(rank) = [recv, send].into_iter().find(|r| !(0..n).contains(r)) {
        let text = format!("SendRecv rank {rank} on core {own} is outside the LNC group of {n}");
        return Err(Fail::new(codes::K0046, text));
    }
    if pipe < 0 {
        return Err(expected(&format!("a pipeId of 0 or more, found {pipe}")));
    }
    if src.num_elems() != dst.num_elems() || src.dtype != dst.dtype {
        let text = format!(
            "SendRecv shape mismatch: source of {} {} elements, destination of {} {} elements",
            src.num_elems(),
            src.dtype,
            dst.num_elems(),
            dst.dtype
        );
        return Err(Fail::new(codes::K0047, text));
    }
    let mut i = inst(Opcode::CollectiveCompute);
    i.set(Attr::Kind, CollectiveKind::SendRecv);
    i.set(Attr::StreamId, -1i64);
    i.set(Attr::IsLocal, true);
    i.set(Attr::PipeId, pipe);
    i.set(Attr::RecvFromRank, vec![Expr::Const(recv)]);
    i.set(Attr::SendToRank, Expr::Const(send));
    i.set(Attr::InitialCorebarrier, true);
    if o.use_gpsimd_dma && !c.plan.strict {
        i.more_mut().extra.get_or_insert_default().insert("requested_gpsimd".to_string(), true.into());
    }
    i.ins.push(src.into());
    i.outs.push(dst.into());
    let id = c.emit_collective("LocalSendRecv", i);
    c.collectives.push(CcRecord { inst: id, groups: Vec::new() });
    Ok(())
}

/// IT 87.
pub(super) fn core_barrier(c: &mut Core<'_>, o: &k::CoreBarrier) -> Step {
    let data = c.ap(&o.data)?;
    let n = i64::from(c.plan.lnc_size);
    let own = i64::from(c.core);
    if let Some(core) = o.cores.iter().find(|r| !(0..n).contains(*r)) {
        let text = format!("core {core} of the barrier is outside 0..{}", n.saturating_sub(1));
        return Err(Fail::new(codes::K0062, text));
    }
    if !o.cores.contains(&own) {
        let text = format!("the barrier on core {own} is for cores {:?}, without this core", o.cores);
        return Err(Fail::new(codes::K0062, text));
    }
    let mut i = inst(Opcode::CoreBarrier);
    i.engine = enums::engine(o.engine);
    i.set(Attr::Cores, o.cores.clone());
    i.ins.push(data.clone().into());
    i.outs.push(data.into());
    let id = c.emit("CoreBarrier-", i);
    c.barriers.push(BarrierRecord { inst: id, cores: o.cores.clone() });
    Ok(())
}
