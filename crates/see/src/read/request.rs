//! One request of a recording of many.

use crate::trace::Trace;
use std::collections::BTreeSet;

/// The part of a recording that is about the request with this number: the steps in which it had rows, with who shared them,
/// and of the others no text. None where no step of it is in the recording.
pub fn of_tag(mut trace: Trace, tag: u64) -> Option<Trace> {
    let e = &mut trace.events;
    let own: BTreeSet<u64> = e
        .sequence
        .sequence
        .iter()
        .zip(&e.sequence.tag)
        .filter(|(_, t)| **t == tag)
        .map(|(s, _)| *s)
        .collect();
    let shares = || e.share.sequence.iter().zip(&e.share.step);
    let steps: BTreeSet<u64> = shares().filter(|(s, _)| own.contains(s)).map(|(_, step)| *step).collect();
    if steps.is_empty() {
        return None;
    }
    let beside: BTreeSet<u64> = shares().filter(|(_, step)| steps.contains(step)).map(|(s, _)| *s).collect();
    let within = |column: &[u64]| column.iter().map(|step| steps.contains(step)).collect::<Vec<bool>>();
    let mine = |column: &[u64]| column.iter().map(|s| own.contains(s)).collect::<Vec<bool>>();
    let (step, share, op, page) =
        (within(&e.step.step), within(&e.share.step), within(&e.op.step), within(&e.page.step));
    let sequence: Vec<bool> = e.sequence.sequence.iter().map(|s| beside.contains(s)).collect();
    let (token, text, stream) = (mine(&e.token.sequence), mine(&e.text.sequence), within(&e.stream.step));
    let wire: Vec<bool> = e.wire.tag.iter().map(|of| *of == tag).collect();
    let moved = places(&token);
    let stage: Vec<bool> = e.stage.token.iter().map(|t| token.get(*t as usize) == Some(&true)).collect();
    e.step.retain(&step);
    e.share.retain(&share);
    e.op.retain(&op);
    e.page.retain(&page);
    e.sequence.retain(&sequence);
    e.token.retain(&token);
    e.stream.retain(&stream);
    e.text.retain(&text);
    e.wire.retain(&wire);
    e.stage.retain(&stage);
    e.lens.retain(&mine(&e.lens.sequence));
    e.expert.retain(&mine(&e.expert.sequence));
    e.attention.retain(&mine(&e.attention.sequence));
    e.stage.token.iter_mut().for_each(|t| *t = moved[*t as usize]);
    trace.requests.retain(|request| request.sequence.is_some_and(|s| own.contains(&s)));
    let ids = trace.requests.iter().flat_map(|r| r.prompt.iter().chain(&r.answer));
    let used = ids.chain(&trace.events.token.id).chain(trace.events.stage.ids.iter().flatten());
    let used: BTreeSet<u32> = used.chain(trace.events.lens.ids.iter().flatten()).copied().collect();
    trace.words.retain(|id, _| used.contains(id));
    trace.special.retain(|id| used.contains(id));
    Some(trace)
}

/// Where each row is once those with false are gone.
fn places(kept: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let place = |kept: &bool| {
        let at = next;
        next += u32::from(*kept);
        at
    };
    kept.iter().map(place).collect()
}
