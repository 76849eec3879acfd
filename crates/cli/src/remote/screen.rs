//! What a server does now, as text.

use serde_json::Value;
use std::fmt::Write;

/// Samples that a graph shows at most.
const SAMPLES: usize = 600;
/// Parts of a step, the machine first.
const PHASES: [&str; 6] = ["machine", "schedule", "fill", "choose", "tell", "commit"];
const KINDS: [&str; 3] = ["decode", "prompt", "mixed"];

/// What rows of requests are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOrder {
    /// The oldest first.
    Age,
    /// Those with most tokens first.
    Tokens,
    /// The fastest first.
    Rate,
}

impl RequestOrder {
    const ALL: [RequestOrder; 3] = [RequestOrder::Age, RequestOrder::Tokens, RequestOrder::Rate];
    /// The key of each.
    pub const KEYS: [char; 3] = ['a', 't', 'r'];

    /// The order of that number.
    pub fn numbered(number: u8) -> RequestOrder {
        RequestOrder::ALL.get(usize::from(number)).copied().unwrap_or(RequestOrder::Age)
    }

    fn field(self) -> &'static str {
        match self {
            RequestOrder::Age => "age_ms",
            RequestOrder::Tokens => "tokens",
            RequestOrder::Rate => "rate",
        }
    }
}

/// Remembers the speeds of ten minutes, and draws samples.
#[derive(Debug, Default)]
pub struct Screen {
    out: Vec<f64>,
    read: Vec<f64>,
}

impl Screen {
    /// Takes an event: the sample that it is, or none where it tells of those before.
    pub fn take(&mut self, event: Value) -> Option<Value> {
        if let Some(lines) = event["before"].as_array() {
            let place = |name: &str| event["names"].as_array()?.iter().position(|n| n == name);
            let column = |name: &str| {
                let at = place(name).unwrap_or(usize::MAX);
                lines.iter().map(|line| line[at].as_f64().unwrap_or(0.0)).collect()
            };
            (self.out, self.read) = (column("out"), column("in"));
            return None;
        }
        for (list, name) in [(&mut self.out, "out"), (&mut self.read, "in")] {
            list.extend(event[name].as_f64());
            list.drain(..list.len().saturating_sub(SAMPLES));
        }
        Some(event)
    }

    /// A sample as lines of at most so many characters.
    pub fn drawn(&self, sample: &Value, order: RequestOrder, width: usize) -> String {
        let mut out = String::new();
        let width = width.clamp(40, 160);
        well(&mut out, sample);
        let rate = |name: &str| number(sample[name].as_f64());
        let sum = |name: &'static str| count(sample, |m| m[name].as_f64());
        let _ = writeln!(
            out,
            "\nspeed     {} tokens/s out, {} in   {} run, {} wait",
            rate("out"),
            rate("in"),
            sum("running"),
            sum("waiting")
        );
        out += &graph("out", &self.out, width);
        out += &graph("in", &self.read, width);
        for (name, title) in [("first_token", "to first"), ("between_tokens", "between")] {
            let told = &sample[name];
            let at = |q: &str| seconds(told[q].as_f64());
            let _ =
                write!(out, "{title:<10}half {}  9 of 10 {}  99 of 100 {}", at("p50"), at("p90"), at("p99"));
            if let (Some(kept), goal @ Some(_)) = (told["kept"].as_f64(), told["goal"].as_f64()) {
                let _ = write!(out, "   {:.0} % within {}", kept * 100.0, seconds(goal));
            }
            out.push('\n');
        }
        full(&mut out, sample, width);
        for (title, group, names) in [("steps", "kinds", &KINDS[..]), ("time", "phases", &PHASES[..])] {
            parts(&mut out, sample, title, group, names);
        }
        requests(&mut out, sample, order);
        out.lines().map(|line| cut(line, width) + "\n").collect()
    }
}

fn models(sample: &Value) -> impl Iterator<Item = &Value> {
    sample["models"].as_array().into_iter().flatten()
}

fn count(sample: &Value, of: impl Fn(&Value) -> Option<f64>) -> f64 {
    models(sample).filter_map(of).sum()
}

