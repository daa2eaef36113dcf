//! What a run hands back.

use crate::report::WaitFor;
use crate::state::Print;
use crate::tensor::Tensor;
use serde_json::{Map, Value, json};
use tandem_bir::diag::Diagnostic;
use tandem_bir::inst::table::TABLE;
use tandem_bir::{BirEnum as _, Opcode};

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Every core reached its end.
    Finished,
    /// Nothing could run any more.
    Deadlock,
    /// The step limit was reached.
    StepLimit,
    /// An instruction could not be carried out.
    Fault,
    /// The caller asked to stop.
    Cancelled,
}

/// Instructions executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Per simulated core, by InstructionType.
    pub executed: Vec<Vec<u64>>,
}

impl Stats {
    /// How often a core executed a type.
    pub fn count(&self, core: usize, op: Opcode) -> u64 {
        self.executed.get(core).and_then(|c| c.get(op.ordinal() as usize)).copied().unwrap_or(0)
    }
    /// `{"cores":[{"core":0,"executed":{"DMACopy":2,…}}]}`, types in InstructionType order, zero counts left out.
    pub fn to_json(&self) -> Value {
        let cores: Vec<Value> = self
            .executed
            .iter()
            .enumerate()
            .map(|(core, counts)| {
                let mut m = Map::new();
                for (row, n) in TABLE.iter().zip(counts) {
                    if *n > 0 {
                        m.insert(row.opcode.name().to_owned(), json!(n));
                    }
                }
                json!({"core": core, "executed": m})
            })
            .collect();
        json!({ "cores": cores })
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it stopped.
    pub stop: StopReason,
    /// Outputs in the order of the signature. Complete only when `stop` is [`StopReason::Finished`].
    pub outputs: Vec<Tensor>,
    /// Instructions executed.
    pub stats: Stats,
    /// What DevicePrint printed, in the order of execution per core.
    pub prints: Vec<Print>,
    /// Findings and remarks.
    pub diagnostics: Vec<Diagnostic>,
    /// Who waits for whom, after a deadlock.
    pub wait_for: Option<WaitFor>,
    /// Instructions and control steps completed.
    pub steps: u64,
    /// Undefined bytes were carried to a place that other values chose (a gather, a select by predicate): with other values
    /// they might have reached a use.
    pub carried_by_value: bool,
    /// Most distinct operand footprints that the race check kept at once.
    pub race_records: usize,
    /// Instructions whose computation came later than their place in the order ([`crate::RunOptions::side_by_side`]).
    pub put_off: u64,
}
