//! OpenAI's API.

use crate::{
    MODEL,
    client::{get, open, post},
    shared,
};
use lamina::{ChatOptions, GenerateOptions, Prompt, sample::SamplingParams};
use serde_json::{Value, json};

fn options(seed: i64, max_tokens: usize) -> GenerateOptions {
    let mut sampling = SamplingParams::default();
    sampling.set("seed", seed).expect("a parameter");
    GenerateOptions { max_tokens: Some(max_tokens), sampling, ..GenerateOptions::default() }
}

fn chat(more: Value) -> Value {
    let mut body = json!({ "model": "any", "messages": [{ "role": "user", "content": "Tell me a story." }],
        "max_tokens": 24, "seed": 7 });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}

/// What the engine says by itself.
fn expected_chat(seed: i64, max_tokens: usize) -> String {
    let messages = [json!({ "role": "user", "content": "Tell me a story." })];
    let tokens = MODEL.chat_tokens(&messages, &ChatOptions::default()).expect("a template");
    MODEL.generate(&Prompt::Tokens(tokens), &options(seed, max_tokens)).expect("an answer")[0].text.clone()
}

#[test]
fn a_chat_is_the_engines_answer_whole_and_streamed() {
    let want = expected_chat(7, 24);
    let whole = post(shared(), "/v1/chat/completions", &chat(json!({})));
    assert_eq!(whole.status, 200, "{}", whole.text());
    let body = whole.json();
    assert_eq!(body["choices"][0]["message"]["content"], json!(want));
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("tiny")));
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-") && id.len() == 33));
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["usage"]["completion_tokens"], 24);
    assert!(body["timings"]["predicted_n"].is_number() && whole.header("x-request-id").is_some());

    let options = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let stream = post(shared(), "/v1/chat/completions", &chat(options));
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(stream.events().last().map(String::as_str), Some("[DONE]"));
    let chunks = stream.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    let text: String = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, want);
    let (usage, rest) = chunks.split_last().expect("chunks");
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(24)));
    assert!(rest.iter().all(|c| c["usage"].is_null() && c["id"] == chunks[0]["id"]));
    assert_eq!(rest.last().expect("an end")["choices"][0]["finish_reason"], "length");
}

#[test]
fn completions_take_texts_and_ids_and_echo_them() {
    let prompt = Prompt::Text("Once upon a time".into());
    let want = MODEL.generate(&prompt, &options(3, 12)).expect("an answer")[0].text.clone();
    let ids = MODEL.prompt_tokens(&prompt).expect("tokens");
    let body = |prompt: Value| json!({ "prompt": prompt, "max_tokens": 12, "seed": 3 });
    for prompt in [json!("Once upon a time"), json!(ids)] {
        let answer = post(shared(), "/v1/completions", &body(prompt)).json();
        assert_eq!(answer["choices"][0]["text"], json!(want), "{answer}");
    }
    let several = json!({ "prompt": ["Once upon a time", ids], "max_tokens": 12, "seed": 3, "n": 2 });
    let several = post(shared(), "/v1/completions", &several).json();
    let texts: Vec<&Value> =
        several["choices"].as_array().expect("choices").iter().map(|c| &c["text"]).collect();
    assert_eq!((texts.len(), texts[0], texts[2]), (4, &json!(want), &json!(want)));
    let echo = json!({ "prompt": "Once upon", "max_tokens": 0, "echo": true, "logprobs": 1 });
    let echo = post(shared(), "/v1/completions", &echo).json();
    let lists = &echo["choices"][0]["logprobs"];
    let tokens = lists["tokens"].as_array().expect("tokens").len();
    assert_eq!(lists["token_logprobs"].as_array().expect("logprobs").len(), tokens);
    assert!(lists["token_logprobs"][0].is_null() && lists["token_logprobs"][1].is_number(), "{echo}");
}

#[test]
fn stops_logprobs_and_seeds() {
    let text = expected_chat(7, 24);
    let stop: String = text.chars().skip(10).take(4).collect();
    let body = chat(json!({ "stop": stop, "logprobs": true, "top_logprobs": 2 }));
    let answer = post(shared(), "/v1/chat/completions", &body).json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    let said = choice["message"]["content"].as_str().expect("text");
    assert!(text.starts_with(said) && !said.contains(&stop));
    let logprobs = choice["logprobs"]["content"].as_array().expect("logprobs");
    assert!(logprobs.iter().all(|l| l["top_logprobs"].as_array().is_some_and(|t| t.len() == 2)), "{answer}");
    let other = post(shared(), "/v1/chat/completions", &chat(json!({ "seed": 8 }))).json();
    assert_ne!(other["choices"][0]["message"]["content"], json!(text));
}

#[test]
fn the_last_message_of_the_assistant_goes_on() {
    let begun = json!([{ "role": "user", "content": "Tell me a story." }, { "role": "assistant", "content": "Once" }]);
    let answer = post(shared(), "/v1/chat/completions", &chat(json!({ "messages": begun }))).json();
    let messages = [json!({ "role": "user", "content": "Tell me a story." })];
    let mut tokens = MODEL.chat_tokens(&messages, &ChatOptions::default()).expect("a template");
    tokens.extend(MODEL.tokenize("Once", lamina::Special::NONE).expect("tokens"));
    let want = MODEL.generate(&Prompt::Tokens(tokens), &options(7, 24)).expect("an answer")[0].text.clone();
    assert_eq!(answer["choices"][0]["message"]["content"], json!(want));
}

