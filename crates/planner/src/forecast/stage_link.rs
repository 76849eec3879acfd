//! What lies between two machines: how long a message takes, and how long its bytes.

use crate::{bad_value::BadValue, budget::bytes};
use std::{fmt, str::FromStr};

/// Networks by name, with the seconds of a message without bytes and bytes per second. Assumed: TCP between processes of hosts
/// at rest, at nine tenths of the wire.
const KNOWN: [(&str, f64, f64); 5] = [
    ("1GbE", 90e-6, 0.115e9),
    ("2.5GbE", 60e-6, 0.28e9),
    ("10GbE", 35e-6, 1.15e9),
    ("25GbE", 25e-6, 2.9e9),
    ("100GbE", 20e-6, 11e9),
];

/// The name of what was measured.
const MEASURED: &str = "measured";

/// A link between two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLink {
    /// Its name, or that it was measured; none where it was given by its figures.
    pub name: Option<&'static str>,
    /// Seconds of a message without bytes, one way.
    pub seconds: f64,
    /// Bytes per second, one way.
    pub rate: f64,
}

impl StageLink {
    /// How one is written.
    pub fn forms() -> String {
        let names = KNOWN.map(|known| known.0).join(", ");
        format!("{names}, or the time of a message and a rate, such as 35us,1.15GB/s")
    }

    /// One that was measured.
    pub fn measured(seconds: f64, rate: f64) -> StageLink {
        StageLink { name: Some(MEASURED), seconds, rate }
    }

    /// Seconds of a message of so many bytes, one way.
    pub fn message(&self, bytes: f64) -> f64 {
        self.seconds + bytes / self.rate
    }
}

impl Default for StageLink {
    fn default() -> Self {
        let (name, seconds, rate) = KNOWN[2];
        StageLink { name: Some(name), seconds, rate }
    }
}

impl FromStr for StageLink {
    type Err = BadValue;

    /// A name, or the time of a message and the rate, such as `35us,1.15GB`.
    fn from_str(text: &str) -> Result<StageLink, BadValue> {
        let text = text.trim();
        if let Some(&(name, seconds, rate)) = KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(text)) {
            return Ok(StageLink { name: Some(name), seconds, rate });
        }
        let figures = text.split_once(',').and_then(|(time, rate)| {
            let rate = bytes(rate.trim().trim_end_matches("/s")).filter(|&rate| rate > 0)?;
            Some(StageLink { name: None, seconds: seconds(time)?, rate: rate as f64 })
        });
        figures.ok_or_else(|| BadValue::must_be(&StageLink::forms()))
    }
}

/// A time as people write it: `35us`, `0.2 ms`.
fn seconds(text: &str) -> Option<f64> {
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let text = text.trim();
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit)
}

impl fmt::Display for StageLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micros, giga) = (self.seconds * 1e6, self.rate / 1e9);
        match self.name {
            Some(MEASURED) => write!(f, "measured {micros:.0} us a message and {giga:.2} GB/s"),
            Some(name) => write!(f, "{name}, assumed {micros:.0} us a message and {giga} GB/s"),
            None => write!(f, "{micros} us a message, {giga} GB/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_or_given_by_figures() {
        let read = |text: &str| text.parse::<StageLink>().map(|link| (link.name, link.seconds, link.rate));
        assert_eq!(read(" 1gbe "), Ok((Some("1GbE"), 90e-6, 0.115e9)));
        assert_eq!(read("10GbE"), Ok((Some("10GbE"), 35e-6, 1.15e9)), "{}", StageLink::default());
        assert_eq!(read("0.25s, 100MB/s"), Ok((None, 0.25, 1e8)));
        assert_eq!(read("0s,1GiB"), Ok((None, 0.0, (1u64 << 30) as f64)));
        for wrong in
            ["", "wire", "35us", "35,1GB", "-1us,1GB", "35us,0", "35us,-1GB", "nans,1GB", "1us,1GB,2"]
        {
            assert!(read(wrong).is_err_and(|e| e.to_string().contains("35us,1.15GB/s")), "{wrong}");
        }
    }

    #[test]
    fn a_message_takes_its_own_time_and_that_of_its_bytes() {
        let link: StageLink = "0.5s,1MB/s".parse().expect("a link");
        assert_eq!((link.message(0.0), link.message(1e6)), (0.5, 1.5));
    }
}
