//! POST /embedding: vectors, as llama-server writes them.

use crate::{
    body::{FieldTable, taken},
    call::{HttpCall, json_response},
    error::ApiError,
    run,
};
use axum::response::Response;
use lamina::Pooled;
use serde_json::{Value, json};

/// Fields of the body.
pub const EMBEDDING: FieldTable = FieldTable {
    name: "POST /embedding",
    sampling: false,
    fields: &[
        taken("content", "a text, token ids, or a list of these"),
        taken("input", "the same"),
        taken("model", "name of the model"),
        taken(
            "embd_normalize",
            "-1: none, 0: largest is 32760, 1: taxicab, 2: length one [default], above: that norm",
        ),
        taken("encoding_format", "float"),
    ],
    also: &[],
};

/// The handler.
pub async fn embedding(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&EMBEDDING).await?;
    let lease = call.model(&mut body).await?;
    let norm = body.take("embd_normalize")?.unwrap_or(2);
    if body.take::<String>("encoding_format")?.is_some_and(|f| f != "float") {
        return Err(ApiError::at(
            "encoding_format",
            "encoding_format must be float here; /v1/embeddings has base64",
        ));
    }
    let name = if body.has("content") { "content" } else { "input" };
    let input = body.value(name).ok_or_else(|| ApiError::at("content", "content is missing"))?;
    call.finish(body);
    let prompts = call.prompts(&lease, input, name).await?;
    let pools = run::vectors(&lease, prompts, &call.terms()).await?;
    let entry =
        |(index, pool): (usize, &Pooled)| json!({ "index": index, "embedding": [normed(pool, norm)] });
    Ok(json_response(&pools.iter().enumerate().map(entry).collect::<Value>()))
}

/// A vector by llama-server's numbers for norms.
fn normed(pool: &Pooled, norm: i32) -> Vec<f32> {
    let row = match norm {
        2 => return pool.unit(),
        _ => pool.row(),
    };
    let length = match norm {
        n if n < 0 => return row,
        0 => row.iter().fold(0.0f64, |max, x| max.max(f64::from(x.abs()))) / 32760.0,
        p => row.iter().map(|x| f64::from(x.abs()).powi(p)).sum::<f64>().powf(1.0 / f64::from(p)),
    };
    row.iter().map(|x| if length > 0.0 { (f64::from(*x) / length) as f32 } else { 0.0 }).collect()
}
