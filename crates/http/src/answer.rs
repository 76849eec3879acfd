//! One answer.

use super::error::{HttpError, cause};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Response, StatusCode, body::Incoming, header::HeaderMap};

/// An answer whose body comes in pieces. To drop it before its end closes its connection.
#[derive(Debug)]
pub struct HttpAnswer {
    response: Response<Incoming>,
    peer: String,
}

impl HttpAnswer {
    /// The answer of `peer`.
    pub(super) fn new(response: Response<Incoming>, peer: String) -> HttpAnswer {
        HttpAnswer { response, peer }
    }

    /// How it went.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// What it says beside its body.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body as the network brings it; none at the end. There is no limit of time: a model may think
    /// for minutes.
    ///
    /// # Errors
    /// When the connection ends before the body does.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        while let Some(frame) = self.response.frame().await {
            let cut = |e: hyper::Error| HttpError::CutOff { peer: self.peer.clone(), problem: cause(&e) };
            // What is no data is a trailer.
            if let Ok(data) = frame.map_err(cut)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body as text; what is no UTF-8 is replaced.
    ///
    /// # Errors
    /// As for [`HttpAnswer::piece`].
    pub async fn text(mut self) -> Result<String, HttpError> {
        let mut bytes = vec![];
        while let Some(piece) = self.piece().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
