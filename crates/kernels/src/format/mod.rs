//! Which weight types have panels: one line each.

mod iq;
mod k;
mod legacy;
mod ternary;
mod wide;

use crate::{
    act::ActKind,
    block::{self, BlockPanels},
    float::{self, FloatFormat},
    product::{Job, PanelOperands, PanelSizes, ProductKernel},
    super_block::{self, SuperFormat},
};
use lamina_base::DType;
use lamina_simd::{Isa, Simd, shells};
pub use legacy::{Q40, Q41, Q80};

/// What a backend needs of a weight type on one instruction set.
#[derive(Clone, Copy)]
pub struct Kernels {
    dtype: DType,
    act: ActKind,
    rows: usize,
    lanes: usize,
    /// Bytes that one block of columns takes in a panel.
    block_bytes: usize,
    put: unsafe fn(&[u8], usize, &mut [u8]),
    product: ProductKernel,
}

impl Kernels {
    /// Type of the rows that [`Kernels::put`] reads.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Form of activations.
    pub fn act(&self) -> ActKind {
        self.act
    }

    /// Rows per panel.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that results are grouped by: `[group][activation row][lane]`.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Bytes of a panel of `cols` columns.
    pub fn panel_bytes(&self, cols: usize) -> usize {
        cols / self.act.block() * self.block_bytes
    }

    /// Sizes of a panel of `cols` columns.
    pub fn panel(&self, cols: usize) -> PanelSizes {
        let (bytes, blocks) = (self.panel_bytes(cols), cols / self.act.block());
        PanelSizes { bytes, blocks, rows: self.rows, act: self.act }
    }

    /// Multiplies panels of `cols` columns with rows of activations.
    ///
    /// # Panics
    /// When activations or results are fewer than the panels and rows take, or activations are not aligned as their form
    /// asks.
    pub fn multiply(&self, cols: usize, operands: PanelOperands<'_>) {
        let job = Job::new(operands, self.panel(cols));
        // SAFETY: `kernels` has seen that this CPU has the instructions, and panels have the bytes of this type.
        unsafe { (self.product)(&job) };
    }

    /// Writes a stored row into lane `lane` of a panel.
    ///
    /// # Panics
    /// When a panel has no such lane.
    pub fn put(&self, row: &[u8], lane: usize, panel: &mut [u8]) {
        assert!(lane < self.rows, "lane {lane} of {}", self.rows);
        // SAFETY: `kernels` has seen that this CPU has the instructions; the rest is slices.
        unsafe { (self.put)(row, lane, panel) };
    }
}

/// Low nibbles of `q` into the first half of `codes`, high ones into the second.
#[inline(always)]
fn nibbles(q: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(q.len());
    for ((l, h), q) in low.iter_mut().zip(high).zip(q) {
        (*l, *h) = (q & 15, q >> 4);
    }
}

/// Writes a stored row as row `r` of a panel.
///
/// # Safety
/// None is needed: it is unsafe only as the shells are that call it with instructions enabled.
#[inline(always)]
unsafe fn put_super<S: Simd, F: SuperFormat, D: Stored>(row: &[u8], r: usize, panel: &mut [u8]) {
    super_block::put_row::<F>(row, D::DTYPE.block_bytes(), r, S::N, panel);
}

/// Writes a stored row as row `r` of a panel.
///
/// # Safety
/// None is needed: it is unsafe only as the shells are that call it with instructions enabled.
#[inline(always)]
unsafe fn put_block<S: Simd, F: BlockPanels, D: Stored>(row: &[u8], r: usize, panel: &mut [u8]) {
    block::put_row::<F>(row, D::DTYPE.block_bytes(), r, S::N, panel);
}

use block::product as block_product;
use float::product as float_product;
use super_block::product as super_product;

shells! {
    fn super_kernel<F: SuperFormat>() = super_product::<F>(job: &Job<'_>)
}
shells! {
    fn block_kernel<F: BlockPanels>() = block_product::<F>(job: &Job<'_>)
}
shells! {
    fn float_kernel<F: FloatFormat>() = float_product::<F>(job: &Job<'_>)
}
shells! {
    fn super_put<F: SuperFormat, D: Stored>() = put_super::<F, D>(row: &[u8], r: usize, panel: &mut [u8])
}
shells! {
    fn block_put<F: BlockPanels, D: Stored>() = put_block::<F, D>(row: &[u8], r: usize, panel: &mut [u8])
}

/// The stored type of a format.
trait Stored: 'static {
    const DTYPE: DType;
}

/// Lanes of the vectors of `isa`.
pub fn lanes(isa: Isa) -> usize {
    if isa == Isa::Avx512 { 16 } else { 8 }
}

macro_rules! formats {
    (super { $($s:ident $st:ty,)* } block { $($b:ident $bt:ty,)* } float { $($f:ident $ft:ty,)* }) => {
        /// Types with kernels of their own.
        pub const NATIVE: &[DType] = &[$(DType::$s,)* $(DType::$b,)* $(DType::$f,)*];

        $(impl Stored for $st { const DTYPE: DType = DType::$s; })*
        $(impl Stored for $bt { const DTYPE: DType = DType::$b; })*

        /// The kernels of `dtype` on `isa`, if it has any.
        ///
        /// # Panics
        /// When this CPU lacks the instructions.
        pub fn kernels(dtype: DType, isa: Isa) -> Option<Kernels> {
            assert!(isa.available(), "{isa} is not available");
            let n = lanes(isa);
            let made = |act, rows, block_bytes, put, product| Some(Kernels { dtype, act, rows, lanes: n, block_bytes, put, product });
            match dtype {
                $(DType::$s => made(ActKind::Int256, n, super_block::SuperLayout::bytes::<$st>(n), super_put::<$st, $st>(isa), super_kernel::<$st>(isa)),)*
                $(DType::$b => made(ActKind::Int32, n, block::block_bytes::<$bt>(n), block_put::<$bt, $bt>(isa), block_kernel::<$bt>(isa)),)*
                $(DType::$f => made(ActKind::F32, float::ROWS, <$ft as FloatFormat>::BYTES * float::ROWS, float::put_row::<$ft>, float_kernel::<$ft>(isa)),)*
                _ => None,
            }
        }
    };
}

formats! {
    super {
        Q2_K k::Q2K,
        Q3_K k::Q3K,
        Q4_K k::Q4K,
        Q5_K k::Q5K,
        Q6_K k::Q6K,
        IQ4_XS k::Iq4Xs,
        IQ1_S iq::Iq1S,
        IQ1_M iq::Iq1M,
        IQ2_XXS iq::Iq2Xxs,
        IQ2_XS iq::Iq2Xs,
        IQ2_S iq::Iq2S,
        IQ3_XXS iq::Iq3Xxs,
        IQ3_S iq::Iq3S,
        TQ1_0 ternary::Tq1,
        TQ2_0 ternary::Tq2,
    }
    block {
        Q4_0 legacy::Q40,
        Q4_1 legacy::Q41,
        Q5_0 legacy::Q50,
        Q5_1 legacy::Q51,
        Q8_0 legacy::Q80,
        IQ4_NL legacy::Iq4Nl,
        MXFP4 legacy::Mxfp4,
        NVFP4 wide::Nvfp4,
        Q1_0 wide::Q10,
    }
    float {
        F32 float::F32,
        F16 float::F16,
        BF16 float::BF16,
        F8_E4M3 float::F8,
    }
}
