//! `tojson` as transformers has it: Python's `json.dumps` with `ensure_ascii=False` unless told otherwise.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::{meter, python, size};

/// Spaces of an indentation.
const WIDEST: usize = 64;

/// The layout of `json.dumps`.
struct JsonLayout {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(value: &Value, ensure_ascii: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let named = |name: &str| {
        kwargs.get::<Option<Value>>(name).map(|v| v.filter(|v| !v.is_none() && !v.is_undefined()))
    };
    let ensure_ascii = match ensure_ascii {
        Some(flag) => Some(flag),
        None => named("ensure_ascii")?,
    };
    let indent = named("indent")?.map(indentation).transpose()?;
    let separators = named("separators")?;
    let item = if indent.is_some() { "," } else { ", " };
    let mut layout = JsonLayout {
        ensure_ascii: ensure_ascii.is_some_and(|flag| flag.is_true()),
        indent,
        item: item.into(),
        key: ": ".into(),
        sort_keys: named("sort_keys")?.is_some_and(|flag| flag.is_true()),
    };
    if let Some(separators) = separators {
        let text = |index: usize| separators.get_item_by_index(index).map(|v| v.to_string());
        (layout.item, layout.key) = (text(0)?, text(1)?);
    }
    kwargs.assert_all_used()?;
    let size = size::measure(value)?;
    meter::affordable(size.printed())?;
    let mut out = String::with_capacity(size.bytes.min(1 << 20));
    layout.write(value, 0, &mut out)?;
    meter::memory(out.len())?;
    Ok(Value::from(out))
}

/// A level of indentation: a text, or a number of spaces.
fn indentation(indent: Value) -> Result<String, Error> {
    let width = match indent.as_str() {
        Some(text) => text.len(),
        None => usize::try_from(indent.clone())?,
    };
    if width > WIDEST {
        return Err(meter::exceeded(format!("JSON is indented by at most {WIDEST}, not {width}")));
    }
    Ok(indent.as_str().map_or_else(|| " ".repeat(width), str::to_owned))
}

impl JsonLayout {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if let Some(float) = python::float(value) {
            out.push_str(&float_text(float));
            return Ok(());
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&value.to_string()),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(out, depth, ('[', ']'), items.iter(), |item, out| {
                    self.write(item, depth + 1, out)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.list(out, depth, ('{', '}'), keys.iter(), |key, out| {
                    self.key(key, out)?;
                    out.push_str(&self.key);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            kind => {
                let problem = format!("a value of type {kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
        Ok(())
    }

    fn list<'v>(
        &self,
        out: &mut String,
        depth: usize,
        (open, close): (char, char),
        items: impl ExactSizeIterator<Item = &'v Value>,
        mut write: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let empty = items.len() == 0;
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push_str(&self.item);
            }
            self.line(depth + 1, out);
            meter::affordable(out.len() + self.item.len() + self.key.len())?;
            write(item, out)?;
        }
        if !empty {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    /// Keys that are no strings are written as the strings of their JSON.
    fn key(&self, key: &Value, out: &mut String) -> Result<(), Error> {
        match key.as_str() {
            Some(text) => self.string(text, out),
            None => {
                out.push('"');
                self.write(key, 0, out)?;
                out.push('"');
            }
        }
        Ok(())
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn float_text(value: f64) -> String {
    match value {
        f if f.is_nan() => "NaN".into(),
        f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        f => python::float_repr(f),
    }
}
