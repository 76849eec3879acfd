//! A template is a program of a stranger: whatever it says, rendering ends soon, in bounded memory, with an answer or
//! an error. And no real template meets a limit.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::read_text;
use lamina_chat::{ChatError, ChatTemplate, Conversation};
use lamina_fixtures::{extent, shared};
use serde_json::{Value, json};

fn render(source: &str) -> Result<String, ChatError> {
    let messages = [json!({"role": "user", "content": "x".repeat(1000)})];
    let conversation = Conversation { messages: &messages, ..Conversation::default() };
    ChatTemplate::new(source)?.render(&conversation)
}

/// A debug build on a machine that does other work is slower than a release by an order of magnitude.
const SLOWEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

fn ends(source: &str) -> Result<String, ChatError> {
    let start = Instant::now();
    let result = render(source);
    let took = start.elapsed();
    let shown: String = source.chars().take(120).collect();
    eprintln!("{took:?} {shown} {}", result.as_ref().map_or_else(|e| e.to_string(), |t| t.len().to_string()));
    assert!(took < SLOWEST, "{took:?}: {shown}");
    result
}

fn is_bounded(source: &str) {
    let result = ends(source);
    assert!(result.is_err(), "{}: {} bytes", &source[..source.len().min(200)], result.unwrap().len());
}

/// Values that hold themselves: printed, compared, written as JSON, sorted, joined, used as a key. A namespace is no
/// dictionary, so each ends, with an error or with a short text.
#[test]
fn a_value_that_holds_itself_ends() {
    let ring = "{% set ns = namespace() %}{% set ns.x = ns %}";
    let list = "{% set ns = namespace(x=1) %}{% set ns.x = [ns, {'a': ns}] %}";
    let key = "{% set ns = namespace(x=[1]) %}{% set d = {ns: 1} %}{% set ns.x = [ns, d] %}";
    for make in [ring, list, key] {
        for end in [
            "{{ d[ns] }}",
            "{{ ns in d }}",
            "{{ [d, ns].index(d) }}",
            "{{ [d, ns] | string }}",
            "{{ d.items() | list }}",
            "{% set ns.y = {ns: ns} %}{{ ns.y | length }}",
            "{{ ns }}",
            "{{ ns | tojson }}",
            "{{ ns.x == namespace(x=ns.x) }}",
            "{{ [ns.x] == [namespace(x=ns.x)] }}",
            "{{ 'a' ~ ns }}",
            "{{ [ns, ns] | join }}",
            "{{ '%s' | format(ns) }}",
            "{{ '{}'.format(ns) }}",
            "{{ ns | string }}",
            "{{ ns | pprint }}",
            "{{ {[ns]: 1} }}",
            "{{ {}[[ns]] }}",
            "{{ [ns] in [[ns.x]] }}",
            "{{ [[ns], [ns.x]] | sort }}",
            "{{ [[ns], [ns.x]] | unique }}",
            "{{ 1 < ns < 2 }}",
            "{{ ns is eq([ns]) }}",
            "{{ '' in ns }}{{ ns }}",
            "{% for a in [1, 2] %}{{ loop.changed([ns]) }}{% endfor %}",
        ] {
            let length = ends(&format!("{make}{end}")).map_or(0, |text| text.len());
            assert!(length < 200, "{make}{end}: {length} bytes");
        }
    }
}

/// Chains that a parser takes one level each for.
#[test]
fn a_source_cannot_overflow_the_stack() {
    for piece in ["not ", "-", "- -", "1 if 1 else ", "(", "[", "{1:", "a(", "a[", "not not "] {
        ends(&format!("{{{{ {}1 }}}}", piece.repeat(100_000))).unwrap_err();
        ends(&format!("{{{{ {}1 }}}}", piece.repeat(1500))).ok();
    }
    for piece in [
        ".b",
        "|upper",
        "~1",
        "+1",
        " and 1",
        " or a",
        "*1",
        "**1",
        "==1",
        " in a",
        " is defined",
        "[1]",
        "()",
        "[1:]",
        "<1",
        "|default(1)",
        " if 1",
        "//1",
        "%1",
        "|map('upper')",
        "|list",
        "|reverse",
        ".a()",
        " is eq 1",
        "|batch(1)",
        "|items",
    ] {
        ends(&format!("{{{{ a{} }}}}", piece.repeat(100_000))).unwrap_err();
        ends(&format!("{{{{ a{} }}}}", piece.repeat(1000))).ok();
        ends(&format!("{{{{ [1]{} }}}}", piece.repeat(1300))).ok();
    }
    let blocks = [
        "if 1",
        "for a in [1]",
        "with",
        "set a",
        "macro m()",
        "filter upper",
        "block a",
        "call m()",
        "autoescape true",
    ];
    for block in blocks {
        ends(&format!("{{% {block} %}}").repeat(20_000)).unwrap_err();
    }
    ends(&format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(20_000))).unwrap_err();
    ends(&format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(900))).unwrap();
    ends(&"{{ 1 }}".repeat(70_000)).unwrap();
    ends(&"x".repeat(10 << 20)).unwrap_err();
}

