//! Beam search by vLLM's fields.

use crate::{MODEL, client::post, shared};
use lamina::{Beam, BeamOptions, ChatOptions, EarlyStopping, GenerateOptions, Prompt};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn found(tokens: Vec<u32>, n: usize, beams: BeamOptions) -> Vec<Beam> {
    let options = GenerateOptions { max_tokens: Some(12), n, ..GenerateOptions::default() };
    MODEL.beam(&Prompt::Tokens(tokens), &options, &beams, &mut || true).expect("answers")
}

fn body(more: Value) -> Value {
    let mut body = json!({ "prompt": "Once upon", "max_tokens": 12, "use_beam_search": true,
        "messages": [{ "role": "user", "content": "Tell me a story." }] });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    body
}

fn only(path: &str, more: Value) -> Value {
    let mut body = body(more);
    let other = if path == CHAT { "prompt" } else { "messages" };
    body.as_object_mut().expect("an object").remove(other);
    body
}

#[test]
fn a_search_gives_the_likeliest_answers_best_first() {
    let asked = json!({ "n": 2, "best_of": 5, "length_penalty": 0.5, "early_stopping": "never" });
    let beams = BeamOptions { width: 5, length_penalty: 0.5, early_stopping: EarlyStopping::Never };
    let prompt = MODEL.prompt_tokens(&Prompt::Text("Once upon".into())).expect("tokens");
    let want = found(prompt, 2, beams);
    let answer = post(shared(), TEXT, &only(TEXT, asked.clone()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    for (choice, beam) in answer["choices"].as_array().expect("a list").iter().zip(&want) {
        assert_eq!(
            (&choice["text"], &choice["finish_reason"]),
            (&json!(beam.text), &json!(beam.reason.name()))
        );
    }
    assert_eq!(answer["choices"].as_array().map(Vec::len), Some(2));
    let messages = [json!({ "role": "user", "content": "Tell me a story." })];
    let want = found(MODEL.chat_tokens(&messages, &ChatOptions::default()).expect("a template"), 2, beams);
    let answer = post(shared(), CHAT, &only(CHAT, asked)).json();
    for (i, beam) in want.iter().enumerate() {
        assert_eq!(answer["choices"][i]["message"]["content"], json!(beam.text));
    }
}

#[test]
fn beams_are_as_many_as_answers_where_nobody_says() {
    let prompt = MODEL.prompt_tokens(&Prompt::Text("Once upon".into())).expect("tokens");
    let want = found(prompt, 3, BeamOptions { width: 3, ..BeamOptions::default() });
    let answer = post(shared(), TEXT, &only(TEXT, json!({ "n": 3 }))).json();
    let texts: Vec<_> = (0..3).map(|i| answer["choices"][i]["text"].clone()).collect();
    assert_eq!(texts, want.iter().map(|beam| json!(beam.text)).collect::<Vec<_>>());
}

#[test]
fn what_a_search_cannot_give_is_refused_by_name() {
    for (path, more, field) in [
        (TEXT, json!({ "stream": true }), "use_beam_search"),
        (CHAT, json!({ "stream": true }), "use_beam_search"),
        (TEXT, json!({ "logprobs": 1 }), "use_beam_search"),
        (CHAT, json!({ "logprobs": true }), "use_beam_search"),
        (TEXT, json!({ "echo": true }), "use_beam_search"),
        (TEXT, json!({ "n": 3, "best_of": 2 }), "best_of"),
        (CHAT, json!({ "best_of": 2, "use_beam_search": false }), "best_of"),
        (TEXT, json!({ "early_stopping": "soon" }), "early_stopping"),
        (TEXT, json!({ "early_stopping": 3, "use_beam_search": false }), "early_stopping"),
    ] {
        let answer = post(shared(), path, &only(path, more.clone()));
        let param = answer.json()["error"]["param"].clone();
        assert_eq!((answer.status, param), (400, json!(field)), "{path} {more}");
    }
    let wide = post(shared(), TEXT, &only(TEXT, json!({ "best_of": 1000 })));
    assert_eq!(wide.status, 400, "{}", wide.text());
}

#[test]
fn fields_of_a_search_without_one_are_named() {
    let plain = json!({ "use_beam_search": false, "length_penalty": 2.0, "early_stopping": true });
    for path in [TEXT, CHAT] {
        let answer = post(shared(), path, &only(path, plain.clone()));
        let named = answer.header("x-lamina-ignored");
        assert_eq!((answer.status, named), (200, Some("length_penalty, early_stopping")));
    }
}
