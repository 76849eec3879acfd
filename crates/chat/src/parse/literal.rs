//! Literals of Python, and of Gemma, as JSON, character by character.

use serde_json::{Number, Value};

use super::glyph::{Fate, Until};
use super::json;

/// Nesting at most.
const DEPTH: usize = 128;

/// Which language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiteralStyle {
    /// Strings between quotes, keys in quotes.
    Python,
    /// Strings between marks, keys bare.
    Gemma,
}

/// Gemma's quote.
const MARK: &str = "<|\"|>";

/// Reads one container and writes it as JSON.
#[derive(Debug)]
pub(super) struct LiteralScan {
    dialect: LiteralStyle,
    stack: Vec<OpenBracket>,
    at: LiteralAt,
    word: String,
}

/// An open bracket.
#[derive(Clone, Copy, Debug)]
struct OpenBracket {
    close: char,
    /// Between key and value; None in a list.
    separator: Option<char>,
    /// Whether it has items.
    filled: bool,
}

#[derive(Debug)]
enum LiteralAt {
    /// Before the first bracket.
    Begin,
    Key,
    BareKey,
    Separator,
    Value,
    /// In Gemma's opening mark, of which so many characters are read; true for a key.
    Mark(usize, bool),
    Text(TextEnd, bool),
    Word,
    After,
}

/// How a string ends.
#[derive(Debug)]
enum TextEnd {
    /// With this quote; whether a backslash came before, and digits of a code point.
    Quote { quote: char, escape: Option<String> },
    /// With Gemma's mark.
    Mark(Until),
}

impl LiteralScan {
    /// Keyword arguments after the opening bracket.
    pub fn keywords() -> LiteralScan {
        let frame = OpenBracket { close: ')', separator: Some('='), filled: false };
        LiteralScan {
            dialect: LiteralStyle::Python,
            stack: vec![frame],
            at: LiteralAt::Key,
            word: String::new(),
        }
    }

    /// A container with its brackets.
    pub fn container(dialect: LiteralStyle) -> LiteralScan {
        LiteralScan { dialect, stack: Vec::new(), at: LiteralAt::Begin, word: String::new() }
    }

    /// Reads a character; JSON goes to `out`.
    pub fn push(&mut self, c: char, out: &mut String) -> Fate {
        match &mut self.at {
            LiteralAt::Text(..) => return self.text(c, out),
            LiteralAt::Mark(read, key) => {
                let (read, key) = (*read, *key);
                return self.mark(c, read, key, out);
            }
            LiteralAt::Word if is_word(c) => {
                self.word.push(c);
                return Fate::Eaten;
            }
            LiteralAt::Word => {
                out.push_str(&word(&self.word));
                self.word.clear();
                self.at = LiteralAt::After;
            }
            LiteralAt::BareKey => return self.bare_key(c, out),
            _ => {}
        }
        if c.is_whitespace() {
            return Fate::Eaten;
        }
        match self.at {
            LiteralAt::Begin if c == '{' || c == '[' => self.open(c),
            LiteralAt::Key => self.key(c, out),
            LiteralAt::Separator if self.separator() == Some(c) => self.go(LiteralAt::Value),
            LiteralAt::Value => self.value(c, out),
            LiteralAt::After => self.after(c, out),
            _ => Fate::Fail,
        }
    }

    fn go(&mut self, at: LiteralAt) -> Fate {
        self.at = at;
        Fate::Eaten
    }

    fn separator(&self) -> Option<char> {
        self.stack.last()?.separator
    }

    fn open(&mut self, c: char) -> Fate {
        if self.stack.len() == DEPTH {
            return Fate::Fail;
        }
        let (close, separator) = match c {
            '{' => ('}', Some(':')),
            '[' => (']', None),
            _ => (')', None),
        };
        self.stack.push(OpenBracket { close, separator, filled: false });
        self.go(if separator.is_some() { LiteralAt::Key } else { LiteralAt::Value })
    }

