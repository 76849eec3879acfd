//! llama-server's own endpoints.

use crate::{
    MODEL,
    client::{get, open, post},
    shared,
};
use lamina::{GenerateOptions, Prompt, sample::SamplingParams};
use serde_json::json;
use std::{thread, time::Duration};

#[test]
fn completion_tells_what_it_did() {
    let mut sampling = SamplingParams::default();
    sampling.set("seed", 5).expect("a parameter");
    let options = GenerateOptions { max_tokens: Some(10), sampling, ..GenerateOptions::default() };
    let want = MODEL.generate(&Prompt::Text("Once upon".into()), &options).expect("an answer");
    let body =
        json!({ "prompt": "Once upon", "n_predict": 10, "seed": 5, "return_tokens": true, "n_probs": 2 });
    let answer = post(shared(), "/completion", &body).json();
    assert_eq!((&answer["content"], &answer["tokens"]), (&json!(want[0].text), &json!(want[0].tokens)));
    assert_eq!((&answer["stop_type"], &answer["generation_settings"]["seed"]), (&json!("limit"), &json!(5)));
    assert_eq!(answer["completion_probabilities"].as_array().map(Vec::len), Some(10));
    let stream = json!({ "prompt": "Once upon", "n_predict": 10, "seed": 5, "stream": true });
    let chunks = post(shared(), "/completion", &stream).chunks();
    let text: String = chunks.iter().filter_map(|c| c["content"].as_str()).collect();
    assert_eq!((text, &chunks[chunks.len() - 1]["stop"]), (want[0].text.clone(), &json!(true)));
    let fields = json!({ "prompt": "a", "n_predict": 1, "response_fields": ["content", "generation_settings/n_predict"] });
    let fields = post(shared(), "/completion", &fields).json();
    assert_eq!(fields.as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(fields["generation_settings/n_predict"], 1, "under the path that was asked for");
}

#[test]
fn an_unknown_seed_is_told_and_repeats_the_answer() {
    let ask = |seed: &serde_json::Value| {
        post(shared(), "/completion", &json!({ "prompt": "Once", "n_predict": 16, "seed": seed })).json()
    };
    let first = ask(&json!(null));
    assert_eq!(ask(&first["generation_settings"]["seed"])["content"], first["content"]);
}

#[test]
fn bans_and_switched_off_samplers() {
    let ask = |more: serde_json::Value| {
        let mut body =
            json!({ "prompt": "Once upon a", "n_predict": 1, "temperature": 0, "return_tokens": true });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        post(shared(), "/completion", &body)
    };
    let first = ask(json!({})).json()["tokens"][0].as_u64().expect("a token");
    let banned = ask(json!({ "logit_bias": [[first, false]] })).json();
    assert_ne!(banned["tokens"][0], json!(first));
    let off = ask(json!({ "samplers": ["top_k"] })).json();
    assert_eq!(off["generation_settings"]["top_p"], 1.0);
    assert_eq!(ask(json!({ "samplers": ["nonsense"] })).json()["error"]["param"], "samplers[0]");
}

#[test]
fn answers_have_the_form_that_is_asked_for() {
    let ask = |more: serde_json::Value| {
        let mut body = json!({ "prompt": "Once upon a", "n_predict": 40, "seed": 3 });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        post(shared(), "/completion", &body).json()
    };
    for form in [
        json!({ "grammar": "root ::= \"a b\" | \"c d\"" }),
        json!({ "guided_choice": ["a b", "c d"] }),
        json!({ "structured_outputs": { "regex": "a b|c d" } }),
    ] {
        let content = ask(form.clone())["content"].clone();
        assert!(content == "a b" || content == "c d", "{form}: {content}");
    }
    let content = ask(json!({ "json_schema": { "enum": [[1], { "k": null }] } }))["content"].clone();
    let value: serde_json::Value = serde_json::from_str(content.as_str().expect("a text")).expect("JSON");
    assert!(value == json!([1]) || value == json!({ "k": null }), "{content}");
}

#[test]
fn texts_become_tokens_and_texts_again() {
    let tokens =
        post(shared(), "/tokenize", &json!({ "content": "Once upon a time", "with_pieces": true })).json();
    assert_eq!(tokens["count"].as_u64(), tokens["tokens"].as_array().map(|t| t.len() as u64));
    let ids = post(shared(), "/tokenize", &json!({ "content": "Once upon a time" })).json()["tokens"].clone();
    // Ollama's and llama-server's documented calls send a form's type.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let back =
        open(shared(), "POST", "/detokenize", &form, json!({ "tokens": ids }).to_string().as_bytes()).read();
    assert_eq!(back.json()["content"], "Once upon a time");
    let messages = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    assert!(
        post(shared(), "/apply-template", &messages).json()["prompt"]
            .as_str()
            .is_some_and(|p| p.contains("Hi"))
    );
}

#[test]
fn state_is_told_without_a_step() {
    let props = get(shared(), "/props").json();
    assert!(props["total_slots"] == 64 && props["parameters"].as_array().is_some_and(|p| p.len() > 20));
    assert_eq!(get(shared(), "/slots").json().as_array().map(Vec::len), Some(64));
    assert_eq!(get(shared(), "/health").json(), json!({ "status": "ok" }));
    assert_eq!(get(shared(), "/lora-adapters").json(), json!([]));
    assert_eq!(post(shared(), "/rerank", &json!({ "query": "a", "documents": ["b"] })).status, 501);
    assert_eq!(post(shared(), "/props", &json!({})).status, 501);
    let metrics = get(shared(), "/metrics").text();
    assert!(metrics.contains("lamina:num_requests_running{model_name=\"tiny\"}"), "{metrics}");
    let vector = post(shared(), "/embedding", &json!({ "content": "a story" })).json();
    assert_eq!(vector[0]["embedding"][0].as_array().map(Vec::len), Some(MODEL.info().hidden));
}

#[test]
fn an_answer_has_its_least_tokens() {
    let ask = |min_tokens: u32| {
        let body = json!({ "prompt": "Once", "max_tokens": 20, "temperature": 0, "stop": [" "], "min_tokens": min_tokens });
        post(shared(), "/v1/completions", &body).json()
    };
    let text = |answer: &serde_json::Value| answer["choices"][0]["text"].as_str().map(str::len);
    let (short, long) = (ask(0), ask(8));
    assert!(text(&short) < text(&long), "{short} {long}");
    assert!(long["usage"]["completion_tokens"].as_u64() > Some(8), "{long}");
    let answer =
        post(shared(), "/v1/completions", &json!({ "prompt": "a", "max_tokens": 2, "min_tokens": 3 }));
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("min_tokens")));
}

