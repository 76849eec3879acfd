//! What pieces of an answer have beside text and tokens, as JSON.

use crate::{
    api::{logprob, timings},
    run::{AnswerDelta, ChosenToken, DeltaPart, Ended},
};
use lamina::Scored;
use serde_json::{Value, json};

/// What a piece has beside its text and its tokens; none where there is nothing.
pub fn details(delta: &AnswerDelta) -> Option<Value> {
    match &delta.part {
        DeltaPart::Prompt { start, scored } => {
            let tokens: Vec<Value> = scored.iter().map(scored_token).collect();
            Some(json!({ "start": start, "tokens": tokens }))
        }
        DeltaPart::Progress { total, cached, computed } => {
            Some(json!({ "total": total, "cached": cached, "computed": computed }))
        }
        DeltaPart::ToolStart { id, name, .. } => Some(json!({ "id": id, "name": name })),
        DeltaPart::End(end) => {
            let by = match &end.why {
                Ended::Token(id) => json!(id),
                Ended::Text(text) => json!(text),
                _ => Value::Null,
            };
            Some(json!({ "stopped_by": by, "timings": timings(end) }))
        }
        DeltaPart::Reasoning(_) | DeltaPart::Text(_) | DeltaPart::ToolArguments { .. } => {
            let asked = delta.tokens.iter().any(|token| !token.top.is_empty());
            asked.then(|| json!({ "top_logprobs": delta.tokens.iter().map(most_likely).collect::<Vec<_>>() }))
        }
    }
}

fn most_likely(token: &ChosenToken) -> Value {
    pairs(&token.top)
}

fn scored_token(scored: &Scored) -> Value {
    json!({ "id": scored.id, "logprob": logprob(scored.logprob), "top_logprobs": pairs(&scored.top) })
}

fn pairs(top: &[(u32, f32)]) -> Value {
    top.iter().map(|&(id, l)| json!([id, logprob(l)])).collect()
}
