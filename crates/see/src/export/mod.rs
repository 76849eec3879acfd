//! A trace in the forms of other tools.

mod chrome;
mod columns;
mod otlp;
mod plan;
mod protobuf;
mod schema;
mod spans;

pub use chrome::chrome;
pub use columns::csv;
pub use otlp::{OtlpProtocol, otlp};
pub use plan::{dot, mermaid, plan_text};
pub use schema::{event_names, schema};
pub use spans::{RequestSpan, SpanValue, request_spans};
