//! Pre-tokenizers of a `tokenizer.json`: where a text is cut before tokens are looked for.

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use serde_json::Value;
use unicode_categories::UnicodeCategories;

use super::field;
use super::normalize::byte_characters;
use super::passage::{Passage, Piece, cut};
use super::pattern::{Behavior, Places, StagePattern, of_chars, with_gaps};
use super::scripts;

/// One way to cut a text, or several one after the other.
#[derive(Clone)]
pub(super) enum PreTokenizer {
    Sequence(Vec<PreTokenizer>),
    Bert,
    ByteLevel { prefix_space: bool, regex: bool },
    Delimiter(char),
    Digits { each: bool },
    FixedLength(usize),
    Metaspace(Metaspace),
    Punctuation(Behavior),
    Split { pattern: StagePattern, behavior: Behavior, invert: bool },
    UnicodeScripts,
    Whitespace,
    WhitespaceSplit,
}

/// A character in the place of spaces.
#[derive(Clone, Copy)]
pub(super) struct Metaspace {
    replacement: char,
    prepend: Prepend,
    split: bool,
}

/// Where a space is put first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepend {
    Always,
    /// Where the original text begins.
    First,
    Never,
}

/// GPT-2's pattern.
static GPT2: LazyLock<Result<StagePattern, String>> = LazyLock::new(|| {
    StagePattern::regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
});

static WORDS: LazyLock<Result<Regex, String>> =
    LazyLock::new(|| Regex::new(r"\w+|[^\w\s]+").map_err(|e| e.to_string()));

impl PreTokenizer {
    pub fn read(json: &Value) -> Result<PreTokenizer, String> {
        Ok(match field::kind(json)? {
            "Sequence" => {
                let parts = field::list(json, "pretokenizers")?;
                PreTokenizer::Sequence(parts.iter().map(PreTokenizer::read).collect::<Result<_, _>>()?)
            }
            "BertPreTokenizer" => PreTokenizer::Bert,
            "ByteLevel" => PreTokenizer::ByteLevel {
                prefix_space: field::flag(json, "add_prefix_space")?,
                regex: field::optional(json, "use_regex", field::flag)?.unwrap_or(true),
            },
            "CharDelimiterSplit" => PreTokenizer::Delimiter(field::character(json, "delimiter")?),
            "Digits" => PreTokenizer::Digits { each: field::flag(json, "individual_digits")? },
            "FixedLength" => match field::optional(json, "length", field::number)?.unwrap_or(5) {
                0 => return Err("cuts into pieces of length 0".into()),
                length => PreTokenizer::FixedLength(length),
            },
            "Metaspace" => PreTokenizer::Metaspace(Metaspace::read(json)?),
            "Punctuation" => {
                let behavior = field::optional(json, "behavior", field::text)?.unwrap_or("Isolated");
                PreTokenizer::Punctuation(Behavior::read(behavior)?)
            }
            "Split" => PreTokenizer::Split {
                pattern: StagePattern::read(json)?,
                behavior: Behavior::read(field::text(json, "behavior")?)?,
                invert: field::flag(json, "invert")?,
            },
            "UnicodeScripts" => PreTokenizer::UnicodeScripts,
            "Whitespace" => PreTokenizer::Whitespace,
            "WhitespaceSplit" => PreTokenizer::WhitespaceSplit,
            other => return Err(format!("{other} is unknown")),
        })
    }

    /// Whether it asks where in the original text a piece begins.
    pub fn asks_place(&self) -> bool {
        match self {
            PreTokenizer::Sequence(parts) => parts.iter().any(PreTokenizer::asks_place),
            PreTokenizer::Metaspace(metaspace) => metaspace.prepend == Prepend::First,
            _ => false,
        }
    }

