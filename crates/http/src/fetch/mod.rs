//! Files at addresses that strangers name: read from hosts that somebody allowed, at addresses of the open internet alone.
//!
//! A name is resolved once, all of its addresses are looked at, and the connection goes to one of these: no second answer of
//! the name's servers is asked for. Proxies are not used, since they would resolve the name again. Redirects are followed by
//! the same rules.

mod error;
mod global;

pub use error::FetchError;
pub use global::is_global;

use super::{
    address::HttpAddress, answer::HttpAnswer, error::cause, request::HttpRequest, stream::Duplex,
    tls::TlsClient,
};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, StatusCode,
    client::conn::http1::handshake,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT},
    http::uri::Scheme,
};
use hyper_util::rt::TokioIo;
use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinHandle,
    time::timeout,
};

/// How often a server may point elsewhere.
const MOST_REDIRECTS: usize = 3;

/// Addresses that a name has, on their way.
pub type NamedAddresses = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// What finds the addresses of a host and a port.
pub type Resolver = Arc<dyn Fn(String, u16) -> NamedAddresses + Send + Sync>;

/// Whom a [`Fetcher`] may ask, and for how much.
#[derive(Clone)]
pub struct FetchRules {
    /// Whether a host, in lower case and without a port, may be asked.
    pub host: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Connections without TLS are opened too.
    pub http: bool,
    /// Time for all of it, redirects too.
    pub time: Duration,
    /// How names become addresses.
    pub resolver: Resolver,
    /// Whether an address may be connected to.
    pub address: fn(IpAddr) -> bool,
}

impl fmt::Debug for FetchRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchRules")
            .field("http", &self.http)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl Default for FetchRules {
    /// No host at all; 10 s, the system's names, addresses of the open internet.
    fn default() -> FetchRules {
        FetchRules {
            host: Arc::new(|_| false),
            http: false,
            time: Duration::from_secs(10),
            resolver: Arc::new(|host, port| {
                Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
            }),
            address: is_global,
        }
    }
}

/// Reads files by the rules. Clones share the trust in certificates.
#[derive(Debug, Clone)]
pub struct Fetcher {
    agent: &'static str,
    rules: FetchRules,
    tls: Arc<TlsClient>,
}

/// A connection that ends with this value.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Fetcher {
    /// A fetcher that calls itself `agent`. Nothing is opened yet.
    pub fn new(agent: &'static str, rules: FetchRules) -> Fetcher {
        Fetcher { agent, rules, tls: Arc::default() }
    }

    /// The same with this trust.
    #[cfg(test)]
    pub(super) fn trusting(self, tls: TlsClient) -> Fetcher {
        Fetcher { tls: Arc::new(tls), ..self }
    }

    /// The bytes at `url`, of which there may be `most`.
    ///
    /// # Errors
    /// When the rules forbid the address or one that it redirects to, nothing is there, it has more bytes, or the time is over.
    pub async fn fetch(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        let late = |_| FetchError::TimedOut { limit: self.rules.time };
        timeout(self.rules.time, self.follow(url, most)).await.map_err(late)?
    }

    /// [`Fetcher::fetch`] for callers without a runtime: their thread waits.
    ///
    /// # Errors
    /// As for [`Fetcher::fetch`]; when the system has no more room for events.
    pub fn fetch_waiting(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|e| FetchError::Runtime(e.to_string()))?.block_on(self.fetch(url, most))
    }

    async fn follow(&self, url: &str, most: usize) -> Result<Vec<u8>, FetchError> {
        let mut request = HttpRequest::get(HttpAddress::parse(url)?);
        for _ in 0..=MOST_REDIRECTS {
            self.check(&request.address)?;
            let (answer, _connection) = self.ask(&request.address).await?;
            match request.redirected(&answer)? {
                Some(next) => request = next,
                None => return read(answer, most).await,
            }
        }
        Err(FetchError::Redirects { most: MOST_REDIRECTS })
    }

    /// What can be said of an address before anybody is asked.
    fn check(&self, address: &HttpAddress) -> Result<(), FetchError> {
        if address.login().is_some() {
            return Err(FetchError::Login);
        }
        if !self.rules.http && !is_secure(address) {
            return Err(FetchError::NotSecure);
        }
        let host = host(address);
        if (self.rules.host)(host) { Ok(()) } else { Err(FetchError::Host { host: host.to_owned() }) }
    }

    /// Asks what lies at `address`; the connection lives as long as the value beside the answer.
    async fn ask(&self, address: &HttpAddress) -> Result<(HttpAnswer, Connection), FetchError> {
        let host = host(address).to_owned();
        let failed = |problem: String| FetchError::Failed { host: host.clone(), problem };
        let io = self.connect(address, &host).await?;
        let (mut sender, connection) = handshake(TokioIo::new(io)).await.map_err(|e| failed(cause(&e)))?;
        let connection = Connection(tokio::spawn(async move {
            // What ends it ends the answer too, which says so.
            _ = connection.await;
        }));
        let target = address.uri().path_and_query().map_or("/", |target| target.as_str());
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = target.parse().map_err(|_| failed("its path cannot be sent".into()))?;
        let named = HeaderValue::try_from(address.host_and_port());
        let headers = request.headers_mut();
        headers.insert(HOST, named.map_err(|_| failed("its name cannot be sent".into()))?);
        headers.insert(USER_AGENT, HeaderValue::from_static(self.agent));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = sender.send_request(request).await.map_err(|e| failed(cause(&e)))?;
        Ok((HttpAnswer::new(response, host), connection))
    }

    /// A connection to one of the addresses of `host`, all of which may be connected to.
    async fn connect(&self, address: &HttpAddress, host: &str) -> Result<Box<dyn Duplex>, FetchError> {
        let failed = |problem: String| FetchError::Failed { host: host.to_owned(), problem };
        let name = host.trim_matches(['[', ']']).to_owned();
        let port = address.uri().port_u16().unwrap_or(if is_secure(address) { 443 } else { 80 });
        let found = (self.rules.resolver)(name, port).await.map_err(|e| failed(e.to_string()))?;
        if !found.iter().all(|found| (self.rules.address)(found.ip())) {
            return Err(FetchError::NotPublic { host: host.to_owned() });
        }
        // One after the other.
        let tcp = TcpStream::connect(&found[..]).await.map_err(|e| failed(e.to_string()))?;
        if !is_secure(address) {
            return Ok(Box::new(tcp));
        }
        self.tls.secure(tcp, host).await.map_err(failed)
    }
}

/// The body of an answer, which may have `most` bytes.
async fn read(mut answer: HttpAnswer, most: usize) -> Result<Vec<u8>, FetchError> {
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status { status: answer.status().as_u16() });
    }
    let told = answer.headers().get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > most as u64) {
        return Err(FetchError::TooLarge { most });
    }
    let mut bytes = vec![];
    while let Some(piece) = answer.piece().await? {
        if bytes.len() + piece.len() > most {
            return Err(FetchError::TooLarge { most });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn is_secure(address: &HttpAddress) -> bool {
    address.uri().scheme() == Some(&Scheme::HTTPS)
}

fn host(address: &HttpAddress) -> &str {
    address.uri().host().unwrap_or_default()
}
