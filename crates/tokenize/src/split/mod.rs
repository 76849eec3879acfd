//! Pre-tokenization: a text is cut into pieces before byte pairs are merged, and merges never cross a cut.
//!
//! A splitter is a row of stages; each stage cuts every piece of the stage before. Published patterns are written
//! for backtracking engines, whose stack fails on a long run of spaces. Their one lookahead, `(?!\S)`, is
//! rewritten here (see [`Matcher::new`]), so a finite automaton does the work: linear in the text, no limits.

mod counted;
mod digits;
mod file_pattern;
pub(crate) mod patterns;
mod unfolded;

pub(crate) use digits::Triples;
pub(crate) use file_pattern::FilePattern;
use regex_automata::{Anchored, Input, meta};
use unfolded::UnfoldedRules;

use crate::error::TokenizeError;

/// One stage, as data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SplitRule {
    /// Alternatives in order of preference; each match becomes a piece, and so does the text between matches.
    Match(&'static [&'static str]),
    /// Runs of digits, cut into groups of three counted from the right.
    Triples(Triples),
}

/// Cuts texts into pieces; the pieces joined are the text.
#[derive(Debug)]
pub(crate) struct Splitter {
    stages: Vec<SplitStage>,
}

#[derive(Debug)]
enum SplitStage {
    Match(Matcher),
    Triples(Triples),
}

impl Splitter {
    pub fn new(rules: &[SplitRule]) -> Result<Splitter, TokenizeError> {
        let stages = rules.iter().map(|rule| match rule {
            SplitRule::Match(alternatives) => Ok(SplitStage::Match(Matcher::new(alternatives)?)),
            SplitRule::Triples(triples) => Ok(SplitStage::Triples(*triples)),
        });
        Ok(Splitter { stages: stages.collect::<Result<_, TokenizeError>>()? })
    }

    /// Calls `each` with every piece, in order; no piece is empty. The first error ends the walk.
    pub fn split(
        &self,
        text: &str,
        each: &mut dyn FnMut(&str) -> Result<(), TokenizeError>,
    ) -> Result<(), TokenizeError> {
        run(&self.stages, text, each)
    }

    /// The same for the pieces from `from` on, up to one that ends `bytes` behind it or more; returns where that ends.
    /// `from` is 0 or where an earlier call stopped.
    pub fn split_from(
        &self,
        text: &str,
        from: usize,
        bytes: usize,
        each: &mut dyn FnMut(&str) -> Result<(), TokenizeError>,
    ) -> Result<usize, TokenizeError> {
        match self.stages.split_first() {
            Some((SplitStage::Match(matcher), rest)) => matches((matcher, rest), text, (from, bytes), each),
            // What such a stage cuts depends on all that follows.
            _ => self.split(text, each).map(|()| text.len()),
        }
    }
}

/// Cuts `text` from `from` on by a first stage of patterns and the stages behind it. Each of its pieces depends on where it
/// begins and on the text, and on no earlier piece.
fn matches(
    (matcher, rest): (&Matcher, &[SplitStage]),
    text: &str,
    (from, bytes): (usize, usize),
    each: &mut dyn FnMut(&str) -> Result<(), TokenizeError>,
) -> Result<usize, TokenizeError> {
    let (mut start, stop) = (from, from.saturating_add(bytes).min(text.len()));
    while start < stop {
        let end = matcher.piece_end(text, start);
        run(rest, &text[start..end], each)?;
        start = end;
    }
    Ok(start)
}

fn run(
    stages: &[SplitStage],
    text: &str,
    each: &mut dyn FnMut(&str) -> Result<(), TokenizeError>,
) -> Result<(), TokenizeError> {
    if text.is_empty() {
        return Ok(());
    }
    let Some((stage, rest)) = stages.split_first() else { return each(text) };
    match stage {
        SplitStage::Match(matcher) => matches((matcher, rest), text, (0, text.len()), each).map(drop),
        SplitStage::Triples(triples) => {
            let mut start = 0;
            triples.cuts(text).into_iter().chain([text.len()]).try_for_each(|end| {
                let piece = &text[start..end];
                start = end;
                run(rest, piece, each)
            })
        }
    }
}

