//! Which parts of a grammar may be one terminal each.
//!
//! The library's lexer takes the longest string of any terminal that is possible at a place. That changes nothing as
//! long as, wherever a string of a terminal T ends and T may be followed by some byte, no terminal that is possible at
//! the same place goes on with this byte. So each part without recursion begins as one terminal, and a terminal that
//! breaks the rule is split, down to single characters, which never break it.
//!
//! Terminals are possible at one place (a pair) if the grammar may begin with both; or if they may follow two that are
//! possible at one place and share a string. This takes in more than there is, never less.

use std::collections::{HashMap, HashSet};

use super::dfa::Dfa;
use super::follow::{Follow, Set};
use super::part::RulePart;
use super::regex::regex;
use super::rules::{Node, RuleSet, is_regular};
use crate::error::{GrammarError, Result};
use crate::limits;

/// Terminals up to which pairs are looked at; larger grammars are taken character by character.
const MOST_TERMINALS: usize = 400;
/// The same of rules.
const MOST_RULES: usize = 2_000;
/// Longer expressions are split before anything else.
const LONGEST_REGEX: usize = 64 << 10;

/// The rules that `root` needs, in parts; None for those that are within a terminal.
///
/// # Errors
/// When there are more terminals than the library can count.
pub(super) fn fuse(rules: &RuleSet) -> Result<Vec<Option<RulePart>>> {
    let regular = rules.regular();
    let mut parts: Vec<Option<RulePart>> = vec![None; rules.bodies.len()];
    let mut todo = vec![rules.root];
    while let Some(rule) = todo.pop() {
        if parts[rule].is_none() {
            let part = lifted(&rules.bodies[rule], rules, &regular);
            part.references(&mut todo);
            parts[rule] = Some(part);
        }
    }
    let mut known = HashMap::new();
    loop {
        let leaves = number(&mut parts);
        if leaves.len() > limits::TERMINALS {
            let what = format!("a grammar of {} terminals", leaves.len());
            return Err(GrammarError::too_large(what, limits::TERMINALS, "make it smaller"));
        }
        let bad = conflicts(rules, &parts, &leaves, &mut known);
        if bad.is_empty() {
            return Ok(parts);
        }
        parts.iter_mut().flatten().for_each(|part| split(part, &bad, rules));
    }
}

/// A node with its regular parts as terminals as large as they can be.
fn lifted(node: &Node, rules: &RuleSet, regular: &[bool]) -> RulePart {
    if is_regular(node, regular) {
        return RulePart::leaf(node.clone(), rules);
    }
    match node {
        Node::Rule(rule) => RulePart::Rule(*rule),
        Node::Token(piece) => RulePart::Token { piece: piece.clone(), number: 0 },
        Node::Repeat { inner, least, most } => {
            RulePart::Repeat { inner: Box::new(lifted(inner, rules, regular)), least: *least, most: *most }
        }
        Node::Choice(nodes) => {
            let (plain, rest): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|n| is_regular(n, regular));
            let plain = (!plain.is_empty())
                .then(|| RulePart::leaf(Node::Choice(plain.into_iter().cloned().collect()), rules));
            RulePart::Choice(
                plain.into_iter().chain(rest.into_iter().map(|n| lifted(n, rules, regular))).collect(),
            )
        }
        Node::Sequence(nodes) => {
            let runs = nodes.chunk_by(|a, b| is_regular(a, regular) && is_regular(b, regular));
            let run = |run: &[Node]| match run {
                [one] => lifted(one, rules, regular),
                several => RulePart::leaf(Node::Sequence(several.to_vec()), rules),
            };
            RulePart::Sequence(runs.map(run).collect())
        }
        Node::Text(_) | Node::Class { .. } => RulePart::leaf(node.clone(), rules),
    }
}

/// Numbers terminals in the order of the rules; their nodes, None for tokens.
fn number(parts: &mut [Option<RulePart>]) -> Vec<Option<Node>> {
    fn walk(part: &mut RulePart, out: &mut Vec<Option<Node>>) {
        match part {
            RulePart::Leaf { node, number, .. } => {
                *number = out.len();
                out.push(Some(node.clone()));
            }
            RulePart::Token { number, .. } => {
                *number = out.len();
                out.push(None);
            }
            RulePart::Rule(_) => {}
            RulePart::Sequence(parts) | RulePart::Choice(parts) => {
                parts.iter_mut().for_each(|part| walk(part, out))
            }
            RulePart::Repeat { inner, .. } => walk(inner, out),
        }
    }
    let mut out = Vec::new();
    parts.iter_mut().flatten().for_each(|part| walk(part, &mut out));
    out
}

/// One character, or nothing: there is nothing to split.
fn is_single(node: &Node, rules: &RuleSet) -> bool {
    match node {
        Node::Class { .. } => true,
        Node::Text(text) => text.chars().nth(1).is_none(),
        Node::Sequence(nodes) | Node::Choice(nodes) if nodes.len() == 1 => is_single(&nodes[0], rules),
        Node::Sequence(nodes) => nodes.is_empty(),
        Node::Rule(rule) => is_single(&rules.bodies[*rule], rules),
        _ => false,
    }
}

