//! Why there is no answer.

use std::{error::Error, io, time::Duration};

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HttpError {
    /// A text is no address of http or https.
    #[error("{text} is no address: {problem}")]
    Address {
        /// The text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No connection could be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection ended before an answer began.
    #[error("{peer} did not answer: {problem}")]
    NoAnswer {
        /// Host and port.
        peer: String,
        /// What ended it.
        problem: String,
    },
    /// The connection ended inside an answer.
    #[error("the answer of {peer} broke off: {problem}")]
    CutOff {
        /// Host and port.
        peer: String,
        /// What ended it.
        problem: String,
    },
    /// Servers sent the request around.
    #[error("redirected more than {most} times, at last to {to}")]
    Redirects {
        /// How often the request was sent on.
        most: usize,
        /// Where it would go next.
        to: String,
    },
}

/// Why a connection could not be opened. Peers are hosts with their ports.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens there, or the name is unknown.
    #[error("cannot connect to {peer}: {problem}; is the server running there?")]
    Unreachable {
        /// Who was tried.
        peer: String,
        /// What the system said.
        problem: String,
    },
    /// Somebody may be there, but too slow.
    #[error("cannot connect to {peer}: no connection within {} s; is the server running there?", limit.as_secs_f64())]
    TimedOut {
        /// Who was tried.
        peer: String,
        /// How long.
        limit: Duration,
    },
    /// No agreement on a secure connection, or a certificate that nothing vouches for.
    #[error("cannot connect to {peer}: TLS: {problem}")]
    Tls {
        /// Who was tried.
        peer: String,
        /// What failed.
        problem: String,
    },
    /// The proxy of the environment opens no connection.
    #[error("cannot connect to {peer} by the proxy {proxy}: {problem}")]
    Proxy {
        /// Who was asked for.
        peer: String,
        /// Who was asked.
        proxy: String,
        /// What it said.
        problem: String,
    },
    /// The environment names a proxy that speaks something else than HTTP.
    #[error(
        "cannot connect by the proxy {0}: only proxies of http:// and https:// are known; NO_PROXY names hosts to reach without it"
    )]
    ProxyScheme(String),
}

/// What lies at the bottom of an error: the words above it only repeat what was tried.
pub fn cause(e: &(dyn Error + 'static)) -> String {
    chain(e).last().unwrap_or(e).to_string()
}

/// True where time ran out at any level of an error.
pub fn is_timeout(e: &(dyn Error + 'static)) -> bool {
    chain(e).filter_map(|e| e.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::TimedOut)
}

fn chain<'a>(e: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(e), |&e| e.source())
}
