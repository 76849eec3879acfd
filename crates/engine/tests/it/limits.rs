//! What keeps an answer from ending, from beginning, and what is told of its prompt. The machine's token after `t` is
//! `t + 1`.

use lamina_engine::{
    Engine, Event, FinishReason, Generation, Handle, LengthBy, Policy, Service, StopBy, Task, Terms,
    sample::SamplingParams,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::scripted::{Gate, Scripted};

fn generation(tokens: usize) -> Generation {
    let mut params = SamplingParams::default();
    params.set("temperature", 0.0).expect("known");
    Generation { max_tokens: Some(tokens), params, ..Generation::default() }
}

fn start(script: Scripted, policy: Policy) -> Service {
    Service::start(Engine::with_policy(Box::new(script), 256, true, policy)).expect("starts")
}

fn ask(service: &Service, prompt: Vec<u32>, generation: Generation, terms: Terms) -> Handle {
    service.submit(prompt, Arc::default(), Task::Generate(Box::new(generation)), terms).expect("is taken")
}

/// Tokens of an answer, how it ended, and what was told of the prompt.
fn answer(handle: &Handle) -> (Vec<u32>, FinishReason, Vec<[usize; 3]>) {
    let (mut tokens, mut told) = (vec![], vec![]);
    while let Some(event) = handle.next() {
        match event {
            Event::Token(t) => tokens.push(t.id),
            Event::Progress { prompt, cached, computed } => told.push([prompt, cached, computed]),
            Event::Finished { reason, .. } => return (tokens, reason, told),
            other => panic!("{other:?}"),
        }
    }
    panic!("no end")
}

#[test]
fn an_answer_does_not_end_before_its_least_tokens() {
    let service = start(Scripted::new(), Policy::default());
    let ends = |min_tokens| {
        let end_tokens: Arc<[u32]> = [7, 9].into();
        let g = Generation { min_tokens, end_tokens, ..generation(20) };
        answer(&ask(&service, vec![4], g, Terms::default()))
    };
    let stop = |id| FinishReason::Stop { by: StopBy::End(id) };
    assert_eq!(ends(0).0, [5, 6]);
    assert_eq!((ends(2).0.len(), ends(2).1), (2, stop(7)));
    // Without the end tokens all others are equal where an end was due: the first of them comes.
    let (tokens, reason, _) = ends(5);
    assert_eq!((&tokens[..3], reason), (&[5, 6, 0][..], stop(7)), "{tokens:?}");
    // More than may be: the most holds.
    assert_eq!(ends(100).0.len(), 20);
}

#[test]
fn a_request_that_cannot_begin_in_time_ends() {
    let gate = Gate::closed();
    let script = Scripted { gate: gate.clone(), ..Scripted::new() };
    let service = start(script, Policy { max_running: 1, ..Policy::default() });
    let first = ask(&service, vec![1], generation(5), Terms::default());
    gate.wait_for_step();
    let begin_by = Some(Instant::now() + Duration::from_millis(5));
    let late = ask(&service, vec![2], generation(5), Terms { begin_by, ..Terms::default() });
    std::thread::sleep(Duration::from_millis(10));
    gate.open();
    assert_eq!(answer(&late).1, FinishReason::Length { by: LengthBy::Deadline });
    assert_eq!(answer(&first).0.len(), 5, "one that has begun goes on");
    let begin_by = Some(Instant::now() + Duration::from_secs(60));
    assert_eq!(
        answer(&ask(&service, vec![2], generation(5), Terms { begin_by, ..Terms::default() })).0.len(),
        5
    );
}

#[test]
fn progress_of_a_prompt_is_told_where_it_is_asked_for() {
    let service = start(Scripted::new(), Policy::default());
    let prompt: Vec<u32> = (0..150).map(|i| i % 90).collect();
    let told = |progress| {
        let g = Generation { progress, ..generation(3) };
        answer(&ask(&service, prompt.clone(), g, Terms::default())).2
    };
    // 64 rows a step.
    assert_eq!(told(true), [[150, 0, 64], [150, 0, 128], [150, 0, 150]]);
    assert_eq!(told(true), [[150, 128, 150]]);
    assert_eq!(told(false), [[0; 3]; 0]);
    // The last event is told before the snapshot of its step.
    let until = Instant::now() + Duration::from_secs(10);
    while service.snapshot().cached_pages == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let snapshot = service.snapshot();
    let tallies = snapshot.counters.tallies;
    assert_eq!(tallies.rows.counts.iter().sum::<u64>(), snapshot.counters.steps);
    assert_eq!(snapshot.cached_pages, 4, "what the prompt has filled is kept");
}
