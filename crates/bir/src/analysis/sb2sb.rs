//! When a swap may run as one GPSIMDSB2SB instruction: the predicates of the instruction type, each with its number.
//!
//! Source: the specification, file 06 §7.3–7.4; the order C1–C8 and the two tests V1, V2 before it are documented, the
//! readings of C4, C5 and C7 are our choice (decision D10). The knob `sendrecv-to-gpsimd-max-bpp` is not part of the
//! type's rule: the lowering compares it with [`Compatibility::effective_bytes`] itself.
//!
//! Every predicate is evaluated, also after the first that fails, so that `explain` can show them all.

use crate::ap::AccessPattern;
use crate::arch::ArchLevel;
use crate::dtype::Dtype;
use crate::enums::{BirEnum, EngineKind, MemoryType};
use crate::inst::Inst;
use crate::module::Module;

/// Hard ceiling of the effective bytes per partition of a GPSIMD swap (C8, documented).
pub const MAX_BYTES_PER_PARTITION: u64 = 1024;
/// Free pairs a 3-D descriptor of the swap holds (second half of C5).
pub const MAX_FREE_PAIRS: usize = 3;
/// Ranks, partition dimension included, that C5 admits.
pub const RANKS: std::ops::RangeInclusive<usize> = 2..=5;

/// One predicate of the rule, in evaluation order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Predicate {
    /// The engine is Unassigned or Pool.
    V1,
    /// Both operand lists have an entry.
    V2,
    /// The LNC has two cores.
    C1,
    /// The architecture is gen3 or later.
    C2,
    /// Source and destination have one dtype.
    C3,
    /// Source and destination have equal partitions and elements per partition.
    C4,
    /// The rank of both patterns is 2 to 5, and at most three free pairs remain after merging.
    C5,
    /// Both locations lie in SBUF.
    C6,
    /// Both patterns are static.
    C7,
    /// The effective bytes per partition are within the ceiling.
    C8,
}

impl Predicate {
    /// The predicates of `isCompatible`, in order.
    pub const COMPATIBLE: [Predicate; 8] = [
        Predicate::C1,
        Predicate::C2,
        Predicate::C3,
        Predicate::C4,
        Predicate::C5,
        Predicate::C6,
        Predicate::C7,
        Predicate::C8,
    ];
    /// Short name (`C5`).
    pub fn id(self) -> &'static str {
        match self {
            Predicate::V1 => "V1",
            Predicate::V2 => "V2",
            Predicate::C1 => "C1",
            Predicate::C2 => "C2",
            Predicate::C3 => "C3",
            Predicate::C4 => "C4",
            Predicate::C5 => "C5",
            Predicate::C6 => "C6",
            Predicate::C7 => "C7",
            Predicate::C8 => "C8",
        }
    }
    /// What must hold, for people.
    pub fn text(self) -> &'static str {
        match self {
            Predicate::V1 => "the engine is unassigned or Pool",
            Predicate::V2 => "the instruction has an input and an output in memory",
            Predicate::C1 => "the LNC has 2 cores",
            Predicate::C2 => "the architecture is gen3 or later (ArchLevel > 29)",
            Predicate::C3 => "source and destination have the same dtype",
            Predicate::C4 => {
                "source and destination have the same partition count and elements per partition"
            }
            Predicate::C5 => {
                "both patterns have rank 2 to 5, and at most 3 free pairs after dropping unit pairs and merging"
            }
            Predicate::C6 => "source and destination lie in SBUF",
            Predicate::C7 => "neither pattern is dynamic",
            Predicate::C8 => "effective bytes per partition <= 1024",
        }
    }
}

/// One evaluated predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredicateResult {
    /// Which.
    pub predicate: Predicate,
    /// Short name (`C5`).
    pub id: &'static str,
    /// What must hold.
    pub text: &'static str,
    /// The value it was decided on, for people.
    pub value: String,
    /// Whether it holds.
    pub holds: bool,
}

/// The verdict on one swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// Every predicate evaluated, in order.
    pub predicates: Vec<PredicateResult>,
    /// Effective bytes per partition of the source.
    pub effective_bytes: u64,
    /// Plain bytes per partition of the source.
    pub bytes: u64,
    /// The only failure is that more than three free pairs remain: a repack into a dense tile would help (decision D7).
    pub only_needs_repack: bool,
}

