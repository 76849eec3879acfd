//! Beam search against its slow twin, which asks for the logits of every text alone, and against all texts there are.

use super::*;
use lamina_engine::{
    Beam, BeamSearch, BeamTask, EarlyStopping, StopBy,
    sample::{likeliest, logprobs},
};

const EARLY: [EarlyStopping; 3] = [EarlyStopping::Heuristic, EarlyStopping::Full, EarlyStopping::Never];

fn search(width: usize, most: usize, penalty: f32, early: EarlyStopping, ends: &[u32]) -> BeamSearch {
    BeamSearch {
        width,
        max_tokens: Some(most),
        length_penalty: penalty,
        early_stopping: early,
        never: Arc::default(),
        end_tokens: ends.into(),
        stop: vec![],
        constraint: None,
        tokenizer: None,
    }
}

/// What a search found, when it has ended, and its events.
struct Sent(Arc<Mutex<Vec<Beam>>>, Receiver<Event>);

fn send(e: &mut Engine, prompt: Vec<u32>, search: BeamSearch) -> Sent {
    let found = Arc::new(Mutex::new(vec![]));
    let (taken, (events, receiver)) = (found.clone(), channel());
    let n = search.width.clamp(1, 2);
    let task = BeamTask::new(search, n, Box::new(move |beams| *taken.lock().expect("lock") = beams.to_vec()));
    e.add(Request::new(prompt, Task::Beams(Box::new(task)), Box::new(events)));
    Sent(found, receiver)
}

impl Sent {
    fn found(&self) -> Vec<Beam> {
        let found = self.0.lock().expect("lock").clone();
        let mut told = vec![vec![]; 2];
        let mut ends = vec![];
        for event in self.1.try_iter() {
            match event {
                Event::Token(token) => told[token.index].push(token.id),
                Event::Finished { index, reason, .. } => {
                    assert_eq!(index, ends.len(), "answers come one after the other");
                    ends.push(reason);
                }
                other => panic!("{other:?}"),
            }
        }
        for ((beam, tokens), reason) in found.iter().zip(told).zip(&ends) {
            assert_eq!((&beam.tokens, beam.reason), (&tokens, *reason), "events tell the best answers");
        }
        assert!(!ends.is_empty());
        found
    }

