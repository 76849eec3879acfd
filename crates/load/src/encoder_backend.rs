//! The backend of encoders, where that is another than the model's.

use lamina_plan::Backend;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The backend that encoders of pictures and sound run on; by default that of the model.
#[derive(Clone, Default)]
pub struct EncoderBackend(Option<Arc<Mutex<Box<dyn Backend>>>>);

impl EncoderBackend {
    /// Encoders run on `backend`.
    pub fn of(backend: Box<dyn Backend>) -> EncoderBackend {
        EncoderBackend(Some(Arc::new(Mutex::new(backend))))
    }

    /// A handle on that of encoders where it is another device than that of `model`.
    pub(crate) fn apart_from(&self, model: &dyn Backend) -> Option<Box<dyn Backend>> {
        self.held().filter(|own| own.about().device != model.about().device)?.handle()
    }

    /// True where encoders were put on `device`.
    pub(crate) fn is_on(&self, device: &dyn Backend) -> bool {
        self.held().is_some_and(|own| own.about().device == device.about().device)
    }

    fn held(&self) -> Option<MutexGuard<'_, Box<dyn Backend>>> {
        self.0.as_ref().map(|own| own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for EncoderBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncoderBackend({:?})", self.held().map(|own| own.about().device))
    }
}

/// Options are the same whatever has been opened for them.
impl PartialEq for EncoderBackend {
    fn eq(&self, _: &EncoderBackend) -> bool {
        true
    }
}
