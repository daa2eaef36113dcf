//! Where every memory location lives: locations to buffers of [`Memory`].
//!
//! * SB and PSUM locations with an address share one buffer per core and memory, as wide as the highest byte that an
//!   operand touches — never as large as a file claims.
//! * DRAM locations with an address share storage where their touched bytes overlap, per address space.
//! * Locations without an address, tensors at the border and constants have a buffer of their own.
//! * A shared location exists once for all cores (by function and name); an alias of another core's location is the
//!   owner's storage.
//!
//! Only locations that an operand or a port names are placed.

use crate::memory::{BufId, BufInfo, Memory, View};
use crate::options::{Fill, RunOptions};
use crate::random::SplitMix64;
use rustc_hash::FxHashMap;
use tandem_bir::diag::{Diagnostic, Site, codes};
use tandem_bir::entity::EntityRef as _;
use tandem_bir::{
    AccessPattern, AddressSpace, ArchSpec, Inst, MemLocId, MemoryLocation, MemoryType, Module, Operand,
    Program, Storage,
};

/// Placement of one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Buffer.
    pub(crate) buf: BufId,
    /// Byte of the location's first element in the buffer.
    pub(crate) base: usize,
    /// Bytes between partitions; `None` for linear memory.
    pub(crate) pitch: Option<usize>,
}

/// All placements.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Per simulated core, by location index of its module.
    pub(crate) of: Vec<Vec<Option<Place>>>,
}

/// Finds locations and functions by name.
pub(crate) struct Names<'p> {
    /// `(function, location)` names to the location.
    locs: FxHashMap<(&'p str, &'p str), MemLocId>,
    /// Function name of each location.
    func: Vec<&'p str>,
}

impl<'p> Names<'p> {
    pub(crate) fn new(m: &'p Module) -> Names<'p> {
        let mut n = Names { locs: FxHashMap::default(), func: vec![""; m.memlocs.len()] };
        for f in m.all_functions() {
            let fname = m.funcs[f].name.as_str();
            for s in &m.funcs[f].storages {
                let Storage::Set(set) = s else { continue };
                for &l in &m.sets[*set].locs {
                    n.locs.insert((fname, m.memlocs[l].name.as_str()), l);
                    if let Some(slot) = n.func.get_mut(l.index()) {
                        *slot = fname;
                    }
                }
            }
        }
        n
    }
    /// Function a location belongs to.
    pub(crate) fn func_of(&self, l: MemLocId) -> &'p str {
        self.func.get(l.index()).copied().unwrap_or("")
    }
    /// Location by function and name.
    pub(crate) fn find(&self, func: &str, loc: &str) -> Option<MemLocId> {
        self.locs.get(&(func, loc)).copied()
    }
    /// First location of this name in any function, in function order.
    pub(crate) fn find_any(&self, m: &Module, loc: &str) -> Option<MemLocId> {
        m.all_functions().find_map(|f| self.find(m.funcs[f].name.as_str(), loc))
    }
}

/// Every access pattern of an instruction: inputs, outputs, index operands.
pub(crate) fn all_aps(i: &Inst) -> impl Iterator<Item = &AccessPattern> {
    i.operands().filter_map(Operand::as_ap)
}

/// The owner of a location's storage, through aliases: `(module index, location)`.
pub(crate) fn owner<'p>(
    modules: &[&'p Module],
    names: &[Names<'p>],
    core: usize,
    loc: MemLocId,
) -> Result<(usize, MemLocId), String> {
    let (mut c, mut l) = (core, loc);
    for _ in 0..=modules.len() {
        let m = modules[c];
        let Some(t) = &m.memlocs[l].remote_local_target else { return Ok((c, l)) };
        let func = names[c].func_of(l);
        // Modules are listed subgraph by subgraph, core by core.
        let own = m.core.map_or(0, tandem_bir::CoreId::index);
        let oc = c.saturating_sub(own).saturating_add(t.core.index());
        let same = modules.get(oc).is_some_and(|o| o.subgraph == m.subgraph);
        let found = names
            .get(oc)
            .filter(|_| same)
            .and_then(|n| n.find(func, &t.name).or_else(|| n.find_any(modules[oc], &t.name)));
        let Some(ol) = found else {
            return Err(format!(
                "`{}` stands for `{}` of core {}, which does not exist",
                m.memlocs[l].name, t.name, t.core
            ));
        };
        if (oc, ol) == (c, l) {
            return Ok((c, l));
        }
        (c, l) = (oc, ol);
    }
    Err(format!("`{}` stands for an alias of an alias without end", modules[core].memlocs[loc].name))
}

/// Storage class of an owner location.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key<'p> {
    /// A core's SBUF array.
    Sbuf(usize),
    /// A core's PSUM array.
    Psum(usize),
    /// Own buffer.
    Own(usize, u32),
    /// Own buffer shared by the cores of one subgraph.
    Shared(u32, &'p str, &'p str),
    /// Placed DRAM of one core.
    Local(usize),
    /// Placed DRAM shared by the cores of one LNC.
    SharedSpace(usize),
    /// Device-print DRAM of one core.
    Debug(usize),
}

