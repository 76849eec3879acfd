//! Parts from which no text can come: left in a grammar, they would let an answer begin what it can never end.

use super::rules::Node;

/// The rules without parts that derive no text; None where the root does not either. `root` keeps its number, and rules
/// that derive nothing are left empty: nothing refers to them any more.
pub(super) fn productive(bodies: Vec<Node>, root: usize) -> Option<Vec<Node>> {
    let mut derives = vec![false; bodies.len()];
    // Rules only ever become productive, so this ends at the least set. Most refer to later ones: hence backwards.
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for rule in (0..bodies.len()).rev() {
            if !derives[rule] && is_productive(&bodies[rule], &derives) {
                (derives[rule], changed) = (true, true);
            }
        }
    }
    let empty = || Node::Sequence(Vec::new());
    let pruned = |body: Node| prune(body, &derives).unwrap_or_else(empty);
    derives[root].then(|| bodies.into_iter().map(pruned).collect())
}

fn is_productive(node: &Node, derives: &[bool]) -> bool {
    match node {
        Node::Text(_) | Node::Class { .. } | Node::Token(_) => true,
        Node::Sequence(nodes) => nodes.iter().all(|node| is_productive(node, derives)),
        Node::Choice(nodes) => nodes.iter().any(|node| is_productive(node, derives)),
        Node::Repeat { inner, least, .. } => *least == 0 || is_productive(inner, derives),
        Node::Rule(rule) => derives[*rule],
    }
}

/// The node without its ways that derive nothing; None where it has no other.
fn prune(node: Node, derives: &[bool]) -> Option<Node> {
    match node {
        Node::Rule(rule) => derives[rule].then_some(Node::Rule(rule)),
        Node::Sequence(nodes) => {
            nodes.into_iter().map(|node| prune(node, derives)).collect::<Option<_>>().map(Node::Sequence)
        }
        Node::Choice(nodes) => {
            let left: Vec<Node> = nodes.into_iter().filter_map(|node| prune(node, derives)).collect();
            (!left.is_empty()).then_some(Node::Choice(left))
        }
        Node::Repeat { inner, least, most } => match prune(*inner, derives) {
            Some(inner) => Some(Node::Repeat { inner: Box::new(inner), least, most }),
            None => (least == 0).then(|| Node::Sequence(Vec::new())),
        },
        node => Some(node),
    }
}
