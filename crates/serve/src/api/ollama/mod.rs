//! Ollama's API under `/api`.

mod answer_render;
mod chat;
mod embed;
mod fields;
mod generate;
mod library;
mod list;
mod request;
mod words;

#[cfg(test)]
pub use {
    answer_render::{AnswerForm, AnswerRenderer},
    words::ReplyHead,
};

#[cfg(test)]
use crate::body::FieldTable;
use crate::{
    app::App,
    call::{HttpCall, delete, get, post},
    dialect::Dialect,
    error::ApiError,
};
use axum::{Router, response::Response};

/// Fields of all bodies.
#[cfg(test)]
pub const TABLES: &[&FieldTable] = &[
    &fields::GENERATE,
    &fields::CHAT,
    &fields::EMBED,
    &fields::EMBEDDINGS,
    &fields::SHOW,
    &fields::PULL,
    &fields::DELETE,
    &fields::REQUEST_OPTIONS,
];

/// The routes of this dialect.
pub fn routes() -> Router<App> {
    let dialect = Dialect::Ollama;
    Router::new()
        .route("/api/generate", post(dialect, generate::generate))
        .route("/api/chat", post(dialect, chat::chat))
        .route("/api/embed", post(dialect, embed::embed))
        .route("/api/embeddings", post(dialect, embed::embeddings))
        .route("/api/show", post(dialect, list::show))
        .route("/api/tags", get(dialect, list::tags))
        .route("/api/ps", get(dialect, list::ps))
        .route("/api/version", get(dialect, list::version))
        .route("/api/pull", post(dialect, library::pull))
        .route("/api/push", post(dialect, not_here))
        .route("/api/create", post(dialect, not_here))
        .route("/api/copy", post(dialect, not_here))
        .route("/api/delete", delete(dialect, library::delete))
        .route("/api/blobs/{digest}", post(dialect, not_here).merge(get(dialect, not_here)))
}

/// What makes models: here files are given to the server when it starts, or fetched.
async fn not_here(_: HttpCall) -> Result<Response, ApiError> {
    Err(ApiError::unsupported(
        "this server makes no models: give it files when it starts (another name is --alias), a folder with --models-dir, or \
         let it fetch them with --allow-pull",
    ))
}
