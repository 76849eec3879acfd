//! A replica that joins a gateway which did not start it, and joins again when that one has gone and come back.

use super::{connection, engine::ReplicaEngine, info::identity};
use crate::{
    app::App,
    frames::{FrameKind, FrameLine},
    options::ServeOptions,
    server::StartError,
    ticket::{AppKey, JoinChallenge, JoinHello, JoinNonces, JoinRequest, JoinVerdict},
};
use axum::Router;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use uuid::Uuid;

/// How long a gateway may be away or refuse before a replica gives up.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// A gateway that says nothing for so long is gone: those that live say so every two seconds, as replicas do.
const PATIENCE: Duration = Duration::from_secs(6);
const ALIVE: Duration = Duration::from_secs(2);
/// Bytes of what a gateway says to one that joins, at most.
const MOST_FRAME: usize = 1 << 20;

/// A replica that belongs to a gateway as long as both live. Dropping it ends it at once, whatever it answers.
pub struct JoinedReplica {
    engine: ReplicaEngine,
    over: mpsc::Receiver<Result<(), StartError>>,
}

/// What a replica needs to join.
struct JoinTerms {
    app: App,
    routes: Router,
    /// Of the gateway.
    address: String,
    /// Host that this process is reached at, and its port; none: where its connections come from, and any port.
    host: Option<String>,
    port: u16,
    key: AppKey,
    identity: String,
}

impl JoinedReplica {
    /// Loads the models as long as `keep` says so, and begins to join the gateway at this address. `host` is where this process is
    /// reached, as `HOST` or `HOST:PORT`; none where that is where its connections come from.
    ///
    /// # Errors
    /// When the models cannot be loaded, there is no key, or the system gives no thread.
    pub fn start(
        options: ServeOptions,
        address: &str,
        host: Option<&str>,
        keep: impl FnMut() -> bool,
    ) -> Result<JoinedReplica, StartError> {
        let key = match &options.app_key {
            Some(key) => AppKey::new(key),
            None => AppKey::of_environment(),
        };
        let key = key.map_err(|e| StartError::Access(e.to_string()))?;
        let engine = ReplicaEngine::start(options)?;
        engine.wait_for_models(keep)?;
        let (host, port) = host.map_or((None, 0), named_port);
        let terms = JoinTerms {
            app: engine.app.clone(),
            routes: engine.routes(),
            address: address.to_owned(),
            host,
            port,
            key,
            identity: identity(&engine.app),
        };
        let (tell, over) = mpsc::channel();
        engine.threads.spawn(async move { _ = tell.send(terms.stay().await) });
        Ok(JoinedReplica { engine, over })
    }

    /// Waits for the end for at most `time`: the gateway has let go of this replica, or it cannot be joined.
    pub fn wait_within(&self, time: Duration) -> Option<Result<(), StartError>> {
        self.over.recv_timeout(time).ok()
    }

    /// Names of the models that it has.
    pub fn models(&self) -> Vec<String> {
        self.engine.app.models.first().iter().map(|slot| slot.name.clone()).collect()
    }
}

/// A host, and its port where one is named.
fn named_port(text: &str) -> (Option<String>, u16) {
    let plain = |text: &str| Some(text.trim_matches(['[', ']']).to_owned());
    match text.rsplit_once(':') {
        // An address of IPv6 without brackets has colons of its own.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            port.parse().map_or((plain(text), 0), |port| (plain(host), port))
        }
        _ => (plain(text), 0),
    }
}

/// How a stay at a gateway has ended.
enum JoinEnd {
    /// The gateway wants this process to end.
    Left,
    /// The connection has ended after it had joined.
    Lost(io::Error),
    /// It has not joined.
    Refused { why: String, again: bool },
}

impl JoinTerms {
    /// Joins, again and again, until the gateway lets go of this replica.
    async fn stay(self) -> Result<(), StartError> {
        let mut since = Instant::now();
        loop {
            let (why, again) = match self.join().await {
                Ok(JoinEnd::Left) => return Ok(()),
                Ok(JoinEnd::Lost(e)) => {
                    since = Instant::now();
                    (e.to_string(), true)
                }
                Ok(JoinEnd::Refused { why, again }) => (why, again),
                Err(e) => (e.to_string(), true),
            };
            if !again || since.elapsed() >= GIVE_UP {
                return Err(StartError::Gateway { address: self.address, why });
            }
            sleep(PAUSE).await;
        }
    }

    /// Joins once, and stays as long as the connection does.
    async fn join(&self) -> io::Result<JoinEnd> {
        let connect = timeout(PATIENCE, TcpStream::connect(&self.address));
        let stream = connect.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let here = stream.local_addr()?.ip();
        let mut line = FrameLine::new(stream, MOST_FRAME);
        let listener = TcpListener::bind(SocketAddr::new(self.bound(here), self.port)).await?;
        let challenge: JoinChallenge = line.value(FrameKind::Challenge, PATIENCE).await?;
        let hello = serde_json::to_string(&JoinHello {
            host: self.host.clone(),
            port: listener.local_addr()?.port(),
            boot: Uuid::new_v4().as_u64_pair().0,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: self.identity.clone(),
        })?;
        let nonces = JoinNonces { gateway: challenge.nonce, replica: JoinNonces::fresh() };
        let proof = nonces.of_replica(&self.key, &hello);
        let request = JoinRequest { nonce: nonces.replica.clone(), hello, proof };
        line.send_value(FrameKind::Join, &request).await?;
        match line.value(FrameKind::Verdict, PATIENCE).await? {
            JoinVerdict::Refused { why, again } => return Ok(JoinEnd::Refused { why, again }),
            JoinVerdict::Joined { proof, .. } if !nonces.is_gateway(&self.key, &proof) => {
                let why = "the gateway does not have the key".to_owned();
                return Ok(JoinEnd::Refused { why, again: false });
            }
            JoinVerdict::Joined { .. } => {}
        }
        let key = nonces.ticket_key(&self.key).as_str().into();
        let accepts = tokio::spawn(connection::accept(self.app.clone(), self.routes.clone(), key, listener));
        let _open = OpenDoor(accepts.abort_handle());
        Ok(attend(&mut line).await.unwrap_or_else(JoinEnd::Lost))
    }

    /// The address to listen on: the one that the gateway sees, or all where another was named.
    fn bound(&self, here: IpAddr) -> IpAddr {
        match (&self.host, here) {
            (None, here) => here,
            (Some(_), IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (Some(_), IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// Requests are taken until this is dropped; those that run go on.
struct OpenDoor(AbortHandle);

impl Drop for OpenDoor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stays until the gateway is gone, or lets go.
async fn attend(line: &mut FrameLine) -> io::Result<JoinEnd> {
    let mut beat = interval(ALIVE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            frame = line.next(PATIENCE) => if frame?.0 == FrameKind::Leave { return Ok(JoinEnd::Left) },
            _ = beat.tick() => line.send(FrameKind::Alive, &[]).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::named_port;

    #[test]
    fn hosts_may_have_ports() {
        let named = |text| {
            let (host, port) = named_port(text);
            (host.unwrap_or_default(), port)
        };
        let of = |host: &str, port| (host.to_owned(), port);
        assert_eq!(named("node-3"), of("node-3", 0));
        assert_eq!(named("10.0.0.2:9000"), of("10.0.0.2", 9000));
        assert_eq!(named("[fd00::2]:9000"), of("fd00::2", 9000));
        assert_eq!(named("fd00::2"), of("fd00::2", 0));
    }
}
