//! Servers and proxies on loopback.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring,
    pki_types::PrivateKeyDer,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A request: which connection it came over, from 0 on, and its text.
pub type Seen = (usize, String);

/// A server whose answers a function writes.
pub struct Peer {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Peer {
    /// `serve` gets each request with its connection, and gives it back where the connection stays open.
    pub fn new(serve: impl Fn(&Seen, TcpStream) -> Option<TcpStream> + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(vec![]));
        let (log, serve) = (seen.clone(), Arc::new(serve));
        thread::spawn(move || {
            for (i, stream) in listener.incoming().flatten().enumerate() {
                let (log, serve) = (log.clone(), serve.clone());
                thread::spawn(move || {
                    let mut open = Some(stream);
                    while let Some(mut stream) = open.take() {
                        let Some(text) = read_request(&mut stream) else { break };
                        log.lock().unwrap().push((i, text.clone()));
                        open = serve(&(i, text), stream);
                    }
                });
            }
        });
        Peer { port, seen }
    }

    /// One that writes `answer` to every request, and keeps its connections.
    pub fn saying(answer: impl Into<String>) -> Peer {
        let answer = answer.into();
        Peer::new(move |_, stream| say(stream, &answer))
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The last request.
    pub fn last(&self) -> String {
        self.seen().pop().unwrap().1
    }
}

/// Writes `answer` and keeps the connection.
pub fn say(mut stream: TcpStream, answer: &str) -> Option<TcpStream> {
    stream.write_all(answer.as_bytes()).ok().map(|()| stream)
}

/// An answer with a length.
pub fn whole(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let (mut head, mut byte) = (vec![], [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8(body).unwrap())
}

/// An authority of its own, which vouches for `host`: what trusts it, and what has its certificate.
pub fn authority(host: &str) -> (ClientConfig, Arc<ServerConfig>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider.clone());
    let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let server = server.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    (client.with_no_client_auth(), Arc::new(server))
}

/// A server that answers each request with `answer` over TLS: its port, and what it was asked.
pub fn secured(config: Arc<ServerConfig>, answer: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(vec![]));
    let log = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve_secured(stream, &config, &log, answer);
        }
    });
    (port, seen)
}

/// Answers one request over TLS, and keeps it first.
pub fn serve_secured(stream: TcpStream, config: &Arc<ServerConfig>, log: &Mutex<Vec<String>>, answer: &str) {
    let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
    // A client that does not trust the certificate says nothing.
    let Some(request) = read_request(&mut stream) else { return };
    log.lock().unwrap().push(request);
    stream.write_all(answer.as_bytes()).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}
