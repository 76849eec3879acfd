//! From one generic kernel to one function per instruction set.

/// Defines `fn $name(isa: Isa) -> fn pointer` that instantiates the generic kernel `$kernel::<S, ..>` for each
/// instruction set inside a function that enables its features.
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
            /// # Safety
            /// As for the kernel.
            #[allow(clippy::too_many_arguments)]
            unsafe fn scalar $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller keeps the kernel's own conditions; portable code needs no instructions.
                unsafe { $kernel::<$crate::scalar::Scalar $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has AVX2, FMA, F16C, BMI1 and BMI2.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with AVX2, FMA, F16C and BMI; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::avx2::Avx2 $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has what `avx2` asks for, and AVX-VNNI.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avxvnni")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx_vnni $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with AVX2, FMA, F16C and AVX-VNNI; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::vnni::AvxVnni $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has AVX-512 F, BW, VL, DQ and VNNI, and what `avx2` asks for.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512_vl $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with these AVX-512 parts; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::vnni::Avx512Vl $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has AVX-512 F, BW, VL, DQ and VNNI, and what `avx2` asks for.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512 $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with these AVX-512 parts; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::avx512::Avx512 $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn neon $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: every aarch64 CPU has NEON; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::neon::Neon $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has `sdot`.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn neon_dot $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with dot products; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::neon::NeonDot $(, $($use),*)?>($($arg),*) }
            }
            /// # Safety
            /// As for the kernel; the CPU has `sdot` and `smmla`.
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod,i8mm")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn neon_i8mm $(<$($g: $bound),*>)? ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: chosen below only for CPUs with dot and matrix products; the caller keeps the kernel's conditions.
                unsafe { $kernel::<$crate::neon::NeonI8mm $(, $($use),*)?>($($arg),*) }
            }
            match isa {
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx2 => avx2 $(::<$($use),*>)?,
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::AvxVnni => avx_vnni $(::<$($use),*>)?,
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512Vl => avx512_vl $(::<$($use),*>)?,
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512 => avx512 $(::<$($use),*>)?,
                #[cfg(target_arch = "aarch64")]
                $crate::Isa::Neon => neon $(::<$($use),*>)?,
                #[cfg(target_arch = "aarch64")]
                $crate::Isa::NeonDot => neon_dot $(::<$($use),*>)?,
                #[cfg(target_arch = "aarch64")]
                $crate::Isa::NeonI8mm => neon_i8mm $(::<$($use),*>)?,
                _ => scalar $(::<$($use),*>)?,
            }
        }
    };
}
