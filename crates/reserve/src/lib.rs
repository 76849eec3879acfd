//! Floor 0: an allocator with memory that is kept back for the moment when there is no more.
//!
//! Rust ends the process where an allocation fails, and every push and every message is one. What a request or a file
//! decides the size of is asked for by fallible means (`try_reserve`, [`affordable`]). For the many small ones the
//! programs keep a reserve: where one of them fails, the reserve is given back to the system and serves it, and the next
//! place that can end a request or a load with an error asks [`whole`] and does so. What that frees fills the reserve
//! again. The reserve is address space that nobody touches: it takes no memory.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst},
    thread::yield_now,
};

/// Bytes that are kept back: more than a step or a stage of loading makes of small things.
const RESERVE: usize = 34 << 20;

/// Largest allocation that the reserve serves. What is larger is asked for by fallible means, whose callers are told.
const LARGEST: usize = 12 << 20;

static KEPT: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static LOW: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The system's allocator with the reserve behind it. A program makes it its global allocator and calls [`keep`].
pub struct WithReserve;

// SAFETY: every block is the system allocator's, which this one asks again at most; no method unwinds.
unsafe impl GlobalAlloc for WithReserve {
    // SAFETY: callers keep to the contract of `GlobalAlloc`, which is the system allocator's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is passed on.
        or_again(layout.size(), || unsafe { System.alloc(layout) })
    }

    // SAFETY: callers keep to the contract of `GlobalAlloc`, which is the system allocator's.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is passed on.
        or_again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    // SAFETY: callers keep to the contract of `GlobalAlloc`, which is the system allocator's.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's block, layout and size are passed on; where it fails, the block is as it was.
        or_again(size, || unsafe { System.realloc(block, layout, size) })
    }

    // SAFETY: callers keep to the contract of `GlobalAlloc`, which is the system allocator's.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block is of the system allocator, as all are.
        unsafe { System.dealloc(block, layout) }
    }
}

fn or_again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let block = allocate();
    if block.is_null() { again(size, allocate) } else { block }
}

#[cold]
fn again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if size > LARGEST {
        return null_mut();
    }
    // Held until the block is there: another thread that fills the reserve again would take what it is made of.
    let _turn = ReserveTurn::wait();
    LOW.store(true, SeqCst);
    let kept = KEPT.swap(null_mut(), SeqCst);
    if !kept.is_null() {
        // SAFETY: `fill` took the block, and the exchange made it this call's alone.
        unsafe { pages::give(kept, RESERVE) };
    }
    // Also where another thread was the one that gave it back.
    allocate()
}

/// The right to give back or to take the reserve. Spins, since the locks of `std` may allocate on some systems.
struct ReserveTurn;

impl ReserveTurn {
    fn wait() -> ReserveTurn {
        while TAKEN.swap(true, SeqCst) {
            yield_now();
        }
        ReserveTurn
    }
}

impl Drop for ReserveTurn {
    fn drop(&mut self) {
        TAKEN.store(false, SeqCst);
    }
}

