//! Requests to the hub, and what its answers mean.

use super::pace::Pace;
use crate::{
    choice::RepoFile,
    error::{HubError, Result},
    settings::HubSettings,
};
use lamina_http::{
    HttpAddress, HttpAnswer, HttpClient, HttpError, HttpRequest, MOST_REDIRECTS, Method, StatusCode,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap,
        HeaderValue, RETRY_AFTER,
    },
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::time::Duration;

/// What this program calls itself.
const AGENT: &str = concat!("lamina/", env!("CARGO_PKG_VERSION"));
/// A server that cannot be reached in this time is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// Most bytes of a list of files.
const MOST_JSON: usize = 64 << 20;
/// What stands as it is in paths of addresses.
const INNER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The hub as it is asked.
#[derive(Debug, Clone)]
pub struct Remote {
    http: HttpClient,
    endpoint: String,
    key: Option<HeaderValue>,
    silence: Duration,
}

/// What headers say of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileFacts {
    /// The commit that it is of.
    pub commit: Option<String>,
    /// What stands for its bytes; of the hub a checksum.
    pub etag: Option<String>,
    /// Its bytes, where they are told.
    pub size: Option<u64>,
    /// A checksum that a server tells apart, in Base64.
    pub sha256: Option<String>,
}

/// A repository at a commit.
#[derive(Debug, Clone)]
pub struct RepoFacts {
    /// The commit.
    pub commit: String,
    /// Its files.
    pub files: Vec<RepoFile>,
}

/// What is asked for, for messages.
#[derive(Debug, Clone, Copy)]
pub struct HubQuestion<'a> {
    /// `org/name`; empty for a file by its address.
    pub repo: &'a str,
    /// The revision.
    pub revision: &'a str,
    /// The file, or nothing.
    pub file: &'a str,
}

impl Remote {
    /// The hub of these settings.
    ///
    /// # Errors
    /// When the token cannot be sent.
    pub fn new(settings: &HubSettings, pace: &Pace) -> Result<Remote> {
        let key = settings.token.as_ref().map(|token| {
            let wrong = |_| HubError::Token { hub: settings.endpoint.clone() };
            let mut key = HeaderValue::try_from(format!("Bearer {token}")).map_err(wrong)?;
            key.set_sensitive(true);
            Ok(key)
        });
        let http = HttpClient::new(AGENT, CONNECT);
        Ok(Remote { http, endpoint: settings.endpoint.clone(), key: key.transpose()?, silence: pace.silence })
    }

    /// The address of a file.
    ///
    /// # Errors
    /// When the endpoint is no address.
    pub fn file_address(&self, asked: HubQuestion<'_>) -> Result<HttpAddress> {
        let (file, revision) = (utf8_percent_encode(asked.file, INNER), encoded(asked.revision));
        self.address(&format!("/{}/resolve/{revision}/{file}", asked.repo))
    }

    /// What the hub has of a revision.
    ///
    /// # Errors
    /// When there is none, or it is not told.
    pub async fn repo(&self, repo: &str, revision: &str) -> Result<RepoFacts> {
        let asked = HubQuestion { repo, revision, file: "" };
        let path = format!("/api/models/{repo}/revision/{}?blobs=true", encoded(revision));
        let found = self.json(&path, asked).await?;
        let broken =
            || HubError::Answer { url: path.clone(), problem: "a repository without a commit".into() };
        let file = |f: &Value| {
            Some(RepoFile { path: f["rfilename"].as_str()?.to_owned(), size: f["size"].as_u64() })
        };
        Ok(RepoFacts {
            commit: found["sha"].as_str().ok_or_else(broken)?.to_owned(),
            files: found["siblings"].as_array().into_iter().flatten().filter_map(file).collect(),
        })
    }

    /// What the hub says of a file.
    ///
    /// # Errors
    /// When there is none, or it is not told.
    pub async fn facts(&self, asked: HubQuestion<'_>) -> Result<FileFacts> {
        Ok(self.open(self.request(HttpRequest::head(self.file_address(asked)?)), asked).await?.1)
    }

    /// A JSON object of the hub.
    ///
    /// # Errors
    /// When it is refused, or is none.
    pub async fn json(&self, path: &str, asked: HubQuestion<'_>) -> Result<Value> {
        let address = self.address(path)?;
        let url = address.to_string();
        let (mut answer, _) = self.open(self.request(HttpRequest::get(address)), asked).await?;
        let mut bytes = vec![];
        while let Some(piece) = self.piece(&mut answer).await? {
            bytes.extend_from_slice(piece.as_ref());
            if bytes.len() > MOST_JSON {
                return Err(HubError::Answer { url, problem: "its answer has no end".into() });
            }
        }
        let page = |_| HubError::Answer {
            url,
            problem: not_asked(answer.headers()).unwrap_or("its answer is no JSON").into(),
        };
        serde_json::from_slice(&bytes).map_err(page)
    }

    /// The next piece of a body.
    ///
    /// # Errors
    /// When the connection ends, or nothing comes for too long.
    pub async fn piece(&self, answer: &mut HttpAnswer) -> Result<Option<impl AsRef<[u8]> + use<>>> {
        let piece = tokio::time::timeout(self.silence, answer.piece()).await;
        let silent = |_| HubError::Connection(format!("nothing came for {} s", self.silence.as_secs()));
        piece.map_err(silent)?.map_err(|e| lost(&e))
    }

    /// A request with the key of the one who asks.
    pub fn request(&self, mut request: HttpRequest) -> HttpRequest {
        let at_home = request.address.to_string().starts_with(&format!("{}/", self.endpoint));
        request.headers.extend(self.key.clone().filter(|_| at_home).map(|key| (AUTHORIZATION, key)));
        // Parts and lengths are those of the file itself.
        request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request
    }

