//! Answers taken apart while they stream: reasoning, text, calls.
//!
//! Everything is read character by character by one machine, so that a whole text and every cut of it give the same.
//! What may be the beginning of a mark is held back, nothing more. A call is tried: until its name and its arguments
//! are seen its text is kept, and given back as text if it was none.

mod channels;
mod delta;
mod draft;
mod glyph;
mod ids;
mod item;
mod json;
mod literal;
mod nested;
mod object;
mod outlet;
mod section;
mod tags;
mod types;

pub use delta::{ChatMessage, Delta, ToolCall};
pub(crate) use types::{ValueType, resolve as resolve_reference};

use serde_json::Value;

use channels::ChannelRun;
use glyph::{Glyph, GlyphQueue, Origin, Until, raw_text, text};
use ids::IdSource;
use outlet::Outlet;
use section::{SectionRun, SectionStep};
use types::ToolTypes;

use crate::formats::{CallPart, CallSection, CallSyntax, ChatFormat, Items};
use crate::reasoning::ReasoningMarks;

/// What an answer is read with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParserOptions<'a> {
    /// The tools of the request: formats without quotes need the types of their arguments.
    pub tools: &'a [Value],
    /// Marks around reasoning; None looks for no reasoning.
    pub reasoning: Option<ReasoningMarks>,
    /// The answer begins within the reasoning.
    pub inside: bool,
    /// Calls are text, too: the request has no tools.
    pub no_calls: bool,
    /// Calls in the conversation so far, for formats that count them.
    pub earlier_calls: usize,
    /// Ids that the model does not give are made from this; None: from chance.
    pub seed: Option<u64>,
}

/// Takes an answer apart as it comes.
///
/// ```
/// use lamina_chat::{ChatFormat, Delta, Parser, ParserOptions};
/// let format = ChatFormat::named("hermes").unwrap();
/// let mut parser = Parser::new(format, &ParserOptions::default());
/// let mut deltas = parser.push("Let me see.\n<tool_call>\n{\"name\": \"now\", \"argu");
/// deltas.extend(parser.push("ments\": {}}\n</tool_call>"));
/// deltas.extend(parser.finish());
/// assert_eq!(deltas[0], Delta::Content("Let me see.".into()));
/// assert!(matches!(&deltas[1], Delta::ToolStart { name, .. } if name == "now"));
/// ```
#[derive(Debug)]
pub struct Parser {
    marks: Vec<(&'static str, MarkKind)>,
    /// Stretches of calls, unless calls are text.
    sections: &'static [CallSection],
    reasoning: Option<ReasoningMarks>,
    /// Read again before anything else.
    queue: GlyphQueue,
    /// What is held back of the text: it may be a mark.
    held: Vec<Glyph>,
    state: ParserState,
    /// Whether the answer's wrapping is open.
    wrapped: bool,
    out: Outlet,
}

/// What a mark in the text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkKind {
    OpenReasoning,
    CloseReasoning,
    OpenAnswer,
    CloseAnswer,
    Hidden,
    Calls,
}

#[derive(Debug)]
enum ParserState {
    Text,
    Reasoning(Until),
    Section(Box<SectionRun>),
    Channels(ChannelRun),
}

impl Parser {
    /// At the beginning of an answer.
    pub fn new(format: &'static ChatFormat, options: &ParserOptions<'_>) -> Parser {
        let ids = IdSource::new(format.ids, options.seed, options.earlier_calls);
        let mut parser = Parser {
            marks: marks(format, options),
            sections: sections(format, options),
            reasoning: options.reasoning,
            queue: GlyphQueue::new(),
            held: Vec::new(),
            state: ParserState::Text,
            wrapped: options.reasoning.is_some_and(|marks| marks.answer.0.is_empty()),
            out: Outlet::new(ids, ToolTypes::new(options.tools)),
        };
        match (&format.calls, options.reasoning) {
            (CallSyntax::Channels(channels), _) => {
                parser.state = ParserState::Channels(ChannelRun::new(channels))
            }
            (_, Some(marks)) if options.inside => parser.open_reasoning(marks),
            _ => {}
        }
        parser.read(format.opening, Origin::Given);
        parser
    }