    fn error(&self) -> String {
        match self.1.try_iter().last() {
            Some(Event::Failed(e)) => e.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn searched(mixers: &[Mixer], s: Setup, prompt: Vec<u32>, asked: BeamSearch) -> Vec<Beam> {
    let mut e = engine(mixers.to_vec(), s);
    let sent = send(&mut e, prompt, asked);
    finish(&mut e);
    sent.found()
}

/// Logprobs of all tokens behind a text.
fn behind(e: &mut Engine, text: &[u32]) -> Vec<f32> {
    let row = Arc::new(Mutex::new(vec![]));
    let (taken, (events, _receiver)) = (row.clone(), channel());
    let sink = Box::new(move |_, last: &[f32]| *taken.lock().expect("lock") = last.to_vec());
    let task = Task::Pass(Pass { hidden: None, rows: Select::Last, second: None, sink });
    e.add(Request::new(text.to_vec(), task, Box::new(events)));
    finish(e);
    let row = row.lock().expect("lock");
    (0..row.len()).map(|id| logprobs(&row, id as u32, 0).expect("sound").0).collect()
}

fn score(sum: f64, length: usize, asked: &BeamSearch) -> f64 {
    sum / (length as f64).powf(f64::from(asked.length_penalty))
}

/// The algorithm as transformers' `_beam_search` has it: all continuations of all beams in one list.
fn twin(e: &mut Engine, prompt: &[u32], asked: &BeamSearch) -> Vec<(Vec<u32>, f64)> {
    let (width, most) = (asked.width, asked.max_tokens.expect("is given"));
    let mut running: Vec<(Vec<u32>, f64)> = vec![(vec![], 0.0)];
    let mut found: Vec<(Vec<u32>, f64)> = vec![];
    for length in 1..=most {
        let mut all = vec![];
        for (tokens, sum) in &running {
            for (id, x) in behind(e, &[prompt, tokens].concat()).into_iter().enumerate() {
                all.push(([&tokens[..], &[id as u32]].concat(), sum + f64::from(x)));
            }
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate((1 + asked.end_tokens.len()).max(2) * width);
        let ended = |tokens: &[u32]| asked.end_tokens.contains(&tokens[length - 1]) || length == most;
        let (full, stops) = (found.len() == width, asked.early_stopping == EarlyStopping::Full);
        let new = all.iter().take(width).filter(|(tokens, _)| ended(tokens) && !(full && stops));
        found.extend(new.map(|(tokens, sum)| (tokens.clone(), score(*sum, length, asked))));
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.truncate(width);
        running = all.into_iter().filter(|(tokens, _)| !ended(tokens)).take(width).collect();
        let reached = match asked.early_stopping {
            EarlyStopping::Never if asked.length_penalty > 0.0 => most,
            _ => length,
        };
        let full = found.len() == width;
        let hope = running.first().is_some_and(|(_, sum)| {
            !full || score(*sum, reached, asked) > found.last().map_or(f64::MIN, |(_, worst)| *worst)
        });
        if !hope || (full && stops) {
            break;
        }
    }
    let strip = |(mut tokens, score): (Vec<u32>, f64)| {
        tokens.pop_if(|last| asked.end_tokens.contains(last));
        (tokens, score)
    };
    found.into_iter().map(strip).collect()
}

fn pairs(found: Vec<Beam>) -> Vec<(Vec<u32>, f64)> {
    found.into_iter().map(|beam| (beam.tokens, beam.score)).collect()
}

#[test]
fn beams_are_those_of_the_twin_to_the_bit() {
    // Without end tokens, with one, and with so many that answers end early.
    let ends: [&[u32]; 3] = [&[], &[7], &[3, 7, 11, 19, 23, 31, 40, 41, 55]];
    for mixers in kinds() {
        let mut twins = engine(mixers.clone(), ROOMY);
        let mut cases = 0;
        for (i, ends) in ends.into_iter().enumerate() {
            for (early, penalty) in EARLY.into_iter().flat_map(|early| [1.0, -0.5, 2.0].map(|p| (early, p))) {
                cases += 1;
                let asked = search(1 + cases % 4, 9, penalty, early, ends);
                let p = prompt(cases, 20 + 7 * i);
                let got = searched(&mixers, ROOMY, p.clone(), asked.clone());
                assert_eq!(pairs(got), twin(&mut twins, &p, &asked), "{early:?} {penalty} {ends:?}");
            }
        }
    }
}

#[test]
fn beams_as_many_as_there_are_texts_find_the_likeliest() {
    let plan = emit(&ModelSpec { vocab: 4, ..spec(vec![attention()]) }, &|_| false);
    let mut e = engine_of(plan, ROOMY);
    for seed in 0..6 {
        let p: Vec<u32> = prompt(seed, 9).into_iter().map(|t| t % 4).collect();
        let mut all: Vec<(Vec<u32>, f64)> = vec![(vec![], 0.0)];
        for _ in 0..3 {
            let longer = |(text, sum): (Vec<u32>, f64)| {
                let row = behind(&mut e, &[&p[..], &text].concat());
                let next = |id: usize| ([&text[..], &[id as u32]].concat(), sum + f64::from(row[id]));
                (0..4).map(next).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(16);
        let sent = send(&mut e, p, search(16, 3, 0.0, EarlyStopping::Never, &[]));
        finish(&mut e);
        assert_eq!(pairs(sent.found()), all);
    }
}

#[test]
fn company_pieces_and_preemption_change_no_bit_of_beams() {
    for mixers in kinds() {
        let asks: Vec<_> = (0..3)
            .map(|i| (prompt(i, 5 + 20 * i), search(2 + i, 20 + 10 * i, 1.0, EARLY[i], &[7, 8])))
            .collect();
        let wants: Vec<_> =
            asks.iter().map(|(p, asked)| searched(&mixers, ROOMY, p.clone(), asked.clone())).collect();
        let texts: Vec<_> =
            (0..4).map(|i| alone(&mixers, ROOMY, prompt(i, 40), generation(i as i64, 60, 1))).collect();
        let setups = [
            ROOMY,
            Setup { rows: 7, ..ROOMY },
            Setup { reuse: false, ..ROOMY },
            Setup { pages: 13, ..ROOMY },
            Setup { pages: 13, rows: 9, reuse: false },
        ];
        for (k, setup) in setups.into_iter().enumerate() {
            let mut e = engine(mixers.clone(), setup);
            for round in 0..2 {
                let sent: Vec<_> =
                    asks.iter().map(|(p, asked)| send(&mut e, p.clone(), asked.clone())).collect();
                let others: Vec<_> =
                    (0..4).map(|i| add(&mut e, prompt(i, 40), generation(i as i64, 60, 1))).collect();
                finish(&mut e);
                for (i, (sent, want)) in sent.iter().zip(&wants).enumerate() {
                    assert_eq!(&sent.found(), want, "setup {k} round {round} ask {i}");
                }
                for (other, want) in others.iter().zip(&texts) {
                    assert_eq!(outcome(other, 1).answers, want.answers, "setup {k} round {round}");
                }
            }
            assert!(k < 3 || e.counters().preemptions > 0, "setup {k} is tight");
            e.publish();
            let state = e.board().read();
            assert_eq!(state.free_pages, state.pages, "all pages are free in the end");
        }
    }
}

#[test]
fn ends_are_told_and_cancelled_searches_leave_nothing() {
    let mut e = engine(vec![attention()], ROOMY);
    let length = |by| FinishReason::Length { by };
    let by_most = searched(&[attention()], ROOMY, prompt(1, 20), search(3, 4, 1.0, EARLY[0], &[]));
    assert!(by_most.iter().all(|b| b.reason == length(LengthBy::MaxTokens) && b.tokens.len() == 4));
    let endless = BeamSearch { max_tokens: None, ..search(2, 0, 1.0, EARLY[2], &[]) };
    let by_context = searched(&[attention()], ROOMY, prompt(1, CONTEXT - 9), endless.clone());
    assert!(by_context.iter().all(|b| b.reason == length(LengthBy::Context) && b.tokens.len() == 10));
    let all: Vec<u32> = (0..VOCAB as u32).collect();
    let by_end = searched(&[attention()], ROOMY, prompt(1, 20), search(2, 9, 1.0, EARLY[0], &all));
    assert!(by_end.iter().all(|b| b.tokens.is_empty() && b.reason != length(LengthBy::MaxTokens)));
    assert!(matches!(by_end[0].reason, FinishReason::Stop { by: StopBy::End(_) }));
    let (events, receiver) = channel();
    let task = BeamTask::new(endless, 1, Box::new(|_| panic!("nobody wants it")));
    let request = Request::new(prompt(2, 20), Task::Beams(Box::new(task)), Box::new(events));
    let cancel = request.cancel.clone();
    e.add(request);
    (0..12).for_each(|_| _ = e.step());
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    finish(&mut e);
    let last = receiver.try_iter().last();
    assert!(matches!(last, Some(Event::Finished { reason: FinishReason::Cancelled, .. })), "{last:?}");
    e.publish();
    assert_eq!(e.board().read().free_pages, e.board().read().pages);
}

#[test]
fn searches_that_can_never_run_are_refused() {
    let mut e = engine(vec![recurrent(), attention()], Setup { pages: 6, ..ROOMY });
    let early = EarlyStopping::Heuristic;
    for (asked, why) in [
        (search(0, 5, 1.0, early, &[]), "must be from 1 to 64"),
        (search(65, 5, 1.0, early, &[]), "must be from 1 to 64"),
        (search(7, 5, 1.0, early, &[]), "to run at once"),
        (search(2, 0, 1.0, early, &[]), "max_tokens is 0"),
        (search(2, 5, f32::NAN, early, &[]), "length_penalty"),
        (search(3, 26, 1.0, early, &[]), "positions of the cache"),
    ] {
        let sent = send(&mut e, prompt(1, 40), asked);
        finish(&mut e);
        let error = sent.error();
        assert!(error.contains(why), "{error}");
    }
    let sent = send(&mut e, prompt(1, 40), search(3, 25, 1.0, early, &[]));
    finish(&mut e);
    assert_eq!(sent.found().len(), 3, "as many as fit alone");
}

#[test]
fn the_front_of_a_row_is_that_of_its_logprobs() {
    let row: Vec<f32> = (0..50).map(|i| ((i * 37 % 50) as f32).sin() * 4.0).collect();
    let mut all: Vec<_> = (0..50u32).map(|id| (id, logprobs(&row, id, 0).expect("sound").0)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert_eq!(likeliest(&mut row.clone(), None, 9), Ok(all[..9].to_vec()));
    let odd = [0xAAAA_AAAA, 0xAAAA_AAAA];
    all.retain(|(id, _)| id % 2 == 1);
    assert_eq!(likeliest(&mut row.clone(), Some(&odd), 60), Ok(all), "probabilities are of the whole row");
    assert_eq!(likeliest(&mut row.clone(), Some(&[0, 0]), 9), Ok(vec![]));
}
