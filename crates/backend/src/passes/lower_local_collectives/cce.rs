//! Kind 1, SendRecvCCE: one folding transfer per core (the specification, file 06 §9.1). Never GPSIMD.

use super::barriers::Remote;
use super::legalize::legalize;
use super::{Cursor, Fail, Group, Lowering, Made};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{AccessPattern, AluOp, Attr, CopyMode, Inst};

/// Operators a fold may have (decision D22).
pub(super) fn fold_op(cc: &Inst) -> Result<AluOp, Fail> {
    let op = cc.get_enum::<AluOp>(Attr::Op).unwrap_or(AluOp::Bypass);
    if matches!(op, AluOp::Add | AluOp::Max | AluOp::Min) {
        return Ok(op);
    }
    Err(Box::new(
        Diagnostic::new(codes::L0019, format!("Unsupported OP type ({op} of {})", cc.name))
            .note("an on-chip fold is add, max or min"),
    ))
}

impl Lowering<'_> {
    /// A folding transfer of several sources into one destination, split where the patterns need it.
    pub(super) fn fold(
        &mut self,
        g: &Group<'_>,
        made: &mut Made,
        core: usize,
        name: &str,
        op: AluOp,
        sources: &[AccessPattern],
        dst: &AccessPattern,
    ) {
        let mut all = sources.to_vec();
        all.push(dst.clone());
        for (part, mut aps) in legalize(&all).into_iter().enumerate() {
            let dst = aps.pop();
            let mut i = self.dma(g, core, &part_name(name, part));
            i.set(Attr::Mode, CopyMode::Cce);
            i.set(Attr::CceOp, op);
            i.ins.extend(aps.into_iter().map(Into::into));
            i.outs.extend(dst.map(Into::into));
            self.emit(g, made, core, i);
        }
    }

    /// Receive ranks of a member, all inside the LNC.
    pub(super) fn recv_ranks(&self, g: &Group<'_>, core: usize) -> Result<Vec<usize>, Fail> {
        let cc = self.cc(&g.members[core]);
        let n = self.n();
        cc.get_exprs(Attr::RecvFromRank)
            .iter()
            .map(|e| {
                let r = e.as_const().ok_or_else(|| {
                    Box::new(Diagnostic::new(
                        codes::L0017,
                        format!("a receive rank of {} on core {core} is not a constant", g.name),
                    ))
                })?;
                in_group(r, core, n)
            })
            .collect()
    }

    pub(super) fn send_recv_cce(
        &mut self,
        g: &Group<'_>,
        cursors: &[Cursor],
        made: &mut Made,
    ) -> Result<(), Fail> {
        let op = fold_op(self.cc(&g.members[0]))?;
        let pairs = self.pairs(g)?;
        let mut ranks = Vec::new();
        for core in 0..self.n() {
            let r = self.recv_ranks(g, core)?;
            if r.is_empty() {
                return Err(Box::new(Diagnostic::new(
                    codes::L0018,
                    format!("{} names no receive rank on core {core}", g.name),
                )));
            }
            ranks.push(r);
        }
        for m in g.members {
            for k in 0..pairs {
                self.same_count(g, self.in_ap(m, k)?, self.out_ap(m, k)?)?;
            }
        }
        let (src, staged) = self.stage_sources(g, made, pairs)?;
        let mut remote = Remote::default();
        for (core, rs) in ranks.iter().enumerate() {
            for &r in rs.iter().filter(|r| **r != core) {
                remote.read.extend(src[r].iter().map(|a| (g.members[r].module, a.loc)));
            }
        }
        self.open(g, cursors, made, "_sr_cb_begin", &remote, staged);
        for k in 0..pairs {
            let name = self.mover(g, "reduce", k, pairs);
            for core in 0..self.n() {
                let m = g.members[core];
                let mut ins = Vec::new();
                for &r in &ranks[core] {
                    let ap = src[r][k].clone();
                    ins.push(self.remote_ap(g.members[r].module, &ap, m.module, m.func)?);
                }
                let dst = self.out_ap(&m, k)?.clone();
                self.fold(g, made, core, &name, op, &ins, &dst);
            }
        }
        self.barrier(g, made, "_sr_cb_end", "every core has read its peers' sources");
        self.cx.count("groups", 1);
        self.cx.count("reduces", 1);
        let mut row = self.row(g, "dma");
        row.barriers = std::mem::take(&mut made.barriers);
        row.note = format!("a swap that folds with {op} is always carried by DMA").into();
        self.cx.decisions.push(row);
        Ok(())
    }

    /// Source and destination have equal element counts.
    pub(super) fn same_count(
        &self,
        g: &Group<'_>,
        src: &AccessPattern,
        dst: &AccessPattern,
    ) -> Result<(), Fail> {
        if src.num_partitions() == dst.num_partitions()
            && src.elems_per_partition() == dst.elems_per_partition()
        {
            return Ok(());
        }
        Err(Box::new(Diagnostic::new(
            codes::L0016,
            format!(
                "shape mismatch in {}: source {} x {}, destination {} x {}",
                g.name,
                src.num_partitions(),
                src.elems_per_partition(),
                dst.num_partitions(),
                dst.elems_per_partition()
            ),
        )))
    }
}

/// Name of the i-th copy of a transfer that its patterns split.
pub(super) fn part_name(name: &str, i: usize) -> String {
    if i == 0 { name.to_owned() } else { format!("{name}_s{i}") }
}

/// A rank as a core index.
pub(super) fn in_group(r: i64, core: usize, n: usize) -> Result<usize, Fail> {
    usize::try_from(r).ok().filter(|r| *r < n).ok_or_else(|| {
        Box::new(Diagnostic::new(
            codes::L0014,
            format!("SendRecv rank {r} on core {core} is outside the LNC group of {n}"),
        ))
    })
}
