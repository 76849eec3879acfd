//! Bars and spinners on stderr; hidden where nobody watches.

use crate::output::watched;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

const BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
const STEPS: &str = "{msg} {wide_bar} {pos}/{len} {eta}";

/// Bytes of a file that is read.
pub fn bytes(message: &'static str) -> ProgressBar {
    bar(BYTES, message)
}

/// Steps of equal length.
pub fn steps(message: &'static str) -> ProgressBar {
    bar(STEPS, message)
}

/// Something without a known end; its message says what.
pub fn spinner() -> ProgressBar {
    let spinner = hidden_or(ProgressBar::new_spinner());
    spinner.enable_steady_tick(Duration::from_millis(100));
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
