//! JSON, character by character.

use super::glyph::Fate;

/// Nesting at most: deeper is no JSON.
const DEPTH: usize = 512;

/// Finds the end of one JSON value. Structure is checked; numbers and words are taken as they are.
#[derive(Debug)]
pub(super) struct JsonScan {
    /// Open brackets: true for objects.
    stack: Vec<bool>,
    at: ScanAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanAt {
    Value,
    /// A value, or the end of an empty list.
    Item,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    Colon,
    Text {
        key: bool,
        escaped: bool,
    },
    Scalar,
    After,
}

impl JsonScan {
    /// At the beginning of a value.
    pub fn new() -> JsonScan {
        JsonScan { stack: Vec::new(), at: ScanAt::Value }
    }

    /// Whether nothing was read yet.
    pub fn fresh(&self) -> bool {
        self.stack.is_empty() && self.at == ScanAt::Value
    }

    /// Reads a character. A number or word at the top ends before the one that ends it ([`Fate::Pass`]).
    pub fn push(&mut self, c: char) -> Fate {
        use ScanAt::*;
        let blank = matches!(c, ' ' | '\n' | '\r' | '\t');
        match self.at {
            Text { key, escaped: true } => self.at = Text { key, escaped: false },
            Text { key, .. } if c == '\\' => self.at = Text { key, escaped: true },
            Text { key, .. } if c == '"' => return self.value_end(if key { Colon } else { After }),
            Text { .. } => {}
            Scalar if is_scalar(c) => {}
            Scalar if self.stack.is_empty() => return Fate::Pass,
            Scalar => {
                self.at = After;
                return self.push(c);
            }
            _ if blank => {}
            Value | Item if c == '"' => self.at = Text { key: false, escaped: false },
            Value | Item if c == '{' || c == '[' => return self.open(c == '{'),
            Value | Item if is_scalar(c) => self.at = Scalar,
            Item if c == ']' => return self.close(false),
            FirstKey | Key if c == '"' => self.at = Text { key: true, escaped: false },
            FirstKey if c == '}' => return self.close(true),
            Colon if c == ':' => self.at = Value,
            After if c == ',' => self.at = if self.stack.last() == Some(&true) { Key } else { Value },
            After if c == '}' || c == ']' => return self.close(c == '}'),
            _ => return Fate::Fail,
        }
        Fate::Eaten
    }

    fn open(&mut self, object: bool) -> Fate {
        if self.stack.len() == DEPTH {
            return Fate::Fail;
        }
        self.stack.push(object);
        self.at = if object { ScanAt::FirstKey } else { ScanAt::Item };
        Fate::Eaten
    }

    fn close(&mut self, object: bool) -> Fate {
        match self.stack.pop() {
            Some(open) if open == object => self.value_end(ScanAt::After),
            _ => Fate::Fail,
        }
    }

    fn value_end(&mut self, next: ScanAt) -> Fate {
        self.at = next;
        if self.stack.is_empty() { Fate::Done } else { Fate::Eaten }
    }
}

fn is_scalar(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

/// Reads the inside of a JSON string.
#[derive(Debug, Default)]
pub(super) struct StringScan {
    escape: Option<String>,
    /// The first half of a pair of surrogates.
    high: Option<u16>,
}

/// What a character brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StringStep {
    /// Nothing yet.
    More,
    /// This character.
    Char(char),
    /// The end.
    End,
}

impl StringScan {
    /// Reads a character after the opening quote.
    pub fn push(&mut self, c: char) -> StringStep {
        let Some(escape) = &mut self.escape else {
            return match c {
                '"' => StringStep::End,
                '\\' => {
                    self.escape = Some(String::new());
                    StringStep::More
                }
                c => StringStep::Char(c),
            };
        };
        escape.push(c);
        if !escape.starts_with('u') {
            self.escape = None;
            return StringStep::Char(unescaped(c));
        }
        if escape.len() < 5 && c.is_ascii() {
            return StringStep::More;
        }
        let unit = u16::from_str_radix(&escape[1..], 16).ok();
        self.escape = None;
        self.unit(unit)
    }

    fn unit(&mut self, unit: Option<u16>) -> StringStep {
        let Some(unit) = unit else { return StringStep::Char(char::REPLACEMENT_CHARACTER) };
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return StringStep::More;
        }
        let units = self.high.take().into_iter().chain([unit]);
        let c = char::decode_utf16(units).last().and_then(Result::ok);
        StringStep::Char(c.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// The character that a backslash and `c` mean.
pub(super) fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

/// Appends a character as it stands within a JSON string.
pub(super) fn escape(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    text.chars().for_each(|c| escape(c, &mut out));
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> Option<usize> {
        let mut scan = JsonScan::new();
        for (at, c) in text.char_indices() {
            match scan.push(c) {
                Fate::Eaten => {}
                Fate::Done => return Some(at + c.len_utf8()),
                Fate::Pass => return Some(at),
                _ => return None,
            }
        }
        None
    }

    #[test]
    fn values_end_where_they_do() {
        for (text, expected) in [
            ("{\"a\": \"}\\\"\"} x", Some(12)),
            ("{}{", Some(2)),
            ("[1, [], {\"k\": null}]]", Some(20)),
            ("12.5, ", Some(4)),
            ("\"a\"", Some(3)),
            ("{\"a\": 1,}", None),
            ("{\"a\" 1}", None),
            ("{]", None),
            ("{\"a\": ", None),
        ] {
            assert_eq!(end(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_are_unescaped() {
        let read = |text: &str| {
            let mut scan = StringScan::default();
            text.chars()
                .filter_map(|c| match scan.push(c) {
                    StringStep::Char(c) => Some(c),
                    _ => None,
                })
                .collect::<String>()
        };
        assert_eq!(read(r#"a\n\u00fc\ud83d\ude00\\\""#), "a\n\u{fc}\u{1f600}\\\"");
        assert_eq!(read(r"\ud83dx\uzzzz"), "x\u{fffd}");
    }
}
