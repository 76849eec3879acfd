//! Arguments as tags, a tag for each.

use super::draft::CallDraft;
use super::glyph::{Fate, Glyph, Until};
use super::json;
use super::outlet::Outlet;
use super::types::ValueType;
use crate::formats::TagStyle;

/// Reads the tags and writes an object.
#[derive(Debug)]
pub(super) struct TagScan {
    style: &'static TagStyle,
    at: TagAt,
    /// Whether an argument was read.
    any: bool,
    key: String,
    /// The word that tells the type.
    word: String,
}

#[derive(Debug)]
enum TagAt {
    /// Before a tag: what may be its opening.
    Between(Vec<Glyph>),
    Key(Until),
    Word(Until),
    /// In the texts after the key: which, and how much of it.
    KeyEnd(usize, usize),
    Value(Until, TagValue),
}

/// A value that is read.
#[derive(Debug)]
enum TagValue {
    /// A string, written as it comes. A newline waits: the last one belongs to the tag.
    Stream { first: bool, newline: bool },
    /// Its end decides what it is.
    Whole(ValueType, String),
}

impl TagScan {
    pub fn new(style: &'static TagStyle) -> TagScan {
        TagScan { style, at: TagAt::Between(Vec::new()), any: false, key: String::new(), word: String::new() }
    }

    /// Reads a character.
    pub fn push(&mut self, glyph: Glyph, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let c = glyph.c;
        match &mut self.at {
            TagAt::Between(held) => {
                if held.is_empty() && c.is_whitespace() {
                    return Fate::Eaten;
                }
                held.push(glyph);
                self.between(draft, out)
            }
            TagAt::Key(until) => {
                let found = until.push(c, |c| self.key.push(c));
                if self.key.len() > 1024 {
                    return Fate::Fail;
                }
                if found {
                    self.key_read(draft, out);
                }
                Fate::Eaten
            }
            TagAt::Word(until) => {
                let found = until.push(c, |c| self.word.push(c));
                if self.word.len() > 64 {
                    return Fate::Fail;
                }
                if found {
                    self.key_end(1, draft, out);
                }
                Fate::Eaten
            }
            TagAt::KeyEnd(which, read) => {
                let (which, read) = (*which, *read);
                self.within_key_end(c, which, read, draft, out)
            }
            TagAt::Value(..) => {
                self.value(c, draft, out);
                Fate::Eaten
            }
        }
    }

    fn between(&mut self, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let TagAt::Between(held) = &mut self.at else { return Fate::Fail };
        let mut open = self.style.open.chars();
        if !held.iter().all(|glyph| open.next() == Some(glyph.c)) {
            let held = std::mem::take(held);
            if self.any {
                draft.arguments("}", out);
                draft.complete = true;
            }
            return Fate::Back(held);
        }
        if open.as_str().is_empty() {
            self.key.clear();
            self.word.clear();
            let end = self.style.typed.map_or(self.style.key_end[0], |(end, _)| end);
            self.at = TagAt::Key(Until::new(end));
        }
        Fate::Eaten
    }

    fn key_read(&mut self, draft: &mut CallDraft, out: &mut Outlet) {
        match self.style.typed {
            Some(_) => self.at = TagAt::Word(Until::new(self.style.key_end[0])),
            None => self.key_end(1, draft, out),
        }
    }

    /// The text `which` after the key is next; after the last one the value.
    fn key_end(&mut self, which: usize, draft: &mut CallDraft, out: &mut Outlet) {
        if which < self.style.key_end.len() {
            self.at = TagAt::KeyEnd(which, 0);
            return;
        }
        draft.arguments(if self.any { ", " } else { "{" }, out);
        self.any = true;
        draft.arguments(&json::quoted(self.key.trim()), out);
        draft.arguments(": ", out);
        let kind = match self.style.typed {
            Some((_, string)) if self.word == string => ValueType::Text,
            Some(_) => ValueType::Json,
            None => out.types.argument(draft.tool(), self.key.trim()),
        };
        let value = match kind {
            ValueType::Text if !self.style.cdata => {
                draft.arguments("\"", out);
                TagValue::Stream { first: true, newline: false }
            }
            other => TagValue::Whole(other, String::new()),
        };
        self.at = TagAt::Value(Until::new(self.style.close), value);
    }

    fn within_key_end(
        &mut self,
        c: char,
        which: usize,
        read: usize,
        draft: &mut CallDraft,
        out: &mut Outlet,
    ) -> Fate {
        let mut rest = self.style.key_end[which][read..].chars();
        match rest.next() {
            _ if read == 0 && c.is_whitespace() => {}
            Some(next) if next == c && rest.as_str().is_empty() => self.key_end(which + 1, draft, out),
            Some(next) if next == c => self.at = TagAt::KeyEnd(which, read + c.len_utf8()),
            _ => return Fate::Fail,
        }
        Fate::Eaten
    }

    fn value(&mut self, c: char, draft: &mut CallDraft, out: &mut Outlet) {
        let TagAt::Value(until, value) = &mut self.at else { return };
        let lines = self.style.lines;
        let mut text = String::new();
        let found = until.push(c, |c| text.push(c));
        match value {
            TagValue::Stream { first, newline } => {
                let mut written = String::new();
                text.chars().for_each(|c| stream_char(c, lines, first, newline, &mut written));
                draft.arguments(&written, out);
                if found {
                    draft.arguments("\"", out);
                }
            }
            TagValue::Whole(kind, all) => {
                all.push_str(&text);
                if !found {
                    return;
                }
                if self.style.cdata && all.starts_with(CDATA.0) && !all.contains(CDATA.1) {
                    return all.push_str(self.style.close);
                }
                draft.arguments(&kind.json(whole(all, self.style)), out);
            }
        }
        if found {
            self.at = TagAt::Between(Vec::new());
        }
    }

    /// The answer is over within a value: what there is of it.
    pub fn cut(&mut self, draft: &mut CallDraft, out: &mut Outlet) {
        if let TagAt::Value(until, value) = &self.at {
            match value {
                TagValue::Stream { .. } => {
                    let mut written = String::new();
                    until.held().chars().for_each(|c| json::escape(c, &mut written));
                    draft.arguments(&written, out);
                }
                TagValue::Whole(_, all) => {
                    let text = format!("{all}{}", until.held());
                    let newline = if self.style.lines { "\n" } else { "" };
                    draft.arguments(text.strip_prefix(newline).unwrap_or(&text), out);
                }
            }
        }
    }
}

const CDATA: (&str, &str) = ("<![CDATA[", "]]>");

/// A whole value without what belongs to its tags.
fn whole<'t>(text: &'t str, style: &TagStyle) -> &'t str {
    let text = match style.lines {
        true => {
            let text = text.strip_prefix('\n').unwrap_or(text);
            text.strip_suffix('\n').unwrap_or(text)
        }
        false => text,
    };
    let within = text.strip_prefix(CDATA.0).filter(|_| style.cdata);
    within.and_then(|text| text.strip_suffix(CDATA.1)).unwrap_or(text)
}

fn stream_char(c: char, lines: bool, first: &mut bool, newline: &mut bool, out: &mut String) {
    if !lines {
        return json::escape(c, out);
    }
    let skipped = std::mem::take(first) && c == '\n';
    if skipped {
        return;
    }
    if std::mem::replace(newline, c == '\n') {
        json::escape('\n', out);
    }
    if c != '\n' {
        json::escape(c, out);
    }
}
