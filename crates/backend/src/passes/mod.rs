//! The passes, one module each. `run_single` entries give the documented answer of the single-module form.

pub mod allocate;
pub mod anti_dependency;
pub mod assign_engines;
pub mod build_deps;
pub mod local_allreduce;
pub mod lower_local_collectives;
