//! Memory that is read and added up, and nothing else: what no kernel can be faster than.

use lamina_simd::{Isa, Simd, shells};

/// Bytes that are read of a stream before its neighbour has its turn.
pub const RUN: usize = 256;

/// Sums `n` bytes in `streams` places in turn.
///
/// # Safety
/// The CPU has the instructions of `S`, and `n`, a multiple of `streams * RUN`, bytes are readable at `p`.
#[inline(always)]
unsafe fn read<S: Simd>(p: *const u8, n: usize, streams: usize, ahead: usize) -> i32 {
    // SAFETY: `at` runs through each stream's part by whole runs, and a part is a multiple of a run; a prefetch faults at no
    // address.
    unsafe {
        let part = n / streams;
        let mut sum = [S::splat(0); 4];
        for at in (0..part).step_by(RUN) {
            for s in 0..streams {
                let run = p.add(s * part + at);
                for (i, sum) in sum.iter_mut().enumerate() {
                    let line = run.add(64 * i);
                    if ahead > 0 {
                        S::prefetch(line.wrapping_add(ahead));
                    }
                    *sum = S::add_i(*sum, S::load(line));
                    if S::N == 8 {
                        *sum = S::add_i(*sum, S::load(line.add(32)));
                    }
                }
            }
        }
        let all = S::add_i(S::add_i(sum[0], sum[1]), S::add_i(sum[2], sum[3]));
        S::reduce_add(S::to_f(all)) as i32
    }
}

shells! {
    fn read_kernel() = read(p: *const u8, n: usize, streams: usize, ahead: usize) -> i32
}

/// Reads memory by the widest loads of an instruction set.
#[derive(Clone, Copy)]
pub struct MemoryReader(unsafe fn(*const u8, usize, usize, usize) -> i32);

impl MemoryReader {
    /// The reader of an instruction set.
    ///
    /// # Panics
    /// When this CPU lacks the instructions.
    pub fn new(isa: Isa) -> MemoryReader {
        assert!(isa.available(), "{isa} is not available");
        MemoryReader(read_kernel(isa))
    }

    /// The sum of all 32-bit integers of `bytes`, as float32 rounds it, read in `streams` places in turn. What lies `ahead`
    /// bytes further on is prefetched; 0 leaves that to the CPU.
    ///
    /// # Panics
    /// When the bytes are no whole runs of [`RUN`] in each stream.
    pub fn sum(self, bytes: &[u8], streams: usize, ahead: usize) -> i32 {
        assert!(streams > 0 && bytes.len().is_multiple_of(streams * RUN), "parts of runs");
        // SAFETY: this CPU has the instructions, and the bytes were just seen to be whole runs.
        unsafe { (self.0)(bytes.as_ptr(), bytes.len(), streams, ahead) }
    }
}
