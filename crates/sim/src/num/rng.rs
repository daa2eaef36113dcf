//! Random generators, reproducible from their state.
//!
//! Source: the specification, file 09 §6.13: MT19937-64 (textbook constants), XORWOW, LFSR, PCG32, Philox4x32-10.

use tandem_bir::RandomAlgorithmKind;

/// Mersenne Twister with 64-bit words; the host generator behind Memset(Random) off the Pool engine.
#[derive(Clone, Debug)]
pub struct Mt19937_64 {
    state: Box<[u64; 312]>,
    next: usize,
}

impl Mt19937_64 {
    /// Seeds the state by the textbook recurrence.
    pub fn new(seed: u64) -> Mt19937_64 {
        let mut state = Box::new([0u64; 312]);
        state[0] = seed;
        for i in 1..312 {
            let p = state[i - 1];
            state[i] = 6_364_136_223_846_793_005u64.wrapping_mul(p ^ (p >> 62)).wrapping_add(i as u64);
        }
        Mt19937_64 { state, next: 312 }
    }
    /// Next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        if self.next >= 312 {
            for i in 0..312 {
                let x = (self.state[i] & 0xFFFF_FFFF_8000_0000) | (self.state[(i + 1) % 312] & 0x7FFF_FFFF);
                let mag = if x & 1 == 1 { 0xB502_6F5A_A966_19E9 } else { 0 };
                self.state[i] = self.state[(i + 156) % 312] ^ (x >> 1) ^ mag;
            }
            self.next = 0;
        }
        let mut x = self.state[self.next];
        self.next += 1;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71D6_7FFF_EDA6_0000;
        x ^= (x << 37) & 0xFFF7_EEE0_0000_0000;
        x ^ (x >> 43)
    }
    /// Next 32 bits: the low half of a draw (inferred).
    pub fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }
}

impl Default for Mt19937_64 {
    /// Seed 42, as the reference starts it.
    fn default() -> Self {
        Mt19937_64::new(42)
    }
}

/// XORWOW: five words and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xorwow {
    /// s0..s4 and the counter.
    pub words: [u32; 6],
}

impl Default for Xorwow {
    /// All ones, the device's state after reset.
    fn default() -> Self {
        Xorwow { words: [u32::MAX; 6] }
    }
}

impl Xorwow {
    /// From six words; a state of five zero words becomes word 4 = 1.
    pub fn new(mut words: [u32; 6]) -> Xorwow {
        if words[..5] == [0; 5] {
            words[4] = 1;
        }
        Xorwow { words }
    }
    /// Next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let w = &mut self.words;
        let t = w[0] ^ (w[0] >> 2);
        w[0] = w[1];
        w[1] = w[2];
        w[2] = w[3];
        w[3] = w[4];
        w[4] = (w[4] ^ (w[4] << 4)) ^ (t ^ (t << 1));
        w[5] = w[5].wrapping_add(362_437);
        w[5].wrapping_add(w[4])
    }
}

/// `[0, 1)` from the low 23 bits.
pub fn unit(r: u32) -> f32 {
    f32::from_bits(0x3F80_0000 | (r & 0x007F_FFFF)) - 1.0
}

/// One step of a 32-bit LFSR with taps 32, 22, 2, 1.
pub fn lfsr_step(s: u32) -> u32 {
    let bit = (s >> 31) ^ (s >> 21) ^ (s >> 1) ^ s;
    s << 1 | (bit & 1)
}

/// PCG32 (XSH-RR): output and next state.
pub fn pcg32(state: u64) -> (u32, u64) {
    let next = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    let x = (((state >> 18) ^ state) >> 27) as u32;
    (x.rotate_right((state >> 59) as u32), next)
}

