//! A tree as each dialect writes it.
//!
//! Python's `re` judges all of them, so each dialect has a spelling for Python too, which says by numbers and classes
//! what the dialect means: `$` is the end of the text (Python's also stands before a last newline), ECMA's `\d` and `\w`
//! are ASCII and its `.` stops at four line ends, GBNF's `.` at none. Lookaround, back references and word boundaries are
//! refused by all dialects, and have tests of their own.

use std::fmt::Write;

use super::tree::{Dice, Tree};

#[derive(Clone, Copy, PartialEq)]
pub enum Dialect {
    Rust,
    Ecma,
    Gbnf,
}

/// What Python makes of a tree that `dialect` wrote.
pub fn python(tree: &Tree, dialect: Dialect) -> String {
    match tree {
        Tree::Text(text) => text.chars().map(number).collect(),
        Tree::Class { ranges, negated } => {
            let ranges: String =
                ranges.iter().map(|(a, b)| format!("{}-{}", number(*a), number(*b))).collect();
            format!("[{}{ranges}]", if *negated { "^" } else { "" })
        }
        Tree::Kind(kind) if dialect == Dialect::Ecma => ecma_kind(*kind).into(),
        Tree::Kind(kind) => format!("\\{kind}"),
        Tree::Any => match dialect {
            Dialect::Rust => r"[^\n]".into(),
            Dialect::Ecma => r"[^\n\r\u2028\u2029]".into(),
            Dialect::Gbnf => r"[\s\S]".into(),
        },
        Tree::Start => r"\A".into(),
        Tree::End => r"\Z".into(),
        Tree::Sequence(parts) => parts.iter().map(|part| format!("(?:{})", python(part, dialect))).collect(),
        Tree::Choice(ways) => {
            let ways: Vec<String> = ways.iter().map(|way| python(way, dialect)).collect();
            format!("(?:{})", ways.join("|"))
        }
        Tree::Repeat { inner, least, most } => {
            let most = most.map_or(String::new(), |most| most.to_string());
            format!("(?:{}){{{least},{most}}}", python(inner, dialect))
        }
    }
}

fn ecma_kind(kind: char) -> &'static str {
    match kind {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]",
        _ => r"[^\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]",
    }
}

/// A character as Python reads it in a class and outside of one.
fn number(c: char) -> String {
    format!("\\U{:08x}", u32::from(c))
}

/// Regular expressions, Rust's or ECMA's.
pub fn regex(tree: &Tree, dialect: Dialect, dice: &mut Dice) -> String {
    match tree {
        Tree::Text(text) => text.chars().map(|c| character(c, dice)).collect(),
        Tree::Class { ranges, negated } => {
            let ranges: String = ranges.iter().map(|(a, b)| member(*a, *b, dice)).collect();
            format!("[{}{ranges}]", if *negated { "^" } else { "" })
        }
        Tree::Kind(kind) => format!("\\{kind}"),
        Tree::Any => ".".into(),
        Tree::Start => "^".into(),
        Tree::End => "$".into(),
        Tree::Sequence(parts) => parts
            .iter()
            .map(|part| match part {
                Tree::Choice(_) => group(part, dialect, dice),
                part => regex(part, dialect, dice),
            })
            .collect(),
        Tree::Choice(ways) => ways.iter().map(|way| regex(way, dialect, dice)).collect::<Vec<_>>().join("|"),
        Tree::Repeat { inner, least, most } => {
            let operand = match &**inner {
                Tree::Class { .. } | Tree::Kind(_) | Tree::Any => regex(inner, dialect, dice),
                Tree::Text(text) if text.chars().count() == 1 => regex(inner, dialect, dice),
                inner => group(inner, dialect, dice),
            };
            let lazy = if dice.one_in(4) { "?" } else { "" };
            format!("{operand}{}{lazy}", counts(*least, *most, dice))
        }
    }
}

fn group(tree: &Tree, dialect: Dialect, dice: &mut Dice) -> String {
    let inside = regex(tree, dialect, dice);
    match dice.below(8) {
        0 => format!("({inside})"),
        1 if dialect == Dialect::Rust => format!("(?P<stop{}>{inside})", dice.below(1 << 24)),
        _ => format!("(?:{inside})"),
    }
}

