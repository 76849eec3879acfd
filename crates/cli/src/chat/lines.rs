//! Messages in lines: a backslash at the end of a line, or a fence of quotes, lets a message go on.

use crate::input::cut_line_end;
use std::io::{self, BufRead};

/// Begins and ends a message of several lines.
const FENCE: &str = "\"\"\"";

/// Lines up to a complete message; none at the end.
///
/// # Errors
/// When they cannot be read or are no text.
pub fn read_lines(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        let ended = lines.read_line(&mut line)? == 0;
        if ended && text.is_empty() {
            return Ok(None);
        }
        text += &line;
        cut_line_end(&mut text);
        if ended || is_complete(&text) {
            return Ok(Some(text));
        }
        text.push('\n');
    }
}

/// False where the message goes on in the next line.
pub fn is_complete(text: &str) -> bool {
    match text.trim_start().strip_prefix(FENCE) {
        Some(rest) => rest.trim_end().ends_with(FENCE),
        None => !text.ends_with('\\'),
    }
}

/// The message without what joined its lines.
pub fn unwrapped(text: &str) -> String {
    let fenced = text.trim().strip_prefix(FENCE).map(|t| t.strip_suffix(FENCE).unwrap_or(t));
    match fenced {
        Some(body) => body.strip_prefix('\n').unwrap_or(body).trim_end_matches('\n').to_owned(),
        None => text.strip_suffix('\\').unwrap_or(text).replace("\\\n", "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut lines = text.as_bytes();
        let next = || read_lines(&mut lines).unwrap();
        std::iter::from_fn(next).map(|m| unwrapped(&m)).collect()
    }

    #[test]
    fn lines_are_joined_by_backslash_and_fence() {
        assert_eq!(messages("a\nb\r\n\nc"), ["a", "b", "", "c"]);
        assert_eq!(messages("a\\\nb\\\nc\nd\n"), ["a\nb\nc", "d"]);
        assert_eq!(messages("\"\"\"one\n\n  two\"\"\"\nx"), ["one\n\n  two", "x"]);
        assert_eq!(messages("\"\"\"\none\n\"\"\"\n"), ["one"]);
        assert_eq!(messages("\"\"\"one line\"\"\"\n"), ["one line"]);
    }

    #[test]
    fn an_unfinished_message_ends_with_the_input() {
        assert_eq!(messages("\"\"\"a\nb\n"), ["a\nb"]);
        assert_eq!(messages("a\\"), ["a"]);
        assert_eq!(messages(""), [""; 0]);
    }

    #[test]
    fn text_that_is_no_utf8_is_refused() {
        assert!(read_lines(&mut &b"a\xff\n"[..]).is_err());
    }
}
