//! Spans of requests in the JSON form of OpenTelemetry's protocol. Prompts and answers are never in it.

use crate::trace::Trace;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Requests that have ended, each as a span with its stations below it; `began` is the time of the recording's begin in
/// nanoseconds since 1970, and `service` what the resource is called.
pub fn otlp(trace: &Trace, began: u64, service: &str) -> Value {
    let s = &trace.events.sequence;
    let spans: Vec<Value> =
        (0..s.at.len()).filter(|&i| s.what[i] == "end").flat_map(|i| spans(trace, i, began)).collect();
    let name = json!([{"key": "service.name", "value": {"stringValue": service}}]);
    let scope = json!({"name": "lamina", "version": trace.run.version});
    json!({"resourceSpans": [{"resource": {"attributes": name}, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

/// The span of a sequence and those of its stations.
fn spans(trace: &Trace, end: usize, began: u64) -> Vec<Value> {
    let s = &trace.events.sequence;
    let hash = Sha256::digest([began.to_le_bytes(), s.sequence[end].to_le_bytes()].concat());
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (trace_id, root) = (hex(&hash[..16]), hex(&hash[16..24]));
    let (queue, prefill, decode) = (s.queue[end], s.prefill[end], s.decode[end]);
    let stop = began + s.at[end];
    let arrival = stop.saturating_sub(queue + prefill + decode);
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let count = |key: &str, value: u64| json!({"key": key, "value": {"intValue": value.to_string()}});
    let seconds = |key: &str, ns: u64| json!({"key": key, "value": {"doubleValue": ns as f64 / 1e9}});
    let attributes = json!([
        text("gen_ai.request.model", &trace.run.model.name),
        count("gen_ai.usage.prompt_tokens", s.prompt_tokens[end].into()),
        count("gen_ai.usage.completion_tokens", s.tokens[end].into()),
        text("gen_ai.response.finish_reasons", &s.reason[end]),
        seconds("gen_ai.latency.time_in_queue", queue),
        seconds("gen_ai.latency.time_to_first_token", queue + prefill),
        seconds("gen_ai.latency.time_in_model_prefill", prefill),
        seconds("gen_ai.latency.time_in_model_decode", decode),
        seconds("gen_ai.latency.e2e", queue + prefill + decode),
    ]);
    let span = |id: &str, parent: &str, name: &str, from: u64, to: u64, attributes: Value| {
        json!({"traceId": trace_id, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
               "startTimeUnixNano": from.to_string(), "endTimeUnixNano": to.to_string(), "attributes": attributes})
    };
    let mut all = vec![span(&root, "", "llm_request", arrival, stop, attributes)];
    let mut at = arrival;
    for (i, (name, ns)) in
        [("queue", queue), ("prefill", prefill), ("decode", decode)].into_iter().enumerate()
    {
        let id = hex(&Sha256::digest([&hash[..], &[i as u8]].concat())[..8]);
        all.push(span(&id, &root, name, at, at + ns, json!([])));
        at += ns;
    }
    all
}
