//! How tokens are chosen: `cargo run --release --example sampling -- [MODEL]`

use lamina::{GenerateOptions, LoadOptions, Model, Prompt, sample::params};
use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let prompt = Prompt::Text("One day, a boy named Tim".into());

    // Parameters are set by the names that Python and the command line know, too.
    println!("parameters: {}", params().map(|p| p.name).collect::<Vec<_>>().join(" "));
    let mut lively = GenerateOptions { max_tokens: Some(20), n: 2, ..GenerateOptions::default() };
    lively.sampling.set("temperature", 1.0)?;
    lively.sampling.set("top_p", 0.95)?;
    lively.sampling.set("seed", 3i64)?;
    let answers = model.generate(&prompt, &lively)?;
    answers.iter().for_each(|answer| println!("lively: {:?}", answer.text));
    let again = model.generate(&prompt, &lively)?;
    println!("a seed repeats an answer: {}", answers[0].tokens == again[0].tokens);

    // A stop string ends the answer before it; log probabilities say how sure each token was.
    let stop = vec![".".to_owned()];
    let mut careful = GenerateOptions { max_tokens: Some(200), stop, ..GenerateOptions::default() };
    careful.sampling.set("temperature", 0.0)?;
    careful.sampling.set("logprobs", 2i64)?;
    let out = model.generate(&prompt, &careful)?.swap_remove(0);
    println!("first sentence ({}): {:?}", out.finish_reason.name(), out.text);
    for (token, (logprob, top)) in out.tokens.iter().zip(&out.logprobs).take(3) {
        println!("  {:?} {logprob:.2}, best two {top:?}", model.detokenize(&[*token])?);
    }
    Ok(())
}
