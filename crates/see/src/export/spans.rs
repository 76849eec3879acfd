//! Spans of requests, as collectors of OpenTelemetry know them. Prompts and answers are never in one.

use crate::trace::Trace;
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

/// A span as it is sent.
pub(super) struct SentSpan<'r> {
    pub trace: &'r [u8; 16],
    pub id: [u8; 8],
    pub parent: Option<[u8; 8]>,
    pub name: &'static str,
    pub kind: u32,
    /// Nanoseconds since 1970.
    pub began: u64,
    pub ended: u64,
    pub attributes: &'r [(&'static str, SpanValue)],
    pub failed: bool,
}

/// What OpenTelemetry calls the span of who is asked, and one inside it.
const SERVER: u32 = 2;
const INTERNAL: u32 = 1;
/// Status of a span that ended by an error.
pub(super) const ERROR: u32 = 2;

impl RequestSpan {
    /// Itself, and one for each station.
    pub(super) fn spans(&self) -> Vec<SentSpan<'_>> {
        let one = |id, parent, name, kind, (began, ended)| SentSpan {
            trace: &self.trace,
            id,
            parent,
            name,
            kind,
            began,
            ended,
            attributes: &[],
            failed: false,
        };
        let root = one(self.span, self.parent, "llm_request", SERVER, (self.began, self.ended));
        let mut all = vec![SentSpan { attributes: &self.attributes, failed: self.failed, ..root }];
        let mut at = self.began;
        for (i, &(name, ns)) in self.stations.iter().enumerate().filter(|(_, (_, ns))| *ns > 0) {
            let hash = Sha256::digest([&self.trace[..], &self.span, &[i as u8]].concat());
            let mut id = [0; 8];
            id.copy_from_slice(&hash[..8]);
            all.push(one(id, Some(self.span), name, INTERNAL, (at, at + ns)));
            at += ns;
        }
        all
    }
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
