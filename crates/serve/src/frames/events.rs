//! Events of an engine as bytes: a mark is a row of them, each with the number of the first answer to its prompt.

use bytes::Buf;
use lamina::{Event, FinishReason, LengthBy, Scored, StopBy, Timings, Token, sample::SamplerState};
use std::time::Instant;

/// Appends an event that an answer can go on behind; others are nothing.
pub fn write_event(out: &mut Vec<u8>, first: usize, event: &Event) {
    match event {
        Event::Token(token) => {
            out.push(1);
            write_size(out, first);
            write_token(out, token);
        }
        Event::Finished { index, text, reason, timings, .. } => {
            out.push(2);
            write_size(out, first);
            write_size(out, *index);
            write_text(out, text);
            let (kind, number) = reason_numbers(*reason);
            out.push(kind);
            out.extend_from_slice(&number.to_le_bytes());
            write_timings(out, timings);
        }
        Event::Prompt { start, tokens } => {
            out.push(3);
            write_size(out, first);
            write_size(out, *start);
            write_size(out, tokens.len());
            for Scored { id, logprob, top } in tokens {
                out.extend_from_slice(&id.to_le_bytes());
                out.extend_from_slice(&logprob.to_le_bytes());
                write_top(out, top);
            }
        }
        Event::Progress { prompt, cached, computed } => {
            out.push(4);
            [first, *prompt, *cached, *computed].iter().for_each(|n| write_size(out, *n));
        }
        Event::Failed(_) => {}
    }
}

/// All events of a mark; none where it is none.
pub fn read_events(mut bytes: &[u8]) -> Option<Vec<(usize, Event)>> {
    let mut events = vec![];
    while let Ok(kind) = bytes.try_get_u8() {
        let first = read_size(&mut bytes)?;
        let event = match kind {
            1 => Event::Token(read_token(&mut bytes)?),
            2 => read_end(&mut bytes)?,
            3 => {
                let (start, count) = (read_size(&mut bytes)?, read_size(&mut bytes)?);
                let scored = |bytes: &mut &[u8]| {
                    let (id, logprob) = (bytes.try_get_u32_le().ok()?, bytes.try_get_f32_le().ok()?);
                    Some(Scored { id, logprob, top: read_top(bytes)? })
                };
                Event::Prompt {
                    start,
                    tokens: (0..count).map(|_| scored(&mut bytes)).collect::<Option<_>>()?,
                }
            }
            4 => {
                let mut size = || read_size(&mut bytes);
                Event::Progress { prompt: size()?, cached: size()?, computed: size()? }
            }
            _ => return None,
        };
        events.push((first, event));
    }
    Some(events)
}

fn write_size(out: &mut Vec<u8>, size: usize) {
    out.extend_from_slice(&(size as u32).to_le_bytes());
}

