//! How a leader and a rank meet: each proves that it has the key, by what was never said before.

use crate::{
    AppKey, RankError, Result,
    line::{RankLine, StageFrame},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};
use uuid::Uuid;

/// Who proves something: neither proof can be sent back as the other.
const LEADER: &str = "lamina leader";
const RANK: &str = "lamina rank";
/// How long an address is tried.
const REACHED: Duration = Duration::from_secs(10);
/// Frames and plans are those of one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize, Deserialize)]
struct RankChallenge {
    nonce: String,
    version: String,
    /// Whom it serves.
    busy: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct LeaderJoin {
    nonce: String,
    proof: String,
}

/// What only who has the key can say; nothing where there is none.
fn proof(key: Option<&AppKey>, texts: &[&str]) -> String {
    key.map_or_else(String::new, |key| key.proof(texts))
}

fn proves(key: Option<&AppKey>, proof: &str, texts: &[&str]) -> Result<()> {
    let holds = key.map_or(proof.is_empty(), |key| key.proves(proof, texts));
    if holds { Ok(()) } else { Err(RankError::Key) }
}

/// Meets a leader that has connected.
///
/// # Errors
/// When it is gone or has another key, or `busy` names another one that is served, which it is told.
pub fn greet(stream: TcpStream, key: Option<&AppKey>, busy: Option<String>) -> Result<RankLine> {
    let mut line = RankLine::new(stream)?;
    let nonce = Uuid::new_v4().simple().to_string();
    let challenge = RankChallenge { nonce: nonce.clone(), version: VERSION.into(), busy: busy.clone() };
    line.send_value(StageFrame::Challenge, &challenge)?;
    if let Some(other) = busy {
        return Err(RankError::Busy(other));
    }
    let join: LeaderJoin = line.next_value(StageFrame::Join)?;
    if let Err(e) = proves(key, &join.proof, &[LEADER, &nonce, &join.nonce]) {
        _ = line.refuse(&e.to_string());
        return Err(e);
    }
    line.send_value(StageFrame::Welcome, &proof(key, &[RANK, &nonce, &join.nonce]))?;
    line.trust()?;
    Ok(line)
}

/// A connection to the first address of a name that takes one.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, REACHED) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Meets the rank at this address.
///
/// # Errors
/// When nobody is there, it serves another leader, is of another version, or has another key.
pub fn join(address: &str, key: Option<&AppKey>) -> Result<RankLine> {
    let stream = connect(address).map_err(|e| RankError::Told(format!("it cannot be reached: {e}")))?;
    let mut line = RankLine::new(stream)?;
    let challenge: RankChallenge = line.next_value(StageFrame::Challenge)?;
    if challenge.version != VERSION {
        return Err(RankError::Frame(format!("it is of version {}, this is {VERSION}", challenge.version)));
    }
    if let Some(other) = challenge.busy {
        return Err(RankError::Busy(other));
    }
    let nonce = Uuid::new_v4().simple().to_string();
    let own = proof(key, &[LEADER, &challenge.nonce, &nonce]);
    line.send_value(StageFrame::Join, &LeaderJoin { nonce: nonce.clone(), proof: own })?;
    let theirs: String = line.next_value(StageFrame::Welcome)?;
    proves(key, &theirs, &[RANK, &challenge.nonce, &nonce])?;
    line.trust()?;
    Ok(line)
}
