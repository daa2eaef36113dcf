//! The command line: verbs, options, their help texts.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Compiles, checks and runs multi-core NeuronCore kernels without the chip.
#[derive(Debug, Parser)]
#[command(name = "tandem", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Only errors.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// More detail; notes of the reader and of passes are shown.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What a file holds: kind, version, kernel, cores, inputs and outputs, operators.
    Info(InfoArgs),
    /// Compile to a level and print it.
    Lower(LowerArgs),
    /// Verify and analyse without inputs.
    Check(CheckArgs),
    /// Simulate on all cores and write the outputs.
    Run(RunArgs),
    /// Simulate with costs attached and predict the time.
    Time(TimeArgs),
    /// Check, simulate and time, and write one self-contained HTML page about it.
    Report(ReportArgs),
    /// Compile to 64-byte instruction bundles and write a container.
    Encode(EncodeArgs),
    /// Print the bundles of a container.
    Disasm(DisasmArgs),
    /// Why each swap took its transport, or the page of a diagnostic code.
    Explain(ExplainArgs),
    /// Print a shell's completion script.
    Completions {
        /// Shell to write for.
        shell: clap_complete::Shell,
    },
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Form of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// SARIF 2.1.0, for code hosts and editors.
    Sarif,
}

/// Options of the compiler, common to most verbs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Compiler options")]
pub struct CompileArgs {
    /// Chip generation: trn1, trn2 or trn3 (default: the `arch` of a BIR file, else trn2).
    #[arg(long)]
    pub target: Option<String>,
    /// Cores of the logical NeuronCore (default: the bodies or modules of the input; 2 for a module with shard ids).
    #[arg(long)]
    pub lnc: Option<u32>,
    /// Swaps whose effective bytes per partition are at most this go over GPSIMD; 0 sends all by DMA.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub sendrecv_to_gpsimd_max_bpp: u64,
    /// Transport of swaps: the rule, one of the two, or what the kernel asked for.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,
    /// Copy a swap's tiles through dense temporaries when only their shape is illegal for GPSIMD.
    #[arg(long)]
    pub sb2sb_repack: bool,
    /// Leave out the closing barrier of a GPSIMD swap.
    #[arg(long)]
    pub sb2sb_elide_end_barrier: bool,
    /// Run lower_local_collectives and the shared-DRAM allocator before scheduling (trn2 only).
    #[arg(long)]
    pub run_shared_allocation_before_post_sched: bool,
    /// Completion tokens (default: p2p with two cores, else off).
    #[arg(long, value_enum)]
    pub ptcom: Option<Ptcom>,
    /// With `--ptcom notify`: how many core barriers after the last write the token stands.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub ptcom_barrier_distance: u32,
    /// Replace the closing barrier of a DMA swap by a remote semaphore update.
    #[arg(long)]
    pub enable_remote_semaphore_dma: bool,
    /// Create separate barriers for shared lifetimes instead of re-using existing ones.
    #[arg(long)]
    pub separate_lifetime_corebarriers: bool,
    /// Do not run the missing-barrier check.
    #[arg(long)]
    pub skip_barrier_checker: bool,
    /// Pairs of accesses that the missing-barrier check compares at most; beyond, it says that it stopped.
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub barrier_checker_pairs: u64,
    /// Whether an AllReduce over exactly the cores of this LNC is lowered on chip.
    #[arg(long, value_enum, default_value_t = LocalAllReduce::Auto)]
    pub local_allreduce: LocalAllReduce,
    /// Replica ids are the cores of this one LNC (the default).
    #[arg(long, value_enum, value_name = "WHAT")]
    pub ranks_are: Option<RanksAre>,
    /// Simulate N whole LNCs; replica ids are their ranks.
    #[arg(long, value_name = "N", conflicts_with = "ranks_are")]
    pub ranks: Option<u32>,
    /// Switch off everything that goes beyond neuronx-cc 2.24.
    #[arg(long = "strict-2-24")]
    pub strict_2_24: bool,
}

/// `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// By the documented rule.
    Auto,
    /// Always GPSIMD; an error where it is illegal.
    Gpsimd,
    /// Never GPSIMD.
    Dma,
    /// What the kernel asked for.
    Request,
}
/// `--ptcom`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ptcom {
    /// None.
    Off,
    /// Point to point: waits for the last writes of all cores.
    P2p,
    /// Notice to the runtime; orders nothing.
    Notify,
}
/// `--local-allreduce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LocalAllReduce {
    /// When its one group is exactly the cores of the LNC.
    Auto,
    /// Keep it global.
    Never,
    /// Make every AllReduce local.
    Always,
}
/// `--ranks-are`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RanksAre {
    /// Cores of this LNC.
    Cores,
}

/// `tandem info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`.
    pub file: PathBuf,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What `tandem lower` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// The traced operators.
    Klr,
    /// Per-core BIR with abstract collectives.
    Bir,
    /// After the multi-core passes.
    Lowered,
    /// Names resolved, semaphores allocated.
    Linked,
}

