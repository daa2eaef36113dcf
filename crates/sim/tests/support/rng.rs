//! Choices of random programs.

use tandem_sim::random::SplitMix64;

/// A source of choices.
pub(crate) struct Rng(pub(crate) SplitMix64);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub(crate) fn pick<'a>(&mut self, v: &[&'a str]) -> &'a str {
        v[self.below(v.len() as u64) as usize]
    }
}
