//! Which reading of the undocumented numeric rules the simulator follows.

/// The reading; presets `hw` and `birsim`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumericProfile {}
