//! Rotation, stored keys and values, and softmax attention over them.

use crate::{
    args::{AttendArgs, QueryPart, RopeArgs, StoreArgs, StoredPart},
    device::{Bound, GpuDevice},
    graphs::bucket,
    kv::PagePlan,
    machine::{Enqueue, GpuMachine, unsupported},
    scratch::UnitSpace,
    tensor_pages::{TILE, TensorPages},
};
use lamina_plan::{
    Batch, Slot,
    backend::Result,
    op::{Attention, Mask, Rotate, Store},
};

/// Query heads of a block.
const HEADS: usize = 4;

/// Blocks that fill a device: rows with fewer share out their units.
const SIDE_BLOCKS: usize = 256;

/// Operands of an attention beside its layer's pages.
pub(super) struct AttendRun<'a, B> {
    pub kv: usize,
    pub q: Bound<'a, B>,
    pub q_rope: Bound<'a, B>,
    pub sinks: Bound<'a, B>,
    pub out: Bound<'a, B>,
    pub rows: usize,
    /// Units run side by side, in scratch memory from byte `parts` on.
    pub side: bool,
    pub parts: usize,
    /// Cells that a row sees at most.
    pub cells: usize,
    /// How tensor cores do it; by chains of fma otherwise.
    pub tensor: Option<&'static TensorPages>,
}

/// How tensor cores attend to some pages, if they do.
pub(super) type KnownPages = fn(&PagePlan) -> Option<&'static TensorPages>;

/// Threads of a block that stores, each with 32 numbers.
const STORED: usize = 64;

impl<D: GpuDevice> Enqueue<Rotate> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Rotate) -> Result<()> {
        let rope = self.constants.ropes[o.rope];
        let args = RopeArgs {
            kind: self.code(o.x),
            width: self.width(o.x) as i32,
            heads: o.heads as i32,
            start: o.start as i32,
            half: (rope.dim / 2) as i32,
            table: rope.at as i32,
            original: rope.original.min(i32::MAX as usize) as i32,
            magnitude: rope.magnitude,
        };
        let grid = [(o.heads * rope.dim / 2).div_ceil(128), self.rows(b, o.x), 1];
        let bound = [self.step(), Bound::read(&self.constants.buffer, 0), self.write_slot(o.x)];
        self.launch("rotate", grid, &bound, &args)
    }
}

