//! Quantizing: every mix, overrides, importance, odd widths, threads, giving up.

use crate::made::{llama, numbers};
use lamina_base::DType;
use lamina_convert::{Choice, ConvertError, Draft, Imatrix, ImatrixWriter, MIXES, Types, WriteOptions};
use lamina_quant::to_f32;
use lamina_store::{Checkpoint, Tensors, gguf::Writer};
use std::{cell::Cell, fs, path::Path};
use tempfile::TempDir;

/// A model whose widths fit all blocks.
fn wide(dir: &TempDir) -> Draft {
    llama(dir.path(), 256, 4, 2, 512);
    Draft::open(dir.path()).unwrap()
}

fn options<'a>(types: &str, imatrix: Option<&'a Imatrix>) -> WriteOptions<'a> {
    WriteOptions { imatrix, threads: 2, ..WriteOptions::new(types.parse().unwrap()) }
}

fn quantized(draft: &Draft, path: &Path, options: &WriteOptions<'_>) -> Tensors {
    draft.write(path, options, &|_, _| true).unwrap();
    Checkpoint::open(path).unwrap().tensors
}

/// Importance of the columns of every matrix: a few matter much more than the rest.
fn importance(draft: &Draft) -> Imatrix {
    let mut writer = ImatrixWriter::default();
    for tensor in draft.tensors.iter().filter(|t| t.shape.len() == 2) {
        let x: Vec<f32> = numbers(7, 4 * tensor.cols())
            .iter()
            .enumerate()
            .map(|(i, v)| if i % 16 == 3 { 10.0 * v } else { *v })
            .collect();
        writer.add(&tensor.name, 1, 0, tensor.cols(), &x).unwrap();
    }
    writer.finish(vec!["made".into()], 1, 4)
}

/// Root of the mean squared error against the values' own, weighted by column.
fn error(draft: &Draft, tensors: &Tensors, name: &str, weights: Option<&[f32]>) -> f64 {
    let want = draft.tensor(name).unwrap().values().unwrap();
    let (cols, want) = (want.cols, want.to_f32().unwrap());
    let have = to_f32(&tensors[name]).unwrap();
    let weight = |i: usize| weights.map_or(1.0, |w| f64::from(w[i % cols]));
    let sum =
        |f: &dyn Fn(usize) -> f32| (0..want.len()).map(|i| weight(i) * f64::from(f(i)).powi(2)).sum::<f64>();
    (sum(&|i| have[i] - want[i]) / sum(&|i| want[i])).sqrt()
}

#[test]
fn every_mix_gives_a_file_of_about_its_precision() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let imatrix = importance(&draft);
    let mut seen = vec![];
    for mix in MIXES {
        let path = dir.path().join(format!("{}.gguf", mix.name));
        let tensors = quantized(&draft, &path, &options(mix.name, Some(&imatrix)));
        assert_eq!(tensors.len(), draft.tensors.len(), "{}", mix.name);
        let norm = &tensors["blk.0.attn_norm.weight"];
        assert_eq!(norm.dtype, DType::F32, "{}", mix.name);
        let matrix = &tensors["blk.1.ffn_gate.weight"];
        // MXFP4_MOE keeps everything but experts in eight bits.
        let dtype = if mix.name == "MXFP4_MOE" { DType::Q8_0 } else { mix.dtype };
        assert!(matrix.dtype == dtype || mix.name == "IQ3_XS", "{} gives {}", mix.name, matrix.dtype);
        let error = error(&draft, &tensors, "blk.1.ffn_gate.weight", None);
        // Of even numbers, b bits leave 2^-b of the range: half as much again is room for scales and minima. BF16 has
        // nine significant bits; ternary types round to -1, 0 and 1.
        let bits = f64::from(matrix.dtype.bits());
        let bound = if bits < 2.2 { 1.0 } else { 1.5 * 2f64.powf(1.0 - bits.min(9.0)) };
        assert!(error <= bound, "{}: {error} with {bits} bits, bound {bound}", mix.name);
        let metadata = Checkpoint::open(&path).unwrap().metadata;
        assert_eq!(metadata.need::<u32>("general.file_type").unwrap(), mix.file_type, "{}", mix.name);
        seen.push((mix.name, error));
    }
    let of = |name: &str| seen.iter().find(|s| s.0 == name).unwrap().1;
    for (better, worse) in [("Q8_0", "Q6_K"), ("Q6_K", "Q5_K_S"), ("Q5_K_S", "Q4_K_S"), ("Q4_K_S", "Q3_K_S")]
    {
        assert!(of(better) < of(worse), "{better} {} {worse} {}", of(better), of(worse));
    }
}

