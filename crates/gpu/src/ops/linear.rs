//! Matrix products, alone and with a residual.

use super::{
    MANY,
    tensor::{TensorInput, TensorPart, TilePairs},
};
use crate::{
    args::{EachArgs, HalfArgs, ProductArgs},
    device::{Bound, GpuDevice},
    machine::{Enqueue, GpuMachine},
    weight::GpuWeight,
};
use lamina_plan::{
    Batch, Slot, WeightId,
    backend::Result,
    op::{Linear, LinearAdd, Normalize, Part, Project},
};

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
    /// Outputs of `parts` for the rows of `x`, or added to them with a factor.
    fn products(&self, b: &Batch, x: Slot, parts: &[Part], add: Option<f32>) -> Result<()> {
        let (rows, inputs, from) = (self.rows(b, x), self.width(x) as i32, self.read_slot(x));
        let mut on_tensor_cores = vec![];
        for part in parts {
            let (matrix, (bias, _)) = (self.weight(part.weight), self.optional(part.bias));
            debug_assert_eq!(self.code(x), self.code(part.out), "a row of results for each row");
            let (product, y) = (self.product_args(part, add), self.write_slot(part.out));
            match matrix.tensor {
                Some(tensor) => on_tensor_cores.push(TensorPart { tensor, matrix, bias, y, product }),
                None => self.product(matrix, [from, bias, y], rows, &product)?,
            }
        }
        let half = HalfArgs { kind: self.code(x), inputs, items: 1, x_row: inputs, ..HalfArgs::default() };
        let input = TensorInput { x: from, strength: from, half, rows, items: 1, y_from: 0 };
        self.tensor_rows(&input, &on_tensor_cores)
    }

    fn product_args(&self, part: &Part, add: Option<f32>) -> ProductArgs {
        let matrix = self.weight(part.weight);
        ProductArgs {
            kind: self.code(part.out),
            inputs: matrix.cols as i32,
            outputs: matrix.rows as i32,
            has_bias: i32::from(part.bias.is_some()),
            adds: i32::from(add.is_some()),
            first: part.columns.first() as i32,
            y_row: self.width(part.out) as i32,
            factor: add.unwrap_or(1.0),
        }
    }

    /// `rows` rows of `[x, bias, y]` times a matrix, by chains of fma.
    fn product(
        &self,
        matrix: &GpuWeight<D>,
        [x, bias, y]: [Bound<'_, D::Buffer>; 3],
        rows: usize,
        args: &ProductArgs,
    ) -> Result<()> {
        let bound = [self.step(), matrix.bound()?, x, bias, y];
        let (kernel, grid) = if rows < MANY {
            (matrix.format.few, [matrix.panels(), rows.div_ceil(FEW_ROWS), 1])
        } else {
            (matrix.format.many, [matrix.rows.div_ceil(TILE), rows.div_ceil(TILE), 1])
        };
        self.launch(kernel, grid, &bound, args)
    }

    /// A product of items of rows, each with a matrix of its own, by its number. Sizes and kind of choice are filled into
    /// `args`.
    pub(super) fn product_each(&self, p: EachProduct<'_, D::Buffer>, args: EachArgs) -> Result<()> {
        self.products_each(&[p], &TilePairs::Item, args)
    }

    /// Several products of the same items; tensor cores take those of a tile together.
    pub(super) fn products_each(
        &self,
        products: &[EachProduct<'_, D::Buffer>],
        pairs: &TilePairs<'_, D::Buffer>,
        args: EachArgs,
    ) -> Result<()> {
        let Some(first) = products.first() else { return Ok(()) };
        debug_assert_eq!(args.y_row, args.items * args.y_item, "results lie item by item");
        let args = EachArgs {
            inputs: self.weight(first.weight).cols as i32,
            chosen: i32::from(first.chosen.is_some()),
            scaled: i32::from(first.strength.is_some()),
            ..args
        };
        let mut on_tensor_cores = vec![];
        for p in products {
            let (matrix, (bias, has_bias)) = (self.weight(p.weight), self.optional(p.bias));
            let args = EachArgs { has_bias, ..args };
            match matrix.tensor {
                Some(tensor) => {
                    let product = item_product(&args);
                    on_tensor_cores.push(TensorPart { tensor, matrix, bias, y: p.y, product });
                }
                None => self.item_by_item(matrix, p, bias, &args)?,
            }
        }
        let input = item_input(first, &args);
        match pairs {
            TilePairs::Item => self.tensor_rows(&input, &on_tensor_cores),
            _ => self.tensor_chunk(&input, pairs, &on_tensor_cores),
        }
    }

    /// The same by chains of fma.
    fn item_by_item(
        &self,
        matrix: &GpuWeight<D>,
        p: &EachProduct<'_, D::Buffer>,
        bias: Bound<'_, D::Buffer>,
        args: &EachArgs,
    ) -> Result<()> {
        let none = || Bound::read(&self.constants.buffer, 0);
        let grid = [(args.outputs as usize).div_ceil(crate::format::LANES), args.items as usize, p.rows];
        let (chosen, strength) = (p.chosen.unwrap_or_else(none), p.strength.unwrap_or_else(none));
        let bound = [self.step(), matrix.bound()?, p.x, bias, chosen, strength, p.y];
        self.launch(matrix.format.each, grid, &bound, args)
    }
}

/// A product whose rows are items.
fn item_product(args: &EachArgs) -> ProductArgs {
    ProductArgs {
        kind: 0,
        inputs: args.inputs,
        outputs: args.outputs,
        has_bias: args.has_bias,
        adds: 0,
        first: 0,
        y_row: args.y_item,
        factor: 1.0,
    }
}

/// Inputs of items as tensor cores take them: items that have the numbers of their row share them.
fn item_input<'a, B>(p: &EachProduct<'a, B>, args: &EachArgs) -> TensorInput<'a, B> {
    let &EachArgs { first_row, inputs, items, x_from, x_row, x_item, scaled, .. } = args;
    let own = if x_item == 0 && scaled == 0 { 1 } else { items };
    let half = HalfArgs { kind: 0, first_row, inputs, items: own, x_from, x_row, x_item, scaled, bf16: 0 };
    TensorInput {
        x: p.x,
        strength: p.strength.unwrap_or(p.x),
        half,
        rows: p.rows,
        items: items as usize,
        y_from: args.y_from as usize,
    }
}

impl<D: GpuDevice> Enqueue<Linear> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        self.products(b, o.x, &[o.part], None)
    }
}

/// Parts share what their input becomes on tensor cores.
impl<D: GpuDevice> Enqueue<Project> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Project) -> Result<()> {
        let mut x = o.x;
        if let Some(norm) = o.norm {
            x = o.temp;
            self.enqueue(b, &Normalize { x: o.x, norm, out: x })?;
        }
        self.products(b, x, &o.parts, None)
    }
}

impl<D: GpuDevice> Enqueue<LinearAdd> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        let &LinearAdd { weight, bias, into, columns, .. } = o;
        self.products(b, o.x, &[Part { weight, bias, out: into, columns }], Some(o.scale))
    }
}
