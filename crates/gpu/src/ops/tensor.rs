//! Matrix products on tensor cores: rows become 16-bit numbers, then they are multiplied.
//!
//! Rows that do not fit into their buffer at once are done in chunks: their bits do not depend on it.

use super::linear::MANY;
use crate::{
    args::{EachArgs, HalfArgs, ProductArgs, TensorArgs},
    device::{Bound, GpuDevice},
    half_rows::HalfSpace,
    machine::{GpuMachine, unsupported},
    tensor::TensorFormat,
    weight::GpuWeight,
};
use lamina_plan::backend::Result;

/// Outputs of a block of the kernels for few rows and for items, and its rows.
const FEW_OUTPUTS: usize = 16;
const FEW_ROWS: usize = 8;
/// Outputs and rows of a tile of the kernel for many rows.
const MANY_OUTPUTS: usize = 64;
const MANY_ROWS: usize = 64;

/// A chunk of rows as 16-bit numbers: the numbers, sums of 32, and inverse factors.
type HalfBounds<'a, B> = [Bound<'a, B>; 3];

impl<D: GpuDevice> GpuMachine<D> {
    /// `rows` rows of `[x, bias, y]` times a matrix.
    pub(super) fn tensor_product(
        &self,
        tensor: &TensorFormat,
        matrix: &GpuWeight<D>,
        [x, bias, y]: [Bound<'_, D::Buffer>; 3],
        rows: usize,
        product: ProductArgs,
    ) -> Result<()> {
        let half = HalfArgs {
            kind: product.kind,
            inputs: product.inputs,
            items: 1,
            x_row: product.inputs,
            bf16: i32::from(tensor.bf16),
            ..HalfArgs::default()
        };
        self.in_chunks(rows, half, [x, x], |first, n, [halves, sums, undo]| {
            let (kernel, grid) = if n < MANY {
                (tensor.few, [matrix.rows.div_ceil(FEW_OUTPUTS), n.div_ceil(FEW_ROWS), 1])
            } else {
                (tensor.many, [matrix.rows.div_ceil(MANY_OUTPUTS), n.div_ceil(MANY_ROWS), 1])
            };
            let bound = [self.step(), matrix.bound()?, halves, sums, undo, bias, y];
            self.launch(
                kernel,
                grid,
                &bound,
                &TensorArgs { first_row: first as i32, rows: n as i32, product },
            )
        })
    }

    /// Items of `rows` rows of `[x, strength, bias, chosen, y]` times matrices of their own.
    pub(super) fn tensor_each(
        &self,
        tensor: &TensorFormat,
        matrix: &GpuWeight<D>,
        [x, strength, bias, chosen, y]: [Bound<'_, D::Buffer>; 5],
        rows: usize,
        args: EachArgs,
    ) -> Result<()> {
        let EachArgs { first_row, inputs, items, x_from, x_row, x_item, scaled, .. } = args;
        let bf16 = i32::from(tensor.bf16);
        let half = HalfArgs { kind: 0, first_row, inputs, items, x_from, x_row, x_item, scaled, bf16 };
        self.in_chunks(rows, half, [x, strength], |first, n, [halves, sums, undo]| {
            let grid = [(args.outputs as usize).div_ceil(FEW_OUTPUTS), items as usize, n];
            let args = EachArgs { first_row: first_row + first as i32, ..args };
            let bound = [self.step(), matrix.bound()?, halves, sums, undo, bias, chosen, y];
            self.launch(tensor.each, grid, &bound, &args)
        })
    }

    /// Calls `multiply` with the first row and the number of rows of each chunk of `rows`, as 16-bit numbers.
    fn in_chunks<'a>(
        &'a self,
        rows: usize,
        half: HalfArgs,
        [x, strength]: [Bound<'_, D::Buffer>; 2],
        multiply: impl Fn(usize, usize, HalfBounds<'a, D::Buffer>) -> Result<()>,
    ) -> Result<()> {
        let no_room = || unsupported::<D>("a product on tensor cores without room for its inputs".into());
        let halves = self.halves.as_ref().ok_or_else(no_room)?;
        let space = HalfSpace::new(half.inputs as usize, half.items as usize, halves.bytes);
        let parts = [0, space.sums, space.undo];
        for first in (0..rows).step_by(space.rows.max(1)) {
            let n = space.rows.min(rows - first);
            let args = HalfArgs { first_row: half.first_row + first as i32, ..half };
            let [numbers, sums, undo] = parts.map(|at| Bound::write(&halves.buffer, at));
            let bound = [self.step(), x, strength, numbers, sums, undo];
            self.launch("half_rows", [half.items as usize, n, 1], &bound, &args)?;
            multiply(first, n, parts.map(|at| Bound::read(&halves.buffer, at)))?;
        }
        Ok(())
    }
}
