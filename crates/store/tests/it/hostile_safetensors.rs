//! One broken field at a time: each ends in an error that names the file, the tensor and the field.

use crate::common::safetensors;
use lamina_base::{Bytes, DType};
use lamina_store::{
    FormatError,
    safetensors::{Safetensors, open_sharded},
};

fn parse(bytes: Vec<u8>) -> Result<Safetensors, FormatError> {
    Safetensors::from_bytes("m.safetensors", &Bytes::from(bytes))
}

fn refused(header: &str, data: &[u8], parts: &[&str]) {
    let message = parse(safetensors(header, data)).expect_err(header).to_string();
    for part in parts.iter().chain(&["m.safetensors"]) {
        assert!(message.contains(part), "{header}: {part:?} is not in {message:?}");
    }
}

const VALID: &str = r#"{"__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}"#;

#[test]
fn the_valid_file_reads() {
    let st = parse(safetensors(VALID, &[7; 26])).expect("valid");
    assert_eq!(st.metadata["format"], "pt");
    let (a, b) = (&st.tensors["a"], &st.tensors["b"]);
    assert_eq!((a.dtype, a.shape.as_slice(), a.bytes.len()), (DType::F32, &[2, 3][..], 24));
    assert_eq!((b.dtype, b.shape.len(), b.bytes.len()), (DType::BF16, 0, 2));
    assert!(parse(safetensors("{}", &[])).expect("no tensors").tensors.is_empty());
}

