//! The client against servers and proxies that do what is written here. Names of hosts that end in `.test` do not exist: who
//! reaches one went by the proxy.

mod fetch;
mod peer;

use super::{
    HttpAddress, HttpAnswer, HttpClient, HttpError, HttpRequest, error::ConnectError, proxy::Proxies,
    tls::TlsClient,
};
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper_util::client::proxy::matcher::{Builder, Matcher};
use peer::*;
use std::{
    future::Future,
    io::Read,
    net::TcpListener,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);
/// What impatient clients give a connection.
const SHORT: Duration = Duration::from_millis(300);

fn client() -> HttpClient {
    by(Matcher::builder(), TlsClient::default())
}

fn by(proxies: Builder, tls: TlsClient) -> HttpClient {
    HttpClient::with("tester/1", LONG, Proxies::from(proxies.build()), tls)
}

fn impatient() -> HttpClient {
    let (proxies, trust) = (Matcher::builder().build(), authority("localhost").0);
    HttpClient::with("tester/1", SHORT, proxies.into(), trust.into())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn get(url: &str) -> HttpRequest {
    HttpRequest::get(HttpAddress::parse(url).unwrap())
}

fn post(url: &str, body: &str) -> HttpRequest {
    let mut request = HttpRequest::post(HttpAddress::parse(url).unwrap(), body.to_owned());
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    request
}

/// Status and body of an answer.
async fn fetch(client: &HttpClient, request: HttpRequest) -> Result<(u16, String), HttpError> {
    let answer: HttpAnswer = client.send(request).await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

fn fetched(client: &HttpClient, request: HttpRequest) -> Result<(u16, String), HttpError> {
    run(fetch(client, request))
}

#[test]
fn a_request_says_who_asks_for_what() {
    let server = Peer::saying(whole("418 I'm a teapot", "", "short and stout"));
    let answer = fetched(&client(), post(&server.url("/pot?x=1"), "{\"tea\": 1}")).unwrap();
    assert_eq!(answer, (418, "short and stout".to_owned()), "a status is no failure of the connection");
    let request = server.last();
    assert!(request.starts_with("POST /pot?x=1 HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{\"tea\": 1}"));
    let host = format!("host: 127.0.0.1:{}", server.port);
    for line in [&host, "user-agent: tester/1", "accept: */*", "content-type: application/json"] {
        assert!(request.contains(&format!("{line}\r\n")), "{line}: {request}");
    }
}

#[test]
fn connections_are_used_again_and_replaced_where_they_ended() {
    let server = Peer::new(|(connection, text), stream| {
        // The first one ends behind its second answer.
        say(stream, OK).filter(|_| *connection > 0 || text.contains("/first"))
    });
    let client = client();
    run(async {
        for path in ["/first", "/second", "/third"] {
            fetch(&client, get(&server.url(path))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let connections: Vec<_> = server.seen().iter().map(|(connection, _)| *connection).collect();
    assert_eq!(connections, [0, 0, 1]);
}

#[test]
fn redirects_keep_what_was_posted_or_read_what_came_of_it() {
    let server = Peer::new(|(_, text), stream| match text.split(' ').nth(1).unwrap() {
        "/done" => say(stream, OK),
        path => say(stream, &whole(&format!("{} X", &path[1..]), "location: ../done\r\n", "elsewhere")),
    });
    for (status, line, body) in
        [(307, "POST", "{}"), (308, "POST", "{}"), (301, "GET", ""), (302, "GET", ""), (303, "GET", "")]
    {
        let answer = fetched(&client(), post(&server.url(&format!("/{status}")), "{}")).unwrap();
        assert_eq!(answer, (200, "done".to_owned()));
        let request = server.last();
        assert!(request.starts_with(&format!("{line} /done ")), "{status}: {request}");
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, body, "{status}");
        assert_eq!(request.contains("content-type"), !body.is_empty(), "{status}");
        assert!(request.contains("authorization: Bearer secret"), "{status}: the same server gets its key");
    }
}

#[test]
fn keys_are_not_handed_on_to_other_servers() {
    let other = Peer::saying(OK);
    let place = other.url("/there");
    let server = Peer::saying(whole("307 X", &format!("location: {place}\r\n"), ""));
    fetched(&client(), post(&server.url("/"), "{}")).unwrap();
    assert!(server.last().contains("Bearer secret"));
    assert!(other.last().starts_with("POST /there ") && !other.last().contains("secret"), "{}", other.last());
}

#[test]
fn redirects_end() {
    let server = Peer::saying(whole("302 X", "location: /again\r\n", ""));
    let e = fetched(&client(), get(&server.url("/"))).unwrap_err();
    assert!(matches!(&e, HttpError::Redirects { most: 10, to } if to.ends_with("/again")), "{e:?}");
    assert_eq!(server.seen().len(), 11);
    let file = Peer::saying(whole("302 X", "location: file:///etc/passwd\r\n", ""));
    let e = fetched(&client(), get(&file.url("/"))).unwrap_err();
    assert!(matches!(e, HttpError::Address { .. }), "{e:?}");
    let nowhere = Peer::saying(whole("302 X", "", "where?"));
    assert_eq!(fetched(&client(), get(&nowhere.url("/"))).unwrap(), (302, "where?".to_owned()));
}

#[test]
fn who_does_not_listen_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let e = fetched(&client(), get(&format!("http://{address}/x"))).unwrap_err();
    assert!(matches!(e, HttpError::Connect(ConnectError::Unreachable { .. })), "{e:?}");
    let told = e.to_string();
    assert!(told.starts_with(&format!("cannot connect to {address}: ")), "{told}");
    assert!(told.contains("is the server running there?"), "{told}");
}

#[test]
fn names_that_do_not_exist_are_told() {
    // Too long to be asked for: nothing leaves this machine.
    let host = "a".repeat(64) + ".test";
    let e = fetched(&client(), get(&format!("http://{host}/"))).unwrap_err();
    assert!(matches!(e, HttpError::Connect(ConnectError::Unreachable { .. })), "{e:?}");
    assert!(e.to_string().contains(&format!("{host}:80")), "{e}");
}

#[test]
fn a_server_that_stalls_inside_of_a_handshake_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let e = fetched(&impatient(), get(&url)).unwrap_err();
    assert!(matches!(e, HttpError::Connect(ConnectError::TimedOut { .. })), "{e:?}");
    assert!(e.to_string().contains("no connection within 0.3 s"), "{e}");
}

/// A server that says `beginning`, nothing more, and tells when its client is gone.
fn stalling(beginning: &'static str) -> (Peer, mpsc::Receiver<()>) {
    let (gone, heard) = mpsc::channel();
    let server = Peer::new(move |_, stream| {
        let mut stream = say(stream, beginning)?;
        // Ends or fails once the other side closes.
        let _ = stream.read(&mut [0]);
        gone.send(()).ok()?;
        None
    });
    (server, heard)
}

#[test]
fn answers_are_waited_for_and_dropped_with_their_connection() {
    let (server, gone) = stalling("");
    let (streaming, left) = stalling("HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n");
    run(async {
        let client = impatient();
        let waited = tokio::time::timeout(3 * SHORT, client.send(get(&server.url("/")))).await;
        assert!(waited.is_err(), "a model may think for longer than it takes to connect");
        let mut answer = client.send(get(&streaming.url("/"))).await.unwrap();
        assert_eq!(answer.piece().await.unwrap().unwrap(), "data: 1\n\n", "a piece comes before the end");
        drop(answer);
        // What closes a connection is a task of this thread.
        let closed = thread::spawn(move || gone.recv_timeout(LONG).and_then(|()| left.recv_timeout(LONG)));
        while !closed.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        closed.join().unwrap().expect("both servers hear that nobody listens");
    });
}

#[test]
fn bodies_that_are_cut_are_no_answers() {
    for head in ["content-length: 10", "transfer-encoding: chunked"] {
        let cut = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nab");
        let server = Peer::new(move |_, stream| say(stream, &cut).and(None));
        let e = fetched(&client(), get(&server.url("/"))).unwrap_err();
        assert!(matches!(e, HttpError::CutOff { .. }), "{head}: {e:?}");
        assert!(e.to_string().contains("broke off"), "{e}");
    }
    let silent = Peer::new(|_, _| None);
    let e = fetched(&client(), get(&silent.url("/"))).unwrap_err();
    assert!(matches!(e, HttpError::NoAnswer { .. }), "{e:?}");
    let nonsense = Peer::new(|_, stream| say(stream, "220 mail.test ESMTP\r\n\r\n").and(None));
    let e = fetched(&client(), get(&nonsense.url("/"))).unwrap_err();
    assert!(matches!(e, HttpError::NoAnswer { .. }), "{e:?}");
}

#[test]
fn a_proxy_gets_whole_addresses_and_its_login() {
    let proxy = Peer::saying(OK);
    let proxies = Matcher::builder().all(format!("http://user:pass@127.0.0.1:{}", proxy.port));
    let client = by(proxies, TlsClient::default());
    fetched(&client, post("http://lamina.test:8080/v1/models?x", "{}")).unwrap();
    let request = proxy.last();
    assert!(request.starts_with("POST http://lamina.test:8080/v1/models?x HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"), "{request}");
    assert!(request.contains("host: lamina.test:8080\r\n"), "{request}");
    let server = Peer::saying(OK);
    fetched(&client, get(&server.url("/straight"))).unwrap();
    assert!(server.last().starts_with("GET /straight "), "this machine is reached without it");
    assert!(!server.last().contains("proxy-authorization"), "{}", server.last());
}

#[test]
fn a_tunnel_hides_requests_from_the_proxy() {
    let (trust, certified) = authority("lamina.test");
    let hidden = Arc::new(Mutex::new(vec![]));
    let inside = hidden.clone();
    let proxy = Peer::new(move |_, stream| {
        let stream = say(stream, "HTTP/1.1 200 Connection established\r\n\r\n")?;
        serve_secured(stream, &certified, &inside, OK);
        None
    });
    let proxies = Matcher::builder().https(format!("http://user:pass@127.0.0.1:{}", proxy.port));
    let client = by(proxies, trust.into());
    let answer = fetched(&client, post("https://lamina.test/v1", "{}")).unwrap();
    assert_eq!(answer, (200, "done".to_owned()));
    let asked = proxy.last();
    assert!(asked.starts_with("CONNECT lamina.test:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic dXNlcjpwYXNz\r\n"), "{asked}");
    assert!(asked.contains("user-agent: tester/1\r\n") && !asked.contains("secret"), "{asked}");
    let hidden = hidden.lock().unwrap();
    assert!(hidden[0].starts_with("POST /v1 HTTP/1.1\r\n"), "{hidden:?}");
    assert!(hidden[0].contains("Bearer secret") && !hidden[0].contains("proxy-auth"), "{hidden:?}");
}

#[test]
fn proxies_that_open_no_way_say_why() {
    for (status, expected) in
        [("407 Proxy Authentication Required", "it wants a login"), ("403 Forbidden", "403 Forbidden")]
    {
        let proxy = Peer::saying(whole(status, "", "no"));
        let proxies = Matcher::builder().https(format!("127.0.0.1:{}", proxy.port));
        let e = fetched(&by(proxies, TlsClient::default()), get("https://lamina.test")).unwrap_err();
        assert!(matches!(e, HttpError::Connect(ConnectError::Proxy { .. })), "{e:?}");
        let words = format!("to lamina.test:443 by the proxy 127.0.0.1:{}: ", proxy.port);
        assert!(e.to_string().contains(&words) && e.to_string().contains(expected), "{e}");
    }
    let socks = by(Matcher::builder().all("socks5://127.0.0.1:1"), TlsClient::default());
    let e = fetched(&socks, get("http://lamina.test")).unwrap_err();
    assert!(matches!(e, HttpError::Connect(ConnectError::ProxyScheme(_))), "{e:?}");
}

#[test]
fn a_proxy_may_be_reached_by_tls() {
    let (trust, certified) = authority("localhost");
    let (port, seen) = secured(certified, OK);
    let client = by(Matcher::builder().all(format!("https://localhost:{port}")), trust.into());
    fetched(&client, get("http://lamina.test/x")).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("GET http://lamina.test/x HTTP/1.1\r\n"), "{seen:?}");
}

#[test]
fn certificates_are_checked() {
    let (trust, certified) = authority("localhost");
    let (port, _) = secured(certified, OK);
    let trusting = by(Matcher::builder(), trust.into());
    let answer = fetched(&trusting, get(&format!("https://localhost:{port}"))).unwrap();
    assert_eq!(answer, (200, "done".to_owned()));
    let stranger = by(Matcher::builder(), authority("localhost").0.into());
    for (client, host) in [(&trusting, "127.0.0.1"), (&stranger, "localhost")] {
        let e = fetched(client, get(&format!("https://{host}:{port}"))).unwrap_err();
        assert!(matches!(e, HttpError::Connect(ConnectError::Tls { .. })), "{host}: {e:?}");
        assert!(e.to_string().contains("certificate"), "{e}");
    }
}
