//! SHA-256 of an input: of a file's bytes, or of the names and bytes of a folder's files.

use std::path::Path;

/// Digest of bytes, as hexadecimal digits.
pub fn sha256(data: &[u8]) -> String {
    let (h0, k) = constants();
    let mut h = h0;
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(data.len() as u64).wrapping_mul(8).to_be_bytes());
    for chunk in padded.chunks_exact(64) {
        let mut w = [0u32; 64];
        for (w, b) in w.iter_mut().zip(chunk.chunks_exact(4)) {
            *w = b.iter().fold(0, |a, b| (a << 8) | u32::from(*b));
        }
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        }
        let mut v = h;
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let ch = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7].wrapping_add(s1).wrapping_add(ch).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            let t2 = s0.wrapping_add(maj);
            v = [t1.wrapping_add(t2), v[0], v[1], v[2], v[3].wrapping_add(t1), v[4], v[5], v[6]];
        }
        h.iter_mut().zip(v).for_each(|(a, b)| *a = a.wrapping_add(b));
    }
    h.iter().map(|x| format!("{x:08x}")).collect()
}

/// First 32 bits of the fractions of the square roots of the first 8 primes and of the cube roots of the first 64.
fn constants() -> ([u32; 8], [u32; 64]) {
    let mut primes = Vec::with_capacity(64);
    let mut n = 2u64;
    while primes.len() < 64 {
        if primes.iter().all(|p| n % p != 0) {
            primes.push(n);
        }
        n += 1;
    }
    // floor(p^(1/r) · 2^32), by bisection on whole numbers.
    let root = |p: u64, r: u32| -> u32 {
        let target = u128::from(p) << (32 * r.min(3));
        let (mut lo, mut hi) = (0u128, 1u128 << 40);
        while hi - lo > 1 {
            let mid = (lo + hi) / 2;
            if mid.checked_pow(r).is_some_and(|x| x <= target) { lo = mid } else { hi = mid }
        }
        lo as u32
    };
    let mut h = [0; 8];
    let mut k = [0; 64];
    h.iter_mut().zip(&primes).for_each(|(h, p)| *h = root(*p, 2));
    k.iter_mut().zip(&primes).for_each(|(k, p)| *k = root(*p, 3));
    (h, k)
}

/// Digest of a file, or of a folder: of the lines `<digest of the file> <name>` of all its files, sorted by name.
///
/// # Errors
/// What the file system says.
pub fn of_path(path: &Path) -> std::io::Result<String> {
    if !path.is_dir() {
        return std::fs::read(path).map(|b| sha256(&b));
    }
    let mut lines = Vec::new();
    let mut stack = vec![(path.to_path_buf(), String::new())];
    while let Some((dir, prefix)) = stack.pop() {
        for e in std::fs::read_dir(dir)? {
            let e = e?;
            let name = format!("{prefix}{}", e.file_name().to_string_lossy());
            if e.file_type()?.is_dir() {
                stack.push((e.path(), format!("{name}/")));
            } else {
                lines.push((name, sha256(&std::fs::read(e.path())?)));
            }
        }
    }
    lines.sort();
    let text: String = lines.iter().map(|(n, d)| format!("{d} {n}\n")).collect();
    Ok(sha256(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn published_vectors() {
        let cases: [(&str, &str); 3] = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(super::sha256(text.as_bytes()), want, "{text:?}");
        }
    }
}
