//! Counts and times of a streamed answer, as this side sees them.

use serde_json::Value;
use std::time::{Duration, Instant};

/// What is known of an answer.
#[derive(Debug)]
pub struct Figures {
    started: Instant,
    /// When its pieces came.
    pub times: Vec<Duration>,
    /// The server's counts.
    pub usage: Option<Value>,
    /// The server's word for its end.
    pub finish: Option<String>,
}

impl Figures {
    /// The request is sent now.
    pub fn begin() -> Figures {
        Figures { started: Instant::now(), times: vec![], usage: None, finish: None }
    }

    /// A piece of text came.
    pub fn piece(&mut self) {
        self.times.push(self.started.elapsed());
    }

    /// Takes counts and end from a chunk.
    pub fn take(&mut self, chunk: &Value) {
        if chunk["usage"].is_object() {
            self.usage = Some(chunk["usage"].clone());
        }
        if let Some(finish) = chunk["choices"][0]["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
    }

    /// Tokens of the prompt, as far as the server tells.
    pub fn prompt_tokens(&self) -> Option<usize> {
        self.count("prompt_tokens")
    }

    /// Tokens of the answer; where the server tells none, its pieces.
    pub fn completion_tokens(&self) -> usize {
        self.count("completion_tokens").unwrap_or(self.times.len())
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.usage.as_ref()?[name].as_u64()?.try_into().ok()
    }

    /// From the request to the first piece.
    pub fn first(&self) -> Option<Duration> {
        self.times.first().copied()
    }

    /// Tokens per second from the first piece on.
    pub fn speed(&self) -> Option<f64> {
        let seconds = self.times.last()?.saturating_sub(self.first()?).as_secs_f64();
        let tokens = self.completion_tokens().saturating_sub(1);
        (seconds > 0.0 && tokens > 0).then(|| tokens as f64 / seconds)
    }

    /// All of it in a line.
    pub fn line(&self) -> String {
        let cached = self.usage.as_ref().and_then(|u| u["prompt_tokens_details"]["cached_tokens"].as_u64());
        let cached = cached.filter(|&n| n > 0).map_or_else(String::new, |n| format!(" ({n} cached)"));
        let prompt = self.prompt_tokens().map(|n| format!("prompt {n} tokens{cached}"));
        let first = self.first().map(|t| format!("first token after {:.2} s", t.as_secs_f64()));
        let speed = self.speed().map_or_else(String::new, |s| format!(", {s:.1} tok/s"));
        let answer = format!("answer {} tokens{speed}", self.completion_tokens());
        let ended = format!("ended by {}", self.finish.as_deref().unwrap_or("the connection"));
        [prompt, first, Some(answer), Some(ended)].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_the_servers_where_it_tells_them() {
        let mut f = Figures::begin();
        f.piece();
        f.piece();
        assert_eq!((f.prompt_tokens(), f.completion_tokens()), (None, 2));
        f.take(&json!({"choices": [{"finish_reason": "stop"}], "usage": null}));
        f.take(&json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4}}}));
        let line = f.line();
        assert!(line.contains("prompt 7 tokens (4 cached)") && line.contains("answer 5 tokens"), "{line}");
        assert!(line.ends_with("ended by stop"), "{line}");
    }
}