fn read_size(bytes: &mut &[u8]) -> Option<usize> {
    bytes.try_get_u32_le().ok().map(|n| n as usize)
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_size(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn read_text(bytes: &mut &[u8]) -> Option<String> {
    let length = read_size(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn write_top(out: &mut Vec<u8>, top: &[(u32, f32)]) {
    write_size(out, top.len());
    for (id, logprob) in top {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&logprob.to_le_bytes());
    }
}

fn read_top(bytes: &mut &[u8]) -> Option<Vec<(u32, f32)>> {
    let count = read_size(bytes)?;
    (0..count).map(|_| Some((bytes.try_get_u32_le().ok()?, bytes.try_get_f32_le().ok()?))).collect()
}

/// Which parts of a token follow that few have.
const FORCED: u8 = 1;
const STATE: u8 = 2;
const SURPRISE: u8 = 4;
const LOGPROB: u8 = 8;

fn write_token(out: &mut Vec<u8>, token: &Token) {
    let surprise = token.sampler.and_then(|s| s.surprise);
    let flag = |has: bool, flag: u8| if has { flag } else { 0 };
    out.push(
        flag(token.forced, FORCED)
            | flag(token.sampler.is_some(), STATE)
            | flag(surprise.is_some(), SURPRISE)
            | flag(token.logprob.is_some(), LOGPROB),
    );
    write_size(out, token.index);
    out.extend_from_slice(&token.id.to_le_bytes());
    write_text(out, &token.text);
    if let Some(state) = token.sampler {
        [state.seed, state.index, state.drawn].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    }
    surprise.iter().for_each(|s| out.extend_from_slice(&s.to_le_bytes()));
    if let Some(logprob) = token.logprob {
        out.extend_from_slice(&logprob.to_le_bytes());
        write_top(out, &token.top);
    }
}

fn read_token(bytes: &mut &[u8]) -> Option<Token> {
    let flags = bytes.try_get_u8().ok()?;
    let has = |flag: u8| flags & flag != 0;
    let (index, id, text) = (read_size(bytes)?, bytes.try_get_u32_le().ok()?, read_text(bytes)?);
    let mut token = Token { index, id, text, forced: has(FORCED), logprob: None, top: vec![], sampler: None };
    if has(STATE) {
        let mut number = || bytes.try_get_u64_le().ok();
        let (seed, index, drawn) = (number()?, number()?, number()?);
        let surprise = if has(SURPRISE) { Some(bytes.try_get_f32_le().ok()?) } else { None };
        token.sampler = Some(SamplerState { seed, index, drawn, surprise });
    }
    if has(LOGPROB) {
        token.logprob = Some(bytes.try_get_f32_le().ok()?);
        token.top = read_top(bytes)?;
    }
    Some(token)
}

fn read_end(bytes: &mut &[u8]) -> Option<Event> {
    let (index, text) = (read_size(bytes)?, read_text(bytes)?);
    let reason = reason_of(bytes.try_get_u8().ok()?, bytes.try_get_u32_le().ok()?)?;
    let timings = read_timings(bytes)?;
    Some(Event::Finished { index, text, reason, complete: None, sampler: None, timings })
}

fn reason_numbers(reason: FinishReason) -> (u8, u32) {
    match reason {
        FinishReason::Stop { by: StopBy::End(id) } => (0, id),
        FinishReason::Stop { by: StopBy::Text(place) } => (1, place as u32),
        FinishReason::Stop { by: StopBy::Grammar } => (2, 0),
        FinishReason::Length { by: LengthBy::MaxTokens } => (3, 0),
        FinishReason::Length { by: LengthBy::Context } => (4, 0),
        FinishReason::Length { by: LengthBy::Deadline } => (5, 0),
        FinishReason::Cancelled => (6, 0),
    }
}

fn reason_of(kind: u8, number: u32) -> Option<FinishReason> {
    Some(match kind {
        0 => FinishReason::Stop { by: StopBy::End(number) },
        1 => FinishReason::Stop { by: StopBy::Text(number as usize) },
        2 => FinishReason::Stop { by: StopBy::Grammar },
        3 => FinishReason::Length { by: LengthBy::MaxTokens },
        4 => FinishReason::Length { by: LengthBy::Context },
        5 => FinishReason::Length { by: LengthBy::Deadline },
        6 => FinishReason::Cancelled,
        _ => return None,
    })
}

fn write_timings(out: &mut Vec<u8>, t: &Timings) {
    [t.prompt_tokens, t.cached_tokens, t.disk_tokens, t.tokens].iter().for_each(|n| write_size(out, *n));
    [t.preemptions, t.context_shifts].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    [
        t.queue_seconds,
        t.prefill_seconds,
        t.decode_seconds,
        t.machine_seconds,
        t.io_wait_seconds,
        t.preempted_seconds,
    ]
    .iter()
    .for_each(|s| out.extend_from_slice(&s.to_le_bytes()));
    [t.speculation.drafted, t.speculation.accepted, t.speculation.steps]
        .iter()
        .for_each(|n| write_size(out, *n));
}

fn read_timings(bytes: &mut &[u8]) -> Option<Timings> {
    let mut t = Timings::default();
    for n in [&mut t.prompt_tokens, &mut t.cached_tokens, &mut t.disk_tokens, &mut t.tokens] {
        *n = read_size(bytes)?;
    }
    for n in [&mut t.preemptions, &mut t.context_shifts] {
        *n = bytes.try_get_u32_le().ok()?;
    }
    let seconds = [
        &mut t.queue_seconds,
        &mut t.prefill_seconds,
        &mut t.decode_seconds,
        &mut t.machine_seconds,
        &mut t.io_wait_seconds,
        &mut t.preempted_seconds,
    ];
    for s in seconds {
        *s = bytes.try_get_f64_le().ok()?;
    }
    for n in [&mut t.speculation.drafted, &mut t.speculation.accepted, &mut t.speculation.steps] {
        *n = read_size(bytes)?;
    }
    // An answer that has ended was begun: moments of another process mean nothing here.
    t.times.first_step = Some(Instant::now());
    Some(t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Event> {
        let state = SamplerState { seed: u64::MAX, index: 2, drawn: 1 << 40, surprise: Some(4.5) };
        let token = |logprob, sampler| {
            let top = if logprob == Some(-0.1) { vec![(3, f32::NEG_INFINITY), (4, -2.5)] } else { vec![] };
            Event::Token(Token {
                index: 1,
                id: 70_000,
                text: "\u{e9}".into(),
                forced: true,
                logprob,
                top,
                sampler,
            })
        };
        let mut timings = Timings { prompt_tokens: 7, tokens: 9, decode_seconds: 0.1, ..Timings::default() };
        timings.speculation.accepted = 3;
        let end = |reason| Event::Finished {
            index: 1,
            text: "rest".into(),
            reason,
            complete: None,
            sampler: None,
            timings,
        };
        let scored = vec![Scored { id: 5, logprob: -1.0, top: vec![(5, -1.0)] }];
        let mut events = vec![
            token(None, Some(state)),
            token(Some(-0.1), Some(SamplerState { surprise: None, ..state })),
            token(Some(0.0), None),
            Event::Prompt { start: 1, tokens: scored },
            Event::Progress { prompt: 70_000, cached: 64, computed: 512 },
        ];
        events.extend((0..7).map(|kind| end(reason_of(kind, 0).expect("a reason"))));
        events
    }

    #[test]
    fn events_come_back_and_cut_ones_do_not() {
        let (mut bytes, mut ends) = (vec![], vec![0]);
        for event in some() {
            write_event(&mut bytes, 3, &event);
            ends.push(bytes.len());
        }
        let without_moments = |events: Vec<(usize, Event)>| -> Vec<Event> {
            let tidy = |(first, mut event)| {
                assert_eq!(first, 3);
                if let Event::Finished { timings, .. } = &mut event {
                    timings.times = Timings::default().times;
                }
                event
            };
            events.into_iter().map(tidy).collect()
        };
        for at in 0..=bytes.len() {
            let read = read_events(&bytes[..at]).map(without_moments);
            let whole = ends.iter().position(|end| *end == at);
            assert_eq!(read, whole.map(|n| some()[..n].to_vec()), "cut at {at}");
        }
        assert_eq!(read_events(&[9, 0, 0, 0, 0]), None);
    }
}
