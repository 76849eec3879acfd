//! Pictures at addresses that a request names: from which hosts they are read, if from any.

use std::{fmt, str::FromStr};

lamina_load::read_settings! {
    HostPattern: Text;
}

/// A host, or all below a name: `example.org` or `*.example.org`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPattern(String);

impl FromStr for HostPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<HostPattern, &'static str> {
        let text = text.to_ascii_lowercase();
        let name = text.strip_prefix("*.").unwrap_or(&text);
        let sound = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        match !name.is_empty() && name.chars().all(sound) {
            true => Ok(HostPattern(text)),
            false => Err("must be a host such as example.org, or *.example.org for all below it"),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostPattern {
    /// Whether it means this host, which is in lower case.
    pub fn matches(&self, host: &str) -> bool {
        match self.0.strip_prefix('*') {
            Some(end) => host.strip_suffix(end).is_some_and(|name| !name.is_empty()),
            None => host == self.0,
        }
    }
}

/// Why nothing was read from an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlError {
    /// It may not be read, or there is nothing to read.
    Refused(String),
    /// It has more bytes than may be read.
    TooLarge(String),
}

#[cfg(feature = "client")]
impl UrlError {
    fn of(error: lamina_http::FetchError) -> UrlError {
        match error {
            lamina_http::FetchError::TooLarge { .. } => UrlError::TooLarge(error.to_string()),
            error => UrlError::Refused(error.to_string()),
        }
    }
}

/// Reads pictures at addresses, if from any. By default from none.
#[derive(Debug, Clone, Default)]
pub struct UrlReader {
    #[cfg(feature = "client")]
    fetcher: Option<lamina_http::Fetcher>,
}

impl UrlReader {
    /// A reader that asks these hosts, at addresses of the open internet; without TLS only where `http` is set.
    #[cfg(feature = "client")]
    pub fn new(hosts: Vec<HostPattern>, http: bool) -> UrlReader {
        if hosts.is_empty() {
            return UrlReader::default();
        }
        let host = std::sync::Arc::new(move |name: &str| hosts.iter().any(|host| host.matches(name)));
        UrlReader::by(lamina_http::FetchRules { host, http, ..lamina_http::FetchRules::default() })
    }

    /// A build that fetches nothing has no other readers than those that ask nobody.
    #[cfg(not(feature = "client"))]
    pub fn new(_: Vec<HostPattern>, _: bool) -> UrlReader {
        UrlReader::default()
    }

    /// A reader by rules of one's own.
    #[cfg(feature = "client")]
    pub fn by(rules: lamina_http::FetchRules) -> UrlReader {
        let agent = concat!("lamina/", env!("CARGO_PKG_VERSION"));
        UrlReader { fetcher: Some(lamina_http::Fetcher::new(agent, rules)) }
    }

    /// The bytes at `url`, of which there may be `most`; none where nobody is asked at all.
    ///
    /// # Errors
    /// When the address may not be read, nothing is there, or it has more bytes.
    #[cfg(feature = "client")]
    pub async fn read(&self, url: &str, most: usize) -> Option<Result<Vec<u8>, UrlError>> {
        Some(self.fetcher.as_ref()?.fetch(url, most).await.map_err(UrlError::of))
    }

    /// [`UrlReader::read`] for callers without a runtime: their thread waits.
    ///
    /// # Errors
    /// As for [`UrlReader::read`].
    #[cfg(feature = "client")]
    pub fn read_waiting(&self, url: &str, most: usize) -> Option<Result<Vec<u8>, UrlError>> {
        Some(self.fetcher.as_ref()?.fetch_waiting(url, most).map_err(UrlError::of))
    }

    /// None: this build asks nobody.
    #[cfg(not(feature = "client"))]
    pub async fn read(&self, _: &str, _: usize) -> Option<Result<Vec<u8>, UrlError>> {
        None
    }

    /// None: this build asks nobody.
    #[cfg(not(feature = "client"))]
    pub fn read_waiting(&self, _: &str, _: usize) -> Option<Result<Vec<u8>, UrlError>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_meant_by_their_name_or_by_what_they_are_below() {
        let meant = |pattern: &str, host: &str| pattern.parse::<HostPattern>().expect(pattern).matches(host);
        assert!(meant("Example.org", "example.org") && !meant("example.org", "a.example.org"));
        assert!(meant("*.example.org", "a.b.example.org"));
        for other in ["example.org", ".example.org", "evilexample.org", "example.org.evil.net"] {
            assert!(!meant("*.example.org", other), "{other}");
        }
        for wrong in ["", "*", "*.", "https://example.org", "a b", "ex*mple.org", "example.org/path"] {
            assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
        }
    }
}
