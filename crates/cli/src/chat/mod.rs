//! A conversation with a model: lines in, answers and reports out.

mod answer;
mod input;
mod session;
mod slash;
mod template;

pub use session::Session;
pub use template::Template;

use crate::{
    error::{CliError, Result},
    interrupt,
    output::note,
};
use input::LineSource;
use lamina::{GenerateOptions, Model};

/// A running conversation.
pub struct ChatLoop {
    model: Model,
    template: Template,
    session: Session,
    options: GenerateOptions,
    stats: bool,
    /// Something went wrong in a conversation that nobody watches.
    failed: bool,
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Quit,
}

impl ChatLoop {
    /// A conversation that has not begun.
    pub fn new(
        model: Model,
        template: Template,
        session: Session,
        options: GenerateOptions,
        stats: bool,
    ) -> ChatLoop {
        ChatLoop { model, template, session, options, stats, failed: false }
    }

    /// Reads and answers until the user quits.
    ///
    /// # Errors
    /// When stdin or stdout fail; when stdin is no terminal, also at the end if anything was refused, so that scripts
    /// learn of it.
    pub fn run(mut self) -> Result<()> {
        let mut input = LineSource::open()?;
        self.greet(&input);
        while let Some(message) = input.read()? {
            match self.take(&message) {
                Ok(Flow::Next) => {}
                Ok(Flow::Quit) => break,
                Err(e @ (CliError::Output(_) | CliError::Terminal(_))) => return Err(e),
                Err(e) => {
                    e.tell();
                    self.failed = true;
                }
            }
        }
        interrupt::set(interrupt::On::Exit);
        input.close();
        if self.failed && !input.is_terminal() { Err(CliError::Told) } else { Ok(()) }
    }

    fn greet(&self, input: &LineSource) {
        let info = self.model.info();
        if input.is_terminal() {
            let size = info.params as f64 / 1e6;
            let model = format!("{} ({}, {size:.1} M parameters)", info.path, info.type_name);
            note(&format!("{model}, context {} tokens", info.context));
            note("/help lists the commands; Ctrl-C stops an answer; Ctrl-D quits");
        }
        self.template.note();
    }

    /// One message or command.
    fn take(&mut self, message: &str) -> Result<Flow> {
        match slash::parse(message)? {
            slash::Said::Nothing => Ok(Flow::Next),
            slash::Said::Command(command, rest) => (command.run)(self, rest),
            slash::Said::Message(text) => {
                self.session.ask(text);
                self.answer()
            }
        }
    }
}
