//! Answers under a grammar, on the model inside the package: the same bits whatever else runs, always a legal text.

use crate::common::answers::bits;
use lamina::{
    Boundary, Completion, DraftSource, FinishReason, GenerateOptions, Grammar, LengthBy, LoadOptions, Model,
    Prompt, Special, Speculate, StopBy, grammar::SchemaOptions, sample::Param,
};
use lamina_fixtures::packaged;
use serde_json::{Value, json};

fn options() -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(256), ..LoadOptions::default() }
}

fn load(options: LoadOptions) -> Model {
    Model::load(Some(&packaged()), options).expect("loads")
}

fn schema(value: Value) -> Grammar {
    Grammar::json_schema(&value, SchemaOptions::default()).expect("a schema")
}

/// With much that is forced, with nothing that is, and in between.
fn grammars() -> Vec<Grammar> {
    let person = json!({
        "type": "object",
        "properties": { "first_name": { "type": "string", "maxLength": 12 }, "years_of_age": { "type": "integer", "minimum": 0, "maximum": 99 } },
        "required": ["first_name", "years_of_age"],
        "additionalProperties": false,
    });
    let lines = "root ::= line{2,3}\nline ::= \"- \" [a-z ]{3,12} \"\\n\"";
    vec![
        schema(person),
        schema(
            json!({ "type": "array", "items": { "enum": ["a cat", "a dog", 7, null] }, "minItems": 1, "maxItems": 3 }),
        ),
        Grammar::choice(&["Tom and his friends", "Tom and the dog", "Lily"]).expect("a choice"),
        Grammar::regex("[A-Z][a-z]+ (went|ran) to the (park|sea)\\.").expect("a pattern"),
        Grammar::gbnf(lines).expect("a grammar"),
    ]
}

fn asked(grammar: Option<&Grammar>, seed: i64) -> GenerateOptions {
    let mut o =
        GenerateOptions { max_tokens: Some(48), grammar: grammar.cloned(), ..GenerateOptions::default() };
    o.sampling.set("seed", seed).expect("known");
    o.sampling.set("temperature", 1.5).expect("known");
    o
}

fn prompt(i: usize) -> Prompt {
    let begin = "Once upon a time there was a little girl who liked to play in the park. ".repeat(1 + i % 3);
    Prompt::Text(format!("{begin}One day, number {i}, she said: "))
}

fn one(model: &Model, i: usize, options: &GenerateOptions) -> Completion {
    model.generate(&prompt(i), options).expect("runs").remove(0)
}

/// The answer's bytes: its text shows replacement characters where a character is cut.
fn bytes(model: &Model, answer: &Completion) -> Vec<u8> {
    let tokenizer = model.tokenizer().expect("a tokenizer");
    answer.tokens.iter().flat_map(|&t| tokenizer.token_bytes(t).expect("a token")).copied().collect()
}

#[track_caller]
fn is_legal(model: &Model, grammar: &Grammar, answer: &Completion) {
    let text = bytes(model, answer);
    let shown = String::from_utf8_lossy(&text);
    assert!(grammar.allows(&text), "{grammar:?}: {shown:?}");
    assert_eq!(answer.complete, Some(grammar.matches(&text)), "{grammar:?}: {shown:?}");
    if let FinishReason::Stop { .. } = answer.finish_reason {
        assert_eq!(answer.complete, Some(true), "{grammar:?}: {shown:?}");
    }
}

#[test]
fn company_pieces_cache_and_logprobs_change_no_bit() {
    let (model, grammars) = (load(options()), grammars());
    let count = grammars.len() * 2;
    // Every second request is free.
    let of = |i: usize| asked(i.is_multiple_of(2).then(|| &grammars[i / 2]), i as i64);
    let scored = |i: usize| {
        let mut o = of(i);
        o.sampling.set("logprobs", 2i64).expect("known");
        o
    };
    let fresh = || load(LoadOptions { reuse_prefixes: false, ..options() });
    let want: Vec<_> = (0..count).map(|i| one(&fresh(), i, &scored(i))).collect();
    for (i, answer) in want.iter().enumerate() {
        if let Some(grammar) = of(i).grammar {
            is_legal(&model, &grammar, answer);
        }
        // Forced tokens are taken many at once without logprobs, and one by one with them.
        assert_eq!(one(&fresh(), i, &of(i)).tokens, answer.tokens, "{i}");
        assert_eq!(bits(&one(&model, i, &scored(i))), bits(answer), "{i}");
        assert_eq!(bits(&one(&model, i, &scored(i))), bits(answer), "{i}, from the cache");
    }
    let pieces = load(LoadOptions { batch_rows: Some(5), threads: Some(2), ..options() });
    for model in [model, pieces] {
        let streams: Vec<_> =
            (0..count).map(|i| model.stream(&prompt(i), &scored(i)).expect("starts")).collect();
        for (i, stream) in streams.into_iter().enumerate() {
            let mut answer = Completion::empty();
            stream.for_each(|piece| answer.push(piece.expect("runs")));
            assert_eq!((bits(&answer), answer.complete), (bits(&want[i]), want[i].complete), "{i}");
        }
    }
}

