//! Floor ½: a client of HTTP/1.1 servers over hyper: connections are kept and used again, TLS trusts what the system trusts, proxies
//! are those of the environment, redirects are followed, bodies come in pieces. To drop an answer closes its connection,
//! which is what tells a server to stop.
//!
//! These files stand where reqwest was: it parses addresses with tables of Unicode and brings a second stack of middleware,
//! 29 packages in all.
#![forbid(unsafe_code)]

mod address;
mod answer;
mod client;
mod connect;
mod error;
mod fetch;
mod proxy;
mod redirect;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;

pub use address::HttpAddress;
pub use answer::HttpAnswer;
pub use client::HttpClient;
pub use error::{ConnectError, HttpError};
pub use fetch::{FetchError, FetchRules, Fetcher, NamedAddresses, Resolver, is_global};
pub use hyper::{Method, StatusCode, header};
pub use redirect::MOST_REDIRECTS;
pub use request::HttpRequest;
