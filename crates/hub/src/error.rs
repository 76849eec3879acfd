//! Why a name leads to no model.

use std::{path::PathBuf, time::Duration};

/// Why a name leads to no model.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    /// A text begins like a name and is none.
    #[error("`{text}` names no model: {problem}")]
    Name {
        /// The text.
        text: String,
        /// What is wrong with it, and what would be right.
        problem: &'static str,
    },
    /// The hub has no such repository, or hides it.
    #[error(
        "there is no {repo} at {hub}, or it is private: check the name with `lamina search`, or log in with `lamina login`"
    )]
    NoRepo {
        /// `org/name`.
        repo: String,
        /// Where it was looked for.
        hub: String,
    },
    /// The repository has no such branch, tag or commit.
    #[error("{repo} has no revision `{revision}`")]
    NoRevision {
        /// `org/name`.
        repo: String,
        /// What was asked for.
        revision: String,
    },
    /// The repository has no such file, or none of that type, or too many.
    #[error("{repo}: {problem}{}", listed(.files))]
    Choice {
        /// `org/name`.
        repo: String,
        /// What was asked for.
        problem: String,
        /// What there is.
        files: Vec<String>,
    },
    /// Terms have to be accepted first.
    #[error("{repo} is gated: accept its terms at {page}, then `lamina login` (or set HF_TOKEN)")]
    Gated {
        /// `org/name`.
        repo: String,
        /// Where terms are accepted.
        page: String,
    },
    /// The token is wrong.
    #[error("{hub} refused the token: make a new one there and `lamina login`, or unset HF_TOKEN")]
    Token {
        /// Who refused it.
        hub: String,
    },
    /// No connection, or one that ended.
    #[error("{0}")]
    Connection(String),
    /// The server refuses.
    #[error("{url}: the server answered {status}{}", .message.as_ref().map_or(String::new(), |m| format!(": {m}")))]
    Status {
        /// What was asked for.
        url: String,
        /// Its code.
        status: u16,
        /// Its words.
        message: Option<String>,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// The server answers something else than was asked for.
    #[error("{url}: {problem}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What came in its place.
        problem: String,
    },
    /// The server sends whole files alone.
    #[error("{0}: the server, or a proxy before it, sends no parts of files")]
    NoRanges(String),
    /// A file became another one while it was fetched.
    #[error("{0} changed while it was fetched: try again")]
    Changed(String),
    /// What arrived is not what the hub has.
    #[error(
        "{file} arrived damaged: its {kind} is {found} and should be {expected}; it was deleted, try again"
    )]
    Checksum {
        /// The file.
        file: String,
        /// The name of the sum.
        kind: &'static str,
        /// What the hub says.
        expected: String,
        /// What the bytes have.
        found: String,
    },
    /// The disk is too small.
    #[error("{} more are needed in {}, where {} are free: make room, or set HF_HUB_CACHE to another disk",
        lamina_base::human_bytes(*.needed), .folder.display(), lamina_base::human_bytes(*.free))]
    Space {
        /// Where files go.
        folder: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A file of a store cannot be used.
    #[error("cannot {action} {}: {problem}", .path.display())]
    File {
        /// `read`, `write` or `lock`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// Not on this machine, and nothing is fetched.
    #[error(
        "{name} is not on this machine{missing}, and {why}: where there is a network, `lamina pull {name}` fetches it"
    )]
    NotHere {
        /// The name.
        name: String,
        /// What of it is missing, where a part of it is here; in brackets.
        missing: String,
        /// Why it is not fetched.
        why: &'static str,
    },
    /// The hub would have to be asked.
    #[error("the hub is not asked: {why}")]
    Offline {
        /// Who wants it so.
        why: &'static str,
    },
    /// Another program's store does not have it.
    #[error("{name}: {problem}")]
    Store {
        /// The name.
        name: String,
        /// What is missing, and what to do.
        problem: String,
    },
    /// The model would not run.
    #[error("{name} is not fetched: {why}")]
    Unfit {
        /// The name.
        name: String,
        /// What cannot be run.
        why: String,
    },
    /// Somebody gave up.
    #[error("stopped; what has arrived is kept for the next time")]
    Cancelled,
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, HubError>;

impl HubError {
    /// For errors of the system at a path.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> HubError {
        let path = path.into();
        move |e| HubError::File { action, path, problem: e.to_string() }
    }

    /// True where the same request may go well a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            HubError::Connection(_) | HubError::Answer { .. } => true,
            HubError::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502..=504),
            _ => false,
        }
    }

    /// True where no server can be reached: what is on this machine has to do.
    pub fn is_no_route(&self) -> bool {
        matches!(self, HubError::Connection(_))
    }
}

fn listed(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!("; there are: {}", files.join(", ")) }
}
