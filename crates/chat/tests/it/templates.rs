//! Every chat template of the shared folder against what jinja2, set up as transformers does, makes of it:
//! `templates/expected.json`, written by `template_oracle.py` (see there), has a digest, the template's own refusal, or
//! the Python error of each case in `templates/cases.json`.

use std::collections::BTreeMap;
use std::process::Command;

use crate::{python, read_text};
use lamina_chat::{ChatError, ChatTemplate, Clock, Conversation};
use lamina_fixtures::shared;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// 2025-07-14 12:34:56, as in the oracle.
const NOW: i64 = 1_752_496_496;

type Table = BTreeMap<String, BTreeMap<String, Value>>;

fn cases() -> Map<String, Value> {
    serde_json::from_str(include_str!("../templates/cases.json")).unwrap()
}

fn render(source: &str, case: &Value) -> Result<String, ChatError> {
    let list = |key: &str| case.get(key).and_then(Value::as_array).map(Vec::as_slice);
    let conversation = Conversation {
        messages: list("messages").unwrap(),
        tools: list("tools"),
        documents: list("documents"),
        add_generation_prompt: case.get("add_generation_prompt").is_none_or(|flag| flag == true),
        bos_token: Some("<BOS>"),
        eos_token: Some("<EOS>"),
        variables: case.get("variables").and_then(Value::as_object),
    };
    ChatTemplate::new(source)?.with_clock(Clock::Fixed(NOW)).render(&conversation)
}

/// What is wrong with a rendering, if anything. Where Python itself fails, a rendering is no fault.
fn fault(result: &Result<String, ChatError>, expected: &Value) -> Option<String> {
    let text = |key: &str| expected.get(key).and_then(Value::as_str);
    match (result, text("sha256"), text("text"), text("refused")) {
        (Ok(ours), Some(digest), _, _) => {
            let own: String = Sha256::digest(ours).iter().map(|byte| format!("{byte:02x}")).collect();
            (own != digest).then(|| "differs".to_owned())
        }
        (Ok(ours), _, Some(theirs), _) => (ours != theirs).then(|| first_difference(ours, theirs)),
        (Err(e), Some(_), _, _) | (Err(e), _, Some(_), _) => Some(e.to_string()),
        (Err(ChatError::Refused(ours)), _, _, Some(theirs)) => {
            (ours != theirs).then(|| format!("refused with {ours:?} instead of {theirs:?}"))
        }
        (other, _, _, Some(theirs)) => Some(format!("should refuse with {theirs:?}, gave {other:?}")),
        _ => None,
    }
}

fn first_difference(ours: &str, theirs: &str) -> String {
    let same = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[same.saturating_sub(40)..])
            .chars()
            .take(120)
            .collect::<String>()
    };
    format!("at byte {same}\n     ours {:?}\n   theirs {:?}", around(ours), around(theirs))
}

/// Where the engine's own fault stands in the way: minijinja 3.0 cannot reverse an empty list by a slice.
const KNOWN: &[(&str, &str)] = &[("Reka-Edge", "empty")];

fn check(expected: &Table) {
    let Some(folder) = shared("templates") else { return };
    let cases = cases();
    let mut faults = Vec::new();
    for (template, expected) in expected {
        let source = read_text(folder.join(format!("{template}.jinja")));
        for (name, expected) in expected.iter().filter(|(name, _)| !KNOWN.contains(&(template, name))) {
            let result = render(&source, &cases[name]);
            faults.extend(fault(&result, expected).map(|fault| format!("{template} / {name}: {fault}")));
        }
    }
    assert_eq!(expected.len(), 53);
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_rendering_has_the_digest_of_jinja2() {
    check(&serde_json::from_str(include_str!("../templates/expected.json")).unwrap());
}

/// The same with the texts themselves, which shows where they differ.
#[test]
fn every_rendering_is_that_of_jinja2() {
    let (Some(python), Some(folder)) = (python(), shared("templates")) else { return };
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let output = Command::new(python)
        .arg(here.join("template_oracle.py"))
        .arg(folder)
        .arg(here.join("templates/cases.json"))
        .arg("--texts")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&serde_json::from_slice(&output.stdout).unwrap());
}

/// A plain conversation renders under every template or is refused by it, also where Python fails because the template
/// takes a list of tools for granted.
#[test]
fn a_plain_conversation_always_renders() {
    let Some(folder) = shared("templates") else { return };
    let cases = cases();
    let expected: Table = serde_json::from_str(include_str!("../templates/expected.json")).unwrap();
    let mut rendered = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = read_text(&path);
        for name in ["user", "chat", "closed", "system", "tools"] {
            match render(&source, &cases[name]) {
                Ok(text) => {
                    let last = cases[name]["messages"].as_array().unwrap().last().unwrap()["content"]
                        .as_str()
                        .unwrap();
                    assert!(text.contains(last), "{} / {name}: {text}", path.display());
                    rendered += 1;
                }
                Err(ChatError::Refused(reason)) => assert!(!reason.is_empty()),
                // Tools in a form of its own, which Python cannot render either.
                Err(ChatError::Failed(_))
                    if name == "tools"
                        && expected[path.file_stem().unwrap().to_str().unwrap()][name]
                            .get("failed")
                            .is_some() => {}
                Err(e) => panic!("{} / {name}: {e}", path.display()),
            }
        }
    }
    assert!(rendered >= 53 * 5 - 2, "{rendered}");
}

