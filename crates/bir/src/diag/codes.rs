//! The one table of diagnostic codes. A code is never reused or renumbered.
//!
//! Each row: constant, class, default severity, title, and the page `tandem explain CODE` prints.
//! Add rows at the end of the section of your stage's letter.

use super::Severity;

/// What a code means for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Bad usage, or input that cannot be read: exit 2.
    Input,
    /// The program is wrong: exit 1.
    Finding,
    /// Readable, but not supported: exit 3.
    Unsupported,
    /// A fault of Tandem itself: exit 70.
    Internal,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeInfo {
    /// Letter and four digits.
    pub id: &'static str,
    /// Meaning for the exit status.
    pub class: Class,
    /// Severity unless a finding says otherwise.
    pub severity: Severity,
    /// A few words.
    pub title: &'static str,
    /// The page: what it means, why it matters, what to do.
    pub page: &'static str,
}

/// A diagnostic code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static CodeInfo);

impl Code {
    /// The code's row.
    pub fn info(self) -> &'static CodeInfo {
        self.0
    }
    /// An example that raises it and one that does not, or why no file can: text for people, from files that tests run.
    pub fn example(self) -> Option<&'static str> {
        self.example_in(EXAMPLES)
    }
    /// The example of this code in a text of examples like the one built in.
    pub fn example_in(self, examples: &str) -> Option<&str> {
        let head = format!("== {}\n", self.0.id);
        let rest = &examples[examples.find(&head)? + head.len()..];
        Some(rest.find("\n== ").map_or(rest, |end| &rest[..=end]))
    }
    /// The code with this text.
    pub fn from_id(id: &str) -> Option<Code> {
        ALL.iter().copied().find(|c| c.0.id == id)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.id)
    }
}
impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.id)
    }
}

/// Generated from `testdata/codes`; see [`Code::example`].
const EXAMPLES: &str = include_str!("examples.txt");

macro_rules! codes {
    ($( $name:ident $class:ident $sev:ident $title:literal $page:literal ; )*) => {
        $( #[doc = $title] pub const $name: Code = Code(&CodeInfo {
            id: stringify!($name), class: Class::$class, severity: Severity::$sev, title: $title, page: $page }); )*
        /// Every code in table order.
        pub const ALL: &[Code] = &[ $( $name ),* ];
    };
}

