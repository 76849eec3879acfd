//! Bars and spinners on stderr; hidden where nobody watches.

use crate::output::{printable, watched};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{cell::OnceCell, time::Duration};

const BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
const STEPS: &str = "{msg} {wide_bar} {pos}/{len} {eta}";

const FETCH: &str = "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";

/// What takes less is not worth a bar.
const SHORT: Duration = Duration::from_millis(300);

/// A bar that appears when something takes longer, and vanishes when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// Bytes of a file that is read.
    pub fn bytes(message: &'static str) -> Bar {
        Bar(bar(BYTES, message))
    }

    /// Steps of equal length.
    pub fn steps(message: &'static str) -> Bar {
        Bar(bar(STEPS, message))
    }

    /// `done` of `all` are done.
    pub fn at(&self, done: u64, all: u64) {
        if self.0.elapsed() > SHORT {
            self.0.set_length(all);
            self.0.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Bytes of files that come over the network: a bar that is there from the first one on.
#[derive(Default)]
pub struct PullBar(OnceCell<ProgressBar>);

impl PullBar {
    /// `done` bytes of `all` are here; `file` comes now.
    pub fn at(&self, file: &str, done: u64, all: u64) {
        if all > 0 {
            let bar = self.0.get_or_init(|| bar(FETCH, ""));
            bar.set_message(printable(file).into_owned());
            bar.set_length(all);
            bar.set_position(done);
        }
    }

    /// Lets something write beside the bar.
    pub fn aside(&self, write: impl FnOnce()) {
        match self.0.get() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for PullBar {
    fn drop(&mut self) {
        self.0.get().iter().for_each(|bar| bar.finish_and_clear());
    }
}

/// Address space of a thread, with what it takes beside its stack.
const THREAD: usize = 4 << 20;

/// Something without a known end; its message says what.
pub fn spinner() -> ProgressBar {
    let spinner = hidden_or(ProgressBar::new_spinner());
    // It turns on a thread of its own, which ends the process where the system has none.
    if !spinner.is_hidden() && lamina_reserve::affordable(THREAD) {
        spinner.enable_steady_tick(Duration::from_millis(100));
    }
    spinner
}

fn bar(template: &str, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    hidden_or(ProgressBar::new(0)).with_style(style.progress_chars("=> ")).with_message(message)
}

fn hidden_or(bar: ProgressBar) -> ProgressBar {
    if !watched() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}
