//! A recorded list of events for the tests of renderers: reasoning, text, a call with arguments in pieces, an end.

use crate::run::{
    AnswerDelta, ChoiceEnd, ChosenToken, DeltaPart, Ended, Frames, MediaTokens, Render, Started, TokenUsage,
    WholeAnswer,
};
use lamina::Timings;
use serde_json::Value;

fn delta(part: DeltaPart, token: u32) -> AnswerDelta {
    let tokens = vec![ChosenToken { id: token, logprob: None, top: vec![] }];
    AnswerDelta { choice: 0, part, tokens }
}

/// The events.
pub fn events() -> Vec<AnswerDelta> {
    let usage = usage();
    let end = ChoiceEnd { why: Ended::ToolCalls, usage, timings: Timings::default(), encode_seconds: 0.0 };
    vec![
        delta(DeltaPart::Reasoning("Hm".into()), 1),
        delta(DeltaPart::Reasoning(", so".into()), 2),
        delta(DeltaPart::Text("Let me ".into()), 3),
        delta(DeltaPart::Text("see.".into()), 4),
        delta(DeltaPart::ToolStart { call: 0, id: "call_1".into(), name: "now".into() }, 5),
        delta(DeltaPart::ToolArguments { call: 0, json: "{\"zone\"".into() }, 6),
        delta(DeltaPart::ToolArguments { call: 0, json: ": \"UTC\"}".into() }, 7),
        AnswerDelta { choice: 0, part: DeltaPart::End(Box::new(end)), tokens: vec![] },
    ]
}

/// Their counts.
pub fn usage() -> TokenUsage {
    TokenUsage { prompt: 11, cached: 4, completion: 7, reasoning: 2, media: MediaTokens::default() }
}

/// What a renderer writes of them.
pub fn streamed(renderer: &mut impl Render) -> String {
    let mut out = Frames::default();
    renderer.begin(
        &Started {
            prompt_tokens: vec![11],
            media_tokens: MediaTokens::default(),
            choices: 1,
            model: "tiny".into(),
        },
        &mut out,
    );
    events().iter().for_each(|delta| renderer.delta(delta, &mut out));
    renderer.end(&usage(), &mut out);
    String::from_utf8(out.take()).expect("text")
}

/// The data of a stream's events.
pub fn data(stream: &str) -> Vec<Value> {
    let lines = stream.lines().filter_map(|l| l.strip_prefix("data: ")).filter(|l| *l != "[DONE]");
    lines.map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

/// What a renderer makes of all of them.
pub fn whole(renderer: &mut impl Render) -> Value {
    let mut answer = WholeAnswer::new(1);
    events().into_iter().for_each(|delta| answer.push(delta));
    answer.usage = usage();
    renderer.whole(&answer)
}
