//! Which pages and under which names browsers may ask.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use std::net::IpAddr;

/// Which pages and under which names browsers may ask.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Further origins; `*` means any.
    pub origins: Vec<String>,
    /// Further names of this machine.
    pub hosts: Vec<String>,
    /// The server listens on loopback only and asks for no key: a page must not reach it under a name that its maker
    /// lets point here.
    pub guards_host: bool,
    /// The server's own scheme.
    pub scheme: &'static str,
}

impl Access {
    /// True when a page of this origin may ask the server under the name `own`.
    pub fn admits_origin(&self, headers: &HeaderMap, own: Option<&str>) -> bool {
        let Some(origin) = headers.get(header::ORIGIN) else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        let is_own =
            own.is_some_and(|host| origin.eq_ignore_ascii_case(&format!("{}://{host}", self.scheme)));
        let listed = self.origins.iter().any(|o| o == "*" || o.eq_ignore_ascii_case(origin));
        is_own || listed || authority(origin).is_some_and(|a| is_loopback(host_of(a)))
    }

    /// True when the server may be reached under the name `own`.
    pub fn admits_host(&self, own: Option<&str>) -> bool {
        if !self.guards_host {
            return true;
        }
        // HTTP/1.0 and tools without names: no browser.
        let Some(host) = own.map(host_of) else { return true };
        is_loopback(host) || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host))
    }
}

fn authority(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// A host without its port and brackets.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Says that the page which asks may read the response.
pub fn cors_headers(access: &Access, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    let Some(origin) = origin else { return };
    let any = access.origins.iter().any(|o| o == "*");
    if any {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("x-request-id, x-lamina-ignored, retry-after, retry-after-ms"),
    );
}

/// The answer to a browser that asks whether it may ask.
pub fn preflight<B: Default>(request: &HeaderMap) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
    headers.insert(header::ALLOW, methods);
    if let Some(asked) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Chrome asks before a public page may reach a private address.
    if request.contains_key(HeaderName::from_static("access-control-request-private-network")) {
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (HeaderName::from_static(k), v.parse().unwrap())).collect()
    }

    #[test]
    fn origins_are_ours_loopback_or_listed() {
        let access = Access { origins: vec!["https://a.org".into()], scheme: "http", ..Access::default() };
        let admits = |origin: &str| access.admits_origin(&headers(&[("origin", origin)]), Some("box:8080"));
        for good in [
            "http://box:8080",
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:1",
            "https://A.org",
        ] {
            assert!(admits(good), "{good}");
        }
        for bad in
            ["null", "http://evil.org", "https://box:8080", "http://localhost.evil.org", "https://a.org.evil"]
        {
            assert!(!admits(bad), "{bad}");
        }
        assert!(access.admits_origin(&headers(&[]), None));
        let access = Access { scheme: "https", ..Access::default() };
        let own = headers(&[("origin", "https://box:8443")]);
        assert!(access.admits_origin(&own, Some("box:8443")) && !access.admits_origin(&own, Some("box")));
    }

    #[test]
    fn hosts_are_loopback_or_listed() {
        let access = Access { hosts: vec!["box".into()], guards_host: true, ..Access::default() };
        let admits = |host: &str| access.admits_host(Some(host));
        assert!(admits("localhost:8080") && admits("127.0.0.1") && admits("[::1]:80") && admits("box:1"));
        assert!(!admits("evil.org:8080") && !admits("127.0.0.1.evil.org"));
        assert!(Access::default().admits_host(Some("evil.org")));
    }
}
