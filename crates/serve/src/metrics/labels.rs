//! Labels of the numbers.

use prometheus_client::encoding::EncodeLabelSet;

/// Declares sets of labels.
macro_rules! labels {
    ($($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $ty:ty),+ $(,)? })*) => {
        $($(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name { $(pub $field: $ty),+ })*
    };
}

labels! {
    /// A model.
    ModelLabel { model_name: String }
    /// How requests of a model ended.
    EndLabel { model_name: String, finished_reason: String }
    /// Pages of a model's cache.
    PagesLabel { model_name: String, state: String }
    /// Where a model stands.
    PhaseLabel { model_name: String, state: String }
    /// An adapter of a model.
    AdapterLabel { model_name: String, lora_name: String }
    /// Responses of a dialect.
    StatusLabel { dialect: String, status: u16 }
    /// A reason.
    WhyLabel { why: String }
    /// Whom machine time was for.
    TenantLabel { tenant: String }
    /// Steps of a model by what they computed.
    StepLabel { model_name: String, kind: String }
    /// Phases of steps of a model.
    PhaseSecondsLabel { model_name: String, phase: String }
    /// What runs.
    BuildLabel { version: String }
}
