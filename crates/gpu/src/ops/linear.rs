//! Matrix products, alone and with a residual.

use crate::{
    args::{EachArgs, ProductArgs},
    device::{Bound, GpuDevice},
    machine::{Enqueue, GpuMachine},
};
use lamina_plan::{
    Batch, Slot, WeightId,
    backend::Result,
    op::{Linear, LinearAdd, Part},
};

/// Rows of a step from which on a tile of many rows is used: the bits are the same.
pub(super) const MANY: usize = 24;

/// Rows of a block of the kernel for few, and outputs and rows of a tile of the kernel for many.
const FEW_ROWS: usize = 8;
const TILE: usize = 64;

/// Where a product of each item of a row takes its matrices, and its rows.
pub(super) struct EachProduct<'a, B> {
    pub weight: WeightId,
    pub bias: Option<WeightId>,
    pub x: Bound<'a, B>,
    /// Matrix of each item; none where it is the item's number.
    pub chosen: Option<Bound<'a, B>>,
    /// Factor on the inputs of each item.
    pub strength: Option<Bound<'a, B>>,
    pub y: Bound<'a, B>,
    /// Rows of the launch.
    pub rows: usize,
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Outputs of `part` for the rows of `x`, or added to it with a factor.
    fn product(&self, b: &Batch, x: Slot, part: Part, add: Option<f32>) -> Result<()> {
        let Part { weight, bias, out: y, columns } = part;
        let (matrix, rows) = (self.weight(weight), self.rows(b, y));
        let (bias, has_bias) = self.optional(bias);
        let args = ProductArgs {
            kind: self.code(y),
            inputs: matrix.cols as i32,
            outputs: matrix.rows as i32,
            has_bias,
            adds: i32::from(add.is_some()),
            first: columns.first() as i32,
            y_row: self.width(y) as i32,
            factor: add.unwrap_or(1.0),
        };
        if let Some(tensor) = matrix.tensor {
            return self.tensor_product(
                tensor,
                matrix,
                [self.read_slot(x), bias, self.write_slot(y)],
                rows,
                args,
            );
        }
        let matrix_bytes = matrix.bound()?;
        let bound = [self.step(), matrix_bytes, self.read_slot(x), bias, self.write_slot(y)];
        let (kernel, grid) = if rows < MANY {
            (matrix.format.few, [matrix.panels(), rows.div_ceil(FEW_ROWS), 1])
        } else {
            (matrix.format.many, [matrix.rows.div_ceil(TILE), rows.div_ceil(TILE), 1])
        };
        self.launch(kernel, grid, &bound, &args)
    }

    /// Products of items of rows, each with a matrix of its own. Sizes and kind of choice are filled into `args`.
    pub(super) fn product_each(&self, p: EachProduct<'_, D::Buffer>, args: EachArgs) -> Result<()> {
        let matrix = self.weight(p.weight);
        let rows_of_one = args.outputs as usize;
        let (bias, has_bias) = self.optional(p.bias);
        let none = || Bound::read(&self.constants.buffer, 0);
        let args = EachArgs {
            inputs: matrix.cols as i32,
            has_bias,
            chosen: i32::from(p.chosen.is_some()),
            scaled: i32::from(p.strength.is_some()),
            ..args
        };
        let grid = [rows_of_one.div_ceil(crate::format::LANES), args.items as usize, p.rows];
        let (chosen, strength) = (p.chosen.unwrap_or_else(none), p.strength.unwrap_or_else(none));
        if let Some(tensor) = matrix.tensor {
            return self.tensor_each(tensor, matrix, [p.x, strength, bias, chosen, p.y], p.rows, args);
        }
        let bound = [self.step(), matrix.bound()?, p.x, bias, chosen, strength, p.y];
        self.launch(matrix.format.each, grid, &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Linear> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        self.product(b, o.x, o.part, None)
    }
}

impl<D: GpuDevice> Enqueue<LinearAdd> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        let &LinearAdd { weight, bias, into, columns, .. } = o;
        self.product(b, o.x, Part { weight, bias, out: into, columns }, Some(o.scale))
    }
}
