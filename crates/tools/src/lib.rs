//! Floor 7 and a half: what is measured of models, and said of them, without being part of running one.
//!
//! [`bench`] measures speed, [`perplexity()`] how well a text is predicted, [`calibrate()`] which weights matter;
//! [`inspect()`] and [`support()`] read headers only, [`doctor`] looks at the machine; [`plan_report`] tells what a
//! model will take and how fast it will be. The command line and the Python
//! package call them.
#![forbid(unsafe_code)]

pub mod bench;
#[cfg(feature = "convert")]
mod calibrate;
mod doctor;
mod inspect;
mod meter;
mod origin;
mod perplexity;
mod plan;
mod support;

#[cfg(feature = "convert")]
pub use calibrate::{Calibration, CalibrationOptions, calibrate};
pub use doctor::{doctor, examine};
pub use inspect::{Inspection, TensorInfo, inspect};
pub use perplexity::{Perplexity, PerplexityOptions, perplexity};
pub use plan::{plan_json, plan_report};
pub use support::{FamilySupport, FileSupport, Support, TypeSupport, TypeUse, support};