/// `tandem lower`.
#[derive(Debug, Args)]
pub struct LowerArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`.
    pub file: PathBuf,
    /// Level to print.
    #[arg(long, value_enum, default_value_t = Emit::Lowered)]
    pub emit: Emit,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write here instead of to standard output (a folder for several JSON modules).
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Print the program after this pass to standard error (`all` for every pass).
    #[arg(long, value_name = "PASS")]
    pub print_after: Vec<String>,
    /// Print the time of each pass to standard error.
    #[arg(long)]
    pub time_passes: bool,
    /// Print what each pass counted to standard error.
    #[arg(long)]
    pub stats: bool,
    /// Run the verifier after each pass.
    #[arg(long)]
    pub verify_each: bool,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// When findings make the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// On an error.
    Error,
    /// Also on a warning.
    Warning,
    /// Never.
    Never,
}

/// `tandem check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`.
    pub file: PathBuf,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Severity that makes the exit code 1.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// Level to run at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunLevel {
    /// Program order on each core.
    Bir,
    /// Engines and DMA queues asynchronous, started by dependency edges.
    Lowered,
    /// Queue order and semaphores.
    Linked,
    /// The same, decoded from the bundles.
    Bundles,
}

/// `tandem run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`; further files are inputs in parameter order.
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Input tensor: `name=file.npy`; with `--ranks`, `rank1:name=file.npy` is that of one rank.
    #[arg(short, long = "input", value_name = "NAME=FILE")]
    pub inputs: Vec<String>,
    /// Fill inputs that no file gives from this seed.
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// Folder for the outputs, one `.npy` each.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Level to run at.
    #[arg(long, value_enum, default_value_t = RunLevel::Lowered)]
    pub level: RunLevel,
    /// Order of legal steps: `eager`, `late` or `seed=N`.
    #[arg(long, default_value = "eager")]
    pub schedule: String,
    /// Numbers as on the device or as in the vendor's simulator.
    #[arg(long, value_enum, default_value_t = Profile::Hw)]
    pub numeric_profile: Profile,
    /// Print executed instructions per core and type.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub stats: Option<Format>,
    /// Do not look for data races.
    #[arg(long)]
    pub no_race_check: bool,
    /// Stop after this many instructions.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Memory that the simulation may take (default 8).
    #[arg(long, value_name = "GIB")]
    pub max_memory: Option<u64>,
    /// What the use of bytes that nothing has written is.
    #[arg(long, value_enum, default_value_t = Uninit::Error)]
    pub uninit: Uninit,
    /// Content of memory before the first write: `ff`, `nan4` (NaN in floats, 4 in integers) or `random=N`.
    #[arg(long, default_value = "ff")]
    pub fill: String,
    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Severity that makes the exit code 1.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Run again what a replay file describes (docs/replay.md); options that decide what happens come from that file.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Where a replay file goes when the verdict is refuted (with -o DIR also without this: DIR/replay.json).
    #[arg(long, value_name = "PATH")]
    pub save_replay: Option<PathBuf>,
    /// Write who waits for whom as a Graphviz graph, when the run ends in a deadlock.
    #[arg(long, value_name = "FILE")]
    pub deadlock_dot: Option<PathBuf>,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `--uninit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Uninit {
    /// An error.
    Error,
    /// A warning.
    Warn,
    /// Not looked for.
    Off,
}

