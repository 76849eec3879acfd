//! A smaller file, and what it costs: `cargo run --release --example quantize -- MODEL OUT.gguf [TYPE]`

use lamina::{LoadOptions, Model, Prompt};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_tools::PerplexityOptions;
use std::{
    error::Error,
    path::{Path, PathBuf},
};

const TEXT: &str = "Once upon a time there was a little girl named Lily. She had a red ball and a small dog. \
                    One day they went to the park.";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [model, out, types @ ..] = arguments.as_slice() else {
        return Err("usage: quantize MODEL OUT.gguf [TYPE]".into());
    };
    let (model, out) = (PathBuf::from(model), PathBuf::from(out));
    let types: Types = types.first().map_or("Q4_K_M", String::as_str).parse()?;
    // A draft is a plan of a file: a GGUF file or a Hugging Face folder, whose tensors may be changed before writing.
    let report = Draft::open(&model)?.write(&out, &WriteOptions::new(types), &|_, _| true)?;
    println!(
        "{} bytes became {} ({:.2} bits per weight)",
        report.bytes_in,
        report.bytes_out,
        report.bits_per_weight()
    );
    for path in [&model, &out] {
        println!("{}: perplexity {:.3}", path.display(), perplexity(path)?);
    }
    Ok(())
}

fn perplexity(path: &Path) -> Result<f64, Box<dyn Error>> {
    let model = Model::load(Some(path), LoadOptions::default())?;
    let text = Prompt::Text(TEXT.into());
    Ok(lamina_tools::perplexity(&model, &text, PerplexityOptions::default(), &mut |_, _| true)?.ppl)
}
