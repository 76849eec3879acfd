//! What a request was answered with, as llama-server tells it.

use crate::run::Wishes;
use lamina::sample::{Kind, Param, SamplingParams, Value as SampleValue, params};
use serde_json::{Map, Value, json};

/// A value of a parameter as JSON.
pub fn plain(value: SampleValue) -> Value {
    match value {
        SampleValue::None => Value::Null,
        SampleValue::Int(n) => json!(n),
        SampleValue::Float(x) => json!(x),
        SampleValue::Strings(list) => json!(list),
        // -inf is `false` here, as in requests.
        SampleValue::Biases(map) => map
            .into_iter()
            .map(|(id, b)| json!([id, if b.is_finite() { json!(b) } else { json!(false) }]))
            .collect(),
    }
}

/// Every sampling parameter by its name.
pub fn sampling(sampling: &SamplingParams) -> Map<String, Value> {
    let value = |p: &Param| match sampling.get(p.name) {
        Ok(SampleValue::Int(on)) if p.is_switch() => json!(on == 1),
        value => value.map_or(Value::Null, plain),
    };
    params().map(|p| (p.name.to_owned(), value(p))).collect()
}

/// All settings of a request.
pub fn of_request(wishes: &Wishes, stream: bool) -> Value {
    let generate = &wishes.generate;
    let mut settings = sampling(&generate.sampling);
    let most = generate.max_tokens.map_or(json!(-1), |n| json!(n));
    settings.insert("n_predict".into(), most.clone());
    settings.insert("max_tokens".into(), most);
    settings.insert("stop".into(), json!(generate.stop));
    settings.insert("ignore_eos".into(), json!(generate.ignore_eos));
    settings.insert("stream".into(), json!(stream));
    settings.insert("lora".into(), json!(wishes.lora));
    Value::Object(settings)
}

/// The parameters with their kinds and ranges: what a page draws its form from.
pub fn described() -> Vec<Value> {
    let finite = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    params()
        .map(|p| {
            json!({
                "name": p.name,
                "aliases": p.aliases,
                "kind": match p.kind {
                    Kind::Float => "float",
                    Kind::Int => "int",
                    Kind::OptionalInt => "optional_int",
                    Kind::Strings => "strings",
                    Kind::Biases => "biases",
                },
                "default": plain((p.default)()),
                "min": finite(*p.range.start()),
                "max": finite(*p.range.end()),
                "doc": p.doc,
            })
        })
        .collect()
}
