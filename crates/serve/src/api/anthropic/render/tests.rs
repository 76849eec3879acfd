//! Recorded deltas, and the events that they become.

use super::*;
use crate::run::{Ended, MediaTokens};
use lamina::Timings;

fn counts() -> TokenUsage {
    TokenUsage { prompt: 9, cached: 4, completion: 6, reasoning: 1, media: MediaTokens::default() }
}

fn end(why: Ended) -> DeltaPart {
    DeltaPart::End(Box::new(ChoiceEnd {
        why,
        usage: counts(),
        timings: Timings::default(),
        encode_seconds: 0.0,
    }))
}

fn renderer() -> MessageRenderer {
    MessageRenderer::new("m", &"req1".into())
}

fn started() -> Started {
    Started { prompt_tokens: vec![9], media_tokens: MediaTokens::default(), choices: 1, model: "m".into() }
}

/// The events of a stream: their names and bodies, which must agree.
fn events(parts: &[DeltaPart]) -> Vec<Value> {
    let (mut renderer, mut out) = (renderer(), Frames::default());
    renderer.begin(&started(), &mut out);
    for part in parts {
        renderer.delta(&AnswerDelta { choice: 0, part: part.clone(), tokens: vec![] }, &mut out);
    }
    renderer.end(&counts(), &mut out);
    read(out)
}

fn read(mut out: Frames) -> Vec<Value> {
    let text = String::from_utf8(out.take()).unwrap();
    let event = |frame: &str| {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str(), "clients drop events without a name");
        data
    };
    text.trim_end().split("\n\n").map(event).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap()).collect()
}

#[test]
fn text_comes_in_one_block_between_start_and_stop() {
    let text = |t: &str| DeltaPart::Text(t.into());
    let events = events(&[text("He"), text("llo"), end(Ended::Text("END".into()))]);
    assert_eq!(
        kinds(&events),
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let message = &events[0]["message"];
    assert_eq!((message["usage"]["input_tokens"].as_u64(), &message["content"]), (Some(9), &json!([])));
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(events[3]["delta"], json!({"type": "text_delta", "text": "He"}));
    assert_eq!(events[6]["delta"], json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}));
    assert_eq!(
        events[6]["usage"],
        json!({
            "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 6,
        })
    );
}

#[test]
fn blocks_follow_one_another_by_index() {
    let events = events(&[
        DeltaPart::Reasoning("hm".into()),
        DeltaPart::Text("I look.".into()),
        DeltaPart::ToolStart { call: 0, id: "call_a".into(), name: "look".into() },
        DeltaPart::ToolArguments { call: 0, json: "{\"at\":".into() },
        DeltaPart::ToolArguments { call: 0, json: "\"sky\"}".into() },
        DeltaPart::ToolStart { call: 1, id: "call_b".into(), name: "look".into() },
        DeltaPart::ToolArguments { call: 1, json: "{}".into() },
        end(Ended::ToolCalls),
    ]);
    let starts: Vec<_> = events.iter().filter(|e| e["type"] == "content_block_start").collect();
    let kinds =
        starts.iter().map(|e| (e["index"].as_u64().unwrap(), e["content_block"]["type"].as_str().unwrap()));
    assert_eq!(kinds.collect::<Vec<_>>(), [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "tool_use")]);
    let stops =
        events.iter().filter(|e| e["type"] == "content_block_stop").map(|e| e["index"].as_u64().unwrap());
    assert_eq!(stops.collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(
        starts[2]["content_block"],
        json!({"type": "tool_use", "id": "toolu_a", "name": "look", "input": {}})
    );
    // A block of reasoning ends with its signature.
    let stop = events.iter().position(|e| e["type"] == "content_block_stop").unwrap();
    assert_eq!(events[stop - 1]["delta"]["type"], "signature_delta");
    let arguments = events.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect::<String>();
    assert_eq!(arguments, "{\"at\":\"sky\"}{}");
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn whole_messages_say_the_same_as_streams() {
    let parts = [
        DeltaPart::Reasoning("hm".into()),
        DeltaPart::Text("Hel".into()),
        DeltaPart::Text("lo".into()),
        DeltaPart::ToolStart { call: 0, id: "call_a".into(), name: "look".into() },
        DeltaPart::ToolArguments { call: 0, json: "{\"at\":\"sky\"}".into() },
        end(Ended::ToolCalls),
    ];
    let mut answer = WholeAnswer::new(1);
    parts.into_iter().for_each(|part| answer.push(AnswerDelta { choice: 0, part, tokens: vec![] }));
    answer.usage = counts();
    let mut renderer = renderer();
    let body = renderer.whole(&answer);
    assert_eq!(
        body["content"],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": renderer.id},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"at": "sky"}},
        ])
    );
    assert_eq!((&body["stop_reason"], &body["stop_sequence"]), (&json!("tool_use"), &Value::Null));
    assert_eq!(body["usage"]["output_tokens"], 6);
}

#[test]
fn every_end_has_its_word_and_errors_end_a_stream() {
    for (why, word) in [
        (Ended::Token(2), json!("end_turn")),
        (Ended::MaxTokens, json!("max_tokens")),
        (Ended::Context, json!("model_context_window_exceeded")),
        (Ended::Cancelled, Value::Null),
    ] {
        let events = events(&[end(why)]);
        assert_eq!(events[2]["delta"]["stop_reason"], word, "without text there is no block");
    }
    let (mut renderer, mut out) = (renderer(), Frames::default());
    renderer.error(&ApiError::fault("broken"), &mut out);
    let error =
        json!({"type": "error", "error": {"type": "api_error", "message": "broken"}, "request_id": "req1"});
    assert_eq!(read(out), [error]);
}
