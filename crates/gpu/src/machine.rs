//! The machine: one arena for all slots, weights, pages and states, and launches over them.

use crate::{
    constants::{Constants, constant_bytes},
    device::{Bound, GpuDevice, Launch},
    graphs::{Graphs, bucket},
    half_rows::HalfRows,
    kv::{LayerCache, PagePlan, layer_size},
    scratch::{SIDE_ROWS, chunk_bytes, most_cells, scratch_of},
    staging::StagingSlots,
    step::{StepWords, kind_code},
    weight::GpuWeight,
};
use bytemuck::Pod;
use lamina_plan::{
    BackendError, Batch, Footprint, KvLayout, Limits, Plan, RowKind, Slot, SlotSpec, View, WeightId,
    backend::Result, op::Mask,
};

/// An operator as launches. The modules of `ops` have one implementation each.
pub(crate) trait Enqueue<O> {
    fn enqueue(&mut self, b: &Batch, o: &O) -> Result<()>;
}

/// Bytes of the step table at first; it grows to what steps need.
const STEP_BYTES: usize = 64 << 10;

/// A plan's machine on a GPU.
pub struct GpuMachine<D: GpuDevice> {
    pub(crate) device: D,
    pub(crate) slots: Vec<SlotSpec>,
    pub(crate) limits: Limits,
    pub(crate) weights: Vec<GpuWeight<D>>,
    pub(crate) layers: Vec<LayerCache<D::Buffer>>,
    pub(crate) constants: Constants<D::Buffer>,
    pub(crate) scratch: D::Buffer,
    pub(crate) scratch_bytes: usize,
    /// Inputs of products on tensor cores.
    pub(crate) halves: Option<HalfRows<D::Buffer>>,
    /// Most bytes of intermediate rows.
    pub(crate) chunk: usize,
    pub(crate) graphs: Graphs<D::Graph>,
    /// What the layers store.
    kv: KvLayout,
    /// Cells of a sequence that attention side by side reaches in every layer.
    side_cells: usize,
    /// All slots.
    arena: D::Buffer,
    /// First byte of each slot in the arena.
    offsets: Vec<usize>,
    words: StepWords,
    table: D::Buffer,
    table_bytes: usize,
    /// Where weights lie that are sent.
    pub(crate) staging: Option<StagingSlots<D>>,
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Memory for `plan`, all of it.
    pub(crate) fn new(device: D, plan: &Plan, weights: Vec<GpuWeight<D>>, limits: &Limits) -> Result<Self> {
        let arena = plan.arena(limits);
        let word = size_of::<f32>();
        let chunk = chunk_bytes(device.info().total);
        let (scratch, side_cells) = scratch_of(plan, limits, chunk);
        let layer = |l| -> Result<LayerCache<D::Buffer>> {
            let (pages, piece, count) = layer_size(l, limits);
            let buffer = device.alloc((piece * count).max(16), "the cache of a layer")?;
            if pages.is_none() {
                device.clear(&buffer, 0, piece * count)?;
            }
            Ok(LayerCache { buffer, pages, piece })
        };
        Ok(GpuMachine {
            layers: plan.kv.layers.iter().map(layer).collect::<Result<_>>()?,
            constants: Constants::new(&device, plan)?,
            scratch: device.alloc(scratch.max(16), "scratch memory")?,
            scratch_bytes: scratch,
            halves: HalfRows::new(&device, plan, &weights, limits, chunk)?,
            arena: device.alloc((arena.len * word).max(16), "activations")?,
            table: device.alloc(STEP_BYTES, "the step table")?,
            offsets: arena.offsets.iter().map(|at| at * word).collect(),
            slots: plan.slots.clone(),
            limits: limits.clone(),
            kv: plan.kv.clone(),
            side_cells,
            chunk,
            graphs: Graphs::new(),
            words: StepWords::default(),
            table_bytes: STEP_BYTES,
            staging: None,
            device,
            weights,
        })
    }

    /// What [`GpuMachine::new`] would take, to the byte.
    pub(crate) fn footprint(device: &D, plan: &Plan, limits: &Limits) -> Footprint {
        let (scratch, _) = scratch_of(plan, limits, chunk_bytes(device.info().total));
        let bytes = |pages: bool| {
            let sizes = plan.kv.layers.iter().map(|l| layer_size(l, limits));
            sizes.filter(|s| s.0.is_some() == pages).map(|(_, piece, count)| (piece * count).max(16)).sum()
        };
        Footprint {
            arena: (plan.arena(limits).len * size_of::<f32>()).max(16),
            activations: 0,
            scratch: scratch.max(16),
            tables: constant_bytes(plan) + STEP_BYTES,
            cache: bytes(true),
            states: bytes(false),
        }
    }

