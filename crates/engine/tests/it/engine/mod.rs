//! The step loop on the reference backend and a tiny random model: a sequence's rows are the same bits whatever else
//! runs, however its prompt is cut, whether its beginning was found in the cache, and after it was preempted.

use lamina_arch::{spec::*, weights::Tensor};
use lamina_engine::{
    Engine, EngineError, Event, FinishReason, Generation, LengthBy, NumberRows, Pass, Request, Service, Task,
    Terms, Timings, sample::SamplingParams,
};
use lamina_oracle::reference::Reference;
use lamina_plan::{Backend, KvType, Limits, PAGE_LEN, Plan, Runner, Select, WeightKind, adapt, emit};
use std::sync::{
    Arc, Mutex,
    mpsc::{Receiver, channel},
};

mod beams;
mod branches;
mod clock;
mod heads;
mod rows_to_come;
mod speculation;
mod swap;

const VOCAB: usize = 61;
const CONTEXT: usize = 6 * PAGE_LEN;

fn norm() -> Norm {
    Norm { kind: NormKind::Rms, eps: 1e-5 }
}

fn attention() -> Mixer {
    let freqs = (0..4).map(|i| 10f32.powf(-(i as f32))).collect();
    let rope = Rope { dim: 8, pairs: Pairs::Half, freqs, long: None, magnitude: 1.0, axes: vec![] };
    Mixer::Gqa(Gqa {
        heads: 2,
        kv_heads: 1,
        dim: 8,
        qk_norm: None,
        v_norm: None,
        rope: Some(rope),
        alibi: None,
        scale: 0.35,
        softcap: None,
        mask: Mask::Causal,
        sinks: false,
        gated: false,
        clip: None,
        temperature: None,
    })
}

fn recurrent() -> Mixer {
    Mixer::Mamba2(Mamba2 {
        heads: 2,
        dim: 8,
        groups: 1,
        state: 4,
        conv: 3,
        norm: norm(),
        dt_limit: (0.0, 1e9),
    })
}

fn spec(mixers: Vec<Mixer>) -> ModelSpec {
    let layer = |mixer| Layer {
        mixer,
        ffn: Ffn::Dense(Dense { inner: 24, act: Act::Silu, gated: true }),
        place: Place::Pre,
        norm: norm(),
        residual: 1.0,
        scale: 1.0,
    };
    ModelSpec {
        hidden: 16,
        vocab: VOCAB,
        context: CONTEXT,
        embed: Embed { scale: 1.0, positions: None, segments: 0, norm: None, width: None },
        layers: mixers.into_iter().map(layer).collect(),
        final_norm: Some(norm()),
        head: Head { tied: false, scale: 1.0, softcap: None },
        output: ModelOutput::Tokens,
        heads: vec![],
    }
}

/// Weights that depend on their place only.
fn weight(plan: &Plan, i: usize) -> Tensor {
    let (rows, cols) = plan.weights[i].kind.shape();
    let value = |k: usize| {
        let h = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (i as u64 * 77_777)) >> 40;
        (h as f32 / 8_388_608.0 - 1.0) * if rows == 1 { 1.0 } else { 3.0 / (cols as f32).sqrt() }
    };
    Tensor::from_f32(&plan.weights[i].name, rows, cols, &(0..rows * cols).map(value).collect::<Vec<_>>())
}

#[derive(Clone, Copy)]
struct Setup {
    rows: usize,
    pages: usize,
    reuse: bool,
}

const ROOMY: Setup = Setup { rows: 64, pages: 64, reuse: true };

fn engine(mixers: Vec<Mixer>, s: Setup) -> Engine {
    engine_of(emit(&spec(mixers), &|_| false), s)
}

/// Two adapters of ranks 2 and 3 beside every matrix.
fn adapted_engine(mixers: Vec<Mixer>, s: Setup) -> Engine {
    let plan = emit(&spec(mixers), &|_| false);
    let ranks = plan.weights.iter().map(|w| (w.name.clone(), vec![2, 3])).collect();
    engine_of(adapt(plan, &ranks), s)
}

fn engine_of(plan: Plan, s: Setup) -> Engine {
    Engine::new(Box::new(runner_of(plan, s)), CONTEXT, s.reuse)
}

fn runner_of(plan: Plan, s: Setup) -> Runner {
    let uploaded = |i| Reference.upload(&plan.weights[i], &weight(&plan, i)).expect("uploads");
    let weights = (0..plan.weights.len()).map(uploaded).collect();
    let groups = plan.kv.groups.len();
    let limits = Limits {
        rows: s.rows,
        selected: s.rows.min(16),
        logits: s.rows.min(16),
        pages: vec![s.pages; groups],
        states: s.pages.min(16),
        kv: vec![KvType::F32.into(); groups],
    };
    Runner::new(Reference, plan, weights, limits).expect("builds")
}

