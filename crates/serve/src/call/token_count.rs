//! Tokens of a request, counted while they come: a stream that runs, or whose reader has left, is in the numbers too.

use crate::{
    app::App,
    debug::{TraceDesk, TraceRecording},
    error::ApiError,
    log::RequestLog,
    metrics::TokenCounters,
    run::{ChoiceEnd, Observer, TokenUsage},
};
use std::sync::Arc;

/// A request whose tokens are counted while they come.
pub struct CountedRequest {
    /// What is remembered of it.
    pub log: RequestLog,
    /// Where its times are counted.
    pub app: App,
    /// Where its tokens are counted.
    pub tokens: TokenCounters,
    /// Where its tokens are noted while a recording runs.
    pub noted: Option<Arc<TraceDesk>>,
    /// The recording that it asked for, which ends with it.
    pub _recording: Option<TraceRecording>,
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
        let first = self.log.entry().first_token;
        first.iter().for_each(|time| self.app.first_tokens.add(*time));
    }

    fn next_token(&mut self) {
        self.count();
        self.log.next_token();
        let gap = self.log.entry().gaps.last().copied();
        gap.iter().for_each(|time| self.app.gaps.add(*time));
    }

    fn chose(&mut self, id: u32) {
        if let Some(desk) = &self.noted {
            desk.token(self.log.entry().number, id);
        }
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