/// Lists in lists, made one by one, are freed without a frame for each that the stack has no room for.
#[test]
fn a_long_chain_of_lists_is_freed() {
    let chain = |step: &str| {
        format!(
            "{{% set ns = namespace(a=[1]) %}}{{% for i in range(90000) %}}{{% set ns.a = {step} %}}{{% endfor %}}ok"
        )
    };
    let steps = [
        "[ns.a]",
        "[[ns.a]]",
        "(ns.a, 1)",
        "{'a': ns.a}",
        "namespace(a=ns.a)",
        "dict(a=ns.a)",
        "ns.a | batch(1)",
        "ns.a | slice(1)",
        "[ns.a] | list",
        "[ns.a] | reverse",
        "[ns.a] | map('list')",
        "[ns.a] | select",
        "[ns.a] | zip([1])",
        "{'a': ns.a} | items",
        "{'a': ns.a}.items()",
        "{'a': ns.a}.values()",
        "[ns.a][0:]",
        "[ns.a] + []",
        "[ns.a] * 1",
        "cycler(ns.a)",
        "[ns.a] | groupby('a')",
        "[ns.a] | chain([1])",
        "[x for x in ns.a]",
    ];
    for step in steps {
        match ends(&chain(step)) {
            Ok(text) => assert_eq!(text, "ok"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let ring = "{% for i in range(90000) %}{% set ns = namespace() %}{% set ns.x = [ns] %}{% endfor %}ok";
    ends(ring).ok();
    let straight = "{% set a = [a] %}".repeat(30_000);
    ends(&straight).ok();
    let macros = format!(
        "{{% macro m(a) %}}{}{{{{ m(a) }}}}{{% endmacro %}}{{{{ m(1) }}}}",
        "{% set a = [a] %}".repeat(20_000)
    );
    ends(&macros).ok();
}

/// Every way that is known to make much out of little.
#[test]
fn what_multiplies_is_bounded() {
    let doubling = |start: &str, step: &str, end: &str| {
        format!(
            "{{% set ns = namespace(a={start}) %}}{{% for i in range(60) %}}{{% set ns.a = {step} %}}{{% endfor %}}{end}"
        )
    };
    let steps = [
        "ns.a ~ ns.a",
        "ns.a + ns.a",
        "[ns.a, ns.a] | join",
        "''.join([ns.a, ns.a])",
        "ns.a * 2",
        "ns.a | replace('x', 'xx')",
        "ns.a.replace('x', 'xx')",
        "'%s%s' | format(ns.a, ns.a)",
        "'{0}{0}'.format(ns.a)",
        "(ns.a ~ 'x') | join(ns.a)",
        "[ns.a, ns.a] | string",
        "[ns.a, ns.a] | tojson",
        "[ns.a] | batch(2, ns.a) | join | string",
        "(ns.a ~ '\n' ~ ns.a) | indent(4)",
    ];
    for step in extent::some(steps, 0, 3) {
        is_bounded(&doubling("'x'", step, "{{ ns.a | length }}"));
    }
    let ends = [
        "{{ ns.a }}",
        "{{ ns.a | tojson }}",
        "{{ ns.a == ns.a + [] }}",
        "{{ ns.a | pprint }}",
        "{{ ns.a ~ '' }}",
        "{{ ns.a | join }}",
        "{{ ns.a | sort }}",
        "{{ ns.a | unique }}",
        "{{ 'x' in ns.a }}{{ ns.a | string }}",
        "{{ {ns.a: 1} }}",
        "{{ ns.a < ns.a + [] }}",
        "{{ ns.a | groupby(0) }}{{ ns.a }}",
    ];
    for end in extent::some(ends, 0, 3) {
        is_bounded(&doubling("[1]", "[ns.a, ns.a]", end));
        is_bounded(&doubling("[1]", "ns.a + ns.a", end));
    }
    let items =
        "{% for i in range(29) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{% for x in ns.a %}{% endfor %}";
    is_bounded(&format!("{{% set ns = namespace(a=[1]) %}}{items}"));
    for source in [
        "{{ 'a\nb' | indent(10**9) }}",
        "{{ 'a\nb' | indent(width=1000000000) }}",
        "{{ [1] | batch(10**9) | list | length }}{{ [1] | batch(10**9, 'x') }}",
        "{{ [1] | slice(10**9) | list }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '%.1000000000f' | format(1) }}",
        "{{ '%*d' | format(1000000000, 1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:>{}}'.format(1, 1000000000) }}",
        "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ messages | tojson(indent=10**8) }}",
        "{{ messages | tojson(indent='x' * 10**8) }}",
        "{{ messages * 10**7 }}",
        "{% for m in messages * 10**7 %}{{ m.role }}{% endfor %}",
        "{{ 'x' * 10**9 }}",
        "{{ 'x' * 10**7 ~ 'x' * 10**7 }}{% for i in range(100) %}{{ 'xxxxxxxxxx' * 10**5 }}{% endfor %}",
        "{{ (1,) * 10**8 }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ 'x'.zfill(10**9) }}",
        "{{ ('x' * 10**5) | replace('', 'x' * 10**5) }}",
        "{{ ('x' * 10**5).replace('x', 'x' * 10**5) }}",
        "{{ ('x' * 10**5) | join('x' * 10**5) }}",
        "{{ ('x' * 10**5).join('x' * 10**5) }}",
        "{{ ('x' * 10**5).join(['a'] * 10**5) }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{{ 'x' * 1000 | upper | length }}{% endfor %}{% for a in range(100000) %}{{ ('x' * 10000) | upper | lower }}{% endfor %}",
        "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro m(n) %}{% if n < 60 %}{{ m(n + 1) }}{{ m(n + 1) }}{% endif %}{% endmacro %}{{ m(0) }}",
        "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
        "{% for m in messages recursive %}{% for i in range(300) %}{{ a }}{{ missing }}{% set b = loop(messages) %}{% endfor %}{% endfor %}",
        "{% for again in range(40) %}{% for m in messages recursive %}{% for i in range(300) %}{% for x in range(300) if missing %}{% endfor %}{{ loop(messages) }}{% endfor %}{% endfor %}{% endfor %}",
        "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if t[999999] == 'y' %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if t | length == 3 %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if 'y' in t %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if t | int %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if t is lower and t.count('y') %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% if t == t ~ '' %}{% endif %}{% endfor %}",
        "{% set t = 'x' * 10**6 %}{% for a in range(100000) %}{% set u = t.strip('x' * 1000) %}{% endfor %}",
        "{% set t = ' ' * 10**6 %}{% for a in range(100000) %}{% set u = t.split(' ') %}{% endfor %}",
        "{% set t = ('x' * 10**6) | list %}{% for a in range(100000) %}{% if 'y' in t %}{% endif %}{% endfor %}",
        "{% set t = ('x' * 10**6) | list | sort %}{% for a in range(100000) %}{% set u = t | sort %}{% endfor %}",
        "{% set ns = namespace(a=[]) %}{% for a in range(100000) %}{% set ns.a = ns.a + ['x' * 10**5] %}{% endfor %}",
        "{{ [[1] * 10**4] * 10**4 }}",
        "{{ [1, 2] * 9999 * 9999 * 9999 }}",
        "{{ '&' * 10**6 | e | e | e | e | e | e | e | e | e | e }}{% for i in range(100) %}{{ ('&' * 10**6) | e }}{% endfor %}",
        "{% autoescape true %}{% for i in range(100) %}{{ '&' * 10**6 }}{% endfor %}{% endautoescape %}",
        "{% include 'chat' %}",
        "{% extends 'chat' %}",
        "{% import 'chat' as c %}",
        "{{ debug() }}",
        "{{ lipsum(10**9) }}",
        "{{ range(10**9) }}",
        "{{ range(100000) | map('string') | map('upper') | join('x' * 10**4) }}",
        "{{ '{0}{0}{0}{0}{0}{0}{0}{0}{0}{0}'.format('x' * 10**7) }}{{ '{0}{0}{0}{0}'.format('x' * 5 * 10**7) }}",
        "{{ 'x' * 10**6 | pprint | pprint | pprint | pprint | pprint | pprint | pprint | pprint | pprint | pprint }}{{ 'x' * 10**10 }}",
    ] {
        is_bounded(source);
    }
}

/// Templates with loops, recursion, counting and text within reason are not touched.
#[test]
fn ordinary_programs_are_not_refused() {
    for (source, text) in [
        ("{{ '-' * 80 }}", "-".repeat(80)),
        // Schemas of tools within schemas.
        (
            "{% macro m(n) %}{% for i in [n] %}{% if i < 25 %}x{{ m(i + 1) }}{% endif %}{% endfor %}{% endmacro %}{{ m(0) }}",
            "x".repeat(25),
        ),
        ("{{ '=' * 3 ~ [1, 2] * 2 }}", "===[1, 2, 1, 2]".to_owned()),
        ("{{ 1024 * 1024 * 1024 * 8 }}", (8i64 << 30).to_string()),
        ("{{ [][::-1] }}{{ messages[::-1] | length }}", "[]1".to_owned()),
        ("{{ '%05d|%-5s|%.2f' | format(7, 'a', 1.5) }}", "00007|a    |1.50".to_owned()),
        ("{{ '20250714123456789 %s' | format('x') }}", "20250714123456789 x".to_owned()),
        ("{{ (1, 2) + (3,) }}{{ 1 == 1.0 }}{{ 'a' < 'b' < 'c' }}", "(1, 2, 3)TrueTrue".to_owned()),
        (
            "{% set ns = namespace(n=0) %}{% for i in range(100000) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "4999950000".to_owned(),
        ),
    ] {
        assert_eq!(ends(source).unwrap(), text, "{source}");
    }
}

/// A message of any of these is repeated until the conversation is 100 times as long.
fn long(case: &Value) -> Vec<Value> {
    let messages = case["messages"].as_array().unwrap();
    let system = messages.first().filter(|m| m["role"] == "system" || m["role"] == "developer");
    let rest = &messages[usize::from(system.is_some())..];
    // Another user may not follow a user.
    let ends_with_user = rest.last().is_some_and(|m| m["role"] == "user");
    let answer = json!({"role": "assistant", "content": "An answer of some length. ".repeat(20)});
    let turn = rest.iter().cloned().chain(ends_with_user.then_some(answer));
    let turn: Vec<Value> = turn.collect();
    let mut all: Vec<Value> = system.cloned().into_iter().collect();
    for _ in 0..100 {
        all.extend(turn.iter().cloned());
    }
    all.pop_if(|last| ends_with_user && last["role"] == "assistant");
    all
}

/// All shared templates with conversations 100 times as long as usual, in messages and in bytes.
#[test]
fn no_real_template_meets_a_limit() {
    let Some(folder) = shared("templates") else { return };
    let cases: Value = serde_json::from_str(include_str!("../templates/cases.json")).unwrap();
    let mut faults = String::new();
    let mut rendered = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let template = ChatTemplate::new(&read_text(&path)).unwrap();
        for (name, case) in cases.as_object().unwrap() {
            let list = |key: &str| case.get(key).and_then(Value::as_array).map(Vec::as_slice);
            let mut messages = long(case);
            for message in &mut messages {
                if let Some(text) = message["content"].as_str().map(|text| text.repeat(20)) {
                    message["content"] = text.into();
                }
            }
            let conversation = Conversation {
                messages: &messages,
                tools: list("tools"),
                documents: list("documents"),
                add_generation_prompt: true,
                bos_token: Some("<BOS>"),
                eos_token: Some("<EOS>"),
                variables: case.get("variables").and_then(Value::as_object),
            };
            match template.render(&conversation) {
                Ok(_) => rendered += 1,
                Err(ChatError::Limit(limit)) => {
                    writeln!(faults, "{} / {name}: {limit}", path.display()).unwrap();
                }
                Err(_) => {}
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(rendered > 300, "{rendered}");
}
