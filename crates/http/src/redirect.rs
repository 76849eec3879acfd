//! Answers that send a request to another place.

use super::{answer::HttpAnswer, error::HttpError, request::HttpRequest};
use bytes::Bytes;
use hyper::{
    Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, LOCATION},
};

/// How often a request is sent on before its servers are said to go round in a circle.
pub const MOST_REDIRECTS: usize = 10;

impl HttpRequest {
    /// The request that an answer asks for in this one's place; none where it is no redirect. A key goes to its own origin alone.
    ///
    /// # Errors
    /// When the place is no address of http or https.
    pub fn redirected(&self, answer: &HttpAnswer) -> Result<Option<HttpRequest>, HttpError> {
        let asks_again = match answer.status() {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
            _ => return Ok(None),
        };
        let location =
            answer.headers().get(LOCATION).and_then(|place| std::str::from_utf8(place.as_bytes()).ok());
        let Some(location) = location else { return Ok(None) };
        let mut next = HttpRequest { address: self.address.join(location)?, ..self.clone() };
        if asks_again {
            next.forget_body();
        }
        if next.address.origin() != self.address.origin() {
            next.forget_secrets();
        }
        Ok(Some(next))
    }

    /// RFC 9110, 15.4: what such an answer points to is read, not posted to.
    fn forget_body(&mut self) {
        (self.method, self.body) = (Method::GET, Bytes::new());
        [CONTENT_TYPE, CONTENT_ENCODING].iter().for_each(|name| drop(self.headers.remove(name)));
    }

    /// A key is for the server that it was given for.
    fn forget_secrets(&mut self) {
        [AUTHORIZATION, COOKIE].iter().for_each(|name| drop(self.headers.remove(name)));
    }
}