impl Compatibility {
    /// All predicates hold.
    pub fn holds(&self) -> bool {
        self.predicates.iter().all(|p| p.holds)
    }
    /// The first predicate that does not hold.
    pub fn first_failure(&self) -> Option<&PredicateResult> {
        self.predicates.iter().find(|p| !p.holds)
    }
}

/// One side of a swap, as the rule looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Side {
    dtype: Dtype,
    partitions: u64,
    elems: u64,
    rank: usize,
    merged_free_pairs: usize,
    mem: Option<MemoryType>,
    is_static: bool,
}

impl Side {
    fn of(module: &Module, ap: &AccessPattern) -> Side {
        Side {
            dtype: ap.dtype,
            partitions: ap.num_partitions(),
            elems: ap.elems_per_partition(),
            rank: ap.pairs.len(),
            merged_free_pairs: ap.merged_free_pairs().len(),
            mem: module.memlocs.get(ap.loc).map(|l| l.mem),
            is_static: ap.is_static(),
        }
    }
    fn bytes(&self) -> u64 {
        self.elems.saturating_mul(self.dtype.bytes())
    }
    fn effective_bytes(&self) -> u64 {
        self.bytes().saturating_mul(self.dtype.sb2sb_factor())
    }
}

/// Everything the rule looks at: swaps of equal measure get equal verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Measure {
    lnc: u32,
    arch: ArchLevel,
    src: Side,
    dst: Side,
}

impl Measure {
    /// Measures a swap of the local tiles `src` and `dst` of `module`, on an LNC of `lnc` cores at level `arch`.
    pub fn of(
        lnc: u32,
        arch: ArchLevel,
        src: &AccessPattern,
        dst: &AccessPattern,
        module: &Module,
    ) -> Measure {
        Measure { lnc, arch, src: Side::of(module, src), dst: Side::of(module, dst) }
    }

    /// Elements per partition of the source.
    pub fn elems_per_partition(&self) -> u64 {
        self.src.elems
    }

    fn rank_ok(&self) -> bool {
        RANKS.contains(&self.src.rank) && RANKS.contains(&self.dst.rank)
    }

    fn holds(&self, p: Predicate) -> bool {
        let (s, d) = (&self.src, &self.dst);
        match p {
            Predicate::V1 | Predicate::V2 => true,
            Predicate::C1 => self.lnc == 2,
            Predicate::C2 => self.arch.ordinal() > 29,
            Predicate::C3 => s.dtype == d.dtype,
            Predicate::C4 => s.partitions == d.partitions && s.elems == d.elems,
            Predicate::C5 => {
                self.rank_ok()
                    && s.merged_free_pairs <= MAX_FREE_PAIRS
                    && d.merged_free_pairs <= MAX_FREE_PAIRS
            }
            Predicate::C6 => s.mem == Some(MemoryType::Sb) && d.mem == Some(MemoryType::Sb),
            Predicate::C7 => s.is_static && d.is_static,
            Predicate::C8 => s.effective_bytes() <= MAX_BYTES_PER_PARTITION,
        }
    }

    fn value(&self, p: Predicate) -> String {
        let (s, d) = (&self.src, &self.dst);
        let mem = |s: &Side| s.mem.map_or("unknown", BirEnum::name);
        match p {
            Predicate::V1 | Predicate::V2 => String::new(),
            Predicate::C1 => self.lnc.to_string(),
            Predicate::C2 => format!("{} ({})", self.arch, self.arch.ordinal()),
            Predicate::C3 => format!("{} -> {}", s.dtype, d.dtype),
            Predicate::C4 => {
                format!("{} x {} -> {} x {}", s.partitions, s.elems, d.partitions, d.elems)
            }
            Predicate::C5 => format!(
                "rank {} -> {}, merged free pairs {} -> {}",
                s.rank, d.rank, s.merged_free_pairs, d.merged_free_pairs
            ),
            Predicate::C6 => format!("{} -> {}", mem(s), mem(d)),
            Predicate::C7 => {
                let word = |s: &Side| if s.is_static { "static" } else { "dynamic" };
                format!("{} -> {}", word(s), word(d))
            }
            Predicate::C8 => {
                format!("{} ({} bytes x {})", s.effective_bytes(), s.bytes(), s.dtype.sb2sb_factor())
            }
        }
    }

