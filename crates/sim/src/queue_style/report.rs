//! Who waits for whom at quiescence: semaphores and the instructions that would still raise them, meetings, tokens, the
//! other engines.

use super::{Run, sync_of};
use crate::machine::Wait;
use crate::report::{Blocked, Unmet, WaitFor, queue_name};
use rustc_hash::FxHashMap;
use tandem_bir::InstId;

/// Raisers of a semaphore that are listed.
const LISTED: usize = 3;

/// Instructions that are left and raise a semaphore: core, engine.
type Raisers = FxHashMap<(usize, u32), Vec<(usize, usize, InstId)>>;

impl Run<'_, '_> {
    /// Builds the report at quiescence.
    pub(super) fn wait_for(&mut self) -> WaitFor {
        let mut w = WaitFor::default();
        let raisers = self.raisers();
        for c in 0..self.engines.len() {
            let last = self.m.cores[c].last_sync;
            w.last.push(last.map(|id| self.m.site(c, id)));
            if self.engines[c].iter().all(|x| x.done) {
                w.finished.push(c);
                continue;
            }
            for e in 0..self.engines[c].len() {
                if let Some(i) = self.head(c, e) {
                    w.blocked.push(self.blocked(c, e, i, &raisers));
                }
            }
        }
        w.find_cycles(self.engines.len());
        w
    }

    fn blocked(&self, c: usize, e: usize, i: InstId, raisers: &Raisers) -> Blocked {
        let core = &self.m.cores[c];
        let queue = queue_name(core, e);
        match core.run.waits[e] {
            Some(Wait::Group { group, .. }) => return self.m.blocked_group(c, queue, i, group),
            Some(Wait::Token { token, n, .. }) => return self.m.blocked_token(c, queue, i, token, n),
            None => {}
        }
        let site = self.m.site(c, i);
        if self.engines[c][e].joining {
            let missing: Vec<usize> =
                (0..self.engines[c].len()).filter(|x| !self.engines[c][*x].joining).collect();
            let names: Vec<&str> = missing.iter().map(|x| queue_name(core, *x)).collect();
            let what = format!("{} at the barrier of its engines", names.join(" and "));
            let queues = missing.iter().map(|x| (c, queue_name(core, *x))).collect();
            return Blocked { queues, ..Blocked::new(c, queue, site, what) };
        }
        let mut b = Blocked::new(c, queue, site, String::new());
        for s in sync_of(self.inst(c, i)).into_iter().flat_map(|s| &s.on_wait) {
            let have = self.sems.value(c, s.sem);
            if have >= s.value {
                continue;
            }
            let left = raisers.get(&(c, s.sem)).map_or(&[][..], Vec::as_slice);
            for (k, x, i) in left {
                let q = (*k, queue_name(&self.m.cores[*k], *x));
                if !b.queues.contains(&q) {
                    b.queues.push(q);
                }
                if *k != c && !b.cores.contains(k) {
                    b.cores.push(*k);
                }
                if b.insts.len() < LISTED {
                    b.insts.push(self.inst(*k, *i).name.to_string());
                }
            }
            let listed = left.iter().take(LISTED);
            let name = |(k, x, i): &(usize, usize, InstId)| {
                (*k, queue_name(&self.m.cores[*k], *x), self.inst(*k, *i).name.to_string())
            };
            let was = self.sems.was(c, s.sem).filter(|(v, _, _)| *v >= s.value);
            b.semaphores.push(Unmet {
                sem: s.sem,
                have,
                need: s.value,
                raisers: listed.map(name).collect(),
                left: left.len(),
                was: was.map(|(v, k, i)| (v, self.inst(k, i).name.to_string())),
            });
        }
        let list: Vec<String> = b.semaphores.iter().map(Unmet::text).collect();
        b.what = list.join(", ");
        b
    }

    /// What is left of the streams raises these: a static scan from every engine's position on, and from where branches that
    /// are left lead.
    fn raisers(&self) -> Raisers {
        let mut out = Raisers::default();
        for (c, engines) in self.engines.iter().enumerate() {
            let core = &self.m.cores[c];
            for (e, x) in engines.iter().enumerate() {
                if x.done {
                    continue;
                }
                let s = &core.streams[e];
                let mut from = core.run.heads[e] as usize;
                while let Some(t) = s
                    .branches
                    .iter()
                    .filter(|b| b.0 as usize >= from)
                    .map(|b| b.1 as usize)
                    .min()
                    .filter(|t| *t < from)
                {
                    from = t;
                }
                for &i in s.insts.get(from..).unwrap_or_default() {
                    for u in sync_of(self.inst(c, i))
                        .into_iter()
                        .flat_map(|s| &s.on_update)
                        .filter(|u| u.value > 0)
                    {
                        let lnc = core.topo.lnc;
                        let to = u.target_core.map_or(c, |t| c / lnc * lnc + t as usize);
                        out.entry((to, u.sem)).or_default().push((c, e, i));
                    }
                }
            }
        }
        out
    }
}
