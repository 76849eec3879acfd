//! Text and models from arguments and standard input.

use crate::error::{CliError, Result};
use lamina::files::read_given;
use std::{
    ffi::{OsStr, OsString},
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
};

/// A model, or none for the one inside the package, and a text: the arguments `[MODEL] TEXT`, where `-` or a missing
/// TEXT is standard input.
pub fn model_and_text(
    first: Option<OsString>,
    second: Option<OsString>,
    what: &str,
) -> Result<(Option<PathBuf>, String)> {
    match (first, second) {
        (None, _) => Ok((None, piped(what)?)),
        (Some(model), None) if is_model(Path::new(&model)) => Ok((Some(model.into()), piped(what)?)),
        (Some(text), None) => Ok((None, text_of(&text, what)?)),
        (Some(model), Some(text)) => Ok((Some(model.into()), text_of(&text, what)?)),
    }
}

/// A lone argument is the text, unless it can only be meant as a model: a folder with a model in it, a name such as
/// `hf:org/repo`, or one word that ends in `.gguf` (missing or not, so that a mistyped path is not taken for a text).
fn is_model(path: &Path) -> bool {
    let gguf = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
    let one_word = || path.to_str().is_none_or(|p| !p.contains(char::is_whitespace));
    let named = || path.to_str().is_some_and(lamina::is_name);
    gguf && (path.exists() || one_word()) || path.join("config.json").is_file() || named()
}

/// Standard input in the place of the argument `what`.
pub fn piped(what: &str) -> Result<String> {
    if io::stdin().is_terminal() {
        return Err(CliError::usage(&format!(
            "{what} is missing: give it as the last argument or pipe it in"
        )));
    }
    stdin_text()
}

/// The argument `what`; `-` is standard input.
pub fn text_of(value: &OsStr, what: &str) -> Result<String> {
    if value == "-" {
        return stdin_text();
    }
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::usage(&format!("{what} is not valid UTF-8")))
}

/// All of standard input, without the line end that `echo` and editors put after the last line.
fn stdin_text() -> Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(CliError::Input)?;
    cut_line_end(&mut text);
    Ok(text)
}

/// Takes one line end off the end.
pub fn cut_line_end(text: &mut String) {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
}

/// The text of a file as it is; `-` is standard input.
pub fn file_text(path: &Path) -> Result<String> {
    let read = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => read_given(path),
    };
    read.map_err(|source| CliError::File { action: "read", path: path.to_owned(), source })
}

/// Token ids written as `1 2 3` or `1,2,3`.
pub fn token_ids(text: &str) -> Result<Vec<u32>> {
    let words = text.split([',', ' ', '\n', '\t', '\r']).filter(|w| !w.is_empty());
    let id = |word: &str| {
        let wrong = |_| CliError::usage(&format!("`{word}` is no token id"));
        word.parse().map_err(wrong)
    };
    words.map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_with_commas_or_spaces() {
        assert_eq!(token_ids("1, 2 3\n").unwrap(), [1, 2, 3]);
        assert!(token_ids("").unwrap().is_empty());
        assert!(matches!(token_ids("1 -2"), Err(CliError::Usage(_))));
    }

    #[test]
    fn one_line_end_is_cut() {
        for (from, to) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("", "")] {
            let mut text = from.to_owned();
            cut_line_end(&mut text);
            assert_eq!(text, to);
        }
    }
}
