//! The chat template of a conversation: the user's, the model's, or a plain one for models that have none.

use crate::{error::Result, input::file_text};
use lamina::{ChatOptions, DefaultTemplate, Model};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A template with what belongs to it.
pub struct Template {
    /// For the library.
    pub options: ChatOptions,
    /// What the user should know of it.
    pub note: Option<String>,
    /// Texts that end an answer, where the format has no token for it.
    pub stop: &'static [&'static str],
}

/// What `plain` begins a message of the user with: a base model goes on with it by itself.
const PLAIN_STOP: &[&str] = &["\nUser:"];

impl Template {
    /// The source of a template from the command line: a file, or the name of a common format.
    pub fn read(given: &str) -> Result<String> {
        match DefaultTemplate::named(given) {
            Some(format) if !Path::new(given).exists() => Ok(format.source().to_owned()),
            _ => file_text(Path::new(given)),
        }
    }

    /// The template for `model`; `given` is the source of another one than its own.
    pub fn of(model: &Model, given: Option<String>, variables: Map<String, Value>) -> Result<Template> {
        let tokenizer = model.need_tokenizer()?;
        let missing = given.is_none() && tokenizer.chat_templates().is_empty();
        let fallback = missing.then(|| DefaultTemplate::of_tokenizer(tokenizer));
        let about = |format: DefaultTemplate| {
            format!("this model has no chat template: `{}` is used, and answers may be poor", format.name())
        };
        let plain = DefaultTemplate::Plain;
        let is_plain = fallback == Some(plain) || given.as_deref() == Some(plain.source());
        let template = Template {
            options: ChatOptions { template: given, variables, ..ChatOptions::default() },
            note: fallback.map(about),
            stop: if is_plain { PLAIN_STOP } else { &[] },
        };
        template.probe(model)?;
        Ok(template)
    }

    /// A template of the user's that does not compile is refused now and not after the first message.
    fn probe(&self, model: &Model) -> Result<()> {
        if self.options.template.is_some() {
            model.apply_chat_template(&[json!({"role": "user", "content": "?"})], &self.options)?;
        }
        Ok(())
    }
}
