//! `lamina chat` over a pipe.

use crate::common::*;
use serde_json::{Value, json};
use std::{fs, path::Path};

const GREEDY: [&str; 4] = ["--temp", "0", "-n", "12"];

/// Messages and commands in, one after the other.
fn chat(extra: &[&str], lines: &[&str]) -> Option<Done> {
    let model = stories()?;
    let args = [&["chat", &model], &GREEDY[..], extra].concat();
    Some(lamina_with(&args, lines.join("\n")))
}

fn messages(file: &Path) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let text = |m: &Value, key: &str| m[key].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|m| (text(m, "role"), text(m, "content"))).collect()
}

#[test]
fn answers_come_on_stdout_and_the_fallback_is_named() {
    let Some(done) = chat(&[], &["Tell me a story.", "And then?"]) else { return };
    assert!(done.err.contains("no chat template") && done.err.contains("plain"), "{}", done.err);
    assert!(!done.err.contains("loading") && !done.out.contains("> "), "no bars and prompts in a pipe");
    assert_eq!(done.ok().lines().count(), 2);
}

#[test]
fn a_conversation_is_saved_loaded_undone_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a chat.json");
    let path = file.to_str().unwrap();
    let save = format!("/save {path}");
    let Some(done) = chat(&["--system", "Be kind."], &["one", "two", &save]) else { return };
    let out = done.ok();
    let saved = messages(&file);
    let roles: Vec<_> = saved.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!((saved[0].1.as_str(), saved[1].1.as_str()), ("Be kind.", "one"));
    assert_eq!(out.lines().map(str::trim).collect::<Vec<_>>(), [saved[2].1.as_str(), saved[4].1.as_str()]);

    let load = format!("/load {path}");
    let retried = chat(&[], &[&load, "/retry"]).unwrap().ok();
    assert_eq!(retried.trim(), saved[4].1, "greedy answers to the same conversation are the same");
    let undone = chat(&[], &[&load, "/undo", "two", &save]).unwrap().ok();
    assert_eq!(undone.trim(), saved[4].1);
    assert_eq!(messages(&file), saved);
    chat(&[], &[&load, "/reset", &save]).unwrap().ok();
    assert_eq!(messages(&file), saved[..1], "the system prompt stays");
}

#[test]
fn parameters_are_set_and_listed() {
    let lines =
        ["/set temperature 0.25", "/set max-tokens 3", "/set top_k 7", "/params", "/system Hello", "/system"];
    let Some(done) = chat(&[], &lines) else { return };
    let out = done.ok();
    let value = |name: &str| {
        let line = out.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!([value("temperature"), value("max_tokens"), value("top_k")], ["0.25", "3", "7"]);
    assert_eq!(value("top_p"), "0.95");
    assert!(out.ends_with("Hello\n"), "{out}");
}

#[test]
fn tokens_are_counted_and_help_lists_every_command() {
    let Some(done) = chat(&[], &["/tokens", "one", "/tokens", "/help", "/quit", "never answered"]) else {
        return;
    };
    let out = done.ok();
    let counts: Vec<u64> = out
        .lines()
        .filter(|l| l.contains(" of ") && l.ends_with(" tokens"))
        .map(|l| l.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts[0], 0);
    assert!(counts[1] > 12, "{counts:?}");
    for name in "help reset system set params save load retry undo tokens quit".split(' ') {
        assert!(out.contains(&format!("/{name}")), "{name}");
    }
    assert_eq!(out.matches("/quit").count(), 1);
}

#[test]
fn messages_of_several_lines_reach_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chat.json");
    let save = format!("/save {}", file.display());
    let lines = ["one\\", "two", "\"\"\"three", "", "/four\"\"\"", "//five", &save];
    let Some(done) = chat(&[], &lines) else { return };
    done.ok();
    let users: Vec<_> = messages(&file).into_iter().filter(|(r, _)| r == "user").map(|(_, c)| c).collect();
    assert_eq!(users, ["one\ntwo", "three\n\n/four", "/five"]);
}

#[test]
fn mistakes_are_told_and_the_conversation_goes_on() {
    let lines = [
        "/frobnicate",
        "/set temprature 1",
        "/set top_p 7",
        "/load /no/such/file",
        "/undo",
        "/retry",
        "hello",
    ];
    let Some(done) = chat(&[], &lines) else { return };
    let errors: Vec<_> = done.err.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 6, "{}", done.err);
    for (error, word) in
        errors.iter().zip(["/frobnicate", "temperature", "from 0 to 1", "/no/such/file", "take back"])
    {
        assert!(error.contains(word), "{word} in {error}");
    }
    assert_eq!(done.out.lines().count(), 1, "the last message is answered");
    assert_eq!(done.code, Some(1), "a script learns that something was refused");
}

