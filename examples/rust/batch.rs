//! Requests of several threads share every step: `cargo run --release --example batch -- [MODEL]`

use lamina::{GenerateOptions, LoadOptions, Model, Prompt};
use std::{error::Error, path::Path, thread};

const PROMPTS: [&str; 4] = ["Once upon a time", "The big brown bear", "One day, Tom", "Lily and her mom"];

/// Tokens of the answer to prompt `i`, which has a seed of its own.
fn answer(model: &Model, i: usize) -> lamina::Result<Vec<u32>> {
    let mut options = GenerateOptions { max_tokens: Some(24), ..GenerateOptions::default() };
    options.sampling.set("seed", i as i64)?;
    let prompt = Prompt::Text(PROMPTS[i].into());
    Ok(model.generate(&prompt, &options)?.swap_remove(0).tokens)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let model = &model;
    let together: Vec<_> = thread::scope(|s| {
        let threads: Vec<_> = (0..PROMPTS.len()).map(|i| s.spawn(move || answer(model, i))).collect();
        threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked")).collect::<Result<_, _>>()
    })?;
    // A request's answer does not depend on what else runs.
    let mut same = true;
    for (i, tokens) in together.into_iter().enumerate() {
        let tokens = tokens?;
        println!("{}{}", PROMPTS[i], model.detokenize(&tokens)?.replace('\n', " "));
        same &= tokens == answer(model, i)?;
    }
    println!("\nthe same tokens, in company and alone: {same}");
    Ok(())
}
