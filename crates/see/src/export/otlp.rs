//! Spans in the two forms of OpenTelemetry's protocol: its JSON, and protobuf, which every collector reads.

use super::protobuf::WireMessage;
use super::spans::{ERROR, RequestSpan, SentSpan, SpanValue};
use serde_json::{Value, json};

/// How messages to a collector are written, under the names of `OTEL_EXPORTER_OTLP_PROTOCOL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `http/protobuf`: OpenTelemetry's default, and the only one that some collectors read.
    #[default]
    Protobuf,
    /// `http/json`.
    Json,
}

impl OtlpProtocol {
    /// The protocol of a name; none where it is not one over HTTP.
    pub fn named(name: &str) -> Option<OtlpProtocol> {
        match name {
            "http/protobuf" => Some(OtlpProtocol::Protobuf),
            "http/json" => Some(OtlpProtocol::Json),
            _ => None,
        }
    }

    /// Media type of its messages.
    pub fn content_type(self) -> &'static str {
        match self {
            OtlpProtocol::Protobuf => "application/x-protobuf",
            OtlpProtocol::Json => "application/json",
        }
    }

    /// Requests as one message to a collector (`ExportTraceServiceRequest`); `service` is what the resource is called.
    pub fn message(self, requests: &[RequestSpan], service: &str, version: &str) -> Vec<u8> {
        match self {
            OtlpProtocol::Protobuf => protobuf(requests, service, version),
            OtlpProtocol::Json => otlp(requests, service, version).to_string().into_bytes(),
        }
    }
}

