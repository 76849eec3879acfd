//! Values of options as they are written: on a command line, in a file, as keywords of Python.

use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

lamina::read_settings! {
    Span: Text = |text| text.parse().ok(), "a duration such as 300ms, 2s, 5m, 1h, or seconds";
    KeepAlive: Text = |text| text.parse().ok(), "a duration such as 5m, 0 for at once, or -1 for never";
    Network: Text = |text| text.parse().ok(), "an address or a network such as 10.0.0.0/8";
    NamedPath: Text = |text| text.parse().ok(), "NAME=PATH or PATH";
    LogFormat: Text = |text| match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    }, "text or json";
    Reasoning: Text = |text| match text {
        "auto" => Some(Reasoning::Auto),
        "none" => Some(Reasoning::None),
        _ => None,
    }, "auto or none";
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = ();

    fn from_str(text: &str) -> Result<Span, ()> {
        let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
        let (number, unit) =
            units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).ok_or(())?;
        let seconds = number.parse::<f64>().map_err(|_| ())? * unit;
        Duration::try_from_secs_f64(seconds).map(Span).map_err(|_| ())
    }
}

/// How long a model without requests stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepAlive {
    /// Always.
    #[default]
    Forever,
    /// So long after its last request.
    For(Duration),
}

impl FromStr for KeepAlive {
    type Err = ();

    /// A negative number, of whatever unit, is forever.
    fn from_str(text: &str) -> Result<KeepAlive, ()> {
        match text.strip_prefix('-') {
            Some(rest) => rest.parse::<Span>().map(|_| KeepAlive::Forever),
            None => text.parse::<Span>().map(|s| KeepAlive::For(s.0)),
        }
    }
}

/// How a line of the access log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// `key=value` words.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Whether reasoning is split off from answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reasoning {
    /// Where the model's template marks it.
    #[default]
    Auto,
    /// It stays in the text.
    None,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Default for Network {
    fn default() -> Self {
        Network { address: IpAddr::from([127, 0, 0, 1]), bits: 32 }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |b| b.parse().map_err(|_| ()))?;
        if bits > all { Err(()) } else { Ok(Network { address, bits }) }
    }
}

impl Network {
    /// True when `other` is one of its addresses.
    pub fn contains(&self, other: IpAddr) -> bool {
        let (a, b, all) = match (self.address, other.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        self.bits == 0 || (a ^ b) >> (all - u32::from(self.bits)) == 0
    }
}

/// A model as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedPath {
    /// What requests call it; none: the file's stem.
    pub name: Option<String>,
    /// Where it is.
    pub path: PathBuf,
}

impl FromStr for NamedPath {
    type Err = ();

    /// What stands before `=` is a name only where it looks like one: paths may hold `=` too.
    fn from_str(text: &str) -> Result<NamedPath, ()> {
        let exists = std::path::Path::new(text).exists();
        match text.split_once('=').filter(|(name, _)| !exists && is_name(name)) {
            Some((name, path)) => Ok(NamedPath { name: Some(name.into()), path: path.into() }),
            None => Ok(NamedPath { name: None, path: text.into() }),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '\\', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [("300ms", 300), ("2s", 2000), ("5m", 300_000), ("1h", 3_600_000), ("1.5", 1500)] {
            assert_eq!(text.parse::<Span>().map(|s| s.0.as_millis()), Ok(ms), "{text}");
        }
        for wrong in ["", "s", "-1s", "1d", "nan"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
        assert_eq!("-1".parse(), Ok(KeepAlive::Forever));
        assert_eq!("0".parse(), Ok(KeepAlive::For(Duration::ZERO)));
    }

    #[test]
    fn networks_contain_their_addresses() {
        let holds = |net: &str, ip: &str| net.parse::<Network>().unwrap().contains(ip.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.9.8.7") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(
            holds("::1", "::1") && holds("0.0.0.0/0", "9.9.9.9") && holds("127.0.0.1", "::ffff:127.0.0.1")
        );
        assert!("10.0.0.0/33".parse::<Network>().is_err());
    }
}
