//! The form that a request asks its answers to have: read with the body, compiled beside the thread of HTTP.

use crate::error::ApiError;
use lamina::{Grammar, grammar::SchemaOptions};
use serde_json::Value;

/// A form, and the field that asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedForm {
    /// Path of the field.
    pub path: String,
    /// What it says.
    pub source: FormSource,
}

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum FormSource {
    /// A JSON object.
    Json,
    /// JSON of a schema.
    Schema {
        /// The schema.
        schema: Value,
        /// What cannot be enforced is left out.
        lenient: bool,
    },
    /// Text that a regular expression matches.
    Regex(String),
    /// One of these.
    Choice(Vec<String>),
    /// Text of a grammar: GBNF, or Lark.
    Grammar(String),
    /// Text with parts of a given form.
    Tag(Value),
}

impl WantedForm {
    /// JSON of a schema, all of which is enforced.
    pub fn schema(path: impl Into<String>, schema: Value) -> WantedForm {
        WantedForm { path: path.into(), source: FormSource::Schema { schema, lenient: false } }
    }

    /// The grammar. It may take a while: up to a second for the largest.
    ///
    /// # Errors
    /// When it is broken or cannot be enforced; the error names the field, and the place in it.
    pub fn compile(&self) -> Result<Grammar, ApiError> {
        let made = match &self.source {
            FormSource::Json => Grammar::json(),
            FormSource::Schema { schema, lenient } => {
                let options = SchemaOptions { lenient: *lenient, ..SchemaOptions::default() };
                Grammar::json_schema(schema, options)
            }
            FormSource::Regex(pattern) => Grammar::regex(pattern),
            FormSource::Choice(choices) => Grammar::choice(choices),
            FormSource::Grammar(text) => Grammar::parse(text),
            FormSource::Tag(tag) => Grammar::structural_tag(tag),
        };
        made.map_err(|e| ApiError::at(&self.path, format!("{}: {e}", self.path)))
    }
}
