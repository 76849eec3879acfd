//! What goes wrong with a disk, as an error of a machine.

use lamina_plan::BackendError;
use std::fmt::Display;

/// The error of a step that needs what the disk does not give.
pub(crate) fn disk_error(what: impl Display) -> BackendError {
    BackendError::Device { backend: "disk", what: what.to_string(), lost: false }
}
