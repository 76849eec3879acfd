//! Answers under a grammar, drafted by everything that drafts: the same bits as without.

use super::*;
use lamina::grammar::SchemaOptions;
use serde_json::json;

/// With much that is forced, with nothing that is, and in between.
fn grammars() -> Vec<Grammar> {
    let person = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "maxLength": 9 }, "age": { "type": "integer", "maximum": 99 } },
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    vec![
        Grammar::json_schema(&person, SchemaOptions::default()).expect("a schema"),
        Grammar::gbnf("root ::= line{2,3}\nline ::= \"- \" [a-z ]{3,12} \"\\n\"").expect("a grammar"),
        Grammar::regex("(ab|cd){4,9}[0-9]+\\.").expect("a pattern"),
        Grammar::choice(&["the same and the same again", "the same and another", "no"]).expect("a choice"),
    ]
}

/// A request under a grammar; chains and branches of `speculate`.
fn ask(i: usize, grammar: &Grammar, speculate: &Speculate) -> GenerateOptions {
    let mut o = GenerateOptions { grammar: Some(grammar.clone()), n: 1 + i % 2, ..request(i, None) };
    (o.max_tokens, o.speculate, o.ignore_eos) = (Some(40), speculate.clone(), false);
    if i % 2 == 1 {
        o.sampling.set("repetition_penalty", 1.15).expect("known");
    }
    o
}

fn prompt(i: usize) -> Prompt {
    let begin = "ab cd the same and the same again, ".repeat(2 + i);
    Prompt::Text(format!("{begin}then: "))
}

/// Text and end, and the bits of tokens.
type Told = (String, lamina::FinishReason, Option<bool>, Vec<Bits>);

fn told(answers: &[Completion]) -> Vec<Told> {
    let one = |c: &Completion| (c.text.clone(), c.finish_reason, c.complete, top_bits(c));
    answers.iter().map(one).collect()
}

/// The answers of `drafted` under all grammars, alone and together, against those of `plain`; how many guesses there were.
fn agrees_under_grammars(name: &str, plain: &Model, drafted: &Model, method: Option<&str>) -> usize {
    let grammars = grammars();
    let none = Speculate::default();
    let want: Vec<_> = (0..grammars.len())
        .map(|i| told(&plain.generate(&prompt(i), &ask(i, &grammars[i], &none)).expect("runs")))
        .collect();
    let mut guessed = 0;
    for (width, branches) in [(None, None), (Some(4), None), (Some(3), Some(4))] {
        let speculate = Speculate { method: method.map(Into::into), width, branches };
        let asks: Vec<_> = (0..grammars.len()).map(|i| ask(i, &grammars[i], &speculate)).collect();
        for (i, o) in asks.iter().enumerate() {
            let got = drafted.generate(&prompt(i), o).expect("runs");
            assert_eq!(told(&got), want[i], "{name}, grammar {i} alone, {width:?} {branches:?}");
            guessed += got.iter().map(|c| c.timings.speculation.drafted).sum::<usize>();
        }
        let start = |(i, o)| drafted.stream(&prompt(i), o).expect("starts");
        let streams: Vec<_> = asks.iter().enumerate().map(start).collect();
        for (i, stream) in streams.into_iter().enumerate() {
            let mut answers = vec![Completion::empty(); asks[i].n];
            stream.map(|piece| piece.expect("runs")).for_each(|piece| answers[piece.index].push(piece));
            assert_eq!(told(&answers), want[i], "{name}, grammar {i} in company, {width:?} {branches:?}");
        }
    }
    guessed
}

#[test]
fn heads_change_no_bit_under_a_grammar() {
    let models = Models::new();
    for (name, family) in heads::CARRIERS {
        let [folder, without] = heads::carrier(&models, (name, family));
        [&folder, &without].into_iter().for_each(|f| lamina_fixtures::add_pieces(f));
        let plain = load(&without, options(None));
        for setup in [options(None), LoadOptions { batch_rows: Some(11), ..options(None) }] {
            let drafted = load(&folder, LoadOptions { draft: Some(DraftSource::Mtp), ..setup });
            assert!(agrees_under_grammars(name, &plain, &drafted, Some("mtp")) > 10, "{name}");
        }
    }
    let folder = models.folder("llama");
    lamina_fixtures::add_pieces(&folder);
    let plain = load(&folder, options(None));
    for (name, method) in [("eagle", "eagle"), ("eagle3", "eagle"), ("medusa", "medusa")] {
        let drafted = load(&folder, options(Some(DraftSource::Model(models.head(name)))));
        assert!(agrees_under_grammars(name, &plain, &drafted, Some(method)) > 10, "{name}");
    }
}

#[test]
fn look_up_and_models_change_no_bit_under_a_grammar() {
    let models = Models::new();
    // Attention, a state with attention beside it, and windows.
    for name in ["llama", "mamba2", "qwen3-next", "gemma3"] {
        let folder = models.folder(name);
        lamina_fixtures::add_pieces(&folder);
        let plain = load(&folder, options(None));
        for source in [DraftSource::Auto, DraftSource::Lookahead, DraftSource::Model(folder.clone())] {
            let drafted = load(&folder, options(Some(source.clone())));
            let guessed = agrees_under_grammars(name, &plain, &drafted, None);
            assert!(guessed > 10, "{name} {source}: {guessed}");
        }
    }
    let plain = load(&packaged(), options(None));
    for draft in ["models/lamina-draft", "models/stories260k"] {
        let Some(draft) = shared(draft) else { return };
        let drafted = load(&packaged(), options(Some(DraftSource::Model(draft.clone()))));
        let guessed = agrees_under_grammars("lamina-tiny", &plain, &drafted, Some("model"));
        assert!(guessed > 10, "{}: {guessed}", draft.display());
    }
}
