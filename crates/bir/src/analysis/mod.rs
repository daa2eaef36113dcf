//! Pure analyses of BIR: they read a program and return facts; nothing here changes a program or reports a finding.

pub mod cfg;
pub mod data;
pub mod dom;
pub mod edges;
pub mod footprint;
pub mod queue;
pub mod sb2sb;
pub mod scc;
