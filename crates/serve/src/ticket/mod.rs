//! What a gateway and its replicas tell each other beside the bytes of an answer: who a replica is, and what stands at the head
//! and at the end of a request.

mod join;
mod news;
mod place;

pub use join::{JoinChallenge, JoinHello, JoinNonces, JoinRequest, JoinVerdict};
pub use news::RouteNews;
pub use place::{PLACE, ReplicaHello, ReplicaPlace};

use crate::{call::Caller, run::FixedDraws};
use serde::{Deserialize, Serialize};

/// A request that a gateway sends on. Its body and the marks of engines before follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestTicket {
    /// Who may send requests at all: what the gateway and this engine agreed upon when it joined.
    pub key: String,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Headers that the answer may depend on.
    pub headers: Vec<(String, String)>,
    /// Id of the request.
    pub id: String,
    /// Address of who asks, for the log.
    pub peer: String,
    /// Whom machine time is counted for.
    pub tenant: String,
    /// Name of the key, where there is one.
    pub key_name: Option<String>,
    /// Part of the machine's time beside others.
    pub share: f64,
    /// Smallest priority.
    pub priority: i32,
    /// It may change the server for all.
    pub admin: bool,
    /// What would be drawn by chance.
    pub draws: FixedDraws,
    /// Answers that the request may refer to, in the form of [`FrameKind::Kept`](crate::frames::FrameKind::Kept).
    pub kept: Vec<serde_json::Value>,
}

impl RequestTicket {
    /// Who asks, as the gateway found.
    pub fn caller(&self) -> Caller {
        Caller {
            tenant: self.tenant.as_str().into(),
            key: self.key_name.as_deref().map(Into::into),
            share: self.share,
            priority: self.priority,
            admin: self.admin,
        }
    }
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseHead {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its bytes are to be told as they come.
    pub stream: bool,
    /// Fields of the request that made no difference.
    pub ignored: Vec<String>,
}

/// What the gateway's log says of a response that is whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerSummary {
    /// The model.
    pub model: Option<String>,
    /// Tokens of the prompt, those of them that were cached, and those of the answer.
    pub tokens: [usize; 3],
    /// Seconds until the first step of the first answer.
    pub queue: f64,
    /// Widths and heights of its pictures.
    #[serde(default)]
    pub pictures: Vec<[u32; 2]>,
    /// Lengths of its sounds in seconds.
    #[serde(default)]
    pub sounds: Vec<f64>,
    /// Tokens in the places of pictures, and in those of sounds.
    #[serde(default)]
    pub media_tokens: [usize; 2],
    /// Seconds in which pictures and sounds were encoded.
    #[serde(default)]
    pub encode_seconds: f64,
    /// Seconds of the prompt and of the answer.
    pub seconds: [f64; 2],
    /// Why the first answer ended.
    pub finish: Option<String>,
}
