//! Random numbers and random state.
//!
//! Source: the specification, file 09 §6.13. GPSIMD has one XORWOW generator per partition, the Vector engine four, of
//! which column c uses number c mod 4 (our choice). Equality with the device is not claimed.

use super::tile::{self, input, misfit, output, per_part, refuse_packed, unsupported};
use super::{Decoded, ExecCx};
use crate::num::convert;
use crate::num::rng::{Mt19937_64, Stream, Xorwow, unit};
use crate::state::Fault;
use tandem_bir::{
    Attr, EngineKind, Inst, RandomAlgorithmKind as Kind, RandomDistributionKind as Distribution,
};

/// Generators per partition of an engine.
fn lanes_of(engine: EngineKind) -> usize {
    if engine == EngineKind::Pool { 1 } else { 4 }
}

fn generators<'a>(cx: &'a mut ExecCx<'_>, engine: EngineKind, partition: usize) -> &'a mut Vec<Xorwow> {
    cx.core
        .engines
        .rng
        .xorwow
        .entry((engine, partition))
        .or_insert_with(|| vec![Xorwow::default(); lanes_of(engine)])
}

/// Next 32 bits of the generator that feeds a column.
pub(crate) fn next(cx: &mut ExecCx<'_>, engine: EngineKind, partition: usize, column: usize) -> u32 {
    let g = generators(cx, engine, partition);
    let n = g.len();
    g[column % n].next_u32()
}

/// Rand2 (IT 97): uniform in `[lo, hi)`.
pub(crate) fn rand2(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    refuse_packed(d, dst)?;
    let (parts, cols) = (dst.partitions(), dst.elems_per_partition());
    let (lo, hi) = (per_part(cx, d, 0, parts)?, per_part(cx, d, 1, parts)?);
    let lane = super::accumulate::first_lane(cx, dst);
    let mut out = Vec::with_capacity(parts * cols);
    for p in 0..parts {
        for c in 0..cols {
            let u = unit(next(cx, d.engine, lane + p, c));
            out.push(lo.at(p) + (hi.at(p) - lo.at(p)) * u);
        }
    }
    let rules = cx.rules();
    tile::store_arith(cx.mem, dst, &mut out, rules);
    Ok(())
}

