//! The full comparison with the gguf package and, where it is installed, with llama.cpp's quantizer. Needs a Python:
//! set `LAMINA_PYTHON` to one that has `gguf` (and `llama_cpp`).

use std::{fs, path::Path, process::Command};

use crate::support::{self, SplitMix64};
use lamina_base::DType;
use lamina_quant::{FORMATS, decode, encode};

const COLUMNS: usize = 1024;
const ROWS: usize = 96;

#[test]
fn bits_and_errors_against_python() {
    let Ok(python) = std::env::var("LAMINA_PYTHON") else {
        eprintln!("SKIPPED: set LAMINA_PYTHON to a Python with the gguf package for the full comparison");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (x, importance) = (values(), importance());
    ask(&python, folder.path(), &x, &importance);
    for dtype in FORMATS.iter().map(|f| f.dtype()) {
        same_decoding(folder.path(), dtype);
        same_encoding(folder.path(), dtype, &x);
        if answer(folder.path(), dtype, "peer").is_some() {
            near_decoding(folder.path(), dtype);
            no_larger_error(folder.path(), dtype, &x, "peer", None);
            no_larger_error(folder.path(), dtype, &x, "peer-importance", Some(&importance));
        } else if dtype.is_quantized() {
            eprintln!("SKIPPED: {dtype} is not compared with llama.cpp, which LAMINA_PYTHON does not have");
        }
    }
}

/// Rows of three kinds in turn: normal, heavy-tailed, heavy-tailed by column and shifted.
fn values() -> Vec<f32> {
    let mut stream = SplitMix64(11);
    let by_column: Vec<f64> = (0..COLUMNS).map(|_| stream.normal().exp()).collect();
    let value = |i: usize| match i / COLUMNS % 3 {
        0 => stream.normal() as f32,
        1 => (0.02 * stream.normal() * stream.normal().exp()) as f32,
        _ => (stream.normal() * by_column[i % COLUMNS] - 0.3) as f32,
    };
    (0..ROWS * COLUMNS).map(value).collect()
}

fn importance() -> Vec<f32> {
    let mut stream = SplitMix64(12);
    (0..COLUMNS).map(|_| (1.5 * stream.normal()).exp() as f32).collect()
}

fn ask(python: &str, folder: &Path, x: &[f32], importance: &[f32]) {
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("a writable folder");
    write("x.f32", bytemuck::cast_slice(x));
    write("importance.f32", bytemuck::cast_slice(importance));
    for format in FORMATS {
        write(&format!("{}.blocks", format.dtype()), &support::blocks(format.dtype(), 3000));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let status = Command::new(python).arg("-B").arg(script).arg(folder).status().expect("LAMINA_PYTHON runs");
    assert!(status.success(), "{script} failed");
}

fn answer(folder: &Path, dtype: DType, kind: &str) -> Option<Vec<u8>> {
    fs::read(folder.join(format!("{dtype}.{kind}"))).ok()
}

fn same_decoding(folder: &Path, dtype: DType) {
    let blocks = support::blocks(dtype, 3000);
    let expected: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(
        &answer(folder, dtype, "decoded").expect("decoded by Python"),
    );
    let ours = decoded(dtype, &blocks);
    assert_eq!(ours.len(), expected.len(), "{dtype}");
    for (i, (a, b)) in ours.iter().zip(&expected).enumerate() {
        assert_eq!(support::bits(*a), support::bits(*b), "{dtype}: element {i} is {a}, Python says {b}");
    }
}

/// llama.cpp may fuse multiplication and addition: the last bit of the largest term may differ.
fn near_decoding(folder: &Path, dtype: DType) {
    let expected: Vec<f32> = bytemuck::allocation::pod_collect_to_vec(
        &answer(folder, dtype, "peer-decoded").expect("decoded by llama.cpp"),
    );
    let ours = decoded(dtype, &support::blocks(dtype, 3000));
    assert_eq!(ours.len(), expected.len(), "{dtype}");
    for (ours, theirs) in ours.chunks(dtype.block_len()).zip(expected.chunks(dtype.block_len())) {
        let largest = ours.iter().fold(0f32, |m, v| m.max(v.abs()));
        for (a, b) in ours.iter().zip(theirs) {
            let same = support::bits(*a) == support::bits(*b) || (a - b).abs() <= largest * 2f32.powi(-22);
            assert!(same, "{dtype}: {a}, llama.cpp says {b}, the largest is {largest}");
        }
    }
}

fn same_encoding(folder: &Path, dtype: DType, x: &[f32]) {
    if let Some(expected) = answer(folder, dtype, "encoded") {
        assert!(encoded(dtype, x, None) == expected, "{dtype}: bytes differ from the package's");
    }
}

/// Our search is at least as good as llama.cpp's, weighted by importance where both know it.
fn no_larger_error(folder: &Path, dtype: DType, x: &[f32], kind: &str, importance: Option<&[f32]>) {
    let theirs = answer(folder, dtype, kind).expect("encoded by llama.cpp");
    let (ours, theirs) = (decoded(dtype, &encoded(dtype, x, importance)), decoded(dtype, &theirs));
    for kind in 0..3 {
        let [a, b] = [&ours, &theirs].map(|y| error(x, y, importance, kind));
        eprintln!(
            "{dtype:8} rows {kind} {} ours {a:.5} peer {b:.5}",
            importance.map_or("plain     ", |_| "importance")
        );
        // Types without a search have the same codes, but sums may round differently.
        assert!(a <= b * 1.0005, "{dtype}: error {a} on rows of kind {kind}, llama.cpp has {b}");
    }
}

/// Relative error of the rows of one kind.
fn error(x: &[f32], y: &[f32], importance: Option<&[f32]>, kind: usize) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (i, (x, y)) in x.iter().zip(y).enumerate().filter(|(i, _)| i / COLUMNS % 3 == kind) {
        let w = importance.map_or(1.0, |w| f64::from(w[i % COLUMNS]));
        error += w * f64::from(x - y).powi(2);
        norm += w * f64::from(*x).powi(2);
    }
    (error / norm).sqrt()
}

fn encoded(dtype: DType, x: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(x.len()).expect("whole blocks")];
    encode(dtype, x, importance, &mut bytes).expect("finite values");
    bytes
}

fn decoded(dtype: DType, blocks: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; blocks.len() / dtype.block_bytes() * dtype.block_len()];
    decode(dtype, blocks, &mut values).expect("whole blocks");
    values
}
