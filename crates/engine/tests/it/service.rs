//! The service on a scripted machine: sinks, limits, deadlines, failures. The machine's token after `t` is `t + 1`.

use lamina_engine::{
    Engine, EngineError, Event, FinishReason, Generation, Gone, Handle, LengthBy, Pass, Policy, Pooling,
    Request, Service, Sink, Snapshot, StopBy, Task, Terms, pooled, sample::SamplingParams,
};
use lamina_plan::{BackendError, Select};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, TryRecvError, channel},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use crate::scripted::{Fault, Gate, HIDDEN, Scripted, VOCAB};

/// Long enough for any answer of these tests; reached only where something hangs.
const LONG: Duration = Duration::from_secs(20);

fn service(script: Scripted) -> Service {
    with_policy(script, Policy::default())
}

fn with_policy(script: Scripted, policy: Policy) -> Service {
    Service::start(Engine::with_policy(Box::new(script), 256, true, policy)).expect("starts")
}

fn generation(tokens: usize) -> Generation {
    let mut params = SamplingParams::default();
    params.set("temperature", 0.0).expect("known");
    Generation { max_tokens: Some(tokens), params, ..Generation::default() }
}

fn task(tokens: usize) -> Task {
    Task::Generate(Box::new(generation(tokens)))
}

fn submit(service: &Service, first: u32, tokens: usize, terms: Terms) -> Handle {
    service.submit(vec![first], Arc::default(), task(tokens), terms).expect("is taken")
}

/// Tokens of an answer, and how it ended.
fn answer(handle: &Handle) -> (Vec<u32>, Result<FinishReason, EngineError>) {
    let mut tokens = vec![];
    loop {
        match handle.next_within(LONG).expect("goes on") {
            Event::Token(t) => tokens.push(t.id),
            Event::Prompt { .. } | Event::Progress { .. } => {}
            Event::Finished { reason, .. } => return (tokens, Ok(reason)),
            Event::Failed(e) => return (tokens, Err(e)),
        }
    }
}

/// The first snapshot that is as it has to become.
fn settled(service: &Service, is: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        let state = service.snapshot();
        if is(&state) {
            return state;
        }
        std::thread::yield_now();
    }
    panic!("stays as {:?}", service.snapshot());
}

fn counted(first: u32, n: u32) -> Vec<u32> {
    (1..=n).map(|i| (first + i) % VOCAB as u32).collect()
}

#[test]
fn reasons_say_which() {
    let service = service(Scripted::new());
    let ask = |g: Generation| {
        let handle = service.submit(vec![5], Arc::default(), Task::Generate(Box::new(g)), Terms::default());
        answer(&handle.expect("is taken"))
    };
    let by_tokens = FinishReason::Length { by: LengthBy::MaxTokens };
    assert_eq!(ask(generation(3)), (counted(5, 3), Ok(by_tokens)));
    assert_eq!(ask(generation(0)), (vec![], Ok(by_tokens)));
    let end = Generation { end_tokens: [9, 8].into(), ..generation(30) };
    assert_eq!(ask(end), (counted(5, 2), Ok(FinishReason::Stop { by: StopBy::End(8) })));
    let context = Generation { max_tokens: None, ..generation(0) };
    assert_eq!(ask(context), (counted(5, 256), Ok(FinishReason::Length { by: LengthBy::Context })));
}

#[test]
fn a_prompt_is_scored_without_an_answer() {
    let service = service(Scripted::new());
    for (n, answers) in [(0, 1), (0, 3), (2, 2)] {
        let g = Generation { prompt_logprobs: Some(1), n: answers, ..generation(n) };
        let task = Task::Generate(Box::new(g));
        let prompt: Vec<u32> = vec![4, 5, 9, 10, 11];
        let handle =
            service.submit(prompt.clone(), Arc::default(), task, Terms::default()).expect("is taken");
        let (mut scored, mut tokens, mut ends) = (vec![], 0, 0);
        while let Some(event) = handle.next() {
            match event {
                Event::Prompt { start, tokens } => {
                    assert_eq!(start, 1 + scored.len());
                    scored.extend(tokens);
                }
                Event::Token(_) => tokens += 1,
                Event::Finished { .. } => ends += 1,
                Event::Progress { .. } => panic!("not asked for"),
                Event::Failed(e) => panic!("{e}"),
            }
        }
        assert_eq!((tokens, ends), (n * answers, answers));
        assert_eq!(scored.iter().map(|s| s.id).collect::<Vec<_>>(), prompt[1..]);
        let expected: Vec<_> = scored.iter().map(|s| s.top[0].0).collect();
        assert_eq!(expected, [5, 6, 10, 11], "what the machine says after each token");
        assert!(scored[0].logprob > -0.1 && scored[1].logprob < -1.0);
    }
}

