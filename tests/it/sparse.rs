//! Sparse attention: what is left out follows from the request alone, and requests never share what differs.

use crate::common::answers::{answer, assert_company_changes_nothing, bits};
use lamina::{
    AnswerState, AttentionSparsity, DraftSource, GenerateOptions, KvType, LoadOptions, Model, Prompt,
    ReadShare,
};
use lamina_fixtures::{Models, names, packaged, tokens};
use std::path::Path;

/// Longest sequence.
const CONTEXT: usize = 512;
/// Tokens of a prompt: six blocks, of which rows may leave some out.
const PROMPT: u32 = 390;

fn sparse(values: f64, prefill: f64) -> AttentionSparsity {
    AttentionSparsity { values: ReadShare::new(values), prefill: ReadShare::new(prefill) }
}

fn options(sparsity: AttentionSparsity) -> LoadOptions {
    LoadOptions {
        threads: Some(1),
        context: Some(CONTEXT),
        kv_dtype: KvType::Q8_0.into(),
        sparsity,
        ..LoadOptions::default()
    }
}

fn try_load(path: &Path, options: LoadOptions) -> lamina::Result<Model> {
    Model::load(Some(path), options)
}

fn load(path: &Path, options: LoadOptions) -> Model {
    try_load(path, options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn asked(count: usize) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(count), ignore_eos: true, ..GenerateOptions::default() };
    o.sampling.set("temperature", 0.0).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

/// Prompts that differ from the first token on.
fn prompt(i: u32) -> Vec<u32> {
    tokens(PROMPT + i)[i as usize..].to_vec()
}

#[test]
fn every_family_leaves_out_the_same_however_it_is_computed() {
    let (models, mut count) = (Models::new(), 0);
    for name in names() {
        let folder = models.folder(&name);
        let of = |values, prefill| try_load(&folder, options(sparse(values, prefill)));
        let Ok(dense) = of(1.0, 1.0) else { continue };
        let both = match of(0.05, 0.1) {
            Ok(model) => model,
            Err(e) => {
                let refusal = "attention_sparsity and sparse_prefill must be left out for models";
                assert!(e.to_string().contains(refusal), "{name}: {e}");
                continue;
            }
        };
        let plain = asked(6);
        if dense.info().context < CONTEXT || dense.generate(&Prompt::Tokens(prompt(0)), &plain).is_err() {
            continue;
        }
        count += 1;
        let whole = bits(&answer(&dense, &prompt(0), &plain));
        let want = bits(&answer(&both, &prompt(0), &plain));
        assert_ne!(want, whole, "{name}: something is left out");
        assert_eq!(bits(&answer(&both, &prompt(0), &plain)), want, "{name}, from the cache");
        let small = LoadOptions { batch_rows: Some(77), threads: Some(2), ..options(sparse(0.05, 0.1)) };
        let small = load(&folder, small);
        for round in 0..2 {
            assert_eq!(bits(&answer(&small, &prompt(0), &plain)), want, "{name}, in pieces, round {round}");
        }
        let values = bits(&answer(&of(0.05, 1.0).expect("loads"), &prompt(0), &plain));
        assert_eq!(values[0], whole[0], "{name}: the first token follows from rows of the prompt");
        assert_ne!(values, whole, "{name}: the others are of decode rows");
    }
    assert!(count > 20, "{count} families");
}

#[test]
fn company_forks_and_preemption_change_no_bit() {
    let some = LoadOptions { context: Some(300), ..options(sparse(0.1, 0.2)) };
    let prompts: Vec<_> = (0..12).map(|i| prompt(i)[..230].to_vec()).collect();
    // Two or three requests fit.
    assert_company_changes_nothing(&packaged(), &some, (&prompts, &asked(60)), Some(400_000));
}

#[test]
fn answers_are_no_beginnings_of_prompts() {
    let model = load(&packaged(), options(sparse(0.1, 1.0)));
    let start = prompt(0)[..100].to_vec();
    let first = answer(&model, &start, &asked(100));
    let longer = [start.clone(), first.tokens.clone()].concat();
    let next = answer(&model, &longer, &asked(5));
    // Three pages of the prompt are whole; the fourth has decode rows, which are not what a prompt's would be.
    assert_eq!(next.usage.cached_tokens, 96);
    let fresh = load(&packaged(), LoadOptions { reuse_prefixes: false, ..options(sparse(0.1, 1.0)) });
    assert_eq!(bits(&next), bits(&answer(&fresh, &longer, &asked(5))));
    let cut = answer(&model, &start, &asked(70));
    let resume = Some(AnswerState { tokens: cut.tokens.clone(), sampler: cut.sampler });
    let more = answer(&model, &start, &GenerateOptions { resume, ..asked(30) });
    assert_eq!([bits(&cut), bits(&more)].concat(), bits(&first), "an answer that goes on is one");
}

#[test]
fn drafts_and_shifts_change_no_bit() {
    let text: Vec<u32> = tokens(9).into_iter().cycle().take(PROMPT as usize).collect();
    let some = options(sparse(0.1, 0.2));
    let plain = load(&packaged(), some.clone());
    let drafted =
        load(&packaged(), LoadOptions { draft: Some(DraftSource::Ngram), draft_width: Some(4), ..some });
    let got = answer(&drafted, &text, &asked(40));
    assert_eq!(bits(&got), bits(&answer(&plain, &text, &asked(40))));
    assert!(got.timings.speculation.drafted > 0);
    let shifting = GenerateOptions { context_shift: Some(4), ..asked(200) };
    let shifted = answer(&plain, &text, &shifting);
    assert!(shifted.timings.context_shifts > 0);
    assert_eq!(bits(&answer(&drafted, &text, &shifting)), bits(&shifted));
}

#[test]
fn what_cannot_be_sparse_is_said() {
    let models = Models::new();
    let refused = |name: &str, sparsity, kv_type: KvType| {
        let options = LoadOptions { kv_dtype: kv_type.into(), context: Some(64), ..options(sparsity) };
        try_load(&models.folder(name), options).map(|_| String::new()).unwrap_or_else(|e| e.to_string())
    };
    for (name, part) in [("deepseek-v3", "latents"), ("mamba2", "sees the whole context")] {
        let why = refused(name, sparse(0.1, 1.0), KvType::F16);
        assert!(why.contains(part), "{name}: {why}");
    }
    assert_eq!(refused("bloom-alibi", sparse(0.1, 1.0), KvType::F16), "");
    assert!(refused("bloom-alibi", sparse(1.0, 0.1), KvType::F16).contains("linear position biases"));
    assert_eq!(refused("llama", sparse(0.1, 1.0), KvType::Q4_0), "");
    assert!(refused("llama", sparse(1.0, 0.1), KvType::Q4_0).contains("keys of q4_0"));
}
