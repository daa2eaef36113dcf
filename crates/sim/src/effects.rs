//! What running one instruction does besides its place in the order: its computation, its accesses for the race check, the marks
//! of undefined bytes.

use crate::exec::{Arg, Decoded, ExecCx, Indexed, exec};
use crate::machine::ALL_LISTS;
use crate::machine::{Machine, Stop};
use crate::memory::{Memory, View};
use crate::num::convert::{self, Rules, lanes};
use crate::numeric_profile::Uninit;
use crate::race::Role;
use crate::undef::{
    Byte, Treatment, controls, folds_into_outputs, looked_at, partial, selects_by_value, treatment,
};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{Attr, InstId, Operand};

impl Machine<'_> {
    /// Runs an instruction's computation, and what it does to undefined bytes.
    /// `later`: its computation may be put off, and how much it is.
    fn compute(&mut self, c: usize, id: InstId, later: Option<u64>) -> Result<(), Stop> {
        let Some(u) = &self.undef else { return self.effect(c, id, later) };
        if u.known_clean(c, id.index()) {
            return self.effect(c, id, later);
        }
        let core = &self.cores[c];
        let d = &core.code.decoded[id.index()];
        let inst = &core.module.insts[id];
        let how = treatment(inst);
        let mut used = u.first_of(&self.mem, d, &d.indirect);
        let mut carried = None;
        match how {
            Treatment::Ignores => {}
            Treatment::Uses => used = used.or_else(|| u.first_of(&self.mem, d, &looked_at(d))),
            Treatment::Moves => {
                let last = d.ins.len();
                let r = controls(inst);
                used = used.or_else(|| u.first_of(&self.mem, d, &d.ins[r.start.min(last)..r.end.min(last)]));
                carried = u.first_of(&self.mem, d, &d.ins);
                if partial(d) {
                    carried = carried.or_else(|| u.first_of(&self.mem, d, &d.outs));
                }
            }
        }
        if how != Treatment::Ignores && folds_into_outputs(inst) {
            used = used.or_else(|| u.first_of(&self.mem, d, &d.outs));
        }
        let by_value = carried.is_some() && selects_by_value(inst);
        if let Some(at) = used {
            self.undefined_use(c, id, at);
            let core = &self.cores[c];
            let d = &core.code.decoded[id.index()];
            if let Some(u) = &mut self.undef {
                // One cause, one finding: what was used counts as written from here on.
                let r =
                    if how == Treatment::Moves { controls(&core.module.insts[id]) } else { 0..d.ins.len() };
                let last = d.ins.len();
                d.ins[r.start.min(last)..r.end.min(last)].iter().chain(&d.indirect).for_each(|a| {
                    if let Arg::View(v) = a {
                        u.define(v);
                    }
                });
            }
        }
        self.carried_by_value |= by_value;
        if let Some(from) = carried {
            self.catch_up()?;
            return self.carry(c, id, from);
        }
        let fixed = self.cores[c].code.recipes[id.index()].is_empty();
        self.effect(c, id, later)?;
        let Some(u) = &mut self.undef else { return Ok(()) };
        let d = &self.cores[c].code.decoded[id.index()];
        if !partial(d) {
            for a in &d.outs {
                if let Arg::View(v) = a {
                    u.define(v);
                }
            }
        } else {
            for a in &d.outs {
                match a {
                    Arg::View(v) => u.define(v),
                    Arg::Indexed(x) => rows(&self.mem, d, x).iter().for_each(|v| u.define(v)),
                    Arg::Imm(_) | Arg::Reg(_) => {}
                }
            }
        }
        if fixed && used.is_none() {
            u.set_clean(c, id.index());
        }
        Ok(())
    }

    /// Runs a mover whose operands have undefined bytes: twice with different patterns in them, to see where they go.
    fn carry(&mut self, c: usize, id: InstId, from: Byte) -> Result<(), Stop> {
        let d = &self.cores[c].code.decoded[id.index()];
        let list = |args: &[Arg]| -> Vec<View> {
            let mut out = Vec::new();
            for a in args {
                match a {
                    Arg::View(v) => out.push(v.clone()),
                    Arg::Indexed(x) => out.extend(rows(&self.mem, d, x)),
                    Arg::Imm(_) | Arg::Reg(_) => {}
                }
            }
            out
        };
        let (ins, outs) = (list(&d.ins), list(&d.outs));
        let mut painted = ins.clone();
        painted.extend(outs.iter().cloned());
        let save = |mem: &Memory, views: &[View]| -> Vec<Vec<u8>> {
            views
                .iter()
                .map(|v| {
                    let mut b = Vec::new();
                    mem.gather(v, &mut b);
                    b
                })
                .collect()
        };
        let before = save(&self.mem, &painted);
        let engines = self.cores[c].st.engines.clone();
        let mut results = Vec::new();
        for pattern in [0x55, 0xaa] {
            if let Some(u) = &self.undef {
                u.paint(&mut self.mem, &painted, pattern);
            }
            self.execute(c, id)?;
            results.push(save(&self.mem, &outs));
            painted.iter().zip(&before).rev().for_each(|(v, b)| self.mem.scatter(v, b));
            self.cores[c].st.engines = engines.clone();
        }
        self.execute(c, id)?;
        if let Some(u) = &mut self.undef {
            let mark = u.carrier(c, id, from);
            for ((v, a), b) in outs.iter().zip(&results[0]).zip(&results[1]) {
                let marks: Vec<u8> = a.iter().zip(b).map(|(x, y)| if x == y { 0 } else { mark }).collect();
                u.scatter(v, &marks);
            }
        }
        Ok(())
    }

    /// Runs an instruction's computation, now or later.
    fn effect(&mut self, c: usize, id: InstId, later: Option<u64>) -> Result<(), Stop> {
        match later {
            None => self.execute(c, id),
            Some(work) => {
                self.compute_later(c, id, work);
                Ok(())
            }
        }
    }

    /// Runs an instruction's computation.
    fn execute(&mut self, c: usize, id: InstId) -> Result<(), Stop> {
        let core = &mut self.cores[c];
        let d = &core.code.decoded[id.index()];
        let mut cx = ExecCx {
            mem: &mut self.mem,
            core: &mut core.st,
            profile: &self.opts.profile,
            arch: self.arch,
            notes: &mut self.notes,
        };
        exec(&mut cx, d, &core.module.insts[id]).map_err(|fault| Stop { inst: Some(id), fault })?;
        if !self.notes.is_empty() {
            self.take_notes(c, id);
        }
        self.nan_guard(c, id);
        Ok(())
    }

    /// The reference's sign of undefined bytes: a NaN in what an instruction wrote.
    pub(crate) fn nan_guard(&mut self, c: usize, id: InstId) {
        if self.opts.profile.uninit != Uninit::NanGuard || !self.opts.undefined_check {
            return;
        }
        let core = &self.cores[c];
        let inst = &core.module.insts[id];
        if inst.get_bool(Attr::CanReadUninit) || self.noted.contains(&(c, id, "S0022")) {
            return;
        }
        let d = &core.code.decoded[id.index()];
        let rules = Rules::of(&self.opts.profile);
        let mut bytes = Vec::new();
        let mut hit = None;
        for (k, a) in d.outs.iter().enumerate() {
            let views = match a {
                Arg::View(v) => vec![v.clone()],
                Arg::Indexed(x) => rows(&self.mem, d, x),
                Arg::Imm(_) | Arg::Reg(_) => continue,
            };
            for v in views.iter().filter(|v| !v.dtype.is_int()) {
                self.mem.gather(v, &mut bytes);
                let mut x = vec![0f32; v.num_elems() * lanes(v.dtype)];
                convert::to_f32(v.dtype, &bytes, &mut x, rules);
                if let Some(at) = x.iter().position(|x| x.is_nan()) {
                    hit = hit.or(Some((k, at)));
                }
            }
        }
        let Some((k, at)) = hit else { return };
        let name = match inst.outs.get(k).and_then(Operand::as_ap) {
            Some(ap) => core.module.memlocs[ap.loc].name.as_str(),
            None => "memory",
        };
        let text = format!("`{}` writes a NaN into `{name}`", inst.name);
        let d = Diagnostic::new(codes::S0022, text)
            .site(self.site(c, id).label(format!("element {at} of the result")));
        self.diagnostics.push(d);
        self.noted.insert((c, id, "S0022"));
    }

    /// Tells the checks what an instruction touches and runs it. Writes that nothing orders after another core's are judged by
    /// what they change.
    pub(crate) fn compute_checked(&mut self, c: usize, id: InstId, thread: usize) -> Result<(), Stop> {
        let later = self.put_off(c, id)?;
        if let Some(race) = &mut self.race {
            race.compare_values = self.opts.equal_writes;
        }
        self.touch(c, id, thread, ALL_LISTS);
        let doubted = match &mut self.race {
            Some(race) => {
                race.compare_values = false;
                !race.doubts.is_empty()
            }
            None => false,
        };
        if !doubted {
            return self.compute(c, id, later);
        }
        self.catch_up()?;
        let before = self.written_bytes(c, id);
        let done = self.compute(c, id, None);
        let changed = done.is_err() || before != self.written_bytes(c, id);
        let pair = self.race.as_mut().and_then(|r| r.settle(changed));
        if let Some((a, b)) = pair {
            self.equal_writes(&a, &b);
        }
        done
    }

    /// The bytes of all outputs of an instruction.
    fn written_bytes(&self, c: usize, id: InstId) -> Vec<u8> {
        let d = &self.cores[c].code.decoded[id.index()];
        let (mut all, mut one) = (Vec::new(), Vec::new());
        for a in &d.outs {
            let views = match a {
                Arg::View(v) => vec![v.clone()],
                Arg::Indexed(x) => rows(&self.mem, d, x),
                Arg::Imm(_) | Arg::Reg(_) => continue,
            };
            for v in &views {
                self.mem.gather(v, &mut one);
                all.append(&mut one);
            }
        }
        all
    }

    /// Tells the race check what an instruction touches; `lists` has a bit for inputs, outputs and index operands.
    pub(crate) fn touch(&mut self, c: usize, id: InstId, thread: usize, lists: u8) {
        if self.overlap.is_some() {
            self.overlapping(c, id, lists);
        }
        let Some(race) = &mut self.race else { return };
        let core = &self.cores[c];
        let reads_only = core.module.insts[id].copies_onto_itself();
        race.tick(thread);
        let wanted = |r: Role| lists & (1 << r.list) != 0 && !(reads_only && r.list == 1);
        let fixed = core.code.recipes[id.index()].is_empty();
        match race.cached(c, id.index()).filter(|_| fixed) {
            Some((from, to)) => {
                for k in from..to {
                    let (slot, role) = race.remembered(k);
                    if wanted(role) {
                        race.access(slot, thread, c, id, role);
                    }
                }
            }
            None => {
                let d = &core.code.decoded[id.index()];
                let mut list: Vec<(u32, Role)> = Vec::new();
                for (n, args) in [(0u8, &d.ins[..]), (1, &d.outs[..]), (2, &d.indirect[..])] {
                    for (k, a) in args.iter().enumerate() {
                        let role = Role { index: k as u8, list: n };
                        match a {
                            Arg::View(v) => list.push((race.slot(v), role)),
                            Arg::Indexed(x) => {
                                for v in rows(&self.mem, d, x) {
                                    list.push((race.slot(&v), role));
                                }
                            }
                            Arg::Imm(_) | Arg::Reg(_) => {}
                        }
                    }
                }
                if fixed {
                    race.remember(c, id.index(), &list);
                }
                for (slot, role) in list {
                    if wanted(role) {
                        race.access(slot, thread, c, id, role);
                    }
                }
            }
        }
        if lists & 2 != 0 && !self.sync.tokens.is_empty() {
            let inst = &core.module.insts[id];
            for ap in inst.outs.iter().filter_map(Operand::as_ap) {
                if let Some(t) = self.sync.token_loc.get(&(c, ap.loc)) {
                    race.token_write(*t as usize, c, thread);
                }
            }
        }
    }
}

/// The rows that a gather or scatter touches, those in bounds.
pub(crate) fn rows(mem: &Memory, d: &Decoded, x: &Indexed) -> Vec<View> {
    let Some(Arg::View(index)) = d.indirect.get(x.index) else { return vec![x.view.clone()] };
    let mut out = Vec::new();
    for at in index.offsets() {
        let i = crate::decode::read_index(mem, &View::linear(index.buf, index.dtype, at, 1));
        if i < 0 || x.max_index.is_some_and(|m| i > m) {
            continue;
        }
        let moved = (x.coeff_bytes as i128) * i128::from(i) + x.view.base as i128;
        let Ok(base) = usize::try_from(moved) else { continue };
        let mut v = View { base, ..x.view.clone() };
        if let Some(p) = v.dims.first_mut() {
            p.num = 1;
        }
        let inside =
            v.byte_range().is_some_and(|(lo, hi)| lo >= x.limits.start as i128 && hi <= x.limits.end as i128);
        if inside && v.fits(mem.bytes(v.buf).len()) {
            out.push(v);
        }
    }
    out
}
