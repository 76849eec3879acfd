//! The span of a request, with its stations below it.

use crate::log::{LogEntry, Stations, TraceContext};
use lamina_see::export::{RequestSpan, SpanValue};
use std::time::{Duration, Instant, SystemTime};

/// The span of a request that asked a model; none where nobody wants it.
pub(super) fn span(entry: &LogEntry, now: Instant) -> Option<RequestSpan> {
    let (model, TraceContext { trace, span, parent, sampled }) = (entry.model.as_ref()?, entry.context?);
    let stations = Stations::of(entry, now);
    let began = nanos(entry.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let total = now.saturating_duration_since(entry.arrival);
    let mut attributes = attributes(entry, &stations, total);
    attributes.insert(0, ("gen_ai.request.model", SpanValue::Text(model.clone())));
    sampled.then(|| RequestSpan {
        trace,
        span,
        parent,
        began,
        ended: began + nanos(total),
        failed: entry.status >= 500 || matches!(entry.finish, Some("error" | "timeout")),
        attributes,
        stations: stations.in_order().map(|(name, time)| (name, nanos(time))).to_vec(),
    })
}

/// Under the names that vLLM has, and those of the semantic conventions.
fn attributes(entry: &LogEntry, stations: &Stations, total: Duration) -> Vec<(&'static str, SpanValue)> {
    let text = |text: &str| SpanValue::Text(text.to_owned());
    let count = |n: usize| SpanValue::Count(n as u64);
    let seconds = |time: Duration| SpanValue::Number(time.as_secs_f64());
    let (prompt, completion) = (entry.usage.prompt, entry.usage.completion.max(entry.counted.completion));
    let mut all = vec![
        ("gen_ai.operation.name", text(operation(&entry.path))),
        ("gen_ai.provider.name", text("lamina")),
        ("gen_ai.request.id", text(&entry.id)),
        ("gen_ai.usage.prompt_tokens", count(prompt)),
        ("gen_ai.usage.completion_tokens", count(completion)),
        ("gen_ai.usage.input_tokens", count(prompt)),
        ("gen_ai.usage.output_tokens", count(completion)),
        ("gen_ai.latency.time_in_queue", seconds(stations.queue)),
        ("gen_ai.latency.time_in_model_prefill", seconds(stations.prefill)),
        ("gen_ai.latency.time_in_model_decode", seconds(stations.decode)),
        ("gen_ai.latency.e2e", seconds(total)),
        ("lamina.usage.cached_tokens", count(entry.usage.cached)),
        ("lamina.preemptions", count(entry.preemptions as usize)),
        ("lamina.latency.preempted", seconds(stations.preempted)),
        ("lamina.latency.reader", seconds(stations.reader)),
        ("http.request.method", text(&entry.method)),
        ("url.path", text(&entry.path)),
        ("http.response.status_code", count(entry.status.into())),
    ];
    all.extend(entry.answer.as_ref().map(|id| ("gen_ai.response.id", text(id))));
    all.extend(entry.first_token.map(|time| ("gen_ai.latency.time_to_first_token", seconds(time))));
    all.extend(
        entry.finish.map(|why| ("gen_ai.response.finish_reasons", SpanValue::Texts(vec![why.to_owned()]))),
    );
    if let Some(asked) = &entry.asked {
        all.extend(asked.max_tokens.map(|n| ("gen_ai.request.max_tokens", count(n))));
        all.extend([
            ("gen_ai.request.temperature", SpanValue::Number(asked.temperature)),
            ("gen_ai.request.top_p", SpanValue::Number(asked.top_p)),
            ("gen_ai.request.n", count(asked.n)),
        ]);
    }
    all
}

/// What the semantic conventions call what is asked for at `path`.
fn operation(path: &str) -> &'static str {
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    match () {
        () if path.contains("embed") => "embeddings",
        () if path.contains("rerank") => "rerank",
        () if ends(&["/chat/completions", "/messages", "/responses", "/chat"]) => "chat",
        () => "text_completion",
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::operation;

    #[test]
    fn operations_have_the_names_of_the_conventions() {
        let named = [
            "/v1/chat/completions",
            "/v1/messages",
            "/v1/responses",
            "/api/chat",
            "/v1/completions",
            "/api/generate",
            "/v1/embeddings",
            "/api/embed",
            "/v1/rerank",
        ]
        .map(operation);
        assert_eq!(named[..4], ["chat"; 4]);
        assert_eq!(named[4..], ["text_completion", "text_completion", "embeddings", "embeddings", "rerank"]);
    }
}