    /// The same for a text that is not at the beginning: no space is put first that only a beginning gets.
    pub fn without_first(&self) -> PreTokenizer {
        match self {
            PreTokenizer::Sequence(parts) => {
                PreTokenizer::Sequence(parts.iter().map(PreTokenizer::without_first).collect())
            }
            PreTokenizer::Metaspace(metaspace) if metaspace.prepend == Prepend::First => {
                PreTokenizer::Metaspace(Metaspace { prepend: Prepend::Never, ..*metaspace })
            }
            other => other.clone(),
        }
    }

    /// The pattern by which it cuts, if what is behind a match is cut as if nothing came before.
    pub fn pattern(&self) -> Result<Option<&StagePattern>, String> {
        Ok(match self {
            PreTokenizer::ByteLevel { regex: true, .. } => Some(GPT2.as_ref().map_err(Clone::clone)?),
            PreTokenizer::Split { pattern, behavior, invert: false } if behavior.ends_with_matches() => {
                Some(pattern)
            }
            _ => None,
        })
    }

    /// What becomes of the matches of its pattern.
    pub fn behavior(&self) -> Behavior {
        match self {
            PreTokenizer::Split { behavior, .. } => *behavior,
            _ => Behavior::Isolated,
        }
    }

    /// The character before which it cuts in any case.
    pub fn separator(&self) -> Option<char> {
        match self {
            PreTokenizer::Delimiter(delimiter) => Some(*delimiter),
            PreTokenizer::Metaspace(metaspace) => metaspace.split.then_some(metaspace.replacement),
            _ => None,
        }
    }

    /// What it does to a passage before it cuts; done twice, it is the same.
    pub fn begin(&self, passage: &mut Passage) {
        match self {
            PreTokenizer::ByteLevel { prefix_space: true, .. } if !passage.text.starts_with(' ') => {
                passage.prepend(" ");
            }
            PreTokenizer::Metaspace(metaspace) => metaspace.mark(passage),
            _ => {}
        }
    }

    /// What it does to a piece that it has cut.
    pub fn finished(&self, mut piece: Passage) -> Passage {
        if let PreTokenizer::ByteLevel { .. } = self {
            byte_characters(&mut piece);
        }
        piece
    }

    /// Cuts all pieces of text.
    pub fn run(&self, pieces: &mut Vec<Piece>) -> Result<(), String> {
        match self {
            PreTokenizer::Sequence(parts) => parts.iter().try_for_each(|part| part.run(pieces)),
            PreTokenizer::Bert => {
                split(pieces, Behavior::Removed, |text| Ok(of_chars(text, char::is_whitespace)))?;
                split(pieces, Behavior::Isolated, |text| Ok(of_chars(text, is_punctuation)))
            }
            PreTokenizer::ByteLevel { regex, .. } => cut(pieces, |mut passage, out| {
                self.begin(&mut passage);
                match regex {
                    false => out.push(passage),
                    true => {
                        let pattern = GPT2.as_ref().map_err(Clone::clone)?;
                        push(&passage, Behavior::Isolated.pieces(pattern.places(&passage.text)?), out);
                    }
                }
                out.iter_mut().for_each(byte_characters);
                Ok(())
            }),
            PreTokenizer::Delimiter(c) => {
                split(pieces, Behavior::Removed, |text| Ok(of_chars(text, |other| other == *c)))
            }
            PreTokenizer::Digits { each } => {
                let behavior = if *each { Behavior::Isolated } else { Behavior::Contiguous };
                split(pieces, behavior, |text| Ok(of_chars(text, char::is_numeric)))
            }
            PreTokenizer::FixedLength(length) => cut(pieces, |passage, out| {
                let starts: Vec<usize> =
                    passage.text.char_indices().map(|(at, _)| at).step_by(*length).collect();
                push_between(&passage, &starts, out);
                Ok(())
            }),
            PreTokenizer::Metaspace(metaspace) => metaspace.run(pieces),
            PreTokenizer::Punctuation(behavior) => {
                split(pieces, *behavior, |text| Ok(of_chars(text, is_punctuation)))
            }
            PreTokenizer::Split { pattern, behavior, invert } => split(pieces, *behavior, |text| {
                let mut places = pattern.places(text)?;
                places.iter_mut().for_each(|(_, matches)| *matches ^= invert);
                Ok(places)
            }),
            PreTokenizer::UnicodeScripts => cut(pieces, |passage, out| {
                push_between(&passage, &scripts::changes(&passage.text), out);
                Ok(())
            }),
            PreTokenizer::Whitespace => split(pieces, Behavior::Removed, between_words),
            PreTokenizer::WhitespaceSplit => {
                split(pieces, Behavior::Removed, |text| Ok(of_chars(text, char::is_whitespace)))
            }
        }
    }
}

