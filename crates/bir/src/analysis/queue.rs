//! In-order queues of a core at level lowered.

use crate::enums::EngineKind;
use crate::inst::Inst;
use crate::verify::effective_engine;

/// Queues of a core, one for each engine that executes. The transfers that one issues go by queues of their own.
pub const QUEUES: usize = 5;

/// Queue of an instruction; `None` for engine ALL, which sits in all of them. Transfers that name no engine are issued by SP, and
/// each issuing engine has its own queues of transfers (our choice; no source says how they are dealt out at this level).
pub fn queue(inst: &Inst) -> Option<usize> {
    match effective_engine(inst) {
        EngineKind::Pe => Some(0),
        EngineKind::Activation => Some(1),
        EngineKind::Dve => Some(2),
        EngineKind::Pool | EngineKind::Unassigned => Some(3),
        EngineKind::Sp | EngineKind::Dma => Some(4),
        EngineKind::All => None,
    }
}
