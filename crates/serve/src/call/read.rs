//! The bytes of a body, under the limits.

use super::{HttpCall, SMALL_BODY, pool::has_body_of};
use crate::{
    dialect::Dialect,
    error::{ApiError, Cause},
};
use http::header;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Bodies up to this make nothing that is larger than the memory kept back serves.
const SHORT: usize = 256 << 10;
/// Bytes that a body takes for each of its own when it is read and parsed: a list of digits takes most.
const EACH: usize = 48;
/// When to come back to a server that has no memory left.
const LATER: Duration = Duration::from_secs(10);

/// How long a body may stand still.
const STILL: Duration = Duration::from_secs(60);
/// Bytes that come in a second at least, once the body has taken that long.
const SLOWEST: u64 = 4 << 10;

impl HttpCall {
    /// Reads the body.
    ///
    /// # Errors
    /// When it is too large, of another type, or does not come.
    pub async fn bytes(&self) -> Result<Vec<u8>, ApiError> {
        self.check_type()?;
        let most = self.app.options.max_body;
        let large = || {
            ApiError::new(Cause::TooLarge, format!("the body has more than {most} bytes, which is the limit"))
        };
        let told =
            self.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if told.is_some_and(|n| n > most) {
            return Err(large());
        }
        let Some(mut body) = self.take_body() else { return Ok(vec![]) };
        if let Some(told) = told.filter(|&n| n > SMALL_BODY as u64) {
            let room = self.share().check(told);
            self.or_drained(room, &mut body).await?;
        }
        let mut bytes = Vec::with_capacity(told.unwrap_or(0).min(1 << 20) as usize);
        let begun = Instant::now();
        loop {
            // One that comes byte by byte would hold its memory and its place for days.
            let end = begun + STILL + Duration::from_secs(bytes.len() as u64 / SLOWEST);
            let frame = timeout_at(end.min(Instant::now() + STILL), body.frame()).await;
            let frame = frame.map_err(|_| ApiError::new(Cause::Timeout, "the body comes too slowly"))?;
            match frame {
                None => {
                    room(bytes.len())?;
                    has_body_of(bytes.len());
                    return Ok(bytes);
                }
                Some(Err(_)) => return Err(ApiError::invalid("the body ended before it was whole")),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    if (bytes.len() + data.len()) as u64 > most {
                        return Err(large());
                    }
                    // As it comes: whoever tells a length and sends nothing keeps nobody out.
                    let all = bytes.len() + data.len();
                    let room = if all > SMALL_BODY { self.share().resize(all as u64) } else { Ok(()) };
                    if room.is_err() {
                        bytes = vec![];
                        self.share().release();
                    }
                    self.or_drained(room, &mut body).await?;
                    bytes.try_reserve(data.len()).map_err(|_| no_room(bytes.len()))?;
                    bytes.extend_from_slice(&data);
                }
            }
        }
    }

    /// Lets a body that is refused come to its end, which is thrown away: a client that is cut off while it sends may never
    /// see why. One that asks before it sends is told at once.
    async fn or_drained(
        &self,
        room: Result<(), ApiError>,
        body: &mut axum::body::Body,
    ) -> Result<(), ApiError> {
        let end = Instant::now() + LATER;
        if room.is_err() && !self.headers().contains_key(header::EXPECT) {
            while let Ok(Some(Ok(_))) = timeout_at(end, body.frame()).await {}
        }
        room
    }

    /// Clients of OpenAI and Anthropic say that they send JSON; a page that cannot is no client of theirs. The
    /// documented calls of the other dialects send a form's type.
    fn check_type(&self) -> Result<(), ApiError> {
        let kind = self.headers().get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap_or(""));
        let json = kind.is_none_or(|k| {
            k.split(';').next().is_some_and(|k| k.trim().eq_ignore_ascii_case("application/json"))
        });
        match self.dialect {
            Dialect::OpenAi | Dialect::Anthropic if !json => {
                Err(ApiError::new(Cause::MediaType, "content-type must be application/json"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a long body where there is no memory for what is made of it.
fn room(bytes: usize) -> Result<(), ApiError> {
    match bytes < SHORT || lamina_reserve::affordable(bytes.saturating_mul(EACH)) {
        true => Ok(()),
        false => Err(no_room(bytes)),
    }
}

fn no_room(bytes: usize) -> ApiError {
    ApiError::unavailable(
        format!("there is no memory for a body of {bytes} bytes: send a shorter one"),
        LATER,
    )
}
