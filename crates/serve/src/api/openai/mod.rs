//! OpenAI's API.

mod beams;
mod chat;
mod chat_render;
mod chat_words;
mod completion_render;
mod completions;
mod embeddings;
mod list;
mod response_input;
mod response_items;
mod response_render;
mod responses;
mod tools;
mod words;

use crate::{
    app::App,
    call::{delete, get, post},
    dialect::Dialect,
};
use axum::Router;
#[cfg(test)]
pub use {
    chat_render::ChatRenderer,
    completion_render::CompletionRenderer,
    response_items::Echoing,
    response_render::ResponseRenderer,
    words::{AnswerHead, StreamUsage},
};

/// Field tables of this dialect, for the documentation and its test.
#[cfg(test)]
pub const TABLES: &[&crate::body::FieldTable] = &[
    &chat::CHAT,
    &chat::STREAM,
    &tools::CHOICE,
    &tools::CHOSEN,
    &crate::call::FORMAT,
    &crate::call::NAMED_SCHEMA,
    &completions::COMPLETION,
    &embeddings::EMBEDDINGS,
    &responses::RESPONSES,
    &responses::TEXT,
    &responses::REASONING,
];

/// The routes of this dialect.
pub fn routes() -> Router<App> {
    let mut router = Router::new();
    for path in ["/v1/chat/completions", "/chat/completions"] {
        router = router.route(path, post(Dialect::OpenAi, chat::chat));
    }
    router = router.route("/v1/completions", post(Dialect::OpenAi, completions::completions));
    router = router.route("/v1/embeddings", post(Dialect::OpenAi, embeddings::embeddings));
    for path in ["/v1/models", "/models"] {
        router = router.route(path, get(Dialect::OpenAi, list::models));
    }
    router
        .merge(kept_routes())
        .route("/v1/models/{id}", get(Dialect::OpenAi, list::model))
        .route("/v1/responses", post(Dialect::OpenAi, responses::create))
        .route("/v1/responses/input_tokens", post(Dialect::OpenAi, responses::input_tokens))
}

/// The routes of answers that are kept.
pub fn kept_routes() -> Router<App> {
    let kept = get(Dialect::OpenAi, responses::retrieve).merge(delete(Dialect::OpenAi, responses::remove));
    Router::new()
        .route("/v1/responses/{id}", kept)
        .route("/v1/responses/{id}/input_items", get(Dialect::OpenAi, responses::input_items))
}