/// Code of a mask and its length in tokens, as `kernels/attend.h` has them.
fn mask_code(mask: Mask) -> (i32, i32) {
    match mask {
        Mask::Causal => (0, 0),
        // One chunk: the device looks ahead for the first two codes only.
        Mask::Strict => (2, i32::MAX),
        Mask::Window(n) => (1, n.min(i32::MAX as usize) as i32),
        Mask::Chunk(n) => (2, n.clamp(1, i32::MAX as usize) as i32),
        Mask::Full => (3, 0),
    }
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Stores rows of `x` into a part of the pages of layer `kv`.
    pub(super) fn store_part(&self, b: &Batch, x: Slot, kv: usize, part: StoredPart) -> Result<()> {
        let (buffer, pages) = self.pages(kv)?;
        let args = StoreArgs {
            group: pages.group as i32,
            heads: pages.heads as i32,
            dim: part.width,
            code: part.code,
            page_bytes: pages.page_bytes as i32,
            head_bytes: pages.head_bytes as i32,
            row_bytes: part.row_bytes,
            at: part.at,
        };
        let chunks = pages.heads * (part.width as usize).div_ceil(32);
        let bound = [self.step(), self.read_slot(x), Bound::write(buffer, 0)];
        self.launch("store", [chunks.div_ceil(STORED), bucket(b.rows()), 1], &bound, &args)
    }

    /// How tensor cores attend to the pages of layer `kv`, if they do: `known` says it of pages of its kind.
    pub(super) fn tensor_pages(&self, kv: usize, known: KnownPages) -> Result<Option<&'static TensorPages>> {
        let (_, pages) = self.pages(kv)?;
        let units = self.device.products();
        Ok(known(&pages).filter(|tensor| tensor.runs_on(units)))
    }

    /// Launches attention over the rows of `run` with what `args` says beside the layout of the layer's pages.
    pub(super) fn attend(&self, run: AttendRun<'_, D::Buffer>, args: AttendArgs) -> Result<()> {
        let (buffer, pages) = self.pages(run.kv)?;
        let share = args.heads as usize / pages.heads;
        let tiles = share.div_ceil(if run.tensor.is_some() { TILE } else { HEADS });
        let mut args = AttendArgs {
            rows: run.rows as i32,
            group: pages.group as i32,
            share: share as i32,
            tiles: tiles as i32,
            page_bytes: pages.page_bytes as i32,
            head_bytes: pages.head_bytes as i32,
            key: pages.key,
            rope: pages.rope,
            value: pages.value,
            ..args
        };
        let blocks = pages.heads * tiles;
        let stored = Bound::read(buffer, 0);
        let constants = Bound::read(&self.constants.buffer, 0);
        let parts = || Bound::write(&self.scratch, run.parts);
        let on_tensor_cores = |tensor: &TensorPages| {
            let turned = tensor.latent.then_some(run.q_rope);
            let behind = [stored, constants, run.sinks, parts(), run.out];
            [self.step(), run.q].into_iter().chain(turned).chain(behind).collect::<Vec<_>>()
        };
        if !run.side {
            let grid = [blocks, 1, run.rows];
            if let Some(tensor) = run.tensor {
                let kernel = tensor.in_turn(args.value.width as usize);
                return self.launch(kernel, grid, &on_tensor_cores(tensor), &args);
            }
            let bound = [self.step(), run.q, run.q_rope, stored, constants, run.sinks, run.out];
            return self.launch("attend", grid, &bound, &args);
        }
        let space = UnitSpace::new(args.heads as usize, args.value.width as usize, run.cells, self.chunk);
        let stride = (SIDE_BLOCKS / (blocks * run.rows).max(1)).clamp(1, space.units);
        [args.units, args.stride] = [space.units as i32, stride as i32];
        let sums = Bound::write(&self.scratch, run.parts + space.sums);
        let bound = [self.step(), run.q, run.q_rope, stored, constants, parts()];
        let join = [self.step(), run.sinks, parts(), sums, run.out];
        for pass in 0..space.passes {
            [args.pass, args.last] = [pass as i32, i32::from(pass + 1 == space.passes)];
            let grid = [blocks, stride, run.rows];
            match run.tensor {
                Some(tensor) => self.launch(tensor.one, grid, &on_tensor_cores(tensor), &args)?,
                None => self.launch("attend_units", grid, &bound, &args)?,
            }
            self.launch("attend_join", [args.heads as usize, 1, run.rows], &join, &args)?;
        }
        Ok(())
    }
}

impl<D: GpuDevice> Enqueue<Store> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Store) -> Result<()> {
        let (_, pages) = self.pages(o.kv)?;
        self.store_part(b, o.k, o.kv, pages.key)?;
        self.store_part(b, o.v, o.kv, pages.value)
    }
}

impl<D: GpuDevice> Enqueue<Attention> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Attention) -> Result<()> {
        let slopes = match (o.alibi, self.constants.slopes(o)) {
            (Some(_), None) => {
                return Err(unsupported::<D>("position biases that the plan does not have".into()));
            }
            (_, place) => place.map_or(-1, |at| at as i32),
        };
        let (sinks, has_sinks) = self.optional(o.sinks);
        let (mask, span) = mask_code(o.mask);
        let width = self.width(o.q) as i32;
        let q = QueryPart { from: 0, row: width, head: width / o.heads as i32, at: 0 };
        let args = AttendArgs {
            heads: o.heads as i32,
            q,
            q_rope: q,
            out_row: self.width(o.out) as i32,
            mask,
            span,
            has_sinks,
            slopes,
            scale: o.scale,
            softcap: o.softcap.unwrap_or(0.0),
            slope_factor: o.alibi_factor,
            ..AttendArgs::default()
        };
        let run = AttendRun {
            kv: o.kv,
            q: self.read_slot(o.q),
            q_rope: self.read_slot(o.q),
            sinks,
            out: self.write_slot(o.out),
            rows: bucket(b.rows()),
            side: self.side_by_side(b),
            parts: 0,
            cells: self.most_cells(o.kv, o.mask),
            tensor: self.tensor_pages(o.kv, TensorPages::of)?,
        };
        self.attend(run, args)
    }
}
