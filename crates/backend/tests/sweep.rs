//! The legality of a GPSIMD swap over the full product of dtypes, sizes, ranks, partition starts, memories, core counts and
//! architectures, against the rule stated here in other words.

mod common;
use common::*;
use tandem_backend::passes::lower_local_collectives::LowerLocalCollectives;
use tandem_bir::analysis::sb2sb::compatibility;
use tandem_bir::*;

const ELEMS: [u64; 9] = [1, 16, 64, 128, 255, 256, 257, 512, 1024];
const MEMS: [MemoryType; 3] = [MemoryType::Sb, MemoryType::Psum, MemoryType::Dram];
const ARCHS: [ArchLevel; 4] = [ArchLevel::Inferentia, ArchLevel::Sunda, ArchLevel::Gen3, ArchLevel::CoreV4];

/// Free extents of a pattern of `rank` pairs and `n` elements per partition: twos in front as long as they divide.
fn extents(rank: usize, n: u64) -> Vec<u64> {
    let mut rest = n;
    let mut out = Vec::new();
    for _ in 2..rank {
        let f = if rest.is_multiple_of(2) && rest > 2 { 2 } else { 1 };
        out.push(f);
        rest /= f;
    }
    if rank > 1 {
        out.push(rest);
    }
    out
}

/// The pattern with gaps, so that no two pairs are contiguous. 32 partitions from `start`.
fn pattern(l: MemLocId, d: Dtype, pitch: u64, start: u64, ext: &[u64]) -> AccessPattern {
    let mut pairs = vec![(pitch as i64, 32)];
    let mut step = 2i64;
    let mut steps = Vec::new();
    for &n in ext.iter().rev() {
        steps.push((step, n));
        step = step * n as i64 + 1;
    }
    pairs.extend(steps.into_iter().rev());
    AccessPattern::new(l, d, (start * pitch) as i64, &pairs)
}

/// The rule: two cores, gen3 or later, SBUF on both sides, two to five pairs of which at most three free ones repeat, and no
/// more than 1024 bytes per partition when every element takes at least four.
fn legal(lnc: u32, arch: ArchLevel, mem: MemoryType, d: Dtype, rank: usize, ext: &[u64]) -> bool {
    let width = match d {
        Dtype::Uint64 | Dtype::Int64 => 8,
        _ => 4,
    };
    let elems: u64 = ext.iter().product();
    lnc == 2
        && matches!(arch, ArchLevel::Gen3 | ArchLevel::CoreV4 | ArchLevel::CoreV5)
        && mem == MemoryType::Sb
        && (2..=5).contains(&rank)
        && ext.iter().filter(|n| **n > 1).count() < 4
        && elems * width <= 1024
}

#[test]
fn the_full_product() {
    let (mut cases, mut yes) = (0u32, 0u32);
    for &mem in &MEMS {
        for &d in Dtype::ALL {
            let mut b = program(2);
            let row = 8192u64;
            for c in 0..2 {
                for n in ["x", "y"] {
                    b.loc_on(c, n, (mem, TensorKind::Internal, AddressSpace::Local), d, [128, row]);
                }
            }
            let x = b.p.modules[0].find_location(b.f[0], "x").unwrap();
            let y = b.p.modules[0].find_location(b.f[0], "y").unwrap();
            for &arch in &ARCHS {
                for &n in &ELEMS {
                    for rank in 1..=6usize {
                        let ext = extents(rank, n);
                        for start in [0u64, 32, 64, 96] {
                            for lnc in [1u32, 2] {
                                let (s, t) =
                                    (pattern(x, d, row, start, &ext), pattern(y, d, row, start, &ext));
                                let got = compatibility(lnc, arch, &s, &t, &b.p.modules[0]).holds();
                                let want = legal(lnc, arch, mem, d, rank, &ext);
                                assert_eq!(
                                    got, want,
                                    "{mem} {d} {arch} {n} rank {rank} at {start} lnc {lnc}"
                                );
                                cases += 1;
                                yes += u32::from(want);
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(cases > 70_000 && yes > 2_000 && yes < cases / 4, "{cases} {yes}");
}

/// The lowering takes the path that the rule gives, for every case that reaches it.
#[test]
fn the_lowering_follows_the_rule() {
    for &mem in &MEMS {
        for &d in Dtype::ALL {
            for &arch in &[ArchLevel::Gen3, ArchLevel::CoreV4] {
                let mut b = program(2);
                let row = 8192u64;
                let mut want = Vec::new();
                for c in 0..2 {
                    b.p.modules[c].arch = arch;
                    for n in ["x", "y"] {
                        b.loc_on(c, n, (mem, TensorKind::Internal, AddressSpace::Local), d, [128, row]);
                    }
                }
                let x = b.p.modules[0].find_location(b.f[0], "x").unwrap();
                let y = b.p.modules[0].find_location(b.f[0], "y").unwrap();
                for &n in &ELEMS {
                    for rank in 1..=6usize {
                        let ext = extents(rank, n);
                        for start in [0u64, 32, 64, 96] {
                            let (s, t) = (pattern(x, d, row, start, &ext), pattern(y, d, row, start, &ext));
                            let name = format!("s{}", want.len());
                            b.all(|_, c| sendrecv(&name, 1 - c as i64, 1 - c as i64, s.clone(), t.clone()));
                            want.push(if legal(2, arch, mem, d, rank, &ext) { "gpsimd" } else { "dma" });
                        }
                    }
                }
                let o = b.opts();
                let cx = b.run(&LowerLocalCollectives, &o);
                let got: Vec<&str> = cx.decisions.iter().map(|r| r.transport).collect();
                assert_eq!(got, want, "{mem} {d} {arch}");
            }
        }
    }
}
