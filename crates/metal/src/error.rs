//! Why a Metal device cannot be used, in one line each.

use lamina_plan::BackendError;
use std::fmt;

/// Name of the backend in messages.
pub(crate) const NAME: &str = "metal";

/// What opening a device gives.
pub(crate) type Opened<T> = std::result::Result<T, MetalUnusable>;

/// Why a device cannot be used. Each message is one line that begins with the backend's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetalUnusable {
    /// The system lacks residency sets, without which candle's device does not open.
    #[error("metal: macOS 15 or newer is needed")]
    OldSystem,
    /// The system finds no device, as in many virtual machines.
    #[error("metal: this machine has no GPU that Metal finds")]
    NoDevice,
    /// Metal's compiler refuses the kernels, or the device cannot run one of them.
    #[error("metal: kernels did not compile ({0})")]
    Kernels(String),
    /// A call failed, or the device computes other numbers than it should.
    #[error("{0}")]
    Failed(String),
}

impl MetalUnusable {
    /// True where there is a device, and candle's kernels may run on it.
    pub fn leaves_candle(&self) -> bool {
        matches!(self, MetalUnusable::Kernels(_) | MetalUnusable::Failed(_))
    }
}

impl From<BackendError> for MetalUnusable {
    fn from(e: BackendError) -> Self {
        let words = e.to_string();
        let named = words.starts_with(NAME);
        MetalUnusable::Failed(if named { words } else { format!("{NAME}: {words}") })
    }
}

/// A failure of the device. The next command buffer may run all the same: nothing is lost for good.
pub(crate) fn failed(why: impl fmt::Display) -> BackendError {
    BackendError::Device { backend: NAME, what: why.to_string(), lost: false }
}
