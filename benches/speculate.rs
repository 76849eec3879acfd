//! What guessing tokens ahead costs and brings, beside the same without, taken in turn.
//!
//! `cargo bench --bench speculate -- [MODEL] [--text FILE] [--gen 128] [--repeat 5] [--threads 2] [--smoke]`. Without a model
//! the one inside the package runs. Guesses come from a drafter that knows the answer and is right with a set
//! probability (0: always wrong), and from look-up; prompts are parts of the text, plain and said twice.

use lamina::{LoadOptions, Special, open};
use lamina_engine::{
    DraftAsk, Drafter, Engine, EngineError, Event, Generation, Guesses, Ngram, Request, Speculate, Task,
    sample::SamplingParams,
};
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc::channel},
};

/// Guesses the known answers, each token right with a set probability.
struct Known {
    texts: Arc<Mutex<Vec<Vec<u32>>>>,
    right: f64,
    luck: u64,
}

impl Known {
    fn is_right(&mut self) -> bool {
        self.luck = self.luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.luck >> 11) as f64 / (1u64 << 53) as f64) < self.right
    }
}

impl Drafter for Known {
    fn name(&self) -> &'static str {
        "known"
    }

    fn prior(&self, _: u8) -> f32 {
        0.5
    }

    fn propose(&mut self, asks: &[DraftAsk<'_>]) -> Result<Vec<Guesses>, EngineError> {
        let texts = self.texts.clone();
        let texts = texts.lock().expect("one thread");
        let mut one = |ask: &DraftAsk<'_>| {
            let known = texts.iter().find(|t| t.starts_with(ask.tokens));
            let mut guesses = Guesses::default();
            for &token in known.map_or(&[][..], |t| &t[ask.tokens.len()..]).iter().take(ask.most) {
                guesses.push(if self.is_right() { token } else { token ^ 1 }, 0);
            }
            guesses
        };
        Ok(asks.iter().map(&mut one).collect())
    }

    fn forget(&mut self, _: &DraftAsk<'_>) {}
}

struct Args(Vec<String>);

impl Args {
    fn value(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|a| a == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str, default: usize) -> usize {
        self.value(name).map_or(default, |n| n.parse().expect("a number"))
    }
}

/// Greedy answers to all prompts at once, and the seconds that decoding took.
fn answers(
    engine: &mut Engine,
    prompts: &[Vec<u32>],
    n: usize,
    speculate: &Speculate,
) -> (Vec<Vec<u32>>, f64) {
    let mut params = SamplingParams::default();
    params.set("temperature", 0.0).expect("known");
    let send = |prompt: &Vec<u32>| {
        let (events, receiver) = channel();
        let (params, speculate) = (params.clone(), speculate.clone());
        let generation = Generation { max_tokens: Some(n), params, speculate, ..Generation::default() };
        engine.add(Request::new(prompt.clone(), Task::Generate(Box::new(generation)), Box::new(events)));
        receiver
    };
    let receivers: Vec<_> = prompts.iter().map(send).collect();
    while !engine.idle() {
        engine.step();
    }
    let mut seconds: f64 = 0.0;
    let texts = receivers.iter().zip(prompts).map(|(receiver, prompt)| {
        let mut text = prompt.clone();
        receiver.try_iter().for_each(|event| match event {
            Event::Token(token) => text.push(token.id),
            Event::Finished { timings, .. } => seconds = seconds.max(timings.decode_seconds),
            other => panic!("{other:?}"),
        });
        text
    });
    (texts.collect(), seconds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args = Args(std::env::args().skip(1).filter(|a| a != "--bench").collect());
    let smoke = args.0.iter().any(|a| a == "--smoke");
    let (n, repeat) = if smoke { (8, 1) } else { (args.number("--gen", 128), args.number("--repeat", 5)) };
    let model = args.0.first().filter(|a| !a.starts_with("--")).map(PathBuf::from);
    let threads = args.value("--threads").map(|t| t.parse().expect("a number"));
    let load = LoadOptions { threads, context: Some(2048), ..LoadOptions::default() };
    let text = args.value("--text").map_or_else(
        || "Once upon a time there was a dog. ".repeat(400),
        |f| fs::read_to_string(f).expect("a text"),
    );
    println!("drafts         text    batch  ratio (median, lowest, highest)  tokens a step");
    let known = [("wrong", Some(0.0)), ("right 0.8", Some(0.8)), ("ngram", None)];
    for (name, right) in known {
        let loaded = open(model.as_deref(), &load, &|_, _| true).expect("the model loads");
        let texts = Arc::new(Mutex::new(vec![]));
        let drafter: Box<dyn Drafter> = match right {
            Some(right) => Box::new(Known { texts: texts.clone(), right, luck: 1 }),
            None => Box::new(Ngram::default()),
        };
        let mut engine = loaded.engine.drafting(vec![drafter], None);
        let tokens = loaded.tokenizer.expect("a tokenizer").encode(&text, Special::NONE).expect("a text");
        for (kind, twice) in [("plain", false), ("twice", true)] {
            for batch in [1, 8] {
                let (mut ratios, mut steps) = (vec![], (0, 0));
                for round in 0..=repeat {
                    let prompt = |i: usize| {
                        let start = (round * 8 + i) * 977 % tokens.len().max(1);
                        let part: Vec<u32> = tokens.iter().copied().cycle().skip(start).take(200).collect();
                        if twice { [&part[..], &part[..40]].concat() } else { part }
                    };
                    let prompts: Vec<_> = (0..batch).map(prompt).collect();
                    let (known, plain) = answers(&mut engine, &prompts, n, &Speculate::off());
                    *texts.lock().expect("one thread") = known.clone();
                    let before = engine.counters();
                    let (got, drafted) = answers(&mut engine, &prompts, n, &Speculate::default());
                    assert!(got == known, "drafts changed an answer");
                    // The first round warms up.
                    if round > 0 || smoke {
                        ratios.push(plain / drafted);
                        let now = engine.counters();
                        steps.0 += now.tokens - before.tokens;
                        steps.1 += now.tokens - before.tokens - (now.accepted - before.accepted);
                    }
                }
                let middle = median(&mut ratios);
                let per_step = steps.0 as f64 / steps.1.max(1) as f64;
                let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
                println!("{name:<14} {kind:<7} {batch:<6} {middle:.3} ({low:.3}, {high:.3})  {per_step:.2}");
            }
        }
    }
}
