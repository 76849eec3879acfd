//! One broken field at a time: each ends in an error that names the file, the thing and the field.

use crate::common::{RawGguf, RawTensor, array, entry, string, string_entry, u32_entry};
use lamina_base::{Bytes, DType};
use lamina_store::{FormatError, gguf::Gguf};

fn parse(bytes: Vec<u8>) -> Result<Gguf, FormatError> {
    Gguf::from_bytes("m.gguf", &Bytes::from(bytes))
}

/// Asserts that the file is refused with a message that has all of `parts`.
fn refused(what: &str, bytes: Vec<u8>, parts: &[&str]) {
    let message = parse(bytes).expect_err(what).to_string();
    for part in parts.iter().chain(&["m.gguf"]) {
        assert!(message.contains(part), "{what}: {part:?} is not in {message:?}");
    }
}

#[test]
fn the_valid_file_reads() {
    let gguf = parse(RawGguf::valid().encode()).expect("valid");
    assert_eq!(gguf.version, 3);
    assert_eq!(gguf.metadata.need::<&str>("general.architecture").expect("there"), "llama");
    let tokens: &lamina_store::gguf::Strings = gguf.metadata.need("tokenizer.ggml.tokens").expect("there");
    assert_eq!(tokens.texts().expect("text"), ["ab", "c"]);
    let (a, b, c) = (&gguf.tensors["a"], &gguf.tensors["b"], &gguf.tensors["c"]);
    assert_eq!((a.dtype, a.shape.as_slice(), a.bytes.len()), (DType::F32, &[2, 4][..], 32));
    assert_eq!((b.dtype, b.shape.as_slice(), b.bytes.len()), (DType::Q4_0, &[1, 32][..], 18));
    assert_eq!(
        (c.dtype, c.shape.as_slice(), c.bytes.held().expect("in memory")),
        (DType::F16, &[3][..], &[64, 65, 66, 67, 68, 69][..])
    );
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let whole = RawGguf::valid().encode();
    for len in 0..whole.len() {
        parse(whole[..len].to_vec()).expect_err(&format!("cut to {len} bytes"));
    }
    refused("cut in the data", whole[..whole.len() - 1].to_vec(), &["tensor `c`", "offset", "cut off?"]);
}

#[test]
fn broken_headers_say_which_field() {
    let with = |f: &dyn Fn(&mut RawGguf)| {
        let mut raw = RawGguf::valid();
        f(&mut raw);
        raw.encode()
    };
    refused("magic", with(&|r| r.magic = *b"GGUX"), &["header", "magic", "GGUX"]);
    refused("old magic", with(&|r| r.magic = *b"tjgg"), &["before GGUF", "convert"]);
    refused("version 0", with(&|r| r.version = 0), &["version"]);
    refused("version 1", with(&|r| r.version = 1), &["version 1", "convert"]);
    refused("version 4", with(&|r| r.version = 4), &["version 4", "update"]);
    refused("big endian", with(&|r| r.version = 3u32.swap_bytes()), &["big-endian", "gguf-convert-endian"]);
    for n in [5, 1 << 20, u64::MAX] {
        refused("key count", with(&|r| r.key_count = Some(n)), &["m.gguf"]);
        refused("tensor count", with(&|r| r.tensor_count = Some(n)), &["m.gguf"]);
    }
    refused("key count", with(&|r| r.key_count = Some(u64::MAX)), &["metadata count", "bytes left"]);
    refused("tensor count", with(&|r| r.tensor_count = Some(1 << 40)), &["tensor count", "bytes left"]);
    assert_eq!(parse(with(&|r| r.version = 2)).expect("version 2").version, 2);
}

/// Arrays around one byte, `depth` deep.
fn nested(depth: usize) -> Vec<u8> {
    (1..depth).fold(array(0, 1, &[7]), |inner, _| array(9, 1, &inner))
}

#[test]
fn broken_metadata_says_which_key() {
    let huge = u64::MAX;
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("twice", u32_entry("llama.block_count", 3), &["key `llama.block_count`", "twice"]),
        ("type", entry("k", 13, &[0; 8]), &["key `k`", "value type", "13"]),
        ("element type", entry("k", 9, &array(77, 1, &[0])), &["key `k`", "element type", "77"]),
        ("bool", entry("k", 7, &[2]), &["key `k`", "bool", "2"]),
        ("bool in array", entry("k", 9, &array(7, 2, &[1, 9])), &["key `k`", "bool", "9"]),
        ("long string", entry("k", 8, &huge.to_le_bytes()), &["key `k`", "string", "left"]),
        ("string past end", entry("k", 8, &(1u64 << 20).to_le_bytes()), &["key `k`", "string", "left"]),
        ("string in array", entry("k", 9, &array(8, 1, &huge.to_le_bytes())), &["key `k`", "string", "left"]),
        ("no UTF-8", entry("k", 8, &string(&[b'a', 0xff])), &["key `k`", "UTF-8", "byte 1"]),
        ("long array", entry("k", 9, &array(4, huge, &[])), &["key `k`", "array length"]),
        ("long array of f64", entry("k", 9, &array(12, huge / 8, &[])), &["key `k`", "array length"]),
        ("many strings", entry("k", 9, &array(8, 1 << 50, &[])), &["key `k`", "array length"]),
        ("many arrays", entry("k", 9, &array(9, 1 << 50, &[])), &["key `k`", "array length"]),
        ("deep", entry("k", 9, &nested(9)), &["key `k`", "nested deeper than 8"]),
        ("very deep", entry("k", 9, &nested(3_000)), &["key `k`", "nested deeper than 8"]),
        ("alignment 0", u32_entry("general.alignment", 0), &["general.alignment", "power of two"]),
        ("alignment 48", u32_entry("general.alignment", 48), &["general.alignment", "48", "power of two"]),
        (
            "alignment type",
            string_entry("general.alignment", "32"),
            &["general.alignment", "u32", "string `32`"],
        ),
    ];
    for (what, bytes, parts) in cases {
        let mut raw = RawGguf::valid();
        raw.entries.push(bytes);
        refused(what, raw.encode(), parts);
    }
    let mut raw = RawGguf::valid();
    raw.entries.push(entry("k", 9, &nested(8)));
    parse(raw.encode()).expect("eight levels are allowed");
    raw.entries.push([&string(&[0xc3])[..], &4u32.to_le_bytes(), &[0; 4]].concat());
    refused("key no UTF-8", raw.encode(), &["metadata entry 5", "name", "UTF-8"]);
}

