//! `lamina run`: continues a prompt.

use super::Execute;
use crate::{
    args::{GenerateArgs, ImageArgs, LoadArgs, LoraArgs, SoundArgs, positive},
    error::{CliError, Result},
    input,
    output::{self, LineEnd, note, watched},
    stats::{decode_speed, line, prefill_speed},
    table::table,
};
use lamina::{
    Completion, FinishReason, GenerateOptions, Model, PictureUse, Prompt, SoundUse, Speculation, StopBy,
    Tokenizer, image::PixelSize,
};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Continue a prompt
///
/// The text comes as it is written, without the prompt unless --echo is given. For answers through a model's chat
/// template, use `lamina chat`.
#[derive(clap::Args)]
#[command(override_usage = "lamina run [OPTIONS] [MODEL] PROMPT")]
pub struct RunArgs {
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    pub(super) model: Option<OsString>,
    /// What to continue; `-` or nothing reads it from stdin
    pub(super) prompt: Option<OsString>,
    /// Write the prompt before its continuation
    #[arg(long)]
    pub(super) echo: bool,
    /// Continuations of the same prompt
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive())]
    pub(super) n: usize,
    /// PROMPT is token ids, such as `1,2,3`, and so is what is written
    #[arg(long)]
    ids: bool,
    /// Write counts and speeds to stderr even if it is no terminal
    #[arg(long)]
    pub(super) stats: bool,
    /// Write one JSON object with all that is known of the answers
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    sounds: SoundArgs,
    #[command(flatten)]
    pub(super) generate: GenerateArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    lora: LoraArgs,
}

impl Execute for RunArgs {
    const NAME: &'static str = "run";

    fn execute(self) -> Result<()> {
        if self.images.take_stdin() && self.prompt.as_deref().is_none_or(|prompt| prompt == "-") {
            return Err(CliError::usage("stdin holds a picture: give MODEL and PROMPT as arguments"));
        }
        let (path, text) = input::model_and_text(self.model, self.prompt, "PROMPT")?;
        let prompt = match self.ids {
            true => Prompt::Tokens(input::token_ids(&text)?),
            false => Prompt::Text(text),
        };
        let model = self.lora.load(path.as_deref(), self.load.options())?;
        let images = self.images.read(&model)?;
        let sounds = self.sounds.read(&model)?;
        let wanted = self.generate.wanted().options;
        let options = GenerateOptions { n: self.n, echo: self.echo, images, sounds, ..wanted };
        if self.json {
            let answers = model.generate(&prompt, &options)?;
            return output::json(&report(&model, &prompt, &options, &answers));
        }
        let show = Show { ids: self.ids };
        let answers = match self.n {
            1 => vec![show.stream(&model, &prompt, &options)?],
            _ => show.all(&model, &prompt, &options)?,
        };
        answers.iter().for_each(|a| log_probabilities(a, model.tokenizer()));
        if self.stats || watched() {
            answers.last().into_iter().for_each(|a| note(&line(a)));
        }
        Ok(())
    }
}

/// How answers are written: as text or as token ids.
struct Show {
    ids: bool,
}

impl Show {
    /// One answer, as it comes.
    fn stream(&self, model: &Model, prompt: &Prompt, options: &GenerateOptions) -> Result<Completion> {
        let mut answer = Completion::empty();
        let mut end = LineEnd::default();
        // Before the prompt is written, so that a prompt that is refused leaves no half line.
        let stream = model.stream(prompt, options)?;
        answer.media = stream.media().clone();
        let mut echo = options.echo;
        for piece in stream {
            let piece = piece?;
            if std::mem::take(&mut echo) {
                end.write(&self.prompt(model, prompt)?)?;
            }
            end.write(&match (self.ids, piece.token) {
                (true, Some(id)) => format!("{id} "),
                (true, None) => String::new(),
                _ => piece.text.clone(),
            })?;
            answer.push(piece);
        }
        end.finish()?;
        Ok(answer)
    }

    /// Several answers one after the other, a line of dashes between them: streams of several cannot share a terminal.
    fn all(&self, model: &Model, prompt: &Prompt, options: &GenerateOptions) -> Result<Vec<Completion>> {
        let answers = model.generate(prompt, &GenerateOptions { echo: false, ..options.clone() })?;
        let echo = if options.echo { self.prompt(model, prompt)? } else { String::new() };
        for (i, answer) in answers.iter().enumerate() {
            let mut end = LineEnd::default();
            end.write(if i > 0 { "---\n" } else { "" })?;
            end.write(&echo)?;
            end.write(&if self.ids { ids(&answer.tokens) } else { answer.text.clone() })?;
            end.finish()?;
        }
        Ok(answers)
    }

    fn prompt(&self, model: &Model, prompt: &Prompt) -> Result<String> {
        match (self.ids, prompt) {
            (true, Prompt::Tokens(tokens)) => Ok(ids(tokens) + " "),
            _ => Ok(model.echo_text(prompt)?),
        }
    }
}

