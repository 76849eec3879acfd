//! One call, part by part.

use super::draft::CallDraft;
use super::glyph::{Fate, Glyph, is_name};
use super::json::JsonScan;
use super::literal::{LiteralScan, LiteralStyle};
use super::nested::NestedScan;
use super::object::{CallKeys, ObjectScan};
use super::outlet::Outlet;
use super::tags::TagScan;
use crate::formats::{ArgumentStyle, CallPart};

/// Letters of a name or an id at most.
const LONGEST_WORD: usize = 256;

/// Reads the parts of a call.
#[derive(Debug)]
pub(super) struct ItemRun {
    parts: &'static [CallPart],
    /// Which part is read.
    at: usize,
    reading: PartRun,
    /// How much of the next text was read with the word before it.
    begun: usize,
    /// Whether no mark tells that this is a call.
    bare: bool,
    pub draft: CallDraft,
}

#[derive(Debug)]
enum PartRun {
    /// So many bytes of the text.
    Text(usize),
    Space,
    Word(String),
    /// What may be the mark, and after it the id.
    OptionalId(Vec<Glyph>, Option<String>),
    Object(ObjectScan),
    Json(JsonScan),
    Literal(LiteralScan),
    Tags(TagScan),
    Nested(NestedScan),
    /// All are read.
    Over,
}

impl ItemRun {
    /// Reads `parts` from number `at` on.
    pub fn new(parts: &'static [CallPart], at: usize, bare: bool) -> ItemRun {
        let late = parts.iter().any(|part| matches!(part, CallPart::Object(keys) if keys.id_is_late()));
        let mut item =
            ItemRun { parts, at, reading: PartRun::Over, begun: 0, bare, draft: CallDraft::new(late) };
        item.begin();
        item
    }

    fn begin(&mut self) {
        self.reading = match self.parts.get(self.at) {
            None => PartRun::Over,
            Some(CallPart::Text(_)) => PartRun::Text(std::mem::take(&mut self.begun)),
            Some(CallPart::Space(_)) => PartRun::Space,
            Some(CallPart::Name | CallPart::Id | CallPart::Word | CallPart::NumberedName(_)) => {
                PartRun::Word(String::new())
            }
            Some(CallPart::OptionalId(_)) => PartRun::OptionalId(Vec::new(), None),
            Some(CallPart::Object(keys)) => {
                PartRun::Object(ObjectScan::new(CallKeys::Named(*keys), self.bare))
            }
            Some(CallPart::NameAsKey) => PartRun::Object(ObjectScan::new(CallKeys::NameIsKey, self.bare)),
            Some(CallPart::Arguments(style)) => match style {
                ArgumentStyle::Json => PartRun::Json(JsonScan::new()),
                ArgumentStyle::Keywords => PartRun::Literal(LiteralScan::keywords()),
                ArgumentStyle::Bare => PartRun::Literal(LiteralScan::container(LiteralStyle::Gemma)),
                ArgumentStyle::Tags(style) => PartRun::Tags(TagScan::new(style)),
                ArgumentStyle::Nested(mark) => PartRun::Nested(NestedScan::new(mark)),
            },
        };
    }

    /// Reads a character. [`Fate::Done`] and [`Fate::Pass`] end the call.
    pub fn push(&mut self, glyph: Glyph, out: &mut Outlet) -> Fate {
        loop {
            if matches!(self.reading, PartRun::Over) {
                return Fate::Pass;
            }
            match self.part(glyph, out) {
                Fate::Eaten => return Fate::Eaten,
                Fate::Fail => return Fate::Fail,
                Fate::Pass => self.next(),
                Fate::Done => {
                    self.next();
                    return if matches!(self.reading, PartRun::Over) { Fate::Done } else { Fate::Eaten };
                }
                Fate::Back(held) => {
                    self.next();
                    return Fate::Back(held);
                }
            }
        }
    }

    fn next(&mut self) {
        self.at += 1;
        self.begin();
    }

    fn part(&mut self, glyph: Glyph, out: &mut Outlet) -> Fate {
        let c = glyph.c;
        match &mut self.reading {
            PartRun::Text(_) => self.text(c),
            PartRun::Space if c.is_whitespace() => Fate::Eaten,
            PartRun::Space | PartRun::Over => Fate::Pass,
            PartRun::Word(_) => self.word(c),
            PartRun::OptionalId(..) => self.optional_id(glyph),
            PartRun::Object(scan) => scan.push(c, &mut self.draft, out),
            PartRun::Json(scan) => json(scan, c, &mut self.draft, out),
            PartRun::Literal(scan) => literal(scan, c, &mut self.draft, out),
            PartRun::Tags(scan) => scan.push(glyph, &mut self.draft, out),
            PartRun::Nested(scan) => scan.push(glyph, &mut self.draft, out),
        }
    }

