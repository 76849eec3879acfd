//! Recorded deltas, and the lines that they become.

use super::*;
use crate::run::{Ended, MediaTokens};

fn counts() -> TokenUsage {
    TokenUsage { prompt: 9, cached: 4, completion: 6, reasoning: 1, media: MediaTokens::default() }
}

fn timings() -> Timings {
    Timings { prefill_seconds: 0.5, decode_seconds: 0.25, ..Timings::default() }
}

fn end(why: Ended) -> DeltaPart {
    DeltaPart::End(Box::new(ChoiceEnd { why, usage: counts(), timings: timings(), encode_seconds: 0.0 }))
}

fn renderer(form: AnswerForm) -> AnswerRenderer {
    AnswerRenderer::new(form, ReplyHead::new("m"), None)
}

fn lines(form: AnswerForm, parts: Vec<DeltaPart>) -> Vec<Value> {
    let (mut renderer, mut out) = (renderer(form), Frames::default());
    for part in parts {
        renderer.delta(&AnswerDelta { choice: 0, part, tokens: vec![] }, &mut out);
    }
    renderer.end(&counts(), &mut out);
    let text = String::from_utf8(out.take()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn generated_text_comes_line_by_line() {
    let text = |t: &str| DeltaPart::Text(t.into());
    let parts = vec![DeltaPart::Reasoning("hm".into()), text("He"), text("llo"), end(Ended::MaxTokens)];
    let lines = lines(AnswerForm::Generate, parts);
    assert_eq!(lines[0]["thinking"], "hm");
    let response: String = lines.iter().map(|l| l["response"].as_str().unwrap()).collect();
    assert_eq!(response, "Hello");
    let done: Vec<_> = lines.iter().map(|l| l["done"].as_bool().unwrap()).collect();
    assert_eq!(done, [false, false, false, true]);
    let last = &lines[3];
    assert_eq!((&last["done_reason"], &last["model"]), (&json!("length"), &json!("m")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(9), &json!(6)));
    assert_eq!(
        (&last["prompt_eval_duration"], &last["eval_duration"]),
        (&json!(500_000_000), &json!(250_000_000))
    );
}

#[test]
fn calls_come_whole() {
    let start = |call: usize, id: &str| DeltaPart::ToolStart { call, id: id.into(), name: "look".into() };
    let arguments = |call: usize, json: &str| DeltaPart::ToolArguments { call, json: json.into() };
    let parts = vec![
        start(0, "call_a"),
        arguments(0, "{\"at\":"),
        arguments(0, "\"sky\"}"),
        start(1, "call_b"),
        arguments(1, "{}"),
        end(Ended::ToolCalls),
    ];
    let lines = lines(AnswerForm::Chat, parts);
    let calls: Vec<_> = lines.iter().filter_map(|l| l["message"]["tool_calls"][0].as_object()).collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["function"]["arguments"], json!({"at": "sky"}));
    assert_eq!(calls[1]["id"], "call_b");
    assert_eq!(lines.last().unwrap()["message"], json!({"role": "assistant", "content": ""}));
}

#[test]
fn whole_answers_and_errors() {
    let mut answer = WholeAnswer::new(1);
    for part in [DeltaPart::Text("Hello".into()), end(Ended::Token(2))] {
        answer.push(AnswerDelta { choice: 0, part, tokens: vec![] });
    }
    answer.usage = counts();
    let body = renderer(AnswerForm::Chat).whole(&answer);
    assert_eq!(body["message"], json!({"role": "assistant", "content": "Hello"}));
    assert_eq!((&body["done"], &body["done_reason"]), (&json!(true), &json!("stop")));
    let mut out = Frames::default();
    renderer(AnswerForm::Chat).error(&ApiError::fault("broken"), &mut out);
    assert_eq!(out.take(), b"{\"error\":\"broken\"}\n");
    renderer(AnswerForm::Generate).ping(&mut out);
    let ping: Value = serde_json::from_slice(&out.take()).unwrap();
    assert_eq!((&ping["response"], &ping["done"]), (&json!(""), &json!(false)));
}
