//! Programs of a grammar of templates: each ends soon, in bounded memory, with a text or an error, and no program ends
//! the process. 20,000 programs here; `LAMINA_FUZZ=50` runs a million, `LAMINA_FUZZ_SEED` others than usual.
//!
//! A binary of its own: the peak of memory is the process's.
#![allow(clippy::unwrap_used)]

use lamina_fixtures::{Numbers, extent};
use std::time::{Duration, Instant};

use lamina_base::peak_rss;
use lamina_chat::{ChatTemplate, Conversation};
use serde_json::{Value, json};

/// A debug build on a busy machine is an order of magnitude slower than a release.
const SLOWEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// What a program may take beyond a good one.
const MOST_BYTES: u64 = 256 << 20;

const NAMES: &[&str] = &["a", "b", "ns", "messages", "m", "loop", "tools", "f", "missing"];
const FILTERS: &[&str] = &[
    "upper",
    "lower",
    "title",
    "capitalize",
    "trim",
    "list",
    "length",
    "first",
    "last",
    "reverse",
    "sort",
    "unique",
    "string",
    "int",
    "float",
    "tojson",
    "join",
    "join(',')",
    "items",
    "dictsort",
    "min",
    "max",
    "sum",
    "escape",
    "safe",
    "pprint",
    "indent(2)",
    "indent(a)",
    "batch(2)",
    "slice(3)",
    "batch(b)",
    "replace('a', 'bb')",
    "replace('', a)",
    "map('upper')",
    "map(attribute='role')",
    "selectattr('role')",
    "rejectattr('x', 'eq', 1)",
    "select('defined')",
    "groupby('role')",
    "default(1)",
    "format(a)",
    "tojson(indent=2)",
    "tojson(indent=a)",
    "round(2)",
    "abs",
    "attr('role')",
    "chain(a)",
    "zip(b)",
    "truncate(5)",
    "wordcount",
    "nothing",
    "split",
    "lines",
];
const METHODS: &[&str] = &[
    "upper()",
    "strip()",
    "strip('ab')",
    "split()",
    "split(',')",
    "replace('a', 'b')",
    "items()",
    "keys()",
    "values()",
    "get('role')",
    "startswith('a')",
    "find('b')",
    "count('a')",
    "join([a, b])",
    "format(a, b)",
    "title()",
    "splitlines()",
    "rjust(9)",
    "ljust(a)",
    "zfill(5)",
    "role",
    "content",
    "x",
    "append(1)",
    "index('a')",
    "partition('a')",
    "rsplit('a', 1)",
    "removeprefix('a')",
    "cycle(1, 2)",
    "changed(a)",
];
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "< 1 <"];

/// A writer of programs.
struct Program<'r> {
    random: &'r mut Numbers,
    text: String,
    depth: usize,
}

