//! `lamina eval`: questions with known answers.

use super::Execute;
use crate::{
    args::{LoadArgs, load},
    error::{CliError, Result},
    input, output,
    progress::Bar,
    table::pairs,
};
use lamina_tools::{Accuracy, PairedVerdict, Question, Verdict, ask, questions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Ask questions with known answers, and count the right ones
///
/// Each line of FILE is an object: question, choices and answer (the right choice's number from 0, text, or letter), of which
/// the likeliest choice counts; or prompt and regex or exact, which the model answers, with max_tokens and stop. With
/// --against another model gets the same questions, and McNemar's test says whether one is better.
#[derive(clap::Args)]
pub struct EvalArgs {
    /// The questions, JSON lines; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// GGUF file, Hugging Face folder, or name such as hf:org/model
    #[arg(short, long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Another model, which gets the same questions behind the first one
    #[arg(long, value_name = "MODEL")]
    against: Option<PathBuf>,
    /// Prompts are messages of a user, written with the model's template
    #[arg(long)]
    chat: bool,
    /// Write one JSON object, with the answer to each question
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

impl Execute for EvalArgs {
    const NAME: &'static str = "eval";

    fn execute(self) -> Result<()> {
        let wrong = |e: lamina::Error| CliError::Content { path: self.file.clone(), problem: e.to_string() };
        let asked = questions(&input::file_text(&self.file)?).map_err(wrong)?;
        let own = self.ask(self.model.as_deref(), &asked)?;
        let other = self.against.as_deref().map(|path| self.ask(Some(path), &asked)).transpose()?;
        let paired = other.as_ref().map(|other| PairedVerdict::of(&own, other));
        let right = Accuracy::of(own.iter().map(|v| v.right));
        let by_length = Accuracy::of(own.iter().filter_map(|v| v.right_by_length));
        if self.json {
            let mut report = right.json();
            report["by_length"] = if by_length.questions > 0 { by_length.json() } else { Value::Null };
            report["against"] = paired.map_or(Value::Null, PairedVerdict::json);
            report["answers"] = answers(&own, other.as_deref());
            return output::json(&report);
        }
        let mut rows = vec![("accuracy", share(right))];
        if by_length.questions > 0 {
            rows.push(("by length of choices", share(by_length)));
        }
        if let Some(paired) = paired {
            rows.push(("the other's accuracy", share(paired.other)));
            rows.push(("right alone", format!("{} and {} of the other", paired.better, paired.worse)));
            rows.push(("p (McNemar)", format!("{:.4}", paired.p_value())));
        }
        rows.push(("questions", right.questions.to_string()));
        output::text(&pairs(rows))
    }
}

impl EvalArgs {
    fn ask(&self, path: Option<&Path>, asked: &[Question]) -> Result<Vec<Verdict>> {
        let model = load(path, &self.load.options())?;
        let bar = Bar::steps("questions");
        let verdicts = ask(&model, asked, self.chat, &mut |done, all| {
            bar.at(done as u64, all as u64);
            true
        });
        // The other one may not fit beside it.
        model.close();
        Ok(verdicts?)
    }
}

fn share(accuracy: Accuracy) -> String {
    format!("{:.4} +- {:.4}", accuracy.share(), accuracy.error())
}

fn answers(own: &[Verdict], other: Option<&[Verdict]>) -> Value {
    let one = |(i, v): (usize, &Verdict)| {
        let mut answer = json!({"right": v.right, "answer": v.answer});
        if let Some(v) = other.and_then(|all| all.get(i)) {
            answer["other"] = json!({"right": v.right, "answer": v.answer});
        }
        answer
    };
    own.iter().enumerate().map(one).collect()
}
