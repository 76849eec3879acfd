//! Files at addresses of strangers. Names end in `.test`; where they lead is written here.

use super::{peer::*, run};
use crate::{FetchError, FetchRules, Fetcher, tls::TlsClient};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";

/// Rules for tests: `*.test` may be asked, loopback is the internet but for 127.0.0.9, and names lead where `leads` says.
fn rules(leads: impl Fn(&str) -> Vec<SocketAddr> + Send + Sync + 'static) -> FetchRules {
    FetchRules {
        host: Arc::new(|host| host.ends_with(".test")),
        http: true,
        time: Duration::from_secs(20),
        resolver: Arc::new(move |host, _| {
            let found = leads(&host);
            Box::pin(async move {
                if found.is_empty() { Err(io::Error::from(io::ErrorKind::NotFound)) } else { Ok(found) }
            })
        }),
        address: |address| address.is_loopback() && address != IpAddr::from([127, 0, 0, 9]),
    }
}

fn to(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], port))]
}

fn fetched(rules: FetchRules, url: &str) -> Result<String, FetchError> {
    let bytes = run(Fetcher::new("tester/1", rules).fetch(url, 64))?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn a_file_comes_from_the_address_of_its_name() {
    let server = Peer::saying(OK);
    let port = server.port;
    let text = fetched(rules(move |_| to(port)), "http://Pictures.test/a/../b.png?key=1#top").unwrap();
    assert_eq!(text, "done");
    let request = server.last();
    assert!(request.starts_with("GET /b.png?key=1 HTTP/1.1\r\n"), "{request}");
    for line in ["host: pictures.test", "user-agent: tester/1", "accept-encoding: identity"] {
        assert!(request.contains(&format!("{line}\r\n")), "{line}: {request}");
    }
}

#[test]
fn what_the_rules_forbid_is_asked_of_nobody() {
    let server = Peer::saying(OK);
    let port = server.port;
    let refused = |url: &str, change: fn(&mut FetchRules)| {
        let mut rules = rules(move |_| to(port));
        change(&mut rules);
        fetched(rules, url).unwrap_err()
    };
    let same: fn(&mut FetchRules) = |_| {};
    assert!(
        matches!(refused("http://other.example/", same), FetchError::Host { host } if host == "other.example")
    );
    assert!(matches!(refused("http://user:key@a.test/", same), FetchError::Login));
    assert!(matches!(refused("http://a.test/", |rules| rules.http = false), FetchError::NotSecure));
    assert!(matches!(
        refused("http://a.test/", |r| r.address = crate::is_global),
        FetchError::NotPublic { .. }
    ));
    for wrong in ["ftp://a.test/", "file:///etc/passwd", "a.test", ""] {
        assert!(matches!(refused(wrong, same), FetchError::Address(_)), "{wrong}");
    }
    assert!(matches!(
        refused("http://a.test/", |rules| *rules = FetchRules { http: true, ..FetchRules::default() }),
        FetchError::Host { .. }
    ));
    assert!(server.seen().is_empty());
    // One public address does not vouch for the others of a name.
    let both = rules(move |_| [to(port), vec![SocketAddr::from(([127, 0, 0, 9], port))]].concat());
    assert!(matches!(fetched(both, "http://a.test/"), Err(FetchError::NotPublic { .. })));
    assert!(server.seen().is_empty());
}

/// A name whose second answer is another address: it is asked for once, and that address is connected to.
#[test]
fn a_name_is_resolved_once() {
    let server = Peer::saying(OK);
    let (port, asked) = (server.port, Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    let rebinding = move |_: &str| match count.fetch_add(1, Ordering::SeqCst) {
        0 => to(port),
        _ => vec![SocketAddr::from(([127, 0, 0, 9], port))],
    };
    assert_eq!(fetched(rules(rebinding), "http://a.test/").unwrap(), "done");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn redirects_follow_the_same_rules() {
    let server = Peer::new(|(_, text), stream| {
        let path = text.split(' ').nth(1).unwrap();
        let place = match path.split_once('/').unwrap().1 {
            "private" => "http://inner.test/".to_owned(),
            "strange" => "http://other.example/".to_owned(),
            "login" => "http://user@a.test/0".to_owned(),
            "0" => return say(stream, OK),
            n => format!("/{}", n.parse::<usize>().unwrap() - 1),
        };
        say(stream, &whole("302 X", &format!("location: {place}\r\n"), "elsewhere"))
    });
    let port = server.port;
    let ask = |path: &str| {
        let leads = move |host: &str| match host {
            "inner.test" => vec![SocketAddr::from(([127, 0, 0, 9], port))],
            _ => to(port),
        };
        fetched(rules(leads), &format!("http://a.test/{path}"))
    };
    assert_eq!(ask("3").unwrap(), "done");
    assert!(matches!(ask("4"), Err(FetchError::Redirects { most: 3 })));
    assert!(matches!(ask("private"), Err(FetchError::NotPublic { host }) if host == "inner.test"));
    assert!(matches!(ask("strange"), Err(FetchError::Host { .. })));
    assert!(matches!(ask("login"), Err(FetchError::Login)));
}

#[test]
fn size_time_and_status_have_limits() {
    let ask = |answer: String, time: Duration| {
        let server = Peer::saying(answer);
        let port = server.port;
        fetched(FetchRules { time, ..rules(move |_| to(port)) }, "http://a.test/")
    };
    let long = Duration::from_secs(20);
    assert_eq!(ask(whole("200 OK", "", &"x".repeat(64)), long).unwrap().len(), 64);
    let told = "HTTP/1.1 200 OK\r\ncontent-length: 65\r\n\r\n".to_owned();
    assert!(matches!(ask(told, long), Err(FetchError::TooLarge { most: 64 })), "before it comes");
    let chunk = format!("21\r\n{}\r\n", "x".repeat(0x21));
    let counted = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    assert!(matches!(ask(counted, long), Err(FetchError::TooLarge { most: 64 })), "while it comes");
    assert!(matches!(ask(whole("404 No", "", "none"), long), Err(FetchError::Status { status: 404 })));
    let begun = Instant::now();
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned();
    assert!(matches!(ask(cut, Duration::from_millis(200)), Err(FetchError::TimedOut { .. })));
    assert!(begun.elapsed() < long);
    let nowhere = fetched(rules(|_| vec![]), "http://a.test/key").unwrap_err().to_string();
    assert!(nowhere.starts_with("a.test cannot be read") && !nowhere.contains("key"), "{nowhere}");
}

#[test]
fn the_certificate_is_that_of_the_name() {
    let ask = |name: &'static str| {
        let (trust, config) = authority(name);
        let (port, seen) = secured(config, OK);
        let fetcher = Fetcher::new("tester/1", rules(move |_| to(port))).trusting(TlsClient::from(trust));
        (run(fetcher.fetch("https://a.test/", 64)), seen)
    };
    let (right, seen) = ask("a.test");
    assert_eq!(right.unwrap(), b"done");
    assert!(seen.lock().unwrap()[0].contains("host: a.test\r\n"));
    let (wrong, seen) = ask("b.test");
    assert!(matches!(wrong, Err(FetchError::Failed { .. })));
    assert!(seen.lock().unwrap().is_empty());
}