    /// Sends what the operators need of `b`.
    pub(crate) fn send(&mut self, b: &Batch) -> Result<()> {
        let words = self.words.of(b, self.kv.groups.len());
        let bytes: &[u8] = bytemuck::cast_slice(words);
        if bytes.len() > self.table_bytes {
            // Recordings name the old table.
            self.graphs.clear();
            self.table_bytes = bytes.len().next_power_of_two();
            self.table = self.device.alloc(self.table_bytes, "the step table")?;
        }
        self.device.upload(&self.table, 0, bytes)
    }

    /// Launches a kernel over a grid, which may be empty.
    pub(crate) fn launch<A: Pod>(
        &self,
        kernel: &str,
        grid: [usize; 3],
        bound: &[Bound<'_, D::Buffer>],
        args: &A,
    ) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        let grid = grid.map(|n| n as u32);
        self.device.launch(&Launch { kernel, grid, bound, args: bytemuck::bytes_of(args) })
    }

    /// The step table.
    pub(crate) fn step(&self) -> Bound<'_, D::Buffer> {
        Bound::read(&self.table, 0)
    }

    /// Rows of a slot, for reading.
    pub(crate) fn read_slot(&self, slot: Slot) -> Bound<'_, D::Buffer> {
        Bound::read(&self.arena, self.offset(slot))
    }

    /// Rows of a slot, for writing.
    pub(crate) fn write_slot(&self, slot: Slot) -> Bound<'_, D::Buffer> {
        Bound::write(&self.arena, self.offset(slot))
    }

    /// The arena, and the first byte of a slot in it.
    pub(crate) fn place(&self, slot: Slot) -> (&D::Buffer, usize) {
        (&self.arena, self.offset(slot))
    }

    fn offset(&self, slot: Slot) -> usize {
        self.offsets[slot.0 as usize]
    }

    pub(crate) fn weight(&self, w: WeightId) -> &GpuWeight<D> {
        &self.weights[w.0 as usize]
    }

    /// A weight that may be missing, and whether it is there. Kernels get some buffer in its place, and do not read it.
    pub(crate) fn optional(&self, w: Option<WeightId>) -> (Bound<'_, D::Buffer>, i32) {
        match w {
            Some(w) => (Bound::read(&*self.weight(w).buffer, 0), 1),
            None => (Bound::read(&self.constants.buffer, 0), 0),
        }
    }

    pub(crate) fn kind(&self, slot: Slot) -> RowKind {
        self.slots[slot.0 as usize].rows
    }

    /// Code of the kind of a slot's rows.
    pub(crate) fn code(&self, slot: Slot) -> i32 {
        kind_code(self.kind(slot))
    }

    pub(crate) fn width(&self, slot: Slot) -> usize {
        self.slots[slot.0 as usize].width
    }

    /// Rows that a grid over `slot` is made for.
    pub(crate) fn rows(&self, b: &Batch, slot: Slot) -> usize {
        bucket(b.count(self.kind(slot)))
    }

    /// True for steps whose units of attention run side by side: of few rows, and short enough for the scratch memory.
    pub(crate) fn side_by_side(&self, b: &Batch) -> bool {
        let fits = |view: &View| match view {
            View::InOrder => true,
            View::Mapped(map) => map.len() <= self.side_cells,
        };
        bucket(b.rows()) <= SIDE_ROWS && b.seqs.iter().all(|s| fits(&s.view))
    }

    /// Cells that a row of layer `kv` sees at most.
    pub(crate) fn most_cells(&self, kv: usize, mask: Mask) -> usize {
        most_cells(&self.kv, &self.limits, kv, mask)
    }

    /// Pages of a layer.
    pub(crate) fn pages(&self, kv: usize) -> Result<(&D::Buffer, PagePlan)> {
        let layer = &self.layers[kv];
        let pages =
            layer.pages.ok_or_else(|| unsupported::<D>(format!("attention in layer {kv} without pages")))?;
        Ok((&layer.buffer, pages))
    }
}

/// What the backend does not run.
pub(crate) fn unsupported<D: GpuDevice>(what: String) -> BackendError {
    BackendError::Unsupported { backend: D::NAME, what }
}
