//! Characters of an answer with where they came from, and what becomes of one that is read.

use std::collections::VecDeque;

/// Where a character came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Ordinary tokens.
    Text,
    /// A special token: structure, which is no text for the user unless what it opened was none.
    Special,
    /// The end of the prompt, read as if it began the answer.
    Given,
}

/// A character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glyph {
    pub c: char,
    pub origin: Origin,
}

/// Characters to read.
pub(super) type GlyphQueue = VecDeque<Glyph>;

/// What became of a character.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was read, and more may follow.
    Eaten,
    /// It was read, and the part is over.
    Done,
    /// The part was over before it.
    Pass,
    /// The part was over before these, the character among them.
    Back(Vec<Glyph>),
    /// It cannot stand here.
    Fail,
}

/// Looks for a mark, and lets go of what cannot be part of it.
#[derive(Debug)]
pub(super) struct Until {
    mark: &'static str,
    held: String,
}

impl Until {
    pub fn new(mark: &'static str) -> Until {
        Until { mark, held: String::new() }
    }

    /// Reads a character; `free` gets those that are no part of the mark. True at its end.
    pub fn push(&mut self, c: char, mut free: impl FnMut(char)) -> bool {
        self.held.push(c);
        while !self.mark.starts_with(&self.held) {
            free(self.held.remove(0));
        }
        let found = self.held.len() == self.mark.len();
        if found {
            self.held.clear();
        }
        found
    }

    /// What is held back.
    pub fn held(&self) -> &str {
        &self.held
    }
}

/// Whether `mark` begins with these: true where they are all of it.
pub(super) fn begins(held: &[Glyph], mark: &str) -> Option<bool> {
    let mut chars = mark.chars();
    let agrees = held.iter().all(|glyph| chars.next() == Some(glyph.c));
    if agrees { Some(chars.as_str().is_empty()) } else { None }
}

/// Whether a tool's name or an id may have this character.
pub(super) fn is_name(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"<>[](){}\"'=,;|`".contains(c)
}

/// Text of the answer for the user; what special tokens spell is structure.
pub(super) fn text(glyph: Glyph, take: impl FnOnce(char)) {
    if glyph.origin == Origin::Text {
        take(glyph.c);
    }
}

/// Text that looked like structure and was none.
pub(super) fn raw_text(glyph: Glyph, take: impl FnOnce(char)) {
    if glyph.origin != Origin::Given {
        take(glyph.c);
    }
}
