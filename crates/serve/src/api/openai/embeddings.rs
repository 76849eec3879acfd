//! POST /v1/embeddings.

use super::words::USER;
use crate::{
    body::{FieldTable, taken},
    call::{HttpCall, json_response},
    error::ApiError,
    run,
};
use axum::response::Response;
use base64::{Engine, prelude::BASE64_STANDARD};
use lamina::Pooled;
use serde::Deserialize;
use serde_json::{Value, json};

/// Fields of the body.
pub const EMBEDDINGS: FieldTable = FieldTable {
    name: "POST /v1/embeddings",
    sampling: false,
    fields: &[
        taken("input", "a text, token ids, or a list of these"),
        taken("model", "name of the model or of an adapter"),
        taken("encoding_format", "float or base64: little-endian 32-bit numbers"),
        taken("dimensions", "so many numbers of each vector, which is of length one again"),
        USER,
    ],
    also: &[],
};

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum VectorEncoding {
    #[default]
    Float,
    Base64,
}

/// The handler.
pub async fn embeddings(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&EMBEDDINGS).await?;
    let lease = call.model(&mut body).await?;
    let encoding: VectorEncoding = body.take("encoding_format")?.unwrap_or_default();
    let width = lease.live.model.info().hidden;
    let dimensions = body.take("dimensions")?.unwrap_or(width);
    if !(1..=width).contains(&dimensions) {
        let text = format!("dimensions is {dimensions}, but must be from 1 to {width}");
        return Err(ApiError::at("dimensions", text));
    }
    let input = body.value("input").ok_or_else(|| ApiError::at("input", "input is missing"))?;
    call.finish(body);
    let prompts = call.prompts(&lease, input, "input").await?;
    let tokens: usize = prompts.iter().map(Vec::len).sum();
    let pools = run::vectors(&lease, prompts, &call.terms()).await?;
    let entry = |(index, pool): (usize, &Pooled)| {
        let vector = encoded(&run::shortened(pool.unit(), dimensions), &encoding);
        json!({ "object": "embedding", "index": index, "embedding": vector })
    };
    Ok(json_response(&json!({
        "object": "list",
        "data": pools.iter().enumerate().map(entry).collect::<Vec<_>>(),
        "model": lease.name(),
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}

fn encoded(vector: &[f32], encoding: &VectorEncoding) -> Value {
    match encoding {
        VectorEncoding::Float => json!(vector),
        VectorEncoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            json!(BASE64_STANDARD.encode(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_cut_to_length_one_and_encoded() {
        assert_eq!(run::shortened(vec![3.0, 4.0, 12.0], 2), [0.6, 0.8]);
        assert_eq!(run::shortened(vec![0.0, 1.0], 2), [0.0, 1.0]);
        assert_eq!(encoded(&[1.0, -2.0], &VectorEncoding::Base64), "AACAPwAAAMA=");
    }
}