fn ids(tokens: &[u32]) -> String {
    tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// The tokens of an answer with their logarithms of probability, on stderr, where they were asked for.
fn log_probabilities(answer: &Completion, tokenizer: Option<&Tokenizer>) {
    if answer.logprobs.is_empty() {
        return;
    }
    let named = |id: u32| format!("{id} {:?}", piece(tokenizer, id));
    let rows = answer.tokens.iter().zip(&answer.logprobs).map(|(&id, (logprob, top))| {
        let top = top.iter().map(|&(id, l)| format!("{} {l:.4}", named(id))).collect::<Vec<_>>();
        vec![named(id), format!("{logprob:.4}"), top.join("  ")]
    });
    for line in table(&["token", "logprob", "most likely"], &[1], rows).lines() {
        note(line);
    }
}

fn piece(tokenizer: Option<&Tokenizer>, id: u32) -> String {
    let bytes = tokenizer.and_then(|t| t.token_bytes(id)).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that is known, in the words of completion APIs.
fn report(model: &Model, prompt: &Prompt, options: &GenerateOptions, answers: &[Completion]) -> Value {
    let first = answers.first().cloned().unwrap_or_else(Completion::empty);
    let (usage, t) = (first.usage, first.timings);
    let sum = |count: fn(&Speculation) -> usize| {
        answers.iter().map(|a| count(&a.timings.speculation)).sum::<usize>()
    };
    let choice = |(i, a): (usize, &Completion)| choice(i, a, &options.stop, model.tokenizer());
    let slowest = answers.iter().map(|a| a.timings.decode_seconds).fold(0.0, f64::max);
    json!({
        "model": model.info().path,
        "prompt": match prompt {
            Prompt::Text(text) => json!(text),
            Prompt::Tokens(tokens) => json!(tokens),
        },
        "choices": answers.iter().enumerate().map(choice).collect::<Vec<_>>(),
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "cached_disk_tokens": usage.disk_tokens,
            "completion_tokens": answers.iter().map(|a| a.usage.completion_tokens).sum::<usize>(),
            "image_tokens": first.media.image_tokens(),
            "audio_tokens": first.media.audio_tokens(),
        },
        "images": first.media.pictures.iter().map(image).collect::<Vec<_>>(),
        "sounds": first.media.sounds.iter().map(sound).collect::<Vec<_>>(),
        "timings": {
            "encode_s": first.media.encode_seconds,
            "prefill_s": t.prefill_seconds,
            "decode_s": slowest,
            "prefill_tok_s": prefill_speed(&first),
            "decode_tok_s": answers.iter().map(decode_speed).sum::<f64>(),
        },
        "speculation": model.info().draft.as_ref().map(|draft| json!({
            "draft": draft,
            "drafted": sum(|s| s.drafted),
            "accepted": sum(|s| s.accepted),
            "steps": sum(|s| s.steps),
        })),
    })
}

fn image(used: &PictureUse) -> Value {
    let pair = |size: PixelSize| json!([size.width, size.height]);
    json!({"size": pair(used.size), "resized": pair(used.resized), "tokens": used.tokens, "cached": used.cached})
}

fn sound(used: &SoundUse) -> Value {
    json!({"seconds": used.seconds, "tokens": used.tokens, "cached": used.cached})
}

fn choice(index: usize, answer: &Completion, stops: &[String], tokenizer: Option<&Tokenizer>) -> Value {
    let token = |id: u32, logprob: f32| json!({"id": id, "text": piece(tokenizer, id), "logprob": logprob});
    let entry = |id: u32, logprob: f32, top: &[(u32, f32)]| {
        let mut entry = token(id, logprob);
        entry["top"] = top.iter().map(|&(id, l)| token(id, l)).collect();
        entry
    };
    let list = |entries: Vec<Value>| if entries.is_empty() { Value::Null } else { entries.into() };
    let logprobs = answer.tokens.iter().zip(&answer.logprobs).map(|(&id, (l, top))| entry(id, *l, top));
    let prompt = answer.prompt_logprobs.iter().map(|s| entry(s.id, s.logprob, &s.top));
    json!({
        "index": index,
        "text": answer.text,
        "tokens": answer.tokens,
        "finish_reason": answer.finish_reason.name(),
        "complete": answer.complete,
        "stop_reason": stop_reason(answer.finish_reason, stops),
        "logprobs": list(logprobs.collect()),
        "prompt_logprobs": list(prompt.collect()),
    })
}

/// What ended an answer, as in Python: the end token, the stop string, or the name of the limit.
fn stop_reason(reason: FinishReason, stops: &[String]) -> Value {
    match reason {
        FinishReason::Stop { by: StopBy::End(token) } => json!(token),
        FinishReason::Stop { by: StopBy::Text(index) } => json!(stops.get(index)),
        FinishReason::Stop { by: StopBy::Grammar } => json!("grammar"),
        FinishReason::Length { by } => json!(by.name()),
        FinishReason::Cancelled => Value::Null,
    }
}
