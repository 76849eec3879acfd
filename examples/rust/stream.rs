//! The answer as it comes, and how to stop it: `cargo run --release --example stream -- [MODEL]`

use lamina::{GenerateOptions, LoadOptions, Model, Prompt};
use std::{
    error::Error,
    io::{Write, stdout},
    path::Path,
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let mut options = GenerateOptions { max_tokens: Some(32), ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0)?;
    for piece in model.stream(&Prompt::Text("The little dog".into()), &options)? {
        let piece = piece?;
        print!("{}", piece.text);
        stdout().flush()?;
        if let Some((reason, _)) = piece.end {
            println!("\n(ended by {})\n", reason.name());
        }
    }

    // Dropping the stream cancels the request.
    let endless = GenerateOptions { max_tokens: None, ignore_eos: true, ..options };
    let mut text = String::new();
    for piece in model.stream(&Prompt::Text("The little cat".into()), &endless)? {
        text += &piece?.text;
        if text.len() > 60 {
            break;
        }
    }
    println!("cancelled after {} characters: {text:?}", text.len());
    Ok(())
}
