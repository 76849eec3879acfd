//! Configurations, adapters and requests that nobody would write: each ends soon, in little memory, with a result or with
//! one error, never with a panic.
//!
//! A few hundred cases of each here; `LAMINA_FUZZ=50` runs fifty times as many. A failure names its case; the same
//! number gives the same case again.
//!
//! A binary of its own: the peak of memory is the process's.
#![allow(clippy::unwrap_used)] // helpers may fail like tests

use lamina::{
    GenerateOptions, LoadOptions, Model, Prompt, Rows, Terms,
    sample::{Kind, Value as Setting, params},
};
use lamina_base::peak_rss;
use lamina_fixtures::{Models, Numbers, names, packaged, tokens};
use serde_json::{Map, Value, json};
use std::{
    cell::Cell,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A case may take this long; builds without optimization are slower, and other tests run beside them.
const LONGEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });
/// What a case may take beyond a good one.
const MOST_BYTES: u64 = 256 << 20;

/// Numbers of a case.
struct Random {
    numbers: Numbers,
    /// Bytes of the texts of the case that is being made.
    text: u64,
}

impl Random {
    fn seeded(state: u64) -> Random {
        Random { numbers: Numbers::seeded(state), text: 0 }
    }

    fn next(&mut self) -> u64 {
        self.numbers.word()
    }

