//! Patterns of ECMA-262, which `pattern` and `patternProperties` are written in, as Rust's regular expressions.
//!
//! The two differ in what `\d \w \s . [] {` mean; lookaround, back references and word boundaries have no regular
//! meaning for a grammar and are errors.

use std::{iter::Peekable, str::Chars};

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Za-z_";
const SPACE: &str =
    r"\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
const NOT_NEWLINE: &str = r"[^\n\r\x{2028}\x{2029}]";

/// `pattern` in Rust's syntax.
///
/// # Errors
/// What is wrong with it or cannot be enforced.
pub(super) fn to_rust(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match escape(&mut chars, false)? {
                Atom::Char(c) => push_char(c, &mut out),
                Atom::Set(set) => out.push_str(&set),
            },
            '[' => class(&mut chars, &mut out)?,
            '(' => group(&mut chars, &mut out)?,
            '.' => out.push_str(NOT_NEWLINE),
            '{' => match quantifier(&chars) {
                Some(text) => {
                    chars.by_ref().take(text.len() - 1).for_each(drop);
                    out.push_str(&text);
                }
                None => push_char('{', &mut out),
            },
            ')' | '|' | '^' | '$' | '*' | '+' | '?' => out.push(c),
            c => push_char(c, &mut out),
        }
    }
    Ok(out)
}

/// What an escape or a member of a class stands for.
enum Atom {
    Char(char),
    /// Rust's spelling of a set.
    Set(String),
}

fn push_char(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || c == '_' {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{{{:X}}}", c as u32));
    }
}

/// `{m}`, `{m,}` or `{m,n}` after its brace; anything else is a brace as such.
fn quantifier(chars: &Peekable<Chars>) -> Option<String> {
    let inside: String = chars.clone().take_while(|&c| c != '}').take(24).collect();
    let closed = chars.clone().nth(inside.len()) == Some('}');
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let fits = match inside.split_once(',') {
        None => number(&inside),
        Some((least, most)) => number(least) && (most.is_empty() || number(most)),
    };
    (closed && fits).then(|| format!("{{{inside}}}"))
}

fn group(chars: &mut Peekable<Chars>, out: &mut String) -> Result<(), String> {
    if chars.peek() != Some(&'?') {
        out.push_str("(?:");
        return Ok(());
    }
    chars.next();
    let rest: String = chars.clone().take(2).collect();
    if rest.starts_with(':') {
        chars.next();
    } else if rest.starts_with(['=', '!']) || rest == "<=" || rest == "<!" {
        return Err("lookahead and lookbehind cannot be enforced".into());
    } else if rest.starts_with('<') {
        chars.by_ref().find(|&c| c == '>').ok_or("a group's name does not end")?;
    } else {
        return Err("flags of a group cannot be enforced".into());
    }
    out.push_str("(?:");
    Ok(())
}

fn class(chars: &mut Peekable<Chars>, out: &mut String) -> Result<(), String> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut members = String::new();
    loop {
        let first = match chars.next().ok_or("a class does not end")? {
            ']' => break,
            c => member(c, chars)?,
        };
        let is_range = chars.peek() == Some(&'-') && !matches!(chars.clone().nth(1), None | Some(']'));
        if !is_range {
            push_atom(&first, &mut members);
            continue;
        }
        chars.next();
        let next = chars.next().ok_or("a class does not end")?;
        match (first, member(next, chars)?) {
            (Atom::Char(a), Atom::Char(b)) if a <= b => {
                push_char(a, &mut members);
                members.push('-');
                push_char(b, &mut members);
            }
            (Atom::Char(a), Atom::Char(b)) => return Err(format!("the range {a}-{b} is out of order")),
            (a, b) => {
                push_atom(&a, &mut members);
                push_char('-', &mut members);
                push_atom(&b, &mut members);
            }
        }
    }
    match (members.is_empty(), negated) {
        (true, false) => out.push_str("[a&&b]"),
        (true, true) => out.push_str("(?s:.)"),
        (false, _) => out.push_str(&format!("[{}{members}]", if negated { "^" } else { "" })),
    }
    Ok(())
}

fn push_atom(atom: &Atom, out: &mut String) {
    match atom {
        Atom::Char(c) => push_char(*c, out),
        Atom::Set(set) => out.push_str(set),
    }
}

fn member(c: char, chars: &mut Peekable<Chars>) -> Result<Atom, String> {
    if c == '\\' { escape(chars, true) } else { Ok(Atom::Char(c)) }
}

