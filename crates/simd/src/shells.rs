//! From one generic kernel to one function per instruction set.

/// Defines `fn $name(isa: Isa) -> fn pointer` that instantiates the generic kernel `$kernel::<S, ..>` for each
/// instruction set of this build inside a function that enables its features.
///
/// ```ignore
/// shells! {
///     /// Picks the dot kernel of format `F`.
///     pub fn pick_dot<F: Format>() = dot::<F>(w: *const u8, x: &[f32]) -> f32
/// }
/// ```
/// expects `unsafe fn dot<S: Simd, F: Format>(w: *const u8, x: &[f32]) -> f32` marked `#[inline(always)]`.
#[macro_export]
macro_rules! shells {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $(<$($g:ident : $bound:path),*>)? () = $kernel:ident $(::<$($use:ident),*>)? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)?
    ) => {
        $(#[$doc])*
        $vis fn $name $(<$($g: $bound),*>)? (isa: $crate::Isa) -> unsafe fn($($ty),*) $(-> $ret)? {
            $crate::for_each_isa! { isa [$(<$($g: $bound),*>)?] [$($($use),*)?] [$($arg: $ty),*] [$($arg),*] [$(-> $ret)?] $kernel }
            /// # Safety
            /// As for the kernel.
            #[allow(clippy::too_many_arguments)]
            unsafe fn scalar $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller keeps the kernel's own conditions; portable code needs no instructions.
                unsafe { $kernel::<$crate::scalar::Scalar $(, $($use),*)?>($($arg),*) }
            }
            scalar $(::<$($use),*>)?
        }
    };
}

/// Returns the function of one instruction set where `$isa` is that set.
#[doc(hidden)]
#[macro_export]
macro_rules! shell {
    (
        $set:ident $features:literal $lanes:path:
        $isa:ident [$($generics:tt)*] [$($use:ident),*] [$($args:tt)*] [$($arg:ident),*] [$($ret:tt)*] $kernel:ident
    ) => {
        if $isa == $crate::Isa::$set {
            /// # Safety
            /// As for the kernel; the CPU has the features that are enabled here.
            #[target_feature(enable = $features)]
            #[allow(clippy::too_many_arguments)]
            unsafe fn shell $($generics)* ($($args)*) $($ret)* {
                // SAFETY: chosen only for CPUs that `Isa::available` found to have these features; the caller keeps the
                // kernel's own conditions.
                unsafe { $kernel::<$lanes $(, $use)*>($($arg),*) }
            }
            return shell::<$($use),*>;
        }
    };
}

/// The table of sets: name, features that are enabled, and lanes. `build.rs` says which of them are built.
macro_rules! sets {
    ($d:tt $($cfg:ident $set:ident $features:literal $module:ident :: $lanes:ident;)*) => {
        $(
            /// Its tokens where the set is built, and nothing where it is not: decided in this crate, not in the one that
            /// expands a kernel.
            #[doc(hidden)]
            #[cfg($cfg)]
            #[macro_export]
            macro_rules! $cfg {
                ($d($d signature:tt)*) => {
                    $crate::shell! { $set $features $crate::$module::$lanes: $d($d signature)* }
                };
            }
            #[doc(hidden)]
            #[cfg(not($cfg))]
            #[macro_export]
            macro_rules! $cfg {
                ($d($d signature:tt)*) => {};
            }
        )*

        #[doc(hidden)]
        #[macro_export]
        macro_rules! for_each_isa {
            ($d($d signature:tt)*) => { $($crate::$cfg! { $d($d signature)* })* };
        }

        impl crate::Isa {
            /// True when kernels of this build are there for it.
            pub(crate) const fn is_built(self) -> bool {
                match self {
                    $(crate::Isa::$set => cfg!($cfg),)*
                    crate::Isa::Scalar => true,
                }
            }
        }
    };
}

sets! { $
    isa_avx2 Avx2 "avx2,fma,f16c,bmi1,bmi2" avx2::Avx2;
    isa_avx_vnni AvxVnni "avx2,fma,f16c,bmi1,bmi2,avxvnni" vnni::AvxVnni;
    isa_avx512_vl Avx512Vl "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni" vnni::Avx512Vl;
    isa_avx512 Avx512 "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni" avx512::Avx512;
    isa_neon Neon "neon" neon::Neon;
    isa_neon_dot NeonDot "neon,dotprod" neon::NeonDot;
    isa_neon_i8mm NeonI8mm "neon,dotprod,i8mm" neon::NeonI8mm;
}
