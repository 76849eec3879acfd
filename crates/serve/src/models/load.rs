//! Bringing a model into memory, on a thread of its own.

use super::{
    live::{LiveModel, load_options},
    slot::{LoadFailure, ModelSlot, Phase, SlotOrigin},
};
use lamina::{Model, Policy};
use std::sync::Arc;

/// How models are loaded.
#[derive(Clone, Copy)]
pub(super) struct LoadTerms {
    /// How requests share an engine.
    pub policy: Policy,
    /// Steps are recorded.
    pub records: bool,
}

/// Address space of a thread, with what it takes beside its stack.
const THREAD: usize = 4 << 20;

/// Brings models into memory, one after the other, unless they are there or on their way: what fits is computed from
/// what is free, so no two may be read at once. Whoever waits for one watches its slot.
pub(super) fn begin(slots: &[Arc<ModelSlot>], terms: LoadTerms) {
    let idle = |phase: &Phase| matches!(phase, Phase::Unloaded | Phase::Failed(_));
    let begun = |slot: &&Arc<ModelSlot>| slot.advance(Phase::Loading { done: 0.0 }, |s| idle(&s.phase));
    let mine: Vec<_> = slots.iter().filter(begun).cloned().collect();
    if mine.is_empty() {
        return;
    }
    let failed = |why: String| {
        let failure = LoadFailure::new(why, true);
        mine.iter().for_each(|slot| _ = slot.advance(Phase::Failed(failure.clone()), |_| true));
    };
    // A thread that gets its stack and nothing beside it ends the process.
    if !lamina_reserve::affordable(THREAD) {
        return failed("there is no memory for the thread that loads the model".into());
    }
    let loading = mine.clone();
    let work = move || loading.iter().for_each(|slot| bring(slot, terms));
    if let Err(e) = std::thread::Builder::new().name("lamina-load".into()).spawn(work) {
        failed(format!("no thread to load the model: {e}"));
    }
}

fn bring(slot: &ModelSlot, terms: LoadTerms) {
    let end = match lamina::shield(|| load(slot, terms)) {
        Ok(live) => Phase::Loaded(Arc::new(live)),
        Err(e) => {
            let memory = matches!(e, lamina::Error::OutOfMemory(_));
            Phase::Failed(LoadFailure::new(e.to_string(), memory))
        }
    };
    slot.touch();
    slot.advance(end, |_| true);
}

fn load(slot: &ModelSlot, terms: LoadTerms) -> lamina::Result<LiveModel> {
    let model = match &slot.origin {
        SlotOrigin::Given(model) => model.clone(),
        SlotOrigin::Path(path) => {
            let progress = |done: u64, all: u64| {
                let done = done as f32 / all.max(1) as f32;
                slot.advance(Phase::Loading { done }, |s| matches!(s.phase, Phase::Loading { .. }));
                true
            };
            Model::load_with(path.as_deref(), &load_options(&slot.settings, terms.policy), &progress)?
        }
    };
    let live = LiveModel::new(model, &slot.settings, terms.policy.max_running)?;
    Ok(if terms.records { live.recording() } else { live })
}

/// Takes the model out of memory, if nobody uses it; false when somebody does, or it is not there.
pub(super) fn unload(slot: &Arc<ModelSlot>) -> bool {
    let Some(live) = slot.live().filter(|_| !slot.is_given()) else { return false };
    let idle = |s: &super::slot::SlotState| matches!(s.phase, Phase::Loaded(_)) && s.uses == 0;
    if !slot.advance(Phase::Unloading(live.clone()), idle) {
        return false;
    }
    let leaving = slot.clone();
    let close = move || {
        // Joins the engine's thread, so its memory is free when the slot says so.
        live.model.close();
        drop(live);
        leaving.advance(Phase::Unloaded, |_| true);
    };
    match lamina_reserve::affordable(THREAD) {
        true => {
            let thread = std::thread::Builder::new().name("lamina-unload".into()).spawn(close);
            if thread.is_err() {
                slot.advance(Phase::Unloaded, |_| true);
            }
        }
        false => close(),
    }
    true
}