fn escape(chars: &mut Peekable<Chars>, in_class: bool) -> Result<Atom, String> {
    let c = chars.next().ok_or("the pattern ends with a backslash")?;
    let set =
        |members: &str, negated: bool| Atom::Set(format!("[{}{members}]", if negated { "^" } else { "" }));
    Ok(match c {
        'd' | 'D' => set(DIGITS, c == 'D'),
        'w' | 'W' => set(WORD, c == 'W'),
        's' | 'S' => set(SPACE, c == 'S'),
        'p' | 'P' => Atom::Set(property(c, chars)?),
        'b' if in_class => Atom::Char('\u{8}'),
        'b' | 'B' => return Err("word boundaries cannot be enforced".into()),
        '0' if !chars.peek().is_some_and(char::is_ascii_digit) => Atom::Char('\0'),
        '0'..='9' | 'k' => return Err("back references cannot be enforced".into()),
        't' => Atom::Char('\t'),
        'n' => Atom::Char('\n'),
        'v' => Atom::Char('\u{b}'),
        'f' => Atom::Char('\u{c}'),
        'r' => Atom::Char('\r'),
        'c' => match chars.next() {
            Some(letter) if letter.is_ascii_alphabetic() => Atom::Char((letter as u8 % 32) as char),
            _ => return Err("\\c must be followed by a letter".into()),
        },
        'x' => Atom::Char(scalar(hex(chars, 2)?)?),
        'u' => Atom::Char(unicode(chars)?),
        c if c.is_ascii_alphanumeric() => return Err(format!("unknown escape \\{c}")),
        c => Atom::Char(c),
    })
}

/// `\p{..}`: Rust spells the properties alike.
fn property(letter: char, chars: &mut Peekable<Chars>) -> Result<String, String> {
    if chars.next() != Some('{') {
        return Err(format!("\\{letter} must be followed by a property in braces"));
    }
    let name: String = chars.by_ref().take_while(|&c| c != '}').collect();
    let name = name.strip_prefix("General_Category=").or(name.strip_prefix("gc=")).unwrap_or(&name);
    Ok(format!("\\{letter}{{{name}}}"))
}

fn hex(chars: &mut Peekable<Chars>, digits: usize) -> Result<u32, String> {
    let text: String = (0..digits).map_while(|_| chars.next_if(char::is_ascii_hexdigit)).collect();
    let whole = (text.len() == digits).then(|| u32::from_str_radix(&text, 16).ok()).flatten();
    whole.ok_or_else(|| format!("an escape needs {digits} hexadecimal digits"))
}

fn unicode(chars: &mut Peekable<Chars>) -> Result<char, String> {
    if chars.next_if_eq(&'{').is_some() {
        let text: String = chars.by_ref().take_while(|&c| c != '}').collect();
        return scalar(u32::from_str_radix(&text, 16).map_err(|_| "\\u{..} needs hexadecimal digits")?);
    }
    let high = hex(chars, 4)?;
    let mut ahead = chars.clone();
    let pair = (0xD800..0xDC00).contains(&high) && ahead.next() == Some('\\') && ahead.next() == Some('u');
    if pair && let Ok(low @ 0xDC00..0xE000) = hex(&mut ahead, 4) {
        *chars = ahead;
        return scalar(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
    }
    scalar(high)
}

fn scalar(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| format!("U+{code:04X} is no character"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_automata::meta::Regex;

    #[test]
    fn patterns_mean_what_ecmascript_says() {
        let matches = |pattern: &str, text: &str| {
            Regex::new(&format!("^(?:{})$", to_rust(pattern).unwrap())).unwrap().is_match(text)
        };
        for (pattern, text) in [
            (r"\d\w\s", "1_\u{FEFF}"),
            (r"a{,2}", "a{,2}"),
            (r"x{1,2}y{2}", "xxyy"),
            (r"[\d-x]+", "3-x"),
            (r"[^]", "\n"),
            (r"\u00e9\xe9\u{e9}", "ééé"),
            (r"\ud83d\ude00", "😀"),
            (r"\cJ\0", "\n\0"),
            (r"[\b]\/\-", "\u{8}/-"),
            (r"(?<year>\d{4})", "2024"),
            (r"\p{Lu}\P{Lu}", "Aa"),
            (r"#&~~--", "#&~~--"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text:?}");
        }
        for (pattern, text) in [(r"\d", "٣"), (".", "\u{2028}"), (r"\w", "é"), (r"[]", "")] {
            assert!(!matches(pattern, text), "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_has_no_regular_meaning_is_an_error() {
        for pattern in
            [r"(?=a)", r"(?!a)", r"(?<=a)", r"(?<!a)", r"\ba", r"(a)\1", r"(?i)a", r"\q", r"\u12", "[a", "\\"]
        {
            assert!(to_rust(pattern).is_err(), "{pattern}");
        }
    }
}
