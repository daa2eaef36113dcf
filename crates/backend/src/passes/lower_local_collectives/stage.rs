//! Staging copies: when a source cannot be read from another core as it is, its owner copies it into a tile of its own first.
//!
//! Needed when the address is dynamic (a register of the owner means nothing elsewhere), when the source lies in PSUM (no
//! alias may), and when a destination of the group overlaps it (a pull would overwrite what the peer still reads).

use super::{Fail, Group, Lowering, Made};
use crate::storage::Region;
use tandem_bir::diag::{Diagnostic, codes};
use tandem_bir::{
    AccessPattern, AddressSpace, CompactString, EngineKind, FuncId, Inst, MemLocId, MemoryLocation,
    MemoryLocationSet, MemoryType, Opcode, SetId, TensorClass, TensorKind, entity::EntityRef,
};

impl Lowering<'_> {
    /// A dense tile of the shape of a pattern (partitions × elements), unplaced, and the pattern over all of it.
    pub(super) fn temporary(
        &mut self,
        module: usize,
        func: FuncId,
        names: &(CompactString, CompactString),
        like: &AccessPattern,
        mem: MemoryType,
    ) -> (MemLocId, AccessPattern) {
        let (parts, elems) = (like.num_partitions(), like.elems_per_partition());
        let set = MemoryLocationSet {
            name: "".into(),
            class: if mem == MemoryType::Sb { TensorClass::NeuronSbTensor } else { TensorClass::Tensor },
            ..MemoryLocationSet::new(
                "",
                like.dtype,
                TensorKind::Internal,
                AddressSpace::Local,
                &[parts, elems],
            )
        };
        let dims = [parts, elems.saturating_mul(like.dtype.bytes())];
        let loc = MemoryLocation::new("", SetId::new(0), mem, &dims);
        let id = self.add_location(module, func, names, set, loc);
        let pitch = i64::try_from(elems).unwrap_or(i64::MAX);
        (id, AccessPattern::new(id, like.dtype, 0, &[(pitch, parts), (1, elems)]))
    }

    /// Memory of a location.
    pub(super) fn mem(&self, module: usize, loc: MemLocId) -> MemoryType {
        self.p.modules[module].memlocs.get(loc).map_or(MemoryType::Unallocated, |l| l.mem)
    }

    /// Bytes of an operand.
    pub(super) fn bytes_of(&self, module: usize, ap: &AccessPattern) -> Option<Region> {
        self.map.bounds(module, &self.p.modules[module], ap)
    }

    /// The pattern is static, on chip, and starts at a partition that compute engines can start at for its count (decision
    /// D20: more than 64 partitions at 0, 33 to 64 at 0 or 64, up to 32 at multiples of 32).
    fn computable(&self, module: usize, ap: &AccessPattern) -> bool {
        let on_chip = matches!(self.mem(module, ap.loc), MemoryType::Sb | MemoryType::Psum);
        let Some(l) = self.p.modules[module].memlocs.get(ap.loc) else { return false };
        let Ok(b) = ap.on_chip_box(l) else { return false };
        let start = b.first_partition + i64::from(l.base);
        let step = match b.last_partition - b.first_partition {
            ..=31 => 32,
            32..=63 => 64,
            64.. => 128,
        };
        on_chip && ap.is_static() && start % step == 0
    }

    /// A copy between two local patterns: on the Vector engine where it can, else by DMA.
    pub(super) fn local_copy(
        &self,
        g: &Group<'_>,
        core: usize,
        name: &str,
        src: &AccessPattern,
        dst: &AccessPattern,
    ) -> Inst {
        let m = g.members[core].module;
        let mut i = if self.computable(m, src) && self.computable(m, dst) {
            let mut i = Inst::new(name, Opcode::TensorCopy);
            i.engine = EngineKind::Dve;
            i
        } else {
            self.dma(g, core, name)
        };
        i.ins.push(src.clone().into());
        i.outs.push(dst.clone().into());
        i
    }

    /// Sources of a group as the other cores may read them: `sources[core][pair]`, staged where needed. Emits the staging copies
    /// and says whether there are any. The decision is one for all cores.
    pub(super) fn stage_sources(
        &mut self,
        g: &Group<'_>,
        made: &mut Made,
        pairs: usize,
    ) -> Result<(Vec<Vec<AccessPattern>>, bool), Fail> {
        let mut src = Vec::new();
        let mut src_bytes = Vec::new();
        let mut dst_bytes = Vec::new();
        let mut needed = false;
        for m in g.members {
            let cc = self.cc(m);
            if !cc.indirection_ins().is_empty() {
                return Err(Box::new(Diagnostic::new(
                    codes::L0017,
                    format!("{} reads its source through a vector of indexes", g.name),
                )));
            }
            let mut own = Vec::new();
            for k in 0..pairs {
                let (s, d) = (self.in_ap(m, k)?, self.out_ap(m, k)?);
                needed |= !s.is_static() || self.mem(m.module, s.loc) == MemoryType::Psum;
                src_bytes.push(self.bytes_of(m.module, s));
                dst_bytes.push(self.bytes_of(m.module, d));
                own.push(s.clone());
            }
            src.push(own);
        }
        needed |= src_bytes.iter().flatten().any(|s| dst_bytes.iter().flatten().any(|d| s.meets(d)));
        if !needed {
            return Ok((src, false));
        }
        for k in 0..pairs {
            let inst_name = self.mover(g, "pack", k, pairs);
            let names = self.fresh_names(&format!("{}_pack_src", g.name));
            for (core, m) in g.members.iter().enumerate() {
                let from = src[core][k].clone();
                let mem = match self.mem(m.module, from.loc) {
                    MemoryType::Sb | MemoryType::Psum => MemoryType::Sb,
                    MemoryType::Unallocated
                    | MemoryType::Input
                    | MemoryType::Output
                    | MemoryType::Dram
                    | MemoryType::RngState
                    | MemoryType::Reg => MemoryType::Dram,
                };
                let (_, tile) = self.temporary(m.module, m.func, &names, &from, mem);
                let copy = self.local_copy(g, core, &inst_name, &from, &tile);
                self.emit(g, made, core, copy);
                src[core][k] = tile;
            }
        }
        Ok((src, true))
    }
}
