//! Runs the binary on the models beside the repository.

use serde_json::Value;
use std::{
    ffi::OsStr,
    io::Write,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// A file or folder of the shared data; none, said loudly, where it is absent.
pub fn shared(path: &str) -> Option<String> {
    lamina_fixtures::shared(path).map(|path| path.display().to_string())
}

/// A trained model of 260 thousand parameters as GGUF.
pub fn stories() -> Option<String> {
    shared("models/stories260k/stories260k-f32.gguf")
}

/// The continuation of `Once upon a time` that two other engines agree on.
pub fn reference() -> Option<(String, Vec<u64>)> {
    Some(story(Path::new(&shared("models/stories260k/reference.json")?)))
}

/// The model inside the package.
pub fn packaged() -> String {
    lamina_fixtures::packaged().display().to_string()
}

/// Its continuation of `Once upon a time`, as an earlier build wrote it.
pub fn packaged_story() -> (String, Vec<u64>) {
    story(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packaged.json"))
}

fn story(file: &Path) -> (String, Vec<u64>) {
    let value: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let ids = value["greedy_ids"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
    (value["text"].as_str().unwrap().to_owned(), ids)
}

/// The command with nothing on stdin.
pub fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lamina"));
    command.args(args).env_remove("LAMINA_MODEL").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(output: Output) -> Done {
        Done {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// stdout of a command that must have succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.out
    }

    /// stdout as the one JSON object that it must be.
    pub fn json(self) -> Value {
        let out = self.ok();
        let value: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
        assert!(value.is_object());
        value
    }

    /// The one line that a failure must leave on stderr, beside notes.
    pub fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.out, "", "a failure writes nothing to stdout");
        let lines: Vec<_> = self.err.lines().filter(|l| l.starts_with("error: ")).collect();
        assert_eq!(lines.len(), 1, "{self:#?}");
        lines[0].to_owned()
    }
}

pub fn lamina<S: AsRef<OsStr>>(args: &[S]) -> Done {
    Done::of(command(args).output().unwrap())
}

/// Runs with `input` on stdin.
pub fn lamina_with<S: AsRef<OsStr>>(args: &[S], input: impl AsRef<[u8]>) -> Done {
    let mut child = command(args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
    Done::of(child.wait_with_output().unwrap())
}

/// Presses Ctrl-C.
#[cfg(unix)]
pub fn interrupt(child: &Child) {
    let done = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(done.success());
}