/// Terminals that must be split.
fn conflicts(
    rules: &RuleSet,
    parts: &[Option<RulePart>],
    leaves: &[Option<Node>],
    known: &mut HashMap<String, Option<Dfa>>,
) -> HashSet<usize> {
    let splittable = |i: usize| leaves[i].as_ref().is_some_and(|node| !is_single(node, rules));
    if leaves.len() > MOST_TERMINALS || parts.len() > MOST_RULES {
        return (0..leaves.len()).filter(|&i| splittable(i)).collect();
    }
    let mut regexes = Vec::with_capacity(leaves.len());
    let mut too_large = HashSet::new();
    for (i, node) in leaves.iter().enumerate() {
        let regex = node.as_ref().map(|node| regex(node, rules, LONGEST_REGEX));
        let regex = regex.flatten();
        let dfa = regex
            .as_ref()
            .map(|regex| known.entry(regex.clone()).or_insert_with(|| Dfa::new(regex)).is_some());
        if splittable(i) && dfa != Some(true) {
            too_large.insert(i);
        }
        regexes.push(regex);
    }
    if !too_large.is_empty() {
        return too_large;
    }
    let dfas: Vec<Option<&Dfa>> = regexes.iter().map(|r| known.get(r.as_ref()?)?.as_ref()).collect();
    greedy(rules, parts, &dfas).into_iter().filter(|&i| splittable(i)).collect()
}

/// Terminals that go on where another should end.
fn greedy(rules: &RuleSet, parts: &[Option<RulePart>], dfas: &[Option<&Dfa>]) -> HashSet<usize> {
    let follow = Follow::new(parts, dfas.len());
    let bytes_after = |terminal: usize| {
        let mut bytes = [false; 256];
        for dfa in follow.next[terminal].iter().filter_map(|next| dfas[next]) {
            (0..=255u8).for_each(|byte| bytes[byte as usize] |= dfa.begins_with(byte));
        }
        bytes
    };
    let after: Vec<[bool; 256]> = (0..dfas.len()).map(bytes_after).collect();
    let mut bad = HashSet::new();
    for (t, u) in pairs(rules, parts, &follow, dfas) {
        let (Some(shorter), Some(longer)) = (dfas[t], dfas[u]) else { continue };
        if !bad.contains(&u) && shorter.is_extended_by(longer, &after[t]) {
            bad.insert(u);
        }
    }
    bad
}

/// Pairs of terminals that may be possible at one place, each in both orders.
fn pairs(
    rules: &RuleSet,
    parts: &[Option<RulePart>],
    follow: &Follow,
    dfas: &[Option<&Dfa>],
) -> Vec<(usize, usize)> {
    let Some(root) = &parts[rules.root] else { return Vec::new() };
    let mut beside = vec![Set::with_room(dfas.len()); dfas.len()];
    let mut done = Vec::new();
    let mut todo = Vec::new();
    let add = |a: &Set, b: &Set, beside: &mut Vec<Set>, todo: &mut Vec<(usize, usize)>| {
        for x in a.iter() {
            for y in b.iter().filter(|&y| !beside[x].contains(y)).collect::<Vec<_>>() {
                beside[x].insert(y);
                todo.push((x, y));
            }
        }
    };
    let first = follow.first(root);
    add(&first, &first, &mut beside, &mut todo);
    while let Some((x, y)) = todo.pop() {
        done.push((x, y));
        let share = match (dfas[x], dfas[y]) {
            (Some(a), Some(b)) => x == y || a.intersects(b),
            _ => x == y,
        };
        if share {
            add(&follow.next[x], &follow.next[y], &mut beside, &mut todo);
        }
    }
    done
}

/// Splits the terminals in `bad` by one level.
fn split(part: &mut RulePart, bad: &HashSet<usize>, rules: &RuleSet) {
    match part {
        RulePart::Leaf { node, number, .. } if bad.contains(number) => *part = halves(node, rules),
        RulePart::Leaf { .. } | RulePart::Token { .. } | RulePart::Rule(_) => {}
        RulePart::Sequence(parts) | RulePart::Choice(parts) => {
            parts.iter_mut().for_each(|part| split(part, bad, rules))
        }
        RulePart::Repeat { inner, .. } => split(inner, bad, rules),
    }
}

/// A node as smaller terminals: what comes last apart from the rest, alternatives apart, repetitions undone.
fn halves(node: &Node, rules: &RuleSet) -> RulePart {
    let leaf = |node: Node| RulePart::leaf(node, rules);
    match node {
        Node::Rule(rule) => halves(&rules.bodies[*rule], rules),
        Node::Repeat { inner, least, most } => {
            RulePart::Repeat { inner: Box::new(leaf((**inner).clone())), least: *least, most: *most }
        }
        Node::Choice(nodes) => RulePart::Choice(nodes.iter().cloned().map(leaf).collect()),
        Node::Sequence(nodes) if nodes.len() == 1 => halves(&nodes[0], rules),
        Node::Sequence(nodes) => match nodes.split_last() {
            Some((last, rest)) => {
                RulePart::Sequence(vec![leaf(Node::Sequence(rest.to_vec())), leaf(last.clone())])
            }
            None => leaf(node.clone()),
        },
        Node::Text(text) => match text.char_indices().next_back() {
            Some((at, _)) if at > 0 => {
                let (rest, last) = text.split_at(at);
                RulePart::Sequence(vec![leaf(Node::Text(rest.into())), leaf(Node::Text(last.into()))])
            }
            _ => leaf(node.clone()),
        },
        Node::Class { .. } | Node::Token(_) => leaf(node.clone()),
    }
}
