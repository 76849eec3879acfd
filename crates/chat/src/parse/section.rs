//! A stretch of calls: what opens it, the calls, what stands between them, what closes it.

use super::glyph::{Fate, Glyph};
use super::item::ItemRun;
use super::outlet::Outlet;
use crate::formats::{CallPart, CallSection, Items};

/// Reads a section. It is tried: what turns out to be none is given back.
#[derive(Debug)]
pub(super) struct SectionRun {
    /// What else the mark may open, if it is not this.
    others: Vec<&'static CallSection>,
    section: &'static CallSection,
    /// What was read since the last thing that is certain.
    raw: Vec<Glyph>,
    /// How much of it is the mark that opened it.
    mark: usize,
    phase: SectionPhase,
    /// Whether the arguments of the current call are known to be whole.
    sealed: bool,
    /// Whether a call was made.
    any: bool,
}

#[derive(Debug)]
enum SectionPhase {
    /// Before the bracket of a list.
    Bracket,
    /// Before a call; true where the list may end.
    Before(bool),
    Item(Box<ItemRun>),
    /// After a call: what may separate it from the next, or close the section.
    After(Vec<Glyph>),
    /// Before what closes it.
    Close(usize),
}

/// What became of a character.
#[derive(Debug)]
pub(super) enum SectionStep {
    /// It was read.
    Eaten,
    /// These are to be read again, within the section.
    Back(Vec<Glyph>),
    /// The section was over before these.
    Over(Vec<Glyph>),
    /// There was no call: these are text, the first of them a mark of so many characters.
    Broken(Vec<Glyph>, usize),
}

impl SectionRun {
    /// After `raw`, the mark that opens any of `sections`.
    pub fn new(mut sections: Vec<&'static CallSection>, raw: Vec<Glyph>) -> Option<SectionRun> {
        if sections.is_empty() {
            return None;
        }
        let section = sections.remove(0);
        let phase = SectionRun::first(section, raw.is_empty());
        let mark = raw.len();
        Some(SectionRun { others: sections, section, raw, mark, phase, sealed: false, any: false })
    }

    fn first(section: &'static CallSection, bare: bool) -> SectionPhase {
        match section.items {
            Items::List { .. } => SectionPhase::Bracket,
            // The mark was the call's first part.
            _ => {
                let read = usize::from(section.open.is_empty() && !bare);
                SectionPhase::Item(Box::new(ItemRun::new(section.call, read, bare)))
            }
        }
    }

    fn bare(&self) -> bool {
        self.mark == 0
    }

    /// Reads a character.
    pub fn push(&mut self, glyph: Glyph, out: &mut Outlet) -> SectionStep {
        self.raw.push(glyph);
        let (blank, bare) = (glyph.c.is_whitespace(), self.bare());
        match &mut self.phase {
            SectionPhase::Item(_) => return self.item(glyph, out),
            SectionPhase::After(held) => {
                if held.is_empty() && blank {
                    return SectionStep::Eaten;
                }
                held.push(glyph);
                return self.after();
            }
            SectionPhase::Bracket | SectionPhase::Before(_) if blank => {}
            SectionPhase::Bracket if glyph.c == '[' => self.phase = SectionPhase::Before(true),
            SectionPhase::Before(true) if glyph.c == ']' && (self.any || !bare) => {
                return self.list_end();
            }
            SectionPhase::Before(_) => {
                self.phase = SectionPhase::Item(Box::new(ItemRun::new(self.section.call, 0, self.bare())));
                return self.item(glyph, out);
            }
            SectionPhase::Bracket => return self.broken(),
            SectionPhase::Close(read) => {
                let rest = &self.section.close[*read..];
                match rest.chars().next() {
                    Some(next) if next == glyph.c && rest.len() == next.len_utf8() => {
                        return SectionStep::Over(Vec::new());
                    }
                    Some(next) if next == glyph.c => *read += next.len_utf8(),
                    _ if *read == 0 && blank => {}
                    _ => return self.over(),
                }
            }
        }
        SectionStep::Eaten
    }

    fn item(&mut self, glyph: Glyph, out: &mut Outlet) -> SectionStep {
        let SectionPhase::Item(item) = &mut self.phase else { return self.broken() };
        let fate = item.push(glyph, out);
        let call = item.draft.is_call();
        if call && (!item.draft.complete || !self.sealed) && !matches!(fate, Fate::Fail | Fate::Back(_)) {
            self.raw.clear();
            self.sealed = item.draft.complete;
        }
        match fate {
            Fate::Eaten => SectionStep::Eaten,
            Fate::Back(held) => {
                self.raw.truncate(self.raw.len().saturating_sub(held.len()));
                if call && !self.sealed {
                    self.raw.clear();
                    self.sealed = item.draft.complete;
                }
                SectionStep::Back(held)
            }
            Fate::Done => {
                self.end_item(true, out);
                self.raw.clear();
                self.call_end()
            }
            Fate::Pass => {
                self.end_item(true, out);
                self.raw.clear();
                match self.call_end() {
                    SectionStep::Over(_) => SectionStep::Over(vec![glyph]),
                    _ => SectionStep::Back(vec![glyph]),
                }
            }
            Fate::Fail if call => {
                self.end_item(false, out);
                self.over()
            }
            Fate::Fail => self.broken(),
        }
    }

