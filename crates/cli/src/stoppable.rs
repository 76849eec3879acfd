//! Work that would leave half-written files behind.

use crate::{
    error::{CliError, Result},
    interrupt::{self, On},
    output::note,
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Work that Ctrl-C stops in good order: it is told, cleans up behind itself, and then the program ends.
pub struct Stoppable {
    stopped: AtomicBool,
}

impl Stoppable {
    /// From now on, and as long as this lives.
    pub fn new() -> Stoppable {
        interrupt::set(On::Catch);
        Stoppable { stopped: AtomicBool::new(false) }
    }

    /// False after a Ctrl-C.
    pub fn goes_on(&self) -> bool {
        if interrupt::hit() {
            self.stopped.store(true, SeqCst);
        }
        !self.stopped.load(SeqCst)
    }

    /// The result of the work, or that it was stopped.
    pub fn end<T, E: Into<CliError>>(&self, result: std::result::Result<T, E>) -> Result<T> {
        let stopped = self.stopped.load(SeqCst);
        result.map_err(|e| if stopped { interrupted() } else { e.into() })
    }
}

fn interrupted() -> CliError {
    note("stopped");
    CliError::Reported(interrupt::CODE)
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        interrupt::set(On::Exit);
    }
}
