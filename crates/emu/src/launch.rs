//! Launches, run by the compiled kernels.

use crate::memory::EmuBuffer;
use lamina_gpu::Launch;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};

// SAFETY: this is how `cpp/emu.cpp` declares it. Of a call: `arguments` are `count` addresses, of the address of each buffer
// and of a struct of `bytes` bytes; the buffers hold what the kernel reads and writes.
unsafe extern "C" {
    fn lamina_emu_launch(
        name: *const c_char,
        grid: *const u32,
        order: c_int,
        mma_block: c_uint,
        capability: c_uint,
        arguments: *mut *mut c_void,
        count: usize,
        bytes: usize,
    ) -> c_int;
}

/// A launch with memory of its own, which can be run again.
pub(crate) struct OwnLaunch {
    kernel: CString,
    grid: [u32; 3],
    buffers: Vec<(EmuBuffer, usize)>,
    /// The struct of numbers, aligned for any of them.
    args: Vec<u64>,
    args_bytes: usize,
}

/// Launches that were recorded.
pub struct EmuGraph(pub(crate) Vec<OwnLaunch>);

impl OwnLaunch {
    pub fn new(launch: &Launch<'_, EmuBuffer>) -> OwnLaunch {
        let mut args = vec![0u64; launch.args.len().div_ceil(8)];
        for (word, bytes) in args.iter_mut().zip(launch.args.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        OwnLaunch {
            kernel: CString::new(launch.kernel).unwrap_or_default(),
            grid: launch.grid,
            buffers: launch.bound.iter().map(|b| (b.buffer.clone(), b.at)).collect(),
            args,
            args_bytes: launch.args.len(),
        }
    }

    /// Runs it, blocks and threads forwards or (`order` below 0) backwards, with tensor cores that sum `mma_block` products at once
    /// and truncate (0: all, and round), on a device of a compute capability such as 90.
    ///
    /// # Errors
    /// When there is no such kernel, its arguments are others, its threads wait for ever, it reads wide numbers where none may
    /// lie, wants what the device has not, or wrote outside a buffer.
    ///
    /// # Safety
    /// The caller holds the device's lock.
    pub unsafe fn run(&mut self, order: i32, mma_block: u32, capability: u32) -> Result<(), String> {
        let mut addresses: Vec<*mut u8> = self.buffers.iter().map(|(b, at)| b.address(*at)).collect();
        let buffers = addresses.iter_mut().map(|a| std::ptr::from_mut(a).cast::<c_void>());
        let mut arguments: Vec<*mut c_void> =
            buffers.chain([self.args.as_mut_ptr().cast::<c_void>()]).collect();
        // SAFETY: addresses and struct live until the call returns; the callee compares their number and the struct's size
        // with those of the kernel. What kernels do to the buffers is what is under test: the caller's lock keeps other
        // threads away, and guards behind each buffer are looked at below.
        let outcome = unsafe {
            lamina_emu_launch(
                self.kernel.as_ptr(),
                self.grid.as_ptr(),
                order,
                mma_block,
                capability,
                arguments.as_mut_ptr(),
                arguments.len(),
                self.args_bytes,
            )
        };
        // SAFETY: the caller holds the lock.
        let whole = self.buffers.iter().all(|(b, _)| unsafe { b.whole() });
        let name = self.kernel.to_string_lossy();
        match (outcome, whole) {
            (0, true) => Ok(()),
            (0, false) => Err(format!("kernel {name} wrote outside its buffers")),
            (1, _) => Err(format!("there is no kernel {name}")),
            (2, _) => Err(format!("kernel {name} takes other arguments than the host gives")),
            (5, _) => Err(format!("kernel {name} wants a newer device than one of capability {capability}")),
            (4, _) => Err(format!("kernel {name} reads 8 or 16 bytes at a place that they do not divide")),
            _ => Err(format!("threads of kernel {name} wait for others that are elsewhere")),
        }
    }
}