#[test]
fn answers_to_one_prompt_and_preempted_ones_change_no_bit() {
    // Room for eight sequences at full length: of more, some lose their memory.
    let small = load(LoadOptions { context: Some(128), reuse_prefixes: false, ..options() });
    let grammar = Grammar::gbnf("root ::= (\"and then the \" [a-z]{2,8} \" \"){30}").expect("a grammar");
    let of = |i: usize| GenerateOptions { max_tokens: Some(110), ..asked(Some(&grammar), i as i64) };
    let short = |i: usize| Prompt::Text(format!("One day, number {i}, she"));
    let alone: Vec<_> = (0..14).map(|i| small.generate(&short(i), &of(i)).expect("runs").remove(0)).collect();
    let streams: Vec<_> = (0..14).map(|i| small.stream(&short(i), &of(i)).expect("starts")).collect();
    let mut preempted = 0;
    for (stream, alone) in streams.into_iter().zip(&alone) {
        let mut answer = Completion::empty();
        stream.for_each(|piece| answer.push(piece.expect("runs")));
        preempted += answer.timings.preemptions;
        assert_eq!(answer.tokens, alone.tokens);
        is_legal(&small, &grammar, &answer);
    }
    assert!(preempted > 0, "the cache was not too small");
    let several = small.generate(&short(3), &GenerateOptions { n: 4, ..of(3) }).expect("runs");
    assert_eq!(several[0].tokens, alone[3].tokens, "the first of several is the one alone");
    several.iter().for_each(|answer| is_legal(&small, &grammar, answer));
    assert!(several.iter().any(|a| a.tokens != several[0].tokens), "forks go their own ways");
}

#[test]
fn cut_answers_are_beginnings() {
    let model = load(options());
    for (g, grammar) in grammars().iter().enumerate() {
        let whole = one(&model, g, &asked(Some(grammar), 5));
        for most in (1..24).chain([31, 60]) {
            let o = GenerateOptions { max_tokens: Some(most), ..asked(Some(grammar), 5) };
            let answer = one(&model, g, &o);
            is_legal(&model, grammar, &answer);
            let same = answer.tokens.len().min(whole.tokens.len());
            assert_eq!(answer.tokens[..same], whole.tokens[..same], "{most}: {grammar:?}");
        }
    }
}

#[test]
fn forced_tokens_are_told_and_a_whole_text_ends_the_answer() {
    let model = load(options());
    let grammar = Grammar::choice(&["a longer text that is forced"]).expect("a choice");
    for ignore_eos in [false, true] {
        let o = GenerateOptions { ignore_eos, ..asked(Some(&grammar), 1) };
        let (mut answer, mut forced) = (Completion::empty(), 0);
        for piece in model.stream(&prompt(0), &o).expect("starts") {
            let piece = piece.expect("runs");
            forced += usize::from(piece.forced);
            answer.push(piece);
        }
        assert_eq!(answer.text, "a longer text that is forced");
        assert_eq!(answer.finish_reason, FinishReason::Stop { by: StopBy::Grammar });
        assert!(forced + 1 >= answer.tokens.len(), "{forced} of {} are forced", answer.tokens.len());
    }
}

