//! A call that is being read.

use super::outlet::Outlet;

/// What is known of a call.
#[derive(Debug, Default)]
pub(super) struct CallDraft {
    pub name: Option<String>,
    pub id: Option<String>,
    /// Whether the id comes after the arguments: nothing is told before it is known.
    pub late: bool,
    /// Whether it says that no tool is called.
    pub silent: bool,
    /// Whether the arguments are whole.
    pub complete: bool,
    /// Its index, once it has begun.
    index: Option<usize>,
    /// Arguments that wait for the beginning.
    waiting: String,
    /// Whether there are arguments.
    any: bool,
}

impl CallDraft {
    pub fn new(late: bool) -> CallDraft {
        CallDraft { late, ..CallDraft::default() }
    }

    pub fn named(&self) -> bool {
        self.name.is_some()
    }

    /// Whether this is a call, whatever follows.
    pub fn is_call(&self) -> bool {
        self.index.is_some() || (self.named() && self.complete)
    }

    /// The name, empty while it is unknown.
    pub fn tool(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Takes the model's id; it comes too late for a call that has begun.
    pub fn set_id(&mut self, id: &str, out: &mut Outlet) {
        if self.id.is_none() && !id.is_empty() {
            self.id = Some(id.to_owned());
        }
        if self.late && self.named() && self.complete {
            self.start(out);
        }
    }

    /// Tells the beginning, if the name is known.
    pub fn start(&mut self, out: &mut Outlet) {
        let open = self.index.is_none() && !self.silent;
        let Some(name) = self.name.as_deref().filter(|_| open) else { return };
        let index = out.start(name, self.id.take());
        self.index = Some(index);
        out.arguments(index, &std::mem::take(&mut self.waiting));
    }

    /// A character of the arguments.
    pub fn argument(&mut self, c: char, out: &mut Outlet) {
        self.arguments(c.encode_utf8(&mut [0; 4]), out);
    }

    /// A piece of the arguments.
    pub fn arguments(&mut self, text: &str, out: &mut Outlet) {
        if text.is_empty() {
            return;
        }
        self.any = true;
        if !self.late {
            self.start(out);
        }
        match self.index {
            Some(index) => out.arguments(index, text),
            None => self.waiting.push_str(text),
        }
    }

    /// The call is over; where it has no arguments they are an empty object.
    pub fn end(&mut self, out: &mut Outlet) {
        self.start(out);
        let Some(index) = self.index else { return };
        if !self.any && self.complete {
            out.arguments(index, "{}");
        }
        out.end(index, self.complete);
    }
}