    /// The whole answer at once.
    pub fn parse(format: &'static ChatFormat, options: &ParserOptions<'_>, text: &str) -> ChatMessage {
        let mut parser = Parser::new(format, options);
        let mut message = ChatMessage::default();
        let deltas = parser.push(text).into_iter().chain(parser.finish());
        deltas.for_each(|delta| message.push(delta));
        message
    }

    /// Reads a piece of the answer, whole characters, special tokens spelled out.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        self.read(text, Origin::Text);
        self.out.take()
    }

    /// Reads the text of a special token: where it is no mark of the format it is dropped.
    pub fn push_special(&mut self, text: &str) -> Vec<Delta> {
        self.read(text, Origin::Special);
        self.out.take()
    }

    /// The end of the answer: gives what is held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        loop {
            self.run();
            match std::mem::replace(&mut self.state, ParserState::Text) {
                ParserState::Section(mut section) => {
                    let raw = section.finish(&mut self.out);
                    raw.into_iter().for_each(|glyph| raw_text(glyph, |c| self.out.content(c)));
                }
                ParserState::Channels(mut channels) => channels.finish(&mut self.out),
                ParserState::Reasoning(until) => {
                    until.held().chars().for_each(|c| self.out.reasoning(c));
                }
                ParserState::Text => {}
            }
            if self.held.is_empty() {
                break;
            }
            self.settle();
        }
        self.out.finish();
        self.out.take()
    }

    fn read(&mut self, text: &str, origin: Origin) {
        for c in text.chars() {
            self.queue.push_back(Glyph { c, origin });
            self.run();
        }
    }

    fn run(&mut self) {
        while let Some(glyph) = self.queue.pop_front() {
            match &mut self.state {
                ParserState::Text => self.in_text(glyph),
                ParserState::Reasoning(until) => {
                    let out = &mut self.out;
                    if until.push(glyph.c, |c| text(Glyph { c, ..glyph }, |c| out.reasoning(c))) {
                        self.out.close_reasoning();
                        self.state = ParserState::Text;
                    }
                }
                ParserState::Section(section) => {
                    let step = section.push(glyph, &mut self.out);
                    self.in_section(step);
                }
                ParserState::Channels(channels) => {
                    let again = channels.push(glyph, &mut self.out);
                    self.requeue(again);
                }
            }
        }
    }

    fn requeue(&mut self, glyphs: Vec<Glyph>) {
        glyphs.into_iter().rev().for_each(|glyph| self.queue.push_front(glyph));
    }

    fn in_section(&mut self, step: SectionStep) {
        match step {
            SectionStep::Eaten => {}
            SectionStep::Back(glyphs) => self.requeue(glyphs),
            SectionStep::Over(glyphs) => {
                self.state = ParserState::Text;
                self.requeue(glyphs);
            }
            SectionStep::Broken(mut raw, mark) => {
                self.state = ParserState::Text;
                // At least one character leaves the queue, or it would be tried again.
                let rest = raw.split_off(mark.max(1).min(raw.len()));
                raw.into_iter().for_each(|glyph| raw_text(glyph, |c| self.out.content(c)));
                // What stood within is text, special tokens too.
                let plain = |glyph: Glyph| match glyph.origin {
                    Origin::Special => Glyph { origin: Origin::Text, ..glyph },
                    _ => glyph,
                };
                self.requeue(rest.into_iter().map(plain).collect());
            }
        }
    }

    fn in_text(&mut self, glyph: Glyph) {
        self.held.push(glyph);
        if self.held.len() == 1 && !self.marks.iter().any(|(mark, _)| mark.starts_with(glyph.c)) {
            return self.release();
        }
        let longer = |mark: &&str| glyph::begins(&self.held, mark) == Some(false);
        if self.marks.iter().any(|(mark, _)| longer(mark)) {
            return;
        }
        self.settle();
    }

    /// Nothing longer can begin with what is held: it begins with a mark, or its first character is text.
    fn settle(&mut self) {
        let held: String = self.held.iter().map(|glyph| glyph.c).collect();
        let found = self.marks.iter().filter(|(mark, _)| held.starts_with(mark));
        match found.max_by_key(|(mark, _)| mark.len()).copied() {
            Some((mark, kind)) => {
                let rest = self.held.split_off(mark.chars().count());
                self.requeue(rest);
                self.mark(mark, kind);
            }
            None => {
                let rest = self.held.split_off(1);
                self.requeue(rest);
                self.release();
            }
        }
    }

    /// A mark is held.
    fn mark(&mut self, mark: &'static str, kind: MarkKind) {
        let applies = match kind {
            MarkKind::Hidden | MarkKind::Calls => true,
            MarkKind::OpenReasoning | MarkKind::OpenAnswer => self.out.fresh(),
            MarkKind::CloseReasoning => self.out.untouched(),
            MarkKind::CloseAnswer => self.wrapped,
        };
        if !applies {
            let rest = self.held.split_off(1);
            self.requeue(rest);
            return self.release();
        }
        let held = std::mem::take(&mut self.held);
        match kind {
            MarkKind::Hidden => {}
            MarkKind::OpenAnswer => self.wrapped = true,
            MarkKind::CloseAnswer => self.wrapped = false,
            MarkKind::CloseReasoning => {
                self.out.open_reasoning();
                self.out.close_reasoning();
            }
            MarkKind::OpenReasoning => {
                if let Some(marks) = self.reasoning {
                    self.open_reasoning(marks);
                }
            }
            MarkKind::Calls => {
                let sections = self.sections.iter().filter(|section| opened_by(section, mark)).collect();
                if let Some(run) = SectionRun::new(sections, held) {
                    self.state = ParserState::Section(Box::new(run));
                }
            }
        }
    }

    fn open_reasoning(&mut self, marks: ReasoningMarks) {
        self.out.open_reasoning();
        self.state = ParserState::Reasoning(Until::new(marks.close));
    }

    /// The held character is text, or begins a call without a mark.
    fn release(&mut self) {
        for glyph in std::mem::take(&mut self.held) {
            let opens = matches!(glyph.c, '{' | '[') && glyph.origin == Origin::Text && self.out.fresh();
            let bare = self.sections.iter().filter(|section| opens && bare_opening(section) == Some(glyph.c));
            match SectionRun::new(bare.collect(), Vec::new()) {
                Some(run) => {
                    self.state = ParserState::Section(Box::new(run));
                    self.queue.push_front(glyph);
                }
                None => text(glyph, |c| self.out.content(c)),
            }
        }
    }
}