codes! {
    // ---- U: usage of the command line (exit 2) ----
    U0001 Input Error "bad command line" "An option or argument is not understood. The message says which.";
    U0002 Input Error "file cannot be read" "The file does not exist or cannot be opened.";
    U0003 Input Error "input tensor does not fit" "An input's name, shape or dtype is not what the kernel wants. The message lists the wanted inputs.";
    U0004 Input Error "output cannot be written" "The output folder or file cannot be made. Nothing already on disk was changed.";
    U0006 Input Error "replay file does not fit" "The replay file cannot be read, is of another version, or was made from another input: the digests of the kernel file or of an input tensor differ. A replay is only meaningful on exactly the bytes it was made from (docs/replay.md).";
    U0007 Input Error "finding not reproduced" "The run that a replay file describes did not show the finding that the file holds. Most likely the file was made by another version of Tandem.";
    U0005 Input Error "option value out of range" "The option does not take this value. For an LNC size the rule is 1 or 2; more than two cores cannot be expressed on the machine.";

    // ---- P: reading files (exit 2) ----
    // KLR files: P0001 to P0099
    P0001 Input Error "kernel file cannot be read" "The kernel file does not exist or cannot be opened. The vendor's compiler says: fail to locate KLIR artifact.";
    P0002 Input Error "not a KLR file" "A KLR file starts with the bytes d9 d9 f7, the self-described CBOR tag. This file starts with something else and is no text form either.";
    P0003 Input Error "text form of a kernel" "Older KLR tools printed traced kernels as JSON or in their own value syntax, sometimes under the name .klr. Neither can be read back. Trace the kernel again with a tracer that writes CBOR.";
    P0004 Input Error "wrong KLR version" "The header of the file holds a version other than 0.0.12, the only one known. The vendor's compiler refuses it too.";
    P0005 Input Error "not a traced kernel" "The file holds the syntax tree of a Python or NKI kernel, as gathered before tracing. Trace the kernel first. The vendor's compiler says: Wrong KLIR content type.";
    P0006 Input Error "call site instead of a kernel" "The file holds the data of a call site in a graph: the name of the kernel's file. Give that file instead.";
    P0007 Input Error "file of an older KLR" "The version in the header did not change while the type table did. Type tags or field counts show that the file was written by KLR of September 2025 or before. Trace the kernel again.";
    P0008 Input Error "file ends too early" "The file is empty or ends inside a value: it was cut short while it was written or copied.";
    P0009 Input Error "value of the wrong kind" "Where the type table wants a number, a string, a Bool, a float or a list stands a value of another kind. The message names both.";
    P0010 Input Error "value of the wrong type" "A value carries the tag of another type than the one that belongs here, or a tag no type has.";
    P0011 Input Error "unknown constructor" "Values of a type are numbered by constructor; the number found is beyond those of the type. A newer KLR may have added it.";
    P0012 Input Error "wrong number of fields" "A value announces another number of fields than its constructor has. Four structures may have either the current count or that of 2.24; all others have exactly one.";
    P0013 Input Error "length beyond the end of the file" "A string or list announces more than the file still holds. Nothing is allocated for it.";
    P0014 Input Error "string is not UTF-8" "All strings of a KLR file are UTF-8. The offset is that of the first bad byte.";
    P0015 Input Error "integer out of range" "An integer does not fit its type: 32 bits for immediates, 64 bits otherwise.";
    P0016 Input Error "accesses nested too deeply" "An access can take its offset from another access. More than eight levels are refused; traced kernels have two at most.";
    P0017 Input Error "string too long" "A string is longer than 65536 bytes, which the C readers of KLR refuse as well.";
    P0018 Input Error "tensor does not fit its address" "A tensor must not have more partitions than its address, nor more bytes per partition (product of the free dimensions times the size of the dtype) than the address has.";
    P0019 Input Error "slice with step 0" "A slice with step 0 selects nothing that can be counted.";
    P0020 Input Error "wrong number of indices" "An access by indices needs exactly one index per dimension of its tensor.";
    P0021 Input Error "propositions written in two ways" "Proposition fields take no bytes in well-formed files and one byte each in files of one serializer. A file that does both is damaged.";
    P0022 Input Error "CBOR that KLR does not use" "An item of indefinite length or a reserved head. KLR files never have either.";
    P0023 Input Error "value has no place in the 2.24 layout" "The 2.24 layout lacks a few fields of the current one (priority of copies, transpositions and collectives, the reduce command and initial value of tensorScalarReduce). One of them is set.";
    P0050 Input Warning "bytes after the kernel" "A KLR file ends with its kernel. The bytes that follow are ignored, and not written again.";
    P0051 Input Note "proposition bytes accepted" "One serializer writes proposition fields as empty lists although no reader of KLR expects them. They are accepted, and not written again.";
    P0052 Input Note "integer written longer than needed" "CBOR allows longer forms of an integer; KLR writers use the shortest. Accepted, and shortened when written again.";
    P0053 Input Note "2.24 layout" "The file has the field counts of 2.24 in one of the four structures that gained fields later. The missing fields get their defaults.";
    P0054 Input Note "stored element count differs" "The count of free elements stored with a tensor is not the product of its free dimensions. It is ignored; the product counts.";
    P0101 Input Error "textual BIR cannot be parsed" "The text does not follow the grammar of docs/format.md. The finding shows the line and the column and says what was expected there. Nothing after that place was read.";
    P0102 Input Error "JSON cannot be parsed" "The bytes are not JSON: the finding gives line, column and the place in the document. BIR JSON has no comments, no trailing commas and no bare NaN; numbers that are not finite are written as texts (docs/format.md).";
    P0103 Input Error "unknown name in a closed set" "An element type, engine, ALU operation or another member of a closed set is spelled in a way no member is. Names are case sensitive and internal (`PE`, not `Tensor`). The note lists the members.";
    P0104 Input Error "number does not fit" "A number is outside the range of its field, or is not a whole number where one is needed. Addresses, extents and ids have fixed widths; nothing is wrapped or rounded silently.";
    P0105 Input Error "nested too deeply" "Expressions and nested blocks may be 64 levels deep, JSON 128. No real program comes near; the limit keeps a hostile file from exhausting the stack.";
    P0106 Input Error "name used twice" "Two things in one container have the same name. References are by name, so the second could never be meant. Rename one of them.";
    P0107 Input Error "version not known" "The file says a version this reader does not know. BIR JSON has version 1 (old expressions) or 2; textual BIR has version 1.";
    P0108 Input Error "reference to something that does not exist" "An instruction, block, memory location, set, register, function or queue is named but declared nowhere. References are by exact name, seen from the place that makes them: the same block first, then the same function, then the module.";
    P0109 Input Error "field of the wrong type" "A JSON field holds another type of value than its meaning needs. The finding gives the JSON pointer of the field and what was expected.";
    P0110 Input Error "required field is missing" "An instruction lacks a field that has no default, so its meaning is open. The reference page docs/isa.md lists the required fields of each instruction.";
    P0111 Input Error "unknown instruction" "The opcode is not one of the 110 instruction types. Unknown instructions are refused, not skipped, because leaving one out would change the program.";
    P0112 Input Error "external engine name in the place of an internal one" "Engines have two names: internal ones (Pool, Activation, PE, DMA, DVE, SP, ALL) in files, external ones (GPSIMD, Scalar, Tensor, SyncDMA, Vector, Sync, All) in output for people. A file must carry the internal name; the message gives the pair.";
    P0113 Unsupported Error "operand kind not supported" "The operand's kind is none of physical_ap, symbolic_ap, symbolic_pwap, register_ap, imm_value, symbolic_imm_value, imm_array and register_access. It cannot be kept, because passes must know what an operand touches.";
    P0114 Unsupported Error "expression kind not supported" "A quasi-affine expression has a node of a kind this reader does not know. The kinds are listed in docs/format.md.";
    P0115 Input Error "modules do not fit together" "The modules of a program must be one per core and subgraph, without gaps, for one architecture. The finding says which core or subgraph is missing, comes twice, or differs.";
    P0116 Unsupported Error "more than two cores" "A logical NeuronCore has one or two physical cores; more cannot be expressed on the machine. Files for a larger group are refused as a whole.";
    P0117 Input Error "constant cannot be loaded" "The inline data of a constant is not base 64, or a constant that is to be written beside its module has an absolute name or one with `..` in it. Constants are `.npy` files beside the module that uses them, under their relative name.";
    P0118 Input Error "no modules in the folder" "A folder given as a program must hold nc00/sg00, nc01/sg00 and so on, each with one JSON module. No such folder, or no file in one of them, was found.";
    P0119 Input Note "keys without a meaning here" "The file has keys that this reader gives no meaning. They are kept and written again, and nothing else is done with them. The remark comes once per program and names the keys.";
    P0120 Input Warning "payload of a constant not there" "A constant names a file that is not beside its module, or names it by an absolute path, which is never opened. The program can be lowered and checked; running it needs the payload. Copy the `.npy` file beside the module and name it relative to it.";

    // ---- K: KLR to BIR ----
    // KLR to BIR: the kernel as a whole
    K0001 Input Error "fewer cores than bodies" "The kernel was traced for more cores than the LNC size asks for: every body needs a core of its own. Ask for as many cores as the kernel has bodies, or trace it for fewer.";
    K0002 Unsupported Error "too many cores" "An LNC has one or two cores; more than two cannot be expressed on the machine, and trn1 has LNCs of one core. The file was traced for more cores than that.";
    K0003 Finding Note "core without a body" "The LNC has more cores than the kernel has bodies. The cores beyond get an empty program, as the vendor's compiler does with the same sentence.";
    K0004 Finding Error "core id missing" "A kernel of several bodies can only be lowered for modules that know their core. The vendor's compiler says: NeuronCoreId must be set when the LNC count is greater than 1.";
    K0005 Input Error "shared constant cannot be loaded" "The kernel names a file for a shared constant, relative to the kernel's own folder. The file is not there, cannot be read, or does not lie below that folder. Copy the folder shared_constants along with the kernel.";
    K0006 Finding Error "input or output not in HBM" "Inputs and outputs of a kernel are HBM tensors; this one names another memory, so nothing outside the core could be bound to it. The vendor's compiler says that the input or output cannot be found.";
    K0008 Finding Error "kernel without a body" "A traced kernel has one list of blocks per core. This file has none, so there is nothing to run.";
    // statements and their names
    K0010 Unsupported Error "operator not supported" "The operator has no lowering, here or in the vendor's compiler: it is the parent of an `nc` operator, a part of another instruction, or a collective nobody lowers. It is never left out silently. Write the kernel with the operators of nki.isa that have one.";
    K0011 Finding Error "edge names an unknown statement" "A scheduling edge joins two statements by name, on every core. One of the names does not exist on this core. Collectives and barriers can be named by their statement unless --strict-2-24 is given.";
    // operands
    K0012 Unsupported Error "tensor reference not supported" "The operand is an allocated view of SBUF or PSUM, or a register, which later stages of other tools write. Traced kernels have abstract references only.";
    K0013 Unsupported Error "access form not supported" "With --strict-2-24 only whole tensors and linear patterns are legal, as in the vendor's compiler of 2.24. Without it accesses by indices and by patterns are lowered too.";
    K0014 Finding Error "run-time offset not allowed" "Only copies, DMA copies, the source of a DMA transposition and tensor loads and stores take an access with a scalar or vector offset. Copy the tile to a fixed place first.";
    K0015 Finding Error "scalar offset names an unknown register" "The register of a scalar offset must be written by an earlier statement: by register move, register ALU, tensor load or a rank instruction.";
    K0016 Finding Error "branch names an unknown register" "A conditional branch compares registers that an earlier statement has written. This register never appears before.";
    K0017 Finding Error "run-time offset in a wrong dimension" "A vector offset gathers along dimension 0 only. A scalar offset indexes one dimension of its tensor. An access has one of the two, not both.";
    K0018 Unsupported Error "accumulation into a fixed place" "With --strict-2-24 a DMA copy that adds needs a destination with a run-time offset; the vendor's compiler of 2.24 fails with a logic fault. Without the option it becomes an accumulating DMA copy.";
    K0019 Finding Error "unique indices without a vector offset" "A DMA copy that adds at unique indices expects the indices as a vector offset of the destination. With a scalar offset the promise has no meaning.";
    K0020 Finding Error "immediate not supported" "Immediates are 32-bit integers or floats. Registers and pointers have no form as an immediate.";
    K0021 Unsupported Error "LoadAccumulate not supported" "The accumulator command LoadAccumulate has no form in code generation. Reset with ZeroAccumulate, or add the value by a statement of its own.";
    K0022 Finding Error "scale is not a float" "The scale of an activation is a float32 immediate or a tile. Write 2.0, not 2.";
    K0023 Finding Error "scale of an unknown kind" "The scale of an activation is a float32 immediate or a tile of one value per partition, nothing else.";
    K0024 Finding Error "reduction other than add" "The Activation engine accumulates by addition only. Reduce with tensor_reduce for other operations.";
    K0025 Finding Error "two run-time offsets in a copy" "tensor_copy moves from or to a run-time offset, not both. Use two copies.";
    K0027 Finding Error "vector offset in a copy" "tensor_copy takes a register or one scalar as its run-time offset; a gather needs dma_copy or a gather operator.";
    K0028 Finding Error "two run-time offsets in a DMA copy" "dma_copy gathers or scatters, not both at once. Use two copies.";
    K0029 Finding Error "run-time offset without descriptor generation" "A DMA with a run-time offset needs hardware or software descriptor generation; dgeMode 3 turns it off.";
    K0030 Finding Error "engine without hardware descriptor generation" "The engine of dma_copy names the issuer of hardware descriptor generation. In the other modes it must be left unassigned.";
    K0031 Finding Error "accumulating copy with a run-time source" "A DMA copy that adds at indices that may repeat takes its source from a fixed place.";
    K0032 Finding Error "transpose on the Tensor engine" "The front end turns a transposition on the Tensor engine into a matrix product with an identity matrix. One that is left asks for an engine that cannot run it.";
    K0033 Finding Error "transpose operand too large" "The Vector engine transposes tiles of at most 32 x 32, the Tensor engine of at most 128 partitions.";
    K0034 Finding Warning "identity matrix made by the compiler" "A transposition by the Tensor engine needs an identity matrix. One is made at the start of the kernel, which costs a fill and a selection.";
    K0035 Finding Error "replace value is not a float" "match_replace8 writes a float32 immediate over the values it finds.";
    K0036 Finding Error "DMA transpose needs four dimensions" "Both operands of a DMA transposition have four dimensions, W, Z, Y and X; write the pattern with four pairs.";
    K0037 Finding Error "operands of dma_compute" "dma_compute adds its sources, each times a float scale. Other operations and integer scales have no form.";
    K0040 Finding Error "count of indices is not an integer" "The number of valid indices of a local gather is an integer immediate.";
    K0041 Finding Error "operand of nonzero_with_count" "The index offset and the padding value of nonzero_with_count are int32 immediates.";
    // swaps and collectives
    K0043 Finding Error "rank or pipe is not an integer" "The ranks and the pipe of a sendrecv are integer immediates, known when the kernel is traced.";
    K0044 Finding Error "swap with itself" "A sendrecv exchanges with the other core. Its ranks are traced per core: on two cores both are 1 - program_id.";
    K0046 Finding Error "swap with a core that is not there" "The ranks of a sendrecv are core ids of the LNC, 0 and 1 for two cores.";
    K0047 Finding Error "swap of tiles that differ" "Source and destination of a sendrecv hold as many elements of the same type.";
    K0048 Finding Error "swap without a core id" "A sendrecv can only be lowered for a module that knows its core: whether it swaps with itself depends on that.";
    K0050 Finding Error "operator breaks a promise of the front end" "The front end guarantees this for every kernel it traces, and the vendor's compiler asserts it. The message says what was expected.";
    K0051 Finding Error "replica group is not literal" "Collectives need their replica groups as lists of ranks; a named group or none has no form.";
    K0052 Finding Error "permutation with replica groups" "A collective permutation is routed by its source and target pairs alone.";
    K0053 Finding Error "concat dimension not supported" "Gather and scatter run along the partitions (0) or along the free elements (1); negative numbers count from the end.";
    K0054 Finding Error "rank out of range" "Ranks are counted from 0. With --ranks-are cores, the default, they are the cores of the one LNC.";
    K0055 Finding Error "rank named twice" "A rank is in one replica group, and once the source and once the target of a pair, never paired with itself.";
    K0056 Finding Error "cores disagree on the members" "Every core must give a collective the same replica groups or pairs; otherwise they wait for different members.";
    K0057 Finding Error "destination of a collective does not fit" "A gather makes the destination larger by the group size along its dimension, a scatter smaller; all others keep the size.";
    K0058 Finding Error "cores run different collectives" "Collectives of the cores are matched by their order. A core that runs another one, or one more, waits for ever.";
    // memory
    K0060 Finding Error "tensor outside its memory" "SBUF and PSUM have 128 partitions; of SBUF a kernel may use 180224, 212984 or 245752 bytes per partition on trn1, trn2 and trn3, of PSUM 16384. Addresses given in the kernel are used as they are, so they must fit.";
    K0061 Finding Error "core barriers differ between cores" "The i-th core barrier of every core is one meeting: all cores need as many, for the same cores. The vendor's verifier fails with 1187, 1188 or 1189 otherwise.";
    K0062 Finding Error "core barrier for the wrong cores" "A core barrier names cores of the LNC, the own one among them.";
    K0063 Unsupported Error "tensor in registers" "Tensors in register memory have no lowering. Scalars travel by tensor_load and tensor_store.";
    K0064 Finding Error "address used in two ways" "Views of one address agree on its memory and size; the name of an address is its identity. Names that start with COMPILER-GENERATED- are kept for tensors the compiler makes.";
    K0065 Finding Error "constant without a file" "An allocated HBM view is a constant, and its value comes from a file of the shared constants. None is listed for this name.";
    K0066 Finding Error "pattern does not fit the partition pitch" "A view with shorter rows than its region is addressed row by row: the partition step must be whole rows of the view and the free part must stay inside one row.";
    K0067 Finding Error "access too large" "Offsets and steps of an access must stay inside 64-bit arithmetic.";
    K0068 Finding Error "accesses nested too deeply" "An access may take its offset from another access. More than eight levels are refused.";
    K0069 Finding Error "index outside its dimension" "An access by indices has one index per dimension, each inside the extent of its dimension.";
    // blocks
    K0070 Finding Error "block without an end" "Every block but the last ends in a branch; the last one ends the kernel.";
    K0071 Finding Error "branch to an unknown block" "A branch names a block of the same body. A noReorder block can only be entered by an unconditional branch.";
    K0072 Finding Error "noReorder block with a wrong end" "A noReorder block holds no control flow and ends in an unconditional branch.";
    K0073 Finding Error "block defined twice" "Labels are unique in a body.";
    K0074 Finding Error "statement after a branch" "A branch ends its block; what follows can never run.";
    K0075 Unsupported Error "noReorder blocks cannot be inlined" "noReorder blocks continue the block that branches to them. A circle of such blocks never ends, and blocks entered from very many places would grow the program beyond reason.";
    K0076 Finding Warning "noReorder block never entered" "No branch leads to the block, so its statements are not part of the program.";
    // DMA, options, remarks
    K0089 Finding Error "DMA copy of different sizes" "Source and destination of a DMA copy hold the same number of elements, in whatever pattern.";
    K0090 Finding Warning "dtype option differs from the destination" "The dtype of an operator repeats that of its destination in traced kernels. Where they differ, the destination counts.";
    K0092 Finding Error "unknown dgeMode" "dgeMode is 0 (unassigned), 1 (software), 2 (hardware) or 3 (none).";
    K0093 Finding Error "priority out of range" "Priorities of DMA transfers are P0 to P14.";
    K0094 Finding Error "shuffle mask" "A shuffle takes 32 integers, one per partition of a block of 32.";
    K0095 Finding Note "axes of a DMA transposition honoured" "The kernel asks for axes other than XZYW. We honour them; the vendor's compiler of 2.24 ignores the field, and so does --strict-2-24.";
    K0096 Finding Note "transpose moved to the Vector engine" "The rule by element type chose a matrix product, which can only write PSUM. The destination lies in SBUF, so the Vector engine does it.";

    // ---- V: verifier ----
    V0101 Finding Error "dangling reference" "Something refers to a function, block, instruction, set, location or register that the module does not have. Every later stage looks these up without asking, so a program with such a reference is refused whole. The file that was read is damaged, or the pass that made the program has a fault.";
    V0102 Finding Error "listed twice" "A block belongs to exactly one function or region, an instruction to exactly one block, a location to exactly one set. Here one is listed in two places, or regions contain each other in a circle. Give each place its own copy.";
    V0103 Finding Error "name used twice" "Functions of a module, blocks and storages of a function, and instructions of a block are found by name, also across cores, so the names must differ. Rename one of the two.";
    V0104 Finding Error "branch to a missing block" "A branch names a block that its function does not have (the vendor's loader says: BasicBlock does not exist!). A branch cannot leave its function.";
    V0105 Finding Error "dependency on nothing" "A dependency names an instruction that is in no block, or the instruction itself. An instruction that waits for one that never runs would wait for ever.";
    V0106 Finding Error "terminator in the middle of a block" "Branches, Return, Exit and Break end a block; what follows one could never run. Split the block, or move the terminator to its end.";
    V0107 Finding Error "modules do not form a program" "A program holds one module per core and subgraph: the module at position c + m * N is core c of subgraph m, and all have one architecture. Only a single symbolic module may leave its core open.";
    V0201 Finding Error "set and location disagree" "A location must be listed by the set it names, and a set must list only its own locations. Otherwise an access by set and one by location would mean different bytes.";
    V0202 Finding Error "malformed location" "An on-chip location has the dimensions [partitions, bytes per partition], a DRAM location byte dimensions whose product is its size. All must be positive, and their product must fit a machine number.";
    V0203 Finding Error "location outside its memory" "An allocated location must lie inside the array it is placed in: 128 partitions, the SBUF bytes of the generation, 16 KiB of PSUM per partition, the DRAM window. BIR is checked against the array sizes; the smaller part that kernels may use is the business of the front end.";
    V0204 Finding Error "inputs or outputs overlap" "Two kernel inputs or outputs share DRAM bytes, and neither is declared an alias of the other. Writing the one would destroy the other, and the result would depend on the order of the writes. Give them different addresses, or declare the alias.";
    V0205 Finding Error "malformed alias of another core" "A remote alias stands for a location of another core of the same LNC, in SBUF or DRAM. PSUM is never visible to another core, and a core needs no alias for its own memory.";
    V0206 Finding Error "alias outside DRAM" "Only DRAM locations may share storage by an alias list. The vendor's text: Aliasing only permitted for DRAM locations.";
    V0301 Finding Error "wrong number of operands" "The instruction has fewer or more inputs or outputs than its type takes. The reference page of the instruction set lists the operands of every type.";
    V0302 Finding Error "wrong kind of operand" "An operand position takes memory, an immediate, or a register, as the instruction's row says. Here it holds another kind.";
    V0303 Finding Error "missing attribute" "The instruction's type requires this attribute and gives it no default.";
    V0304 Finding Error "attribute of the wrong type" "The value of the attribute is not of the type its row declares: another type, or a member that the closed set does not have.";
    V0305 Finding Error "element types differ" "The operands of this instruction must have one element type: it moves bits without converting them (shuffles, transpositions, gathers), or its engine reads both inputs in one format (matrix products).";
    V0306 Finding Error "element type not allowed" "The engine does not take this element type at this operand. The note names the types it takes.";
    V0307 Finding Error "bit-vector operation" "Bitwise operations and shifts work on the bits of integers, on the Vector engine only, and both operations of a two-operation instruction must be of that class. Convert the tensor to an integer type first, or use an arithmetic operation.";
    V0308 Finding Error "abstract instruction" "The type is an abstract base of others and has no meaning of its own; no program contains it. Use one of the types derived from it.";
    V0309 Finding Error "immediate of an unsupported type" "Immediates are integers, bfloat16, float16 or float32. Other element types have no immediate form.";
    V0310 Finding Error "attribute value out of range" "The attribute has the right type but a value that the instruction does not take. The note names the values it takes.";
    V0401 Finding Error "empty access pattern" "An access pattern needs at least one pair, and every extent must be at least 1. A pattern that touches nothing is no operand.";
    V0402 Finding Error "access outside its location" "The pattern reaches before the start or past the end of the location it addresses. The access would touch another tensor's bytes.";
    V0403 Finding Error "access crosses the partition pitch" "On-chip memory is two-dimensional: pair 0 walks partitions, its step a multiple of the elements per partition and not negative, and the other pairs stay inside one partition.";
    V0404 Finding Error "illegal start partition" "An engine reads and writes more than 64 partitions only from partition 0, 33 to 64 from 0 or 64, and up to 32 from 0, 32, 64 or 96. DMA transfers and swaps are free of this rule.";
    V0405 Finding Error "element counts disagree" "The operands of this instruction do not have the element counts that its meaning requires of each other. A broadcast is written as a pair with step 0, so that the counts agree.";
    V0406 Finding Error "operand in the wrong memory" "Each engine reaches only some memories: PE reads SBUF and writes PSUM, GPSIMD cannot touch PSUM, the Vector engine cannot read both tensor inputs from PSUM, and no compute engine reaches DRAM. Copy the tensor first.";
    V0407 Finding Error "operand too large or too small" "The instruction has a limit on the size of an operand. The note gives the limit and where it comes from.";
    V0408 Finding Error "reduced axes exceed the pattern" "The reduction folds the innermost pairs of its input pattern and keeps the partition pair, so the pattern must have more pairs than are folded.";
    V0501 Finding Error "engine cannot run this instruction" "The vendor's verifier admits the instruction only on certain engines (assertion 400 there). Leave the engine open or choose one of those named.";
    V0601 Finding Error "semaphore out of range" "A core has 256 semaphores, numbered 0 to 255.";
    V0602 Finding Error "core list of a barrier" "A CoreBarrier lists cores of its own LNC, and the core that executes it is one of them. A core that is not listed would wait for a meeting it is not part of.";
    V0603 Finding Error "semaphore of a missing core" "A semaphore update names a core that the LNC does not have.";
    V0701 Unsupported Error "LNC size" "A logical NeuronCore has one or two cores. More than two cannot be expressed on the machine.";
    V0702 Finding Error "instruction of a later generation" "The instruction exists only from a later generation on. Choose a later target, or write the program without it.";
    V0703 Finding Error "needs two cores" "Core barriers and on-chip swaps connect the two cores of an LNC; a program for one core has nobody to meet.";
    V0704 Finding Error "swap cannot run on GPSIMD" "GPSIMDSB2SB exchanges two static SBUF tiles of one element type and equal shape between the two cores of an LNC, at most 1024 effective bytes per partition. The note names the first predicate that fails; a swap that fails one goes by DMA instead.";
    V0705 Finding Error "alias used outside a DMA copy" "Only DMA engines reach another core's memory, through an alias that the lowering makes. Every other instruction must use memory of its own core.";
    V0706 Unsupported Error "architecture without a model" "Only gen2, gen3 and gen4 (trn1, trn2, trn3) have a hardware model here.";

    // ---- L: lowering and passes ----
    L0001 Finding Warning "option has no effect here" "The option is accepted and does nothing for this target. Placement P of the shared allocation only matters on gen3 (trn2).";
    L0002 Unsupported Error "no hardware model" "Addresses cannot be given for this architecture: Tandem has no geometry for it. Use gen2, gen3 or gen4.";
    L0003 Finding Error "memory is full" "The tensors without addresses do not fit beside the others. The message lists the tensors that are alive together, with their sizes per partition. A tensor is alive from its first access to its last; one that a loop accesses, throughout that loop, unless it hands nothing from one round to the next. Neither moving instructions inside their blocks nor storing tensors to DRAM between two uses helped. Use smaller tiles, or give tensors addresses.";
    L0004 Finding Note "instructions moved" "In the order of the kernel's text more tensors are alive at one time than SBUF or PSUM holds. Tandem moved loads down to their first use, or uses up behind what they need, inside their blocks; every dependency is kept, so the results are the same bytes, and the predicted time is that of the new order. The statistic `moved` of the pass `allocate` counts them.";
    L0005 Finding Note "tensors leave SBUF for a while" "In no order of instructions that Tandem found do all tensors fit that are alive at one time. Some are stored to private DRAM after their last write and loaded again before their next use, under another name; what one load from an input fills is only loaded again. The results are the same bytes; the predicted time has the transfers in it. The statistic `spilled` of the pass `allocate` counts the tensors. A set marked `no_spill`, a tensor with an address and one that another core sees stay.";
    L0010 Finding Error "collective group mismatch" "The cores' members of one collective disagree. Members are matched by function, block and ordinal in the block; they must agree on kind, locality, operator, number of operands, dtypes and shapes. The first field that differs is named, with both places.";
    L0011 Finding Error "crossed pipes" "Two cores issue swaps of different pipe ids in crossed order. The barriers around lowered swaps meet in program order, so each core would wait for the other: a deadlock on the machine. Issue the swaps in the same order on both cores.";
    L0012 Finding Error "non-local SendRecv" "A SendRecv or SendRecvCCE that says it is not local. These kinds exist inside one LNC only; the collective opcode has no code for them. Set `is_local`, or use another collective.";
    L0013 Finding Note "locality not given" "A SendRecv does not say whether it is local. Only the local form exists, so it is lowered as one.";
    L0014 Finding Error "rank outside the LNC" "A swap names a core that the LNC does not have. Ranks of a swap are core indexes, 0 up to the LNC size minus one.";
    L0015 Finding Error "ranks are not paired" "A core sends to a core that receives from somebody else. In a swap, the core that i sends to must receive from i.";
    L0016 Finding Error "shapes of a collective differ" "Source and destination of a swap or reduction do not have the same partitions, elements per partition, or (for a swap) dtype. The two tiles of a swap must be equal in all three.";
    L0017 Unsupported Error "not a constant" "A rank, a locality or an address of a collective is known only at run time. Peers must be constants; a source may have a dynamic scalar offset but not a vector of indexes.";
    L0018 Finding Error "malformed collective" "A collective has operands or ranks that its kind does not allow: a missing or non-memory operand, unequal numbers of sources and destinations, or no receive rank.";
    L0019 Unsupported Error "fold operator not supported" "On-chip folds (SendRecvCCE, local AllReduce) know add, max and min. Use one of these, or another collective.";
    L0020 Finding Error "no matching location on the other core" "A collective reads a tensor that the owner core's function does not have, by tensor id or by name. Tensors that cores share through collectives must be declared in the same function on both.";
    L0021 Finding Error "memory cannot be reached from another core" "Only SBUF and DRAM can be read from another core by DMA. Copy the tile to SBUF first.";
    L0022 Finding Note "request for GPSIMD not met" "Under --transport request the kernel asked for the GPSIMD path and the swap goes by DMA, because a predicate fails or because the two cores ask for different transports. The message says which.";
    L0023 Finding Error "GPSIMD forced but not legal" "--transport gpsimd ignores the byte knob but not the legality rule of the swap instruction. The message names the first predicate that fails. Use --transport auto, or change the tile.";
    L0030 Unsupported Error "replicated matmul" "A matmul carries replication metadata. The layout of the tensors it would grow is not documented. Kernels from the tracer never have it; write the replicated copy out.";
    L0031 Finding Error "symbolic and concrete modules mixed" "Some modules carry a core index and some do not. Give either one symbolic module per subgraph, or one module per core.";
    L0032 Finding Error "single-module form of a multi-core pass" "The splitter works on the vector of modules. The reference aborts with assertion 738 when it is called on one module.";
    L0040 Finding Error "functions differ between cores" "Every core must have the same functions by name before shared lifetimes are extended. The reference asserts this.";
    L0041 Internal Error "shared allocation cannot be copied" "A view of a shared tensor has no owner, its owner is missing, or its owner is not placed. The shared allocator must run first.";
    L0042 Internal Error "completion token assertion" "One of the documented assertions of the token pass failed. The message quotes it.";
    L0043 Finding Warning "no place for a completion token" "The writes of a tensor converge nowhere before the end of the program, so it gets no completion token. Nothing waits for its completion.";

    // ---- N: link ----
    // N0015 is retired: nothing ever raised it. Its number stays unused.
    N0001 Input Error "wrong set of modules" "A linked program has exactly one module per core of the LNC, with core ids 0 to N-1, one architecture; subgraphs are joined before. The vendor's linker asserts 1509 or 1513 here.";
    N0002 Finding Error "two locations of one name" "Names of locations are unique inside a core: remote aliases and variables are found by name.";
    N0003 Finding Error "remote target not found" "A location is an alias of another core's location, and that core has no location of that name. The vendor's linker asserts 1514 (remote_mloc != nullptr).";
    N0004 Finding Error "remote target is itself remote" "An alias must name the owner of the bytes, not another alias. One step is all the linker takes.";
    N0005 Finding Error "remote target has no address" "The owner's location was never placed, so the alias has no address either.";
    N0006 Finding Error "remote alias in PSUM" "PSUM of another core cannot be reached, neither by a swap nor by a transfer.";
    N0007 Finding Error "location without an address" "An instruction uses a location that no allocator has placed. Linking needs final addresses.";
    N0008 Finding Error "swap counts differ" "The k-th swap of one core pairs with the k-th of the other, so both cores need the same number. The vendor's verifier says 1198.";
    N0009 Finding Error "swap tiles do not match" "The source of each core must have the dtype, the partitions and the elements per partition of its partner's destination.";
    N0010 Finding Note "asymmetric swap buffers" "The two cores placed the destination of one swap at different addresses. This is legal: each bundle names the address on its partner. It hints that the allocations of the cores diverged.";
    N0011 Finding Error "core barriers out of order" "Every core of a barrier must meet it as the same ordinal under the name core 0 gives it. The vendor's verifier has the family 1187 to 1189.";
    N0012 Finding Error "completion tokens out of order" "The tokens of a block must stand in the same order on all cores that have them, and every writer must have its token.";
    N0013 Finding Error "remote updates differ between cores" "The k-th notifying transfer of one core belongs to the k-th of the other. Unequal counts are the vendor's assertion 1512.";
    N0014 Finding Error "peer has no local update" "A remote update takes the semaphore of the peer's transfer of the same ordinal; that transfer updates none. The vendor's assertion 1511.";
    N0016 Finding Error "instruction on no engine" "Every instruction of a linked program sits on PE, Activation, Pool, DVE or SP. DMA, Unassigned and ALL are not valid engines of a stream.";
    N0017 Unsupported Error "branch too far" "The distance between a branch and its target does not fit.";
    N0018 Unsupported Error "too many variables" "Variables are numbered with 24 bits.";
    N0019 Finding Warning "shared location resolved late" "An alias of a shared DRAM location did not carry the owner's address yet; the linker copied it. The pass that synchronises shared allocations should have run before.";
    N0020 Unsupported Error "not linkable" "The program contains something linking does not handle: a function that calls itself, a branch into another region, a loop that divides its axis by no power of two under bounds known only at run time, or an instruction of an abstract kind.";
    N0021 Finding Error "shared location at different addresses" "A shared DRAM location has one copy, so its address must be equal on all cores. The vendor's verifier has the family 1195 to 1197.";
    N0022 Unsupported Error "out of registers" "An engine has 62 registers for programs; this one needs more at once.";
    N0023 Finding Error "alias used by a compute engine" "Only transfers can reach the memory of another core. The operand must be moved first.";
    N0024 Unsupported Error "accumulation depends on the path" "Whether a matmul overwrites PSUM or adds to it is decided by the order of writes and reads. Here the answer differs between executions of one instruction, or inside one destination, and one bundle cannot say both.";
    N0025 Input Error "program is already linked" "Linking numbers barriers and allocates semaphores once; it cannot be repeated on its own result.";
    N0026 Unsupported Error "copy cannot be split" "A transfer has more dimensions than its record holds, and source and destination cannot be cut into equal pieces that each fit.";

    // ---- E: encode ----
    E0001 Unsupported Error "instruction has no encoding" "There is no record for this type of instruction, or not for this form of it. The message says which form.";
    E0002 Unsupported Error "not on this generation" "The opcode exists on other generations only.";
    E0003 Unsupported Error "pattern does not fit its descriptor" "A descriptor holds a fixed number of free dimensions after unit pairs are dropped and contiguous ones merged, strides of 16 bits signed and counts of 16 bits. The vendor says: Illegal ISA memory access dimension.";
    E0004 Finding Error "bad address" "The address is misaligned for its dtype, outside the memory, or in a memory this operand cannot name.";
    E0005 Unsupported Error "value has no wire code" "The operation, dtype or enum member has no code on the wire of this generation, or the number does not fit its field.";
    E0006 Finding Error "swap needs exactly two cores" "The swap bundle names its peer by nothing but being the other core, so the LNC must have two. This is assertion 936 of the vendor's encoder.";
    E0007 Finding Error "wait and update share one value" "A bundle has one 32-bit value for its wait and its update. Both need it here with different numbers; the wait must move to an event-semaphore record before it.";
    E0008 Finding Error "too many semaphore commands" "A bundle carries one wait and one update, an event-semaphore record two waits and one update; semaphore numbers have 8 bits.";
    E0009 Unsupported Error "address only known at run time" "The record has no field for this kind of run-time address.";
    E0010 Finding Error "bundle breaks a rule of the machine" "A record was built or read that the machine's validator refuses. The message names the rule and the byte.";
    E0011 Internal Error "bundle does not read back" "Before a record is written it is decoded again and compared with the instruction. They differ, which is a fault of Tandem.";
    E0012 Finding Error "operand in the wrong memory" "The engine or the record cannot reach the memory of this operand. The vendor says for Pool: GPSIMD engine cannot access PSUM.";
    E0013 Finding Warning "print has no record" "DevicePrint exists for simulation; in the bundles a NoOp stands in its place.";
    E0014 Finding Note "non-authentic records" "No public source gives the layout of these records; ours is a choice on the known anchors. Tandem runs them, nothing claims that hardware would.";
    // reading containers and records (exit 2)
    E0101 Input Error "not a bundle container" "A container starts with the bytes TNDMBNDL and version 1.0.";
    E0102 Input Error "container damaged" "A length, checksum or content id does not fit the bytes, or reserved bytes are not zero. The file was truncated or edited.";
    E0103 Input Error "bad section table" "Sections are sorted, aligned to 64 bytes, adjacent, and of known kinds.";
    E0104 Input Error "record cannot be read" "A 64-byte record is no instruction: unknown opcode, a byte outside its fields, a field out of range, or a group of records that is not complete.";
    E0105 Input Error "table and record disagree" "A number stored in a table of the container differs from the one in the record it points at, or points at a record of another kind.";
    E0106 Input Error "bad JSON in a section" "A table of the container is not canonical JSON of the expected shape.";
    E0107 Input Error "container too large" "Sections have at most 2^32 bytes, streams at most 2^22 records, files at most 4096 sections.";

    // ---- C: static checks ----
    C0101 Finding Error "swap without a partner" "A swap needs both cores: the k-th swap of a pipe on one core meets the k-th of that pipe on the other. Here one core has more of them, so it would wait for ever at the first that is left over.";
    C0102 Finding Error "swap rank outside the LNC" "The ranks of an on-chip swap are core numbers of the LNC, 0 or 1.";
    C0103 Finding Error "swap ranks are not paired" "When core i sends to core s, core s must receive from core i. The usual swap has both ranks equal to 1 - core on both cores.";
    C0104 Finding Error "swap shapes differ" "The destination on the receiving core and the source on the sending core must have the same partitions and elements per partition.";
    C0105 Finding Error "swap element types differ" "A swap moves bits. The destination on the receiving core and the source on the sending core must have one element type.";
    C0201 Finding Error "collective disagrees between cores" "The k-th collective of a block on one core and the k-th on the other are two members of one operation: kind, operation, groups, pairs, dimension and operands must agree. If only one core has it, that core would wait for ever.";
    C0202 Finding Error "collective sizes do not fit" "A gather makes its destination as many times larger as the group has members, a scatter as many times smaller; every other collective keeps the size.";
    C0203 Finding Error "collective groups or pairs" "Ranks of groups and pairs must exist, must not repeat, and belong only to the kinds that use them. With ranks as cores they are the cores of the LNC.";
    C0204 Finding Error "collective operation" "Collectives fold with add, max or min; no other operation has an implementation on the machine.";
    C0301 Finding Error "core barrier without a partner" "Both cores must come to equally many core barriers. The core with more of them waits for ever at the first that is left over.";
    C0302 Finding Error "core barrier lists differ" "The two sides of a core barrier must name the same cores.";
    C0303 Finding Warning "core barrier names differ" "The two sides of a core barrier have different names. This compiler matches barriers by position and gives both the name of core 0; the vendor's compiler refuses such a program.";
    C0401 Finding Error "meetings cross" "Each core waits at a meeting (a swap, a barrier, a collective) that the other reaches only later, so neither goes on: a deadlock. Bring the meetings into the same order on both cores.";
    C0402 Finding Error "swaps of different pipes cross" "The cores execute swaps of different pipe ids in different orders. Swaps pair in order within a pipe, but the barriers around them meet in program order, so crossed pipes hang. The vendor's text would allow it.";
    C0403 Finding Error "one core meets alone" "A block with a swap, barrier or collective exists on one core only; the other core never comes to meet it.";
    C0404 Finding Error "unequal trip counts around a meeting" "A loop with constant bounds runs its body another number of times on one core than on the other, and the body holds a swap, a barrier, a collective or a completion token. The core with more rounds waits at a meeting that the other never reaches. Give both loops the same number of rounds, or move the meeting out.";
    C0405 Finding Error "queues of one core wait for each other" "Engines execute their instructions in order, and a dependency edge makes one wait for another. Here these two kinds of order form a cycle inside one core: each instruction of it waits for the next, and none can ever start. Reorder the instructions, or drop the edge that points forward.";
    C0406 Finding Error "pending wait" "A core waits for something that can never come: a completion token or a remote notification that the other core has fewer of. The program ends with a wait that nothing answers.";
    C0407 Finding Error "cores meet unequally often" "Along the paths that the registers of the program choose, one core comes to a swap, barrier or collective that the other does not come to: trip counts differ, or a branch leaves a meeting out. The core that comes to it waits for ever.";
    C0501 Finding Error "output never written" "No instruction writes this output of the kernel, so its bytes would be whatever was in memory.";
    C0601 Finding Error "missing core barrier" "Two cores touch the same bytes, at least one of them writes, and no core barrier, swap or completion token stands between the two accesses: the result depends on timing. Put a core barrier between them.";
    C0602 Finding Note "barrier check incomplete" "The program has more pairs of cross-core accesses than the barrier check compares (`--barrier-checker-pairs`), or blocks with more ways between them than it follows. What was compared is reported; the simulator's race check has no such limit.";
    C0603 Finding Error "location without a place" "An instruction of a lowered program uses an on-chip location that has neither an address nor an owner on another core, so nobody can say which bytes it touches. A pass forgot to place it, or a remote alias lost its owner.";
    C1187 Finding Error "core barrier counts differ" "The cores of one LNC have different numbers of core barriers, so one of them would wait for ever. The vendor's compiler fails here with the code in the note.";
    C1188 Finding Error "core barrier id" "The i-th core barrier of a core in program order has id i, so that equal ids meet. A pass that inserts a barrier numbers all of them anew.";
    C1189 Finding Error "core barrier names differ between cores" "The i-th core barrier has one name on all cores, that of core 0. Names made from per-core counters drift apart; barriers of a pass are named from core 0.";
    C1191 Finding Error "function missing on a core" "Every function of core 0 exists by name on the other cores.";
    C1192 Finding Error "block counts differ" "A function has equally many blocks on all cores.";
    C1193 Finding Error "function counts differ" "All cores of an LNC have equally many functions.";
    C1194 Finding Error "block names differ" "The blocks of a function have the same names in the same order on all cores.";
    C1195 Finding Error "shared location misplaced" "A shared location that another core owns must resolve to the owner's location by name and lie at the owner's address.";
    C1196 Finding Error "shared addresses differ" "All cores must have shared tensors at the same set of DRAM addresses; the bytes exist once.";
    C1197 Finding Error "shared location without an owner" "After the shared DRAM has been placed, every core but the owner names the owner of a shared internal location.";
    C1198 Finding Error "GPSIMD swap counts differ" "The k-th GPSIMD swap of one core meets the k-th of the other, so both have equally many.";
    C1199 Finding Error "shard id left over" "A module of one core must not mention the shard id any more: its value is that core's number.";
    C1200 Finding Error "more than one shard id" "A function of a symbolic module uses one shard id for all its core-dependent values.";
    C1201 Finding Error "core barrier on some cores only" "A core barrier of a symbolic module fires on no core or on all. One that fires on some would wait for ever.";
    C1202 Finding Error "GPSIMD swaps on some cores only" "The number of GPSIMD swaps that fire must be the same on every core.";
    C1203 Finding Error "module without a core" "Each module of a program for several cores knows which core it is for.";

    // ---- S: simulated faults ----
    S0001 Finding Error "bad address" "An operand leaves its memory location when the program runs: its static pattern does not fit, or a run-time offset moves it outside.";
    S0002 Unsupported Error "instruction not simulated" "The simulator has no model of this type of instruction, or of this form of it. Nothing was computed; no output is written.";
    S0003 Finding Error "run-time offset out of bounds" "An offset read from a register or from memory moves an access outside its tensor, and the instruction says that this is an error.";
    S0004 Finding Error "undefined register" "A register is used before anything was written to it. On the machine its content would be arbitrary.";
    S0005 Unsupported Error "simulation needs too much memory" "The locations that the program uses need more bytes than the limit given for a simulation. Raise the limit (`--max-memory`), or make the tensors smaller.";
    S0006 Finding Error "location outside its memory" "A placed location does not fit into the memory it lies in (partitions, bytes per partition, PSUM banks).";
    S0007 Finding Error "storage of an alias not found" "A location stands for one of another core, and that one does not exist.";
    S0008 Input Error "constant cannot be read" "The payload of a constant is missing, is no .npy file, or has another size than its location.";
    S0010 Finding Error "deadlock" "Nothing can run any more, and at least one core has not finished. The report names what each core waits for.";
    S0011 Finding Error "a core waits for one that ended" "A core waits at a synchronisation that the other core can no longer reach: it has finished its program. Both must execute the same number of swaps, barriers, collectives and completion tokens, in the same order.";
    S0012 Finding Error "swaps disagree" "The two sides of a swap do not fit: data type, partitions, elements or ranks differ.";
    S0013 Finding Error "barriers disagree" "The cores met at different barriers: their n-th barriers have different names and numbers.";
    S0014 Finding Error "collectives disagree" "The members of a collective do not fit: kind, operator, groups or shapes differ.";
    S0015 Finding Error "step limit reached" "The program executed more steps than the limit allows. A loop that never ends looks like this; raise the limit if the program is only long.";
    S0016 Finding Error "calls or regions too deep" "Calls and loop regions nest deeper than the limit; the program most likely calls itself without end.";
    S0020 Finding Error "data race" "Two accesses touch a common byte, at least one writes it, and nothing orders them: another order of the engines, queues or cores gives other bytes. The report shows both accesses. What orders accesses: a dependency edge or a common queue inside a core; a CoreBarrier, a swap or a completion token between cores.";
    S0021 Finding Error "undefined bytes used" "Bytes that nothing has written reach arithmetic, a predicate, a branch, an address, an index or an output. They may travel through copies and swaps before; the report names where they are used.";
    S0023 Finding Error "overlapping live allocations" "Two tensors are placed on common bytes and both are live: one was written, the other was written over it, and then the first is read. What is read are bytes of the other tensor. Move one of them, or let the second begin only after the last read of the first. What is one tensor has one location, whose bytes several patterns may name.";
    S0024 Finding Error "semaphore misuse" "A semaphore is used in a way that has no meaning on the machine: a number outside the 256 of a core, a counter that goes below 0, or a reset that nothing orders with the updates and waits around it. A semaphore that is both raised and lowered orders nothing and is a warning. Programs that the linker makes have none of these.";
    S0025 Finding Error "transfer in flight at the end" "A core can come to its end while a transfer it has issued is under way: no engine of the core waits for it. The bytes may land after the kernel has ended. Wait for the semaphore of the transfer before Exit.";
    S0026 Finding Note "two cores store the same values" "Nothing orders two writes of different cores, and they store the same bytes in the same places: the result does not depend on their order. A kernel that does not divide its work looks like this; it does the work twice. Other inputs may give other values, so a run proves this for its inputs only.";
    S0027 Finding Note "overlapping tensors not followed" "More tensors lie on common bytes, at times that the text of the program does not tell apart, than the check of overlapping tensors follows: for each of them it keeps, byte by byte, what was last written there, in a quarter of the memory that a simulation may take. Whether one of those left out is read after another was written over it is not known from this run. Give tensors addresses of their own, or check fewer of them at a time.";
    S0017 Finding Error "bad rank" "A rank or core number is outside the cores that run, or a collective names it twice.";
    S0022 Finding Error "NaN in a result" "Under the profile `birsim` memory starts as 0xFF, and a NaN in a result is the sign that bytes nobody has written were used. A NaN that the program means to compute looks the same; `can_read_uninit` on the instruction allows it, and the profile `hw` follows each byte instead.";
    S0201 Unsupported Error "operation not simulated" "The type of instruction is known, this operation, mode or operand form of it has no model. Nothing was computed; no output is written.";
    S0202 Finding Error "operands do not fit the instruction" "Element counts, element types, shapes or constants of an instruction break one of its rules. The message names the instruction and the rule.";
    S0203 Finding Error "index out of range" "A gather, scatter or dynamic offset reaches outside its tensor. The message shows the index and the limit. A transfer that is declared to skip such rows skips them instead.";
    S0205 Finding Error "accumulator used without a reset" "An instruction folds into, or reads, an engine accumulator whose content is unspecified. Reset it first (ZeroAccumulate).";
    S0206 Finding Warning "activation input outside the hardware range" "The hardware approximates this function only on a range of inputs. The simulator gives the exact function; the device will not.";
    S0208 Finding Warning "duplicate scatter indices" "Two rows of one scatter go to the same place. The simulator handles rows in order; the device documents such a transfer as unsupported when it accumulates.";
    S0209 Finding Note "automatic accumulation restarted after a read" "A matmul overwrites PSUM that was read since the last matmul wrote it. Another reading of the rule would go on accumulating; use explicit start and accumulate flags to be sure.";
    S0210 Finding Error "accumulation onto foreign PSUM" "A matmul accumulates onto PSUM that another kind of instruction initialised, which is undefined before trn3.";
    S0211 Finding Note "skipped as the reference skips it" "Under the profile `birsim` this type of instruction does nothing. The profile `hw` runs it.";
    S0212 Internal Error "instruction reached the wrong part of the simulator" "A fault of Tandem itself. Please report it with the file that shows it.";
    S0213 Finding Warning "overlapping in-place operands" "A destination overlaps a source without being the same pattern. The simulator reads everything first; the device streams and may read what it has just written.";
    S0214 Finding Warning "PSUM read before its group is finished" "An instruction reads PSUM of an explicit accumulation group before the matmul that is marked as its last.";

    // ---- I: faults of Tandem itself (exit 70) ----
    I0001 Internal Error "internal error" "A fault of Tandem itself. Please report it with the file that shows it.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_well_formed() {
        let mut seen = std::collections::BTreeSet::new();
        for c in ALL {
            let id = c.info().id;
            assert!(seen.insert(id), "{id} twice");
            assert_eq!(id.len(), 5, "{id}");
            assert!("UPKVLNECSI".contains(&id[..1]) && id[1..].bytes().all(|b| b.is_ascii_digit()), "{id}");
            assert!(!c.info().title.is_empty() && !c.info().page.is_empty(), "{id}");
            assert_eq!(Code::from_id(id), Some(*c));
        }
    }
}
