//! The client: sends requests over connections that it keeps.

use super::{
    answer::HttpAnswer,
    connect::Connector,
    error::{ConnectError, HttpError, cause},
    proxy::Proxies,
    redirect::MOST_REDIRECTS,
    request::HttpRequest,
    tls::TlsClient,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request,
    header::{ACCEPT, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT},
};
use hyper_util::{
    client::legacy::{Client, Error},
    rt::{TokioExecutor, TokioTimer},
};
use std::{error::Error as _, sync::Arc, time::Duration};

/// How long a connection without a request is kept.
const IDLE: Duration = Duration::from_secs(90);

/// A client; its clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    connections: Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
    agent: HeaderValue,
}

impl HttpClient {
    /// A client that calls itself `agent` and gives up on a connection that is not there after `connect`. Nothing is opened
    /// yet.
    pub fn new(agent: &'static str, connect: Duration) -> HttpClient {
        HttpClient::with(agent, connect, Proxies::of_the_environment(), TlsClient::default())
    }

    /// The same with these proxies and this trust.
    pub(super) fn with(
        agent: &'static str,
        connect: Duration,
        proxies: Proxies,
        tls: TlsClient,
    ) -> HttpClient {
        let (proxies, agent) = (Arc::new(proxies), HeaderValue::from_static(agent));
        let connector = Connector::new(proxies.clone(), tls, agent.clone(), connect);
        let mut pool = Client::builder(TokioExecutor::new());
        pool.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        HttpClient { connections: pool.build(connector), proxies, agent }
    }

    /// Sends `request`, follows redirects, and returns once an answer begins, whatever its status is.
    ///
    /// # Errors
    /// When no connection can be opened, it ends before an answer, or redirects have no end.
    pub async fn send(&self, mut request: HttpRequest) -> Result<HttpAnswer, HttpError> {
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.send_once(&request).await?;
            match request.redirected(&answer)? {
                Some(next) => request = next,
                None => return Ok(answer),
            }
        }
        Err(HttpError::Redirects { most: MOST_REDIRECTS, to: request.address.to_string() })
    }

    /// Sends `request`, and follows no redirect: that is an answer, too.
    ///
    /// # Errors
    /// When no connection can be opened, or it ends before an answer.
    pub async fn send_once(&self, request: &HttpRequest) -> Result<HttpAnswer, HttpError> {
        let uri = request.address.uri();
        let mut sent = Request::new(Full::new(request.body.clone()));
        *sent.method_mut() = request.method.clone();
        *sent.uri_mut() = uri.clone();
        *sent.headers_mut() = request.headers.clone();
        let headers = sent.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(USER_AGENT, self.agent.clone());
        headers.extend(self.proxies.login_beside(uri).map(|login| (PROXY_AUTHORIZATION, login)));
        let peer = request.address.host_and_port();
        let response = self.connections.request(sent).await.map_err(|e| no_answer(&e, peer))?;
        Ok(HttpAnswer::new(response, peer.to_owned()))
    }
}

fn no_answer(e: &Error, peer: &str) -> HttpError {
    match e.source().and_then(|below| below.downcast_ref::<ConnectError>()) {
        Some(e) => e.clone().into(),
        None => HttpError::NoAnswer { peer: peer.to_owned(), problem: cause(e) },
    }
}
