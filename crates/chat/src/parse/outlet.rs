//! Where the parts of an answer come out: white space is settled, neighbours are joined, calls are counted.

use super::delta::Delta;
use super::ids::IdSource;
use super::types::ToolTypes;

/// Gathers deltas.
#[derive(Debug)]
pub(super) struct Outlet {
    deltas: Vec<Delta>,
    pub ids: IdSource,
    pub types: ToolTypes,
    /// Calls begun in this answer.
    calls: usize,
    /// White space of the content that waits for what follows: before calls it is dropped.
    space: String,
    /// The same for reasoning, which is trimmed.
    reasoning_space: String,
    /// Whether there was content.
    content: bool,
    /// Whether nothing but white space was written since the beginning, the last reasoning or the last call.
    fresh: bool,
    reasoning: Stretch,
}

/// Where a stretch of reasoning stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch {
    /// There was none.
    None,
    /// One has begun, and nothing of it is written yet; true where one was written before.
    Begun(bool),
    /// Something of it is written.
    Written,
}

impl Outlet {
    pub fn new(ids: IdSource, types: ToolTypes) -> Outlet {
        Outlet {
            deltas: Vec::new(),
            ids,
            types,
            calls: 0,
            space: String::new(),
            reasoning_space: String::new(),
            content: false,
            fresh: true,
            reasoning: Stretch::None,
        }
    }

    pub fn take(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas)
    }

    /// Whether nothing was written since the beginning, the last reasoning or the last call.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// Whether nothing at all was written.
    pub fn untouched(&self) -> bool {
        !self.content && self.calls == 0 && self.reasoning == Stretch::None
    }

    pub fn content(&mut self, c: char) {
        if c.is_whitespace() {
            return self.space.push(c);
        }
        let opening = !self.content && !self.untouched();
        let space = std::mem::take(&mut self.space);
        if !opening {
            self.append_content(&space);
        }
        (self.content, self.fresh) = (true, false);
        self.append_content(c.encode_utf8(&mut [0; 4]));
    }

    fn append_content(&mut self, text: &str) {
        match self.deltas.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Content(last)) => last.push_str(text),
            _ => self.deltas.push(Delta::Content(text.to_owned())),
        }
    }

    /// Reasoning begins.
    pub fn open_reasoning(&mut self) {
        self.space.clear();
        self.reasoning_space.clear();
        self.reasoning = match self.reasoning {
            Stretch::None | Stretch::Begun(false) => Stretch::Begun(false),
            _ => Stretch::Begun(true),
        };
    }

    pub fn reasoning(&mut self, c: char) {
        if c.is_whitespace() {
            if self.reasoning == Stretch::Written {
                self.reasoning_space.push(c);
            }
            return;
        }
        // Several stretches are one text.
        let before = match self.reasoning {
            Stretch::Begun(true) => "\n".to_owned(),
            _ => std::mem::take(&mut self.reasoning_space),
        };
        self.reasoning = Stretch::Written;
        let text = before + c.encode_utf8(&mut [0; 4]);
        match self.deltas.last_mut() {
            Some(Delta::Reasoning(last)) => last.push_str(&text),
            _ => self.deltas.push(Delta::Reasoning(text)),
        }
    }

    /// Reasoning is over.
    pub fn close_reasoning(&mut self) {
        self.reasoning_space.clear();
        (self.fresh, self.space) = (true, String::new());
    }

    /// A call begins; returns its index.
    pub fn start(&mut self, name: &str, id: Option<String>) -> usize {
        self.space.clear();
        let id = id.unwrap_or_else(|| self.ids.next(name));
        let index = self.calls;
        self.calls += 1;
        self.ids.calls += 1;
        self.deltas.push(Delta::ToolStart { index, id, name: name.to_owned() });
        index
    }

    pub fn arguments(&mut self, index: usize, text: &str) {
        match self.deltas.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::ToolArguments { index: last, text: all }) if *last == index => all.push_str(text),
            _ => self.deltas.push(Delta::ToolArguments { index, text: text.to_owned() }),
        }
    }

    pub fn end(&mut self, index: usize, complete: bool) {
        self.fresh = true;
        self.deltas.push(Delta::ToolEnd { index, complete });
    }

    /// The end of the answer: white space that nothing followed is content where there is no more than content.
    pub fn finish(&mut self) {
        let space = std::mem::take(&mut self.space);
        if self.untouched() || (self.content && !self.fresh) {
            self.append_content(&space);
        }
    }
}
