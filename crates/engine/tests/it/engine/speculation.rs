//! Answers with drafts: the same tokens, the same bits of logprobs, the same ends, whatever guesses and however wide.

use super::*;
use crate::known::{KnownAnswers, Rightness};
use lamina_engine::{
    DraftAsk, DraftModel, Drafter, Ngram, Proposal, Speculate, SpeculateError, Speculation, Suffix,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Guesses of known answers: always right, or wrong behind a depth below `wrong_below`.
fn oracle(texts: &[Vec<u32>], wrong_below: Option<usize>) -> Box<dyn Drafter> {
    let right = wrong_below.map_or(Rightness::Always, Rightness::UpToDepth);
    Box::new(KnownAnswers::new(Arc::new(Mutex::new(texts.to_vec())), right))
}

/// All mixers that keep something from token to token.
pub fn memories() -> Vec<Vec<Mixer>> {
    let windowed = |n| {
        let Mixer::Gqa(gqa) = attention() else { unreachable!("it is attention") };
        Mixer::Gqa(Gqa { mask: Mask::Window(n), ..gqa })
    };
    vec![
        vec![attention(), attention()],
        vec![recurrent(), attention()],
        vec![recurrent(), recurrent()],
        vec![windowed(5), attention(), windowed(40)],
    ]
}

pub fn fixed(g: Generation, width: usize) -> Generation {
    Generation { speculate: Speculate { width: Some(width), ..Speculate::default() }, ..g }
}

pub fn text(prompt: &[u32], answer: &[(u32, u32)]) -> Vec<u32> {
    prompt.iter().copied().chain(answer.iter().map(|t| t.0)).collect()
}

/// Prompts with a loop, so that look-up finds something.
pub fn looped(seed: usize, len: usize) -> Vec<u32> {
    prompt(seed, 9).into_iter().cycle().take(len).collect()
}

#[test]
fn drafts_change_no_bit() {
    for mixers in memories() {
        let p = looped(2, 70);
        for greedy in [true, false] {
            let mut g = generation(5, 40, 1);
            g.params.set("temperature", if greedy { 0.0 } else { 1.0 }).expect("known");
            let want = alone(&mixers, ROOMY, p.clone(), g.clone());
            let texts = [text(&p, &want.answers[0])];
            for wrong_below in [None, Some(1), Some(6)] {
                for width in [1, 2, 3, 7, 15] {
                    let drafters = vec![oracle(&texts, wrong_below)];
                    let mut e = engine(mixers.clone(), ROOMY).drafting(drafters, None);
                    let receiver = add(&mut e, p.clone(), fixed(g.clone(), width));
                    finish(&mut e);
                    assert_eq!(outcome(&receiver, 1), want, "{wrong_below:?} {width}");
                    let c = e.counters();
                    match wrong_below {
                        None => assert_eq!(c.accepted, c.drafted.min(39), "{width}"),
                        Some(1) => assert_eq!(c.accepted, 0),
                        _ => assert!(c.accepted > 0 && c.accepted < c.drafted),
                    }
                    assert_eq!(c.tokens, 40);
                }
            }
        }
    }
}

#[test]
fn company_pieces_and_preemption_change_no_bit_of_drafted_answers() {
    for mixers in memories() {
        let requests: Vec<_> = (0..6).map(|i| (looped(i, 5 + 13 * i), i as i64)).collect();
        let ask = |(p, seed): &(Vec<u32>, i64)| (p.clone(), generation(*seed, 30, 1));
        let wants: Vec<_> = requests
            .iter()
            .map(|r| {
                let (p, g) = ask(r);
                alone(&mixers, ROOMY, p, g).answers
            })
            .collect();
        let texts: Vec<_> = requests.iter().zip(&wants).map(|((p, _), w)| text(p, &w[0])).collect();
        let setups = [
            ROOMY,
            Setup { rows: 7, ..ROOMY },
            Setup { reuse: false, ..ROOMY },
            // So few pages that sequences are preempted.
            Setup { pages: 7, ..ROOMY },
            Setup { pages: 7, rows: 9, ..ROOMY },
        ];
        for (k, setup) in setups.into_iter().enumerate() {
            let drafters: Vec<Box<dyn Drafter>> =
                vec![oracle(&texts, Some(5)), Box::new(Ngram::default()), Box::<Suffix>::default()];
            let mut e = engine(mixers.clone(), setup).drafting(drafters, None);
            for round in 0..2 {
                let receivers: Vec<_> = requests
                    .iter()
                    .enumerate()
                    .map(|(i, r)| {
                        let (p, g) = ask(r);
                        // Some follow measurement, some are fixed, one is off.
                        let g = match i {
                            0 => Generation { speculate: Speculate::off(), ..g },
                            1 | 2 => g,
                            _ => fixed(g, i),
                        };
                        add(&mut e, p, g)
                    })
                    .collect();
                finish(&mut e);
                for (receiver, want) in receivers.iter().zip(&wants) {
                    let got = outcome(receiver, 1);
                    assert_eq!((&got.answers, got.error), (want, None), "setup {k} round {round}");
                }
            }
            assert!(e.counters().accepted > 0);
            e.publish();
            let state = e.board().read();
            assert_eq!(state.free_pages, state.pages, "all pages are free in the end");
        }
    }
}

#[test]
fn answers_to_one_prompt_are_drafted_each_on_its_own() {
    for mixers in memories() {
        let p = looped(4, 37);
        let want = alone(&mixers, ROOMY, p.clone(), generation(3, 25, 4));
        let texts: Vec<_> = want.answers.iter().map(|a| text(&p, a)).collect();
        let mut e = engine(mixers, ROOMY).drafting(vec![oracle(&texts, Some(4))], None);
        let receiver = add(&mut e, p, fixed(generation(3, 25, 4), 5));
        finish(&mut e);
        assert_eq!(outcome(&receiver, 4), want);
        assert!(e.counters().accepted > 0);
    }
}

#[test]
fn ends_come_where_they_come_without_drafts() {
    for mixers in memories() {
        let p = looped(2, 20);
        let whole = alone(&mixers, ROOMY, p.clone(), generation(5, 40, 1));
        let texts = [text(&p, &whole.answers[0])];
        let ids: Vec<u32> = whole.answers[0].iter().map(|t| t.0).collect();
        // Each length, the end token at each place, and the end of the context.
        let lengths = (1..20).map(|n| generation(5, n, 1));
        let ends = [3, 8, 11].map(|i| Generation { end_tokens: [ids[i]].into(), ..generation(5, 40, 1) });
        let context = Generation { max_tokens: None, ..generation(5, 0, 1) };
        for g in lengths.chain(ends).chain([context]) {
            let want = alone(&mixers, ROOMY, p.clone(), g.clone());
            for width in [1, 4, 9] {
                let mut e = engine(mixers.clone(), ROOMY).drafting(vec![oracle(&texts, None)], None);
                let receiver = add(&mut e, p.clone(), fixed(g.clone(), width));
                finish(&mut e);
                assert_eq!(outcome(&receiver, 1), want, "{width} {:?}", g.max_tokens);
            }
        }
    }
}

#[test]
fn samplers_that_look_back_see_kept_tokens_only() {
    let p = looped(2, 30);
    let set = |g: &mut Generation, list: &[(&str, f64)]| {
        list.iter().for_each(|&(name, value)| g.params.set(name, value).expect("known"));
    };
    let chains: [&[(&str, f64)]; 6] = [
        &[("repetition_penalty", 1.3), ("frequency_penalty", 0.4), ("presence_penalty", 0.2)],
        &[("dry_multiplier", 0.8), ("dry_base", 1.75)],
        &[("xtc_probability", 0.5), ("xtc_threshold", 0.05)],
        &[("top_p", 0.8), ("min_p", 0.02), ("temperature", 1.4)],
        &[("typical_p", 0.7), ("temperature", 0.7)],
        &[("top_n_sigma", 1.5)],
    ];
    for chain in chains {
        let mut g = generation(9, 50, 1);
        set(&mut g, chain);
        let mixers = vec![attention(), attention()];
        let want = alone(&mixers, ROOMY, p.clone(), g.clone());
        let texts = [text(&p, &want.answers[0])];
        for wrong_below in [None, Some(5)] {
            let drafters = vec![oracle(&texts, wrong_below)];
            let mut e = engine(mixers.clone(), ROOMY).drafting(drafters, None);
            let receiver = add(&mut e, p.clone(), fixed(g.clone(), 6));
            finish(&mut e);
            assert_eq!(outcome(&receiver, 1), want, "{chain:?}");
        }
    }
}

#[test]
fn what_drafts_did_is_told() {
    let p = looped(2, 30);
    let mixers = vec![attention(), attention()];
    let want = alone(&mixers, ROOMY, p.clone(), generation(5, 21, 1));
    let texts = [text(&p, &want.answers[0])];
    let told = |drafters, g| {
        let mut e = engine(mixers.clone(), ROOMY).drafting(drafters, None);
        let receiver = add(&mut e, p.clone(), g);
        finish(&mut e);
        let last = receiver.try_iter().last().expect("it has ended");
        let Event::Finished { timings, .. } = last else { panic!("{last:?}") };
        (timings.speculation, e.counters().steps)
    };
    let off =
        told(vec![oracle(&texts, None)], Generation { speculate: Speculate::off(), ..generation(5, 21, 1) });
    assert_eq!(off.0, Speculation::default());
    // The first token comes with the prompt, then five steps bring four each.
    let right = told(vec![oracle(&texts, None)], fixed(generation(5, 21, 1), 3));
    let want = Speculation { drafted: 15, accepted: 15, steps: 5, method: "known" };
    assert_eq!((right.0, off.1 - right.1), (want, 15));
    let wrong = told(vec![oracle(&texts, Some(1))], fixed(generation(5, 21, 1), 3)).0;
    assert_eq!((wrong.accepted, wrong.steps), (0, 19), "no draft where one token is left");
}

#[test]
fn drafters_that_are_not_loaded_are_refused_and_failing_ones_are_left_alone() {
    let ask = |e: &mut Engine, speculate| {
        let receiver = add(e, prompt(1, 9), Generation { speculate, ..generation(5, 20, 1) });
        finish(e);
        outcome(&receiver, 1)
    };
    let mut plain = engine(vec![attention()], ROOMY);
    let want = ask(&mut plain, Speculate::default());
    let by = |m: &str| Speculate { method: Some(m.into()), width: Some(3), branches: None };
    assert!(matches!(
        ask(&mut plain, by("ngram")).error,
        Some(EngineError::Speculate(SpeculateError::NoDrafter { .. }))
    ));

    struct Broken(Arc<AtomicBool>);
    impl Drafter for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn prior(&self, _: u8) -> f32 {
            1.0
        }
        fn propose(&mut self, _: &[DraftAsk<'_>]) -> Result<Vec<Proposal>, SpeculateError> {
            assert!(!self.0.swap(true, Ordering::Relaxed), "it is asked once");
            Err(SpeculateError::NoDrafter { method: "broken".into(), loaded: String::new() })
        }
        fn forget(&mut self, _: &DraftAsk<'_>) {}
    }
    let mut e = engine(vec![attention()], ROOMY).drafting(vec![Box::new(Broken(Arc::default()))], None);
    assert_eq!(ask(&mut e, Speculate::default()), want);
    assert_eq!(ask(&mut e, by("broken")), want);
    assert!(matches!(
        ask(&mut e, by("ngram")).error,
        Some(EngineError::Speculate(SpeculateError::NoDrafter { .. }))
    ));
}

#[test]
fn nothing_is_lost_over_many_requests_with_cancels() {
    // `LAMINA_LONG=1` sends ten thousand.
    let requests = if std::env::var_os("LAMINA_LONG").is_some() { 2500 } else { 300 };
    for mixers in memories() {
        let right = Rightness::Branched(4);
        let drafters: Vec<Box<dyn Drafter>> = vec![
            Box::new(KnownAnswers::new(Arc::default(), right)),
            Box::new(Ngram::default()),
            Box::<Suffix>::default(),
            model(&mixers, Setup { pages: 9, ..ROOMY }),
        ];
        let mut e = engine(mixers, Setup { pages: 40, ..ROOMY }).drafting(drafters, None);
        let mut readers = vec![];
        for i in 0..requests {
            let (events, receiver) = channel();
            let g = fixed(generation(i as i64, 3 + i % 17, 1 + i % 2), i % 9);
            let branches = Some(1 + i % 4);
            let g = Generation { speculate: Speculate { branches, ..g.speculate.clone() }, ..g };
            let request =
                Request::new(looped(i % 7, 1 + i % 50), Task::Generate(Box::new(g)), Box::new(events));
            if i % 5 == 0 {
                readers.push(request.cancel.clone());
            }
            e.add(request);
            drop((i % 3 == 0).then_some(receiver));
            (0..i % 4).for_each(|_| _ = e.step());
            if i % 10 == 9 {
                readers.drain(..).for_each(|cancel| cancel.store(true, Ordering::Relaxed));
            }
        }
        finish(&mut e);
        e.publish();
        let state = e.board().read();
        assert_eq!(state.free_pages, state.pages);
        assert_eq!(state.counters.failed, 0);
        // As many run at once as there are states.
        let receivers: Vec<_> = (0..16).map(|i| add(&mut e, prompt(i, 3), generation(1, 9, 1))).collect();
        (0..4).for_each(|_| _ = e.step());
        assert_eq!(e.load(), (16, 0));
        finish(&mut e);
        drop(receivers);
    }
}

/// The model of these mixers as a draft.
pub fn model(mixers: &[Mixer], s: Setup) -> Box<dyn Drafter> {
    Box::new(DraftModel::new(Box::new(runner(mixers, s)), CONTEXT))
}

fn runner(mixers: &[Mixer], s: Setup) -> Runner {
    runner_of(emit(&spec(mixers.to_vec()), &|_| false), s)
}

#[test]
fn a_model_that_drafts_for_itself_is_right_when_greedy_and_now_and_then_when_sampled() {
    for mixers in memories() {
        for temperature in [0.0, 1.0] {
            let mut g = generation(5, 40, 1);
            g.params.set("temperature", temperature).expect("known");
            let want = alone(&mixers, ROOMY, looped(2, 70), g.clone());
            for width in [1, 4, 11] {
                let mut e = engine(mixers.clone(), ROOMY).drafting(vec![model(&mixers, ROOMY)], None);
                let receiver = add(&mut e, looped(2, 70), fixed(g.clone(), width));
                finish(&mut e);
                assert_eq!(outcome(&receiver, 1), want, "{temperature} {width}");
                let c = e.counters();
                assert!(c.drafted > 10 && c.accepted > 0, "{c:?}");
                assert_eq!(c.accepted == c.drafted, temperature == 0.0, "{c:?}");
            }
        }
    }
}

#[test]
fn a_draft_model_looks_at_what_the_request_does_to_rows() {
    let mixers = vec![attention(), attention()];
    let mut g = generation(5, 40, 1);
    for (name, value) in [("temperature", 0.0), ("repetition_penalty", 1.6), ("frequency_penalty", 0.5)] {
        g.params.set(name, value).expect("known");
    }
    let want = alone(&mixers, ROOMY, looped(2, 70), g.clone());
    let plain =
        alone(&mixers, ROOMY, looped(2, 70), Generation { params: generation(5, 1, 1).params, ..g.clone() });
    assert_ne!(want.answers, plain.answers, "the penalties do something");
    let mut e = engine(mixers.clone(), ROOMY).drafting(vec![model(&mixers, ROOMY)], None);
    let receiver = add(&mut e, looped(2, 70), fixed(g, 4));
    finish(&mut e);
    assert_eq!(outcome(&receiver, 1), want);
    let c = e.counters();
    assert!(c.drafted > 10 && c.accepted == c.drafted, "{c:?}");
}

#[test]
fn draft_models_follow_many_sequences_in_little_memory() {
    for mixers in memories() {
        // Another model, and the same one; pages for two sequences, prompts that are computed piece by piece.
        let other = vec![attention(), attention(), attention()];
        let small = Setup { pages: 9, rows: 20, ..ROOMY };
        let asks: Vec<_> =
            (0..7).map(|i| (looped(i, 5 + 20 * i), generation(i as i64, 30, 1 + i % 2))).collect();
        let wants: Vec<_> =
            asks.iter().map(|(p, g)| alone(&mixers, ROOMY, p.clone(), g.clone()).answers).collect();
        for drafter in [model(&mixers, small), model(&other, small)] {
            let mut e = engine(mixers.clone(), Setup { pages: 20, ..ROOMY }).drafting(vec![drafter], None);
            let receivers: Vec<_> = asks
                .iter()
                .enumerate()
                .map(|(i, (p, g))| {
                    add(&mut e, p.clone(), if i < 2 { g.clone() } else { fixed(g.clone(), i) })
                })
                .collect();
            finish(&mut e);
            for (i, (receiver, want)) in receivers.iter().zip(&wants).enumerate() {
                assert_eq!(outcome(receiver, 1 + i % 2).answers, *want, "{i}");
            }
            // How many depends on measured times: nothing is guessed while prompts are computed.
            assert!(e.counters().drafted > 8, "{:?}", e.counters());
        }
    }
}

#[test]
fn a_draft_model_that_is_taken_up_again_reads_the_last_tokens_only() {
    // The states of these weights grow beyond all numbers in so long a text.
    let pages = |mixers: &Vec<Mixer>| mixers.iter().all(|m| matches!(m, Mixer::Gqa(_)));
    for mixers in memories().into_iter().filter(pages) {
        let mut draft = DraftModel::new(Box::new(runner(&mixers, ROOMY)), 4000);
        let text = looped(2, 1600);
        // Rounds of 64 rows until it guesses.
        let mut rounds = |len: usize| {
            let mut ask = DraftAsk::new(7, &text[..len], 2);
            ask.prompt_len = 50;
            let guesses = |_: &usize| !draft.propose(&[ask]).expect("guesses").remove(0).is_empty();
            (1..99).find(guesses).unwrap_or_else(|| panic!("{len} {mixers:?}"))
        };
        assert_eq!([50, 51, 60, 1500, 1501, 1510].map(&mut rounds), [1, 1, 1, 8, 1, 1]);
    }
}

/// Chi-square of second tokens behind the likeliest first one, by the model's own probabilities, and its degrees of freedom.
fn chi_square(counts: &[f64], probabilities: &[f64]) -> (f64, f64) {
    let all: f64 = counts.iter().sum();
    // Tokens of which fewer than five are expected count as one.
    let (mut sum, mut cells, mut rare) = (0.0, 0.0, (0.0, 0.0));
    for (count, p) in counts.iter().zip(probabilities) {
        if p * all < 5.0 {
            rare = (rare.0 + count, rare.1 + p * all);
        } else {
            sum += (count - p * all).powi(2) / (p * all);
            cells += 1.0;
        }
    }
    if rare.1 > 0.0 {
        sum += (rare.0 - rare.1).powi(2) / rare.1;
        cells += 1.0;
    }
    (sum, cells - 1.0)
}

#[test]
fn drafted_places_have_the_models_own_distribution() {
    // `LAMINA_LONG=1` draws as many as show a bias of a few thousandths.
    let rounds = if std::env::var_os("LAMINA_LONG").is_some() { 40_000 } else { 600 };
    let mixers = vec![attention()];
    let p = looped(2, 9);
    let mut g = generation(0, 2, 1);
    g.params.set("logprobs", VOCAB as i64 - 1).expect("known");
    g.params.set("temperature", 0.0).expect("known");
    let mut e = engine(mixers.clone(), ROOMY);
    let receiver = add(&mut e, p.clone(), g);
    finish(&mut e);
    let tokens: Vec<_> =
        receiver.try_iter().filter_map(|e| if let Event::Token(t) = e { Some(t) } else { None }).collect();
    let first = tokens[0].id;
    let mut probabilities = vec![0.0; VOCAB];
    tokens[1].top.iter().for_each(|&(id, l)| probabilities[id as usize] = f64::from(l).exp());
    let rest = 1.0 - probabilities.iter().sum::<f64>();
    assert!(rest.abs() < 0.1, "{rest} is with tokens that are not told");
    // Whatever is drafted there, each draft is in a row of a step with others.
    let texts: Vec<Vec<u32>> = vec![[&p[..], &[first, tokens[1].id, 3]].concat()];
    let mut e = engine(mixers, ROOMY).drafting(vec![oracle(&texts, Some(3))], None);
    let mut counts = vec![0.0; VOCAB];
    let mut g = fixed(generation(0, 3, 6), 1);
    // Logprobs are the model's own: nothing is cut or scaled.
    let neutral = [("temperature", 1.0), ("top_k", 0.0), ("top_p", 1.0), ("min_p", 0.0)];
    neutral.iter().for_each(|&(name, value)| g.params.set(name, value).expect("known"));
    for seed in 0..rounds {
        g.params.set("seed", seed).expect("known");
        let receiver = add(&mut e, p.clone(), g.clone());
        finish(&mut e);
        for answer in outcome(&receiver, 6).answers.iter().filter(|a| a[0].0 == first) {
            counts[answer[1].0 as usize] += 1.0;
        }
    }
    let (sum, freedom) = chi_square(&counts, &probabilities);
    // Five standard deviations of the distribution.
    assert!(sum < freedom + 5.0 * (2.0 * freedom).sqrt() + 5.0, "{sum} at {freedom} degrees of freedom");
    assert!(e.counters().drafted > 1000, "{:?}", e.counters());
}