    fn below(&mut self, n: usize) -> usize {
        self.numbers.below(n)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        self.numbers.pick(of)
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// Memory and time of one target at a time.
struct Bounds {
    name: &'static str,
    before: Option<u64>,
    /// Bytes of the largest case until now.
    given: Cell<u64>,
    _alone: MutexGuard<'static, ()>,
}

impl Bounds {
    /// Begins after `good`, which takes what every case may take.
    fn after(name: &'static str, good: impl FnOnce()) -> Bounds {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        good();
        Bounds { name, before: peak_rss(), given: Cell::new(0), _alone: alone }
    }

    /// Runs case number `case`, which itself has `given` bytes; what it gives counts as done.
    fn run<T>(&self, case: usize, given: u64, what: impl FnOnce() -> T) -> T {
        self.given.set(self.given.get().max(given));
        let begin = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(what));
        let (time, name) = (begin.elapsed(), self.name);
        assert!(time < LONGEST, "{name} {case} takes {time:?}");
        if let (Some(before), Some(now)) = (self.before, peak_rss()) {
            assert!(
                now < before + self.given.get() + MOST_BYTES,
                "{name} {case} takes {} bytes",
                now - before
            );
        }
        done.unwrap_or_else(|_| panic!("{name} {case} panics"))
    }
}

fn cases(short: usize) -> std::ops::Range<usize> {
    let times: usize = std::env::var("LAMINA_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    0..short * times
}

/// A value that a file may hold where another one belongs.
fn odd(random: &mut Random) -> Value {
    let numbers =
        [0, 1, 2, 3, 7, 64, 255, 4096, 65_535, 1 << 20, 1 << 24, 1 << 31, 1 << 40, i64::MAX, -1, i64::MIN];
    match random.below(9) {
        0..5 => json!(random.one(&numbers)),
        5 => json!(random.one(&[0.0, -0.5, 0.3, 1e-30, 1e30, 1e300])),
        6 => json!(random.one(&["", "x", "yarn", "dynamic", "silu", "full_attention", "sliding_attention"])),
        7 => random.one(&[Value::Null, json!([]), json!({}), json!([1, -1]), json!([[], "x"])]).clone(),
        _ => json!(random.chance(2)),
    }
}

/// Changes a value somewhere inside `value`, or takes it out.
fn mutate(value: &mut Value, random: &mut Random) {
    let leaf = match value {
        Value::Object(map) if !map.is_empty() && !random.chance(12) => {
            let key = map.keys().nth(random.below(map.len())).cloned().unwrap();
            if random.chance(10) {
                map.remove(&key);
            } else {
                mutate(map.get_mut(&key).unwrap(), random);
            }
            return;
        }
        Value::Array(list) if !list.is_empty() && !random.chance(4) => {
            let at = random.below(list.len());
            return mutate(&mut list[at], random);
        }
        leaf => leaf,
    };
    *leaf = odd(random);
}

fn options() -> LoadOptions {
    LoadOptions { threads: Some(1), context: Some(64), ..LoadOptions::default() }
}

/// Loads a model and asks it for a few tokens.
fn used(path: &Path, options: LoadOptions, lora: &[(&str, f32)]) -> lamina::Result<()> {
    let model = Model::load(Some(path), options)?;
    let ask = GenerateOptions { max_tokens: Some(2), ..GenerateOptions::default() };
    model.with_lora(lora)?.generate(&Prompt::Tokens(tokens(8)), &ask).map(|_| ())
}

#[test]
fn configurations() {
    let models = Models::new();
    let names = names();
    let bounds = Bounds::after("configuration", || {
        names.iter().for_each(|name| used(&models.folder(name), options(), &[]).unwrap());
    });
    let mut random = Random::seeded(11);
    let mut loaded = 0;
    for case in cases(400) {
        let name: &String = random.one(&names);
        let folder = models.folder(name);
        let path = folder.join("config.json");
        let good = fs::read(&path).unwrap();
        let mut config: Value = serde_json::from_slice(&good).unwrap();
        (0..1 + random.below(3)).for_each(|_| mutate(&mut config, &mut random));
        fs::write(&path, config.to_string()).unwrap();
        // Its own context too: half of the cases ask for none.
        let context = options().context.filter(|_| random.chance(2));
        eprintln!("configuration {case}: {} {config}", folder.display());
        loaded += usize::from(
            bounds.run(case, 0, || used(&folder, LoadOptions { context, ..options() }, &[])).is_ok(),
        );
        fs::write(&path, good).unwrap();
    }
    assert!(loaded > 20, "{loaded}");
}

/// An adapter as PEFT saves it: configuration, header and data.
#[derive(Clone)]
struct Peft {
    config: Value,
    header: Value,
    data: Vec<u8>,
}

impl Peft {
    /// Of rank 2 for the queries of all layers of `model`.
    fn of(model: &Path) -> Peft {
        let ck = lamina_store::Checkpoint::open(model).unwrap();
        let queries = ck.tensors.values().filter(|t| t.name.ends_with("q_proj.weight"));
        let (mut header, mut data) = (Map::new(), vec![]);
        for t in queries {
            let module = t.name.strip_suffix(".weight").unwrap();
            for (letter, shape) in [("A", [2, t.cols()]), ("B", [t.rows(), 2])] {
                let start = data.len();
                data.resize(start + 4 * shape[0] * shape[1], 0x3c);
                let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
                header.insert(format!("base_model.model.{module}.lora_{letter}.weight"), entry);
            }
        }
        let config = json!({
            "peft_type": "LORA", "lora_alpha": 6, "r": 2, "fan_in_fan_out": false, "use_rslora": false,
            "bias": "none", "rank_pattern": {}, "alpha_pattern": {"q_proj": 3}, "target_modules": ["q_proj"],
        });
        Peft { config, header: Value::Object(header), data }
    }

    fn write(&self, folder: &Path, cut: usize) {
        let header = self.header.to_string();
        let mut bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &self.data].concat();
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        fs::write(folder.join("adapter_model.safetensors"), bytes).unwrap();
        fs::write(folder.join("adapter_config.json"), self.config.to_string()).unwrap();
    }
}

#[test]
fn adapters() {
    let (models, dir) = (Models::new(), tempfile::tempdir().unwrap());
    let model = models.folder("llama");
    let good = Peft::of(&model);
    let load = || {
        let loras = vec![("x".to_owned(), dir.path().to_owned())];
        used(&model, LoadOptions { loras, ..options() }, &[("x", 0.5)])
    };
    let bounds = Bounds::after("adapter", || {
        good.write(dir.path(), 0);
        load().unwrap();
    });
    let mut random = Random::seeded(12);
    let mut loaded = 0;
    for case in cases(300) {
        let mut bad = good.clone();
        let mut cut = 0;
        for _ in 0..1 + random.below(2) {
            match random.below(4) {
                0 => mutate(&mut bad.config, &mut random),
                1 => mutate(&mut bad.header, &mut random),
                2 => cut = random.below(bad.data.len() + 99),
                _ => {
                    let at = random.below(bad.data.len());
                    bad.data[at] = random.next() as u8;
                }
            }
        }
        bad.write(dir.path(), cut);
        eprintln!("adapter {case}: {} {} {cut}", bad.config, bad.header);
        loaded += usize::from(bounds.run(case, 0, load).is_ok());
    }
    assert!(loaded > 20, "{loaded}");
}

/// Text of a strange kind and length.
fn strange_text(random: &mut Random) -> String {
    let part = *random.one(&["", "a", "ab", "é", "\u{0}", "</s>", "the ", "😀", "\n", "{{ x }}", "\u{202e}"]);
    let times = *random.one(&[0, 1, 1, 2, 9, 300, 70_000, 600_000]);
    random.text += (part.len() * times) as u64;
    part.repeat(times)
}

/// A value for a sampling parameter, mostly one that it takes.
fn setting(kind: Kind, range: (f64, f64), random: &mut Random) -> Setting {
    let inside = |random: &mut Random| {
        let (least, most) = (range.0.max(-1e6), range.1.min(1e6));
        least + (most - least) * (random.next() >> 11) as f64 / (1u64 << 53) as f64
    };
    let wild = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1.0, 2.0, 1e30, 2147483647.0];
    match kind {
        Kind::Float if random.chance(4) => Setting::Float(*random.one(&wild)),
        Kind::Float => Setting::Float(inside(random)),
        Kind::Int | Kind::OptionalInt if random.chance(3) => {
            Setting::Int(*random.one(&[-1, 0, 1, 2, 40, i64::MAX]))
        }
        Kind::Int | Kind::OptionalInt => Setting::Int(inside(random) as i64),
        Kind::Strings => {
            Setting::Strings((0..*random.one(&[0, 1, 2, 300])).map(|_| strange_text(random)).collect())
        }
        Kind::Biases => {
            let id = |random: &mut Random| *random.one(&[0u32, 1, 300, 511, 512, u32::MAX]);
            let bias = |random: &mut Random| *random.one(&[0.0f32, 5.0, -1e9, f32::NEG_INFINITY, f32::NAN]);
            Setting::Biases((0..random.below(9)).map(|_| (id(random), bias(random))).collect())
        }
    }
}

