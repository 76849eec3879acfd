//! Weights with NaN and infinite numbers harm the requests that meet them and no others, and are never told as a result.

use lamina::{Completion, Error, GenerateOptions, KvType, LoadOptions, Model, Prompt};
use lamina_fixtures::{Models, names, tokens};
use lamina_store::Checkpoint;
use lamina_tools::{PerplexityOptions, perplexity};
use std::{fs, path::Path};

/// A token that prompts of these tests have on purpose only.
const BAD: u32 = 319;

/// Puts `number` into the embedding of [`BAD`]; false where the head is the same table, and would give it to every
/// answer.
fn damage(folder: &Path, number: f32) -> bool {
    let ck = Checkpoint::open(folder).unwrap();
    let rows = lamina_fixtures::VOCAB as usize;
    let tables = ck.tensors.values().filter(|t| t.shape.len() == 2 && t.shape[0] == rows);
    let is_head = |name: &str| name.contains("lm_head") || name.contains("embed_out");
    let (heads, tables): (Vec<_>, Vec<_>) = tables.partition(|t| is_head(&t.name));
    if heads.is_empty() {
        return false;
    }
    let table = tables[0];
    let lamina_base::StoredBytes::InFile { range, .. } = &table.bytes else { panic!("in the file") };
    let path = folder.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let row = range.start + BAD as usize * table.row_bytes();
    let stored = &mut bytes[row..row + table.dtype.block_bytes()];
    lamina_quant::encode(table.dtype, &[number], None, stored).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(path, bytes).unwrap();
    true
}

fn options(kv: KvType) -> LoadOptions {
    LoadOptions { threads: Some(2), context: Some(96), kv_dtype: kv.into(), ..LoadOptions::default() }
}

fn answer(model: &Model, prompt: &[u32]) -> lamina::Result<Completion> {
    let mut ask = GenerateOptions { max_tokens: Some(4), ignore_eos: true, ..GenerateOptions::default() };
    ask.sampling.set("temperature", 0.0)?;
    ask.sampling.set("logprobs", 2i64)?;
    ask.sampling.set("logit_bias", std::collections::BTreeMap::from([(BAD, f32::NEG_INFINITY)]))?;
    Ok(model.generate(&Prompt::Tokens(prompt.to_vec()), &ask)?.remove(0))
}

fn good(number: usize) -> Vec<u32> {
    tokens(40).iter().map(|t| (t + number as u32) % (BAD - 4) + 3).collect()
}

/// Prompts with the bad token at several places: behind whole pages, in the middle of one, at the beginning and the end.
fn bad() -> Vec<Vec<u32>> {
    let places = [0, 5, 31, 32, 36, 39];
    let with = |at: usize| {
        let mut prompt = good(0);
        prompt[at] = BAD;
        prompt
    };
    places.map(with).to_vec()
}

#[test]
fn requests_beside_and_behind_a_bad_token_get_what_they_get_alone() {
    let models = Models::new();
    for name in names() {
        let folder = models.folder(&name);
        for (number, kv) in [(f32::NAN, KvType::F16), (f32::INFINITY, KvType::F32), (3e38, KvType::F16)] {
            if !damage(&folder, number) {
                break;
            }
            let fresh = Model::load(Some(&folder), options(kv)).unwrap();
            let first = answer(&fresh, &good(0)).unwrap();
            let want: Vec<Completion> = (1..4).map(|i| answer(&fresh, &good(i)).unwrap()).collect();
            let model = Model::load(Some(&folder), options(kv)).unwrap();
            for prompt in bad() {
                if let Err(e) = answer(&model, &prompt) {
                    assert!(matches!(&e, Error::Runtime(text) if text.contains("NaN")), "{name}: {e}");
                }
            }
            // The same beginning, computed and published beside the bad token; and prompts in pages that held it.
            let same = |a: &Completion, b: &Completion| (&a.tokens, &a.logprobs) == (&b.tokens, &b.logprobs);
            assert!(same(&answer(&model, &good(0)).unwrap(), &first), "{name} {number}");
            for round in 0..3 {
                for (i, want) in want.iter().enumerate() {
                    let got = answer(&model, &good(i + 1))
                        .unwrap_or_else(|e| panic!("{name} {number} {round}: {e}"));
                    assert!(same(&got, want), "{name} {number} {round}");
                }
            }
        }
    }
}

#[test]
fn pools_and_perplexities_of_what_is_no_number_are_errors() {
    let models = Models::new();
    for name in ["llama", "deepseek-v3", "mamba2"] {
        let folder = models.folder(name);
        assert!(damage(&folder, f32::NAN));
        let model = Model::load(Some(&folder), options(KvType::F32)).unwrap();
        let prompt = Prompt::Tokens(bad().remove(1));
        let nan =
            |e: Error| assert!(matches!(&e, Error::Runtime(text) if text.contains("NaN")), "{name}: {e}");
        nan(model.embed(&prompt, &mut || true).unwrap_err());
        let measure = PerplexityOptions { context: 32, stride: 32, skip: 0 };
        nan(perplexity(&model, &prompt, measure, &mut |_, _| true).unwrap_err());
        assert!(model.embed(&Prompt::Tokens(good(2)), &mut || true).unwrap().iter().all(|v| v.is_finite()));
    }
}
