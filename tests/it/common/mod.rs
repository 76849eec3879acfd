//! What several tests of a model ask.

pub mod answers;

use lamina::{LoadOptions, Model};
use std::path::Path;

/// The model at a path that has to load.
pub fn load(path: &Path, options: LoadOptions) -> Model {
    Model::load(Some(path), options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// True once nothing runs or waits and no page is held: answers are told before the snapshot that says so.
pub fn rests(model: &Model) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let snapshot = model.snapshot();
        let idle = snapshot.running.is_empty() && snapshot.waiting.is_empty();
        idle && snapshot.free_pages == snapshot.pages
    })
}
