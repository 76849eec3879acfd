//! What an engine tells of its steps to those who asked for it: one list of events, in memory of fixed size.
//!
//! Off, a step tests an `Option` where a phase ends, and does nothing else. On, the engine's own thread writes into rings
//! that were made before; readers take a copy between steps. Nothing that is noted changes a bit of an answer.

mod event;
mod log;
mod recorder;
mod ring;

pub use event::{
    ChoiceEvent, OpEvent, PageEvent, PageMoment, PhaseSeconds, SequenceEvent, SequenceMoment, ShareEvent,
    StepEvent, TraceDetail,
};
pub use log::EventLog;
pub(crate) use recorder::{EventRecorder, StepPhase};
