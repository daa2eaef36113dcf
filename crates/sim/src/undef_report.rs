//! Findings about undefined bytes: where they are used, by which way they came, and what left them out.

use crate::code::Style;
use crate::exec::Arg;
use crate::machine::Machine;
use crate::place::{Place, at_loc};
use crate::race::Role;
use crate::undef::{Byte, Carrier};
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{Attr, Inst, InstId, MemLocId, MemoryType, Opcode, Operand};

/// Carriers that a finding names (our choice).
const NAMED: usize = 4;

impl Machine<'_> {
    /// A finding: undefined bytes reach an instruction that uses them.
    pub(crate) fn undefined_use(&mut self, c: usize, id: InstId, at: Byte) {
        let id = self.original(c, id);
        let core = &self.cores[c];
        let inst = &core.module.insts[id];
        if inst.get_bool(Attr::CanReadUninit) || !self.noted.insert((c, id, "S0021")) {
            return;
        }
        let (name, place, _) = self.name_byte(c, id, at);
        let text = format!("`{}` uses bytes of `{name}` that nothing has written", inst.name);
        let mut d = Diagnostic::new(codes::S0021, text)
            .site(self.site(c, id).label(format!("the first is {place}")))
            .note("what an instruction computes from them differs from run to run on the machine");
        for s in self.origin(c, id, at) {
            d = d.site(s);
        }
        d.severity = self.opts.undefined_severity;
        self.diagnostics.push(d);
    }

    /// The instruction that linking cloned for every engine, when this is one of its clones: what one of them does wrong, all do.
    fn original(&self, c: usize, id: InstId) -> InstId {
        let m = self.cores[c].module;
        let i = &m.insts[id];
        let base = match i.name.rsplit_once('.') {
            Some((base, engine)) if self.style == Style::Queue && engine == i.engine.to_string() => base,
            Some(_) | None => return id,
        };
        let same = |x: &Inst| x.name == base && x.opcode == i.opcode && x.loc == i.loc;
        m.insts.iter().find(|(_, x)| same(x)).map_or(id, |(o, _)| o)
    }

    /// Sites of the way by which an undefined byte came to an instruction, the last step first, and of what left it out.
    pub(crate) fn origin(&self, c: usize, id: InstId, byte: Byte) -> Vec<Site> {
        let Some(u) = &self.undef else { return Vec::new() };
        let way: Vec<Carrier> = u.way(byte);
        let mut out: Vec<Site> = Vec::new();
        for w in way.iter().take(NAMED) {
            let (name, place, _) = self.name_byte(w.core, w.inst, w.from);
            out.push(self.site(w.core, w.inst).label(format!("carries them on from `{name}`, {place}")));
        }
        let (c, id, byte) = way.last().map_or((c, id, byte), |w| (w.core, w.inst, w.from));
        if let (name, _, Some(l)) = self.name_byte(c, id, byte) {
            out.push(self.left_out(c, id, l, &name));
        }
        out
    }

    /// The same for a byte of an output: what carried it there, or what writes the rest of the output.
    pub(crate) fn origin_of_output(&self, c: usize, l: MemLocId, byte: Byte) -> Vec<Site> {
        let Some(u) = &self.undef else { return Vec::new() };
        if let Some(w) = u.way(byte).first() {
            return self.origin(w.core, w.inst, byte);
        }
        let name = self.cores[c].module.memlocs[l].name.to_string();
        let writes = |c: usize| {
            let m = self.cores[c].module;
            let same = |x: MemLocId| {
                let x = &m.memlocs[x];
                x.name == name.as_str()
                    || x.remote_local_target.as_ref().is_some_and(|t| t.name == name.as_str())
            };
            let writes = |i: &InstId| {
                m.insts[*i].opcode != Opcode::CoreBarrier
                    && m.insts[*i].outs.iter().filter_map(Operand::as_ap).any(|ap| same(ap.loc))
            };
            m.walk().iter().map(|w| w.2).rfind(writes)
        };
        let others = (0..self.cores.len()).filter_map(|c| Some((c, writes(c)?)));
        others.map(|(c, i)| self.site(c, i).label(format!("writes other bytes of `{name}`"))).collect()
    }

    /// The last instruction before another one in program order that writes other bytes of a location; the location itself
    /// when there is none.
    fn left_out(&self, c: usize, id: InstId, l: MemLocId, name: &str) -> Site {
        let m = self.cores[c].module;
        let writes = |i: InstId| {
            m.insts[i].opcode != Opcode::CoreBarrier
                && m.insts[i].outs.iter().filter_map(Operand::as_ap).any(|ap| ap.loc == l)
        };
        let walk = m.walk();
        let before = walk.iter().map(|w| w.2).take_while(|i| *i != id).filter(|i| writes(*i)).last();
        match before {
            Some(i) => self.site(c, i).label(format!("writes other bytes of `{name}`")),
            None => at_loc(m, &m.memlocs[l]).label(format!("nothing writes `{name}` before")),
        }
    }

    /// The operand of an instruction in which a byte lies: the location's name, the byte in words, the location.
    fn name_byte(&self, c: usize, id: InstId, (buf, at): Byte) -> (String, String, Option<MemLocId>) {
        let core = &self.cores[c];
        let inst = &core.module.insts[id];
        let d = &core.code.decoded[id.index()];
        let mut found = None;
        let lists = [
            (2u8, &d.indirect[..], inst.indirection_ins()),
            (0, &d.ins[..], &inst.ins[..]),
            (1, &d.outs[..], &inst.outs[..]),
        ];
        let all = lists.iter().flat_map(|(list, a, o)| {
            a.iter().zip(o.iter()).enumerate().map(|(k, x)| (Role { index: k as u8, list: *list }, x))
        });
        for (role, (a, o)) in all {
            let Some(ap) = o.as_ap() else { continue };
            let view = match a {
                Arg::View(v) => v,
                Arg::Indexed(x) => &x.view,
                Arg::Imm(_) | Arg::Reg(_) => continue,
            };
            let inside = match a {
                Arg::Indexed(x) => x.limits.contains(&at),
                Arg::View(_) | Arg::Imm(_) | Arg::Reg(_) => {
                    view.byte_range().is_some_and(|(lo, hi)| (lo..hi).contains(&(at as i128)))
                }
            };
            let p = core.places[ap.loc.index()].filter(|p| p.buf == view.buf && p.buf == buf);
            // The bytes of a pattern of several partitions are not one range: the location's columns decide.
            let l = &core.module.memlocs[ap.loc];
            let column = |p: &Place| match p.pitch.filter(|pitch| *pitch > 0) {
                Some(pitch) => {
                    (at % pitch).checked_sub(p.base % pitch).is_some_and(|c| (c as u64) < l.row_bytes())
                }
                None => true,
            };
            // A container knows the tensor by its debug table.
            let told = core.debug_tensor(id, role).and_then(|t| core.debug?.tensors.get(t as usize));
            if let (true, Some(t), Some(pitch)) = (inside, told, p.and_then(|p| p.pitch)) {
                let bank = if t.mem == MemoryType::Psum {
                    t.bank.unsigned_abs().saturating_mul(self.arch.psum_bank_bytes)
                } else {
                    0
                };
                let start = bank.saturating_add(t.addr) as usize;
                let Some(byte) = (at % pitch).checked_sub(start).filter(|b| (*b as u64) < t.row_bytes) else {
                    continue;
                };
                let part = (at / pitch).saturating_sub(t.base as usize);
                return (t.name.to_string(), format!("byte {byte} of partition {part}"), None);
            }
            if let (true, Some(p)) = (inside, p.filter(column)) {
                found = Some((ap.loc, p));
                break;
            }
        }
        let Some((l, p)) = found else { return ("memory".to_owned(), format!("byte {at}"), None) };
        let place = match p.pitch {
            Some(pitch) if pitch > 0 => format!(
                "byte {} of partition {}",
                (at % pitch).saturating_sub(p.base % pitch),
                (at / pitch).saturating_sub(p.base / pitch)
            ),
            _ => format!("byte {}", at.saturating_sub(p.base)),
        };
        (core.module.memlocs[l].name.to_string(), place, Some(l))
    }
}