#[test]
fn every_dtype_of_the_format_reads() {
    let names = "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 F8_E8M0 I8 I16 I32 I64 U8 U16 U32 U64 BOOL";
    for name in names.split(' ') {
        let bytes = name.parse::<DType>().expect("known").bytes_for(3).expect("small");
        let header = format!(r#"{{"t": {{"dtype": "{name}", "shape": [3], "data_offsets": [0, {bytes}]}}}}"#);
        let st = parse(safetensors(&header, &vec![0; bytes])).expect(name);
        assert_eq!(st.tensors["t"].dtype.name(), name);
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let whole = safetensors(VALID, &[7; 26]);
    for len in 0..whole.len() {
        parse(whole[..len].to_vec()).expect_err(&format!("cut to {len} bytes"));
    }
    let message = parse(whole[..whole.len() - 1].to_vec()).expect_err("cut").to_string();
    assert!(message.contains("tensor `b`: data_offsets") && message.contains("cut off?"), "{message}");
}

#[test]
fn broken_headers_say_which_field() {
    for (len, part) in
        [(u64::MAX, "more than the 100000000"), (1000, "only 3 follow"), (100_000_001, "allows")]
    {
        let message = parse([&len.to_le_bytes()[..], b"{} "].concat()).expect_err("length").to_string();
        assert!(message.contains("header: length") && message.contains(part), "{message}");
    }
    refused("", &[], &["header", "JSON"]);
    refused("{", &[], &["header", "JSON"]);
    refused("[]", &[], &["header", "object", "a list of 0"]);
    refused("{}{}", &[], &["JSON"]);
    refused(&"[".repeat(200_000), &[], &["JSON", "recursion"]);
    refused(&format!("{{\"a\": {}", "{\"b\":".repeat(100_000)), &[], &["JSON", "recursion"]);
    refused(r#"{"__metadata__": {"a": 1}}"#, &[], &["__metadata__", "`a`", "number 1"]);
    refused(r#"{"__metadata__": 3}"#, &[], &["__metadata__", "number 3"]);
    let mut no_utf8 = safetensors("{\"a\": 1}", &[]);
    no_utf8[10] = 0xff;
    assert!(parse(no_utf8).expect_err("no UTF-8").to_string().contains("UTF-8"));
    refused("{}", &[1], &["header", "1 bytes after the last tensor"]);
}

#[test]
fn broken_tensors_say_which_one() {
    let t = |fields: &str| format!(r#"{{"t": {{{fields}}}}}"#);
    let cases: &[(&str, &[&str])] = &[
        (r#""shape": [1], "data_offsets": [0, 4]"#, &["dtype", "missing"]),
        (r#""dtype": "F32", "data_offsets": [0, 4]"#, &["shape", "missing"]),
        (r#""dtype": "F32", "shape": [1]"#, &["data_offsets", "missing"]),
        (r#""dtype": "F4", "shape": [1], "data_offsets": [0, 4]"#, &["dtype `F4`", "F32 F16"]),
        (r#""dtype": "Q4_0", "shape": [32], "data_offsets": [0, 18]"#, &["dtype `Q4_0`"]),
        (r#""dtype": 7, "shape": [1], "data_offsets": [0, 4]"#, &["dtype", "number 7"]),
        (r#""dtype": "F32", "shape": 4, "data_offsets": [0, 4]"#, &["shape", "a list"]),
        (r#""dtype": "F32", "shape": [-1], "data_offsets": [0, 4]"#, &["shape", "-1"]),
        (r#""dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]"#, &["shape", "1.5"]),
        (r#""dtype": "F32", "shape": [18446744073709551616], "data_offsets": [0, 4]"#, &["shape"]),
        (
            r#""dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]"#,
            &["shape", "memory"],
        ),
        (r#""dtype": "F64", "shape": [2305843009213693952], "data_offsets": [0, 0]"#, &["shape", "memory"]),
        (
            r#""dtype": "F32", "shape": [0, 9223372036854775808, 2], "data_offsets": [0, 0]"#,
            &["shape", "memory"],
        ),
        (r#""dtype": "F32", "shape": [1], "data_offsets": [0]"#, &["data_offsets", "needs 2"]),
        (r#""dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]"#, &["data_offsets", "needs 2"]),
        (r#""dtype": "F32", "shape": [1], "data_offsets": [4, 0]"#, &["data_offsets", "[4, 0]"]),
        (r#""dtype": "F32", "shape": [1], "data_offsets": [0, 8]"#, &["data_offsets", "4 bytes of F32"]),
        (r#""dtype": "F32", "shape": [1], "data_offsets": [4, 8]"#, &["data_offsets", "hole after byte 0"]),
        (r#""dtype": "F32", "shape": [5], "data_offsets": [0, 20]"#, &["data_offsets", "8 bytes of data"]),
        (
            r#""dtype": "F32", "dtype": "F32", "shape": [2], "data_offsets": [0, 8]"#,
            &["`dtype` stands twice"],
        ),
    ];
    for (fields, parts) in cases {
        let named: Vec<&str> =
            parts.iter().copied().chain((!parts[0].contains("twice")).then_some("tensor `t`")).collect();
        refused(&t(fields), &[0; 8], &named);
    }
    refused(r#"{"t": [1]}"#, &[], &["tensor `t`", "entry", "a list"]);
    let one = |name: &str, from: usize| {
        format!(r#""{name}": {{"dtype": "F32", "shape": [2], "data_offsets": [{from}, {}]}}"#, from + 8)
    };
    refused(&format!("{{{}, {}}}", one("x", 0), one("x", 8)), &[0; 16], &["`x` stands twice"]);
    refused(
        &format!("{{{}, {}}}", one("x", 0), one("y", 4)),
        &[0; 12],
        &["tensor `y`", "inside another", "8"],
    );
    refused(&format!("{{{}, {}}}", one("x", 0), one("y", 12)), &[0; 20], &["tensor `y`", "hole"]);
}

fn one(name: &str) -> Vec<u8> {
    safetensors(&format!(r#"{{"{name}": {{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}}}"#), &[1])
}

#[test]
fn sharded_sets_are_checked_against_their_index() {
    let cases: &[(&str, Option<&[&str]>)] = &[
        (
            r#"{"metadata": {"total_size": 2}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#,
            None,
        ),
        (
            r#"{"weight_map": {"a": "1.safetensors", "b": "3.safetensors"}}"#,
            Some(&["3.safetensors", "missing"]),
        ),
        (
            r#"{"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}}"#,
            Some(&["2.safetensors", "tensor `c`"]),
        ),
        (r#"{"weight_map": {"a": "../1.safetensors"}}"#, Some(&["index", "tensor `a`", "plain file name"])),
        (r#"{"weight_map": {"a": "/etc/passwd"}}"#, Some(&["plain file name"])),
        (r#"{"weight_map": {"a": ".."}}"#, Some(&["plain file name"])),
        (r#"{"weight_map": {"a": ""}}"#, Some(&["plain file name"])),
        (r#"{"weight_map": {"a": 1}}"#, Some(&["tensor `a`", "number 1"])),
        (
            r#"{"weight_map": {"a": "model.safetensors.index.json"}}"#,
            Some(&["model.safetensors.index.json", "length"]),
        ),
        (r#"{"weight_map": {"a": "1.safetensors", "z": "copy.safetensors"}}"#, Some(&["tensor `z`"])),
        (
            r#"{"weight_map": {"a": "copy.safetensors", "b": "twice.safetensors"}}"#,
            Some(&["tensor `a`", "earlier file"]),
        ),
        (r#"{"weight_map": {}}"#, Some(&["weight_map", "empty"])),
        (r#"{"weight_map": []}"#, Some(&["weight_map", "a list"])),
        (r#"{}"#, Some(&["weight_map", "missing"])),
        (r#"{"weight_map": "#, Some(&["JSON"])),
        ("", Some(&["empty"])),
    ];
    let dir = tempfile::tempdir().expect("temp dir");
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("write");
    write("1.safetensors", &one("a"));
    write("2.safetensors", &one("b"));
    write("copy.safetensors", &one("a"));
    let both = r#"{"b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}"#;
    write("twice.safetensors", &safetensors(both, &[1, 2]));
    let index = dir.path().join("model.safetensors.index.json");
    for (text, expected) in cases {
        std::fs::write(&index, text).expect("write");
        let result = open_sharded(&index);
        match expected {
            None => assert_eq!(result.expect(text).tensors.keys().collect::<Vec<_>>(), ["a", "b"]),
            Some(parts) => {
                let message = result.expect_err(text).to_string();
                parts
                    .iter()
                    .for_each(|p| assert!(message.contains(p), "{text}: {p:?} is not in {message:?}"));
            }
        }
    }
}
