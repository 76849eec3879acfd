//! The list of block formats; one file each. To add one: a file with the block struct and its [`crate::BlockFormat`], and
//! a line in the list.

use lamina_base::DType;

use crate::block::{Erased, Format};

mod e2m1;
pub mod grids;
mod k_scales;
mod points;
mod ternary;

pub use points::{ShiftedPoint, ShiftedPoints, SignedPoint, SignedPoints};

macro_rules! formats {
    ($($module:ident $block:ident,)*) => {
        $(mod $module; pub use $module::$block;)*

        /// Every format, in the order of the list.
        pub static FORMATS: &[&dyn Format] = &[$(const { &Erased::<$block>::CHECKED },)*];
    };
}

formats! {
    f32 BlockF32,
    f16 BlockF16,
    bf16 BlockBF16,
    q4_0 BlockQ4_0,
    q4_1 BlockQ4_1,
    q5_0 BlockQ5_0,
    q5_1 BlockQ5_1,
    q8_0 BlockQ8_0,
    q2_k BlockQ2_K,
    q3_k BlockQ3_K,
    q4_k BlockQ4_K,
    q5_k BlockQ5_K,
    q6_k BlockQ6_K,
    iq2_xxs BlockIQ2_XXS,
    iq2_xs BlockIQ2_XS,
    iq2_s BlockIQ2_S,
    iq3_xxs BlockIQ3_XXS,
    iq3_s BlockIQ3_S,
    iq1_s BlockIQ1_S,
    iq1_m BlockIQ1_M,
    iq4_nl BlockIQ4_NL,
    iq4_xs BlockIQ4_XS,
    tq1_0 BlockTQ1_0,
    tq2_0 BlockTQ2_0,
    mxfp4 BlockMXFP4,
    nvfp4 BlockNVFP4,
    q1_0 BlockQ1_0,
}

/// The format of `dtype`; `None` for plain types that Lamina only reads.
pub fn format(dtype: DType) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|f| f.dtype() == dtype)
}
