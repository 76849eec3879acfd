//! The name under which a request reaches the server.

use http::{Request, Version, header};

/// Host and port that a request is sent to, as its client names them: `:authority` of HTTP/2 and the address of a
/// request line go before `Host`. None where it names none, as HTTP/1.0 may.
///
/// # Errors
/// What is wrong: HTTP/1.1 without `Host`, several of them, or one that is no text.
pub fn own_name<B>(request: &Request<B>) -> Result<Option<&str>, &'static str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => return Err("the header host is missing"),
        (Some(_), Some(_)) => return Err("there is more than one header host"),
        (host, _) => host.map(|h| h.to_str()).transpose().map_err(|_| "the header host is no text")?,
    };
    let name = request.uri().authority().map(|a| a.as_str()).or(host);
    match name.is_some_and(|name| name.contains('@')) {
        true => Err("the address of the request names a user"),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(version: Version, uri: &str, hosts: &[&str]) -> Result<Option<String>, &'static str> {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        own_name(&request.body(()).unwrap()).map(|name| name.map(str::to_owned))
    }

    #[test]
    fn the_authority_goes_before_the_header() {
        let found = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(name(Version::HTTP_2, "https://box:8443/", &[]), found("box:8443"));
        assert_eq!(name(Version::HTTP_2, "https://box/", &["evil.org"]), found("box"));
        assert_eq!(name(Version::HTTP_11, "/", &["box:1"]), found("box:1"));
        assert_eq!(name(Version::HTTP_11, "http://box:2/", &["box:1"]), found("box:2"));
        assert_eq!(name(Version::HTTP_10, "/", &[]), Ok(None));
    }

    #[test]
    fn one_host_is_neither_none_nor_two() {
        assert!(
            name(Version::HTTP_11, "/", &[]).is_err() && name(Version::HTTP_11, "/", &["a", "a"]).is_err()
        );
        assert!(name(Version::HTTP_11, "/", &["\u{e9}"]).is_err());
    }
}