#[test]
fn a_reader_that_is_behind_pauses_its_request_alone() {
    let service = service(Scripted::new());
    let slow = submit(&service, 0, 200, Terms { backlog: 3, ..Terms::default() });
    let quick = submit(&service, 7, 200, Terms::default());
    assert_eq!(answer(&quick).0, counted(7, 200));
    // The slow one has got no further than its backlog and the events of one step.
    // Events come before the snapshot of their step.
    let state = settled(&service, |s| s.running.len() == 1);
    assert!(state.running[0].paused, "{state:?}");
    assert!(state.running[0].tokens <= 4, "{state:?}");
    assert_eq!(answer(&slow).0, counted(0, 200), "reading wakes it");
}

#[test]
fn paused_requests_end_by_cancel_and_by_deadline() {
    let service = service(Scripted::new());
    let slow = submit(&service, 0, 200, Terms { backlog: 1, ..Terms::default() });
    while !service.snapshot().running.first().is_some_and(|s| s.paused) {
        std::thread::yield_now();
    }
    slow.cancel();
    assert_eq!(answer(&slow).1, Ok(FinishReason::Cancelled));
    let deadline = Some(Instant::now() + Duration::from_millis(30));
    let late = submit(&service, 0, 200, Terms { backlog: 1, deadline, ..Terms::default() });
    while !service.snapshot().running.is_empty() || service.snapshot().counters.steps == 0 {
        std::thread::yield_now();
    }
    while service.snapshot().counters.finished == 0 {
        std::thread::yield_now();
    }
    assert_eq!(answer(&late).1, Ok(FinishReason::Length { by: LengthBy::Deadline }));
}

#[test]
fn the_queue_has_an_end() {
    let gate = Gate::closed();
    let policy = Policy { max_queue: 2, max_running: 1, ..Policy::default() };
    let service = with_policy(Scripted { gate: gate.clone(), ..Scripted::new() }, policy);
    let first = submit(&service, 1, 5, Terms::default());
    gate.wait_for_step();
    let waiting = [submit(&service, 2, 5, Terms::default()), submit(&service, 3, 5, Terms::default())];
    let refused = service.submit(vec![4], Arc::default(), task(5), Terms::default()).err();
    assert_eq!(refused, Some(EngineError::QueueFull { limit: 2 }));
    gate.open();
    assert_eq!(answer(&first).0, counted(1, 5));
    for (handle, first) in waiting.iter().zip([2, 3]) {
        assert_eq!(answer(handle).0, counted(first, 5));
    }
    assert_eq!(answer(&submit(&service, 4, 5, Terms::default())).0, counted(4, 5));
}

#[test]
fn lower_priorities_come_first() {
    let gate = Gate::closed();
    let policy = Policy { max_running: 1, ..Policy::default() };
    let service = with_policy(Scripted { gate: gate.clone(), ..Scripted::new() }, policy);
    let order = Arc::new(Mutex::new(vec![]));
    let _first = submit(&service, 0, 2, Terms::default());
    gate.wait_for_step();
    for (name, priority) in [("low", 5), ("usual", 0), ("high", -5)] {
        let order = order.clone();
        let sink = Ends(Box::new(move |_| order.lock().expect("lock").push(name)));
        let terms = Terms { priority, ..Terms::default() };
        service.send(Request { terms, ..Request::new(vec![1], task(2), Box::new(sink)) }).expect("is taken");
    }
    gate.open();
    while order.lock().expect("lock").len() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(*order.lock().expect("lock"), ["high", "usual", "low"]);
    let wrong = Terms { priority: 101, ..Terms::default() };
    let refused = answer(&submit(&service, 1, 1, wrong)).1;
    assert!(matches!(refused, Err(EngineError::Parameter { name: "priority", .. })), "{refused:?}");
}

/// Calls back with the reason of the end.
struct Ends(Box<dyn Fn(FinishReason) + Send>);

impl Sink for Ends {
    fn room(&self) -> bool {
        true
    }

    fn send(&mut self, event: Event) -> Result<(), Gone> {
        if let Event::Finished { reason, .. } = event {
            (self.0)(reason);
        }
        Ok(())
    }
}

#[test]
fn logits_that_are_no_numbers_end_one_answer_as_a_fault() {
    let service = service(Scripted { fault: Some((50, Fault::NotANumber)), ..Scripted::new() });
    let (bad, good) = (submit(&service, 40, 30, Terms::default()), submit(&service, 0, 30, Terms::default()));
    let (tokens, end) = answer(&bad);
    assert_eq!(tokens, counted(40, 10));
    assert!(matches!(&end, Err(EngineError::Runtime(text)) if text.contains("NaN")), "{end:?}");
    assert_eq!(answer(&good).0, counted(0, 30), "nobody else notices");
}

