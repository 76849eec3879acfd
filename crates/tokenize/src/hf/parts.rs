//! Texts that are encoded in parts: a part ends where the first pre-tokenizer cuts in any case, or where no merge joins.

use super::cuts::PreTokenizer;
use super::part_span::PartSpan;
use super::passage::{Passage, Piece};
use super::pattern::{Behavior, Places};
use super::{HfEngine, within};
use crate::error::TokenizeError;

/// A text whose added tokens were found and which was normalized, on its way to ids.
pub(crate) struct HfParts {
    /// What has not begun, the last piece first.
    pieces: Vec<Piece>,
    begun: Option<(Passage, PartSpan)>,
    /// It stands behind a special token: no space is put first that only a beginning gets.
    inner: bool,
    ids: Vec<u32>,
}

impl HfParts {
    /// Whether nothing is left.
    pub fn ended(&self) -> bool {
        self.pieces.is_empty() && self.begun.is_none()
    }
}

impl HfEngine {
    /// Begins a text, or a stretch of one that is not the `first`. Special tokens are text unless `parse`.
    pub fn parts(&self, text: &str, parse: bool, first: bool) -> Result<HfParts, TokenizeError> {
        let mut pieces = self.extracted(self.cuts_of(!first), text, parse)?;
        pieces.reverse();
        Ok(HfParts { pieces, begun: None, inner: !first, ids: vec![] })
    }

    /// Encodes `bytes` more of its normal form, or somewhat more than that, and returns how many those were. At the end all
    /// ids are appended to `out`, without those that the post-processor adds.
    pub fn advance(
        &self,
        parts: &mut HfParts,
        bytes: usize,
        out: &mut Vec<u32>,
    ) -> Result<usize, TokenizeError> {
        let mut done = 0;
        while done < bytes && !parts.ended() {
            let Some((mut passage, mut stretch)) = parts.begun.take() else {
                match parts.pieces.pop() {
                    Some(Piece::Text(passage)) => {
                        parts.begun = Some((passage, PartSpan { from: 0, bytes: 0, steps: None }));
                    }
                    Some(Piece::Token(id)) => {
                        parts.ids.push(id);
                        done += 1;
                    }
                    None => {}
                }
                continue;
            };
            let from = stretch.from;
            stretch.bytes = bytes - done;
            let pieces =
                self.stretch(parts.inner, &mut passage, &mut stretch).map_err(TokenizeError::Json)?;
            self.tokens_of(&pieces, &mut parts.ids).map_err(TokenizeError::Json)?;
            done += stretch.from - from;
            parts.begun = (stretch.from < passage.text.len()).then_some((passage, stretch));
        }
        if parts.ended() {
            out.extend(self.finished(std::mem::take(&mut parts.ids))?);
        }
        Ok(done)
    }

    fn cuts_of(&self, inner: bool) -> Option<&PreTokenizer> {
        if inner { self.inner_cuts.as_ref() } else { self.cuts.as_ref() }
    }

    fn finished(&self, ids: Vec<u32>) -> Result<Vec<u32>, TokenizeError> {
        match &self.post {
            Some(post) if self.always_post => {
                Ok(post.apply(vec![ids], false).map_err(within("post_processor"))?.concat())
            }
            _ => Ok(ids),
        }
    }

    /// The pieces of the next part of a passage; `stretch` begins behind it then.
    fn stretch(
        &self,
        inner: bool,
        passage: &mut Passage,
        stretch: &mut PartSpan,
    ) -> Result<Vec<Piece>, String> {
        let Some(cuts) = self.cuts_of(inner) else {
            let end = match self.model.word_start() {
                Some(space) => stretch.end_before(&passage.text, |before, c| c == space && before != space),
                None => passage.text.len(),
            };
            let part = passage.slice(stretch.from..end);
            stretch.from = end;
            return Ok(vec![Piece::Text(part)]);
        };
        match cuts.run_from(passage, stretch)? {
            Some(pieces) => Ok(pieces),
            None => {
                stretch.from = passage.text.len();
                let mut pieces = vec![Piece::Text(passage.clone())];
                cuts.run(&mut pieces)?;
                Ok(pieces)
            }
        }
    }
}

impl PreTokenizer {
    /// Cuts the next part of a passage, and moves `stretch` behind it. None where nobody can tell a part's end without the
    /// whole: such a passage is cut by [`PreTokenizer::run`].
    fn run_from(&self, passage: &mut Passage, stretch: &mut PartSpan) -> Result<Option<Vec<Piece>>, String> {
        if stretch.from == 0 {
            self.begin(passage);
        }
        let before_run = |stretch: &PartSpan, is: &dyn Fn(char) -> bool| {
            stretch.end_before(&passage.text, |before, c| is(c) && !is(before))
        };
        let end = match self {
            PreTokenizer::Sequence(parts) => {
                let Some((first, rest)) = parts.split_first() else { return Ok(None) };
                let Some(mut pieces) = first.run_from(passage, stretch)? else { return Ok(None) };
                rest.iter().try_for_each(|part| part.run(&mut pieces))?;
                return Ok(Some(pieces));
            }
            PreTokenizer::ByteLevel { .. } | PreTokenizer::Split { .. } => {
                let Some(pattern) = self.pattern()? else { return Ok(None) };
                let Some(places) = pattern.places_from(&passage.text, stretch)? else { return Ok(None) };
                return Ok(Some(self.parts_of(passage, stretch, places)));
            }
            // A run of what separates or is kept apart lies in one part.
            PreTokenizer::Bert | PreTokenizer::Whitespace | PreTokenizer::WhitespaceSplit => {
                before_run(stretch, &char::is_whitespace)
            }
            PreTokenizer::Digits { .. } => before_run(stretch, &char::is_numeric),
            _ => match self.separator() {
                Some(separator) => before_run(stretch, &|c| c == separator),
                None => return Ok(None),
            },
        };
        let mut pieces = vec![Piece::Text(passage.slice(stretch.from..end))];
        stretch.from = end;
        self.run(&mut pieces)?;
        Ok(Some(pieces))
    }

    /// What a pattern cut: matches and gaps are pieces of their own, or matches end the piece before.
    fn parts_of(&self, passage: &Passage, stretch: &mut PartSpan, places: Places) -> Vec<Piece> {
        stretch.from = places.last().map_or(passage.text.len(), |(place, _)| place.1);
        let pieces = self.behavior().pieces(places).into_iter().filter(|(start, end)| start < end);
        let pieces = pieces.map(|(start, end)| self.finished(passage.slice(start..end)));
        pieces.map(Piece::Text).collect()
    }
}

impl Behavior {
    /// Whether what follows a match is cut as if nothing came before.
    pub fn ends_with_matches(self) -> bool {
        matches!(self, Behavior::Removed | Behavior::Isolated | Behavior::MergedWithPrevious)
    }
}
