//! A model in memory, with what requests need beside its weights.

use super::{slot_texts::SlotTexts, text_room::TextRoom};
use crate::options::{ModelSettings, Reasoning};
use lamina::{ChatOptions, LoadOptions, Model, ModelInfo, Policy, Reporter, TraceDetail};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A model in memory.
pub struct LiveModel {
    /// Answers.
    pub model: Model,
    /// Version of the engine and identity of the model: what answers are repeatable under.
    pub fingerprint: String,
    /// What conversations begin with that say nothing themselves.
    pub system: Option<String>,
    /// Template instead of the model's own, and its variables.
    template: Option<String>,
    variables: Map<String, Value>,
    reasoning: Reasoning,
    /// Scale of each adapter in requests that name none.
    scales: Mutex<Vec<(String, f32)>>,
    /// What its slots hold.
    pub slots: SlotTexts,
    /// How long texts may be.
    pub text_room: TextRoom,
    /// Its steps are recorded while nothing else is.
    pub records: bool,
}

impl LiveModel {
    /// A model with its settings, and so many slots.
    ///
    /// # Errors
    /// When the template cannot be read or its variables are no JSON object.
    pub fn new(model: Model, settings: &ModelSettings, slots: usize) -> lamina::Result<LiveModel> {
        let wrong = |what: String| lamina::Error::InvalidRequest(what);
        let template = match &settings.chat_template {
            Some(path) => Some(
                lamina::files::read_text(path.as_ref())
                    .map_err(|e| wrong(format!("the chat template {path} cannot be read: {e}")))?,
            ),
            None => None,
        };
        let variables = match &settings.chat_template_kwargs {
            Some(text) => serde_json::from_str(text)
                .map_err(|e| wrong(format!("chat_template_kwargs is no JSON object: {e}")))?,
            None => Map::new(),
        };
        let scales = settings.lora.iter().map(|l| (l.called().to_owned(), l.scale)).collect();
        let fingerprint = fingerprint(model.info());
        let (reasoning, scales) = (settings.reasoning, Mutex::new(scales));
        let slots = SlotTexts::new(slots);
        let text_room = TextRoom::of(&model);
        let (records, system) = (false, settings.system.clone());
        Ok(LiveModel {
            model,
            fingerprint,
            system,
            template,
            variables,
            reasoning,
            scales,
            slots,
            text_room,
            records,
        })
    }

    /// The same, whose steps are recorded from now on, unless somebody records already.
    pub fn recording(self) -> LiveModel {
        let records = self.model.recorded().is_none();
        if records {
            self.model.record(Some(TraceDetail::Steps));
        }
        LiveModel { records, ..self }
    }

    /// How a conversation becomes a prompt: the model's way, with the request's tools and variables.
    pub fn chat_options(&self, tools: Option<Vec<Value>>, more: Map<String, Value>) -> ChatOptions {
        let mut variables = self.variables.clone();
        variables.extend(more);
        ChatOptions { tools, template: self.template.clone(), variables, ..ChatOptions::default() }
    }

    /// Every adapter with its scale in requests that name none.
    pub fn scales(&self) -> Vec<(String, f32)> {
        self.scales.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the scales of adapters in requests that name none; an adapter that is not listed is off.
    pub fn set_scales(&self, new: &[(String, f32)]) {
        for (name, scale) in &mut *self.scales.lock().unwrap_or_else(PoisonError::into_inner) {
            *scale = new.iter().find(|(n, _)| n == name).map_or(0.0, |(_, s)| *s);
        }
    }

    /// True when there is work and no step has ended for `limit`.
    pub fn stalled(&self, limit: Duration) -> bool {
        let snapshot = self.model.snapshot();
        let busy = snapshot.running.iter().any(|s| !s.paused);
        busy && snapshot.last_step.is_some_and(|step| step.ended.elapsed() > limit)
    }

    /// Whether reasoning is told apart from answers.
    pub fn splits_reasoning(&self) -> bool {
        self.reasoning == Reasoning::Auto
    }

    /// Source of the template that conversations are rendered with.
    pub fn template(&self) -> String {
        let own = || self.model.tokenizer()?.chat_templates().first().map(|t| t.source.clone());
        self.template.clone().or_else(own).unwrap_or_default()
    }
}

/// What stands for a model and the engine's version. Weights of gigabytes are not read for it: sizes, types and the
/// configuration tell models apart, and files that differ in nothing else are versions of one.
fn fingerprint(info: &ModelInfo) -> String {
    let mut hash = Sha256::new();
    for part in
        [&info.architecture, &info.type_name, &info.config.to_string(), &info.approximations.join(",")]
    {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(info.bytes.to_le_bytes());
    let digest = hash.finalize();
    let hex: String = digest.iter().take(5).map(|b| format!("{b:02x}")).collect();
    format!("lamina-{}-{hex}", env!("CARGO_PKG_VERSION"))
}

/// The engine's options for a model, whose report goes to stderr.
pub fn load_options(settings: &ModelSettings, policy: Policy) -> LoadOptions {
    let loras = settings.lora.iter().map(|l| (l.called().to_owned(), l.path.clone())).collect();
    let report = Reporter::to(|line| eprintln!("lamina: {line}"));
    LoadOptions { loras, policy, report, ..settings.load.clone() }
}
