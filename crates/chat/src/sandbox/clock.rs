//! `strftime_now`, and where it takes the time from.

use std::fmt::Write;

use chrono::{DateTime, Local, NaiveDateTime};
use minijinja::{Error, ErrorKind};

/// Where a template's `strftime_now` takes the time from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The system's, in local time.
    #[default]
    System,
    /// A fixed local time, in seconds since 1970-01-01 00:00: for tests and reproducible prompts.
    Fixed(i64),
}

/// The time as `format` writes it.
pub(crate) fn strftime(clock: Clock, format: &str) -> Result<String, Error> {
    let now: NaiveDateTime = match clock {
        Clock::System => Local::now().naive_local(),
        Clock::Fixed(seconds) => DateTime::from_timestamp(seconds, 0).unwrap_or_default().naive_utc(),
    };
    let mut out = String::new();
    write!(out, "{}", now.format(format)).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: unknown format {format:?}"))
    })?;
    Ok(out)
}
