//! A server: where it is, its key, and how its errors are told.

use super::events::{EventData, EventReader};
use crate::{
    args::ServerArgs,
    error::{CliError, Result},
};
use lamina_http::{
    HttpAddress, HttpAnswer, HttpClient, HttpError, HttpRequest,
    header::{AUTHORIZATION, HeaderName, HeaderValue, RETRY_AFTER},
};
use serde_json::Value;
use std::{collections::VecDeque, time::Duration};

/// A server that cannot be reached in this time is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// What this program calls itself.
const AGENT: &str = concat!("lamina/", env!("CARGO_PKG_VERSION"));
/// Characters of a body that is no JSON, in a message.
const EXCERPT: usize = 200;

/// A server.
#[derive(Debug, Clone)]
pub struct RemoteServer {
    /// Ends with `/v1`.
    base: HttpAddress,
    url: String,
    key: Option<HeaderValue>,
    http: HttpClient,
}

impl RemoteServer {
    /// The server that was named, if one was. Nothing is sent yet.
    ///
    /// # Errors
    /// When its address cannot be one.
    pub fn named(args: &ServerArgs) -> Result<Option<RemoteServer>> {
        let Some(url) = &args.server else { return Ok(None) };
        let text = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        let wrong = |e: HttpError| CliError::usage(&format!("--server: {e}"));
        let given = HttpAddress::parse(&text).map_err(wrong)?;
        let base = base(&given).map_err(wrong)?;
        let key = match args.api_key.as_deref().filter(|key| !key.is_empty()) {
            Some(key) => Some(bearer(key)?),
            None => given.login().cloned(),
        };
        let http = HttpClient::new(AGENT, CONNECT);
        Ok(Some(RemoteServer { url: base.to_string(), base, key, http }))
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `given`, or the name of the server's first model; none where it lists none.
    ///
    /// # Errors
    /// When the server cannot be reached, or wants a key.
    pub async fn model(&self, given: Option<String>) -> Result<Option<String>> {
        if given.is_some() {
            return Ok(given);
        }
        let first = |list: &Value| Some(list["data"][0]["id"].as_str()?.to_owned());
        match self.get("/models").await {
            Ok(list) => Ok(first(&list)),
            // Small servers have no such list.
            Err(CliError::Refused { status: 404 | 405 | 501, .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A JSON body from `path`.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.whole(HttpRequest::get(self.at(path)?)).await
    }

    /// Posts `body` and waits for the whole answer.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.whole(HttpRequest::post(self.at(path)?, body.to_string())).await
    }

    /// Posts `body` under an `Idempotency-Key` and waits for the whole answer, whatever its status is.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ask(&self, path: &str, body: &Value, key: &str) -> Result<ServerAnswer> {
        let mut request = HttpRequest::post(self.at(path)?, body.to_string());
        let name = HeaderName::from_static("idempotency-key");
        request.headers.extend(HeaderValue::from_str(key).ok().map(|key| (name, key)));
        let answer = self.sent(request).await?;
        let (status, after) = (answer.status().as_u16(), answer.headers().get(RETRY_AFTER).cloned());
        let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let body = answer.text().await.map_err(|e| self.lost(&e))?;
        Ok(ServerAnswer { status, pause: seconds.map(Duration::from_secs), body })
    }

    /// Posts `body` and returns once the answer begins.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn stream(&self, path: &str, body: &Value) -> Result<Events> {
        self.events(HttpRequest::post(self.at(path)?, body.to_string())).await
    }

    /// Follows the events of a path of the server itself, beside its API.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn follow(&self, path: &str) -> Result<Events> {
        self.events(HttpRequest::get(self.base.at(path).map_err(|e| self.lost(&e))?)).await
    }

    async fn events(&self, request: HttpRequest) -> Result<Events> {
        let answer = self.send(request).await?;
        Ok(Events { server: self.clone(), answer, reader: EventReader::default(), ready: VecDeque::new() })
    }

    fn at(&self, path: &str) -> Result<HttpAddress> {
        self.base.at(&format!("{}{path}", self.base.path())).map_err(|e| self.lost(&e))
    }

    async fn whole(&self, request: HttpRequest) -> Result<Value> {
        let text = self.send(request).await?.text().await.map_err(|e| self.lost(&e))?;
        serde_json::from_str(&text).map_err(|_| self.broken(&text))
    }

