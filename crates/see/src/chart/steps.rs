//! Steps of the request: its two lives, what was guessed ahead, what was read meanwhile.

use super::{
    Figure,
    axis::time_axis,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, time, visible},
    read::{StripStep, TextStrip, median},
    trace::Trace,
};
use std::collections::BTreeMap;

/// One bar for each step, as wide as it took.
pub(super) fn steps(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let all: u64 = strip.steps.iter().map(|s| s.ns).sum();
    if all == 0 {
        return None;
    }
    let mut canvas = Canvas::new(84.0, "Every step of the request, as wide as the time it took");
    let mut x = 0.0;
    for step in &strip.steps {
        let w = step.ns as f64 / all as f64 * WIDTH;
        let gap = if w > 3.0 { 1.0 } else { 0.0 };
        let class = if step.prompt { "ca" } else { "cb" };
        canvas.mark(Box2::new(x, 20.0, w - gap, 38.0), class, &tip(trace, strip, step), Some(step.chosen.0));
        x += w;
    }
    let prompt: Vec<&StripStep> = strip.steps.iter().filter(|s| s.prompt).collect();
    let prompt_ns: u64 = prompt.iter().map(|s| s.ns).sum();
    let split = prompt_ns as f64 / all as f64 * WIDTH;
    if !prompt.is_empty() {
        canvas.text(0.0, 13.0, "f", Anchor::Start, "prompt");
    }
    canvas.text(
        split.clamp(60.0, WIDTH - 130.0),
        13.0,
        "f",
        Anchor::Start,
        "one step for each token after it",
    );
    time_axis(&mut canvas, (0.0, 60.0, WIDTH), all as f64);
    let decode: Vec<u64> = strip.steps.iter().filter(|s| !s.prompt).map(|s| s.ns).collect();
    let middle = median(decode.clone()).unwrap_or(0) as f64;
    let row = |s: &StripStep| {
        let what = if s.prompt { "prompt" } else { "answer" };
        vec![s.row.to_string(), what.to_owned(), s.rows.to_string(), time(s.ns as f64)]
    };
    Some(Figure {
        id: "steps",
        title: "Two lives",
        key: time(middle.max(if decode.is_empty() { prompt_ns as f64 } else { 0.0 })),
        finding: told(strip, prompt_ns, &prompt, middle, decode.len()),
        caption: "Every block is one pass through the whole model. Click one to follow its token; ← and → move.",
        command: "lamina run --stats",
        colours: vec![("ca", "prompt (prefill)"), ("cb", "answer (decode)")],
        svg: canvas.finish(),
        table: (vec!["step", "for", "rows", "time"], strip.steps.iter().map(row).collect()),
        ..Figure::default()
    })
}

fn told(strip: &TextStrip, prompt_ns: u64, prompt: &[&StripStep], middle: f64, tokens: usize) -> String {
    let rows: u32 = prompt.iter().map(|s| s.rows).sum();
    let steps = match prompt.len() {
        1 => "one step".to_owned(),
        n => format!("{} steps", number(n as f64)),
    };
    let mut text = match rows {
        0 => String::new(),
        rows => format!(
            "*{} tokens* of the prompt went through in {steps} of *{}* in all. ",
            number(f64::from(rows)),
            time(prompt_ns as f64)
        ),
    };
    if strip.cached > 0 {
        text += &format!("{} more were found in memory and cost nothing. ", number(f64::from(strip.cached)));
    }
    if tokens > 0 {
        text += &format!(
            "Then each of *{}* steps took *{}* for one token: ",
            number(tokens as f64),
            time(middle)
        );
        let each = prompt_ns as f64 / f64::from(rows.max(1));
        text += &match middle / each.max(1.0) {
            ratio if rows > 1 && ratio > 1.05 => format!(
                "{} times what a token of the prompt cost, because there the weights are read once for all of them.",
                number(ratio)
            ),
            _ => "each waits for the one before.".to_owned(),
        };
    }
    text
}

fn tip(trace: &Trace, strip: &TextStrip, step: &StripStep) -> String {
    let words: Vec<_> = (step.chosen.0..step.chosen.1)
        .filter_map(|place| strip.tokens.get(place))
        .map(|t| visible(trace.word(t.id), 20))
        .collect();
    format!("step {}: {} rows, {} → {}", step.row, step.rows, time(step.ns as f64), words.join(" "))
}