/// All marks of the text. Where one means two things the later one is meant.
fn marks(format: &'static ChatFormat, options: &ParserOptions<'_>) -> Vec<(&'static str, MarkKind)> {
    let mut out = Vec::new();
    // Messages with headers have marks of their own.
    if matches!(format.calls, CallSyntax::Channels(_)) {
        return out;
    }
    if let Some(marks) = options.reasoning {
        out.push((marks.open, MarkKind::OpenReasoning));
        out.push((marks.close, MarkKind::CloseReasoning));
        out.push((marks.answer.0, MarkKind::OpenAnswer));
        out.push((marks.answer.1, MarkKind::CloseAnswer));
    }
    for section in sections(format, options) {
        match (section.open, section.call.first()) {
            ([], Some(CallPart::Text(text))) => out.push((text, MarkKind::Calls)),
            (open, _) => out.extend(open.iter().map(|mark| (*mark, MarkKind::Calls))),
        }
    }
    out.extend(format.hidden.iter().map(|mark| (*mark, MarkKind::Hidden)));
    out.retain(|(mark, _)| !mark.is_empty());
    out
}

fn sections(format: &'static ChatFormat, options: &ParserOptions<'_>) -> &'static [CallSection] {
    match &format.calls {
        CallSyntax::Sections(sections) if !options.no_calls => sections,
        _ => &[],
    }
}

fn opened_by(section: &CallSection, mark: &str) -> bool {
    match (section.open, section.call.first()) {
        ([], Some(CallPart::Text(text))) => *text == mark,
        (open, _) => open.contains(&mark),
    }
}

/// The character that a section without a mark begins with.
fn bare_opening(section: &CallSection) -> Option<char> {
    match (section.open, section.items, section.call.first()) {
        ([], _, Some(CallPart::Text(_))) => None,
        ([], Items::List { .. }, _) => Some('['),
        ([], ..) => Some('{'),
        _ => None,
    }
}
