//! Converted golden folders in llama.cpp: it loads each file and gives the same logits. Runs where `LAMINA_PYTHON` names a
//! Python with llama-cpp-python.

use crate::common::{Golden, Result, for_each, golden_folders, relative_error};
use lamina_convert::{ConvertError, Draft, Types, WriteOptions};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// llama.cpp rounds keys, values and probabilities to half precision in places.
const TOLERANCE: f64 = 1e-2;

/// A process of `peer.py`.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &OsString) -> Result<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.py");
        let mut command = Command::new(python);
        let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Peer { child, input, output })
    }

    fn logits(&mut self, file: &Path, ids: &[u32]) -> Result<Vec<f32>> {
        writeln!(self.input, "{}", json!({ "file": file, "ids": ids }))?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("it died: {}", self.child.wait()?).into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        let list = answer["logits"].as_array().ok_or_else(|| answer["error"].to_string())?;
        Ok(list.iter().map(|v| v.as_f64().unwrap_or(f64::NAN) as f32).collect())
    }
}

#[test]
fn llama_cpp_gives_the_logits_of_the_folder() -> Result<()> {
    let Some(python) = std::env::var_os("LAMINA_PYTHON") else {
        eprintln!("SKIPPED: LAMINA_PYTHON names no Python with llama-cpp-python");
        return Ok(());
    };
    let peer = RefCell::new(Peer::start(&python)?);
    for_each(golden_folders(), |folder| {
        let dir = TempDir::new()?;
        let draft = match Draft::open(folder) {
            Ok(draft) => draft,
            Err(e @ (ConvertError::NoGgufForm { .. } | ConvertError::NotExpressible { .. })) => {
                return Ok(format!("no file: {e}"));
            }
            Err(e) => return Err(e.into()),
        };
        let file = dir.path().join("model.gguf");
        draft.write(&file, &WriteOptions::new("f32".parse::<Types>()?), &|_, _| true)?;
        // What llama.cpp does not do is told in a note.
        let expected =
            draft.notes.iter().find(|n| n.contains("llama.cpp")).cloned().or_else(|| limit(folder));
        let result = compare(&mut peer.borrow_mut(), folder, &file);
        if result.is_err() {
            *peer.borrow_mut() = Peer::start(&python)?;
        }
        let found = match result {
            Ok(error) if error <= TOLERANCE => return Ok(format!("error {error:.1e}")),
            Ok(error) => format!("relative error {error:e}"),
            Err(e) => e.to_string(),
        };
        expected.map(|reason| format!("{found}, as expected: {reason}")).ok_or(found.into())
    });
    Ok(())
}

/// Why llama.cpp cannot run a shared folder as it is; folders of `LAMINA_GOLDEN_EXTRA` are only reported.
fn limit(folder: &Path) -> Option<String> {
    const LIMITS: &[(&str, &str)] = &[
        ("cohere2", "it ties the head of every model of the family"),
        ("deepseek-v2", "it takes models without a low rank for queries only with 26, 27 or 48 layers"),
        ("gpt-oss", "it rounds the bounds of YaRN, which this model does not"),
        ("llama4-text", "its chunks have 8192 tokens whatever the model says"),
    ];
    if !folder.ends_with(Path::new("golden").join(folder.file_name()?)) {
        return Some("not one of the shared folders".into());
    }
    LIMITS.iter().find(|(name, _)| folder.ends_with(name)).map(|(_, why)| (*why).to_owned())
}

/// The largest relative error over the folder's prompts.
fn compare(peer: &mut Peer, folder: &Path, file: &Path) -> Result<f64> {
    let golden = Golden::open(folder)?;
    let mut worst = 0f64;
    for (ids, want) in golden.prompts.iter().zip(&golden.logits) {
        let error = relative_error(&peer.logits(file, ids)?, want);
        worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
    }
    Ok(worst)
}
