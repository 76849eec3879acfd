//! Bars and spinners on stderr; hidden where nobody watches.

use crate::output::watched;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

const BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
const STEPS: &str = "{msg} {wide_bar} {pos}/{len} {eta}";

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