    /// Sends a request, also to where it is redirected, and reads the headers on the way: those of the hub itself, not those of
    /// a store behind it. A question for headers alone ends where another host begins.
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn open(
        &self,
        mut request: HttpRequest,
        asked: HubQuestion<'_>,
    ) -> Result<(HttpAnswer, FileFacts)> {
        let mut facts = FileFacts::default();
        for _ in 0..=MOST_REDIRECTS {
            let sent = tokio::time::timeout(self.silence, self.http.send_once(&request)).await;
            let silent =
                |_| HubError::Connection(format!("{} does not answer", request.address.host_and_port()));
            let answer = sent.map_err(silent)?.map_err(|e| lost(&e))?;
            facts.read(answer.headers(), answer.status().is_redirection());
            let next = request.redirected(&answer).map_err(|e| lost(&e))?;
            match next.filter(|next| !self.ends_here(&request, next, &facts)) {
                Some(next) => request = next,
                None if answer.status().is_client_error() || answer.status().is_server_error() => {
                    return Err(self.refusal(&answer, &request, asked));
                }
                None => return Ok((answer, facts)),
            }
        }
        Err(HubError::Connection(format!("{}: redirected around in a circle", request.address)))
    }

    fn ends_here(&self, request: &HttpRequest, next: &HttpRequest, facts: &FileFacts) -> bool {
        request.method == Method::HEAD
            && next.address.origin() != request.address.origin()
            && facts.etag.is_some()
    }

    fn address(&self, path: &str) -> Result<HttpAddress> {
        HttpAddress::parse(&format!("{}{path}", self.endpoint))
            .map_err(|e| HubError::Answer { url: self.endpoint.clone(), problem: e.to_string() })
    }

    /// Why an answer is none.
    fn refusal(&self, answer: &HttpAnswer, request: &HttpRequest, asked: HubQuestion<'_>) -> HubError {
        let (headers, hub) = (answer.headers(), self.endpoint.clone());
        let repo = asked.repo.to_owned();
        let gated = || HubError::Gated { page: format!("{hub}/{repo}"), repo: repo.clone() };
        match (text(headers, "x-error-code"), answer.status()) {
            (Some("GatedRepo"), _) => gated(),
            (Some("RevisionNotFound"), _) => {
                HubError::NoRevision { repo, revision: asked.revision.to_owned() }
            }
            (Some("EntryNotFound"), _) => {
                HubError::Choice { repo, problem: format!("there is no file {}", asked.file), files: vec![] }
            }
            (Some("RepoNotFound"), _) if request.headers.contains_key(AUTHORIZATION) || !repo.is_empty() => {
                HubError::NoRepo { repo, hub }
            }
            (_, StatusCode::UNAUTHORIZED) if request.headers.contains_key(AUTHORIZATION) => {
                HubError::Token { hub }
            }
            (_, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND) if !repo.is_empty() => {
                HubError::NoRepo { repo, hub }
            }
            (_, StatusCode::FORBIDDEN) if !repo.is_empty() && request.headers.contains_key(AUTHORIZATION) => {
                gated()
            }
            (_, status) => HubError::Status {
                url: request.address.to_string(),
                status: status.as_u16(),
                message: text(headers, "x-error-message").map(str::to_owned),
                after: text(headers, RETRY_AFTER.as_str())
                    .and_then(|s| s.parse().ok())
                    .map(Duration::from_secs),
            },
        }
    }
}

impl FileFacts {
    /// Adds what headers say; what was said before holds.
    fn read(&mut self, headers: &HeaderMap, is_redirect: bool) {
        let owned = |name: &str| text(headers, name).map(str::to_owned);
        let number = |name: &str| text(headers, name).and_then(|n| n.parse().ok());
        self.commit = self.commit.take().or_else(|| owned("x-repo-commit"));
        let etag = text(headers, "x-linked-etag").or_else(|| text(headers, ETAG.as_str()));
        self.etag =
            self.etag.take().or_else(|| Some(etag?.trim_start_matches("W/").trim_matches('"').to_owned()));
        let own = || {
            number(CONTENT_LENGTH.as_str())
                .filter(|_| !is_redirect && !headers.contains_key(CONTENT_ENCODING))
        };
        self.size = self.size.or_else(|| number("x-linked-size")).or_else(own);
        let sums = text(headers, "repr-digest").or_else(|| text(headers, "digest")).unwrap_or_default();
        let mut sums = sums.split(',').filter_map(|sum| sum.trim().split_once('='));
        let sum = sums.find(|(name, _)| name.eq_ignore_ascii_case("sha-256"));
        self.sha256 = self.sha256.take().or_else(|| Some(sum?.1.trim_matches(':').to_owned()));
    }
}

/// What came in the place of a file, where headers say that it is not the file.
pub fn not_asked(headers: &HeaderMap) -> Option<&'static str> {
    let is =
        |name: &str, value: &str| text(headers, name).is_some_and(|v| v.to_ascii_lowercase().contains(value));
    if is(CONTENT_TYPE.as_str(), "text/html") {
        return Some(
            "a page of HTML came in the place of the file: does a network or a proxy ask to log in?",
        );
    }
    let plain = !headers.contains_key(CONTENT_ENCODING) || is(CONTENT_ENCODING.as_str(), "identity");
    (!plain).then_some("it came compressed, which was not asked for")
}

/// A header as text.
pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// A part of a path in the form of addresses.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, INNER).to_string().replace('/', "%2F")
}

fn lost(e: &HttpError) -> HubError {
    HubError::Connection(e.to_string())
}
