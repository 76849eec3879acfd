//! A conversation, written by a template: `cargo run --release --example chat -- [MODEL]`

use lamina::{ChatOptions, Completion, GenerateOptions, LoadOptions, Model};
use serde_json::{Value, json};
use std::{error::Error, path::Path};

/// Chat models bring a template of their own. The small model inside the package was never taught one, so that it
/// continues a story that the turns tell.
const TEMPLATE: &str = "{% for m in messages %}{{ m.content }} {% endfor %}";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1);
    let template = path.is_none().then(|| TEMPLATE.to_owned());
    let model = Model::load(path.as_deref().map(Path::new), LoadOptions::default())?;
    let chat = ChatOptions { template, ..ChatOptions::default() };
    let mut messages = vec![
        json!({"role": "system", "content": "Once upon a time there was a girl named Lily."}),
        json!({"role": "user", "content": "She found a red ball in the park."}),
    ];
    println!("prompt: {:?}", model.apply_chat_template(&messages, &chat)?);
    let first = answer(&model, &messages, &chat)?;
    println!("answer: {}", first.text.trim());

    // The next turn: what was computed for the turns before is found in the cache.
    messages.push(json!({"role": "assistant", "content": first.text}));
    messages.push(json!({"role": "user", "content": "Then her mom came."}));
    let second = answer(&model, &messages, &chat)?;
    println!("answer: {}", second.text.trim());
    println!("{} of {} prompt tokens were cached", second.usage.cached_tokens, second.usage.prompt_tokens);
    Ok(())
}

fn answer(model: &Model, messages: &[Value], chat: &ChatOptions) -> Result<Completion, Box<dyn Error>> {
    let mut options = GenerateOptions { max_tokens: Some(32), ..GenerateOptions::default() };
    options.sampling.set("temperature", 0.0)?;
    let mut whole = Completion::empty();
    for piece in model.chat(messages, chat, &options)? {
        whole.push(piece?);
    }
    Ok(whole)
}
