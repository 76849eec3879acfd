//! Two recordings beside one another.

use super::{
    Figure, PastFigure,
    canvas::{Anchor, Box2, Canvas, WIDTH},
    figures,
};
use crate::{
    format::{bytes, number, time},
    read::{TextStrip, doubts, median, op_limits, phases, step_ns},
    trace::Trace,
};

/// Kinds of operators that are compared.
const KINDS: usize = 6;
const LEFT: f64 = 210.0;

/// Something that both recordings have.
struct Compared {
    name: String,
    now: f64,
    before: f64,
}

impl Compared {
    /// How many times what it was.
    fn ratio(&self) -> f64 {
        self.now / self.before
    }
}

/// The figures of a trace, each with that of an older one below and the difference in its sentence; before them the times of
/// both on one scale.
pub fn against(trace: &Trace, old: &Trace) -> Vec<Figure> {
    let mut past = figures(old);
    let mut all: Vec<Figure> = times(trace, old).into_iter().collect();
    for mut figure in figures(trace) {
        if let Some(at) = past.iter().position(|f| f.id == figure.id) {
            let before = past.remove(at);
            figure.finding =
                format!("{} {}", difference(figure.id, trace, old), figure.finding).trim().to_owned();
            figure.before = Some(PastFigure { finding: before.finding, svg: before.svg });
        }
        all.push(figure);
    }
    all
}