/// Guesses of each step; none without any.
pub(super) fn drafts(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let drafted: u32 = strip.steps.iter().map(|s| s.drafts.0).sum();
    let accepted: u32 = strip.steps.iter().map(|s| s.drafts.1).sum();
    if drafted == 0 {
        return None;
    }
    let decode: Vec<&StripStep> = strip.steps.iter().filter(|s| !s.prompt).collect();
    let most = decode.iter().map(|s| s.drafts.0).max().unwrap_or(1).max(1);
    let (w, h) = ((WIDTH / decode.len() as f64).min(40.0), (96.0 / f64::from(most)).min(18.0));
    let mut canvas =
        Canvas::new(f64::from(most) * h + 24.0, "Guessed tokens of each step: filled ones were right");
    let base = f64::from(most) * h;
    for (i, step) in decode.iter().enumerate() {
        for guess in 0..step.drafts.0 {
            let class = if guess < step.drafts.1 { "cc" } else { "co" };
            let y = base - f64::from(guess + 1) * h;
            let b = Box2::new(i as f64 * w + 0.5, y + 1.0, w - 2.0, h - 2.0);
            canvas.mark(b, class, &tip(trace, strip, step), Some(step.chosen.0));
        }
    }
    canvas.path(&format!("M0 {base:.1}H{WIDTH}"), "l");
    canvas.text(0.0, base + 18.0, "f", Anchor::Start, "steps of the answer →");
    let row = |s: &&StripStep| vec![s.row.to_string(), s.drafts.0.to_string(), s.drafts.1.to_string()];
    let method = trace.events.share.method.iter().find(|m| !m.is_empty()).cloned().unwrap_or_default();
    Some(Figure {
        id: "drafts",
        title: "Guessed ahead",
        key: format!("{accepted} of {drafted}"),
        finding: format!(
            "*{accepted} of {drafted}* guesses ({method}) were what the model would have said, and each spared a step: *{}* steps instead of {}.",
            decode.len(),
            decode.len() as u32 + accepted
        ),
        caption: "One column for each step; filled: the guess was right, hollow: it was thrown away. The answer is the same either way.",
        command: "lamina run --draft ngram",
        colours: vec![("cc", "right"), ("cg", "thrown away")],
        svg: canvas.finish(),
        table: (vec!["step", "guessed", "right"], decode.iter().map(row).collect()),
        ..Figure::default()
    })
}

/// Which operator waited most, and how many experts were in memory; empty where operators were not recorded.
fn streamed_ops(trace: &Trace) -> String {
    let s = &trace.events.stream;
    let mut waits: BTreeMap<u32, u64> = BTreeMap::new();
    s.op.iter().zip(&s.waited).for_each(|(op, ns)| *waits.entry(*op).or_default() += ns);
    let longest = waits.into_iter().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0);
    let waited = longest.and_then(|(op, ns)| {
        let op = trace.plan.ops.get(op as usize)?;
        let layer = op.layer.map_or(String::new(), |layer| format!(" of layer {layer}"));
        Some(format!(" {}{layer} waited longest, *{}*.", op.name, time(ns as f64)))
    });
    let sum = |counts: &[u32]| counts.iter().map(|n| u64::from(*n)).sum::<u64>();
    let (hits, misses) = (sum(&s.hits), sum(&s.misses));
    let experts = (hits + misses > 0).then(|| {
        format!(
            " Of {} experts that were asked for *{}* were in memory.",
            number((hits + misses) as f64),
            number(hits as f64)
        )
    });
    waited.unwrap_or_default() + &experts.unwrap_or_default()
}

/// What steps waited for weights that do not stay in memory; none without any.
pub(super) fn streamed(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let s = &trace.events.step;
    let read: u64 = strip.steps.iter().map(|step| s.streamed[step.row]).sum();
    if read == 0 {
        return None;
    }
    let most = strip.steps.iter().map(|step| step.ns).max().unwrap_or(1).max(1) as f64;
    let w = (WIDTH / strip.steps.len() as f64).min(40.0);
    let mut canvas = Canvas::new(124.0, "Time of each step, and the part of it that waited for weights");
    for (i, step) in strip.steps.iter().enumerate() {
        let (h, waits) = (step.ns as f64 / most * 100.0, s.waited[step.row] as f64 / most * 100.0);
        let x = i as f64 * w;
        let tip = format!(
            "{} read, {} waited",
            bytes(s.streamed[step.row] as f64),
            time(s.waited[step.row] as f64)
        );
        canvas.mark(Box2::new(x, 104.0 - h, w - 1.5, h), "cb", &tip, Some(step.chosen.0));
        canvas.mark(Box2::new(x, 104.0 - waits, w - 1.5, waits), "ce", &tip, Some(step.chosen.0));
    }
    canvas.text(0.0, 120.0, "f", Anchor::Start, "steps →");
    let all: u64 = strip.steps.iter().map(|step| step.ns).sum();
    let waited: u64 = strip.steps.iter().map(|step| s.waited[step.row]).sum();
    let row = |step: &StripStep| {
        let at = step.row;
        vec![at.to_string(), bytes(s.streamed[at] as f64), time(s.waited[at] as f64), time(step.ns as f64)]
    };
    Some(Figure {
        id: "streamed",
        title: "Read from disk",
        key: bytes(read as f64),
        finding: format!(
            "*{}* of weights were read again, because they do not stay in memory; the steps waited *{}* of {} for them. The rest was read while others were computed.{}",
            bytes(read as f64),
            time(waited as f64),
            time(all as f64),
            streamed_ops(trace)
        ),
        caption: "Each bar is a step; its lower part waited.",
        command: "lamina plan --memory SIZE",
        colours: vec![("cb", "computing"), ("ce", "waiting for weights")],
        svg: canvas.finish(),
        table: (vec!["step", "read", "waited", "time"], strip.steps.iter().map(row).collect()),
        ..Figure::default()
    })
}