#[test]
fn no_sampler_brings_an_illegal_token_back() {
    let (model, grammars) = (load(options()), grammars());
    for settings in [
        &[("temperature", "0")][..],
        &[("mirostat", "1")],
        &[("mirostat", "2"), ("temperature", "3")],
        &[("xtc_probability", "1"), ("xtc_threshold", "0.01")],
        &[("dry_multiplier", "2"), ("repeat_penalty", "1.8"), ("top_k", "0")],
        &[("min_p", "0.9"), ("typical_p", "0.2"), ("top_n_sigma", "1"), ("min_keep", "5")],
    ] {
        for (g, grammar) in grammars.iter().enumerate() {
            let mut o = asked(Some(grammar), 3);
            for &(name, value) in settings {
                let value = Param::find(name).expect("known").parse(value).expect("a value");
                o.sampling.set(name, value).expect("known");
            }
            o.sampling.logit_bias.biases = (1..40).map(|id| (id, 20.0)).collect();
            is_legal(&model, grammar, &one(&model, g, &o));
        }
    }
}

#[test]
fn a_grammar_without_a_way_on_fails_alone() {
    let model = load(options());
    let grammar = Grammar::regex("[xy]z").expect("a pattern");
    let mut bad = asked(Some(&grammar), 1);
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let begins =
        |id: &u32| tokenizer.token_bytes(*id).is_some_and(|b| b.starts_with(b"x") || b.starts_with(b"y"));
    let banned = (0..tokenizer.vocab_size() as u32).filter(begins);
    bad.sampling.logit_bias.biases = banned.map(|id| (id, f32::NEG_INFINITY)).collect();
    let beside = model.stream(&prompt(1), &asked(None, 1)).expect("starts");
    let error = model.generate(&prompt(0), &bad).expect_err("no token is left").to_string();
    assert!(error.contains("no token may follow"), "{error}");
    assert!(beside.last().expect("a piece").expect("goes on").end.is_some());
    let never = schema(json!({ "enum": [] }));
    let error = model.generate(&prompt(0), &asked(Some(&never), 1)).expect_err("nothing satisfies it");
    assert!(error.to_string().contains("no text satisfies"), "{error}");
}

#[test]
fn reasoning_ends_by_its_budget_and_the_grammar_follows() {
    let model = load(options());
    let close = model.tokenize("</think>", Special::NONE).expect("tokens");
    let grammar = Grammar::choice(&["yes", "no"]).expect("a choice");
    let ending = [model.tokenize("\nEnough.", Special::NONE).expect("tokens"), close.clone()].concat();
    let boundary = Boundary { close, inside: true, budget: Some(9), ending, ..Boundary::default() };
    let asked = |boundary: &Boundary, max| GenerateOptions {
        reasoning: Some(boundary.clone()),
        max_tokens: Some(max),
        ..asked(Some(&grammar), 4)
    };
    let answer = one(&model, 0, &asked(&boundary, 60));
    let (thought, said) = answer.text.split_once("\nEnough.</think>").expect("closed");
    assert!(!thought.is_empty() && ["yes", "no"].contains(&said), "{:?}", answer.text);
    assert_eq!(answer.complete, Some(true));
    assert_eq!(
        answer.tokens.len() - model.tokenize(said, Special::NONE).expect("tokens").len(),
        9 + boundary.ending.len()
    );
    let free = one(&model, 0, &asked(&Boundary { budget: None, ..boundary.clone() }, 20));
    assert_eq!(free.finish_reason, FinishReason::Length { by: LengthBy::MaxTokens });
    assert_eq!(free.complete, Some(false), "the answer has not begun");
    let none = one(&model, 0, &asked(&Boundary { budget: Some(0), ..boundary.clone() }, 60));
    assert!(none.text.starts_with("\nEnough.</think>"));
    let without = GenerateOptions { grammar: None, ..asked(&boundary, 60) };
    let answer = one(&model, 0, &without);
    assert!(answer.text.contains("\nEnough.</think>") && answer.complete.is_none());
}