#[test]
fn refusals_name_the_field() {
    let refused = |path: &str, body: Value| {
        let answer = post(shared(), path, &body);
        let error = answer.json()["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{error}");
        (answer.status, error["param"].as_str().unwrap_or("").to_owned())
    };
    for (more, param) in [
        (json!({ "temperature": 3e9 }), "temperature"),
        (json!({ "temprature": 1 }), "temprature"),
        (json!({ "top_logprobs": 3 }), "top_logprobs"),
        (json!({ "messages": [] }), "messages"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }),
            "messages[0].content[0].image_url",
        ),
        (json!({ "response_format": { "type": "yaml" } }), "response_format.type"),
        (json!({ "json_schema": { "uniqueItems": true } }), "json_schema"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "grammar": "root ::= \"a\"", "guided_choice": ["a"] }), "guided_choice"),
        (json!({ "stream_options": { "x": 1 }, "stream": true }), "stream_options.x"),
        (json!({ "stop": ["a", 1] }), "stop[1]"),
        (json!({ "n": 0 }), "n"),
        (json!({ "logit_bias": { "99999999": 1 } }), "logit_bias"),
    ] {
        assert_eq!(refused("/v1/chat/completions", chat(more)), (400, param.to_owned()));
    }
    let long = json!({ "prompt": vec![1; 1 << 20] });
    let long = post(shared(), "/v1/completions", &long);
    assert_eq!((long.status, &long.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
    let broken =
        open(shared(), "POST", "/v1/completions", &[("content-type", "application/json")], b"{").read();
    assert_eq!(broken.status, 400);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(open(shared(), "POST", "/v1/completions", &form, b"{}").read().status, 415);
    assert_eq!(get(shared(), "/v1/chat/completions").status, 405);
    assert_eq!(get(shared(), "/v1/nothing").status, 404);
}

#[test]
fn harmless_fields_are_named() {
    let answer =
        post(shared(), "/v1/chat/completions", &chat(json!({ "user": "me", "service_tier": "auto" })));
    assert_eq!((answer.status, answer.header("x-lamina-ignored")), (200, Some("user, service_tier")));
}

#[test]
fn models_are_listed_for_both_clients() {
    let list = get(shared(), "/v1/models").json();
    assert_eq!(
        (&list["object"], &list["has_more"], &list["first_id"]),
        (&json!("list"), &json!(false), &json!("tiny"))
    );
    let item = &list["data"][0];
    assert_eq!(item["status"]["value"], "loaded");
    assert_eq!(get(shared(), "/v1/models/tiny").json(), *item);
    assert_eq!(item["meta"]["n_vocab"], MODEL.info().vocab);
}

#[test]
fn embeddings_come_as_numbers_and_as_base64() {
    let body = |more: Value| {
        let mut body = json!({ "model": "tiny", "input": ["a story", "another"] });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        post(shared(), "/v1/embeddings", &body).json()
    };
    let floats = body(json!({}));
    let want = MODEL.embed(&Prompt::Text("a story".into()), &mut || true).expect("a vector");
    let got: Vec<f32> = serde_json::from_value(floats["data"][0]["embedding"].clone()).expect("numbers");
    assert_eq!(got, want);
    let cut = body(json!({ "dimensions": 8 }));
    assert_eq!(cut["data"][1]["embedding"].as_array().map(Vec::len), Some(8));
    let packed = body(json!({ "encoding_format": "base64" }));
    let text = packed["data"][0]["embedding"].as_str().expect("text");
    assert_eq!(text.len(), (want.len() * 4).div_ceil(3) * 4);
}

#[test]
fn responses_go_on_from_one_another() {
    let first = json!({ "model": "tiny", "input": "Hello", "max_output_tokens": 8, "seed": 1 });
    let first = post(shared(), "/v1/responses", &first).json();
    assert_eq!((&first["object"], &first["status"]), (&json!("response"), &json!("incomplete")), "{first}");
    let id = first["id"].as_str().expect("an id");
    assert_eq!(get(shared(), &format!("/v1/responses/{id}")).json(), first);
    let next =
        json!({ "input": "And then?", "previous_response_id": id, "max_output_tokens": 8, "stream": true });
    let stream = post(shared(), "/v1/responses", &next);
    let events = stream.chunks();
    let names: Vec<&str> = events.iter().map(|e| e["type"].as_str().expect("a type")).collect();
    assert_eq!(
        names[..4],
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added"
        ]
    );
    assert_eq!(
        names[names.len() - 4..],
        [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete"
        ]
    );
    assert!(events.iter().enumerate().all(|(i, e)| e["sequence_number"] == i));
    let last = &events[events.len() - 1]["response"];
    let said: String = events
        .iter()
        .filter(|e| e["type"] == "response.output_text.delta")
        .filter_map(|e| e["delta"].as_str())
        .collect();
    assert_eq!(last["output"][0]["content"][0]["text"], json!(said));
    assert!(last["usage"]["input_tokens"].as_u64() > first["usage"]["input_tokens"].as_u64());
    let removed = open(shared(), "DELETE", &format!("/v1/responses/{id}"), &[], b"").read();
    assert_eq!((removed.status, get(shared(), &format!("/v1/responses/{id}")).status), (200, 404));
}
