//! Replicas that somebody else starts: each joins by a connection of its own, and is one of the replicas while that lasts.

use super::{
    Gateway,
    door::ReplicaDoor,
    link::{MOST_FRAME, PATIENCE},
    lock::held,
    others::OtherRequests,
    replicas::{Replica, ReplicaLife},
};
use crate::{
    frames::{FrameKind, FrameLine},
    options::ServeOptions,
    ticket::{JoinChallenge, JoinHello, JoinNonces, JoinRequest, JoinVerdict},
};
use lamina_ranks::AppKey;
use std::{
    io,
    net::{SocketAddr, TcpListener as BoundListener},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, lookup_host},
    time::{MissedTickBehavior, interval, sleep},
};

/// How often both sides say that they live.
const ALIVE: Duration = Duration::from_secs(2);
/// How often a replica that is to end is looked at: its answers go on elsewhere first.
const TICK: Duration = Duration::from_millis(20);
/// After an error of accepting.
const BREATH: Duration = Duration::from_millis(100);
/// Bytes of what a replica says when it joins, at most: nothing more is held for who has no key.
const MOST_HELLO: usize = 1 << 20;

/// Where replicas join.
pub(super) struct JoinDesk {
    pub address: SocketAddr,
    key: AppKey,
    /// Until the gateway listens.
    listener: Mutex<Option<BoundListener>>,
}

impl JoinDesk {
    /// The desk that the options ask for.
    ///
    /// # Errors
    /// When there is no key, or the address cannot be listened on.
    pub fn open(options: &ServeOptions) -> io::Result<Option<JoinDesk>> {
        let Some(at) = &options.replicas_join else { return Ok(None) };
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        if options.replicas > 1 || !options.models.is_empty() || options.models_dir.is_some() {
            let text = "with --replicas-join the models are those of the replicas that join: \
                        give none here, and no --replicas";
            return Err(wrong(text.into()));
        }
        let key = match &options.app_key {
            Some(key) => AppKey::new(key),
            None => AppKey::of_environment(),
        };
        let key = key.map_err(|e| wrong(e.to_string()))?;
        let taken = |e: io::Error| io::Error::new(e.kind(), format!("{at} cannot be listened on: {e}"));
        let listener = BoundListener::bind(at).map_err(taken)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Some(JoinDesk { address, key, listener: Mutex::new(Some(listener)) }))
    }
}

impl Gateway {
    /// Takes replicas in that join, where they may.
    pub(super) async fn admit(&self) {
        let Some(desk) = &self.desk else { return };
        let Some(Ok(listener)) = held(&desk.listener).take().map(TcpListener::from_std) else { return };
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                sleep(BREATH).await;
                continue;
            };
            let gateway = self.clone();
            tokio::spawn(async move {
                if let Some(desk) = &gateway.desk {
                    // Whoever it was knows why: its connection has ended.
                    _ = gateway.welcome(desk, stream, peer).await;
                }
            });
        }
    }

    /// One connection: the replica's life is as long.
    async fn welcome(&self, desk: &JoinDesk, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let mut line = FrameLine::new(stream, MOST_HELLO);
        let (gateway, version) = (JoinNonces::fresh(), env!("CARGO_PKG_VERSION").to_owned());
        let challenge = JoinChallenge { nonce: gateway.clone(), version };
        line.send_value(FrameKind::Challenge, &challenge).await?;
        let request: JoinRequest = line.value(FrameKind::Join, PATIENCE).await?;
        let nonces = JoinNonces { gateway, replica: request.nonce.clone() };
        if !nonces.is_replica(&desk.key, &request) {
            return refuse(&mut line, "the gateway has another key", false).await;
        }
        let hello: JoinHello = serde_json::from_str(&request.hello)?;
        if hello.version != challenge.version {
            let why = format!("the gateway is of version {}", challenge.version);
            return refuse(&mut line, &why, false).await;
        }
        let address = match &hello.host {
            None => SocketAddr::new(peer.ip(), hello.port),
            Some(host) => match lookup_host((host.as_str(), hello.port)).await?.next() {
                Some(address) => address,
                None => return refuse(&mut line, &format!("{host} has no address here"), true).await,
            },
        };
        let door = ReplicaDoor { address, key: nonces.ticket_key(&desk.key) };
        let life = ReplicaLife::new(hello.boot, door, hello.pid).of(&hello.identity, hello.role);
        match self.replicas.admit(&life) {
            Err(why) => refuse(&mut line, &why, true).await,
            Ok(replica) => {
                let _member = Member(replica.clone());
                let proof = nonces.of_gateway(&desk.key);
                let verdict = JoinVerdict::Joined { number: replica.number, proof };
                line.send_value(FrameKind::Verdict, &verdict).await?;
                line.allow(MOST_FRAME);
                let others = OtherRequests::new(self, replica.number, life.boot);
                attend(&mut line, &replica, &life, others).await
            }
        }
    }
}

/// A replica that is one of them until this is dropped.
struct Member(Arc<Replica>);

impl Drop for Member {
    fn drop(&mut self) {
        // How its process has ended is known where it was started.
        self.0.down(None);
    }
}

async fn refuse(line: &mut FrameLine, why: &str, again: bool) -> io::Result<()> {
    let verdict = JoinVerdict::Refused { why: why.to_owned(), again };
    line.send_value(FrameKind::Verdict, &verdict).await
}

/// Stays with a replica until its connection ends, or it is to end and all of its answers have left.
async fn attend(
    line: &mut FrameLine,
    replica: &Replica,
    life: &ReplicaLife,
    mut others: OtherRequests,
) -> io::Result<()> {
    let mut beat = interval(ALIVE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let left = async {
        life.leave.cancelled().await;
        while !replica.is_leaving() {
            sleep(TICK).await;
        }
    };
    tokio::pin!(left);
    loop {
        tokio::select! {
            frame = line.next(PATIENCE) => match frame? {
                // Another gateway has let it go: what it answers for this one goes on elsewhere, too.
                (FrameKind::Leave, _) => life.leave.cancel(),
                (kind, payload) => others.take(kind, &payload),
            },
            _ = beat.tick() => line.send(FrameKind::Alive, &[]).await?,
            () = &mut left => return line.send(FrameKind::Leave, &[]).await,
        }
    }
}
