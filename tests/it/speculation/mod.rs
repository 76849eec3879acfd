//! Guessed tokens change no bit of an answer: every family, every drafter, on the model inside the package and its draft.

use crate::common::answers::{Bits, top_bits};
use crate::common::load;
use lamina::Grammar;
use lamina::{
    Completion, DraftSource, GenerateOptions, KvDtype, LoadOptions, Model, Prompt, Speculate, TokenStream,
};
use lamina_fixtures::{Models, extent, names, packaged, shared, tokens};
use std::path::Path;

mod grammars;
mod heads;

fn options(draft: Option<DraftSource>) -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(256), draft, ..LoadOptions::default() }
}

/// Tokens that repeat themselves, so that there is something to look up.
fn prompt(i: usize) -> Prompt {
    let some = tokens(12 + i as u32);
    Prompt::Tokens(some.iter().copied().cycle().take(30 + 11 * i).collect())
}

fn request(i: usize, width: Option<usize>) -> GenerateOptions {
    let mut o = GenerateOptions {
        max_tokens: Some(16),
        ignore_eos: true,
        n: 1 + i % 2,
        // With one chain, and with up to four.
        speculate: Speculate { width, branches: width.map(|_| 1 + i % 4), method: None },
        ..GenerateOptions::default()
    };
    o.sampling.set("seed", i as i64).expect("known");
    o.sampling.set("temperature", if i.is_multiple_of(3) { 0.0 } else { 0.7 }).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

fn all_bits(answers: &[Completion]) -> Vec<Vec<Bits>> {
    answers.iter().map(top_bits).collect()
}

fn together(model: &Model, count: usize, width: Option<usize>) -> Vec<Vec<Completion>> {
    let streams: Vec<TokenStream> =
        (0..count).map(|i| model.stream(&prompt(i), &request(i, width)).expect("starts")).collect();
    let one = |(i, stream): (usize, TokenStream)| {
        let mut answers = vec![Completion::empty(); 1 + i % 2];
        stream.map(|piece| piece.expect("runs")).for_each(|piece| answers[piece.index].push(piece));
        answers
    };
    streams.into_iter().enumerate().map(one).collect()
}

/// Answers of a model alone and together, with each width, against those of one without drafts.
fn agrees(name: &str, plain: &Model, drafted: &Model, widths: &[Option<usize>]) -> (usize, usize) {
    let mut sums = (0, 0);
    let wants: Vec<_> =
        (0..4).map(|i| all_bits(&plain.generate(&prompt(i), &request(i, None)).expect("runs"))).collect();
    for &width in widths {
        let alone = (0..4).map(|i| drafted.generate(&prompt(i), &request(i, width)).expect("runs"));
        for (i, got) in alone.chain(together(drafted, 4, width)).enumerate() {
            assert!(all_bits(&got) == wants[i % 4], "{name}, width {width:?}, request {i}");
            for s in got.iter().map(|a| a.timings.speculation) {
                assert!(s.accepted <= s.drafted && s.steps <= s.drafted, "{s:?}");
                sums = (sums.0 + s.drafted, sums.1 + s.accepted);
            }
        }
    }
    sums
}

#[test]
fn look_up_changes_no_bit_of_any_family() {
    let models = Models::new();
    let mut sums = (0, 0);
    for (i, name) in names().into_iter().enumerate() {
        let folder = models.folder(&name);
        let plain = load(&folder, options(None));
        // Pieces of prompts, and few rows for drafts.
        let setups = [
            options(Some(DraftSource::Ngram)),
            options(Some(DraftSource::Lookahead)),
            LoadOptions { batch_rows: Some(7), ..options(Some(DraftSource::Auto)) },
        ];
        for setup in extent::some(setups, i, 3) {
            let drafted = load(&folder, setup);
            let got = agrees(&name, &plain, &drafted, &[None, Some(1), Some(3), Some(16)]);
            sums = (sums.0 + got.0, sums.1 + got.1);
        }
    }
    assert!(sums.0 > 1000 && sums.1 > 100, "{sums:?} drafts and accepted ones");
}

#[test]
fn look_up_changes_no_bit_behind_any_cache() {
    for kv in ["f32", "q8_0", "q4_0", "fp8", "k=q8_0,v=f16"] {
        let kv_dtype: KvDtype = kv.parse().expect("a type");
        let plain = load(&packaged(), LoadOptions { kv_dtype, ..options(None) });
        let drafted = load(&packaged(), LoadOptions { kv_dtype, ..options(Some(DraftSource::Auto)) });
        agrees(kv, &plain, &drafted, &[None, Some(5)]);
    }
}

#[test]
fn a_model_that_drafts_for_itself_changes_no_bit_of_any_family() {
    let models = Models::new();
    for name in names() {
        let folder = models.folder(&name);
        let plain = load(&folder, options(None));
        let drafted = load(&folder, options(Some(DraftSource::Model(folder.clone()))));
        assert_eq!(drafted.info().draft.as_deref(), Some("ngram + suffix + model"), "{name}");
        let (guessed, right) = agrees(&name, &plain, &drafted, &[None, Some(4)]);
        assert!(guessed > 50 && right > 10, "{name}: {right} of {guessed}");
        let mut greedy = request(0, Some(5));
        greedy.speculate.method = Some("model".into());
        let own = drafted.generate(&prompt(0), &greedy).expect("runs")[0].timings.speculation;
        assert!(own.drafted > 5 && own.accepted == own.drafted, "{name}: {own:?}");
    }
}

#[test]
fn a_draft_model_of_its_own_changes_no_bit() {
    let Some(draft) = shared("models/lamina-draft") else { return };
    let plain = load(&packaged(), options(None));
    let drafted = load(&packaged(), options(Some(DraftSource::Model(draft))));
    let (guessed, right) = agrees("lamina-tiny", &plain, &drafted, &[None, Some(1), Some(6)]);
    assert!(right > 20 && right <= guessed, "{right} of {guessed}");
}

#[test]
fn a_draft_with_other_tokens_guesses_by_way_of_the_text() {
    let Some(other) = shared("models/stories260k") else { return };
    let plain = load(&packaged(), options(None));
    let drafted = load(&packaged(), options(Some(DraftSource::Model(other))));
    agrees("stories260k for lamina-tiny", &plain, &drafted, &[None, Some(1), Some(6)]);
    let mut ask = request(0, Some(4));
    (ask.speculate.method, ask.max_tokens) = (Some("model".into()), Some(60));
    let prompt = Prompt::Text("Once upon a time there was a little girl named Lily. She".into());
    let told = drafted.generate(&prompt, &ask).expect("runs")[0].timings.speculation;
    assert!(told.drafted > 20 && told.accepted > 3, "{told:?}");
    ask.speculate = Speculate::default();
    let want = plain.generate(&prompt, &ask).expect("runs");
    assert!(all_bits(&drafted.generate(&prompt, &ask).expect("runs")) == all_bits(&want));
}

#[test]
fn what_is_no_drafter_is_refused() {
    let missing = Model::load(Some(&packaged()), options(Some(DraftSource::Model("no-such".into()))));
    assert!(
        missing.is_err_and(|e| e.to_string().contains("must be ngram, lookahead, auto, mtp, or the path"))
    );
}

#[test]
fn grammars_and_stop_strings_end_drafted_answers_where_they_end_others() {
    let grammars = [
        r#"root ::= "{\"name\": \"" [a-z]{2,9} "\", \"age\": " [0-9]{1,2} "}""#,
        "root ::= line{2,4}\nline ::= \"- \" [a-z ]{3,12} \"\\n\"",
        r#"root ::= "yes and yes and yes and no" | "no and no""#,
    ];
    let plain = load(&packaged(), options(None));
    let drafted = load(&packaged(), options(Some(DraftSource::Auto)));
    let mut right = 0;
    for (i, grammar) in grammars.iter().map(Some).chain([None]).enumerate() {
        for (width, logprobs) in [(None, None), (Some(6), Some(1i64)), (Some(6), None)] {
            let mut o = GenerateOptions { max_tokens: Some(60), ..GenerateOptions::default() };
            o.grammar = grammar.map(|text| Grammar::gbnf(text).expect("a grammar"));
            o.stop = if grammar.is_none() { vec!["and".into(), "park".into()] } else { vec![] };
            o.sampling.set("seed", i as i64).expect("known");
            o.sampling.set("repetition_penalty", 1.1).expect("known");
            logprobs.into_iter().for_each(|n| o.sampling.set("logprobs", n).expect("known"));
            let prompt = Prompt::Text("Tom and Lily went to the park. Tom and Lily went to the ".into());
            let want = plain.generate(&prompt, &o).expect("runs").remove(0);
            o.speculate.width = width;
            let got = drafted.generate(&prompt, &o).expect("runs").remove(0);
            right += got.timings.speculation.accepted;
            let end = |c: &Completion| (c.text.clone(), c.finish_reason, c.complete);
            assert_eq!((end(&got), top_bits(&got)), (end(&want), top_bits(&want)), "{grammar:?} {width:?}");
            assert_eq!(got.tokens, want.tokens);
        }
    }
    assert!(right > 0);
}

#[test]
fn what_is_loaded_is_told_and_wrong_names_are_refused() {
    let model = load(&packaged(), options(Some(DraftSource::Auto)));
    assert_eq!(model.info().draft.as_deref(), Some("ngram + suffix"));
    let by = |method: &str| GenerateOptions {
        speculate: Speculate { method: Some(method.into()), ..Speculate::default() },
        max_tokens: Some(4),
        ..GenerateOptions::default()
    };
    assert!(model.generate(&prompt(1), &by("suffix")).is_ok());
    let refused = model.generate(&prompt(1), &by("eagle")).expect_err("not loaded").to_string();
    assert!(refused.contains("ngram, suffix"), "{refused}");
    assert_eq!(load(&packaged(), options(None)).info().draft, None);
}

/// The models whose logits came from their own code: larger vocabularies and contexts than those that are made here.
#[test]
fn golden_models_that_draft_for_themselves_change_no_bit() {
    let Some(golden) = shared("golden") else { return };
    let folders = std::fs::read_dir(golden).expect("lists").flatten().map(|e| e.path());
    for folder in folders.filter(|f| f.join("config.json").exists()) {
        let name = folder.display().to_string();
        let plain = load(&folder, options(None));
        let own = load(&folder, options(Some(DraftSource::Model(folder.clone()))));
        let (guessed, right) = agrees(&name, &plain, &own, &[Some(3)]);
        assert!(guessed > 20 && right > 5, "{name}: {right} of {guessed}");
        agrees(&name, &plain, &load(&folder, options(Some(DraftSource::Lookahead))), &[None, Some(4)]);
    }
}
