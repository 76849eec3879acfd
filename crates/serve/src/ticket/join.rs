//! What a gateway and a replica that somebody else has started say to each other when it joins. Each names something that
//! was never said before, and proves by it that it has the key of the app.

use crate::router::ReplicaRole;
use lamina_ranks::AppKey;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Who proves something: neither proof can be sent back as the other.
const REPLICA: &str = "lamina replica";
const GATEWAY: &str = "lamina gateway";
const TICKETS: &str = "lamina tickets";

/// What a gateway says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinChallenge {
    /// What no other connection has.
    pub nonce: String,
    /// The gateway's version: frames are those of one version.
    pub version: String,
}

/// What a replica answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// What no other connection has.
    pub nonce: String,
    /// A [`JoinHello`] as JSON, as it is proven.
    pub hello: String,
    /// That it has the key.
    pub proof: String,
}

/// Who joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinHello {
    /// Host it is reached at; none: where its connection comes from.
    pub host: Option<String>,
    /// Port that takes requests.
    pub port: u16,
    /// What no other join has.
    pub boot: u64,
    /// Its process, on its machine.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What its answers depend on: answers move only between those that say the same.
    pub identity: String,
    /// What it is there for.
    pub role: ReplicaRole,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinVerdict {
    /// It is one of the replicas.
    Joined {
        /// Which.
        number: usize,
        /// That the gateway has the key too.
        proof: String,
    },
    /// It is not.
    Refused {
        /// Why.
        why: String,
        /// Trying again may help.
        again: bool,
    },
}

/// The two names of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinNonces {
    /// The gateway's.
    pub gateway: String,
    /// The replica's.
    pub replica: String,
}

impl JoinNonces {
    /// A name that nobody has said before.
    pub fn fresh() -> String {
        Uuid::new_v4().simple().to_string()
    }

    /// That a replica has the key, and says this of itself.
    pub fn of_replica(&self, key: &AppKey, hello: &str) -> String {
        key.proof(&[REPLICA, &self.gateway, &self.replica, hello])
    }

    /// True where a replica with the key says this of itself.
    pub fn is_replica(&self, key: &AppKey, request: &JoinRequest) -> bool {
        key.proves(&request.proof, &[REPLICA, &self.gateway, &self.replica, &request.hello])
    }

    /// That a gateway has the key.
    pub fn of_gateway(&self, key: &AppKey) -> String {
        key.proof(&[GATEWAY, &self.gateway, &self.replica])
    }

    /// True where a gateway with the key says so.
    pub fn is_gateway(&self, key: &AppKey, proof: &str) -> bool {
        key.proves(proof, &[GATEWAY, &self.gateway, &self.replica])
    }

    /// What the requests carry that the gateway sends to this replica: who sees it knows nothing of the app's key.
    pub fn ticket_key(&self, key: &AppKey) -> String {
        key.proof(&[TICKETS, &self.gateway, &self.replica])
    }
}