/// Rng (IT 100): raw bits of a stream keyed by core, engine and partition.
pub(crate) fn rng_bits(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    let (parts, cols, size) = (dst.partitions(), dst.elems_per_partition(), dst.elem_size());
    let core = cx.core.core.0;
    let lane = super::accumulate::first_lane(cx, dst);
    let mut bytes = Vec::with_capacity(dst.num_bytes());
    for p in 0..parts {
        let g = cx.core.engines.rng.keyed.entry((d.engine, lane + p)).or_insert_with(|| {
            let mut key = u64::from(core) << 32 | (d.engine as u64) << 16 | (lane + p) as u64;
            Xorwow::new(std::array::from_fn(|_| splitmix(&mut key) as u32))
        });
        for _ in 0..cols {
            let lo = u64::from(g.next_u32());
            let word = if size == 8 { u64::from(g.next_u32()) << 32 | lo } else { lo };
            bytes.extend_from_slice(&word.to_le_bytes()[..size]);
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// Rand (IT 60): one value per element from a generator of the instruction's own kind, in row order.
///
/// Generators are those of file 09 §6.13 (confirmed); how they are seeded, that each partition has its own stream keyed by
/// core, engine and partition, and that an LFSR makes `rand_num_steps` (32 unless given) steps per value are our choice.
/// `Raw` stores the low bits of the value, `Uniform` is `[0, 1)`. Nothing says how `params` describes another
/// distribution, so those are refused.
pub(crate) fn rand(cx: &mut ExecCx<'_>, d: &Decoded, inst: &Inst) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    refuse_packed(d, dst)?;
    let kind = inst.get_enum::<Kind>(Attr::RandomAlgorithm).unwrap_or(Kind::Lfsr);
    let dist = inst.get_enum::<Distribution>(Attr::Distribution).unwrap_or(Distribution::Raw);
    if matches!(dist, Distribution::Normal | Distribution::Binomial) {
        return Err(unsupported(d, format!("distribution {dist}")));
    }
    if inst.attrs.get(Attr::Params).is_some() {
        return Err(unsupported(d, "parameters of a distribution"));
    }
    let steps = inst.get_int(Attr::RandNumSteps).unwrap_or(32);
    let Ok(steps) = u32::try_from(steps).map(|n| n.clamp(1, MAX_STEPS)) else {
        return Err(misfit(format!("{}: {steps} steps", d.opcode)));
    };
    let (parts, cols) = (dst.partitions(), dst.elems_per_partition());
    let core = cx.core.core.0;
    let lane = super::accumulate::first_lane(cx, dst);
    let mut words = Vec::with_capacity(parts * cols);
    for p in lane..lane + parts {
        let key = (d.engine, p, kind as u8);
        let stream = cx.core.engines.rng.streams.entry(key).or_insert_with(|| {
            let mut seed = u64::from(core) << 32 | (d.engine as u64) << 16 | p as u64;
            Stream::new(kind, splitmix(&mut seed))
        });
        words.extend((0..cols).map(|_| stream.next_u32(steps)));
    }
    if dist == Distribution::Uniform {
        let mut out: Vec<f32> = words.into_iter().map(unit).collect();
        let rules = cx.rules();
        tile::store_arith(cx.mem, dst, &mut out, rules);
    } else {
        let size = dst.elem_size();
        let bytes: Vec<u8> =
            words.iter().flat_map(|w| u64::from(*w).to_le_bytes().into_iter().take(size)).collect();
        tile::scatter(cx.mem, dst, &bytes);
    }
    Ok(())
}

/// Most steps of an LFSR per value (our choice); more give nothing a file could want.
const MAX_STEPS: u32 = 1 << 10;

fn splitmix(s: &mut u64) -> u64 {
    *s = s.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*s ^ (*s >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// RandSetState (IT 98): `[P, 6·lanes]` words of 32 bits to the generators.
pub(crate) fn set_state(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let src = input(d, 0)?;
    let want = 6 * lanes_of(d.engine);
    if src.elem_size() != 4 || src.elems_per_partition() != want {
        return Err(misfit(format!("{}: the state is {want} words of 32 bits per partition", d.opcode)));
    }
    let bytes = tile::bytes_of(cx.mem, src);
    let lane = super::accumulate::first_lane(cx, src);
    for (p, row) in bytes.chunks_exact(4 * want).enumerate() {
        let words: Vec<u32> = row.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let g = words.as_chunks::<6>().0.iter().map(|w| Xorwow::new(*w)).collect();
        *generators(cx, d.engine, lane + p) = g;
    }
    Ok(())
}

/// RandGetState (IT 99), GetRandState (58).
pub(crate) fn get_state(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let dst = output(d, 0)?;
    let want = 6 * lanes_of(d.engine);
    if dst.elem_size() != 4 || dst.elems_per_partition() != want {
        return Err(misfit(format!("{}: the state is {want} words of 32 bits per partition", d.opcode)));
    }
    let lane = super::accumulate::first_lane(cx, dst);
    let mut bytes = Vec::new();
    for p in 0..dst.partitions() {
        for g in generators(cx, d.engine, lane + p).iter() {
            g.words.iter().for_each(|w| bytes.extend_from_slice(&w.to_le_bytes()));
        }
    }
    tile::scatter(cx.mem, dst, &bytes);
    Ok(())
}

/// SetRandState (IT 59): on GPSIMD one generator per partition from up to eight words, word 0 marked with the partition;
/// elsewhere the seed of the host generator.
pub(crate) fn seed(cx: &mut ExecCx<'_>, d: &Decoded) -> Result<(), Fault> {
    let src = input(d, 0)?;
    if src.elem_size() != 4 {
        return Err(unsupported(d, format!("a seed of type {}", src.dtype)));
    }
    let mut words = Vec::new();
    convert::to_int(src.dtype, &tile::bytes_of(cx.mem, src), &mut words);
    if d.engine != EngineKind::Pool {
        let seed = words.first().copied().unwrap_or(0) as u32;
        cx.core.engines.rng.host = Mt19937_64::new(u64::from(seed));
        return Ok(());
    }
    let per = src.elems_per_partition();
    let lane = super::accumulate::first_lane(cx, src);
    for p in 0..tile_partitions(src.partitions()) {
        let row = &words[(p % src.partitions()) * per..];
        let word = |i: usize| if i < per { row[i] as u32 } else { u32::MAX };
        let lane = if src.partitions() == 1 { p } else { lane + p };
        let w0 = (lane as u32) << 24 | (word(0) & 0x00FF_FFFF);
        *generators(cx, EngineKind::Pool, lane) =
            vec![Xorwow::new([w0, word(1), word(2), word(3), word(4), word(5)])];
    }
    Ok(())
}

/// A seed of one partition seeds all of them.
fn tile_partitions(given: usize) -> usize {
    if given == 1 { super::state::LANES } else { given }
}
