//! Memory of a closed model goes back to the system.

/// Gives free memory back. glibc keeps blocks below 32 MB for later use once such blocks have been freed before, which
/// after a model are hundreds of megabytes; other allocators give them back by themselves.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    // SAFETY: malloc_trim may be called at any time from any thread; it touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
