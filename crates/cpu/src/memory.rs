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
