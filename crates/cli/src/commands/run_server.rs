//! `lamina run --server`.

use super::{ask::Ask, run::RunArgs};
use crate::{
    error::Result,
    input::{piped, text_of},
    output::{self, note, watched},
    remote::{self, RemoteServer},
};
use std::ffi::OsString;

impl Ask for RunArgs {
    type Flags = ();
    const LOCAL: &'static [&'static str] = &["ids", "image", "lora"];

    fn ask(self, server: RemoteServer, (): ()) -> Result<()> {
        let (model, prompt) = name_and_text(self.model, self.prompt)?;
        let mut wanted = self.generate.wanted();
        (wanted.options.n, wanted.options.echo) = (self.n, self.echo);
        let fields = wanted.fields();
        remote::runtime()?.block_on(async {
            let model = server.model(model).await?;
            if self.json {
                return output::json(&remote::complete_whole(&server, model, &prompt, fields).await?);
            }
            if self.n > 1 {
                return remote::write_texts(&remote::complete_whole(&server, model, &prompt, fields).await?);
            }
            let line = remote::complete(&server, model, &prompt, fields).await?;
            if self.stats || watched() {
                note(&line);
            }
            Ok(())
        })
    }
}

/// The arguments `[MODEL] PROMPT` where the model is a server's: its name is no path, so a lone argument is the prompt.
fn name_and_text(first: Option<OsString>, second: Option<OsString>) -> Result<(Option<String>, String)> {
    match (first, second) {
        (None, _) => Ok((None, piped("PROMPT")?)),
        (Some(text), None) => Ok((None, text_of(&text, "PROMPT")?)),
        (Some(name), Some(text)) => Ok((Some(text_of(&name, "MODEL")?), text_of(&text, "PROMPT")?)),
    }
}
