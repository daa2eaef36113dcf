//! The sample kernels link and encode; every stream reads back and encodes to itself.

#[path = "../../sim/tests/support/samples.rs"]
mod samples;

use samples::{kernel, names, show};
use tandem_backend::encode::program::{EncodeOptions, encode_streams};
use tandem_backend::link::{LinkOptions, link};
use tandem_bir::Level;

#[test]
fn sample_kernels_link_and_encode() {
    let mut bad = Vec::new();
    for name in names() {
        let l = match link(&kernel(&name, Level::Lowered), LinkOptions::default()) {
            Ok((l, _)) => l,
            Err(e) => {
                bad.push(format!("{name}: {}", show(&e)));
                continue;
            }
        };
        if let Err(e) = encode_streams(&l, EncodeOptions::default()) {
            bad.push(format!("{name}: {}", show(&e)));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn containers_of_the_sample_kernels_read_back() {
    use tandem_backend::container::{WriteOptions, decode, encode};
    let mut bad = Vec::new();
    for name in names() {
        let (l, _) = link(&kernel(&name, Level::Lowered), LinkOptions::default())
            .unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
        for debug in [true, false] {
            let (bytes, _) = encode(&l, WriteOptions { debug, ..WriteOptions::default() })
                .unwrap_or_else(|e| panic!("{name}: {}", show(&e)));
            let (again, _) = encode(&l, WriteOptions { debug, ..WriteOptions::default() }).unwrap();
            assert!(bytes == again, "{name} is not deterministic");
            if let Err(e) = decode(&bytes) {
                bad.push(format!("{name}, debug {debug}: {}", show(&[e])));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
