//! Answers that are messages with headers, which name a channel and a recipient.

use super::glyph::{Fate, Glyph, Until, begins, raw_text, text};
use super::json::JsonScan;
use super::outlet::Outlet;
use crate::formats::Channels;

/// Bytes of a header at most.
const LONGEST_HEADER: usize = 256;

/// Reads the messages of an answer.
#[derive(Debug)]
pub(super) struct ChannelRun {
    channels: &'static Channels,
    at: ChannelAt,
    /// What is held back: it may be a mark.
    held: Vec<Glyph>,
}

#[derive(Debug)]
enum ChannelAt {
    /// Between messages: what stands here is content.
    Outside,
    /// In a header; all of it, to be given back if it is none.
    Header(Until, String, Vec<Glyph>),
    Reasoning,
    Content,
    /// In a call: its index, and where its JSON stands.
    Call(usize, CallBody),
}

/// The arguments of a call.
#[derive(Debug)]
enum CallBody {
    Json(JsonScan),
    /// An object that is whole.
    Whole,
    /// No JSON: code, as it is.
    Plain,
}

impl ChannelRun {
    pub fn new(channels: &'static Channels) -> ChannelRun {
        ChannelRun { channels, at: ChannelAt::Outside, held: Vec::new() }
    }

    /// Reads a character. What is returned is to be read again.
    pub fn push(&mut self, glyph: Glyph, out: &mut Outlet) -> Vec<Glyph> {
        if let ChannelAt::Header(until, text, raw) = &mut self.at {
            raw.push(glyph);
            if until.push(glyph.c, |c| text.push(c)) {
                let text = std::mem::take(text);
                self.open(&text, out);
            } else if !self.is_header() {
                self.text_after_all(out);
            }
            return Vec::new();
        }
        self.held.push(glyph);
        let mut waits = false;
        for mark in self.marks() {
            match begins(&self.held, mark) {
                Some(true) => return self.mark(mark, out),
                Some(false) => waits = true,
                None => {}
            }
        }
        if waits {
            return Vec::new();
        }
        let mut held = std::mem::take(&mut self.held);
        let rest = held.split_off(1);
        held.into_iter().for_each(|glyph| self.write(glyph, out));
        rest
    }

    /// Whether what is read of a header may be one: a role, then a recipient, a channel and a type.
    fn is_header(&self) -> bool {
        let ChannelAt::Header(_, text, _) = &self.at else { return true };
        let word_end = |c: char| c.is_whitespace() || c == '<';
        let mut rest = &text[text.find(word_end).unwrap_or(text.len())..];
        let (mut types, mut named) = (0, false);
        while !rest.is_empty() && text.len() <= LONGEST_HEADER {
            rest = rest.trim_start();
            let parts = ["to=", self.channels.channel, "<|constrain|>"];
            if parts.iter().any(|part| part.starts_with(rest)) {
                return true;
            }
            let part = parts.iter().find(|part| rest.starts_with(**part));
            let word = &rest[part.map_or(0, |part| part.len())..];
            let end = word.find(word_end).unwrap_or(word.len());
            // A bare word is the type, which stands once, after recipient or channel.
            types += usize::from(part.is_none());
            named |= part.is_some();
            let is_type = word[..end].bytes().all(|b| b.is_ascii_lowercase());
            if (end == 0 && !word.is_empty()) || types > 1 || !named || (part.is_none() && !is_type) {
                return false;
            }
            rest = &word[end..];
        }
        text.len() <= LONGEST_HEADER
    }

    /// What ends the present text.
    fn marks(&self) -> Vec<&'static str> {
        let Channels { start, channel, ends, .. } = *self.channels;
        match self.at {
            ChannelAt::Outside => ends.iter().chain(&[start, channel]).copied().collect(),
            _ => ends.iter().chain(&[start]).copied().collect(),
        }
    }

    fn mark(&mut self, mark: &'static str, out: &mut Outlet) -> Vec<Glyph> {
        let held = std::mem::take(&mut self.held);
        self.close(true, out);
        self.at = ChannelAt::Outside;
        if mark != self.channels.start && mark != self.channels.channel {
            return Vec::new();
        }
        // The channel's mark is a part of the header.
        let text = if mark == self.channels.channel { mark.to_owned() } else { String::new() };
        self.at = ChannelAt::Header(Until::new(self.channels.message), text, held);
        Vec::new()
    }

    /// The message ends; `marked` where a mark ends it, and not the answer.
    fn close(&mut self, marked: bool, out: &mut Outlet) {
        match &self.at {
            ChannelAt::Reasoning => out.close_reasoning(),
            ChannelAt::Call(index, body) => {
                let complete = match body {
                    CallBody::Whole => true,
                    CallBody::Plain => marked,
                    CallBody::Json(scan) if scan.fresh() => {
                        out.arguments(*index, "{}");
                        marked
                    }
                    CallBody::Json(_) => false,
                };
                out.end(*index, complete);
            }
            _ => {}
        }
    }

    fn open(&mut self, header: &str, out: &mut Outlet) {
        let Channels { channel, tools, reasoning, .. } = self.channels;
        let word = |after: &str| {
            let rest = &header[header.find(after)? + after.len()..];
            let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
            Some(&rest[..end]).filter(|word| !word.is_empty())
        };
        let recipient = word("to=").filter(|name| !matches!(*name, "user" | "all" | "assistant"));
        self.at = match (recipient, word(channel)) {
            (Some(name), _) => {
                let name = name.strip_prefix(tools).filter(|rest| !rest.is_empty()).unwrap_or(name);
                let index = out.start(name, None);
                ChannelAt::Call(index, CallBody::Json(JsonScan::new()))
            }
            (None, Some(channel)) if channel == *reasoning => {
                out.open_reasoning();
                ChannelAt::Reasoning
            }
            _ => ChannelAt::Content,
        };
    }

    fn write(&mut self, glyph: Glyph, out: &mut Outlet) {
        match &mut self.at {
            ChannelAt::Reasoning => text(glyph, |c| out.reasoning(c)),
            ChannelAt::Call(index, body) => argument(*index, body, glyph.c, out),
            _ => text(glyph, |c| out.content(c)),
        }
    }

    /// A header that does not end is text.
    fn text_after_all(&mut self, out: &mut Outlet) {
        if let ChannelAt::Header(_, _, raw) = &mut self.at {
            std::mem::take(raw).into_iter().for_each(|glyph| raw_text(glyph, |c| out.content(c)));
            self.at = ChannelAt::Outside;
        }
    }

    /// The end of the answer.
    pub fn finish(&mut self, out: &mut Outlet) {
        for glyph in std::mem::take(&mut self.held) {
            self.write(glyph, out);
        }
        self.text_after_all(out);
        self.close(false, out);
    }
}

fn argument(index: usize, body: &mut CallBody, c: char, out: &mut Outlet) {
    if let CallBody::Json(scan) = body {
        if scan.fresh() && c.is_whitespace() {
            return;
        }
        if scan.fresh() && c != '{' {
            *body = CallBody::Plain;
        } else {
            match scan.push(c) {
                Fate::Eaten => {}
                Fate::Done => *body = CallBody::Whole,
                _ => *body = CallBody::Plain,
            }
        }
    } else if matches!(body, CallBody::Whole) {
        if c.is_whitespace() {
            return;
        }
        *body = CallBody::Plain;
    }
    out.arguments(index, c.encode_utf8(&mut [0; 4]));
}