    /// The verdict, C1–C8.
    pub fn judge(&self) -> Compatibility {
        let predicates: Vec<PredicateResult> = Predicate::COMPATIBLE
            .into_iter()
            .map(|p| PredicateResult {
                predicate: p,
                id: p.id(),
                text: p.text(),
                value: self.value(p),
                holds: self.holds(p),
            })
            .collect();
        let only_c5 = predicates.iter().all(|p| p.holds != (p.predicate == Predicate::C5));
        Compatibility {
            predicates,
            effective_bytes: self.src.effective_bytes(),
            bytes: self.src.bytes(),
            only_needs_repack: only_c5 && self.rank_ok(),
        }
    }
}

/// Judges a swap of the local tiles `src` and `dst` of `module`, on an LNC of `lnc` cores at level `arch`: C1–C8.
pub fn compatibility(
    lnc: u32,
    arch: ArchLevel,
    src: &AccessPattern,
    dst: &AccessPattern,
    module: &Module,
) -> Compatibility {
    Measure::of(lnc, arch, src, dst, module).judge()
}

/// The first predicate that fails, without evaluating texts: [`compatibility`] in a form that allocates nothing.
pub fn first_failure(
    lnc: u32,
    arch: ArchLevel,
    src: &AccessPattern,
    dst: &AccessPattern,
    module: &Module,
) -> Option<Predicate> {
    let swap = Measure::of(lnc, arch, src, dst, module);
    Predicate::COMPATIBLE.into_iter().find(|p| !swap.holds(*p))
}

