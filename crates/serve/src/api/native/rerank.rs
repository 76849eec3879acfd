//! POST /rerank: documents by how well they answer a query, as Jina, Cohere and llama-server write it, or as TEI does.

use crate::{
    body::{Body, FieldTable, harmless, kind, refused, taken},
    call::{HttpCall, json_response, pooled},
    error::ApiError,
    run,
};
use axum::response::Response;
use serde_json::{Value, json};

/// Fields of the body.
pub const RERANK: FieldTable = FieldTable {
    name: "POST /rerank",
    sampling: false,
    fields: &[
        taken("query", "what is looked for"),
        taken("documents", "texts, or objects with a text"),
        taken("texts", "the same as TEI calls them: the answer is a list in TEI's form"),
        taken("top_n", "so many of the best"),
        taken("return_documents", "the texts come too"),
        taken("return_text", "the same as TEI calls it"),
        taken("raw_scores", "true: scores are logits; else they are from 0 to 1"),
        taken("truncate", "false: a pair that is too long is refused"),
        taken("model", "name of the model"),
        harmless("user", "nobody is told"),
        harmless("truncation_direction", "nothing is truncated"),
        refused("max_tokens_per_doc", "documents are not cut: send the part that counts"),
        refused("max_chunks_per_doc", "documents are not cut: send the part that counts"),
        refused("rank_fields", "give each document as a text"),
    ],
    also: &[],
};

/// What is told of each document.
struct RankingForm {
    top: usize,
    texts: bool,
    raw: bool,
    /// In TEI's form.
    tei: bool,
}

/// The handler.
pub async fn rerank(call: HttpCall) -> Result<Response, ApiError> {
    let mut body = call.body(&RERANK).await?;
    let query: String = body.need("query")?;
    let tei = body.has("texts");
    let documents = documents(&mut body)?;
    let top = body.take("top_n")?.unwrap_or(documents.len());
    if top == 0 {
        return Err(ApiError::at("top_n", "top_n is 0, but must be 1 or more"));
    }
    if body.take::<bool>("truncate")? == Some(true) {
        return Err(ApiError::at("truncate", "truncate true is not supported: a pair is never cut"));
    }
    let [documents_too, text_too, raw] =
        ["return_documents", "return_text", "raw_scores"].map(|name| body.take::<bool>(name));
    let texts = documents_too?.unwrap_or(false) || text_too?.unwrap_or(false);
    let ranking = RankingForm { top, texts, raw: raw?.unwrap_or(false), tei };
    let lease = call.model(&mut body).await?;
    call.finish(body);
    let (live, ask, terms, list) =
        (lease.live.clone(), run::may_ask(&lease), call.terms(), documents.clone());
    let sent = pooled(move || run::send_documents(&live, ask, &query, &list, &terms)).await?;
    let mut scores = Vec::with_capacity(sent.len());
    for document in &sent {
        scores.push(document.score().await?);
    }
    let tokens = sent.iter().map(run::SentDocument::tokens).sum();
    Ok(json_response(&ranking.body(&call, lease.name(), &documents, &scores, tokens)))
}

/// The documents, whatever they are called.
fn documents(body: &mut Body) -> Result<Vec<String>, ApiError> {
    let name = if body.has("texts") { "texts" } else { "documents" };
    let list: Vec<Value> = body.need(name)?;
    if name == "texts" && body.has("documents") {
        return Err(ApiError::at("texts", "texts and documents are the same: give one of them"));
    }
    if list.is_empty() || list.len() > run::MOST_DOCUMENTS {
        let text =
            format!("{name} has {} texts, but must have from 1 to {}", list.len(), run::MOST_DOCUMENTS);
        return Err(ApiError::at(name, text));
    }
    let text = |(i, item): (usize, Value)| {
        let path = format!("{name}[{i}]");
        match item {
            Value::String(text) => Ok(text),
            Value::Object(map) if map.get("text").is_some_and(Value::is_string) => {
                Ok(map["text"].as_str().unwrap_or_default().to_owned())
            }
            other => {
                let what = format!("{path} is {}, but must be a text or an object with a text", kind(&other));
                Err(ApiError::at(path, what))
            }
        }
    };
    list.into_iter().enumerate().map(text).collect()
}

impl RankingForm {
    fn body(
        &self,
        call: &HttpCall,
        model: &str,
        documents: &[String],
        scores: &[f64],
        tokens: usize,
    ) -> Value {
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // Stable: equal ones stay in their order.
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let entry = |&index: &usize| {
            let score = if self.raw { scores[index] } else { 1.0 / (1.0 + (-scores[index]).exp()) };
            let text = &documents[index];
            match (self.tei, self.texts) {
                (true, false) => json!({ "index": index, "score": score }),
                (true, true) => json!({ "index": index, "score": score, "text": text }),
                (false, false) => json!({ "index": index, "relevance_score": score }),
                (false, true) => {
                    json!({ "index": index, "relevance_score": score, "document": { "text": text } })
                }
            }
        };
        let results: Value = order.iter().take(self.top).map(entry).collect();
        if self.tei {
            return results;
        }
        json!({
            "id": &*call.id,
            "object": "list",
            "model": model,
            "results": results,
            "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        })
    }
}
