//! Chip generations and their geometry.
//!
//! Source: the specification, file 09 §2.1, file 05 §2, decision D19 of file 00 (documented unless said).

crate::bir_enum! {
    /// Architecture level as BIR names it. `inferentia` and `core_v5` are names only: no hardware model.
    pub enum ArchLevel {
        Inferentia = 10 => "inferentia", Sunda = 20 => "sunda", Gen3 = 30 => "gen3", CoreV4 = 40 => "core_v4", CoreV5 = 50 => "core_v5",
    }
}

/// Geometry and limits of one generation. Sizes in bytes unless said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchSpec {
    /// Level this describes.
    pub level: ArchLevel,
    /// Command-line name (`trn2`).
    pub target: &'static str,
    /// SBUF and PSUM partitions.
    pub partitions: u64,
    /// SBUF array, bytes per partition.
    pub sbuf_bytes: u64,
    /// SBUF bytes per partition that our allocator and KLR addresses may use (decision D19).
    pub sbuf_usable: u64,
    /// PSUM bytes per partition (all banks).
    pub psum_bytes: u64,
    /// Bytes of one PSUM bank per partition.
    pub psum_bank_bytes: u64,
    /// Largest number of cores of one LNC.
    pub max_lnc: u32,
    /// HBM window of one core.
    pub hbm_bytes: u64,
}

const fn spec(
    level: ArchLevel,
    target: &'static str,
    sbuf: u64,
    usable: u64,
    max_lnc: u32,
    hbm_gib: u64,
) -> ArchSpec {
    ArchSpec {
        level,
        target,
        partitions: 128,
        sbuf_bytes: sbuf,
        sbuf_usable: usable,
        psum_bytes: 0x4000,
        psum_bank_bytes: 2048,
        max_lnc,
        hbm_bytes: hbm_gib << 30,
    }
}

static GEN2: ArchSpec = spec(ArchLevel::Sunda, "trn1", 196_608, 180_224, 1, 16);
static GEN3: ArchSpec = spec(ArchLevel::Gen3, "trn2", 229_376, 212_984, 2, 24);
static GEN4: ArchSpec = spec(ArchLevel::CoreV4, "trn3", 262_144, 245_752, 2, 36);

impl ArchLevel {
    /// Geometry of the level; `None` for levels without a hardware model here.
    pub fn spec(self) -> Option<&'static ArchSpec> {
        match self {
            ArchLevel::Sunda => Some(&GEN2),
            ArchLevel::Gen3 => Some(&GEN3),
            ArchLevel::CoreV4 => Some(&GEN4),
            ArchLevel::Inferentia | ArchLevel::CoreV5 => None,
        }
    }
    /// Level of a command-line target name (`trn1`, `trn2`, `trn3`, `gen2`, `gen3`, `gen4`).
    pub fn from_target(name: &str) -> Option<ArchLevel> {
        match name {
            "trn1" | "gen2" => Some(ArchLevel::Sunda),
            "trn2" | "gen3" => Some(ArchLevel::Gen3),
            "trn3" | "gen4" => Some(ArchLevel::CoreV4),
            _ => None,
        }
    }
}
