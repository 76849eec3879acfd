//! Every family on generated checkpoints, with nothing beside this repository: logits are what they were, and a
//! request's bits depend on nothing but the request.
//!
//! `LAMINA_SNAPSHOTS=write cargo test -p lamina --test it families::` rewrites the logits.

use crate::common::answers::{self, Bits, top_bits};
use crate::common::load;
use lamina::{GenerateOptions, KvType, LoadOptions, Model, Prompt};
use lamina_convert::{Draft, WriteOptions};
use lamina_fixtures::{Models, logits, logits_file, names, tokens};
use std::{collections::BTreeMap, fs, path::Path};

/// As `golden.rs` allows for other engines' sums.
const TOLERANCE: f64 = 1e-4;

/// Largest relative error of logits behind a q8_0 cache: steps of 1/127 of the largest of 32 numbers, layer after layer.
const EIGHT_BITS: f64 = 2e-2;

/// Logits by family: every twentieth of the last of 40 positions.
type Snapshot = BTreeMap<String, Vec<f32>>;

fn options() -> LoadOptions {
    LoadOptions {
        kv_dtype: KvType::F32.into(),
        threads: Some(1),
        context: Some(256),
        ..LoadOptions::default()
    }
}

fn error(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let off: f64 = a.iter().zip(b).map(|(x, y)| square(x - y)).sum();
    if a.len() == b.len() { (off / b.iter().map(|y| square(*y)).sum::<f64>()).sqrt() } else { f64::INFINITY }
}

fn last_logits(model: &Model) -> Vec<f32> {
    let all = model.logits(&tokens(40)).expect("runs");
    all[all.len() - model.info().vocab..].iter().step_by(20).copied().collect()
}

fn write_snapshot(found: &Snapshot) {
    let line = |(name, row): (&String, &Vec<f32>)| format!("  {name:?}: {row:?}");
    let lines: Vec<_> = found.iter().map(line).collect();
    fs::write(logits_file(), format!("{{\n{}\n}}\n", lines.join(",\n"))).expect("written");
}

#[test]
fn logits_are_what_they_were_from_folders_and_from_gguf_files() {
    let (models, dir) = (Models::new(), tempfile::tempdir().expect("a folder"));
    let mut found = Snapshot::new();
    for name in names() {
        let folder = models.folder(&name);
        let row = last_logits(&load(&folder, options()));
        assert!(row.iter().all(|v| v.is_finite()) && row.iter().any(|v| v.abs() > 0.01), "{name}: {row:?}");
        let half = LoadOptions { kv_dtype: KvType::F16.into(), ..options() };
        let off = error(&last_logits(&load(&folder, half)), &row);
        assert!(off < 3e-3, "{name} with the default cache: {off}");
        // Families that llama.cpp does not know have no file of its format.
        if let Ok(draft) = Draft::open(&folder) {
            let file = dir.path().join(format!("{name}.gguf"));
            draft.write(&file, &WriteOptions::new(draft.usual_types()), &|_, _| true).expect("written");
            let off = error(&last_logits(&load(&file, options())), &row);
            assert!(off < TOLERANCE, "{name} as GGUF: {off}");
        }
        found.insert(name, row);
    }
    if std::env::var("LAMINA_SNAPSHOTS").is_ok_and(|v| v == "write") {
        return write_snapshot(&found);
    }
    let want = logits();
    assert!(want.keys().eq(found.keys()), "other families than in {}", logits_file().display());
    let off = |(name, row): (&String, &Vec<f32>)| Some((name.clone(), error(row, &want[name])));
    let changed: Vec<_> =
        found.iter().filter_map(off).filter(|(_, e)| e.is_nan() || *e > TOLERANCE).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

#[test]
fn chunks_and_threads_change_no_bit() {
    let models = Models::new();
    let bits = |m: &Model| -> Vec<u32> {
        m.logits(&tokens(70)).expect("runs").into_iter().map(f32::to_bits).collect()
    };
    for name in names() {
        let folder = models.folder(&name);
        let want = bits(&load(&folder, options()));
        for (threads, batch_rows) in [(2, 512), (3, 33), (1, 1), (2, 7)] {
            let got = bits(&load(
                &folder,
                LoadOptions { threads: Some(threads), batch_rows: Some(batch_rows), ..options() },
            ));
            assert!(got == want, "{name}: {threads} threads, chunks of {batch_rows} rows");
        }
    }
}

fn prompt(i: usize) -> Prompt {
    Prompt::Tokens(tokens(30 + 11 * i as u32).split_off(i))
}

fn request(i: usize) -> GenerateOptions {
    let mut o = GenerateOptions {
        max_tokens: Some(12),
        ignore_eos: true,
        n: 1 + i % 2,
        ..GenerateOptions::default()
    };
    o.sampling.set("seed", i as i64).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

fn alone(model: &Model, i: usize) -> Vec<Vec<Bits>> {
    model.generate(&prompt(i), &request(i)).expect("runs").iter().map(top_bits).collect()
}

fn together(model: &Model, count: usize) -> Vec<Vec<Vec<Bits>>> {
    answers::together(model, &(0..count).map(|i| (prompt(i), request(i))).collect::<Vec<_>>())
}

#[test]
fn company_cache_and_forks_change_no_bit() {
    let models = Models::new();
    for name in names() {
        hold(&name, &models.folder(&name), KvType::F16);
    }
}

#[test]
fn caches_of_every_type_hold_the_law() {
    let models = Models::new();
    for name in ["llama", "gpt-oss", "gemma2", "qwen3-next", "deepseek-v2"] {
        for (kv, kv_type) in KvType::ALL {
            hold(&format!("{name} with a cache of {kv}"), &models.folder(name), *kv_type);
        }
    }
}

/// Latents in blocks are as good as keys and values in blocks, and what is stored is what was asked for.
#[test]
fn caches_of_8_bits_stay_close() {
    let models = Models::new();
    for name in ["llama", "qwen3-moe", "deepseek-v2", "deepseek-v3"] {
        let folder = models.folder(name);
        let exact = last_logits(&load(&folder, options()));
        let model = load(&folder, LoadOptions { kv_dtype: KvType::Q8_0.into(), ..options() });
        assert_eq!(model.info().kv_dtype.to_string(), "q8_0", "{name}");
        let off = error(&last_logits(&model), &exact);
        assert!(off < EIGHT_BITS, "{name}: {off}");
    }
}

/// Requests alone, in company, with what they share found in the cache, and in small chunks: the same bits.
fn hold(name: &str, folder: &Path, kv_type: KvType) {
    let plain = load(folder, LoadOptions { reuse_prefixes: false, kv_dtype: kv_type.into(), ..options() });
    let want: Vec<_> = (0..4).map(|i| alone(&plain, i)).collect();
    assert!(together(&plain, 4) == want, "{name}: in company");
    let reusing = load(
        folder,
        LoadOptions { batch_rows: Some(19), threads: Some(2), kv_dtype: kv_type.into(), ..options() },
    );
    for round in 0..2 {
        assert!(together(&reusing, 4) == want, "{name}: with a cache, round {round}");
    }
    assert!(alone(&reusing, 3) == want[3], "{name}: alone with a cache");
}