#[test]
fn two_bits_without_importance_are_refused() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let path = dir.path().join("x.gguf");
    let e = draft.write(&path, &options("IQ2_XXS", None), &|_, _| true).unwrap_err();
    assert!(matches!(e, ConvertError::NeedsImatrix { .. }), "{e}");
    assert!(!path.exists());
    assert!("Q9_Z".parse::<Types>().unwrap_err().to_string().contains("Q4_K_M"));
}

#[test]
fn importance_moves_the_error_to_columns_that_matter_less() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let imatrix = importance(&draft);
    let name = "blk.0.ffn_up.weight";
    let weights = imatrix.weights(name, 1, 256).unwrap().unwrap();
    for types in ["Q2_K", "Q3_K_S", "Q4_K_S", "Q4_0", "IQ4_NL", "IQ3_S"] {
        let file = |n: &str| dir.path().join(n);
        let with = quantized(&draft, &file("with.gguf"), &options(types, Some(&imatrix)));
        let without = quantized(&draft, &file("without.gguf"), &options(types, None));
        let (a, b) =
            (error(&draft, &with, name, Some(&weights)), error(&draft, &without, name, Some(&weights)));
        assert!(a < 0.97 * b, "{types}: {a} with, {b} without");
    }
    let notes =
        draft.write(dir.path().join("n.gguf"), &options("Q4_0", Some(&Imatrix::default())), &|_, _| true);
    assert!(notes.unwrap().notes.iter().any(|n| n.contains("not in the importance matrix")));
}

#[test]
fn an_importance_matrix_comes_back_from_its_file() {
    let dir = TempDir::new().unwrap();
    let imatrix = importance(&wide(&dir));
    let path = dir.path().join("imatrix.gguf");
    imatrix.write(&path).unwrap();
    let back = Imatrix::open(&path).unwrap();
    assert_eq!((&back.sums, back.chunks, &back.datasets), (&imatrix.sums, 1, &imatrix.datasets));
    let wrong = back.weights("blk.0.ffn_up.weight", 1, 128).unwrap_err().to_string();
    assert!(wrong.contains("another model"), "{wrong}");
    // The older format: entries, then chunks and the name of the text.
    let mut old = 1i32.to_le_bytes().to_vec();
    old.extend(1i32.to_le_bytes());
    old.extend(b"w");
    old.extend([2i32, 2].iter().flat_map(|n| n.to_le_bytes()));
    old.extend([8f32, 2.0].iter().flat_map(|n| n.to_le_bytes()));
    fs::write(dir.path().join("old.dat"), &old).unwrap();
    let old_matrix = Imatrix::open(dir.path().join("old.dat")).unwrap();
    assert_eq!(old_matrix.weights("w", 1, 2).unwrap().unwrap(), [4.0, 1.0]);
    for end in 0..old.len() {
        fs::write(dir.path().join("cut.dat"), &old[..end]).unwrap();
        assert!(Imatrix::open(dir.path().join("cut.dat")).is_err(), "{end}");
    }
}

#[test]
fn overrides_choose_single_tensors_and_the_first_match_wins() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let mut choice = Choice::new("Q4_K_S".parse().unwrap());
    choice.overrides = vec![
        r"blk\.1\.ffn_.*=q8_0".parse().unwrap(),
        "ffn_down=q5_k".parse().unwrap(),
        "norm=q8_0".parse().unwrap(),
    ];
    choice.embedding = Some(DType::Q5_1);
    let options = WriteOptions { choice, ..options("Q4_K_S", None) };
    let tensors = quantized(&draft, &dir.path().join("o.gguf"), &options);
    let dtype = |name: &str| tensors[name].dtype;
    assert_eq!(dtype("blk.1.ffn_down.weight"), DType::Q8_0);
    assert_eq!(dtype("blk.0.ffn_down.weight"), DType::Q5_K);
    assert_eq!(dtype("blk.0.ffn_up.weight"), DType::Q4_K);
    assert_eq!(dtype("token_embd.weight"), DType::Q5_1);
    assert_eq!(dtype("blk.0.attn_norm.weight"), DType::F32);
    let size = draft.bytes_as(&options.choice).unwrap();
    assert_eq!(size, tensors.values().map(|t| t.bytes.len() as u64).sum::<u64>());
    assert!("ffn=q9".parse::<lamina_convert::Override>().is_err());
    assert!("(=q4_0".parse::<lamina_convert::Override>().is_err());
    // Single types in a file that otherwise stays as it is.
    let mut keep = Choice::new(Types::Keep);
    keep.overrides = vec!["attn_q=q4_0".parse().unwrap()];
    let options = WriteOptions { choice: keep, ..WriteOptions::new(Types::Keep) };
    let tensors = quantized(&draft, &dir.path().join("k.gguf"), &options);
    assert_eq!(tensors["blk.0.attn_q.weight"].dtype, DType::Q4_0);
    assert_eq!(tensors["blk.0.attn_k.weight"].dtype, DType::F32);
}

