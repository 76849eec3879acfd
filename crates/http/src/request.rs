//! One request.

use super::address::HttpAddress;
use bytes::Bytes;
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};

/// A request, which can be sent again to another place.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// What is asked for.
    pub method: Method,
    /// Where.
    pub address: HttpAddress,
    /// Beside those that every request has.
    pub headers: HeaderMap,
    /// Empty for methods that have none.
    pub body: Bytes,
}

impl HttpRequest {
    /// Asks for what lies at `address`.
    pub fn get(address: HttpAddress) -> HttpRequest {
        HttpRequest { method: Method::GET, address, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Asks what a [`HttpRequest::get`] would answer, without its body.
    pub fn head(address: HttpAddress) -> HttpRequest {
        HttpRequest { method: Method::HEAD, ..HttpRequest::get(address) }
    }

    /// Posts JSON.
    pub fn post(address: HttpAddress, json: String) -> HttpRequest {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        HttpRequest { method: Method::POST, address, headers, body: json.into() }
    }
}
