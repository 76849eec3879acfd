//! Recording changes no bit of an answer, and what is recorded adds up.

use crate::common::answers::{Bits, together, top_bits};
use crate::common::load;
use lamina::{
    ChoiceEvent, Completion, EventLog, GenerateOptions, LensEvent, LoadOptions, Model, Prompt, SequenceEvent,
    SequenceMoment, TraceDetail,
};
use lamina_fixtures::{Models, extent, names, tokens};
use lamina_plan::{kv::Reach, op::Op};
use std::collections::{BTreeMap, BTreeSet};

fn request(i: usize) -> GenerateOptions {
    let mut o = GenerateOptions { max_tokens: Some(9), ignore_eos: true, n: 1 + i % 2, ..Default::default() };
    o.sampling.set("seed", i as i64).expect("known");
    o.sampling.set("logprobs", 2i64).expect("known");
    o
}

/// Requests at once, by day; by night many more. Each row of the result is an answer.
fn answers(model: &Model) -> Vec<Vec<Bits>> {
    let prompt = |i: usize| Prompt::Tokens(tokens(20 + 17 * (i % 3) as u32));
    let count = if extent::is_whole() { 32 } else { 3 };
    let asked: Vec<_> = (0..count).map(|i| (prompt(i), request(i))).collect();
    together(model, &asked).into_iter().flatten().collect()
}

#[test]
fn no_detail_changes_a_bit_in_any_family() {
    let models = Models::new();
    for name in names() {
        let options = LoadOptions { threads: Some(1), context: Some(128), ..LoadOptions::default() };
        let model = load(&models.folder(&name), options);
        if model.machine_plan().is_none_or(|plan| !plan.generates()) {
            continue;
        }
        let want = answers(&model);
        for (detail_name, detail) in TraceDetail::ALL {
            assert!(model.record(Some(detail)).is_none(), "{name}: nothing was recorded before");
            let got = answers(&model);
            let log = model.record(None).expect("was recorded");
            assert!(got == want, "{name}: {detail_name} changed an answer");
            adds_up(&log, detail, &want, &format!("{name} in {detail_name}"));
            pages_are_held(&log, &format!("{name} in {detail_name}"));
        }
    }
}

/// Pages that sequences hold by their events, and those that the engine counts as free, are all pages at every step.
fn pages_are_held(log: &EventLog, what: &str) {
    // What leaves a window is given back without a word.
    if log.plan.kv.groups.iter().any(|group| group.reach != Reach::All) {
        return;
    }
    let ended = |e: &SequenceEvent| matches!(e.what, SequenceMoment::End { .. } | SequenceMoment::Preempt);
    let mut ends = log.sequences.iter().filter(|e| ended(e)).peekable();
    let mut events = log.pages.iter().peekable();
    let mut tables: BTreeMap<(u64, u32, u32), u32> = BTreeMap::new();
    let mut all = None;
    for step in &log.steps {
        while let Some(end) = ends.next_if(|end| end.at <= step.begin) {
            tables.retain(|(sequence, ..), _| *sequence != end.sequence);
        }
        while let Some(p) = events.next_if(|p| p.step <= step.step) {
            tables.insert((p.sequence, p.group, p.place), p.page);
        }
        let held: BTreeSet<(u32, u32)> = tables.iter().map(|((_, group, _), page)| (*group, *page)).collect();
        let pages = held.len() + step.free_pages as usize;
        assert_eq!(*all.get_or_insert(pages), pages, "{what}: pages in step {}", step.step);
    }
}

/// Operators take no longer than the machine, phases are the step, rows and tokens are those of the answers.
fn adds_up(log: &EventLog, detail: TraceDetail, answers: &[Vec<Bits>], what: &str) {
    let mut ops: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for op in &log.ops {
        let sum = ops.entry(op.step).or_default();
        *sum = (sum.0 + op.time, sum.1 + 1);
    }
    for (step, next) in log.steps.iter().zip(log.steps.iter().skip(1)) {
        assert!(step.begin + step.time() <= next.begin, "{what}: steps overlap");
    }
    for step in &log.steps {
        let (time, count) = ops.get(&step.step).copied().unwrap_or_default();
        assert!(time <= step.machine, "{what}: operators {time} ns, machine {} ns", step.machine);
        let all = if detail >= TraceDetail::Ops { log.plan.ops.len() } else { 0 };
        assert_eq!(count, all, "{what}: operators of a step");
        let rows: u32 = log.shares.iter().filter(|s| s.step == step.step).map(|s| s.rows + s.drafts).sum();
        assert_eq!(rows, step.decode_rows + step.prompt_rows, "{what}: rows of step {}", step.step);
    }
    let ends = log.sequences.iter().filter_map(|e| match e.what {
        SequenceMoment::End { tokens, .. } => Some(tokens as usize),
        _ => None,
    });
    assert_eq!(ends.clone().count(), answers.len(), "{what}: ends");
    assert_eq!(ends.sum::<usize>(), answers.iter().map(Vec::len).sum::<usize>(), "{what}: tokens");
    if detail < TraceDetail::Tokens {
        return assert!(log.choices.is_empty(), "{what}: choices that nobody asked for");
    }
    let mut chosen: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    log.choices.iter().for_each(|c| chosen.entry(c.sequence).or_default().push(c.id));
    let mut seen: Vec<Vec<u32>> = chosen.into_values().collect();
    let mut want: Vec<Vec<u32>> = answers.iter().map(|a| a.iter().map(|t| t.0).collect()).collect();
    seen.sort();
    want.sort();
    assert_eq!(seen, want, "{what}: chosen tokens");
    for c in &log.choices {
        let stages = c.looks.stages();
        assert!(stages.is_sorted_by(|a, b| a.left >= b.left), "{what}: samplers only take away");
        let p: f32 = stages[0].front().iter().map(|t| t.1).sum();
        assert!(p <= 1.0 + 1e-5 && stages.last().is_some_and(|s| s.left > 0), "{what}: {stages:?}");
    }
    if detail == TraceDetail::Inside {
        inside_agrees(log, what);
    }
}

