//! Counts and speeds of an answer.

use lamina::Completion;

/// Counts and speeds in a line.
pub fn line(answer: &Completion) -> String {
    let (usage, t) = (answer.usage, answer.timings);
    let cached = match (usage.cached_tokens, usage.disk_tokens) {
        (0, _) => String::new(),
        (cached, 0) => format!(" ({cached} cached)"),
        (cached, disk) => format!(" ({cached} cached, {disk} of them on disk)"),
    };
    let s = t.speculation;
    let drafts = match s.steps {
        0 => String::new(),
        _ => format!("; {} of {} drafts by {} were right", s.accepted, s.drafted, s.method),
    };
    let media = match (answer.media.image_tokens(), answer.media.audio_tokens()) {
        (0, 0) => String::new(),
        (n, heard) => {
            let of = [(n, "pictures"), (heard, "sounds")].into_iter().filter(|(n, _)| *n > 0);
            let of: Vec<String> = of.map(|(n, of)| format!("{n} of {of}")).collect();
            format!("; {}, encoded in {:.2} s", of.join(", "), answer.media.encode_seconds)
        }
    };
    format!(
        "prompt {} tokens{cached} in {:.2} s, {:.1} tok/s{media}; answer {} tokens in {:.2} s, {:.1} tok/s; ended by {}{drafts}",
        usage.prompt_tokens,
        t.prefill_seconds,
        prefill_speed(answer),
        usage.completion_tokens,
        t.decode_seconds,
        decode_speed(answer),
        answer.finish_reason.name(),
    )
}

/// Tokens of the prompt that were computed, per second.
pub fn prefill_speed(answer: &Completion) -> f64 {
    let t = answer.timings;
    speed(t.prompt_tokens.saturating_sub(t.cached_tokens), t.prefill_seconds)
}

/// Tokens of the answer per second. The first one belongs to the prompt: its time is not in `decode_seconds`.
pub fn decode_speed(answer: &Completion) -> f64 {
    speed(answer.timings.tokens.saturating_sub(1), answer.timings.decode_seconds)
}

fn speed(tokens: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::Timings;

    #[test]
    fn the_first_token_is_not_counted_as_decoded() {
        let timings = Timings { tokens: 11, decode_seconds: 2.0, ..Timings::default() };
        let answer = Completion { timings, ..Completion::empty() };
        assert_eq!(decode_speed(&answer), 5.0);
        assert_eq!(decode_speed(&Completion::empty()), 0.0);
        assert_eq!(prefill_speed(&Completion::empty()), 0.0);
    }
}
