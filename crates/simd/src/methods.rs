//! Macros for the unsafe methods of lane traits: some hundred functions of one expression, sound for one of two reasons.
//! `declare!` writes the condition into the documentation of each, `methods!` gives each the block that it justifies.

/// Methods of a trait on registers (`registers:`), or that read or write through a pointer (`memory:`).
macro_rules! declare {
    (registers: $($(#[$doc:meta])* fn $name:ident $(<const $k:ident: i32>)? ($($arg:ident: $t:ty),*) $(-> $r:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The CPU has the instructions of the implementing type.
        unsafe fn $name $(<const $k: i32>)? ($($arg: $t),*) $(-> $r)?;
    )*};
    (memory: $($(#[$doc:meta])* fn $name:ident ($($arg:ident: $t:ty),*) $(-> $r:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The CPU has the instructions of the implementing type, and the pointer is valid for the bytes that the list at
        /// [`Simd`](crate::Simd) gives; no alignment is asked for.
        unsafe fn $name ($($arg: $t),*) $(-> $r)?;
    )*};
}

/// Implementations of what [`declare!`] declares, and functions that help them.
macro_rules! methods {
    (registers: $($(#[$doc:meta])* fn $name:ident $(<const $k:ident: i32>)? ($($args:tt)*) $(-> $r:ty)? $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The CPU has the instructions of this file.
        #[inline(always)]
        #[allow(unused_unsafe)] // portable code, and what every CPU of an architecture has, is safe anyway
        unsafe fn $name $(<const $k: i32>)? ($($args)*) $(-> $r)? {
            // SAFETY: the body is instructions on registers, which the caller promises that the CPU has.
            unsafe { $body }
        }
    )*};
    (memory: $($(#[$doc:meta])* fn $name:ident $(<$s:ident: $bound:path>)? ($($args:tt)*) $(-> $r:ty)? $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The CPU has the instructions of this file, and the pointer is valid for the bytes that the list at
        /// [`Simd`](crate::Simd) gives.
        #[inline(always)]
        #[allow(unused_unsafe)] // what is safe on one architecture is not on another
        unsafe fn $name $(<$s: $bound>)? ($($args)*) $(-> $r)? {
            // SAFETY: the body reads or writes the listed bytes at the pointer and no others, by instructions that ask for no
            // alignment; the caller promises both the bytes and the instructions.
            unsafe { $body }
        }
    )*};
}
