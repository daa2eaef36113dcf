//! Reference pages made from the tables: one page of all instructions, one page per diagnostic code, one index of codes.

use crate::diag::codes::ALL;
use crate::diag::{Class, Code};
use crate::enums::{BirEnum, EngineKind};
use crate::inst::table::TABLE;
use crate::inst::{
    Arity, AttrDefault, AttrSpec, AttrType, Effects, Family, OpSpec, OperandKinds, OperandSpec, Presence,
};
use std::fmt::Write as _;

/// Every generated page: path below `docs/`, text.
pub fn pages() -> Vec<(String, String)> {
    pages_with(&|c| c.example())
}

/// The same with examples from elsewhere than the text built in.
pub fn pages_with<'e>(example: &dyn Fn(Code) -> Option<&'e str>) -> Vec<(String, String)> {
    let mut out = vec![("isa.md".to_owned(), isa()), ("errors/README.md".to_owned(), index())];
    out.extend(ALL.iter().map(|c| (format!("errors/{}.md", c.info().id), page_of(*c, example(*c)))));
    out
}

/// Writes the pages into `docs`, and removes pages of codes that are gone.
///
/// # Errors
/// When a file cannot be written.
pub fn write_pages(docs: &std::path::Path, pages: &[(String, String)]) -> std::io::Result<()> {
    for (name, text) in pages {
        let path = docs.join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, text)?;
    }
    for entry in std::fs::read_dir(docs.join("errors"))? {
        let path = entry?.path();
        let name = format!("errors/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if !pages.iter().any(|(n, _)| *n == name) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A line of words no longer than a page is wide.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        if width > 0 && width + 1 + word.len() > 110 {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.len();
    }
    out
}

fn class_text(c: Class) -> &'static str {
    match c {
        Class::Input => "bad input or usage, exit 2",
        Class::Finding => "finding, exit 1",
        Class::Unsupported => "not supported, exit 3",
        Class::Internal => "fault of Tandem, exit 70",
    }
}

/// The page of one code; `tandem explain CODE` prints the same.
pub fn error_page(c: Code) -> String {
    page_of(c, c.example())
}

fn page_of(c: Code, example: Option<&str>) -> String {
    let i = c.info();
    let example = example.map(|e| format!("\n## Example\n\n{}", example_page(e))).unwrap_or_default();
    format!(
        "# {}: {}\n\n*{}; {} by default.*\n\n{}\n{example}",
        i.id,
        i.title,
        class_text(i.class),
        i.severity.word(),
        wrap(i.page)
    )
}

/// The example with a line break after each command, and its lines kept.
fn example_page(e: &str) -> String {
    e.replace("`\nPasses: ", "`\\\nPasses: ")
}

fn stage(letter: char) -> &'static str {
    match letter {
        'U' => "command line",
        'P' => "reading files",
        'K' => "KLR to BIR",
        'V' => "verifier",
        'L' => "lowering and passes",
        'N' => "linking",
        'E' => "encoding",
        'C' => "static checks",
        'S' => "simulated faults",
        _ => "Tandem itself",
    }
}

fn index() -> String {
    let mut out = String::from(
        "# Diagnostic codes\n\nGenerated from the code table; do not edit. The letter is the stage. Codes are never reused.\n",
    );
    let mut last = ' ';
    for c in ALL {
        let i = c.info();
        let letter = i.id.chars().next().unwrap_or(' ');
        if letter != last {
            let _ = write!(
                out,
                "\n## {letter}: {}\n\n| code | meaning | class |\n|---|---|---|\n",
                stage(letter)
            );
            last = letter;
        }
        let _ = writeln!(out, "| [{0}]({0}.md) | {1} | {2} |", i.id, i.title, class_text(i.class));
    }
    out
}