fn strange_options(random: &mut Random) -> GenerateOptions {
    let mut options = GenerateOptions {
        max_tokens: *random.one(&[None, Some(0), Some(1), Some(7), Some(usize::MAX)]),
        n: *random.one(&[0, 1, 1, 2, 17, 256, 257, usize::MAX]),
        echo: random.chance(4),
        ignore_eos: random.chance(2),
        ..GenerateOptions::default()
    };
    for p in params().collect::<Vec<_>>() {
        if random.chance(5) {
            let value = setting(p.kind, (*p.range.start(), *p.range.end()), random);
            // What is refused here never becomes a request.
            let _ = options.sampling.set(p.name, value);
        }
    }
    options.stop = match random.below(8) {
        0..3 => vec![],
        3 => (0..20_000).map(|i| format!("{i}x")).collect(),
        4 => vec!["ab".repeat(1 << 19), "b".into()],
        _ => (0..random.below(4)).map(|_| strange_text(random)).collect(),
    };
    options.terms = Terms {
        priority: *random.one(&[0, 0, -100, 100, 101, i32::MIN]),
        share: *random.one(&[1.0, 1.0, 0.0, -1.0, f64::NAN, 1e300]),
        // What is merely long ends here.
        deadline: Some(Instant::now() + Duration::from_millis(300)),
        cache_salt: random.chance(3).then(|| Arc::from(strange_text(random).as_str())),
        backlog: *random.one(&[1, 16, 1024, 0, usize::MAX]),
        ..Terms::default()
    };
    options
}

fn strange_prompt(random: &mut Random) -> Prompt {
    match random.below(4) {
        0 => Prompt::Text(strange_text(random)),
        1 => Prompt::Text("Once upon a time".into()),
        _ => {
            let count = *random.one(&[0, 1, 5, 63, 64, 65, 4000]);
            let odd = random.chance(6);
            let token =
                |random: &mut Random| if odd { random.next() as u32 } else { random.below(512) as u32 };
            Prompt::Tokens((0..count).map(|_| token(random)).collect())
        }
    }
}

#[test]
fn requests() {
    let model = Model::load(Some(&packaged()), LoadOptions { context: Some(128), ..options() }).unwrap();
    let ask = |n| {
        let options =
            GenerateOptions { max_tokens: Some(100), n, ignore_eos: true, ..GenerateOptions::default() };
        model.generate(&Prompt::Text("Once upon a time".into()), &options).unwrap()
    };
    let bounds = Bounds::after("request", || assert_eq!(ask(16).len(), 16));
    let mut random = Random::seeded(13);
    let mut answered = 0;
    for case in cases(300) {
        random.text = 0;
        let (prompt, options) = (strange_prompt(&mut random), strange_options(&mut random));
        let layer = random.below(12) as isize - 6;
        let done = bounds.run(case, random.text, || match random.below(8) {
            0 => match &prompt {
                Prompt::Tokens(t) => model.rows(t, Rows::Hidden(layer), &mut || true).map(|_| ()),
                text => model.embed(text, &mut || true).map(|_| ()),
            },
            // A reader that leaves after the first piece.
            1 => model.stream(&prompt, &options).and_then(|mut s| s.next().transpose()).map(|_| ()),
            _ => model
                .stream(&prompt, &options)
                .and_then(|s| s.collect::<lamina::Result<Vec<_>>>())
                .map(|_| ()),
        });
        answered += usize::from(done.is_ok());
    }
    assert!(answered > 20, "{answered}");
    // Whatever they were, they left nothing behind.
    let end = Instant::now() + LONGEST;
    while !(model.snapshot().running.is_empty() && model.snapshot().waiting.is_empty()) {
        assert!(Instant::now() < end, "sequences stay: {:?}", model.snapshot());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ask(1)[0].tokens.len(), 100);
}
