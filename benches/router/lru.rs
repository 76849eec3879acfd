//! Replicas by a rule of thumb: an LRU of pieces, a queue of prompts, and answers that decode side by side. The slow twin of the
//! engines, to see what of a figure is theirs.

use crate::{
    Replicas, Served,
    gateways::{Gateways, Happened},
    machine::{ROW, SECONDS_OF_TOKEN, STEP},
    trace::{Asked, TOKENS},
};
use lamina_serve::router::RouteIndex;

pub struct LruReplicas {
    held: RouteIndex,
    /// When the prompts that it has are computed.
    free: Vec<f64>,
    /// When its answers end.
    ends: Vec<Vec<f64>>,
    served: Vec<Served>,
}

impl LruReplicas {
    pub fn new(replicas: usize, pieces: usize) -> LruReplicas {
        let (free, ends) = (vec![0.0; replicas], vec![vec![]; replicas]);
        LruReplicas { held: RouteIndex::new(replicas, pieces), free, ends, served: vec![] }
    }
}

impl Replicas for LruReplicas {
    fn advance(&mut self, to: f64, _: &mut Gateways) {
        self.ends.iter_mut().for_each(|ends| ends.retain(|&end| end > to));
    }

    fn cached(&mut self, asked: &Asked) -> Vec<usize> {
        self.held.found(&asked.names.names).into_iter().map(|pieces| pieces * TOKENS).collect()
    }

    fn waiting(&self, replica: usize, at: f64) -> f64 {
        (self.free[replica] - at).max(0.0)
    }

    fn running(&self, replica: usize) -> usize {
        self.ends[replica].len()
    }

    fn take(&mut self, number: usize, asked: &Asked, replica: usize, told: &mut Gateways) {
        let found = self.held.found(&asked.names.names)[replica] * TOKENS;
        // The last piece is always computed.
        let cached = found.min(asked.tokens.len() - TOKENS);
        let first =
            asked.at.max(self.free[replica]) + (asked.tokens.len() - cached) as f64 * SECONDS_OF_TOKEN;
        let end = first + asked.answer as f64 * (STEP + ROW * (self.running(replica) + 1) as f64);
        self.free[replica] = first;
        self.ends[replica].push(end);
        self.held.put(replica, &asked.names.names);
        told.tell(first, number, Happened::Begun);
        told.tell(end, number, Happened::Ended(None));
        self.served.push(Served { cached, first: first - asked.at });
    }

    fn served(self: Box<Self>) -> Vec<Served> {
        self.served
    }
}
