//! Inputs, constants and outputs.

use super::Run;
use crate::memory::View;
use crate::npy;
use crate::place::{Names, view_of};
use crate::tensor::{Tensor, byte_len, describe};
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{AccessPattern, CoreId, Dtype, MemLocId, Port};

impl Run<'_> {
    /// Loads inputs and constants.
    pub(super) fn load(&mut self, names: &[Names<'_>], inputs: &[Tensor]) -> Result<(), Vec<Diagnostic>> {
        let program = &self.linked.program;
        let mut errs = Vec::new();
        for p in &program.signature.inputs {
            let Some(t) = inputs.iter().find(|t| t.name == p.name) else {
                errs.push(Diagnostic::new(codes::U0003, format!("no input `{}` was given", p.name)));
                continue;
            };
            let fits = t.dtype == p.dtype
                && t.shape == p.shape
                && byte_len(t.dtype, &t.shape) == Some(t.bytes.len() as u64);
            if !fits {
                let (have, want) =
                    (describe(&t.name, t.dtype, &t.shape), describe(&p.name, p.dtype, &p.shape));
                errs.push(Diagnostic::new(codes::U0003, format!("{have} was given, {want} is wanted")));
                continue;
            }
            for (c, names) in names.iter().enumerate() {
                if p.core.is_some_and(|x| x.index() != c) {
                    continue;
                }
                if let Some(l) = names.find_any(self.cores[c].module, &p.location)
                    && let Err(e) = self.store(c, l, &t.bytes)
                {
                    errs.push(Diagnostic::new(codes::U0003, format!("input `{}`: {e}", p.name)));
                }
            }
        }
        for c in 0..self.cores.len() {
            let m = self.cores[c].module;
            for (l, loc) in m.memlocs.iter() {
                let set = m.set_of(l);
                let Some(file) = set.file.as_ref().filter(|f| !f.is_empty()) else { continue };
                if self.cores[c].places[l.index()].is_none() || loc.is_remote() {
                    continue;
                }
                let r = program
                    .constants
                    .get(file.as_str())
                    .ok_or_else(|| format!("the payload `{file}` of `{}` is missing", loc.name))
                    .and_then(|b| npy::read(b).map_err(|e| format!("`{file}`: {e}")))
                    .and_then(|a| a.into_tensor(&loc.name, set.dtype).map_err(|e| format!("`{file}`: {e}")))
                    .and_then(|t| self.store(c, l, &t.bytes).map_err(|e| format!("`{file}`: {e}")));
                if let Err(e) = r {
                    errs.push(Diagnostic::new(codes::S0008, e));
                }
            }
        }
        if errs.is_empty() { Ok(()) } else { Err(errs) }
    }

    fn whole(&self, c: usize, l: MemLocId) -> Result<Option<View>, String> {
        let k = &self.cores[c];
        let Some(place) = k.places[l.index()] else { return Ok(None) };
        let loc = &k.module.memlocs[l];
        let (rows, row) = match place.pitch {
            Some(_) => (loc.rows(), loc.row_bytes()),
            None => (1, loc.size_bytes()),
        };
        if row == 0 || rows == 0 {
            return Ok(None);
        }
        let step = i64::try_from(row).map_err(|_| "the location is too large")?;
        let ap = AccessPattern::new(l, Dtype::Uint8, 0, &[(step, rows), (1, row)]);
        view_of(&ap, 0, loc, Some(&place), |b| self.mem.bytes(b).len()).map(Some)
    }

    fn store(&mut self, c: usize, l: MemLocId, bytes: &[u8]) -> Result<(), String> {
        let Some(v) = self.whole(c, l)? else { return Ok(()) };
        if v.num_bytes() != bytes.len() {
            return Err(format!("{} bytes do not fit the {} of the location", bytes.len(), v.num_bytes()));
        }
        self.mem.scatter(&v, bytes);
        Ok(())
    }

    /// An output tensor.
    pub(super) fn output(&self, names: &[Names<'_>], p: &Port) -> Option<Tensor> {
        let first = p.core.map_or(0, CoreId::index);
        let order = std::iter::once(first).chain(0..self.cores.len());
        let (c, l) = order
            .filter(|c| *c < self.cores.len())
            .find_map(|c| names[c].find_any(self.cores[c].module, &p.location).map(|l| (c, l)))?;
        let mut bytes = Vec::new();
        let v = self.whole(c, l).ok()??;
        self.mem.gather(&v, &mut bytes);
        Some(Tensor { name: p.name.clone(), dtype: p.dtype, shape: p.shape.clone(), bytes })
    }
}