fn family(f: Family) -> &'static str {
    match f {
        Family::Generic => "Generic",
        Family::Activation => "Activation",
        Family::Matmul => "Matrix products",
        Family::Fill => "Fills",
        Family::Rank => "Ranks",
        Family::Control => "Control",
        Family::Sync => "Synchronisation",
        Family::Dma => "DMA",
        Family::Pool => "Pooling",
        Family::Elementwise => "Elementwise",
        Family::Copy => "Copies",
        Family::Gather => "Gathers",
        Family::Reduce => "Reductions",
        Family::TensorScalar => "Tensor and scalar",
        Family::OnChipMove => "On-chip moves",
        Family::BatchNorm => "Batch normalisation",
        Family::DataMove => "Data movement inside an engine",
        Family::Collective => "Collectives",
        Family::Select => "Selection",
        Family::Kernel => "Kernels",
        Family::Debug => "Debugging",
        Family::Rng => "Random numbers",
        Family::Misc => "Miscellaneous",
        Family::DmaDescriptor => "DMA descriptors",
        Family::Register => "Registers",
        Family::Terminator => "Terminators",
        Family::Queue => "Queues",
        Family::Search => "Search",
        Family::Mx => "Block-scaled numbers",
        Family::Structured => "Structured control",
        Family::Macro => "Macros",
    }
}

fn operand(s: &OperandSpec) -> String {
    let mut kinds = Vec::new();
    for (k, word) in
        [(OperandKinds::AP, "memory"), (OperandKinds::IMM, "immediate"), (OperandKinds::REG, "register")]
    {
        if s.kinds.contains(k) {
            kinds.push(word);
        }
    }
    let kinds = if kinds.len() == 3 { "any".to_owned() } else { kinds.join(" or ") };
    let arity = match s.arity {
        Arity::One => "",
        Arity::Optional => ", optional",
        Arity::Many => ", one or more",
        Arity::Any => ", any number",
    };
    format!("{} ({kinds}{arity})", s.role)
}

fn operands(list: &[OperandSpec]) -> String {
    if list.is_empty() {
        return "none".to_owned();
    }
    list.iter().map(operand).collect::<Vec<_>>().join("; ")
}

fn attr_type(s: &AttrSpec) -> String {
    let base = match s.ty {
        AttrType::Bool => "boolean",
        AttrType::Int => "integer",
        AttrType::F32 => "float",
        AttrType::Enum(t) => return t.name.to_owned(),
        AttrType::Str => "text",
        AttrType::BlockName => "block",
        AttrType::Ints => "integers",
        AttrType::Floats => "floats",
        AttrType::Strs => "texts",
        AttrType::Groups => "lists of integers",
        AttrType::Pairs => "pairs [step, num]",
        AttrType::Expr => "expression",
        AttrType::Exprs => "expressions",
        AttrType::Json => "JSON, kept as read",
    };
    if s.affine { format!("{base} or expression") } else { base.to_owned() }
}

fn attr_default(s: &AttrSpec) -> String {
    let d = match (s.default, s.ty) {
        (AttrDefault::None, _) => "none".to_owned(),
        (AttrDefault::Bool(b), _) => b.to_string(),
        (AttrDefault::Int(i), _) => i.to_string(),
        (AttrDefault::F32(f), _) => format!("{f:?}"),
        (AttrDefault::Enum(o), AttrType::Enum(t)) => t.name_of(o).unwrap_or("?").to_owned(),
        (AttrDefault::Enum(o), _) => o.to_string(),
        (AttrDefault::Empty, _) => "empty".to_owned(),
    };
    match s.presence {
        Presence::Required => "required".to_owned(),
        Presence::Always => format!("{d}, always written"),
        Presence::Optional => d,
    }
}

fn effects(e: Effects) -> String {
    let names = [
        (Effects::BLOCKS, "may wait for another core"),
        (Effects::PEER, "touches another core's memory"),
        (Effects::TERMINATOR, "ends a block"),
        (Effects::SYNC, "orders other instructions"),
        (Effects::DMA, "runs on a DMA queue"),
        (Effects::READS_OUT, "may read its destination"),
        (Effects::STATE, "has hidden engine state"),
        (Effects::ABSTRACT, "abstract, in no program"),
        (Effects::COLLECTIVE, "collective"),
        (Effects::REGIONS, "has nested blocks"),
        (Effects::EXTERNAL, "acts outside the machine"),
    ];
    let set: Vec<&str> = names.iter().filter(|(f, _)| e.has(*f)).map(|(_, n)| *n).collect();
    set.join(", ")
}

