//! One request of a measurement.

use super::plan::PlannedRequest;
use crate::{
    error::{CliError, Result},
    remote::{figures::Figures, server::RemoteServer},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Common words: nearly every tokenizer has one token for each.
const WORDS: [&str; 16] =
    ["the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on"];

/// What became of a request: the answer, or why there is none.
pub type Outcome = std::result::Result<Measured, String>;

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Measured {
    /// When its pieces came, from the request on. At least one.
    pub times: Vec<Duration>,
    /// Tokens of the prompt, as far as the server tells.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
}

/// Makes prompts of a wanted length that no cache holds.
#[derive(Debug)]
pub enum PromptMaker {
    /// Random ids below the size of the vocabulary: exact lengths.
    Ids(u32),
    /// Random words: about a token each.
    Words,
}

impl PromptMaker {
    /// Ids where the server tells the size of its vocabulary, else words.
    pub async fn ask(server: &RemoteServer, model: Option<&str>) -> Result<PromptMaker> {
        let list = match server.get("/models").await {
            Ok(list) => list,
            Err(CliError::Refused { .. }) => return Ok(PromptMaker::Words),
            Err(e) => return Err(e),
        };
        let models = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let this = models.iter().find(|m| m["id"].as_str() == model).or(models.first());
        let size = this.and_then(|m| m["meta"]["n_vocab"].as_u64()).and_then(|n| u32::try_from(n).ok());
        Ok(size.filter(|&n| n > 16).map_or(PromptMaker::Words, PromptMaker::Ids))
    }

    /// The body of a request whose prompt `seed` decides.
    pub fn body(&self, model: Option<&str>, planned: &PlannedRequest, seed: u64) -> Value {
        let mut random = fastrand::Rng::with_seed(seed);
        let prompt = match self {
            // Special tokens stand at one of the two ends of most vocabularies.
            PromptMaker::Ids(size) => {
                (0..planned.prompt).map(|_| json!(random.u32(size / 8..size - size / 8))).collect::<Value>()
            }
            PromptMaker::Words => {
                let words = (0..planned.prompt).map(|_| WORDS[random.usize(..WORDS.len())]);
                json!(words.collect::<Vec<_>>().join(" "))
            }
        };
        let mut body = json!({
            "prompt": prompt,
            "max_tokens": planned.answer,
            "temperature": 0,
            "ignore_eos": true,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if let Some(name) = model {
            body["model"] = json!(name);
        }
        body
    }
}

/// Sends `body` and takes the times of the answer.
pub async fn request(server: &RemoteServer, body: &Value) -> Outcome {
    match stream(server, body).await {
        Ok(figures) if figures.times.is_empty() => Err("the answer is empty".to_owned()),
        Ok(figures) => Ok(Measured {
            prompt_tokens: figures.prompt_tokens().unwrap_or(0),
            completion_tokens: figures.completion_tokens(),
            times: figures.times,
        }),
        Err(e) => Err(e.to_string()),
    }
}

/// Reads one whole answer.
pub async fn stream(server: &RemoteServer, body: &Value) -> Result<Figures> {
    let mut figures = Figures::begin();
    let mut events = server.stream("/completions", body).await?;
    while let Some(chunk) = events.next().await? {
        figures.take(&chunk);
        // A token may be part of a character and add no text yet; the chunk that only says the end is none.
        let choice = &chunk["choices"][0];
        let has_text = choice["text"].as_str().is_some_and(|text| !text.is_empty());
        if choice.is_object() && (has_text || choice["finish_reason"].is_null()) {
            figures.piece();
        }
    }
    match figures.finish {
        Some(_) => Ok(figures),
        None => Err(events.cut_off()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_their_length_and_differ() {
        let planned = PlannedRequest { at: None, prompt: 50, answer: 3 };
        let ids = PromptMaker::Ids(1000);
        let body = ids.body(Some("m"), &planned, 1);
        let prompt = body["prompt"].as_array().unwrap();
        assert_eq!((prompt.len(), &body["max_tokens"], &body["model"]), (50, &json!(3), &json!("m")));
        assert!(prompt.iter().all(|id| (125..875).contains(&id.as_u64().unwrap())));
        assert_eq!(ids.body(None, &planned, 1)["prompt"], body["prompt"], "the seed decides");
        assert_ne!(ids.body(None, &planned, 2)["prompt"], body["prompt"]);
        let words = PromptMaker::Words.body(None, &planned, 1);
        assert_eq!(words["prompt"].as_str().unwrap().split(' ').count(), 50);
    }
}
