//! JSON documents to modules: wrappers, our additions, and what waits until a module is complete.

use super::cursor::Kind;
use super::read::{R, Reader, Stop};
use super::{Part, ProgramInfo};
use crate::arch::ArchLevel;
use crate::diag::codes::{P0102, P0103, P0107, P0108, P0110, P0117};
use crate::dtype::Dtype;
use crate::ids::CoreId;
use crate::inst::{Dep, Operand};
use crate::module::{Extra, Module, Port, Signature};
use crate::resolve::{NameIndex, operand_mut};
use crate::text::level_from_name;
use compact_str::CompactString;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};

impl Reader<'_, '_> {
    pub(super) fn document(&mut self) -> R<Vec<Part>> {
        let mut parts = Vec::new();
        if self.kind()? == Kind::Array {
            let mut first = self.array()?;
            while self.element(&mut first)? {
                parts.push(self.wrapped_module()?);
            }
        } else {
            parts.push(self.wrapped_module()?);
        }
        self.c.space();
        if self.c.offset() < self.c.source().len() {
            let at = self.c.offset();
            self.error(P0102, at, "the document goes on after its end")?;
            return Err(Stop);
        }
        Ok(parts)
    }

    pub(super) fn wrapped_module(&mut self) -> R<Part> {
        if self.kind()? != Kind::Object || self.c.has_member("functions") || !self.c.has_member("module") {
            return self.module();
        }
        let mut part = None;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            if key == "module" {
                part = Some(self.module()?);
            } else {
                self.skip()?;
            }
        }
        part.ok_or(Stop)
    }

    pub(super) fn module(&mut self) -> R<Part> {
        self.m = Module::new("", None, ArchLevel::Gen3);
        self.funcs.clear();
        self.func_names.clear();
        let mut info = None;
        let mut constants = Vec::new();
        let mut extra: Extra = None;
        let mut attributes = Map::new();
        let mut has_functions = false;
        let start = self.at()?;
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            has_functions |= matches!(&*key, "functions" | "nki_functions");
            match &*key {
                "arch" => {
                    if let Some(a) = self.member()? {
                        self.m.arch = a;
                    }
                }
                "version" => {
                    let at = self.at()?;
                    if let Some(v) = self.int()?
                        && !matches!(v, 1 | 2)
                    {
                        let text = "Check the version of bir json file - should be 1 (old) or 2 (new)";
                        self.error(P0107, at, text)?;
                    }
                }
                "archRev" => {
                    let v = self.value()?;
                    extra.get_or_insert_default().insert("revision".to_owned(), v);
                }
                "attributes" if self.kind()? == Kind::Object => {
                    let mut first = self.object()?;
                    while let Some(key) = self.key(&mut first)? {
                        if key == "neuron_core_id" && !self.is_null()? {
                            self.m.core = self.u32()?.map(CoreId);
                        } else {
                            let v = self.value()?;
                            attributes.insert(key.into_owned(), v);
                        }
                    }
                }
                "functions" | "nki_functions" => {
                    let mut first = self.array()?;
                    while self.element(&mut first)? {
                        let f = self.function()?;
                        if key == "functions" {
                            self.m.functions.push(f)
                        } else {
                            self.m.nki_functions.push(f)
                        }
                    }
                }
                "queues" => {
                    let mut first = self.array()?;
                    while self.element(&mut first)? {
                        let q = self.value()?;
                        self.m.queues.push(q);
                    }
                }
                "tandem" => info = Some(self.tandem(&mut constants)?),
                _ => self.keep(&mut extra, key)?,
            }
        }
        if !has_functions {
            // Any other JSON object would otherwise pass as an empty module.
            self.error(P0110, start, "this is no BIR module: it has no `functions`")?;
        }
        if !attributes.is_empty() {
            extra.get_or_insert_default().insert("attributes".to_owned(), Value::Object(attributes));
        }
        self.m.extra = extra;
        self.second_pass(info.is_some())?;
        let module = std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3));
        Ok(Part { module, place: None, info, constants })
    }

    /// Our own key of a module.
    pub(super) fn tandem(&mut self, constants: &mut Vec<(String, Vec<u8>)>) -> R<ProgramInfo> {
        let mut info = ProgramInfo::default();
        let mut first = self.object()?;
        while let Some(key) = self.key(&mut first)? {
            match &*key {
                "module" => self.m.name = self.name()?,
                "subgraph" => self.m.subgraph = self.u32()?.unwrap_or(0),
                "program" => info.name = self.name()?.to_string(),
                "lnc_size" => info.lnc_size = self.u32()?.unwrap_or(1),
                "level" => {
                    let at = self.at()?;
                    let name = self.name()?;
                    match level_from_name(&name) {
                        Some(l) => info.level = l,
                        None => self.error(P0103, at, format!("`{name}` is no level"))?,
                    }
                }
                "inputs" => info.signature.inputs = self.ports()?,
                "outputs" => info.signature.outputs = self.ports()?,
                "constants" => {
                    let mut first = self.object()?;
                    while let Some(file) = self.key(&mut first)? {
                        let at = self.at()?;
                        let text = self.text()?.unwrap_or_default();
                        match crate::base64::decode(&text) {
                            Some(b) => constants.push((file.into_owned(), b)),
                            None => self.error(P0117, at, "this is not base 64")?,
                        }
                    }
                }
                _ => self.skip()?,
            }
        }
        Ok(info)
    }

    pub(super) fn ports(&mut self) -> R<Vec<Port>> {
        let mut out = Vec::new();
        let mut more = self.array()?;
        while self.element(&mut more)? {
            let mut p = Port {
                name: String::new(),
                location: CompactString::default(),
                core: None,
                subgraph: 0,
                dtype: Dtype::Float32,
                shape: Vec::new(),
            };
            let mut first = self.object()?;
            while let Some(key) = self.key(&mut first)? {
                match &*key {
                    "name" => p.name = self.name()?.to_string(),
                    "location" => p.location = self.name()?,
                    "core" => p.core = self.u32()?.map(CoreId),
                    "subgraph" => p.subgraph = self.u32()?.unwrap_or(0),
                    "dtype" => p.dtype = self.member()?.unwrap_or(Dtype::Float32),
                    "shape" => p.shape = self.u64s()?,
                    _ => self.skip()?,
                }
            }
            out.push(p);
        }
        Ok(out)
    }
    pub(super) fn u64s(&mut self) -> R<Vec<u64>> {
        let mut out = Vec::new();
        let mut first = self.array()?;
        while self.element(&mut first)? {
            out.extend(self.u64()?);
        }
        Ok(out)
    }

    /// What needs every object of the module: dependencies, locations of later functions, queues.
    pub(super) fn second_pass(&mut self, ours: bool) -> R<()> {
        for late in std::mem::take(&mut self.late) {
            let names = self.funcs.iter().find(|f| f.name == *late.func);
            match names.and_then(|n| n.loc(&self.m, &late.loc, late.set.as_deref()).ok()) {
                Some(l) => {
                    if let Some(a) = operand_mut(&mut self.m, late.inst, late.list, late.index)
                        .and_then(Operand::as_ap_mut)
                    {
                        a.loc = l;
                    }
                }
                None => {
                    let text = format!("no location `{}` in function `{}`", late.loc, late.func);
                    self.error(P0108, late.at, text)?;
                }
            }
        }
        let deps = std::mem::take(&mut self.deps);
        let m = std::mem::replace(&mut self.m, Module::new("", None, ArchLevel::Gen3));
        let mut found = Vec::with_capacity(deps.len());
        {
            let names = NameIndex::new(&m);
            for d in &deps {
                let target = names.resolve_inst(d.block, &d.name).or_else(|| {
                    let (func, rest) = d.name.strip_prefix(super::QUALIFIED)?.split_once(super::QUALIFIED)?;
                    let (block, name) = rest.split_once(super::QUALIFIED)?;
                    names.resolve_qualified(func, block, name)
                });
                if target.is_none() {
                    let what =
                        if d.carried { "Unknown loop-carried dependency" } else { "Unknown dependency" };
                    self.error(P0108, d.at, format!("{what}: no instruction `{}`", d.name))?;
                }
                found.push(target);
            }
        }
        self.m = m;
        for (d, target) in deps.into_iter().zip(found) {
            let Some(target) = target else { continue };
            let inst = &mut self.m.insts[d.inst];
            if d.carried {
                inst.more_mut().loop_carried.push(Dep { inst: target, kind: d.kind });
            } else {
                // Reading merges entries only when a producer comes twice; see `read_deps`.
                inst.deps.push(Dep { inst: target, kind: d.kind });
            }
        }
        let uses = std::mem::take(&mut self.queue_uses);
        if !ours && !uses.is_empty() {
            let known: FxHashSet<&str> =
                self.m.queues.iter().filter_map(|q| q.get("name").and_then(Value::as_str)).collect();
            let missing: Vec<(CompactString, usize)> =
                uses.into_iter().filter(|(q, _)| !known.contains(q.as_str())).collect();
            for (q, at) in missing {
                self.error(P0108, at, format!("Queue does not exist! `{q}`"))?;
            }
        }
        Ok(())
    }
}

impl Default for ProgramInfo {
    fn default() -> Self {
        ProgramInfo {
            name: String::new(),
            lnc_size: 1,
            level: crate::Level::Bir,
            signature: Signature::default(),
        }
    }
}
