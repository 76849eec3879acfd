//! Expressions as text.
//!
//! regex-syntax prints what it parsed without all of its groups: `(?:b+)?` comes out as `b+?`, which is lazy and asks
//! for one `b` at least. So nothing that was parsed is printed by it; here every operand that is more than one
//! character gets a group, and captures go: a name like `(?P<stop>..)` would be a directive to llguidance.

use std::fmt::Write;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// Where an expression is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternPlace {
    /// In the text itself.
    Text,
    /// Inside the quotes of a JSON string, without `\u`. The library takes a class of all control characters for one
    /// that has quote and backslash as well: `[^"]` would take `\"`. U+0000 cannot be spelled there, so it goes from
    /// every class that lacks one of the two, and none has all control characters any more.
    Json,
}

/// `hir` in Rust's syntax.
///
/// # Errors
/// When it has what no text has a place for: anchors, and bytes that are no characters.
pub(super) fn write(hir: &Hir, place: PatternPlace) -> Result<String, String> {
    let mut writer = PatternWriter { out: String::new(), place };
    writer.expression(hir)?;
    Ok(writer.out)
}

struct PatternWriter {
    out: String,
    place: PatternPlace,
}

impl PatternWriter {
    fn expression(&mut self, hir: &Hir) -> Result<(), String> {
        match hir.kind() {
            HirKind::Empty => self.out.push_str("(?:)"),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| NO_TEXT)?;
                text.chars().for_each(|c| self.literal(c));
            }
            HirKind::Class(class) => self.class(class)?,
            HirKind::Look(_) => return Err("an anchor in the middle cannot be enforced".into()),
            HirKind::Capture(capture) => self.group(&capture.sub)?,
            HirKind::Repetition(repetition) => {
                self.group(&repetition.sub)?;
                // Laziness tells no strings apart.
                self.out.push_str(&counts(repetition.min, repetition.max));
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| match part.kind() {
                HirKind::Alternation(_) => self.group(part),
                _ => self.expression(part),
            })?,
            HirKind::Alternation(ways) => {
                for (i, way) in ways.iter().enumerate() {
                    self.out.push_str(if i == 0 { "" } else { "|" });
                    self.expression(way)?;
                }
            }
        }
        Ok(())
    }

    /// As one operand.
    fn group(&mut self, hir: &Hir) -> Result<(), String> {
        let is_one = match hir.kind() {
            HirKind::Class(_) => true,
            HirKind::Literal(literal) => {
                std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().count() == 1)
            }
            HirKind::Capture(capture) => return self.group(&capture.sub),
            _ => false,
        };
        self.out.push_str(if is_one { "" } else { "(?:" });
        self.expression(hir)?;
        self.out.push_str(if is_one { "" } else { ")" });
        Ok(())
    }

    fn literal(&mut self, c: char) {
        match (self.place, c) {
            (PatternPlace::Json, '\0') => self.out.push_str(NOTHING),
            _ => self.character(c),
        }
    }

    /// A character that means itself, in a class or outside of one.
    fn character(&mut self, c: char) {
        match (self.place, c) {
            (_, c) if c.is_alphanumeric() || c == '_' => self.out.push(c),
            // `\<` and `\>` are borders of words.
            (PatternPlace::Json, c) if c.is_ascii_punctuation() && !"<>".contains(c) => {
                self.out.extend(['\\', c]);
            }
            // Lark ends terminals at `/` and lines at newlines.
            (_, c) => _ = write!(self.out, "\\x{{{:X}}}", u32::from(c)),
        }
    }

    fn class(&mut self, class: &Class) -> Result<(), String> {
        let characters = match class {
            Class::Unicode(class) => Some(class.clone()),
            Class::Bytes(bytes) => bytes.to_unicode_class(),
        };
        let mut characters = characters.ok_or(NO_TEXT)?;
        let has = |c: char| characters.iter().any(|range| (range.start()..=range.end()).contains(&c));
        if self.place == PatternPlace::Json && !(has('"') && has('\\')) {
            characters.difference(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\0')]));
        }
        if characters.ranges().is_empty() {
            self.out.push_str(NOTHING);
            return Ok(());
        }
        self.out.push('[');
        for range in characters.iter() {
            self.character(range.start());
            if range.start() < range.end() {
                self.out.push('-');
                self.character(range.end());
            }
        }
        self.out.push(']');
        Ok(())
    }
}

const NO_TEXT: &str = "bytes that are no UTF-8 cannot be enforced";
/// Of what matches nothing.
const NOTHING: &str = "[a&&b]";

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
            assert_eq!(write(&parsed, PatternPlace::Text).expect("text"), written);
            let again = regex_syntax::parse(written).expect("an expression");
            assert_eq!(write(&again, PatternPlace::Text).expect("text"), written);
        }
    }

    #[test]
    fn no_class_in_json_has_all_control_characters_and_not_both_quotes() {
        for (pattern, written) in
            [("[^\"]", r"[\x{1}-\!\#-\x{10FFFF}]"), ("(?s:.)", r"[\x{0}-\x{10FFFF}]"), ("a\0?", "a[a&&b]?")]
        {
            let parsed = regex_syntax::parse(pattern).expect("an expression");
            assert_eq!(write(&parsed, PatternPlace::Json).expect("text"), written);
        }
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        for pattern in ["a^b", r"\bx"] {
            assert!(
                write(&regex_syntax::parse(pattern).expect("an expression"), PatternPlace::Text).is_err(),
                "{pattern}"
            );
        }
    }
}
