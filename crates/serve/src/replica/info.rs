//! What a replica says of its models, so that a gateway can tell whether answers may move between it and others.

use crate::{app::App, models::ModelSlot};

/// What answers depend on: models, as far as sizes, types and configuration tell them apart, and what computes them.
pub(super) fn identity(app: &App) -> String {
    let slots = app.models.first();
    let one = |slot: &ModelSlot| {
        let live = slot.live()?;
        let info = live.model.info();
        let adapters: Vec<String> = slot.adapters().map(|name| format!("+{name}")).collect();
        Some(format!(
            "{}{} ({} {} {} {} context {})",
            slot.name,
            adapters.concat(),
            live.fingerprint,
            info.isa,
            info.device,
            info.kv_dtype,
            info.context,
        ))
    };
    slots.iter().filter_map(|slot| one(slot)).collect::<Vec<_>>().join(", ")
}
