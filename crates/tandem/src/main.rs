//! Command line of Tandem.
fn main() {}
