//! Which proxy leads to an address.

use super::address::is_loopback;
use hyper::{Uri, header::HeaderValue, http::uri::Scheme};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The proxies of `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, without the hosts of `NO_PROXY`; names in small letters
/// hold where those in large ones are not set.
#[derive(Debug)]
pub struct Proxies(Matcher);

impl Proxies {
    /// Those of the environment as it is now.
    pub fn of_the_environment() -> Proxies {
        Proxies(Matcher::from_env())
    }

    /// The proxy for `to`; none where the way is straight. A proxy's own machine is not this one: nothing here is reached by
    /// one.
    pub fn of(&self, to: &Uri) -> Option<Intercept> {
        self.0.intercept(to).filter(|_| !is_loopback(to.host().unwrap_or_default()))
    }

    /// The login that a proxy wants to see in a request itself. Inside of a tunnel it would be told to the server.
    pub fn login_beside(&self, to: &Uri) -> Option<HeaderValue> {
        let proxy = self.of(to).filter(|_| to.scheme() == Some(&Scheme::HTTP))?;
        proxy.basic_auth().cloned()
    }
}

#[cfg(test)]
impl From<Matcher> for Proxies {
    fn from(matcher: Matcher) -> Proxies {
        Proxies(matcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies() -> Proxies {
        let all = Matcher::builder().http("http://user:pass@plain.test:1").https("secure.test:2");
        all.no("direct.test, .inside.test, 10.0.0.0/8, [fd00::1]").build().into()
    }

    fn of(proxies: &Proxies, to: &str) -> Option<String> {
        proxies.of(&to.parse().unwrap()).map(|p| p.uri().to_string())
    }

    #[test]
    fn each_scheme_has_its_proxy() {
        assert_eq!(of(&proxies(), "http://a.test/").unwrap(), "http://plain.test:1/");
        assert_eq!(of(&proxies(), "https://a.test/").unwrap(), "http://secure.test:2/");
        let all: Proxies = Matcher::builder().all("https://all.test").build().into();
        assert_eq!(of(&all, "http://a.test/").unwrap(), "https://all.test/");
        let none: Proxies = Matcher::builder().build().into();
        assert_eq!(of(&none, "http://a.test/"), None);
    }

    #[test]
    fn hosts_that_are_excepted_and_this_machine_are_reached_straight() {
        for straight in [
            "http://direct.test/",
            "https://below.direct.test/",
            "http://x.inside.test/",
            "http://10.9.8.7/",
            "http://127.0.0.1:8080/",
            "https://localhost/",
            "http://[::1]/",
        ] {
            assert_eq!(of(&proxies(), straight), None, "{straight}");
        }
        for other in ["http://notdirect.test/", "http://11.0.0.1/", "http://direct.test.example/"] {
            assert!(of(&proxies(), other).is_some(), "{other}");
        }
        let all: Proxies = Matcher::builder().all("http://p.test").no("*").build().into();
        assert_eq!(of(&all, "http://a.test/"), None);
    }

    #[test]
    fn a_login_is_sent_beside_plain_requests_alone() {
        let proxies: Proxies = Matcher::builder().all("http://user:p%40ss@p.test").build().into();
        let login = |to: &str| proxies.login_beside(&to.parse().unwrap());
        assert_eq!(login("http://a.test/").unwrap(), "Basic dXNlcjpwQHNz");
        assert_eq!(login("https://a.test/"), None);
        assert_eq!(login("http://127.0.0.1/"), None);
    }
}
