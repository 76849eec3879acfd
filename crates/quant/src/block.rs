//! The two faces of a block format: typed for kernels, erased for tables.

use std::marker::PhantomData;

use bytemuck::Pod;
use lamina_base::DType;

/// A block as it lies in a file. The type is the layout: `repr(C)`, alignment 1, no padding, every bit pattern valid.
///
/// `decode` defines what the bytes mean; every faster kernel is tested against it.
pub trait BlockFormat: Pod + Send + Sync {
    /// Row of the type table: name, GGUF id, sizes.
    const DTYPE: DType;

    /// The decoded values: `[f32; N]`, with `N` the elements of one block.
    type Values: Pod;

    /// Writes the values of this block.
    fn decode(&self, out: &mut Self::Values);

    /// The block that comes closest to `x`, which is finite. `importance` weighs the squared error of each element
    /// (finite, not negative); without it all elements weigh the same.
    fn encode(x: &Self::Values, importance: Option<&Self::Values>) -> Self;
}

/// A block format behind a table entry. Lengths have been checked by the caller: see [`crate::decode`].
pub trait Format: Send + Sync {
    /// Row of the type table.
    fn dtype(&self) -> DType;

    /// Decodes whole blocks.
    ///
    /// # Panics
    /// When `blocks` is no whole number of blocks or `out` has another number of elements.
    fn decode(&self, blocks: &[u8], out: &mut [f32]);

    /// Encodes rows of `importance.len()` columns (or one row without it) into whole blocks.
    ///
    /// # Panics
    /// When lengths do not fit: see [`Format::decode`]; a row must hold whole blocks.
    fn encode(&self, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]);
}

/// The table entry of the blocks `B`.
pub(crate) struct Erased<B>(pub(crate) PhantomData<B>);

impl<B: BlockFormat> Erased<B> {
    /// Fails to compile when the struct and the type table disagree.
    pub(crate) const CHECKED: Self = {
        assert!(size_of::<B>() == B::DTYPE.block_bytes() && align_of::<B>() == 1);
        assert!(size_of::<B::Values>() == 4 * B::DTYPE.block_len());
        Erased(PhantomData)
    };
}

impl<B: BlockFormat> Format for Erased<B> {
    fn dtype(&self) -> DType {
        B::DTYPE
    }

    fn decode(&self, blocks: &[u8], out: &mut [f32]) {
        let blocks: &[B] = bytemuck::cast_slice(blocks);
        let out: &mut [B::Values] = bytemuck::cast_slice_mut(out);
        assert_eq!(blocks.len(), out.len(), "{}: blocks and values", B::DTYPE);
        for (block, out) in blocks.iter().zip(out) {
            block.decode(out);
        }
    }

    fn encode(&self, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let x: &[B::Values] = bytemuck::cast_slice(x);
        let out: &mut [B] = bytemuck::cast_slice_mut(out);
        assert_eq!(x.len(), out.len(), "{}: values and blocks", B::DTYPE);
        let Some(importance) = importance else {
            return out.iter_mut().zip(x).for_each(|(out, x)| *out = B::encode(x, None));
        };
        let importance: &[B::Values] = bytemuck::cast_slice(importance);
        for ((out, x), weights) in out.iter_mut().zip(x).zip(importance.iter().cycle()) {
            *out = B::encode(x, Some(weights));
        }
    }
}
