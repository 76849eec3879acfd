//! Sound beside its references.

mod decode;
mod features;
mod hostile;
mod resample;
