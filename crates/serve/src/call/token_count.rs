//! Tokens of a request, counted while they come: a stream that runs, or whose reader has left, is in the numbers too.

use crate::{
    error::ApiError,
    log::RequestLog,
    metrics::TokenCounters,
    run::{ChoiceEnd, Observer, TokenUsage},
};

/// A request whose tokens are counted while they come.
pub struct CountedRequest {
    /// What is remembered of it.
    pub log: RequestLog,
    /// Where its tokens are counted.
    pub tokens: TokenCounters,
}

impl CountedRequest {
    fn count(&self) {
        self.log.entry().counted.completion += 1;
        self.tokens.generated.inc();
    }
}

impl Observer for CountedRequest {
    fn first_token(&mut self) {
        let prompt = self.log.entry().usage.prompt;
        self.log.entry().counted.prompt = prompt;
        self.tokens.prompt.inc_by(prompt as u64);
        self.count();
        self.log.first_token();
    }

    fn next_token(&mut self) {
        self.count();
        self.log.next_token();
    }

    fn ended(&mut self, end: &ChoiceEnd) {
        self.log.ended(end);
    }

    fn done(&mut self, usage: &TokenUsage) {
        self.log.done(usage);
    }

    fn failed(&mut self, error: &ApiError) {
        self.log.failed(error);
    }
}
