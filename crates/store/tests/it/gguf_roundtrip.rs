//! What the writer writes, the reader reads back the same: values of every kind, tensors, alignment, shards.

use crate::common::RawGguf;
use lamina_base::{Bytes, DType, StoredBytes};
use lamina_store::{
    FormatError, Value,
    gguf::{Array, Gguf, Strings, Writer},
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn finite() -> impl Strategy<Value = f32> {
    // NaN is not equal to itself; its bits travel like any others.
    any::<f32>().prop_filter("comparable", |f| !f.is_nan())
}

fn array() -> impl Strategy<Value = Array> {
    let flat = prop_oneof![
        any::<Vec<u8>>().prop_map(Array::U8),
        any::<Vec<i8>>().prop_map(Array::I8),
        any::<Vec<u16>>().prop_map(Array::U16),
        any::<Vec<i16>>().prop_map(Array::I16),
        any::<Vec<u32>>().prop_map(Array::U32),
        any::<Vec<i32>>().prop_map(Array::I32),
        any::<Vec<u64>>().prop_map(Array::U64),
        any::<Vec<i64>>().prop_map(Array::I64),
        prop::collection::vec(finite(), 0..9).prop_map(Array::F32),
        prop::collection::vec(finite().prop_map(f64::from), 0..9).prop_map(Array::F64),
        any::<Vec<bool>>().prop_map(Array::Bool),
        any::<Vec<Vec<u8>>>().prop_map(|v| Array::Str(v.into_iter().collect())),
    ];
    flat.prop_recursive(7, 24, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Array::Nested))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        finite().prop_map(Value::from),
        finite().prop_map(|f| Value::from(f64::from(f))),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        array().prop_map(Value::from),
    ]
}

fn write(path: &Path, fill: impl FnOnce(&mut Writer)) -> Vec<PathBuf> {
    let mut writer = Writer::new(path, "llama");
    fill(&mut writer);
    writer.create().expect("create").finish().expect("finish")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn values_of_every_kind_come_back(values in prop::collection::vec((any::<String>(), value()), 0..8)) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("m.gguf");
        let mut set = Vec::new();
        write(&path, |w| {
            for (i, (key, value)) in values.into_iter().enumerate() {
                let key = format!("{i} {key}");
                w.set(key.clone(), value.clone());
                set.push((key, value));
            }
        });
        let read = Gguf::open(&path).expect("own file");
        prop_assert_eq!(read.metadata.len(), set.len() + 1);
        for (key, value) in &set {
            prop_assert_eq!(read.metadata.get(key), Some(value));
        }
    }
}

/// Bytes that differ from tensor to tensor and from place to place.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 97 + i / 256) as u8).collect()
}

const TENSORS: &[(&str, DType, &[usize])] = &[
    ("a", DType::F32, &[3, 5]),
    ("b", DType::Q4_K, &[2, 256]),
    ("scalar", DType::F16, &[]),
    ("none", DType::BF16, &[0, 7]),
    ("d", DType::MXFP4, &[2, 3, 4, 32]),
    ("e", DType::I8, &[41]),
];

fn bytes_of(i: usize) -> Vec<u8> {
    let (_, dtype, shape) = TENSORS[i];
    noise(i, dtype.bytes_for(shape.iter().product()).expect("small"))
}

fn write_tensors(writer: Writer, piece: usize) -> Vec<PathBuf> {
    let mut out = writer.create().expect("create");
    for (i, (name, _, _)) in TENSORS.iter().enumerate() {
        let bytes = bytes_of(i);
        if bytes.is_empty() {
            out.write(name, &[]).expect("write");
        }
        bytes.chunks(piece).for_each(|part| out.write(name, part).expect("write"));
    }
    out.finish().expect("finish")
}

fn declared(path: &Path) -> Writer {
    let mut writer = Writer::new(path, "llama");
    writer.set("llama.block_count", 3u32);
    TENSORS.iter().for_each(|(name, dtype, shape)| writer.declare(name, *dtype, shape).expect("declare"));
    writer
}

fn check_tensors(gguf: &Gguf, alignment: usize) {
    assert_eq!(gguf.tensors.keys().collect::<Vec<_>>(), TENSORS.iter().map(|t| t.0).collect::<Vec<_>>());
    for (i, (name, dtype, shape)) in TENSORS.iter().enumerate() {
        let t = &gguf.tensors[*name];
        assert_eq!((t.dtype, t.shape.as_slice()), (*dtype, *shape), "{name}");
        assert_eq!(*t.bytes.read(name).expect("reads"), bytes_of(i)[..], "{name}");
        let StoredBytes::InFile { range, .. } = &t.bytes else {
            panic!("{name} was read when it was opened")
        };
        assert_eq!(range.start % alignment, 0, "{name}");
    }
}

