//! Weights that are copied to a device while it multiplies with others.

use crate::slot::WeightId;
use lamina_base::Bytes;

/// Weights in a staging slot begin at multiples of so many bytes: kernels of all devices read them there.
const ALIGNED: usize = 256;

/// A weight that is copied to a staging slot ([`Queue::send`](crate::Queue::send)).
#[derive(Clone, Debug)]
pub struct SentWeight {
    /// The weight.
    pub weight: WeightId,
    /// Its matrices: one, or those of a stack.
    pub pieces: usize,
    /// All of them, one behind the other, in the form that [`Backend::layout`](crate::Backend::layout) describes.
    pub bytes: Bytes,
}

/// Bytes of a staging slot that a weight of `bytes` bytes takes.
pub fn staged_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNED)
}
