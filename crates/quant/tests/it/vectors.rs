//! Every format decodes, and where the gguf package encodes it also encodes, to the package's bits: hashes in
//! `vectors.txt`, written by `make_vectors.py`.

use crate::support;
use lamina_base::DType;
use lamina_quant::{FORMATS, decode, encode};

fn vectors() -> impl Iterator<Item = (DType, &'static str, &'static str)> {
    include_str!("../vectors.txt").lines().map(|line| {
        let [name, decoded, encoded] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name.parse().expect("a type"), decoded, encoded)
    })
}

#[test]
fn every_format_has_a_vector() {
    let with_vector: Vec<DType> = vectors().map(|(dtype, ..)| dtype).collect();
    assert_eq!(with_vector, FORMATS.iter().map(|f| f.dtype()).collect::<Vec<_>>());
}

#[test]
fn decoding_equals_the_package() {
    for (dtype, expected, _) in vectors() {
        let blocks = support::blocks(dtype, 64);
        let mut values = vec![0.0; blocks.len() / dtype.block_bytes() * dtype.block_len()];
        decode(dtype, &blocks, &mut values).expect("whole blocks");
        let hash = support::hash(values.iter().map(|v| support::bits(*v)));
        assert_eq!(format!("{hash:016x}"), expected, "{dtype}");
    }
}

#[test]
fn encoding_equals_the_package() {
    let x = support::rows(1, 32);
    for (dtype, _, expected) in vectors().filter(|(.., encoded)| *encoded != "-") {
        let mut bytes = vec![0; dtype.bytes_for(x.len()).expect("whole blocks")];
        encode(dtype, &x, None, &mut bytes).expect("finite values");
        let hash = support::hash(bytes.iter().map(|b| u32::from(*b)));
        assert_eq!(format!("{hash:016x}"), expected, "{dtype}");
    }
}
