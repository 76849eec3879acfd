//! From an engine's log to columns.

use crate::trace::{PlanView, TraceEvents};
use lamina::{ChoiceEvent, EventLog, PageEvent, SequenceEvent, SequenceMoment};

/// All but what lies inside of steps.
pub(crate) fn events(log: &EventLog) -> TraceEvents {
    let mut e = TraceEvents::default();
    for s in &log.steps {
        e.step.push(
            s.step,
            s.begin,
            s.schedule,
            s.fill,
            s.tell,
            s.machine,
            s.choose,
            s.commit,
            s.decode_rows,
            s.prompt_rows,
            s.running,
            s.waiting,
            s.free_pages,
            s.cached_pages,
            s.copies,
            s.streamed,
            s.waited,
        );
    }
    for s in &log.shares {
        let (drafts, method) = (s.drafts, s.method.to_owned());
        e.share.push(s.step, s.sequence, s.start, s.rows, s.left, drafts, s.accepted, method);
    }
    log.ops.iter().for_each(|o| e.op.push(o.step, o.op, o.rows, o.begin, o.time));
    for s in &log.sequences {
        moment(&mut e, s);
    }
    for &PageEvent { step, sequence, group, place, page, what } in &log.pages {
        e.page.push(step, sequence, group, place, page, what.name().to_owned());
    }
    log.choices.iter().for_each(|c| choice(&mut e, c));
    for s in &log.streams {
        e.stream.push(s.step, s.op, s.bytes, s.sent, s.waited, s.hits, s.misses);
    }
    log.texts.iter().for_each(|t| e.text.push(t.at, t.sequence, t.bytes, t.held));
    e
}

fn moment(e: &mut TraceEvents, event: &SequenceEvent) {
    let &SequenceEvent { at, sequence, tag, what } = event;
    let name = |name: &str| name.to_owned();
    let s = &mut e.sequence;
    match what {
        SequenceMoment::Begin { index, queued, prompt_tokens, cached, disk } => s.push(
            at,
            sequence,
            tag,
            name("begin"),
            index,
            queued,
            0,
            0,
            0,
            prompt_tokens,
            cached,
            disk,
            0,
            0,
            name(""),
        ),
        SequenceMoment::Preempt => {
            s.push(at, sequence, tag, name("preempt"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, name(""));
        }
        SequenceMoment::End {
            reason,
            tokens,
            queue,
            prefill,
            decode,
            machine,
            preemptions,
            prompt_tokens,
        } => {
            s.push(
                at,
                sequence,
                tag,
                name("end"),
                0,
                queue,
                prefill,
                decode,
                machine,
                prompt_tokens,
                0,
                0,
                tokens,
                preemptions,
                name(reason),
            );
        }
    }
}

fn choice(e: &mut TraceEvents, c: &ChoiceEvent) {
    let token = e.token.id.len() as u32;
    let rank = (c.looks.rank != u32::MAX).then_some(c.looks.rank);
    let logprob = Some(c.looks.logprob).filter(|p| p.is_finite());
    e.token.push(c.step, c.sequence, c.id, c.forced, c.allowed, c.mask, rank, logprob);
    for stage in c.looks.stages() {
        let (ids, p) = stage.front().iter().copied().unzip();
        e.stage.push(token, stage.name.to_owned(), stage.left, stage.bits, ids, p);
    }
}

/// What lies inside of steps. All of it is of `sequence` where that is given: the pass that saw it was one of its own.
pub(crate) fn inside(e: &mut TraceEvents, log: &EventLog, plan: &PlanView, sequence: Option<u64>) {
    let layer = |op: u32| plan.ops.get(op as usize).and_then(|op| op.layer).unwrap_or_default();
    for l in &log.lens {
        let best = l.best.iter().filter(|b| b.0 != u32::MAX);
        let (ids, p) = best.copied().unzip();
        e.lens.push(sequence.unwrap_or(l.sequence), l.place, l.layers, l.bits, ids, p);
    }
    for x in &log.experts {
        e.expert.push(sequence.unwrap_or(x.sequence), x.place, layer(x.op), x.expert, x.weight);
    }
    for a in &log.attention {
        let of = sequence.unwrap_or(a.sequence);
        e.attention.push(of, a.place, layer(a.op), a.head, a.first, a.weights.clone());
    }
}
