//! Waiting without the interpreter's lock, and with an eye on Python's signals.

use crate::error::{Failure, Result};
use lamina::{
    LoadOptions,
    hub::{PullProgress, PullWatch},
    shield,
};
use pyo3::prelude::*;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How often a waiting call looks for signals: Ctrl-C feels immediate, and the lock is left to others meanwhile.
pub const POLL: Duration = Duration::from_millis(50);

/// Runs `f` without the interpreter's lock; panics become errors.
pub fn detached<T: Send>(py: Python<'_>, f: impl FnOnce() -> lamina::Result<T> + Send) -> Result<T> {
    Ok(py.detach(|| shield(f))?)
}

/// Runs `f` without the interpreter's lock. `f` calls its argument while it waits, and gives up when that returns false
/// because a signal's handler, or `more`, has raised an exception: this one is then the result.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    more: impl Fn(Python<'_>, u64, u64) -> PyResult<()> + Sync,
    f: impl FnOnce(&(dyn Fn(u64, u64) -> bool + Sync)) -> lamina::Result<T> + Send,
) -> Result<T> {
    let raised = Mutex::new(None);
    let keep = |done, total| {
        let checked = Python::attach(|py| py.check_signals().and_then(|()| more(py, done, total)));
        checked.map_err(|e| *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(e)).is_ok()
    };
    let result = detached(py, || f(&keep));
    match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(Failure::Python(e)),
        None => result,
    }
}

/// Fetching a model, watched by who waits for it; lines go to stderr, as those of loading do.
pub struct CallWatch<'a>(pub &'a (dyn Fn(u64, u64) -> bool + Sync));

impl PullWatch for CallWatch<'_> {
    fn say(&self, line: &str) {
        eprintln!("lamina: {line}");
    }

    fn at(&self, progress: &PullProgress) -> bool {
        (self.0)(progress.done, progress.size)
    }
}

/// Path and options of a model that has a name, or parts that have.
pub fn located(
    path: &Path,
    options: &LoadOptions,
    watch: &CallWatch<'_>,
) -> lamina::Result<(PathBuf, LoadOptions)> {
    let found = lamina::locate(Some(path), options, watch)?;
    Ok((found.unwrap_or_else(|| path.to_owned()), lamina::locate_parts(options, watch)?))
}

/// For calls that report no progress.
pub fn silent(_: Python<'_>, _: u64, _: u64) -> PyResult<()> {
    Ok(())
}
