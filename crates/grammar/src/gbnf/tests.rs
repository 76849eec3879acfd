//! A naive matcher, sets of positions and nothing else, and random grammars that it judges.

use std::collections::BTreeSet;

use super::emit;
use super::prune::productive;
use super::rules::{Node, RuleSet};
use crate::Grammar;
use crate::lowered::Lowered;

/// Where a match that begins at `from` may end, given where rules may end so far.
fn ends(node: &Node, text: &[char], from: usize, known: &[Vec<BTreeSet<usize>>]) -> BTreeSet<usize> {
    match node {
        Node::Text(part) => {
            let part: Vec<char> = part.chars().collect();
            text[from..].starts_with(&part).then_some(from + part.len()).into_iter().collect()
        }
        Node::Class { ranges, negated } => {
            let inside = |c: &char| ranges.iter().any(|(low, high)| low <= c && c <= high);
            text.get(from).filter(|c| inside(c) != *negated).map(|_| from + 1).into_iter().collect()
        }
        Node::Sequence(nodes) => nodes.iter().fold(BTreeSet::from([from]), |at, node| {
            at.iter().flat_map(|&from| ends(node, text, from, known)).collect()
        }),
        Node::Choice(nodes) => nodes.iter().flat_map(|node| ends(node, text, from, known)).collect(),
        Node::Repeat { inner, least, most } => {
            let mut at = BTreeSet::from([from]);
            let mut all = if *least == 0 { at.clone() } else { BTreeSet::new() };
            for count in 1..=most.unwrap_or(u32::MAX) {
                let next: BTreeSet<usize> =
                    at.iter().flat_map(|&from| ends(inner, text, from, known)).collect();
                let before = all.len();
                if count >= *least {
                    all.extend(&next);
                }
                if next.is_empty() || (count > *least + text.len() as u32 && all.len() == before) {
                    break;
                }
                at = next;
            }
            all
        }
        Node::Rule(rule) => known[*rule][from].clone(),
        Node::Token(_) => BTreeSet::new(),
    }
}

fn matches(rules: &RuleSet, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut known = vec![vec![BTreeSet::new(); text.len() + 1]; rules.bodies.len()];
    loop {
        let mut changed = false;
        for (rule, body) in rules.bodies.iter().enumerate() {
            for from in 0..=text.len() {
                let now = ends(body, &text, from, &known);
                changed |= now != known[rule][from];
                known[rule][from] = now;
            }
        }
        if !changed {
            return known[rules.root][0].contains(&text.len());
        }
    }
}

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn node(&mut self, rules: usize, depth: usize) -> Node {
        let kinds = if depth == 0 { 3 } else { 9 };
        match self.below(kinds) {
            0 => Node::Text(["a", "b", "ab", "ba", "é", "è", ""][self.below(7) as usize].into()),
            1 => Node::Class {
                ranges: vec![[('a', 'a'), ('a', 'b'), ('è', 'é')][self.below(3) as usize]],
                negated: false,
            },
            2 => Node::Class { ranges: vec![('a', 'a'), ('é', 'é')], negated: self.below(2) == 0 },
            3 | 4 => Node::Sequence((0..1 + self.below(3)).map(|_| self.node(rules, depth - 1)).collect()),
            5 | 6 => Node::Choice((0..1 + self.below(3)).map(|_| self.node(rules, depth - 1)).collect()),
            7 => {
                let (least, most) =
                    [(0, None), (1, None), (0, Some(1)), (1, Some(2)), (2, None)][self.below(5) as usize];
                Node::Repeat { inner: Box::new(self.node(rules, depth - 1)), least, most }
            }
            _ => Node::Rule(self.below(rules as u64) as usize),
        }
    }

    fn text(&mut self) -> String {
        (0..self.below(7)).map(|_| ['a', 'b', 'é', 'è', 'ü'][self.below(5) as usize]).collect()
    }
}