    async fn sent(&self, mut request: HttpRequest) -> Result<HttpAnswer> {
        request.headers.extend(self.key.clone().map(|key| (AUTHORIZATION, key)));
        self.http.send(request).await.map_err(|e| self.lost(&e))
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpAnswer> {
        let answer = self.sent(request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        // A status without its words is told all the same.
        let text = answer.text().await.unwrap_or_default();
        Err(refused(status, &text))
    }

    fn lost(&self, e: &HttpError) -> CliError {
        self.problem(e.to_string())
    }

    fn broken(&self, text: &str) -> CliError {
        let shown: String = text.chars().take(EXCERPT).collect();
        self.problem(format!("the answer is no JSON: {shown}"))
    }

    /// That something is wrong with it.
    pub fn problem(&self, problem: String) -> CliError {
        CliError::Server { url: self.url.clone(), problem }
    }
}

/// All of an answer.
#[derive(Debug)]
pub struct ServerAnswer {
    /// Status of HTTP.
    pub status: u16,
    /// When the server wants to be asked again.
    pub pause: Option<Duration>,
    /// Its body.
    pub body: String,
}

/// An answer that comes event by event.
#[derive(Debug)]
pub struct Events {
    server: RemoteServer,
    answer: HttpAnswer,
    reader: EventReader,
    ready: VecDeque<EventData>,
}

impl Events {
    /// The next event; none at the end.
    ///
    /// # Errors
    /// When the server reports a failure, or the connection ends in the middle of an event.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            match self.ready.pop_front() {
                Some(EventData::Done) => return Ok(None),
                Some(EventData::Text(text)) => return self.parse(&text).map(Some),
                None => {}
            }
            match self.answer.piece().await.map_err(|e| self.server.lost(&e))? {
                Some(piece) => self.ready.extend(self.reader.push(&piece)),
                None => return Ok(None),
            }
        }
    }

    fn parse(&self, text: &str) -> Result<Value> {
        let value: Value = serde_json::from_str(text).map_err(|_| self.server.broken(text))?;
        match &value["error"] {
            Value::Null => Ok(value),
            _ => Err(refused(500, text)),
        }
    }

    /// That the answer ended without saying why.
    pub fn cut_off(&self) -> CliError {
        self.server.problem("the answer broke off in the middle".to_owned())
    }
}

/// The address with the version of the API, whether or not it was given with it.
fn base(given: &HttpAddress) -> std::result::Result<HttpAddress, HttpError> {
    let path = given.path().trim_end_matches('/');
    given.at(&if path.ends_with("/v1") { path.to_owned() } else { format!("{path}/v1") })
}

fn bearer(key: &str) -> Result<HeaderValue> {
    let wrong = || CliError::usage("--api-key holds a character that no key has");
    let header = HeaderValue::try_from(format!("Bearer {key}")).ok();
    let mut header = header.filter(|_| key.bytes().all(|b| b.is_ascii_graphic())).ok_or_else(wrong)?;
    header.set_sensitive(true);
    Ok(header)
}

/// The error of a body: OpenAI's object, a plain text under `error`, or whatever it holds.
pub fn refused(status: u16, text: &str) -> CliError {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let error = &body["error"];
    let words = [&error["message"], error, &body["message"], &body["detail"]];
    let message = words
        .into_iter()
        .find_map(Value::as_str)
        .map_or_else(|| text.chars().take(EXCERPT).collect::<String>().trim().to_owned(), str::to_owned);
    let status = error["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(status);
    let code = [&error["code"], &error["type"]].into_iter().find_map(Value::as_str).map(str::to_owned);
    let hint = if status == 401 { "; give a key with --api-key or LAMINA_API_KEY" } else { "" };
    CliError::Refused { status, code, message: message + hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_with_or_without_their_version() {
        for (given, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1"),
            ("https://example.org/openai/v1", "https://example.org/openai/v1"),
            ("[::1]:80", "http://[::1]/v1"),
            ("http://user:secret@example.org/?a#b", "http://example.org/v1"),
        ] {
            let args = ServerArgs { server: Some(given.into()), api_key: None };
            assert_eq!(RemoteServer::named(&args).unwrap().unwrap().url(), expected);
        }
        for wrong in ["ftp://example.org", "http://", "http://a b"] {
            let args = ServerArgs { server: Some(wrong.into()), api_key: None };
            assert!(matches!(RemoteServer::named(&args), Err(CliError::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn errors_of_every_kind_of_server_are_told_in_its_words() {
        for (body, expected) in [
            (r#"{"error": {"message": "too long", "code": "context_length_exceeded"}}"#, "too long"),
            (r#"{"error": {"message": "too long", "code": 400}}"#, "too long"),
            (r#"{"error": "too long"}"#, "too long"),
            (r#"{"detail": "too long"}"#, "too long"),
            ("too long\n", "too long"),
        ] {
            let CliError::Refused { message, status, .. } = refused(400, body) else { panic!() };
            assert_eq!((message.as_str(), status), (expected, 400), "{body}");
        }
        assert!(refused(401, "{}").to_string().contains("--api-key"));
    }
}
