//! What threads synchronize with: the standard library, or under `--cfg loom` a model of it that tries every order.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{Arc, Mutex, atomic},
    thread,
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Mutex, atomic},
    thread,
};

/// A cell with the interface of loom's, which checks that nobody writes while others read.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