#[test]
fn helpers_behave_as_in_transformers() {
    let cases = [
        (
            "{{ x | tojson }}",
            r#"{"a": [1, 2.0, null, true], "\u00fc": "<&'\"\n"}"#,
            "{\"a\": [1, 2.0, null, true], \"\u{fc}\": \"<&'\\\"\\n\"}",
        ),
        (
            "{{ x | tojson(indent=2) }}",
            r#"{"a": [], "b": {}, "c": [1]}"#,
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1\n  ]\n}",
        ),
        (
            "{{ x | tojson(separators=(',', ':'), sort_keys=true) }}",
            r#"{"b": 1, "a": [1, 2]}"#,
            r#"{"a":[1,2],"b":1}"#,
        ),
        (
            "{{ x | tojson(ensure_ascii=true) }}",
            r#"["\u00fc\u007f", "\ud83d\ude00"]"#,
            r#"["\u00fc\u007f", "\ud83d\ude00"]"#,
        ),
        ("{{ x }} {{ x | string }} {{ x is number }} {{ [x] }}", "1e-7", "1e-07 1e-07 True [1e-07]"),
        ("{{ x }}", r#"{"a": [null, true, 1.5, "it's"]}"#, r#"{'a': [None, True, 1.5, "it's"]}"#),
        (
            "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "0",
            "0134",
        ),
        ("{{ x.split(' ')[-1].title() ~ x.strip('a ')[1:] }}", r#""ab cd ef""#, "Ef cd ef"),
        ("{%- generation -%} {{ x }} {%- endgeneration -%} .", "1", "1."),
        (
            "{% set ns = namespace(n=0) %}{% for k, v in x.items() %}{% set ns.n = ns.n + v %}{% endfor %}{{ ns.n }}",
            r#"{"a": 1, "b": 2}"#,
            "3",
        ),
        (
            "{{ strftime_now('%d %B %Y, %H:%M') }}{{ y is defined }}{{ x.get('q', 'none') }}",
            "{}",
            "14 July 2025, 12:34Falsenone",
        ),
        ("a\n    {% if true %}\n    b\n    {% endif %}\nc\n", "0", "a\n    b\nc"),
    ];
    for (source, x, expected) in cases {
        let variables = Map::from_iter([("x".to_owned(), serde_json::from_str(x).unwrap())]);
        let conversation = Conversation { variables: Some(&variables), ..Conversation::default() };
        let template = ChatTemplate::new(source).unwrap().with_clock(Clock::Fixed(NOW));
        assert_eq!(template.render(&conversation).unwrap(), expected, "{source}");
    }
}

#[test]
fn failures_and_refusals_are_told_apart() {
    let render = |source: &str| ChatTemplate::new(source).and_then(|t| t.render(&Conversation::default()));
    assert!(matches!(render("{% if %}"), Err(ChatError::Syntax(_))));
    assert!(matches!(render("{{ a.b.c }}"), Err(ChatError::Failed(_))));
    assert!(matches!(render("{{ strftime_now('%Q') }}"), Err(ChatError::Failed(_))));
    assert!(matches!(render("{{ [][::-1] | list }}"), Err(ChatError::Failed(_)) | Ok(_)));
    match render("{{ raise_exception('roles must alternate') }}") {
        Err(ChatError::Refused(reason)) => assert_eq!(reason, "roles must alternate"),
        other => panic!("{other:?}"),
    }
}

/// Endless loops and endless recursion end with an error.
#[test]
fn hostile_templates_end() {
    let loops = "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}";
    let recursion = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
    for source in [loops, recursion] {
        let result = ChatTemplate::new(source).unwrap().render(&Conversation::default());
        assert!(matches!(result, Err(ChatError::Limit(_) | ChatError::Failed(_))), "{source}");
    }
}

/// Small pieces of the language, one by one: slices, methods, filters, tests, loops, macros, white space.
#[test]
fn snippets_render_as_in_jinja2() {
    let table: Value = serde_json::from_str(include_str!("../templates/snippets.json")).unwrap();
    let snippets = table["snippets"].as_array().unwrap();
    let case = serde_json::json!({ "messages": [], "variables": { "x": table["x"] } });
    let faults: Vec<String> = snippets
        .iter()
        .filter_map(|entry| {
            let source = entry[0].as_str().unwrap();
            let result = render(source, &case);
            let lenient = result.is_ok() && entry[1].get("failed").is_some();
            let lenient = lenient.then(|| format!("{result:?} where Python fails"));
            fault(&result, &entry[1]).or(lenient).map(|fault| format!("{source}\n  {fault}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(snippets.len() > 70);
}
