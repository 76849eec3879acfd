//! Jobs of many sequences, as FlexGen measures (arXiv 2303.06865): all prompts and all answers, from first to last.

use super::{BenchOptions, Lab, most};
use lamina::{Result, Speculate};
use std::time::Instant;

/// A measured job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpeed {
    /// Tokens of each prompt.
    pub prompt: usize,
    /// Tokens of each answer.
    pub gen_tokens: usize,
    /// Sequences.
    pub batch: usize,
    /// Seconds of the whole job, one per repeat.
    pub seconds: Vec<f64>,
    /// Seconds until every sequence had its first token, one per repeat.
    pub prefill_seconds: Vec<f64>,
    /// Predicted tokens of answers per second.
    pub predicted: Option<f64>,
}

impl JobSpeed {
    /// Tokens of answers per second of the whole job, one per repeat.
    pub fn tok_s(&self) -> Vec<f64> {
        self.seconds.iter().map(|s| (self.batch * self.gen_tokens) as f64 / s).collect()
    }

    /// Tokens of prompts per second while prompts were computed, one per repeat.
    pub fn prefill_tok_s(&self) -> Vec<f64> {
        self.prefill_seconds.iter().map(|s| (self.batch * self.prompt) as f64 / s).collect()
    }
}

impl Lab {
    /// Measures jobs of the longest prompt and answer asked for, one for each batch.
    pub(super) fn jobs(&mut self, o: &BenchOptions, note: &mut dyn FnMut(&str)) -> Result<Vec<JobSpeed>> {
        let (prompt, gen_tokens) = (most(&o.prompt), most(&o.gen_tokens).max(1));
        let mut jobs = vec![];
        for &batch in &o.batch {
            note(&format!("{batch} prompts of {prompt}, answers of {gen_tokens}"));
            let (mut seconds, mut prefill_seconds) = (vec![], vec![]);
            for _ in 0..o.repeat.max(1) {
                let prompts: Vec<_> = (0..batch).map(|_| self.tokens(prompt.max(1))).collect();
                let begin = Instant::now();
                let times = self.drafted_answers(&prompts, gen_tokens, Speculate::default())?;
                seconds.push(begin.elapsed().as_secs_f64());
                let firsts = times.iter().filter_map(|t| t.times.first_token);
                let last = firsts.max().map_or(0.0, |t| t.saturating_duration_since(begin).as_secs_f64());
                prefill_seconds.push(last);
            }
            jobs.push(JobSpeed { prompt, gen_tokens, batch, seconds, prefill_seconds, predicted: None });
        }
        Ok(jobs)
    }
}
