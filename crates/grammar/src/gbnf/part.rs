//! A rule's body over terminals.

use super::rules::{Node, RuleSet};
use crate::lowered::LarkPiece;

/// A rule's body over terminals.
#[derive(Debug, Clone)]
pub(super) enum RulePart {
    /// A terminal: all strings of the node but the empty one, which makes it optional.
    Leaf {
        node: Node,
        number: usize,
        nullable: bool,
    },
    Token {
        piece: LarkPiece,
        number: usize,
    },
    Rule(usize),
    Sequence(Vec<RulePart>),
    Choice(Vec<RulePart>),
    Repeat {
        inner: Box<RulePart>,
        least: u32,
        most: Option<u32>,
    },
}

impl RulePart {
    /// `node` as one terminal, not yet numbered.
    pub fn leaf(node: Node, rules: &RuleSet) -> RulePart {
        let nullable = rules.is_nullable(&node);
        RulePart::Leaf { node, number: 0, nullable }
    }

    /// Adds the rules that it refers to.
    pub fn references(&self, out: &mut Vec<usize>) {
        match self {
            RulePart::Rule(rule) => out.push(*rule),
            RulePart::Sequence(parts) | RulePart::Choice(parts) => {
                parts.iter().for_each(|part| part.references(out))
            }
            RulePart::Repeat { inner, .. } => inner.references(out),
            RulePart::Leaf { .. } | RulePart::Token { .. } => {}
        }
    }
}
