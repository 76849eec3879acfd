//! From what a user gives as a model to its path: names lead to files that are fetched first, with a line of progress.

use crate::{
    error::{CliError, Result},
    interrupt::{self, On},
    output::{note, watched},
    progress::PullBar,
};
use lamina::{
    LoadOptions,
    hub::{ModelName, PullProgress, PullWatch},
};
use std::{
    cell::Cell,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

/// The path of a model, which is fetched where `options` allow it; none is the one inside the package.
pub fn model(given: Option<&Path>, options: &LoadOptions) -> Result<Option<PathBuf>> {
    let meant = given.and_then(lamina::meant);
    let accepted = meant.map(|name| ask(given, &name)).transpose()?;
    let given = accepted.as_deref().or(given);
    fetching(|line| lamina::locate(given, options, line))
}

/// The same where a model has to be named.
pub fn needed(given: &Path, options: &LoadOptions) -> Result<PathBuf> {
    Ok(model(Some(given), options)?.unwrap_or_else(|| given.to_owned()))
}

/// Options whose draft model and adapters are on this machine.
pub fn parts(options: &LoadOptions) -> Result<LoadOptions> {
    fetching(|line| lamina::locate_parts(options, line))
}

/// Work that Ctrl-C stops in good order.
pub fn fetching<T>(work: impl FnOnce(&PullLine) -> lamina::Result<T>) -> Result<T> {
    interrupt::set(On::Catch);
    let line = PullLine::new();
    let done = work(&line);
    interrupt::set(On::Exit);
    match done {
        Err(e) if line.stopped.get() => {
            note(&e.to_string());
            Err(CliError::Reported(interrupt::CODE))
        }
        done => Ok(done?),
    }
}

/// What looks like a repository is fetched only where a person says so.
fn ask(given: Option<&Path>, name: &ModelName) -> Result<PathBuf> {
    let shown = given.map_or(String::new(), |path| path.display().to_string());
    if !(io::stdin().is_terminal() && watched()) {
        let text = format!("{shown} is no path here: did you mean {name}?");
        return Err(lamina::Error::Model(text).into());
    }
    // Who closes stderr says no.
    let _ = write!(io::stderr(), "{shown} is no path here. Fetch {name}? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(CliError::Input)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(name.to_string().into()),
        _ => Err(lamina::Error::Model(format!("{shown} is no path here")).into()),
    }
}

/// A line that shows how far fetching is; where nobody watches, a line for each tenth.
pub struct PullLine {
    bar: PullBar,
    tenths: Cell<u64>,
    stopped: Cell<bool>,
}

impl PullLine {
    fn new() -> PullLine {
        PullLine { bar: PullBar::default(), tenths: Cell::new(0), stopped: Cell::new(false) }
    }
}

impl PullWatch for PullLine {
    fn say(&self, line: &str) {
        self.bar.aside(|| note(line));
    }

    fn at(&self, progress: &PullProgress) -> bool {
        let PullProgress { file, done, size, fetched, .. } = progress;
        let tenths = (10 * done).checked_div(*size).unwrap_or(0);
        if watched() {
            self.bar.at(file, *done, *size);
        } else if *fetched > 0 && tenths > self.tenths.replace(tenths) {
            note(&format!("{} % of {}", 10 * tenths, indicatif::DecimalBytes(*size)));
        }
        self.stopped.set(self.stopped.get() || interrupt::hit());
        !self.stopped.get()
    }
}
