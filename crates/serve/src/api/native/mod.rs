//! What llama-server, vLLM and TEI have beside OpenAI's API.

mod completion;
mod completion_render;
mod debug;
mod embedding;
mod infill;
mod load;
mod lora;
mod rerank;
mod settings;
mod slot_action;
mod state;
mod steer;
mod text;

use crate::{
    app::App,
    call::{HttpCall, get, post},
    dialect::Dialect::Native,
    error::ApiError,
};
use axum::{Router, response::Response, routing::MethodRouter};
#[cfg(test)]
pub use completion_render::{NativeRenderer, Told};

/// Field tables of this dialect, for the documentation and its test.
#[cfg(test)]
pub const TABLES: &[&crate::body::FieldTable] = &[
    &completion::COMPLETION,
    &crate::call::SEEN_PROMPT,
    &infill::INFILL,
    &text::TOKENIZE,
    &text::DETOKENIZE,
    &text::TEMPLATE,
    &embedding::EMBEDDING,
    &rerank::RERANK,
    &load::MODEL,
    &slot_action::SLOT_ACTION,
    &debug::TRACE,
];

/// The routes that a gateway answers by itself.
pub fn recent_routes() -> Router<App> {
    Router::new().route("/debug/requests", get(Native, debug::requests))
}

/// The routes of this dialect.
pub fn routes() -> Router<App> {
    let lora = get(Native, lora::list).merge(post(Native, lora::set));
    let props = get(Native, state::props).merge(post(Native, not_here));
    [
        ("/completion", post(Native, completion::completion)),
        ("/completions", post(Native, completion::completion)),
        ("/infill", post(Native, infill::infill)),
        ("/tokenize", post(Native, text::tokenize)),
        ("/detokenize", post(Native, text::detokenize)),
        ("/apply-template", post(Native, text::apply_template)),
        ("/embedding", post(Native, embedding::embedding)),
        ("/embeddings", post(Native, embedding::embedding)),
        ("/props", props),
        ("/slots", get(Native, state::slots)),
        ("/slots/{id}", post(Native, slot_action::act)),
        ("/lora-adapters", lora),
        ("/debug/trace", post(Native, debug::trace)),
        ("/debug/trace/{id}", get(Native, debug::kept)),
        ("/models/load", post(Native, load::load)),
        ("/models/unload", post(Native, load::unload)),
        ("/rerank", post(Native, rerank::rerank)),
        ("/v1/rerank", post(Native, rerank::rerank)),
        ("/reranking", post(Native, rerank::rerank)),
        ("/v1/reranking", post(Native, rerank::rerank)),
        ("/v2/rerank", post(Native, rerank::rerank)),
    ]
    .into_iter()
    .fold(recent_routes(), |router, (path, method): (&str, MethodRouter<App>)| router.route(path, method))
}

async fn not_here(_: HttpCall) -> Result<Response, ApiError> {
    Err(ApiError::unsupported("this server has no such action: settings are made by requests"))
}
