//! Page-aligned memory that kernels read and write by offset.

use lamina_base::{available_memory, human_bytes};
use lamina_plan::BackendError;
use memmap2::MmapMut;
use std::ptr::NonNull;

/// From this size on the system is asked for its large pages.
///
/// A decode step reads all weights once: with pages of 4 KiB each 64 lines cost a walk through the page tables.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Zeroed bytes on a page of their own. The system gives pages when they are first touched.
pub struct Aligned {
    start: NonNull<u8>,
    len: usize,
    /// Owns the bytes; none where there are none.
    _map: Option<MmapMut>,
}

#[repr(align(64))]
struct Line;

// SAFETY: the bytes belong to this value alone, and no thread has a claim on them that it could lose by a move.
unsafe impl Send for Aligned {}
// SAFETY: by reference only addresses can be had; whoever reads or writes through one is unsafe code that says why no other
// thread writes there meanwhile.
unsafe impl Sync for Aligned {}

/// The product of sizes that a file or a request named.
///
/// # Errors
/// When it is more than an address can say, and so more than there is memory.
pub fn product(sizes: &[usize], what: &str) -> Result<usize, BackendError> {
    let all = sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    all.ok_or_else(|| out_of_memory(what, u64::MAX, available_memory().unwrap_or(0)))
}

/// The error where `need` bytes for `what` cannot be allocated.
pub fn out_of_memory(what: &str, need: u64, have: u64) -> BackendError {
    BackendError::OutOfMemory {
        what: what.to_owned(),
        need: human_bytes(need),
        have: human_bytes(have),
        advice: "use a smaller context, a smaller KV type or a smaller model",
    }
}

impl Aligned {
    /// `len` zero bytes for `what`.
    ///
    /// # Errors
    /// When more is asked for than the machine, or the limit of its cgroup, has left.
    pub fn zeroed(len: usize, what: &str) -> Result<Aligned, BackendError> {
        let refuse = |have: u64| out_of_memory(what, len as u64, have);
        // Asking is not enough: systems that overcommit hand out what they do not have and kill the process later.
        if let Some(have) = available_memory().filter(|&have| len as u64 > have) {
            return Err(refuse(have));
        }
        if len == 0 {
            // Aligned like any other, so that empty reads and writes through it are fine.
            return Ok(Aligned { start: NonNull::<Line>::dangling().cast(), len, _map: None });
        }
        let mut map = MmapMut::map_anon(len).map_err(|_| refuse(0))?;
        #[cfg(target_os = "linux")]
        if len >= LARGE {
            // Only a hint: systems without large pages run as before.
            let _hint = map.advise(memmap2::Advice::HugePage);
        }
        let start = NonNull::new(map.as_mut_ptr()).ok_or_else(|| refuse(0))?;
        Ok(Aligned { start, len, _map: Some(map) })
    }

    /// Length in bytes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// First byte, for reading.
    pub fn ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// All bytes.
    ///
    /// # Safety
    /// Nobody writes to them while the slice is used.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is this value's, was zeroed or written since, and the caller promises that nobody writes now.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len) }
    }

    /// All numbers.
    ///
    /// # Safety
    /// Nobody else uses the memory while the slice is used.
    #[allow(clippy::mut_from_ref)] // the promise above
    pub unsafe fn numbers_mut(&self) -> &mut [f32] {
        // SAFETY: the memory begins on a page or line, every bit pattern is a number, and the caller promises that nobody else
        // uses it.
        unsafe { std::slice::from_raw_parts_mut(self.ptr_mut().cast(), self.len / 4) }
    }

    /// First byte, for writing; users keep parallel writes apart.
    pub fn ptr_mut(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// A raw pointer that tasks may share, because each writes a part of its own.
#[derive(Clone, Copy)]
pub struct SharedPtr<T>(pub *mut T);

// SAFETY: the pointer may be followed by `at` alone, whose callers promise that no other thread uses the place meanwhile.
unsafe impl<T: Send> Send for SharedPtr<T> {}
// SAFETY: a shared reference gives a copy of the pointer and nothing else, so that the sentence above holds for it too.
unsafe impl<T: Send> Sync for SharedPtr<T> {}

impl<T> SharedPtr<T> {
    /// The pointer `n` elements further.
    ///
    /// # Safety
    /// The memory behind the pointer holds at least `n` elements, and no other thread uses what is written through the
    /// result.
    pub unsafe fn at(self, n: usize) -> *mut T {
        // SAFETY: the caller promises that `n` elements lie behind the pointer, so the result stays inside the memory.
        unsafe { self.0.add(n) }
    }
}
