//! Programs on disk: textual files, JSON files, folders of one JSON module per core and subgraph, and the `.npy` files of
//! constants beside them. The only part of this crate that touches files.
//!
//! A constant's file name is relative to the file or folder of the module that uses it; absolute names and names with
//! `..` are never opened. A constant whose file is not there stays without payload, see [`crate::remarks`]. When two modules mean different bytes by one name, the later one's gets its folder before it.

use crate::diag::codes::{P0102, P0115, P0116, P0117, P0118, U0002, U0004};
use crate::diag::{Code, Diagnostic, LocTable, Site};
use crate::enums::TensorKind;
use crate::ids::CoreId;
use crate::json::{self, Part};
use crate::module::{Module, Program};
use crate::text::{self, Constants, ParseOptions, PrintOptions};
use indexmap::IndexMap;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

type Diagnostics = Vec<Diagnostic>;

fn fault(code: Code, path: &Path, text: impl std::fmt::Display) -> Diagnostic {
    let site = Site { path: path.display().to_string(), ..Site::default() };
    Diagnostic::new(code, text.to_string()).site(site)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Diagnostics> {
    fs::read(path).map_err(|e| vec![fault(U0002, path, format!("cannot read the file: {e}"))])
}

/// Reads a program from a textual or JSON file, or from a folder (see [`read_dir`]). The kind is recognised by content.
/// Constants named by file are loaded from beside it.
///
/// # Errors
/// What the readers say; U0002 when a file cannot be opened; P0102 when a file is neither text nor JSON.
pub fn read_program(path: &Path) -> Result<Program, Diagnostics> {
    if path.is_dir() {
        return read_dir(path);
    }
    let bytes = read_file(path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let mut program = read_bytes(&bytes, &path.display().to_string())?;
    load_constants(&mut program, base);
    Ok(program)
}

/// Reads a program from the bytes of a textual or JSON document. Constants named by file stay unloaded.
///
/// # Errors
/// What the readers say; P0102 when the bytes are neither text nor JSON.
pub fn read_bytes(bytes: &[u8], origin: &str) -> Result<Program, Diagnostics> {
    if json::looks_like_json(bytes) {
        let mut locs = LocTable::default();
        let parts = json::read(bytes, origin, &mut locs)?;
        return json::assemble(parts, locs);
    }
    match std::str::from_utf8(bytes) {
        Ok(src) if text::looks_like_text(bytes) => {
            text::parse_with(src, &ParseOptions { file: origin, own_positions: true })
        }
        _ => Err(vec![fault(P0102, Path::new(origin), "the file is neither textual BIR nor JSON")]),
    }
}

/// Number of a folder named by two letters and digits.
fn numbered(path: &Path, prefix: &str) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_prefix(prefix)?;
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) { None } else { digits.parse().ok() }
}

/// Sub-folders `<prefix>NN` of a folder, by number.
fn numbered_folders(path: &Path, prefix: &str) -> Result<Vec<(u32, PathBuf)>, Diagnostics> {
    let entries =
        fs::read_dir(path).map_err(|e| vec![fault(U0002, path, format!("cannot read the folder: {e}"))])?;
    let mut out: Vec<(u32, PathBuf)> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.is_dir())
        .filter_map(|p| Some((numbered(&p, prefix)?, p)))
        .collect();
    out.sort();
    Ok(out)
}

/// The JSON module of a folder: `bir.json`, else its only `.json` file.
fn module_file(dir: &Path) -> Result<PathBuf, Diagnostics> {
    let named = dir.join("bir.json");
    if named.is_file() {
        return Ok(named);
    }
    let entries =
        fs::read_dir(dir).map_err(|e| vec![fault(U0002, dir, format!("cannot read the folder: {e}"))])?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.is_file() && p.extension().is_some_and(|x| x == "json"))
        .collect();
    files.sort();
    match files.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(vec![fault(P0118, dir, "the folder has no JSON module")]),
        many => Err(vec![fault(
            P0118,
            dir,
            format!(
                "the folder has {} JSON files; the one that is meant must be named `bir.json`",
                many.len()
            ),
        )]),
    }
}

