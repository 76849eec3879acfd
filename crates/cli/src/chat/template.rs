//! The chat template of a conversation: the user's, the model's, or a plain one for models that have none.

use crate::{
    error::{CliError, Result},
    input::file_text,
    output::note,
};
use lamina::{ChatOptions, DefaultTemplate, Model};
use serde_json::{Map, Value};
use std::path::Path;

/// A template with what belongs to it.
pub struct Template {
    /// For the library.
    pub options: ChatOptions,
    /// What the user should know of it.
    note: Option<String>,
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
        let (mut stop, mut note): (&[&str], _) = (&[], None);
        let fallback = DefaultTemplate::of_tokenizer(tokenizer);
        if given.is_none() && tokenizer.chat_templates().is_empty() {
            let name = fallback.name();
            note =
                Some(format!("this model has no chat template: `{name}` is used, and answers may be poor"));
        }
        let plain = DefaultTemplate::Plain.source();
        let missing = given.is_none() && note.is_some() && fallback == DefaultTemplate::Plain;
        if missing || given.as_deref() == Some(plain) {
            stop = PLAIN_STOP;
        }
        let options = ChatOptions { template: given, variables, ..ChatOptions::default() };
        // A template that does not compile is refused now and not after the first message.
        let probe = [serde_json::json!({"role": "user", "content": "?"})];
        let compiled = model.apply_chat_template(&probe, &options);
        if let Err(e) = compiled.as_ref().map(drop).map_err(|e| e.clone()).map_err(CliError::from)
            && options.template.is_some()
        {
            return Err(e);
        }
        Ok(Template { options, note, stop })
    }

    /// Says what the user should know.
    pub fn note(&self) {
        self.note.iter().for_each(|n| note(n));
    }
}