/// What came of a request: tokens and the bits of their logprobs of each answer.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    answers: Vec<Vec<(u32, u32)>>,
    reasons: Vec<FinishReason>,
    cached: usize,
    error: Option<EngineError>,
}

fn outcome(events: &Receiver<Event>, n: usize) -> Outcome {
    let mut o = Outcome {
        answers: vec![vec![]; n],
        reasons: vec![FinishReason::Cancelled; n],
        cached: 0,
        error: None,
    };
    for event in events.try_iter() {
        match event {
            Event::Token(t) => o.answers[t.index].push((t.id, t.logprob.expect("asked for").to_bits())),
            Event::Finished { index, reason, timings: Timings { cached_tokens, .. }, .. } => {
                o.reasons[index] = reason;
                o.cached = cached_tokens;
            }
            Event::Failed(e) => o.error = Some(e),
            Event::Prompt { .. } | Event::Progress { .. } => panic!("not asked for"),
        }
    }
    o
}

fn prompt(seed: usize, len: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * 31 + seed * 17 + i * i) % VOCAB) as u32).collect()
}

fn generation(seed: i64, tokens: usize, n: usize) -> Generation {
    let mut params = SamplingParams::default();
    params.set("seed", seed).expect("known");
    params.set("logprobs", 0i64).expect("known");
    Generation { max_tokens: Some(tokens), params, n, ..Generation::default() }
}

fn add(engine: &mut Engine, prompt: Vec<u32>, g: Generation) -> Receiver<Event> {
    add_adapted(engine, prompt, g, &[])
}

fn add_adapted(engine: &mut Engine, prompt: Vec<u32>, g: Generation, scales: &[f32]) -> Receiver<Event> {
    let (events, receiver) = channel();
    let request = Request::new(prompt, Task::Generate(Box::new(g)), Box::new(events));
    engine.add(Request { lora: scales.into(), ..request });
    receiver
}

fn finish(engine: &mut Engine) {
    for _ in 0..100_000 {
        if engine.idle() {
            return;
        }
        engine.step();
    }
    panic!("the engine never becomes idle: {:?}", engine.load());
}

fn alone(mixers: &[Mixer], s: Setup, p: Vec<u32>, g: Generation) -> Outcome {
    let mut e = engine(mixers.to_vec(), s);
    let n = g.n;
    let receiver = add(&mut e, p, g);
    finish(&mut e);
    outcome(&receiver, n)
}

fn kinds() -> Vec<Vec<Mixer>> {
    vec![vec![attention(), attention()], vec![recurrent(), attention()]]
}

#[test]
fn pieces_of_a_prompt_change_no_bit() {
    for mixers in kinds() {
        let run = |rows| alone(&mixers, Setup { rows, ..ROOMY }, prompt(1, 75), generation(5, 20, 1));
        let want = run(128);
        assert_eq!(want.answers[0].len(), 20);
        for rows in [1, 7, 31, 64] {
            assert_eq!(run(rows), want, "{rows} rows");
        }
    }
}

#[test]
fn company_changes_no_bit() {
    for mixers in kinds() {
        let wants: Vec<_> = (0..7)
            .map(|i| alone(&mixers, ROOMY, prompt(i, 5 + 13 * i), generation(i as i64, 15, 1)))
            .collect();
        let mut e = engine(mixers, ROOMY);
        let receivers: Vec<_> =
            (0..7).map(|i| add(&mut e, prompt(i, 5 + 13 * i), generation(i as i64, 15, 1))).collect();
        finish(&mut e);
        for (receiver, want) in receivers.iter().zip(&wants) {
            assert_eq!(outcome(receiver, 1).answers, want.answers);
        }
    }
}

#[test]
fn found_beginnings_change_no_bit() {
    for mixers in kinds() {
        let cold = Setup { reuse: false, ..ROOMY };
        let want = alone(&mixers, cold, prompt(3, 90), generation(1, 12, 1));
        let mut e = engine(mixers, ROOMY);
        for round in 0..3 {
            let receiver = add(&mut e, prompt(3, 90), generation(1, 12, 1));
            finish(&mut e);
            let got = outcome(&receiver, 1);
            assert_eq!(got.answers, want.answers, "round {round}");
            assert_eq!(got.cached, if round == 0 { 0 } else { 2 * PAGE_LEN }, "round {round}");
        }
        // A longer prompt with the same beginning takes it over too.
        let mut longer = prompt(3, 90);
        longer.extend(prompt(9, 10));
        let receiver = add(&mut e, longer, generation(1, 2, 1));
        finish(&mut e);
        assert_eq!(outcome(&receiver, 1).cached, 2 * PAGE_LEN);
    }
}