#[test]
fn tensors_come_back_whatever_the_pieces_and_the_alignment() {
    let dir = tempfile::tempdir().expect("temp dir");
    for (piece, alignment) in [(usize::MAX, 32), (1, 32), (7, 64), (100, 4096), (64, 1)] {
        let path = dir.path().join(format!("m{piece}.gguf"));
        let mut writer = declared(&path);
        writer.alignment(alignment).expect("power of two");
        assert_eq!(write_tensors(writer, piece).as_slice(), std::slice::from_ref(&path));
        check_tensors(&Gguf::open(&path).expect("own file"), alignment as usize);
    }
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).expect("dir").map(|e| e.expect("entry").file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().ends_with(".partial")), "{left:?}");
}

#[test]
fn shards_come_back_as_one_model_from_any_of_them() {
    let dir = tempfile::tempdir().expect("temp dir");
    for (limit, shards) in [(1u64, 6), (500, 3), (u64::MAX, 1)] {
        let path = dir.path().join(format!("m{limit}.gguf"));
        let mut writer = declared(&path);
        writer.max_shard_bytes(limit).alignment(64).expect("power of two");
        let files = write_tensors(writer, 50);
        assert_eq!(files.len(), shards, "limit {limit}");
        for file in &files {
            let gguf = Gguf::open(file).expect("own file");
            assert_eq!(gguf.files.len(), shards);
            assert_eq!(gguf.metadata.need::<u32>("llama.block_count").expect("of the first shard"), 3);
            check_tensors(&gguf, 64);
        }
    }
}

#[test]
fn metadata_of_another_layout_can_be_copied() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut writer = declared(&dir.path().join("from.gguf"));
    writer.max_shard_bytes(500).alignment(64).expect("power of two");
    let from = Gguf::open(&write_tensors(writer, 50)[0]).expect("own file");
    let path = dir.path().join("to.gguf");
    let mut writer = declared(&path);
    for (key, value) in from.metadata.iter() {
        writer.set(key, value.clone());
    }
    write_tensors(writer, 50);
    let to = Gguf::open(&path).expect("own file");
    check_tensors(&to, 32);
    assert_eq!(to.metadata.get("general.alignment"), None);
    assert_eq!((to.metadata.get("split.count"), to.files.len()), (None, 1));
}

#[test]
fn broken_shards_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    let fresh = || {
        let mut writer = declared(&dir.path().join("m.gguf"));
        writer.max_shard_bytes(400);
        write_tensors(writer, 50)
    };
    let files = fresh();
    let refused = |what: &str, path: &Path, parts: &[&str]| {
        let message = Gguf::open(path).expect_err(what).to_string();
        parts.iter().for_each(|p| assert!(message.contains(p), "{what}: {p:?} is not in {message:?}"));
    };
    std::fs::remove_file(&files[1]).expect("remove");
    refused("missing", &files[0], &["m-00002-of-00003.gguf", "missing", "all 3 shards"]);
    std::fs::copy(&files[0], &files[1]).expect("copy");
    refused("copy of another", &files[0], &["m-00002-of-00003.gguf", "split.no", "is 0"]);
    std::fs::write(&files[1], RawGguf::valid().encode()).expect("write");
    refused("no shard", &files[0], &["m-00002-of-00003.gguf", "split.no", "missing"]);
    fresh();
    let lone = dir.path().join("renamed.gguf");
    std::fs::copy(&files[1], &lone).expect("copy");
    refused("renamed", &lone, &["renamed.gguf", "split.count", "NAME-00001-of"]);
    let wrong = dir.path().join("m-00001-of-00004.gguf");
    std::fs::copy(&files[0], &wrong).expect("copy");
    refused("other count", &wrong, &["split.count", "is 3", "says 4"]);
    let mut bytes = std::fs::read(&files[0]).expect("read");
    let key = b"split.tensors.count";
    let at = bytes.windows(key.len()).position(|w| w == key).expect("key") + key.len() + 4;
    bytes[at] = 99;
    std::fs::write(&files[0], bytes).expect("write");
    refused("other total", &files[0], &["split.tensors.count", "is 99", "hold 6"]);
}

