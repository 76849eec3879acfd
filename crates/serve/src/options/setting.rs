//! Values of options as they are written: on a command line, in a file, as keywords of Python.

use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

/// How often an option may be given, and whether it has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// It is given or not.
    Flag,
    /// It has one value; the last one counts.
    One,
    /// Every value counts.
    Many,
}

/// A value that is read from text.
pub(super) trait Setting {
    const ARITY: Arity = Arity::One;

    /// Takes a value; the error says what would work.
    fn put(&mut self, text: &str) -> Result<(), String>;
}

impl Setting for bool {
    const ARITY: Arity = Arity::Flag;

    fn put(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|_| "true or false".to_owned())?;
        Ok(())
    }
}

impl<T: Setting + Default> Setting for Option<T> {
    const ARITY: Arity = T::ARITY;

    fn put(&mut self, text: &str) -> Result<(), String> {
        self.get_or_insert_default().put(text)
    }
}

impl<T: Setting + Default> Setting for Vec<T> {
    const ARITY: Arity = Arity::Many;

    fn put(&mut self, text: &str) -> Result<(), String> {
        let mut value = T::default();
        value.put(text)?;
        self.push(value);
        Ok(())
    }
}

/// Types whose own syntax is the one that users write.
macro_rules! parsed {
    ($($ty:ty: $want:literal,)*) => {
        $(impl Setting for $ty {
            fn put(&mut self, text: &str) -> Result<(), String> {
                *self = text.parse().map_err(|_| $want.to_owned())?;
                Ok(())
            }
        })*
    };
}

parsed! {
    String: "a text",
    PathBuf: "a path",
    u16: "a whole number from 0 to 65535",
    usize: "a whole number",
    f64: "a number",
    Span: "a duration such as 300ms, 2s, 5m, 1h, or seconds",
    KeepAlive: "a duration such as 5m, 0 for at once, or -1 for never",
    ByteSize: "a size such as 200K, 32M, 2G, or bytes",
    LogFormat: "text or json",
    Reasoning: "auto or none",
    Network: "an address or a network such as 10.0.0.0/8",
    NamedPath: "NAME=PATH or PATH",
    ScaledPath: "[NAME=]PATH[@SCALE]",
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

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = ();

    fn from_str(text: &str) -> Result<ByteSize, ()> {
        let units = [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("", 1)];
        let upper = text.to_ascii_uppercase();
        let (number, unit) =
            units.iter().find_map(|(name, unit)| Some((upper.strip_suffix(name)?, *unit))).ok_or(())?;
        number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).map(ByteSize).ok_or(())
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

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<LogFormat, ()> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(()),
        }
    }
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

impl FromStr for Reasoning {
    type Err = ();

    fn from_str(text: &str) -> Result<Reasoning, ()> {
        match text {
            "auto" => Ok(Reasoning::Auto),
            "none" => Ok(Reasoning::None),
            _ => Err(()),
        }
    }
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

/// An adapter as the command line names it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScaledPath {
    /// What requests call it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its scale in requests that name no adapter.
    pub scale: f32,
}

impl FromStr for ScaledPath {
    type Err = ();

    fn from_str(text: &str) -> Result<ScaledPath, ()> {
        let NamedPath { name, path } = text.parse()?;
        let (path, scale) = match path.to_str().and_then(|p| p.rsplit_once('@')) {
            Some((before, scale)) if !path.exists() => match scale.parse() {
                Ok(scale) => (before.into(), scale),
                Err(_) => (path.clone(), 1.0),
            },
            _ => (path.clone(), 1.0),
        };
        let stem = |p: &PathBuf| p.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = name.or_else(|| stem(&path)).ok_or(())?;
        Ok(ScaledPath { name, path, scale })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '\\', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_units() {
        for (text, ms) in [("300ms", 300), ("2s", 2000), ("5m", 300_000), ("1h", 3_600_000), ("1.5", 1500)] {
            assert_eq!(text.parse::<Span>().map(|s| s.0.as_millis()), Ok(ms), "{text}");
        }
        for wrong in ["", "s", "-1s", "1d", "nan"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
        for (text, bytes) in [("200K", 200_000), ("32m", 32_000_000), ("2G", 2_000_000_000), ("7", 7)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
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

    #[test]
    fn adapters_have_names_and_scales() {
        let scaled = |text: &str| text.parse::<ScaledPath>().unwrap();
        let want = |name: &str, path: &str, scale| ScaledPath { name: name.into(), path: path.into(), scale };
        assert_eq!(scaled("a/pirate.gguf"), want("pirate", "a/pirate.gguf", 1.0));
        assert_eq!(scaled("p=a/x@0.5"), want("p", "a/x", 0.5));
        assert_eq!(scaled("a/k=v@b"), want("k=v@b", "a/k=v@b", 1.0));
    }
}
