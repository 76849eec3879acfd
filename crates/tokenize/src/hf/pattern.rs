//! Patterns of `Split` and `Replace`, and what becomes of their matches.

use std::sync::Arc;

use fancy_regex::Regex;
use regex_automata::util::syntax;
use serde_json::Value;

use super::part_span::PartSpan;
use crate::split::FilePattern;

/// Stretches of a text in order, and whether each matches.
pub(super) type Places = Vec<((usize, usize), bool)>;

/// What is looked for.
#[derive(Clone)]
pub(super) enum StagePattern {
    /// This text.
    Text(String),
    /// An expression that an engine without backtracking follows.
    Linear(Regex),
    /// One that is followed with care.
    Followed(Arc<FilePattern>),
}

impl StagePattern {
    /// From the `pattern` of a part.
    pub fn read(part: &Value) -> Result<StagePattern, String> {
        let pattern = part.get("pattern").unwrap_or(&Value::Null);
        match (pattern.get("String").and_then(Value::as_str), pattern.get("Regex").and_then(Value::as_str)) {
            (Some(text), None) => Ok(StagePattern::Text(text.to_owned())),
            (None, Some(regex)) => StagePattern::regex(regex),
            _ => Err("needs a pattern with a String or a Regex".into()),
        }
    }

    pub fn regex(regex: &str) -> Result<StagePattern, String> {
        let followed = FilePattern::new(regex).map_err(|e| format!("the pattern {e}"))?;
        Ok(match followed {
            Some(pattern) => StagePattern::Followed(Arc::new(pattern)),
            None => {
                StagePattern::Linear(Regex::new(regex).map_err(|e| format!("the pattern is not taken: {e}"))?)
            }
        })
    }

    /// Whether it may match nothing.
    pub fn may_be_empty(&self) -> bool {
        match self {
            StagePattern::Text(_) => false,
            StagePattern::Linear(regex) => {
                let tree = syntax::parse(regex.as_str());
                tree.is_ok_and(|tree| tree.properties().minimum_len().is_none_or(|least| least == 0))
            }
            StagePattern::Followed(_) => true,
        }
    }

    /// The places of the next part, which ends with a match or with the text. None where it may match nothing: then places
    /// may depend on those before.
    pub fn places_from(&self, text: &str, stretch: &mut PartSpan) -> Result<Option<Places>, String> {
        let (from, least) = (stretch.from, stretch.least());
        let mut next: Box<dyn FnMut(usize) -> Option<(usize, usize)> + '_> = match self {
            StagePattern::Followed(pattern) => {
                let steps = stretch.steps.get_or_insert_with(|| FilePattern::most_steps(text));
                return pattern.places_from(text, (from, least), steps).map(Some).map_err(|e| e.to_string());
            }
            StagePattern::Text(wanted) if wanted.is_empty() => return Ok(None),
            StagePattern::Linear(_) if self.may_be_empty() => return Ok(None),
            StagePattern::Text(wanted) => Box::new(|at| {
                let start = at + text[at..].find(wanted.as_str())?;
                Some((start, start + wanted.len()))
            }),
            StagePattern::Linear(regex) => Box::new(|at| {
                let found = regex.find_from_pos(text, at).ok().flatten()?;
                Some((found.start(), found.end()))
            }),
        };
        let (mut places, mut done) = (Places::new(), from);
        while done < least
            && let Some((start, end)) = next(done)
        {
            places.extend((done < start).then_some(((done, start), false)));
            places.push(((start, end), true));
            done = end;
        }
        if done < least && done < text.len() {
            places.push(((done, text.len()), false));
        }
        Ok(Some(places))
    }

    /// Where it matches in a text, and the gaps between.
    pub fn places(&self, text: &str) -> Result<Places, String> {
        match self {
            StagePattern::Text(wanted) => {
                let found = text.match_indices(wanted.as_str()).map(|(at, found)| (at, at + found.len()));
                Ok(with_gaps(text, found))
            }
            StagePattern::Linear(regex) => {
                let found =
                    regex.find_iter(text).map_while(Result::ok).map(|found| (found.start(), found.end()));
                Ok(with_gaps(text, found))
            }
            StagePattern::Followed(pattern) => pattern.places(text).map_err(|e| e.to_string()),
        }
    }
}

/// Matches, and the gaps between.
pub(super) fn with_gaps(text: &str, found: impl Iterator<Item = (usize, usize)>) -> Places {
    let (mut places, mut done) = (Places::new(), 0);
    for (start, end) in found {
        if done != start {
            places.push(((done, start), false));
        }
        places.push(((start, end), true));
        done = end;
    }
    if done != text.len() {
        places.push(((done, text.len()), false));
    }
    places
}

/// The places of characters of a kind.
pub(super) fn of_chars(text: &str, is: impl Fn(char) -> bool) -> Places {
    with_gaps(text, text.char_indices().filter(|(_, c)| is(*c)).map(|(at, c)| (at, at + c.len_utf8())))
}

/// What becomes of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

impl Behavior {
    pub fn read(name: &str) -> Result<Behavior, String> {
        Ok(match name {
            "Removed" => Behavior::Removed,
            "Isolated" => Behavior::Isolated,
            "MergedWithPrevious" => Behavior::MergedWithPrevious,
            "MergedWithNext" => Behavior::MergedWithNext,
            "Contiguous" => Behavior::Contiguous,
            _ => return Err(format!("has an unknown behavior {name:?}")),
        })
    }

    /// The pieces that are left.
    pub fn pieces(self, places: Places) -> Vec<(usize, usize)> {
        match self {
            Behavior::Isolated => places.into_iter().map(|(place, _)| place).collect(),
            Behavior::Removed => {
                places.into_iter().filter(|(_, matches)| !matches).map(|(place, _)| place).collect()
            }
            Behavior::Contiguous => {
                merged(places, |matches, before| matches == before, |last, place| last.1 = place.1)
            }
            Behavior::MergedWithPrevious => {
                merged(places, |matches, before| matches && !before, |last, place| last.1 = place.1)
            }
            Behavior::MergedWithNext => {
                let backwards = places.into_iter().rev().collect();
                let mut pieces =
                    merged(backwards, |matches, before| matches && !before, |last, place| last.0 = place.0);
                pieces.reverse();
                pieces
            }
        }
    }
}

/// Places one after the other; one that `joins`, by whether it and the one before match, is added to the last.
fn merged(
    places: Places,
    joins: impl Fn(bool, bool) -> bool,
    add: impl Fn(&mut (usize, usize), (usize, usize)),
) -> Vec<(usize, usize)> {
    let (mut out, mut before): (Vec<(usize, usize)>, _) = (Vec::new(), false);
    for (place, matches) in places {
        match out.last_mut() {
            Some(last) if joins(matches, before) => add(last, place),
            _ => out.push(place),
        }
        before = matches;
    }
    out
}
