//! How an engine is reached.

use std::net::{Ipv4Addr, SocketAddr};

/// Where an engine takes requests, and what each of them has to carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplicaDoor {
    pub address: SocketAddr,
    pub key: String,
}

impl ReplicaDoor {
    /// That of a process of this machine.
    pub fn here(port: u16, key: &str) -> ReplicaDoor {
        ReplicaDoor { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), key: key.to_owned() }
    }
}
