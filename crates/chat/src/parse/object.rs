//! A call that is a JSON object with its name and arguments.

use super::draft::CallDraft;
use super::glyph::Fate;
use super::json::{JsonScan, StringScan, StringStep};
use super::outlet::Outlet;
use crate::formats::ObjectKeys;

/// Which keys mean what.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallKeys {
    /// Keys for name and arguments.
    Named(ObjectKeys),
    /// The only key is the name.
    NameIsKey,
}

/// Reads the object.
#[derive(Debug)]
pub(super) struct ObjectScan {
    keys: CallKeys,
    /// Without a mark before it an object with other keys first is the answer's own text.
    bare: bool,
    at: ObjectAt,
    key: String,
    /// What is read of a string.
    text: String,
}

#[derive(Debug)]
enum ObjectAt {
    Open,
    /// True where the object may end.
    Key(bool),
    InKey(StringScan),
    Colon,
    Value,
    Skipped(JsonScan),
    Arguments(JsonScan),
    /// Arguments written as a string of JSON.
    QuotedArguments(StringScan),
    Text(StringScan),
    After,
}

impl ObjectScan {
    pub fn new(keys: CallKeys, bare: bool) -> ObjectScan {
        ObjectScan { keys, bare, at: ObjectAt::Open, key: String::new(), text: String::new() }
    }

    /// Reads a character.
    pub fn push(&mut self, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let blank = c.is_whitespace();
        match &mut self.at {
            ObjectAt::InKey(scan) => match scan.push(c) {
                StringStep::Char(c) => self.key.push(c),
                StringStep::End => return self.key_end(draft),
                StringStep::More => {}
            },
            ObjectAt::Text(scan) => match scan.push(c) {
                StringStep::Char(c) => self.text.push(c),
                StringStep::End => return self.text_end(draft, out),
                StringStep::More => {}
            },
            ObjectAt::QuotedArguments(scan) => match scan.push(c) {
                StringStep::Char(c) => draft.argument(c, out),
                StringStep::End => return self.arguments_end(draft, out),
                StringStep::More => {}
            },
            ObjectAt::Arguments(_) | ObjectAt::Skipped(_) => return self.scan(c, draft, out),
            ObjectAt::Open if c == '{' => self.at = ObjectAt::Key(true),
            _ if blank => {}
            ObjectAt::Key(_) if c == '"' => {
                self.key.clear();
                self.at = ObjectAt::InKey(StringScan::default());
            }
            ObjectAt::Key(true) if c == '}' => return Fate::Fail,
            ObjectAt::Colon if c == ':' => self.at = ObjectAt::Value,
            ObjectAt::Value => return self.value(c, draft, out),
            ObjectAt::After if c == ',' => self.at = ObjectAt::Key(false),
            ObjectAt::After if c == '}' => return self.close(draft),
            // A bracket was forgotten.
            ObjectAt::After if draft.complete && draft.named() => return Fate::Pass,
            _ => return Fate::Fail,
        }
        Fate::Eaten
    }

    fn close(&self, draft: &mut CallDraft) -> Fate {
        // An object without arguments calls a tool only where a mark says that it is a call.
        match draft.named() && (!self.bare || draft.complete) {
            true => {
                draft.complete = true;
                Fate::Done
            }
            false => Fate::Fail,
        }
    }

    fn key_end(&mut self, draft: &mut CallDraft) -> Fate {
        self.at = ObjectAt::Colon;
        match &self.keys {
            CallKeys::NameIsKey => match draft.named() || self.key.is_empty() {
                true => return Fate::Fail,
                false => draft.name = Some(self.key.clone()),
            },
            CallKeys::Named(keys) => {
                let id = keys.id.is_some_and(|id| id == self.key);
                let known = id
                    || self.key == keys.name
                    || keys.arguments.contains(&self.key.as_str())
                    || self.key == "type";
                if self.bare && !known && !draft.named() {
                    return Fate::Fail;
                }
            }
        }
        Fate::Eaten
    }

    fn is_arguments(&self) -> bool {
        match &self.keys {
            CallKeys::NameIsKey => true,
            CallKeys::Named(keys) => keys.arguments.contains(&self.key.as_str()),
        }
    }

    fn value(&mut self, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let (is_name, is_id) = match &self.keys {
            CallKeys::Named(keys) => (self.key == keys.name, keys.id.is_some_and(|id| id == self.key)),
            CallKeys::NameIsKey => (false, false),
        };
        if c == '"' && (is_name || is_id) {
            self.text.clear();
            self.at = ObjectAt::Text(StringScan::default());
            return Fate::Eaten;
        }
        if is_name {
            return Fate::Fail;
        }
        if self.is_arguments() && !draft.complete {
            if c == '"' {
                self.at = ObjectAt::QuotedArguments(StringScan::default());
                return Fate::Eaten;
            }
            // `null` stands for none.
            self.at = if c == 'n' {
                ObjectAt::Skipped(JsonScan::new())
            } else {
                ObjectAt::Arguments(JsonScan::new())
            };
        } else {
            self.text.clear();
            self.at = ObjectAt::Skipped(JsonScan::new());
        }
        self.scan(c, draft, out)
    }

    fn scan(&mut self, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let (scan, arguments) = match &mut self.at {
            ObjectAt::Arguments(scan) => (scan, true),
            ObjectAt::Skipped(scan) => (scan, false),
            _ => return Fate::Fail,
        };
        let fate = scan.push(c);
        if matches!(fate, Fate::Eaten | Fate::Done) {
            match arguments {
                true => draft.argument(c, out),
                false => self.text.push(c),
            }
        }
        match fate {
            Fate::Eaten => Fate::Eaten,
            Fate::Done | Fate::Pass => {
                let ended = self.value_end(arguments, draft, out);
                if fate == Fate::Pass && ended == Fate::Eaten { self.push(c, draft, out) } else { ended }
            }
            _ => Fate::Fail,
        }
    }

    /// A value that is no string is over.
    fn value_end(&mut self, arguments: bool, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        self.at = ObjectAt::After;
        if arguments || self.is_arguments() {
            return self.arguments_end(draft, out);
        }
        // Ids may be numbers.
        if let CallKeys::Named(ObjectKeys { id: Some(id), .. }) = &self.keys
            && *id == self.key
        {
            draft.set_id(self.text.trim(), out);
        }
        Fate::Eaten
    }

    fn arguments_end(&mut self, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        self.at = ObjectAt::After;
        draft.complete = true;
        let late = matches!(&self.keys, CallKeys::Named(keys) if keys.id_is_late());
        if !late {
            draft.start(out);
        }
        Fate::Eaten
    }

    fn text_end(&mut self, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        self.at = ObjectAt::After;
        let CallKeys::Named(keys) = &self.keys else { return Fate::Fail };
        if self.key == keys.name {
            if self.text.is_empty() || draft.named() {
                return Fate::Fail;
            }
            draft.silent = self.text == keys.silent;
            draft.name = Some(std::mem::take(&mut self.text));
            if draft.complete && !draft.late {
                draft.start(out);
            }
        } else {
            let id = std::mem::take(&mut self.text);
            draft.set_id(&id, out);
        }
        Fate::Eaten
    }
}