/// Philox4x32-10: four words from a counter and a key.
pub fn philox4x32_10(mut ctr: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(ctr[0]) * 0xD251_1F53;
        let b = u64::from(ctr[2]) * 0xCD9E_8D57;
        ctr = [(b >> 32) as u32 ^ ctr[1] ^ key[0], b as u32, (a >> 32) as u32 ^ ctr[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    ctr
}

/// A generator of IT 60 and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The register.
    Lfsr(u32),
    /// The state.
    Pcg32(u64),
    /// Key, number of the next block of four words, words of the block already given.
    Philox([u32; 2], u64, u8),
}

impl Stream {
    /// The stream that a seed starts; an LFSR never starts at zero, where it would stay.
    pub fn new(kind: RandomAlgorithmKind, seed: u64) -> Stream {
        match kind {
            RandomAlgorithmKind::Lfsr => Stream::Lfsr((seed as u32).max(1)),
            RandomAlgorithmKind::Pcg32 => Stream::Pcg32(seed),
            RandomAlgorithmKind::Philox1 => Stream::Philox([seed as u32, (seed >> 32) as u32], 0, 0),
        }
    }
    /// Next 32 bits; `steps` is what an LFSR advances by.
    pub fn next_u32(&mut self, steps: u32) -> u32 {
        match self {
            Stream::Lfsr(s) => {
                (0..steps).for_each(|_| *s = lfsr_step(*s));
                *s
            }
            Stream::Pcg32(s) => {
                let (word, next) = pcg32(*s);
                *s = next;
                word
            }
            Stream::Philox(key, block, given) => {
                let words = philox4x32_10([*block as u32, (*block >> 32) as u32, 0, 0], *key);
                let word = words[usize::from(*given)];
                (*given, *block) =
                    if *given == 3 { (0, block.wrapping_add(1)) } else { (*given + 1, *block) };
                word
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mt19937_64_gives_the_standard_10000th_draw() {
        // The C++ standard fixes it for the default seed 5489.
        let mut g = Mt19937_64::new(5489);
        let last = (0..10_000).map(|_| g.next_u64()).last();
        assert_eq!(last, Some(9_981_545_732_273_789_042));
    }

    #[test]
    fn philox_gives_the_published_known_answers() {
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn xorwow_never_sticks_at_zero() {
        let mut x = Xorwow::new([0; 6]);
        assert_eq!(x.words, [0, 0, 0, 0, 1, 0]);
        // By hand: t = 0, w4 = 1 ^ 1<<4 = 17, counter 362437.
        assert_eq!(x.next_u32(), 362_437 + 17);
    }

    #[test]
    fn lfsr_passes_through_all_states_but_zero() {
        // The polynomial is primitive, so the order of the step divides 2^32 - 1 = 3·5·17·257·65537 and no proper divisor.
        // The step is linear: its matrix over GF(2) is raised to each power.
        let apply = |m: &[u32; 32], v: u32| (0..32).filter(|i| v >> i & 1 == 1).fold(0, |a, i| a ^ m[i]);
        let power = |mut n: u32| {
            let mut out: [u32; 32] = std::array::from_fn(|i| 1 << i);
            let mut base: [u32; 32] = std::array::from_fn(|i| lfsr_step(1 << i));
            while n > 0 {
                if n & 1 == 1 {
                    out = std::array::from_fn(|i| apply(&base, out[i]));
                }
                base = std::array::from_fn(|i| apply(&base, base[i]));
                n >>= 1;
            }
            out
        };
        let unit: [u32; 32] = std::array::from_fn(|i| 1 << i);
        assert_eq!(power(u32::MAX), unit);
        for p in [3, 5, 17, 257, 65537] {
            assert_ne!(power(u32::MAX / p), unit, "{p}");
        }
    }

    #[test]
    fn pcg32_gives_the_draws_of_its_definition() {
        // The first draws for state 42 by the recurrence in arbitrary-precision Python.
        let mut g = Stream::new(RandomAlgorithmKind::Pcg32, 42);
        let got: Vec<u32> = (0..4).map(|_| g.next_u32(0)).collect();
        assert_eq!(got, [0x0000_0000, 0x7583_0bbd, 0x0e6d_fdb2, 0xce19_afdf]);
    }

    #[test]
    fn philox_streams_count_blocks() {
        let mut g = Stream::new(RandomAlgorithmKind::Philox1, 7 << 32 | 5);
        let got: Vec<u32> = (0..8).map(|_| g.next_u32(0)).collect();
        let want = [philox4x32_10([0, 0, 0, 0], [5, 7]), philox4x32_10([1, 0, 0, 0], [5, 7])].concat();
        assert_eq!(got, want);
    }
}
