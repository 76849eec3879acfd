//! A whole answer: `cargo run --release --example generate -- [MODEL]`

use lamina::{GenerateOptions, LoadOptions, Model, Prompt};
use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    // Without a path: the small model inside the package.
    let path = std::env::args_os().nth(1);
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let mut options = GenerateOptions { max_tokens: Some(48), ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.8)?;
    options.sampling.set("seed", 7i64)?;
    let out = &model.generate(&Prompt::Text("Once upon a time".into()), &options)?[0];
    println!("Once upon a time{}\n", out.text);
    let (info, timings) = (model.info(), out.timings);
    println!("{}, {:.1} M parameters, {} threads", info.architecture, info.params as f64 / 1e6, info.threads);
    let speed = (timings.tokens.saturating_sub(1)) as f64 / timings.decode_seconds;
    println!("{} tokens, ended by {}, {speed:.0} tokens/s", out.tokens.len(), out.finish_reason.name());
    Ok(())
}
