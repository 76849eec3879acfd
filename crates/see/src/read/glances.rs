//! What heads look at.

use super::TextStrip;
use crate::trace::Trace;
use std::collections::BTreeMap;

/// What one head looks at along the first text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadGlance {
    /// The layer.
    pub layer: u32,
    /// The head.
    pub head: u32,
    /// Rows of its events by place.
    pub rows: BTreeMap<usize, usize>,
    /// Mean shares of the first token, the one before, and the row's own, over rows that see more than two.
    pub means: [f64; 3],
}

/// What a head does most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadHabit {
    /// More than half on the first token.
    First,
    /// More than half on the token before.
    Before,
    /// More than half on the token itself.
    Itself,
    /// Nothing of that.
    Spread,
}

impl HeadGlance {
    /// What it does most.
    pub fn habit(&self) -> HeadHabit {
        let [first, before, itself] = self.means;
        match () {
            () if first > 0.5 => HeadHabit::First,
            () if before > 0.5 => HeadHabit::Before,
            () if itself > 0.5 => HeadHabit::Itself,
            () => HeadHabit::Spread,
        }
    }
}

/// Heads in the order of their layers.
pub fn glances(trace: &Trace, strip: &TextStrip) -> Vec<HeadGlance> {
    let a = &trace.events.attention;
    let mut heads: BTreeMap<(u32, u32), HeadGlance> = BTreeMap::new();
    for i in (0..a.place.len()).filter(|&i| Some(a.sequence[i]) == strip.sequence) {
        let (layer, head) = (a.layer[i], a.head[i]);
        let glance = heads.entry((layer, head)).or_default();
        (glance.layer, glance.head) = (layer, head);
        glance.rows.insert(a.place[i] as usize, i);
    }
    let mut all: Vec<HeadGlance> = heads.into_values().collect();
    for glance in &mut all {
        let rows = glance.rows.iter().filter(|(place, _)| **place > 1);
        let share = |place: usize, i: usize, of: usize| {
            let at = of.checked_sub(a.first[i] as usize)?;
            a.weights[i].get(at).filter(|_| of <= place).map(|w| f64::from(*w) / 255.0)
        };
        let each = |(place, i): (&usize, &usize)| {
            [0, place - 1, *place].map(|of| share(*place, *i, of).unwrap_or(0.0))
        };
        let count = rows.clone().count().max(1) as f64;
        let sums = rows.map(each).fold([0.0; 3], |s, e| [s[0] + e[0], s[1] + e[1], s[2] + e[2]]);
        glance.means = sums.map(|sum| sum / count);
    }
    all
}
