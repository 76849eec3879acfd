//! Where the memory of a placed model goes: the same sum for forecasts and for what is loaded beside another model.

use crate::{
    error::Result, experts::ExpertPlacement, memory_question::BUFFERS, model::ModelHeaders,
    options::PlacementOptions, placement::Placement,
};
use lamina_plan::Backend;

/// Something that takes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it is.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
}

impl MemoryPart {
    /// All that a model takes that lies on `backend` as `placement` says, none of it empty.
    ///
    /// # Errors
    /// When the backend cannot tell what its machine takes.
    pub fn of(
        model: &ModelHeaders<'_>,
        placement: &Placement,
        backend: &dyn Backend,
        options: &PlacementOptions,
    ) -> Result<Vec<MemoryPart>> {
        let (plan, limits, weights) = (model.plan, &placement.limits, &placement.weights);
        let steps = ExpertPlacement::steps(plan, weights.experts());
        let foot = backend.footprint(&steps, limits)?.unwrap_or_default();
        let rows = weights.offload.as_ref().map(|offload| &offload.rows);
        let streamed = rows.map_or(0, |rows| rows.streamed_bytes);
        let largest = rows.and_then(|rows| rows.streamed.iter().map(|op| op.bytes).max()).unwrap_or(0);
        let all: u64 = weights.sizes.iter().map(|w| w.bytes).sum();
        let part = |name, bytes| MemoryPart { name, bytes };
        let (apart, slots) = weights.experts().map_or((0, 0), |e| (e.bytes, e.slots_bytes()));
        let copies = if rows.is_some() { model.head.copies } else { 0 };
        let parts = [
            part("weights", all - streamed - apart),
            part("experts", slots),
            part("cache", (foot.cache + foot.states) as u64),
            part("cache buffers", placement.layers.buffer_bytes()),
            // Logits of a step stand in its arena, and are read from there row by row.
            part("working memory", foot.working() as u64),
            part("buffers", (largest * options.stream.buffers.unwrap_or(BUFFERS)) as u64),
            part("swap", options.swap.memory_bytes()),
            part("draft heads", model.head.own_bytes(placement.head_pages) + copies),
        ];
        Ok(parts.into_iter().filter(|p| p.bytes > 0).collect())
    }
}
