//! A server: where it is, its key, and how its errors are told.

use super::events::{EventData, EventReader};
use crate::{
    args::ServerArgs,
    error::{CliError, Result},
};
use reqwest::{Client, RequestBuilder, Response, Url, header::CONTENT_TYPE};
use serde_json::Value;
use std::{collections::VecDeque, error::Error, time::Duration};

/// A server that cannot be reached in this time is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// Characters of a body that is no JSON, in a message.
const EXCERPT: usize = 200;

/// A server.
#[derive(Debug, Clone)]
pub struct RemoteServer {
    /// Ends with `/v1`.
    base: String,
    key: Option<String>,
    http: Client,
}

impl RemoteServer {
    /// The server that was named, if one was. Nothing is sent yet.
    ///
    /// # Errors
    /// When its address cannot be one.
    pub fn named(args: &ServerArgs) -> Result<Option<RemoteServer>> {
        let Some(url) = &args.server else { return Ok(None) };
        let wrong = |problem: &str| CliError::usage(&format!("--server {url} {problem}"));
        let text = if url.contains("://") { url.clone() } else { format!("http://{url}") };
        let parsed = Url::parse(&text).map_err(|e| wrong(&format!("is no address: {e}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong("must begin with http:// or https://"));
        }
        let key = args.api_key.clone().filter(|key| !key.is_empty());
        if key.iter().any(|key| !key.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(CliError::usage("--api-key holds a character that no key has"));
        }
        let http = client(&parsed).map_err(|e| wrong(&cause(&e)))?;
        Ok(Some(RemoteServer { base: base(&parsed), key, http }))
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.base
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
        self.whole(self.http.get(self.at(path))).await
    }

    /// Posts `body` and waits for the whole answer.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.whole(self.with_body(path, body)).await
    }

    /// Posts `body` and returns once the answer begins.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn stream(&self, path: &str, body: &Value) -> Result<Events> {
        let response = self.send(self.with_body(path, body)).await?;
        Ok(Events { server: self.clone(), response, reader: EventReader::default(), ready: VecDeque::new() })
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn with_body(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http.post(self.at(path)).header(CONTENT_TYPE, "application/json").body(body.to_string())
    }

    async fn whole(&self, request: RequestBuilder) -> Result<Value> {
        let response = self.send(request).await?;
        let text = response.text().await.map_err(|e| self.lost(&e))?;
        serde_json::from_str(&text).map_err(|_| self.broken(&text))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let response = request.send().await.map_err(|e| self.lost(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = response.text().await.unwrap_or_default();
        Err(refused(status, &text))
    }

    fn lost(&self, e: &reqwest::Error) -> CliError {
        let problem = match (e.is_connect(), e.is_body() || e.is_decode()) {
            (true, _) => format!("cannot connect: {}; is the server running there?", cause(e)),
            (_, true) => format!("the answer broke off: {}", cause(e)),
            _ => cause(e),
        };
        self.problem(problem)
    }

    fn broken(&self, text: &str) -> CliError {
        let shown: String = text.chars().take(EXCERPT).collect();
        self.problem(format!("the answer is no JSON: {shown}"))
    }

    fn problem(&self, problem: String) -> CliError {
        CliError::Server { url: self.base.clone(), problem }
    }
}

/// An answer that comes event by event.
#[derive(Debug)]
pub struct Events {
    server: RemoteServer,
    response: Response,
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
            match self.response.chunk().await.map_err(|e| self.server.lost(&e))? {
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

fn client(url: &Url) -> reqwest::Result<Client> {
    // Another part of the program may have chosen already; then that choice holds.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().connect_timeout(CONNECT).tcp_nodelay(true);
    let builder = builder.user_agent(concat!("lamina/", env!("CARGO_PKG_VERSION")));
    // A proxy's own machine is not this one.
    let builder = if is_loopback(url) { builder.no_proxy() } else { builder };
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// The address with the version of the API, whether or not it was given with it.
fn base(url: &Url) -> String {
    let text = url.as_str().split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    if text.ends_with("/v1") { text.to_owned() } else { format!("{text}/v1") }
}

/// The error of a body: OpenAI's object, a plain text under `error`, or whatever it holds.
fn refused(status: u16, text: &str) -> CliError {
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

/// What lies at the bottom of an error: the words above it only repeat the address.
fn cause(e: &dyn Error) -> String {
    let mut at = e;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
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
    fn loopback_is_told_from_names_that_begin_like_it() {
        let loopback = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(loopback("http://localhost:1") && loopback("http://127.0.0.2") && loopback("http://[::1]:2"));
        assert!(!loopback("http://127.0.0.1.example.org") && !loopback("http://10.0.0.1"));
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
