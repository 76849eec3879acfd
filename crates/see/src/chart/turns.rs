//! The turns of sequences that shared steps.

use super::{
    Figure,
    axis::time_axis,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{number, time},
    read::{TextStrip, median, step_ns},
    trace::Trace,
};
use std::collections::BTreeMap;

const LEFT: f64 = 100.0;
const RIGHT: f64 = 90.0;
/// Sequences that are drawn.
const MOST: usize = 40;

/// A sequence's life.
#[derive(Default)]
struct SequenceLife {
    arrived: u64,
    /// Begin, end, rows, and whether a token came of it.
    steps: Vec<(u64, u64, u32, bool)>,
    preempted: Vec<u64>,
    prompt: u32,
    tokens: u32,
}

/// A row for each sequence; none for one alone.
pub(super) fn turns(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let lives = lives(trace);
    if lives.len() < 2 {
        return None;
    }
    let begin = lives.values().map(|l| l.arrived).min()?;
    let end = lives.values().flat_map(|l| l.steps.last()).map(|s| s.1).max()?;
    let span = (end.saturating_sub(begin)).max(1) as f64;
    let x = |at: u64| LEFT + at.saturating_sub(begin) as f64 / span * (WIDTH - LEFT - RIGHT);
    let shown = lives.len().min(MOST);
    let mut canvas =
        Canvas::new(shown as f64 * 28.0 + 34.0, "Each sequence over time: waiting, prompt, tokens");
    for (i, (id, life)) in lives.iter().take(MOST).enumerate() {
        let y = i as f64 * 28.0 + 4.0;
        let class = if Some(*id) == strip.sequence { "s" } else { "f" };
        canvas.text(0.0, y + 14.0, class, Anchor::Start, &format!("sequence {id}"));
        draw(&mut canvas, y, life, &x, end);
    }
    time_axis(&mut canvas, (LEFT, shown as f64 * 28.0 + 8.0, WIDTH - LEFT - RIGHT), span);
    let gaps: Vec<u64> = lives.values().flat_map(gaps).collect();
    let row = |(id, l): (&u64, &SequenceLife)| {
        let first = l.steps.iter().find(|s| s.3).map_or(0, |s| s.1.saturating_sub(l.arrived));
        vec![
            id.to_string(),
            l.prompt.to_string(),
            l.tokens.to_string(),
            time(first as f64),
            l.preempted.len().to_string(),
        ]
    };
    Some(Figure {
        id: "turns",
        title: "The turns",
        key: format!("{} sequences", lives.len()),
        finding: told(&lives, span, gaps),
        caption: "Grey: waiting. Blue: rows of its prompt. Orange: a token went out. Numbers: tokens of prompt → answer.",
        command: "lamina trace --requests FILE.jsonl",
        colours: vec![("cg", "waiting"), ("ca", "prompt"), ("cb", "tokens"), ("ce", "preempted")],
        svg: canvas.finish(),
        table: (
            vec!["sequence", "prompt", "tokens", "to the first token", "preempted"],
            lives.iter().map(row).collect(),
        ),
        ..Figure::default()
    })
}

/// The row of a sequence; `x` is the place of a time, and `end` that of the last step.
fn draw(canvas: &mut Canvas, y: f64, life: &SequenceLife, x: &impl Fn(u64) -> f64, end: u64) {
    let first = life.steps.first().map_or(end, |s| s.0);
    canvas.mark(
        Box2::new(x(life.arrived), y + 8.0, x(first) - x(life.arrived), 4.0),
        "cg",
        &format!("waited {}", time(first.saturating_sub(life.arrived) as f64)),
        None,
    );
    for (from, to, rows, token) in &life.steps {
        let tip = format!("{rows} rows, {}", time((to - from) as f64));
        match token {
            true if *rows == 1 => canvas.mark(Box2::new(x(*to) - 1.0, y, 1.8, 20.0), "cb", &tip, None),
            _ => canvas.mark(Box2::new(x(*from), y + 3.0, x(*to) - x(*from), 14.0), "ca", &tip, None),
        }
    }
    for at in &life.preempted {
        let mark = Box2::new(x(*at) - 1.5, y - 2.0, 3.0, 24.0);
        canvas.mark(mark, "ce", "preempted: its pages were needed", None);
    }
    let last = life.steps.last().map_or(end, |s| s.1);
    canvas.text(x(last) + 6.0, y + 14.0, "f", Anchor::Start, &format!("{} → {}", life.prompt, life.tokens));
}

fn lives(trace: &Trace) -> BTreeMap<u64, SequenceLife> {
    let (share, step, s) = (&trace.events.share, &trace.events.step, &trace.events.sequence);
    let mut lives: BTreeMap<u64, SequenceLife> = BTreeMap::new();
    for i in 0..share.step.len() {
        let Ok(row) = step.step.binary_search(&share.step[i]) else { continue };
        let (from, ns) = (step.begin[row], step_ns(trace, row));
        let life = lives
            .entry(share.sequence[i])
            .or_insert_with(|| SequenceLife { arrived: from, ..SequenceLife::default() });
        life.steps.push((from, from + ns, share.rows[i], share.left[i] == 0));
    }
    for i in 0..s.at.len() {
        let Some(life) = lives.get_mut(&s.sequence[i]) else { continue };
        match s.what[i].as_str() {
            "begin" => (life.arrived, life.prompt) = (s.at[i].saturating_sub(s.queue[i]), s.prompt_tokens[i]),
            "preempt" => life.preempted.push(s.at[i]),
            _ => (life.tokens, life.prompt) = (s.tokens[i], s.prompt_tokens[i]),
        }
    }
    lives
}

/// Times between tokens.
fn gaps(life: &SequenceLife) -> Vec<u64> {
    let ends: Vec<u64> = life.steps.iter().filter(|s| s.3).map(|s| s.1).collect();
    ends.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

fn told(lives: &BTreeMap<u64, SequenceLife>, span: f64, mut gaps: Vec<u64>) -> String {
    gaps.sort_unstable();
    let late = gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(0);
    let preempted: usize = lives.values().map(|l| l.preempted.len()).sum();
    let lost = match preempted {
        0 => String::new(),
        n => format!(" *{}* times one lost its pages to others and was computed again.", n),
    };
    format!(
        "*{} sequences* shared steps for *{}*. Half of all tokens came within *{}* of the one before, 99 % within *{}*.{lost}",
        number(lives.len() as f64),
        time(span),
        time(median(gaps).unwrap_or(0) as f64),
        time(late as f64)
    )
}
