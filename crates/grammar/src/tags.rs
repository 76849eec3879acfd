//! Structural tags, as vLLM and xgrammar write them: free text with parts of a given form.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::error::{GrammarError, Result};
use crate::lowered::{LarkPiece, SchemaOptions};
use crate::{gbnf, lark, limits, regex, schema};

const WHAT: &str = "structural tag";

/// The tag as Lark.
pub(crate) fn lark(tag: &Value) -> Result<Vec<LarkPiece>> {
    let format = match (tag.get("format"), tag.get("structures")) {
        (Some(format), _) => format.clone(),
        (None, Some(_)) => old_form(tag)?,
        _ => return Err(wrong("", "format or structures must be there")),
    };
    let mut build = TagBuilder::default();
    let start = build.format(&format, "/format", 0)?;
    let mut out = vec![text("start: ")];
    out.extend(start);
    out.push(text("\n"));
    out.extend(build.rules);
    Ok(out)
}

fn text(text: impl Into<String>) -> LarkPiece {
    LarkPiece::Text(text.into())
}

fn wrong(path: &str, why: &str) -> GrammarError {
    let place = if path.is_empty() { String::new() } else { format!("at {path}: ") };
    GrammarError::broken(WHAT, format!("{place}{why}"))
}

/// `{"structures": [{begin, schema, end}], "triggers": [..]}` in the new form.
fn old_form(tag: &Value) -> Result<Value> {
    let structures = tag["structures"].as_array().ok_or_else(|| wrong("/structures", "must be a list"))?;
    let tags = structures.iter().map(|structure| {
        let schema = structure.get("schema").cloned().unwrap_or(Value::Bool(true));
        json!({
            "begin": structure["begin"],
            "content": { "type": "json_schema", "json_schema": schema },
            "end": structure["end"],
        })
    });
    let tags: Vec<Value> = tags.collect();
    Ok(json!({ "type": "triggered_tags", "triggers": tag["triggers"], "tags": tags }))
}

/// An expression of Lark.
type Expression = Vec<LarkPiece>;

#[derive(Default)]
struct TagBuilder {
    rules: Vec<LarkPiece>,
    count: usize,
}

impl TagBuilder {
    fn format(&mut self, format: &Value, path: &str, depth: usize) -> Result<Expression> {
        if depth > limits::NESTING / 10 {
            let what = "a structural tag nested deeper";
            return Err(GrammarError::too_large(what, limits::NESTING / 10, "flatten it"));
        }
        let part =
            |build: &mut Self, key: &str| build.format(&format[key], &format!("{path}/{key}"), depth + 1);
        let grouped = |inner: Expression, after: &str| {
            [vec![text("(")], inner, vec![text(format!("){after}"))]].concat()
        };
        match format["type"].as_str().unwrap_or_default() {
            "const_string" => Ok(vec![text(literal(string(format, "value", path)?))]),
            "any_text" => Ok(self.free_text(&strings(format, "excludes", path)?)),
            "json_schema" => self.schema(format, path),
            "regex" => {
                let plain = regex::plain(string(format, "pattern", path)?, regex::Scope::Whole);
                let plain = plain.map_err(|why| wrong(path, &why))?;
                Ok(self.terminal(&plain.ok_or_else(|| wrong(path, "the pattern matches nothing"))?))
            }
            "grammar" => {
                let inner = gbnf::lark(string(format, "grammar", path)?)?;
                Ok([vec![text("%lark {\n")], inner, vec![text("}")]].concat())
            }
            "token" => token(&format["token"]).ok_or_else(|| wrong(path, "token must be an id or a name")),
            "optional" => Ok(grouped(part(self, "content")?, "?")),
            "plus" => Ok(grouped(part(self, "content")?, "+")),
            "star" => Ok(grouped(part(self, "content")?, "*")),
            "repeat" => {
                let count = |key: &str| format.get(key).and_then(Value::as_u64).filter(|&n| n <= 10_000);
                let most = count("max").map_or(String::new(), |n| n.to_string());
                Ok(grouped(part(self, "content")?, &format!("{{{},{most}}}", count("min").unwrap_or(0))))
            }
            "or" => self.alternatives(list(format, "elements", path)?, path, depth),
            "sequence" => self.sequence(list(format, "elements", path)?, path, depth),
            "tag" => self.tag(format, 0, path, depth),
            "triggered_tags" => self.triggered(format, path, depth),
            "tags_with_separator" => self.separated(format, path, depth),
            other => Err(GrammarError::refused(other, path, "this kind of structural tag is not supported")),
        }
    }