fn counts(least: u32, most: Option<u32>, dice: &mut Dice) -> String {
    match (least, most) {
        (0, None) if !dice.one_in(4) => "*".into(),
        (1, None) if !dice.one_in(4) => "+".into(),
        (0, Some(1)) if !dice.one_in(4) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

/// As itself, with a backslash, or by its number.
fn character(c: char, dice: &mut Dice) -> String {
    let is_meta = r"\.+*?()|[]{}^$/#&-~".contains(c);
    match (is_meta || c.is_control(), dice.below(4)) {
        (false, 1..) => c.into(),
        (true, 1..) if is_meta => format!("\\{c}"),
        _ if c == '\n' => "\\n".into(),
        _ if u32::from(c) < 0x100 => format!("\\x{:02x}", u32::from(c)),
        _ if u32::from(c) < 0x10000 => format!("\\u{:04x}", u32::from(c)),
        _ => c.into(),
    }
}

fn member(a: char, b: char, dice: &mut Dice) -> String {
    let first = character(a, dice);
    if a == b { first } else { format!("{first}-{}", character(b, dice)) }
}

/// llama.cpp's grammars: some parts are rules of their own, which are added to `rules`.
pub fn gbnf(tree: &Tree, rules: &mut Vec<String>, dice: &mut Dice) -> String {
    let text = match tree {
        Tree::Text(text) => {
            format!("\"{}\"", text.chars().map(|c| gbnf_character(c, dice)).collect::<String>())
        }
        Tree::Class { ranges, negated } => {
            let ranges = ranges.iter().map(|(a, b)| {
                let first = gbnf_character(*a, dice);
                if a == b { first } else { format!("{first}-{}", gbnf_character(*b, dice)) }
            });
            let ranges: String = ranges.collect();
            format!("[{}{ranges}]", if *negated { "^" } else { "" })
        }
        Tree::Any => ".".into(),
        Tree::Kind(_) | Tree::Start | Tree::End => unreachable!("not of GBNF"),
        Tree::Sequence(parts) => parts.iter().map(|part| gbnf(part, rules, dice) + " ").collect(),
        Tree::Choice(ways) => {
            format!("({})", ways.iter().map(|way| gbnf(way, rules, dice)).collect::<Vec<_>>().join(" | "))
        }
        Tree::Repeat { inner, least, most } => {
            format!("({}){}", gbnf(inner, rules, dice), counts(*least, *most, dice))
        }
    };
    if !dice.one_in(4) {
        return text;
    }
    let mut out = format!("r-{}", rules.len());
    let _ = write!(&mut out, " ::= {text}");
    rules.push(out);
    format!("r-{}", rules.len() - 1)
}

fn gbnf_character(c: char, dice: &mut Dice) -> String {
    let is_meta = "\\\"[]^-\n\r\t".contains(c);
    match u32::from(c) {
        code if !is_meta && (code < 0x20 || dice.below(4) > 0) => c.into(),
        code if code < 0x100 => format!("\\x{code:02x}"),
        code if code < 0x10000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Terminals of Lark: expressions in its own operators over regular expressions and strings.
pub fn lark(tree: &Tree, dice: &mut Dice) -> String {
    let list = |parts: &[Tree], between: &str, dice: &mut Dice| {
        format!("({})", parts.iter().map(|part| lark(part, dice)).collect::<Vec<_>>().join(between))
    };
    match tree {
        Tree::Sequence(parts) if !dice.one_in(3) => list(parts, " ", dice),
        Tree::Choice(ways) if !dice.one_in(3) => list(ways, " | ", dice),
        // `{0}` is no count there.
        Tree::Repeat { inner, least, most } if *most != Some(0) && !dice.one_in(3) => {
            format!("({}){}", lark(inner, dice), counts(*least, *most, dice))
        }
        Tree::Text(text) if text.is_empty() || !dice.one_in(3) => {
            serde_json::Value::from(text.as_str()).to_string()
        }
        // Slashes and line ends are escaped there already.
        tree => match regex(tree, Dialect::Rust, dice) {
            empty if empty.is_empty() => "\"\"".into(),
            regex => format!("/{regex}/"),
        },
    }
}
