//! Rows that are made when a step comes to them: what the cache has is never made, others go on meanwhile, and no bit tells
//! when they came.

use super::*;
use lamina_engine::{EncodedRows, RowSource};
use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// An encoder whose rows come when the test says so.
#[derive(Default)]
struct Slow {
    asked: AtomicUsize,
    made: OnceLock<Result<Arc<dyn EncodedRows>, EngineError>>,
}

struct Made(Vec<f32>, Vec<Vec<f32>>);

impl EncodedRows for Made {
    fn numbers(&self) -> &[f32] {
        &self.0
    }

    fn deep(&self) -> &[Vec<f32>] {
        &self.1
    }
}

impl RowSource for Slow {
    fn rows(&self) -> Option<Result<Arc<dyn EncodedRows>, EngineError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.made.get().cloned()
    }
}

impl Slow {
    /// The rows of both pictures of a prompt.
    fn come(&self, plan: &Plan, prompt: &[u32]) {
        self.come_as(plan, &[&prompt[FIRST], &prompt[SECOND]].concat());
    }

    fn come_as(&self, plan: &Plan, tokens: &[u32]) {
        let table = plan.weights.iter().position(|w| matches!(w.kind, WeightKind::Table { .. }));
        let values = weight(plan, table.expect("embeds")).to_f32().expect("is float32");
        let rows = tokens.iter().flat_map(|&t| values[t as usize * 16..][..16].iter().copied()).collect();
        assert!(self.made.set(Ok(Arc::new(Made(rows, vec![])))).is_ok());
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Places of the prompt that two pictures take.
const FIRST: Range<usize> = 20..50;
const SECOND: Range<usize> = 54..62;

/// Asks for an answer behind two pictures; `name` stands for their pixels.
fn ask(e: &mut Engine, tokens: &[u32], picture: (&Arc<Slow>, u8), g: Generation) -> Receiver<Event> {
    ask_where(e, tokens, picture, g, |rows| rows)
}

/// The same where `seen` is done to their rows.
fn ask_where(
    e: &mut Engine,
    tokens: &[u32],
    (source, name): (&Arc<Slow>, u8),
    g: Generation,
    seen: impl Fn(NumberRows) -> NumberRows,
) -> Receiver<Event> {
    let (mut placeholders, mut from) = (tokens.to_vec(), 0);
    let rows = [FIRST, SECOND].map(|places| {
        placeholders[places.clone()].fill(5);
        let part = from..from + places.len();
        from = part.end;
        seen(NumberRows::of_source(places.start, 16, source.clone(), (&[name; 16], part)))
    });
    let (events, receiver) = channel();
    let task = Task::Generate(Box::new(g));
    e.add(Request { rows: rows.into(), ..Request::new(placeholders, task, Box::new(events)) });
    receiver
}

/// A source whose rows are there.
fn ready(e: &mut Engine, tokens: &[u32]) -> Arc<Slow> {
    let source = Arc::new(Slow::default());
    source.come(e.machine().plan(), tokens);
    source
}

#[test]
fn others_go_on_while_rows_are_made_and_no_bit_tells() {
    for mixers in kinds() {
        let tokens = prompt(3, 90);
        let want = alone(&mixers, ROOMY, tokens.clone(), generation(1, 12, 1));
        let beside = alone(&mixers, ROOMY, prompt(8, 10), generation(2, 40, 1));
        for rows in [7, 64] {
            let mut e = engine(mixers.clone(), Setup { rows, ..ROOMY });
            let slow = Arc::new(Slow::default());
            let picture = ask(&mut e, &tokens, (&slow, 1), generation(1, 12, 1));
            let stream = add(&mut e, prompt(8, 10), generation(2, 40, 1));
            // The stream ends before the first row of the picture is there.
            for _ in 0..200 {
                e.step();
            }
            assert!(slow.asked() > 0, "its turn has come");
            assert_eq!(outcome(&stream, 1).answers, beside.answers);
            assert!(
                outcome(&picture, 1).answers[0].is_empty(),
                "nothing is chosen before the rows are there"
            );
            slow.come(e.machine().plan(), &tokens);
            finish(&mut e);
            assert_eq!(outcome(&picture, 1).answers, want.answers, "{rows} rows");
        }
    }
}

#[test]
fn what_the_cache_has_is_never_made() {
    for (mixers, of_middle) in kinds().into_iter().zip([PAGE_LEN, 0]) {
        let tokens = prompt(3, 90);
        let mut e = engine(mixers, ROOMY);
        let g = generation(1, 12, 1);
        let first = ready(&mut e, &tokens);
        let want = ask(&mut e, &tokens, (&first, 1), g.clone());
        finish(&mut e);
        // The pictures end inside the second page, which is full.
        let second = Arc::new(Slow::default());
        let again = ask(&mut e, &tokens, (&second, 1), g.clone());
        finish(&mut e);
        let again = outcome(&again, 1);
        assert_eq!((again.answers, again.cached), (outcome(&want, 1).answers, 2 * PAGE_LEN));
        assert_eq!(second.asked(), 0);
        // Of a prompt that ends inside the second page the first is found, where there is no state to be had at its end: the
        // rest of the picture is needed.
        let third = ready(&mut e, &tokens);
        let middle = ask(&mut e, &tokens[..63], (&third, 1), g.clone());
        finish(&mut e);
        let middle = outcome(&middle, 1);
        assert_eq!(middle.cached, of_middle);
        assert!(third.asked() > 0);
        let other = ready(&mut e, &tokens);
        let cold = ask(&mut e, &tokens[..63], (&other, 2), g);
        finish(&mut e);
        assert_eq!(outcome(&cold, 1).answers, middle.answers, "up to the middle of a picture");
    }
}

#[test]
fn a_preempted_picture_is_computed_again_and_no_bit_tells() {
    for mixers in kinds() {
        let tokens = prompt(3, 90);
        let want = alone(&mixers, ROOMY, tokens.clone(), generation(1, 50, 1)).answers;
        // All of them do not fit at once: some lose their pages in the text, in a picture, between two or behind them.
        let mut preempted = 0;
        for (rows, pages) in [(3, 6), (7, 5), (16, 6), (31, 7), (64, 8)] {
            for reuse in [false, true] {
                let mut e = engine(mixers.clone(), Setup { rows, pages, reuse });
                let receivers: Vec<_> = (0..4)
                    .map(|i| {
                        let source = ready(&mut e, &tokens);
                        ask(&mut e, &tokens, (&source, i), generation(1, 50, 1))
                    })
                    .collect();
                finish(&mut e);
                let equal = receivers.iter().all(|r| outcome(r, 1).answers == want);
                assert!(equal, "{rows} rows, {pages} pages, reuse {reuse}");
                preempted += e.counters().preemptions;
            }
        }
        assert!(preempted > 4, "{preempted}");
    }
}

#[test]
fn rows_that_see_one_another_have_the_same_bits_preempted_and_found() {
    let mixers = vec![attention(), attention()];
    let (tokens, g) = (prompt(3, 90), generation(1, 50, 1));
    let run = |setup: Setup, count: u8| {
        let mut e = engine(mixers.clone(), setup);
        let source = ready(&mut e, &tokens);
        let all: Vec<_> = (0..count)
            .map(|i| ask_where(&mut e, &tokens, (&source, i % 2), g.clone(), NumberRows::seeing_both_ways))
            .collect();
        finish(&mut e);
        (all.iter().map(|r| outcome(r, 1).answers).collect::<Vec<_>>(), e.counters().preemptions)
    };
    let (want, _) = run(ROOMY, 1);
    let causal = alone(&mixers, ROOMY, tokens.clone(), g.clone()).answers;
    assert_ne!(want[0], causal, "they see more");
    let mut preempted = 0;
    for (rows, pages) in [(31, 6), (40, 7), (64, 8)] {
        for reuse in [false, true] {
            let (got, times) = run(Setup { rows, pages, reuse }, 4);
            assert!(
                got.iter().all(|answers| *answers == want[0]),
                "{rows} rows, {pages} pages, reuse {reuse}"
            );
            preempted += times;
        }
    }
    assert!(preempted > 2, "{preempted}");
}

#[test]
fn answers_that_part_behind_pictures_share_them() {
    for mixers in kinds() {
        let tokens = prompt(3, 90);
        let want = alone(&mixers, ROOMY, tokens.clone(), generation(1, 12, 3)).answers;
        let mut e = engine(mixers, Setup { rows: 16, ..ROOMY });
        let source = ready(&mut e, &tokens);
        let parted = ask(&mut e, &tokens, (&source, 1), generation(1, 12, 3));
        finish(&mut e);
        assert_eq!(outcome(&parted, 3).answers, want);
    }
}

#[test]
fn rows_that_cannot_be_made_fail_their_request_alone() {
    let mut e = engine(vec![attention(), attention()], ROOMY);
    let tokens = prompt(3, 90);
    let broken = Arc::new(Slow::default());
    let why = EngineError::Runtime("no light".into());
    assert!(broken.made.set(Err(why.clone())).is_ok());
    let short = Arc::new(Slow::default());
    short.come_as(e.machine().plan(), &tokens[..3]);
    let failed = ask(&mut e, &tokens, (&broken, 1), generation(1, 12, 1));
    let cut = ask(&mut e, &tokens, (&short, 2), generation(1, 12, 1));
    let good = add(&mut e, prompt(8, 10), generation(2, 4, 1));
    finish(&mut e);
    assert_eq!(outcome(&failed, 1).error, Some(why));
    assert!(matches!(outcome(&cut, 1).error, Some(EngineError::Runtime(_))));
    assert_eq!(outcome(&good, 1).answers[0].len(), 4);
}

#[test]
fn tokens_in_whose_places_rows_stand_are_never_chosen() {
    let mixers = vec![attention(), attention()];
    let free = alone(&mixers, ROOMY, prompt(3, 40), generation(1, 30, 1));
    let said: Vec<u32> = free.answers[0].iter().map(|(id, _)| *id).collect();
    let never: Arc<[u32]> = said[..3].into();
    for set in [("temperature", 0.0), ("temperature", 1.0), ("repetition_penalty", 1.3)] {
        let mut g = Generation { never: never.clone(), ..generation(1, 30, 2) };
        g.params.set(set.0, set.1).expect("known");
        if set.1 == 0.0 {
            // From the front of the ranking.
            g.params.logprobs.count = None;
        }
        let mut e = engine(mixers.clone(), ROOMY);
        let receiver = add(&mut e, prompt(3, 40), g);
        finish(&mut e);
        let ids: Vec<u32> = receiver
            .try_iter()
            .filter_map(|e| if let Event::Token(t) = e { Some(t.id) } else { None })
            .collect();
        assert_eq!(ids.len(), 60);
        assert!(ids.iter().all(|id| !never.contains(id)), "{set:?}");
    }
}
