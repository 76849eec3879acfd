//! A replica that joins gateways which did not start it, and joins each again when that one has gone and come back.

use super::{
    connection::listen,
    desk::{GatewayMembership, ReplicaDesk},
    engine::ReplicaEngine,
    info::identity,
};
use crate::{
    frames::{FrameKind, FrameLine},
    options::ServeOptions,
    router::ReplicaRole,
    server::StartError,
    ticket::{JoinChallenge, JoinHello, JoinNonces, JoinRequest, JoinVerdict},
};
use lamina_ranks::AppKey;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

/// How long gateways may be away or refuse before a replica that none has taken in gives up.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// A gateway that says nothing for so long is gone: those that live say so every two seconds, as replicas do.
const PATIENCE: Duration = Duration::from_secs(6);
const ALIVE: Duration = Duration::from_secs(2);
/// Bytes of what a gateway says to one that joins, at most.
const MOST_FRAME: usize = 1 << 20;

/// A replica that belongs to its gateways as long as it and one of them live. Dropping it ends it at once, whatever it answers.
pub struct JoinedReplica {
    engine: ReplicaEngine,
    over: mpsc::Receiver<Result<(), StartError>>,
}

/// What a replica needs to join.
struct JoinTerms {
    desk: Arc<ReplicaDesk>,
    /// Host that this process is reached at, and its port; none: where its connections come from, and any port.
    host: Option<String>,
    port: u16,
    key: AppKey,
    identity: String,
    role: ReplicaRole,
}

impl JoinedReplica {
    /// Loads the models as long as `keep` says so, and begins to join the gateways at these addresses. `host` is where this
    /// process is reached, as `HOST` or `HOST:PORT`; none where that is where its connections come from.
    ///
    /// # Errors
    /// When the models cannot be loaded, there is no key, prompts are to be computed for others and no folder is there to share,
    /// or the system gives no thread.
    pub fn start(
        options: ServeOptions,
        addresses: &[String],
        host: Option<&str>,
        role: ReplicaRole,
        keep: impl FnMut() -> bool,
    ) -> Result<JoinedReplica, StartError> {
        let key = match &options.app_key {
            Some(key) => AppKey::new(key),
            None => AppKey::of_environment(),
        };
        let key = key.map_err(|e| StartError::Access(e.to_string()))?;
        if role == ReplicaRole::Prefill && !options.model.load.keeps_prompts() {
            return Err(StartError::Unshared);
        }
        let engine = ReplicaEngine::start(options)?;
        engine.wait_for_models(keep)?;
        let (host, port) = host.map_or((None, 0), named_port);
        let desk = ReplicaDesk::new(&engine.app, engine.routes(), role);
        let terms = JoinTerms { desk, host, port, key, identity: identity(&engine.app), role };
        let (tell, over) = mpsc::channel();
        let addresses = addresses.to_vec();
        engine.threads.spawn(async move { _ = tell.send(terms.stay_at_all(addresses).await) });
        Ok(JoinedReplica { engine, over })
    }

    /// Waits for the end for at most `time`: a gateway has let go of this replica, or none can be joined.
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
    /// Stays at each of these gateways, until one has let go of this replica.
    async fn stay_at_all(self, mut addresses: Vec<String>) -> Result<(), StartError> {
        addresses.sort();
        addresses.dedup();
        let (terms, mut stays) = (Arc::new(self), JoinSet::new());
        for address in addresses {
            let terms = terms.clone();
            stays.spawn(async move { terms.stay(address).await });
        }
        let mut end = Ok(());
        while let Some(stay) = stays.join_next().await {
            match stay.map_err(|e| StartError::Thread(e.into())).and_then(|stay| stay) {
                Err(e) if stays.is_empty() && !terms.desk.leave.is_cancelled() => end = Err(e),
                Err(e) => eprintln!("error: {e}"),
                Ok(()) => {}
            }
        }
        end
    }

    /// Joins, again and again, until the gateway lets go of this replica. As long as another gateway has taken it in, one that
    /// is away is waited for.
    async fn stay(&self, address: String) -> Result<(), StartError> {
        let mut since = Instant::now();
        while !self.desk.leave.is_cancelled() {
            let (why, again) = match self.join(&address).await {
                Ok(JoinEnd::Left) => return Ok(()),
                Ok(JoinEnd::Lost(e)) => {
                    since = Instant::now();
                    (e.to_string(), true)
                }
                Ok(JoinEnd::Refused { why, again }) => (why, again),
                Err(e) => (e.to_string(), true),
            };
            if self.desk.has_gateway() {
                since = Instant::now();
            }
            if !again || since.elapsed() >= GIVE_UP {
                return Err(StartError::Gateway { address, why });
            }
            _ = timeout(PAUSE, self.desk.leave.cancelled()).await;
        }
        Ok(())
    }

    /// Joins once, and stays as long as the connection does.
    async fn join(&self, address: &str) -> io::Result<JoinEnd> {
        let connect = timeout(PATIENCE, TcpStream::connect(address));
        let stream = connect.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let here = stream.local_addr()?.ip();
        let mut line = FrameLine::new(stream, MOST_FRAME);
        let port = listen(&self.desk, SocketAddr::new(self.bound(here), self.port)).await?;
        let challenge: JoinChallenge = line.value(FrameKind::Challenge, PATIENCE).await?;
        let hello = serde_json::to_string(&JoinHello {
            host: self.host.clone(),
            port,
            boot: self.desk.boot,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: self.identity.clone(),
            role: self.role,
        })?;
        let nonces = JoinNonces { gateway: challenge.nonce, replica: JoinNonces::fresh() };
        let proof = nonces.of_replica(&self.key, &hello);
        let request = JoinRequest { nonce: nonces.replica.clone(), hello, proof };
        // The first request may come before the verdict is read. Who has not the app's key cannot make this one.
        let member = self.desk.admit(nonces.ticket_key(&self.key));
        line.send_value(FrameKind::Join, &request).await?;
        match line.value(FrameKind::Verdict, PATIENCE).await? {
            JoinVerdict::Refused { why, again } => return Ok(JoinEnd::Refused { why, again }),
            JoinVerdict::Joined { proof, .. } if !nonces.is_gateway(&self.key, &proof) => {
                let why = "the gateway does not have the key".to_owned();
                return Ok(JoinEnd::Refused { why, again: false });
            }
            JoinVerdict::Joined { .. } => member.begins(),
        }
        Ok(self.attend(&mut line, &member).await.unwrap_or_else(JoinEnd::Lost))
    }

    /// Stays until the gateway is gone, or lets go. Meanwhile it is told what others ask.
    async fn attend(&self, line: &mut FrameLine, member: &GatewayMembership) -> io::Result<JoinEnd> {
        let mut beat = interval(ALIVE);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (before, mut news) = self.desk.news.listen();
        line.write(&before).await?;
        let mut leaves = false;
        loop {
            tokio::select! {
                frame = line.next(PATIENCE) => if frame?.0 == FrameKind::Leave {
                    self.desk.leave.cancel();
                    return Ok(JoinEnd::Left);
                },
                _ = beat.tick() => line.send(FrameKind::Alive, &[]).await?,
                // One that has missed some joins again, and is told all.
                item = news.recv() => match item.map_err(io::Error::other)? {
                    item if item.from == member.number => {}
                    item => line.send(item.kind, &item.payload).await?,
                },
                () = self.desk.leave.cancelled(), if !leaves => {
                    leaves = true;
                    line.send(FrameKind::Leave, &[]).await?;
                }
            }
        }
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
