//! `lamina chat --server`.

use super::{ask::Ask, chat::ChatArgs};
use crate::{
    error::{CliError, Result},
    remote::{self, RemoteServer, ServerPartner},
};
use serde_json::{Map, Value};
use std::path::PathBuf;

impl Ask for ChatArgs {
    type Flags = ();
    const LOCAL: &'static [&'static str] = &["session", "template", "lora"];

    fn ask(self, server: RemoteServer, (): ()) -> Result<()> {
        let name = |path: &PathBuf| {
            let name = path.to_str().map(str::to_owned);
            name.ok_or_else(|| CliError::usage("MODEL is not valid UTF-8"))
        };
        let model = self.model.as_ref().map(name).transpose()?;
        let partner = ServerPartner::new(remote::runtime()?, server, model, self.fields())?;
        self.talk(Box::new(partner))
    }
}

impl ChatArgs {
    /// Tools, reasoning and variables of the template as a server takes them.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = self.tools.fields();
        if !self.template_variables.is_empty() {
            fields.insert("chat_template_kwargs".to_owned(), Value::Object(self.template_variables.clone()));
        }
        fields
    }
}