/// Behind the last layer a lens sees what the model says, weights of attention and of places are those of a distribution,
/// and no row goes to more experts than the plan has for it.
fn inside_agrees(log: &EventLog, what: &str) {
    let last = log.plan.marks.len() as u32 - 2;
    let lens = |layers| log.lens.iter().filter(move |l| l.layers == layers);
    assert!((0..=last).all(|layers| lens(layers).count() == lens(last).count()), "{what}: a lens a layer");
    let mut compared = 0;
    for c in &log.choices {
        let own = |l: &&LensEvent| (l.step, l.sequence) == (c.step, c.sequence);
        // An answer that was split off tells its first choice, of another row, with its second one.
        let alone = |o: &&ChoiceEvent| (o.step, o.sequence) == (c.step, c.sequence);
        if log.choices.iter().filter(alone).count() > 1 {
            continue;
        }
        let Some(l) = lens(last).find(own) else { continue };
        let front = c.looks.stages()[0].front();
        assert_eq!(l.best[0].0, front[0].0, "{what}: the likeliest token behind the last layer");
        // Sums in another order of float32 and float64.
        assert!((l.best[0].1 - front[0].1).abs() < 1e-4, "{what}: {:?} {:?}", l.best, front);
        compared += 1;
    }
    assert!(2 * compared > log.choices.len(), "{what}: {compared} lenses of {} choices", log.choices.len());
    for a in &log.attention {
        let sum: u32 = a.weights.iter().map(|w| u32::from(*w)).sum();
        let off = a.weights.len().div_ceil(2) as u32 + 1; // each is rounded
        assert!(sum.abs_diff(255) <= off && a.first <= a.place, "{what}: {a:?}");
    }
    let attends = |op: &Op| matches!(op, Op::Attend(_) | Op::Attention(_));
    assert_eq!(log.attention.is_empty(), !log.plan.ops.iter().any(attends), "{what}: attention");
    let mut rows: BTreeMap<_, usize> = BTreeMap::new();
    log.experts.iter().for_each(|e| *rows.entry((e.op, e.step, e.sequence, e.place)).or_default() += 1);
    for ((op, ..), experts) in rows {
        let Op::Experts(o) = &log.plan.ops[op as usize] else { panic!("{what}: operator {op}") };
        assert!(experts <= o.routing.top_k, "{what}: {experts} experts of a row");
    }
    let mixes = log.plan.ops.iter().any(|op| matches!(op, Op::Experts(_)));
    assert_eq!(log.experts.is_empty(), !mixes, "{what}: experts");
}

#[test]
fn what_runs_when_a_recording_begins_or_ends_is_not_disturbed() {
    let models = Models::new();
    let model = load(&models.folder("llama"), LoadOptions { threads: Some(1), ..LoadOptions::default() });
    let options = GenerateOptions { max_tokens: Some(200), ..request(0) };
    let prompt = Prompt::Tokens(tokens(24));
    let want = top_bits(&model.generate(&prompt, &options).expect("runs")[0]);
    let stream = model.stream(&prompt, &options).expect("starts");
    let mut got = Completion::empty();
    for (i, piece) in stream.enumerate() {
        match i {
            20 | 90 => _ = model.record(Some(TraceDetail::Tokens)),
            60 => assert!(model.recorded().is_some_and(|log| !log.steps.is_empty())),
            140 => _ = model.record(None),
            _ => {}
        }
        got.push(piece.expect("runs"));
    }
    assert!(top_bits(&got) == want);
    assert!(model.recorded().is_none());
}
