//! What became of the spans of requests.

use super::registrar::Registrar;
use prometheus_client::metrics::counter::Counter;

/// What became of the spans of requests. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct SpanMetrics {
    /// The collector has taken them.
    pub sent: Counter,
    /// It did not, or too many waited.
    pub dropped: Counter,
}

impl SpanMetrics {
    pub(super) fn new(r: &mut Registrar<'_>) -> SpanMetrics {
        SpanMetrics {
            sent: r.add("spans_sent", "Spans of requests that a collector has taken", Counter::default()),
            dropped: r.add("spans_dropped", "Spans of requests that no collector took", Counter::default()),
        }
    }
}
