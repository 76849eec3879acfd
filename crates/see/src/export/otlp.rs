//! Spans of requests in the JSON form of OpenTelemetry's protocol. Prompts and answers are never in it.

use crate::trace::Trace;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The span of a request, with its stations below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSpan {
    /// The trace that it is a part of.
    pub trace: [u8; 16],
    /// Its own id.
    pub span: [u8; 8],
    /// The span of who asked; none where nobody told.
    pub parent: Option<[u8; 8]>,
    /// Nanoseconds since 1970.
    pub began: u64,
    /// See `began`.
    pub ended: u64,
    /// It ended by an error.
    pub failed: bool,
    /// What is known of it.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Its stations in order, with their nanoseconds. Those without any are left out.
    pub stations: Vec<(&'static str, u64)>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
}

/// What OpenTelemetry calls the span of who is asked, and one inside it.
const SERVER: u32 = 2;
const INTERNAL: u32 = 1;
/// Status of a span that ended by an error.
const ERROR: u32 = 2;

impl SpanValue {
    fn json(&self) -> Value {
        match self {
            SpanValue::Text(text) => json!({ "stringValue": text }),
            SpanValue::Texts(texts) => {
                let values: Vec<Value> = texts.iter().map(|text| json!({ "stringValue": text })).collect();
                json!({ "arrayValue": { "values": values } })
            }
            // 64 bits are texts in the JSON of protobuf.
            SpanValue::Count(n) => json!({ "intValue": n.to_string() }),
            SpanValue::Number(n) => json!({ "doubleValue": n }),
        }
    }
}

impl RequestSpan {
    /// Its spans: itself, and one for each station.
    fn spans(&self) -> Vec<Value> {
        let attributes: Vec<Value> =
            self.attributes.iter().map(|(key, value)| json!({ "key": key, "value": value.json() })).collect();
        let parent = self.parent.map_or_else(String::new, |id| hex(&id));
        let mut root = self.one(&hex(&self.span), &parent, "llm_request", SERVER, (self.began, self.ended));
        root["attributes"] = Value::Array(attributes);
        if self.failed {
            root["status"] = json!({ "code": ERROR });
        }
        let mut all = vec![root];
        let mut at = self.began;
        for (i, &(name, ns)) in self.stations.iter().enumerate().filter(|(_, (_, ns))| *ns > 0) {
            let id = Sha256::digest([&self.trace[..], &self.span, &[i as u8]].concat());
            all.push(self.one(&hex(&id[..8]), &hex(&self.span), name, INTERNAL, (at, at + ns)));
            at += ns;
        }
        all
    }

    fn one(&self, id: &str, parent: &str, name: &str, kind: u32, (from, to): (u64, u64)) -> Value {
        json!({
            "traceId": hex(&self.trace), "spanId": id, "parentSpanId": parent, "name": name, "kind": kind,
            "startTimeUnixNano": from.to_string(), "endTimeUnixNano": to.to_string(), "attributes": [],
        })
    }
}

/// Requests as one message to a collector; `service` is what the resource is called.
pub fn otlp(requests: &[RequestSpan], service: &str, version: &str) -> Value {
    let spans: Vec<Value> = requests.iter().flat_map(RequestSpan::spans).collect();
    let name = json!([{ "key": "service.name", "value": { "stringValue": service } }]);
    let scope = json!({ "name": "lamina", "version": version });
    json!({ "resourceSpans": [{
        "resource": { "attributes": name }, "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
}

/// Requests of a recording that have ended; `began` is the time of its begin in nanoseconds since 1970.
pub fn request_spans(trace: &Trace, began: u64) -> Vec<RequestSpan> {
    let s = &trace.events.sequence;
    (0..s.at.len()).filter(|&i| s.what[i] == "end").map(|i| request_span(trace, i, began)).collect()
}

fn request_span(trace: &Trace, end: usize, began: u64) -> RequestSpan {
    let s = &trace.events.sequence;
    let hash = Sha256::digest([began.to_le_bytes(), s.sequence[end].to_le_bytes()].concat());
    let (mut id, mut span) = ([0; 16], [0; 8]);
    id.copy_from_slice(&hash[..16]);
    span.copy_from_slice(&hash[16..24]);
    let (queue, prefill, decode) = (s.queue[end], s.prefill[end], s.decode[end]);
    let ended = began + s.at[end];
    let seconds = |ns: u64| SpanValue::Number(ns as f64 / 1e9);
    RequestSpan {
        trace: id,
        span,
        parent: None,
        began: ended.saturating_sub(queue + prefill + decode),
        ended,
        failed: s.reason[end] == "failed",
        attributes: vec![
            ("gen_ai.request.model", SpanValue::Text(trace.run.model.name.clone())),
            ("gen_ai.usage.prompt_tokens", SpanValue::Count(s.prompt_tokens[end].into())),
            ("gen_ai.usage.completion_tokens", SpanValue::Count(s.tokens[end].into())),
            ("gen_ai.response.finish_reasons", SpanValue::Texts(vec![s.reason[end].clone()])),
            ("gen_ai.latency.time_in_queue", seconds(queue)),
            ("gen_ai.latency.time_to_first_token", seconds(queue + prefill)),
            ("gen_ai.latency.time_in_model_prefill", seconds(prefill)),
            ("gen_ai.latency.time_in_model_decode", seconds(decode)),
            ("gen_ai.latency.e2e", seconds(queue + prefill + decode)),
        ],
        stations: vec![("queue", queue), ("prefill", prefill), ("decode", decode)],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
