//! Commands inside a conversation. The list drives reading, help and completion.

use super::{
    ChatLoop, Flow, Session,
    message_file::{MessageFile, MessageFileKind, dropped_path},
};
use crate::{
    args::shown,
    error::{CliError, Result},
    input::file_text,
    output::{self, note},
    table::{pairs, table},
};
use lamina::sample::{Param, Value, params};
use std::{fs, path::Path};

/// A command.
pub struct Slash {
    /// What follows the slash.
    pub name: &'static str,
    arguments: &'static str,
    doc: &'static str,
    /// Does it; the text is what follows the name.
    pub run: fn(&mut ChatLoop, &str) -> Result<Flow>,
}

/// All commands, in the order of the help.
pub const ALL: &[Slash] = &[
    Slash { name: "help", arguments: "", doc: "list the commands", run: help },
    Slash {
        name: "reset",
        arguments: "",
        doc: "forget the conversation; the system prompt stays",
        run: reset,
    },
    Slash {
        name: "system",
        arguments: "[TEXT]",
        doc: "show or set the system prompt; \"\" takes it away",
        run: system,
    },
    Slash { name: "set", arguments: "NAME VALUE", doc: "set a sampling parameter or max_tokens", run: set },
    Slash { name: "params", arguments: "", doc: "list the parameters and their values", run: list_params },
    Slash { name: "save", arguments: "FILE", doc: "write the messages to a JSON file", run: save },
    Slash { name: "load", arguments: "FILE", doc: "go on with the messages of a JSON file", run: load },
    Slash {
        name: "result",
        arguments: "TEXT",
        doc: "give the model what a tool that it called returned",
        run: result,
    },
    Slash {
        name: "image",
        arguments: "FILE",
        doc: "show the model a picture with the next message; a dropped file does so too",
        run: |chat, file| add(chat, MessageFileKind::Picture, file),
    },
    Slash {
        name: "images",
        arguments: "",
        doc: "list the pictures",
        run: |chat, _| list(chat, MessageFileKind::Picture),
    },
    Slash {
        name: "audio",
        arguments: "FILE",
        doc: "play the model a sound with the next message; a dropped file does so too",
        run: |chat, file| add(chat, MessageFileKind::Sound, file),
    },
    Slash {
        name: "sounds",
        arguments: "",
        doc: "list the sounds",
        run: |chat, _| list(chat, MessageFileKind::Sound),
    },
    Slash { name: "retry", arguments: "", doc: "answer the last message again", run: retry },
    Slash { name: "undo", arguments: "", doc: "take back the last message and its answer", run: undo },
    Slash { name: "tokens", arguments: "", doc: "count the tokens of the conversation", run: tokens },
    Slash { name: "quit", arguments: "", doc: "end the conversation", run: |_, _| Ok(Flow::Quit) },
];

/// What a line means.
pub enum InputLine<'a> {
    /// Blank.
    Nothing,
    /// A command and what follows its name.
    Command(&'static Slash, &'a str),
    /// A message for the model.
    Message(&'a str),
}

/// Reads a line. A message that begins with a slash is written with two.
///
/// # Errors
/// When there is no such command.
pub fn parse(line: &str) -> Result<InputLine<'_>> {
    let Some(command) = line.strip_prefix('/') else {
        return Ok(if line.trim().is_empty() { InputLine::Nothing } else { InputLine::Message(line) });
    };
    if command.starts_with('/') {
        return Ok(InputLine::Message(command));
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let unknown =
        || refused(format!("there is no command /{name}: /help lists them, and //{name} sends it as text"));
    // People type what other programs call it.
    let name = if matches!(name, "exit" | "bye" | "q") { "quit" } else { name };
    let found = ALL.iter().find(|c| c.name == name).ok_or_else(unknown)?;
    Ok(InputLine::Command(found, rest.trim()))
}

fn refused(problem: String) -> CliError {
    CliError::Model(lamina::Error::InvalidRequest(problem))
}

fn help(_: &mut ChatLoop, _: &str) -> Result<Flow> {
    output::text(&pairs(ALL.iter().map(|c| (format!("/{} {}", c.name, c.arguments), c.doc.to_owned()))))?;
    output::text("A line that ends with \\ goes on in the next one; so does text between two \"\"\".\n")?;
    Ok(Flow::Next)
}

fn reset(chat: &mut ChatLoop, _: &str) -> Result<Flow> {
    chat.session.reset();
    chat.files.clear();
    note("the conversation starts over");
    Ok(Flow::Next)
}

fn system(chat: &mut ChatLoop, text: &str) -> Result<Flow> {
    match text {
        "" => output::text(&format!("{}\n", chat.session.system().unwrap_or("there is no system prompt")))?,
        "\"\"" => chat.session.set_system(""),
        text => chat.session.set_system(text),
    }
    Ok(Flow::Next)
}

/// Not a sampling parameter, but set in the same way.
const MAX_TOKENS: &str = "max_tokens";

fn set(chat: &mut ChatLoop, text: &str) -> Result<Flow> {
    let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (name, value) = (name.replace('-', "_"), value.trim());
    if name.is_empty() || value.is_empty() {
        return Err(refused(
            "/set takes a name and a value, such as /set temperature 0.5; /params lists them".into(),
        ));
    }
    if name == MAX_TOKENS {
        chat.wanted.options.max_tokens = max_tokens(value)?;
        return Ok(Flow::Next);
    }
    chat.wanted.set(&name, value).map_err(lamina::Error::from)?;
    Ok(Flow::Next)
}

