//! Floor 7 and a half: what is measured of models, and said of them, without being part of running one.
//!
//! [`bench`] measures speed, [`perplexity()`] how well a text is predicted, [`divergence()`] how
//! far from another model, [`calibrate()`] which weights matter;
//! [`inspect()`] and [`support()`] read headers only, [`doctor`] looks at the machine; [`plan_report`] tells what a
//! model will take and how fast it will be. The command line and the Python
//! package call them.
#![forbid(unsafe_code)]

pub mod bench;
#[cfg(feature = "convert")]
mod calibrate;
mod divergence;
mod doctor;
mod eval;
mod inspect;
mod machines;
mod meter;
mod origin;
mod perplexity;
mod plan;
mod sound;
mod speeds;
mod support;
mod windows;

#[cfg(feature = "convert")]
pub use calibrate::{Calibration, CalibrationOptions, calibrate};
pub use divergence::{
    Divergence, DivergenceFigures, Estimate, TokenDivergence, WindowProgress, divergence, divergence_from,
    write_logits,
};
pub use doctor::{doctor, examine};
pub use eval::{Accuracy, PairedVerdict, Question, RightAnswer, Verdict, ask, questions};
pub use inspect::{Inspection, TensorInfo, VisionInspection, inspect};
pub use perplexity::{Perplexity, perplexity, token_losses};
pub use plan::{plan_json, plan_report};
pub use sound::HearingInspection;
pub use support::{EncoderSupport, FamilySupport, FileSupport, Support, TypeSupport, TypeUse, support};
pub use windows::PerplexityOptions;
