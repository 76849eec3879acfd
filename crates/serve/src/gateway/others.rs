//! What other gateways ask of a replica, as it says itself.

use super::{Gateway, lock::held};
use crate::{frames::FrameKind, router::Routed, ticket::RouteNews};
use std::collections::HashMap;

/// The requests of other gateways at a replica, as long as it is connected.
pub(super) struct OtherRequests {
    gateway: Gateway,
    replica: usize,
    boot: u64,
    running: HashMap<u64, Routed>,
}

impl OtherRequests {
    /// Of the process with this boot in the place of this number.
    pub fn new(gateway: &Gateway, replica: usize, boot: u64) -> OtherRequests {
        OtherRequests { gateway: gateway.clone(), replica, boot, running: HashMap::new() }
    }

    /// Takes a message of the replica; others than these mean nothing here.
    pub fn take(&mut self, kind: FrameKind, payload: &[u8]) {
        match kind {
            FrameKind::News => RouteNews::read(payload).into_iter().for_each(|news| self.hear(news)),
            FrameKind::Kept => {
                let kept = serde_json::from_slice(payload).unwrap_or_default();
                self.gateway.app.kept.read(&kept);
            }
            _ => {}
        }
    }

    fn hear(&mut self, news: RouteNews) {
        let mut router = held(&self.gateway.router);
        match news {
            RouteNews::Holds(names) => router.holds(&names.names, self.replica, self.boot),
            RouteNews::Asked { number, request } => {
                self.running.insert(number, router.send(&request, self.replica, self.boot));
            }
            RouteNews::Begun(number) => {
                self.running.get_mut(&number).into_iter().for_each(|routed| router.begun(routed));
            }
            RouteNews::Over(number) => {
                self.running.remove(&number).into_iter().for_each(|routed| router.ended(routed));
            }
        }
    }
}

impl Drop for OtherRequests {
    fn drop(&mut self) {
        let mut router = held(&self.gateway.router);
        self.running.drain().for_each(|(_, routed)| router.ended(routed));
    }
}
