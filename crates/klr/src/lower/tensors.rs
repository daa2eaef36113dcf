//! Tensors become storage: one location per address name and core.
//!
//! Identity is the name of the *address*; a view is another [`TensorName`] over the same address and finds the same
//! location. Kinds and address spaces follow the specification, file 04 §3.3. Locations are unallocated unless the
//! file gives both offsets; giving places to the others is a pass of the backend. Addresses of the file must lie in
//! the part of the memory a kernel may use (decision D19).

use super::access::Bound;
use super::fail::{Fail, Res};
use super::{Core, enums};
use crate::ast as k;
use std::sync::Arc;
use tandem_bir::diag::codes;
use tandem_bir::{
    AddressSpace, CompactString, Dtype, MemLocId, MemoryLocation, MemoryLocationSet, MemoryType, SetId,
    TensorClass, TensorKind, entity::EntityRef,
};

/// Partitions of SBUF and PSUM.
const PARTITIONS: u64 = 128;

/// Names of compiler-made tensors start so.
const RESERVED: &str = "COMPILER-GENERATED-";

/// What a location was minted from; a second tensor over the same address must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub loc: MemLocId,
    pub memory: k::Memory,
    pub par_size: u64,
    pub free_size: u64,
}

/// Role of a tensor when its location is minted.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub kind: TensorKind,
    pub space: AddressSpace,
    pub file: Option<CompactString>,
}

impl Role {
    pub(crate) fn internal() -> Role {
        Role { kind: TensorKind::Internal, space: AddressSpace::Local, file: None }
    }
}

/// A set of this name, kind and type with nothing else known.
pub(crate) fn plain_set(
    name: &str,
    dtype: Dtype,
    role: &Role,
    class: TensorClass,
    shape: &[u64],
) -> MemoryLocationSet {
    MemoryLocationSet {
        class,
        file: role.file.clone(),
        ..MemoryLocationSet::new(name, dtype, role.kind, role.space, shape)
    }
}

