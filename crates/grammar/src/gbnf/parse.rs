//! The syntax of GBNF, as llama.cpp reads it.

use std::collections::HashMap;

use super::prune::productive;
use super::rules::{Node, RuleSet};
use crate::error::{GrammarError, Result};
use crate::limits;
use crate::lowered::LarkPiece;

/// Reads a grammar. Its first rule that counts is `root`.
pub(super) fn parse(text: &str) -> Result<RuleSet> {
    let mut parser = GbnfParser { rest: text, text, names: HashMap::new(), order: Vec::new(), depth: 0 };
    let mut bodies: Vec<Option<Node>> = Vec::new();
    parser.space(true);
    while !parser.rest.is_empty() {
        let (rule, body) = parser.rule()?;
        if parser.order.len() > limits::RULES {
            return Err(GrammarError::too_large("a grammar of more rules", limits::RULES, "merge some"));
        }
        bodies.resize(parser.order.len(), None);
        // As in llama.cpp, a later definition replaces an earlier one.
        bodies[rule] = Some(body);
    }
    bodies.resize(parser.order.len(), None);
    let root = *parser.names.get("root").ok_or_else(|| parser.error("there is no rule named root"))?;
    let defined: Vec<&str> =
        parser.order.iter().zip(&bodies).filter(|(_, b)| b.is_some()).map(|(n, _)| n.as_str()).collect();
    if let Some(missing) = bodies.iter().position(Option::is_none) {
        return Err(undefined(&parser.order[missing], &defined, text));
    }
    let nothing = || GrammarError::Unsatisfiable("every way through its rules goes on for ever".into());
    let bodies = productive(bodies.into_iter().flatten().collect(), root).ok_or_else(nothing)?;
    Ok(RuleSet::new(bodies, root))
}

/// Names the place of a rule that is used and not defined, and the most similar one that is.
fn undefined(name: &str, defined: &[&str], text: &str) -> GrammarError {
    let near = defined.iter().min_by_key(|other| distance(name, other));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    let at = text.find(name).unwrap_or(0);
    place(text, at, format!("the rule {name} is not defined{near}"))
}

/// Edits between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

fn place(text: &str, at: usize, why: String) -> GrammarError {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    GrammarError::Syntax { what: "GBNF", line, column, why }
}

struct GbnfParser<'t> {
    text: &'t str,
    rest: &'t str,
    names: HashMap<String, usize>,
    order: Vec<String>,
    depth: usize,
}

