//! Figures of commands as pictures.

use lamina::{Forecast, ModelInfo};
use lamina_see::plot::{Plot, PlotCurve, PlotForm, RateBar, conditions};
use lamina_tools::{
    Inspection, Perplexity,
    bench::{BenchReport, Speed},
};
use std::{collections::BTreeMap, path::Path};

/// Points of a curve at most.
const POINTS: usize = 400;

/// Speeds of a benchmark, with what memory allows where weights are all that is read.
pub fn bench(report: &BenchReport) -> Plot {
    let bytes = report.info.bytes_per_token as f64;
    let allowed = |batch: usize| (bytes > 0.0).then(|| report.bandwidth / bytes * batch as f64);
    let name = |what: &str, n: usize, depth: usize, batch: usize| {
        let depth = if depth > 0 { format!(" behind {depth}") } else { String::new() };
        let batch = if batch > 1 { format!(", {batch} at once") } else { String::new() };
        format!("{what} {n} tokens{depth}{batch}")
    };
    let prefill = report.prefill.iter().map(|s| RateBar {
        name: name("prompt of", s.n, s.depth, s.batch),
        repeats: s.tok_s.clone(),
        limit: None,
        predicted: s.predicted,
    });
    let decode = report.decode.iter().map(|s| RateBar {
        name: name("answer of", s.n, s.depth, s.batch),
        repeats: s.tok_s.clone(),
        limit: allowed(s.batch),
        predicted: s.predicted,
    });
    let jobs = report.jobs.iter().map(|j| RateBar {
        name: format!("{} at once, {} + {} tokens", j.batch, j.prompt, j.gen_tokens),
        repeats: j.tok_s(),
        limit: None,
        predicted: j.predicted,
    });
    Plot {
        title: "Speed".into(),
        conditions: of_model(&report.info) + "; in turn, one run",
        form: with_curves(
            PlotForm::Bars { unit: "tokens/s", bars: prefill.chain(decode).chain(jobs).collect() },
            [
                along("tokens/s of a prompt", "tokens before it", &report.prefill, |s| s.depth, &|_| None),
                along("tokens/s of answers", "tokens before them", &report.decode, |s| s.depth, &allowed),
                along("tokens/s of answers", "answers at once", &report.decode, |s| s.batch, &allowed),
            ],
        ),
    }
}

/// Measurements of more than two places as a curve: of those that are like the first but for what `place` says.
fn along(
    name: &'static str,
    along: &'static str,
    speeds: &[Speed],
    place: fn(&Speed) -> usize,
    allowed: &dyn Fn(usize) -> Option<f64>,
) -> Option<PlotCurve> {
    let first = speeds.first()?;
    let apart = |s: &Speed| {
        [s.n != first.n, s.depth != first.depth, s.batch != first.batch].iter().filter(|d| **d).count()
    };
    let own: Vec<&Speed> =
        speeds.iter().filter(|s| apart(s) == usize::from(place(s) != place(first))).collect();
    (own.len() > 2).then(|| PlotCurve {
        limits: own.iter().filter_map(|s| allowed(s.batch)).collect(),
        ..PlotCurve::measured(name, along, own.iter().map(|s| (place(s) as f64, &s.tok_s[..])))
    })
}

/// A drawing with the curves that there are below it.
fn with_curves(form: PlotForm, curves: impl IntoIterator<Item = Option<PlotCurve>>) -> PlotForm {
    let curves: Vec<PlotForm> = curves.into_iter().flatten().map(PlotForm::Curve).collect();
    if curves.is_empty() { form } else { PlotForm::Stack(std::iter::once(form).chain(curves).collect()) }
}

/// Speeds that are foretold for other terms than those that were asked about.
pub struct SpeedCurves {
    /// Of one answer, by bytes of memory.
    pub memory: Vec<(u64, f64)>,
    /// Of one answer, by tokens before it.
    pub context: Vec<(u64, f64)>,
    /// Of all answers, by how many run at once.
    pub batch: Vec<(u64, f64)>,
}

/// Speeds by place as a curve; none for a single one.
fn foretold(name: &'static str, along: &'static str, speeds: &[(u64, f64)], unit: f64) -> Option<PlotCurve> {
    (speeds.len() > 1).then(|| PlotCurve {
        name,
        along,
        values: speeds.iter().map(|speed| speed.1).collect(),
        places: speeds.iter().map(|(place, _)| *place as f64 / unit).collect(),
        ..PlotCurve::default()
    })
}

