//! A conversation with a model: lines in, answers and reports out.

mod answer;
#[cfg(feature = "editor")]
mod editor;
mod input;
mod lines;
mod local;
mod message_file;
pub mod partner;
mod printer;
mod session;
mod slash;
mod template;

pub use local::Local;
pub use partner::Partner;
pub use printer::AnswerPrinter;
pub use session::Session;
pub use template::Template;

use crate::{
    args::Wanted,
    error::{CliError, Result},
    exit::FAILED,
    interrupt,
    output::note,
};
use input::{LineEditor, LineSource};
use message_file::{MessageFile, dropped_file};
use std::path::PathBuf;

/// A running conversation.
pub struct ChatLoop {
    partner: Box<dyn Partner>,
    session: Session,
    wanted: Wanted,
    /// Pictures and sounds that the next message has.
    files: Vec<MessageFile>,
    stats: bool,
    /// Where the conversation is saved at its end.
    file: Option<PathBuf>,
    /// Something went wrong in a conversation that nobody watches.
    failed: bool,
}

/// A line editor on stdin and stdout, which are terminals; none in builds without one.
fn line_editor() -> Result<Option<Box<dyn LineEditor>>> {
    #[cfg(feature = "editor")]
    let editor: Option<Box<dyn LineEditor>> = Some(Box::new(editor::Terminal::open()?));
    #[cfg(not(feature = "editor"))]
    let editor = None;
    Ok(editor)
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Quit,
}

impl ChatLoop {
    /// A conversation that has not begun.
    pub fn new(partner: Box<dyn Partner>, session: Session, wanted: Wanted, stats: bool) -> ChatLoop {
        ChatLoop { partner, session, wanted, files: vec![], stats, file: None, failed: false }
    }

    /// The same, saved in `file` at its end.
    pub fn saved_in(self, file: Option<PathBuf>) -> ChatLoop {
        ChatLoop { file, ..self }
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
                    e.print_line();
                    self.failed = true;
                }
            }
        }
        interrupt::set(interrupt::On::Exit);
        input.close();
        self.file.iter().try_for_each(|file| self.partner.save(&self.session, file))?;
        if self.failed && !input.is_terminal() { Err(CliError::Reported(FAILED)) } else { Ok(()) }
    }

    fn greet(&self, input: &LineSource) {
        if input.is_terminal() {
            self.partner.about().iter().for_each(|line| note(line));
            note("/help lists the commands; Ctrl-C stops an answer; Ctrl-D quits");
        }
        self.partner.warning().into_iter().for_each(note);
    }

    /// One message or command.
    fn take(&mut self, message: &str) -> Result<Flow> {
        if let Some(file) = dropped_file(message).filter(|file| self.partner.takes(file.kind)) {
            return self.show(file);
        }
        match slash::parse(message)? {
            slash::InputLine::Nothing => Ok(Flow::Next),
            slash::InputLine::Command(command, rest) => (command.run)(self, rest),
            slash::InputLine::Message(text) if self.files.is_empty() => {
                self.session.ask(text);
                self.answer()
            }
            slash::InputLine::Message(text) => {
                self.session.show(&self.files, text);
                let flow = self.answer()?;
                self.files.clear();
                Ok(flow)
            }
        }
    }

    /// The next message has the picture or sound of `file`.
    fn show(&mut self, file: MessageFile) -> Result<Flow> {
        note(&self.partner.look(&file)?);
        self.files.push(file);
        Ok(Flow::Next)
    }
}
