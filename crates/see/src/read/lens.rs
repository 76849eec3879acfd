//! When the model knew: what its residual behind each layer would have said.

use super::TextStrip;
use crate::trace::Trace;
use std::collections::BTreeMap;

/// A token of the text, and where it stood behind each layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownToken {
    /// Place in the text.
    pub place: usize,
    /// Its place among the likeliest behind each number of layers, from 0; none where it was not among them.
    pub ranks: Vec<Option<usize>>,
}

impl KnownToken {
    /// Layers behind which it was the likeliest and stayed it; none where it was not at the end.
    pub fn settled(&self) -> Option<usize> {
        let wrong = self.ranks.iter().rposition(|rank| *rank != Some(0));
        let first = wrong.map_or(0, |last| last + 1);
        (first < self.ranks.len()).then_some(first)
    }
}

/// Rows of lenses by the place of their token and the layers it has passed.
pub(crate) fn lens_rows(trace: &Trace, strip: &TextStrip) -> BTreeMap<(usize, usize), usize> {
    let l = &trace.events.lens;
    let own = |i: &usize| Some(l.sequence[*i]) == strip.sequence;
    (0..l.place.len()).filter(own).map(|i| ((l.place[i] as usize, l.layers[i] as usize), i)).collect()
}

/// All tokens of the first text that were looked at.
pub fn known(trace: &Trace, strip: &TextStrip) -> Vec<KnownToken> {
    let (rows, l) = (lens_rows(trace, strip), &trace.events.lens);
    let Some(layers) = rows.keys().map(|key| key.1 + 1).max() else { return vec![] };
    // What stands at a place was said by the row before.
    let one = |(place, token): (usize, &super::StripToken)| {
        let row = |layer: usize| rows.get(&(place.checked_sub(1)?, layer)).copied();
        let rows: Vec<usize> = (0..layers).map(row).collect::<Option<_>>()?;
        let ranks = rows.iter().map(|&i| l.ids[i].iter().position(|id| *id == token.id)).collect();
        Some(KnownToken { place, ranks })
    };
    strip.tokens.iter().enumerate().filter_map(one).collect()
}
