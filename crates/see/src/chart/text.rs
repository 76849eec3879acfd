//! When tokens were chosen, and when their bytes went out.

use super::{
    Figure,
    axis::time_axis,
    canvas::{Anchor, Box2, Canvas, WIDTH},
};
use crate::{
    format::{bytes, number, time, visible},
    read::{TextStrip, median},
    trace::Trace,
};

const LEFT: f64 = 100.0;
/// Texts whose way from their tokens is drawn; of more, lines would cover one another.
const MOST_LINES: usize = 300;

/// A text that went out.
struct TextOut {
    /// The place of its token; none for the rest behind the last.
    place: Option<usize>,
    /// When its token was chosen.
    chosen: u64,
    at: u64,
    bytes: u32,
    held: u32,
}

/// Tokens above, their texts below, over one axis of time; none where texts were not recorded.
pub(super) fn text(trace: &Trace, strip: &TextStrip) -> Option<Figure> {
    let all = texts(trace, strip);
    let (first, last) = (all.iter().map(|t| t.chosen).min()?, all.iter().map(|t| t.at).max()?);
    let span = last.saturating_sub(first).max(1) as f64;
    let x = |at: u64| LEFT + at.saturating_sub(first) as f64 / span * (WIDTH - LEFT - 10.0);
    let mut canvas = Canvas::new(166.0, "When each token was chosen, and when its text went out");
    let most = all.iter().map(|t| t.held).max().unwrap_or(0);
    let lanes = [(22.0, "chosen"), (92.0, "went out"), (124.0, "held back")];
    for (y, name) in lanes.iter().take(if most > 0 { 3 } else { 2 }) {
        canvas.text(0.0, *y, "f", Anchor::Start, name);
    }
    let word = |t: &TextOut| {
        let token = t.place.and_then(|place| strip.tokens.get(place));
        token.map_or("the rest".to_owned(), |token| visible(trace.word(token.id), 24))
    };
    for t in &all {
        let tip = format!("{}: {} bytes, {} behind its token", word(t), t.bytes, time(t.late() as f64));
        let lane = |at: u64, y: f64| Box2::new(x(at) - 1.0, y, 2.0, 20.0);
        canvas.mark(lane(t.chosen, 8.0), "cb", &tip, t.place);
        if t.bytes > 0 {
            if all.len() <= MOST_LINES {
                canvas.path(&format!("M{:.1} 28L{:.1} 78", x(t.chosen), x(t.at)), "lg");
            }
            canvas.mark(lane(t.at, 78.0), "ca", &tip, t.place);
        }
        if t.held > 0 {
            let h = 22.0 * f64::from(t.held) / f64::from(most);
            let tip = format!("{}: {} bytes are held back", word(t), t.held);
            canvas.mark(Box2::new(x(t.at) - 1.5, 108.0, 3.0, h), "ce", &tip, t.place);
        }
    }
    time_axis(&mut canvas, (LEFT, 138.0, WIDTH - LEFT - 10.0), span);
    let row = |t: &TextOut| {
        let late = time(t.late() as f64);
        let place = t.place.map_or(String::new(), |place| place.to_string());
        vec![place, word(t), time(t.chosen as f64), late, t.bytes.to_string(), t.held.to_string()]
    };
    let sent: u64 = all.iter().map(|t| u64::from(t.bytes)).sum();
    Some(Figure {
        id: "text",
        title: "From tokens to bytes",
        key: bytes(sent as f64),
        finding: finding(trace, strip, &all),
        caption: "Above: a token was chosen. Below: its text went out, the work of the next step beside it. Gold: bytes that waited, since they begin a character or a stop string.",
        command: "lamina trace --figure text",
        colours: vec![("cb", "token"), ("ca", "text"), ("ce", "held back")],
        svg: canvas.finish(),
        table: (vec!["place", "token", "chosen", "later by", "bytes", "held"], all.iter().map(row).collect()),
        ..Figure::default()
    })
}

impl TextOut {
    /// Nanoseconds from its token to itself.
    fn late(&self) -> u64 {
        self.at.saturating_sub(self.chosen)
    }
}

/// The texts of the request, each with its token: they are in the same order, and a token that ends an answer has none.
fn texts(trace: &Trace, strip: &TextStrip) -> Vec<TextOut> {
    let (text, token) = (&trace.events.text, &trace.events.token);
    let places = strip.tokens.iter().enumerate().filter_map(|(place, t)| Some((place, token.step[t.event?])));
    let mut tokens = places.filter_map(|(place, step)| Some((place, chosen_at(trace, step)?)));
    let mut before = None;
    let own = (0..text.at.len()).filter(|&i| Some(text.sequence[i]) == strip.sequence);
    own.filter_map(|i| {
        let (place, chosen) = match tokens.next() {
            Some((place, at)) => (Some(place), at),
            None => (None, before?),
        };
        before = Some(chosen);
        Some(TextOut { place, chosen, at: text.at[i], bytes: text.bytes[i], held: text.held[i] })
    })
    .collect()
}

