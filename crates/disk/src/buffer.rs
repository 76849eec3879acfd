//! Memory that files are read into: aligned to blocks, of a fixed number, handed over by value.

pub use lamina_base::{BLOCK, PageBuffer};
use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

/// A fixed number of buffers of one size. Each is lent out and comes back by being dropped.
#[derive(Clone)]
pub struct BufferPool {
    free: Arc<Mutex<Vec<PageBuffer>>>,
    count: usize,
    bytes: usize,
}

impl BufferPool {
    /// `count` buffers of `bytes` bytes each, filled up to whole blocks.
    pub fn new(count: usize, bytes: usize) -> BufferPool {
        let free = (0..count).map(|_| PageBuffer::new(bytes)).collect();
        BufferPool { free: Arc::new(Mutex::new(free)), count, bytes: bytes.next_multiple_of(BLOCK) }
    }

    /// A buffer, if one is free.
    pub fn lend(&self) -> Option<LentBuffer> {
        let buffer = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(LentBuffer { buffer: Some(buffer), home: self.free.clone() })
    }

    /// Buffers that nobody has.
    pub fn free(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All buffers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of each.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A buffer of a [`BufferPool`].
pub struct LentBuffer {
    /// There until it is dropped.
    buffer: Option<PageBuffer>,
    home: Arc<Mutex<Vec<PageBuffer>>>,
}

impl Deref for LentBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], PageBuffer::bytes)
    }
}

impl DerefMut for LentBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], PageBuffer::bytes_mut)
    }
}

impl AsRef<[u8]> for LentBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).extend(self.buffer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = BufferPool::new(2, 5000);
        assert_eq!((pool.count(), pool.bytes(), pool.free()), (2, 8192, 2));
        let (mut a, b) = (pool.lend().expect("the first"), pool.lend().expect("the second"));
        assert!(pool.lend().is_none() && a.len() == 8192);
        assert!([&a, &b].iter().all(|buffer| buffer.as_ptr().addr().is_multiple_of(BLOCK)));
        a[8191] = 7;
        drop(a);
        assert_eq!(pool.free(), 1);
        drop((b, pool.clone()));
        assert_eq!(pool.free(), 2);
    }
}
