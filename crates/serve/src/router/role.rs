//! What a replica is there for.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What a replica is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaRole {
    /// Prompts and their answers.
    #[default]
    Mixed,
    /// Prompts: their answers go on in the others, which find what it has computed in the folder that all share.
    Prefill,
}

impl FromStr for ReplicaRole {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplicaRole, String> {
        match text {
            "mixed" => Ok(ReplicaRole::Mixed),
            "prefill" => Ok(ReplicaRole::Prefill),
            _ => Err("a replica's role is mixed or prefill".into()),
        }
    }
}
