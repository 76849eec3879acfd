//! A collector that takes spans over HTTP.

use super::target::SpanTarget;
use lamina_http::{
    HttpAddress, HttpClient, HttpRequest,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{sync::OnceLock, time::Duration};
use tokio::time::timeout;

/// How long a collector may take to answer, and to be connected with.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
const AGENT: &str = concat!("lamina/", env!("CARGO_PKG_VERSION"));

/// A collector of spans.
pub(super) struct SpanCollector {
    to: HttpRequest,
    client: OnceLock<HttpClient>,
}

impl SpanCollector {
    /// The collector of `target`. Nothing is opened yet.
    ///
    /// # Errors
    /// When its URL is no address.
    pub fn new(target: &SpanTarget) -> Result<SpanCollector, String> {
        let address = HttpAddress::parse(&target.url).map_err(|e| e.to_string())?;
        let mut to = HttpRequest::post(address, String::new());
        let form = HeaderValue::from_static(target.protocol.content_type());
        to.headers.insert(CONTENT_TYPE, form);
        let login = to.address.login().cloned();
        to.headers.extend(login.map(|login| (AUTHORIZATION, login)));
        to.headers.extend(pairs(&target.headers));
        Ok(SpanCollector { to, client: OnceLock::new() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Why it was not taken.
    pub async fn post(&self, message: Vec<u8>) -> Result<(), String> {
        // Made on the thread that sends.
        let client = self.client.get_or_init(|| HttpClient::new(AGENT, CONNECT));
        let request = HttpRequest { body: message.into(), ..self.to.clone() };
        match timeout(PATIENCE, client.send_once(&request)).await {
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(format!("status {}", answer.status())),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    /// Where it is, without its login.
    pub fn shown(&self) -> String {
        self.to.address.to_string()
    }
}

fn pairs(text: &str) -> HeaderMap {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let header = |(name, value): (&str, &str)| {
        Some((HeaderName::try_from(name.trim()).ok()?, HeaderValue::try_from(value.trim()).ok()?))
    };
    pairs.filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_environment_are_read() {
        let read = pairs("authorization=Bearer a=b, x-team = red ,broken,bad name=1");
        let told: Vec<_> = read.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap_or_default())).collect();
        assert_eq!(told, [("authorization", "Bearer a=b"), ("x-team", "red")]);
    }
}
