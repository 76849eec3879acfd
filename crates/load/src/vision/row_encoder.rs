//! The encoder of a loaded model for one sense: it begins with the first picture or sound whose rows somebody wants, and keeps
//! what it made of the last ones.

use super::{
    job::EncodeJob,
    sense::Sense,
    worker::{EncoderCounts, EncoderWorker},
};
use crate::error::{Error, Result};
use lamina_arch::vision::VisionSource;
use lamina_engine::{
    Name,
    kv::content::{Cells, sha256},
};
use lamina_plan::Backend;
use std::sync::{Arc, mpsc::channel};

/// What turns pictures or sounds into rows of a model. Nothing of it takes memory before the first one comes. They are encoded
/// on a thread of its own, in slices between which engines compute.
pub struct RowEncoder<S: Sense> {
    spec: S::Spec,
    /// Names what computes, with which weights: rows of other builds, files and types have other bits.
    identity: String,
    worker: Arc<EncoderWorker<S>>,
}

impl<S: Sense> RowEncoder<S> {
    /// An encoder of `source` on a backend of its own, where `weights` names its weights, with room for rows of `cache` bytes.
    pub(super) fn new(
        spec: S::Spec,
        source: VisionSource,
        own: Box<dyn Backend>,
        weights: &str,
        cache: u64,
    ) -> RowEncoder<S> {
        let identity = format!("{} {weights}", own.identity());
        let worker = Arc::new(EncoderWorker::new(spec.clone(), source, own, cache));
        RowEncoder { spec, identity, worker }
    }

    /// What it is.
    pub fn spec(&self) -> &S::Spec {
        &self.spec
    }

    /// What names an input: its content, what becomes of it, and what computes it. Two files with the same pixels or samples are
    /// the same.
    pub fn id(&self, input: &S::Input) -> Name {
        let mut text = format!("{} {} {:?}", self.identity, S::form(input), self.spec).into_bytes();
        S::content(input, &mut text);
        sha256(&text, &Cells::from(&[][..]))
    }

    /// An input with its [`RowEncoder::id`] whose rows are made when somebody asks for them, and not before; `ready` is called
    /// when they are there or cannot be made. What nobody holds any more is not encoded.
    pub fn job(
        &self,
        (id, input): (Name, Arc<S::Input>),
        ready: impl Fn() + Send + Sync + 'static,
    ) -> Arc<EncodeJob<S>> {
        let worker = self.worker.clone();
        EncodeJob::new((id, input), Box::new(move |job| worker.push(job)), Box::new(ready))
    }

    /// The rows of an input, as they are kept or newly made. Waits for them.
    ///
    /// # Errors
    /// When the encoder cannot be loaded, the input is none for the model, or the backend fails.
    pub fn rows(&self, input: Arc<S::Input>) -> Result<Arc<S::Rows>> {
        S::check(&self.spec, &input)?;
        let (done, is_done) = channel();
        // Who asked may have gone away.
        let job = self.job((self.id(&input), input), move || _ = done.send(()));
        loop {
            if let Some(rows) = job.get() {
                return rows;
            }
            let gone = |_| Error::Runtime(format!("the encoder of {} has ended", S::NAME));
            is_done.recv().map_err(gone)?;
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> EncoderCounts {
        self.worker.counts()
    }

    /// Ends its thread and frees its memory; what waits fails.
    pub fn close(&self) {
        self.worker.close();
    }
}

impl<S: Sense> Drop for RowEncoder<S> {
    fn drop(&mut self) {
        self.close();
    }
}
