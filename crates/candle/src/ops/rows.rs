//! Look-ups, residuals, nonlinearities and selection: number by number, so that all rows go at once.

use crate::{
    machine::{CandleMachine, Compute},
    math::{activate, scaled, sigmoid, softcap},
};
use candle_core::{Result, Tensor};
use lamina_plan::{
    Batch,
    batch::Input,
    op::{Activate, Add, Apply, Concat, Copy, Embed, Feature, Gate, Map, Positions, Select},
};

impl Compute<Embed> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Embed) -> Result<()> {
        let tokens: Vec<u32> =
            b.inputs.iter().filter_map(|i| if let Input::Token(t) = *i { Some(t) } else { None }).collect();
        let mut parts = vec![];
        if !tokens.is_empty() {
            parts.push(scaled(&self.weight(o.table).rows(&self.ids(&tokens)?)?, o.scale)?);
        }
        if tokens.len() == b.rows() {
            return self.set(o.out, parts.remove(0));
        }
        let width = self.width(o.out);
        parts.push(self.numbers(&b.numbers, b.numbers.len() / width)?);
        // Tokens first, numbers behind them: each row takes its own.
        let mut next = 0..tokens.len() as u32;
        let place = |input: &Input| match *input {
            Input::Token(_) => next.next().unwrap_or_default(),
            Input::Row(i) => tokens.len() as u32 + i,
        };
        let order: Vec<u32> = b.inputs.iter().map(place).collect();
        let rows = Tensor::cat(&parts, 0)?.index_select(&self.ids(&order)?, 0)?;
        self.set(o.out, rows)
    }
}

impl Compute<Feature> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Feature) -> Result<()> {
        self.set(o.out, self.numbers(&b.features, b.rows())?)
    }
}

impl Compute<Concat> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Concat) -> Result<()> {
        let rows = Tensor::cat(&[self.get(b, o.a)?, self.get(b, o.b)?], 1)?;
        self.set(o.out, rows)
    }
}

impl Compute<Positions> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Positions) -> Result<()> {
        let x = self.get(b, o.x)?;
        let at: Vec<u32> = (0..x.dim(0)?).map(|row| o.by.of(b, row) as u32).collect();
        let rows = (x + self.weight(o.table).rows(&self.ids(&at)?)?)?;
        self.set(o.x, rows)
    }
}

impl Compute<Add> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Add) -> Result<()> {
        let x = scaled(&self.columns(b, o.x, o.columns)?, o.scale)?;
        let rows = (self.columns(b, o.into, o.columns)? + x)?;
        self.set_columns(b, o.into, o.columns, rows)
    }
}

impl Compute<Copy> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Copy) -> Result<()> {
        self.set(o.out, self.get(b, o.x)?)
    }
}

impl Compute<Select> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Select) -> Result<()> {
        let picked = self.ids(b.picked(self.kind(o.x), self.kind(o.out)))?;
        let rows = self.get(b, o.x)?.index_select(&picked, 0)?;
        self.set(o.out, rows)
    }
}

impl Compute<Activate> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Activate) -> Result<()> {
        let up = o.up.map(|up| self.columns(b, up, o.columns)).transpose()?;
        let rows = activate(o.act, &self.columns(b, o.gate, o.columns)?, up.as_ref())?;
        self.set_columns(b, o.out, o.columns, rows)
    }
}

impl Compute<Gate> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Gate) -> Result<()> {
        let (x, gate) = (self.get(b, o.x)?, sigmoid(&self.get(b, o.gate)?)?);
        let ((rows, width), gates) = (x.dims2()?, gate.dim(1)?);
        let x = x.reshape((rows, gates, width / gates))?.broadcast_mul(&gate.unsqueeze(2)?)?;
        self.set(o.x, x.reshape((rows, width))?)
    }
}

impl Compute<Apply> for CandleMachine {
    fn compute(&mut self, b: &Batch, o: &Apply) -> Result<()> {
        let x = self.get(b, o.x)?;
        let rows = match o.map {
            Map::Scale(s) => scaled(&x, s)?,
            Map::Softcap(cap) => softcap(&x, cap)?,
            Map::Clip { low, high } => x.clamp(low, high)?,
            Map::Temperature(t) => {
                let factor = |row: usize| {
                    let steps = ((b.positions[row][0] as f32 + t.offset) / t.floor).floor();
                    1.0 + t.scale * steps.ln_1p()
                };
                let factors: Vec<f32> = (0..x.dim(0)?).map(factor).collect();
                x.broadcast_mul(&self.numbers(&factors, factors.len())?)?
            }
        };
        self.set(o.x, rows)
    }
}
