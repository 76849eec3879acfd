//! Matrix products on tensor cores: rows become 16-bit numbers, then tiles of them are multiplied.
//!
//! Rows that do not fit into their buffer at once are done in chunks, and rows share tiles with any others: their bits depend
//! on neither.

use super::MANY;
use crate::{
    args::{HalfArgs, ProductArgs, TensorArgs},
    device::{Bound, GpuDevice},
    half_rows::{HalfRows, HalfSpace},
    machine::{GpuMachine, unsupported},
    tensor::{FEW_ROWS, MANY_ROWS, TensorFormat},
    weight::GpuWeight,
};
use lamina_plan::backend::Result;

/// Outputs of a tile of the kernels for few rows and for many.
const FEW_OUTPUTS: usize = 16;
const MANY_OUTPUTS: usize = 64;

/// A chunk of rows as 16-bit numbers: the numbers, sums of 32, and inverse factors.
type HalfBounds<'a, B> = [Bound<'a, B>; 3];

/// Inputs of products, before they become 16-bit numbers.
pub(super) struct TensorInput<'a, B> {
    pub x: Bound<'a, B>,
    /// Factor on the inputs of each item, where they have one.
    pub strength: Bound<'a, B>,
    /// Where the numbers of each row are; the type of the numbers is that of the weights.
    pub half: HalfArgs,
    /// Rows of the launches, from the first row of `half` on.
    pub rows: usize,
    /// Products of a row with a matrix of their own each; they share its inputs where `half` has one item.
    pub items: usize,
    /// Batch row of the first row of results.
    pub y_from: usize,
}

/// A matrix, or one for each item, that is multiplied with some inputs.
pub(super) struct TensorPart<'a, D: GpuDevice> {
    pub tensor: &'static TensorFormat,
    pub matrix: &'a GpuWeight<D>,
    pub bias: Bound<'a, D::Buffer>,
    pub y: Bound<'a, D::Buffer>,
    /// Rows of `y` are those of items here.
    pub product: ProductArgs,
}

/// Which pairs of a row and an item a tile has (`PairSource` of `kernels/tensor.h`).
pub(super) enum TilePairs<'a, B> {
    /// The same item of neighbouring rows, whose matrix has the item's number.
    Item,
    /// The items of one row, whose matrices are named here.
    Row(Bound<'a, B>),
    /// Those of a list (`kernels/groups.h`), which begins with at most `tiles` tiles of at most `height` pairs.
    List { lists: Bound<'a, B>, tiles: usize, height: usize, pairs_at: usize },
}

/// Pairs of a tile, where so many of them belong to a matrix: the bits are the same.
pub(super) fn tile_height(pairs: usize) -> usize {
    if pairs < MANY { FEW_ROWS } else { MANY_ROWS }
}

impl<D: GpuDevice> GpuMachine<D> {
    fn half_buffer(&self) -> Result<&HalfRows<D::Buffer>> {
        let no_room = || unsupported::<D>("a product on tensor cores without room for its inputs".into());
        self.halves.as_ref().ok_or_else(no_room)
    }

    /// Rows of `items` times `inputs` numbers that are there as 16-bit numbers at once.
    pub(super) fn rows_in_half(&self, inputs: usize, items: usize) -> Result<usize> {
        Ok(HalfSpace::new(inputs, items, self.half_buffer()?.bytes).rows.max(1))
    }

    /// All rows of `input`, whose items have matrices by their numbers.
    pub(super) fn tensor_rows(
        &self,
        input: &TensorInput<'_, D::Buffer>,
        parts: &[TensorPart<'_, D>],
    ) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        let half = input.half;
        let most = self.rows_in_half(half.inputs as usize, half.items as usize)?;
        for first in (0..input.rows).step_by(most) {
            let half = HalfArgs { first_row: half.first_row + first as i32, ..half };
            let chunk = TensorInput { half, rows: most.min(input.rows - first), ..*input };
            self.tensor_chunk(&chunk, &TilePairs::Item, parts)?;
        }
        Ok(())
    }

    /// Rows that fit at once. Neighbouring parts that take numbers of the same type share them.
    pub(super) fn tensor_chunk(
        &self,
        input: &TensorInput<'_, D::Buffer>,
        pairs: &TilePairs<'_, D::Buffer>,
        parts: &[TensorPart<'_, D>],
    ) -> Result<()> {
        let mut held = None;
        for part in parts {
            let bf16 = part.tensor.bf16;
            let halves = match held {
                Some((held_as, halves)) if held_as == bf16 => halves,
                _ => self.to_half(input, bf16)?,
            };
            held = Some((bf16, halves));
            self.multiply(input, halves, pairs, part)?;
        }
        Ok(())
    }

    /// Makes 16-bit numbers of rows.
    fn to_half(&self, input: &TensorInput<'_, D::Buffer>, bf16: bool) -> Result<HalfBounds<'_, D::Buffer>> {
        let halves = self.half_buffer()?;
        let args = HalfArgs { bf16: i32::from(bf16), ..input.half };
        let space = HalfSpace::new(args.inputs as usize, args.items as usize, halves.bytes);
        let parts = [0, space.sums, space.undo];
        let [numbers, sums, undo] = parts.map(|at| Bound::write(&halves.buffer, at));
        let bound = [self.step(), input.x, input.strength, numbers, sums, undo];
        self.launch("half_rows", [args.items as usize, input.rows, 1], &bound, &args)?;
        Ok(parts.map(|at| Bound::read(&halves.buffer, at)))
    }

    fn multiply(
        &self,
        input: &TensorInput<'_, D::Buffer>,
        [numbers, sums, undo]: HalfBounds<'_, D::Buffer>,
        pairs: &TilePairs<'_, D::Buffer>,
        part: &TensorPart<'_, D>,
    ) -> Result<()> {
        let TensorInput { half, rows, items, y_from, .. } = *input;
        let (source, lists, pairs_at, [tiles, each], height) = match *pairs {
            TilePairs::Item => {
                let height = tile_height(rows);
                (0, self.step(), 0, [rows.div_ceil(height), items], height)
            }
            TilePairs::Row(chosen) => (1, chosen, 0, [1, items], FEW_ROWS),
            TilePairs::List { lists, tiles, height, pairs_at } => (2, lists, pairs_at, [tiles, 1], height),
        };
        let (kernel, outputs) = if height == FEW_ROWS {
            (part.tensor.few, FEW_OUTPUTS)
        } else {
            (part.tensor.many, MANY_OUTPUTS)
        };
        let args = TensorArgs {
            first_row: half.first_row,
            rows: rows as i32,
            items: items as i32,
            share: items as i32 / half.items,
            source,
            pairs_at: pairs_at as i32,
            first_pair: (half.first_row - y_from as i32) * items as i32,
            product: part.product,
        };
        let bound = [self.step(), part.matrix.bound()?, numbers, sums, undo, part.bias, lists, part.y];
        self.launch(kernel, [part.matrix.rows.div_ceil(outputs), tiles, each], &bound, &args)
    }
}
