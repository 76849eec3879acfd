//! llama-server's own ways to steer sampling.

use crate::{
    body::{Body, kind, typed},
    error::ApiError,
    models::Lease,
};
use lamina::{
    Special,
    sample::{SamplingParams, fresh_seed},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes of a text whose tokens are biased at most.
const MOST_BIASED: usize = 1024;

/// Names of a sampler.
type Names = &'static [&'static str];
/// Parameters with which it does nothing.
type Neutral = &'static [(&'static str, f64)];

/// What llama-server calls a sampler, and the parameters with which it does nothing.
const SAMPLERS: &[(Names, Neutral)] = &[
    (&["penalties"], &[("repeat_penalty", 1.0), ("presence_penalty", 0.0), ("frequency_penalty", 0.0)]),
    (&["dry"], &[("dry_multiplier", 0.0)]),
    (&["top_n_sigma"], &[("top_n_sigma", -1.0)]),
    (&["top_k"], &[("top_k", 0.0)]),
    (&["typ_p", "typical_p"], &[("typical_p", 1.0)]),
    (&["top_p"], &[("top_p", 1.0)]),
    (&["min_p"], &[("min_p", 0.0)]),
    (&["xtc"], &[("xtc_probability", 0.0)]),
    (&["temperature", "temp"], &[("temperature", 1.0)]),
];

/// Of gaps in code: of tokens that begin alike the shortest. Editors ask for it behind top_k and top_p.
const INFILL: &str = "infill";

/// Switches off the samplers that a list does not name; their order is ours.
pub fn samplers(body: &mut Body, sampling: &mut SamplingParams) -> Result<(), ApiError> {
    let Some(mut list) = body.take::<Vec<String>>("samplers")? else { return Ok(()) };
    if list.iter().any(|name| name == INFILL) {
        list.retain(|name| name != INFILL);
        body.ignore("samplers");
    }
    if let Some(i) =
        list.iter().position(|name| !SAMPLERS.iter().any(|(names, _)| names.contains(&name.as_str())))
    {
        let known: Vec<_> = SAMPLERS.iter().map(|(names, _)| names[0]).collect();
        let text = format!("samplers[{i}] is unknown; known: {}", known.join(" "));
        return Err(ApiError::at(format!("samplers[{i}]"), text));
    }
    let off = SAMPLERS.iter().filter(|(names, _)| !list.iter().any(|n| names.contains(&n.as_str())));
    for (name, value) in off.flat_map(|(_, params)| params.iter()) {
        sampling.set(name, *value).map_err(|e| ApiError::at("samplers", e.to_string()))?;
    }
    Ok(())
}

/// A seed that the answer can tell.
pub fn known_seed(sampling: &mut SamplingParams) {
    sampling.draw.seed.get_or_insert_with(|| (fresh_seed() >> 1) as i64);
}

/// Biases as llama-server takes them: `[[token, bias]]`, where a token is an id or a text (each of its tokens), and
/// `false` means never; or OpenAI's object.
pub fn logit_bias(body: &mut Body, lease: &Lease) -> Result<Option<BTreeMap<u32, f32>>, ApiError> {
    let pairs: Vec<(Value, Value)> = match body.value("logit_bias") {
        None => return Ok(None),
        Some(Value::Array(list)) => typed(Value::Array(list), "logit_bias")?,
        Some(Value::Object(map)) => map
            .into_iter()
            .map(|(key, bias)| (key.parse::<u32>().map_or(Value::String(key), Value::from), bias))
            .collect(),
        Some(other) => {
            let text = format!("logit_bias is {}, but must be a list of pairs or an object", kind(&other));
            return Err(ApiError::at("logit_bias", text));
        }
    };
    let mut biases = BTreeMap::new();
    for (i, (token, bias)) in pairs.iter().enumerate() {
        let path = format!("logit_bias[{i}]");
        let wrong = |what: &str| ApiError::at(&path, format!("{path}: {what}"));
        let bias = match bias {
            Value::Bool(false) => f32::NEG_INFINITY,
            other => other.as_f64().ok_or_else(|| wrong("a bias must be a number or false"))? as f32,
        };
        match token {
            Value::String(text) => {
                if text.len() > MOST_BIASED {
                    return Err(wrong(&format!("a text must have {MOST_BIASED} bytes at most")));
                }
                let tokens = lease.live.model.tokenize(text, Special::PARSE)?;
                biases.extend(tokens.into_iter().map(|id| (id, bias)));
            }
            other => {
                let id = other.as_u64().and_then(|id| u32::try_from(id).ok());
                biases.insert(id.ok_or_else(|| wrong("a token must be an id or a text"))?, bias);
            }
        }
    }
    Ok(Some(biases))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sampler_can_be_switched_off() {
        let mut sampling = SamplingParams::default();
        for (name, value) in SAMPLERS.iter().flat_map(|(_, params)| params.iter()) {
            sampling.set(name, *value).unwrap();
        }
        sampling.check().unwrap();
    }
}
