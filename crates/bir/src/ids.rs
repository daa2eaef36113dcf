//! Typed ids. All are indexes into arenas of one [`crate::Module`]; identity across cores is by name.

use cranelift_entity::entity_impl;

macro_rules! ids {
    ($( $(#[$m:meta])* $name:ident $prefix:literal ),* $(,)?) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);
        entity_impl!($name, $prefix);
    )* };
}

ids! {
    /// A function of a module.
    FuncId "fn",
    /// A basic block of a module.
    BlockId "bb",
    /// An instruction of a module.
    InstId "i",
    /// A memory location set (logical tensor).
    SetId "set",
    /// A memory location (placement of a tensor).
    MemLocId "m",
    /// A scalar register.
    RegId "r",
}

/// Index of a physical core inside its logical NeuronCore (LNC).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CoreId(pub u32);

impl CoreId {
    /// As a container index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for CoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
