//! An absolute address of http or https.

use super::error::HttpError;
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    Uri,
    header::HeaderValue,
    http::uri::{Authority, PathAndQuery, Scheme},
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::{fmt, net::IpAddr};

/// Characters that cannot stand in a request line, beside those beyond ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'`');

/// An absolute address of http or https in its normal form: host and scheme in lower case, no default port, no `.` and `..`
/// in the path, no fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpAddress {
    uri: Uri,
    login: Option<HeaderValue>,
}

impl HttpAddress {
    /// Reads an address such as `https://user:password@example.org:8080/path?query`.
    ///
    /// # Errors
    /// When it is none, or has another scheme.
    pub fn parse(text: &str) -> Result<HttpAddress, HttpError> {
        parts(text).map_err(|problem| HttpError::Address { text: text.to_owned(), problem })
    }

    /// What `reference` means in an answer from here (RFC 3986, 5.2). The login of this address is not handed on.
    ///
    /// # Errors
    /// When it means no address of http or https.
    pub fn join(&self, reference: &str) -> Result<HttpAddress, HttpError> {
        let reference = reference.split('#').next().unwrap_or_default();
        let path = self.uri.path();
        match reference {
            "" => self.at(self.target()),
            r if has_scheme(r) => HttpAddress::parse(r),
            r if r.starts_with("//") => HttpAddress::parse(&format!("{}:{r}", self.scheme())),
            r if r.starts_with('/') => self.at(r),
            r if r.starts_with('?') => self.at(&format!("{path}{r}")),
            r => self.at(&format!("{}{r}", &path[..path.rfind('/').map_or(0, |slash| slash + 1)])),
        }
    }

    /// Another path, with a query or without, of the same origin.
    ///
    /// # Errors
    /// When the path cannot be sent.
    pub fn at(&self, path: &str) -> Result<HttpAddress, HttpError> {
        HttpAddress::parse(&format!("{}{path}", self.origin()))
    }

    /// What connections are opened to.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Scheme, host and port: `http://example.org:8080`.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.host_and_port())
    }

    /// Host and port; a port that is the scheme's own is not written.
    pub fn host_and_port(&self) -> &str {
        self.uri.authority().map_or("", Authority::as_str)
    }

    /// The path without a query.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// User and password of the address as an `Authorization` header.
    pub fn login(&self) -> Option<&HeaderValue> {
        self.login.as_ref()
    }

    fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or_default()
    }

    fn target(&self) -> &str {
        self.uri.path_and_query().map_or("/", PathAndQuery::as_str)
    }
}

/// Without user and password.
impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.target())
    }
}

/// True where the host of an address is this machine.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

fn parts(text: &str) -> Result<HttpAddress, &'static str> {
    let other = "it must begin with http:// or https://";
    let (scheme, rest) = text.split_once("://").ok_or(other)?;
    let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (Scheme::HTTP, 80),
        "https" => (Scheme::HTTPS, 443),
        _ => return Err(other),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(basic(login)), host),
        None => (None, authority),
    };
    let uri = Uri::builder().scheme(scheme).authority(host_and_port(host, port)?);
    let uri = uri.path_and_query(encoded(target)).build().map_err(|_| "its path cannot be sent")?;
    Ok(HttpAddress { uri, login })
}

/// Host and port in their normal form; `default` is the port that is not written.
fn host_and_port(text: &str, default: u16) -> Result<Authority, &'static str> {
    if !text.is_ascii() {
        return Err("a host beyond ASCII is written in its form that begins with xn--");
    }
    let no_host = "it has no valid host";
    let given: Authority = text.to_ascii_lowercase().parse().map_err(|_| no_host)?;
    let host = given.host();
    let port = given.as_str()[host.len()..].trim_start_matches(':');
    let port = if port.is_empty() { default } else { port.parse().map_err(|_| "its port is none")? };
    let written = if port == default { host.to_owned() } else { format!("{host}:{port}") };
    if host.is_empty() { Err(no_host) } else { written.parse().map_err(|_| no_host) }
}

/// Path and query as they are sent.
fn encoded(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    utf8_percent_encode(&(without_dots(path) + query), ENCODED).to_string()
}

/// A path without the segments `.` and `..` (RFC 3986, 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept = vec![];
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let dots = matches!(segment, "." | "..");
        if segment == ".." {
            kept.pop();
        } else if !dots {
            kept.push(segment);
        }
        if dots && segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// `user:password`, each in percent form, as a header.
fn basic(login: &str) -> HeaderValue {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decoded = |text| percent_decode_str(text).collect::<Vec<u8>>();
    let both = [&decoded(user)[..], b":", &decoded(password)].concat();
    let words = format!("Basic {}", BASE64_STANDARD.encode(both));
    let mut header = HeaderValue::try_from(words).expect("letters of Base64 can stand in a header");
    header.set_sensitive(true);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        HttpAddress::parse(text).unwrap().to_string()
    }

    #[test]
    fn addresses_have_one_form() {
        for (given, expected) in [
            ("http://example.org", "http://example.org/"),
            ("HTTPS://Example.ORG:443/A/../b/./c?q=/../x#y", "https://example.org/b/c?q=/../x"),
            ("http://example.org:443", "http://example.org:443/"),
            ("http://[::1]:80/v1", "http://[::1]/v1"),
            ("http://example.org:?a", "http://example.org/?a"),
            ("http://example.org/a b/ä", "http://example.org/a%20b/%C3%A4"),
            ("http://example.org/a%2Fb", "http://example.org/a%2Fb"),
        ] {
            assert_eq!(normal(given), expected, "{given}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "",
            "example.org",
            "ftp://example.org",
            "http://",
            "http:///path",
            "http://a b",
            "http://a:b",
            "http://a:65536",
            "http://a:-1",
            "http://[::1",
            "http://bücher.example",
        ] {
            let found = HttpAddress::parse(wrong);
            assert!(matches!(found, Err(HttpError::Address { .. })), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn a_login_becomes_a_header_and_is_not_shown() {
        let address = HttpAddress::parse("http://Aladdin:open%20sesame@example.org/x@y").unwrap();
        assert_eq!(address.login().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(address.to_string(), "http://example.org/x@y");
        assert_eq!(address.join("/z").unwrap().login(), None);
    }

    #[test]
    fn references_are_resolved_as_the_rfc_has_it() {
        let base = HttpAddress::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("#s", "http://a/b/c/d;p?q"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/.//g", "http://a//g"),
            ("https://h:8/x", "https://h:8/x"),
        ] {
            assert_eq!(base.join(reference).unwrap().to_string(), expected, "{reference}");
        }
        assert!(base.join("mailto:x@y").is_err());
    }

    #[test]
    fn loopback_is_told_from_names_that_begin_like_it() {
        assert!(["localhost", "127.0.0.2", "[::1]"].into_iter().all(is_loopback));
        assert!(!["127.0.0.1.example.org", "10.0.0.1", "localhost.example.org"].into_iter().any(is_loopback));
    }
}
