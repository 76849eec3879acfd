//! Why a model could not be run on several machines.

use lamina_plan::BackendError;
use std::io;

/// Why a model could not be run on several machines.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The connection ended or was damaged.
    #[error("the connection ended: {0}")]
    Line(#[from] io::Error),
    /// A frame that is not understood where it came.
    #[error("{0}: both sides must be of one version of Lamina")]
    Frame(String),
    /// The other side has another key, or none.
    #[error("the other side has another key: set LAMINA_APP_KEY to the same text on all machines")]
    Key,
    /// The rank serves another leader.
    #[error("it computes layers for {0} already")]
    Busy(String),
    /// What failed, in words for people: those of the other side, or of this one about it.
    #[error("{0}")]
    Told(String),
    /// The machine of this side failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl From<serde_json::Error> for RankError {
    fn from(e: serde_json::Error) -> Self {
        RankError::Frame(format!("a message is damaged ({e})"))
    }
}
