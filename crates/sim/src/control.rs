//! Control steps: blocks, branches, loops, calls, ends.

use crate::code::{Control, Step, Value};
use crate::decode::{Env, eval};
use crate::machine::{Frame, List, LoopRun, Machine, Phase, Stop};
use crate::scalar::register;
use crate::state::Fault;
use tandem_bir::diag::codes;
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{BlockId, InstId};

impl<'p> Machine<'p> {
    /// Goes on until the core is inside a segment, at a barrier, or done.
    pub(crate) fn control(&mut self, c: usize) -> Result<(), Stop> {
        if let Phase::Barrier { inst, released: true, group } = self.cores[c].phase {
            self.leave_barrier(c, inst, group);
        }
        // A loop that executes nothing comes back now and then, so that the run can be stopped.
        for _ in 0..256 {
            self.idle_steps += 1;
            let core = &mut self.cores[c];
            core.phase = Phase::Control;
            let Some(frame) = core.frames.last_mut() else {
                core.phase = Phase::Done;
                return Ok(());
            };
            let step = core.code.blocks[frame.block.index()].get(frame.step).copied();
            frame.step += 1;
            match step {
                None => self.block_end(c)?,
                Some(Step::Segment(s)) => {
                    self.start_segment(c, s);
                    return Ok(());
                }
                Some(Step::Control(id)) => {
                    self.steps += 1;
                    let op = core.module.insts[id].opcode;
                    let Some(ctl) = core.code.control.get(&id).cloned() else { continue };
                    if let Control::Barrier(inst) = ctl {
                        self.arrive_barrier(c, id, inst)?;
                        if matches!(self.cores[c].phase, Phase::Barrier { released: false, .. }) {
                            return Ok(());
                        }
                        if let Phase::Barrier { inst, released: true, group } = self.cores[c].phase {
                            self.leave_barrier(c, inst, group);
                        }
                        continue;
                    }
                    core.executed[op as usize] += 1;
                    if let Some(t) = &mut self.timing {
                        t.control(c, id);
                    }
                    self.jump(c, id, ctl)?;
                }
            }
        }
        Ok(())
    }

    fn block_end(&mut self, c: usize) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let Some(f) = core.frames.last_mut() else { return Ok(()) };
        let list: &[BlockId] = match f.list {
            List::Func(func) => &core.module.funcs[func].blocks,
            List::Region(i) => core.module.insts[i].regions(),
        };
        f.pos += 1;
        f.step = 0;
        if let Some(&next) = list.get(f.pos) {
            f.block = next;
            return Ok(());
        }
        let owner = match f.list {
            List::Func(_) => {
                core.frames.pop();
                return Ok(());
            }
            List::Region(i) => i,
        };
        // A region starts again or ends.
        let again = match (&mut f.looped, core.code.control.get(&owner)) {
            (Some(l), _) => {
                l.i = l.i.saturating_add(l.stride);
                let go = l.i < l.ub;
                if l.axis.is_some()
                    && let Some(a) = core.axes.last_mut()
                {
                    a.1 = l.i;
                }
                go
            }
            (None, Some(Control::DoWhile(r))) => {
                register(&core.st, core.module, *r).map_err(|fault| Stop { inst: Some(owner), fault })? != 0
            }
            (None, _) => false,
        };
        if again && let Some(&first) = list.first() {
            f.pos = 0;
            f.block = first;
            if let Some(t) = &mut self.timing {
                t.control(c, owner);
            }
        } else {
            self.pop_frame(c);
        }
        Ok(())
    }

    fn pop_frame(&mut self, c: usize) -> Option<List> {
        let core = &mut self.cores[c];
        let f = core.frames.pop()?;
        if f.looped.as_ref().is_some_and(|l| l.axis.is_some()) {
            core.axes.pop();
        }
        Some(f.list)
    }

    fn push_frame(&mut self, c: usize, id: InstId, list: List, looped: Option<LoopRun>) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let blocks: &[BlockId] = match list {
            List::Func(func) => &core.module.funcs[func].blocks,
            List::Region(i) => core.module.insts[i].regions(),
        };
        let Some(&block) = blocks.first() else { return Ok(()) };
        if core.frames.len() >= self.opts.depth_limit {
            let text = format!("calls and regions nest deeper than {}", self.opts.depth_limit);
            return Err(Machine::stop_at(id, codes::S0016, text));
        }
        if let Some(l) = &looped
            && let Some(a) = &l.axis
        {
            core.axes.push((a.clone(), l.i));
        }
        core.frames.push(Frame { list, pos: 0, block, step: 0, looped });
        Ok(())
    }

    /// Goes to a block of the innermost list that has it.
    fn goto(&mut self, c: usize, id: InstId, to: BlockId) -> Result<(), Stop> {
        loop {
            let core = &mut self.cores[c];
            let Some(f) = core.frames.last_mut() else {
                return Err(Machine::stop_at(id, codes::S0002, "a branch leaves its function"));
            };
            let list: &[BlockId] = match f.list {
                List::Func(func) => &core.module.funcs[func].blocks,
                List::Region(i) => core.module.insts[i].regions(),
            };
            let at = core.code.block_at[to.index()] as usize;
            if list.get(at) == Some(&to) {
                f.pos = at;
                f.block = to;
                f.step = 0;
                return Ok(());
            }
            if matches!(f.list, List::Func(_)) {
                return Err(Machine::stop_at(id, codes::S0002, "a branch goes to a block of another region"));
            }
            self.pop_frame(c);
        }
    }

    fn jump(&mut self, c: usize, id: InstId, ctl: Control<'p>) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let stop = |fault: Fault| Stop { inst: Some(id), fault };
        match ctl {
            Control::Jump(to) => self.goto(c, id, to),
            Control::Branch { op, left, right, unsigned, yes, no } => {
                let a = register(&core.st, core.module, left).map_err(stop)?;
                let b = match right {
                    Value::Int(v) => v,
                    Value::Reg(r) => register(&core.st, core.module, r).map_err(stop)?,
                };
                let taken = op.compare(a, b, unsigned).unwrap_or(false);
                self.goto(c, id, if taken { yes } else { no })
            }
            Control::Return => {
                while let Some(list) = self.pop_frame(c) {
                    if matches!(list, List::Func(_)) {
                        break;
                    }
                }
                Ok(())
            }
            Control::Exit => {
                core.frames.clear();
                core.axes.clear();
                Ok(())
            }
            Control::Break => {
                if core.frames.last().is_some_and(|f| matches!(f.list, List::Region(_))) {
                    self.pop_frame(c);
                    return Ok(());
                }
                Err(Machine::stop_at(id, codes::S0002, "Break outside of a region"))
            }
            Control::Call(f) => self.push_frame(c, id, List::Func(f), None),
            Control::Loop { axis, lb, ub, stride } => {
                let env =
                    Env { regs: &core.st.regs, axes: &core.axes, core: i64::from(core.id.0), mem: &self.mem };
                let i = eval(&lb, None, &env, core.module).map_err(stop)?;
                let ub = eval(&ub, None, &env, core.module).map_err(stop)?;
                if i >= ub {
                    return Ok(());
                }
                self.push_frame(c, id, List::Region(id), Some(LoopRun { axis, i, ub, stride }))
            }
            Control::DoWhile(_) => self.push_frame(c, id, List::Region(id), None),
            Control::Barrier(_) => Ok(()),
        }
    }
}