/// Requests as one message to a collector in JSON.
pub fn otlp(requests: &[RequestSpan], service: &str, version: &str) -> Value {
    let spans: Vec<Value> = requests.iter().flat_map(RequestSpan::spans).map(|span| of_span(&span)).collect();
    let name = of_attributes(&[("service.name", SpanValue::Text(service.to_owned()))]);
    let scope = json!({ "name": "lamina", "version": version });
    json!({ "resourceSpans": [{
        "resource": { "attributes": name }, "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
}

fn of_span(span: &SentSpan) -> Value {
    let mut made = json!({
        "traceId": hex(span.trace), "spanId": hex(&span.id),
        "parentSpanId": span.parent.map_or_else(String::new, |id| hex(&id)), "name": span.name, "kind": span.kind,
        "startTimeUnixNano": span.began.to_string(), "endTimeUnixNano": span.ended.to_string(),
        "attributes": of_attributes(span.attributes),
    });
    if span.failed {
        made["status"] = json!({ "code": ERROR });
    }
    made
}

fn of_attributes(all: &[(&str, SpanValue)]) -> Value {
    all.iter().map(|(key, value)| json!({ "key": key, "value": of_value(value) })).collect()
}

fn of_value(value: &SpanValue) -> Value {
    match value {
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

/// The same in protobuf; numbers of fields are those of `opentelemetry/proto/trace/v1/trace.proto`.
fn protobuf(requests: &[RequestSpan], service: &str, version: &str) -> Vec<u8> {
    let mut resource = WireMessage::default();
    attribute(&mut resource, 1, "service.name", &SpanValue::Text(service.to_owned()));
    let mut scope = WireMessage::default();
    scope.text(1, "lamina").text(2, version);
    let mut scoped = WireMessage::default();
    scoped.message(1, &scope);
    for span in requests.iter().flat_map(RequestSpan::spans) {
        scoped.message(2, &span_message(&span));
    }
    let mut resources = WireMessage::default();
    resources.message(1, &resource).message(2, &scoped);
    let mut request = WireMessage::default();
    request.message(1, &resources);
    request.into_bytes()
}

fn span_message(span: &SentSpan) -> WireMessage {
    let mut made = WireMessage::default();
    made.bytes(1, span.trace).bytes(2, &span.id);
    if let Some(parent) = &span.parent {
        made.bytes(4, parent);
    }
    made.text(5, span.name).number(6, span.kind.into()).fixed(7, span.began).fixed(8, span.ended);
    for (key, value) in span.attributes {
        attribute(&mut made, 9, key, value);
    }
    if span.failed {
        let mut status = WireMessage::default();
        made.message(15, status.number(3, ERROR.into()));
    }
    made
}

fn attribute(to: &mut WireMessage, field: u32, key: &str, value: &SpanValue) {
    let mut pair = WireMessage::default();
    pair.text(1, key).message(2, &value_message(value));
    to.message(field, &pair);
}

fn value_message(value: &SpanValue) -> WireMessage {
    let mut made = WireMessage::default();
    match value {
        SpanValue::Text(text) => made.text(1, text),
        SpanValue::Count(n) => made.number(3, *n),
        SpanValue::Number(n) => made.fixed(4, n.to_bits()),
        SpanValue::Texts(texts) => {
            let mut list = WireMessage::default();
            for text in texts {
                let mut one = WireMessage::default();
                list.message(1, one.text(1, text));
            }
            made.message(5, &list)
        }
    };
    made
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a message in protobuf's wire form: their numbers, and their bytes or what their numbers are.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let end = bytes.iter().position(|b| b & 0x80 == 0).expect("an end");
            let (one, rest) = bytes.split_at(end + 1);
            *bytes = rest;
            one.iter().rev().fold(0, |value, b| value << 7 | u64::from(b & 0x7f))
        }
        let mut all = vec![];
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => varint(&mut bytes).to_le_bytes().to_vec(),
                kind => {
                    let length = if kind == 1 { 8 } else { varint(&mut bytes) as usize };
                    let (one, rest) = bytes.split_at(length);
                    bytes = rest;
                    one.to_vec()
                }
            };
            all.push((key >> 3, value));
        }
        all
    }

    /// The only field of a number, from the outside in.
    fn inside(bytes: &[u8], path: &[u64]) -> Vec<u8> {
        path.iter().fold(bytes.to_vec(), |bytes, number| {
            let found: Vec<_> = fields(&bytes).into_iter().filter(|field| field.0 == *number).collect();
            let [(_, value)] = &found[..] else { panic!("{number} is there {} times", found.len()) };
            value.clone()
        })
    }

    #[test]
    fn spans_are_the_same_in_both_forms_of_the_protocol() {
        let first = RequestSpan {
            trace: [0xa5; 16],
            span: [3; 8],
            parent: Some([7; 8]),
            began: 1_700_000_000_000_000_000,
            ended: 1_700_000_001_000_000_007,
            failed: true,
            attributes: vec![
                ("text", SpanValue::Text("é".repeat(200))),
                ("empty", SpanValue::Text(String::new())),
                ("count", SpanValue::Count(u64::MAX)),
                ("zero", SpanValue::Count(0)),
                ("number", SpanValue::Number(-0.25)),
                ("texts", SpanValue::Texts(vec!["stop".into()])),
            ],
            stations: vec![("queue", 0), ("prefill", 5), ("decode", 900)],
        };
        let second = RequestSpan { trace: [1; 16], span: [2; 8], ..RequestSpan::default() };
        let requests = [first, second];
        let json = otlp(&requests, "mine", "0");
        let message = OtlpProtocol::Protobuf.message(&requests, "mine", "0");
        assert_eq!(inside(&message, &[1, 1, 1, 2, 1]), b"mine");
        let written: Vec<_> = fields(&inside(&message, &[1, 2])).into_iter().filter(|f| f.0 == 2).collect();
        let spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(written.len(), spans.len());
        let hex = |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap()).to_string();
        for ((_, bytes), span) in written.iter().zip(spans) {
            assert_eq!(hex(inside(bytes, &[1])), span["traceId"]);
            assert_eq!(hex(inside(bytes, &[2])), span["spanId"]);
            assert_eq!(inside(bytes, &[5]), span["name"].as_str().unwrap().as_bytes());
            assert_eq!(number(inside(bytes, &[6])), span["kind"].to_string());
            assert_eq!(number(inside(bytes, &[7])), span["startTimeUnixNano"]);
            assert_eq!(number(inside(bytes, &[8])), span["endTimeUnixNano"]);
            let attributes: Vec<_> = fields(bytes).into_iter().filter(|f| f.0 == 9).collect();
            for ((_, bytes), one) in attributes.iter().zip(span["attributes"].as_array().unwrap()) {
                assert_eq!(inside(bytes, &[1]), one["key"].as_str().unwrap().as_bytes());
                match &one["value"] {
                    v if v["stringValue"].is_string() => {
                        assert_eq!(inside(bytes, &[2, 1]), v["stringValue"].as_str().unwrap().as_bytes())
                    }
                    v if v["intValue"].is_string() => {
                        assert_eq!(number(inside(bytes, &[2, 3])), v["intValue"])
                    }
                    v if v["doubleValue"].is_f64() => assert_eq!(
                        inside(bytes, &[2, 4]),
                        v["doubleValue"].as_f64().unwrap().to_bits().to_le_bytes()
                    ),
                    v => assert_eq!(
                        inside(bytes, &[2, 5, 1, 1]),
                        v["arrayValue"]["values"][0]["stringValue"].as_str().unwrap().as_bytes()
                    ),
                }
            }
            assert_eq!(attributes.len(), span["attributes"].as_array().unwrap().len());
        }
        assert_eq!(inside(&written[0].1, &[4]), [7; 8]);
        assert_eq!(number(inside(&written[0].1, &[15, 3])), "2");
    }
}
