//! What the script of a page follows a token with.

use crate::{
    format::{time, visible},
    read::{TextStrip, glances, lens_rows},
    trace::Trace,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Tokens whose insides a page has.
const MOST: usize = 512;
/// Tokens that are named of those that one looks at.
const NAMED: usize = 4;

/// What the script follows a token with, as JSON that no markup can end.
pub(super) fn data(trace: &Trace, strip: &TextStrip) -> String {
    let (token, stage) = (&trace.events.token, &trace.events.stage);
    let mut words: BTreeMap<u32, String> = BTreeMap::new();
    let mut known = |id: u32| {
        words.entry(id).or_insert_with(|| visible(trace.word(id), 24));
    };
    strip.tokens.iter().for_each(|t| known(t.id));
    let mut choices = BTreeMap::new();
    for (place, t) in strip.tokens.iter().enumerate() {
        let Some(event) = t.event else { continue };
        let first = stage.token.partition_point(|&i| (i as usize) < event);
        let end = stage.token.partition_point(|&i| (i as usize) <= event);
        let stages: Vec<Value> = (first..end)
            .map(|i| {
                stage.ids[i].iter().for_each(|id| known(*id));
                let p: Vec<f64> = stage.p[i].iter().map(|p| (f64::from(*p) * 1e5).round() / 1e5).collect();
                json!({"n": stage.name[i], "l": stage.left[i], "b": stage.bits[i], "i": stage.ids[i], "p": p})
            })
            .collect();
        choices.insert(place, json!({"r": token.rank[event], "f": token.forced[event], "lp": token.logprob[event], "s": stages}));
    }
    let steps: Vec<Value> =
        strip.steps.iter().map(|s| json!([s.chosen.0, s.chosen.1, time(s.ns as f64), s.rows])).collect();
    let ids: Vec<u32> = strip.tokens.iter().map(|t| t.id).collect();
    let lens = lens(trace, strip, &mut known);
    let data = json!({
        "ids": ids, "prompt": strip.prompt_len(), "words": words, "choices": choices, "steps": steps,
        "lens": lens, "experts": experts(trace, strip), "heads": heads(trace, strip),
    });
    data.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// The likeliest token behind each layer and its probability in a hundred, by the place of the row.
fn lens(trace: &Trace, strip: &TextStrip, known: &mut dyn FnMut(u32)) -> BTreeMap<usize, Vec<Value>> {
    let l = &trace.events.lens;
    let mut all: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    for ((place, _), i) in lens_rows(trace, strip).into_iter().filter(|((place, _), _)| *place < MOST) {
        let (Some(id), Some(p)) = (l.ids[i].first(), l.p[i].first()) else { continue };
        known(*id);
        all.entry(place).or_default().push(json!([id, (f64::from(*p) * 1e4).round() / 1e4]));
    }
    all
}

/// Experts with their weights by place and layer.
fn experts(trace: &Trace, strip: &TextStrip) -> BTreeMap<usize, BTreeMap<u32, Vec<Value>>> {
    let x = &trace.events.expert;
    let mut all: BTreeMap<usize, BTreeMap<u32, Vec<Value>>> = BTreeMap::new();
    for i in (0..x.place.len()).filter(|&i| Some(x.sequence[i]) == strip.sequence) {
        let (place, weight) = (x.place[i] as usize, (f64::from(x.weight[i]) * 1e3).round() / 1e3);
        if place < MOST {
            all.entry(place).or_default().entry(x.layer[i]).or_default().push(json!([x.expert[i], weight]));
        }
    }
    all
}

/// The tokens that each looked at most, by place and layer, on average over heads.
fn heads(trace: &Trace, strip: &TextStrip) -> BTreeMap<usize, BTreeMap<u32, Vec<Value>>> {
    let a = &trace.events.attention;
    let mut sums: BTreeMap<(usize, u32), (usize, BTreeMap<usize, f64>)> = BTreeMap::new();
    for glance in glances(trace, strip) {
        for (&place, &i) in glance.rows.range(..MOST) {
            let (heads, of) = sums.entry((place, glance.layer)).or_default();
            *heads += 1;
            for (j, weight) in a.weights[i].iter().enumerate().filter(|(_, w)| **w > 0) {
                *of.entry(a.first[i] as usize + j).or_default() += f64::from(*weight) / 255.0;
            }
        }
    }
    let mut all: BTreeMap<usize, BTreeMap<u32, Vec<Value>>> = BTreeMap::new();
    for ((place, layer), (heads, of)) in sums {
        let mut of: Vec<(usize, f64)> = of.into_iter().map(|(t, sum)| (t, sum / heads as f64)).collect();
        of.sort_by(|x, y| y.1.total_cmp(&x.1));
        let named = of.iter().take(NAMED).map(|(t, share)| json!([t, (share * 1e3).round() / 1e3]));
        all.entry(place).or_default().insert(layer, named.collect());
    }
    all
}
