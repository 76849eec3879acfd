//! Histograms that engines keep themselves.

use lamina::Tally;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A histogram whose values were counted elsewhere. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct KeptHistogram {
    bounds: &'static [f64],
    tally: Arc<Mutex<Tally>>,
}

impl KeptHistogram {
    /// Of times.
    pub fn of_seconds() -> KeptHistogram {
        KeptHistogram { bounds: &Tally::SECONDS, tally: Arc::default() }
    }

    /// Of rows.
    pub fn of_rows() -> KeptHistogram {
        KeptHistogram { bounds: &Tally::ROWS, tally: Arc::default() }
    }

    /// Adds what has come since the last time.
    pub fn add(&self, more: &Tally) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add_since(more, &Tally::default());
    }
}

impl TypedMetric for KeptHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for KeptHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let tally = *self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        // The last bucket is that of everything above.
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(tally.counts).collect();
        let count = tally.counts.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(tally.sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
