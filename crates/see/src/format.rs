//! Numbers and texts for people.

use std::fmt::Write;

/// Nanoseconds as `1.64 ms`.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        n if n >= 1e9 => format!("{} s", number(n / 1e9)),
        n if n >= 1e6 => format!("{} ms", number(n / 1e6)),
        n if n >= 1e3 => format!("{} µs", number(n / 1e3)),
        n => format!("{} ns", number(n)),
    }
}

/// Bytes as `14.3 kB`.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, "B")
}

/// A count as `5.51 MFLOP` with the unit `FLOP`.
pub(crate) fn scaled(n: f64, unit: &str) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(size, _)| n >= *size) {
        Some((size, letter)) => format!("{} {letter}{unit}", number(n / size)),
        None => format!("{} {unit}", number(n)),
    }
}

/// Three significant digits, and whole numbers as they are.
pub(crate) fn number(n: f64) -> String {
    let text = match n.abs() {
        x if !x.is_finite() => return "-".to_owned(),
        x if x >= 1000.0 => return grouped(n.round() as i64),
        x if x >= 100.0 => format!("{n:.0}"),
        x if x >= 10.0 => format!("{n:.1}"),
        x if x >= 1.0 => format!("{n:.2}"),
        _ => format!("{n:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn grouped(n: i64) -> String {
    let digits = n.abs().to_string();
    let mut out = if n < 0 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Text inside HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A token's text as it can be shown: spaces and line ends are seen, what commands terminals or turns the direction of
/// writing is named, and long ones are cut.
pub(crate) fn visible(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push('…');
            break;
        }
        match c {
            ' ' => out.push('·'),
            '\n' => out.push('⏎'),
            '\r' => out.push('␍'),
            '\t' => out.push('⇥'),
            c if c.is_control() || turns(c) => _ = write!(out, "⟨{:X}⟩", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

/// Marks that turn the direction of writing, join nothing, or are not seen.
fn turns(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{61C}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.1234, 1.0, 1.5, 12.34, 123.4, 1234.0, -1_234_567.0].map(number);
        assert_eq!(all, ["0", "0.123", "1", "1.5", "12.3", "123", "1,234", "-1,234,567"]);
        assert_eq!(
            (time(1.64e6), bytes(14_300.0), scaled(5.51e6, "FLOP")),
            ("1.64 ms".into(), "14.3 kB".into(), "5.51 MFLOP".into())
        );
    }

    #[test]
    fn what_strangers_write_stays_text() {
        assert_eq!(escape("</script><b a='\"&"), "&lt;/script&gt;&lt;b a=&#39;&quot;&amp;");
        assert_eq!(visible("a b\n\u{202e}\u{1b}[2J", 40), "a·b⏎⟨202E⟩⟨1B⟩[2J");
        assert_eq!(visible(&"x".repeat(10_000), 3), "xxx…");
    }
}
