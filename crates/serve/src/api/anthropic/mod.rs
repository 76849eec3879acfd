//! Anthropic's API: `/v1/messages` and `/v1/messages/count_tokens`.

mod conversation;
mod fields;
mod messages;
mod render;
mod words;

#[cfg(test)]
pub use render::MessageRenderer;

#[cfg(test)]
use crate::body::FieldTable;
use crate::{app::App, call::post, dialect::Dialect};
use axum::Router;

/// Fields of all bodies.
#[cfg(test)]
pub const TABLES: &[&FieldTable] = &[
    &fields::MESSAGES,
    &fields::COUNT,
    &fields::OUTPUT_CONFIG,
    &fields::FORMAT,
    &fields::CHOICE,
    &fields::THINKING_CONFIG,
];

/// The routes of this dialect.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/messages", post(Dialect::Anthropic, messages::messages))
        .route("/v1/messages/count_tokens", post(Dialect::Anthropic, messages::count_tokens))
}