#[test]
fn a_failed_step_ends_those_in_it_and_is_forgotten() {
    let oom = || BackendError::OutOfMemory {
        what: "a step".into(),
        need: "1 GB".into(),
        have: "1 MB".into(),
        advice: "close something",
    };
    let service = service(Scripted { fault: Some((50, Fault::Step(oom))), ..Scripted::new() });
    let (a, b) = (submit(&service, 45, 30, Terms::default()), submit(&service, 47, 30, Terms::default()));
    for handle in [&a, &b] {
        let (_, end) = answer(handle);
        assert!(matches!(&end, Err(EngineError::OutOfMemory(text)) if text.contains("1 GB")), "{end:?}");
        assert_eq!(handle.next(), None, "nothing follows");
    }
    // The pages of the failed step are not found again.
    let handle =
        service.submit((0..40).collect(), Arc::default(), task(3), Terms::default()).expect("goes on");
    assert_eq!(answer(&handle).0, counted(39, 3));
    settled(&service, |s| s.counters.failed == 2);
}

#[test]
fn a_panic_is_answered_with_its_cause() {
    let service = service(Scripted { fault: Some((20, Fault::Panic)), ..Scripted::new() });
    // The thread may have ended before the second one is taken, or be ending yet: either way the cause is told.
    let asked =
        [15, 10, 1].map(|first| service.submit(vec![first], Arc::default(), task(90), Terms::default()));
    for submitted in asked {
        let error = match submitted {
            Ok(handle) => answer(&handle).1.expect_err("has ended"),
            Err(error) => error,
        };
        assert_eq!(error, EngineError::Panic("token 20 does it".into()));
        assert!(error.to_string().contains("token 20 does it"));
    }
}

#[test]
fn a_lost_device_ends_the_service_and_says_so() {
    let lost = || BackendError::Device { backend: "toy", what: "the bus is gone".into(), lost: true };
    let service = service(Scripted { fault: Some((50, Fault::Step(lost))), ..Scripted::new() });
    let submit = |first| service.submit(vec![first], Arc::default(), task(30), Terms::default());
    let text = lost().to_string();
    assert!(text.contains("the bus is gone") && text.contains("load the model again"), "{text}");
    // The device may be lost before the second one is taken.
    for submitted in [submit(45), submit(47), submit(1)] {
        let error = match submitted {
            Ok(handle) => answer(&handle).1.expect_err("has ended"),
            Err(error) => error,
        };
        assert_eq!(error, EngineError::DeviceLost(text.clone()));
    }
}

#[test]
fn a_device_that_failed_once_goes_on() {
    let failed = || BackendError::Device { backend: "toy", what: "one launch".into(), lost: false };
    let service = service(Scripted { fault: Some((50, Fault::Step(failed))), ..Scripted::new() });
    let end = answer(&submit(&service, 45, 30, Terms::default())).1;
    assert!(matches!(end, Err(EngineError::Runtime(_))), "{end:?}");
    assert_eq!(answer(&submit(&service, 5, 3, Terms::default())).0, counted(5, 3));
}

#[test]
fn closing_tells_who_waits() {
    let service = service(Scripted::new());
    // Its reader is behind, so that it cannot end before.
    let handle = submit(&service, 1, 100, Terms { backlog: 2, ..Terms::default() });
    service.close();
    assert_eq!(answer(&handle).1, Err(EngineError::Closed));
}

#[test]
fn a_service_that_is_closed_beside_its_last_step_ends() {
    let entry = Gate::closed();
    let service = service(Scripted { entry: entry.clone(), ..Scripted::new() });
    // One token: no step follows in which the message could be found.
    let handle = submit(&service, 1, 1, Terms::default());
    entry.wait_for_step();
    let (sender, ended) = channel();
    let thread = std::thread::spawn(move || {
        service.close();
        sender.send(()).expect("listens");
    });
    // Time for the message to lie there before the step goes on, which takes it then. One that came later would be found
    // after the step, as it always was.
    std::thread::sleep(Duration::from_millis(100));
    entry.open();
    assert_eq!(ended.recv_timeout(LONG), Ok(()), "the thread waits for a message that nobody sends");
    thread.join().expect("ends");
    assert_eq!(answer(&handle), (counted(1, 1), Ok(FinishReason::Length { by: LengthBy::MaxTokens })));
}

