//! Opens connections: straight or by a proxy, with TLS where the address asks for it.

use super::{
    error::{ConnectError, cause, is_timeout},
    proxy::Proxies,
    stream::{Duplex, ServerStream},
    tls::TlsClient,
    tunnel::tunnel,
};
use hyper::{Uri, header::HeaderValue, http::uri::Scheme};
use hyper_util::client::{legacy::connect::HttpConnector, proxy::matcher::Intercept};
use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tower_service::Service;

/// A silent peer is asked this often whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// A peer that does not answer so many times is gone.
const KEEPALIVES: u32 = 3;
/// A peer that does not take what was sent in this time is gone.
#[cfg(target_os = "linux")]
const UNSENT: Duration = Duration::from_secs(30);

/// Opens connections.
#[derive(Debug, Clone)]
pub struct Connector {
    tcp: HttpConnector,
    proxies: Arc<Proxies>,
    tls: Arc<TlsClient>,
    agent: HeaderValue,
    limit: Duration,
}

impl Connector {
    /// Gives up after `limit`; proxies hear of `agent`.
    pub fn new(proxies: Arc<Proxies>, tls: TlsClient, agent: HeaderValue, limit: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Shared by the addresses of a name: one that is dead must leave time for the next one.
        tcp.set_connect_timeout(Some(limit));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNSENT));
        Connector { tcp, proxies, tls: Arc::new(tls), agent, limit }
    }

    async fn open(&self, to: &Uri) -> Result<ServerStream, ConnectError> {
        match self.proxies.of(to) {
            None => Ok(ServerStream::new(self.reach(to).await?, false)),
            Some(proxy) => self.open_by(&proxy, to).await,
        }
    }

    async fn open_by(&self, proxy: &Intercept, to: &Uri) -> Result<ServerStream, ConnectError> {
        if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) {
            return Err(ConnectError::ProxyScheme(proxy.uri().to_string()));
        }
        let near = self.reach(proxy.uri()).await?;
        if !is_secure(to) {
            return Ok(ServerStream::new(near, true));
        }
        let far = tunnel(near, &peer(to), proxy.basic_auth(), &self.agent).await;
        let refused = |problem| ConnectError::Proxy { peer: peer(to), proxy: peer(proxy.uri()), problem };
        Ok(ServerStream::new(self.secure(far.map_err(refused)?, to).await?, false))
    }

    /// Whoever listens at `to` itself.
    async fn reach(&self, to: &Uri) -> Result<Box<dyn Duplex>, ConnectError> {
        let opened = self.tcp.clone().call(to.clone()).await;
        let io = opened.map_err(|e| self.unreachable(to, &e))?.into_inner();
        if is_secure(to) { self.secure(io, to).await } else { Ok(Box::new(io)) }
    }

    async fn secure(&self, io: impl Duplex + 'static, to: &Uri) -> Result<Box<dyn Duplex>, ConnectError> {
        let failed = |problem| ConnectError::Tls { peer: peer(to), problem };
        self.tls.secure(io, to.host().unwrap_or_default()).await.map_err(failed)
    }

    fn unreachable(&self, to: &Uri, e: &(dyn Error + 'static)) -> ConnectError {
        match is_timeout(e) {
            true => self.too_slow(to),
            false => ConnectError::Unreachable { peer: peer(to), problem: cause(e) },
        }
    }

    fn too_slow(&self, to: &Uri) -> ConnectError {
        ConnectError::TimedOut { peer: peer(to), limit: self.limit }
    }
}

impl Service<Uri> for Connector {
    type Response = ServerStream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<ServerStream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let opened = tokio::time::timeout(this.limit, this.open(&to)).await;
            opened.unwrap_or_else(|_| Err(this.too_slow(&to)))
        })
    }
}

fn is_secure(to: &Uri) -> bool {
    to.scheme() == Some(&Scheme::HTTPS)
}

/// Host and port.
fn peer(to: &Uri) -> String {
    let port = to.port_u16().unwrap_or(if is_secure(to) { 443 } else { 80 });
    format!("{}:{port}", to.host().unwrap_or_default())
}