    /// What opens or separates an item of the innermost bracket.
    fn item(&mut self, out: &mut String) {
        let Some(frame) = self.stack.last_mut() else { return };
        let open = if frame.separator.is_some() { "{" } else { "[" };
        out.push_str(if frame.filled { ", " } else { open });
        frame.filled = true;
    }

    fn close(&mut self, out: &mut String) -> Fate {
        let Some(frame) = self.stack.pop() else { return Fate::Fail };
        out.push_str(match (frame.separator.is_some(), frame.filled) {
            (true, true) => "}",
            (true, false) => "{}",
            (false, true) => "]",
            (false, false) => "[]",
        });
        self.at = LiteralAt::After;
        if self.stack.is_empty() { Fate::Done } else { Fate::Eaten }
    }

    fn closes(&self, c: char) -> bool {
        self.stack.last().is_some_and(|frame| frame.close == c)
    }

    fn key(&mut self, c: char, out: &mut String) -> Fate {
        if self.closes(c) {
            return self.close(out);
        }
        let bare = self.dialect == LiteralStyle::Gemma || self.separator() == Some('=');
        match (self.dialect, c) {
            (LiteralStyle::Gemma, '<') => self.go(LiteralAt::Mark(1, true)),
            (LiteralStyle::Python, '"' | '\'') if !bare => {
                self.item(out);
                out.push('"');
                self.go(LiteralAt::Text(TextEnd::Quote { quote: c, escape: None }, true))
            }
            _ if bare && (c.is_alphanumeric() || c == '_') => {
                self.word.push(c);
                self.go(LiteralAt::BareKey)
            }
            _ => Fate::Fail,
        }
    }

    fn bare_key(&mut self, c: char, out: &mut String) -> Fate {
        if self.separator() != Some(c) {
            let whole =
                self.dialect == LiteralStyle::Python && !(c.is_alphanumeric() || c == '_' || c == ' ');
            if whole || "{}[],\"<\n".contains(c) || self.word.len() > 256 {
                return Fate::Fail;
            }
            self.word.push(c);
            return Fate::Eaten;
        }
        self.item(out);
        out.push_str(&json::quoted(self.word.trim()));
        out.push_str(": ");
        self.word.clear();
        self.go(LiteralAt::Value)
    }

    fn value(&mut self, c: char, out: &mut String) -> Fate {
        if self.separator().is_none() {
            if self.closes(c) {
                return self.close(out);
            }
            self.item(out);
        }
        match (self.dialect, c) {
            (_, '{' | '[') | (LiteralStyle::Python, '(') => self.open(c),
            (LiteralStyle::Python, '"' | '\'') => {
                out.push('"');
                self.go(LiteralAt::Text(TextEnd::Quote { quote: c, escape: None }, false))
            }
            (LiteralStyle::Gemma, '<') => self.go(LiteralAt::Mark(1, false)),
            _ if is_word(c) => {
                self.word.push(c);
                self.go(LiteralAt::Word)
            }
            _ => Fate::Fail,
        }
    }

    fn mark(&mut self, c: char, read: usize, key: bool, out: &mut String) -> Fate {
        if !MARK[read..].starts_with(c) {
            return Fate::Fail;
        }
        if read + 1 < MARK.len() {
            return self.go(LiteralAt::Mark(read + 1, key));
        }
        if key {
            self.item(out);
        }
        out.push('"');
        self.go(LiteralAt::Text(TextEnd::Mark(Until::new(MARK)), key))
    }

    fn text(&mut self, c: char, out: &mut String) -> Fate {
        let LiteralAt::Text(end, key) = &mut self.at else { return Fate::Fail };
        let key = *key;
        let over = match end {
            TextEnd::Quote { quote, escape } => quoted_char(c, *quote, escape, out),
            TextEnd::Mark(until) => until.push(c, |c| json::escape(c, out)),
        };
        match (over, key) {
            (false, _) => Fate::Eaten,
            (true, true) => {
                out.push_str("\": ");
                self.go(LiteralAt::Separator)
            }
            (true, false) => {
                out.push('"');
                self.go(LiteralAt::After)
            }
        }
    }

