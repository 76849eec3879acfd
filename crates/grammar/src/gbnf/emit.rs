//! A grammar of parts as Lark.

use std::collections::HashMap;
use std::fmt::Write;

use super::fuse::fuse;
use super::part::RulePart;
use super::regex::{character_regex, regex};
use super::rules::{Node, RuleSet};
use crate::error::Result;
use crate::lark::terminal;
use crate::lowered::LarkPiece;
use crate::regex::counts;

/// Of which a terminal never is empty.
const NOT_EMPTY: &str = "/(?s:.)+/";

/// `rules` in the library's form.
pub(super) fn lark(rules: &RuleSet) -> Result<Vec<LarkPiece>> {
    if rules.regular()[rules.root] {
        return Ok(vec![LarkPiece::Text(regular(rules))]);
    }
    let parts = fuse(rules)?;
    let mut out = LarkOutput { rules, pieces: Vec::new(), text: String::new(), terminals: HashMap::new() };
    let _ = writeln!(out.text, "start: r{}", rules.root);
    for (rule, part) in parts.iter().enumerate() {
        let Some(part) = part else { continue };
        let _ = write!(out.text, "r{rule}: ");
        out.part(part);
        out.text.push('\n');
    }
    Ok(out.finish())
}

/// Longer expressions are written as terminals of terminals.
const LONGEST_REGEX: usize = 64 << 10;

/// A grammar without recursion: one terminal. Where its expression is long, rules are terminals again, so that what is
/// used twice is there once.
fn regular(rules: &RuleSet) -> String {
    let mut out = String::new();
    if let Some(regex) = regex(&rules.bodies[rules.root], rules, LONGEST_REGEX) {
        return crate::lark::of_regex(&regex);
    }
    let mut named = vec![false; rules.bodies.len()];
    let mut todo = vec![rules.root];
    while let Some(rule) = todo.pop() {
        if std::mem::replace(&mut named[rule], true) {
            continue;
        }
        let _ = write!(out, "T{rule}: ");
        expression(&rules.bodies[rule], &mut out, &mut todo);
        out.push('\n');
    }
    let root = rules.root;
    if !rules.has_text[root] {
        return "start: \"\"\n".into();
    }
    let start = match rules.nullable[root] {
        true => format!("start: ALL | \"\"\nALL: T{root} & {NOT_EMPTY}\n"),
        false => format!("start: T{root}\n"),
    };
    start + &out
}

/// A node as an expression over terminals.
fn expression(node: &Node, out: &mut String, used: &mut Vec<usize>) {
    let mut list = |nodes: &[Node], between: &str, out: &mut String| {
        out.push('(');
        for (i, node) in nodes.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { between });
            expression(node, out, used);
        }
        out.push(')');
    };
    match node {
        Node::Text(_) | Node::Class { .. } => {
            let mut regex = String::new();
            character_regex(node, &mut regex);
            out.push_str(&terminal(&regex));
        }
        Node::Sequence(nodes) if nodes.is_empty() => out.push_str("\"\""),
        Node::Sequence(nodes) => list(nodes, " ", out),
        Node::Choice(nodes) => list(nodes, " | ", out),
        Node::Repeat { most: Some(0), .. } => out.push_str("\"\""),
        Node::Repeat { inner, least, most } => {
            list(std::slice::from_ref(inner), "", out);
            out.push_str(&counts(*least, *most));
        }
        Node::Rule(rule) => {
            let _ = write!(out, "T{rule}");
            used.push(*rule);
        }
        Node::Token(_) => {}
    }
}

struct LarkOutput<'r> {
    rules: &'r RuleSet,
    pieces: Vec<LarkPiece>,
    text: String,
    /// Names of terminals by their definition.
    terminals: HashMap<String, String>,
}

impl LarkOutput<'_> {
    fn part(&mut self, part: &RulePart) {
        match part {
            RulePart::Leaf { node, nullable, .. } => self.leaf(node, *nullable),
            RulePart::Token { piece, .. } => {
                self.pieces.push(LarkPiece::Text(std::mem::take(&mut self.text)));
                self.pieces.push(piece.clone());
            }
            RulePart::Rule(rule) => {
                let _ = write!(self.text, "r{rule}");
            }
            RulePart::Sequence(parts) => self.list(parts, " "),
            RulePart::Choice(parts) => self.list(parts, " | "),
            RulePart::Repeat { most: Some(0), .. } => self.text.push_str("\"\""),
            RulePart::Repeat { inner, least, most } => {
                self.list(std::slice::from_ref(inner), "");
                self.text.push_str(&counts(*least, *most));
            }
        }
    }

    fn list(&mut self, parts: &[RulePart], between: &str) {
        self.text.push('(');
        for (i, part) in parts.iter().enumerate() {
            self.text.push_str(if i == 0 { "" } else { between });
            self.part(part);
        }
        self.text.push(')');
    }

    fn leaf(&mut self, node: &Node, nullable: bool) {
        if !self.rules.takes_text(node) {
            self.text.push_str("\"\"");
            return;
        }
        let mut definition = terminal(&regex(node, self.rules, usize::MAX).unwrap_or_default());
        if nullable {
            definition = format!("{definition} & {NOT_EMPTY}");
        }
        let count = self.terminals.len();
        let name = self.terminals.entry(definition).or_insert_with(|| format!("L{count}"));
        self.text.push_str(name);
        self.text.push_str(if nullable { "?" } else { "" });
    }

    fn finish(mut self) -> Vec<LarkPiece> {
        let mut terminals: Vec<(String, String)> = self.terminals.into_iter().collect();
        terminals.sort_by_key(|(_, name)| (name.len(), name.clone()));
        for (definition, name) in terminals {
            let _ = writeln!(self.text, "{name}: {definition}");
        }
        self.pieces.push(LarkPiece::Text(self.text));
        self.pieces
    }
}
