//! Gateways with a router each, which hear of one another's requests through the replicas, some time later.

use crate::trace::Asked;
use lamina_serve::router::{ReplicaRouter, RouteRates, RouteTarget, Routed};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

/// What happened to a request.
#[derive(Clone, Copy, PartialEq)]
pub enum Happened {
    /// Another gateway has sent it to a replica.
    Sent(usize),
    /// Its answer has begun.
    Begun,
    /// Its answer has ended: bytes of its prompt that were computed, seconds of these, seconds of its answer; none where
    /// nobody measured.
    Ended(Option<[f64; 3]>),
}

pub struct Gateways<'a> {
    asked: &'a [Asked],
    routers: Vec<ReplicaRouter>,
    able: Vec<RouteTarget>,
    /// Seconds after which the others hear.
    late: f64,
    /// By when in microseconds they are heard, and in order: gateway, request, and what became of it.
    news: BTreeMap<(u64, u64), (usize, usize, Happened)>,
    told: u64,
    /// Whose a request is.
    of: HashMap<usize, usize>,
    /// What the router of a gateway counts of a request.
    routed: HashMap<(usize, usize), Routed>,
    /// That choices have taken.
    pub choices: Duration,
}

impl<'a> Gateways<'a> {
    /// For replicas with room for so many names.
    pub fn new(
        asked: &'a [Asked],
        gateways: usize,
        late: f64,
        (replicas, room): (usize, usize),
    ) -> Gateways<'a> {
        Gateways {
            asked,
            routers: vec![ReplicaRouter::new(replicas, room); gateways],
            able: (0..replicas).map(|r| RouteTarget::mixed(r, r as u64)).collect(),
            late,
            news: BTreeMap::new(),
            told: 0,
            of: HashMap::new(),
            routed: HashMap::new(),
            choices: Duration::ZERO,
        }
    }

    /// What everything takes is known before the first answer.
    pub fn know(&mut self, rates: RouteRates) {
        self.routers.iter_mut().for_each(|router| router.rates = rates);
    }

    /// Which replica a gateway chooses for a request.
    pub fn choose(&mut self, gateway: usize, number: usize) -> usize {
        let begun = Instant::now();
        let chosen = self.routers[gateway].choose(&self.asked[number].names, &self.able);
        self.choices += begun.elapsed();
        chosen.expect("a replica")
    }

    /// A gateway sends a request.
    pub fn send(&mut self, at: f64, gateway: usize, number: usize, replica: usize) {
        self.of.insert(number, gateway);
        self.take(gateway, number, Happened::Sent(replica));
        for other in (0..self.routers.len()).filter(|&other| other != gateway) {
            self.note(at + self.late, other, number, Happened::Sent(replica));
        }
    }

    /// Something happens to a request at a replica.
    pub fn tell(&mut self, at: f64, number: usize, what: Happened) {
        for gateway in 0..self.routers.len() {
            let late = if self.of.get(&number) == Some(&gateway) { 0.0 } else { self.late };
            self.note(at + late, gateway, number, what);
        }
    }

    fn note(&mut self, at: f64, gateway: usize, number: usize, what: Happened) {
        self.told += 1;
        self.news.insert(((at * 1e6) as u64, self.told), (gateway, number, what));
    }

    /// All gateways hear what has come to them until now.
    pub fn hear(&mut self, until: f64) {
        while let Some(entry) = self.news.first_entry() {
            if entry.key().0 > (until * 1e6) as u64 {
                break;
            }
            let (gateway, number, what) = entry.remove();
            self.take(gateway, number, what);
        }
    }

    fn take(&mut self, gateway: usize, number: usize, what: Happened) {
        let router = &mut self.routers[gateway];
        let place = (gateway, number);
        match what {
            Happened::Sent(replica) => {
                let routed = router.send(&self.asked[number].names, replica, replica as u64);
                self.routed.insert(place, routed);
            }
            Happened::Begun => {
                self.routed.get_mut(&place).into_iter().for_each(|routed| router.begun(routed))
            }
            Happened::Ended(measured) => {
                self.routed.remove(&place).into_iter().for_each(|routed| router.ended(routed));
                // As a gateway does: of the answers that it carried itself.
                if let Some([bytes, prompt, answer]) =
                    measured.filter(|_| self.of.get(&number) == Some(&gateway))
                {
                    router.measured(bytes, prompt, answer);
                }
            }
        }
    }
}
