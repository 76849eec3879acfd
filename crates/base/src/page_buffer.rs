//! Memory that files are read into past the page cache: whole blocks, aligned to their length.

use bytemuck::{Pod, Zeroable, allocation::zeroed_slice_box};

/// Bytes of a block: direct reads begin and end at multiples of it, in the file and in memory.
pub const BLOCK: usize = 4096;

/// Bytes of one block, aligned to their length.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct AlignedBlock([u8; BLOCK]);

/// Whole blocks of memory. The system gives its pages when they are first written.
pub struct PageBuffer(Box<[AlignedBlock]>);

impl PageBuffer {
    /// Zeros, as many as whole blocks for `bytes` have.
    pub fn new(bytes: usize) -> PageBuffer {
        PageBuffer(zeroed_slice_box(bytes.div_ceil(BLOCK)))
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    /// All bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_aligned() {
        for (bytes, whole) in [(0, 0), (1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, 2 * BLOCK)] {
            let mut buffer = PageBuffer::new(bytes);
            assert_eq!(buffer.bytes().len(), whole);
            assert!(buffer.bytes().as_ptr().addr().is_multiple_of(BLOCK));
            buffer.bytes_mut().fill(7);
            assert!(buffer.bytes().iter().all(|byte| *byte == 7));
        }
    }
}