/// Rows `tokens` of the embedding.
fn embeddings(plan: &Plan, start: usize, tokens: &[u32]) -> NumberRows {
    let table = plan.weights.iter().position(|w| matches!(w.kind, WeightKind::Table { .. })).expect("embeds");
    let values = weight(plan, table).to_f32().expect("is float32");
    let rows = tokens.iter().flat_map(|&t| values[t as usize * 16..][..16].iter().copied());
    NumberRows::new(start, 16, rows.collect())
}

#[test]
fn rows_of_numbers_stand_in_the_place_of_tokens() {
    for mixers in kinds() {
        let tokens = prompt(3, 90);
        let want = alone(&mixers, ROOMY, tokens.clone(), generation(1, 12, 1));
        // Rows 20 to 50 and 60 to 61 are given as numbers; what stands there as tokens does not matter.
        let ask = |e: &mut Engine, shift: u32, filler: u32| {
            let mut placeholders = tokens.clone();
            placeholders[20..50].fill(filler);
            let given: Vec<_> = tokens[20..50].iter().map(|t| (t + shift) % VOCAB as u32).collect();
            let rows = vec![
                embeddings(e.machine().plan(), 20, &given),
                embeddings(e.machine().plan(), 60, &tokens[60..61]),
            ];
            let (events, receiver) = channel();
            let task = Task::Generate(Box::new(generation(1, 12, 1)));
            e.add(Request { rows, ..Request::new(placeholders, task, Box::new(events)) });
            finish(e);
            outcome(&receiver, 1)
        };
        for rows in [7, 64] {
            let mut e = engine(mixers.clone(), Setup { rows, ..ROOMY });
            assert_eq!(ask(&mut e, 0, 5).answers, want.answers);
            let again = ask(&mut e, 0, 5);
            assert_eq!((&again.answers, again.cached), (&want.answers, 2 * PAGE_LEN));
            let other = ask(&mut e, 1, 5);
            assert_ne!(other.answers, want.answers);
            assert_eq!(other.cached, 0, "other numbers in the place of the same tokens are another past");
        }
    }
}

#[test]
fn rows_of_numbers_that_do_not_fit_are_refused() {
    let mut e = engine(vec![attention()], ROOMY);
    let wrong = [
        NumberRows::new(0, 8, vec![0.0; 16].into()),
        NumberRows::new(4, 16, vec![0.0; 32].into()),
        NumberRows::new(0, 16, vec![f32::NAN; 16].into()),
    ];
    for rows in wrong {
        let (events, receiver) = channel();
        let task = Task::Generate(Box::new(generation(1, 5, 1)));
        e.add(Request { rows: vec![rows], ..Request::new(prompt(1, 5), task, Box::new(events)) });
        assert!(matches!(outcome(&receiver, 1).error, Some(EngineError::Parameter { name: "numbers", .. })));
    }
}

#[test]
fn adapters_are_a_requests_own_affair() {
    const SCALES: [&[f32]; 5] = [&[], &[1.0], &[0.0, 1.0], &[0.5, -2.0], &[0.0, 0.0]];
    for mixers in kinds() {
        let request =
            |e: &mut Engine, i: usize| add_adapted(e, prompt(3, 70), generation(1, 12, 1), SCALES[i]);
        let alone: Vec<_> = (0..SCALES.len())
            .map(|i| {
                let mut e = adapted_engine(mixers.clone(), ROOMY);
                let receiver = request(&mut e, i);
                finish(&mut e);
                outcome(&receiver, 1).answers
            })
            .collect();
        assert_eq!(alone[0], alone[4], "adapters of scale 0 are none");
        (0..4).for_each(|i| (0..i).for_each(|j| assert_ne!(alone[i], alone[j], "{i} {j}")));
        let mut e = adapted_engine(mixers, ROOMY);
        let together: Vec<_> = (0..SCALES.len()).map(|i| request(&mut e, i)).collect();
        finish(&mut e);
        let together = together.iter().map(|r| outcome(r, 1).answers);
        assert_eq!(together.collect::<Vec<_>>(), alone);
        // All pages of the prompt are known now, under each of the four ways to compute them.
        for (i, want) in alone.iter().enumerate() {
            let again = request(&mut e, i);
            finish(&mut e);
            let got = outcome(&again, 1);
            assert_eq!((&got.answers, got.cached), (want, 2 * PAGE_LEN), "{i}");
        }
        let other = add_adapted(&mut e, prompt(3, 70), generation(1, 12, 1), &[1.0, 0.25]);
        finish(&mut e);
        assert_eq!(outcome(&other, 1).cached, 0, "no page of another adapter is taken over");
    }
}

