//! A trace in the forms of other tools.

mod chrome;
mod columns;
mod otlp;
mod plan;
mod schema;

pub use chrome::chrome;
pub use columns::csv;
pub use otlp::{RequestSpan, SpanValue, otlp, request_spans};
pub use plan::{dot, mermaid, plan_text};
pub use schema::schema;
