//! Programs, modules, functions, storages and blocks as JSON.

use super::{Field, Fields, Writer};
use crate::enums::BirEnum;
use crate::ids::{BlockId, FuncId, MemLocId, SetId};
use crate::memloc::{MemoryLocation, MemoryLocationSet, Register};
use crate::module::{Block, Function, Module, Port, Program, Storage};
use crate::text::Constants;
use crate::text::print::level_name;
use serde_json::Value;
use std::io;

impl<'a> Writer<'a, '_> {
    pub(super) fn module(&mut self) -> io::Result<()> {
        let Module { core, arch, functions, nki_functions, queues, extra, .. } = self.m;
        let kept = extra.as_ref().and_then(|e| e.get("attributes")).and_then(Value::as_object);
        let mut f = Fields::new();
        f.push(("arch", Field::Str(arch.name())));
        f.push(("attributes", Field::Attributes(*core, kept)));
        f.push(("functions", Field::Functions(functions)));
        if !nki_functions.is_empty() {
            f.push(("nki_functions", Field::Functions(nki_functions)));
        }
        f.push(("queues", Field::Values(queues)));
        f.push(("tandem", Field::Tandem));
        f.push(("version", Field::U64(2)));
        self.record(f, extra)
    }

    /// What our programs have and a module record has no key for.
    pub(super) fn tandem(&mut self) -> io::Result<()> {
        let Program { name, lnc_size, level, modules: _, locs: _, constants, signature } = self.program;
        let mut f = Fields::new();
        if self.constants == Constants::Inline && !constants.is_empty() {
            f.push(("constants", Field::Payloads));
        }
        f.push(("inputs", Field::Ports(&signature.inputs)));
        f.push(("level", Field::Str(level_name(*level))));
        f.push(("lnc_size", Field::U64(u64::from(*lnc_size))));
        f.push(("module", Field::Str(&self.m.name)));
        f.push(("outputs", Field::Ports(&signature.outputs)));
        f.push(("program", Field::Str(name)));
        f.push(("subgraph", Field::U64(u64::from(self.m.subgraph))));
        self.record(f, &None)
    }
    pub(super) fn port(&mut self, p: &'a Port) -> io::Result<()> {
        let Port { name, location, core, subgraph, dtype, shape } = p;
        let mut f = Fields::new();
        f.extend(core.map(|c| ("core", Field::U64(u64::from(c.0)))));
        f.push(("dtype", Field::Str(dtype.name())));
        f.push(("location", Field::Str(location)));
        f.push(("name", Field::Str(name)));
        f.push(("shape", Field::U64s(shape)));
        if *subgraph != 0 {
            f.push(("subgraph", Field::U64(u64::from(*subgraph))));
        }
        self.record(f, &None)
    }
    pub(super) fn payloads(&mut self) -> io::Result<()> {
        self.buf.push(b'{');
        self.indent += 1;
        let mut files: Vec<_> = self.program.constants.iter().collect();
        files.sort_by_key(|f| f.0);
        for (i, (file, bytes)) in files.into_iter().enumerate() {
            if i > 0 {
                self.buf.push(b',');
            }
            self.newline();
            self.text(file);
            self.buf.extend_from_slice(b": ");
            self.text(&crate::base64::encode(bytes));
            self.flush()?;
        }
        self.indent -= 1;
        self.newline();
        self.buf.push(b'}');
        Ok(())
    }

    pub(super) fn function(&mut self, id: FuncId) -> io::Result<()> {
        self.func = Some(id);
        let Function { name, storages, blocks, attributes, extra } = &self.m.funcs[id];
        let mut f = Fields::new();
        f.push(("allocations", Field::Storages(storages)));
        f.push(("attributes", Field::Names(attributes)));
        f.push(("blocks", Field::Blocks(blocks)));
        f.push(("name", Field::Str(name)));
        self.record(f, extra)
    }
    pub(super) fn storage(&mut self, s: Storage) -> io::Result<()> {
        match s {
            Storage::Set(s) => self.set(s),
            Storage::Register(r) => {
                let Register { name, engine, num_physical, extra } = &self.m.regs[r];
                let mut f = Fields::new();
                f.push(("Skind", Field::Str("register")));
                f.push(("engine", Field::Str(engine.name())));
                f.push(("name", Field::Str(name)));
                f.push(("num_physical_regs", Field::U64(u64::from(*num_physical))));
                self.record(f, extra)
            }
        }
    }
    fn set(&mut self, id: SetId) -> io::Result<()> {
        let MemoryLocationSet {
            name,
            dtype,
            kind,
            class,
            addr_space,
            shape,
            partition_dim,
            locs,
            file,
            no_spill,
            volatile,
            is_virtual,
            do_not_rotate,
            extra,
        } = &self.m.sets[id];
        let mut f = Fields::new();
        f.push(("Skind", Field::Str("memory_location_set")));
        f.push(("addr_space", Field::Str(addr_space.name())));
        f.push(("dtype", Field::Str(dtype.name())));
        f.extend(file.as_ref().map(|s| ("file", Field::Str(s))));
        f.push(("kind", Field::Str(kind.name())));
        f.push(("memorylocations", Field::Locations(locs)));
        f.push(("name", Field::Str(name)));
        f.push(("partition_dim", Field::U64(u64::from(*partition_dim))));
        f.push(("tensorId2MemLocSize", Field::U64(locs.len() as u64)));
        f.push(("tensor_class", Field::Str(class.name())));
        f.push(("tensor_shape", Field::U64s(shape)));
        for (on, key) in [
            (*no_spill, "no_spill"),
            (*volatile, "volatile"),
            (*is_virtual, "virtual"),
            (*do_not_rotate, "do_not_rotate"),
        ] {
            if on {
                f.push((key, Field::Bool(true)));
            }
        }
        self.record(f, extra)
    }
    pub(super) fn location(&mut self, id: MemLocId) -> io::Result<()> {
        let l = &self.m.memlocs[id];
        let MemoryLocation {
            name,
            set: _,
            mem,
            addr,
            dims,
            bank,
            base,
            allocated,
            user_allocated,
            pinned,
            tensor_id,
            remote_local_target,
            written_by_another_core,
            is_shared_post_dram_alloc,
            aliases,
            extra,
        } = l;
        let mut f = Fields::new();
        f.push(("Skind", Field::Str("memory_location")));
        f.push(("addr", Field::U64(*addr)));
        if !aliases.is_empty() {
            f.push(("alias", Field::Aliases(l)));
        }
        f.push(("allocated", Field::Bool(*allocated)));
        f.push(("bank", Field::Int(*bank)));
        f.push(("base", Field::U64(u64::from(*base))));
        f.push(("dims", Field::U64s(dims)));
        f.push(("name", Field::Str(name)));
        f.push(("pinned", Field::Bool(*pinned)));
        f.extend(remote_local_target.as_ref().map(|r| ("remote_local_target", Field::Remote(r))));
        f.push(("tensor_id", Field::Int(i64::from(*tensor_id))));
        f.push(("type", Field::Str(mem.name())));
        for (on, key) in [
            (*user_allocated, "user_allocated"),
            (*written_by_another_core, "written_by_another_core"),
            (*is_shared_post_dram_alloc, "is_shared_post_dram_alloc"),
        ] {
            if on {
                f.push((key, Field::Bool(true)));
            }
        }
        self.record(f, extra)
    }
    pub(super) fn alias(&mut self, set: &'a str, loc: &'a str, kind: i64) -> io::Result<()> {
        self.buf.push(b'[');
        self.indent += 1;
        self.newline();
        if !set.is_empty() {
            self.text(set);
            self.buf.push(b',');
            self.newline();
        }
        self.text(loc);
        self.buf.push(b',');
        self.newline();
        self.int(kind);
        self.indent -= 1;
        self.newline();
        self.buf.push(b']');
        Ok(())
    }

    pub(super) fn block(&mut self, id: BlockId) -> io::Result<()> {
        let Block { name, insts, extra } = &self.m.blocks[id];
        let mut f = Fields::new();
        f.push(("instructions", Field::Insts(id, insts)));
        f.push(("name", Field::Str(name)));
        self.record(f, extra)
    }
}