#[test]
fn preempting_changes_no_bit() {
    for mixers in kinds() {
        let wants: Vec<_> =
            (0..4).map(|i| alone(&mixers, ROOMY, prompt(i, 40), generation(i as i64, 90, 1))).collect();
        for reuse in [false, true] {
            // Four sequences that grow to five pages each, and seven pages.
            let mut e = engine(mixers.clone(), Setup { rows: 64, pages: 7, reuse });
            let receivers: Vec<_> =
                (0..4).map(|i| add(&mut e, prompt(i, 40), generation(i as i64, 90, 1))).collect();
            finish(&mut e);
            for (receiver, want) in receivers.iter().zip(&wants) {
                assert_eq!(outcome(receiver, 1).answers, want.answers, "reuse {reuse}");
            }
        }
    }
}

#[test]
fn answers_to_one_prompt_share_its_pages_and_nothing_else() {
    for mixers in kinds() {
        let together = alone(&mixers, ROOMY, prompt(2, 45), generation(7, 40, 4));
        let first = alone(&mixers, ROOMY, prompt(2, 45), generation(7, 40, 1));
        assert_eq!(together.answers[0], first.answers[0]);
        assert!(together.answers.iter().all(|a| a.len() == 40));
        assert!(
            (1..4).all(|i| together.answers[i] != together.answers[0]),
            "answers have streams of their own"
        );
        // With memory for two of the four at a time.
        let tight = Setup { rows: 64, pages: 7, reuse: true };
        assert_eq!(alone(&mixers, tight, prompt(2, 45), generation(7, 40, 4)).answers, together.answers);
    }
}

/// Adds a pass over 50 tokens; its rows are collected, and must come in order.
fn pass(engine: &mut Engine, hidden: Option<usize>) -> (Arc<Mutex<Vec<f32>>>, Receiver<Event>) {
    pass_over(engine, hidden, Select::All, 0)
}

/// A pass over some rows, of which position `first` is the first.
fn pass_over(
    engine: &mut Engine,
    hidden: Option<usize>,
    rows: Select,
    first: usize,
) -> (Arc<Mutex<Vec<f32>>>, Receiver<Event>) {
    let taken = Arc::new(Mutex::new(vec![]));
    let (events, receiver) = channel();
    let all = taken.clone();
    let sink = Box::new(move |start, r: &[f32]| {
        let mut all = all.lock().expect("lock");
        assert_eq!(all.len(), (start - first) * if hidden.is_some() { 16 } else { VOCAB });
        all.extend_from_slice(r);
    });
    let task = Task::Pass(Pass { hidden, rows, second: None, sink });
    engine.add(Request::new(prompt(1, 50), task, Box::new(events)));
    (taken, receiver)
}

const PASSES: [Option<usize>; 3] = [None, Some(0), Some(2)];

#[test]
fn passes_hand_out_every_row_in_order() {
    let mut e = engine(vec![attention()], ROOMY);
    for hidden in PASSES {
        let (rows, receiver) = pass(&mut e, hidden);
        finish(&mut e);
        assert!(matches!(receiver.try_iter().last(), Some(Event::Finished { .. })));
        assert_eq!(rows.lock().expect("lock").len(), 50 * if hidden.is_some() { 16 } else { VOCAB });
    }
}

#[test]
fn a_pass_over_the_last_rows_gives_their_bits_and_nothing_else() {
    for rows in [64, 24, 7] {
        let mut e = engine(vec![attention()], Setup { rows, ..ROOMY });
        for hidden in PASSES {
            let (all, _receiver) = pass(&mut e, hidden);
            finish(&mut e);
            let all = all.lock().expect("lock");
            let width = if hidden.is_some() { 16 } else { VOCAB };
            let counts = [(Select::Last, 1), (Select::Tail(9), 9), (Select::Tail(99), 50), (Select::None, 0)];
            for (select, n) in counts {
                let (some, receiver) = pass_over(&mut e, hidden, select, 50 - n);
                finish(&mut e);
                assert!(matches!(receiver.try_iter().last(), Some(Event::Finished { .. })), "{select:?}");
                assert!(*some.lock().expect("lock") == all[(50 - n) * width..], "{hidden:?} {select:?}");
            }
        }
    }
}

