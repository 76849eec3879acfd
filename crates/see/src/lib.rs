//! Floor 7¼: what happened in an inference. A [`Trace`] is data; [`read`] finds what it says, [`export`] hands it to other
//! tools, [`chart`] draws it as SVG, and [`page`] tells it to a reader. Nothing is loaded from anywhere, and nothing here
//! serves, waits or measures.
#![forbid(unsafe_code)]

pub mod chart;
mod columns;
mod energy;
mod error;
pub mod export;
mod format;
mod log_events;
pub mod page;
pub mod plot;
pub mod read;
mod record;
mod trace;

pub use columns::{
    AttentionColumns, ExpertColumns, LensColumns, OpColumns, PageColumns, SequenceColumns, ShareColumns,
    StageColumns, StepColumns, StreamColumns, TextColumns, TokenColumns, WireColumns,
};
pub use error::SeeError;
pub use record::{TaggedRequest, TraceJob, TraceScope, finish, of_tagged, plan_view, record};
pub use trace::{
    OpView, PlanView, RunFacts, SlotView, Trace, TraceEvents, TracedModel, TracedRequest, WeightView,
};

#[cfg(test)]
mod tests;
