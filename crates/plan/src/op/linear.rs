//! Matrix products, alone and with what surrounds them.

use super::{
    Act, Activate, Add, ColumnRange, Fused, NormOp, Normalize,
    Operand::{self, *},
    Operands, Ops, operands,
};
use crate::{
    batch::Batch,
    error::Result,
    slot::{Slot, WeightId},
};

/// One matrix of a projection: `out = x w^T + bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// `[width of out, width of x]`.
    pub weight: WeightId,
    /// One per output.
    pub bias: Option<WeightId>,
    /// Result.
    pub out: Slot,
    /// Columns of `out` that the rows of the weight go to; the bias has a number for every column of `out`.
    pub columns: ColumnRange,
}

/// One matrix product without a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Input.
    pub x: Slot,
    /// Matrix, bias and result.
    pub part: Part,
}

impl Operands for Linear {
    fn operands(&self) -> Vec<Operand> {
        let Part { weight, bias, out, columns } = self.part;
        operands(&[Read(self.x), Weight(weight), columns.write(out)], [bias])
    }
}

/// Several matrix products of one normed input. Meaning: norm into `temp`, then each part.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// Input.
    pub x: Slot,
    /// Norm of the input; without one `x` is used as it is.
    pub norm: Option<NormOp>,
    /// Holds the normed input.
    pub temp: Slot,
    /// Matrices with their results.
    pub parts: Vec<Part>,
}

impl Operands for Project {
    fn operands(&self) -> Vec<Operand> {
        let mut all = operands(&[Read(self.x)], self.norm.iter().flat_map(NormOp::weights));
        // Without a norm nothing is put into `temp`.
        all.extend(self.norm.map(|_| Write(self.temp)));
        for part in &self.parts {
            all.extend([Weight(part.weight), part.columns.write(part.out)]);
            all.extend(part.bias.map(Weight));
        }
        all
    }
}

impl Fused for Project {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        let x = match self.norm {
            Some(norm) => {
                m.normalize(b, &Normalize { x: self.x, norm, out: self.temp })?;
                self.temp
            }
            None => self.x,
        };
        self.parts.iter().try_for_each(|&part| m.linear(b, &Linear { x, part }))
    }
}

/// `into += scale * (x w^T + bias)`. Meaning: linear into `temp`, then add.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAdd {
    /// Input.
    pub x: Slot,
    /// Matrix.
    pub weight: WeightId,
    /// One per output.
    pub bias: Option<WeightId>,
    /// Holds the product.
    pub temp: Slot,
    /// Factor on what is added.
    pub scale: f32,
    /// Changed in place.
    pub into: Slot,
    /// Columns of `temp` and `into` that the rows of the weight go to; the bias has a number for every column.
    pub columns: ColumnRange,
}

impl Operands for LinearAdd {
    fn operands(&self) -> Vec<Operand> {
        let temp = self.columns.write(self.temp);
        operands(&[Read(self.x), Weight(self.weight), temp, Change(self.into)], [self.bias])
    }
}

impl Fused for LinearAdd {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        let &LinearAdd { x, weight, bias, temp, scale, into, columns } = self;
        m.linear(b, &Linear { x, part: Part { weight, bias, out: temp, columns } })?;
        m.add(b, &Add { x: temp, scale, into, columns })
    }
}

/// First half of a feed-forward part. Meaning: project into `gate` (and `up`), then activate into `gate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Glu {
    /// Norm, input and one or two matrices: gate and up, or up alone. Both have the same columns.
    pub project: Project,
    /// Nonlinearity; the result is in the first part's slot.
    pub act: Act,
}

impl Operands for Glu {
    fn operands(&self) -> Vec<Operand> {
        self.project.operands()
    }
}

impl Fused for Glu {
    fn meaning<M: Ops + ?Sized>(&self, m: &mut M, b: &Batch) -> Result<()> {
        m.project(b, &self.project)?;
        let Part { out: gate, columns, .. } = self.project.parts[0];
        let up = self.project.parts.get(1).map(|p| p.out);
        m.activate(b, &Activate { gate, up, act: self.act, out: gate, columns })
    }
}