#[test]
fn passes_of_every_kind_at_once_change_no_bit() {
    for setup in [ROOMY, Setup { rows: 24, ..ROOMY }, Setup { pages: 6, ..ROOMY }] {
        let mut e = engine(vec![attention()], setup);
        let want = PASSES.map(|hidden| {
            let (rows, _receiver) = pass(&mut e, hidden);
            finish(&mut e);
            rows
        });
        let reference = alone(&[attention()], setup, prompt(3, 20), generation(5, 12, 1));
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let answer = add(&mut e, prompt(3, 20), generation(5, 12, 1));
            let got = order.map(|kind| (kind, pass(&mut e, PASSES[kind])));
            finish(&mut e);
            for (kind, (rows, _receiver)) in got {
                assert!(*rows.lock().expect("lock") == *want[kind].lock().expect("lock"), "kind {kind}");
            }
            assert_eq!(outcome(&answer, 1).answers, reference.answers);
        }
    }
}

#[test]
fn requests_that_can_never_run_fail_at_once_and_the_others_live_on() {
    let mut e = engine(vec![attention()], ROOMY);
    let failures = [
        (vec![], EngineError::EmptyPrompt),
        (vec![VOCAB as u32], EngineError::UnknownToken { token: VOCAB as u32, vocab: VOCAB }),
        (prompt(1, CONTEXT + 1), EngineError::TooLong { tokens: CONTEXT + 1, context: CONTEXT }),
    ];
    for (p, want) in failures {
        let bad = add(&mut e, p, generation(1, 5, 1));
        let good = add(&mut e, prompt(1, 5), generation(1, 5, 1));
        finish(&mut e);
        assert_eq!(outcome(&bad, 1).error, Some(want));
        assert_eq!(outcome(&good, 1).answers[0].len(), 5);
    }
}

#[test]
fn scales_have_to_be_numbers() {
    let mut e = adapted_engine(vec![attention()], ROOMY);
    let bad = add_adapted(&mut e, prompt(1, 5), generation(1, 5, 1), &[1.0, f32::NAN]);
    assert!(matches!(outcome(&bad, 1).error, Some(EngineError::Parameter { .. })));
}

#[test]
fn the_end_of_the_context_ends_an_answer() {
    let got = alone(&[attention()], ROOMY, prompt(1, CONTEXT - 3), generation(1, 100, 1));
    assert_eq!((got.answers[0].len(), got.reasons[0]), (4, FinishReason::Length { by: LengthBy::Context }));
    let full = alone(&[attention()], ROOMY, prompt(1, CONTEXT), generation(1, 100, 1));
    assert_eq!(full.answers[0].len(), 1, "a full context still has a next token");
}

#[test]
fn a_cancelled_request_ends_and_frees_its_memory() {
    let mut e = engine(vec![attention()], Setup { pages: 6, ..ROOMY });
    for _ in 0..10 {
        let (events, receiver) = channel();
        let task = Task::Generate(Box::new(generation(1, 100, 2)));
        let request = Request::new(prompt(1, 60), task, Box::new(events));
        let cancel = request.cancel.clone();
        e.add(request);
        (0..5).for_each(|_| _ = e.step());
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        finish(&mut e);
        assert_eq!(outcome(&receiver, 2).reasons, [FinishReason::Cancelled; 2]);
    }
    // A caller that goes away without a word is noticed too.
    drop(add(&mut e, prompt(1, 60), generation(1, 100, 1)));
    finish(&mut e);
}

#[test]
fn threads_share_a_service() {
    let wants: Vec<_> = (0..8)
        .map(|i| alone(&[attention()], ROOMY, prompt(i, 20 + i), generation(i as i64, 25, 1)).answers)
        .collect();
    let service = Service::start(engine(vec![attention()], ROOMY)).expect("starts");
    std::thread::scope(|s| {
        for (i, want) in wants.iter().enumerate() {
            let service = &service;
            s.spawn(move || {
                let task = Task::Generate(Box::new(generation(i as i64, 25, 1)));
                let handle = service.submit(prompt(i, 20 + i), Arc::default(), task, Terms::default());
                let handle = handle.expect("runs");
                let mut got = vec![];
                while let Some(event) = handle.next() {
                    match event {
                        Event::Token(t) => got.push((t.id, t.logprob.expect("asked for").to_bits())),
                        _ => break,
                    }
                }
                assert_eq!(vec![got], *want);
            });
        }
    });
    service.close();
    let task = Task::Generate(Box::new(generation(1, 5, 1)));
    let refused = service.submit(prompt(1, 5), Arc::default(), task, Terms::default());
    assert!(matches!(refused, Err(EngineError::Closed)), "a closed service answers at once");
}
