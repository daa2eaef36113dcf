//! The passes, one module each. `run_single` entries give the documented answer of the single-module form.

pub mod allocate;
pub mod anti_dependency;
pub mod assign_engines;
pub mod build_deps;
mod by_life;
mod confined;
pub mod dead_code_elim;
pub mod expand_replication;
pub mod extend_shared_lifetimes;
mod free_list;
pub mod fresh_psum;
pub mod insert_ptcom;
mod lifetimes;
pub mod lnc_splitter;
pub mod local_allreduce;
pub mod localize_shared_memory;
pub mod lower_control;
pub mod lower_local_collectives;
mod make_room;
mod seats;
pub mod shared_dram_alloc;
mod spill;
pub mod sync_before_global_cc;
pub mod sync_shared_allocations;