#[test]
fn the_writer_refuses_what_no_file_can_hold() {
    let refused = |result: Result<(), FormatError>, part: &str| {
        let message = result.expect_err(part).to_string();
        assert!(message.contains(part) && message.contains("out.gguf"), "{part:?} is not in {message:?}");
    };
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("out.gguf");
    let mut w = Writer::new(&path, "llama");
    refused(w.declare("f8", DType::F8_E4M3, &[4]), "no type F8_E4M3");
    refused(w.declare("q", DType::Q4_0, &[2, 16]), "blocks of Q4_0");
    refused(w.declare("big", DType::F32, &[usize::MAX, 2]), "[18446744073709551615, 2]");
    refused(w.declare("dims", DType::F32, &[1; 5]), "number of dimensions");
    refused(w.declare(&"n".repeat(64), DType::F32, &[1]), "64 bytes");
    refused(w.alignment(24).map(|_| ()), "24 is not a power of two");
    w.declare("a", DType::F32, &[2]).expect("fine");
    w.declare("b", DType::F32, &[2]).expect("fine");
    refused(w.declare("a", DType::F32, &[2]), "declared before");
    let mut out = w.create().expect("create");
    refused(out.write("b", &[0; 8]), "where tensor `a` is due");
    refused(out.write("a", &[0; 9]), "need 8");
    out.write("a", &[0; 8]).expect("fine");
    out.write("b", &[0; 4]).expect("fine");
    refused(out.finish().map(|_| ()), "tensor `b`: data has 4 of its 8 bytes");
    assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0, "nothing is left behind");
}

#[test]
fn long_vocabularies_are_read_in_milliseconds() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("vocab.gguf");
    let tokens: Strings = (0..300_000).map(|i| format!("token{i}")).collect();
    write(&path, |w| {
        w.set("tokenizer.ggml.tokens", tokens);
    });
    let bytes = Bytes::from(std::fs::read(&path).expect("read"));
    let best = (0..5)
        .map(|_| {
            let start = std::time::Instant::now();
            let gguf = Gguf::from_bytes(&path, &bytes).expect("own file");
            let took = start.elapsed();
            let tokens: &Strings = gguf.metadata.need("tokenizer.ggml.tokens").expect("there");
            assert_eq!(tokens.get(299_999), Some(&b"token299999"[..]));
            took
        })
        .min()
        .expect("five runs");
    // 1 to 2 ms when optimized; the bound is for a busy machine and still far from a copy of each string.
    assert!(best.as_millis() < 60, "{best:?}");
}

/// Of a file, only as much is read as its header takes; the beginning that is read first holds this one's first half.
#[test]
fn a_long_header_is_read_whole() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("m.gguf");
    let words: Strings = (0..300_000).map(|i| format!("a rather long word {i}")).collect();
    let (value, text) = (Value::from(words), Value::from("x".repeat(3 << 20)));
    write(&path, |w| {
        w.set("words", value.clone());
        w.set("numbers", vec![7.0f32; 600_000]);
        w.set("text", text.clone());
        w.set("last", 5u32);
    });
    let read = Gguf::open(&path).expect("own file");
    assert_eq!((read.metadata.get("words"), read.metadata.get("text")), (Some(&value), Some(&text)));
    assert_eq!(read.metadata.need::<u32>("last").expect("there"), 5);
    // Cut anywhere it is an error of the file, and not of what was read of it.
    let whole = std::fs::metadata(&path).expect("there").len();
    for at in [whole / 8 * 7, whole / 2, 4 << 20, (4 << 20) + 1, 30] {
        std::fs::File::options().write(true).open(&path).expect("opens").set_len(at).expect("cuts");
        let error = Gguf::open(&path).map(drop).expect_err("cut off").to_string();
        assert!(error.contains("left"), "{error}");
    }
}

#[test]
fn counts_beyond_all_real_files_are_refused_before_they_are_followed() {
    let mut bytes = RawGguf::valid().encode();
    bytes.resize(8 << 20, 0);
    for (at, count) in [(8, 300_000u64), (16, 100_000)] {
        let mut bytes = bytes.clone();
        bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
        let error = Gguf::from_bytes("m.gguf", &Bytes::from(bytes)).expect_err("too many").to_string();
        assert!(error.contains("are read at most"), "{error}");
    }
}