impl Program<'_> {
    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.random.below(list.len())]
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Most numbers are small; a few are what a hostile program would take.
    fn number(&mut self) -> String {
        match self.random.below(400) {
            0 => "10**9".into(),
            1 => "100000".into(),
            2 => "-1".into(),
            3 => "1.5e300".into(),
            _ => self.random.below(9).to_string(),
        }
    }

    fn expression(&mut self) {
        self.depth += 1;
        let choice = if self.depth > 6 { self.random.below(4) } else { self.random.below(16) };
        match choice {
            0 | 1 => {
                let name = self.one_of(NAMES);
                self.put(name);
            }
            2 => {
                let number = self.number();
                self.put(&number);
            }
            3 => {
                let text = self.one_of(&[
                    "'a'",
                    "''",
                    "'{} {0}'",
                    "'%s %5d'",
                    "'a,b\\nc'",
                    "\"\u{e9}\u{1f600}\"",
                    "none",
                    "true",
                ]);
                self.put(text);
            }
            4 | 5 => {
                self.expression();
                let operator = self.one_of(OPERATORS);
                self.put(&format!(" {operator} "));
                self.expression();
            }
            6 | 7 => {
                self.put("(");
                self.expression();
                let filter = self.one_of(FILTERS);
                self.put(&format!(") | {filter}"));
            }
            8 => {
                self.put("(");
                self.expression();
                let method = self.one_of(METHODS);
                self.put(&format!(").{method}"));
            }
            9 => self.list("[", "]"),
            10 => self.list("(", ",)"),
            11 => {
                self.put("{'x': ");
                self.expression();
                self.put(", ");
                self.expression();
                self.put(": 1}");
            }
            12 => {
                self.put("(");
                self.expression();
                let slice =
                    self.one_of(&["[0]", "[-1]", "[1:]", "[::-1]", "['role']", "[a]", "[a:b]", "[::0]"]);
                self.put(&format!("){slice}"));
            }
            13 => {
                self.put("(");
                self.expression();
                self.put(" if ");
                self.expression();
                self.put(" else ");
                self.expression();
                self.put(")");
            }
            14 => {
                let call = self.one_of(&[
                    "range(5)",
                    "namespace(x=ns)",
                    "dict(a=b)",
                    "f(a)",
                    "joiner(a)",
                    "cycler(a, b)",
                    "loop(a)",
                    "caller()",
                    "strftime_now('%Y')",
                    "raise_exception('no')",
                ]);
                self.put(call);
            }
            _ => {
                let prefix = self.one_of(&["not ", "-"]);
                self.put(prefix);
                self.expression();
                let test = self.one_of(&[
                    "",
                    " is defined",
                    " is string",
                    " is mapping",
                    " is eq(a)",
                    " is in(b)",
                    " is sameas(ns)",
                ]);
                self.put(test);
            }
        }
        self.depth -= 1;
    }

    fn list(&mut self, open: &str, close: &str) {
        self.put(open);
        self.expression();
        self.put(", ");
        self.expression();
        self.put(close);
    }

    /// A tag with an expression.
    fn tag(&mut self, before: &str, after: &str) {
        self.put(before);
        self.expression();
        self.put(after);
    }

    fn statement(&mut self) {
        self.depth += 1;
        let choice = if self.depth > 4 { self.random.below(4) } else { self.random.below(12) };
        match choice {
            0 | 1 => self.tag("{{ ", " }}"),
            2 => {
                let target = self.one_of(&["a", "b", "ns.x", "ns.y", "m"]);
                self.tag(&format!("{{% set {target} = "), " %}");
            }
            3 => self.put("text <|im_end|> \u{e9}\n"),
            4 | 5 => {
                let target = self.one_of(&["a", "m", "a, b"]);
                self.tag(&format!("{{% for {target} in "), " %}");
                self.body("{% endfor %}");
            }
            6 => {
                self.tag("{% if ", " %}");
                self.body("{% endif %}");
            }
            7 => {
                let head = self.one_of(&["range(7)", "messages recursive", "range(3) if a", "range(300)"]);
                self.put(&format!("{{% for i in {head} %}}"));
                self.body("{% endfor %}");
            }
            8 => {
                self.put("{% macro f(a, b=1) %}");
                self.body("{% endmacro %}");
            }
            9 => {
                self.put("{% set b %}");
                self.body("{% endset %}");
            }
            10 => {
                let filter = self.one_of(&["upper", "indent(2)", "replace('a', 'aa')", "trim"]);
                self.put(&format!("{{% filter {filter} %}}"));
                self.body("{% endfilter %}");
            }
            _ => {
                self.put("{% call f(1) %}");
                self.body("{% endcall %}");
            }
        }
        self.depth -= 1;
    }

    fn body(&mut self, end: &str) {
        for _ in 0..1 + self.random.below(3) {
            self.statement();
        }
        self.put(end);
    }
}

fn program(random: &mut Numbers) -> String {
    let start = "{% set ns = namespace(x=[1]) %}{% set a = 'ab' %}{% set b = [1, 'x'] %}".to_owned();
    let mut program = Program { random, text: start, depth: 0 };
    for _ in 0..2 + program.random.below(4) {
        program.statement();
    }
    // Half of them run in a loop, where what they keep in the namespace grows.
    match program.random.below(2) {
        0 => format!("{{% for again in range(40) %}}{}{{% endfor %}}", program.text),
        _ => program.text,
    }
}

#[test]
fn every_program_ends() {
    let times: usize = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let messages: Vec<Value> = vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": [{"type": "text", "text": "a, b"}]}),
        json!({"role": "assistant", "content": "x".repeat(100), "tool_calls": []}),
    ];
    let conversation =
        Conversation { messages: &messages, add_generation_prompt: true, ..Conversation::default() };
    ChatTemplate::new("{{ messages }}").and_then(|t| t.render(&conversation)).unwrap();
    let before = peak_rss();
    let mut random = Numbers::fuzz(20);
    let mut rendered = 0;
    let programs = if extent::is_whole() { 20_000 } else { 5_000 };
    for _ in 0..programs * times {
        let source = program(&mut random);
        let start = Instant::now();
        let result = ChatTemplate::new(&source).and_then(|template| template.render(&conversation));
        assert!(start.elapsed() < SLOWEST, "{:?}\n{source}", start.elapsed());
        if let (Some(before), Some(now)) = (before, peak_rss()) {
            assert!(now < before + MOST_BYTES, "{} bytes\n{source}", now - before);
        }
        rendered += usize::from(result.is_ok());
    }
    assert!(rendered > programs / 100 * times, "{rendered}");
}
