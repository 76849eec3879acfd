//! Replicas that are engines, each with its schedule, its pages and a clock of its own: only the machine is null.

use crate::{
    Replicas, Served,
    gateways::{Gateways, Happened},
    machine::{NullMachine, SECONDS_OF_TOKEN, now, set_now},
    trace::{Asked, next_token},
};
use lamina_engine::{
    Board, Engine, Event, Generation, Gone, Request, SequenceState, Sink, Task, Terms, sample::SamplingParams,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

type Channel<T> = (Sender<T>, Receiver<T>);

pub struct EngineReplicas {
    /// When the simulation begins.
    zero: Instant,
    engines: Vec<(Engine, Board)>,
    /// When the next step of an engine that has work begins, in nanoseconds.
    steps: BinaryHeap<Reverse<(u64, usize)>>,
    works: Vec<bool>,
    news: Channel<(usize, Happened)>,
    /// Of each request that has not begun: tokens that its replica did not have.
    uncached: HashMap<u64, usize>,
    answers: Channel<Served>,
}

/// Takes the events of a request; each token must be the one that the next turn's prompt has.
struct Answer {
    number: usize,
    at: Instant,
    bytes: f64,
    last: (u32, usize),
    begun: bool,
    news: Sender<(usize, Happened)>,
    served: Sender<Served>,
}

impl Sink for Answer {
    fn room(&self) -> bool {
        true
    }

    fn send(&mut self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Token(token) => {
                let (last, place) = self.last;
                assert_eq!(token.id, next_token(last, place), "the answer is the trace's");
                self.last = (token.id, place + 1);
                if !std::mem::replace(&mut self.begun, true) {
                    self.news.send((self.number, Happened::Begun)).map_err(|_| Gone)?;
                }
            }
            Event::Finished { timings, .. } => {
                let first = timings.times.first_token.expect("a first token") - self.at;
                let computed = 1.0 - timings.cached_tokens as f64 / timings.prompt_tokens as f64;
                let measured = [self.bytes * computed, timings.prefill_seconds, timings.decode_seconds];
                self.news.send((self.number, Happened::Ended(Some(measured)))).map_err(|_| Gone)?;
                let served = Served { cached: timings.cached_tokens, first: first.as_secs_f64() };
                self.served.send(served).map_err(|_| Gone)?;
            }
            Event::Failed(e) => panic!("request {} failed: {e}", self.number),
            Event::Prompt { .. } | Event::Progress { .. } => {}
        }
        Ok(())
    }
}

impl EngineReplicas {
    /// Idle engines with so many pages each.
    pub fn new(replicas: usize, pages: usize) -> EngineReplicas {
        let zero = now();
        let engine = |_| {
            let engine = Engine::new(Box::new(NullMachine::new(pages)), usize::MAX, true).timed_by(now);
            let board = engine.board();
            (engine, board)
        };
        EngineReplicas {
            zero,
            engines: (0..replicas).map(engine).collect(),
            steps: BinaryHeap::new(),
            works: vec![false; replicas],
            news: channel(),
            uncached: HashMap::new(),
            answers: channel(),
        }
    }

    /// Seconds since the simulation began.
    fn time(&self) -> f64 {
        (now() - self.zero).as_secs_f64()
    }

    /// The next step of a replica begins now.
    fn begins(&mut self, replica: usize) {
        let at = (now() - self.zero).as_nanos() as u64;
        self.works[replica] = true;
        self.steps.push(Reverse((at, replica)));
    }

    fn step(&mut self, replica: usize, told: &mut Gateways) {
        let (begun, engine) = (self.time(), &mut self.engines[replica].0);
        assert!(engine.step(), "an engine with work computes rows");
        let idle = engine.idle();
        // What an engine tells beside a step was known when that began; with its last one all is told.
        let at = if idle { self.time() } else { begun };
        for (number, what) in self.news.1.try_iter() {
            self.uncached.remove(&tag(number));
            told.tell(at, number, what);
        }
        match idle {
            true => self.works[replica] = false,
            false => self.begins(replica),
        }
    }

    fn request(&self, number: usize, asked: &Asked) -> Request {
        let events = Answer {
            number,
            at: self.zero + Duration::from_secs_f64(asked.at),
            bytes: asked.names.bytes as f64,
            last: (asked.tokens[asked.tokens.len() - 1], asked.tokens.len() - 1),
            begun: false,
            news: self.news.0.clone(),
            served: self.answers.0.clone(),
        };
        let mut params = SamplingParams::default();
        params.set("temperature", 0.0).expect("a parameter");
        let generation = Generation { max_tokens: Some(asked.answer), params, ..Generation::default() };
        let mut request =
            Request::new(asked.tokens.clone(), Task::Generate(Box::new(generation)), Box::new(events));
        request.terms = Terms { tag: tag(number), ..Terms::default() };
        request
    }
}

/// What an engine's snapshots call a request.
fn tag(number: usize) -> u64 {
    number as u64 + 1
}

impl Replicas for EngineReplicas {
    fn advance(&mut self, to: f64, told: &mut Gateways) {
        while let Some(&Reverse((at, replica))) = self.steps.peek() {
            if at as f64 / 1e9 > to {
                break;
            }
            self.steps.pop();
            set_now(self.zero + Duration::from_nanos(at));
            self.step(replica, told);
        }
    }

    fn cached(&mut self, asked: &Asked) -> Vec<usize> {
        let requests: Vec<_> = self.engines.iter().map(|_| self.request(0, asked)).collect();
        let ask = |((engine, _), request): (&mut (Engine, Board), Request)| engine.cached_tokens(request);
        self.engines.iter_mut().zip(requests).map(ask).collect()
    }

    fn waiting(&self, replica: usize, _: f64) -> f64 {
        let (engine, board) = &self.engines[replica];
        engine.publish();
        let snapshot = board.read();
        let left = |s: &SequenceState| {
            let uncached = self.uncached.get(&s.tag).copied().unwrap_or(0);
            uncached.min(s.prompt_tokens.saturating_sub(s.computed))
        };
        let tokens: usize = snapshot.running.iter().chain(&snapshot.waiting).map(left).sum();
        tokens as f64 * SECONDS_OF_TOKEN
    }

    fn running(&self, replica: usize) -> usize {
        let (running, waiting) = self.engines[replica].0.load();
        running + waiting
    }

    fn take(&mut self, number: usize, asked: &Asked, replica: usize, _: &mut Gateways) {
        set_now(self.zero + Duration::from_secs_f64(asked.at));
        let request = self.request(number, asked);
        let question = self.request(number, asked);
        let engine = &mut self.engines[replica].0;
        let cached = engine.cached_tokens(question);
        self.uncached.insert(tag(number), asked.tokens.len() - cached);
        engine.add(request);
        if !self.works[replica] {
            self.begins(replica);
        }
    }

    fn served(self: Box<Self>) -> Vec<Served> {
        self.answers.1.try_iter().collect()
    }
}
