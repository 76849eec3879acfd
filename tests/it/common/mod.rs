//! What several tests of a model ask.

pub mod answers;

use lamina::Model;

/// True once nothing runs or waits and no page is held: answers are told before the snapshot that says so.
pub fn rests(model: &Model) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let snapshot = model.snapshot();
        let idle = snapshot.running.is_empty() && snapshot.waiting.is_empty();
        idle && snapshot.free_pages == snapshot.pages
    })
}
