//! What the model expects at each position, and how well it predicts a text: `cargo run --release --example logits -- [MODEL]`

use lamina::{LoadOptions, Model, Prompt, Special};
use lamina_tools::{PerplexityOptions, perplexity};
use std::{error::Error, path::Path};

const TEXT: &str = "Once upon a time there was a little girl. She liked to play with her";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let tokens = model.tokenize(TEXT, Special::NONE)?;
    // `[tokens x vocab]`
    let logits = model.logits(&tokens)?;
    let rows: Vec<_> = logits.chunks_exact(model.info().vocab).collect();
    println!("logits [{} x {}]", rows.len(), model.info().vocab);
    for (row, next) in rows.iter().zip(&tokens[1..]) {
        let sum: f32 = row.iter().map(|l| (l - row[best(row)]).exp()).sum();
        let probability = 100.0 * (row[*next as usize] - row[best(row)]).exp() / sum;
        let (next, likely) = (model.detokenize(&[*next])?, model.detokenize(&[best(row) as u32])?);
        println!("{next:?} had {probability:.1} %; most likely {likely:?}");
    }
    println!("next: {:?}", model.detokenize(&[best(rows[rows.len() - 1]) as u32])?);
    let text = Prompt::Text(TEXT.into());
    let found = perplexity(&model, &text, PerplexityOptions::default(), &mut |_, _| true)?;
    println!("perplexity: {:.2}", found.ppl);
    Ok(())
}

/// Index of the largest number.
fn best(row: &[f32]) -> usize {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or_default()
}
