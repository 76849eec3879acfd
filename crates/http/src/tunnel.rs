//! A way through a proxy to a server that speaks TLS (RFC 9110, 9.3.6).

use super::{error::cause, stream::Duplex};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, StatusCode,
    client::conn::http1,
    header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT},
};
use hyper_util::rt::TokioIo;

/// Asks the proxy at the other end of `io` for a way to `peer`, a host with its port.
///
/// # Errors
/// What the proxy said in its place.
pub async fn tunnel(
    io: Box<dyn Duplex>,
    peer: &str,
    login: Option<&HeaderValue>,
    agent: &HeaderValue,
) -> Result<impl Duplex + use<>, String> {
    let mut request = Request::connect(peer).body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let host = HeaderValue::try_from(peer).map_err(|e| e.to_string())?;
    request.headers_mut().extend([(HOST, host), (USER_AGENT, agent.clone())]);
    request.headers_mut().extend(login.map(|login| (PROXY_AUTHORIZATION, login.clone())));
    let lost = |e: hyper::Error| cause(&e);
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(lost)?;
    tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await.map_err(lost)?;
    match answer.status() {
        status if status.is_success() => {}
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            return Err("it wants a login: HTTPS_PROXY=http://user:password@host:port".to_owned());
        }
        status => return Err(format!("it answered {status}")),
    }
    Ok(TokioIo::new(hyper::upgrade::on(answer).await.map_err(lost)?))
}
