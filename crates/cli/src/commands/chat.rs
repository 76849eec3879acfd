//! `lamina chat`: a conversation.

use super::Execute;
use crate::{
    args::{GenerateArgs, LoadArgs, LoraArgs, ServerArgs, ToolArgs},
    chat::{ChatLoop, Local, Partner, Session, Template},
    error::{CliError, Result},
    remote::{self, RemoteServer, ServerPartner},
};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Talk with a model
///
/// A line that ends with a backslash goes on in the next one; so does text between two """. /help lists the commands.
/// Ctrl-C stops an answer, Ctrl-D quits. Without a terminal each line of stdin is a message, and stdout has the answers.
#[derive(clap::Args)]
pub struct ChatArgs {
    /// GGUF file or Hugging Face folder
    model: Option<PathBuf>,
    /// System prompt: who the model is to be
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Conversation to go on with, if the file is there; at the end it is saved there, with what was computed of it
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    session: Option<PathBuf>,
    /// Chat template instead of the model's own: a Jinja file, or chatml llama2 zephyr vicuna alpaca plain
    #[arg(long, value_name = "FILE")]
    template: Option<String>,
    /// Further variables of the template as a JSON object, such as '{"enable_thinking": false}'
    #[arg(long, value_name = "JSON", value_parser = object, default_value = "{}", alias = "chat-template-kwargs")]
    template_variables: Map<String, Value>,
    /// Write counts and speeds to stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    tools: ToolArgs,
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
        let partner: Box<dyn Partner> = match RemoteServer::named(&self.server)? {
            Some(server) => Box::new(self.on(server)?),
            None => Box::new(self.local()?),
        };
        let mut session = match self.session.as_deref().filter(|file| file.exists()) {
            Some(file) => partner.restore(file)?,
            None => Session::default(),
        };
        if let Some(system) = &self.system {
            session.set_system(system);
        }
        ChatLoop::new(partner, session, self.generate.wanted(), self.stats).saved_in(self.session).run()
    }
}

impl ChatArgs {
    fn local(&self) -> Result<Local> {
        let given = self.template.as_deref().map(Template::read).transpose()?;
        let model = self.lora.load(self.model.as_deref(), self.load.options())?;
        let mut template = Template::of(&model, given, self.template_variables.clone())?;
        self.tools.apply(&mut template.options);
        Ok(Local { model, template })
    }

    fn on(&self, server: RemoteServer) -> Result<ServerPartner> {
        if self.template.is_some() || self.lora.any() {
            return Err(CliError::usage("--template and --lora need a model on this machine"));
        }
        let name = |path: &PathBuf| {
            let name = path.to_str().map(str::to_owned);
            name.ok_or_else(|| CliError::usage("MODEL is not valid UTF-8"))
        };
        let model = self.model.as_ref().map(name).transpose()?;
        let mut fields = self.tools.fields();
        if !self.template_variables.is_empty() {
            fields.insert("chat_template_kwargs".to_owned(), Value::Object(self.template_variables.clone()));
        }
        ServerPartner::new(remote::runtime()?, server, model, fields)
    }
}