#[test]
fn a_snapshot_is_read_while_a_step_runs() {
    let gate = Gate::closed();
    let service = service(Scripted { gate: gate.clone(), ..Scripted::new() });
    let handle = submit(&service, 1, 3, Terms::default());
    gate.wait_for_step();
    let state = service.snapshot();
    assert_eq!((state.waiting.len() + state.running.len(), state.counters.steps), (1, 0));
    gate.open();
    assert_eq!(answer(&handle).0.len(), 3);
    drop(handle);
    let state = settled(&service, |s| s.running.is_empty());
    assert_eq!((state.counters.tokens, state.counters.finished, state.counters.decode_rows), (3, 1, 3));
    assert_eq!(state.free_pages, state.pages);
    assert!(state.last_step.is_some_and(|s| s.decode_rows == 1 && s.prompt_rows == 0));
}

#[test]
fn timings_tell_when() {
    let service = service(Scripted::new());
    let handle = submit(&service, 1, 5, Terms::default());
    let timings = loop {
        match handle.next() {
            Some(Event::Finished { timings, .. }) => break timings,
            event => assert!(event.is_some()),
        }
    };
    let t = timings.times;
    let order = [t.arrival, t.first_step, t.first_token, t.last_token];
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{t:?}");
    assert_eq!((timings.tokens, timings.preemptions), (5, 0));
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_handle_can_be_polled() {
    let gate = Gate::closed();
    let service = service(Scripted { gate: gate.clone(), ..Scripted::new() });
    let handle = submit(&service, 1, 3, Terms::default());
    assert_eq!(handle.try_next(), Err(TryRecvError::Empty));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    assert!(handle.poll_next(&mut context).is_pending());
    gate.open();
    let (mut tokens, begin) = (0, Instant::now());
    while begin.elapsed() < LONG {
        match handle.poll_next(&mut context) {
            Poll::Ready(Some(Event::Token(_))) => tokens += 1,
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) => break,
            Poll::Pending => std::thread::yield_now(),
        }
    }
    assert_eq!(tokens, 3);
    assert!(wakes.0.load(Ordering::SeqCst) > 0);
    assert_eq!(handle.next_within(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn salted_prompts_share_nothing() {
    let service = service(Scripted::new());
    let prompt: Vec<u32> = (0..70).collect();
    let cached = |salt: Option<&str>| {
        let terms = Terms { cache_salt: salt.map(Into::into), ..Terms::default() };
        let handle = service.submit(prompt.clone(), Arc::default(), task(1), terms).expect("is taken");
        loop {
            if let Event::Finished { timings, .. } = handle.next().expect("goes on") {
                return timings.cached_tokens;
            }
        }
    };
    assert_eq!([None, Some("a"), Some("b")].map(cached), [0, 0, 0]);
    assert_eq!([None, Some("a"), Some("b")].map(cached), [64, 64, 64]);
}

#[test]
fn a_channel_is_a_sink_and_its_end_is_noticed() {
    let service = service(Scripted::new());
    let (events, receiver) = channel();
    service.send(Request::new(vec![3], task(100), Box::new(events))).expect("is taken");
    assert!(matches!(receiver.recv_timeout(LONG), Ok(Event::Token(_))));
    drop(receiver);
    while service.snapshot().counters.cancelled + service.snapshot().counters.finished == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn rows_of_a_pass_come_once_and_in_order() {
    let service = service(Scripted::new());
    let rows = Arc::new(Mutex::new(vec![]));
    let (all, seen) = (rows.clone(), Arc::new(AtomicBool::new(false)));
    let sink = Box::new(move |start: usize, new: &[f32]| {
        let mut all = all.lock().expect("lock");
        assert_eq!(all.len(), start * VOCAB);
        all.extend_from_slice(new);
        seen.store(true, Ordering::Relaxed);
    });
    let pass = Task::Pass(Pass { hidden: None, rows: Select::All, second: None, sink });
    let handle = service.submit((0..90).collect(), Arc::default(), pass, Terms::default()).expect("is taken");
    assert!(answer(&handle).1.is_ok());
    assert_eq!(rows.lock().expect("lock").len(), 90 * VOCAB);
}

#[test]
fn pooled_rows_ride_with_answers() {
    let service = service(Scripted::new());
    let answers: Vec<_> = (0..5).map(|i| submit(&service, i, 60, Terms::default())).collect();
    let pools = [Pooling::Mean, Pooling::Last, Pooling::First].map(|pooling| {
        let (sink, pool) = pooled(pooling, HIDDEN);
        let pass = Task::Pass(Pass { hidden: Some(0), rows: Select::All, second: None, sink });
        let tokens = (0..81).collect();
        (service.submit(tokens, Arc::default(), pass, Terms::default()).expect("is taken"), pool)
    });
    for (i, handle) in answers.iter().enumerate() {
        assert_eq!(answer(handle).0, counted(i as u32, 60));
    }
    for ((handle, pool), want) in pools.iter().zip([40.0, 80.0, 0.0]) {
        assert!(answer(handle).1.is_ok());
        assert_eq!(pool.row(), [want; HIDDEN]);
    }
}
