//! Text of a Lark grammar in llguidance's dialect, as it is written.

use std::fmt::Write;

/// A piece of a mark, as the vocabulary has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkPiece {
    /// Ordinary text.
    Text(String),
    /// A token that text cannot spell.
    Token(u32),
}

/// Cuts marks into pieces.
pub type MarkCutter<'a> = dyn Fn(&str) -> Vec<MarkPiece> + 'a;

/// Rules of a grammar.
pub(super) struct LarkText<'a> {
    pieces: &'a MarkCutter<'a>,
    rules: String,
    count: usize,
}

impl<'a> LarkText<'a> {
    pub fn new(pieces: &'a MarkCutter<'a>) -> LarkText<'a> {
        LarkText { pieces, rules: "TEXT: /(?s:.)+/\n".into(), count: 0 }
    }

    /// The grammar whose answers are `start`.
    pub fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.rules)
    }

    /// A name that no rule has; of a terminal if `upper`.
    pub fn name(&mut self, upper: bool) -> String {
        self.count += 1;
        if upper { format!("X{}", self.count) } else { format!("x{}", self.count) }
    }

    /// Adds a rule; returns its name.
    pub fn rule(&mut self, body: &str) -> String {
        let name = self.name(false);
        self.named_rule(&name, body);
        name
    }

    /// Adds a rule under a name that was taken before.
    pub fn named_rule(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    /// This text, special tokens by their numbers.
    pub fn literal(&self, text: &str) -> String {
        if text.is_empty() {
            return "\"\"".into();
        }
        let piece = |piece: MarkPiece| match piece {
            MarkPiece::Text(text) => format!("/{}/", escaped(&text)),
            MarkPiece::Token(id) => format!("<[{id}]>"),
        };
        (self.pieces)(text).into_iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    /// Any text up to the first place where `mark` stands, and that.
    pub fn up_to(&mut self, mark: &str) -> String {
        let pieces = (self.pieces)(mark);
        let Some(MarkPiece::Text(first)) = pieces.first() else {
            return format!("TEXT? {}", self.literal(mark));
        };
        let (first, rest) = (escaped(first), mark[first.len()..].to_owned());
        let name = self.name(false);
        let _ = writeln!(self.rules, "{name}[lazy]: /(?s:.)*{first}/");
        if rest.is_empty() { name } else { format!("{name} {}", self.literal(&rest)) }
    }

    /// Any text, also none, in which no mark stands.
    pub fn without(&mut self, marks: &[&str]) -> String {
        let first = |mark: &&str| match (self.pieces)(mark).first() {
            Some(MarkPiece::Text(text)) => Some(escaped(text)),
            _ => None,
        };
        let texts: Vec<String> = marks.iter().filter_map(first).collect();
        if texts.is_empty() {
            return "TEXT?".into();
        }
        let name = self.name(true);
        let any = texts.join("|");
        let _ = writeln!(self.rules, "{name}: /(?s:.)+/ & ~/(?s:.)*({any})(?s:.)*/");
        format!("{name}?")
    }
}

/// A text as a regular expression between slashes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_punctuation() && c != '_' && c != '"' && c != '\'' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// One of these.
pub(super) fn any_of(alternatives: &[String]) -> String {
    match alternatives {
        [one] => one.clone(),
        all => format!("({})", all.join(" | ")),
    }
}
