//! From a path to an engine or a tokenizer.

use crate::{
    Error, Result, builtin,
    device::{OnBackend, on_device},
};
use lamina_load::{LoadOptions, Loaded, Progress, open_on};
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use lamina_text::Tokenizer;
use std::path::Path;

/// Opens the checkpoint at `path`, or that of the model inside the package.
///
/// # Errors
/// When there is no model, or it is broken.
pub fn checkpoint(path: Option<&Path>) -> Result<Checkpoint> {
    let path = path.map_or_else(builtin::path, |p| Ok(p.to_owned()))?;
    Ok(Checkpoint::open(path)?)
}

/// Loads the model at `path` and builds its engine on the device that `options` name.
///
/// # Errors
/// When it cannot be found, read, supported, or held in memory; when `progress` gives up.
pub fn open(path: Option<&Path>, options: &LoadOptions, progress: Progress<'_>) -> Result<Loaded> {
    on_device(options.device, options.threads, Open { path, options, progress })
}

struct Open<'a> {
    path: Option<&'a Path>,
    options: &'a LoadOptions,
    progress: Progress<'a>,
}

impl OnBackend for Open<'_> {
    type Out = Loaded;

    fn run<B: Backend + 'static>(self, backend: B) -> Result<Loaded> {
        open_on(&checkpoint(self.path)?, self.options, backend, self.progress)
    }
}

/// The tokenizer of the model at `path`, or of the one inside the package, without loading the model.
///
/// # Errors
/// When there is no model, its tokenizer is broken, or it has none.
pub fn tokenizer(path: Option<&Path>) -> Result<Tokenizer> {
    let missing = || Error::InvalidRequest("this model has no tokenizer: it takes token ids only".into());
    lamina_load::tokenizer(&checkpoint(path)?)?.ok_or_else(missing)
}
