//! Device memory: bytes that only the device's copies and kernels touch, with guards around them.

use std::{cell::UnsafeCell, sync::Arc};

/// DeviceWords of 16 bytes before and behind a buffer that no kernel may change.
const GUARD: usize = 4;

/// What guards and fresh memory hold: NaN as float32, float16 and bfloat16, so that reading what nobody wrote shows.
const UNWRITTEN: u128 = u128::MAX;

/// A buffer of the emulated device. Clones are the same memory.
#[derive(Clone)]
pub struct EmuBuffer(Arc<DeviceWords>);

struct DeviceWords {
    words: Box<[UnsafeCell<u128>]>,
    bytes: usize,
}

// SAFETY: the words are reached through the methods below only, whose callers hold the device's lock.
unsafe impl Send for DeviceWords {}
// SAFETY: as above: no two threads read or write them at once.
unsafe impl Sync for DeviceWords {}

impl EmuBuffer {
    /// `bytes` bytes that nobody wrote yet.
    pub(crate) fn new(bytes: usize) -> EmuBuffer {
        let words = bytes.div_ceil(16) + 2 * GUARD;
        let words = (0..words).map(|_| UnsafeCell::new(UNWRITTEN)).collect();
        EmuBuffer(Arc::new(DeviceWords { words, bytes }))
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// Address of byte `at`.
    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        assert!(at <= self.0.bytes, "byte {at} of {}", self.0.bytes);
        self.0.words[GUARD].get().cast::<u8>().wrapping_add(at)
    }

    /// True when no byte outside the buffer was written.
    ///
    /// # Safety
    /// The caller holds the device's lock.
    pub(crate) unsafe fn whole(&self) -> bool {
        let (words, end) = (&self.0.words, self.0.words.len());
        let mut guards = words[..GUARD].iter().chain(&words[end - GUARD..]);
        // SAFETY: nobody writes meanwhile, as the caller holds the lock that all writers take.
        guards.all(|word| unsafe { *word.get() } == UNWRITTEN)
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// The caller holds the device's lock.
    pub(crate) unsafe fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.0.bytes, "{} bytes at {at} of {}", bytes.len(), self.0.bytes);
        // SAFETY: the range was just checked, and nobody else reads or writes it under the caller's lock.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(at), bytes.len()) };
    }

    /// Copies bytes out.
    ///
    /// # Safety
    /// The caller holds the device's lock.
    pub(crate) unsafe fn get(&self, at: usize, out: &mut [u8]) {
        assert!(at + out.len() <= self.0.bytes, "{} bytes at {at} of {}", out.len(), self.0.bytes);
        // SAFETY: the range was just checked, and nobody writes it under the caller's lock.
        unsafe { std::ptr::copy_nonoverlapping(self.address(at), out.as_mut_ptr(), out.len()) };
    }
}
