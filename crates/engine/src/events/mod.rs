//! What leaves the engine: events, the text of tokens, and where they go.

pub(crate) mod outbox;
pub(crate) mod output;
pub(crate) mod sink;
pub(crate) mod text;
