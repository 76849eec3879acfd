//! Python's `re`, asked about many patterns at once.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

const SCRIPT: &str = r#"
import json, re, signal, sys
def late(*_):
    raise TimeoutError
def alarm(seconds):
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_REAL, seconds)
if hasattr(signal, "SIGALRM"):
    signal.signal(signal.SIGALRM, late)
for line in sys.stdin:
    pattern, texts, whole = json.loads(line)
    pattern = re.compile(pattern)
    judge = pattern.fullmatch if whole else pattern.search
    answers = []
    for text in texts:
        alarm(2)
        try:
            answers.append(judge(text) is not None)
        except TimeoutError:
            answers.append(None)
        finally:
            alarm(0)
    print(json.dumps(answers))
"#;

/// A pattern and the texts to judge, as a line of the script.
pub fn question(pattern: &str, texts: &[String], whole: bool) -> Value {
    json!([pattern, texts, whole])
}

/// Which texts of each question match; none for those that it has no answer for within two seconds, since it tries all ways
/// of a pattern in turn. None where there is no Python.
pub fn answers(questions: &[Value]) -> Option<Vec<Vec<Option<bool>>>> {
    let command =
        Command::new("python3").args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = command else {
        eprintln!("SKIPPED: python3 is missing, whose expressions are the reference");
        return None;
    };
    let mut input = python.stdin.take().expect("an input");
    let lines: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().expect("an end");
    writer.join().expect("a thread").expect("all is written");
    let answers = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Vec<Option<bool>>> =
        answers.lines().map(|line| serde_json::from_str(line).expect("a list")).collect();
    assert_eq!(answers.len(), questions.len(), "Python stopped");
    Some(answers)
}