fn well(out: &mut String, sample: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let _ = writeln!(
        out,
        "lamina {}  up {}  {} connections{}",
        text(&sample["version"]),
        seconds(sample["uptime"].as_f64()),
        sample["connections"],
        if sample["draining"] == true { "  is about to end" } else { "" }
    );
    for model in models(sample) {
        let why = model["why"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        let age = model["step_age"].as_f64().filter(|age| *age > 1.0);
        let age = age.map_or_else(String::new, |age| format!("  last step {} ago", seconds(Some(age))));
        let _ = writeln!(out, "{}  {}{why}{age}", text(&model["name"]), text(&model["state"]));
    }
}

fn full(out: &mut String, sample: &Value, width: usize) {
    let page = |name: &'static str| count(sample, |m| m["pages"][name].as_f64());
    let (held, cached, free) = (page("held"), page("cached"), page("free"));
    let all = held + cached + free;
    if all > 0.0 {
        let cells = width.saturating_sub(50).clamp(10, 60);
        let part = |n: f64| (n / all * cells as f64).round() as usize;
        let (h, c) = (part(held), part(cached).min(cells - part(held).min(cells)));
        let bar = "█".repeat(h) + &"▒".repeat(c) + &"·".repeat(cells.saturating_sub(h + c));
        let share = |n: f64| format!("{:.0} %", n / all * 100.0);
        let _ = writeln!(out, "pages     {bar} held {}, kept {}", share(held), share(cached));
    }
    let preempted = count(sample, |m| m["preemptions"].as_f64());
    let _ = writeln!(out, "memory    {}   {preempted} preempted", bytes(sample["resident"].as_f64()));
}

fn parts(out: &mut String, sample: &Value, title: &str, group: &str, names: &[&str]) {
    let of = |name: &str| count(sample, |m| m[group][name].as_f64());
    let all: f64 = names.iter().map(|name| of(name)).sum();
    if all > 0.0 {
        let shares: Vec<String> =
            names.iter().map(|name| format!("{name} {:.0} %", of(name) / all * 100.0)).collect();
        let _ = writeln!(out, "{title:<10}{}", shares.join("  "));
    }
}

fn requests(out: &mut String, sample: &Value, order: RequestOrder) {
    let mut rows: Vec<&Value> = sample["requests"].as_array().into_iter().flatten().collect();
    let by = |row: &Value| row[order.field()].as_f64().unwrap_or(-1.0);
    rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<30} {:<10} {:>8} {:<10} {:>12} {:>7} {:>9}",
        "request", "key", "age", "now", "prompt", "tokens", "tokens/s"
    );
    for r in rows {
        let text = |name: &str, most: usize| cut(r[name].as_str().unwrap_or("-"), most);
        let prompt = match (r["computed"].as_u64(), r["prompt"].as_u64().unwrap_or(0)) {
            (Some(done), all) if done < all => format!("{done}/{all}"),
            (_, all) => all.to_string(),
        };
        let _ = writeln!(
            out,
            "{:<30} {:<10} {:>8} {:<10} {prompt:>12} {:>7} {:>9}",
            text("id", 30),
            text("key", 10),
            seconds(r["age_ms"].as_f64().map(|ms| ms / 1e3)),
            text("station", 10),
            r["tokens"].as_u64().unwrap_or(0),
            number(r["rate"].as_f64())
        );
    }
}

/// A line of dots, two samples and four heights in a character.
fn graph(name: &str, values: &[f64], width: usize) -> String {
    const LEFT: [u32; 4] = [0x40, 0x04, 0x02, 0x01];
    const RIGHT: [u32; 4] = [0x80, 0x20, 0x10, 0x08];
    let cells = width.saturating_sub(24).max(10);
    let shown = &values[values.len().saturating_sub(2 * cells)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let dots = |value: Option<&f64>, bits: &[u32; 4]| {
        let height = value.map_or(0, |v| (v / most * 4.0).ceil() as usize);
        bits.iter().take(height).sum::<u32>()
    };
    let cell = |pair: &[f64]| char::from_u32(0x2800 + dots(pair.first(), &LEFT) + dots(pair.get(1), &RIGHT));
    let line: String = shown.chunks(2).filter_map(cell).collect();
    format!("{name:<10}{line} most {}\n", number(Some(most)))
}

/// Without what a terminal would obey, and not longer than `most` characters.
fn cut(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(most).collect()
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v >= 1e4 => format!("{:.0} k", v / 1e3),
        Some(v) if v >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        Some(v) => format!("{v:.1}"),
    }
}

fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(s) if s < 1.0 => format!("{:.0} ms", s * 1e3),
        Some(s) if s < 100.0 => format!("{s:.1} s"),
        Some(s) if s < 6000.0 => format!("{:.0} min", s / 60.0),
        Some(s) => format!("{:.0} h", s / 3600.0),
    }
}

fn bytes(value: Option<f64>) -> String {
    match value.unwrap_or(0.0) {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b => format!("{:.0} MB", b / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sample_is_drawn_and_rows_have_an_order() {
        let mut screen = Screen::default();
        let before =
            json!({ "before": [[1.0, 5.0, null], [2.0, 50.0, 2.0]], "names": ["time", "out", "in"] });
        assert!(screen.take(before).is_none());
        let row = |id: &str, age: f64, tokens: u64| json!({ "id": id, "key": null, "age_ms": age, "station": "decode", "prompt": 9, "computed": 9, "tokens": tokens, "rate": 3.5 });
        let sample = json!({
            "version": "1", "uptime": 70, "connections": 3, "draining": false, "out": 123.4, "in": 0.0,
            "models": [{ "name": "tiny", "state": "loaded", "running": 2, "waiting": 0, "preemptions": 1,
                "pages": { "held": 3, "cached": 1, "free": 4 }, "kinds": { "decode": 0.9, "prompt": 0.1, "mixed": 0.0 },
                "phases": { "machine": 0.97, "schedule": 0.01, "fill": 0.0, "choose": 0.02, "tell": 0.0, "commit": 0.0 } }],
            "first_token": { "p50": 0.2, "p90": 0.5, "p99": 2.0, "goal": 1.0, "kept": 0.95 },
            "between_tokens": { "p50": null, "p90": null, "p99": null, "goal": null, "kept": null },
            "resident": 5e8, "requests": [row("young", 10.0, 90), row("old\u{1b}[2J", 9000.0, 5)],
        });
        let sample = screen.take(sample).expect("a sample");
        let text = screen.drawn(&sample, RequestOrder::Age, 100);
        for part in [
            "123 tokens/s out",
            "2 run, 0 wait",
            "95 % within 1.0 s",
            "held 38 %",
            "machine 97 %",
            "decode 90 %",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let first = |order| {
            let text = screen.drawn(&sample, order, 100);
            (text.find("old"), text.find("young"))
        };
        assert!(first(RequestOrder::Age).0 < first(RequestOrder::Age).1);
        assert!(first(RequestOrder::Tokens).0 > first(RequestOrder::Tokens).1);
        assert!(
            text.contains('⣿') || text.contains('\u{28ff}') || text.contains('⣇') || text.contains('⢸'),
            "{text}"
        );
    }
}
