//! `lamina chat`: a conversation.

use super::Execute;
use crate::{
    args::{GenerateArgs, LoadArgs, LoraArgs, ToolArgs},
    chat::{ChatLoop, Local, Partner, Session, Template},
    error::Result,
};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Talk with a model
///
/// A line that ends with a backslash goes on in the next one; so does text between two """. /help lists the commands.
/// Ctrl-C stops an answer, Ctrl-D quits. Without a terminal each line of stdin is a message, and stdout has the answers.
#[derive(clap::Args)]
pub struct ChatArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    pub(super) model: Option<PathBuf>,
    /// System prompt: who the model is to be
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Conversation to go on with, if the file is there; at the end it is saved there, with what was computed of it
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    /// Chat template instead of the model's own: a Jinja file, or chatml llama2 zephyr vicuna alpaca plain
    #[arg(long, value_name = "FILE")]
    template: Option<String>,
    /// Further variables of the template as a JSON object, such as '{"enable_thinking": false}'
    #[arg(long, value_name = "JSON", value_parser = object, default_value = "{}", alias = "chat-template-kwargs")]
    pub(super) template_variables: Map<String, Value>,
    /// Write counts and speeds to stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    pub(super) tools: ToolArgs,
    #[command(flatten)]
    generate: GenerateArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    lora: LoraArgs,
}

fn object(text: &str) -> std::result::Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(text)
}

impl Execute for ChatArgs {
    const NAME: &'static str = "chat";

    fn execute(self) -> Result<()> {
        let partner = Box::new(self.local()?);
        self.talk(partner)
    }
}

impl ChatArgs {
    /// The conversation with `partner`.
    pub(super) fn talk(self, partner: Box<dyn Partner>) -> Result<()> {
        let mut session = match self.session.as_deref().filter(|file| file.exists()) {
            Some(file) => partner.restore(file)?,
            None => Session::default(),
        };
        if let Some(system) = &self.system {
            session.set_system(system);
        }
        ChatLoop::new(partner, session, self.generate.wanted(), self.stats).saved_in(self.session).run()
    }

    fn local(&self) -> Result<Local> {
        let given = self.template.as_deref().map(Template::read).transpose()?;
        let model = self.lora.load(self.model.as_deref(), self.load.options())?;
        let mut template = Template::of(&model, given, self.template_variables.clone())?;
        self.tools.apply(&mut template.options);
        Ok(Local { model, template })
    }
}
