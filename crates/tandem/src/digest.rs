//! SHA-256 of an input: of a file's bytes, or of the names and bytes of a folder's files.

use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Digest of bytes, as hexadecimal digits.
pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|b| format!("{b:02x}")).collect()
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
