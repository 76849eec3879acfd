//! What the gateways of a replica share: who may send requests, where these come in, and the end.

use super::news::RequestNews;
use crate::{app::App, router::ReplicaRole};
use axum::Router;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use subtle::ConstantTimeEq;
use tokio::sync::Mutex as SharedMutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A replica, as its gateways see it.
pub(super) struct ReplicaDesk {
    pub app: App,
    pub routes: Router,
    pub role: ReplicaRole,
    /// What no other process has: gateways agree by it which replica they mean.
    pub boot: u64,
    pub news: Arc<RequestNews>,
    /// A gateway has let this replica go, so that all others are to do so.
    pub leave: CancellationToken,
    keys: Mutex<Vec<GatewayKey>>,
    numbers: AtomicUsize,
    /// The port behind each address that is listened on.
    pub ports: SharedMutex<HashMap<SocketAddr, u16>>,
}

/// What the requests of a gateway carry.
struct GatewayKey {
    number: usize,
    key: String,
    /// The gateway has taken this replica in.
    joined: bool,
}

impl ReplicaDesk {
    /// For the server of a replica.
    pub fn new(app: &App, routes: Router, role: ReplicaRole) -> Arc<ReplicaDesk> {
        Arc::new(ReplicaDesk {
            app: app.clone(),
            routes,
            role,
            boot: Uuid::new_v4().as_u64_pair().0,
            news: RequestNews::new(),
            leave: CancellationToken::new(),
            keys: Mutex::default(),
            numbers: AtomicUsize::new(0),
            ports: SharedMutex::default(),
        })
    }

    /// Requests with this key are taken until the membership is dropped; those that run go on.
    pub fn admit(self: &Arc<ReplicaDesk>, key: String) -> GatewayMembership {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.keys().push(GatewayKey { number, key, joined: false });
        GatewayMembership { desk: self.clone(), number }
    }

    /// The number of the gateway whose requests carry this key.
    pub fn gateway_of(&self, key: &str) -> Option<usize> {
        let is_it = |known: &str| bool::from(known.as_bytes().ct_eq(key.as_bytes()));
        self.keys().iter().find(|known| is_it(&known.key)).map(|known| known.number)
    }

    /// True where a gateway has taken this replica in.
    pub fn has_gateway(&self) -> bool {
        self.keys().iter().any(|known| known.joined)
    }

    fn keys(&self) -> MutexGuard<'_, Vec<GatewayKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gateway that may send requests.
pub(super) struct GatewayMembership {
    desk: Arc<ReplicaDesk>,
    pub number: usize,
}

impl GatewayMembership {
    /// The gateway has taken this replica in.
    pub fn begins(&self) {
        self.desk
            .keys()
            .iter_mut()
            .filter(|known| known.number == self.number)
            .for_each(|known| known.joined = true);
    }
}

impl Drop for GatewayMembership {
    fn drop(&mut self) {
        self.desk.keys().retain(|known| known.number != self.number);
    }
}
