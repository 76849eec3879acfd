//! Engines with a clock of their own, which is all that their requests' times are told by; what the cache has of a prompt is
//! known before it is run.

use super::*;
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

thread_local! {
    static NOW: Cell<Instant> = Cell::new(Instant::now());
}

/// Each look at it takes a second.
fn clock() -> Instant {
    NOW.set(NOW.get() + Duration::from_secs(1));
    NOW.get()
}

#[test]
fn times_are_those_of_the_engines_clock() {
    let run = || {
        let mut e = engine(vec![attention()], ROOMY).timed_by(clock);
        let before = clock();
        let receiver = add(&mut e, prompt(3, 90), generation(1, 12, 2));
        finish(&mut e);
        let ends = receiver.try_iter().filter_map(|event| match event {
            Event::Finished { timings, .. } => Some(timings),
            _ => None,
        });
        let times = |t: Timings| {
            let [first, last] = [t.times.first_token, t.times.last_token].map(|at| at.expect("a token"));
            [t.queue_seconds, t.prefill_seconds, t.decode_seconds, (first - before).as_secs_f64()]
                .map(|seconds| (seconds, last - first))
        };
        ends.map(times).collect::<Vec<_>>()
    };
    let [one, again] = [run(), run()];
    assert_eq!(one, again, "the same looks, the same seconds");
    assert_eq!(one.len(), 2);
    for (seconds, decoding) in one.iter().flatten() {
        assert!(*seconds >= 1.0 && seconds.fract() == 0.0, "{seconds}");
        assert!(
            *decoding >= Duration::from_secs(11),
            "each of twelve tokens was chosen at a time of its own"
        );
    }
}

#[test]
fn what_is_cached_is_known_before_it_is_used() {
    for mixers in kinds() {
        let mut e = engine(mixers.clone(), ROOMY);
        let ask = |e: &mut Engine, tokens: Vec<u32>| {
            let task = Task::Generate(Box::new(generation(1, 2, 1)));
            let known = e.cached_tokens(Request::new(tokens.clone(), task, Box::new(channel().0)));
            assert!(e.idle(), "nothing runs for a question");
            let receiver = add(e, tokens, generation(1, 2, 1));
            finish(e);
            assert_eq!(known, outcome(&receiver, 1).cached);
            known
        };
        let longer = [prompt(3, 90), prompt(9, 40)].concat();
        assert_eq!(ask(&mut e, prompt(3, 90)), 0);
        assert_eq!(ask(&mut e, prompt(3, 90)), 2 * PAGE_LEN);
        assert_eq!(ask(&mut e, longer), 2 * PAGE_LEN);
        assert_eq!(ask(&mut e, prompt(4, 90)), 0);
        let mut cold = engine(mixers, Setup { reuse: false, ..ROOMY });
        assert_eq!([0, 1].map(|_| ask(&mut cold, prompt(3, 90))), [0, 0]);
    }
}
