//! Share of a step's time that is not the forward pass, where many sequences decode: sampling, text, events.
//!
//! `cargo bench --bench host -- MODEL [--batch 32] [--gen 64] [--threads 2] [--smoke]`. A vocabulary of 128k tokens makes
//! sampling dear. The forward pass is the sum over operators of a profile, which any version of Lamina can take. Each
//! way of sampling is measured: greedy, the default chain, and one that needs every logit. Then what recording costs: rounds
//! without and with each detail in turn, the fastest of each.

use lamina::{LoadOptions, Loaded, open};
use lamina_engine::{Engine, Event, Generation, Request, Task, TraceDetail, sample::SamplingParams};
use lamina_fixtures::CommandLine;
use lamina_tokenize::Tokenizer;
use std::{sync::mpsc::channel, time::Instant};

/// Ways of sampling, with the parameters that differ from the default.
const WAYS: [(&str, &[(&str, f64)]); 3] = [
    ("greedy", &[("temperature", 0.0)]),
    ("default", &[("seed", 1.0)]),
    ("every logit", &[("seed", 1.0), ("repeat_penalty", 1.1)]),
];

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let (batch, tokens) =
        (args.number("--batch").unwrap_or(32), args.number("--gen").unwrap_or(if smoke { 4 } else { 64 }));
    let threads = args.number("--threads");
    let load = LoadOptions { context: Some(batch * (tokens + 96)), threads, ..LoadOptions::default() };
    let model = args.model();
    let Loaded { mut engine, tokenizer, info, .. } =
        open(model.as_deref(), &load, &|_, _| true).expect("the model opens");
    for (name, params) in WAYS {
        // One round to warm up.
        decode(&mut engine, tokenizer.as_ref(), info.vocab, params, (batch, tokens.min(8)), false);
        let (wall, forward) =
            decode(&mut engine, tokenizer.as_ref(), info.vocab, params, (batch, tokens), true);
        println!(
            "{name}: {batch} sequences, {} logits: {:.2} ms a step, {:.1} % not the forward pass",
            info.vocab,
            wall * 1e3 / tokens as f64,
            100.0 * (1.0 - forward / wall),
        );
    }
    let mut round = |detail: Option<TraceDetail>| {
        engine.record(detail);
        let wall = decode(&mut engine, tokenizer.as_ref(), info.vocab, WAYS[1].1, (batch, tokens), false);
        engine.record(None);
        wall.0
    };
    let details: Vec<_> =
        std::iter::once(None).chain(TraceDetail::ALL.map(|(_, detail)| Some(detail))).collect();
    let mut fastest = vec![f64::INFINITY; details.len()];
    for _ in 0..if smoke { 1 } else { 9 } {
        fastest.iter_mut().zip(&details).for_each(|(best, detail)| *best = best.min(round(*detail)));
    }
    for (wall, detail) in fastest.iter().zip(&details).skip(1) {
        let name = detail.map_or("", TraceDetail::name);
        println!("recording {name}: {:+.2} % of a step", 100.0 * (wall / fastest[0] - 1.0));
    }
}

/// Seconds that `tokens` steps of `batch` sequences take, and of these the operators' own where they are `profiled`.
fn decode(
    engine: &mut Engine,
    tokenizer: Option<&Tokenizer>,
    vocab: usize,
    params: &[(&str, f64)],
    (batch, tokens): (usize, usize),
    profiled: bool,
) -> (f64, f64) {
    let mut sampling = SamplingParams::default();
    params.iter().for_each(|&(name, value)| sampling.set(name, value).expect("a parameter"));
    let receivers: Vec<_> = (0..batch)
        .map(|i| {
            let (events, receiver) = channel();
            let generation = Generation {
                max_tokens: Some(tokens + 2),
                params: sampling.clone(),
                stop: if tokenizer.is_some() { vec!["\u{0}never\u{0}".into()] } else { vec![] },
                tokenizer: tokenizer.cloned(),
                ..Generation::default()
            };
            let prompt = (0..16).map(|k| ((i * 7919 + k * 104_729 + 1) % vocab) as u32).collect();
            add(engine, prompt, generation, events);
            receiver
        })
        .collect();
    // Prompts, and the first token of each answer.
    let mut silent: Vec<_> = receivers.iter().collect();
    while !silent.is_empty() {
        engine.step();
        silent.retain(|r| r.try_recv().is_err());
    }
    engine.machine().profile(profiled);
    let begin = Instant::now();
    (0..tokens).for_each(|_| _ = engine.step());
    let wall = begin.elapsed().as_secs_f64();
    let profile = engine.machine().profile(false);
    while !engine.idle() {
        engine.step();
    }
    (wall, profile.map_or(0.0, |profile| profile.rows().iter().map(|row| row.1).sum()))
}

fn add(engine: &mut Engine, prompt: Vec<u32>, g: Generation, events: std::sync::mpsc::Sender<Event>) {
    engine.add(Request::new(prompt, Task::Generate(Box::new(g)), Box::new(events)));
}