/// What a model takes of memory, and how fast answers are with how much of it, behind how much context, and side by side.
pub fn plan(forecast: &Forecast, model: Option<&Path>, speeds: &SpeedCurves) -> Plot {
    let parts = forecast.memory.iter().filter(|p| p.bytes > 0).map(|p| (p.name.to_owned(), p.bytes));
    let name = model
        .and_then(Path::file_stem)
        .map_or_else(|| "the small model".into(), |s| s.to_string_lossy().into_owned());
    let parts = PlotForm::Parts { parts: parts.collect(), budget: forecast.budget };
    let large = speeds.memory.iter().any(|(bytes, _)| *bytes >= 1_000_000_000);
    let (unit, sizes) = if large { (1e9, "GB of memory") } else { (1e6, "MB of memory") };
    let one = "tokens/s of one answer as foretold";
    let curves = [
        foretold(one, sizes, &speeds.memory, unit),
        foretold(one, "tokens before it", &speeds.context, 1.0),
        foretold("tokens/s of all answers as foretold", "answers at once", &speeds.batch, 1.0),
    ];
    Plot {
        title: "Memory and speed".into(),
        conditions: format!("{name}, a context of {} tokens, before it is loaded", forecast.context),
        form: with_curves(parts, curves),
    }
}

/// Loss along a text, as means over stretches.
pub fn losses(info: &ModelInfo, losses: &[f64], all: &Perplexity) -> Plot {
    let stretch = losses.len().div_ceil(POINTS).max(1);
    let values = losses.chunks(stretch).map(|part| part.iter().sum::<f64>() / part.len() as f64);
    let places = (0..losses.len()).step_by(stretch).map(|at| (at + stretch / 2) as f64);
    Plot {
        title: "Loss along the text".into(),
        conditions: format!("{}; perplexity {:.4}, means of {stretch} tokens", of_model(info), all.ppl),
        form: PlotForm::Curve(PlotCurve {
            name: "nats per token",
            along: "scored tokens",
            values: values.collect(),
            places: places.collect(),
            ..PlotCurve::default()
        }),
    }
}

/// Types of tensors by layer.
pub fn types(found: &Inspection) -> Plot {
    let words = found.tensors.iter().map(|t| (t.name.as_str(), t.dtype.name().to_owned()));
    let (rows, columns, words) = by_layer(words, String::new());
    Plot {
        title: "Types by layer".into(),
        conditions: format!("{}, mostly {}", found.architecture, found.type_name),
        form: PlotForm::Cells { rows, columns, words },
    }
}

fn of_model(info: &ModelInfo) -> String {
    conditions(info)
}

/// Rows by what tensors are, columns by layer; those of no layer are left out.
pub fn by_layer<'a, T: Clone>(
    tensors: impl Iterator<Item = (&'a str, T)>,
    none: T,
) -> (Vec<String>, Vec<String>, Vec<Vec<T>>) {
    let mut rows: BTreeMap<String, BTreeMap<usize, T>> = BTreeMap::new();
    for (name, value) in tensors {
        let Some((layer, kind)) = layer_of(name) else { continue };
        rows.entry(kind).or_default().insert(layer, value);
    }
    let layers = rows.values().filter_map(|row| row.keys().max()).max().map_or(0, |last| last + 1);
    let row = |row: &BTreeMap<usize, T>| (0..layers).map(|i| row.get(&i).unwrap_or(&none).clone()).collect();
    let values = rows.values().map(row).collect();
    (rows.into_keys().collect(), (0..layers).map(|i| i.to_string()).collect(), values)
}

/// The layer of `blk.3.attn_q.weight` or `model.layers.3.self_attn.q_proj.weight`, and what is left of the name.
fn layer_of(name: &str) -> Option<(usize, String)> {
    let mut parts: Vec<&str> = name.split('.').collect();
    let at = parts.iter().position(|part| part.parse::<usize>().is_ok())?;
    let layer = parts[at].parse().ok()?;
    parts.drain(..=at);
    parts.pop_if(|last| *last == "weight");
    Some((layer, parts.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_have_their_layers() {
        assert_eq!(layer_of("blk.3.attn_q.weight"), Some((3, "attn_q".into())));
        assert_eq!(layer_of("model.layers.12.mlp.experts.0.up.bias").map(|l| l.0), Some(12));
        assert_eq!(layer_of("output.weight"), None);
        let words =
            [("blk.0.a.weight", "F16"), ("blk.1.a.weight", "Q4"), ("blk.1.b.weight", "F32"), ("norm", "F32")];
        let (rows, columns, words) = by_layer(words.into_iter(), "");
        assert_eq!((rows.join(" "), columns.join(" ")), ("a b".into(), "0 1".into()));
        assert_eq!(words, [["F16", "Q4"], ["", "F32"]]);
    }
}