impl Metaspace {
    fn read(json: &Value) -> Result<Metaspace, String> {
        let scheme = field::optional(json, "prepend_scheme", field::text)?.unwrap_or("always");
        let prepend = match scheme {
            "always" => Prepend::Always,
            "first" => Prepend::First,
            "never" => Prepend::Never,
            other => return Err(format!("has an unknown prepend_scheme {other:?}")),
        };
        let spaced = field::optional(json, "add_prefix_space", field::flag)?;
        if spaced == Some(false) && prepend != Prepend::Never {
            return Err(format!("says both add_prefix_space: false and prepend_scheme: {scheme}"));
        }
        let split = field::optional(json, "split", field::flag)?.unwrap_or(true);
        Ok(Metaspace { replacement: field::character(json, "replacement")?, prepend, split })
    }

    /// Puts the character in the place of spaces, and first.
    fn mark(self, passage: &mut Passage) {
        let replacement = self.replacement.to_string();
        let spaces: Vec<_> = passage.text.match_indices(' ').map(|(at, _)| (at, at + 1)).collect();
        passage.replace(&spaces, &replacement);
        let wanted = match self.prepend {
            Prepend::Always => true,
            Prepend::First => passage.place.0 == 0,
            Prepend::Never => false,
        };
        if wanted && !passage.text.starts_with(self.replacement) {
            passage.prepend(&replacement);
        }
    }

    fn run(self, pieces: &mut Vec<Piece>) -> Result<(), String> {
        cut(pieces, |mut passage, out| {
            self.mark(&mut passage);
            match self.split {
                false => out.push(passage),
                true => {
                    let places = of_chars(&passage.text, |c| c == self.replacement);
                    push(&passage, Behavior::MergedWithNext.pieces(places), out);
                }
            }
            Ok(())
        })
    }
}

/// Cuts all pieces where a pattern says so.
fn split(
    pieces: &mut Vec<Piece>,
    behavior: Behavior,
    places: impl Fn(&str) -> Result<Places, String>,
) -> Result<(), String> {
    cut(pieces, |passage, out| {
        push(&passage, behavior.pieces(places(&passage.text)?), out);
        Ok(())
    })
}

/// Parts of a passage, those that are not empty.
fn push(passage: &Passage, parts: Vec<(usize, usize)>, out: &mut Vec<Passage>) {
    out.extend(
        parts.into_iter().filter(|(start, end)| start < end).map(|(start, end)| passage.slice(start..end)),
    );
}

/// From each of these places to the next; the last goes to the end.
fn push_between(passage: &Passage, starts: &[usize], out: &mut Vec<Passage>) {
    let ends = starts.iter().copied().skip(1).chain([passage.text.len()]);
    push(passage, starts.iter().copied().zip(ends).collect(), out);
}

/// Words are left, and what is neither word nor space.
fn between_words(text: &str) -> Result<Places, String> {
    let found = WORDS.as_ref().map_err(Clone::clone)?.find_iter(text);
    let mut places = with_gaps(text, found.map(|found| (found.start(), found.end())));
    places.iter_mut().for_each(|(_, matches)| *matches = !*matches);
    Ok(places)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}
