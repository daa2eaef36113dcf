//! Issuing, landing, branching.

use super::ready::Move;
use super::semaphore::lane;
use super::{Flight, Run};
use crate::code::Action;
use crate::decode::Resolved;
use crate::machine::{ALL_LISTS, Stop};
use crate::state::Fault;
use crate::sync::Arrival;
use tandem_bir::diag::codes;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{Attr, BranchCompareOp, Inst, InstId, Opcode, Operand};

impl Run<'_, '_> {
    pub(super) fn act(&mut self, c: usize, mv: Move) -> Result<(), Stop> {
        match mv {
            Move::Land(e, r) => self.land(c, e, r == 1),
            Move::Finish(e) => {
                let Some(i) = self.head(c, e) else { return Ok(()) };
                self.m.leave_meeting(c, e, i)?;
                self.advance(c, e, i, true);
                Ok(())
            }
            Move::Issue(e) => {
                let Some(i) = self.head(c, e) else { return Ok(()) };
                self.issue(c, e, i)
            }
        }
    }

    fn thread(&self, c: usize, e: usize) -> usize {
        self.m.race.as_ref().map_or(0, |r| r.thread(c, e))
    }

    /// Runs something with the registers of an engine.
    fn with_regs<T>(&mut self, c: usize, e: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.m.cores[c].st.regs, &mut self.engines[c][e].regs);
        let r = f(self);
        std::mem::swap(&mut self.m.cores[c].st.regs, &mut self.engines[c][e].regs);
        r
    }

    fn count(&mut self, c: usize, i: InstId, executed: bool) {
        self.m.steps += 1;
        if executed {
            let op = self.inst(c, i).opcode as usize;
            self.m.cores[c].executed[op] += 1;
        }
    }

    /// The head of an engine is complete.
    pub(super) fn advance(&mut self, c: usize, e: usize, i: InstId, executed: bool) {
        let (lane, thread) = (lane(c, e, None), self.thread(c, e));
        self.updates(c, i, lane, thread);
        self.count(c, i, executed);
        self.m.cores[c].run.heads[e] += 1;
    }

    fn issue(&mut self, c: usize, e: usize, i: InstId) -> Result<(), Stop> {
        let thread = self.thread(c, e);
        self.acquire(c, i, thread);
        let inst = self.inst(c, i);
        let stop = |fault| Stop { inst: Some(i), fault };
        if let Some(t) = &mut self.m.timing {
            t.stream(c, self.m.cores[c].streams[e].engine, i);
        }
        match inst.opcode {
            Opcode::Exit | Opcode::Halt => {
                self.exit(c, e, i);
                return Ok(());
            }
            Opcode::AllEngineBarrier => {
                self.join(c, e);
                return Ok(());
            }
            Opcode::GroupResetSemaphores => {
                for s in self.reset_list(c, i) {
                    self.reset(c, i, s, thread);
                }
                self.advance(c, e, i, true);
                return Ok(());
            }
            Opcode::UnconditionalBranch => {
                self.branch(c, e, i, true);
                return Ok(());
            }
            Opcode::CompareAndBranch => {
                let taken = self.compare(c, e, inst).map_err(stop)?;
                self.branch(c, e, i, taken);
                return Ok(());
            }
            Opcode::CoreBarrier => {
                self.barrier(c, e, i, inst);
                return Ok(());
            }
            _ => {}
        }
        let Some(resolved) = self.with_regs(c, e, |r| r.m.operands(c, i))? else {
            self.advance(c, e, i, false);
            return Ok(());
        };
        let skip = resolved == Resolved::Skip;
        let core = &self.m.cores[c];
        let action = core.code.action[i.index()];
        if let Some(t) = &mut self.m.timing {
            let dynamic = !core.code.recipes[i.index()].is_empty();
            t.issue(c, 0, action, inst, &core.code.decoded[i.index()], &self.m.mem, dynamic);
        }
        match action {
            Action::Nothing => {}
            Action::Control => {
                if inst.opcode != Opcode::Return {
                    let text = format!("{} does not run from a stream", inst.opcode);
                    return Err(stop(Fault::new(codes::S0002, text)));
                }
            }
            Action::Compute => {
                if !skip {
                    self.with_regs(c, e, |r| r.m.compute_checked(c, i, thread))?;
                }
            }
            Action::Scalar => {
                self.m.touch(c, i, thread, ALL_LISTS);
                self.with_regs(c, e, |r| r.m.scalar(c, i))?;
            }
            Action::Transfer => {
                let remote = self.m.is_remote(c, i);
                let decoded = self.is_dynamic(c, i).then(|| self.m.cores[c].code.decoded[i.index()].clone());
                let clock = self.m.race.as_mut().map(|r| r.clock(thread));
                let q = &mut self.engines[c][e].queues[usize::from(remote)];
                q.flights.push_back(Flight { inst: i, decoded, skip, clock });
                self.m.cores[c].run.heads[e] += 1;
                return Ok(());
            }
            Action::Swap | Action::Sb2Sb | Action::Collective => {
                if self.m.arrive_collective(c, e, 0, i, action)? == Arrival::Waits {
                    return Ok(());
                }
            }
            Action::Token => {
                if self.m.arrive_token(c, e, 0, i) == Arrival::Waits {
                    return Ok(());
                }
            }
        }
        self.advance(c, e, i, true);
        Ok(())
    }

    /// Lands the oldest transfer of a queue.
    fn land(&mut self, c: usize, e: usize, remote: bool) -> Result<(), Stop> {
        let q = &mut self.engines[c][e].queues[usize::from(remote)];
        let Some(f) = q.flights.pop_front() else { return Ok(()) };
        q.last = Some(f.inst);
        let mut thread = 0;
        if let Some(race) = &mut self.m.race {
            thread = race.transfers(c, e, remote);
            if let Some(clock) = f.clock {
                race.learn(thread, &clock);
                race.give(clock);
            }
            race.tick(thread);
        }
        if let Some(d) = f.decoded {
            self.m.cores[c].code.decoded[f.inst.index()] = d;
        }
        if !f.skip {
            self.with_regs(c, e, |r| r.m.compute_checked(c, f.inst, thread))?;
        }
        let lane = lane(c, e, Some(remote));
        self.updates(c, f.inst, lane, thread);
        self.count(c, f.inst, true);
        Ok(())
    }

    /// An engine has come to its end.
    fn exit(&mut self, c: usize, e: usize, i: InstId) {
        let (lane, thread) = (lane(c, e, None), self.thread(c, e));
        self.updates(c, i, lane, thread);
        self.count(c, i, true);
        self.engines[c][e].done = true;
        if !self.engines[c].iter().all(|x| x.done) {
            return;
        }
        self.m.cores[c].phase = crate::machine::Phase::Done;
        self.running -= 1;
        let left: Vec<InstId> = self.engines[c]
            .iter()
            .flat_map(|x| &x.queues)
            .filter(|_| self.m.race.is_none())
            .filter_map(|q| q.flights.back().map(|f| f.inst))
            .collect();
        for i in left {
            self.in_flight(c, i);
        }
        // Nothing of this core acts any more.
        if let Some(race) = &mut self.m.race {
            for (e, x) in self.engines[c].iter().enumerate() {
                race.retire(race.thread(c, e));
                for (r, q) in x.queues.iter().enumerate() {
                    let t = race.transfers(c, e, r == 1);
                    if q.flights.is_empty() && t != race.thread(c, e) {
                        race.retire(t);
                    }
                }
            }
        }
    }

    /// An engine comes to an AllEngineBarrier; the last one lets all go.
    fn join(&mut self, c: usize, e: usize) {
        self.engines[c][e].joining = true;
        if let Some(t) = &mut self.m.timing {
            t.stream_join(c, self.engines[c].len());
        }
        if !self.engines[c].iter().all(|x| x.joining) {
            return;
        }
        let n = self.engines[c].len();
        if let Some(race) = &mut self.m.race {
            let all: Vec<usize> = (0..n).map(|e| race.thread(c, e)).collect();
            race.meet(&all);
        }
        for e in 0..n {
            self.engines[c][e].joining = false;
            if let Some(i) = self.head(c, e) {
                self.advance(c, e, i, true);
            }
        }
    }

    /// An engine comes to a CoreBarrier: a meeting by number that holds this engine only.
    fn barrier(&mut self, c: usize, e: usize, i: InstId, inst: &Inst) {
        let t = self.m.cores[c].topo;
        let id = inst.get_int(Attr::Id).and_then(|id| u32::try_from(id).ok());
        let b = id.and_then(|id| self.linked.barriers.get(id as usize).map(|b| (id, b)));
        let cores: Vec<u32> = match b {
            Some((_, b)) => b.cores.iter().map(|x| (t.my_lnc * t.lnc) as u32 + x).collect(),
            None => Vec::new(),
        };
        match b {
            Some((id, _)) if cores.contains(&(c as u32)) => self.m.arrive_linked_barrier(c, e, i, id, &cores),
            // Not one of those that meet.
            _ => self.advance(c, e, i, true),
        }
    }

    fn branch(&mut self, c: usize, e: usize, i: InstId, taken: bool) {
        let at = self.m.cores[c].run.heads[e] as usize;
        if let Some(t) = &mut self.m.timing {
            t.stream_branch(c);
        }
        self.advance(c, e, i, true);
        let core = &mut self.m.cores[c];
        if taken && let Some(t) = core.streams[e].target(at) {
            core.run.heads[e] = t as u32;
        }
    }

    fn compare(&self, c: usize, e: usize, i: &Inst) -> Result<bool, Fault> {
        let bad = |t: &str| Fault::new(codes::S0002, t.to_owned());
        let left =
            i.ins.first().and_then(Operand::as_reg).ok_or_else(|| bad("the branch compares no register"))?;
        let regs = &self.engines[c][e].regs;
        let read = |r: tandem_bir::RegId| match regs.get(r.index()) {
            Some(v) if v.defined => Ok(v.bits),
            _ => Err(crate::decode::poison(self.m.cores[c].module, r)),
        };
        let a = read(left.reg)?;
        let b = match i.ins.get(1) {
            Some(Operand::Reg(r)) => read(r.reg)?,
            Some(Operand::Imm(v)) => v.as_int().ok_or_else(|| bad("the branch compares with a float"))?,
            Some(Operand::Ap(_) | Operand::Other(_)) | None => {
                return Err(bad("the branch compares with nothing"));
            }
        };
        let unsigned = left.dtype.class() == tandem_bir::dtype::NumericClass::Unsigned;
        let op: BranchCompareOp =
            i.get_enum(Attr::CompOp).ok_or_else(|| bad("the branch has no comparison"))?;
        op.compare(a, b, unsigned).ok_or_else(|| bad("the comparison of the branch is `Unsupported`"))
    }
}