/// What the older recording is of, in words; with a warning where the two are not of one kind.
pub(crate) fn told_of(trace: &Trace, old: &Trace) -> String {
    let name = |t: &Trace| {
        let m = &t.run.model;
        format!("{} as {}, {} threads, {}, lamina {}", m.name, m.r#type, m.threads, m.device, t.run.version)
    };
    let prompt = |t: &Trace| t.requests.first().map(|r| r.prompt.clone());
    let answer = |t: &Trace| t.requests.first().map(|r| r.answer.clone());
    let texts = match (prompt(trace) == prompt(old), answer(trace) == answer(old)) {
        (false, _) => "the prompts are not the same",
        (true, false) => "the prompt is the same, the answers are not",
        (true, true) => "prompt and answer are the same",
    };
    format!("Compared with a recording of {}: {texts}.", name(old))
}

/// Times of both on one scale.
fn times(trace: &Trace, old: &Trace) -> Option<Figure> {
    let all = compared(trace, old);
    let most = all.iter().map(|c| c.now.max(c.before)).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let scale = (WIDTH - LEFT - 220.0) / most;
    let mut canvas =
        Canvas::new(all.len() as f64 * 38.0 + 6.0, "Times of both recordings in pairs, all on one scale");
    for (i, c) in all.iter().enumerate() {
        let y = i as f64 * 38.0;
        let words = format!("{} now, {} before", time(c.now), time(c.before));
        canvas.text(LEFT - 8.0, y + 19.0, "", Anchor::End, &c.name);
        canvas.mark(Box2::new(LEFT, y + 3.0, c.now * scale, 13.0), "cb", &words, None);
        canvas.mark(Box2::new(LEFT, y + 17.0, c.before * scale, 9.0), "cg", &words, None);
        let end = LEFT + c.now.max(c.before) * scale + 8.0;
        canvas.text(end, y + 14.0, "s", Anchor::Start, &format!("{} times", number(c.ratio())));
        canvas.text(end, y + 27.0, "f", Anchor::Start, &format!("{}, was {}", time(c.now), time(c.before)));
    }
    let row = |c: &Compared| {
        let ratio = number(c.ratio());
        vec![c.name.clone(), format!("{:.0}", c.now), format!("{:.0}", c.before), ratio]
    };
    Some(Figure {
        id: "against",
        title: "Then and now",
        key: all.first().map_or(String::new(), |c| format!("{} times", number(c.ratio()))),
        finding: told(&all),
        caption: "Pairs of bars on one scale: now above in orange, before below in grey. The figures that follow show both, each on a scale of its own.",
        command: "lamina trace --against OLD.json",
        colours: vec![("cb", "now"), ("cg", "before")],
        svg: canvas.finish(),
        table: (
            vec!["what", "nanoseconds now", "nanoseconds before", "times"],
            all.iter().map(row).collect(),
        ),
        ..Figure::default()
    })
}

fn told(all: &[Compared]) -> String {
    let mut text: String = all
        .iter()
        .take(2)
        .map(|c| {
            format!(
                "{} takes *{}* and took {}: {}. ",
                upper(&c.name),
                time(c.now),
                time(c.before),
                change(c.now, c.before)
            )
        })
        .collect();
    let moved = |c: &&Compared| (c.now - c.before).abs();
    let kinds =
        all.iter().filter(|c| c.name.starts_with("all ")).max_by(|a, b| moved(a).total_cmp(&moved(b)));
    if let Some(kind) = kinds {
        text += &format!(
            "Of the operators of one token *{}* changed most, by {}.",
            &kind.name[4..],
            time(moved(&kind))
        );
    }
    text.trim_end().to_owned()
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A token of the prompt and of the answer, phases of a step, and kinds of operators of one token, where both have them.
fn compared(trace: &Trace, old: &Trace) -> Vec<Compared> {
    let mut all = vec![];
    let mut push = |name: &str, now: Option<f64>, before: Option<f64>| {
        if let (Some(now), Some(before)) = (now, before)
            && now > 0.0
            && before > 0.0
        {
            all.push(Compared { name: name.to_owned(), now, before });
        }
    };
    let strips = [TextStrip::of(trace), TextStrip::of(old)];
    let [now, before] = [(trace, &strips[0]), (old, &strips[1])];
    push("a token of the answer", decode(now), decode(before));
    push("a token of the prompt", prompt(now), prompt(before));
    let words = [
        "giving out rows",
        "filling the batch",
        "telling texts",
        "the machine",
        "choosing tokens",
        "keeping tokens",
    ];
    let (now_phases, old_phases) = (middle_phases(trace), middle_phases(old));
    for (word, (now, before)) in words.iter().zip(now_phases.into_iter().zip(old_phases)) {
        push(&format!("a step: {word}"), now, before);
    }
    let kinds = |(t, strip): (&Trace, &TextStrip)| {
        strip.middle_decode.map(|row| op_limits(t, row)).unwrap_or_default()
    };
    let old_kinds = kinds(before);
    for kind in kinds(now).iter().take(KINDS) {
        let other = old_kinds.iter().find(|k| k.name == kind.name).map(|k| k.ns as f64);
        push(&format!("all {}", kind.name), Some(kind.ns as f64), other);
    }
    all
}

/// The middle step's nanoseconds of each phase.
fn middle_phases(trace: &Trace) -> [Option<f64>; 6] {
    let s = &trace.events.step;
    let columns = [&s.schedule, &s.fill, &s.tell, &s.machine, &s.choose, &s.commit];
    columns.map(|column| median(column.clone()).map(|ns| ns as f64))
}

/// Nanoseconds of a step of one token.
fn decode((trace, strip): (&Trace, &TextStrip)) -> Option<f64> {
    strip.middle_decode.map(|row| step_ns(trace, row) as f64)
}

/// Nanoseconds of a token of the prompt.
fn prompt((_, strip): (&Trace, &TextStrip)) -> Option<f64> {
    let steps = || strip.steps.iter().filter(|s| s.prompt);
    let rows: u32 = steps().map(|s| s.rows).sum();
    (rows > 0).then(|| steps().map(|s| s.ns).sum::<u64>() as f64 / f64::from(rows))
}

/// How the number that a figure is about has changed; empty where it has none.
fn difference(id: &str, trace: &Trace, old: &Trace) -> String {
    let (now, before) = (TextStrip::of(trace), TextStrip::of(old));
    let pair = |f: &dyn Fn(&Trace, &TextStrip) -> Option<f64>| Some((f(trace, &now)?, f(old, &before)?));
    let read = |f: fn(&Trace, &TextStrip) -> Option<f64>| pair(&f);
    let (what, form, values): (&str, fn(f64) -> String, _) = match id {
        "letters" => ("tokens of the prompt", number, read(|_, s| Some(s.prompt_len() as f64))),
        "steps" | "limits" | "lanes" => ("for a token", time, read(|t, s| decode((t, s)))),
        "floor" => ("of weights", bytes, read(|t, _| Some(t.run.model.bytes as f64))),
        "plan" => ("operators", number, read(|t, _| Some(t.plan.ops.len() as f64))),
        "pages" => ("of cache for a token", bytes, read(|t, _| Some(t.run.model.kv_bytes_per_token))),
        "turns" => ("requests", number, read(|t, _| Some(t.requests.len() as f64))),
        "choice" => ("bits of doubt about a token", number, read(doubt)),
        "drafts" => {
            ("right guesses", number, read(|_, s| Some(s.steps.iter().map(|s| f64::from(s.drafts.1)).sum())))
        }
        "streamed" => (
            "read again",
            bytes,
            read(|t, s| Some(s.steps.iter().map(|s| t.events.step.streamed[s.row] as f64).sum())),
        ),
        "sums" => ("in all", time, read(|t, _| Some(phases(t).iter().map(|p| p.1).sum::<u64>() as f64))),
        _ => return String::new(),
    };
    match values {
        Some((now, before)) if now != before => {
            format!("Now *{}* {what}, before {}: {}.", form(now), form(before), change(now, before))
        }
        _ => String::new(),
    }
}

/// Mean doubt about a token behind the samplers.
fn doubt(trace: &Trace, strip: &TextStrip) -> Option<f64> {
    let all = doubts(trace, strip);
    let free = all.iter().filter(|d| !d.forced).map(|d| f64::from(d.drawn));
    let count = free.clone().count();
    (count > 0).then(|| free.sum::<f64>() / count as f64)
}

/// A change as `*20 % less*`.
fn change(now: f64, before: f64) -> String {
    match 100.0 * (now - before) / before {
        p if !p.is_finite() => "there was none".to_owned(),
        p if p.abs() < 0.5 => "nearly the same".to_owned(),
        p if p > 100.0 => format!("*{} times as much*", number(now / before)),
        p => format!("*{} % {}*", number(p.abs().round()), if p > 0.0 { "more" } else { "less" }),
    }
}