    fn after(&mut self, c: char, out: &mut String) -> Fate {
        if self.closes(c) {
            return self.close(out);
        }
        if c != ',' {
            return Fate::Fail;
        }
        let keyed = self.separator().is_some();
        self.go(if keyed { LiteralAt::Key } else { LiteralAt::Value })
    }
}

/// Reads a character of a quoted string; true at its end.
fn quoted_char(c: char, quote: char, escape: &mut Option<String>, out: &mut String) -> bool {
    let Some(read) = escape else {
        match c {
            '\\' => *escape = Some(String::new()),
            c if c == quote => return true,
            c => json::escape(c, out),
        }
        return false;
    };
    read.push(c);
    let digits = match read.as_bytes()[0] {
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => 0,
    };
    if read.len() <= digits && c.is_ascii() {
        return false;
    }
    let code = || u32::from_str_radix(read.get(1..)?, 16).ok().and_then(char::from_u32);
    match c {
        _ if digits > 0 => json::escape(code().unwrap_or(char::REPLACEMENT_CHARACTER), out),
        'n' | 't' | 'r' | 'b' | 'f' => json::escape(json::unescaped(c), out),
        '\\' | '\'' | '"' => json::escape(c, out),
        '\n' => {}
        c => {
            json::escape('\\', out);
            json::escape(c, out);
        }
    }
    *escape = None;
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_')
}

/// A bare word as JSON: Python's names of constants, JSON's, numbers; anything else is a string.
fn word(text: &str) -> String {
    match text {
        "True" | "true" => "true".into(),
        "False" | "false" => "false".into(),
        "None" | "null" => "null".into(),
        _ if serde_json::from_str::<Number>(text).is_ok() => text.into(),
        _ => json::quoted(text),
    }
}

/// JSON text of a whole literal of Python, if it is one: a container, or a constant.
pub(super) fn python(text: &str) -> Option<String> {
    if matches!(text, "True" | "False" | "None") {
        return Some(word(text));
    }
    let (mut scan, mut out) = (LiteralScan::container(LiteralStyle::Python), String::new());
    let mut chars = text.chars();
    for c in chars.by_ref() {
        match scan.push(c, &mut out) {
            Fate::Eaten => {}
            Fate::Done => break,
            _ => return None,
        }
    }
    let whole = chars.as_str().is_empty() && serde_json::from_str::<Value>(&out).is_ok();
    whole.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut scan: LiteralScan, text: &str) -> (String, bool) {
        let mut out = String::new();
        let done = text.chars().any(|c| scan.push(c, &mut out) == Fate::Done);
        (out, done)
    }

    #[test]
    fn python_becomes_json() {
        for (text, expected) in [
            ("[1, True, None, 'it\\'s', (2,), {}]", Some(r#"[1, true, null, "it's", [2], {}]"#)),
            ("{'a': \"b\\n\", \"c\": -1.5e3}", Some(r#"{"a": "b\n", "c": -1.5e3}"#)),
            ("['\\u00fc\\x41']", Some("[\"\u{fc}A\"]")),
            ("[1, 2", None),
            ("[1] 2", None),
            ("False", Some("false")),
        ] {
            assert_eq!(python(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn keywords_and_bare_keys_become_objects() {
        let keywords = |text| read(LiteralScan::keywords(), text);
        assert_eq!(keywords("a=1, b='x')"), (r#"{"a": 1, "b": "x"}"#.into(), true));
        assert_eq!(keywords(")"), ("{}".into(), true));
        assert_eq!(keywords("a=[])"), (r#"{"a": []}"#.into(), true));
        let gemma = |text| read(LiteralScan::container(LiteralStyle::Gemma), text);
        let expected = r#"{"k": "a\"<b", "n": 1, "o": {"x": []}, "e": "", "l": ["q"]}"#;
        assert_eq!(
            gemma("{k:<|\"|>a\"<b<|\"|>,n:1,o:{x:[]},e:<|\"|><|\"|>,l:[<|\"|>q<|\"|>]}"),
            (expected.into(), true)
        );
        assert_eq!(gemma("{}"), ("{}".into(), true));
    }
}
