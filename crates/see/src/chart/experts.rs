//! Which experts rows went to.

use super::{
    Figure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{format::number, read::TextStrip, trace::Trace};
use std::collections::BTreeMap;

const LEFT: f64 = 70.0;
const TOP: f64 = 22.0;

/// A row for each layer, a cell for each expert, filled by its share of the rows.
pub(super) fn experts(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let x = &trace.events.expert;
    let mut layers: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
    for i in (0..x.place.len()).filter(|&i| Some(x.sequence[i]) == strip.sequence) {
        *layers.entry(x.layer[i]).or_default().entry(x.expert[i]).or_default() += 1;
    }
    let most = *layers.values().flat_map(|counts| counts.values()).max()?;
    let count = experts_of(trace).max(layers.values().filter_map(|c| c.keys().max()).max()? + 1);
    let (w, h) = ((WIDTH - LEFT) / f64::from(count), (340.0 / layers.len() as f64).clamp(8.0, 30.0));
    let mut canvas = Canvas::new(
        TOP + layers.len() as f64 * h + 6.0,
        "How many rows each expert of each layer had, a row for each layer",
    );
    let every = (30.0 / w).ceil().max(1.0) as usize;
    for expert in (0..count).step_by(every) {
        let x = LEFT + (f64::from(expert) + 0.5) * w;
        canvas.text(x, TOP - 8.0, "f", Anchor::Middle, &expert.to_string());
    }
    for (row, (layer, counts)) in layers.iter().enumerate() {
        let y = TOP + row as f64 * h;
        if h >= 13.0 || row % 4 == 0 {
            canvas.text(LEFT - 8.0, y + h / 2.0 + 4.0, "f", Anchor::End, &format!("layer {layer}"));
        }
        let all: usize = counts.values().sum();
        for expert in 0..count {
            let rows = counts.get(&expert).copied().unwrap_or(0);
            let b = Box2::new(LEFT + f64::from(expert) * w, y + 1.0, w - 1.0, h - 2.0);
            canvas.rect(b, "cs");
            let share = 100.0 * rows as f64 / all.max(1) as f64;
            let tip = format!("layer {layer}, expert {expert}: {rows} rows, {} %", number(share));
            let filled = b.h * rows as f64 / most as f64;
            canvas.mark(Box2::new(b.x, b.y + b.h - filled, b.w, filled), "cb", &tip, None);
        }
    }
    let halves: Vec<usize> = layers.values().map(half).collect();
    let half = halves.iter().sum::<usize>() as f64 / halves.len() as f64;
    let cell = |layer: u32, expert: u32, rows: usize| {
        [layer, expert, rows as u32].iter().map(u32::to_string).collect::<Vec<_>>()
    };
    let rows = layers.iter().flat_map(|(layer, counts)| counts.iter().map(move |(e, n)| (*layer, *e, *n)));
    Some(Figure {
        id: "experts",
        title: "Which experts",
        key: format!("{} of {count}", number(half)),
        finding: format!(
            "On average *{} of {count}* experts of a layer had half of all rows; evenly it would be {}. The busiest had *{}* rows of {}.",
            number(half),
            number(f64::from(count) / 2.0),
            number(most as f64),
            number(strip.tokens.len() as f64)
        ),
        caption: "A row for each layer, a cell for each expert: the higher it is filled, the more rows went there. Below: the experts of the chosen token, with their weights.",
        command: "lamina trace --detail inside",
        colours: vec![("cb", "rows that an expert had")],
        svg: canvas.finish(),
        follows: Some("experts"),
        table: (vec!["layer", "expert", "rows"], rows.map(|(l, e, n)| cell(l, e, n)).collect()),
        ..Figure::default()
    })
}

/// Experts of the layer that has most: a router says one number for each.
fn experts_of(trace: &Trace) -> u32 {
    let mixtures = trace.plan.ops.iter().filter(|op| op.name == "Experts");
    let width = |slot: &u16| trace.plan.slots.get(*slot as usize).map(|slot| slot.width as u32);
    mixtures.filter_map(|op| op.reads.get(1).and_then(width)).max().unwrap_or(0)
}

/// The fewest experts that have half of a layer's rows.
fn half(counts: &BTreeMap<u32, usize>) -> usize {
    let mut rows: Vec<usize> = counts.values().copied().collect();
    rows.sort_unstable_by(|a, b| b.cmp(a));
    let all: usize = rows.iter().sum();
    let mut seen = 0;
    let enough = |n: &usize| {
        seen += n;
        2 * seen >= all
    };
    rows.iter().position(enough).map_or(0, |at| at + 1)
}
