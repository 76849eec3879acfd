//! A replica's place behind its gateway, and its first word.

use serde::{Deserialize, Serialize};

/// The environment variable that makes a server a replica.
pub const PLACE: &str = "LAMINA_REPLICA";

/// A replica's place behind its gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaPlace {
    /// Which of the replicas.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// What the gateway's requests carry.
    pub key: String,
}

/// What a replica tells its gateway at its start, as a line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaHello {
    /// Port of this machine that takes requests.
    pub port: u16,
    /// What no other start of a replica has.
    pub boot: u64,
}

impl ReplicaPlace {
    /// The place of this process, where it is a replica.
    pub fn of_environment() -> Option<ReplicaPlace> {
        let text = std::env::var(PLACE).ok()?;
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next()?.parse().ok();
        Some(ReplicaPlace { number: number()?, of: number()?, key: parts.next()?.to_owned() })
    }

    /// As the environment variable has it.
    pub fn text(&self) -> String {
        format!("{}:{}:{}", self.number, self.of, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let place = ReplicaPlace { number: 1, of: 2, key: "a:b".into() };
        let mut parts = place.text();
        assert_eq!(parts, "1:2:a:b");
        parts.truncate(3);
        assert!(ReplicaPlace::of_environment().is_none());
    }
}
