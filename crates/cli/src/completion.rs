//! What shells complete: they call this program with the words of the line, so that what they offer is what it takes.

use crate::error::Result;
use clap_complete::{
    CompleteEnv, CompletionCandidate,
    engine::{ArgValueCompleter, PathCompleter, ValueCompleter, complete},
    env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh},
};
use lamina::hub::{Hub, list_all};
use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write},
    path::Path,
};

/// The variable by which the scripts of shells ask for completions; it holds the name of the shell.
const VARIABLE: &str = "LAMINA_COMPLETE";

/// Shells that there is a script for.
pub const SHELLS: Shells<'static> = Shells(&[&WholeWords, &Zsh, &Fish, &Powershell, &Elvish]);

/// Arguments that take a model's name beside paths.
pub const MODELS: [&str; 3] = ["model", "models", "draft"];
/// Arguments that take names alone.
pub const NAMES: [&str; 1] = ["name"];

/// The script of a shell, which is found by its name.
pub fn script(shell: &dyn EnvCompleter) -> Result<Vec<u8>> {
    let mut script = vec![];
    shell.write_registration(VARIABLE, "lamina", "lamina", "lamina", &mut script)?;
    Ok(script)
}

/// Answers a shell that asks for words of the command line that `define` gives; false for everybody else.
pub fn answer(define: fn() -> clap::Command, args: &[OsString]) -> Result<bool> {
    let completions =
        CompleteEnv::with_factory(|| with_names(define())).var(VARIABLE).completer("lamina").shells(SHELLS);
    Ok(completions.try_complete(args.to_vec(), env::current_dir().ok().as_deref())?)
}

/// A command line with names of models.
pub fn with_names(parser: clap::Command) -> clap::Command {
    parser.mut_subcommands(|command| {
        command.mut_args(|arg| match arg.get_id().as_str() {
            id if MODELS.contains(&id) => arg.add(ArgValueCompleter::new(models)),
            id if NAMES.contains(&id) => arg.add(ArgValueCompleter::new(names)),
            _ => arg,
        })
    })
}

/// Paths and names that begin with a word.
fn models(word: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = PathCompleter::any().complete(word);
    found.extend(names(word));
    found
}

/// Names of models on this machine that begin with a word.
fn names(word: &OsStr) -> Vec<CompletionCandidate> {
    let (hub, word) = (Hub::of_the_environment(), word.to_string_lossy());
    let all = list_all(&hub.cache, &hub.ollama, &hub.lm_studio);
    let fitting = all.into_iter().map(|model| model.name).filter(|name| name.starts_with(&*word));
    fitting.map(CompletionCandidate::new).collect()
}

/// Bash, which takes `hf:org/repo` for three words and `--device=cpu` too: its line is put together again, and what stands
/// before the last colon or equals sign is not offered once more.
struct WholeWords;

impl EnvCompleter for WholeWords {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut script = vec![];
        Bash.write_registration(variable, name, bin, completer, &mut script)?;
        // Files that are loaded when a command is completed for the first time begin with no empty line.
        out.write_all(script.trim_ascii())?;
        writeln!(out)
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let asked = env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        let between = env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let (words, index) = joined(words, asked.unwrap_or(0));
        let word = words.get(index).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let before = word.rfind([':', '=']).map_or("", |at| &word[..=at]);
        let found = complete(command, words, index, folder)?;
        let values = found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned());
        let values = values.map(|value| value.strip_prefix(before).map(str::to_owned).unwrap_or(value));
        out.write_all(values.collect::<Vec<_>>().join(&between).as_bytes())
    }
}

/// Words that bash has cut at colons and equals signs, as they were, and which of them the word `index` is in.
fn joined(words: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let is_cut = |word: &OsStr| word == ":" || word == "=";
    let (mut whole, mut at): (Vec<OsString>, usize) = (vec![], 0);
    let mut after_cut = false;
    for (i, word) in words.into_iter().enumerate() {
        let cut = is_cut(&word);
        match whole.last_mut().filter(|_| i > 1 && (cut || after_cut)) {
            Some(last) => last.push(&word),
            None => whole.push(word),
        }
        after_cut = cut;
        if i <= index {
            at = whole.len() - 1;
        }
    }
    (whole, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split('|').map(OsString::from).collect()
    }

    #[test]
    fn words_that_bash_cuts_are_put_together() {
        assert_eq!(
            joined(words("lamina|run|hf|:|org/re|Hello"), 4),
            (words("lamina|run|hf:org/re|Hello"), 2)
        );
        assert_eq!(joined(words("lamina|run|hf|:|"), 4), (words("lamina|run|hf:"), 2));
        assert_eq!(joined(words("lamina|run|--draft|=|hf|:|a"), 6), (words("lamina|run|--draft=hf:a"), 2));
        assert_eq!(joined(words("lamina|run|--draft|"), 3), (words("lamina|run|--draft|"), 3));
        assert_eq!(joined(words("lamina"), 0), (words("lamina"), 0));
    }
}
