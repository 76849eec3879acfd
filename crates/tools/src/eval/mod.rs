//! How many questions a model gets right, and whether another one gets more.

mod mcnemar;
mod question;

pub use mcnemar::PairedVerdict;
pub use question::{Question, RightAnswer, questions};

use lamina::{
    ChatOptions, Error, GenerateOptions, Model, Prompt, Result, TokenStream, sample::SamplingParams,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Questions that are asked at once.
const AT_ONCE: usize = 64;
/// How often a wait asks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a model made of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The likeliest choice, or the written answer, is the right one.
    pub right: bool,
    /// Of choices: the likeliest one by the logarithm of its probability for each byte of it is the right one.
    pub right_by_length: Option<bool>,
    /// The choice that was made, or the answer.
    pub answer: String,
}

/// A share of questions, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// Questions.
    pub questions: usize,
    /// Those that were answered right.
    pub right: usize,
}

impl Accuracy {
    /// Of all questions that have such a verdict.
    pub fn of(verdicts: impl IntoIterator<Item = bool>) -> Accuracy {
        let none = Accuracy { questions: 0, right: 0 };
        verdicts.into_iter().fold(none, |all, right| Accuracy {
            questions: all.questions + 1,
            right: all.right + usize::from(right),
        })
    }

    /// The share of right answers.
    pub fn share(self) -> f64 {
        self.right as f64 / self.questions.max(1) as f64
    }

    /// Standard error of the share: of a mean of so many zeros and ones.
    pub fn error(self) -> f64 {
        match self.questions {
            0 | 1 => 0.0,
            n => (self.share() * (1.0 - self.share()) / (n - 1) as f64).sqrt(),
        }
    }

    /// For reports.
    pub fn json(self) -> Value {
        let Accuracy { questions, right } = self;
        json!({"accuracy": self.share(), "error": self.error(), "right": right, "questions": questions})
    }
}

/// Asks a model all questions; written ones as a user's message where `chat` is set, else as a text to continue, and the
/// likeliest token each time. `progress` is told questions done and in all, and gives up by returning false.
///
/// # Errors
/// When a question does not fit, the model fails, or `progress` gives up.
pub fn ask(
    model: &Model,
    questions: &[Question],
    chat: bool,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Vec<Verdict>> {
    let mut verdicts = vec![];
    for some in questions.chunks(AT_ONCE) {
        let done = verdicts.len();
        let keep = &mut || progress(done, questions.len());
        let running = some.iter().map(|q| begin(model, q, chat)).collect::<Result<Vec<_>>>()?;
        let scored = scores(model, some, keep)?;
        let mut scored = scored.into_iter();
        for (question, stream) in some.iter().zip(running) {
            verdicts.push(match (question, stream) {
                (Question::Written { right, .. }, Some(stream)) => {
                    let answer = text(stream, keep)?;
                    Verdict { right: right.accepts(&answer), right_by_length: None, answer }
                }
                (Question::Choice { choices, answer, .. }, _) => {
                    chosen(choices, *answer, &scored.by_ref().take(choices.len()).collect::<Vec<_>>())
                }
                (Question::Written { .. }, None) => continue,
            });
        }
        if !progress(verdicts.len(), questions.len()) {
            return Err(Error::Runtime("the questions were cancelled".into()));
        }
    }
    Ok(verdicts)
}

/// Sends a question that is answered in words.
fn begin(model: &Model, question: &Question, chat: bool) -> Result<Option<TokenStream>> {
    let Question::Written { prompt, max_tokens, stop, .. } = question else { return Ok(None) };
    let mut sampling = SamplingParams::default();
    sampling.set("temperature", 0.0).map_err(|e| Error::InvalidRequest(e.to_string()))?;
    let (max_tokens, stop) = (Some(*max_tokens), stop.clone());
    let options = GenerateOptions { max_tokens, stop, sampling, ..GenerateOptions::default() };
    if !chat {
        return model.stream(&Prompt::Text(prompt.clone()), &options).map(Some);
    }
    let messages = [json!({"role": "user", "content": prompt})];
    let mut prepared = model.prepare_chat(&messages, &ChatOptions::default())?;
    model.stream_chat(&mut prepared, &options).map(Some)
}

/// Logprobs of all choices, one question after the other.
fn scores(model: &Model, questions: &[Question], keep: &mut dyn FnMut() -> bool) -> Result<Vec<f64>> {
    let text = |text: &String| Prompt::Text(text.clone());
    let pairs: Vec<_> = questions
        .iter()
        .filter_map(|q| match q {
            Question::Choice { question, choices, .. } => {
                Some(choices.iter().map(move |choice| (text(question), text(choice))))
            }
            Question::Written { .. } => None,
        })
        .flatten()
        .collect();
    if pairs.is_empty() {
        return Ok(vec![]);
    }
    Ok(model.score(&pairs, keep)?.into_iter().map(|score| score.logprob).collect())
}

fn chosen(choices: &[String], answer: usize, logprobs: &[f64]) -> Verdict {
    // The first of equals.
    let best = |value: &dyn Fn(usize) -> f64| {
        (0..choices.len()).fold(0, |best, i| if value(i) > value(best) { i } else { best })
    };
    let likeliest = best(&|i| logprobs[i]);
    let by_length = best(&|i| logprobs[i] / choices[i].trim_start().len().max(1) as f64);
    Verdict {
        right: likeliest == answer,
        right_by_length: Some(by_length == answer),
        answer: choices.get(likeliest).map_or(String::new(), |choice| choice.trim_start().to_owned()),
    }
}

fn text(mut stream: TokenStream, keep: &mut dyn FnMut() -> bool) -> Result<String> {
    let mut text = String::new();
    loop {
        match stream.next_within(PATIENCE) {
            Ok(Some(piece)) => text.push_str(&piece.text),
            Ok(None) if keep() => {}
            Ok(None) => return Err(Error::Runtime("the questions were cancelled".into())),
            Err(end) => return end.map_or(Ok(text), Err),
        }
    }
}
