//! Python's `re`, asked about many patterns at once.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

const SCRIPT: &str = r#"
import json, re, sys
for line in sys.stdin:
    pattern, texts, whole = json.loads(line)
    pattern = re.compile(pattern)
    judge = pattern.fullmatch if whole else pattern.search
    print(json.dumps([judge(text) is not None for text in texts]))
"#;

/// A pattern and the texts to judge, as a line of the script.
pub fn question(pattern: &str, texts: &[String], whole: bool) -> Value {
    json!([pattern, texts, whole])
}

/// Which texts of each question match; None where there is no Python.
pub fn answers(questions: &[Value]) -> Option<Vec<Vec<bool>>> {
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
    let answers: Vec<Vec<bool>> =
        answers.lines().map(|line| serde_json::from_str(line).expect("a list")).collect();
    assert_eq!(answers.len(), questions.len(), "Python stopped");
    Some(answers)
}
