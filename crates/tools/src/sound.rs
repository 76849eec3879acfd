//! What an encoder of sound is, without loading its weights.

use lamina_arch::{sound::SoundFamily, vision::VisionSource};
use lamina_store::Checkpoint;
use serde_json::{Value, json};

/// What an encoder of sound is.
#[derive(Debug, Clone, PartialEq)]
pub struct HearingInspection {
    /// Its family.
    pub family: &'static str,
    /// Blocks.
    pub blocks: usize,
    /// Width of its rows, and of those that it gives the language model.
    pub widths: (usize, usize),
    /// Samples a second that it hears.
    pub sampling_rate: u32,
    /// Tokens of a second of sound.
    pub tokens_per_second: f64,
    /// What stands for a sound in the text of a prompt.
    pub marker: &'static str,
}

impl HearingInspection {
    /// The encoder in `ck`; none where there is none that can be used.
    pub(crate) fn of(ck: &Checkpoint) -> Option<HearingInspection> {
        let source = match VisionSource::is_mmproj(ck) {
            true => VisionSource::of_sound_mmproj(ck),
            false => VisionSource::of_sound(ck),
        };
        let source = source.ok()??;
        let family = SoundFamily::of(&source).ok()?;
        let spec = family.spec(&source).ok()?;
        Some(HearingInspection {
            family: family.name,
            blocks: spec.encoder.layers.len(),
            widths: (spec.encoder.hidden, spec.projector.out),
            sampling_rate: spec.mel.rate,
            tokens_per_second: spec.rows_per_second(),
            marker: spec.prompt.marker,
        })
    }

    /// As an object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "family": self.family,
            "blocks": self.blocks,
            "width": self.widths.0,
            "model_width": self.widths.1,
            "sampling_rate": self.sampling_rate,
            "tokens_per_second": self.tokens_per_second,
            "marker": self.marker,
        })
    }
}
