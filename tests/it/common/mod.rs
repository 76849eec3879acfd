//! What several tests of a model ask.

pub mod answers;
pub mod divided;

use lamina::{LoadOptions, Model, RankService};
use std::path::Path;

/// The model at a path that has to load.
pub fn load(path: &Path, options: LoadOptions) -> Model {
    Model::load(Some(path), options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A rank of the model at `path`, by its address. It lives as long as the process.
pub fn rank_at(path: &Path, options: LoadOptions) -> String {
    let rank = RankService::listen("127.0.0.1:0").expect("a free port");
    let (address, path) = (rank.address(), path.to_owned());
    std::thread::spawn(move || rank.serve(Some(&path), &options, (&|_| (), &|_, _| true)));
    address
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
