//! Why nothing was fetched. Messages name hosts, never whole addresses: their paths may hold keys.

use crate::error::HttpError;
use std::time::Duration;

/// Why nothing was fetched.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FetchError {
    /// The text is no address of http or https.
    #[error("it is no address: {0}")]
    Address(&'static str),
    /// The address has a user or a password.
    #[error("addresses with a user or a password are not fetched")]
    Login,
    /// The address is one of http.
    #[error("only https is fetched")]
    NotSecure,
    /// The host is not on the list.
    #[error("{host} is not among the hosts that may be asked")]
    Host {
        /// The host.
        host: String,
    },
    /// The name leads into a private network.
    #[error("{host} leads to an address that is not of the open internet")]
    NotPublic {
        /// The host.
        host: String,
    },
    /// The system has no room for another runtime of events.
    #[error("nothing can be fetched: {0}")]
    Runtime(String),
    /// No connection, or one that broke.
    #[error("{host} cannot be read: {problem}")]
    Failed {
        /// The host.
        host: String,
        /// What went wrong.
        problem: String,
    },
    /// The answer is another one than the file.
    #[error("there is no such file: the server answers with status {status}")]
    Status {
        /// HTTP status.
        status: u16,
    },
    /// Servers sent the request around.
    #[error("redirected more than {most} times")]
    Redirects {
        /// How often it was followed.
        most: usize,
    },
    /// There are more bytes than are allowed.
    #[error("the file has more than {most} bytes, which is the limit")]
    TooLarge {
        /// The limit.
        most: usize,
    },
    /// Time ran out.
    #[error("the file did not come within {} s", limit.as_secs_f64())]
    TimedOut {
        /// How long was waited.
        limit: Duration,
    },
}

impl From<HttpError> for FetchError {
    fn from(error: HttpError) -> FetchError {
        match error {
            HttpError::Address { problem, .. } => FetchError::Address(problem),
            HttpError::CutOff { peer, problem } | HttpError::NoAnswer { peer, problem } => {
                FetchError::Failed { host: peer, problem }
            }
            HttpError::Connect(e) => FetchError::Failed { host: "the host".into(), problem: e.to_string() },
            HttpError::Redirects { most, .. } => FetchError::Redirects { most },
        }
    }
}
