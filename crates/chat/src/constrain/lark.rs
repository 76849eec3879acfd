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

/// Marks as one vocabulary has them.
#[derive(Clone, Copy)]
pub struct MarkTokens<'a> {
    /// Cuts a mark into text and tokens that text cannot spell: [`super::mark_pieces`] of the model's tokenizer.
    pub cut: &'a dyn Fn(&str) -> Vec<MarkPiece>,
    /// All tokens that text cannot spell, but for those that end an answer.
    pub structure: &'a [u32],
    /// Tokens that end an answer.
    pub ends: &'a [u32],
}

/// Rules of a grammar.
pub(super) struct LarkText<'a> {
    marks: MarkTokens<'a>,
    /// Marks that may stand in free text, though they begin with a token that may not.
    hidden: Vec<&'static str>,
    rules: String,
    count: usize,
}

impl<'a> LarkText<'a> {
    pub fn new(marks: MarkTokens<'a>, hidden: Vec<&'static str>) -> LarkText<'a> {
        let rules = "TEXT: /(?s:.)+/\nWS: /[ \\t\\r\\n]{1,8}/\n".into();
        LarkText { marks, hidden, rules, count: 0 }
    }

    /// The grammar whose answers are `start`.
    pub fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.rules)
    }

    fn name(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    /// Adds a rule; returns its name.
    pub fn rule(&mut self, body: &str) -> String {
        let name = self.name("x");
        let _ = writeln!(self.rules, "{name}: {body}");
        name
    }

    /// A terminal for text, at least one character, in which no mark stands and that does not match `unlike`.
    pub fn text(&mut self, marks: &[&str], unlike: Option<&str>) -> String {
        let marks = (!marks.is_empty()).then(|| anywhere(marks));
        let not: Vec<&str> = marks.iter().map(String::as_str).chain(unlike).collect();
        if not.is_empty() {
            return "TEXT".into();
        }
        let name = self.name("X");
        let _ = writeln!(self.rules, "{name}: /(?s:.)+/ & ~/{}/", not.join("|"));
        name
    }

    /// This text, special tokens by their numbers.
    pub fn literal(&self, text: &str) -> String {
        self.joined((self.marks.cut)(text))
    }

    /// This text at the end of an answer: tokens that end it come by themselves.
    pub fn last(&self, text: &str) -> String {
        let ends = |piece: &MarkPiece| matches!(piece, MarkPiece::Token(id) if self.marks.ends.contains(id));
        self.joined((self.marks.cut)(text).into_iter().filter(|piece| !ends(piece)).collect())
    }

    fn joined(&self, pieces: Vec<MarkPiece>) -> String {
        let piece = |piece: MarkPiece| match piece {
            MarkPiece::Text(text) => format!("/{}/", escaped(&text)),
            MarkPiece::Token(id) => format!("<[{id}]>"),
        };
        let all: Vec<String> = pieces.into_iter().map(piece).collect();
        if all.is_empty() { "\"\"".into() } else { all.join(" ") }
    }

    /// Any text up to the first place where `mark` stands, and that.
    pub fn up_to(&mut self, mark: &str) -> String {
        let pieces = (self.marks.cut)(mark);
        let Some(MarkPiece::Text(first)) = pieces.first() else {
            return format!("{} {}", self.without(&[mark]), self.literal(mark));
        };
        let rest = mark[first.len()..].to_owned();
        let before = match self.others(&[]) {
            None => String::new(),
            Some(others) => format!("({}? {others})* ", self.text(&[first], None)),
        };
        let name = self.name("x");
        let _ = writeln!(self.rules, "{name}[lazy]: /(?s:.)*{}/", escaped(first));
        let rest = if rest.is_empty() { String::new() } else { format!(" {}", self.literal(&rest)) };
        format!("{before}{name}{rest}")
    }

    /// Any text, also none, in which no mark stands, in whatever tokens it is spelled.
    pub fn without(&mut self, marks: &[&str]) -> String {
        let text = self.text(marks, None);
        self.free(&text, &text, marks)
    }

    /// Text of the terminal `first`, tokens that text cannot spell and text of the terminal `then`, in which no mark
    /// stands that begins with such a token.
    pub fn free(&self, first: &str, then: &str, marks: &[&str]) -> String {
        let token = |mark: &&str| match (self.marks.cut)(mark).first() {
            Some(MarkPiece::Token(id)) => Some(*id),
            _ => None,
        };
        let tokens: Vec<u32> = marks.iter().filter_map(token).collect();
        match self.others(&tokens) {
            None => format!("{first}?"),
            Some(others) => format!("{first}? ({others} {then}?)*"),
        }
    }

    /// Tokens that text cannot spell, but for these; hidden marks that begin with one of these.
    fn others(&self, but: &[u32]) -> Option<String> {
        let free: Vec<u32> = self.marks.structure.iter().copied().filter(|id| !but.contains(id)).collect();
        let begins = |mark: &&'static str| {
            let pieces = (self.marks.cut)(mark);
            let shut = matches!(pieces.first(), Some(MarkPiece::Token(id)) if but.contains(id));
            shut.then(|| format!("({})", self.joined(pieces)))
        };
        let free = (!free.is_empty()).then(|| format!("<[{}]>", ranges(&free)));
        let all: Vec<String> = free.into_iter().chain(self.hidden.iter().filter_map(begins)).collect();
        (!all.is_empty()).then(|| any_of(&all))
    }
}

/// An expression for texts in which one of these stands.
fn anywhere<S: AsRef<str>>(marks: &[S]) -> String {
    let any: Vec<String> = marks.iter().map(|mark| escaped(mark.as_ref())).collect();
    format!("(?s:.)*({})(?s:.)*", any.join("|"))
}

/// Ascending numbers as `1-5,7`.
fn ranges(ids: &[u32]) -> String {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for &id in ids {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => all.push((id, id)),
        }
    }
    let one = |&(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    all.iter().map(one).collect::<Vec<_>>().join(",")
}

/// A text as a regular expression between slashes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // `<` and `>` have a meaning of their own behind a backslash.
            c if ".+*?()|[]{}^$#&-~/\\".contains(c) => {
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
