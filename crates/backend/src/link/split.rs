//! A transfer with more dimensions than a record holds becomes several transfers of one queue; the last one carries the
//! completion, which the queue's order makes that of all.

use crate::encode::desc::Geometry;
use crate::encode::dma::{Place, View, is_plain, view};
use crate::encode::{WireError, WireResult};
use tandem_bir::diag::codes;
use tandem_bir::{AccessPattern, ApPair, ApPairs, InstId, MemoryLocation, Module, Operand};

/// Most pieces a transfer is cut into (our choice).
pub const MAX_PIECES: u64 = 4096;

fn place(l: &MemoryLocation) -> Place {
    Place { mem: l.mem, row_bytes: l.row_bytes() }
}

/// The pattern over its own location seen as a record would store it; only its shape counts, so the base does not matter.
fn shape(a: &AccessPattern, l: &MemoryLocation, geo: &Geometry) -> WireResult<View> {
    view(a, place(l), geo, None)
}

/// Cuts a plain copy so that every piece fits; other transfers stay whole. What it became is added to a list.
///
/// # Errors
/// N0026 when no cut fits.
pub fn split_copy(m: &mut Module, i: InstId, geo: &Geometry, out: &mut Vec<InstId>) -> WireResult<()> {
    let inst = &m.insts[i];
    let (Some(src), Some(dst)) =
        (inst.ins.first().and_then(Operand::as_ap), inst.outs.first().and_then(Operand::as_ap))
    else {
        out.push(i);
        return Ok(());
    };
    let (ls, ld) = (&m.memlocs[src.loc], &m.memlocs[dst.loc]);
    // a location of the module is never the physical memory's id here
    let fits = |a: &AccessPattern, l: &MemoryLocation| shape(a, l, geo).is_ok_and(|v| v.fits());
    if !is_plain(inst) || fits(src, ls) && fits(dst, ld) {
        out.push(i);
        return Ok(());
    }
    let (src, dst, ls, ld) = (src.clone(), dst.clone(), ls.clone(), ld.clone());
    let total = src.num_elems();
    if total == 0 || dst.num_elems() != total {
        return Err(WireError::new(
            codes::N0026,
            "source and destination differ in their number of elements",
        ));
    }
    let mut lengths: Vec<u64> = suffixes(&src).into_iter().chain(suffixes(&dst)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for len in lengths.into_iter().rev().filter(|l| *l > 0 && *l < total && total.is_multiple_of(*l)) {
        if total / len > MAX_PIECES {
            break;
        }
        let mut pieces = Vec::new();
        for k in 0..total / len {
            match (slice(&src, k * len, len), slice(&dst, k * len, len)) {
                (Some(a), Some(b)) if fits(&a, &ls) && fits(&b, &ld) => pieces.push((a, b)),
                _ => break,
            }
        }
        if pieces.len() as u64 != total / len {
            continue;
        }
        let base = m.insts[i].clone();
        let n = pieces.len();
        for (k, (a, b)) in pieces.into_iter().enumerate() {
            let mut x = base.clone();
            x.ins = vec![Operand::Ap(a)];
            x.outs = vec![Operand::Ap(b)];
            if k + 1 == n {
                m.insts[i] = x;
                out.push(i);
            } else {
                // the last piece notifies, behind the others in its queue
                x.attrs.remove(tandem_bir::Attr::RemoteNotification);
                x.name = format!("{}.{k}", base.name).as_str().into();
                out.push(m.insts.push(x));
            }
        }
        return Ok(());
    }
    Err(WireError::new(
        codes::N0026,
        format!(
            "a transfer of {} by {} dimensions cannot be cut into at most {MAX_PIECES} records",
            src.pairs.len(),
            dst.pairs.len()
        ),
    ))
}

/// Lengths of whole inner parts of a walk.
pub(super) fn suffixes(a: &AccessPattern) -> Vec<u64> {
    let mut out = Vec::new();
    let mut n = 1u64;
    for p in a.pairs.iter().rev() {
        // parts of a dimension: its divisors, small ones first
        let mut d = 1;
        while d <= p.num && d <= 4096 {
            if p.num.is_multiple_of(d) {
                out.push(n.saturating_mul(d));
                out.push(n.saturating_mul(p.num / d));
            }
            d += 1;
        }
        n = n.saturating_mul(p.num);
    }
    out
}

/// Elements `start .. start + len` of a walk as one pattern, when they are one.
pub fn slice(a: &AccessPattern, start: u64, len: u64) -> Option<AccessPattern> {
    let mut offset = a.offset;
    let mut pairs = ApPairs::new();
    let mut inner: u64 = a.pairs.iter().try_fold(1u64, |n, p| n.checked_mul(p.num))?;
    let mut rest = start;
    let mut open = true;
    for p in &a.pairs {
        inner = inner.checked_div(p.num)?;
        let at = rest / inner.max(1);
        rest %= inner.max(1);
        offset = offset.checked_add(p.step.checked_mul(i64::try_from(at).ok()?)?)?;
        let n = if open { (len / inner.max(1)).max(1) } else { p.num };
        if open && len >= inner {
            if !len.is_multiple_of(inner) || at.checked_add(n)? > p.num || rest != 0 {
                return None;
            }
            open = false;
            pairs.push(ApPair::new(p.step, n));
        } else if open {
            pairs.push(ApPair::new(p.step, 1));
        } else {
            if at != 0 {
                return None;
            }
            pairs.push(*p);
        }
    }
    (pairs.iter().map(|p| p.num).product::<u64>() == len).then(|| AccessPattern {
        offset,
        pairs,
        dynamic: None,
        ..a.clone()
    })
}
