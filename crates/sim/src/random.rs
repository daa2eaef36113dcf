//! Random inputs for `--random SEED`: our choice, fixed for ever, the same on every host.
//!
//! The stream of a tensor depends on the seed and on the tensor's name, so adding an input does not change the others.
//! Generator: SplitMix64 (a 64-bit counter and a mixing function). Floats are standard normal by the sum of twelve uniforms
//! minus six (no transcendental function, so every host gets the same bits; |x| ≤ 6); integers are uniform in −128..=127,
//! or 0..=255 for unsigned types. Conversion to the element type is [`half`]'s, or the caller's for narrower ones.

use crate::tensor::{Tensor, byte_len};
use half::{bf16, f16};
use tandem_bir::Dtype;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Uniform below `n` (n > 0).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    /// Approximately standard normal: twelve 16-bit uniforms. The value is a multiple of 2⁻¹⁶, exact in `f32`.
    pub fn normal(&mut self) -> f32 {
        let mut sum = 0i64;
        for _ in 0..3 {
            let z = self.next_u64();
            for k in 0..4 {
                sum += ((z >> (16 * k)) & 0xffff) as i64;
            }
        }
        // Twelve uniforms on 0..65536 have mean 12 · 32767.5.
        (2 * sum - 12 * 65535) as f32 / 131_072.0
    }
}

/// A random tensor for a port; `None` when its size overflows or exceeds `limit` bytes.
pub fn random_tensor(seed: u64, name: &str, dtype: Dtype, shape: &[u64], limit: u64) -> Option<Tensor> {
    let len = byte_len(dtype, shape).filter(|&n| n <= limit)?;
    // FNV-1a of the name tells streams apart.
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for b in name.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut rng = SplitMix64(seed ^ h);
    let n = len / dtype.bytes();
    let mut bytes = Vec::with_capacity(len as usize);
    for _ in 0..n {
        match dtype {
            Dtype::Float32 | Dtype::Float32r => bytes.extend_from_slice(&rng.normal().to_le_bytes()),
            Dtype::Bfloat16 => bytes.extend_from_slice(&bf16::from_f32(rng.normal()).to_le_bytes()),
            Dtype::Float16 => bytes.extend_from_slice(&f16::from_f32(rng.normal()).to_le_bytes()),
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => {
                bytes.extend_from_slice(&rng.below(256).to_le_bytes()[..dtype.bytes() as usize]);
            }
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => {
                let v = rng.below(256) as i64 - 128;
                bytes.extend_from_slice(&v.to_le_bytes()[..dtype.bytes() as usize]);
            }
            Dtype::Float8E8m0Fnu => bytes.push(119 + rng.below(16) as u8),
            // A random sign and a pattern between zero and the middle of the range: finite in every format.
            Dtype::Float8E3 | Dtype::Float8E4 | Dtype::Float8E4m3Fn | Dtype::Float8E5 => {
                let z = rng.next_u64();
                bytes.push((z & 0x80) as u8 | ((z >> 8) % 0x48) as u8);
            }
            Dtype::Float4E2m1FnX4 => bytes.extend_from_slice(&(rng.next_u64() as u16).to_le_bytes()),
            Dtype::Float8E4m3FnX4 | Dtype::Float8E5m2X4 => {
                for _ in 0..4 {
                    let z = rng.next_u64();
                    bytes.push((z & 0x80) as u8 | ((z >> 8) % 0x48) as u8);
                }
            }
        }
    }
    Some(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_first_values() {
        // Reference values of SplitMix64 with seed 1234567.
        let mut r = SplitMix64(1_234_567);
        assert_eq!([r.next_u64(), r.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut r = SplitMix64(7);
        let v: Vec<f64> = (0..40_000).map(|_| f64::from(r.normal())).collect();
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64;
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
    }

    #[test]
    fn streams_differ_by_name_and_repeat_by_seed() {
        let f = |s, n| random_tensor(s, n, Dtype::Float32, &[4], 100).unwrap().bytes;
        assert_eq!(f(1, "x"), f(1, "x"));
        assert_ne!(f(1, "x"), f(1, "y"));
        assert_ne!(f(1, "x"), f(2, "x"));
        assert!(random_tensor(1, "x", Dtype::Float32, &[26], 100).is_none());
    }
}
