//! The rules of a grammar, and what can be told of each.

use crate::lowered::LarkPiece;

/// What a rule stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// These characters, one after the other.
    Text(String),
    /// One character in one of these ranges, or in none of them.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        inner: Box<Node>,
        least: u32,
        most: Option<u32>,
    },
    /// A rule, by its number.
    Rule(usize),
    /// A token of the model.
    Token(LarkPiece),
}

/// The rules of a grammar; every reference is defined.
pub(super) struct RuleSet {
    pub bodies: Vec<Node>,
    pub root: usize,
    /// Whether each takes the empty string.
    pub nullable: Vec<bool>,
    /// Whether each takes anything else.
    pub has_text: Vec<bool>,
}

impl Node {
    pub fn children(&self) -> &[Node] {
        match self {
            Node::Sequence(nodes) | Node::Choice(nodes) => nodes,
            Node::Repeat { inner, .. } => std::slice::from_ref(inner),
            _ => &[],
        }
    }
}

impl RuleSet {
    pub fn new(bodies: Vec<Node>, root: usize) -> RuleSet {
        let none = vec![false; bodies.len()];
        let mut rules = RuleSet { bodies, root, nullable: none.clone(), has_text: none };
        // Both only ever become true, so this ends at the least sets of rules for which they hold.
        loop {
            let nullable: Vec<bool> = rules.bodies.iter().map(|body| rules.is_nullable(body)).collect();
            let has_text: Vec<bool> = rules.bodies.iter().map(|body| rules.takes_text(body)).collect();
            if nullable == rules.nullable && has_text == rules.has_text {
                return rules;
            }
            (rules.nullable, rules.has_text) = (nullable, has_text);
        }
    }

    /// Whether a node takes the empty string.
    pub fn is_nullable(&self, node: &Node) -> bool {
        match node {
            Node::Text(text) => text.is_empty(),
            Node::Class { .. } | Node::Token(_) => false,
            Node::Sequence(nodes) => nodes.iter().all(|node| self.is_nullable(node)),
            Node::Choice(nodes) => nodes.iter().any(|node| self.is_nullable(node)),
            Node::Repeat { inner, least, .. } => *least == 0 || self.is_nullable(inner),
            Node::Rule(rule) => self.nullable[*rule],
        }
    }

    /// Whether a node takes more than the empty string.
    pub fn takes_text(&self, node: &Node) -> bool {
        match node {
            Node::Text(text) => !text.is_empty(),
            Node::Class { .. } | Node::Token(_) => true,
            Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().any(|node| self.takes_text(node)),
            Node::Repeat { inner, most, .. } => *most != Some(0) && self.takes_text(inner),
            Node::Rule(rule) => self.has_text[*rule],
        }
    }

    /// Which rules have a regular expression: they lead to no cycle and to no token.
    pub fn regular(&self) -> Vec<bool> {
        let mut regular = vec![false; self.bodies.len()];
        // A rule is regular as soon as all of its references are: what is left after that has cycles.
        loop {
            let next: Vec<usize> = (0..regular.len())
                .filter(|&i| !regular[i] && is_regular(&self.bodies[i], &regular))
                .collect();
            if next.is_empty() {
                return regular;
            }
            next.into_iter().for_each(|i| regular[i] = true);
        }
    }
}

/// Whether a node leads to regular rules only, and to no token.
pub(super) fn is_regular(node: &Node, regular: &[bool]) -> bool {
    match node {
        Node::Rule(rule) => regular[*rule],
        Node::Token(_) => false,
        node => node.children().iter().all(|child| is_regular(child, regular)),
    }
}