fn row(out: &mut String, r: &OpSpec) {
    let _ = write!(out, "\n### {} ({})\n\n{}\n\n", r.opcode, r.opcode.ordinal(), r.doc);
    let engine = |e: EngineKind| format!("{e}");
    let mut facts = format!("Engine {}", engine(r.engine));
    if !r.legal_engines.is_empty() {
        let legal: Vec<String> = r.legal_engines.iter().map(|e| engine(*e)).collect();
        let _ = write!(facts, " (legal: {})", legal.join(", "));
    }
    let e = effects(r.effects);
    if !e.is_empty() {
        let _ = write!(facts, "; {e}");
    }
    let _ = writeln!(out, "{facts}.");
    if r.open() {
        out.push_str("Operands are taken as read: no source gives them.\n");
    } else {
        let _ = writeln!(out, "Inputs: {}. Outputs: {}.", operands(r.ins), operands(r.outs));
    }
    if !r.attrs.is_empty() {
        out.push_str("\n| attribute | type | default |\n|---|---|---|\n");
        for a in r.attrs {
            let _ = writeln!(out, "| `{}` | {} | {} |", a.attr.key(), attr_type(a), attr_default(a));
        }
    }
}

const HEAD: &str = "\
# Instructions

Generated from the instruction table; do not edit. Each type has its name (in text and in the `opcode` of JSON) and its
InstructionType number. The forms of operands and attributes are in [format.md](format.md).

";

/// The three things that share one name; a test keeps this section in the page.
const GPSIMD: &str = "\
## Three things called GPSIMD

1. **An engine.** The general-purpose engine of a core has the internal name `Pool`, in files and in the code. *GPSIMD* is
   its external name, used only in output for people. A file that says `GPSIMD` where an engine is due is refused with both
   names.
2. **A way to swap tiles.** A send and receive between the two cores of an LNC goes either by the GPSIMD engine of each core or
   by a DMA queue. The first is the instruction `GPSIMDSB2SB`, one per core, made by the lowering of collectives; it moves
   SBUF to SBUF on the engine `Pool`.
3. **A request.** The attribute `use_gpsimd_dma` of collectives and DMA copies records what the author asked for. It is not an
   engine and does not make a `GPSIMDSB2SB`: the transport is chosen by rule, and `explain` shows both.

";

fn isa() -> String {
    let mut out = String::from(HEAD);
    out.push_str(GPSIMD);
    out.push_str("## Engines\n\n| number | name | external name |\n|---|---|---|\n");
    for e in EngineKind::ALL {
        let _ = writeln!(out, "| {} | `{e}` | {} |", e.ordinal(), e.external_name());
    }
    out.push_str("\n## By number\n\n| number | type | family |\n|---|---|---|\n");
    for r in TABLE {
        let name = r.opcode.name();
        let anchor = format!("{}-{}", name.to_lowercase(), r.opcode.ordinal());
        let _ = writeln!(out, "| {} | [{name}](#{anchor}) | {} |", r.opcode.ordinal(), family(r.family));
    }
    let mut families: Vec<Family> = Vec::new();
    for r in TABLE {
        if !families.contains(&r.family) {
            families.push(r.family);
        }
    }
    for f in families {
        let _ = write!(out, "\n## {}\n", family(f));
        for r in TABLE.iter().filter(|r| r.family == f) {
            row(&mut out, r);
        }
    }
    out.push_str("\n## Closed sets\n\nNames as written; the number is the one in memory.\n");
    let mut sets: Vec<&crate::EnumTable> = vec![crate::Dtype::TABLE, crate::EdgeKind::TABLE];
    for a in TABLE.iter().flat_map(|r| r.attrs) {
        if let AttrType::Enum(t) = a.ty
            && !sets.iter().any(|s| s.name == t.name)
        {
            sets.push(t);
        }
    }
    sets.sort_by_key(|t| t.name);
    for t in sets {
        let members: Vec<String> = t.members.iter().map(|(o, n)| format!("{o} `{n}`")).collect();
        let _ = write!(out, "\n**{}**: {}\n", t.name, members.join(", "));
    }
    out
}