/// The tests V1 and V2, then C1–C8, of a GPSIMDSB2SB instruction; the first that fails. An operand that is not a
/// plain memory pattern fails V2 when missing and C7 when of another kind.
pub fn verify_inst(lnc: u32, module: &Module, inst: &Inst) -> Option<Predicate> {
    if !matches!(inst.engine, EngineKind::Unassigned | EngineKind::Pool) {
        return Some(Predicate::V1);
    }
    let (Some(src), Some(dst)) = (inst.ins.first(), inst.outs.first()) else { return Some(Predicate::V2) };
    match (src.as_ap(), dst.as_ap()) {
        (Some(s), Some(d)) => first_failure(lnc, module.arch, s, d, module),
        _ => Some(Predicate::C7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::EntityRef;
    use crate::ids::CoreId;
    use crate::inst::Opcode;
    use crate::memloc::{MemoryLocation, MemoryLocationSet};
    use crate::{AddressSpace, DynamicAp, MemLocId, SetId, TensorClass, TensorKind};

    fn module(mem: MemoryType) -> (Module, MemLocId, MemLocId) {
        let mut m = Module::new("nc00", Some(CoreId(0)), ArchLevel::Gen3);
        let f = m.add_function("f");
        let mut add = |n: &str, mem| {
            let set = MemoryLocationSet {
                class: TensorClass::NeuronLocalTensor,
                ..MemoryLocationSet::new(
                    n,
                    Dtype::Float32,
                    TensorKind::Internal,
                    AddressSpace::Local,
                    &[128, 8192],
                )
            };
            m.add_location(f, set, MemoryLocation::new(n, SetId::new(0), mem, &[128, 32768]))
        };
        let a = add("a", MemoryType::Sb);
        let b = add("b", mem);
        (m, a, b)
    }

    fn ap(l: MemLocId, d: Dtype, n: u64) -> AccessPattern {
        AccessPattern::new(l, d, 0, &[(32768 / d.bytes() as i64, 128), (1, n)])
    }

    fn first(
        lnc: u32,
        arch: ArchLevel,
        s: &AccessPattern,
        d: &AccessPattern,
        m: &Module,
    ) -> Option<&'static str> {
        let c = compatibility(lnc, arch, s, d, m);
        assert_eq!(c.first_failure().map(|p| p.predicate), first_failure(lnc, arch, s, d, m));
        c.first_failure().map(|p| p.id)
    }

    #[test]
    fn documented_boundary_rows_of_the_byte_rule() {
        let (m, a, b) = module(MemoryType::Sb);
        for (d, n, bytes, eff, ok) in [
            (Dtype::Float32, 64, 256, 256, true),
            (Dtype::Float32, 256, 1024, 1024, true),
            (Dtype::Float32, 257, 1028, 1028, false),
            (Dtype::Bfloat16, 256, 512, 1024, true),
            (Dtype::Uint8, 256, 256, 1024, true),
            (Dtype::Uint8, 300, 300, 1200, false),
            (Dtype::Bfloat16, 4096, 8192, 16384, false),
            (Dtype::Int64, 128, 1024, 1024, true),
        ] {
            let c = compatibility(2, ArchLevel::Gen3, &ap(a, d, n), &ap(b, d, n), &m);
            assert_eq!((c.bytes, c.effective_bytes, c.holds()), (bytes, eff, ok), "{d} {n}");
            assert_eq!(c.first_failure().map(|p| p.id), (!ok).then_some("C8"));
        }
    }

    #[test]
    fn each_predicate_fails_alone_and_in_order() {
        let (m, a, b) = module(MemoryType::Sb);
        let (s, d) = (ap(a, Dtype::Float32, 64), ap(b, Dtype::Float32, 64));
        let g3 = ArchLevel::Gen3;
        assert_eq!(first(2, g3, &s, &d, &m), None);
        assert_eq!(first(1, g3, &s, &d, &m), Some("C1"));
        assert_eq!(first(2, ArchLevel::Sunda, &s, &d, &m), Some("C2"));
        assert_eq!(first(2, g3, &s, &ap(b, Dtype::Int32, 64), &m), Some("C3"));
        assert_eq!(first(2, g3, &s, &ap(b, Dtype::Float32, 65), &m), Some("C4"));
        let one = AccessPattern::new(a, Dtype::Float32, 0, &[(8192, 64)]);
        assert_eq!(first(2, g3, &one, &AccessPattern { loc: b, ..one.clone() }, &m), Some("C5"));
        let four = AccessPattern::new(a, Dtype::Float32, 0, &[(8192, 128), (64, 2), (16, 2), (4, 2), (1, 2)]);
        let c = compatibility(2, g3, &four, &AccessPattern { loc: b, ..four.clone() }, &m);
        assert_eq!(c.first_failure().map(|p| p.id), Some("C5"));
        assert!(c.only_needs_repack);
        let six =
            AccessPattern::new(a, Dtype::Float32, 0, &[(8192, 128), (8, 1), (8, 1), (8, 1), (8, 1), (1, 2)]);
        let c = compatibility(2, g3, &six, &AccessPattern { loc: b, ..six.clone() }, &m);
        assert_eq!(c.first_failure().map(|p| p.id), Some("C5"));
        assert!(!c.only_needs_repack);
        let (m2, a2, b2) = module(MemoryType::Psum);
        assert_eq!(first(2, g3, &ap(a2, Dtype::Float32, 64), &ap(b2, Dtype::Float32, 64), &m2), Some("C6"));
        let mut dynamic = s.clone();
        dynamic.dynamic = Some(Box::new(DynamicAp { terms: vec![], indirect_dim: 0, max_index: None }));
        assert_eq!(first(2, g3, &dynamic, &d, &m), Some("C7"));
        let wide = ap(a, Dtype::Float32, 257);
        assert_eq!(first(1, ArchLevel::Sunda, &wide, &ap(b, Dtype::Int32, 64), &m), Some("C1"));
    }

    #[test]
    fn engine_and_operand_tests_come_first() {
        let (m, a, b) = module(MemoryType::Sb);
        let mut i = Inst::new("s", Opcode::GpsimdSb2Sb);
        assert_eq!(verify_inst(2, &m, &i), Some(Predicate::V2));
        i.ins.push(ap(a, Dtype::Float32, 64).into());
        i.outs.push(ap(b, Dtype::Float32, 64).into());
        assert_eq!(verify_inst(2, &m, &i), None);
        i.engine = EngineKind::Dma;
        assert_eq!(verify_inst(1, &m, &i), Some(Predicate::V1));
        i.engine = EngineKind::Pool;
        assert_eq!(verify_inst(1, &m, &i), Some(Predicate::C1));
    }
}
