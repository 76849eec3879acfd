//! What a command writes: answers and reports to stdout as they are, notes to stderr.

use crate::error::Result;
use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use serde_json::Value;
use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

/// Writes `text` to stdout as it is, at once.
pub fn text(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes `text` to stdout in a fainter colour, for people only: it is no part of the answer.
pub fn aside(text: &str) -> Result<()> {
    match io::stdout().is_terminal() {
        true => self::text(&paint(Style::new().dimmed(), text, &io::stdout())),
        false => Ok(()),
    }
}

/// Text on stdout whose last line is ended at last. It remembers whether it is.
#[derive(Debug, Default)]
pub struct LineEnd {
    open: bool,
}

impl LineEnd {
    /// Writes `text` as it is.
    pub fn write(&mut self, text: &str) -> Result<()> {
        if let Some(last) = text.chars().last() {
            self.open = last != '\n';
            self::text(text)?;
        }
        Ok(())
    }

    /// Ends the last line.
    pub fn finish(self) -> Result<()> {
        text(if self.open { "\n" } else { "" })
    }
}

/// Writes one JSON object as one line.
pub fn json(value: &Value) -> Result<()> {
    text(&format!("{value}\n"))
}

/// A line on stderr that is no part of the result.
pub fn note(text: &str) {
    let line = paint(Style::new().dimmed(), &printable(text), &io::stderr());
    // Who closes stderr wants no notes.
    let _ = writeln!(io::stderr(), "{line}");
}

/// True when a person watches stderr.
pub fn watched() -> bool {
    io::stderr().is_terminal()
}

/// `text` in bold where stdout is a terminal with colours.
pub fn bold(text: &str) -> String {
    paint(Style::new().bold(), text, &io::stdout())
}

fn paint(style: Style, text: &str, stream: &impl anstream::stream::RawStream) -> String {
    match AutoStream::choice(stream) {
        ColorChoice::Never => text.to_owned(),
        _ => format!("{style}{text}{style:#}"),
    }
}

/// `text` on one line and without characters that command a terminal: names and messages come from files of strangers.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(printable("naïve 你好"), "naïve 你好");
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable("\u{9b}31m"), "\\u{9b}31m");
    }
}
