//! The program that started this one, where it holds the other end of standard input: when it ends, however it ends, standard
//! input does.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

/// Whether standard input is still open.
#[derive(Debug, Clone, Default)]
pub struct Parent(Arc<AtomicBool>);

impl Parent {
    /// Watches from now on; what comes by standard input is thrown away.
    pub fn watch() -> Parent {
        let parent = Parent::default();
        let gone = parent.clone();
        thread::spawn(move || {
            let mut thrown = [0; 4096];
            while std::io::stdin().read(&mut thrown).is_ok_and(|n| n > 0) {}
            gone.0.store(true, Relaxed);
        });
        parent
    }

    /// Whether it has ended.
    pub fn gone(&self) -> bool {
        self.0.load(Relaxed)
    }
}
