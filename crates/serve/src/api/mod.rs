//! The dialects: each turns bodies into jobs, and writes answers in its words. None knows another.

mod anthropic;
#[cfg(test)]
#[path = "tests/both_ways/mod.rs"]
mod both_ways;
#[cfg(test)]
mod fields;
mod health;
mod metrics;
#[cfg(test)]
#[path = "tests/mutations.rs"]
mod mutations;
mod native;
mod ollama;
mod openai;
#[cfg(test)]
mod recorded;
mod root;
mod shared;
mod top;

pub use shared::{logprob, timings};

use crate::{
    app::App,
    call::{CallContext, refusal},
    dialect::Dialect,
    error::{ApiError, Cause},
};
use axum::{Router, extract::Request, response::Response};

/// Every route.
pub fn routes() -> Router<App> {
    Router::new()
        .merge(health::routes())
        .merge(metrics::routes())
        .merge(openai::routes())
        .merge(native::routes())
        .merge(anthropic::routes())
        .merge(ollama::routes())
        .merge(root::routes())
        .merge(top::routes())
        .fallback(no_path)
        .method_not_allowed_fallback(wrong_method)
}

/// The routes that a gateway answers by itself.
pub fn gateway_routes() -> Router<App> {
    Router::new()
        .merge(metrics::routes())
        .merge(native::recent_routes())
        .merge(top::routes())
        .merge(openai::kept_routes())
}

async fn no_path(request: Request) -> Response {
    let text = "there is nothing at this path";
    tell(&request, ApiError::new(Cause::NoPath, text))
}

async fn wrong_method(request: Request) -> Response {
    let text = format!("this path takes other methods than {}", request.method());
    tell(&request, ApiError::new(Cause::WrongMethod, text))
}

fn tell(request: &Request, error: ApiError) -> Response {
    let id = request.extensions().get::<CallContext>().map(|c| c.id.clone()).unwrap_or_default();
    refusal(&error, Dialect::of_path(request.uri().path()), &id)
}