/// Takes the reserve, unless it is held already; false where there is no memory for it.
pub fn keep() -> bool {
    if !KEPT.load(SeqCst).is_null() {
        return true;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    share_one_arena();
    fill(&ReserveTurn::wait())
}

fn fill(_: &ReserveTurn) -> bool {
    if KEPT.load(SeqCst).is_null() {
        KEPT.store(pages::take(RESERVE), SeqCst);
    }
    !KEPT.load(SeqCst).is_null()
}

/// Where the address space has a limit, glibc's threads share one arena: each of their own takes 64 MiB of it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn share_one_arena() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a place for the answer, and both calls may be made at any time from any thread.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// False after the reserve had to be given back, until there is memory for it again. Costs a load of an atomic where
/// all is well.
pub fn whole() -> bool {
    if !LOW.load(SeqCst) {
        return true;
    }
    let turn = ReserveTurn::wait();
    let kept = fill(&turn);
    LOW.store(!kept, SeqCst);
    kept
}

/// Gives free memory back to the system. glibc keeps blocks below 32 MB for later use once such blocks have been freed
/// before, which after a model or a long body are hundreds of megabytes; other allocators give them back by themselves.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time from any thread; it touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// True when the system has `bytes` more in one piece and the reserve is whole. For threads, and for work whose many
/// allocations together have a known size; what is asked about is not kept.
///
/// The system is asked and not the allocator: what that one has left over is no place for a thread's stack.
pub fn affordable(bytes: usize) -> bool {
    // The reserve first: filled afterwards, it would take what was there.
    if !whole() {
        return false;
    }
    let block = pages::take(bytes.max(1));
    if block.is_null() {
        return false;
    }
    // SAFETY: the block was just taken with this size.
    unsafe { pages::give(block, bytes.max(1)) };
    true
}

/// Memory that the system itself gives and takes back: the reserve's block, of which an allocator might keep the place for
/// one of its threads' arenas.
#[cfg(unix)]
mod pages {
    use std::ptr::null_mut;

    /// `bytes` bytes, above 0; null where there are none.
    pub fn take(bytes: usize) -> *mut u8 {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: asks for pages at a place of the system's choice.
        let block = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        if block == libc::MAP_FAILED { null_mut() } else { block.cast() }
    }

    /// # Safety
    /// `block` came from [`take`] with as many bytes, and nobody uses it.
    pub unsafe fn give(block: *mut u8, bytes: usize) {
        // SAFETY: the pages are those of `take`.
        unsafe { libc::munmap(block.cast(), bytes) };
    }
}

#[cfg(not(unix))]
mod pages {
    use std::{
        alloc::{GlobalAlloc, Layout, System},
        hint::black_box,
        ptr::null_mut,
    };

    /// `bytes` bytes, above 0; null where there are none.
    pub fn take(bytes: usize) -> *mut u8 {
        let Ok(layout) = Layout::from_size_align(bytes, align_of::<usize>()) else { return null_mut() };
        // The compiler leaves out what is got and freed at once, and takes it to have succeeded.
        // SAFETY: the layout has a size above 0.
        black_box(unsafe { System.alloc(layout) })
    }

    /// # Safety
    /// `block` came from [`take`] with as many bytes, and nobody uses it.
    pub unsafe fn give(block: *mut u8, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, align_of::<usize>()) {
            // SAFETY: the block was got with this layout.
            unsafe { System.dealloc(block, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The one test, since the reserve is the process's.
    #[test]
    fn the_reserve_serves_what_is_small_until_it_is_filled_again() {
        assert!(whole() && keep() && whole());
        let tries = Cell::new(0);
        let mut place = 7u8;
        let place: *mut u8 = &mut place;
        let fails_once = || {
            tries.set(tries.get() + 1);
            if tries.get() % 2 == 1 { null_mut() } else { place }
        };
        assert!(or_again(LARGEST + 1, fails_once).is_null() && tries.get() == 1 && !LOW.load(SeqCst));
        tries.set(0);
        assert_eq!(or_again(LARGEST, fails_once), place);
        assert!(KEPT.load(SeqCst).is_null() && LOW.load(SeqCst));
        assert!(whole() && !KEPT.load(SeqCst).is_null() && !LOW.load(SeqCst));
        assert!(affordable(1 << 20) && !affordable(isize::MAX as usize - 64) && !affordable(usize::MAX));

        let layout = |bytes| Layout::from_size_align(bytes, 8).expect("a layout");
        // SAFETY: blocks are used and freed with the layouts that they were got with.
        unsafe {
            let block = WithReserve.alloc_zeroed(layout(16));
            assert_eq!(block.cast::<u64>().read_unaligned(), 0);
            let block = WithReserve.realloc(block, layout(16), 1 << 20);
            WithReserve.dealloc(block, layout(1 << 20));
            let block = WithReserve.alloc(layout(8));
            WithReserve.dealloc(block, layout(8));
        }
    }
}
