//! Instructions that wait for other engines or cores.

use super::Run;
use crate::state::Fault;
use tandem_bir::diag::codes;
use tandem_bir::{Attr, InstId, Opcode};

impl Run<'_> {
    /// Engines of a core whose head is an instruction of a type with its waits holding.
    fn heads_at(&self, c: usize, op: Opcode) -> impl Iterator<Item = (usize, InstId)> + '_ {
        (0..self.cores[c].engines.len()).filter_map(move |e| {
            let i = self.head(c, e)?;
            (self.inst(c, i).opcode == op && self.waits_hold(c, i)).then_some((e, i))
        })
    }

    /// Nothing but its own waits holds an instruction, or everybody it meets has come.
    pub(super) fn meeting_ready(&self, c: usize, _e: usize, i: InstId) -> bool {
        let inst = self.inst(c, i);
        match inst.opcode {
            Opcode::AllEngineBarrier => {
                let all = self.cores[c].engines.iter().filter(|x| !x.done).count();
                self.heads_at(c, Opcode::AllEngineBarrier).count() == all
                    && self.cores[c].engines.iter().all(|x| !x.done)
            }
            Opcode::CoreBarrier => self.barrier_members(c, i).is_some(),
            Opcode::TensorCompletion => match self.token_of.get(&(c, i)) {
                None => true,
                Some(&t) => {
                    let e = (0..self.cores[c].engines.len()).find(|e| self.head(c, *e) == Some(i));
                    let arrived = e.is_some_and(|e| self.cores[c].engines[e].arrived);
                    !arrived || self.token_complete(t, c)
                }
            },
            Opcode::GpsimdSb2Sb => {
                self.cores.len() == 2 && self.heads_at(1 - c, Opcode::GpsimdSb2Sb).next().is_some()
            }
            Opcode::CollectiveCompute => {
                (0..self.cores.len()).all(|k| self.heads_at(k, Opcode::CollectiveCompute).next().is_some())
                    || self.cores[c].plans.get(&i).is_some_and(|p| {
                        p.as_ref().is_none_or(|p| {
                            p.members.iter().all(|m| {
                                self.heads_at(*m as usize, Opcode::CollectiveCompute).next().is_some()
                            })
                        })
                    })
                    || !self.cores[c].plans.contains_key(&i)
            }
            _ => true,
        }
    }

    /// The heads that meet at a barrier, when all are there: `(core, engine, instruction)`.
    fn barrier_members(&self, c: usize, i: InstId) -> Option<Vec<(usize, usize, InstId)>> {
        let id = self.inst(c, i).get_int(Attr::Id)?;
        let b = self.linked.barriers.get(usize::try_from(id).ok()?)?;
        b.cores
            .iter()
            .map(|k| {
                let k = *k as usize;
                if k >= self.cores.len() {
                    return None;
                }
                self.heads_at(k, Opcode::CoreBarrier)
                    .find(|(_, j)| self.inst(k, *j).get_int(Attr::Id) == Some(id))
                    .map(|(e, j)| (k, e, j))
            })
            .collect()
    }

    fn token_complete(&self, t: usize, c: usize) -> bool {
        let n = self.arrivals[t].get(c).copied().unwrap_or(0);
        self.linked.tokens[t]
            .writers
            .iter()
            .all(|w| self.arrivals[t].get(*w as usize).is_some_and(|a| *a >= n))
    }

    /// Runs a meeting that is ready.
    pub(super) fn meet(&mut self, c: usize, e: usize, i: InstId) -> Result<(), Fault> {
        match self.inst(c, i).opcode {
            Opcode::AllEngineBarrier => {
                let all: Vec<(usize, InstId)> = self.heads_at(c, Opcode::AllEngineBarrier).collect();
                for (e, i) in all {
                    self.advance(c, e, i);
                }
            }
            Opcode::CoreBarrier => {
                let Some(all) = self.barrier_members(c, i) else {
                    return Err(Fault::new(codes::I0001, "a barrier ran before its members came"));
                };
                for (c, e, i) in all {
                    self.advance(c, e, i);
                }
            }
            Opcode::TensorCompletion => match self.token_of.get(&(c, i)).copied() {
                None => self.advance(c, e, i),
                Some(t) if !self.cores[c].engines[e].arrived => {
                    self.cores[c].engines[e].arrived = true;
                    if let Some(n) = self.arrivals[t].get_mut(c) {
                        *n += 1;
                    }
                }
                Some(_) => self.advance(c, e, i),
            },
            _ => self.exchange(c, e, i)?,
        }
        Ok(())
    }

    fn exchange(&mut self, c: usize, e: usize, i: InstId) -> Result<(), Fault> {
        let op = self.inst(c, i).opcode;
        let Some(plan) = self.plan_of(c, i)? else {
            self.advance(c, e, i);
            return Ok(());
        };
        let mut members = Vec::new();
        for k in &plan.members {
            let k = *k as usize;
            let Some((x, j)) = (k < self.cores.len()).then(|| self.heads_at(k, op).next()).flatten() else {
                // known now; ready again when all are there
                return Ok(());
            };
            members.push((k, x, j));
        }
        let mut inputs = Vec::new();
        for &(k, x, j) in &members {
            inputs.push((k, self.payloads(k, x, j)?));
        }
        for &(k, x, j) in &members {
            let Some(p) = self.plan_of(k, j)? else { continue };
            if p.kind != plan.kind || p.members != plan.members {
                return Err(Fault::new(codes::S0014, "the members of a collective do not agree"));
            }
            self.store_results(k, x, j, &p, &inputs)?;
        }
        for (k, x, j) in members {
            self.advance(k, x, j);
        }
        Ok(())
    }

    /// What a meeting waits for, in words.
    pub(super) fn meeting_text(&self, c: usize, i: InstId) -> String {
        let inst = self.inst(c, i);
        match inst.opcode {
            Opcode::AllEngineBarrier => "the other engines".to_owned(),
            Opcode::CoreBarrier => format!("barrier {}", inst.get_int(Attr::Id).unwrap_or(0)),
            Opcode::TensorCompletion => "the token on the writers of its location".to_owned(),
            Opcode::GpsimdSb2Sb => "the partner's swap".to_owned(),
            Opcode::CollectiveCompute => "the other members".to_owned(),
            _ => "nothing".to_owned(),
        }
    }
}
