//! Expressions as text.
//!
//! regex-syntax prints what it parsed without all of its groups: `(?:b+)?` comes out as `b+?`, which is lazy and asks
//! for one `b` at least. So nothing that was parsed is printed by it; here every operand that is more than one
//! character gets a group, and captures go: a name like `(?P<stop>..)` would be a directive to llguidance.

use std::fmt::Write;

use regex_syntax::hir::{Class, Hir, HirKind};

/// `hir` in Rust's syntax.
///
/// # Errors
/// When it has what no text has a place for: anchors, and bytes that are no characters.
pub(super) fn write(hir: &Hir) -> Result<String, String> {
    let mut out = String::new();
    expression(hir, &mut out)?;
    Ok(out)
}

fn expression(hir: &Hir, out: &mut String) -> Result<(), String> {
    match hir.kind() {
        HirKind::Empty => out.push_str("(?:)"),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).map_err(|_| NO_TEXT)?;
            text.chars().for_each(|c| character(c, out));
        }
        HirKind::Class(found) => class(found, out)?,
        HirKind::Look(_) => return Err("an anchor in the middle cannot be enforced".into()),
        HirKind::Capture(capture) => group(&capture.sub, out)?,
        HirKind::Repetition(repetition) => {
            group(&repetition.sub, out)?;
            // Laziness tells no strings apart.
            out.push_str(&counts(repetition.min, repetition.max));
        }
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| match part.kind() {
            HirKind::Alternation(_) => group(part, out),
            _ => expression(part, out),
        })?,
        HirKind::Alternation(ways) => {
            for (i, way) in ways.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "|" });
                expression(way, out)?;
            }
        }
    }
    Ok(())
}

const NO_TEXT: &str = "bytes that are no UTF-8 cannot be enforced";

/// As one operand.
fn group(hir: &Hir, out: &mut String) -> Result<(), String> {
    let is_one = match hir.kind() {
        HirKind::Class(_) => true,
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().count() == 1)
        }
        HirKind::Capture(capture) => return group(&capture.sub, out),
        _ => false,
    };
    out.push_str(if is_one { "" } else { "(?:" });
    expression(hir, out)?;
    out.push_str(if is_one { "" } else { ")" });
    Ok(())
}

/// How often what stands before it comes.
pub(crate) fn counts(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => format!("{{{least}}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}

fn class(class: &Class, out: &mut String) -> Result<(), String> {
    let characters = match class {
        Class::Unicode(class) => Some(class.clone()),
        Class::Bytes(bytes) => bytes.to_unicode_class(),
    };
    let characters = characters.ok_or(NO_TEXT)?;
    if characters.ranges().is_empty() {
        // Of what matches nothing.
        out.push_str("[a&&b]");
        return Ok(());
    }
    out.push('[');
    for range in characters.iter() {
        character(range.start(), out);
        if range.start() < range.end() {
            out.push('-');
            character(range.end(), out);
        }
    }
    out.push(']');
    Ok(())
}

/// A character that means itself, in a class or outside of one. What is no letter is written by its number: Lark ends
/// terminals at `/` and lines at newlines.
fn character(c: char, out: &mut String) {
    if c.is_alphanumeric() || c == '_' {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_kept() {
        for (pattern, written) in [
            ("(?:b+)?", "(?:b+)?"),
            ("(?:b{2})?", "(?:b{2})?"),
            ("(?:b{2,3})?c", "(?:b{2,3})?c"),
            ("(?:b{2,})?", "(?:b{2,})?"),
            ("(?:b+)*(?:c?)+", "(?:b+)*(?:c?)+"),
            ("(?:ab)+?", "(?:ab)+"),
            ("a(?P<stop>b|cc)?d", "a(?:b|cc)?d"),
            ("(?:[a-c]|dd)e|/", "(?:[a-c]|dd)e|\\x{2F}"),
            (r"[\]\-&\n]\*", r"[\x{A}\x{26}\x{2D}\x{5D}]\x{2A}"),
        ] {
            let parsed = regex_syntax::parse(pattern).expect("an expression");
            assert_eq!(write(&parsed).expect("text"), written);
            let again = regex_syntax::parse(written).expect("an expression");
            assert_eq!(write(&again).expect("text"), written);
        }
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        for pattern in ["a^b", r"\bx"] {
            assert!(write(&regex_syntax::parse(pattern).expect("an expression")).is_err(), "{pattern}");
        }
    }
}
