//! Numbers of preempted sequences whose memory is kept.

use super::{
    labels::{ModelLabel, PagesLabel},
    registrar::{Gauges, Registrar, Seconds},
};
use lamina::{SwapCounts, disk::SwapUse};
use prometheus_client::metrics::{counter::Counter, family::Family};

/// Families of one server.
pub(super) struct SwapMetrics {
    sequences: Family<PagesLabel, Counter>,
    bytes: Family<PagesLabel, Counter>,
    seconds: Seconds<ModelLabel>,
    held: Gauges<PagesLabel>,
}

impl SwapMetrics {
    /// Adds the families to a sheet.
    pub fn new(r: &mut Registrar<'_>) -> SwapMetrics {
        SwapMetrics {
            sequences: r.counter("kv_swap_sequences", "Preempted sequences whose memory was kept"),
            bytes: r.counter("kv_swap_bytes", "Bytes of the cache that were swapped"),
            seconds: r.add(
                "kv_swap_return_seconds",
                "Time in which swapped memory came back",
                Family::default(),
            ),
            held: r.gauge("kv_swap_held_bytes", "Bytes that swapped memory takes"),
        }
    }

    /// Adds what has happened in the engine of a model since the last time, and sets what its store holds.
    pub fn read(&self, model: &str, more: SwapCounts, used: Option<&SwapUse>) {
        let Some(used) = used else { return };
        let label = |state: &str| PagesLabel { model_name: model.to_owned(), state: state.to_owned() };
        for (state, n) in [("kept", more.kept), ("returned", more.returned), ("lost", more.lost)] {
            self.sequences.get_or_create(&label(state)).inc_by(n);
        }
        self.bytes.get_or_create(&label("out")).inc_by(more.bytes_out);
        self.bytes.get_or_create(&label("in")).inc_by(more.bytes_in);
        let model = ModelLabel { model_name: model.to_owned() };
        self.seconds.get_or_create(&model).inc_by(more.return_seconds);
        self.held.get_or_create(&label("memory")).set((used.memory_bytes + used.waiting_bytes) as f64);
        self.held.get_or_create(&label("disk")).set(used.file_bytes as f64);
    }
}