/// A buffer to be: its size, its pitch, and the owners in it with their first byte.
struct Planned {
    bytes: u64,
    pitch: Option<usize>,
    members: Vec<(usize, u64)>,
}

struct Want<'p> {
    core: usize,
    loc: MemLocId,
    key: Key<'p>,
    /// Highest byte touched, exclusive: inside a partition on chip, else linear.
    need: u64,
}

/// Places all locations of `lncs` copies of the program's modules (of all subgraphs, `cores` modules each); copy `r` of
/// module `k` is at `r · modules + k`. Placed locations of all subgraphs of a core lie in the same memories.
#[expect(clippy::too_many_arguments, reason = "one call, in `build`; the parts have no meaning together")]
pub(crate) fn place<'p>(
    program: &'p Program,
    modules: &[&'p Module],
    names: &[Names<'p>],
    cores: usize,
    arch: &ArchSpec,
    opts: &RunOptions,
    lncs: usize,
    mem: &mut Memory,
) -> Result<Places, Vec<Diagnostic>> {
    let mut errs = Vec::new();
    let need = touched(program, modules, names, cores, &mut errs);
    if !errs.is_empty() {
        return Err(errs);
    }
    let all = modules.len();
    let mut out = Places { of: Vec::new() };
    for r in 0..lncs {
        for m in modules {
            let _ = r;
            out.of.push(vec![None; m.memlocs.len()]);
        }
    }

    // Class and size of every owner.
    let mut wants: Vec<Want<'p>> = Vec::new();
    for (c, m) in modules.iter().enumerate() {
        for (l, loc) in m.memlocs.iter() {
            let n = need[c][l.index()];
            if n == 0 {
                continue;
            }
            if let Err(e) = check_fits(loc, n, arch) {
                errs.push(Diagnostic::new(codes::S0006, e).site(at_loc(m, loc)));
                continue;
            }
            let key = class(program, m, &names[c], (c, c % cores.max(1)), l);
            wants.push(Want { core: c, loc: l, key, need: n });
        }
    }
    if !errs.is_empty() {
        return Err(errs);
    }

    // Buffers by class, sized before anything is allocated.
    let mut groups: Vec<(Key<'p>, Vec<usize>)> = Vec::new();
    let mut index: FxHashMap<Key<'p>, usize> = FxHashMap::default();
    for (i, w) in wants.iter().enumerate() {
        let g = *index.entry(w.key.clone()).or_insert_with(|| {
            groups.push((w.key.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[g].1.push(i);
    }
    let mut bufs: Vec<Planned> = Vec::new();
    let mut plan = |bytes, pitch, members| bufs.push(Planned { bytes, pitch, members });
    for (key, members) in &groups {
        match key {
            Key::Sbuf(_) | Key::Psum(_) => {
                let start = |i: &usize| on_chip_start(&modules[wants[*i].core].memlocs[wants[*i].loc], arch);
                let high = members.iter().map(|i| start(i) + wants[*i].need).max().unwrap_or(0);
                // An odd number of cache lines: rows below each other do not fall into the same sets of a cache. More than the
                // longest row, so that no packed run goes on in the next partition.
                let pitch = (high + 1).next_multiple_of(64) | 64;
                let at = |i: &usize| {
                    let l = &modules[wants[*i].core].memlocs[wants[*i].loc];
                    u64::from(l.base) * pitch + start(i)
                };
                let list = members.iter().map(|i| (*i, at(i))).collect();
                plan(pitch * arch.partitions, Some(pitch as usize), list);
            }
            Key::Own(..) | Key::Shared(..) => {
                let w = &wants[members[0]];
                let l = &modules[w.core].memlocs[w.loc];
                let most = members.iter().map(|i| wants[*i].need).max().unwrap_or(0);
                let list = members.iter().map(|i| (*i, 0)).collect();
                if l.is_on_chip() {
                    plan(most.saturating_mul(l.rows()), Some(most as usize), list);
                } else {
                    plan(most, None, list);
                }
            }
            Key::Local(_) | Key::SharedSpace(_) | Key::Debug(_) => {
                let mut order: Vec<(u64, u64, usize)> = members
                    .iter()
                    .map(|i| {
                        let a = modules[wants[*i].core].memlocs[wants[*i].loc].addr;
                        (a, a.saturating_add(wants[*i].need), *i)
                    })
                    .collect();
                order.sort_unstable();
                let mut k = 0;
                while k < order.len() {
                    let (start, mut end, _) = order[k];
                    let from = k;
                    while k < order.len() && (k == from || order[k].0 < end) {
                        end = end.max(order[k].1);
                        k += 1;
                    }
                    let list = order[from..k].iter().map(|(a, _, i)| (*i, a - start)).collect();
                    plan(end - start, None, list);
                }
            }
        }
    }
    let total = bufs.iter().fold(0u64, |a, b| a.saturating_add(b.bytes)).saturating_mul(lncs as u64);
    if total > opts.memory_limit {
        let e = format!("the program needs {total} bytes of memory, the limit is {}", opts.memory_limit);
        let mut d = Diagnostic::new(codes::S0005, e);
        if let Some(b) = bufs.iter().max_by_key(|b| b.bytes)
            && let Some(w) = b.members.first().map(|(i, _)| &wants[*i])
        {
            d = d.site(at_loc(modules[w.core], &modules[w.core].memlocs[w.loc]).label("the largest"));
        }
        return Err(vec![d]);
    }

    for r in 0..lncs {
        for b in &bufs {
            let buf = mem.add_unfilled(b.bytes as usize, 0xff);
            let psum = b
                .members
                .first()
                .is_some_and(|(i, _)| modules[wants[*i].core].memlocs[wants[*i].loc].mem == MemoryType::Psum);
            mem.describe(buf, BufInfo { pitch: b.pitch, psum });
            for (i, base) in &b.members {
                let w = &wants[*i];
                out.of[r * all + w.core][w.loc.index()] =
                    Some(Place { buf, base: *base as usize, pitch: b.pitch });
            }
        }
        // Aliases.
        for (c, m) in modules.iter().enumerate() {
            for (l, loc) in m.memlocs.iter() {
                if loc.is_remote()
                    && let Ok((oc, ol)) = owner(modules, names, c, l)
                {
                    out.of[r * all + c][l.index()] = out.of[r * all + oc][ol.index()];
                }
            }
        }
    }
    fill(mem, &out, modules, opts.fill);
    Ok(out)
}

/// Site of a location.
pub(crate) fn at_loc(m: &Module, l: &MemoryLocation) -> Site {
    Site { core: m.core, path: l.name.to_string(), ..Site::default() }
}

/// Highest byte touched of every owner location, per core; 0 = not touched.
fn touched<'p>(
    program: &Program,
    modules: &[&'p Module],
    names: &[Names<'p>],
    cores: usize,
    errs: &mut Vec<Diagnostic>,
) -> Vec<Vec<u64>> {
    let mut need: Vec<Vec<u64>> = modules.iter().map(|m| vec![0; m.memlocs.len()]).collect();
    let mut bad: Vec<(usize, MemLocId)> = Vec::new();
    for (c, m) in modules.iter().enumerate() {
        let mut touch = |l: MemLocId, bytes: u64, need: &mut Vec<Vec<u64>>| match owner(modules, names, c, l)
        {
            Ok((oc, ol)) => {
                let n = &mut need[oc][ol.index()];
                *n = (*n).max(bytes);
            }
            Err(e) => {
                if !bad.contains(&(c, l)) {
                    bad.push((c, l));
                    errs.push(Diagnostic::new(codes::S0007, e).site(at_loc(m, &m.memlocs[l])));
                }
            }
        };
        for b in m.blocks.values() {
            for &i in &b.insts {
                for ap in all_aps(&m.insts[i]) {
                    let l = &m.memlocs[ap.loc];
                    let constant = m.set_of(ap.loc).file.is_some();
                    touch(ap.loc, if constant { l.size_bytes() } else { high_byte(ap, l) }, &mut need);
                }
            }
        }
        for p in program.signature.inputs.iter().chain(&program.signature.outputs) {
            if p.subgraph as usize == c / cores.max(1)
                && p.core.is_none_or(|k| k.index() == c % cores.max(1))
                && let Some(l) = names[c].find_any(m, &p.location)
            {
                touch(l, m.memlocs[l].size_bytes(), &mut need);
            }
        }
    }
    need
}

/// One past the highest byte that a pattern touches: inside a partition on chip, else linear. The whole extent when the
/// address is dynamic or the pattern does not fit (which is reported when it is decoded).
fn high_byte(ap: &AccessPattern, l: &MemoryLocation) -> u64 {
    if l.is_on_chip() {
        match ap.on_chip_box(l) {
            Ok(b) if ap.is_static() => b.high_byte.min(l.row_bytes()),
            _ => l.row_bytes(),
        }
    } else {
        match ap.elem_range() {
            Some((_, hi)) if ap.is_static() && hi >= 0 => {
                (hi as u64).saturating_add(1).saturating_mul(ap.dtype.bytes()).min(l.size_bytes())
            }
            _ => l.size_bytes(),
        }
    }
}

/// Byte inside a partition where a placed on-chip location starts.
pub(crate) fn on_chip_start(l: &MemoryLocation, arch: &ArchSpec) -> u64 {
    match l.mem {
        MemoryType::Psum => l.bank.unsigned_abs().saturating_mul(arch.psum_bank_bytes).saturating_add(l.addr),
        _ => l.addr,
    }
}

fn check_fits(l: &MemoryLocation, need: u64, arch: &ArchSpec) -> Result<(), String> {
    match l.mem {
        MemoryType::Sb | MemoryType::Psum => {
            let (base, start) =
                if l.allocated { (u64::from(l.base), on_chip_start(l, arch)) } else { (0, 0) };
            if base.saturating_add(l.rows()) > arch.partitions {
                let n = l.rows();
                return Err(format!(
                    "`{}` has {n} partitions from {base}, there are {}",
                    l.name, arch.partitions
                ));
            }
            let have = if l.mem == MemoryType::Sb { arch.sbuf_bytes } else { arch.psum_bytes };
            if start.saturating_add(need) > have {
                let end = start.saturating_add(need);
                return Err(format!(
                    "`{}` reaches byte {end} of each partition of {}, which has {have}",
                    l.name, l.mem
                ));
            }
            Ok(())
        }
        MemoryType::Unallocated | MemoryType::Input | MemoryType::Output | MemoryType::Dram => Ok(()),
        MemoryType::RngState | MemoryType::Reg => Err(format!("`{}` lies in {}", l.name, l.mem)),
    }
}

/// Class of an owner location of module `k`, which runs on core `c`.
fn class<'p>(
    program: &Program,
    m: &'p Module,
    names: &Names<'p>,
    (k, c): (usize, usize),
    l: MemLocId,
) -> Key<'p> {
    let loc = &m.memlocs[l];
    let set = m.set_of(l);
    match loc.mem {
        MemoryType::Sb if loc.allocated => return Key::Sbuf(c),
        MemoryType::Psum if loc.allocated => return Key::Psum(c),
        MemoryType::Sb | MemoryType::Psum => return Key::Own(k, l.as_u32()),
        MemoryType::Unallocated | MemoryType::Input | MemoryType::Output | MemoryType::Dram => {}
        MemoryType::RngState | MemoryType::Reg => return Key::Own(k, l.as_u32()),
    }
    let border = set.kind.is_input() || set.kind.is_output() || set.file.is_some();
    let in_signature = program
        .signature
        .inputs
        .iter()
        .chain(&program.signature.outputs)
        .any(|p| p.subgraph == m.subgraph && p.location == loc.name);
    let placed = loc.allocated && !border && !in_signature;
    match set.addr_space {
        AddressSpace::Shared if placed => Key::SharedSpace(0),
        AddressSpace::Shared => Key::Shared(m.subgraph, names.func_of(l), loc.name.as_str()),
        AddressSpace::Local if placed => Key::Local(c),
        AddressSpace::Debug if placed => Key::Debug(c),
        AddressSpace::Local | AddressSpace::Debug => Key::Own(k, l.as_u32()),
    }
}

/// First content of every placed location that is not all ones.
fn fill(mem: &mut Memory, places: &Places, modules: &[&Module], how: Fill) {
    if how != Fill::Ff {
        mem.fill_all();
    }
    match how {
        Fill::Ff => {}
        Fill::Random(seed) => {
            for b in 0..mem.len() {
                let mut r = SplitMix64(seed ^ (b as u64).wrapping_mul(0x9e37_79b9));
                for w in mem.bytes_mut(BufId(b as u32)).chunks_mut(8) {
                    let v = r.next_u64().to_le_bytes();
                    w.copy_from_slice(&v[..w.len()]);
                }
            }
        }
        Fill::Nan4 => {
            for (g, list) in places.of.iter().enumerate() {
                let m = modules[g % modules.len()];
                for (l, p) in m.memlocs.keys().zip(list) {
                    let Some(p) = p else { continue };
                    let dtype = m.set_of(l).dtype;
                    let value: u64 = if dtype.is_int() { 4 } else { u64::MAX };
                    let loc = &m.memlocs[l];
                    let size = dtype.bytes() as usize;
                    let elem = &value.to_le_bytes()[..size.min(8)];
                    let (rows, row) = match p.pitch {
                        Some(pitch) => (loc.rows() as usize, (loc.row_bytes() as usize).min(pitch)),
                        None => (1, usize::MAX),
                    };
                    let bytes = mem.bytes_mut(p.buf);
                    for r in 0..rows {
                        let at = p.base + r * p.pitch.unwrap_or(0);
                        let size_limit = if p.pitch.is_some() { row } else { loc.size_bytes() as usize };
                        let end = at.saturating_add(size_limit.min(row)).min(bytes.len());
                        for e in bytes[at.min(end)..end].chunks_exact_mut(size) {
                            e.copy_from_slice(elem);
                        }
                    }
                }
            }
        }
    }
}

/// The view of a pattern, `delta` elements further on.
///
/// # Errors
/// A text when the pattern leaves the location or the location is not placed.
pub(crate) fn view_of(
    ap: &AccessPattern,
    delta: i64,
    loc: &MemoryLocation,
    place: Option<&Place>,
    buf_len: impl Fn(BufId) -> usize,
) -> Result<View, String> {
    let place = place.ok_or_else(|| format!("`{}` is not placed", loc.name))?;
    let size = ap.dtype.bytes() as i64;
    let offset = ap.offset.checked_add(delta).ok_or("the offset overflows")?;
    let mut dims = crate::memory::Dims::new();
    let dim = |step: i64, num: u64| -> Result<crate::memory::Dim, String> {
        let stride =
            step.checked_mul(size).and_then(|s| isize::try_from(s).ok()).ok_or("a step overflows")?;
        Ok(crate::memory::Dim { stride, num: usize::try_from(num).map_err(|_| "an extent overflows")? })
    };
    let base = match place.pitch {
        Some(pitch) => {
            let shifted;
            let ap = if delta == 0 {
                ap
            } else {
                shifted = AccessPattern { offset, dynamic: None, ..ap.clone() };
                &shifted
            };
            let b = ap.on_chip_box(loc).map_err(|e| format!("an operand on `{}` is bad: {e}", loc.name))?;
            if b.first_partition < 0 || b.last_partition >= loc.rows() as i64 {
                return Err(format!(
                    "an operand on `{}` covers partitions {} to {}, the location has {}",
                    loc.name,
                    b.first_partition,
                    b.last_partition,
                    loc.rows()
                ));
            }
            let stride = b.partition_stride.checked_mul(pitch as i64).ok_or("a step overflows")?;
            let num = ap.pairs.first().map_or(0, |p| p.num);
            dims.push(crate::memory::Dim { stride: stride as isize, num: num as usize });
            for p in ap.pairs.iter().skip(1) {
                dims.push(dim(p.step, p.num)?);
            }
            let row = (loc.row_bytes() / ap.dtype.bytes()).max(1) as i64;
            place.base + b.first_partition as usize * pitch + offset.rem_euclid(row) as usize * size as usize
        }
        None => {
            let range = tandem_bir::ap::span(offset, &ap.pairs);
            let (lo, hi) = range.ok_or_else(|| format!("an operand on `{}` has no elements", loc.name))?;
            let end = (hi as u64).checked_add(1).and_then(|e| e.checked_mul(ap.dtype.bytes()));
            if lo < 0 || hi < 0 || end.is_none_or(|e| e > loc.size_bytes()) {
                return Err(format!(
                    "an operand on `{}` covers elements {lo} to {hi}, the location has {}",
                    loc.name,
                    loc.size_bytes() / ap.dtype.bytes()
                ));
            }
            for p in &ap.pairs {
                dims.push(dim(p.step, p.num)?);
            }
            if dims.is_empty() {
                dims.push(dim(0, 1)?);
            }
            place.base + offset as usize * size as usize
        }
    };
    let v = View { buf: place.buf, dtype: ap.dtype, base, dims };
    if !v.fits(buf_len(v.buf)) {
        return Err(format!("an operand on `{}` leaves its storage", loc.name));
    }
    Ok(v)
}
