//! The schema of recordings, made from the list of events.

use crate::{
    columns::{
        AttentionColumns, ColumnSpec, ExpertColumns, LensColumns, OpColumns, PageColumns, SequenceColumns,
        ShareColumns, StageColumns, StepColumns, StreamColumns, TextColumns, TokenColumns, WireColumns,
    },
    trace::{OpView, RunFacts, SlotView, Trace, TracedModel, TracedRequest, WeightView},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Events with their columns.
const EVENTS: [(&str, &[ColumnSpec]); 13] = [
    (StepColumns::EVENT, StepColumns::SPECS),
    (ShareColumns::EVENT, ShareColumns::SPECS),
    (OpColumns::EVENT, OpColumns::SPECS),
    (StreamColumns::EVENT, StreamColumns::SPECS),
    (SequenceColumns::EVENT, SequenceColumns::SPECS),
    (PageColumns::EVENT, PageColumns::SPECS),
    (TokenColumns::EVENT, TokenColumns::SPECS),
    (StageColumns::EVENT, StageColumns::SPECS),
    (TextColumns::EVENT, TextColumns::SPECS),
    (WireColumns::EVENT, WireColumns::SPECS),
    (LensColumns::EVENT, LensColumns::SPECS),
    (ExpertColumns::EVENT, ExpertColumns::SPECS),
    (AttentionColumns::EVENT, AttentionColumns::SPECS),
];

/// Names of the events that a recording has.
pub fn event_names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|(name, _)| *name)
}

/// The JSON schema of a recording. Fields that it does not name are of later versions, and are skipped.
pub fn schema() -> Value {
    let events: Map<String, Value> =
        EVENTS.iter().map(|(name, columns)| ((*name).to_owned(), event(columns))).collect();
    let mut run = object(&RunFacts::default());
    run["properties"]["model"] = object(&TracedModel::default());
    let list = |item: Value| json!({ "type": "array", "items": item });
    let plan = json!({ "type": "object", "properties": {
        "ops": list(object(&OpView::default())), "slots": list(object(&SlotView::default())),
        "weights": list(object(&WeightView::default())),
    } });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recording of lamina",
        "description": "Events are columns of equal length; times are nanoseconds since the recording began. Unknown fields are skipped; a change of meaning raises the version.",
        "type": "object",
        "required": ["format", "version"],
        "properties": {
            "format": { "const": Trace::FORMAT },
            "version": { "type": "integer", "minimum": 1, "maximum": Trace::VERSION },
            "run": run,
            "plan": plan,
            "words": { "type": "object", "additionalProperties": { "type": "string" } },
            "special": list(json!({ "type": "integer", "minimum": 0 })),
            "requests": list(object(&TracedRequest::default())),
            "events": { "type": "object", "properties": events },
        },
    })
}

fn event(columns: &[ColumnSpec]) -> Value {
    let column = |spec: &ColumnSpec| {
        let value = json!({ "type": "array", "description": spec.doc, "items": kind(spec.kind) });
        (spec.name.to_owned(), value)
    };
    json!({ "type": "object", "properties": columns.iter().map(column).collect::<Map<_, _>>() })
}

/// What a type of a column is in JSON.
fn kind(name: &str) -> Value {
    let inside = |outer: &str| name.strip_prefix(outer)?.strip_prefix('<')?.strip_suffix('>');
    if let Some(item) = inside("Vec") {
        return json!({ "type": "array", "items": kind(item) });
    }
    if let Some(item) = inside("Option") {
        let mut value = kind(item);
        value["type"] = json!([value["type"], "null"]);
        return value;
    }
    match name {
        "String" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "f32" | "f64" => json!({ "type": "number" }),
        _ => json!({ "type": "integer", "minimum": 0 }),
    }
}

/// An object by what it is when nothing is known: what is null there may be a number.
fn object(empty: &impl Serialize) -> Value {
    let value = serde_json::to_value(empty).unwrap_or_default();
    let fields = value.as_object().cloned().unwrap_or_default();
    let one = |(name, value): (String, Value)| (name, json!({ "type": kind_of(&value) }));
    json!({ "type": "object", "properties": fields.into_iter().map(one).collect::<Map<_, _>>() })
}

fn kind_of(value: &Value) -> Value {
    json!(match value {
        Value::Null => return json!(["number", "null"]),
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    })
}