#[test]
fn the_oldest_turns_are_dropped_when_the_context_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chat.json");
    let save = format!("/save {}", file.display());
    let question = "Tell me about the little girl and the big red ball in the park.";
    let lines = [&[question; 8][..], &["/tokens", &save]].concat();
    let Some(done) = chat(&["--context", "160"], &lines) else { return };
    assert!(done.err.contains("the oldest"), "{}", done.err);
    let out = done.ok();
    let last = out.lines().last().unwrap();
    let used: usize = last.split_whitespace().next().unwrap().parse().unwrap();
    assert!(used <= 160, "{last}");
    assert_eq!(messages(&file).len(), 16, "all of it is saved");
    let long = "Once upon a time there was a girl. ".repeat(40);
    let done = chat(&["--context", "160"], &[&long, "hello"]).unwrap();
    assert!(done.err.contains("error: ") && done.err.contains("context"), "{}", done.err);
    assert_eq!(done.out.lines().count(), 1, "the next message is answered");
}

#[test]
fn templates_come_from_files_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("story.jinja");
    fs::write(&file, "{%- for m in messages %}{{ m.content }}{% endfor %}{{ ending }}").unwrap();
    let extra = ["--template", file.to_str().unwrap(), "--template-variables", "{\"ending\": \" a time\"}"];
    let Some(done) = chat(&extra, &["Once upon"]) else { return };
    assert!(!done.err.contains("no chat template"), "{}", done.err);
    let (text, _) = reference().unwrap();
    let answer = done.ok();
    assert!(text.starts_with(&format!("Once upon a time{}", answer.trim_end())), "{answer}");
    chat(&["--template", "chatml"], &["hello"]).unwrap().ok();
    fs::write(&file, "{% for %}").unwrap();
    let message = chat(&["--template", file.to_str().unwrap()], &[]).unwrap().error(1);
    assert!(message.contains("template"), "{message}");
}

#[test]
fn a_file_that_is_no_conversation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.json");
    for content in ["", "{", "[1]", "{\"messages\": 1}", "[{\"role\": \"user\"}]"] {
        fs::write(&file, content).unwrap();
        let Some(done) = chat(&[], &[&format!("/load {}", file.display())]) else { return };
        assert!(done.err.contains("x.json"), "{}", done.err);
        assert_eq!(done.code, Some(1));
    }
    fs::write(&file, json!({"messages": [{"role": "user", "content": "hello"}]}).to_string()).unwrap();
    let out = chat(&[], &[&format!("/load {}", file.display()), "/retry"]).unwrap().ok();
    assert_eq!(out.lines().count(), 1);
}

#[cfg(unix)]
mod ctrl_c {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Read, Write},
        process::Stdio,
    };

    #[test]
    fn stops_the_answer_and_not_the_program() {
        let Some(model) = stories() else { return };
        // Long enough that no machine ends it by itself before the signal.
        let args = ["chat", &model, "--ignore-eos", "-c", "60000", "--temp", "0"];
        let mut child = command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..2 {
            stdin.write_all(b"Tell me a story.\n").unwrap();
            let mut begin = [0u8; 32];
            out.read_exact(&mut begin).unwrap();
            interrupt(&child);
            stdin.write_all(b"/tokens\n").unwrap();
            // The rest of the answer, then the count.
            let count = out.by_ref().lines().map(Result::unwrap).find(|l| l.ends_with(" of 60000 tokens"));
            assert!(count.is_some());
        }
        stdin.write_all(b"/quit\n").unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.matches("stopped").count()), (Some(0), 2), "{err}");
    }

    #[test]
    fn hints_at_quit_when_idle_and_ends_a_pipe_the_second_time() {
        let Some(model) = stories() else { return };
        let mut child = command(&["chat", &model]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stdin.write_all(b"/tokens\n").unwrap();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("0 of"), "{line}");
        interrupt(&child);
        let hint = err.by_ref().lines().map(Result::unwrap).find(|l| l.contains("/quit"));
        assert!(hint.is_some());
        // The wait for the next line, which allows one more hint, may begin after the first signal.
        let ended = (0..50).find_map(|_| {
            interrupt(&child);
            std::thread::sleep(std::time::Duration::from_millis(100));
            child.try_wait().unwrap()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(130));
        drop(stdin);
    }
}