/// Requests that think within budgets, with and without a grammar behind the thought.
fn thinking(model: &Model) -> Vec<GenerateOptions> {
    let close = model.tokenize("</think>", Special::NONE).expect("tokens");
    let open = model.tokenize("<think>", Special::NONE).expect("tokens");
    let ending = [model.tokenize("\nEnough.", Special::NONE).expect("tokens"), close.clone()].concat();
    let grammars = grammars();
    let of = |i: usize| {
        let budget = [Some(0), Some(3), Some(11), None][i % 4];
        let inside = !i.is_multiple_of(3);
        // Without a mark that opens it, only a prompt can have begun the thought.
        let open = if inside { vec![] } else { open.clone() };
        let boundary = Boundary { open, close: close.clone(), inside, budget, ending: ending.clone() };
        let grammar = i.is_multiple_of(2).then(|| &grammars[i / 2 % grammars.len()]);
        let mut o = asked(grammar, i as i64);
        o.reasoning = Some(boundary);
        if i.is_multiple_of(5) {
            o.sampling.set("temperature", 0.0).expect("known");
        }
        o
    };
    (0..12).map(of).collect()
}

#[test]
fn budgets_and_the_grammar_behind_them_have_the_same_bits_alone_in_company_and_drafted() {
    let plain = load(LoadOptions { reuse_prefixes: false, ..options() });
    let requests = thinking(&plain);
    let scored = |o: &GenerateOptions| {
        let mut o = o.clone();
        o.sampling.set("logprobs", 2i64).expect("known");
        o
    };
    let end = |c: &Completion| (c.text.clone(), c.finish_reason, c.complete, bits(c));
    let want: Vec<_> = requests.iter().enumerate().map(|(i, o)| one(&plain, i, &scored(o))).collect();
    assert!(want.iter().filter(|c| c.text.contains("\nEnough.</think>")).count() > 3);
    assert!(want.iter().filter(|c| c.complete == Some(true)).count() > 1);
    let drafted = |source| LoadOptions { draft: Some(source), ..options() };
    let (mut guessed, mut right) = (0, 0);
    for o in [
        options(),
        LoadOptions { batch_rows: Some(5), threads: Some(2), ..options() },
        drafted(DraftSource::Auto),
        drafted(DraftSource::Model(packaged())),
    ] {
        let widths: &[Option<usize>] = if o.draft.is_some() { &[None, Some(4)] } else { &[None] };
        let model = load(o);
        for &width in widths {
            let with = |o: &GenerateOptions| GenerateOptions {
                speculate: Speculate { width, ..Speculate::default() },
                ..o.clone()
            };
            for (i, o) in requests.iter().enumerate() {
                let got = one(&model, i, &with(&scored(o)));
                assert_eq!(end(&got), end(&want[i]), "{i} alone, {width:?}");
                assert_eq!(
                    one(&model, i, &with(o)).tokens,
                    want[i].tokens,
                    "{i} without logprobs, {width:?}"
                );
                guessed += got.timings.speculation.drafted;
                right += got.timings.speculation.accepted;
            }
            let start = |(i, o)| model.stream(&prompt(i), &with(&scored(o))).expect("starts");
            let streams: Vec<_> = requests.iter().enumerate().map(start).collect();
            for (i, stream) in streams.into_iter().enumerate() {
                let mut answer = Completion::empty();
                stream.for_each(|piece| answer.push(piece.expect("runs")));
                assert_eq!(end(&answer), end(&want[i]), "{i} in company, {width:?}");
            }
        }
    }
    assert!(guessed > 100 && right > 20, "{right} of {guessed}");
}

#[test]
fn a_grammar_that_comes_to_a_dead_end_fails_its_request_with_the_place() {
    let model = load(options());
    let beside = model.stream(&prompt(1), &asked(None, 1)).expect("starts");
    for (lark, after) in [
        // Nothing is both.
        ("start: \"Tom \" (\"saw\" | never)\nnever: \"met \" NEVER\nNEVER: /a/ & /b/", "met "),
        // A rule that never ends.
        ("start: \"Tom \" never\nnever: \"and \" NEVER never\nNEVER: /[a-z]/ & /[0-9]/", "and "),
    ] {
        let grammar = match Grammar::lark(lark) {
            Ok(grammar) => grammar,
            Err(e) => panic!("{lark}: {e}"),
        };
        let mut ended = 0;
        for seed in 0..40 {
            let Err(error) = model.generate(&prompt(0), &asked(Some(&grammar), seed)) else { continue };
            let error = error.to_string();
            assert!(error.contains("has no way on") && error.contains(after), "{lark}: {error}");
            ended += 1;
        }
        assert!(ended > 0, "{lark}: no answer came to it");
    }
    assert!(beside.last().expect("a piece").expect("goes on").end.is_some());
}