#[test]
fn a_stream_tells_how_far_its_prompt_is() {
    let prompt: Vec<u32> = (0..300).map(|i| 300 + i % 97).collect();
    let body = json!({ "prompt": prompt, "n_predict": 2, "stream": true, "return_progress": true, "cache_prompt": false });
    let chunks = post(shared(), "/completion", &body).chunks();
    let told: Vec<_> = chunks.iter().filter_map(|c| c.get("prompt_progress")).collect();
    assert!(!told.is_empty() && chunks[0].get("prompt_progress").is_some(), "{chunks:?}");
    assert_eq!(told[told.len() - 1]["processed"], told[0]["total"]);
    assert!(told.iter().all(|t| t["total"] == 300 && t["cache"] == 0 && t["time_ms"].is_u64()), "{told:?}");
    let text: String = chunks.iter().filter_map(|c| c["content"].as_str()).collect();
    assert!(!text.is_empty() && chunks[chunks.len() - 1]["stop"] == json!(true));
}

#[test]
fn probabilities_are_the_models_or_those_of_the_draw() {
    let ask = |post_sampling: bool| {
        let body = json!({ "prompt": "Once upon", "n_predict": 4, "seed": 5, "n_probs": 3, "top_k": 2,
            "post_sampling_probs": post_sampling });
        post(shared(), "/completion", &body).json()
    };
    let (model, drawn) = (ask(false), ask(true));
    assert_eq!(model["content"], drawn["content"], "what is told has no part in the choice");
    assert_eq!(drawn["generation_settings"]["post_sampling_probs"], json!(true));
    for token in model["completion_probabilities"].as_array().expect("tokens") {
        assert!(token["logprob"].is_number() && token["prob"].is_null());
        assert_eq!(token["top_logprobs"].as_array().map(Vec::len), Some(3));
    }
    for token in drawn["completion_probabilities"].as_array().expect("tokens") {
        let top = token["top_probs"].as_array().expect("a list");
        let sum: f64 = top.iter().filter_map(|t| t["prob"].as_f64()).sum();
        assert!(token["logprob"].is_null() && (1..=2).contains(&top.len()), "{token}");
        assert!((sum - 1.0).abs() < 1e-5, "those that are left share all: {token}");
        assert!(top.iter().any(|t| t["id"] == token["id"] && t["prob"] == token["prob"]), "{token}");
    }
}

#[test]
fn names_in_queries_are_decoded() {
    assert_eq!(get(shared(), "/props?model=t%69ny").json()["model"], "tiny");
    assert_eq!(get(shared(), "/slots?x=1&fail_on_no_slot=0&model=%74iny").status, 200);
}

#[test]
fn steps_and_pages_are_counted() {
    let answer =
        post(shared(), "/completion", &json!({ "prompt": "Once upon a time ".repeat(20), "n_predict": 3 }));
    assert_eq!(answer.status, 200);
    let value_in = |metrics: &str, name: &str| -> f64 {
        let line =
            metrics.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
    };
    // Pages become cached behind the answer's last token.
    let is_settled =
        |metrics: &String| value_in(metrics, "lamina:kv_pages{model_name=\"tiny\",state=\"cached\"}") > 0.0;
    let read = |_| {
        thread::sleep(Duration::from_millis(20));
        get(shared(), "/metrics").text()
    };
    let metrics = (0..500).map(read).find(is_settled).expect("pages are cached");
    let value = |name: &str| value_in(&metrics, name);
    assert!(value("lamina:tenant_seconds_total{tenant=\"-\"}") > 0.0);
    let steps = value("lamina:steps_total{model_name=\"tiny\"}");
    assert!(steps >= 3.0);
    assert_eq!(value("lamina:iteration_tokens_count{model_name=\"tiny\"}"), steps);
    assert_eq!(value("lamina:iteration_tokens_bucket{le=\"+Inf\",model_name=\"tiny\"}"), steps);
    assert!(value("lamina:step_seconds_count{model_name=\"tiny\",kind=\"decode\"}") > 0.0);
}
