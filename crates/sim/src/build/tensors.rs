//! Tensors at the border of a run: inputs, constants, outputs.

use super::Ready;
use crate::memory::{BufId, View};
use crate::npy;
use crate::place::{Place, at_loc, view_of};
use crate::tensor::{Tensor, byte_len, describe};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{AccessPattern, CoreId, MemLocId, Port};

/// A tensor and where its bytes go.
struct Load {
    tensor: usize,
    views: Vec<View>,
}

impl Ready<'_> {
    /// Inputs that [`Ready::set_inputs`] wants.
    pub fn wanted(&self) -> &[Port] {
        &self.machine.program.signature.inputs
    }

    /// Loads the input tensors. With several LNCs every one gets the tensor `x`, or its own `rank<k>:x`.
    ///
    /// # Errors
    /// One finding (U0003) that lists what does not fit and what the kernel wants.
    pub fn set_inputs(&mut self, inputs: &[Tensor]) -> Result<(), Vec<Diagnostic>> {
        for load in self.loads(inputs)? {
            for v in &load.views {
                self.store(v, Cow::Borrowed(&inputs[load.tensor].bytes));
            }
        }
        Ok(())
    }

    /// The same, for tensors that nobody needs any more: where a tensor is all of a buffer of the simulation, its bytes become that
    /// buffer, so that they are in memory once.
    ///
    /// # Errors
    /// As [`Ready::set_inputs`].
    pub fn give_inputs(&mut self, mut inputs: Vec<Tensor>) -> Result<(), Vec<Diagnostic>> {
        let loads = self.loads(&inputs)?;
        let mut left = vec![0; inputs.len()];
        loads.iter().for_each(|l| left[l.tensor] += 1);
        for load in loads {
            left[load.tensor] -= 1;
            let bytes = &mut inputs[load.tensor].bytes;
            let mut views = load.views;
            let last = if left[load.tensor] == 0 { views.pop() } else { None };
            for v in &views {
                self.store(v, Cow::Borrowed(bytes));
            }
            if let Some(v) = last {
                self.store(&v, Cow::Owned(std::mem::take(bytes)));
            }
        }
        Ok(())
    }

    /// Which tensor goes where.
    fn loads(&self, inputs: &[Tensor]) -> Result<Vec<Load>, Vec<Diagnostic>> {
        let program = self.machine.program;
        let wanted = &program.signature.inputs;
        let mut wrong = Vec::new();
        let mut used = vec![false; inputs.len()];
        let mut loads: Vec<(usize, &Port, usize)> = Vec::new();
        for p in wanted {
            for r in 0..self.lncs {
                let own = format!("rank{r}:{}", p.name);
                let fits = |t: &Tensor| t.name == p.name || (self.lncs > 1 && t.name == own);
                let mut hits: Vec<usize> = (0..inputs.len()).filter(|k| fits(&inputs[*k])).collect();
                hits.iter().for_each(|k| used[*k] = true);
                if let Some(k) = hits.iter().copied().find(|k| inputs[*k].name == own) {
                    hits = vec![k];
                }
                match hits.as_slice() {
                    [] if r == 0 => wrong.push(format!("no input `{}` was given", p.name)),
                    [] => wrong.push(format!("no input `{}` was given to rank {r}", p.name)),
                    [k] => {
                        let t = &inputs[*k];
                        if t.dtype != p.dtype || t.shape != p.shape {
                            let have = describe(&t.name, t.dtype, &t.shape);
                            wrong.push(format!(
                                "{have} was given, {} is wanted",
                                describe(&p.name, p.dtype, &p.shape)
                            ));
                        } else if byte_len(t.dtype, &t.shape) != Some(t.bytes.len() as u64) {
                            wrong.push(format!(
                                "`{}` has {} bytes, its shape says otherwise",
                                t.name,
                                t.bytes.len()
                            ));
                        } else {
                            loads.push((r, p, *k));
                        }
                    }
                    _ if r == 0 => wrong.push(format!("input `{}` was given twice", p.name)),
                    _ => {}
                }
            }
        }
        for (t, used) in inputs.iter().zip(&used) {
            if !used {
                wrong.push(format!("`{}` is no input of the kernel", t.name));
            }
        }
        if !wrong.is_empty() {
            let list: Vec<String> = wanted.iter().map(|p| describe(&p.name, p.dtype, &p.shape)).collect();
            let list = if list.is_empty() { "nothing".to_owned() } else { list.join("; ") };
            let mut d = Diagnostic::new(codes::U0003, format!("the inputs do not fit: {}", wrong[0]));
            for w in &wrong[1..] {
                d = d.note(w.clone());
            }
            return Err(vec![d.note(format!("the kernel wants {list}"))]);
        }
        let (mut out, mut errs) = (Vec::new(), Vec::new());
        for (r, p, tensor) in loads {
            let s = p.subgraph as usize;
            let mut views: Vec<View> = Vec::new();
            for c in 0..self.lnc {
                if p.core.is_some_and(|x| x.index() != c) {
                    continue;
                }
                let Some(l) = self.find(s, c, &p.location) else { continue };
                match self.room_for((s, r * self.lnc + c), l, inputs[tensor].bytes.len()) {
                    // Cores share a location: once.
                    Ok(Some(v)) if !views.contains(&v) => views.push(v),
                    Ok(_) => {}
                    Err(e) => errs.push(Diagnostic::new(codes::U0003, format!("input `{}`: {e}", p.name))),
                }
            }
            out.push(Load { tensor, views });
        }
        if errs.is_empty() { Ok(out) } else { Err(errs) }
    }

    /// Location of this name on a core of a subgraph.
    fn find(&self, subgraph: usize, core: usize, location: &str) -> Option<MemLocId> {
        let module = self.parts.get(subgraph)?.cores.get(core)?.module;
        self.names.get(subgraph * self.lnc + core)?.find_any(module, location)
    }

    /// Where a location's whole content goes; nowhere if nothing uses it. A core is `(subgraph, core)`.
    fn room_for(&self, core: (usize, usize), l: MemLocId, bytes: usize) -> Result<Option<View>, String> {
        let Some(v) = self.whole(core, l)? else { return Ok(None) };
        if v.num_bytes() != bytes {
            return Err(format!("{bytes} bytes do not fit the {} of the location", v.num_bytes()));
        }
        Ok(Some(v))
    }

    /// Writes a location's whole content; where it is all of a buffer, bytes that nobody else has become that buffer.
    fn store(&mut self, v: &View, bytes: Cow<'_, [u8]>) {
        let mem = &mut self.machine.mem;
        match bytes {
            Cow::Owned(bytes) if v.is_all_of(mem.bytes(v.buf).len()) => mem.replace(v.buf, bytes),
            bytes => {
                mem.fill(v.buf);
                mem.scatter(v, &bytes);
            }
        }
        if let Some(u) = &mut self.machine.undef {
            u.give(v);
        }
    }

    /// The whole of a location as bytes.
    fn whole(&self, (subgraph, core): (usize, usize), l: MemLocId) -> Result<Option<View>, String> {
        let k = &self.parts[subgraph].cores[core];
        let Some(place): Option<Place> = k.places[l.index()] else { return Ok(None) };
        let loc = &k.module.memlocs[l];
        let (rows, row) = match place.pitch {
            Some(_) => (loc.rows(), loc.row_bytes()),
            None => (1, loc.size_bytes()),
        };
        if row == 0 || rows == 0 {
            return Ok(None);
        }
        let step = i64::try_from(row).map_err(|_| "the location is too large")?;
        let ap = AccessPattern::new(l, tandem_bir::Dtype::Uint8, 0, &[(step, rows), (1, row)]);
        view_of(&ap, 0, loc, Some(&place), |b| self.machine.mem.bytes(b).len()).map(Some)
    }

    pub(super) fn load_constants(&mut self) -> Result<(), Vec<Diagnostic>> {
        let mut errs = Vec::new();
        let program = self.machine.program;
        let cores = self.lnc * self.lncs;
        let all = (0..self.parts.len()).flat_map(|s| (0..cores).map(move |g| (s, g)));
        for (s, g) in all {
            let m = self.parts[s].cores[g].module;
            for (l, loc) in m.memlocs.iter() {
                let set = m.set_of(l);
                let Some(file) = set.file.as_ref().filter(|f| !f.is_empty()) else { continue };
                if self.parts[s].cores[g].places[l.index()].is_none() || loc.is_remote() {
                    continue;
                }
                let bytes = program
                    .constants
                    .get(file.as_str())
                    .ok_or_else(|| format!("the payload `{file}` of `{}` is missing", loc.name))
                    .and_then(|b| npy::read(b).map_err(|e| format!("`{file}`: {e}")))
                    .and_then(|a| a.into_tensor(&loc.name, set.dtype).map_err(|e| format!("`{file}`: {e}")));
                let stored = bytes.and_then(|t| {
                    let room =
                        self.room_for((s, g), l, t.bytes.len()).map_err(|e| format!("`{file}`: {e}"))?;
                    if let Some(v) = room {
                        self.store(&v, Cow::Owned(t.bytes));
                    }
                    Ok(())
                });
                if let Err(e) = stored {
                    errs.push(Diagnostic::new(codes::S0008, e).site(at_loc(m, loc)));
                }
            }
        }
        if errs.is_empty() { Ok(()) } else { Err(errs) }
    }

    /// The output tensors. A buffer that is all of one tensor is handed over, not copied.
    pub(super) fn outputs(&mut self, finished: bool) -> Vec<Tensor> {
        let mut found = Vec::new();
        let mut left: FxHashMap<BufId, usize> = FxHashMap::default();
        for r in 0..self.lncs {
            for p in &self.machine.program.signature.outputs {
                let Some((core, l)) = self.location_of(r, p) else { continue };
                let Ok(Some(v)) = self.whole(core, l) else { continue };
                *left.entry(v.buf).or_default() += 1;
                found.push((r, p, core, l, v));
            }
        }
        let mut out = Vec::new();
        for (r, p, core, l, v) in found {
            if finished {
                self.undefined_output(p, core, l, &v);
            }
            let uses = left.entry(v.buf).or_default();
            *uses -= 1;
            let mem = &mut self.machine.mem;
            let bytes = if *uses == 0 && v.is_all_of(mem.bytes(v.buf).len()) {
                mem.take(v.buf)
            } else {
                let mut bytes = Vec::new();
                mem.gather(&v, &mut bytes);
                bytes
            };
            let name = if self.lncs > 1 { format!("rank{r}:{}", p.name) } else { p.name.clone() };
            out.push(Tensor { name, dtype: p.dtype, shape: p.shape.clone(), bytes });
        }
        out
    }

    /// The core, as `(subgraph, core)`, and the location that hold an output of an LNC.
    fn location_of(&self, r: usize, p: &Port) -> Option<((usize, usize), MemLocId)> {
        let (s, first) = (p.subgraph as usize, p.core.map_or(0, CoreId::index));
        let order = std::iter::once(first).chain(0..self.lnc);
        order
            .filter(|c| *c < self.lnc)
            .find_map(|c| self.find(s, c, &p.location).map(|l| ((s, r * self.lnc + c), l)))
    }

    /// Reports an output with bytes that nothing has written.
    fn undefined_output(&mut self, p: &Port, c: (usize, usize), l: MemLocId, v: &View) {
        let Some(undef) = &self.machine.undef else { return };
        let Some(first) = undef.first(v) else { return };
        let marks = undef.gather(v).unwrap_or_default();
        let n = marks.iter().filter(|m| **m != 0).count();
        let at = marks.iter().position(|m| *m != 0).unwrap_or(0);
        drop(marks);
        let text = format!("output `{}` has {n} bytes that nothing has written", p.name);
        let module = self.parts[c.0].cores[c.1].module;
        let loc = &module.memlocs[l];
        let mut d = Diagnostic::new(codes::S0021, text)
            .site(at_loc(module, loc).label(format!("the first is byte {at}")));
        // Ways are those of the last subgraph's run.
        std::mem::swap(&mut self.machine.cores, &mut self.parts[c.0].cores);
        for s in self.machine.origin_of_output(c.1, l, (v.buf, first)) {
            d = d.site(s);
        }
        std::mem::swap(&mut self.machine.cores, &mut self.parts[c.0].cores);
        d.severity = self.machine.opts.undefined_severity;
        self.machine.diagnostics.push(d);
    }
}