impl GbnfParser<'_> {
    fn error(&self, why: impl Into<String>) -> GrammarError {
        place(self.text, self.text.len() - self.rest.len(), why.into())
    }

    /// Skips blanks and comments, and newlines where they mean nothing.
    fn space(&mut self, newlines: bool) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if self.rest.starts_with('#') {
                self.rest = &self.rest[self.rest.find(['\r', '\n']).unwrap_or(self.rest.len())..];
            } else if newlines && self.rest.starts_with(['\r', '\n']) {
                self.rest = &self.rest[1..];
            } else {
                return;
            }
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Result<char> {
        let c = self
            .rest
            .chars()
            .next()
            .ok_or_else(|| self.error("the grammar ends here, in the middle of a rule"))?;
        self.rest = &self.rest[c.len_utf8()..];
        Ok(c)
    }

    fn name(&mut self) -> Result<usize> {
        let end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.error("a rule's name is expected here"));
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let order = &mut self.order;
        Ok(*self.names.entry(name.to_owned()).or_insert_with(|| {
            order.push(name.to_owned());
            order.len() - 1
        }))
    }

    fn rule(&mut self) -> Result<(usize, Node)> {
        let rule = self.name()?;
        self.space(false);
        if !self.take("::=") {
            return Err(self.error("::= is expected after a rule's name"));
        }
        self.space(true);
        let body = self.choice(false)?;
        if !self.rest.is_empty() && !self.rest.starts_with(['\r', '\n']) {
            return Err(self.error("a newline is expected at the end of a rule"));
        }
        self.space(true);
        Ok((rule, body))
    }

    fn choice(&mut self, nested: bool) -> Result<Node> {
        self.depth += 1;
        if self.depth > limits::NESTING {
            return Err(GrammarError::too_large("a grammar nested deeper", limits::NESTING, "flatten it"));
        }
        let mut ways = vec![self.sequence(nested)?];
        while self.take("|") {
            self.space(true);
            ways.push(self.sequence(nested)?);
        }
        self.depth -= 1;
        Ok(if ways.len() == 1 { ways.remove(0) } else { Node::Choice(ways) })
    }

    fn sequence(&mut self, nested: bool) -> Result<Node> {
        let mut parts: Vec<Node> = Vec::new();
        while let Some(first) = self.rest.chars().next() {
            match first {
                '*' | '+' | '?' | '{' => {
                    let inner = parts.pop();
                    let inner = inner
                        .ok_or_else(|| self.error(format!("there is nothing before {first} to repeat")))?;
                    parts.push(self.repeated(inner)?);
                }
                '"' => parts.push(self.text()?),
                '[' => parts.push(self.class()?),
                '.' => {
                    self.rest = &self.rest[1..];
                    parts.push(Node::Class { ranges: Vec::new(), negated: true });
                }
                '(' => {
                    self.rest = &self.rest[1..];
                    self.space(true);
                    parts.push(self.choice(true)?);
                    if !self.take(")") {
                        return Err(self.error(") is expected here"));
                    }
                }
                '<' | '!' => parts.push(self.token()?),
                c if is_word(c) => parts.push(Node::Rule(self.name()?)),
                _ => break,
            }
            self.space(nested);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Sequence(parts) })
    }

    fn repeated(&mut self, inner: Node) -> Result<Node> {
        let (least, most) = match self.next()? {
            '*' => (0, None),
            '+' => (1, None),
            '?' => (0, Some(1)),
            _ => self.counts()?,
        };
        Ok(Node::Repeat { inner: Box::new(inner), least, most })
    }

    /// `{m}`, `{m,}` or `{m,n}`, after the brace.
    fn counts(&mut self) -> Result<(u32, Option<u32>)> {
        self.space(true);
        let least = self.count()?;
        self.space(true);
        let most = if self.take(",") {
            self.space(true);
            if self.rest.starts_with('}') { None } else { Some(self.count()?) }
        } else {
            Some(least)
        };
        self.space(true);
        if !self.take("}") {
            return Err(self.error("} is expected after the counts"));
        }
        if most.is_some_and(|most| most < least) {
            return Err(self.error("the second count is smaller than the first"));
        }
        Ok((least, most))
    }

    fn count(&mut self) -> Result<u32> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok().filter(|&n| u64::from(n) <= limits::REPETITION);
        let limit = limits::REPETITION;
        let number =
            number.ok_or_else(|| self.error(format!("a count from 0 to {limit} is expected here")))?;
        self.rest = &self.rest[end..];
        Ok(number)
    }

    fn text(&mut self) -> Result<Node> {
        self.next()?;
        let mut text = String::new();
        while !self.take("\"") {
            text.push(self.char()?);
        }
        Ok(Node::Text(text))
    }

    fn class(&mut self) -> Result<Node> {
        self.next()?;
        let negated = self.take("^");
        let mut ranges = Vec::new();
        while !self.take("]") {
            let low = self.char()?;
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            if is_range {
                self.next()?;
            }
            let high = if is_range { self.char()? } else { low };
            if high < low {
                return Err(self.error(format!("the range {low}-{high} is out of order")));
            }
            ranges.push((low, high));
        }
        if ranges.is_empty() && !negated {
            return Err(self.error("a class without characters matches nothing"));
        }
        Ok(Node::Class { ranges, negated })
    }

    /// One character of a string or a class, escapes undone.
    fn char(&mut self) -> Result<char> {
        let c = self.next()?;
        if c != '\\' {
            return Ok(c);
        }
        match self.next()? {
            'x' => self.hex(2),
            'u' => self.hex(4),
            'U' => self.hex(8),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            'n' => Ok('\n'),
            c @ ('\\' | '"' | '[' | ']') => Ok(c),
            c => Err(self.error(format!("unknown escape \\{c}"))),
        }
    }

    fn hex(&mut self, digits: usize) -> Result<char> {
        let end = self.rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(self.rest.len());
        let code = self.rest.get(..digits).filter(|_| end >= digits);
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        let code = code
            .ok_or_else(|| self.error(format!("{digits} hexadecimal digits of a character are expected")))?;
        self.rest = &self.rest[digits..];
        Ok(code)
    }

    /// `<name>`, `<[id]>`, and `!` before either.
    fn token(&mut self) -> Result<Node> {
        let negated = self.take("!");
        if !self.rest.starts_with('<') {
            return Err(self.error("a token in <> is expected after !"));
        }
        let end = self.rest.find('>').ok_or_else(|| self.error("the token has no >"))?;
        let (name, rest) = self.rest.split_at(end + 1);
        let piece = match name[1..end].strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
            Some(id) if id.parse::<u32>().is_ok() => {
                LarkPiece::Numbered(if negated { format!("^{id}") } else { id.to_owned() })
            }
            Some(_) => return Err(self.error("a token's id is expected in <[]>")),
            None => LarkPiece::Named { name: name.to_owned(), negated },
        };
        self.rest = rest;
        Ok(Node::Token(piece))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
