//! Time of masks over schemas as they are in use: for each, what its first mask takes from the schema on, then one mask
//! for each token of instances of it.
//!
//! ```text
//! python benches/schemas.py > schemas.jsonl
//! cargo bench -p lamina-grammar --bench masks -- --tokenizer FOLDER --schemas schemas.jsonl [--slow 10] [--smoke]
//! ```
//!
//! FOLDER has a tokenizer, say one of 128k tokens; `--smoke` makes do with one of bytes, and two schemas. Times are the processor's, so that neighbours count less. The last line
//! is an object for `benches/record.py`, as in `benches/record/masks`; `sum` in it is a hash of all masks: what makes masks
//! faster leaves it as it is.

use std::{path::Path, time::Duration};

use lamina_grammar::{Grammar, SchemaOptions, Vocabulary};
use lamina_tokenize::{GgufVocab, Special, Tokenizer};
use serde_json::{Value, json};

/// Processor time that the process has used.
#[cfg(unix)]
fn processor_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec of this function, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(not(unix))]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

/// Microseconds of `work`, and its result.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = processor_time();
    let made = work();
    ((processor_time() - start).as_secs_f64() * 1e6, made)
}

/// A schema and texts that satisfy it.
struct Case {
    name: String,
    schema: Value,
    texts: Vec<String>,
}

fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).expect("the file of schemas");
    let case = |line: &str| {
        let mut value: Value = serde_json::from_str(line).expect("an object in each line");
        let texts = serde_json::from_value(value["texts"].take()).expect("texts");
        let name = value["name"].as_str().unwrap_or("?").to_owned();
        Case { name, schema: value["schema"].take(), texts }
    };
    text.lines().map(case).collect()
}

/// Without a file: two schemas.
fn built_in() -> Vec<Case> {
    let person = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer", "maximum": 130 } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let case =
        |name: &str, schema: Value, text: &str| Case { name: name.into(), schema, texts: vec![text.into()] };
    vec![
        case("person", person, r#"{"name": "Ada", "age": 36}"#),
        case("object", json!({ "type": "object" }), r#"{"a": [1, null, "b"]}"#),
    ]
}

/// One token for each byte of ASCII, by the letters of GPT-2.
fn bytes() -> Tokenizer {
    let letter = |byte: u8| match byte {
        b'!'..=b'~' => char::from(byte),
        byte => char::from_u32(0x100 + u32::from(byte)).expect("a character"),
    };
    let tokens: Vec<String> =
        (0..0x7f).map(|byte| letter(byte).to_string()).chain(["<|end|>".into()]).collect();
    let vocab = GgufVocab {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        token_types: Some((0..tokens.len()).map(|id| if id < 0x7f { 1 } else { 3 }).collect()),
        merges: Some(vec![]),
        eos: Some(0x7f),
        tokens,
        ..GgufVocab::default()
    };
    Tokenizer::from_gguf(vocab).expect("a tokenizer")
}

#[derive(Default)]
struct Times {
    /// From a schema to its first mask.
    first: Vec<(f64, String)>,
    /// A copy of a compiled grammar for one more answer, with its first mask.
    again: Vec<(f64, String)>,
    masks: Vec<(f64, String)>,
    /// A hash of all masks in turn, FNV-1a over their words.
    sum: u64,
    refused: Vec<String>,
    invalid: Vec<String>,
}

impl Times {
    fn take(&mut self, case: &Case, tokenizer: &Tokenizer, vocabulary: &Vocabulary) {
        let mut mask = vec![0u32; vocabulary.mask_words()];
        let first = timed(|| {
            let grammar = Grammar::json_schema(&case.schema, SchemaOptions::default())?;
            grammar.matcher(vocabulary)?.mask(&mut mask)?;
            Ok::<_, lamina_grammar::GrammarError>(grammar)
        });
        let grammar = match first {
            (time, Ok(grammar)) => {
                self.first.push((time, case.name.clone()));
                grammar
            }
            (_, Err(e)) => return self.refused.push(format!("{}: {e}", case.name)),
        };
        for text in &case.texts {
            let tokens = tokenizer.encode(text, Special::NONE).expect("tokens");
            let (time, mut matcher) = timed(|| grammar.matcher(vocabulary).expect("a matcher"));
            for (i, &token) in tokens.iter().enumerate() {
                let (mask_time, made) = timed(|| matcher.mask(&mut mask));
                if i == 0 {
                    self.again.push((time + mask_time, case.name.clone()));
                }
                self.masks.push((mask_time, format!("{} {:?}", case.name, matcher.tail())));
                self.sum =
                    mask.iter().fold(self.sum, |sum, &w| (sum ^ u64::from(w)).wrapping_mul(0x100_0000_01B3));
                if made.is_err() || matcher.accept(token).is_err() {
                    self.invalid.push(format!("{} after {:?}: {text}", case.name, matcher.tail()));
                    break;
                }
            }
        }
    }
}

/// Average, median, 99th percentile and most.
fn summary(name: &str, times: &mut [(f64, String)], slow: usize) -> Value {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    if times.is_empty() {
        return Value::Null;
    }
    let at = |share: f64| times.get(((times.len() - 1) as f64 * share) as usize).map_or(0.0, |t| t.0);
    let average = times.iter().map(|t| t.0).sum::<f64>() / times.len() as f64;
    println!(
        "{name:<12} {:>7} times  average {average:>8.1} us  p50 {:>8.1}  p99 {:>8.1}  most {:>9.1}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    for (time, place) in times.iter().rev().take(slow) {
        println!("{time:>12.1}  {place}");
    }
    json!({ "count": times.len(), "average": average, "p50": at(0.5), "p99": at(0.99), "most": at(1.0) })
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let smoke = args.iter().any(|a| a == "--smoke");
    let tokenizer = match value("--tokenizer").filter(|_| !smoke) {
        Some(folder) => {
            Tokenizer::from_dir(folder).expect("a tokenizer that can be read").expect("a tokenizer")
        }
        None => bytes(),
    };
    let (ready, vocabulary) =
        timed(|| Vocabulary::new(&tokenizer, tokenizer.eog_ids()).expect("a vocabulary"));
    println!("{} tokens made ready in {:.0} ms", vocabulary.size(), ready / 1e3);
    let cases = value("--schemas").map_or_else(built_in, |path| read(Path::new(path)));
    let mut times = Times::default();
    cases.iter().for_each(|case| times.take(case, &tokenizer, &vocabulary));
    times.refused.iter().for_each(|refusal| println!("refused {refusal}"));
    times.invalid.iter().for_each(|text| println!("not accepted {text}"));
    let slow = value("--slow").and_then(|n| n.parse().ok()).unwrap_or(0);
    let row = json!({
        "vocabulary": vocabulary.size(),
        "schemas": cases.len(),
        "refused": times.refused.len(),
        "not_accepted": times.invalid.len(),
        "sum": format!("{:016x}", times.sum),
        "first_us": summary("first mask", &mut times.first, slow),
        "again_us": summary("again", &mut times.again, slow),
        "mask_us": summary("masks", &mut times.masks, slow),
    });
    println!("{row}");
}