fn max_tokens(value: &str) -> Result<Option<usize>> {
    match value.parse() {
        Ok(n) => Ok(Some(n)),
        _ if value == "none" => Ok(None),
        _ => Err(refused(format!("max_tokens is {value}, but must be a whole number, or none"))),
    }
}

fn list_params(chat: &mut ChatLoop, _: &str) -> Result<Flow> {
    let options = &chat.wanted.options;
    let most = options.max_tokens.map_or_else(|| "none".to_owned(), |n| n.to_string());
    let first =
        vec![MAX_TOKENS.to_owned(), most, "none".to_owned(), "Tokens of an answer at most.".to_owned()];
    let row = |p: &Param| {
        let value = options.sampling.get(p.name).unwrap_or(Value::None);
        vec![p.name.to_owned(), shown(&value), shown(&(p.default)()), p.doc.to_owned()]
    };
    let rows = std::iter::once(first).chain(params().map(row));
    output::text(&table(&["name", "value", "default", "meaning"], &[], rows))?;
    Ok(Flow::Next)
}

fn save(chat: &mut ChatLoop, file: &str) -> Result<Flow> {
    let path = named(file, "save")?;
    let text = format!("{:#}\n", chat.session.to_json());
    fs::write(path, text).map_err(|source| CliError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })?;
    note(&format!("{} messages are in {file}", chat.session.len()));
    Ok(Flow::Next)
}

fn load(chat: &mut ChatLoop, file: &str) -> Result<Flow> {
    let path = named(file, "load")?;
    let wrong = |problem: String| CliError::Content { path: path.to_owned(), problem };
    let value = serde_json::from_str(&file_text(path)?).map_err(|e| wrong(format!("is no JSON: {e}")))?;
    chat.session = Session::from_json(&value).map_err(wrong)?;
    note(&format!("{} messages are loaded", chat.session.len()));
    Ok(Flow::Next)
}

fn named<'a>(file: &'a str, command: &str) -> Result<&'a Path> {
    if file.is_empty() {
        return Err(refused(format!("/{command} takes the name of a file")));
    }
    Ok(Path::new(file))
}

fn result(chat: &mut ChatLoop, text: &str) -> Result<Flow> {
    match chat.session.result(text) {
        None => Err(refused("there is no call that waits for its result".into())),
        Some(0) => chat.answer(),
        Some(left) => {
            note(&format!("{left} more calls wait for their results"));
            Ok(Flow::Next)
        }
    }
}

fn add(chat: &mut ChatLoop, kind: MessageFileKind, file: &str) -> Result<Flow> {
    named(file, kind.part())?;
    let path = dropped_path(file).unwrap_or_else(|| file.to_owned());
    chat.show(MessageFile { kind, path })
}

fn list(chat: &mut ChatLoop, kind: MessageFileKind) -> Result<Flow> {
    let done = if kind == MessageFileKind::Picture { "seen" } else { "heard" };
    let before = chat.session.files(kind).into_iter().map(|file| (file, done.to_owned()));
    let own = chat.files.iter().filter(|file| file.kind == kind);
    let next = own.map(|file| (file.path.as_str(), "with the next message".to_owned()));
    let all: Vec<_> = before.chain(next).collect();
    output::text(&if all.is_empty() { format!("there are no {}\n", kind.plural()) } else { pairs(all) })?;
    Ok(Flow::Next)
}

fn retry(chat: &mut ChatLoop, _: &str) -> Result<Flow> {
    if !chat.session.unanswer() {
        return Err(refused("there is no message to answer again".into()));
    }
    if chat.wanted.options.sampling.draw.seed.is_some() {
        note("the seed is fixed, so the answer will be the same: /set seed none frees it");
    }
    chat.answer()
}

fn undo(chat: &mut ChatLoop, _: &str) -> Result<Flow> {
    if !chat.session.undo() {
        return Err(refused("there is no message to take back".into()));
    }
    note("the last message is taken back");
    Ok(Flow::Next)
}

fn tokens(chat: &mut ChatLoop, _: &str) -> Result<Flow> {
    let (used, context) = chat.partner.count(&chat.session)?;
    let of = context.map_or_else(String::new, |n| format!(" of {n}"));
    output::text(&format!("{used}{of} tokens\n"))?;
    Ok(Flow::Next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_messages_or_nothing() {
        assert!(matches!(parse("  "), Ok(InputLine::Nothing)));
        assert!(matches!(parse("hello /quit"), Ok(InputLine::Message("hello /quit"))));
        assert!(matches!(parse("//etc/passwd"), Ok(InputLine::Message("/etc/passwd"))));
        assert!(matches!(parse("/set top_k  5 "), Ok(InputLine::Command(c, "top_k  5")) if c.name == "set"));
        assert!(matches!(parse("/bye"), Ok(InputLine::Command(c, "")) if c.name == "quit"));
        let message = parse("/qiut").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("/qiut") && message.contains("/help"), "{message}");
    }

    #[test]
    fn limits_of_tokens_are_checked() {
        assert_eq!(max_tokens("5").unwrap(), Some(5));
        assert_eq!(max_tokens("none").unwrap(), None);
        assert_eq!(max_tokens("0").unwrap(), Some(0));
        assert!(max_tokens("-1").is_err() && max_tokens("many").is_err());
    }
}
