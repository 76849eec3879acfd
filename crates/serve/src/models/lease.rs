//! A request's hold on a model.

use super::{
    live::LiveModel,
    slot::{ModelSlot, SlotUse},
};
use crate::{error::ApiError, options::KeepAlive};
use lamina::Model;
use std::sync::Arc;

/// A request's hold on a model: it stays in memory while this lives.
pub struct Lease {
    /// The model with its template and adapters.
    pub live: Arc<LiveModel>,
    slot: Arc<ModelSlot>,
    /// The adapter that was asked for under its own name.
    adapter: Option<String>,
    _use: SlotUse,
}

impl Lease {
    pub(super) fn new(
        slot: Arc<ModelSlot>,
        live: Arc<LiveModel>,
        held: SlotUse,
        adapter: Option<String>,
    ) -> Lease {
        Lease { live, slot, adapter, _use: held }
    }

    /// The name that serves the request: what `model` in its answer says.
    pub fn name(&self) -> &str {
        self.adapter.as_deref().unwrap_or(&self.slot.name)
    }

    /// The model for requests with these adapters; none named: with those of its name, or the usual ones.
    ///
    /// # Errors
    /// When there is no such adapter.
    pub fn model(&self, lora: Option<&[(String, f32)]>) -> Result<Model, ApiError> {
        let scales = match (lora, &self.adapter) {
            (Some(lora), _) => lora.to_vec(),
            (None, Some(adapter)) => vec![(adapter.clone(), 1.0)],
            (None, None) => self.live.scales().into_iter().filter(|(_, scale)| *scale != 0.0).collect(),
        };
        scales.iter().try_for_each(|(name, _)| self.slot.check_adapter(name))?;
        self.live.model.with_lora(&scales).map_err(|e| ApiError::from(e).of("lora"))
    }

    /// Where the model comes from, and how long it stays.
    pub fn slot(&self) -> &Arc<ModelSlot> {
        &self.slot
    }

    /// How long the model stays when the request has ended.
    pub fn keep_alive(&self, alive: KeepAlive) {
        self.slot.keep_alive(alive);
    }
}