    /// A terminal of its own, optional where it may be empty.
    fn terminal(&mut self, regex: &str) -> Expression {
        let name = self.name("X");
        let definition = lark::terminal(regex);
        self.rules.push(text(format!("{name}: {definition} & /(?s:.)+/\n")));
        let empty = regex_automata::meta::Regex::new(&format!("^(?:{regex})$")).is_ok_and(|r| r.is_match(""));
        vec![text(if empty { format!("{name}?") } else { name })]
    }

    fn name(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    /// Text in which none of `without` occurs.
    fn free_text(&mut self, without: &[&str]) -> Expression {
        let name = self.name("X");
        let mut definition = "/(?s:.)+/".to_owned();
        if !without.is_empty() {
            let any: Vec<String> = without.iter().map(|w| regex::literal(w)).collect();
            let within = lark::terminal(&format!("(?s:.)*(?:{})(?s:.)*", any.join("|")));
            let _ = write!(definition, " & ~{within}");
        }
        self.rules.push(text(format!("{name}: {definition}\n")));
        vec![text(format!("{name}?"))]
    }

    /// Text up to the first place where `end` stands, and that.
    fn text_up_to(&mut self, end: &str) -> Expression {
        let name = self.name("x");
        let all = lark::terminal(&format!("(?s:.)*{}", regex::literal(end)));
        self.rules.push(text(format!("{name}[lazy]: {all}\n")));
        vec![text(name)]
    }

    fn schema(&mut self, format: &Value, path: &str) -> Result<Expression> {
        if let Some(style) = format.get("style").and_then(Value::as_str).filter(|style| *style != "json") {
            let why = format!("the style {style} is not supported; only json is");
            return Err(GrammarError::refused("style", path, why));
        }
        let (schema, _) = schema::normalize(&format["json_schema"], SchemaOptions::default())?;
        Ok(vec![text(format!("%json {schema}"))])
    }

    fn alternatives(&mut self, formats: &[Value], path: &str, depth: usize) -> Result<Expression> {
        let mut out = vec![text("(")];
        for (i, format) in formats.iter().enumerate() {
            out.extend((i > 0).then(|| text(" | ")));
            out.extend(self.format(format, &format!("{path}/elements/{i}"), depth + 1)?);
        }
        out.push(text(")"));
        Ok(out)
    }

    fn sequence(&mut self, formats: &[Value], path: &str, depth: usize) -> Result<Expression> {
        let mut out = vec![text("(\"\"")];
        let mut formats = formats.iter().enumerate().peekable();
        while let Some((i, format)) = formats.next() {
            out.push(text(" "));
            let is_text = format["type"] == "any_text";
            match formats.peek().map(|(_, next)| *next).filter(|_| is_text) {
                Some(next) if next["type"] == "const_string" => {
                    out.extend(self.text_up_to(string(next, "value", path)?));
                    formats.next();
                }
                Some(_) => {
                    let why = "any_text must be followed by a const_string, or be the last";
                    return Err(GrammarError::refused("any_text", path, why));
                }
                None => out.extend(self.format(format, &format!("{path}/elements/{i}"), depth + 1)?),
            }
        }
        out.push(text(")"));
        Ok(out)
    }

    /// A tag whose begin is already written up to the byte `from`.
    fn tag(&mut self, tag: &Value, from: usize, path: &str, depth: usize) -> Result<Expression> {
        let begin = match &tag["begin"] {
            Value::String(begin) => vec![text(literal(&begin[from..]))],
            begin => {
                token(&begin["token"]).ok_or_else(|| wrong(path, "begin must be a string or a token"))?
            }
        };
        let content = &tag["content"];
        let ends: Vec<&str> = match &tag["end"] {
            Value::String(end) => vec![end],
            Value::Array(ends) => ends.iter().filter_map(Value::as_str).collect(),
            Value::Null => vec![""],
            end => {
                let end =
                    token(&end["token"]).ok_or_else(|| wrong(path, "end must be a string or a token"))?;
                let content = self.format(content, &format!("{path}/content"), depth + 1)?;
                return Ok([
                    vec![text("(")],
                    begin,
                    vec![text(" ")],
                    content,
                    vec![text(" ")],
                    end,
                    vec![text(")")],
                ]
                .concat());
            }
        };
        if ends.is_empty() {
            return Err(wrong(path, "end must be a string or strings"));
        }
        let mut out = vec![text("(")];
        out.extend(begin);
        out.push(text(" "));
        match (content["type"].as_str(), ends.as_slice()) {
            (Some("any_text"), [end]) if !end.is_empty() => out.extend(self.text_up_to(end)),
            (Some("any_text"), [_, _, ..]) => {
                return Err(GrammarError::refused(
                    "any_text",
                    path,
                    "several ends of free text are not supported",
                ));
            }
            _ => {
                out.extend(self.format(content, &format!("{path}/content"), depth + 1)?);
                let ends: Vec<String> = ends.iter().map(|end| literal(end)).collect();
                out.push(text(format!(" ({})", ends.join(" | "))));
            }
        }
        out.push(text(")"));
        Ok(out)
    }

    fn triggered(&mut self, format: &Value, path: &str, depth: usize) -> Result<Expression> {
        let triggers = strings(format, "triggers", path)?;
        let tags = list(format, "tags", path)?;
        if triggers.is_empty() || triggers.contains(&"") {
            return Err(wrong(path, "triggers must be strings that are not empty"));
        }
        let flag = |key: &str| format.get(key) == Some(&Value::Bool(true));
        let excludes = strings(format, "excludes", path)?;
        let mut free = vec![text("(")];
        let mut used = vec![false; tags.len()];
        for (i, trigger) in triggers.iter().enumerate() {
            free.extend((i > 0).then(|| text(" | ")));
            free.extend(self.text_up_to(trigger));
            let matching = tags
                .iter()
                .enumerate()
                .filter(|(_, tag)| tag["begin"].as_str().is_some_and(|begin| begin.starts_with(trigger)));
            free.push(text(" ("));
            for (n, (j, tag)) in matching.enumerate() {
                used[j] = true;
                free.extend((n > 0).then(|| text(" | ")));
                free.extend(self.tag(tag, trigger.len(), &format!("{path}/tags/{j}"), depth + 1)?);
            }
            free.push(text(")"));
        }
        free.push(text(")"));
        if let Some(j) = used.iter().position(|used| !used) {
            return Err(wrong(&format!("{path}/tags/{j}"), "no trigger begins this tag"));
        }
        let mut tail = self.free_text(&[triggers, excludes].concat());
        if flag("stop_after_first") {
            tail.clear();
        }
        let times = match (flag("at_least_one"), flag("stop_after_first")) {
            (true, _) => {
                let first = self.tags(tags, path, depth)?;
                let more =
                    if flag("stop_after_first") { Vec::new() } else { [free, vec![text("*")]].concat() };
                return Ok([
                    vec![text("(")],
                    first,
                    vec![text(" ")],
                    more,
                    vec![text(" ")],
                    tail,
                    vec![text(")")],
                ]
                .concat());
            }
            (false, true) => "",
            (false, false) => "*",
        };
        Ok([vec![text("(")], free, vec![text(format!("{times} "))], tail, vec![text(")")]].concat())
    }

    fn tags(&mut self, tags: &[Value], path: &str, depth: usize) -> Result<Expression> {
        let mut out = vec![text("(")];
        for (i, tag) in tags.iter().enumerate() {
            out.extend((i > 0).then(|| text(" | ")));
            out.extend(self.tag(tag, 0, &format!("{path}/tags/{i}"), depth + 1)?);
        }
        out.push(text(")"));
        Ok(out)
    }

    fn separated(&mut self, format: &Value, path: &str, depth: usize) -> Result<Expression> {
        let tags = self.tags(list(format, "tags", path)?, path, depth)?;
        let flag = |key: &str| format.get(key) == Some(&Value::Bool(true));
        let separator = literal(string(format, "separator", path)?);
        let mut out = vec![text("(")];
        out.extend(tags.clone());
        if !flag("stop_after_first") {
            out.push(text(format!(" ({separator} ")));
            out.extend(tags);
            out.push(text(")*"));
        }
        out.push(text(if flag("at_least_one") { ")" } else { ")?" }));
        Ok(out)
    }
}

fn literal(value: &str) -> String {
    lark::terminal(&regex::literal(value))
}

fn token(value: &Value) -> Option<Expression> {
    match value {
        Value::Number(id) => Some(vec![LarkPiece::Numbered(id.as_u64()?.to_string())]),
        Value::String(name) => Some(vec![LarkPiece::Named { name: name.clone(), negated: false }]),
        _ => None,
    }
}

fn string<'v>(format: &'v Value, key: &str, path: &str) -> Result<&'v str> {
    format[key].as_str().ok_or_else(|| wrong(path, &format!("{key} must be a string")))
}

fn strings<'v>(format: &'v Value, key: &str, path: &str) -> Result<Vec<&'v str>> {
    let Some(value) = format.get(key) else { return Ok(Vec::new()) };
    let wrong = || wrong(path, &format!("{key} must be a list of strings"));
    value.as_array().ok_or_else(wrong)?.iter().map(|v| v.as_str().ok_or_else(wrong)).collect()
}

fn list<'v>(format: &'v Value, key: &str, path: &str) -> Result<&'v [Value]> {
    let list = format[key].as_array().filter(|list| !list.is_empty());
    list.map(Vec::as_slice).ok_or_else(|| wrong(path, &format!("{key} must be a list that is not empty")))
}
