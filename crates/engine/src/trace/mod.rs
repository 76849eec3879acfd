//! What an engine tells of its steps to those who asked for it: one list of events, in memory of fixed size.
//!
//! Off, a step tests one `Option` where it begins, and does nothing else. On, the engine's own thread writes into rings
//! that were made before; readers take a copy between steps. Nothing that is noted changes a bit of an answer.

mod event;
mod heads;
mod inside;
mod inside_event;
mod listener;
mod log;
mod recorder;
mod ring;

pub use event::{
    ChoiceEvent, OpEvent, PageEvent, PageMoment, PhaseSeconds, SequenceEvent, SequenceMoment, ShareEvent,
    StepEvent, StreamEvent, TextEvent, TraceDetail,
};
pub use inside_event::{AttentionEvent, ExpertEvent, HeadRange, LENS_FRONT, LensEvent, TraceLooks};
pub(crate) use listener::{StepListener, Unheard};
pub use log::EventLog;
pub(crate) use recorder::{EventRecorder, StepPhase};