/// Reads the folders `ncNN/sgNN` of a folder, one JSON module in each.
///
/// # Errors
/// P0118 when there are none, P0115 when they do not fit together, P0116 for more than two cores; what the reader says.
pub fn read_dir(path: &Path) -> Result<Program, Diagnostics> {
    let cores = numbered_folders(path, "nc")?;
    if cores.is_empty() {
        return Err(vec![fault(P0118, path, "the folder has no `ncNN/sgNN` in it")]);
    }
    if cores.len() > 2 {
        let text = format!("{} core folders: a logical NeuronCore has 1 or 2 cores", cores.len());
        return Err(vec![fault(P0116, path, text)]);
    }
    let mut locs = LocTable::default();
    let mut parts: Vec<Part> = Vec::new();
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut errors = Vec::new();
    for (core, dir) in cores {
        let subgraphs = numbered_folders(&dir, "sg")?;
        if subgraphs.is_empty() {
            errors.push(fault(P0118, &dir, "the folder of the core has no `sgNN` in it"));
        }
        for (subgraph, dir) in subgraphs {
            let file = match module_file(&dir) {
                Ok(f) => f,
                Err(e) => {
                    errors.extend(e);
                    continue;
                }
            };
            let bytes = read_file(&file)?;
            match json::read(&bytes, &file.display().to_string(), &mut locs) {
                Ok(mut read) if read.len() == 1 => {
                    parts.extend(read.drain(..).map(|p| Part { place: Some((subgraph, CoreId(core))), ..p }));
                    folders.push(dir);
                }
                Ok(read) => {
                    let text = format!("one module is wanted, the file has {}", read.len());
                    errors.push(fault(P0115, &file, text));
                }
                Err(e) => errors.extend(e),
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // Slots are by subgraph, then core: load in that order, so that names of constants do not depend on the disk.
    let mut loaded: IndexMap<String, Arc<[u8]>> = IndexMap::new();
    for (part, dir) in parts.iter_mut().zip(&folders) {
        let (subgraph, core) = part.place.unwrap_or((0, CoreId(0)));
        let own = std::mem::take(&mut part.constants);
        load_module(&mut part.module, &own, dir, &format!("nc{:02}/sg{subgraph:02}/", core.0), &mut loaded);
    }
    let mut program = json::assemble(parts, locs)?;
    program.constants = loaded;
    Ok(program)
}

/// Loads the files that constants name and that are not there yet.
/// What cannot be read stays unloaded.
pub fn load_constants(program: &mut Program, base: &Path) {
    let mut loaded = std::mem::take(&mut program.constants);
    for m in &mut program.modules {
        load_module(m, &[], base, "", &mut loaded);
    }
    program.constants = loaded;
}

fn load_module(
    m: &mut Module,
    carried: &[(String, Vec<u8>)],
    base: &Path,
    prefix: &str,
    loaded: &mut IndexMap<String, Arc<[u8]>>,
) {
    for set in m.sets.values_mut() {
        let Some(file) = set.file.clone() else { continue };
        if set.kind != TensorKind::Const && !loaded.contains_key(file.as_str()) && !is_inside(&file, base) {
            continue;
        }
        let bytes: Arc<[u8]> = match carried.iter().find(|c| c.0 == file) {
            Some((_, b)) => b.as_slice().into(),
            None if prefix.is_empty() && loaded.contains_key(file.as_str()) => continue,
            None => match load(&file, base) {
                Some(b) => b.into(),
                None => continue,
            },
        };
        match loaded.get(file.as_str()) {
            Some(old) if **old == *bytes => {}
            None => {
                loaded.insert(file.to_string(), bytes);
            }
            Some(_) => {
                let name = format!("{prefix}{file}");
                set.file = Some(name.as_str().into());
                loaded.insert(name, bytes);
            }
        }
    }
}

/// A relative name that stays below its folder.
fn is_relative(file: &str) -> bool {
    !file.is_empty()
        && Path::new(file).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
}
fn is_inside(file: &str, base: &Path) -> bool {
    is_relative(file) && base.join(file).is_file()
}
/// The payload; `None` when the name leads elsewhere or the file cannot be read.
fn load(file: &str, base: &Path) -> Option<Vec<u8>> {
    if is_relative(file) { fs::read(base.join(file)).ok() } else { None }
}

fn cannot(path: &Path) -> impl Fn(std::io::Error) -> Diagnostics + '_ {
    move |e| vec![fault(U0004, path, format!("cannot write: {e}"))]
}

fn write_constants(program: &Program, base: &Path) -> Result<(), Diagnostics> {
    for (file, bytes) in &program.constants {
        if !is_relative(file) {
            return Err(vec![fault(
                P0117,
                Path::new(file),
                "a constant's file must be named relative to its module",
            )]);
        }
        let path = base.join(file);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(cannot(dir))?;
        }
        fs::write(&path, bytes).map_err(cannot(&path))?;
    }
    Ok(())
}

/// Writes a textual file, constants beside it.
///
/// # Errors
/// U0004 when a file cannot be written.
pub fn write_text(program: &Program, path: &Path) -> Result<(), Diagnostics> {
    let mut out = fs::File::create(path).map_err(cannot(path))?;
    let options = PrintOptions { constants: Constants::Reference };
    text::write_program_to(program, options, &mut out).map_err(cannot(path))?;
    write_constants(program, path.parent().unwrap_or(Path::new("")))
}

/// Makes the folder of one core. The vendor's splitter has codes for what can go wrong (the specification, file 05 §6.2 b):
/// 1649 where something that is no folder is in the way, 1650 where the folder cannot be made.
fn make_folder(dir: &Path) -> Result<(), Diagnostics> {
    let in_the_way = dir.ancestors().find(|p| p.exists()).filter(|p| !p.is_dir());
    if let Some(p) = in_the_way {
        let d = fault(U0004, dir, format!("cannot write: {} is no folder", p.display()));
        return Err(vec![
            d.note("the vendor's splitter reports 1649 for an artifact directory that is none"),
        ]);
    }
    fs::create_dir_all(dir).map_err(|e| {
        let mut found = cannot(dir)(e);
        if let Some(d) = found.first_mut() {
            d.notes.push(
                "the vendor's splitter reports 1650 for an artifact directory it cannot make".to_owned(),
            );
        }
        found
    })
}

/// Writes JSON: one file for one module, the folders `ncNN/sgNN/bir.json` below `path` for several. Constants beside each.
///
/// # Errors
/// U0004 when a file cannot be written.
pub fn write_json(program: &Program, path: &Path) -> Result<(), Diagnostics> {
    let one = |m: &Module, file: &Path| -> Result<(), Diagnostics> {
        let out = fs::File::create(file).map_err(cannot(file))?;
        let mut out = BufWriter::new(out);
        json::write_module(m, program, Constants::Reference, &mut out).map_err(cannot(file))?;
        out.flush().map_err(cannot(file))
    };
    if let [m] = program.modules.as_slice() {
        one(m, path)?;
        return write_constants(program, path.parent().unwrap_or(Path::new("")));
    }
    let cores = program.lnc_size.max(1);
    for (slot, m) in program.modules.iter().enumerate() {
        let (subgraph, core) = (slot as u32 / cores, slot as u32 % cores);
        let dir = path.join(format!("nc{core:02}")).join(format!("sg{subgraph:02}"));
        make_folder(&dir)?;
        one(m, &dir.join("bir.json"))?;
        for set in m.sets.values() {
            if let Some(file) = &set.file
                && let Some(bytes) = program.constants.get(file.as_str())
                && is_relative(file)
            {
                let path = dir.join(file);
                if let Some(dir) = path.parent() {
                    fs::create_dir_all(dir).map_err(cannot(dir))?;
                }
                fs::write(&path, bytes).map_err(cannot(&path))?;
            }
        }
    }
    Ok(())
}
