//! Aligned memory that kernels read and write by offset.

use lamina_base::{available_memory, human_bytes};
use lamina_plan::BackendError;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
};

/// Zeroed bytes on a cache line. The system gives pages when they are first touched.
pub struct Aligned {
    start: NonNull<u8>,
    len: usize,
}

/// One cache line, and the widest vector.
const LINE: usize = align_of::<Line>();

#[repr(align(64))]
struct Line;

// SAFETY: the bytes belong to this value alone; shared writes go through raw pointers whose users keep them apart.
unsafe impl Send for Aligned {}
// SAFETY: as above.
unsafe impl Sync for Aligned {}

impl Aligned {
    /// `len` zero bytes for `what`.
    ///
    /// # Errors
    /// When more is asked for than the machine, or the limit of its cgroup, has left.
    pub fn zeroed(len: usize, what: &str) -> Result<Aligned, BackendError> {
        let refuse = |have: u64| BackendError::OutOfMemory {
            what: what.to_owned(),
            need: human_bytes(len as u64),
            have: human_bytes(have),
            advice: "use a smaller context, a smaller KV type or a smaller model",
        };
        // Asking is not enough: systems that overcommit hand out what they do not have and kill the process later.
        if let Some(have) = available_memory().filter(|&have| len as u64 > have) {
            return Err(refuse(have));
        }
        if len == 0 {
            // Aligned like any other, so that empty reads and writes through it are fine.
            return Ok(Aligned { start: NonNull::<Line>::dangling().cast(), len });
        }
        let layout = Layout::from_size_align(len, LINE).map_err(|_| refuse(0))?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| refuse(0))?;
        Ok(Aligned { start, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// First byte, for reading.
    pub fn ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// First byte, for writing; users keep parallel writes apart.
    pub fn ptr_mut(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { dealloc(self.start.as_ptr(), Layout::from_size_align_unchecked(self.len, LINE)) }
        }
    }
}

/// A raw pointer that tasks may share, because each writes a part of its own.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);

// SAFETY: users of `Shared` keep the parts that tasks write apart.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The pointer `n` elements further.
    ///
    /// # Safety
    /// As for [`pointer::add`].
    pub unsafe fn at(self, n: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(n) }
    }
}