/// When the tokens of a step were chosen; none where the step is not known any more.
fn chosen_at(trace: &Trace, step: u64) -> Option<u64> {
    let s = &trace.events.step;
    let row = s.step.binary_search(&step).ok()?;
    Some(s.begin[row] + s.schedule[row] + s.fill[row] + s.tell[row] + s.machine[row] + s.choose[row])
}

fn finding(trace: &Trace, strip: &TextStrip, all: &[TextOut]) -> String {
    let s = &trace.events.sequence;
    let own = |what: &str| {
        (0..s.at.len()).find(move |&i| s.what[i] == what && Some(s.sequence[i]) == strip.sequence)
    };
    let mut said = String::new();
    let first = all.iter().find(|t| t.bytes > 0);
    if let (Some(begin), Some(first)) = (own("begin"), first) {
        let came = s.at[begin].saturating_sub(s.queue[begin]);
        said += &format!(
            "The first text went out *{}* after its request had come. ",
            time(first.at.saturating_sub(came) as f64)
        );
    }
    let late = all.iter().filter(|t| t.bytes > 0).map(TextOut::late).collect();
    said += &format!(
        "Half of all texts went out within *{}* of their token.",
        time(median(late).unwrap_or(0) as f64)
    );
    let most = all.iter().map(|t| t.held).max().unwrap_or(0);
    if most > 0 {
        said += &format!(
            " At most *{} bytes* were held back, until a character was whole or a stop string could not be meant.",
            number(f64::from(most))
        );
    }
    let reason = own("end").map(|i| s.reason[i].as_str()).filter(|reason| !reason.is_empty());
    said += &reason.map_or(String::new(), |reason| format!(" It ended by *{reason}*."));
    said + &wire(trace, strip)
}

/// What the request's connection took and gave; empty where no server has recorded it.
fn wire(trace: &Trace, strip: &TextStrip) -> String {
    let (s, w) = (&trace.events.sequence, &trace.events.wire);
    let tag = (0..s.at.len()).find(|&i| Some(s.sequence[i]) == strip.sequence && s.tag[i] != 0);
    let row = tag.and_then(|i| w.tag.iter().position(|tag| *tag == s.tag[i]));
    row.map_or(String::new(), |i| {
        let (received, sent) = (bytes(w.received[i] as f64), bytes(w.sent[i] as f64));
        let waited = match w.blocked[i] {
            0 => "never waited for its reader".to_owned(),
            ns => format!("waited *{}* for its reader", time(ns as f64)),
        };
        format!(" {received} of request became {sent} of answer on its connection, which {waited}.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TracedModel, TracedRequest};

    /// A request of three tokens, of which the second begins a character.
    fn trace() -> Trace {
        let mut trace: Trace =
            serde_json::from_value(serde_json::json!({ "format": Trace::FORMAT, "version": 1 })).unwrap();
        trace.run.model = TracedModel { vocab: 10, ..TracedModel::default() };
        trace.words = (1..4).map(|id| (id, format!("w{id}"))).collect();
        let (prompt, answer) = (vec![1], vec![2, 3, 1]);
        trace.requests =
            vec![TracedRequest { sequence: Some(7), prompt, answer, ..TracedRequest::default() }];
        let e = &mut trace.events;
        let text = |text: &str| text.to_owned();
        e.sequence.push(1_000, 7, 5, text("begin"), 0, 1_000, 0, 0, 0, 1, 0, 0, 0, 0, text(""));
        for (step, id) in [(0, 2), (1, 3), (2, 1)] {
            let begin = 1_000 + step * 10_000;
            e.step.push(step, begin, 0, 0, 0, 5_000, 1_000, 0, 1, 0, 1, 0, 9, 0, 0, 0, 0);
            e.share.push(step, 7, step as u32, 1, 0, 0, 0, text(""));
            e.token.push(step, 7, id, false, 10, 0, None, None);
        }
        for (at, bytes, held) in [(12_000, 4, 0), (22_000, 0, 2), (32_000, 3, 0)] {
            e.text.push(at, 7, bytes, held);
        }
        trace
    }

    #[test]
    fn texts_stand_beside_their_tokens() {
        let mut trace = trace();
        let strip = TextStrip::of(&trace);
        let all = texts(&trace, &strip);
        let told: Vec<_> = all.iter().map(|t| (t.place, t.late(), t.bytes, t.held)).collect();
        assert_eq!(told, [(Some(1), 5_000, 4, 0), (Some(2), 5_000, 0, 2), (Some(3), 5_000, 3, 0)]);
        let figure = text(&trace, &strip).unwrap();
        assert!(
            figure.finding.contains("*12 µs* after its request") && figure.finding.contains("*2 bytes*"),
            "{}",
            figure.finding
        );
        assert!(!figure.finding.contains("connection"), "no server has recorded it");
        trace.events.wire.push(5, 12_000, 33_000, 900, 2_000, 0);
        let figure = text(&trace, &strip).unwrap();
        assert!(figure.finding.contains("never waited for its reader"), "{}", figure.finding);
        trace.events.text = Default::default();
        assert!(text(&trace, &strip).is_none());
    }
}
