//! A stretch of text on its way to tokens, with the place in the original text that each of its bytes comes from.

use std::ops::Range;

/// Where something comes from, in bytes of the original text.
pub(super) type Place = (u32, u32);

/// Text between added tokens, or a piece of it, as normalizers and pre-tokenizers have left it so far.
#[derive(Clone)]
pub(super) struct Passage {
    pub text: String,
    /// Of each byte; none where nobody asks for places.
    places: Option<Vec<Place>>,
    /// Of the whole.
    pub place: Place,
}

impl Passage {
    /// A whole text. Places are followed where `tracked`.
    pub fn new(text: &str, tracked: bool) -> Passage {
        let of_char = |(at, c): (usize, char)| {
            let place = (at as u32, (at + c.len_utf8()) as u32);
            std::iter::repeat_n(place, c.len_utf8())
        };
        let places = tracked.then(|| text.char_indices().flat_map(of_char).collect());
        Passage { text: text.to_owned(), places, place: (0, text.len() as u32) }
    }

    /// The same, from where its first byte comes from to where its last one does.
    pub fn whole(mut self) -> Passage {
        let ends = self.places.as_ref().and_then(|places| Some((places.first()?.0, places.last()?.1)));
        self.place = ends.unwrap_or(self.place);
        self
    }

    /// A part of it. `range` is not empty.
    pub fn slice(&self, range: Range<usize>) -> Passage {
        let places = self.places.as_ref().map(|places| places[range.clone()].to_vec());
        Passage { text: self.text[range].to_owned(), places, place: self.place }.whole()
    }

    /// Whether nobody asks for places.
    pub fn is_bare(&self) -> bool {
        self.places.is_none()
    }

    /// Another text in its place. Each character comes with a change: 0 where it stands for the next one of the old
    /// text, 1 where it is new, -n where it stands for the next one and n after that are gone. `skipped` characters at
    /// the beginning are gone.
    ///
    /// As in the library, what was put before the text by a pattern that matched nothing comes from nowhere in the
    /// original, and stays beside what it is changed into.
    pub fn change(&mut self, chars: impl Iterator<Item = (char, isize)>, skipped: usize) {
        let Some(places) = &self.places else {
            self.text = chars.map(|(c, _)| c).collect();
            return;
        };
        let nowhere = places.iter().take_while(|(start, end)| start == end).count();
        let kept = if self.place.0 == self.place.1 { 0..0 } else { nowhere..self.text.len() };
        let mut old = self.text[kept.clone()].chars();
        let mut at = kept.start + old.by_ref().take(skipped).map(char::len_utf8).sum::<usize>();
        let mut text = self.text[..kept.start].to_owned();
        let mut moved = places[..kept.start].to_vec();
        let begin = (self.place.0, self.place.0);
        for (c, change) in chars {
            let place = if change > 0 { at.checked_sub(1) } else { Some(at) };
            let place = place.and_then(|at| places.get(at)).copied().unwrap_or(begin);
            if change <= 0 {
                at += old.by_ref().take(1 + change.unsigned_abs()).map(char::len_utf8).sum::<usize>();
            }
            text.push(c);
            moved.extend(std::iter::repeat_n(place, c.len_utf8()));
        }
        text.push_str(&self.text[kept.end..]);
        moved.extend_from_slice(&places[kept.end..]);
        (self.text, self.places) = (text, Some(moved));
    }

    /// Each character becomes another one.
    pub fn map(&mut self, map: impl Fn(char) -> char) {
        let text = std::mem::take(&mut self.text);
        match self.places.is_some() {
            false => self.text = text.chars().map(map).collect(),
            true => {
                self.text.clone_from(&text);
                self.change(text.chars().map(|c| (map(c), 0)), 0);
            }
        }
    }

    /// Leaves characters out.
    pub fn filter(&mut self, keep: impl Fn(char) -> bool) {
        if self.is_bare() && self.text.chars().all(&keep) {
            return;
        }
        let (mut kept, mut gone, mut skipped): (Vec<(char, isize)>, _, _) = (Vec::new(), 0isize, 0);
        for c in self.text.chars() {
            match (keep(c), kept.last_mut()) {
                (false, _) => gone += 1,
                (true, last) => {
                    match last {
                        Some(last) => last.1 = -gone,
                        None => skipped = gone.unsigned_abs(),
                    }
                    gone = 0;
                    kept.push((c, 0));
                }
            }
        }
        if let Some(last) = kept.last_mut() {
            last.1 = -gone;
        }
        self.change(kept.into_iter(), skipped);
    }

    /// Puts a text before it, unless it is empty.
    pub fn prepend(&mut self, text: &str) {
        if self.text.is_empty() {
            return;
        }
        self.text.insert_str(0, text);
        if let Some(places) = &mut self.places {
            let first = places[0];
            places.splice(0..0, std::iter::repeat_n(first, text.len()));
        }
    }

    /// Puts `content` in the place of each of these ranges, which ascend.
    pub fn replace(&mut self, ranges: &[(usize, usize)], content: &str) {
        if ranges.is_empty() {
            return;
        }
        let mut text = String::with_capacity(self.text.len());
        let mut done = 0;
        for &(start, end) in ranges {
            text.push_str(&self.text[done..start]);
            text.push_str(content);
            done = end;
        }
        text.push_str(&self.text[done..]);
        if let Some(places) = &mut self.places {
            let (mut moved, mut done) = (Vec::with_capacity(text.len()), 0);
            for &(start, end) in ranges {
                moved.extend_from_slice(&places[done..start]);
                let place = end.checked_sub(1).map_or((self.place.0, self.place.0), |last| places[last]);
                moved.extend(std::iter::repeat_n(place, content.len()));
                done = end;
            }
            moved.extend_from_slice(&places[done..]);
            *places = moved;
        }
        self.text = text;
    }

    /// Takes white space from its ends.
    pub fn strip(&mut self, left: bool, right: bool) {
        let start = if left { self.text.len() - self.text.trim_start().len() } else { 0 };
        let kept = if right { self.text[start..].trim_end().len() } else { self.text.len() - start };
        if kept < self.text.len() {
            let skipped = self.text[..start].chars().count();
            let text = self.text[start..start + kept].to_owned();
            self.change(text.chars().map(|c| (c, 0)), skipped);
        }
    }
}

/// A piece of a text: to be tokenized, or a token already.
pub(super) enum Piece {
    Text(Passage),
    Token(u32),
}

/// Cuts each piece of text into others; empty ones are left out.
pub(super) fn cut_pieces(
    pieces: &mut Vec<Piece>,
    mut each: impl FnMut(Passage, &mut Vec<Piece>) -> Result<(), String>,
) -> Result<(), String> {
    let mut out = Vec::with_capacity(pieces.len());
    for piece in std::mem::take(pieces) {
        match piece {
            Piece::Token(id) => out.push(Piece::Token(id)),
            Piece::Text(passage) => each(passage, &mut out)?,
        }
    }
    out.retain(|piece| !matches!(piece, Piece::Text(passage) if passage.text.is_empty()));
    *pieces = out;
    Ok(())
}

/// The same where no piece becomes a token.
pub(super) fn cut(
    pieces: &mut Vec<Piece>,
    mut each: impl FnMut(Passage, &mut Vec<Passage>) -> Result<(), String>,
) -> Result<(), String> {
    let mut parts = Vec::new();
    cut_pieces(pieces, |passage, out| {
        each(passage, &mut parts)?;
        out.extend(parts.drain(..).map(Piece::Text));
        Ok(())
    })
}
