//! Regular nodes as regular expressions.

use std::fmt::Write;

use super::rules::{Node, RuleSet};
use crate::regex::counts;

/// Appends characters, or one of a class.
pub(super) fn character_regex(node: &Node, out: &mut String) {
    match node {
        Node::Text(text) => out.push_str(&regex_syntax::escape(text)),
        Node::Class { ranges, .. } if ranges.is_empty() => out.push_str("(?s:.)"),
        Node::Class { ranges, negated } => {
            out.push_str(if *negated { "[^" } else { "[" });
            let mut ranges = ranges.clone();
            ranges.sort_unstable();
            for (low, high) in ranges {
                let _ = write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", low as u32, high as u32);
            }
            out.push(']');
        }
        _ => {}
    }
}

/// A regular node as one expression; None when it is longer than `limit`.
pub(super) fn regex(node: &Node, rules: &RuleSet, limit: usize) -> Option<String> {
    let mut out = String::new();
    write_regex(node, rules, limit, &mut out)?;
    Some(out)
}

fn write_regex(node: &Node, rules: &RuleSet, limit: usize, out: &mut String) -> Option<()> {
    if out.len() > limit {
        return None;
    }
    let group = |inner: &Node, out: &mut String| {
        out.push_str("(?:");
        write_regex(inner, rules, limit, out)?;
        out.push(')');
        Some(())
    };
    match node {
        Node::Text(_) | Node::Class { .. } => character_regex(node, out),
        Node::Sequence(nodes) => nodes.iter().try_for_each(|node| match node {
            Node::Choice(_) | Node::Rule(_) => group(node, out),
            node => write_regex(node, rules, limit, out),
        })?,
        Node::Choice(nodes) => {
            let ways = alternatives(nodes, rules, limit.saturating_sub(out.len()))?;
            out.push_str("(?:");
            out.push_str(&ways.join("|"));
            out.push(')');
        }
        Node::Repeat { inner, least, most } => {
            group(inner, out)?;
            out.push_str(&counts(*least, *most));
        }
        Node::Rule(rule) => write_regex(&rules.bodies[*rule], rules, limit, out)?,
        Node::Token(_) => return None,
    }
    Some(())
}

/// Alternatives as expressions, nested ones flattened, each once: the library fails on a union that has one twice.
fn alternatives(nodes: &[Node], rules: &RuleSet, limit: usize) -> Option<Vec<String>> {
    let (mut ways, mut bytes) = (Vec::new(), 0);
    let mut seen = std::collections::HashSet::new();
    let mut todo: Vec<&Node> = nodes.iter().rev().collect();
    while let Some(node) = todo.pop() {
        match node {
            Node::Choice(nodes) => todo.extend(nodes.iter().rev()),
            Node::Rule(rule) => todo.push(&rules.bodies[*rule]),
            Node::Sequence(nodes) if nodes.len() == 1 => todo.push(&nodes[0]),
            node => {
                let way = regex(node, rules, limit)?;
                bytes += way.len() + 1;
                if seen.insert(way.clone()) {
                    ways.push(way);
                }
            }
        }
        if bytes > limit || todo.len() > limit {
            return None;
        }
    }
    Some(ways)
}
