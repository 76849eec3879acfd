//! Prompts whose cache is compressed: which cells stay depends on nothing but the request, and the first token is that of
//! the whole prompt.

use crate::common::answers::{answer, assert_company_changes_nothing, bits};
use crate::common::load;
use lamina::{
    AnswerState, Compression, CompressionMethod, DraftSource, GenerateOptions, KvType, LoadOptions, Model,
    Prompt,
};
use lamina_fixtures::{Models, names, packaged, tokens};

/// Longest sequence.
const CONTEXT: usize = 128;
/// Tokens of a prompt.
const PROMPT: u32 = 75;

fn options() -> LoadOptions {
    LoadOptions {
        threads: Some(1),
        context: Some(CONTEXT),
        kv_dtype: KvType::Q8_0.into(),
        ..LoadOptions::default()
    }
}

/// 24 tokens of each layer's and key head's: eight of them the window's, of H2O's twelve.
fn compression(method: CompressionMethod) -> Compression {
    let plain = Compression::new(method, 24);
    if method == CompressionMethod::H2o { plain } else { Compression { window: 8, pool: 5, ..plain } }
}

fn asked(count: usize, compress: Option<Compression>) -> GenerateOptions {
    let mut o =
        GenerateOptions { max_tokens: Some(count), ignore_eos: true, compress, ..GenerateOptions::default() };
    o.sampling.set("temperature", 0.0).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

fn snap(count: usize) -> GenerateOptions {
    asked(count, Some(compression(CompressionMethod::SnapKv)))
}

fn h2o(count: usize) -> GenerateOptions {
    asked(count, Some(compression(CompressionMethod::H2o)))
}

/// Prompts that differ from the first token on.
fn prompt(i: u32) -> Vec<u32> {
    tokens(PROMPT + i)[i as usize..].to_vec()
}

/// Why the model cannot compress prompts; none where it can.
fn refusal(model: &Model) -> Option<String> {
    model.generate(&Prompt::Tokens(prompt(0)), &snap(1)).err().map(|e| e.to_string())
}

#[test]
fn every_family_selects_the_same_whatever_else_there_is() {
    let (models, mut compressed) = (Models::new(), 0);
    for name in names() {
        let folder = models.folder(&name);
        let model = load(&folder, options());
        if let Some(why) = refusal(&model) {
            assert!(
                why.contains("compress is snapkv:24,window=8,pool=5, but must be left out"),
                "{name}: {why}"
            );
            continue;
        }
        compressed += 1;
        let whole = bits(&answer(&model, &prompt(0), &asked(20, None)));
        let small = load(&folder, LoadOptions { batch_rows: Some(19), threads: Some(2), ..options() });
        for method in [CompressionMethod::SnapKv, CompressionMethod::PyramidKv, CompressionMethod::H2o] {
            let o = asked(20, Some(compression(method)));
            let want = bits(&answer(&model, &prompt(0), &o));
            assert_eq!(want[0], whole[0], "{name}: the first token follows the whole prompt");
            assert_ne!(want, whole, "{name}: the others do not");
            assert_eq!(bits(&answer(&model, &prompt(0), &o)), want, "{name}, from the cache");
            for round in 0..2 {
                assert_eq!(bits(&answer(&small, &prompt(0), &o)), want, "{name}, in pieces, round {round}");
            }
        }
        let roomy = Compression::new(CompressionMethod::SnapKv, PROMPT as usize);
        let all = answer(&model, &prompt(0), &asked(20, Some(roomy)));
        assert_eq!(bits(&all), whole, "{name}: what fits stays as it is");
        assert_eq!(bits(&answer(&model, &prompt(0), &asked(20, None))), whole, "{name}: others see all");
    }
    assert!(compressed > 28, "{compressed} families");
}

#[test]
fn company_forks_and_preemption_change_no_bit() {
    let prompts: Vec<_> = (0..14).map(prompt).collect();
    // Room for eight sequences at full length.
    assert_company_changes_nothing(&packaged(), &options(), (&prompts, &snap(50)), None);
    // Room for two: prompts are preempted between their steps.
    let pieces = LoadOptions { batch_rows: Some(20), ..options() };
    let two = 2 * load(&packaged(), pieces.clone()).info().kv_bytes_per_sequence;
    assert_company_changes_nothing(&packaged(), &pieces, (&prompts[..6], &h2o(50)), Some(two));
}

#[test]
fn only_what_precedes_the_window_is_shared() {
    let model = load(&packaged(), options());
    let compressed = answer(&model, &prompt(0), &snap(45));
    let longer = [prompt(0), compressed.tokens].concat();
    let again = answer(&model, &longer, &asked(5, None));
    // The window begins at token 67, inside the third page.
    assert_eq!(again.usage.cached_tokens, 64);
    let fresh = load(&packaged(), LoadOptions { reuse_prefixes: false, ..options() });
    assert_eq!(bits(&again), bits(&answer(&fresh, &longer, &asked(5, None))));
    let next = answer(&model, &longer, &snap(5));
    assert_eq!(bits(&next), bits(&answer(&fresh, &longer, &snap(5))));
    assert!(next.usage.cached_tokens >= 96, "computed by the request without a compression");
}

#[test]
fn prompts_whose_rows_all_count_take_nothing_from_the_cache() {
    let model = load(&packaged(), options());
    let compressed = answer(&model, &prompt(0), &h2o(20));
    let again = answer(&model, &prompt(0), &h2o(20));
    assert_eq!((bits(&again), again.usage.cached_tokens), (bits(&compressed), 0));
    // What is selected is moved inside pages that are the sequence's own.
    let whole = answer(&model, &prompt(0), &asked(20, None));
    assert_eq!(whole.usage.cached_tokens, 32);
    let fresh = load(&packaged(), LoadOptions { reuse_prefixes: false, ..options() });
    assert_eq!(bits(&whole), bits(&answer(&fresh, &prompt(0), &asked(20, None))));
    let roomy = Compression::new(CompressionMethod::H2o, PROMPT as usize);
    let all = answer(&model, &prompt(0), &asked(20, Some(roomy)));
    assert_eq!((bits(&all), all.usage.cached_tokens), (bits(&whole), 64), "nothing is selected");
}

#[test]
fn pages_before_what_stays_are_free() {
    let context = 1024;
    let model = load(&packaged(), LoadOptions { context: Some(context), ..options() });
    let long = tokens(900);
    let held = |o: &GenerateOptions| {
        let stream = model.stream(&Prompt::Tokens(long.clone()), o).expect("starts");
        // The first ones may be of the prompt.
        let held = |_| {
            let s = model.snapshot();
            (!s.running.is_empty()).then(|| s.pages - s.free_pages)
        };
        stream.filter_map(held).min().expect("runs")
    };
    let whole = held(&asked(100, None));
    for o in [snap(100), h2o(100)] {
        let kept = held(&o);
        assert!(whole >= 900 / 32 && kept <= (24 + 100) / 32 + 3, "{whole} and {kept} pages");
    }
}

#[test]
fn answers_go_on_behind_shifts_of_the_context() {
    let model = load(&packaged(), options());
    let sinks = 5;
    for o in [snap, h2o] {
        let shifting = GenerateOptions { context_shift: Some(sinks), ..o(300) };
        let got = answer(&model, &prompt(0), &shifting);
        assert!(got.timings.context_shifts > 3);
        let (mut kept, mut want) = (prompt(0), vec![]);
        while want.len() < 300 {
            let part = bits(&answer(&model, &kept, &o((CONTEXT + 1 - kept.len()).min(300 - want.len()))));
            kept.extend(part.iter().map(|(t, _)| t));
            want.extend(part);
            kept.drain(sinks..kept.len() - (CONTEXT - sinks).div_ceil(2));
        }
        assert_eq!(bits(&got), want);
    }
}

#[test]
fn drafts_and_cuts_change_no_bit() {
    let text: Vec<u32> = tokens(9).into_iter().cycle().take(PROMPT as usize).collect();
    let plain = load(&packaged(), options());
    let drafted =
        load(&packaged(), LoadOptions { draft: Some(DraftSource::Ngram), draft_width: Some(4), ..options() });
    for o in [snap, h2o] {
        let want = answer(&plain, &text, &o(40));
        let got = answer(&drafted, &text, &o(40));
        assert_eq!(bits(&got), bits(&want));
        assert!(got.timings.speculation.drafted > 0);
        let shifting = GenerateOptions { context_shift: Some(4), ..o(200) };
        let shifted = bits(&answer(&plain, &text, &shifting));
        assert_eq!(bits(&answer(&drafted, &text, &shifting)), shifted);
        let cut = answer(&drafted, &text, &o(15));
        let resume = Some(AnswerState { tokens: cut.tokens.clone(), sampler: cut.sampler });
        let more = answer(&drafted, &text, &GenerateOptions { resume, ..o(25) });
        assert_eq!([bits(&cut), bits(&more)].concat(), bits(&want));
    }
}

#[test]
fn what_cannot_be_compressed_is_said() {
    let models = Models::new();
    let why = |name: &str| refusal(&load(&models.folder(name), options())).unwrap_or_default();
    for (name, part) in [
        ("bloom-alibi", "linear position biases"),
        ("deepseek-v3", "latents"),
        ("mamba2", "sees the whole context"),
    ] {
        assert!(why(name).contains(part), "{name}: {}", why(name));
    }
    let rows = load(&packaged(), LoadOptions { batch_rows: Some(8), ..options() });
    let error = refusal(&rows).unwrap_or_default();
    assert!(error.contains("a window of at most half of the rows of a step"), "{error}");
}