    fn text(&mut self, c: char) -> Fate {
        let (Some(CallPart::Text(text)), PartRun::Text(read)) = (self.parts.get(self.at), &mut self.reading)
        else {
            return Fate::Fail;
        };
        let rest = &text[*read..];
        let stray = c.is_whitespace() || (c == '}' && self.draft.complete);
        match rest.chars().next() {
            Some(next) if next == c && rest.len() == c.len_utf8() => Fate::Done,
            Some(next) if next == c => {
                *read += c.len_utf8();
                Fate::Eaten
            }
            // White space, or a bracket too many after the arguments.
            _ if *read == 0 && stray => Fate::Eaten,
            _ => Fate::Fail,
        }
    }

    fn word(&mut self, c: char) -> Fate {
        let PartRun::Word(word) = &mut self.reading else { return Fate::Fail };
        if is_name(c) && word.len() < LONGEST_WORD {
            word.push(c);
            return Fate::Eaten;
        }
        if word.is_empty() || is_name(c) {
            return if c.is_whitespace() && word.is_empty() { Fate::Eaten } else { Fate::Fail };
        }
        let mut word = std::mem::take(word);
        if let Some(CallPart::Text(text)) = self.parts.get(self.at + 1) {
            // `f.call(`: names have dots, too.
            let begun = text.find(|c| !is_name(c)).unwrap_or(text.len());
            let Some(name) = word.strip_suffix(&text[..begun]).filter(|name| !name.is_empty()) else {
                return Fate::Fail;
            };
            (word, self.begun) = (name.to_owned(), begun);
        }
        match self.parts.get(self.at) {
            Some(CallPart::Name) => self.draft.name = Some(word),
            Some(CallPart::Id) => self.draft.id = Some(word),
            Some(CallPart::NumberedName(prefix)) => {
                let name = word.strip_prefix(prefix).unwrap_or(&word);
                let numbered = name.rsplit_once(':').filter(|(name, number)| {
                    !name.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
                });
                self.draft.name = Some(numbered.map_or(name, |(name, _)| name).to_owned());
                self.draft.id = numbered.is_some().then_some(word);
            }
            _ => {}
        }
        Fate::Pass
    }

    fn optional_id(&mut self, glyph: Glyph) -> Fate {
        let (Some(CallPart::OptionalId(mark)), PartRun::OptionalId(held, id)) =
            (self.parts.get(self.at), &mut self.reading)
        else {
            return Fate::Fail;
        };
        if let Some(id) = id {
            if is_name(glyph.c) && id.len() < LONGEST_WORD {
                id.push(glyph.c);
                return Fate::Eaten;
            }
            self.draft.id = Some(std::mem::take(id)).filter(|id| !id.is_empty());
            return Fate::Pass;
        }
        held.push(glyph);
        let mut rest = mark.chars();
        if !held.iter().all(|glyph| rest.next() == Some(glyph.c)) {
            return Fate::Back(std::mem::take(held));
        }
        if rest.as_str().is_empty() {
            *id = Some(String::new());
        }
        Fate::Eaten
    }

    /// The answer is over within this call. Whether it is one is in the draft.
    pub fn cut(&mut self, out: &mut Outlet) {
        let over = self.draft.named() && self.read_arguments();
        match &mut self.reading {
            PartRun::Tags(scan) => scan.cut(&mut self.draft, out),
            PartRun::Nested(scan) => scan.cut(&mut self.draft, out),
            _ if over => self.draft.complete = true,
            _ => {}
        }
    }

    /// Whether all arguments are read: where there were none, what closes the call tells.
    fn read_arguments(&self) -> bool {
        let arguments = |part: &CallPart| matches!(part, CallPart::Arguments(_));
        let after = self.parts.iter().position(arguments).map(|at| at + 1);
        after.is_some_and(|after| self.at > after || (self.at == after && self.draft.is_call()))
    }
}

fn json(scan: &mut JsonScan, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
    if scan.fresh() && c != '{' {
        return if c.is_whitespace() { Fate::Eaten } else { Fate::Fail };
    }
    let fate = scan.push(c);
    if matches!(fate, Fate::Eaten | Fate::Done) {
        draft.argument(c, out);
    }
    draft.complete |= fate == Fate::Done;
    fate
}

fn literal(scan: &mut LiteralScan, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
    let mut text = String::new();
    let fate = scan.push(c, &mut text);
    draft.arguments(&text, out);
    draft.complete |= fate == Fate::Done;
    fate
}