#[test]
fn random_grammars_are_judged_as_a_naive_matcher_does() {
    let rounds = std::env::var("LAMINA_GRAMMARS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..rounds {
        let count = 1 + random.below(3) as usize;
        let bodies: Vec<Node> = (0..count).map(|_| random.node(count, 3)).collect();
        // A grammar that derives nothing has no rules.
        let Some(bodies) = productive(bodies, 0) else { continue };
        let rules = RuleSet::new(bodies, 0);
        let lark = emit::lark(&rules).unwrap();
        let texts: Vec<String> = (0..40).map(|_| random.text()).collect();
        let expected: Vec<bool> = texts.iter().map(|text| matches(&rules, text)).collect();
        let grammar = match Grammar::of_lowered(Lowered::Lark(lark.clone())) {
            Ok(grammar) => grammar,
            // A grammar that derives nothing may be refused.
            Err(_) if !expected.contains(&true) => continue,
            Err(e) => panic!("round {round}: {e}\n{:?}\n{lark:?}", rules.bodies),
        };
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(
                grammar.matches(text),
                expected,
                "round {round}: {text:?}\n{:?}\n{lark:?}",
                rules.bodies
            );
        }
    }
}

#[test]
fn greed_changes_nothing() {
    for (gbnf, yes, no) in [
        ("root ::= [a-z]+ \"abc\"", vec!["xabc", "abcabc"], vec!["abc", "abcx"]),
        ("root ::= \"a\" \"b\" | \"ab\" \"c\"", vec!["ab", "abc"], vec!["a", "abcc"]),
        ("root ::= x x\nx ::= \"a\" | \"aa\"", vec!["aa", "aaa", "aaaa"], vec!["a", "aaaaa"]),
        ("root ::= \"(\" root \")\" | [a-z]* \"z\"", vec!["z", "zz", "(az)", "((zaz))"], vec!["(a)", "(z"]),
        (
            "root ::= \"[\" root \"]\" | e e\ne ::= \"a\" | \"aa\" | \"[a\"",
            vec!["aa", "[aa", "[aaa", "[aaa]", "[[aa]]", "[a[a"],
            vec!["a", "[a", "[aaaa"],
        ),
        ("root ::= . root | .", vec!["\n", "a\n"], vec![""]),
    ] {
        let grammar = Grammar::gbnf(gbnf).unwrap();
        yes.iter().for_each(|text| assert!(grammar.matches(text), "{gbnf} refuses {text}"));
        no.iter().for_each(|text| assert!(!grammar.matches(text), "{gbnf} accepts {text}"));
    }
}

#[test]
fn what_can_never_end_cannot_begin() {
    let grammar = Grammar::gbnf(
        "root ::= \"a\" x | \"b\" (y | \"c\") y* | \"d\" z\nx ::= x\ny ::= \"e\" y\nz ::= \"f\" z | \"g\"",
    );
    let grammar = grammar.unwrap();
    ["", "b", "bc", "d", "dff", "dfg"].iter().for_each(|text| assert!(grammar.allows(text), "{text}"));
    ["a", "be", "bce"].iter().for_each(|text| assert!(!grammar.allows(text), "{text}"));
    let never = Grammar::gbnf("root ::= \"a\" root").unwrap();
    assert!(!never.is_satisfiable() && !never.allows("a"));
}

#[test]
fn strings_of_a_json_grammar_are_terminals() {
    let json = "root ::= object\nvalue ::= object | string\nobject ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n\
                string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" [\"\\\\bfnrt])* \"\\\"\" ws\nws ::= [ \\t\\n]*\n";
    let lark = format!("{:?}", super::lark(json).unwrap());
    // One terminal for all strings, white space included.
    assert!(lark.contains("bfnrt") || lark.contains("x{62}"), "{lark}");
    assert!(lark.matches("L9").count() == 0, "more than nine terminals: {lark}");
}