impl Core<'_> {
    /// The location and geometry of a tensor, minted at its first use.
    pub(crate) fn bind(&mut self, t: &Arc<k::TensorName>) -> Res<Bound> {
        let key = Arc::as_ptr(t) as usize;
        if let Some(bound) = self.bound.get(&key) {
            return Ok(*bound);
        }
        let region = match self.regions.get(&t.address.name) {
            Some(region) => {
                let a = &t.address;
                // The rows of a tensor in memory are a way to count: a reshape cuts the same bytes into other rows.
                let recut = !matches!(a.memory, k::Memory::Sbuf | k::Memory::Psum)
                    && region.par_size.checked_mul(region.free_size) == a.par_size.checked_mul(a.free_size);
                let equal = (region.par_size, region.free_size) == (a.par_size, a.free_size);
                if region.memory != a.memory || !(equal || recut) {
                    return Err(Fail::new(
                        codes::K0064,
                        format!(
                            "address `{}` is used as {} {}x{} bytes and as {} {}x{} bytes",
                            a.name,
                            region.memory,
                            region.par_size,
                            region.free_size,
                            a.memory,
                            a.par_size,
                            a.free_size
                        ),
                    ));
                }
                *region
            }
            None => {
                let role = self.role_of(t);
                let shared_candidate = role.kind == TensorKind::Internal
                    && matches!(t.address.memory, k::Memory::Hbm | k::Memory::SharedHbm);
                let region = self.mint(t, role)?;
                if shared_candidate {
                    self.hbm_internal.push(region.loc);
                }
                region
            }
        };
        let dtype = enums::dtype(t.dtype);
        let bound = Bound {
            loc: region.loc,
            dtype,
            on_chip: matches!(region.memory, k::Memory::Sbuf | k::Memory::Psum),
            rows: t.shape.par_dim,
            row_elems: t.shape.free_elements().unwrap_or(u64::MAX),
            region_bytes: region.free_size,
        };
        self.bound.insert(key, bound);
        Ok(bound)
    }

    fn role_of(&self, t: &k::TensorName) -> Role {
        match self.plan.constant_file(t) {
            Some(file) => {
                Role { kind: TensorKind::Const, space: AddressSpace::Local, file: Some(file.clone()) }
            }
            None => Role::internal(),
        }
    }

    /// Mints the location of a tensor. Addresses outside their memory are reported once, here.
    pub(crate) fn mint(&mut self, t: &k::TensorName, role: Role) -> Res<Region> {
        let a = &t.address;
        if a.name.starts_with(RESERVED) {
            let text = format!("address `{}` has a name that is kept for tensors of the compiler", a.name);
            return Err(Fail::new(codes::K0064, text));
        }
        let (mem, class) = match a.memory {
            k::Memory::Hbm | k::Memory::SharedHbm | k::Memory::PrivateHbm => {
                (MemoryType::Dram, TensorClass::Tensor)
            }
            k::Memory::Sbuf => (MemoryType::Sb, TensorClass::NeuronSbTensor),
            k::Memory::Psum => (MemoryType::Psum, TensorClass::NeuronPsumTensor),
            k::Memory::Reg => {
                return Err(Fail::new(
                    codes::K0063,
                    format!("tensor `{}` lies in registers; such operands are not supported", t.name),
                ));
            }
        };
        let mut set = plain_set(&a.name, enums::dtype(t.dtype), &role, class, &t.shape.dims());
        set.do_not_rotate = !t.address_rotation;
        let mut loc = MemoryLocation::new(&a.name, SetId::new(0), mem, &[a.par_size, a.free_size]);
        loc.tensor_id = self.kernel.tensor_id(&a.name);
        self.place(&mut loc, t);
        let id = self.m.add_location(self.f, set, loc);
        let region = Region { loc: id, memory: a.memory, par_size: a.par_size, free_size: a.free_size };
        self.regions.insert(a.name.clone(), region);
        Ok(region)
    }

    /// Fills in the address the file gives, and reports what does not fit its memory.
    fn place(&mut self, loc: &mut MemoryLocation, t: &k::TensorName) {
        let a = &t.address;
        let placed = a.par_offset.zip(a.free_offset);
        let (par, free) = placed.unwrap_or((0, 0));
        let what = |text: String| Fail::new(codes::K0060, text);
        if loc.is_on_chip() && par.saturating_add(a.par_size) > PARTITIONS {
            self.report(*what(format!(
                "tensor `{}` takes partitions {par} to {}, the {} has {PARTITIONS}",
                a.name,
                par.saturating_add(a.par_size).saturating_sub(1),
                memory_name(loc.mem)
            )));
        }
        let limit = match loc.mem {
            MemoryType::Sb => Some(self.plan.arch.sbuf_usable),
            MemoryType::Psum => Some(self.plan.arch.psum_bytes),
            MemoryType::Dram
            | MemoryType::Unallocated
            | MemoryType::Input
            | MemoryType::Output
            | MemoryType::RngState
            | MemoryType::Reg => None,
        };
        if let Some(limit) = limit
            && free.saturating_add(a.free_size) > limit
        {
            self.report(*what(format!(
                "tensor `{}` takes bytes {free} to {} of its partitions, the {} has {limit} usable bytes",
                a.name,
                free.saturating_add(a.free_size).saturating_sub(1),
                memory_name(loc.mem)
            )));
        }
        if placed.is_none() {
            return;
        }
        loc.allocated = true;
        loc.user_allocated = true;
        match loc.mem {
            MemoryType::Psum => {
                loc.base = u32::try_from(par).unwrap_or(u32::MAX);
                loc.bank = i64::try_from(free / self.plan.arch.psum_bank_bytes).unwrap_or(i64::MAX);
                loc.addr = free % self.plan.arch.psum_bank_bytes;
            }
            MemoryType::Sb => {
                loc.base = u32::try_from(par).unwrap_or(u32::MAX);
                loc.addr = free;
            }
            MemoryType::Dram
            | MemoryType::Unallocated
            | MemoryType::Input
            | MemoryType::Output
            | MemoryType::RngState
            | MemoryType::Reg => loc.addr = par.saturating_mul(a.free_size).saturating_add(free),
        }
    }

    /// An SBUF tensor that no kernel names, unallocated.
    pub(crate) fn mint_helper(&mut self, name: &str, dtype: Dtype, rows: u64, elems: u64) -> MemLocId {
        let set = plain_set(name, dtype, &Role::internal(), TensorClass::NeuronSbTensor, &[rows, elems]);
        let dims = [rows, elems.saturating_mul(dtype.bytes())];
        let mut loc = MemoryLocation::new(name, SetId::new(0), MemoryType::Sb, &dims);
        loc.tensor_id = self.kernel.tensor_id(name);
        self.m.add_location(self.f, set, loc)
    }

    /// The location of an allocated HBM view, kind Const: `(location, elements)`.
    pub(crate) fn bind_hbm_view(&mut self, v: &k::TensorHbm) -> Res<(MemLocId, u64)> {
        let elems = v.dims.iter().try_fold(1u64, |n, p| n.checked_mul(p.num)).unwrap_or(u64::MAX);
        let dtype = enums::dtype(v.dtype);
        let bytes = v.address.saturating_add(elems).saturating_mul(dtype.bytes());
        if let Some(region) = self.regions.get(&v.name) {
            return Ok((region.loc, elems));
        }
        let file = self.plan.constants.get(v.name.as_str()).cloned();
        if file.is_none() {
            return Err(Fail::new(codes::K0065, format!("constant `{}` has no file", v.name)));
        }
        let role = Role { kind: TensorKind::Const, space: AddressSpace::Local, file };
        let shape: Vec<u64> = v.dims.iter().map(|p| p.num).collect();
        let set = plain_set(&v.name, dtype, &role, TensorClass::Tensor, &shape);
        let mut loc = MemoryLocation::new(&v.name, SetId::new(0), MemoryType::Dram, &[1, bytes]);
        loc.tensor_id = self.kernel.tensor_id(&v.name);
        let id = self.m.add_location(self.f, set, loc);
        let region = Region { loc: id, memory: k::Memory::Hbm, par_size: 1, free_size: bytes };
        self.regions.insert(v.name.clone(), region);
        Ok((id, elems))
    }
}

fn memory_name(mem: MemoryType) -> &'static str {
    if mem == MemoryType::Psum { "PSUM" } else { "SBUF" }
}
