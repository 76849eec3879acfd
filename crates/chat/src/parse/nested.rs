//! Arguments as tags within tags, each after a mark.

use serde_json::{Map, Value};

use super::draft::CallDraft;
use super::glyph::{Fate, Glyph};
use super::json;
use super::outlet::Outlet;
use super::types::{ValueType, property, resolve};

/// Nesting at most.
const DEPTH: usize = 64;

/// Reads the tags and writes an object; each argument comes whole.
#[derive(Debug)]
pub(super) struct NestedScan {
    mark: &'static str,
    at: NestedAt,
    any: bool,
}

#[derive(Debug)]
enum NestedAt {
    Between(Vec<Glyph>),
    Key(String),
    /// The key, the text so far, and how many tags of the same name are open in it.
    Value(String, String, usize),
}

impl NestedScan {
    pub fn new(mark: &'static str) -> NestedScan {
        NestedScan { mark, at: NestedAt::Between(Vec::new()), any: false }
    }

    /// Reads a character.
    pub fn push(&mut self, glyph: Glyph, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        match &mut self.at {
            NestedAt::Between(held) => {
                if held.is_empty() && glyph.c.is_whitespace() {
                    return Fate::Eaten;
                }
                held.push(glyph);
                self.between(draft, out)
            }
            NestedAt::Key(key) if glyph.c == '>' && !key.is_empty() => {
                self.at = NestedAt::Value(std::mem::take(key), String::new(), 0);
                Fate::Eaten
            }
            NestedAt::Key(key) if key.len() < 1024 && glyph.c != '<' => {
                key.push(glyph.c);
                Fate::Eaten
            }
            NestedAt::Key(_) => Fate::Fail,
            NestedAt::Value(..) => self.value(glyph.c, draft, out),
        }
    }

    /// A mark and `<` open an argument; a mark and `</` or anything else end them.
    fn between(&mut self, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let NestedAt::Between(held) = &mut self.at else { return Fate::Fail };
        let mut open = self.mark.chars().chain(['<']);
        let agrees = held.iter().all(|glyph| open.next().is_none_or(|c| c == glyph.c));
        let whole = self.mark.chars().count() + 1;
        match held.last() {
            Some(last) if agrees && held.len() > whole && last.c != '/' => {
                let key = last.c.to_string();
                self.at = NestedAt::Key(key);
                Fate::Eaten
            }
            Some(_) if agrees && held.len() <= whole => Fate::Eaten,
            _ => {
                let held = std::mem::take(held);
                if self.any {
                    draft.arguments("}", out);
                    draft.complete = true;
                }
                Fate::Back(held)
            }
        }
    }

    fn value(&mut self, c: char, draft: &mut CallDraft, out: &mut Outlet) -> Fate {
        let NestedAt::Value(key, text, open) = &mut self.at else { return Fate::Fail };
        text.push(c);
        if c != '>' {
            return Fate::Eaten;
        }
        let close = format!("{}</{key}>", self.mark);
        match (text.ends_with(&close), *open) {
            (true, 0) => {}
            (true, _) => {
                *open -= 1;
                return Fate::Eaten;
            }
            (false, _) => {
                *open += usize::from(text.ends_with(&format!("{}<{key}>", self.mark)));
                return Fate::Eaten;
            }
        }
        let inner = &text[..text.len() - close.len()];
        let value = within(inner, self.mark, out.types.schema(draft.tool(), key), 0);
        let value = value.unwrap_or_else(|| inner.into());
        draft.arguments(if self.any { ", " } else { "{" }, out);
        draft.arguments(&format!("{}: {}", json::quoted(key), spaced(&value)), out);
        self.any = true;
        self.at = NestedAt::Between(Vec::new());
        Fate::Eaten
    }

    /// The answer is over within a value: what there is of it.
    pub fn cut(&mut self, draft: &mut CallDraft, out: &mut Outlet) {
        if let NestedAt::Value(key, text, _) = &self.at {
            let open = if self.any { ", " } else { "{" };
            let text = format!("{open}{}: {text}", json::quoted(key));
            draft.arguments(&text, out);
        }
    }
}

/// JSON as Python writes it, with a space after commas and colons.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let item = |(key, value): (&String, &Value)| format!("{}: {}", json::quoted(key), spaced(value));
            format!("{{{}}}", map.iter().map(item).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => json::quoted(text),
        other => other.to_string(),
    }
}

/// The value of a text, by its schema within its root where there is one; None where a tag does not close.
fn within(text: &str, mark: &str, schema: Option<(&Value, &Value)>, depth: usize) -> Option<Value> {
    let tag = format!("{mark}<");
    if !text.trim_start().starts_with(&tag) {
        let kind = schema.map_or(ValueType::Unknown, |(root, schema)| ValueType::of(root, schema));
        return serde_json::from_str(&kind.json(text)).ok();
    }
    if depth == DEPTH {
        return None;
    }
    let mut children: Vec<(&str, &str)> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix(&tag)?.split_once('>')?;
        let end = end_of(after, name, mark)?;
        children.push((name, &after[..end]));
        rest = after[end + mark.len() + name.len() + 3..].trim_start();
    }
    let items = schema.and_then(|(root, schema)| Some((root, resolve(root, schema).get("items")?)));
    if children.iter().all(|(name, _)| *name == "item") {
        return children.iter().map(|(_, text)| within(text, mark, items, depth + 1)).collect();
    }
    let mut out = Map::new();
    for (name, text) in children {
        let of = schema.and_then(|(root, schema)| property(root, schema, name, 0));
        out.insert(name.to_owned(), within(text, mark, of, depth + 1)?);
    }
    Some(Value::Object(out))
}

/// Where the tag `name` closes in the text after its opening, tags of the same name within it passed over.
fn end_of(text: &str, name: &str, mark: &str) -> Option<usize> {
    let (open, close) = (format!("{mark}<{name}>"), format!("{mark}</{name}>"));
    let (mut at, mut depth) = (0, 0usize);
    loop {
        let end = at + text[at..].find(&close)?;
        depth += text[at..end].matches(&open).count();
        if depth == 0 {
            return Some(end);
        }
        depth -= 1;
        at = end + close.len();
    }
}
