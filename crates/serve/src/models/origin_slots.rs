//! The models that are named when a server starts.

use super::{
    directory::stem,
    slot::{ModelSlot, SlotOrigin},
};
use crate::options::{KeepAlive, ModelOrigin, ServeOptions};
use std::sync::Arc;

/// The slot of a model that was named at the start; its files are looked at, so that a wrong path is told at once.
pub(super) fn slot(origin: &ModelOrigin, options: &ServeOptions) -> lamina::Result<Arc<ModelSlot>> {
    let slot = match origin {
        ModelOrigin::Loaded { name, model } => ModelSlot::new(
            name.clone(),
            SlotOrigin::Given(model.clone()),
            options.model.clone(),
            KeepAlive::Forever,
        ),
        ModelOrigin::Path { name, path, settings } => {
            lamina::checkpoint(path.as_deref())?;
            let settings = settings.as_deref().unwrap_or(&options.model).clone();
            let name = name.clone().unwrap_or_else(|| stem(path.as_deref()));
            let alive = settings.keep_alive.unwrap_or(KeepAlive::Forever);
            ModelSlot::new(name, SlotOrigin::Path(path.clone()), settings, alive)
        }
    };
    Ok(Arc::new(slot))
}

/// Refuses names that two models have.
pub(super) fn unique(slots: &[Arc<ModelSlot>]) -> lamina::Result<()> {
    let names = slots
        .iter()
        .flat_map(|s| std::iter::once(&s.name).chain(&s.aliases).map(String::as_str).chain(s.adapters()));
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let text = format!("two models are called `{name}`: give one another name, as NAME=MODEL");
            return Err(lamina::Error::InvalidRequest(text));
        }
    }
    Ok(())
}
