//! Operators over single rows: look-ups, residuals, nonlinearities, selection.

use crate::{
    args::{ActArgs, AddArgs, ConcatArgs, GateArgs, LookupArgs, MapArgs, PickArgs, RowArgs},
    device::{Bound, GpuDevice},
    machine::{Enqueue, GpuMachine},
};
use lamina_plan::{Batch, Slot, WeightId, backend::Result, op::*};

/// Columns of a block of kernels over rows.
const COLUMNS: usize = 256;

/// Numbers that a block of a look-up copies: 64 threads with 32 each.
const LOOKED_UP: usize = 64 * 32;

/// Code and parameters of a nonlinearity, as `kernels/rows.h` has them.
pub(super) fn act_code(act: Act) -> (i32, [f32; 3]) {
    match act {
        Act::Silu => (0, [0.0; 3]),
        Act::Gelu => (1, [0.0; 3]),
        Act::GeluTanh => (2, [0.0; 3]),
        Act::GeluQuick => (3, [0.0; 3]),
        Act::Relu => (4, [0.0; 3]),
        Act::ReluSquared => (5, [0.0; 3]),
        Act::Xielu { alpha_p, alpha_n, beta } => (6, [alpha_p, alpha_n, beta]),
        Act::SwigluClamped { alpha, limit } => (7, [alpha, limit, 0.0]),
    }
}

fn map_code(map: Map) -> (i32, [f32; 3]) {
    match map {
        Map::Scale(s) => (0, [s, 0.0, 0.0]),
        Map::Softcap(cap) => (1, [cap, 0.0, 0.0]),
        Map::Clip { low, high } => (2, [low, high, 0.0]),
        Map::Temperature(t) => (3, [t.scale, t.floor, t.offset]),
    }
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Grid of a kernel over the numbers of rows of `slot`.
    pub(super) fn columns(&self, b: &Batch, slot: Slot) -> [usize; 3] {
        [self.width(slot).div_ceil(COLUMNS), self.rows(b, slot), 1]
    }

    pub(super) fn row_args(&self, slot: Slot, factor: f32) -> RowArgs {
        RowArgs { kind: self.code(slot), width: self.width(slot) as i32, factor }
    }

    fn lookup(&self, b: &Batch, table: WeightId, out: Slot, args: LookupArgs) -> Result<()> {
        let table = self.weight(table);
        let args = LookupArgs { kind: self.code(out), width: self.width(out) as i32, ..args };
        let grid = [self.width(out).div_ceil(LOOKED_UP), self.rows(b, out), 1];
        let bound = [self.step(), Bound::read(&*table.buffer, 0), self.write_slot(out)];
        self.launch(table.format.lookup, grid, &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Embed> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Embed) -> Result<()> {
        self.lookup(b, o.table, o.out, LookupArgs { scale: o.scale, ..LookupArgs::default() })
    }
}

impl<D: GpuDevice> Enqueue<Positions> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Positions) -> Result<()> {
        let (by, offset) = match o.by {
            PlaceIndex::Position { offset } => (1, offset as i32),
            PlaceIndex::Segment => (2, 0),
        };
        self.lookup(b, o.table, o.x, LookupArgs { adds: 1, by, offset, scale: 1.0, ..LookupArgs::default() })
    }
}

impl<D: GpuDevice> Enqueue<Feature> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Feature) -> Result<()> {
        let bound = [self.step(), self.write_slot(o.out)];
        self.launch("row_feature", self.columns(b, o.out), &bound, &self.row_args(o.out, 1.0))
    }
}

impl<D: GpuDevice> Enqueue<Concat> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Concat) -> Result<()> {
        let RowArgs { kind, width, .. } = self.row_args(o.out, 1.0);
        let args = ConcatArgs { kind, width, first: self.width(o.a) as i32 };
        let bound = [self.step(), self.read_slot(o.a), self.read_slot(o.b), self.write_slot(o.out)];
        self.launch("row_concat", self.columns(b, o.out), &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Add> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Add) -> Result<()> {
        let bound = [self.step(), self.read_slot(o.x), self.write_slot(o.into)];
        let RowArgs { kind, width, factor } = self.row_args(o.into, o.scale);
        let columns = o.columns.range(self.width(o.into));
        let args = AddArgs { kind, width, first: columns.start as i32, count: columns.len() as i32, factor };
        self.launch("row_add", self.columns(b, o.into), &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Copy> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Copy) -> Result<()> {
        let bound = [self.step(), self.read_slot(o.x), self.write_slot(o.out)];
        self.launch("row_copy", self.columns(b, o.out), &bound, &self.row_args(o.out, 1.0))
    }
}

impl<D: GpuDevice> Enqueue<Select> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Select) -> Result<()> {
        let RowArgs { kind, width, .. } = self.row_args(o.out, 1.0);
        let args = PickArgs { kind, width, from: self.code(o.x) };
        let bound = [self.step(), self.read_slot(o.x), self.write_slot(o.out)];
        self.launch("row_pick", self.columns(b, o.out), &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Activate> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Activate) -> Result<()> {
        let RowArgs { kind, width, .. } = self.row_args(o.out, 1.0);
        let (code, p) = act_code(o.act);
        let columns = o.columns.range(self.width(o.out));
        let args = ActArgs {
            kind,
            width,
            first: columns.start as i32,
            count: columns.len() as i32,
            gated: i32::from(o.up.is_some()),
            code,
            p,
            ..ActArgs::default()
        };
        let up = self.read_slot(o.up.unwrap_or(o.gate));
        let bound = [self.step(), self.read_slot(o.gate), up, self.write_slot(o.out)];
        self.launch("row_activate", self.columns(b, o.out), &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Gate> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Gate) -> Result<()> {
        let RowArgs { kind, width, .. } = self.row_args(o.x, 1.0);
        let args = GateArgs { kind, width, share: width / self.width(o.gate).max(1) as i32 };
        let bound = [self.step(), self.read_slot(o.gate), self.write_slot(o.x)];
        self.launch("row_gate", self.columns(b, o.x), &bound, &args)
    }
}

impl<D: GpuDevice> Enqueue<Apply> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Apply) -> Result<()> {
        let RowArgs { kind, width, .. } = self.row_args(o.x, 1.0);
        let (code, p) = map_code(o.map);
        let bound = [self.step(), self.write_slot(o.x)];
        self.launch("row_map", self.columns(b, o.x), &bound, &MapArgs { kind, width, code, p })
    }
}
