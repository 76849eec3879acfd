//! Metrics as they are added to a sheet.

use super::labels::ModelLabel;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry as Sheet,
};
use std::sync::atomic::AtomicU64;

/// Gauges by label.
pub(super) type Gauges<L> = Family<L, Gauge<f64, AtomicU64>>;
/// Counters of time by label.
pub(super) type Seconds<L> = Family<L, Counter<f64, AtomicU64>>;
/// Histograms by model.
pub(super) type Histograms = Family<ModelLabel, Histogram, fn() -> Histogram>;

/// Adds families to a sheet, under its prefix.
pub(super) struct Registrar<'a> {
    /// The sheet.
    pub sheet: &'a mut Sheet,
    /// What names begin with.
    pub prefix: &'a str,
}

impl Registrar<'_> {
    /// A metric.
    pub fn add<M: prometheus_client::registry::Metric + Clone>(
        &mut self,
        name: &str,
        doc: &str,
        metric: M,
    ) -> M {
        self.sheet.register(format!("{}:{name}", self.prefix), doc, metric.clone());
        metric
    }

    /// Counters by label.
    pub fn counter<L>(&mut self, name: &str, doc: &str) -> Family<L, Counter>
    where
        Family<L, Counter>: prometheus_client::registry::Metric + Default + Clone,
    {
        self.add(name, doc, Family::default())
    }

    /// Gauges by label.
    pub fn gauge<L>(&mut self, name: &str, doc: &str) -> Gauges<L>
    where
        Gauges<L>: prometheus_client::registry::Metric + Default + Clone,
    {
        self.add(name, doc, Family::default())
    }

    /// Histograms by model.
    pub fn histogram(&mut self, name: &str, doc: &str, new: fn() -> Histogram) -> Histograms {
        self.add(name, doc, Family::new_with_constructor(new))
    }
}
