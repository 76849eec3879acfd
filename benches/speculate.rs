//! What guessing tokens ahead costs and brings, beside the same without, taken in turn.
//!
//! `cargo bench --bench speculate -- [MODEL] [--drafts LIST] [--width N] [--text FILE] [--gen 128] [--repeat 5] [--threads 2]
//! [--smoke]`. Without a model the one inside the package runs. The list names drafters with commas between: `wrong` and
//! `right:0.8` know the answer and are right with that probability; all else is what `draft=` takes (`ngram`, `auto`,
//! `lookahead`, `mtp`, the path of a draft model or of a head). Prompts are parts of the text, plain and said twice.

use lamina::{DraftSource, LoadOptions, Special, open};
use lamina_engine::{Engine, Event, Generation, Request, Speculate, Task, sample::SamplingParams};
use lamina_fixtures::CommandLine;
use std::{fs, path::PathBuf, sync::mpsc::channel};

#[path = "../crates/engine/tests/it/known.rs"]
mod known;

use known::{KnownAnswers, KnownTexts, Rightness};

/// What is measured with each drafter.
struct Setup {
    model: Option<PathBuf>,
    text: String,
    load: LoadOptions,
    /// Tokens of an answer.
    tokens: usize,
    repeat: usize,
    smoke: bool,
}

/// One kind of prompts.
#[derive(Clone, Copy)]
struct Round {
    /// The prompt's beginning is said again at its end.
    twice: bool,
    batch: usize,
}

/// A model with its drafter.
struct Bench {
    engine: Engine,
    known: KnownTexts,
    /// The text that prompts are parts of.
    text: Vec<u32>,
}

impl Setup {
    fn of(args: &CommandLine) -> Setup {
        let smoke = args.has("--smoke");
        let text = args.value("--text").map_or_else(
            || "Once upon a time there was a dog. ".repeat(400),
            |f| fs::read_to_string(f).expect("a text"),
        );
        let (threads, draft_width) = (args.number("--threads"), args.number("--width"));
        Setup {
            model: args.model(),
            text,
            load: LoadOptions { threads, draft_width, context: Some(2048), ..LoadOptions::default() },
            tokens: if smoke { 8 } else { args.number("--gen").unwrap_or(128) },
            repeat: if smoke { 1 } else { args.number("--repeat").unwrap_or(5) },
            smoke,
        }
    }

    /// The model with the drafter of this name.
    fn open(&self, name: &str) -> Bench {
        let right = match name.split_once(':') {
            Some(("right", chance)) => Some(chance.parse().expect("a probability")),
            _ => (name == "wrong").then_some(0.0),
        };
        let draft = right.is_none().then(|| DraftSource::from(name));
        let load = LoadOptions { draft, ..self.load.clone() };
        let loaded = open(self.model.as_deref(), &load, &|_, _| true).expect("the model loads");
        let tokenizer = loaded.tokenizer.expect("a tokenizer");
        let (known, mut engine) = (KnownTexts::default(), loaded.engine);
        if let Some(right) = right {
            let drafter = KnownAnswers::new(known.clone(), Rightness::Chance(right));
            engine = engine.drafting(vec![Box::new(drafter)], self.load.draft_width);
        }
        Bench { engine, known, text: tokenizer.encode(&self.text, Special::NONE).expect("a text") }
    }

    /// Prints how much faster answers come with the drafter, and how many tokens a step brings.
    fn measure(&self, name: &str, bench: &mut Bench, round: Round) {
        let (mut ratios, mut tokens, mut accepted) = (vec![], 0, 0);
        for turn in 0..=self.repeat {
            let prompts: Vec<_> = (0..round.batch).map(|i| bench.prompt(turn * 8 + i, round.twice)).collect();
            let (known, plain) = bench.answers(&prompts, self.tokens, &Speculate::off());
            bench.known.lock().expect("one thread").clone_from(&known);
            let before = bench.engine.counters();
            let (got, drafted) = bench.answers(&prompts, self.tokens, &Speculate::default());
            assert!(got == known, "drafts changed an answer");
            // The first turn warms up.
            if turn > 0 || self.smoke {
                let now = bench.engine.counters();
                ratios.push(plain / drafted);
                (tokens, accepted) =
                    (tokens + now.tokens - before.tokens, accepted + now.accepted - before.accepted);
            }
        }
        ratios.sort_by(f64::total_cmp);
        let (low, middle, high) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        let per_step = tokens as f64 / (tokens - accepted).max(1) as f64;
        let (kind, batch) = (if round.twice { "twice" } else { "plain" }, round.batch);
        println!("{name:<14} {kind:<7} {batch:<6} {middle:.3} ({low:.3}, {high:.3})  {per_step:.2}");
    }
}

impl Bench {
    fn prompt(&self, i: usize, twice: bool) -> Vec<u32> {
        let start = i * 977 % self.text.len().max(1);
        let part: Vec<u32> = self.text.iter().copied().cycle().skip(start).take(200).collect();
        if twice { [&part[..], &part[..40]].concat() } else { part }
    }

    /// Greedy answers to all prompts at once, and the seconds that decoding took.
    fn answers(&mut self, prompts: &[Vec<u32>], n: usize, speculate: &Speculate) -> (Vec<Vec<u32>>, f64) {
        let mut params = SamplingParams::default();
        params.set("temperature", 0.0).expect("known");
        let send = |prompt: &Vec<u32>| {
            let (events, receiver) = channel();
            let (params, speculate) = (params.clone(), speculate.clone());
            let generation = Generation { max_tokens: Some(n), params, speculate, ..Generation::default() };
            let task = Task::Generate(Box::new(generation));
            self.engine.add(Request::new(prompt.clone(), task, Box::new(events)));
            receiver
        };
        let receivers: Vec<_> = prompts.iter().map(send).collect();
        while !self.engine.idle() {
            self.engine.step();
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
}

fn main() {
    let args = CommandLine::of_process();
    let setup = Setup::of(&args);
    println!("drafts         text    batch  ratio (median, lowest, highest)  tokens a step");
    for name in args.value("--drafts").unwrap_or("wrong,right:0.8,ngram").split(',') {
        let mut bench = setup.open(name);
        for twice in [false, true] {
            for batch in [1, 8] {
                setup.measure(name, &mut bench, Round { twice, batch });
            }
        }
    }
}