#[test]
fn widths_that_fit_no_block_fall_back_as_in_llama_cpp() {
    let dir = TempDir::new().unwrap();
    // Rows of 96 and 100: the one fits blocks of 32, the other none.
    llama(dir.path(), 96, 4, 2, 100);
    let draft = Draft::open(dir.path()).unwrap();
    for (types, narrow) in [
        ("Q4_K_M", DType::Q5_0),
        ("Q2_K", DType::Q4_0),
        ("Q5_K_S", DType::Q5_1),
        ("Q6_K", DType::Q8_0),
        ("IQ4_XS", DType::IQ4_NL),
        ("Q4_0", DType::Q4_0),
    ] {
        let tensors = quantized(&draft, &dir.path().join("odd.gguf"), &options(types, None));
        assert_eq!(tensors["blk.0.ffn_up.weight"].dtype, narrow, "{types}");
        assert_eq!(tensors["blk.0.ffn_down.weight"].dtype, DType::F16, "{types}");
        let notes = Choice::new(types.parse().unwrap()).odd_widths(&draft, false).unwrap().join(" ");
        assert!(notes.contains("rows of 100") && notes.contains("become F16"), "{types}: {notes}");
        // A tied embedding is the head, which stays finer: Q6_K, that does not fit either.
        assert_eq!(tensors["token_embd.weight"].dtype, DType::Q8_0, "{types}");
    }
}

#[test]
fn files_are_quantized_again_and_threads_change_nothing() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let path = |n: &str| dir.path().join(n);
    quantized(&draft, &path("q8.gguf"), &options("Q8_0", None));
    let again = Draft::open(path("q8.gguf")).unwrap();
    for threads in [1, 3] {
        let options = WriteOptions { threads, ..options("Q4_K_M", None) };
        again.write(path(&format!("{threads}.gguf")), &options, &|_, _| true).unwrap();
    }
    assert_eq!(fs::read(path("1.gguf")).unwrap(), fs::read(path("3.gguf")).unwrap());
    let report = again.write(path("r.gguf"), &options("Q4_K_M", None), &|_, _| true).unwrap();
    assert!(report.gb_per_second() > 0.0 && report.bits_per_weight() < 6.7, "{}", report.bits_per_weight());
    let own = again.write(path("q8.gguf"), &options("Q4_0", None), &|_, _| true).unwrap_err().to_string();
    assert!(own.contains("itself"), "{own}");
}

#[test]
fn giving_up_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let draft = wide(&dir);
    let before = fs::read_dir(dir.path()).unwrap().count();
    let calls = Cell::new(0);
    let stop = |done: u64, all: u64| {
        calls.set(calls.get() + 1);
        assert!(done <= all);
        calls.get() < 5
    };
    let e = draft.write(dir.path().join("stopped.gguf"), &options("Q4_0", None), &stop).unwrap_err();
    assert!(matches!(e, ConvertError::Stopped));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
}

/// An extent of 0 is legal in both formats.
#[test]
fn tensors_without_values_are_kept() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut writer = Writer::new(path("in.gguf"), "llama");
    let shapes: [(&str, &[usize]); 4] =
        [("a.weight", &[0, 32]), ("b.weight", &[4, 0]), ("c.weight", &[2, 32]), ("d.weight", &[0])];
    shapes.iter().for_each(|(name, shape)| writer.declare(name, DType::F32, shape).unwrap());
    let mut out = writer.create().unwrap();
    shapes
        .iter()
        .for_each(|(name, shape)| out.write(name, &vec![0; 4 * shape.iter().product::<usize>()]).unwrap());
    out.finish().unwrap();
    let draft = Draft::open(path("in.gguf")).unwrap();
    for (types, most) in [("q8_0", None), ("keep", None), ("keep", Some(1))] {
        let options = WriteOptions { max_shard_tensors: most, ..options(types, None) };
        let report = draft.write(path("out.gguf"), &options, &|_, _| true).unwrap();
        let written = lamina_store::gguf::Gguf::open(&report.files[0]).unwrap().tensors;
        assert!(shapes.iter().all(|(name, shape)| written[*name].shape == *shape), "{types}");
        report.files.iter().for_each(|f| std::fs::remove_file(f).unwrap());
    }
}
