//! A job enters the queue of its model.

use super::HttpCall;
use crate::{
    error::{ApiError, Cause},
    run::{AnswerJob, Run, SlotTurn, carried},
};
use std::time::Instant;

impl HttpCall {
    /// Queues a job. Everything that can be refused is refused here.
    ///
    /// # Errors
    /// Whatever is wrong with it; a full queue; a model that has stopped.
    pub async fn start(&self, job: AnswerJob) -> Result<Run, ApiError> {
        self.log.entry().submitted = Some(Instant::now());
        let run = self.begun(job).await;
        // Nothing is left of the body but its tokens, which the queue has a limit for.
        self.share().release();
        let run = run.map_err(|e| self.with_retry(e))?;
        let number = self.log.entry().number;
        self.app.open.runs(number, run.cancellers());
        let mut entry = self.log.entry();
        entry.queued = true;
        entry.usage.prompt = run.started().prompt_tokens.iter().sum();
        entry.usage.media = run.started().media_tokens;
        drop(entry);
        Ok(run)
    }

    /// Begins a job: one with pictures or sounds beside this thread, since their pixels and samples are hashed. Their memory counts until they are
    /// encoded.
    async fn begun(&self, job: AnswerJob) -> Result<Run, ApiError> {
        let (turn, end, attempt) = (self.slot_turn(&job), self.app.end.clone(), self.attempt.clone());
        if !job.has_media() {
            return Run::start(job, end, turn, attempt);
        }
        job.check()?;
        let media = job.prompts.iter().flat_map(|prompt| &prompt.media);
        let bytes = media.map(|media| media.decoded.bytes()).sum();
        let mut run = self.app.media.run(carried(move || Run::start(job, end, turn, attempt))).await?;
        let mut share = self.app.bodies.share();
        self.share().release();
        // Those that were refused for want of room were so when they were decoded.
        _ = share.resize(bytes);
        run.hold(share);
        Ok(run)
    }

    /// What remembers the text of a job, where texts are remembered and this one is shared.
    fn slot_turn(&self, job: &AnswerJob) -> Option<SlotTurn> {
        let wishes = &job.wishes;
        let shared = wishes.generate.terms.cache_salt.is_none();
        // Tokens stand for no picture or sound.
        let [prompt] = job.prompts.as_slice() else { return None };
        let shared = shared && prompt.media.is_empty();
        let turn = || SlotTurn::new(job.lease.live.clone(), wishes.slot, &prompt.tokens, wishes.lora.clone());
        self.app.options.slot_save_path.as_ref().filter(|_| shared).map(|_| turn())
    }

    /// When the queue is full: how long until there may be room, by how fast it moves.
    fn with_retry(&self, mut error: ApiError) -> ApiError {
        if error.cause == Cause::QueueFull && error.retry.is_none() {
            error.retry = Some(self.app.end_rate.next());
        }
        error
    }
}
