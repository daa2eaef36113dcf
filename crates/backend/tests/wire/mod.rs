//! A core without a program, to encode and decode single instructions.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use tandem_backend::decode::draft::DecodeCtx;
use tandem_backend::decode::patch::{Patch, apply_attrs};
use tandem_backend::decode::{Piece, pieces};
use tandem_backend::encode::codec::EncodeCtx;
use tandem_backend::encode::desc::Geometry;
use tandem_backend::encode::dma::{self, DmaCtx, Place};
use tandem_backend::encode::phys::{self, CoreEnv};
use tandem_backend::encode::{Bundle, Encoded, Surroundings, WireError, encode_inst};
use tandem_bir::{
    AccessPattern, AddressSpace, ArchLevel, Dtype, EngineKind, Inst, MemLocId, MemoryLocation,
    MemoryLocationSet, MemoryType, Module, Operand, RegId, SetId, TensorKind,
};

/// SBUF, PSUM and six variables of 128 x 2048 bytes; variable 6 is a remote SBUF tile, the others DRAM.
pub struct Bench {
    pub module: Module,
    pub geo: Geometry,
}

impl Bench {
    pub fn new(arch: ArchLevel) -> Bench {
        let spec = arch.spec().unwrap();
        let mut m = Module::new("bench", None, arch);
        let f = m.add_function("main");
        let mut add = |name: &str, mem: MemoryType, dims: &[u64]| {
            let set =
                MemoryLocationSet::new(name, Dtype::Uint8, TensorKind::Internal, AddressSpace::Local, dims);
            let mut l = MemoryLocation::new(name, SetId::from_u32(0), mem, dims);
            l.allocated = true;
            if name == "var6" {
                l.remote_local_target =
                    Some(tandem_bir::RemoteTarget { name: "x".into(), core: tandem_bir::CoreId(1) });
            }
            m.add_location(f, set, l)
        };
        add("sbuf", MemoryType::Sb, &[128, spec.sbuf_bytes]);
        add("psum", MemoryType::Psum, &[128, spec.psum_bytes]);
        for v in 1..=6 {
            let mem = if v == 6 { MemoryType::Sb } else { MemoryType::Dram };
            add(&format!("var{v}"), mem, &[128, 2048]);
        }
        Bench { module: m, geo: phys::geometry(spec) }
    }

    fn place(&self, l: MemLocId) -> Option<Place> {
        self.module.memlocs.get(l).map(|l| Place { mem: l.mem, row_bytes: l.row_bytes() })
    }

    /// An SBUF operand: base partition, partitions, byte, free pairs.
    pub fn sb(&self, base: u64, n: u64, byte: u64, d: Dtype, free: &[(i64, u64)]) -> Operand {
        self.on(self.geo.sbuf, self.geo.spec.sbuf_bytes, base, n, byte, d, free)
    }
    /// A PSUM operand.
    pub fn psum(&self, base: u64, n: u64, byte: u64, d: Dtype, free: &[(i64, u64)]) -> Operand {
        self.on(self.geo.psum, self.geo.spec.psum_bytes, base, n, byte, d, free)
    }
    #[allow(clippy::too_many_arguments, reason = "a test helper")]
    fn on(
        &self,
        loc: MemLocId,
        row: u64,
        base: u64,
        n: u64,
        byte: u64,
        d: Dtype,
        free: &[(i64, u64)],
    ) -> Operand {
        let pitch = (row / d.bytes()) as i64;
        let offset = base as i64 * pitch + (byte / d.bytes()) as i64;
        let pairs: Vec<(i64, u64)> = std::iter::once((pitch, n)).chain(free.iter().copied()).collect();
        Operand::Ap(AccessPattern::new(loc, d, offset, &pairs))
    }
    /// An operand in a variable.
    pub fn var(&self, v: u32, d: Dtype, offset: i64, pairs: &[(i64, u64)]) -> Operand {
        Operand::Ap(AccessPattern::new(phys::var_location(v), d, offset, pairs))
    }

    pub fn with_ctx<T>(&self, f: impl FnOnce(&EncodeCtx<'_>) -> T) -> T {
        f(&EncodeCtx { geo: self.geo, displacement: 0, var_of: &phys::location_var })
    }

    pub fn encode_full(&self, i: &Inst, engine: EngineKind, to: i64) -> Result<Encoded, WireError> {
        let env = CoreEnv {
            module: &self.module,
            geo: self.geo,
            vars: &|l| phys::location_var(l),
            regs: &|r: RegId| u8::try_from(r.as_u32()).ok(),
            peer_dst: None,
        };
        let places = |l: MemLocId| self.place(l);
        let around = Surroundings {
            lnc: 2,
            bf21: Default::default(),
            places: &places,
            var_loc: &|v| (v <= 6).then(|| phys::var_location(v)),
            whole_var: &|v| self.whole(v),
        };
        encode_inst(i, engine, to, &env, &around)
    }

    fn whole(&self, v: u32) -> Option<AccessPattern> {
        let l = phys::var_location(v);
        Some(AccessPattern::whole(l, self.module.memlocs.get(l)?, Dtype::Uint8))
    }

    pub fn encode(&self, i: &Inst) -> Result<Vec<Bundle>, WireError> {
        Ok(self.encode_full(i, i.engine, 0)?.records.to_vec())
    }

    /// Decodes the records of one instruction without a patch.
    pub fn decode(&self, records: &[Bundle]) -> Result<Inst, WireError> {
        self.decode_patched(records, &Patch::default())
    }

    pub fn decode_patched(&self, records: &[Bundle], patch: &Patch) -> Result<Inst, WireError> {
        let places = |l: MemLocId| self.place(l);
        let dctx = DecodeCtx {
            geo: self.geo,
            var_loc: &|v| (v <= 6).then(|| phys::var_location(v)),
            whole_var: &|v| self.whole(v),
        };
        let list = pieces(records);
        assert_eq!(list.len(), 1, "one instruction");
        match list[0].clone()? {
            (_, Piece::Rows(g)) => {
                let d = tandem_backend::decode::draft::decode_group(records, g, &dctx)?;
                Ok(patch.finish(d, &dctx)?.0)
            }
            (_, Piece::Dma) => {
                let mut i = dma::decode(records, &DmaCtx { geo: self.geo, places: &places }, patch)?;
                apply_attrs(&mut i, patch);
                Ok(i)
            }
            (_, Piece::Collective) => {
                let dma = DmaCtx { geo: self.geo, places: &places };
                let mut i = tandem_backend::encode::collective::decode(records, &dma, patch)?;
                apply_attrs(&mut i, patch);
                Ok(i)
            }
        }
    }
}
