//! What is told of layers of the cache that lie on disk.

use lamina_stream::LayerRoom;

/// Layers of the cache that lie on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheForecast {
    /// How many, and how many there are in all.
    pub layers: (usize, usize),
    /// Bytes of their file.
    pub file_bytes: u64,
    /// Bytes of the buffers in memory that they are read to.
    pub buffer_bytes: u64,
}

impl CacheForecast {
    /// Of layers that lie in `room`, of `all`; none where none does.
    pub(super) fn of(room: &LayerRoom, all: usize) -> Option<CacheForecast> {
        (!room.arrays.is_empty()).then(|| CacheForecast {
            layers: (room.arrays.len(), all),
            file_bytes: room.file_bytes(),
            buffer_bytes: room.buffer_bytes(),
        })
    }
}