#[test]
fn broken_tensors_say_which_one() {
    type Break = fn(&mut RawTensor);
    let cases: &[(&str, Break, &[&str])] = &[
        ("name twice", |t| t.name = b"a".to_vec(), &["tensor `a`", "name", "twice"]),
        ("name no UTF-8", |t| t.name = vec![0xff], &["tensor entry 1", "name", "UTF-8"]),
        ("5 dims", |t| t.dims = vec![1; 5], &["tensor `b`", "number of dimensions", "5"]),
        ("many dims", |t| t.n_dims = Some(u32::MAX), &["tensor `b`", "number of dimensions"]),
        ("type 4", |t| t.type_id = 4, &["tensor `b`", "type id 4", "unknown"]),
        ("type max", |t| t.type_id = u32::MAX, &["tensor `b`", "type id 4294967295"]),
        ("no whole block", |t| t.dims = vec![33], &["tensor `b`", "dimensions", "blocks of 32"]),
        ("product", |t| t.dims = vec![1 << 32, 1 << 32, 2], &["tensor `b`", "dimensions", "memory"]),
        ("hidden product", |t| t.dims = vec![0, 1 << 63, 1 << 63], &["tensor `b`", "dimensions", "memory"]),
        ("bytes overflow", |t| (t.dims, t.type_id) = (vec![1 << 61], 28), &["tensor `b`", "m.gguf"]),
        ("too large", |t| t.dims = vec![1 << 20], &["tensor `b`", "offset", "cut off?"]),
        ("misaligned", |t| t.offset = 40, &["tensor `b`", "offset", "40", "alignment 32"]),
        ("past end", |t| t.offset = 1 << 20, &["tensor `b`", "offset", "leaves"]),
        ("offset overflow", |t| t.offset = u64::MAX - 31, &["tensor `b`", "offset", "leaves"]),
        ("overlap", |t| t.offset = 0, &["offset", "inside tensor"]),
    ];
    for (what, f, parts) in cases {
        let mut raw = RawGguf::valid();
        f(&mut raw.tensors[1]);
        refused(what, raw.encode(), parts);
    }
}

#[test]
fn names_in_messages_are_escaped_and_short() {
    let mut raw = RawGguf::valid();
    raw.tensors[0].name = format!("\u{1b}[31m{}", "x".repeat(5000)).into_bytes();
    raw.tensors[0].offset = 1;
    let message = parse(raw.encode()).expect_err("misaligned").to_string();
    assert!(!message.contains('\u{1b}') && message.len() < 400, "{message:?}");
}

#[test]
fn scalars_and_empty_tensors_are_allowed() {
    let mut raw = RawGguf::valid();
    raw.tensors = vec![RawTensor::new("scalar", &[], 0, 0), RawTensor::new("none", &[0, 4], 0, 32)];
    let gguf = parse(raw.encode()).expect("valid");
    assert_eq!((gguf.tensors["scalar"].shape.len(), gguf.tensors["scalar"].bytes.len()), (0, 4));
    assert_eq!((gguf.tensors["none"].elements(), gguf.tensors["none"].bytes.len()), (0, 0));
}

#[test]
fn another_alignment_moves_the_data() {
    let mut raw = RawGguf::valid();
    raw.entries.push(u32_entry("general.alignment", 128));
    raw.alignment = 128;
    raw.tensors.truncate(1);
    raw.data = vec![9; 32];
    assert!(
        parse(raw.encode()).expect("valid").tensors["a"]
            .bytes
            .held()
            .is_some_and(|b| b.iter().all(|&b| b == 9))
    );
    raw.tensors[0].offset = 32;
    refused("alignment of offsets", raw.encode(), &["tensor `a`", "alignment 128"]);
    raw.tensors.clear();
    raw.entries.pop();
    raw.entries.push(u32_entry("general.alignment", 1 << 31));
    raw.alignment = 1;
    parse(raw.encode()).expect("no tensor, so nowhere to be aligned");
}