    fn end_item(&mut self, whole: bool, out: &mut Outlet) {
        if let SectionPhase::Item(item) = &mut self.phase {
            item.draft.complete |= whole;
            item.draft.end(out);
            self.any = true;
            self.sealed = false;
        }
    }

    /// What follows a call.
    fn call_end(&mut self) -> SectionStep {
        let section = self.section;
        match section.items {
            Items::One if section.close.is_empty() => return SectionStep::Over(Vec::new()),
            Items::One => self.phase = SectionPhase::Close(0),
            Items::List { .. } => self.phase = SectionPhase::After(Vec::new()),
            // Each call has a mark of its own.
            Items::Several(separator)
                if section.open.is_empty() && separator.trim().is_empty() && !self.bare() =>
            {
                return SectionStep::Over(Vec::new());
            }
            Items::Several(_) => self.phase = SectionPhase::After(Vec::new()),
        }
        SectionStep::Eaten
    }

    /// Decides by what is held after a call.
    fn after(&mut self) -> SectionStep {
        let SectionPhase::After(held) = &mut self.phase else { return SectionStep::Eaten };
        if let Items::List { .. } = self.section.items {
            return match held[0].c {
                ',' => {
                    self.phase = SectionPhase::Before(false);
                    SectionStep::Eaten
                }
                ']' => self.list_end(),
                _ => self.over(),
            };
        }
        let separator = match self.section.items {
            Items::Several(separator) => separator.trim(),
            _ => "",
        };
        let text: String = held.iter().map(|glyph| glyph.c).collect();
        let close = self.section.close;
        if !close.is_empty() && close == text {
            return SectionStep::Over(Vec::new());
        }
        if !separator.is_empty() && separator == text {
            self.phase = SectionPhase::Before(false);
            return SectionStep::Eaten;
        }
        let begins = match first_text(self.section.call) {
            Some(first) if first == text => {
                let held = std::mem::take(held);
                self.phase = SectionPhase::Item(Box::new(ItemRun::new(self.section.call, 0, false)));
                self.raw.truncate(self.raw.len() - held.len());
                return SectionStep::Back(held);
            }
            Some(first) => first.starts_with(&text),
            None if separator.is_empty() && text == "{" => {
                let held = std::mem::take(held);
                self.phase = SectionPhase::Before(false);
                self.raw.truncate(self.raw.len() - held.len());
                return SectionStep::Back(held);
            }
            None => false,
        };
        match begins || close.starts_with(&text) || separator.starts_with(&text) {
            true => SectionStep::Eaten,
            false => self.over(),
        }
    }

    fn list_end(&mut self) -> SectionStep {
        self.raw.clear();
        if self.section.close.is_empty() {
            return SectionStep::Over(Vec::new());
        }
        self.phase = SectionPhase::Close(0);
        SectionStep::Eaten
    }

    fn over(&mut self) -> SectionStep {
        SectionStep::Over(std::mem::take(&mut self.raw))
    }

    /// It is none: another one may be meant, or it is text.
    fn broken(&mut self) -> SectionStep {
        let raw = std::mem::take(&mut self.raw);
        if self.any {
            return SectionStep::Over(raw);
        }
        if self.others.is_empty() {
            return SectionStep::Broken(raw, self.mark);
        }
        self.section = self.others.remove(0);
        self.phase = SectionRun::first(self.section, self.mark == 0);
        self.sealed = false;
        let (mark, rest) = raw.split_at(self.mark);
        self.raw = mark.to_vec();
        SectionStep::Back(rest.to_vec())
    }

    /// The answer is over: a call that has begun ends, anything else is given back.
    pub fn finish(&mut self, out: &mut Outlet) -> Vec<Glyph> {
        let mut structure = self.any;
        if let SectionPhase::Item(item) = &mut self.phase {
            item.cut(out);
            structure = item.draft.is_call();
            if structure {
                self.end_item(false, out);
            }
        }
        // What separates calls or closes them is structure, also a part of it.
        if structure { Vec::new() } else { std::mem::take(&mut self.raw) }
    }
}

/// The text that a call begins with.
fn first_text(call: &'static [CallPart]) -> Option<&'static str> {
    match call.iter().find(|part| !matches!(part, CallPart::Space(_))) {
        Some(CallPart::Text(text)) => Some(text),
        _ => None,
    }
}
