//! Fewer key and value heads: order and turns change nothing, pooling does what it says.

use crate::common::{Model, folders, prefill, relative_error};
use crate::made::{llama, numbers};
use lamina_convert::{Covariances, Draft, Grouping, KvHeads, Types, WriteOptions};
use lamina_plan::KvType;
use std::path::Path;
use tempfile::TempDir;

fn logits(draft: &Draft) -> Vec<f32> {
    let dir = TempDir::new().unwrap();
    draft
        .write(dir.path().join("model.gguf"), &WriteOptions::new("f32".parse::<Types>().unwrap()), &|_, _| {
            true
        })
        .unwrap();
    logits_of(dir.path())
}

fn logits_of(path: &Path) -> Vec<f32> {
    let (mut runner, unused) = Model::open(path).unwrap().runner(KvType::F32).unwrap();
    assert!(unused.is_empty(), "{unused:?}");
    prefill(&mut runner, &[(1..30).collect()]).unwrap().concat()
}

fn model(dir: &TempDir, heads: usize, kv_heads: usize) -> Draft {
    llama(dir.path(), 64, heads, kv_heads, 96);
    Draft::open(dir.path()).unwrap()
}

#[test]
fn as_many_heads_as_before_are_the_same_model() {
    let dir = TempDir::new().unwrap();
    let draft = model(&dir, 8, 4);
    let want = logits(&draft);
    let same = draft.with_kv_heads(&KvHeads::new(4)).unwrap();
    assert_eq!(logits(&same), want);
}

#[test]
fn order_and_turns_leave_the_logits_unchanged() {
    for (heads, kv_heads) in [(8, 8), (8, 4)] {
        let dir = TempDir::new().unwrap();
        let draft = model(&dir, heads, kv_heads);
        let want = logits(&draft);
        for (grouping, align) in
            [(Grouping::Similar, false), (Grouping::InOrder, true), (Grouping::Similar, true)]
        {
            let options = KvHeads { grouping, align, pool: false, ..KvHeads::new(2) };
            let turned = draft.with_kv_heads(&options).unwrap();
            let values =
                |d: &Draft| d.tensor("blk.0.attn_v.weight").unwrap().values().unwrap().to_f32().unwrap();
            assert_ne!(values(&turned), values(&draft));
            let error = relative_error(&logits(&turned), &want);
            // Weights are rounded to float32 once more.
            assert!(error < 1e-5, "{heads} {kv_heads} {grouping:?} {align}: {error:e}");
        }
    }
}

#[test]
fn turns_leave_the_logits_of_golden_families_unchanged() {
    // Rotary pairs of both orders, partial rotation, biases, norms of heads, no rotation.
    let families = ["llama", "qwen2", "qwen3", "stablelm", "smollm3", "gpt-oss", "olmo3"];
    for folder in folders().iter().filter(|f| families.iter().any(|n| f.ends_with(n))) {
        let draft = Draft::open(folder).unwrap();
        for grouping in [Grouping::InOrder, Grouping::Similar] {
            let options = KvHeads { grouping, align: true, pool: false, ..KvHeads::new(1) };
            match draft.with_kv_heads(&options) {
                Ok(turned) => {
                    let error = relative_error(&logits(&turned), &logits(&draft));
                    assert!(error < 2e-5, "{}: {error:e}", folder.display());
                }
                Err(e) => assert!(e.to_string().contains("cannot be pooled"), "{e}"),
            }
        }
    }
}

#[test]
fn pooled_heads_are_means() {
    let dir = TempDir::new().unwrap();
    let draft = model(&dir, 4, 4);
    let pooled = draft.with_kv_heads(&KvHeads::new(2)).unwrap();
    let values = |d: &Draft| d.tensor("blk.1.attn_v.weight").unwrap().values().unwrap().to_f32().unwrap();
    let (old, new) = (values(&draft), values(&pooled));
    let size = 16 * 64;
    assert_eq!(new.len(), 2 * size);
    for (i, v) in new.iter().enumerate() {
        let first = i / size * 2 * size + i % size;
        assert!((v - (old[first] + old[first + size]) / 2.0).abs() < 1e-6);
    }
    assert_eq!(logits(&pooled).len(), logits(&draft).len());
}

#[test]
fn hidden_copies_are_found_and_pooled_without_loss() {
    // Key and value heads 1 and 3, 2 and 4 are equal; in order they would be mixed up.
    let dir = TempDir::new().unwrap();
    let mut draft = model(&dir, 4, 4);
    for name in ["blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight"] {
        let place = draft.tensors.iter_mut().find(|t| t.name == name).unwrap();
        let mut w = place.values().unwrap().to_f32().unwrap();
        w.copy_within(0..2 * 16 * 64, 2 * 16 * 64);
        *place = lamina_convert::Planned::stored(lamina_base::HostTensor::from_f32(name, vec![64, 64], &w));
    }
    let want = logits(&draft);
    let error =
        |options: &KvHeads<'_>| relative_error(&logits(&draft.with_kv_heads(options).unwrap()), &want);
    let covariances: Covariances = (0..2).map(|i| (format!("blk.{i}.attn_k.weight"), covariance())).collect();
    assert!(error(&KvHeads { grouping: Grouping::Similar, ..KvHeads::new(2) }) < 1e-5);
    let seen = KvHeads { grouping: Grouping::Similar, covariances: Some(&covariances), ..KvHeads::new(2) };
    assert!(error(&seen) < 1e-5);
    assert!(error(&KvHeads { grouping: Grouping::Similar, align: true, ..KvHeads::new(2) }) < 1e-5);
    assert!(error(&KvHeads::new(2)) > 1e-2);
}

/// Of some inputs of 64 numbers.
fn covariance() -> Vec<f32> {
    let x = numbers(5, 200 * 64);
    let entry = |i: usize, j: usize| x.chunks_exact(64).map(|row| row[i] * row[j]).sum::<f32>();
    (0..64 * 64).map(|at| entry(at / 64, at % 64)).collect()
}

#[test]
fn alignment_brings_heads_closer_to_their_mean() {
    let dir = TempDir::new().unwrap();
    let draft = model(&dir, 4, 4);
    // The longer the mean, the less heads cancel one another in it.
    let length = |options: &KvHeads<'_>, name: &str| -> f32 {
        let pooled = draft.with_kv_heads(options).unwrap();
        pooled.tensor(name).unwrap().values().unwrap().to_f32().unwrap().iter().map(|v| v * v).sum()
    };
    for name in ["blk.0.attn_k.weight", "blk.0.attn_v.weight"] {
        let plain = length(&KvHeads::new(1), name);
        let aligned = length(&KvHeads { align: true, ..KvHeads::new(1) }, name);
        assert!(aligned > 1.1 * plain, "{name}: {aligned} {plain}");
    }
}

#[test]
fn models_without_key_heads_are_refused() {
    let models = lamina_fixtures::Models::new();
    for folder in ["deepseek-v2", "mamba2"].map(|name| models.folder(name)) {
        let e = Draft::open(folder).unwrap().with_kv_heads(&KvHeads::new(1)).unwrap_err().to_string();
        assert!(e.contains("no layer has key heads"), "{e}");
    }
}

#[test]
fn counts_that_do_not_divide_are_refused() {
    let dir = TempDir::new().unwrap();
    let draft = model(&dir, 8, 4);
    for count in [0, 3, 8] {
        let e = draft.with_kv_heads(&KvHeads::new(count)).unwrap_err().to_string();
        assert!(e.contains("divisor"), "{e}");
    }
}