/// One set of alternatives, compiled.
#[derive(Debug)]
pub(crate) struct Matcher {
    regex: meta::Regex,
    /// By pattern: the match is given one character too many, to see that it is a space.
    trims: Vec<bool>,
}

impl Matcher {
    fn new(alternatives: &[&str]) -> Result<Matcher, TokenizeError> {
        let UnfoldedRules { patterns, trims } = UnfoldedRules::unfolded(alternatives);
        // A few megabytes hold every state that real text reaches; the default of two is filled by mixed scripts.
        let config = meta::Config::new().hybrid_cache_capacity(16 << 20);
        let regex = meta::Builder::new()
            .configure(config)
            .build_many(&patterns)
            .map_err(|e| TokenizeError::malformed("pre-tokenizer pattern", e.to_string()))?;
        Ok(Matcher { regex, trims })
    }

    /// The end of the piece that starts at `start`: of the match there, or of the gap before the next match.
    fn piece_end(&self, text: &str, start: usize) -> usize {
        // Nearly every piece is a match that starts at once; the anchored search needs no second pass to find its
        // start, which saves about half the time.
        let input = Input::new(text).span(start..text.len());
        if let Some(end) = self.match_end(text, input.clone().anchored(Anchored::Yes)) {
            return end;
        }
        let Some(first) = text[start..].chars().next() else { return text.len() };
        let after = Input::new(text).span(start + first.len_utf8()..text.len());
        self.regex.search(&after).map_or(text.len(), |m| m.start())
    }

    fn match_end(&self, text: &str, input: Input<'_>) -> Option<usize> {
        let found = self.regex.search(&input)?;
        let mut end = found.end();
        if self.trims[found.pattern().as_usize()] {
            end -= text[..end].chars().next_back().map_or(0, char::len_utf8);
        }
        (end > found.start()).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(rules: &[SplitRule], text: &str) -> Vec<String> {
        let mut out = Vec::new();
        let splitter = Splitter::new(rules).unwrap();
        splitter
            .split(text, &mut |piece| {
                out.push(piece.to_owned());
                Ok(())
            })
            .unwrap();
        assert_eq!(out.concat(), text);
        out
    }

    #[test]
    fn the_last_space_of_a_run_goes_to_the_word() {
        let rules = [SplitRule::Match(patterns::GPT2)];
        assert_eq!(pieces(&rules, "a   b"), ["a", "  ", " b"]);
        assert_eq!(pieces(&rules, "a   "), ["a", "   "]);
        assert_eq!(pieces(&rules, "\tb"), ["\t", "b"]);
        assert_eq!(pieces(&rules, "I'm 12 ok!?"), ["I", "'m", " 12", " ok", "!?"]);
        assert!(pieces(&rules, "").is_empty());
    }

    #[test]
    fn a_fixed_number_of_spaces_may_look_ahead_too() {
        let rules = [SplitRule::Match(&[r"\S+", r"\s{4}(?!\S)", r"\s{1,2}(?!\S)", r"\s"])];
        assert_eq!(pieces(&rules, "a       b"), ["a", "    ", "  ", " ", "b"]);
        assert_eq!(pieces(&rules, "a    "), ["a", "    "]);
        assert_eq!(pieces(&rules, "a  b"), ["a", " ", " ", "b"]);
    }

    #[test]
    fn stages_cut_the_pieces_of_the_stage_before() {
        let rules = [SplitRule::Match(&[r"\p{N}"]), SplitRule::Match(patterns::GPT2)];
        assert_eq!(pieces(&rules, "ab 12 c"), ["ab", " ", "1", "2", " c"]);
    }

    #[test]
    fn ten_million_spaces_are_one_piece() {
        let text = " ".repeat(10_000_000);
        assert_eq!(pieces(&[SplitRule::Match(patterns::LLAMA3)], &text).len(), 1);
    }
}
