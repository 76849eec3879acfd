//! What encoders of pictures and of sound keep of their rows, and find again.

use super::{
    labels::ModelLabel,
    registrar::{Gauges, Registrar},
    seen::SeenCounters,
};
use lamina::{EncoderCounts, Model};
use prometheus_client::metrics::{counter::Counter, family::Family};

/// Families of the encoders of one kind of thing.
struct RowCacheMetrics {
    bytes: Gauges<ModelLabel>,
    hits: Family<ModelLabel, Counter>,
    queries: Family<ModelLabel, Counter>,
}

/// Families of one server.
pub(super) struct EncoderMetrics {
    image: RowCacheMetrics,
    audio: RowCacheMetrics,
}

impl EncoderMetrics {
    /// Adds the families to a sheet.
    pub fn new(r: &mut Registrar<'_>) -> EncoderMetrics {
        let mut of = |name: &str, whose: &str| RowCacheMetrics {
            bytes: r.gauge(
                &format!("{name}_cache_bytes"),
                &format!("Bytes of rows of {} that are kept", whose.to_lowercase()),
            ),
            hits: r.counter(&format!("{name}_cache_hits"), &format!("{whose} whose rows were kept")),
            queries: r
                .counter(&format!("{name}_cache_queries"), &format!("{whose} whose rows were looked for")),
        };
        EncoderMetrics { image: of("image", "Pictures"), audio: of("audio", "Sounds") }
    }

    /// Reads the encoders of a model.
    pub fn read(&self, name: &str, model: &Model, seen: &mut SeenCounters) {
        self.image.read(name, seen.since_encoder(name, "image", model.encoder_counts().unwrap_or_default()));
        let hearing = model.sound_encoder().map(|encoder| encoder.counts());
        self.audio.read(name, seen.since_encoder(name, "audio", hearing.unwrap_or_default()));
    }
}

impl RowCacheMetrics {
    /// Adds what is new, and sets what is kept.
    fn read(&self, name: &str, counts: EncoderCounts) {
        let label = ModelLabel { model_name: name.to_owned() };
        self.bytes.get_or_create(&label).set(counts.cache_bytes as f64);
        self.hits.get_or_create(&label).inc_by(counts.cache_hits);
        self.queries.get_or_create(&label).inc_by(counts.cache_queries);
    }
}