/// `tandem time`.
#[derive(Debug, Args)]
pub struct TimeArgs {
    /// Level to time: dependency edges (`lowered`), or streams and semaphores (`linked`, `bundles`; what a container holds).
    #[arg(long, value_enum, default_value_t = RunLevel::Lowered)]
    pub level: RunLevel,
    /// Formulas of the costs: `doc` (published figures), `hwm` (the reference compiler's), `unit` (1 ns each).
    #[arg(long, default_value = "doc", value_name = "NAME")]
    pub back_end: String,
    /// JSON file whose numbers replace those of the model.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Numbers to start from: `default`, or `conservative` (transfers start later).
    #[arg(long, value_enum, default_value_t = Preset::Default)]
    pub preset: Preset,
    /// The PE array's current limit after low activity (default: on for trn2 and trn3).
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub pe_ramp: Option<OnOff>,
    /// Instead of one prediction, a table: `sendrecv-to-gpsimd-max-bpp` runs the kernel with every setting of that option
    /// that makes a difference, `bytes=4..65536` compares the transports of a swap by its size (no file needed). Both name
    /// the crossover and the best setting.
    #[arg(long, value_name = "WHAT")]
    pub sweep: Option<String>,
    /// Print every number of the model with its source and certainty; runs nothing.
    #[arg(long)]
    pub list_params: bool,
    /// Kernel or BIR file, folder of per-core BIR, or `-`; further files are inputs in parameter order.
    #[arg(required_unless_present_any = ["list_params", "sweep"], num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Input tensor: `name=file.npy`.
    #[arg(short, long = "input", value_name = "NAME=FILE")]
    pub inputs: Vec<String>,
    /// Fill inputs that no file gives from this seed.
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// Stop after this many instructions.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Memory that the simulation may take (default 8).
    #[arg(long, value_name = "GIB")]
    pub max_memory: Option<u64>,
    /// Write every execution as a Perfetto trace (open it in Perfetto's viewer); a name that ends in `.json` gets the array of
    /// Chrome trace events that the reference compiler's `perf_sim` writes.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweep", "list_params"])]
    pub trace: Option<PathBuf>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `tandem report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`; further files are inputs in parameter order.
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the page here.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Input tensor: `name=file.npy`.
    #[arg(short, long = "input", value_name = "NAME=FILE")]
    pub inputs: Vec<String>,
    /// Fill inputs that no file gives from this seed (0 when neither control flow nor addresses depend on data).
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// Stop after this many instructions.
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Memory that the simulation may take (default 8).
    #[arg(long, value_name = "GIB")]
    pub max_memory: Option<u64>,
    /// Formulas of the costs: `doc` (published figures), `hwm` (the reference compiler's), `unit` (1 ns each).
    #[arg(long, default_value = "doc", value_name = "NAME")]
    pub back_end: String,
    /// JSON file whose numbers replace those of the model.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Severity that makes the exit code 1.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Form of what is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

impl RunArgs {
    /// A run at level lowered with all checks, that writes nothing.
    pub fn plain(files: &[PathBuf], compile: &CompileArgs) -> RunArgs {
        RunArgs {
            files: files.to_vec(),
            inputs: Vec::new(),
            random: None,
            output: None,
            level: RunLevel::Lowered,
            schedule: "eager".to_owned(),
            numeric_profile: Profile::Hw,
            stats: None,
            no_race_check: false,
            max_steps: None,
            max_memory: None,
            uninit: Uninit::Error,
            fill: "ff".to_owned(),
            format: ReportFormat::Text,
            fail_on: FailOn::Error,
            replay: None,
            save_replay: None,
            deadlock_dot: None,
            compile: compile.clone(),
        }
    }

    /// The same run with these inputs.
    pub fn fed(self, inputs: &[String], random: Option<u64>) -> RunArgs {
        RunArgs { inputs: inputs.to_vec(), random, ..self }
    }

    /// Bytes that the simulation may take.
    pub fn memory_limit(&self) -> u64 {
        let gib = |n: u64| n.saturating_mul(1 << 30);
        self.max_memory.map_or(tandem_sim::RunOptions::default().memory_limit, gib)
    }

    /// The same run with at most so many instructions and so much memory.
    pub fn within(self, max_steps: Option<u64>, max_memory: Option<u64>) -> RunArgs {
        RunArgs { max_steps, max_memory, ..self }
    }
}

impl TimeArgs {
    /// The functional run that is timed.
    pub fn run_args(&self) -> RunArgs {
        let run = RunArgs::plain(&self.files, &self.compile);
        let run = run.fed(&self.inputs, self.random).within(self.max_steps, self.max_memory);
        RunArgs { level: self.level, ..run }
    }
}

impl ReportArgs {
    /// The functional run that is shown.
    pub fn run_args(&self) -> RunArgs {
        RunArgs::plain(&self.files, &self.compile)
            .fed(&self.inputs, self.random)
            .within(self.max_steps, self.max_memory)
    }
}

/// `--preset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Numbers of the model.
    Default,
    /// A transfer starts 1,000 ns after its trigger, so that start and semaphore make up the documented 1,300 ns.
    Conservative,
}

/// `--pe-ramp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// On.
    On,
    /// Off.
    Off,
}

/// `--numeric-profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// The device.
    Hw,
    /// The vendor's BIR simulator.
    Birsim,
}

/// Content of byte +0x21 of the swap's bundle (decision D5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bf21 {
    /// Number of active partitions.
    Count,
    /// Base partition of the partner's tile.
    PeerPartition,
}

/// `tandem encode`.
#[derive(Debug, Args)]
pub struct EncodeArgs {
    /// Kernel or BIR file, folder of per-core BIR, or `-`.
    pub file: PathBuf,
    /// Write the container here.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List the record layouts that are our own choice.
    #[arg(long)]
    pub explain: bool,
    /// Leave out the table of names and source positions.
    #[arg(long)]
    pub no_debug: bool,
    /// Content of byte +0x21 of the swap's bundle.
    #[arg(long, value_enum, default_value_t = Bf21::Count)]
    pub bf21: Bf21,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `tandem disasm`.
#[derive(Debug, Args)]
pub struct DisasmArgs {
    /// A container, or anything that can be encoded.
    pub file: PathBuf,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Compiler options, for a file that is no container.
    #[command(flatten)]
    pub compile: CompileArgs,
}

/// `tandem explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A file, or a diagnostic code such as S0020.
    pub what: String,
    /// JSON file whose numbers replace those of the timing model.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Compiler options.
    #[command(flatten)]
    pub compile: CompileArgs,
}
