//! Schemas, grammars and tools, by the texts that they allow.

mod hostile;
mod patterns;
mod schema;
mod texts;
mod tools;
