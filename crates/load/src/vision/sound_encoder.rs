//! The encoder of sound of a loaded model, which begins with the first sound whose rows somebody wants.

use super::{
    ears::{Ears, SoundRows},
    job::EncodeJob,
    sizes::{cache_bytes, sound_bytes},
    worker::{EncoderCounts, EncoderWorker},
};
use crate::{
    error::{Error, Result},
    identity::encoder_identity,
    mmproj::MmprojChoice,
    options::LoadOptions,
};
use lamina_arch::{
    sound::{SoundFamily, SoundSpec},
    vision::VisionSource,
};
use lamina_engine::{
    Name,
    kv::content::{Cells, sha256},
};
use lamina_plan::Backend;
use lamina_planner::MemoryPart;
use lamina_sound::Sound;
use lamina_store::Checkpoint;
use std::sync::{Arc, mpsc::channel};

/// A sound whose rows somebody may want.
pub type SoundJob = EncodeJob<Ears>;

/// What turns sounds into rows of a model. Nothing of it takes memory before the first sound comes.
pub struct SoundEncoder {
    spec: SoundSpec,
    family: &'static SoundFamily,
    /// Names what computes, with which weights: rows of other builds, files and types have other bits.
    identity: String,
    parts: [MemoryPart; 3],
    worker: Arc<EncoderWorker<Ears>>,
}

impl SoundEncoder {
    /// The encoder in the folder of `ck`, on a handle of `backend`; none where there is none, or encoders are switched off.
    /// What cannot be used is told, and the model answers texts all the same.
    pub(crate) fn find(
        ck: &Checkpoint,
        options: &LoadOptions,
        backend: &dyn Backend,
    ) -> Result<(Option<SoundEncoder>, Option<String>)> {
        if options.mmproj == MmprojChoice::Off {
            return Ok((None, None));
        }
        let (Some(source), Some(own)) = (VisionSource::of_sound(ck)?, backend.handle()) else {
            return Ok((None, None));
        };
        let found = SoundFamily::of(&source).and_then(|family| Ok((family, family.spec(&source)?)));
        let (family, spec) = match found {
            Ok(found) => found,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let weights = family.weights(&source, &spec);
        let [weights, working] = match sound_bytes(&spec, &weights, backend) {
            Ok(sizes) => sizes,
            Err(why) => return Ok((None, Some(format!("sound is not taken: {why}")))),
        };
        let cache = cache_bytes(options, backend);
        let parts = [("sound encoder", weights), ("sound memory", working), ("sound cache", cache)];
        let parts = parts.map(|(name, bytes)| MemoryPart { name, bytes });
        let identity = format!("{} {:?}", backend.identity(), encoder_identity(ck, options));
        let worker = EncoderWorker::new(spec.clone(), source, own, cache);
        Ok((Some(SoundEncoder { spec, family, identity, parts, worker: Arc::new(worker) }), None))
    }

    /// What it takes of memory, by use.
    pub fn parts(&self) -> &[MemoryPart] {
        &self.parts
    }

    /// Its family's name.
    pub fn family(&self) -> &'static str {
        self.family.name
    }

    /// What it is.
    pub fn spec(&self) -> &SoundSpec {
        &self.spec
    }

    /// What names a sound: its samples, what becomes of them, and what computes it.
    pub fn id(&self, sound: &Sound) -> Name {
        let mut text = format!("{} {} {:?}", self.identity, sound.rate(), self.spec).into_bytes();
        text.extend(sound.samples().iter().flat_map(|sample| sample.to_le_bytes()));
        sha256(&text, &Cells::from(&[][..]))
    }

    /// A sound with its [`SoundEncoder::id`] whose rows are made when somebody asks for them, and not before; `ready` is called
    /// when they are there or cannot be made.
    pub fn job(
        &self,
        (id, sound): (Name, Arc<Sound>),
        ready: impl Fn() + Send + Sync + 'static,
    ) -> Arc<SoundJob> {
        let worker = self.worker.clone();
        SoundJob::new((id, sound), Box::new(move |job| worker.push(job)), Box::new(ready))
    }

    /// The rows of a sound, as they are kept or newly made. Waits for them.
    ///
    /// # Errors
    /// When the encoder cannot be loaded, or the backend fails.
    pub fn rows(&self, sound: Arc<Sound>) -> Result<Arc<SoundRows>> {
        let (done, is_done) = channel();
        // Who asked may have gone away.
        let job = self.job((self.id(&sound), sound), move || _ = done.send(()));
        loop {
            if let Some(rows) = job.get() {
                return rows;
            }
            let gone = |_| Error::Runtime("the encoder of sound has ended".into());
            is_done.recv().map_err(gone)?;
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> EncoderCounts {
        self.worker.counts()
    }

    /// Ends its thread and frees its memory; sounds that wait fail.
    pub fn close(&self) {
        self.worker.close();
    }
}

impl Drop for SoundEncoder {
    fn drop(&mut self) {
        self.close();
    }
}
