//! Lark in the library's dialect: what is passed on, and what is refused.

use serde_json::Value;

use crate::error::{GrammarError, Result};
use crate::lowered::{LarkPiece, Lowered, SchemaOptions};
use crate::{limits, schema};

/// Attributes of rules that take tokens back or change how they are sampled.
const REFUSED_ATTRIBUTES: &[&str] = &["max_tokens", "stop", "stop_capture", "temperature"];

/// A terminal of Lark for a regular expression.
pub(crate) fn terminal(regex: &str) -> String {
    if regex.is_empty() {
        return "\"\"".into();
    }
    let mut out = String::with_capacity(regex.len() + 2);
    out.push('/');
    let mut escaped = false;
    for c in regex.chars() {
        match c {
            '/' if !escaped => out.push_str("\\/"),
            '\n' => out.push_str(if escaped { "n" } else { "\\n" }),
            c => out.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    out.push('/');
    out
}

/// A grammar of one regular expression.
pub(crate) fn of_regex(regex: &str) -> String {
    format!("start: {}\n", terminal(regex))
}

/// `text` in pieces, tokens apart, schemas rewritten.
pub(crate) fn checked(text: &str) -> Result<Vec<LarkPiece>> {
    let mut scan = LarkScan { text, at: 0, copied: 0, depth: 0, out: Vec::new() };
    while scan.at < text.len() {
        scan.step()?;
    }
    scan.copy();
    Ok(scan.out)
}

/// A lowered grammar as an expression of Lark.
pub(crate) fn nested(lowered: &Lowered) -> Vec<LarkPiece> {
    match lowered {
        Lowered::Schema(value) => vec![LarkPiece::Text(format!("%json {value}"))],
        Lowered::Lark(pieces) => {
            let text = |text: &str| vec![LarkPiece::Text(text.into())];
            [text("%lark {\n"), pieces.clone(), text("\n}")].concat()
        }
    }
}

/// `pieces` with `inside` wherever they have `hole`.
pub(crate) fn filled(pieces: Vec<LarkPiece>, hole: &str, inside: &[LarkPiece]) -> Vec<LarkPiece> {
    let mut out = Vec::new();
    for piece in pieces {
        let LarkPiece::Text(text) = piece else {
            out.push(piece);
            continue;
        };
        for (i, part) in text.split(hole).enumerate() {
            if i > 0 {
                out.extend_from_slice(inside);
            }
            out.push(LarkPiece::Text(part.to_owned()));
        }
    }
    out
}

struct LarkScan<'t> {
    text: &'t str,
    at: usize,
    /// Up to here `text` is in `out`.
    copied: usize,
    depth: usize,
    out: Vec<LarkPiece>,
}

impl LarkScan<'_> {
    fn step(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return Ok(()) };
        match first {
            '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => self.at += rest.find('\n').unwrap_or(rest.len()),
            '"' | '/' => self.at += quoted(rest, first).ok_or_else(|| self.error("it does not end"))?,
            '<' => self.token(rest),
            '%' => self.directive(rest)?,
            '(' | '[' | '{' => self.open()?,
            ')' | ']' | '}' => {
                self.depth = self.depth.saturating_sub(1);
                self.at += 1;
            }
            c if c.is_ascii_alphabetic() || c == '_' => self.word(rest)?,
            c => self.at += c.len_utf8(),
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        self.depth += 1;
        self.at += 1;
        if self.depth > limits::NESTING {
            let what = "a Lark grammar nested deeper";
            return Err(GrammarError::too_large(what, limits::NESTING, "flatten it"));
        }
        Ok(())
    }

    fn word(&mut self, rest: &str) -> Result<()> {
        let end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
        let assigned = rest[end..].trim_start().starts_with('=');
        if assigned && REFUSED_ATTRIBUTES.contains(&&rest[..end]) {
            let why =
                "it would need tokens to be taken back or sampled otherwise; use the request's own options";
            return Err(GrammarError::refused(&rest[..end], "", why));
        }
        self.at += end;
        Ok(())
    }

    /// `<name>` or `<[id]>`.
    fn token(&mut self, rest: &str) {
        let end =
            rest.find(|c: char| c == '>' || c.is_whitespace()).filter(|&end| rest[end..].starts_with('>'));
        let Some(end) = end.filter(|&end| end > 1) else {
            self.at += 1;
            return;
        };
        self.copy();
        let inside = &rest[1..end];
        self.out.push(match inside.strip_prefix('[').and_then(|i| i.strip_suffix(']')) {
            Some(ids) => LarkPiece::Numbered(ids.to_owned()),
            None => LarkPiece::Named { name: rest[..=end].to_owned(), negated: false },
        });
        self.at += end + 1;
        self.copied = self.at;
    }

    fn directive(&mut self, rest: &str) -> Result<()> {
        let end = rest[1..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        self.at += end;
        let name = &rest[..end];
        if !["%json", "%llguidance", "%regex"].contains(&name) {
            return Ok(());
        }
        let mut values = serde_json::Deserializer::from_str(&rest[end..]).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(e)) => return Err(self.error(&format!("{name}: {e}"))),
            None => return Err(self.error(&format!("{name} must be followed by JSON"))),
        };
        let length = values.byte_offset();
        if name == "%llguidance" && value.get("allow_invalid_utf8") == Some(&Value::Bool(true)) {
            let why = "answers are text, so it cannot be allowed";
            return Err(GrammarError::refused("allow_invalid_utf8", "", why));
        }
        if name == "%json" {
            let (schema, _) = schema::normalize(&value, SchemaOptions::default())?;
            self.copy();
            self.out.push(LarkPiece::Text(format!("{schema}")));
            self.copied = self.at + length;
        }
        self.at += length;
        Ok(())
    }

    fn copy(&mut self) {
        if self.copied < self.at {
            self.out.push(LarkPiece::Text(self.text[self.copied..self.at].to_owned()));
        }
        self.copied = self.at;
    }

    fn error(&self, why: &str) -> GrammarError {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        GrammarError::Syntax { what: "Lark", line, column, why: why.into() }
    }
}

/// Length of what begins with `mark`, up to the next that has no backslash before it.
fn quoted(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == mark && !escaped {
            return Some(at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}
